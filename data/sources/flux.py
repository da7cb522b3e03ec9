"""Flux: what `flux jobs -a -A --json` prints (an object with `jobs`), and the same records as JSON lines.

The attributes are those of flux-jobs(1) and RFC 21; times are seconds since 1970 with fractions.
- How far a job is follows from its times: t_inactive ended, t_run running, else waiting. The numbers of states were renumbered once.
- How it ended: `result`, as a word or 1 completed, 2 failed, 4 cancelled, 8 timed out; an exception of the type timeout is one.
- It held its resources from t_run to t_cleanup; a `duration` of 0 is no limit.
- GPUs are those of the scheduler's summary of what was given (`rank[0-1]/core[0-3],gpu[0-1]`); ids are decimal, as in the JSON.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from runcast.data.cluster import Cluster
from runcast.data.sources import table
from runcast.data.sources.batch import Batch
from runcast.data.sources.table_rows import Objects, object_rows, read_objects

_RESULTS = {"1": "COMPLETED", "2": "FAILED", "4": "CANCELLED", "8": "TIMEOUT"}
_PART = re.compile(r"rank(\[[\d,-]+\]|\d+)/(\S*)", re.ASCII)
_GPUS = re.compile(r"(?:^|,)gpu(\[[\d,-]+\]|\d+)", re.ASCII)


class Options(BaseModel):
    """`source.options` of a Flux log: there are none."""

    model_config = ConfigDict(frozen=True, extra="forbid")


_NAMES = (
    "job_id", "user", "group", "account", "queue", "job_name", "work_dir", "node_list", "cpu_count", "gpu_count", "node_count",
    "time_limit_s", "state", "submit_time", "start_time", "end_time",
)  # fmt: skip
_COLUMNS = table.Options(columns={name: table.Column(column=name) for name in _NAMES}, time="epoch_s")


def read(path: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield the jobs of one file in its order."""
    pieces = (object_rows(path, _of_jobs(some, cluster.gpus_tracked), _NAMES) for some in read_objects(path, "jobs"))
    return table.read_table(path, cluster, _COLUMNS, pieces)


def _of_jobs(some: Objects, gpus_tracked: bool) -> Objects:
    return Objects([_job(one, gpus_tracked) for one in some.objects], some.lines, some.raw, some.rejects)


def _job(said: dict[str, Any], gpus_tracked: bool) -> dict[str, Any]:
    ran, inactive = said.get("t_run") or None, said.get("t_inactive") or None
    ends = [time for name in ("t_cleanup", "t_inactive") if isinstance(time := said.get(name), int | float) and time > 0]
    return {
        "job_id": said.get("id"),
        "user": said.get("username") or said.get("userid"),
        "group": said.get("project"),
        "account": said.get("bank"),
        "queue": said.get("queue"),
        "job_name": said.get("name"),
        "work_dir": said.get("cwd"),
        "node_list": said.get("nodelist"),
        "cpu_count": said.get("ncores") or said.get("ntasks"),
        "gpu_count": _gpus(said, gpus_tracked),
        "node_count": said.get("nnodes"),
        "time_limit_s": said.get("duration"),
        "state": ("RUNNING" if ran else "PENDING") if inactive is None else _result(said),
        "submit_time": said.get("t_submit"),
        "start_time": ran,
        "end_time": min(ends) if inactive is not None and ends else inactive,
    }


def _result(said: dict[str, Any]) -> object:
    exception = said.get("exception")
    kind = exception.get("type") if isinstance(exception, dict) else said.get("exception_type")
    if kind == "timeout":
        return "TIMEOUT"
    if said.get("result") is None:
        return {True: "COMPLETED", False: "FAILED"}.get(said["success"]) if isinstance(said.get("success"), bool) else None
    return _RESULTS.get(str(said["result"]), said["result"])


def _gpus(said: dict[str, Any], gpus_tracked: bool) -> int | None:
    """Count the GPUs of a summary of resources; null without one, which is a job that has not started."""
    notes = said.get("annotations")
    plan = notes.get("sched") if isinstance(notes, dict) else None
    summary = plan.get("resource_summary") if isinstance(plan, dict) else None
    if not isinstance(summary, str):
        return None
    count = sum(
        _size(ranks) * sum(_size(ids) for ids in _GPUS.findall(children)) for ranks, children in _PART.findall(summary[:65_536])
    )
    return count or (0 if gpus_tracked else None)


def _size(ids: str) -> int:
    """Return how many ids `[0-3,7]` or `5` stands for; 0 where it cannot be read."""
    size = 0
    for part in ids.strip("[]").split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()) or len(first) > 9 or len(last) > 9:
            return 0
        size += max(0, int(last or first) - int(first) + 1)
    return size
