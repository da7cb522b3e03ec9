"""Slurm's pending jobs as `squeue --json` tells them, in the service's words.

The JSON differs between versions: a number is plain up to 22.05 and {"set", "infinite", "number"} from 23.02 on; a state is a
word up to 23.02 and a list of words from 23.11 on. Both are read.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from runcast.data.errors import Exit, RuncastError
from runcast.scheduler.slurm.commands import readable
from runcast.scheduler.slurm.het import merged_request
from runcast.scheduler.slurm.resources import requested


class SqueueError(RuncastError):
    """squeue's answer is not the JSON of a queue."""

    exit_code = Exit.UNAVAILABLE


@dataclass(frozen=True)
class PendingJob:
    """A job that waits: what the service is asked, and what scontrol needs to change it."""

    target: str  # the job, or the waiting tasks of an array, as scontrol names them
    job_id: int
    submit_s: int
    is_held: bool
    nice: int
    comment: str
    admin_comment: str
    time_limit_min: int | None
    time_min: int | None
    asked: dict[str, Any]

    @property
    def key(self) -> str:
        """Ids are used again; the submission time tells two jobs of one id apart."""
        return f"{self.job_id}:{self.submit_s}"


def read_pending(text: str, gpus_tracked: bool) -> list[PendingJob]:
    """Return the pending jobs of `squeue --json`, in its order; raises SqueueError."""
    try:
        jobs = json.loads(text)["jobs"]
    except (ValueError, KeyError, TypeError) as error:
        raise SqueueError(
            f"squeue --json did not answer with a list of jobs but {text[:80]!r}; is its JSON plugin installed?"
        ) from error
    return _as_whole_jobs(jobs, list(_pending(jobs, gpus_tracked)))


def _as_whole_jobs(jobs: list[dict[str, Any]], pending: list[PendingJob]) -> list[PendingJob]:
    """Ask for each part of a heterogeneous job what is asked for the whole: its parts wait, start and are forecast as one."""
    whole_ids: dict[int, int] = {}
    offsets: dict[int, int] = {}
    for job in jobs:
        job_id, whole_id = _number(job.get("job_id")), _number(job.get("het_job_id"))
        if job_id and whole_id:
            whole_ids[job_id], offsets[job_id] = whole_id, _number(job.get("het_job_offset")) or 0
    parts: dict[int, list[PendingJob]] = {}
    for one in sorted((one for one in pending if one.job_id in whole_ids), key=lambda one: offsets[one.job_id]):
        parts.setdefault(whole_ids[one.job_id], []).append(one)
    asked = {whole: {**merged_request([p.asked for p in some]), "job_id": str(whole)} for whole, some in parts.items()}
    return [replace(one, asked=asked[whole_ids[one.job_id]]) if one.job_id in whole_ids else one for one in pending]


def _pending(jobs: list[dict[str, Any]], gpus_tracked: bool) -> Iterator[PendingJob]:
    for job in jobs:
        state = job.get("job_state")
        job_id, submit_s = _number(job.get("job_id")), _number(job.get("submit_time"))
        if "PENDING" not in ([state] if isinstance(state, str) else state or []) or not job_id or not submit_s:
            continue
        array_id, tasks = _number(job.get("array_job_id")), str(job.get("array_task_string") or "").partition("%")[0]
        limit_min = _number(job.get("time_limit"))
        texts = {
            "user": "user_name", "group": "group_name", "account": "account", "qos": "qos", "job_name": "name",
            "work_dir": "current_working_directory",
        }  # fmt: skip
        asked = {
            "job_id": str(job_id),
            "submit_time": submit_s,
            **({"array_id": str(array_id)} if array_id else {}),
            **{name: readable(str(job[field])) for name, field in texts.items() if job.get(field)},
            **({"queue": str(job["partition"]).partition(",")[0]} if job.get("partition") else {}),
            **requested(str(job.get("tres_req_str") or ""), gpus_tracked),
            **({"time_limit_s": limit_min * 60} if limit_min else {}),
            **({"time_limit_kind": "unlimited"} if _is_infinite(job.get("time_limit")) else {}),
        }
        yield PendingJob(
            target=f"{array_id}_[{tasks}]" if array_id and tasks and "..." not in tasks else str(job_id),
            job_id=job_id,
            submit_s=submit_s,
            is_held=_number(job.get("priority")) == 0,
            nice=_number(job.get("nice")) or 0,
            comment=str(job.get("comment") or ""),
            admin_comment=str(job.get("admin_comment") or ""),
            time_limit_min=limit_min,
            time_min=_number(job.get("time_minimum")) or None,
            asked=asked,
        )


def _number(value: Any) -> int | None:
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_infinite(value: Any) -> bool:
    return isinstance(value, dict) and bool(value.get("infinite"))
