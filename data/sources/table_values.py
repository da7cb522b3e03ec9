"""The values of a table's columns: texts, numbers and times, as the cluster file says they are written."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.cluster import Cluster
from runcast.data.columns import LARGEST_NUMBER
from runcast.data.errors import SourceError
from runcast.data.sources.durations import time_limit
from runcast.data.sources.numbers import Numbers, read_numbers
from runcast.data.sources.table_options import (
    CLOCK_UNITS,
    COUNT_UNITS,
    COUNTS,
    DURATIONS,
    MEMORY_SUFFIX,
    RESTARTS,
    STARTS,
    UNITS,
    Column,
    Factor,
    Options,
    SecondsFrom,
    TimeFormat,
    Words,
    Written,
)
from runcast.data.sources.times import MISSING_WORDS, Times, epoch_times, parse_times, written_times

_AWARE_TEXT = r"\d{2}:\d{2}.*(?:Z|[+-]\d{2}(?::?\d{2})?|UTC)\s*$"
_EPOCH_FACTORS = {"epoch_s": 1.0, "epoch_ms": 1e-3, "epoch_us": 1e-6}
_CLOCK = r"^(?:(?P<days>\d{1,6})(?:-| days?,? +))?(?P<hours>\d{1,9}):(?P<minutes>[0-5]?\d)"
_CLOCKS = {"hh:mm:ss": _CLOCK + r":(?P<seconds>[0-5]?\d(?:\.\d{1,9})?)$", "hh:mm": _CLOCK + "$"}
_CLOCK_PARTS = {"days": 86_400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0}
_SUFFIXED = r"^(?P<amount>\d{1,20}(?:\.\d{0,9})?) *(?:(?P<letter>[kKmMgGtTpP])i?[bB]?|[bB])$"
_MIB = {"": 2.0**-20, "K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30}  # as Slurm, PBS and LSF write them
_EXACT = 2.0**53  # whole numbers beyond it are no longer exact in a float


class Values(NamedTuple):
    """One column of a table: its values as the file types them, what is said of them, and where both stand, for messages."""

    name: str  # canonical
    values: pa.Array
    column: Column
    options: Options
    path: Path

    def of_words(self, words: Words, columns: Mapping[str, pa.Array]) -> "Values":
        """Return another column of the file in place of this one."""
        return _values(self.name, Column.model_validate(words.model_dump()), columns, self.options, self.path)

    def refused(self, expected: str) -> SourceError:
        return SourceError(
            f"{self.path}: column {self.column.column!r} ({self.name}) is of the type {self.values.type}; expected {expected}. "
            "Convert it when the file is written, or leave the column out."
        )


def column_values(name: str, columns: Mapping[str, pa.Array], options: Options, path: Path) -> Values:
    """Return a canonical column's values in a type that can be worked on; raises SourceError for one that holds no plain value."""
    return _values(name, options.columns[name], columns, options, path)


def _values(name: str, column: Column, columns: Mapping[str, pa.Array], options: Options, path: Path) -> Values:
    values = columns[column.column]
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = values.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        values = pa.array([None if v is None else v.decode("utf-8", "replace") for v in values.to_pylist()], pa.string())
    elif pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        values = values.cast(pa.string())
    elif pa.types.is_nested(kind):
        raise Values(name, values, column, options, path).refused("one value in each row")
    return Values(name, values, column, options, path)


def texts(said: Values) -> pa.Array:
    """Return a text column, null where a word for "none" stands; numbers become their shortest text."""
    return _text(said)[0]


def state_words(columns: Mapping[str, pa.Array], options: Options, path: Path) -> pa.Array:
    """Return the words for how the jobs ended, the more exact one where the cluster file names a column for it."""
    said = column_values("state", columns, options, path)
    words = texts(said)
    for word, detail in said.column.detail.items():
        more = texts(said.of_words(detail, columns))
        words = pc.if_else(pc.and_(pc.fill_null(pc.equal(words, word), False), pc.is_valid(more)), more, words)
    return words


def _text(said: Values) -> tuple[pa.Array, np.ndarray]:
    """Return the text that pattern, values and null words leave, and where the pattern does not fit what is there."""
    written = pc.utf8_trim_whitespace(_as_text(said))
    column = said.column
    text = pc.struct_field(pc.extract_regex(written, column.pattern), "value") if column.pattern else written
    encoded = text.dictionary_encode()
    words = encoded.dictionary
    nulls = _null_words(said)
    kept = pc.if_else(pc.is_in(pc.utf8_lower(words), value_set=nulls), pa.scalar(None, pa.string()), words)
    if column.values:
        new = [column.values.get(old, left) for old, left in zip(words.to_pylist(), kept.to_pylist(), strict=True)]
        kept = pa.array([word or None for word in new], pa.string())
    if column.pattern is None:
        return kept.take(encoded.indices), np.zeros(len(text), bool)
    is_there = pc.and_(pc.is_valid(written), pc.invert(pc.is_in(pc.utf8_lower(written), value_set=nulls)))
    unmatched: np.ndarray = pc.and_(is_there, pc.is_null(text)).to_numpy(zero_copy_only=False)
    return kept.take(encoded.indices), unmatched


def _as_text(said: Values) -> pa.Array:
    values = said.values
    if pa.types.is_duration(values.type):
        raise said.refused("text or numbers")
    if pa.types.is_floating(values.type):
        whole = pc.and_(pc.equal(values, pc.floor(values)), pc.less(pc.abs(values), _EXACT))
        if pc.all(whole).as_py():
            values = values.cast(pa.int64())  # ids of a nullable whole-number column
    try:
        return values.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise said.refused("text or numbers") from None


def _null_words(said: Values) -> pa.Array:
    """Return the words for "none" of a column in lower case. A job may be called None: of job names only the empty one is none."""
    words = said.column.null_words if said.column.null_words is not None else said.options.null_words
    if words is None:
        words = ("",) if said.name == "job_name" else MISSING_WORDS
    return _lowered(tuple(words))


@lru_cache(maxsize=64)
def _lowered(words: Sequence[str]) -> pa.Array:
    return pa.array(sorted({"", *(word.strip().lower() for word in words)}), pa.string())


def _rewritten(said: Values) -> tuple[pa.Array, np.ndarray]:
    """Return what is to be read of numbers or times, and where a pattern does not fit; typed values stay where nothing is said."""
    if not said.column.is_rewritten and said.options.null_words is None:
        return said.values, np.zeros(len(said.values), bool)
    if pa.types.is_temporal(said.values.type):
        if said.column.is_rewritten:
            raise said.refused("text, since the cluster file gives pattern, values or null_words for it")
        return said.values, np.zeros(len(said.values), bool)
    return _text(said)


def numbers(name: str, columns: Mapping[str, pa.Array], options: Options, path: Path) -> tuple[Numbers, np.ndarray]:
    """Return a number column in its canonical unit, and the kind of limit that a word says: unlimited, partition, else "".

    What cannot be counts or limits (negative, a limit of 0) is null; durations keep their sign.
    """
    said = column_values(name, columns, options, path)
    column = said.column
    result, limit_words = _plain_numbers(said)
    result = result.within(LARGEST_NUMBER)
    if isinstance(column.times, Factor):
        share = _plain_numbers(_values(name, Column(column=column.times.column), columns, options, path))[0]
        whole = round(1 / COUNT_UNITS[column.times.unit])  # dividing by it is exact where multiplying by its inverse is not
        result = result.only(share.known | (result.values == 0)).scaled(share.values / whole).within(LARGEST_NUMBER)
    elif column.times:
        each, _ = numbers(column.times, columns, options, path)
        result = result.only(each.known).scaled(each.values).within(LARGEST_NUMBER)
    if column.zero_is_null or name == "time_limit_s":
        return result.only(result.values > 0), limit_words
    if name in (RESTARTS, STARTS):
        whole = (result.values >= 0) & (result.values < 1e6) & (result.values == np.floor(result.values))
        return result.only(whole)._replace(unreadable=result.unreadable | (result.known & ~whole)), limit_words
    return (result.only(result.values >= 0) if name in COUNTS and name != "priority" else result), limit_words


def _plain_numbers(said: Values) -> tuple[Numbers, np.ndarray]:
    values, unmatched = _rewritten(said)
    unit = said.column.unit
    is_duration = said.name in DURATIONS or said.name == "time_limit_s"
    if pa.types.is_duration(values.type):
        if not is_duration or unit not in (None, "seconds"):
            raise said.refused("numbers" if not is_duration else f"numbers of {unit}; this type is read as seconds by itself")
        return _durations(values), _no_words(values)
    if unit in CLOCK_UNITS:
        result = _clock_times(_as_text(said._replace(values=values)), unit)
    elif unit == MEMORY_SUFFIX:
        result = _suffixed_mib(_as_text(said._replace(values=values)))
    else:
        try:
            result = read_numbers(values).scaled(UNITS[unit or "one"])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise said.refused("numbers" + (" of seconds, or durations" if is_duration else "")) from None
    result = result.only(~unmatched)._replace(unreadable=result.unreadable | unmatched)
    if said.name != "time_limit_s":
        return result, _no_words(values)
    return _without_limit_words(result, values)


def _durations(values: pa.Array) -> Numbers:
    ticks = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    seconds = ticks / {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[values.type.unit]
    known = pc.is_valid(values).to_numpy(zero_copy_only=False)
    return Numbers(seconds, known, np.zeros(len(values), bool))


def _suffixed_mib(text: pa.Array) -> Numbers:
    """Read amounts of memory that name their units, powers of 1024; a number without one is unreadable."""
    tidy = pc.utf8_trim_whitespace(text)
    missing = pc.fill_null(pc.is_in(pc.utf8_lower(tidy), value_set=_lowered(MISSING_WORDS)), True)
    missing = pc.or_(pc.is_null(tidy), missing).to_numpy(zero_copy_only=False)
    parts = pc.extract_regex(tidy, _SUFFIXED)
    known = pc.is_valid(parts).to_numpy(zero_copy_only=False)
    amounts = pc.fill_null(pc.struct_field(parts, "amount"), "0").cast(pa.float64()).to_numpy(zero_copy_only=False)
    letters = pc.utf8_upper(pc.fill_null(pc.struct_field(parts, "letter"), "")).dictionary_encode()
    factors = np.array([_MIB[letter] for letter in letters.dictionary.to_pylist()])
    return Numbers(np.where(known, amounts * factors[letters.indices.to_numpy()], 0.0), known, ~known & ~missing)


def _clock_times(text: pa.Array, unit: str) -> Numbers:
    """Read lengths of time as clocks show them; a number without a colon is none."""
    tidy = pc.utf8_trim_whitespace(text)
    missing = pc.or_(pc.is_null(tidy), pc.fill_null(pc.is_in(pc.utf8_lower(tidy), value_set=_lowered(MISSING_WORDS)), True))
    parts = pc.extract_regex(tidy, _CLOCKS[unit])
    known = pc.is_valid(parts).to_numpy(zero_copy_only=False)
    seconds = np.zeros(len(text))
    for name, factor in _CLOCK_PARTS.items():
        if parts.type.get_field_index(name) >= 0:
            part = pc.struct_field(parts, name)
            part = pc.if_else(pc.equal(part, ""), "0", part)
            seconds += factor * pc.fill_null(part, "0").cast(pa.float64()).to_numpy(zero_copy_only=False)
    return Numbers(np.where(known, seconds, 0.0), known, ~known & ~missing.to_numpy(zero_copy_only=False))


def _without_limit_words(limits: Numbers, values: pa.Array) -> tuple[Numbers, np.ndarray]:
    """Take Slurm's words about limits out of what is unreadable; also the kind that each says, "" for none."""
    words = _no_words(values)
    unread = limits.unreadable.copy()
    for at in map(int, np.flatnonzero(limits.unreadable)):
        word = values[at].as_py()
        limit = time_limit(word.strip()) if isinstance(word, str) and word.strip()[:1].isalpha() else None
        if limit is not None and limit.kind in ("unlimited", "partition", "absent"):
            unread[at], words[at] = False, "" if limit.kind == "absent" else limit.kind
    return limits._replace(unreadable=unread), words


def _no_words(values: pa.Array) -> np.ndarray:
    return np.full(len(values), "", dtype=object)


def times(name: str, columns: Mapping[str, pa.Array], options: Options, cluster: Cluster, path: Path) -> Times:
    """Return a column of times as its format says."""
    said = column_values(name, columns, options, path)
    values, unmatched = _rewritten(said)
    how = said.column.time or options.time
    try:
        result = _read_times(said._replace(values=values), how, cluster)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise said.refused(f"times as `time: {_words(how)}` says") from None
    return _with_unreadable(result, unmatched)


def _words(how: TimeFormat) -> str:
    return how if isinstance(how, str) else str(how.model_dump(mode="json"))


def _read_times(said: Values, how: TimeFormat, cluster: Cluster) -> Times:
    values, kind = said.values, said.values.type
    if pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_boolean(kind):
        raise said.refused("a date with a clock: text, timestamps or numbers")
    if isinstance(how, Written):
        return written_times(_as_text(said), how.format, cluster.time_zone)
    if isinstance(how, SecondsFrom):
        return _counted(_plain_numbers(said._replace(name="queue_s"))[0], how, cluster)
    if how in _EPOCH_FACTORS:
        counted = read_numbers(values)
        seconds = counted.scaled(_EPOCH_FACTORS[how]).to_arrow()
        return _with_unreadable(epoch_times(seconds, zero_is_missing=cluster.clock == "calendar"), counted.unreadable)
    if pa.types.is_duration(kind) or pa.types.is_decimal(kind):
        raise said.refused("text, timestamps or epoch seconds")
    if pa.types.is_timestamp(kind) and (kind.tz is None) != (how == "naive"):
        has = f"the zone {kind.tz}" if kind.tz else "no zone"
        raise SourceError(
            f"{said.path}: column {said.column.column!r} holds times with {has}, but the cluster file says `time: {how}`. "
            f"Say `time: {'aware' if kind.tz else 'naive'}` for it."
        )
    result = parse_times(values, cluster.time_zone)
    if how == "aware" and not pa.types.is_timestamp(kind):
        zoned = pc.fill_null(pc.match_substring_regex(values.cast(pa.string()), _AWARE_TEXT), False).to_numpy(
            zero_copy_only=False
        )
        return _with_unreadable(result, ~result.missing & ~zoned)
    return result


def _counted(counts: Numbers, how: SecondsFrom, cluster: Cluster) -> Times:
    anchor = how.seconds_from
    anchor = anchor if anchor.tzinfo else anchor.replace(tzinfo=cluster.zone)
    seconds = counts.values * UNITS[how.unit] + anchor.timestamp()
    result = epoch_times(pa.array(seconds, mask=~counts.known), zero_is_missing=False)
    return _with_unreadable(result, counts.unreadable)


def _with_unreadable(read: Times, unreadable: np.ndarray) -> Times:
    if not unreadable.any():
        return read
    none, mask = pa.scalar(None, read.utc.type), pa.array(unreadable)
    return Times(
        pc.if_else(mask, none, read.utc),
        pc.if_else(mask, none, read.second),
        read.missing & ~unreadable,
        read.unreadable | unreadable,
        read.ambiguous & ~unreadable,
        read.nonexistent & ~unreadable,
    )
