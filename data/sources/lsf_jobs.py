"""From LSF's jobs, whichever of its tools wrote them, to canonical rows: states, moments, requests and what is refused.

States come from the manual's "Termination reasons displayed by bacct, bhist, and bjobs", which also gives the integers of lsb.acct.
Who is killed at a limit of time is a TIMEOUT; whom the owner or the administrator killed is CANCELLED.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from runcast.data.cluster import Cluster
from runcast.data.sources.batch import Batch, Reject
from runcast.data.sources.lsf_requests import Request
from runcast.data.sources.record import Instants, counted, jobs_table, out_of_range, refuse, sources
from runcast.data.states import OPEN_STATES, OTHER

REQUEUED = "REQUEUED"
#: TERM_ reasons that are no fault of the job's own; the others (process and thread limits, signals from elsewhere) are FAILED.
TERMS = {
    "TERM_ADMIN": "CANCELLED",
    "TERM_BUCKET_KILL": "CANCELLED",
    "TERM_CHKPNT": "CANCELLED",
    "TERM_FORCE_ADMIN": "CANCELLED",
    "TERM_FORCE_OWNER": "CANCELLED",
    "TERM_ORPHAN_SYSTEM": "CANCELLED",
    "TERM_OTHER": "CANCELLED",
    "TERM_OWNER": "CANCELLED",
    "TERM_REQUEUE_ADMIN": REQUEUED,
    "TERM_REQUEUE_OWNER": REQUEUED,
    "TERM_CPULIMIT": "TIMEOUT",
    "TERM_RUNLIMIT": "TIMEOUT",
    "TERM_DEADLINE": "DEADLINE",
    "TERM_WINDOW": "DEADLINE",
    "TERM_LOAD": "PREEMPTED",
    "TERM_MC_RECALL": "PREEMPTED",
    "TERM_PREEMPT": "PREEMPTED",
    "TERM_RC": "PREEMPTED",
    "TERM_RC_RECLAIM": "PREEMPTED",
    "TERM_MEMLIMIT": "OUT_OF_MEMORY",
    "TERM_SWAP": "OUT_OF_MEMORY",
    "TERM_REMOVE_HUNG_JOB": "NODE_FAIL",
    "TERM_RMS": "NODE_FAIL",
    "TERM_SLURM": "NODE_FAIL",
    "TERM_ZOMBIE": "NODE_FAIL",
    "TERM_CSM_ALLOC": "LAUNCH_FAILED",
    "TERM_CWD_NOTEXIST": "LAUNCH_FAILED",
    "TERM_DATA": "LAUNCH_FAILED",
    "TERM_KUBE": "LAUNCH_FAILED",
    "TERM_PRE_EXEC_FAIL": "LAUNCH_FAILED",
}
_TEXT_FIELDS = {
    "user": "user",
    "group": "group",
    "account": "account",
    "queue": "queue",
    "qos": "service_class",
    "job_name": "name",
    "work_dir": "work_dir",
    "node_list": "hosts",
}
#: The list in an array's name, `train[1-90]%5` or `train[7]`: not of the name that its owner repeats.
_ELEMENTS = re.compile(r"\[[^\]]*\](?:%\d+)?$")


class Job(NamedTuple):
    """One job as its record tells it, with the line and the text of that record; times in whole seconds since 1970, 0 for none."""

    line: int
    raw: str
    number: str  # without the element of an array
    element: int  # of an array, 0 for none
    user: str
    queue: str
    account: str
    group: str
    service_class: str
    name: str
    work_dir: str
    state: str
    submit_s: int
    eligible_s: int
    start_s: int
    end_s: int
    attempts: int
    limit_s: float | None
    request: Request
    hosts: str
    ambiguous: bool = False


def bare_name(name: str) -> str:
    """Return a job's name without an array's list of elements, as the esub sends it.

    >>> bare_name("imb_sr[1-90]%5"), bare_name("imb_sr[7]"), bare_name("plain")
    ('imb_sr', 'imb_sr', 'plain')
    """
    return _ELEMENTS.sub("", name)[:4096] if name.endswith("]") or "]%" in name else name[:4096]


class Requeues:
    """Jobs of a file that were killed and requeued: each waits for the record of its next run, which counts its starts."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, int, int], Job] = {}
        self.joined = 0

    def last_runs(self, jobs: Iterable[Job]) -> list[Job]:
        """Return the jobs that are over, with the starts of the runs before."""
        over = []
        for job in jobs:
            if self._waiting and (before := self._waiting.pop((job.number, job.element, job.submit_s), None)) is not None:
                self.joined += 1
                job = job._replace(attempts=max(job.attempts, before.attempts + 1))
            if job.state == REQUEUED:
                self._waiting[job.number, job.element, job.submit_s] = job
            else:
                over.append(job)
        return over

    def still_waiting(self) -> list[Job]:
        """Return the jobs that have not run again, as they wait; their last run is not their end."""
        return [job._replace(start_s=0, end_s=0) for job in self._waiting.values()]


class Unreadable(Exception):
    """A record that cannot be read; its text is the reject's reason."""


def state_of_exit(term: str, started: bool) -> str:
    """Return the state of a job that exited; one that never ran and of which nothing else is said was taken out of the queue."""
    return TERMS.get(term, "FAILED" if started else "CANCELLED")


def jobs_of(cluster: Cluster, file: str, rows: list[Job]) -> tuple[pa.Table, list[Reject], dict[str, int]]:
    """Return the jobs as canonical rows, the rejects among them, and notes."""
    submit, eligible, start, end = (_instants(rows, name) for name in ("submit_s", "eligible_s", "start_s", "end_s"))
    lines = np.array([row.line for row in rows], np.int64)
    states = np.array([row.state for row in rows], dtype=object)
    attempts = np.array([row.attempts for row in rows], np.int64)
    is_open = np.isin(states, list(OPEN_STATES))
    end = Instants(end.us, end.known & ~is_open)  # beside these an end is a forecast
    faults = {
        "submit_missing": ~submit.known,
        "end_missing": ~end.known & ~is_open,
        "start_before_submit": start.known & (start.us < submit.us),
        "end_before_start": start.known & end.known & (end.us < start.us),
        "end_before_submit": end.known & (end.us < submit.us),
        "time_out_of_range": out_of_range(submit, start, end),
    }
    rejects, keep = refuse(faults, lines, lambda at: rows[at].raw, file)
    kept = [rows[at] for at in keep]
    is_eligible = eligible.known & (eligible.us > submit.us) & ~(start.known & (start.us < eligible.us))
    queued = Instants(np.where(is_eligible, eligible.us, submit.us), submit.known)
    requeued = attempts[keep] > 1
    first = start.take(keep)
    flags = {
        "never_started": ~start.known[keep] & ~is_open[keep],
        "requeued": requeued,
        "clock_ambiguous": np.array([row.ambiguous for row in kept], bool),
    }
    jobs = jobs_table(
        cluster,
        {**_columns(kept), "state": pa.array(states[keep], pa.string()), "source": sources(file, lines[keep])},
        submit=submit.take(keep),
        start=first,
        end=end.take(keep),
        flags=flags,
        queued=queued.take(keep),
        first_start=Instants(first.us, first.known & ~requeued),
        attempts=np.where(first.known, attempts[keep], 0),
    )
    return jobs, rejects, counted(flags, unknown_state=int((states[keep] == OTHER).sum()))


def waiting_batch(cluster: Cluster, file: str, requeues: Requeues) -> Batch:
    """Return what is left at a file's end: the jobs that wait for another run, and how many records the others had before their last."""
    jobs, refused, notes = jobs_of(cluster, file, requeues.still_waiting())
    return Batch(jobs, tuple(refused), {"earlier_record": requeues.joined} if requeues.joined else {}, notes)


def _columns(rows: list[Job]) -> dict[str, pa.Array]:
    by_field = dict(zip(Job._fields, zip(*rows, strict=True) if rows else [()] * len(Job._fields), strict=True))
    columns = {name: _texts(by_field[field]) for name, field in _TEXT_FIELDS.items()}
    numbers, elements, requests = by_field["number"], by_field["element"], by_field["request"]
    ids = [f"{number}[{element}]" if element else number for number, element in zip(numbers, elements, strict=True)]
    columns["job_id"] = _texts(ids)
    columns["array_id"] = _texts([number if element else "" for number, element in zip(numbers, elements, strict=True)])
    columns["array_task"] = pa.array([element or None for element in elements], pa.int32())
    columns["gpu_model"] = _texts([request.gpu_model for request in requests])
    columns["time_limit_s"] = pa.array(by_field["limit_s"], pa.float64())
    for at, name in enumerate(("cpu_count", "gpu_count", "node_count", "mem_mib")):
        columns[name] = pa.array([request[at] for request in requests], pa.float64())
    return columns


def _instants(rows: list[Job], name: str) -> Instants:
    seconds = np.array([getattr(row, name) for row in rows], np.int64)
    return Instants(seconds * 1_000_000, seconds > 0)


def _texts(values: Sequence[str]) -> pa.Array:
    return pa.array([value or None for value in values], pa.string())
