"""Any table of jobs (CSV and the like, Parquet, JSON lines) through a map of columns in the cluster file: no code.

    options:
      columns:
        job_id: JobID
        submit_time: {column: SubmitTime, time: epoch_s}
        queue_s: WaitTime
        runtime_s: RunTime
        time_limit_s: {column: Timelimit, unit: minutes}
        state: State

A log must say when a job was submitted, and enough to know when it ran: start_time, or queue_s, or that it began when it was
submitted (`start_is_submit`, marked on each row); and end_time or runtime_s. Rows without an id get one from their content and,
among equal rows of a file, their number, so that the same row read from two overlapping files is one job.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from runcast.data.cluster import Cluster
from runcast.data.errors import Quoted, SourceError
from runcast.data.sources.batch import Batch, Reject
from runcast.data.sources.blocks import read_blocks, text_of
from runcast.data.sources.delimited import read_delimited
from runcast.data.sources.numbers import Numbers, read_numbers
from runcast.data.sources.record import Instants, counted, in_order, jobs_table, out_of_range, refuse, sources, spans_us
from runcast.data.sources.times import MISSING_WORDS, Times, epoch_times, microseconds, parse_times
from runcast.data.states import OPEN_STATES, canonical_states

TEXTS = (
    "job_id", "user", "group", "account", "queue", "qos", "job_name", "work_dir",
    "gpu_model", "task_role", "framework", "node_list",
)  # fmt: skip
COUNTS = ("gpu_count", "cpu_count", "mem_mib", "node_count", "time_limit_s", "priority")
DURATIONS = ("runtime_s", "queue_s")
TIMES = ("submit_time", "start_time", "end_time")
MAPPABLE = (*TEXTS, *COUNTS, *DURATIONS, *TIMES, "state")

#: Factor to the canonical unit: seconds, MiB, one.
UNITS: dict[str, float] = {
    "seconds": 1, "milliseconds": 1e-3, "microseconds": 1e-6, "minutes": 60, "hours": 3600, "days": 86400,
    "mib": 1, "gib": 1024, "kib": 1 / 1024, "bytes": 1 / 2**20, "mb": 1e6 / 2**20, "gb": 1e9 / 2**20,
    "one": 1, "percent": 1e-2, "thousandths": 1e-3,
}  # fmt: skip

_AWARE_TEXT = r"\d{2}:\d{2}.*(?:Z|[+-]\d{2}(?::?\d{2})?|UTC)\s*$"
_MISSING = pa.array(MISSING_WORDS)
_BATCH_ROWS = 65_536


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class SecondsFrom(_Part):
    """Times that count from an anchor; an anchor without a zone is the cluster's local time."""

    seconds_from: datetime
    unit: Literal["seconds", "milliseconds", "microseconds"] = "seconds"


TimeFormat = Literal["naive", "aware", "epoch_s", "epoch_ms", "epoch_us"] | SecondsFrom


class Column(_Part):
    """Where a canonical column comes from; only what is said is done."""

    column: str
    time: TimeFormat | None = None  # of a time; default: `time` of the options
    unit: str | None = None
    times: Literal["node_count", "cpu_count"] | None = None  # the value is for each of these
    zero_is_null: bool = False  # 0 says "not asked for", as of memory in many logs
    values: Mapping[str, str] = {}  # by the log's word; others stay
    pattern: str | None = None  # RE2 with a group named `value`: what of the text to take

    @field_validator("unit")
    @classmethod
    def _known_unit(cls, value: str | None) -> str | None:
        if value is not None and value not in UNITS:
            raise ValueError(f"unknown unit {value!r}; known are {', '.join(UNITS)}")
        return value

    @field_validator("pattern")
    @classmethod
    def _usable_pattern(cls, value: str | None) -> str | None:
        return _checked_pattern(value, ("value",))


class Options(_Part):
    """`source.options` of a table."""

    columns: Mapping[str, str | Column]
    kind: Literal["csv", "parquet", "jsonl"] | None = None  # default: by the file's name
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    comment: str | None = Field(default=None, min_length=1)
    header: tuple[str, ...] | None = None  # for files without a header line
    time: TimeFormat = "naive"
    start_is_submit: bool = False  # the log has no start: take the submission for it, and flag each row
    zero_runtime: Literal["ran", "cancelled_never_started"] = "ran"  # for logs without a start time
    runtime_begins: Literal["start", "submission"] = "start"  # submission: runtime_s holds the wait, which is taken off
    runtime_clamped_at_s: float | None = Field(default=None, gt=0)  # at it and above a runtime is a lower bound: censored
    array_pattern: str | None = None  # RE2 over job_id with groups `array` and, optional in the match, `task`
    repeated_ids: Literal["one_job", "array_tasks"] = "one_job"  # array_tasks: the log lost the task numbers; told apart by order
    constants: Mapping[str, str] = {}  # canonical text columns that are the same for every job

    @field_validator("columns", "constants")
    @classmethod
    def _known_columns(cls, value: Mapping[str, object]) -> Mapping[str, object]:
        unknown = sorted(set(value) - set(MAPPABLE))
        if unknown:
            raise ValueError(f"{', '.join(unknown)}: no such canonical column; known are {', '.join(MAPPABLE)}")
        return value

    @field_validator("array_pattern")
    @classmethod
    def _usable_array_pattern(cls, value: str | None) -> str | None:
        return _checked_pattern(value, ("array", "task"))

    @model_validator(mode="after")
    def _constants_are_texts(self) -> Self:
        wrong = sorted(set(self.constants) - {*TEXTS, "state"} | set(self.constants) & set(self.columns))
        if wrong:
            raise ValueError(f"constants: {', '.join(wrong)}: only text columns that `columns` does not name")
        return self

    @model_validator(mode="after")
    def _wait_is_known(self) -> Self:
        if self.runtime_begins == "submission" and not {"runtime_s", "queue_s"} <= self.columns.keys():
            raise ValueError("runtime_begins: submission needs runtime_s and queue_s among the columns")
        return self

    @cached_property
    def mapped(self) -> dict[str, Column]:
        return {name: Column(column=c) if isinstance(c, str) else c for name, c in self.columns.items()}


def _checked_pattern(value: str | None, groups: tuple[str, ...]) -> str | None:
    if value is None:
        return None
    try:
        found = pc.extract_regex(pa.array([""]), value).type
    except pa.ArrowInvalid as error:
        raise ValueError(f"{value!r} is no RE2 pattern with named groups: {error}") from error
    missing = [name for name in groups if found.get_field_index(name) < 0]
    if missing:
        raise ValueError(f"{value!r} names no group {', '.join(missing)}")
    return value


@dataclass(frozen=True)
class Rows:
    """Some records of a table: columns by the file's own names, 1-based line or record numbers, raw text on demand."""

    columns: Mapping[str, pa.Array]
    lines: np.ndarray
    raw: Callable[[int], str]
    rejects: tuple[Reject, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)


def read(path: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield the jobs of one table in the file's order."""
    return read_table(path, cluster, Options.model_validate(cluster.source.options))


def read_table(path: Path, cluster: Cluster, options: Options) -> Iterator[Batch]:
    """Yield the jobs of one table as `options` say; formats with fixed columns pass their own."""
    _check_enough(path, options)
    seen: Counter[str] = Counter()
    for rows in _rows(path, options):
        yield _batch(rows, path, cluster, options, seen)


def _check_enough(path: Path, options: Options) -> None:
    """Refuse a map from which no start, end or submission follows."""
    has = options.columns.keys()
    if "submit_time" not in has:
        raise SourceError(f"{path}: no submission time: source.options.columns names no submit_time, and none can be made up")
    if not has & {"end_time", "runtime_s"}:
        raise SourceError(f"{path}: neither end_time nor runtime_s is mapped, so no job has a runtime to learn from")
    if not (has & {"start_time", "queue_s"} or {"end_time", "runtime_s"} <= has or options.start_is_submit):
        raise SourceError(
            f"{path}: nothing says when a job started. Map start_time or queue_s, or set source.options.start_is_submit "
            "where the log's durations begin at submission or its waits are lost."
        )


def _rows(path: Path, options: Options) -> Iterator[Rows]:
    kind = options.kind or _kind(path)
    needed = {c.column for c in options.mapped.values()}
    if kind == "parquet":
        return _parquet_rows(path, needed)
    if kind == "jsonl":
        return _json_rows(path, needed)
    return _delimited_rows(path, options, needed)


def _kind(path: Path) -> Literal["csv", "parquet", "jsonl"]:
    names = [suffix.lower() for suffix in path.suffixes]
    if ".parquet" in names:
        return "parquet"
    return "jsonl" if {".jsonl", ".ndjson", ".json"} & set(names) else "csv"


def _delimited_rows(path: Path, options: Options, needed: set[str]) -> Iterator[Rows]:
    for piece in read_delimited(path, options.delimiter, options.comment, options.header):
        if piece.columns:
            _check_columns(path, needed, piece.columns)
        yield Rows(piece.columns, piece.lines, piece.raw_text, piece.rejects, piece.skipped)


def _parquet_rows(path: Path, needed: set[str]) -> Iterator[Rows]:
    if not path.is_file():
        raise SourceError(f"{path}: no such file. Check source.paths of the cluster file.")
    try:
        with pq.ParquetFile(path) as file:
            _check_columns(path, needed, file.schema_arrow.names)
            first = 1
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=sorted(needed), use_threads=False):
                lines = np.arange(first, first + batch.num_rows)
                first += batch.num_rows
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                yield Rows(columns, lines, partial(_row_text, batch))
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path}: not a readable Parquet file ({error})") from error


def _row_text(batch: pa.RecordBatch, row: int) -> str:
    return json.dumps({name: str(value) for name, value in batch.slice(row, 1).to_pylist()[0].items()})


def _json_rows(path: Path, needed: set[str]) -> Iterator[Rows]:
    for block in read_blocks(path):
        objects: list[dict[str, object]] = []
        numbers: list[int] = []
        raw: list[str] = []
        rejects: list[Reject] = []
        for number, line in enumerate(block.data.split(b"\n")[:-1], block.first_line):
            if not line.strip():
                continue
            text = text_of(line)
            try:
                value = json.loads(text)
            except (ValueError, RecursionError) as error:
                rejects.append(Reject(path.name, number, "not_json", str(error), text))
                continue
            if not isinstance(value, dict):
                rejects.append(Reject(path.name, number, "not_an_object", type(value).__name__, text))
                continue
            objects.append(value)
            numbers.append(number)
            raw.append(text)
        if objects and not any(needed & o.keys() for o in objects):
            _check_columns(path, needed, sorted({key for o in objects for key in o}))
        columns = {name: pa.array([_json_text(o.get(name)) for o in objects], pa.string()) for name in needed}
        yield Rows(columns, np.array(numbers, np.int64), raw.__getitem__, tuple(rejects))


def _json_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value if value is None else value.encode("utf-8", "replace").decode()  # lone surrogates cannot be stored
    return json.dumps(value)


def _check_columns(path: Path, needed: set[str], found: Sequence[str] | Mapping[str, object]) -> None:
    missing = sorted(needed - set(found))
    if missing:
        raise SourceError(f"{path}: has no column {', '.join(map(repr, missing))}; its columns are ", Quoted(", ".join(found)))


def _batch(rows: Rows, path: Path, cluster: Cluster, options: Options, seen: Counter[str]) -> Batch:
    if not len(rows.lines):
        return Batch(_empty(cluster), rows.rejects, rows.skipped)
    mapped = options.mapped
    when = {
        name: _times(rows.columns[mapped[name].column], mapped[name], options, cluster, path) for name in TIMES if name in mapped
    }
    numbers = {name: _numbers(rows.columns, mapped, name) for name in (*COUNTS, *DURATIONS) if name in mapped}
    if options.runtime_begins == "submission":
        numbers["runtime_s"] = _without_wait(numbers["runtime_s"], numbers["queue_s"])
    states, state_known = _states(rows.columns, options, len(rows.lines))
    ran = _derive(when, numbers, states, state_known, options)
    texts = {name: _text(rows.columns[mapped[name].column], mapped[name]) for name in TEXTS if name in mapped}
    faults = _faults(when, numbers, ran, texts.get("job_id"))
    rejects, keep = refuse(faults, rows.lines, rows.raw, path.name)
    take = pa.array(keep)
    columns: dict[str, pa.Array] = {name: column.take(take) for name, column in texts.items()}
    columns |= {name: numbers[name].to_arrow().take(take) for name in COUNTS if name in numbers}
    columns |= {name: pa.repeat(value, len(keep)) for name, value in options.constants.items() if name != "state"}
    if "job_id" not in columns:
        columns["job_id"] = _content_ids(rows.columns, mapped, take, seen)
    elif options.repeated_ids == "array_tasks":
        columns |= _numbered_repeats(columns["job_id"], seen)
    if options.array_pattern:
        columns |= _array_parts(columns["job_id"], options.array_pattern)
    columns["state"] = ran.states.take(take)
    columns["source"] = sources(path.name, rows.lines[keep])
    flags = {name: mask[keep] for name, mask in ran.flags.items()}
    table = jobs_table(
        cluster,
        columns,
        submit=ran.submit.take(keep),
        start=ran.start.take(keep),
        end=ran.end.take(keep),
        first_start=Instants.none(len(keep)) if options.start_is_submit else None,
        flags=flags,
        state_known=(state_known | ran.is_open)[keep],
        clamped=ran.clamped[keep],
    )
    unreadable = {f"unreadable_{name}": int(n.unreadable[keep].sum()) for name, n in numbers.items()}
    unknown = np.array([state == "OTHER" for state in columns["state"].to_pylist()], bool) & state_known[keep]
    notes = counted(flags, unknown_state=int(unknown.sum()), **unreadable)
    return Batch(table, in_order(rows.rejects, rejects), rows.skipped, notes)


def _empty(cluster: Cluster) -> pa.Table:
    none = Instants.none(0)
    columns = {name: pa.array([], pa.string()) for name in ("job_id", "state", "source")}
    return jobs_table(cluster, columns, submit=none, start=none, end=none, flags={})


def _times(values: pa.Array, column: Column, options: Options, cluster: Cluster, path: Path) -> Times:
    how = column.time or options.time
    relative = cluster.clock != "calendar"
    if isinstance(how, SecondsFrom):
        return _counted(values, how, cluster)
    if how in ("epoch_s", "epoch_ms", "epoch_us"):
        numbers = read_numbers(values)
        seconds = numbers.scaled({"epoch_s": 1.0, "epoch_ms": 1e-3, "epoch_us": 1e-6}[how])
        return _with_unreadable(epoch_times(seconds.to_arrow(), zero_is_missing=not relative), numbers.unreadable)
    if pa.types.is_timestamp(values.type) and (values.type.tz is None) != (how == "naive"):
        has = f"the zone {values.type.tz}" if values.type.tz else "no zone"
        raise SourceError(f"{path}: column {column.column!r} holds times with {has}, but the cluster file says `time: {how}`")
    times = parse_times(values, cluster.time_zone)
    if how == "aware" and not pa.types.is_timestamp(values.type):
        zoned = pc.fill_null(pc.match_substring_regex(values.cast(pa.string()), _AWARE_TEXT), False).to_numpy(
            zero_copy_only=False
        )
        return _with_unreadable(times, ~times.missing & ~zoned)
    return times


def _counted(values: pa.Array, how: SecondsFrom, cluster: Cluster) -> Times:
    anchor = how.seconds_from
    anchor = anchor if anchor.tzinfo else anchor.replace(tzinfo=cluster.zone)
    numbers = read_numbers(values)
    seconds = numbers.values * UNITS[how.unit] + anchor.timestamp()
    times = epoch_times(pa.array(seconds, mask=~numbers.known), zero_is_missing=False)
    return _with_unreadable(times, numbers.unreadable)


def _with_unreadable(times: Times, unreadable: np.ndarray) -> Times:
    if not unreadable.any():
        return times
    none, mask = pa.scalar(None, times.utc.type), pa.array(unreadable)
    return Times(
        pc.if_else(mask, none, times.utc),
        pc.if_else(mask, none, times.second),
        times.missing & ~unreadable,
        times.unreadable | unreadable,
        times.ambiguous & ~unreadable,
        times.nonexistent & ~unreadable,
    )


def _numbers(columns: Mapping[str, pa.Array], mapped: Mapping[str, Column], name: str) -> Numbers:
    column = mapped[name]
    values = columns[column.column]
    numbers = read_numbers(_extracted(values, column.pattern) if column.pattern else values).scaled(UNITS[column.unit or "one"])
    if column.times:
        each = _numbers(columns, mapped, column.times)
        numbers = numbers._replace(values=numbers.values * each.values, known=numbers.known & each.known)
    if column.zero_is_null or name == "time_limit_s":
        numbers = numbers.only(numbers.values > 0)
    elif name in COUNTS and name != "priority":
        numbers = numbers.only(numbers.values >= 0)
    return numbers


def _without_wait(runtime: Numbers, waited: Numbers) -> Numbers:
    """Take the wait off durations that begin at the submission; unknown where the wait is, negative where it is longer."""
    known = runtime.known & waited.known
    return runtime._replace(values=np.where(known, runtime.values - waited.values, 0.0), known=known)


def _text(values: pa.Array, column: Column) -> pa.Array:
    """Return a text column without the words for "none"; numbers become their shortest text."""
    if pa.types.is_floating(values.type) and pc.all(pc.equal(values, pc.floor(values))).as_py():
        values = values.cast(pa.int64())  # ids of a nullable whole-number column
    text = (
        _extracted(values.cast(pa.string()), column.pattern)
        if column.pattern
        else pc.utf8_trim_whitespace(values.cast(pa.string()))
    )
    encoded = text.dictionary_encode()
    words = encoded.dictionary
    words = pc.if_else(pc.is_in(pc.utf8_lower(words), value_set=_MISSING), pa.scalar(None, pa.string()), words)
    if column.values:
        words = pa.array([column.values.get(w, w) for w in words.to_pylist()], pa.string())
    return words.take(encoded.indices)


def _extracted(values: pa.Array, pattern: str) -> pa.Array:
    return pc.struct_field(pc.extract_regex(values.cast(pa.string()), pattern), "value")


def _states(columns: Mapping[str, pa.Array], options: Options, rows: int) -> tuple[pa.Array, np.ndarray]:
    """Canonical states, and where the log says any."""
    if constant := options.constants.get("state"):
        return canonical_states(pa.repeat(constant, rows)), np.ones(rows, bool)
    column = options.mapped.get("state")
    if column is None:
        return pa.repeat("OTHER", rows), np.zeros(rows, bool)
    words = _text(columns[column.column], column)
    return canonical_states(words), pc.is_valid(words).to_numpy(zero_copy_only=False)


@dataclass(frozen=True)
class _Ran:
    """When each row was submitted, ran and ended, what state follows, and what was assumed for it."""

    submit: Instants
    start: Instants
    end: Instants
    states: pa.Array
    clamped: np.ndarray
    is_open: np.ndarray
    flags: dict[str, np.ndarray]


def _instants(times: Times | None, rows: int) -> Instants:
    return Instants.none(rows) if times is None else Instants(*microseconds(times.utc))


def _derive(
    when: Mapping[str, Times], numbers: Mapping[str, Numbers], states: pa.Array, state_known: np.ndarray, options: Options
) -> _Ran:
    rows = len(states)
    no = np.zeros(rows, bool)
    submit, start, end = (_instants(when.get(name), rows) for name in TIMES)
    runtime = numbers.get("runtime_s")
    run_us = spans_us(runtime.values if runtime else np.zeros(rows))
    run_known = runtime.known if runtime else no
    if "start_time" in when and "end_time" in when and runtime:
        start, end = _settle_clock(when, start, end, run_us, run_known)
    elif "start_time" not in when:
        start = _derived_start(submit, end, numbers, run_us, run_known, options)
    names = np.array(states.to_pylist(), dtype=object)
    zero = run_known & (run_us == 0) if options.zero_runtime == "cancelled_never_started" else no
    start = Instants(start.us, start.known & ~(zero & (names == "CANCELLED")))
    if "end_time" not in when:
        waited = numbers.get("queue_s")
        withdrawn = submit.us + (spans_us(waited.values) if waited else 0)
        never = submit.known & ~start.known & (names == "CANCELLED")
        ends = np.where(never, withdrawn, start.us + run_us)
        end = Instants(ends, (start.known & run_known) | never)
    names = np.where(~state_known & ~end.known, np.where(start.known, "RUNNING", "PENDING"), names)
    is_open = np.isin(names, list(OPEN_STATES))
    forecast = is_open & end.known
    end = Instants(end.us, end.known & ~is_open)
    never = ~start.known & ~is_open
    assumed = never & ~end.known
    end = Instants(np.where(assumed, submit.us, end.us), end.known | assumed)
    ran_us = end.us - start.us
    clamp = options.runtime_clamped_at_s
    clamped = start.known & end.known & (ran_us >= clamp * 1e6) if clamp else no
    clock = np.logical_or.reduce([t.ambiguous for t in when.values()])
    flags = {
        "never_started": never,
        "end_assumed": assumed,
        "start_assumed": start.known if options.start_is_submit else no,
        "end_is_forecast": forecast,
        "runtime_clamped": clamped,
        "clock_ambiguous": clock,
        "duration_differs": start.known & end.known & run_known & (np.abs(ran_us - run_us) > 1e6),
        "state_unknown": ~state_known & end.known,
    }
    return _Ran(submit, start, end, pa.array(names, pa.string()), clamped, is_open, flags)


def _derived_start(
    submit: Instants, end: Instants, numbers: Mapping[str, Numbers], run_us: np.ndarray, run_known: np.ndarray, options: Options
) -> Instants:
    if "queue_s" in numbers:
        waited = numbers["queue_s"]
        return Instants(submit.us + spans_us(waited.values), submit.known & waited.known)
    if end.known.any() and run_known.any():
        return Instants(end.us - run_us, end.known & run_known)
    return (
        Instants(submit.us, submit.known & (run_known | end.known)) if options.start_is_submit else Instants.none(len(submit.us))
    )


def _settle_clock(
    when: Mapping[str, Times], start: Instants, end: Instants, run_us: np.ndarray, run_known: np.ndarray
) -> tuple[Instants, Instants]:
    """Choose, where the clock showed an hour twice, the instants that agree with the recorded duration."""
    starts, ends = when["start_time"], when["end_time"]
    doubtful = (starts.ambiguous | ends.ambiguous) & run_known & start.known & end.known
    if not doubtful.any():
        return start, end
    later_start, later_end = microseconds(starts.second)[0], microseconds(ends.second)[0]
    start_us, end_us = start.us.copy(), end.us.copy()
    settled = ~doubtful
    for a, b in ((start.us, end.us), (start.us, later_end), (later_start, end.us), (later_start, later_end)):
        fits = ~settled & (np.abs(b - a - run_us) <= 1e6)
        start_us[fits], end_us[fits] = a[fits], b[fits]
        settled |= fits
    return Instants(start_us, start.known), Instants(end_us, end.known)


def _faults(when: Mapping[str, Times], numbers: Mapping[str, Numbers], ran: _Ran, ids: pa.Array | None) -> dict[str, np.ndarray]:
    """Masks by reason of rows that cannot be jobs; the first reason that fits a row is its."""
    faults: dict[str, np.ndarray] = {}
    for name, times in when.items():
        faults[f"{name}_unreadable"] = times.unreadable
        faults[f"{name}_nonexistent"] = times.nonexistent
    for name in DURATIONS:
        if name in numbers:
            faults[f"{name}_unreadable"] = numbers[name].unreadable
    if "runtime_s" in numbers:
        faults["runtime_negative"] = numbers["runtime_s"].values < 0
    if ids is not None:
        faults["job_id_missing"] = pc.is_null(ids).to_numpy(zero_copy_only=False)
    faults["submit_missing"] = ~ran.submit.known
    faults["end_missing"] = ran.start.known & ~ran.end.known & ~ran.is_open
    both = ran.start.known & ran.end.known
    faults["start_before_submit"] = ran.start.known & (ran.start.us < ran.submit.us)
    faults["end_before_start"] = both & (ran.end.us < ran.start.us)
    faults["end_before_submit"] = ran.end.known & (ran.end.us < ran.submit.us)
    faults["time_out_of_range"] = out_of_range(ran.submit, ran.start, ran.end)
    return faults


def _content_ids(columns: Mapping[str, pa.Array], mapped: Mapping[str, Column], take: pa.Array, seen: Counter[str]) -> pa.Array:
    """Name each row by a hash of what it says, and by its number among the equal rows so far in the file."""
    names = sorted(mapped)
    texts = [pc.fill_null(columns[mapped[name].column].take(take).cast(pa.string()), "") for name in names]
    ids = []
    for text in pc.binary_join_element_wise(*texts, "\x1f").to_pylist():
        digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        ids.append(f"{digest}-{seen[digest]}")
        seen[digest] += 1
    return pa.array(ids, pa.string())


def _numbered_repeats(ids: pa.Array, seen: Counter[str]) -> dict[str, pa.Array]:
    """Make each further row of an id a job of its own, `id.1`, `id.2`, ..., and these rows tasks of one array."""
    texts = ids.to_pylist()
    here = Counter(texts)
    own, arrays = [], []
    for text in texts:
        own.append(f"{text}.{seen[text]}" if seen[text] else text)
        arrays.append(text if here[text] > 1 or seen[text] else None)
        seen[text] += 1
    return {"job_id": pa.array(own, pa.string()), "array_id": pa.array(arrays, pa.string())}


def _array_parts(ids: pa.Array, pattern: str) -> dict[str, pa.Array]:
    parts = pc.extract_regex(ids, pattern)
    array = pc.struct_field(parts, "array")
    task = read_numbers(pc.struct_field(parts, "task"))
    whole = task.only((task.values >= 0) & (task.values < 2**31) & (task.values == np.floor(task.values)))
    empty = pc.fill_null(pc.equal(array, ""), True)
    return {
        "array_id": pc.if_else(empty, pa.scalar(None, pa.string()), array),
        "array_task": pa.array(whole.values.astype(np.int32), mask=~whole.known),
    }
