"""Numbers as logs write them: whole columns of text or typed values, nulls by many words, nothing raised for a bad value."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.sources.times import MISSING_WORDS

_WORDS = pa.array(sorted(MISSING_WORDS))
_NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"


class Numbers(NamedTuple):
    """`values` is float64 with 0 where not `known`; `unreadable` marks what is there but is no finite number."""

    values: np.ndarray
    known: np.ndarray
    unreadable: np.ndarray

    def scaled(self, factor: float | np.ndarray) -> "Numbers":
        """Multiply by finite factors; what is beyond any float then is unreadable."""
        with np.errstate(over="ignore"):
            values = self.values * factor
        finite = np.isfinite(values)
        return Numbers(np.where(finite, values, 0.0), self.known & finite, self.unreadable | (self.known & ~finite))

    def within(self, largest: float) -> "Numbers":
        """Mark as unreadable what lies beyond `largest`, either way."""
        beyond = self.known & (np.abs(self.values) > largest)
        return Numbers(np.where(beyond, 0.0, self.values), self.known & ~beyond, self.unreadable | beyond)

    def only(self, mask: np.ndarray) -> "Numbers":
        """Forget the values outside `mask`."""
        return self._replace(values=np.where(mask, self.values, 0.0), known=self.known & mask)

    def to_arrow(self) -> pa.Array:
        return pa.array(self.values, pa.float64(), mask=~self.known)


def read_numbers(values: pa.Array | pa.ChunkedArray) -> Numbers:
    """Read a column of numbers, text or typed; words for "none" are null, other text and infinities are unreadable."""
    column = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column, unreadable = _of_text(column)
    else:
        unreadable = np.zeros(len(column), bool)
        column = column.cast(pa.float64())
    numbers = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
    known = pc.is_valid(column).to_numpy(zero_copy_only=False)
    finite = np.isfinite(numbers)
    if pa.types.is_floating(values.type):
        known = known & ~np.isnan(numbers)  # a typed NaN is a missing value
    return Numbers(np.where(known & finite, numbers, 0.0), known & finite, unreadable | (known & ~finite))


def _of_text(column: pa.Array) -> tuple[pa.Array, np.ndarray]:
    try:
        numbers = column.cast(pa.float64())
        if pc.all(pc.is_finite(numbers), min_count=0).as_py():  # the cast takes words for infinity and for no number
            return numbers, np.zeros(len(column), bool)
    except pa.ArrowInvalid:
        pass
    tidy = pc.utf8_trim_whitespace(column)
    tidy = pc.if_else(pc.is_in(pc.utf8_lower(tidy), value_set=_WORDS), pa.scalar(None, tidy.type), tidy)
    readable = pc.match_substring_regex(tidy, _NUMBER)
    numbers = pc.if_else(readable, pc.replace_substring_regex(tidy, r"^\+", ""), pa.scalar(None, tidy.type)).cast(pa.float64())
    unreadable = pc.fill_null(pc.invert(readable), False).to_numpy(zero_copy_only=False)
    return numbers, unreadable
