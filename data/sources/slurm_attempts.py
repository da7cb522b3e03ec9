"""Several records of one Slurm job made one: requeued attempts, and the same attempt met again in a later export.

An id alone is no key: ids are recycled. Records of one id are one job where they share the submission time, or where the first
was requeued (or cut by the system) and the second was queued at that moment: Slurm gives a requeued job a new submission time
(slurmctld sets it when the job is queued again). The job keeps its first submission; its label is that of the last attempt.
Which ids are met again is counted in a first reading of the file, so that only their records are held back, and no longer than
until the last of them is met.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.cluster import Cluster
from runcast.data.errors import Quoted, SourceError
from runcast.data.schema import JOBS
from runcast.data.sources.batch import Batch
from runcast.data.sources.record import floats
from runcast.data.sources.slurm_fields import Fields, SlurmOptions, Tally
from runcast.data.sources.slurm_het import merge_parts
from runcast.data.sources.slurm_jobs import Rows, canonical_rows, concat_rows
from runcast.data.sources.slurm_moments import WAITS_AGAIN
from runcast.data.sources.times import microseconds

#: Ended states after which the system itself may queue the job again.
_CUT_BY_SYSTEM = ("PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL")
_QUEUED_AGAIN_WITHIN_US = 3_600_000_000  # between the end of a cut attempt and the next submission
_REQUEUED_WITHIN_US = 90 * 86_400_000_000  # a requeued job may be held, but an id is not recycled so soon
_REQUESTED = ("gpu_count", "gpu_model", "cpu_count", "mem_mib", "node_count")  # what a resized job no longer shows
HASHED_BYTES = 32  # of an id; no job's is longer, and a step's may be cut
_ODD = np.uint64(0x9E37_79B9_7F4A_7C15)  # 2**64 over the golden ratio, the usual multiplier of a multiplicative hash


def batches(
    hashes: Iterable[np.ndarray],
    pieces: Iterable[tuple[Fields, Tally]],
    path: Path,
    cluster: Cluster,
    options: SlurmOptions,
) -> Iterator[Batch]:
    """Yield the jobs of a log: `hashes` are those of all its ids, from a first reading, `pieces` the records of the second.

    Raises SourceError where the log mixes the jobs of several Slurm clusters, whose ids mean different jobs.
    """
    attempts = Attempts(hashes)
    clusters: set[str] = set()
    for fields, tally in pieces:
        if options.slurm_cluster is None and "cluster" in fields.columns:
            clusters |= set(fields.columns["cluster"].dictionary_encode().dictionary.to_pylist()) - {"", "Cluster", None}
            if len(clusters) > 1:
                raise SourceError(
                    f"{path}: jobs of several clusters (",
                    Quoted(", ".join(sorted(clusters))),
                    "); name one in source.options.slurm_cluster",
                )
        rows = canonical_rows(fields, cluster, options, tally)
        yield tally.batch(attempts.add(fields.ids, rows, tally))
    tally = Tally()
    if (jobs := attempts.rest(tally)).num_rows:
        yield tally.batch(jobs)


class Attempts:
    """Holds back the records of ids that are met again, and joins them when the last has come."""

    def __init__(self, hashes: Iterable[np.ndarray]) -> None:
        """Count `hashes`, those of all ids of the log; what is no id may be among them and only delays what it meets."""
        values, counts = np.unique(np.concatenate([np.empty(0, np.uint64), *hashes]), return_counts=True)
        self._repeated: np.ndarray = values[counts > 1]
        self._to_come: np.ndarray = counts[counts > 1]
        self._held: list[Rows] = []

    def add(self, ids: pa.Array, rows: Rows, tally: Tally) -> pa.Table:
        """Take the next piece (all its ids, and the rows accepted of it); return the jobs that are now complete."""
        if not len(self._repeated):
            return rows.jobs
        at, known = self._find(ids)
        np.subtract.at(self._to_come, at[known], 1)
        at, known = self._find(rows.jobs["job_id"].combine_chunks())
        if known.any():
            self._held.append(rows.take(np.flatnonzero(known)))
        alone = rows.jobs.filter(pa.array(~known))
        joined = self._release(tally)
        return alone if joined is None else pa.concat_tables([alone, joined])

    def rest(self, tally: Tally) -> pa.Table:
        """Return the jobs of whatever is still held."""
        self._to_come[:] = 0
        joined = self._release(tally)
        return JOBS.empty_table() if joined is None else joined

    def _find(self, ids: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        hashes = text_hashes(ids)
        at = np.minimum(np.searchsorted(self._repeated, hashes), len(self._repeated) - 1)
        return at, self._repeated[at] == hashes

    def _release(self, tally: Tally) -> pa.Table | None:
        if not self._held:
            return None
        held = concat_rows(self._held)
        at, _ = self._find(held.jobs["job_id"].combine_chunks())
        complete = self._to_come[at] == 0
        if not complete.any():
            self._held = [held]
            return None
        self._held = [held.take(np.flatnonzero(~complete))] if not complete.all() else []
        return join_attempts(merge_parts(held.take(np.flatnonzero(complete)), tally), tally)


def join_attempts(rows: Rows, tally: Tally) -> pa.Table:
    """Join the records of each job; the others are skipped as `earlier_attempt`, `resized` or `duplicate`, counted in `tally`.

    A record that ends in RESIZING is the beginning of the run that the next one goes on with: that run's start and request count.
    """
    order, group = _groups(rows)
    rows = rows.take(order)
    jobs = rows.jobs
    size = int(group[-1]) + 1 if len(group) else 0
    opens = np.flatnonzero(np.diff(group, prepend=-1))
    last = np.concatenate([opens[1:], [len(group)]])[:size] - 1
    states = jobs["state"].to_numpy(zero_copy_only=False)
    goes_on = np.append(False, (group[1:] == group[:-1]) & (states[:-1] == "RESIZING"))[: len(group)]
    run = np.maximum.accumulate(np.where(goes_on, 0, np.arange(len(group))))  # the record each one's run begins with
    start_us, started = rows.started_us[run], rows.started_us[run] > 0
    is_last = np.zeros(len(group), bool)
    is_last[last] = True
    same_start = np.where(started, start_us == start_us[last][group], ~started)
    earlier = started & ~is_last & ~(same_start & started[last][group])
    tally.skip("earlier_attempt", int(earlier.sum()))
    resized = ~is_last & (run == run[last][group]) & goes_on[last][group]
    tally.skip("resized", int(resized.sum()))
    tally.skip("duplicate", int((~is_last & ~earlier & ~resized).sum()))

    again = np.isin(states, list(WAITS_AGAIN))
    distinct = np.unique(np.stack([group[started], start_us[started]]), axis=1)
    starts = np.bincount(distinct[0], minlength=size)
    attempts = np.maximum(starts, jobs["attempts"].to_numpy()[last])
    requeued = (attempts > 1) | (np.bincount(group, weights=again, minlength=size) > 0)
    first_start = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(first_start, group[started], start_us[started])
    known = (starts > 0) & (np.bincount(group, weights=rows.restarts > 0, minlength=size) == 0)

    joined = jobs.take(pa.array(last))
    first = jobs.select(["submit_time", "job_key"]).take(pa.array(opens))
    begin = jobs.select(["start_time", *_REQUESTED]).take(pa.array(run[last]))
    flags = [
        [*f, *(name for name, is_so in (("requeued", r), ("resized", s)) if is_so and name not in f)]
        for f, r, s in zip(joined["flags"].to_pylist(), requeued, goes_on[last], strict=True)
    ]
    changed = {
        **{name: begin[name] for name in begin.column_names},
        "runtime_s": _runtimes(joined, begin["start_time"]),
        "submit_time": first["submit_time"],
        "job_key": first["job_key"],
        "queue_s": floats((first_start - rows.queued_us[opens]) / 1e6, known),
        "attempts": pa.array(attempts.astype(np.int32)),
        "flags": pa.array(flags, pa.list_(pa.string())),
    }
    return pa.Table.from_arrays([changed.get(f.name, joined[f.name]) for f in JOBS], schema=JOBS)


def _runtimes(joined: pa.Table, starts: pa.ChunkedArray) -> pa.Array:
    """Return the runtimes from these starts, null where the joined row has none."""
    start_us, _ = microseconds(starts.combine_chunks())
    end_us, _ = microseconds(joined["end_time"].combine_chunks())
    return floats((end_us - start_us) / 1e6, pc.is_valid(joined["runtime_s"]).to_numpy())


def _groups(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return the order in which records of one job stand together, oldest first, and each ordered record's job number."""
    jobs = rows.jobs
    codes = jobs["job_id"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    submit_us, _ = microseconds(jobs["submit_time"].combine_chunks())
    ended = rows.ended_us > 0
    order = np.lexsort((ended, rows.reached_us, submit_us, codes))
    codes, submit_us, ended_us = codes[order], submit_us[order], rows.ended_us[order]
    states = jobs["state"].to_numpy(zero_copy_only=False)[order]
    if not len(order):
        return order, order
    gap = submit_us[1:] - ended_us[:-1]
    again = np.isin(states[:-1], list(WAITS_AGAIN)) & (gap <= _REQUEUED_WITHIN_US)
    cut = np.isin(states[:-1], _CUT_BY_SYSTEM) & (ended_us[:-1] > 0) & (np.abs(gap) <= _QUEUED_AGAIN_WITHIN_US)
    same_job = (codes[1:] == codes[:-1]) & ((submit_us[1:] == submit_us[:-1]) | again | cut)
    return order, np.concatenate([[0], np.cumsum(~same_job)])


def id_hashes(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Hash the texts that begin at `starts` of the bytes `data`, by their first 32 bytes before any `+`, to 64 bits.

    The parts of a heterogeneous job, `50+0` and `50+1`, have one hash. Two ids of one hash are only held back together, never joined.
    """
    padded = np.concatenate([data, np.zeros(HASHED_BYTES, np.uint8)])
    letters = np.lib.stride_tricks.sliding_window_view(padded, HASHED_BYTES)[starts]
    is_plus = letters == ord("+")
    if is_plus.any():
        lengths = np.minimum(lengths, np.where(is_plus.any(axis=1), is_plus.argmax(axis=1), HASHED_BYTES))
    letters = np.where(np.arange(HASHED_BYTES) < lengths[:, None], letters, 0)
    words = np.ascontiguousarray(letters).view(np.uint64)
    hashed = np.zeros(len(starts), np.uint64)
    for column in range(words.shape[1]):
        hashed = (hashed ^ words[:, column]) * _ODD
        hashed ^= hashed >> np.uint64(29)
    return hashed


def text_hashes(ids: pa.Array) -> np.ndarray:
    """Hash a text column as `id_hashes` hashes the bytes it was read from."""
    if not len(ids):
        return np.empty(0, np.uint64)
    _, offsets, data = pc.fill_null(ids, "").buffers()
    ends = np.frombuffer(offsets, np.int32)[ids.offset : ids.offset + len(ids) + 1].astype(np.int64)
    letters = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return id_hashes(letters, ends[:-1], np.diff(ends))
