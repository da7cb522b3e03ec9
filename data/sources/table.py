"""Any table of jobs (CSV and the like, Parquet, JSON lines, JSON arrays) through a map of columns in the cluster file: no code.

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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.cluster import Cluster
from runcast.data.sources.batch import Batch
from runcast.data.sources.numbers import Numbers, read_numbers
from runcast.data.sources.record import Instants, counted, in_order, jobs_table, refuse, sources, spans_us
from runcast.data.sources.table_moments import Moments, derive_moments, find_faults, starts_of, without_wait
from runcast.data.sources.table_options import CONSTANT_COUNTS, COUNTS, NUMBERS, TEXTS, TIMES, Column, Options
from runcast.data.sources.table_rows import Rows, read_rows
from runcast.data.sources.table_values import column_values, numbers, state_words, texts, times
from runcast.data.states import canonical_states, unknown_states
from runcast.data.unreadable import unreadable_notes

__all__ = ["Column", "Options", "read", "read_table"]


def read(path: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield the jobs of one table in the file's order."""
    return read_table(path, cluster, Options.model_validate(cluster.source.options))


def read_table(path: Path, cluster: Cluster, options: Options, pieces: Iterable[Rows] | None = None) -> Iterator[Batch]:
    """Yield the jobs of one table as `options` say; formats with fixed columns pass their own, and perhaps the rows of a reader."""
    seen: Counter[str] = Counter()
    for rows in read_rows(path, options) if pieces is None else pieces:
        yield _batch(rows, path, cluster, options, seen)


def _batch(rows: Rows, path: Path, cluster: Cluster, options: Options, seen: Counter[str]) -> Batch:
    if not len(rows.lines):
        return Batch(_empty(cluster), rows.rejects, rows.skipped)
    mapped = options.columns
    when = {name: times(name, rows.columns, options, cluster, path) for name in TIMES if name in mapped}
    counts, limit_words = _numbers(rows, options, path)
    states, state_known = _states(rows, options, path)
    ran = derive_moments(when, counts, states, state_known, options)
    named = {name: texts(column_values(name, rows.columns, options, path)) for name in TEXTS if name in mapped}
    faults = find_faults(when, counts, ran, named.get("job_id"))
    rejects, keep = refuse(faults, rows.lines, rows.raw, path.name)
    take = pa.array(keep)
    columns: dict[str, pa.Array] = {name: column.take(take) for name, column in named.items()}
    columns |= {name: counts[name].to_arrow().take(take) for name in COUNTS if name in counts}
    given = {
        name: float(value) if name in CONSTANT_COUNTS else value for name, value in options.constants.items() if name != "state"
    }
    columns |= {name: pa.repeat(value, len(keep)) for name, value in given.items()}
    if "job_id" not in columns:
        columns["job_id"] = _content_ids(rows.columns, mapped, take, seen)
    elif options.repeated_ids == "array_tasks":
        columns |= _numbered_repeats(columns["job_id"], seen)
    if options.array_pattern:
        columns |= _array_parts(columns["job_id"], options.array_pattern)
    if (limit_words != "").any():
        columns["time_limit_kind"] = _limit_kinds(columns["time_limit_s"], limit_words[keep], cluster)
    columns["state"] = ran.states.take(take)
    columns["source"] = sources(path.name, rows.lines[keep])
    flags = {name: mask[keep] for name, mask in ran.flags.items()}
    table = jobs_table(
        cluster,
        columns,
        submit=ran.submit.take(keep),
        start=ran.start.take(keep),
        end=ran.end.take(keep),
        first_start=_first_start(ran, counts, options).take(keep),
        flags=flags,
        state_known=(state_known | ran.is_open)[keep],
        clamped=ran.clamped[keep],
        attempts=starts_of(counts, ran.start.known)[keep],
        runtime_lost=ran.flags["requeued"][keep],
    )
    unreadable: dict[str, int] = {}
    for name, read_as in counts.items():
        written, lost = column_values(name, rows.columns, options, path).values.take(take), read_as.unreadable[keep]
        unreadable |= unreadable_notes(name, written, lost, shows_words=cluster.pseudonymise is None)
    unknown = np.array([state == "OTHER" for state in columns["state"].to_pylist()], bool) & state_known[keep]
    notes = counted(flags, unknown_state=int(unknown.sum()), **_unknown_words(rows, options, path), **unreadable)
    return Batch(table, in_order(rows.rejects, rejects), rows.skipped, notes)


def _first_start(ran: Moments, counts: Mapping[str, Numbers], options: Options) -> Instants:
    """Return when a job first started: after the wait, where the log says both; not known where the start is an assumption."""
    if options.start_is_submit:
        return Instants.none(len(ran.submit.us))
    if "start_time" not in options.columns or "queue_s" not in counts:
        return ran.start
    waited = counts["queue_s"]
    return Instants(ran.submit.us + spans_us(waited.values), ran.start.known & waited.known & (waited.values >= 0))


def _empty(cluster: Cluster) -> pa.Table:
    none = Instants.none(0)
    columns = {name: pa.array([], pa.string()) for name in ("job_id", "state", "source")}
    return jobs_table(cluster, columns, submit=none, start=none, end=none, flags={})


def _numbers(rows: Rows, options: Options, path: Path) -> tuple[dict[str, Numbers], np.ndarray]:
    """Return the number columns, and the kind of limit that a word in place of one says, "" elsewhere."""
    read = {name: numbers(name, rows.columns, options, path) for name in NUMBERS if name in options.columns}
    counts = {name: values for name, (values, _) in read.items()}
    if options.runtime_begins == "submission":
        counts["runtime_s"] = without_wait(counts["runtime_s"], counts["queue_s"])
    return counts, read["time_limit_s"][1] if "time_limit_s" in read else np.full(len(rows.lines), "", object)


def _limit_kinds(limits: pa.Array, words: np.ndarray, cluster: Cluster) -> pa.Array:
    given = pc.if_else(pc.is_valid(limits), pa.scalar(cluster.time_limit), "absent")
    return pc.if_else(pa.array(words != ""), pa.array(words, pa.string()), given)


def _unknown_words(rows: Rows, options: Options, path: Path) -> dict[str, int]:
    return unknown_states(state_words(rows.columns, options, path)) if "state" in options.columns else {}


def _states(rows: Rows, options: Options, path: Path) -> tuple[pa.Array, np.ndarray]:
    """Canonical states, and where the log says any."""
    count = len(rows.lines)
    if constant := options.constants.get("state"):
        return canonical_states(pa.repeat(constant, count)), np.ones(count, bool)
    if "state" not in options.columns:
        return pa.repeat("OTHER", count), np.zeros(count, bool)
    words = state_words(rows.columns, options, path)
    return canonical_states(words), pc.is_valid(words).to_numpy(zero_copy_only=False)


def _content_ids(columns: Mapping[str, pa.Array], mapped: Mapping[str, Column], take: pa.Array, seen: Counter[str]) -> pa.Array:
    """Name each row by a hash of what it says, and by its number among the equal rows so far in the file."""
    names = sorted(mapped)
    written = [pc.fill_null(_any_text(columns[mapped[name].column].take(take)), "") for name in names]
    ids = []
    for text in pc.binary_join_element_wise(*written, "\x1f").to_pylist():
        digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        ids.append(f"{digest}-{seen[digest]}")
        seen[digest] += 1
    return pa.array(ids, pa.string())


def _any_text(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # durations, bytes
        return pa.array([None if value is None else str(value) for value in values.to_pylist()], pa.string())


def _numbered_repeats(ids: pa.Array, seen: Counter[str]) -> dict[str, pa.Array]:
    """Make each further row of an id a job of its own, `id.1`, `id.2`, ..., and these rows tasks of one array."""
    every = ids.to_pylist()
    here = Counter(every)
    own, arrays = [], []
    for text in every:
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
