"""Grid Engine (SGE 6, Open Grid Scheduler, Son of Grid Engine, Univa's and Altair's 8): the file `accounting` of a cell, as written.

A line is a record of a job, or of a task of an array, that has ended (accounting(5), sge_status(5)):
- Times are seconds since 1970, or milliseconds (from 8.2 on): numbers of 12 digits and more are milliseconds.
- `failed` says whether SGE could start the job and whether it let it end; `exit_status` is the shell's, 128 and above a signal.
- A record for each slave of a parallel job (pe_taskid) is part of that job and is passed over.
- A job that could not be started, or was rescheduled, has a record of each try: they are attempts of the last one. The first tries
  are without times in UGE; without a later record of the job nothing is known but its number, and they are passed over.
- Projects are accounts, departments (else Unix groups) are groups. The queue is the one the job ran in.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from runcast.data.cluster import Cluster
from runcast.data.errors import Quoted, SourceError
from runcast.data.sources.batch import Batch, Reject
from runcast.data.sources.blocks import read_blocks, text_of
from runcast.data.sources.record import Instants, counted, in_order, jobs_table, out_of_range, refuse, sources
from runcast.data.sources.sge_lines import FIELDS, split_records
from runcast.data.sources.sge_requests import Request, read_category

#: `failed` of a try that never became the job: before it (prolog, parallel environment, shell, directory, daemons).
_NOT_STARTED = frozenset({*range(1, 12), *range(26, 30), *range(31, 37), 38})
_AGAIN = (24, 25)  # migrating, rescheduling: the job waits again
_HOST_FAULTS = range(18, 24)  # the shepherd or its exit status is lost, the job is not known to the host
_BY_SIGNAL = (17, 100)
_LIMITS = (37, 44)  # the master's limit on time or memory; the host's h_rt
_LAST_KNOWN = frozenset({0, 12, 13, 14, 15, 16, 30})  # the job itself ended: its exit status says how
#: Sent at limits and by qdel: KILL, TERM, and USR1, USR2, XCPU as the warnings before.
_FROM_OUTSIDE = (9, 10, 12, 15, 24)
_AT_LIMIT_S = 5.0  # a host looks every few seconds whether a job has outlived its limit
_CLOCKS_DIFFER_US = 60_000_000  # the master's clock writes the submission, a host's the start
_MILLISECONDS_FROM = 10**11
_FOREIGN_LINES = 1000  # without a record among them a file is something else
_SIGNALS_FROM = 128  # a shell adds it to the number of a signal
_NONE = pa.array(["", "NONE", "(null)", "UNKNOWN", "defaultdepartment"], pa.string())


class Options(BaseModel):
    """`source.options` of a Grid Engine log."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    gpu_resources: tuple[str, ...] = ("gpu", "gpus", "ngpus", "num_gpus")  # what `-l` calls GPUs; the first that a job asks for
    gpus_per: Literal["slot", "job"] = "slot"  # slot: a consumable YES, multiplied by the slots; job: a consumable JOB
    memory_resources: tuple[str, ...] = ("h_vmem", "m_mem_free", "mem_free", "virtual_free", "h_rss")  # what `-l` calls memory
    memory_per: Literal["slot", "job"] = "slot"  # as gpus_per
    queue: Literal["ran", "requested"] = "ran"  # requested: `-q` of the job, null without; for sites that choose by host or load


@dataclass(frozen=True)
class _Earlier:
    """The tries of a job before: how many, and when the first began (0: not known)."""

    tries: int
    first_start_us: int


@dataclass(frozen=True)
class _Rows:
    """Records by field (and `id`), with their lines, raw texts, times, and the tries before them."""

    fields: dict[str, pa.Array]
    lines: np.ndarray
    raw: list[str]
    earlier: list[_Earlier | None]

    def take(self, at: list[int]) -> "_Rows":
        if len(at) == len(self.raw):
            return self
        places = pa.array(at, pa.int64())
        fields = {name: column.take(places) for name, column in self.fields.items()}
        return _Rows(fields, self.lines[at], [self.raw[one] for one in at], [self.earlier[one] for one in at])


@dataclass(frozen=True)
class _Waiting:
    """A record whose job may have a later one."""

    line: int
    raw: str
    fields: dict[str, str]
    earlier: _Earlier | None


def read(path: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield the jobs of one accounting file in its order, then those whose last record says that they could not be started.

    Raises SourceError where the first thousand lines hold no record.
    """
    log = _Log(path, cluster)
    for block in read_blocks(path):
        rows = log.take(block.first_line, text_of(block.data))
        log.check(_FOREIGN_LINES)
        yield log.batch(rows)
    log.check(1)
    if log.waiting:
        yield log.batch(log.left())


class _Log:
    """What has been read of a file: tries of jobs that may go on, by id and submission, and counts for the next batch."""

    def __init__(self, path: Path, cluster: Cluster) -> None:
        self.waiting: dict[tuple[str, int], _Waiting] = {}
        self._path, self._cluster = path, cluster
        self._options = Options.model_validate(cluster.source.options)
        self._earlier: dict[str, dict[int, _Earlier]] = {}  # by submission; 0 where a try does not say
        self._skipped: Counter[str] = Counter()
        self._rejects: list[Reject] = []
        self._has_record = False
        self._foreign: list[str] = []  # lines before the first record

    def take(self, first_line: int, text: str) -> _Rows:
        """Read whole lines; return the records that are the last of their jobs, as far as can be seen."""
        numbered = [(line, raw) for line, raw in enumerate(text.split("\n")[:-1], first_line) if len(raw) > 1 and raw[0] != "#"]
        raw = [one for _, one in numbered]
        fields, at = split_records(raw)
        lines = np.array([line for line, _ in numbered], np.int64)
        unreadable = np.delete(np.arange(len(raw)), at).tolist()
        self._has_record |= bool(len(at))
        self._rejects += [Reject(self._path.name, int(lines[i]), "unreadable_line", "", raw[i]) for i in unreadable]
        self._foreign += [] if self._has_record else [raw[i] for i in unreadable]
        fields["id"] = _ids(fields)
        rows = _Rows(fields, lines[at], [raw[i] for i in map(int, at)], [None] * len(at))
        return rows.take(self._last_of_jobs(rows))

    def _last_of_jobs(self, rows: _Rows) -> list[int]:
        """Return where a record ends its job; tries before it are counted and set aside."""
        submit, start = (_instants(rows.fields[name]) for name in ("submit", "start"))
        failed = rows.fields["failed"].cast(pa.int64()).to_numpy()
        is_slave = pc.not_equal(rows.fields["pe_task"], "NONE").to_numpy(zero_copy_only=False)
        is_plain = (failed == 0) & ~is_slave & (submit.known | start.known)
        keep = []
        jobs = zip(rows.fields["id"].to_pylist(), submit.us.tolist(), is_plain.tolist(), strict=True)
        for at, (job_id, submit_us, plain) in enumerate(jobs):
            if plain and job_id not in self._earlier:
                keep.append(at)
            elif is_slave[at]:
                self._skipped["slave_of_parallel_job"] += 1
            elif not (submit.known[at] or start.known[at]):
                self._skipped["without_times"] += 1
                self._count(job_id, 0, 0)
            else:
                rows.earlier[at] = self._tries(job_id, submit_us)
                self._skipped["earlier_attempt"] += self.waiting.pop((job_id, submit_us), None) is not None
                if plain:
                    keep.append(at)
                    continue
                self._count(job_id, submit_us, int(start.us[at]), rows.earlier[at])
                if failed[at] in _NOT_STARTED or failed[at] in _AGAIN:
                    fields = {name: column[at].as_py() for name, column in rows.fields.items()}
                    self.waiting[job_id, submit_us] = _Waiting(int(rows.lines[at]), rows.raw[at], fields, rows.earlier[at])
                else:
                    keep.append(at)
        return keep

    def _count(self, job_id: str, submit_us: int, start_us: int, before: _Earlier | None = None) -> None:
        tries = self._earlier.setdefault(job_id, {})
        before = before or tries.get(submit_us) or _Earlier(0, start_us)
        tries[submit_us] = _Earlier(before.tries + 1, before.first_start_us)

    def _tries(self, job_id: str, submit_us: int) -> _Earlier | None:
        """Take what has been counted of this job: tries without times, and those with its submission."""
        tries = self._earlier.get(job_id, {})
        some = [tries.pop(at) for at in (0, submit_us) if at in tries]
        if not tries:
            self._earlier.pop(job_id, None)
        return _Earlier(sum(one.tries for one in some), some[0].first_start_us) if some else None

    def left(self) -> _Rows:
        """Return the records of the jobs that were not started and have no later record, in the order of their lines."""
        rows = sorted(self.waiting.values(), key=lambda row: row.line)
        fields = {name: pa.array([row.fields[name] for row in rows], pa.string()) for name in (*FIELDS, "id")}
        return _Rows(fields, np.array([row.line for row in rows]), [row.raw for row in rows], [row.earlier for row in rows])

    def check(self, most: int) -> None:
        """Raise SourceError where the file has held so many lines that are no records, and no record."""
        if not self._has_record and len(self._foreign) >= most:
            raise SourceError(
                f"{self._path}: no record of a Grid Engine accounting file (43 fields or more between colons) but ",
                Quoted(self._foreign[0][:80]),
                ". Name the file `accounting` itself, not what qacct prints of it.",
            )

    def batch(self, rows: _Rows) -> Batch:
        """Return the rows as canonical jobs, with what was refused and passed over since the last batch."""
        jobs, rejects, notes = _jobs(self._cluster, self._options, self._path.name, rows)
        done = Batch(jobs, in_order(self._rejects, rejects), +self._skipped, notes)
        self._rejects, self._skipped = [], Counter()
        return done


def _jobs(cluster: Cluster, options: Options, file: str, rows: _Rows) -> tuple[pa.Table, list[Reject], dict[str, int]]:
    submit, first, end = (_instants(rows.fields[name]) for name in ("submit", "start", "end"))
    failed, status = (rows.fields[name].cast(pa.int64()).to_pylist() for name in ("failed", "exit_status"))
    again, never = np.isin(failed, _AGAIN), np.isin(failed, list(_NOT_STARTED))
    start = Instants(first.us, first.known & ~again & ~never)
    end = Instants(end.us, end.known & ~again)
    early_us = np.where(start.known, submit.us - start.us, 0)
    is_early = submit.known & (early_us > 0) & (early_us <= _CLOCKS_DIFFER_US)
    submit = Instants(submit.us - np.where(is_early, early_us, 0), submit.known)
    requests = [
        read_category(text, options.gpu_resources, options.memory_resources) for text in rows.fields["category"].to_pylist()
    ]
    ran_s = np.where(start.known & end.known, (end.us - start.us) / 1e6, np.nan).tolist()
    deleted = pc.is_valid(_named(rows.fields["deleted_by"])).to_pylist()
    told = zip(failed, status, deleted, start.known.tolist(), ran_s, requests, strict=True)
    states = [_state(*one) for one in told]
    faults = {
        "submit_missing": ~submit.known,
        "end_missing": start.known & ~end.known,
        "start_before_submit": start.known & (start.us < submit.us),
        "end_before_start": start.known & end.known & (end.us < start.us),
        "end_before_submit": end.known & (end.us < submit.us),
        "time_out_of_range": out_of_range(submit, start, end),
    }
    rejects, keep = refuse(faults, rows.lines, lambda at: rows.raw[at], file)
    places = keep.tolist()
    kept, tries = rows.take(places), np.array([one.tries if one else 0 for one in rows.earlier], np.int64)[keep]
    first_us = np.array([one.first_start_us if one else 0 for one in rows.earlier], np.int64)[keep]
    start = start.take(keep)
    flags = {"never_started": ~start.known & ~again[keep], "requeued": tries > 0, "start_before_submit": is_early[keep]}
    columns = _columns(kept.fields, [requests[at] for at in places], cluster, options)
    columns |= {"state": pa.array([states[at] for at in places], pa.string()), "source": sources(file, kept.lines)}
    submit = submit.take(keep)
    first_us = np.where(tries > 0, first_us, start.us)
    first_start = Instants(first_us, (first_us >= submit.us) & ((tries > 0) | start.known))
    jobs = jobs_table(
        cluster, columns, submit=submit, start=start, end=end.take(keep), flags=flags, first_start=first_start,
        attempts=np.where(start.known | again[keep], tries + start.known, 0),
    )  # fmt: skip
    return jobs, rejects, counted(flags)


def _columns(fields: dict[str, pa.Array], requests: list[Request], cluster: Cluster, options: Options) -> dict[str, pa.Array]:
    named = {name: _named(fields[name]) for name in ("user", "host", "group", "department", "project", "queue", "work_dir")}
    slots = [float(count) if count > 0 else None for count in fields["slots"].cast(pa.int64()).to_pylist()]
    task = fields["task"].cast(pa.int64())
    is_task = pc.greater(task, 0)
    account = pc.if_else(pc.equal(fields["account"], "sge"), None, _named(fields["account"]))
    none = 0.0 if cluster.gpus_tracked else None
    gpus = [_of_job(one.gpus, options.gpus_per, n) if one.gpus != 0 else none for one, n in zip(requests, slots, strict=True)]
    memory = [_of_job(one.mem_mib, options.memory_per, n) for one, n in zip(requests, slots, strict=True)]
    queue = pa.array([one.queue or None for one in requests], pa.string()) if options.queue == "requested" else named["queue"]
    is_one_node = pc.equal(fields["granted_pe"], "NONE")
    return {
        "job_id": fields["id"],
        "array_id": pc.if_else(is_task, fields["number"], None),
        "array_task": pc.if_else(is_task, task, None).cast(pa.int32()),
        "user": named["user"],
        "group": pc.coalesce(named["department"], named["group"]),
        "account": pc.coalesce(named["project"], account),
        "queue": queue,
        "job_name": fields["job_name"],
        "work_dir": named["work_dir"],
        "node_list": named["host"],
        "node_count": pc.if_else(is_one_node, 1.0, pa.scalar(None, pa.float64())),
        "cpu_count": pa.array(slots, pa.float64()),
        "gpu_count": pa.array(gpus, pa.float64()),
        "mem_mib": pa.array(memory, pa.float64()),
        "time_limit_s": pa.array([one.limit_s for one in requests], pa.float64()),
    }


def _of_job(amount: float | None, per: Literal["slot", "job"], slots: float | None) -> float | None:
    if amount is None or per == "job":
        return amount
    return None if slots is None else amount * slots


def _state(failed: int, status: int, is_deleted: bool, has_started: bool, ran_s: float, request: Request) -> str:
    if failed in _AGAIN:
        return "REQUEUED"
    if failed in _NOT_STARTED:
        return "LAUNCH_FAILED"
    if is_deleted or not has_started:
        return "CANCELLED"
    limits_s = [limit_s for limit_s in (request.limit_s, request.soft_limit_s) if limit_s is not None]
    at_limit = bool(limits_s) and ran_s >= min(limits_s) - _AT_LIMIT_S
    if failed in _LIMITS:
        return "TIMEOUT" if at_limit or failed == _LIMITS[1] else "CANCELLED"
    if failed in _BY_SIGNAL and status > _SIGNALS_FROM:
        outside = "TIMEOUT" if at_limit else "CANCELLED"
        return outside if status - _SIGNALS_FROM in _FROM_OUTSIDE else "FAILED"
    if failed in _HOST_FAULTS:
        return "NODE_FAIL"
    if failed in _LAST_KNOWN:
        return "COMPLETED" if status == 0 else "FAILED"
    return "OTHER"


def _ids(fields: dict[str, pa.Array]) -> pa.Array:
    """Return ids as qstat and qacct show them: the job's number, and of an array `number.task`."""
    tasks = pc.binary_join_element_wise(fields["number"], fields["task"], ".")
    return pc.if_else(pc.equal(fields["task"], "0"), fields["number"], tasks)


def _named(column: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_in(column, value_set=_NONE), None, column)


def _instants(texts: pa.Array) -> Instants:
    """Read seconds or milliseconds since 1970; 0 is no time."""
    number = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
    factor = np.where(number >= _MILLISECONDS_FROM, 1e3, 1e6)
    return Instants(np.round(number * factor).astype(np.int64), number > 0)
