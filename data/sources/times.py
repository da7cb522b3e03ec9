"""Times as logs write them: naive local text, text with an offset, epoch seconds, typed columns, and the many words for none.

Everything here works on whole columns and never raises for a bad value: each function returns UTC timestamps with masks that
say what was missing, unreadable, or touched by a change of the clock. Naive times are those of the log's zone. Of the two
instants that a repeated hour can mean the first is taken and marked, and the second is given beside it, so that a source that
knows the elapsed time can choose; an hour that was skipped is no time at all.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.errors import SourceError

UTC_US = pa.timestamp("us", tz="UTC")
_NAIVE_US = pa.timestamp("us")

#: Words for "no time", compared without case and surrounding blanks; a time of 1970-01-01 (or before) is one too.
MISSING_WORDS = (
    "", "none", "unknown", "n/a", "na", "null", "nan", "nat", "none assigned", "-",
    "n.a.", "nil", "(null)", "<null>", "<na>", "#n/a", "\\n",
)  # fmt: skip
_MISSING_SPELLINGS = pa.array(
    sorted({s for w in MISSING_WORDS for s in (w, w.upper(), w.capitalize(), w.title())} | {"NaN", "NaT"})
)

_DATE_AND_CLOCK = r"^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?"
_NAIVE = _DATE_AND_CLOCK + "$"
_AWARE = _DATE_AND_CLOCK.removesuffix("?") + r"(?:Z|[+-]\d{2}(?::?\d{2})?)$"
_EPOCH = r"^\d{9,11}(?:\.\d+)?$"  # 1973 to the year 5138: shorter numbers are no epoch seconds of any job
_DAY_US = 86_400_000_000
_LATEST_US = 253_402_300_800_000_000  # the year 10000


@dataclass(frozen=True)
class Times:
    """One parsed column: `utc` is null where a value is missing, unreadable or nonexistent; the masks are bool arrays.

    `second` holds, where `ambiguous`, the later of the two instants that the clock showed; elsewhere it equals `utc`.
    """

    utc: pa.Array
    second: pa.Array
    missing: np.ndarray
    unreadable: np.ndarray
    ambiguous: np.ndarray
    nonexistent: np.ndarray


def parse_times(values: pa.Array | pa.ChunkedArray, time_zone: str) -> Times:
    """Read a column of times, text or typed; naive ones are local to `time_zone`, numbers are epoch seconds.

    Text is ISO 8601 (blank or T between date and clock), with or without a UTC offset, or epoch seconds. Anything else is
    `unreadable`, not an error. Raises SourceError for a column type that cannot hold times (lists, booleans).
    """
    column = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_null(kind):
        return _typed(pa.nulls(len(column), UTC_US))
    if pa.types.is_timestamp(kind):
        return _typed(_to_microseconds(column)) if kind.tz else localise(_to_microseconds(column), time_zone)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return epoch_times(column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text(column.cast(pa.string()), time_zone)
    raise SourceError(f"a column of type {kind} cannot hold times; expected text, timestamps or epoch seconds")


def epoch_times(seconds: pa.Array | pa.ChunkedArray, *, zero_is_missing: bool = True) -> Times:
    """Read numbers as seconds since 1970, fractions allowed; with `zero_is_missing`, 0 and less stand for "no time".

    For a trace whose clock begins at its own zero, pass `zero_is_missing=False`.
    """
    column = seconds.combine_chunks() if isinstance(seconds, pa.ChunkedArray) else seconds
    numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    missing = np.isnan(numbers) | ((numbers <= 0) if zero_is_missing else False)
    readable = ~missing & (np.abs(numbers) < _LATEST_US / 1e6)
    micros = np.round(np.where(readable, numbers, 0.0) * 1e6).astype(np.int64)
    utc = pa.array(micros, mask=~readable).cast(UTC_US)
    return replace(_typed(utc), missing=missing, unreadable=~missing & ~readable)


def written_times(text: pa.Array, form: str, time_zone: str) -> Times:
    """Read text by a form of strptime's directives; with %z its offsets count, else it is local to `time_zone`."""
    tidy = pc.utf8_trim_whitespace(text)
    tidy = pc.if_else(pc.is_in(pc.utf8_lower(tidy), value_set=pa.array(MISSING_WORDS)), pa.scalar(None, pa.string()), tidy)
    is_aware = "%z" in form
    try:
        moments = pd.to_datetime(pd.Series(tidy.to_pandas(), dtype="object"), format=form, errors="coerce", utc=is_aware)
    except ValueError as error:  # offsets that no clock has
        raise SourceError(f"times cannot be read by the form {form!r} ({error})") from error
    naive = pa.array((moments.dt.tz_localize(None) if is_aware else moments).to_numpy(), from_pandas=True).cast(_NAIVE_US)
    times = _typed(naive.cast(pa.timestamp("us")).cast(UTC_US)) if is_aware else localise(naive, time_zone)
    missing = _mask(pc.is_null(tidy))
    unreadable = ~missing & ~times.nonexistent & _mask(pc.is_null(times.utc))
    return _without_1970(replace(times, missing=missing, unreadable=unreadable))


def localise(naive: pa.Array, time_zone: str) -> Times:
    """Read naive timestamps as the local clock of `time_zone`: first instant of a repeated hour, none of a skipped one."""
    if time_zone == "UTC":
        return _typed(pc.assume_timezone(naive, "UTC"))
    first = pc.assume_timezone(naive, time_zone, ambiguous="earliest", nonexistent="earliest")
    second = pc.assume_timezone(naive, time_zone, ambiguous="latest", nonexistent="earliest")
    shown = pc.local_timestamp(first)
    nonexistent = _mask(pc.not_equal(shown, naive))
    ambiguous = _mask(pc.not_equal(first, second)) & ~nonexistent
    none = pa.scalar(None, UTC_US)
    utc = pc.if_else(pa.array(nonexistent), none, first.cast(UTC_US))
    later = pc.if_else(pa.array(nonexistent), none, second.cast(UTC_US))
    times = _typed(utc)
    return replace(times, second=later, missing=times.missing & ~nonexistent, ambiguous=ambiguous, nonexistent=nonexistent)


def microseconds(times: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return a timestamp column as int64 microseconds since 1970 (0 where null) and the mask of its values."""
    known = pc.is_valid(times).to_numpy(zero_copy_only=False)
    return pc.fill_null(times.cast(pa.int64()), 0).to_numpy(zero_copy_only=False), known


def _text(column: pa.Array, time_zone: str) -> Times:
    """Parse clean columns in one cast, and others by kind; the cast also reads what was cut off, as `2024-03-01 10` for 10:00."""
    column = pc.if_else(pc.is_in(column, value_set=_MISSING_SPELLINGS), pa.scalar(None, pa.string()), column)
    try:
        is_clean = pc.all(pc.match_substring_regex(column, _NAIVE), min_count=0).as_py()
        parsed = localise(column.cast(_NAIVE_US), time_zone) if is_clean else _text_of_kinds(column, time_zone)
    except pa.ArrowInvalid:
        parsed = _text_of_kinds(column, time_zone)
    return _without_1970(parsed)


def _text_of_kinds(column: pa.Array, time_zone: str) -> Times:
    tidy = pc.utf8_trim_whitespace(column)
    tidy = pc.if_else(pc.is_in(pc.utf8_lower(tidy), value_set=pa.array(MISSING_WORDS)), pa.scalar(None, pa.string()), tidy)
    tidy = pc.replace_substring_regex(tidy, r"^(.{19})[.,](\d{1,6})\d*", r"\1.\2")  # whole microseconds
    tidy = pc.replace_substring_regex(tidy, r"^(.{15,}\S) +(Z|[+-]\d{2}(?::?\d{2})?)$", r"\1\2")
    tidy = pc.replace_substring_regex(tidy, r" ?UTC$", "Z")
    naive = pc.fill_null(pc.match_substring_regex(tidy, _NAIVE), False)
    aware = pc.fill_null(pc.match_substring_regex(tidy, _AWARE), False)
    epoch = pc.fill_null(pc.match_substring_regex(tidy, _EPOCH), False)
    none = pa.scalar(None, pa.string())
    local = localise(_cast_or_null(pc.if_else(naive, tidy, none), _NAIVE_US), time_zone)
    fixed = _cast_or_null(pc.if_else(aware, tidy, none), UTC_US)
    counted = epoch_times(pc.if_else(epoch, tidy, none).cast(pa.float64()))
    other = pc.coalesce(fixed, counted.utc)
    utc = pc.coalesce(local.utc, other)
    missing = _mask(pc.is_null(tidy))
    unreadable = ~missing & ~local.nonexistent & _mask(pc.is_null(utc))
    return Times(utc, pc.coalesce(local.second, other), missing, unreadable, local.ambiguous, local.nonexistent)


def _cast_or_null(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast text of the right shape; a shape without a meaning (month 13) becomes null."""
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        parsed = pd.to_datetime(text.to_pandas(), format="ISO8601", errors="coerce", utc=kind.tz is not None)
        naive = pa.array(parsed.dt.tz_localize(None).to_numpy(), from_pandas=True).cast(_NAIVE_US)
        return pc.assume_timezone(naive, "UTC") if kind.tz else naive


def _without_1970(times: Times) -> Times:
    micros, known = microseconds(times.utc)
    early = known & (micros < _DAY_US)
    if not early.any():
        return times
    none, mask = pa.scalar(None, UTC_US), pa.array(early)
    return replace(
        times,
        utc=pc.if_else(mask, none, times.utc),
        second=pc.if_else(mask, none, times.second),
        missing=times.missing | early,
        ambiguous=times.ambiguous & ~early,
    )


def _typed(utc: pa.Array) -> Times:
    utc = utc.cast(UTC_US)
    no = np.zeros(len(utc), dtype=bool)
    return Times(utc, utc, _mask(pc.is_null(utc)), no, no, no)


def _to_microseconds(column: pa.Array) -> pa.Array:
    return column.cast(pa.timestamp("us", tz=column.type.tz), safe=False)  # finer clocks are cut to microseconds


def _mask(values: pa.Array) -> np.ndarray:
    mask: np.ndarray = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return mask
