"""From the objects of a file to workloads: what belongs together, and what the owner, Kueue and the pods say between them."""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from runcast.data.pod_resources import PodRequest, total_request
from runcast.data.sources.kubernetes_item import KUBEFLOW, KUEUE, Item, Reference

_DEEPEST = 8  # TrainJob, JobSet, Job and pod are four
_ENDED_BADLY = frozenset({"FAILED", "OUT_OF_MEMORY", "PREEMPTED", "NODE_FAIL", "TIMEOUT", "CANCELLED", "LAUNCH_FAILED"})
_OPEN = frozenset({"", "RUNNING", "PENDING", "COMPLETING"})
_NODES_SHOWN = 1000
_Key = tuple[str, ...]


class Workload(NamedTuple):
    """One job. Times are microseconds since 1970 UTC."""

    number: int
    job_id: str
    group: str
    job_name: str
    submit_us: int
    start_us: int | None
    first_us: int | None
    end_us: int | None
    state: str
    attempts: int
    is_start_assumed: bool
    is_owner_absent: bool
    is_unreadable: bool
    user: str
    queue: str
    qos: str
    priority: float | None
    node_list: str
    node_count: float | None
    time_limit_s: float | None
    cpu_count: float | None
    mem_mib: float | None
    gpu_count: float | None
    gpu_model: str | None


def workloads(items: Iterable[Item], refused: Iterable[Item]) -> tuple[list[Workload], int]:
    """Return the workloads in the order of their first objects, and how many objects were parts of them or of a refused one."""
    every, bad = list(items), list(refused)
    find = _Finder([*every, *bad])
    groups: dict[_Key, list[Item]] = defaultdict(list)
    names: dict[_Key, Reference] = {}
    for item in every:
        root = find.root_of(item)
        key = _key(root)
        groups[key].append(item)
        if key not in names or not names[key].kind:
            names[key] = root
    without = {_key(item.me) for item in bad}
    found = [_workload(names[key], members) for key, members in groups.items() if key not in without]
    return sorted(found, key=lambda row: row.number), len(every) - len(found)


def _key(reference: Reference) -> _Key:
    return (reference.uid,) if reference.uid else reference[:3]


class _Finder:
    """Objects by uid and by name."""

    def __init__(self, items: list[Item]) -> None:
        self._by_uid = {item.me.uid: item for item in items if item.me.uid}
        self._by_name: dict[_Key, list[Item]] = defaultdict(list)
        for item in items:
            self._by_name[item.me[:3]].append(item)
            if item.me.kind in KUBEFLOW:
                self._by_name["", *item.me[1:3]].append(item)

    def root_of(self, item: Item) -> Reference:
        """Return what an object belongs to in the end; an owner that is not in the file is named by its part."""
        for _ in range(_DEEPEST):
            above = next(
                (one for parent in item.parents if (one := self._find(parent, item.created_us)) not in (None, item)), None
            )
            if above is None:
                return item.parents[-1] if item.parents else item.me
            item = above
        return item.me

    def _find(self, wanted: Reference, created_us: int) -> Item | None:
        if wanted.uid:
            return self._by_uid.get(wanted.uid)
        named = self._by_name.get(wanted[:3], [])
        return next((one for one in reversed(named) if one.created_us <= created_us), named[-1] if named else None)


def _workload(name: Reference, members: list[Item]) -> Workload:
    pods = sorted((one for one in members if one.me.kind == "Pod"), key=lambda pod: (pod.created_us, pod.number))
    kueue = max((one for one in members if one.me.kind == KUEUE), key=lambda one: one.created_us, default=None)
    owners = [one for one in members if one.me.kind not in ("Pod", KUEUE)]
    root = next((one for one in members if one.me == name), None)
    run = _Run([pod for pod in pods if pod.start_us is not None])
    state, end_us = _ending(root, kueue, pods)
    said = [one for one in (root, kueue, *owners, *pods) if one is not None]
    start_us, is_assumed = _start(said, run, pods)
    counted = [one.attempts for one in said if one.me.kind != "Pod"]
    attempts = max([run.attempts, *counted]) + run.restarts
    first_us = min((pod.first_us for pod in run.pods if pod.first_us is not None), default=None if is_assumed else start_us)
    is_first_there = attempts <= run.attempts + run.restarts
    request, is_unreadable = _request(said, run, pods)
    limits = [one.limit_s for one in said if one.limit_s is not None]
    return Workload(
        min(one.number for one in members),
        f"{name.namespace}/{name.name}" if name.namespace else name.name,
        name.namespace,
        root.job_name if root is not None else name.name,
        root.created_us if root is not None else min(one.created_us for one in members),
        start_us,
        first_us if is_first_there and not is_assumed else None,
        end_us,
        state,
        attempts,
        is_assumed,
        root is None,
        is_unreadable,
        next((one.user for one in said if one.user), ""),
        next((one.queue for one in said if one.queue), ""),
        next((one.qos for one in said if one.qos), ""),
        next((one.priority for one in said if one.priority is not None), None),
        ",".join(sorted({pod.node for pod in run.together if pod.node})[:_NODES_SHOWN]),
        None if request is None else float(request[1]),
        min(limits, default=None),
        *(request[0] if request is not None else PodRequest(None, None, None, None)),
    )


class _Run:
    """The pods that started, and which of them ran together at the end: those that outlived the last start, and what succeeded."""

    def __init__(self, pods: list[Item]) -> None:
        self.pods = pods
        last_us = max((pod.start_us or 0 for pod in pods), default=0)
        self.together = [pod for pod in pods if pod.state in _OPEN or (pod.end_us or 0) >= last_us]
        lost = [pod for pod in pods if pod.state in _ENDED_BADLY and (pod.end_us or 0) < last_us]
        gone = set(lost)
        self._kept = [pod for pod in pods if pod not in gone]
        self.attempts = 1 + math.ceil(len(lost) / max(len(self.together), 1))
        self.restarts = max((pod.attempts for pod in self.together), default=0)

    @property
    def start_us(self) -> int | None:
        return min((pod.start_us for pod in self._kept if pod.start_us is not None), default=None)


def _start(said: list[Item], run: _Run, pods: list[Item]) -> tuple[int | None, bool]:
    """Return when the present run began, and whether that is only what the owner says of itself: the Job's controller is early."""
    if pods:
        return run.start_us, False
    exact = next((one.start_us for one in said if one.start_us is not None and not one.is_start_assumed), None)
    if exact is not None:
        return exact, False
    return next(((one.start_us, True) for one in said if one.start_us is not None), (None, False))


def _ending(root: Item | None, kueue: Item | None, pods: list[Item]) -> tuple[str, int | None]:
    """Return state and end: the owner's where it says that it is over, else Kueue's, else what the pods come to."""
    latest = max((pod for pod in pods if pod.end_us is not None), key=lambda pod: pod.end_us or 0, default=None)
    for one in (root, kueue):
        if one is not None and one.state not in _OPEN:
            end_us = one.end_us if one.end_us is not None or latest is None else latest.end_us
            return _why(one, pods), end_us
    states = {pod.state for pod in pods}
    if root is not None and root.state == "PENDING" and root.me.kind != "Pod":
        return "PENDING", None
    if "RUNNING" in states:
        return "RUNNING", None
    if root is not None:
        is_running = root.state in ("RUNNING", "COMPLETING") or bool(states - {"PENDING"})
        return ("RUNNING" if is_running or (not pods and kueue is not None and kueue.state == "RUNNING") else "PENDING"), None
    if not pods:
        return (kueue.state if kueue is not None else "PENDING"), None
    if "PENDING" in states or latest is None:
        return ("PENDING" if "PENDING" in states else pods[-1].state), None
    return latest.state, latest.end_us


def _why(ended: Item, pods: list[Item]) -> str:
    """Return the state of what is over; that of its last pod that failed says more than "failed"."""
    if ended.state != "FAILED" or ended.me.kind == "Pod":
        return ended.state
    failed = [pod for pod in pods if pod.state in _ENDED_BADLY]
    return max(failed, key=lambda pod: pod.end_us or 0).state if failed else ended.state


def _request(said: list[Item], run: _Run, pods: list[Item]) -> tuple[tuple[PodRequest, int] | None, bool]:
    """Return what the workload asks for: as its owner, Kueue or a part of the owner says it, else its pods that ran together."""
    for one in said:
        if one.request is not None and one.me.kind != "Pod":
            return (one.request.pods, one.request.pod_count), one.is_unreadable
    some = run.together or pods
    requests = [pod.request.pods for pod in some if pod.request is not None]
    if not requests:
        return None, False
    return (total_request((1, one) for one in requests), len(some)), any(pod.is_unreadable for pod in some)
