"""PBS Professional, OpenPBS and Torque: the server's accounting logs, one file a day, as the server writes them.

A record is `MM/DD/YYYY HH:MM:SS;TYPE;ID;MESSAGE`, the message blank-separated `key=value` (manuals: PBS Professional Administrator's
Guide, "Accounting"; Torque Administrator Guide, "Accounting Records"). Times within it are seconds since 1970.
- E (ended) is a job, with all that is known of it. S (started) without an E in its file is a running job, and Q (queued) a waiting
  one where it names the user and the creation time, as OpenPBS' does; Torque's Q names the queue only and is passed over.
- R (rerun) and a second S are attempts. `run_count` or `start_count` of the E counts those that other files hold; the start is that
  of the last attempt, so the time in the queue is then not known.
- D (deleted) and A (aborted) end a job that had not started. One that ran has its E as well.
- Array parents (`12[]`), reservations, checkpoints, licences and alterations are no jobs.
- Exit_status: 0 is good; 256 and above is a signal to the whole job, and so is 128 and above, as a shell says it (the manual: "128 or
  256, depending on the system"); below 0 the server ended it. Who is killed at the limit is a TIMEOUT.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from runcast.data.cluster import Cluster
from runcast.data.errors import Quoted, SourceError
from runcast.data.sources.batch import Batch, Reject
from runcast.data.sources.blocks import read_blocks, text_of
from runcast.data.sources.pbs_requests import account_of, read_request, walltime_s
from runcast.data.sources.record import Instants, counted, in_order, jobs_table, out_of_range, refuse, sources

_RECORD = re.compile(r"(?:\d{8}:)?\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;(\w);([^;]*);(.*)", re.ASCII | re.DOTALL)
#: A value reaches to the next blank, in quotes beyond it; words without `=` behind it belong to it.
_FIELD = re.compile(r'([^\s=]+)=("[^"]*"|\S*(?:\s+(?![^\s=]+=)\S+)*)')
#: Torque 6's request, whose words hold `=` themselves.
_TASKS = re.compile(r"(?:^| )Resource_Request_2\.0=((?:-L \S+ ?)+)")
_ID = re.compile(r"(\d+)(?:\[(\d*)\])?(?:\..*)?", re.ASCII)
_EPOCH = re.compile(r"\d{1,10}", re.ASCII)
_TIMES = ("ctime", "etime", "start", "end")
#: A second one of these in a record could be a user's own text: such a record is refused.
_ONCE = frozenset({"user", "group", "queue", "ctime", "qtime", "etime", "start", "end", "Exit_status", "exec_host"})
_ENDING, _STARTING, _QUEUED, _RERUN, _CANCELLING = "E", "S", "Q", "R", "DA"
#: TERM and KILL end a job from outside, at its limit or by hand; other signals are its own fault.
_KILLS = (9, 15)
_AT_LIMIT_S = 5.0  # a server looks every few seconds whether a job has outlived its limit
#: By the server, from PBS Professional's pbs_error.h and Torque's manual ("Exit codes"): -11 and -29 walltime, -10, -26, -27 memory.
_BY_SERVER = {
    -10: "OUT_OF_MEMORY",
    -26: "OUT_OF_MEMORY",
    -27: "OUT_OF_MEMORY",
    -11: "TIMEOUT",
    -12: "TIMEOUT",
    -28: "TIMEOUT",
    -29: "TIMEOUT",
}
_LINES_SEEN = 1000


class Options(BaseModel):
    """`source.options` of a PBS log: there are none."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class _Row:
    """One job as far as its records tell, with the line and text of the last of them."""

    line: int
    raw: str
    job_id: str
    fields: Mapping[str, str]
    is_open: bool
    is_cancelled: bool
    attempts: int


def read(path: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield the jobs of one accounting log: those that ended in the file's order, then those still open at its end.

    Raises SourceError where the first thousand lines hold no record.
    """
    log = _Log(path)
    for block in read_blocks(path):
        yield log.batch(cluster, log.take(block.first_line, text_of(block.data)))
    if open_rows := log.still_open():
        yield log.batch(cluster, open_rows)


class _Log:
    """What has been read of a file: open jobs by id, how often each has started, and counts for the next batch."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: dict[str, _Row] = {}
        self._starts: Counter[str] = Counter()
        self._skipped: Counter[str] = Counter()
        self._rejects: list[Reject] = []
        self._has_record = False

    def take(self, first_line: int, text: str) -> list[_Row]:
        """Read whole lines; return the jobs that are over."""
        ended: list[_Row] = []
        for line, raw in enumerate(text.split("\n")[:-1], first_line):
            if not raw.strip():
                continue
            match = _RECORD.fullmatch(raw)
            if match is None:
                self._refuse(line, "unreadable_line", raw)
                if not self._has_record and line >= _LINES_SEEN:
                    break
                continue
            self._has_record = True
            self._record(line, raw, match, ended)
        if not self._has_record and self._rejects:
            raise SourceError(
                f"{self._path}: no record of a PBS or Torque accounting log (MM/DD/YYYY HH:MM:SS;E;ID;…) but ",
                Quoted(self._rejects[0].raw[:80]),
            )
        return ended

    def _record(self, line: int, raw: str, record: re.Match[str], ended: list[_Row]) -> None:
        kind, job_id, message = record.groups()
        if kind not in (_ENDING, _STARTING, _QUEUED, _RERUN, *_CANCELLING):
            self._skipped[f"record_{kind}"] += 1
            return
        match = _ID.fullmatch(job_id)
        if match is None:
            self._refuse(line, "job_id_unreadable", raw)
            return
        if match[2] == "":
            self._skipped["array_parent"] += 1
            return
        fields = _fields(message)
        if fields is None:
            self._refuse(line, "field_twice", raw)
        elif kind == _ENDING:
            self._end(line, raw, job_id, fields, ended)
        elif kind in _CANCELLING:
            self._cancel(line, raw, job_id, ended)
        elif kind == _QUEUED and not {"ctime", "user"} <= fields.keys():
            self._skipped["queued_without_details"] += 1
        elif kind == _RERUN:
            self._skipped["rerun_record"] += 1
            if (running := self._open.get(job_id)) is not None:
                waits_again = {name: value for name, value in running.fields.items() if name != "start"}
                self._open[job_id] = replace(running, fields=waits_again)
        else:
            self._skipped["earlier_record"] += job_id in self._open
            self._starts[job_id] += kind == _STARTING
            self._open[job_id] = _Row(line, raw, job_id, fields, True, False, self._starts[job_id])

    def _end(self, line: int, raw: str, job_id: str, fields: dict[str, str], ended: list[_Row]) -> None:
        if self._open.pop(job_id, None) is not None:
            self._skipped["earlier_record"] += 1
        counts = [int(fields[name]) for name in ("run_count", "start_count") if _EPOCH.fullmatch(fields.get(name, ""))]
        attempts = max(*counts, self._starts.pop(job_id, 0), 1, 0)
        ended.append(_Row(line, raw, job_id, fields, False, False, attempts))

    def _cancel(self, line: int, raw: str, job_id: str, ended: list[_Row]) -> None:
        """End a job that waits; one that runs will have its E, and one of another file is not known here."""
        waiting = self._open.get(job_id)
        if waiting is None or waiting.attempts:
            self._skipped["deleted_or_aborted"] += 1
            return
        del self._open[job_id]
        self._skipped["earlier_record"] += 1
        ended.append(_Row(line, raw, job_id, waiting.fields, False, True, 0))

    def still_open(self) -> list[_Row]:
        """Return the jobs that the file leaves running or waiting, in the order of their lines."""
        return sorted(self._open.values(), key=lambda row: row.line)

    def _refuse(self, line: int, reason: str, raw: str) -> None:
        self._rejects.append(Reject(self._path.name, line, reason, "", raw))

    def batch(self, cluster: Cluster, rows: list[_Row]) -> Batch:
        """Return the rows as canonical jobs, with what was refused and passed over since the last batch."""
        jobs, rejects, notes = _jobs(cluster, self._path.name, rows)
        done = Batch(jobs, in_order(self._rejects, rejects), +self._skipped, notes)
        self._rejects, self._skipped = [], Counter()
        return done


def _fields(message: str) -> dict[str, str] | None:
    """Return a message's fields, None where one that counts stands there twice."""
    words = message.split()
    try:
        fields = dict([word.split("=", 1) for word in words])
        is_plain = '"' not in message or all(word.count('"') != 1 for word in words)
    except ValueError:  # a word without `=`
        is_plain = False
    count = len(words)
    if not is_plain:
        pairs = _FIELD.findall(message)
        fields, count = dict(pairs), len(pairs)
    if len(fields) != count:
        names = Counter(name for name, _ in _FIELD.findall(message))
        if any(names[name] > 1 for name in _ONCE):
            return None
    if "Resource_Request_2.0" in fields and (asked := _TASKS.search(message)) is not None:
        fields["Resource_Request_2.0"] = asked[1]
    return fields


def _jobs(cluster: Cluster, file: str, rows: list[_Row]) -> tuple[pa.Table, list[Reject], dict[str, int]]:
    lines = np.array([row.line for row in rows], np.int64)
    when = {name: _instants([row.fields.get(name, "") for row in rows]) for name in _TIMES}
    submit, eligible, first, end = (when[name][0] for name in _TIMES)
    is_open, cancelled, attempts = (
        np.array([getattr(row, name) for row in rows]) for name in ("is_open", "is_cancelled", "attempts")
    )
    is_open, cancelled, attempts = is_open.astype(bool), cancelled.astype(bool), attempts.astype(np.int64)
    start = Instants(first.us, first.known & ~cancelled)
    end = Instants(end.us, end.known & ~is_open)
    is_eligible = eligible.known & (eligible.us > submit.us) & ~(first.known & (first.us < eligible.us))
    queued = Instants(np.where(is_eligible, eligible.us, submit.us), submit.known)
    limits = [walltime_s(row.fields.get("Resource_List.walltime", "")) for row in rows]
    ran_s = np.where(start.known & end.known, (end.us - start.us) / 1e6, np.nan)
    states = [_state(row, s, r, lim) for row, s, r, lim in zip(rows, start.known.tolist(), ran_s.tolist(), limits, strict=True)]
    faults = {
        **{f"{name}_unreadable": unreadable for name, (_, unreadable) in when.items()},
        "submit_missing": ~submit.known,
        "end_missing": ~end.known & ~is_open & ~cancelled,
        "start_before_submit": start.known & (start.us < submit.us),
        "end_before_start": start.known & end.known & (end.us < start.us),
        "time_out_of_range": out_of_range(submit, start, end),
    }
    rejects, keep = refuse(faults, lines, lambda at: rows[at].raw, file)
    kept = [rows[at] for at in keep]
    requeued = attempts[keep] > 1
    first_start = start.take(keep)
    flags = {"never_started": ~start.known[keep] & ~is_open[keep], "requeued": requeued}
    jobs = jobs_table(
        cluster,
        {**_columns(kept), "state": _texts([states[at] for at in keep]), "time_limit_s": _numbers([limits[at] for at in keep]),
         "source": sources(file, lines[keep])},
        submit=submit.take(keep),
        start=start.take(keep),
        end=end.take(keep),
        flags=flags,
        queued=queued.take(keep),
        first_start=Instants(first_start.us, first_start.known & ~requeued),
        attempts=np.where(start.known[keep], attempts[keep], 0),
    )  # fmt: skip
    unread = sum(
        limit is None and bool(row.fields.get("Resource_List.walltime")) for limit, row in zip(limits, rows, strict=True)
    )
    return jobs, rejects, counted(flags, unreadable_time_limit_s=unread)


def _columns(rows: list[_Row]) -> dict[str, pa.Array]:
    ids = [_ID.fullmatch(row.job_id) for row in rows]
    requests = [read_request(row.fields) for row in rows]
    gets = {"user": "user", "group": "group", "queue": "queue", "job_name": "jobname", "node_list": "exec_host"}
    columns = {name: _texts([row.fields.get(field, "") for row in rows]) for name, field in gets.items()}
    columns["gpu_model"] = _texts([row.fields.get("Resource_List.gpu_type", "") for row in rows])
    columns["account"] = _texts([account_of(row.fields) for row in rows])
    columns["job_id"] = _texts([row.job_id for row in rows])
    columns["array_id"] = _texts([match[1] if match and match[2] else "" for match in ids])
    columns["array_task"] = pa.array([int(match[2]) if match and match[2] else None for match in ids], pa.int32())
    for at, name in enumerate(("cpu_count", "gpu_count", "node_count", "mem_mib")):
        columns[name] = _numbers([request[at] for request in requests])
    return columns


def _state(row: _Row, started: bool, ran_s: float, limit_s: float | None) -> str:
    if row.is_open:
        return "RUNNING" if started else "PENDING"
    text = row.fields.get("Exit_status", "")
    if row.is_cancelled or not started or not re.fullmatch(r"-?\d{1,6}", text, re.ASCII):
        return "CANCELLED" if row.is_cancelled or not started else "OTHER"
    status, at_limit = int(text), limit_s is not None and ran_s >= limit_s - _AT_LIMIT_S
    if status < 0:
        return _BY_SERVER.get(status, "TIMEOUT" if at_limit else "LAUNCH_FAILED")
    if status >= 128 and status % (256 if status >= 256 else 128) in _KILLS:
        return "TIMEOUT" if at_limit else "CANCELLED"
    return "COMPLETED" if status == 0 else "FAILED"


def _instants(texts: list[str]) -> tuple[Instants, np.ndarray]:
    """Read seconds since 1970; 0 and nothing are no time, anything but up to ten digits is unreadable."""
    text = pa.array(texts, pa.string())
    readable = pc.match_substring_regex(text, r"^[0-9]{1,10}$").to_numpy(zero_copy_only=False)
    seconds = pc.if_else(pa.array(readable), text, "0").cast(pa.int64()).to_numpy()
    unreadable = pc.not_equal(text, "").to_numpy(zero_copy_only=False) & ~readable
    return Instants(seconds * 1_000_000, seconds > 0), unreadable


def _texts(values: list[str]) -> pa.Array:
    return pa.array([value or None for value in values], pa.string())


def _numbers(values: list[Any]) -> pa.Array:
    return pa.array(values, pa.float64())
