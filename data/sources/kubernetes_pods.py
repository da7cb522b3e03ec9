"""A pod as one attempt of its workload: when the kubelet took it, when its containers ended, and why.

Source: "Pod Lifecycle", "Disruptions" (pod disruption conditions) and the reference of PodStatus, of Kubernetes' manual.
- The start is status.startTime: from then on the node's resources are held. Of a pod whose containers were restarted the present
  run began when those were.
- The end is the latest `finishedAt` of its containers. A pod that is being deleted counts as ended when that was asked for.
"""

from typing import Any

from runcast.data.sources.kubernetes_item import (
    Item,
    Object,
    Reference,
    changed_us,
    conditions,
    deletion_us,
    instant_us,
    is_true,
    part,
    parts,
    text,
    whole,
)

#: Reasons of PodStatus, of its condition DisruptionTarget, and of containers that ended.
_STATES = {
    "Evicted": "PREEMPTED", "Preempting": "PREEMPTED", "PreemptionByScheduler": "PREEMPTED", "PreemptionByKubeScheduler": "PREEMPTED",
    "EvictionByEvictionAPI": "PREEMPTED", "TerminationByKubelet": "PREEMPTED", "StoppedByKueue": "PREEMPTED",
    "DeletionByTaintManager": "NODE_FAIL", "DeletionByPodGC": "NODE_FAIL", "NodeLost": "NODE_FAIL", "NodeShutdown": "NODE_FAIL",
    "Shutdown": "NODE_FAIL", "Terminated": "NODE_FAIL", "DeadlineExceeded": "TIMEOUT", "OOMKilled": "OUT_OF_MEMORY",
    "ContainerStatusUnknown": "NODE_FAIL", "StartError": "LAUNCH_FAILED", "ContainerCannotRun": "LAUNCH_FAILED",
    "UnexpectedAdmissionError": "LAUNCH_FAILED", "NodeAffinity": "LAUNCH_FAILED", "OutOfcpu": "LAUNCH_FAILED",
    "OutOfmemory": "LAUNCH_FAILED", "OutOfpods": "LAUNCH_FAILED",
}  # fmt: skip
_DISRUPTIONS = ("DisruptionTarget", "TerminationTarget")
_KILLED = (137, 143)  # by KILL and TERM, as a shell says it
_JOB_LABELS = ("batch.kubernetes.io/job-name", "job-name")
_UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")


def pod_parents(metadata: Object, namespace: str) -> tuple[Reference, ...]:
    """Return what a pod's labels say that it belongs to, beside its owner."""
    labels = part(metadata, "labels")
    found = []
    if job := next((text(labels[name]) for name in _JOB_LABELS if labels.get(name)), ""):
        uid = next((text(labels[name]) for name in _UID_LABELS if labels.get(name)), "")
        found.append(Reference("Job", namespace, job, uid))
    for label, kind in (("training.kubeflow.org/job-name", ""), ("volcano.sh/job-name", "VolcanoJob")):
        if labels.get(label):
            found.append(Reference(kind, namespace, text(labels[label]), ""))
    if jobset := text(labels.get("jobset.sigs.k8s.io/jobset-name")):
        found.append(Reference("JobSet", namespace, jobset, text(labels.get("jobset.sigs.k8s.io/jobset-uid"))))
    if group := text(labels.get("kueue.x-k8s.io/pod-group-name")):
        found.append(Reference("Workload", namespace, group, ""))
    return tuple(found)


def read_pod(item: Item, pod: Object, *, is_deleted: bool) -> None:
    """Fill in how a pod ran."""
    status, metadata = part(pod, "status"), part(pod, "metadata")
    phase, known = text(status.get("phase")), conditions(status)
    containers = parts(status, "containerStatuses")
    restarts = max((whole(one.get("restartCount")) or 0 for one in containers), default=0)
    accepted_us = instant_us(status.get("startTime"), "startTime")
    item.node = text(part(pod, "spec").get("nodeName"))
    item.attempts = restarts
    removed_us = deletion_us(metadata)
    if phase in ("Succeeded", "Failed"):
        item.start_us = item.first_us = accepted_us
        item.end_us = _finished_us(containers, known, removed_us)
        item.state = "COMPLETED" if phase == "Succeeded" else _failure(status, containers, known)
    elif phase == "Running":
        item.start_us = item.first_us = accepted_us
        item.state = "RUNNING"
    else:
        item.state = "PENDING"
    if item.state in ("RUNNING", "PENDING") and (removed_us is not None or is_deleted):
        ended_us = removed_us if removed_us is None or item.start_us is None else max(removed_us, item.start_us)
        item.state, item.end_us = _disruption(known) or "CANCELLED", ended_us
    if restarts and item.start_us is not None:
        runs = [_run(one) for one in containers if whole(one.get("restartCount"))]
        item.start_us = max(
            [item.start_us, *(at for run in runs if (at := instant_us(run.get("startedAt"), "startedAt")) is not None)]
        )


def _run(container: Object) -> Object:
    state: Any = part(container, "state")
    return part(state, "running") or part(state, "terminated") or part(container, "lastState", "terminated")


def _finished_us(containers: list[Object], known: dict[str, Object], removed_us: int | None) -> int | None:
    ends = [instant_us(part(one, "state", "terminated").get("finishedAt"), "finishedAt") for one in containers]
    ended = [at for at in ends if at is not None and at > 0]
    if ended:
        return max(ended)
    changes = [at for one in known.values() if (at := changed_us(one)) is not None]
    return max(changes, default=removed_us)


def _failure(status: Object, containers: list[Object], known: dict[str, Object]) -> str:
    """Return why a pod failed, from the outermost reason inwards."""
    if state := _STATES.get(text(status.get("reason"))) or _disruption(known):
        return state
    ends = [part(one, "state", "terminated") for one in containers]
    for end in ends:
        if state := _STATES.get(text(end.get("reason"))):
            return state
    failed = [whole(end.get("exitCode")) for end in ends if whole(end.get("exitCode"))]
    return "CANCELLED" if failed and all(code in _KILLED for code in failed) else "FAILED"


def _disruption(known: dict[str, Object]) -> str | None:
    for name in _DISRUPTIONS:
        if is_true(known.get(name)):
            return _STATES.get(text(known[name].get("reason")), "PREEMPTED")
    return None
