"""From sacct's fields to canonical jobs: what the text and the JSON form of Slurm's accounting have in common.

What is odd about the data, and what is made of it:
- Requests are read from ReqTRES, ReqCPUS, ReqNodes, ReqGRES and ReqMem. Allocations (AllocTRES, NCPUS, NNodes) are known only
  after the start and stand in for a missing request only where the cluster file says so.
- A job that has not ended has no end, whatever the log writes there. A job that has ended must have one.
- A job cancelled while it waited shows its cancellation as start and end, and "None assigned" as its nodes: it never started.
- The clock's repeated hour is resolved by Elapsed where the log has it.
- Elapsed leaves out suspended time; the runtime here is end - start, the time the job held its nodes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.sources.batch import Batch, Reject
from runcast.data.sources.durations import Limit, duration_s, time_limit, time_limit_of_minutes
from runcast.data.sources.record import LATEST_US, Instants, floats, in_order, jobs_table, refuse, sources
from runcast.data.sources.slurm_ids import ARRAY_REST, ARRAY_TASK, JOB_ID, STEP_ID, array_task_count
from runcast.data.sources.slurm_resources import Memory, Tres, gres_per_node, memory, tres
from runcast.data.sources.times import Times, microseconds, parse_times
from runcast.data.states import OPEN_STATES, OTHER, STATES, canonical_states

#: sacct fields that are read, in lower case; a log may hold them in any order and others beside them.
FIELDS = frozenset(
    """
    jobid jobidraw cluster state submit start end elapsed elapsedraw user group account partition qos jobname workdir
    reqtres reqgres reqcpus reqnodes reqmem alloctres alloccpus allocnodes ncpus nnodes nodelist timelimit timelimitraw restarts
    """.split()  # noqa: SIM905 - a list of words
)

#: Ended states in which a job may never have started; in the others a missing start is a fault of the log.
_MAY_NEVER_START = frozenset(
    {"CANCELLED", "FAILED", "DEADLINE", "NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED", "UPDATE_DB", OTHER}
)
#: States of a job that was started before and is queued again: the record's start and end are those of the attempt before.
WAITS_AGAIN = frozenset({"REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})

_KINDS = {"unlimited": "unlimited", "absent": "absent", "unreadable": "absent"}
_NO_WORDS = pa.array(["", "(null)", "N/A", "NULL", "None", "Unknown", "null"])
_NO_NODES = pa.array(["None assigned", "", "(null)", "None", "N/A", "Unknown"])


T = TypeVar("T")


class SlurmOptions(BaseModel):
    """Options that both Slurm formats take."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    allocated_as_requested: bool = False  # a log without ReqTRES and the like: take what was allocated for what was asked
    slurm_cluster: str | None = None  # of a log that holds several clusters (sacct --allclusters): the one to read


@dataclass(frozen=True)
class Fields:
    """Records of one file as columns: text (plain or dictionary) by sacct's field name in lower case, "" or null where empty.

    `lines` is the 1-based line (or record number) of each; `raw` returns the text of the record at a position.
    """

    columns: Mapping[str, pa.Array]
    lines: np.ndarray
    file: str
    raw: Callable[[int], str]

    def take(self, rows: np.ndarray) -> "Fields":
        chosen = pa.array(rows)
        return Fields(
            {name: column.take(chosen) for name, column in self.columns.items()},
            self.lines[rows],
            self.file,
            lambda at: self.raw(int(rows[at])),
        )


@dataclass(frozen=True)
class Rows:
    """Canonical jobs, one for each accepted record, with what the joining of attempts needs beside them.

    `reached_us` is the latest moment the record knows of; `end_us` the end of its attempt, also of a requeued one (0: none);
    `started_us` that attempt's start (0: none).
    """

    jobs: pa.Table
    reached_us: np.ndarray
    started_us: np.ndarray
    end_us: np.ndarray
    restarts: np.ndarray

    def take(self, rows: np.ndarray) -> "Rows":
        beside = (values[rows] for values in (self.reached_us, self.started_us, self.end_us, self.restarts))
        return Rows(self.jobs.take(pa.array(rows)), *beside)


@dataclass
class Tally:
    """What was not accepted, and what was accepted but is odd."""

    rejects: list[Reject] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str, count: int) -> None:
        if count:
            self.skipped[reason] = self.skipped.get(reason, 0) + count

    def note(self, name: str, count: int) -> None:
        if count:
            self.notes[name] = self.notes.get(name, 0) + int(count)

    def batch(self, jobs: pa.Table) -> Batch:
        """Return `jobs` with this tally, rejects in the file's order."""
        return Batch(jobs, in_order(self.rejects), self.skipped, self.notes)


def require_fields(found: Iterable[str], where: str) -> None:
    """Raise SourceError naming what is missing for a runtime to be known: an id, submission, state, and start and end."""
    have = set(found)
    missing = [] if have & {"jobid", "jobidraw"} else ["JobID"]
    missing += [name for name, key in (("Submit", "submit"), ("State", "state")) if key not in have]
    elapsed = bool(have & {"elapsed", "elapsedraw"})
    if ("start" in have) + ("end" in have) + elapsed < 2:
        missing += [
            name for name in ("Start", "End", "Elapsed") if name.lower() not in have and not (name == "Elapsed" and elapsed)
        ]
    if missing:
        raise SourceError(
            f"{where}: the log lacks {', '.join(missing)}; a runtime needs JobID, Submit, State and two of Start, End, Elapsed. "
            "Export again with sacct --parsable2 --format=JobID,Submit,Start,End,Elapsed,State,..."
        )


def job_ids(columns: Mapping[str, pa.Array]) -> pa.Array:
    """Return the ids that jobs are known by: JobID, or JobIDRaw where the log lacks it."""
    return columns["jobid"] if "jobid" in columns else columns["jobidraw"]


def canonical_rows(fields: Fields, cluster: Cluster, options: SlurmOptions, tally: Tally) -> Rows:
    """Turn records into canonical rows; steps are skipped, and what cannot be a job is rejected, both into `tally`."""
    fields = _without_other_records(fields, options, tally)
    columns, rows = fields.columns, len(fields.lines)
    states = canonical_states(columns["state"])
    is_open = _is_one_of(states, OPEN_STATES)
    times = {
        name: parse_times(_plain(columns[name]), cluster.time_zone) for name in ("submit", "start", "end") if name in columns
    }
    elapsed_s, elapsed_bad = _elapsed(columns, rows)
    submit = Instants(*microseconds(times["submit"].utc))
    no_nodes = _no_nodes(columns, rows)
    waits = is_open & ~_is_one_of(states, {s for s in OPEN_STATES if STATES[s] == "censored"})
    start, end, flags = _span(times, elapsed_s, is_open, waits, rows)
    waits_again = _is_one_of(states, WAITS_AGAIN)
    raw_end = Instants(end.us, end.known & (~is_open | waits_again))
    end = Instants(end.us, end.known & ~is_open)
    before = Instants(start.us, start.known & waits_again & (start.us >= submit.us))  # start of the attempt that was requeued
    start = Instants(start.us, start.known & ~waits)
    unstarted = ~is_open & start.known & end.known & no_nodes & (end.us <= start.us) & (np.nan_to_num(elapsed_s) == 0)
    start = Instants(start.us, start.known & ~unstarted)
    may_not_start = waits | _is_one_of(states, _MAY_NEVER_START)

    faults: dict[str, np.ndarray] = {
        "submit_missing": times["submit"].missing,
        "submit_unreadable": times["submit"].unreadable,
        "submit_nonexistent": times["submit"].nonexistent,
        "elapsed_unreadable": elapsed_bad,
    }
    for name in ("start", "end"):
        if name in times:
            read = ~is_open if name == "end" else ~waits
            faults[f"{name}_unreadable"] = times[name].unreadable & read
            faults[f"{name}_nonexistent"] = times[name].nonexistent & read
    faults["end_missing"] = ~is_open & ~end.known
    faults["start_missing"] = ~start.known & ~may_not_start & ~unstarted
    faults["start_before_submit"] = start.known & (start.us < submit.us)
    faults["end_before_start"] = start.known & end.known & (end.us < start.us)
    faults["end_before_submit"] = ~start.known & end.known & (end.us < submit.us)
    faults["time_out_of_range"] = np.maximum(np.maximum(submit.us, start.us), end.us) >= LATEST_US
    rejects, good = refuse(faults, fields.lines, fields.raw, fields.file)
    tally.rejects += rejects
    if len(good) < rows:
        fields, states = fields.take(good), states.take(pa.array(good))
        columns, rows = fields.columns, len(good)
        submit, start, end, raw_end = (t.take(good) for t in (submit, start, end, raw_end))
        before = before.take(good)
        is_open, elapsed_s = is_open[good], elapsed_s[good]
        flags = {name: mask[good] for name, mask in flags.items()}

    ran = start.known & end.known
    differs = ran & ~np.isnan(elapsed_s) & (np.abs((end.us - start.us) / 1e6 - elapsed_s) > 1)
    ids = _plain(job_ids(columns))
    arrays, rest = _arrays(ids, rows, tally)
    flags |= {
        "never_started": ~start.known & ~is_open,
        "requeued": _is_one_of(states, WAITS_AGAIN),
        "unknown_state": _is_one_of(states, {OTHER}),
        "duration_differs": differs,
        "array_rest": rest,
    }
    requested, request_flags = _request(columns, rows, cluster, options, tally)
    flags |= request_flags
    restarts = _restarts(columns, rows)
    begun = Instants(np.where(before.known, before.us, start.us), before.known | start.known)
    for name, mask in flags.items():
        tally.note(name, mask.sum())
    jobs = jobs_table(
        cluster,
        {
            "job_id": ids,
            "state": states,
            "source": sources(fields.file, fields.lines),
            "user": _word(columns, "user", rows),
            "group": _word(columns, "group", rows),
            "account": _word(columns, "account", rows),
            "queue": _word(columns, "partition", rows),
            "qos": _word(columns, "qos", rows),
            "job_name": _word(columns, "jobname", rows),
            "work_dir": _word(columns, "workdir", rows),
            "node_list": _word(columns, "nodelist", rows, _NO_NODES),
            **arrays,
            **requested,
        },
        submit=submit,
        start=start,
        end=end,
        flags=flags,
        attempts=begun.known + restarts,
        first_start=Instants(begun.us, begun.known & (restarts == 0)),
    )
    return Rows(jobs, np.maximum.reduce([submit.us, begun.us, raw_end.us]), begun.us, raw_end.us, restarts)


def _without_other_records(fields: Fields, options: SlurmOptions, tally: Tally) -> Fields:
    """Leave out steps, ids that are none, and the jobs of other clusters."""
    ids = _plain(job_ids(fields.columns))
    is_job = _mask(pc.ascii_is_decimal(ids))
    if not is_job.all():
        is_job |= _mask(pc.match_substring_regex(ids, JOB_ID))
    if not is_job.all():
        is_step = _mask(pc.match_substring_regex(ids, STEP_ID))
        is_header = _mask(pc.is_in(pc.utf8_lower(ids), value_set=pa.array(["jobid", "jobidraw"])))
        tally.skip("step", int(is_step.sum()))
        tally.skip("repeated_header", int(is_header.sum()))
        rejects, _ = refuse({"job_id_unreadable": ~is_job & ~is_step & ~is_header}, fields.lines, fields.raw, fields.file)
        tally.rejects += rejects
        fields = fields.take(np.flatnonzero(is_job))
    if "cluster" not in fields.columns or options.slurm_cluster is None:
        return fields
    is_ours = _mask(pc.equal(_plain(fields.columns["cluster"]), options.slurm_cluster))
    if is_ours.all():
        return fields
    tally.skip("other_cluster", int((~is_ours).sum()))
    return fields.take(np.flatnonzero(is_ours))


def _span(
    times: Mapping[str, Times], elapsed_s: np.ndarray, is_open: np.ndarray, waits: np.ndarray, rows: int
) -> tuple[Instants, Instants, dict[str, np.ndarray]]:
    """Find start and end: as written, by Elapsed where the log has only one of them, and the right one of a repeated hour."""
    start, end = (Instants(*microseconds(times[n].utc)) if n in times else Instants.none(rows) for n in ("start", "end"))
    lasted = ~np.isnan(elapsed_s)
    lasted_us = np.round(np.where(lasted, elapsed_s, 0) * 1e6).astype(np.int64)
    if "end" not in times:
        end = Instants(start.us + lasted_us, start.known & lasted & ~is_open)
    if "start" not in times:
        start = Instants(end.us - lasted_us, end.known & lasted & ~is_open)
    unread = {"start": waits, "end": is_open}
    unsure = np.zeros(rows, bool)
    for name in times:
        unsure |= times[name].ambiguous & ~unread.get(name, np.zeros(rows, bool))
    if unsure.any() and "start" in times and "end" in times:
        start, end = _of_repeated_hour(times, start, end, lasted, lasted_us)
    return start, end, {"clock_ambiguous": unsure}


def _of_repeated_hour(
    times: Mapping[str, Times], start: Instants, end: Instants, lasted: np.ndarray, lasted_us: np.ndarray
) -> tuple[Instants, Instants]:
    """Choose among first and second instants those that agree best with Elapsed, or at least with their order."""
    later_start, later_end = (Instants(*microseconds(times[name].second)) for name in ("start", "end"))
    best_start, best_end = start.us, end.us
    best = _strain(start.us, end.us, lasted, lasted_us)
    for s, e in ((start, later_end), (later_start, later_end), (later_start, end)):
        strain = _strain(s.us, e.us, lasted, lasted_us)
        better = strain < best
        best_start, best_end = np.where(better, s.us, best_start), np.where(better, e.us, best_end)
        best = np.minimum(best, strain)
    return Instants(best_start, start.known), Instants(best_end, end.known)


def _strain(start_us: np.ndarray, end_us: np.ndarray, lasted: np.ndarray, lasted_us: np.ndarray) -> np.ndarray:
    span = end_us - start_us
    strain: np.ndarray = np.where(lasted, np.abs(span - lasted_us), np.maximum(-span, 0))
    return strain


def _elapsed(columns: Mapping[str, pa.Array], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return elapsed seconds (NaN where not given) and the mask of what is there but is no duration, such as a negative one."""
    for name, read in (("elapsedraw", _whole_seconds), ("elapsed", duration_s)):
        if name in columns:
            text = _without(_plain(columns[name]), _NO_WORDS)
            values = _each(text, read, pa.float64())
            return _numbers(values), _mask(pc.is_valid(text)) & ~_mask(pc.is_valid(values))
    return np.full(rows, np.nan), np.zeros(rows, bool)


def _whole_seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


def _request(
    columns: Mapping[str, pa.Array], rows: int, cluster: Cluster, options: SlurmOptions, tally: Tally
) -> tuple[dict[str, pa.Array], dict[str, np.ndarray]]:
    """Read what was asked for: counts, memory and time limit."""
    asked = _tres_columns(columns, "reqtres", rows)
    got = _tres_columns(columns, "alloctres", rows) if options.allocated_as_requested else None
    cpus = _first_known(asked.cpus, _number_column(columns, "reqcpus", rows))
    nodes = _first_known(asked.nodes, _number_column(columns, "reqnodes", rows))
    gpus, models = asked.gpus, asked.models
    if "reqgres" in columns:
        per_node = _each_of(columns["reqgres"], gres_per_node)
        unset = np.isnan(gpus)
        gpus = np.where(unset, _picked(per_node, lambda g: g.total) * nodes, gpus)
        models = pc.if_else(pa.array(unset), _picked_text(per_node, lambda g: g.model), models)
    from_allocation = np.zeros(rows, bool)
    if got is not None:
        unset = np.isnan(gpus) & ~np.isnan(got.gpus)
        models = pc.if_else(pa.array(unset), got.models, models)
        filled_cpus = _first_known(cpus, got.cpus, *(_number_column(columns, n, rows) for n in ("alloccpus", "ncpus")))
        filled_nodes = _first_known(nodes, got.nodes, *(_number_column(columns, n, rows) for n in ("allocnodes", "nnodes")))
        from_allocation = unset | (np.isnan(cpus) & ~np.isnan(filled_cpus)) | (np.isnan(nodes) & ~np.isnan(filled_nodes))
        gpus, cpus, nodes = _first_known(gpus, got.gpus), filled_cpus, filled_nodes
    if cluster.gpus_tracked:
        gpus = np.where(np.isnan(gpus) & asked.given, 0.0, gpus)
    mem_mib = _first_known(asked.mem_mib, _memory(columns, cpus, nodes, tally), *([got.mem_mib] if got else []))
    limits, kinds = _limits(columns, rows, cluster, tally)
    requested = {
        "cpu_count": floats(cpus, ~np.isnan(cpus)),
        "node_count": floats(nodes, ~np.isnan(nodes)),
        "gpu_count": floats(gpus, ~np.isnan(gpus)),
        "gpu_model": models,
        "mem_mib": floats(mem_mib, ~np.isnan(mem_mib)),
        "time_limit_s": limits,
        "time_limit_kind": kinds,
    }
    return requested, {"allocated_as_requested": from_allocation}


@dataclass(frozen=True)
class _TresColumns:
    given: np.ndarray
    cpus: np.ndarray
    nodes: np.ndarray
    mem_mib: np.ndarray
    gpus: np.ndarray
    models: pa.Array


def _tres_columns(columns: Mapping[str, pa.Array], name: str, rows: int) -> _TresColumns:
    if name not in columns:
        nan = np.full(rows, np.nan)
        return _TresColumns(np.zeros(rows, bool), nan, nan, nan, nan, pa.nulls(rows, pa.string()))
    lists: _Looked[Tres] = _each_of(columns[name], tres)
    cpus = _picked(lists, lambda t: t.cpus)
    return _TresColumns(
        given=~np.isnan(cpus),  # every TRES list names CPUs; "" and N/A do not
        cpus=cpus,
        nodes=_picked(lists, lambda t: t.nodes),
        mem_mib=_picked(lists, lambda t: t.mem_mib),
        gpus=_picked(lists, lambda t: t.gpus.total),
        models=_picked_text(lists, lambda t: t.gpus.model),
    )


def _memory(columns: Mapping[str, pa.Array], cpus: np.ndarray, nodes: np.ndarray, tally: Tally) -> np.ndarray:
    """Return ReqMem in MiB for the whole job, NaN where it is not given or not understood."""
    if "reqmem" not in columns:
        return np.full(len(cpus), np.nan)
    asked: _Looked[Memory] = _each_of(columns["reqmem"], memory)
    tally.note("memory_unreadable", _count(asked, lambda m: not m.readable))
    return _first_known(
        _picked(asked, lambda m: m.mib if m.scope == "job" else None),
        _picked(asked, lambda m: m.mib if m.scope == "node" else None) * nodes,
        _picked(asked, lambda m: m.mib if m.scope == "cpu" else None) * cpus,
    )


def _limits(columns: Mapping[str, pa.Array], rows: int, cluster: Cluster, tally: Tally) -> tuple[pa.Array, pa.Array]:
    for name, read in (("timelimit", time_limit), ("timelimitraw", time_limit_of_minutes)):
        if name in columns:
            limits: _Looked[Limit] = _each_of(columns[name], read)
            seconds = _picked(limits, lambda limit: limit.seconds)
            tally.note("time_limit_unreadable", _count(limits, lambda limit: limit.kind == "unreadable"))
            return floats(seconds, ~np.isnan(seconds)), _picked_text(
                limits, lambda limit: _KINDS.get(limit.kind, cluster.time_limit)
            )
    return pa.nulls(rows, pa.float64()), pa.repeat("absent", rows)


def _arrays(ids: pa.Array, rows: int, tally: Tally) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Read array id and task of each job, and which rows stand for all tasks of an array that have not started."""
    is_rest = np.zeros(rows, bool)
    if not _mask(pc.match_substring(ids, "_")).any():
        return {}, is_rest
    task = pc.extract_regex(ids, ARRAY_TASK)
    rest = pc.extract_regex(ids, ARRAY_REST)
    is_rest = _mask(pc.is_valid(rest))
    for tasks in pc.struct_field(rest, "tasks").drop_null().to_pylist():
        tally.note("array_rest_tasks", array_task_count(tasks) or 1)
    array_id = pc.coalesce(pc.struct_field(task, "array"), pc.struct_field(rest, "array"))
    number = pc.struct_field(task, "task").cast(pa.int64())
    return {"array_id": array_id, "array_task": pc.if_else(pc.less(number, 2**31), number, None).cast(pa.int32())}, is_rest


def _restarts(columns: Mapping[str, pa.Array], rows: int) -> np.ndarray:
    counted = _number_column(columns, "restarts", rows)
    return np.where(np.isnan(counted), 0, np.minimum(counted, 1_000_000)).astype(np.int64)


def _no_nodes(columns: Mapping[str, pa.Array], rows: int) -> np.ndarray:
    """Tell which records were given no nodes; False where the log does not say."""
    if "nodelist" in columns:
        return _mask(pc.is_null(_word(columns, "nodelist", rows, _NO_NODES)))
    if "alloctres" in columns:
        return ~_tres_columns(columns, "alloctres", rows).given
    return np.zeros(rows, bool)


@dataclass(frozen=True)
class _Looked(Generic[T]):
    """What each distinct text of a column was read as, and which of them each row has (the last one: null)."""

    values: list[T]
    at: np.ndarray


def _each_of(column: pa.Array, read: Callable[[str], T]) -> _Looked[T]:
    """Read each distinct text of a column once; a null is read as ""."""
    encoded = column.dictionary_encode()  # a dictionary column is returned as it is
    at = pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    return _Looked([read(text) for text in encoded.dictionary.to_pylist()] + [read("")], at)


def _each(column: pa.Array, read: Callable[[str], Any], kind: pa.DataType) -> pa.Array:
    encoded = column.dictionary_encode()
    return pa.array([read(text) for text in encoded.dictionary.to_pylist()], kind).take(encoded.indices)


def _picked(looked: _Looked[T], part: Callable[[T], float | None]) -> np.ndarray:
    values = [part(value) for value in looked.values]
    numbers: np.ndarray = np.array([np.nan if value is None else value for value in values], dtype=np.float64)[looked.at]
    return numbers


def _count(looked: _Looked[T], is_counted: Callable[[T], bool]) -> int:
    counted = np.array([is_counted(value) for value in looked.values])
    return int(counted[looked.at].sum())


def _picked_text(looked: _Looked[T], part: Callable[[T], str | None]) -> pa.Array:
    return pa.array([part(value) for value in looked.values], pa.string()).take(pa.array(looked.at))


def _number_column(columns: Mapping[str, pa.Array], name: str, rows: int) -> np.ndarray:
    """Read whole numbers, the first of `2-4`; NaN where there is none. Nothing of zero CPUs or nodes was ever asked for."""
    if name not in columns:
        return np.full(rows, np.nan)
    return _numbers(_each(columns[name], _whole_number, pa.float64()))


def _whole_number(text: str) -> float | None:
    first = text.partition("-")[0].strip()
    return float(first) if first.isascii() and first.isdigit() and len(first) < 16 and int(first) else None


def _numbers(values: pa.Array) -> np.ndarray:
    numbers: np.ndarray = pc.fill_null(values, np.nan).to_numpy(zero_copy_only=False)
    return numbers


def _first_known(*columns: np.ndarray) -> np.ndarray:
    found = columns[0]
    for column in columns[1:]:
        found = np.where(np.isnan(found), column, found)
    return found


def _word(columns: Mapping[str, pa.Array], name: str, rows: int, none: pa.Array = _NO_WORDS) -> pa.Array:
    """Return a text column with every word for none as null."""
    if name not in columns:
        return pa.nulls(rows, pa.string())
    column = columns[name]
    if pa.types.is_dictionary(column.type):
        return _without(column.dictionary, none).take(column.indices)
    return _without(column, none)


def _plain(column: pa.Array) -> pa.Array:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def _without(column: pa.Array, words: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_in(column, value_set=words), pa.scalar(None, pa.string()), column)


def _is_one_of(states: pa.Array, names: Iterable[str]) -> np.ndarray:
    return _mask(pc.is_in(states, value_set=pa.array(sorted(names))))


def _mask(values: pa.Array) -> np.ndarray:
    mask: np.ndarray = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return mask
