"""Alibaba PAI, cluster-trace-gpu-v2020: tables without headers beside `.header` files (README of alibaba/clusterdata).

A path names the folder of the tables, or its pai_task_table. One row of the task table is one job here: a role (worker, ps, ...)
of a submission, with its own request. pai_job_table gives submission and user, pai_group_tag_table (where it is there) the group
tag, the workload and the GPU model asked for; both are joined by hash, tasks are streamed.
- Times are seconds moved by a constant, so that hour and weekday are true in UTC+8 and dates are not: the cluster file must say
  `clock: week` (or relative) and `time_zone: Asia/Shanghai`.
- plan_cpu and plan_gpu are hundredths, plan_mem is GiB, each for one of inst_num instances. An empty plan_gpu is unknown, unless
  gpu_type says CPU. gpu_type itself is what was assigned, known at the start, so gpu_model is the one asked for.
- Only Terminated is success.
- The runtime is the task's span. The option `label: instance_mean` takes the mean over its instances instead, which is what
  MLaaS-in-the-Wild predicts; it needs pai_instance_table.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from runcast.data.cluster import Cluster
from runcast.data.errors import ClusterFileError, Quoted, SourceError
from runcast.data.sources.batch import Batch
from runcast.data.sources.blocks import text_of
from runcast.data.sources.delimited import Piece, read_delimited
from runcast.data.sources.numbers import Numbers, read_numbers
from runcast.data.sources.record import (
    LATEST_US,
    Instants,
    blank_to_null,
    counted,
    floats,
    in_order,
    jobs_table,
    refuse,
    seconds_to_us,
    sources,
)

ZONE = "Asia/Shanghai"

_NEEDED = {
    "pai_task_table": (
        "job_name",
        "task_name",
        "inst_num",
        "status",
        "start_time",
        "end_time",
        "plan_cpu",
        "plan_mem",
        "plan_gpu",
    ),
    "pai_job_table": ("job_name", "inst_id", "user", "start_time"),
    "pai_group_tag_table": ("inst_id", "gpu_type_spec", "group", "workload"),
    "pai_instance_table": ("job_name", "task_name", "start_time", "end_time"),
}
_STATES = {"Terminated": "COMPLETED", "Failed": "FAILED", "Running": "RUNNING", "Waiting": "PENDING"}


class Options(BaseModel):
    """`source.options` of a PAI trace."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: Literal["task_span", "instance_mean"] = (
        "task_span"  # the runtime: of the task as a whole, or the mean of its instances
    )


@dataclass(frozen=True)
class _Lookup:
    """A table held in memory: the position of each key, and columns to take from."""

    keys: pa.Array
    columns: Mapping[str, pa.Array]

    def find(self, wanted: pa.Array) -> pa.Array:
        """Positions of `wanted`, null where a key is not there."""
        return pc.index_in(wanted, value_set=self.keys)


def read(path: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield the tasks of one trace in the task table's order."""
    if cluster.time_zone != ZONE or cluster.clock == "calendar":
        raise ClusterFileError(
            f"{cluster.path}: a PAI trace has time_zone {ZONE} and clock week (its hours and weekdays are true there, "
            f"its dates are not), found {cluster.time_zone} and {cluster.clock}"
        )
    options = Options.model_validate(cluster.source.options)
    tasks = find_in(path) if path.is_dir() else path
    jobs = _read_jobs(tasks.parent)
    groups = _read_groups(tasks.parent)
    means = _instance_means(tasks.parent) if options.label == "instance_mean" else None
    for piece in _pieces(tasks, "pai_task_table"):
        yield _batch(piece, jobs, groups, means, cluster, tasks.name)


def find_in(folder: Path) -> Path:
    """Return the task table of a folder; raises SourceError where there is none."""
    return _find(folder, "pai_task_table")


def _find(folder: Path, table: str) -> Path:
    """Return the one file of a table, compressed or not; raises SourceError where there is none."""
    found = sorted(p for p in folder.glob(f"{table}.csv*") if p.is_file())
    if not found:
        raise SourceError(f"{folder}: holds no {table}.csv (or .gz, .xz, .bz2, .zst)")
    return found[0]


def _pieces(path: Path, table: str) -> Iterator[Piece]:
    """Yield a table's records with the names of its `.header` file, which must fit the first line."""
    beside = path.with_name(f"{table}.header")
    if not beside.is_file():
        raise SourceError(f"{path}: the names of its columns are to stand beside it in {beside.name}, which is not there")
    header = [name.strip() for name in next(csv.reader([text_of(beside.read_bytes()).strip()]), [])]
    missing = [name for name in _NEEDED[table] if name not in header]
    if missing:
        raise SourceError(f"{beside}: names no {', '.join(missing)}; it holds ", Quoted(", ".join(header)))
    for number, piece in enumerate(read_delimited(path, header=header)):
        first = min(piece.rejects, key=lambda r: r.line, default=None)
        if number == 0 and first and (not len(piece.lines) or first.line < piece.lines[0]):
            raise SourceError(f"{path}: line {first.line} does not fit {beside.name}: {first.detail}")
        yield piece


def _gather(path: Path, table: str, names: tuple[str, ...]) -> dict[str, pa.Array]:
    parts: dict[str, list[pa.Array]] = {name: [] for name in names}
    for piece in _pieces(path, table):
        for name in names:
            parts[name].append(blank_to_null(piece.columns[name]))
    return {name: pa.chunked_array(chunks, pa.string()).combine_chunks() for name, chunks in parts.items()}


def _read_jobs(folder: Path) -> _Lookup:
    columns = _gather(_find(folder, "pai_job_table"), "pai_job_table", _NEEDED["pai_job_table"])
    return _Lookup(columns["job_name"], columns)


def _read_groups(folder: Path) -> _Lookup | None:
    if not sorted(folder.glob("pai_group_tag_table.csv*")):
        return None
    columns = _gather(_find(folder, "pai_group_tag_table"), "pai_group_tag_table", _NEEDED["pai_group_tag_table"])
    return _Lookup(columns["inst_id"], columns)


def _instance_means(folder: Path) -> _Lookup:
    """Mean runtime (s) of the ended instances of each task, by job and task name."""
    path = _find(folder, "pai_instance_table")
    totals = []
    for piece in _pieces(path, "pai_instance_table"):
        start, end = _seconds(piece.columns["start_time"]), _seconds(piece.columns["end_time"])
        ended = pa.array(start.known & end.known & (end.values >= start.values))
        names = _task_ids(blank_to_null(piece.columns["job_name"]), blank_to_null(piece.columns["task_name"]))
        table = pa.table({"task": names, "run": end.values - start.values}).filter(ended)
        totals.append(table.group_by("task", use_threads=False).aggregate([("run", "sum"), ("run", "count")]))
    if not totals:
        raise SourceError(f"{path}: holds no instance")
    whole = pa.concat_tables(totals).group_by("task", use_threads=False).aggregate([("run_sum", "sum"), ("run_count", "sum")])
    mean = pc.divide(whole["run_sum_sum"], pc.cast(whole["run_count_sum"], pa.float64()))
    return _Lookup(whole["task"].combine_chunks(), {"mean": mean.combine_chunks()})


def _batch(piece: Piece, jobs: _Lookup, groups: _Lookup | None, means: _Lookup | None, cluster: Cluster, file: str) -> Batch:
    task = {name: blank_to_null(column) for name, column in piece.columns.items()}
    at = jobs.find(task["job_name"])
    job = {name: jobs.columns[name].take(at) for name in ("inst_id", "user", "start_time")}
    submitted, started, ended = (_seconds(column) for column in (job["start_time"], task["start_time"], task["end_time"]))
    states = np.array([_STATES.get(status, "OTHER") for status in task["status"].to_pylist()], dtype=object)
    is_open = np.isin(states, ("RUNNING", "PENDING"))
    never = ~started.known & ~is_open
    submit = Instants(seconds_to_us(submitted.values), submitted.known)
    start = Instants(seconds_to_us(started.values), started.known)
    end = Instants(seconds_to_us(np.where(ended.known, ended.values, submitted.values)), ~is_open & (ended.known | never))
    ids = _task_ids(task["job_name"], task["task_name"])
    faults = {
        "job_id_missing": pc.is_null(ids).to_numpy(zero_copy_only=False),
        "job_not_in_job_table": pc.is_null(at).to_numpy(zero_copy_only=False),
        **{
            f"{n}_unreadable": t.unreadable for n, t in (("submit_time", submitted), ("start_time", started), ("end_time", ended))
        },
        "submit_missing": ~submit.known,
        "end_missing": started.known & ~ended.known & ~is_open,
        "start_before_submit": start.known & (start.us < submit.us),
        "end_before_start": start.known & end.known & (end.us < start.us),
        "end_before_submit": end.known & (end.us < submit.us),
        "time_out_of_range": np.logical_or.reduce([t.values >= LATEST_US / 1e6 for t in (submitted, started, ended)]),
    }
    rejects, keep = refuse(faults, piece.lines, piece.raw_text, file)
    take = pa.array(keep)
    flags = {"never_started": never, "end_assumed": never & ~ended.known}
    columns = {
        "job_id": ids,
        "user": job["user"],
        "task_role": task["task_name"],
        "state": pa.array(states, pa.string()),
        "source": sources(file, piece.lines),
        **_requests(task),
        **_semantics(job["inst_id"], groups),
    }
    if means is not None:
        mean = means.columns["mean"].take(means.find(ids))
        columns["runtime_s"] = pc.if_else(pa.array(start.known & end.known), mean, pa.scalar(None, pa.float64()))
        flags["runtime_is_instance_mean"] = pc.is_valid(columns["runtime_s"]).to_numpy(zero_copy_only=False)
    flags = {name: mask[keep] for name, mask in flags.items()}
    table = jobs_table(
        cluster,
        {name: column.take(take) for name, column in columns.items()},
        submit=submit.take(keep),
        start=start.take(keep),
        end=end.take(keep),
        flags=flags,
    )
    notes = counted(flags, unknown_state=int((states[keep] == "OTHER").sum()))
    return Batch(table, in_order(piece.rejects, rejects), piece.skipped, notes)


def _requests(task: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """What the task asked for over all its instances."""
    instances, cpu, memory, gpu = (read_numbers(task[name]) for name in ("inst_num", "plan_cpu", "plan_mem", "plan_gpu"))
    if "gpu_type" in task:
        is_cpu_task = pc.fill_null(pc.equal(task["gpu_type"], "CPU"), False).to_numpy(zero_copy_only=False)
        gpu = gpu._replace(known=gpu.known | (is_cpu_task & ~gpu.unreadable))

    def total(each: Numbers, factor: float) -> pa.Array:
        return floats(instances.values * each.values * factor, instances.known & each.known & (each.values >= 0))

    return {"cpu_count": total(cpu, 1 / 100), "mem_mib": total(memory, 1024), "gpu_count": total(gpu, 1 / 100)}


def _semantics(inst_ids: pa.Array, groups: _Lookup | None) -> dict[str, pa.Array]:
    """Group tag, workload and GPU model asked for, null where the tag table knows nothing."""
    if groups is None:
        return {}
    at = groups.find(inst_ids)
    names = {"group": "group", "framework": "workload", "gpu_model": "gpu_type_spec"}
    return {name: groups.columns[column].take(at) for name, column in names.items()}


def _task_ids(job_names: pa.Array, task_names: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(job_names, task_names, "/")


def _seconds(values: pa.Array) -> Numbers:
    """Read a column of trace seconds; 0 and less stand for "no time" there."""
    numbers = read_numbers(values)
    return numbers.only(numbers.values > 0)
