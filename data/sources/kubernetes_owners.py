"""Objects that own pods: what they ask for, how many of their pods run at once, and how they stand.

Sources: Kubernetes' reference of JobStatus; JobSet's, Kubeflow's (training operator, MPI operator, trainer), Ray's, Volcano's and Kueue's
references of their status. A condition says when it last changed; which conditions there are is each controller's own.
"""

import math
import re
from typing import Any

from runcast.data.pod_resources import pods_at_once
from runcast.data.sources.kubernetes_item import (
    KUBEFLOW,
    KUEUE,
    MAX_EXEC_LABEL,
    VOLCANO_JOB,
    Item,
    Object,
    changed_us,
    conditions,
    deletion_us,
    instant_us,
    is_true,
    limit_s,
    part,
    parts,
    request_of,
    text,
    whole,
)

#: SuccessCriteriaMet and FailureTarget are not yet the end: pods still terminate.
_SUCCEEDED = ("Complete", "Completed", "Succeeded")
_FAILED = ("Failed",)
#: Reasons of a failed owner that say more than that.
_WHY = {"DeadlineExceeded": "TIMEOUT", "MaximumExecutionTimeExceeded": "TIMEOUT", "Preempted": "PREEMPTED"}
_PHASES = {
    "Pending": "PENDING", "Running": "RUNNING", "Restarting": "RUNNING", "Completing": "COMPLETING", "Aborting": "COMPLETING",
    "Terminating": "COMPLETING", "Completed": "COMPLETED", "Failed": "FAILED", "Aborted": "CANCELLED", "Terminated": "CANCELLED",
}  # fmt: skip
#: Reasons of Kueue's condition Finished; any other took the workload away: it was out of step with its job, or replaced.
_FINISHED = {"Succeeded": "COMPLETED", "JobFinished": "COMPLETED", "Failed": "FAILED"}
_RAY = {"PENDING": "PENDING", "RUNNING": "RUNNING", "STOPPED": "CANCELLED", "SUCCEEDED": "COMPLETED", "FAILED": "FAILED"}
_GO_DURATION = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?", re.ASCII)


def templates(kind: str, spec: Object) -> list[tuple[int, Object]]:
    """Return the specifications of an owner's pods, each with the number that run at once."""
    if kind == "Job":
        return [(_at_once(spec), part(spec, "template", "spec"))]
    if kind == "JobSet":
        jobs = [(_count(one, "replicas"), part(one, "template", "spec")) for one in parts(spec, "replicatedJobs")]
        return [(replicas * _at_once(job), part(job, "template", "spec")) for replicas, job in jobs]
    if kind in KUBEFLOW:
        roles: list[Any] = next((list(part(spec, name).values()) for name in spec if name.lower().endswith("replicaspecs")), [])
        return [(_count(role, "replicas"), part(role, "template", "spec")) for role in roles if isinstance(role, dict)]
    if kind in ("RayJob", "RayCluster"):
        cluster = part(spec, "rayClusterSpec") if kind == "RayJob" else spec
        groups = [(_count(one, "replicas"), part(one, "template", "spec")) for one in parts(cluster, "workerGroupSpecs")]
        return [(1, part(cluster, "headGroupSpec", "template", "spec")), *groups]
    if kind == VOLCANO_JOB:
        return [(_count(one, "replicas"), part(one, "template", "spec")) for one in parts(spec, "tasks")]
    if kind == KUEUE:
        return [(_count(one, "count"), part(one, "template", "spec") or part(one, "spec")) for one in parts(spec, "podSets")]
    return []


def read_owner(item: Item, owner: Object, *, is_deleted: bool) -> None:
    """Fill in what an owner of pods asks for and how it stands."""
    kind, spec, status = item.me.kind, part(owner, "spec"), part(owner, "status")
    groups = templates(kind, spec)
    item.request, item.is_unreadable = request_of(groups)
    jobs = [part(one, "template", "spec") for one in parts(spec, "replicatedJobs")]
    labelled = text(part(owner, "metadata", "labels").get(MAX_EXEC_LABEL))
    written = {"activeDeadlineSeconds": int(labelled)} if re.fullmatch(r"\d{1,9}", labelled, re.ASCII) else {}
    item.limit_s = limit_s(spec, part(spec, "runPolicy"), written, *jobs, *(pod for _, pod in groups))
    known = conditions(status)
    if kind == VOLCANO_JOB:
        _read_volcano(item, status)
    elif kind == "RayJob":
        item.state = _RAY.get(text(status.get("jobStatus")), "")
        item.start_us, item.is_start_assumed = instant_us(status.get("startTime"), "startTime"), True
        item.end_us = instant_us(status.get("endTime"), "endTime")
    elif kind == KUEUE:
        _read_kueue(item, spec, status, known)
    else:
        _read_conditions(item, spec, status, known)
    if item.state in ("", "PENDING", "RUNNING"):
        removed_us = deletion_us(part(owner, "metadata"))
        if removed_us is not None or is_deleted:
            item.state, item.end_us = "CANCELLED", removed_us


def _read_conditions(item: Item, spec: Object, status: Object, known: dict[str, Object]) -> None:
    done = next((known[name] for name in _SUCCEEDED if is_true(known.get(name))), None)
    failed = next((known[name] for name in _FAILED if is_true(known.get(name))), None)
    is_suspended = (
        spec.get("suspend") is True or part(spec, "runPolicy").get("suspend") is True or is_true(known.get("Suspended"))
    )
    item.start_us = instant_us(status.get("startTime"), "startTime")
    item.is_start_assumed = True
    running, replicated = known.get("Running"), parts(status, "replicatedJobsStatus")
    if item.me.kind in KUBEFLOW and running is not None and (is_true(running) or item.start_us == changed_us(running)):
        item.start_us, item.is_start_assumed = changed_us(running), False
    if done is not None or failed is not None:
        item.state = "COMPLETED" if failed is None else _WHY.get(text(failed.get("reason")), "FAILED")
        completed_us = instant_us(status.get("completionTime"), "completionTime")
        item.end_us = changed_us(failed or done) if completed_us is None else completed_us
    elif is_suspended:
        item.state = "PENDING"
    elif is_true(running) or whole(status.get("active")) or any(whole(one.get("ready")) for one in replicated):
        item.state = "RUNNING"
    if item.start_us is None and item.me.kind == "JobSet" and not is_suspended:
        item.start_us = changed_us(known.get("Suspended"))
    item.attempts = 1 + _replacements(item, status) + (whole(status.get("restarts")) or 0)


def _replacements(item: Item, status: Object) -> int:
    """Return how often a Job's pods were replaced because they failed: rounds of as many as run at once."""
    failed = (whole(status.get("failed")) or 0) if item.me.kind == "Job" else 0
    replaced = failed - (item.state not in ("COMPLETED", "RUNNING", "PENDING", ""))
    return math.ceil(max(replaced, 0) / max(item.request.pod_count if item.request else 1, 1))


def _read_volcano(item: Item, status: Object) -> None:
    """Read phases; the conditions of Volcano's jobs have a phase for a status, and no type."""
    phase = part(status, "state")
    item.state = _PHASES.get(text(phase.get("phase")), "")
    runs = [changed_us(one) for one in parts(status, "conditions") if one.get("status") == "Running"]
    if item.state == "RUNNING":
        runs.append(changed_us(phase))
    item.start_us = next((at for at in reversed(runs) if at is not None), None)
    if item.state in ("COMPLETED", "FAILED", "CANCELLED"):
        item.end_us = changed_us(phase)
        duration_s = _duration_s(text(status.get("runningDuration")))
        if item.start_us is None and item.end_us is not None and duration_s is not None:
            item.start_us = item.end_us - round(duration_s * 1e6)
    item.attempts = 1 + (whole(status.get("retryCount")) or 0)


def _read_kueue(item: Item, spec: Object, status: Object, known: dict[str, Object]) -> None:
    """Read when a workload was admitted, and what became of it; one that was evicted and may come again waits."""
    item.queue = text(spec.get("queueName"))
    admitted, evicted, finished = known.get("Admitted"), known.get("Evicted"), known.get("Finished")
    times = parts(part(status, "schedulingStats"), "evictions")
    evictions = sum(whole(one.get("count")) or 0 for one in times) or whole(part(status, "requeueState").get("count")) or 0
    item.attempts = 1 + max(evictions, int(is_true(evicted)))
    if is_true(admitted):
        item.start_us = changed_us(admitted)
    if is_true(finished) and finished is not None:
        item.state = _FINISHED.get(text(finished.get("reason")), "CANCELLED")
        item.end_us = changed_us(finished)
    elif is_true(evicted) and evicted is not None:
        is_over = spec.get("active") is False or text(evicted.get("reason")).startswith("Deactivated")
        why = "TIMEOUT" if "MaximumExecutionTime" in text(evicted.get("reason")) else "PREEMPTED"
        item.state = why if is_over else "PENDING"
        item.end_us = changed_us(evicted) if is_over else None
    else:
        item.state = "RUNNING" if is_true(admitted) else "PENDING"


def _duration_s(written: str) -> float | None:
    """Return a duration as Go prints it, None where it is none.

    >>> _duration_s("1m49s"), _duration_s("2h0m3.5s"), _duration_s("")
    (109.0, 7203.5, None)
    """
    match = _GO_DURATION.fullmatch(written)
    if not written or match is None:
        return None
    hours, minutes, seconds = match.groups()
    return int(hours or 0) * 3600.0 + int(minutes or 0) * 60.0 + float(seconds or 0)


def _at_once(job_spec: Object) -> int:
    try:
        return max(0, min(pods_at_once(job_spec), 10**6))
    except (TypeError, ValueError, OverflowError):
        return 1


def _count(place: Object, name: str) -> int:
    count = whole(place.get(name))
    return 1 if count is None else count
