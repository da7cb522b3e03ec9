"""IBM Spectrum LSF: a CSV of jobs parsed from `bhist -l`, one line a job.

Columns job_id, user, job_name, cwd, tasks, gpus, host, submit_time, start_time, end_time (local, no zone), cpu_s, state (DONE,
EXIT, OTHER), term (the TERM_ reason of an EXIT), ndisp (how often it was dispatched), duration_s, wait_s.
- `start_time` is the first dispatch. With ndisp above 1 the time to the end holds waits between dispatches, so there is no
  runtime to learn from: excluded, with a flag. With ndisp 0 the job never started.
- OTHER without an end was running when the log was made.
- The term reasons are those of the manual ("bhist", "Job exit reasons"); who was killed by a limit is a TIMEOUT, whom the owner
  or the administrator killed is CANCELLED.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from runcast.data.cluster import Cluster
from runcast.data.errors import Quoted, SourceError
from runcast.data.sources.batch import Batch
from runcast.data.sources.delimited import Piece, read_delimited
from runcast.data.sources.numbers import read_numbers
from runcast.data.sources.record import Instants, blank_to_null, counted, in_order, jobs_table, out_of_range, refuse, sources
from runcast.data.sources.times import microseconds, parse_times

NEEDED = ("job_id", "submit_time", "start_time", "end_time", "state")
_TEXTS = {"job_id": "job_id", "user": "user", "job_name": "job_name", "work_dir": "cwd", "queue": "queue", "node_list": "host"}
_COUNTS = {"cpu_count": "tasks", "gpu_count": "gpus"}

_STATES = {"DONE": "COMPLETED", "EXIT": "FAILED", "PEND": "PENDING", "RUN": "RUNNING"}
_TERMS = {
    "TERM_ADMIN": "CANCELLED",
    "TERM_FORCE_ADMIN": "CANCELLED",
    "TERM_FORCE_OWNER": "CANCELLED",
    "TERM_OWNER": "CANCELLED",
    "TERM_REQUEUE": "CANCELLED",
    "TERM_REQUEUE_ADMIN": "CANCELLED",
    "TERM_REQUEUE_OWNER": "CANCELLED",
    "TERM_BUCKET_KILL": "CANCELLED",
    "TERM_CPULIMIT": "TIMEOUT",
    "TERM_RUNLIMIT": "TIMEOUT",
    "TERM_DEADLINE": "DEADLINE",
    "TERM_WINDOW": "DEADLINE",
    "TERM_LOAD": "PREEMPTED",
    "TERM_PREEMPT": "PREEMPTED",
    "TERM_MEMLIMIT": "OUT_OF_MEMORY",
    "TERM_SWAP": "OUT_OF_MEMORY",
    "TERM_REMOVE_HUNG_JOB": "NODE_FAIL",
    "TERM_ZOMBIE": "NODE_FAIL",
}


class Options(BaseModel):
    """`source.options` of an LSF log: there are none."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def read(path: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield the jobs of one CSV in the file's order."""
    for piece in read_delimited(path):
        missing = [name for name in NEEDED if name not in piece.columns]
        if piece.columns and missing:
            raise SourceError(f"{path}: has no column {', '.join(missing)}; its columns are ", Quoted(", ".join(piece.columns)))
        if piece.columns:
            yield _batch(piece, cluster, path.name)


def _batch(piece: Piece, cluster: Cluster, file: str) -> Batch:
    when = {name: parse_times(piece.columns[name], cluster.time_zone) for name in ("submit_time", "start_time", "end_time")}
    submit, first, end = (Instants(*microseconds(when[name].utc)) for name in when)
    end = _after(first, end, when["end_time"].second)
    dispatched = read_numbers(piece.columns["ndisp"]) if "ndisp" in piece.columns else None
    attempts = np.where(dispatched.known, dispatched.values, first.known) if dispatched else first.known.astype(float)
    start = Instants(first.us, first.known & (attempts > 0))
    states = _states(piece, start.known, end.known)
    is_open = np.isin(states, ("RUNNING", "PENDING"))
    end = Instants(end.us, end.known & ~is_open)  # beside these an end is a forecast
    requeued = attempts > 1
    never = ~start.known & ~is_open
    texts = {name: blank_to_null(piece.columns[column]) for name, column in _TEXTS.items() if column in piece.columns}
    counts = {name: read_numbers(piece.columns[column]) for name, column in _COUNTS.items() if column in piece.columns}
    faults = {
        **{f"{name}_unreadable": times.unreadable for name, times in when.items()},
        **{f"{name}_nonexistent": times.nonexistent for name, times in when.items()},
        "job_id_missing": pc.is_null(texts["job_id"]).to_numpy(zero_copy_only=False),
        "submit_missing": ~submit.known,
        "end_missing": ~end.known & ~is_open,
        "start_before_submit": start.known & (start.us < submit.us),
        "end_before_start": start.known & end.known & (end.us < start.us),
        "end_before_submit": end.known & (end.us < submit.us),
        "time_out_of_range": out_of_range(submit, first, end),
        "attempts_unreadable": (attempts < 0) | (attempts > 1e6) | (attempts != np.floor(attempts)),
    }
    rejects, keep = refuse(faults, piece.lines, piece.raw_text, file)
    take = pa.array(keep)
    flags = {
        "never_started": never,
        "requeued": requeued,
        "clock_ambiguous": np.logical_or.reduce([times.ambiguous for times in when.values()]),
    }
    flags = {name: mask[keep] for name, mask in flags.items()}
    columns = {
        **texts,
        **{name: count.only(count.values >= 0).to_arrow() for name, count in counts.items()},
        "state": pa.array(states, pa.string()),
        "source": sources(file, piece.lines),
    }
    jobs = jobs_table(
        cluster,
        {name: column.take(take) for name, column in columns.items()},
        submit=submit.take(keep),
        start=start.take(keep),
        end=end.take(keep),
        flags=flags,
        attempts=attempts[keep],
        runtime_lost=requeued[keep],
    )
    notes = counted(flags, unknown_state=int((states[keep] == "OTHER").sum()))
    return Batch(jobs, in_order(piece.rejects, rejects), piece.skipped, notes)


def _after(start: Instants, end: Instants, second: pa.Array) -> Instants:
    """Take the later instant of a repeated hour for an end that would stand before its start."""
    later, _ = microseconds(second)
    return Instants(np.where(start.known & (end.us < start.us), later, end.us), end.known)


def _states(piece: Piece, started: np.ndarray, ended: np.ndarray) -> np.ndarray:
    words = [word.strip() for word in piece.columns["state"].to_pylist()]
    terms = [term.strip() for term in piece.columns["term"].to_pylist()] if "term" in piece.columns else [""] * len(words)
    names = [
        _TERMS.get(term, "FAILED") if word == "EXIT" else _STATES.get(word, "OTHER")
        for word, term in zip(words, terms, strict=True)
    ]
    states = np.array(names, dtype=object)
    still = (states == "OTHER") & ~ended
    states[still] = np.where(started[still], "RUNNING", "PENDING")
    return states
