"""Kubernetes: what `kubectl get pods,jobs,... -A -o json|yaml` prints, and the streams of `--watch`; one job is one workload.

A workload is a Job, JobSet, PyTorchJob, MPIJob (and Kubeflow's others), TrainJob, RayJob, a Job of Volcano, or a pod that nothing of
these owns. Its pods are its attempts and nodes; Kueue's Workload beside it says queue, priority and when it was admitted. What
belongs together is found by owners' uids, and by the labels of the controllers where an owner is not in the file.
- Of an object that stands there several times the last state counts. Nothing is known of a file's workloads before its end, so
  that a small record of each object is held.
- Pods of services (of a ReplicaSet, StatefulSet, DaemonSet, a node itself) are no jobs, nor are other kinds of objects.
- A job's id is namespace/name. With the creation time it makes the key, so that a name that is used again is another job.
- A run begins when the kubelet takes the first pod of those that run together at the end: what had failed before is an earlier attempt.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from runcast.data.cluster import Cluster
from runcast.data.errors import Quoted, SourceError
from runcast.data.sources.batch import Batch, Reject
from runcast.data.sources.kubernetes_files import read_objects
from runcast.data.sources.kubernetes_groups import Workload, workloads
from runcast.data.sources.kubernetes_item import (
    KUEUE,
    OWNERS,
    QUEUE_LABELS,
    SERVICES,
    VOLCANO_GROUP,
    VOLCANO_JOB,
    Item,
    Object,
    Reference,
    Unusable,
    instant_us,
    limit_s,
    number,
    part,
    parts,
    request_of,
    text,
)
from runcast.data.sources.kubernetes_owners import read_owner
from runcast.data.sources.kubernetes_pods import pod_parents, read_pod
from runcast.data.sources.record import Instants, counted, in_order, jobs_table, out_of_range, refuse, sources
from runcast.data.states import WAITING_STATES

_ROWS_PER_BATCH = 10_000
_SHOWN = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "ownerReferences", "labels")
_MIRROR = "kubernetes.io/config.mirror"  # of a pod that a node's kubelet runs by itself
_SHAPES = {"containers": "Pod", "podSets": KUEUE, "replicatedJobs": "JobSet", "tasks": VOLCANO_JOB, "template": "Job"}


class Options(BaseModel):
    """`source.options` of Kubernetes' objects."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    user_label: str | None = (
        None  # the label that names who submitted; default: the user is not known, the group is the namespace
    )
    user_annotation: str | None = None  # the annotation that does


def read(path: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield the workloads of one file in the order of their first objects; raises SourceError where no object is in it."""
    options = Options.model_validate(cluster.source.options)
    log = _File(path, options)
    for at, found in enumerate(read_objects(path), 1):
        log.take(at, found)
    if log.rejects and not log.has_object:
        raise SourceError(f"{path}: no object of Kubernetes, which has metadata with a name, but ", Quoted(log.rejects[0].raw))
    found, members = workloads(log.items.values(), log.refused)
    log.skipped["part_of_a_workload"] += members
    rejects, skipped = log.rejects, +log.skipped
    for first in range(0, max(len(found), 1), _ROWS_PER_BATCH):
        jobs, more, notes = _jobs(cluster, path.name, found[first : first + _ROWS_PER_BATCH])
        yield Batch(jobs, in_order(rejects, more), skipped, notes)
        rejects, skipped = [], Counter()


class _File:
    """The objects of a file: the latest state of each, what was refused, and what was passed over."""

    def __init__(self, path: Path, options: Options) -> None:
        self._file, self._options = path.name, options
        self.items: dict[tuple[str, ...], Item] = {}
        self.refused: list[Item] = []
        self.rejects: list[Reject] = []
        self.skipped: Counter[str] = Counter()
        self.has_object = False

    def take(self, at: int, found: Any) -> None:
        event = text(found.get("type")) if isinstance(found, dict) and isinstance(found.get("object"), dict) else ""
        if event:  # of --output-watch-events
            found = found["object"]
        metadata = part(found, "metadata")
        if event in ("BOOKMARK", "ERROR"):
            self.skipped["no_state"] += 1
            return
        if not text(metadata.get("name")).strip():
            self._refuse(at, "not_an_object", "no metadata with a name", found)
            return
        self.has_object = True
        kind = _kind(found)
        if kind not in OWNERS and kind not in ("Pod", KUEUE):
            self.skipped["other_kind"] += 1
            return
        item = Item(at, Reference(kind, text(metadata.get("namespace")), text(metadata["name"]), text(metadata.get("uid"))), 0)
        try:
            created_us = instant_us(metadata.get("creationTimestamp"), "creationTimestamp")
            if created_us is None:
                raise Unusable("submit_missing", "no creationTimestamp")
            item.created_us = created_us
            if not _fill(item, found, self._options, is_deleted=event == "DELETED"):
                self.skipped["of_a_service"] += 1
                return
        except Unusable as error:
            self.refused.append(item)
            self._refuse(at, error.reason, error.detail, found)
            return
        key = (item.me.uid,) if item.me.uid else (*item.me[:3], str(created_us))
        if (earlier := self.items.get(key)) is not None:
            self.skipped["earlier_state"] += 1
            item.number = earlier.number
        self.items[key] = item

    def _refuse(self, at: int, reason: str, detail: str, found: Any) -> None:
        self.rejects.append(Reject(self._file, at, reason, detail, _raw(found)))


def _raw(found: Any) -> str:
    """Return an object without its specification and annotations, which may hold secrets."""
    if not isinstance(found, dict):
        return json.dumps(found)[:2000]
    metadata = part(found, "metadata")
    shown = {"kind": found.get("kind"), "metadata": {name: metadata[name] for name in _SHOWN if name in metadata}}
    return json.dumps({**shown, "status": found.get("status")})


def _kind(found: Object) -> str:
    """Return an object's kind; the items of an API server's own lists do not name it, but their shape does."""
    kind, spec = text(found.get("kind")), part(found, "spec")
    if kind == "Job" and text(found.get("apiVersion")).startswith(VOLCANO_GROUP):
        return VOLCANO_JOB
    is_job = "completions" in spec or "selector" not in spec  # a Deployment has a template, too
    return kind or next((of for field, of in _SHAPES.items() if field in spec and (of != "Job" or is_job)), "")


def _fill(item: Item, found: Object, options: Options, *, is_deleted: bool) -> bool:
    """Fill in what an object says; False where it belongs to a service."""
    metadata, spec = part(found, "metadata"), part(found, "spec")
    kind, namespace = item.me.kind, item.me.namespace
    references = parts(metadata, "ownerReferences")
    owner = next((one for one in references if one.get("controller") is True), references[0] if len(references) == 1 else None)
    parents: list[Reference] = []
    if kind == "Pod" and _MIRROR in part(metadata, "annotations"):
        return False
    if owner is not None:
        owner_kind = VOLCANO_JOB if text(owner.get("apiVersion")).startswith(VOLCANO_GROUP) else text(owner.get("kind"))
        if owner_kind in SERVICES:
            return False
        if owner_kind in OWNERS or owner_kind == "Pod":
            parents.append(Reference(owner_kind, namespace, text(owner.get("name")), text(owner.get("uid"))))
    labels = part(metadata, "labels")
    if kind == "Pod":
        parents += pod_parents(metadata, namespace)
    elif kind == KUEUE and not references and labels.get("kueue.x-k8s.io/job-uid"):
        parents.append(Reference("", namespace, item.me.name, text(labels["kueue.x-k8s.io/job-uid"])))
    item.parents = tuple(parent for parent in parents if parent.name.strip())
    item.job_name = text(metadata.get("generateName")).rstrip("-") or item.me.name if kind == "Pod" else item.me.name
    item.queue = next((text(labels[name]) for name in QUEUE_LABELS if labels.get(name)), "") or text(spec.get("queue"))
    item.qos, item.priority = text(spec.get("priorityClassName")), number(spec.get("priority"))
    item.user = _user(metadata, options)
    if kind == "Pod":
        read_pod(item, found, is_deleted=is_deleted)
        item.request, item.is_unreadable = request_of([(1, spec)])
        item.limit_s = limit_s(spec)
    else:
        read_owner(item, found, is_deleted=is_deleted)
    return True


def _user(metadata: Object, options: Options) -> str:
    label = text(part(metadata, "labels").get(options.user_label)) if options.user_label else ""
    return label or (text(part(metadata, "annotations").get(options.user_annotation)) if options.user_annotation else "")


def _jobs(cluster: Cluster, file: str, rows: list[Workload]) -> tuple[pa.Table, list[Reject], dict[str, int]]:
    lines = np.array([row.number for row in rows], np.int64)
    times = ("submit_us", "start_us", "first_us", "end_us")
    submit, start, first, end = (_instants([getattr(row, name) for row in rows]) for name in times)
    states = np.array([row.state for row in rows], dtype=object)
    is_waiting = np.isin(states, list(WAITING_STATES))
    is_open = is_waiting | np.isin(states, ["RUNNING", "COMPLETING"])
    start = Instants(start.us, start.known & ~is_waiting)
    end = Instants(end.us, end.known & ~is_open)
    first = Instants(first.us, first.known & start.known)
    faults = {
        "end_missing": start.known & ~end.known & ~is_open,
        "start_before_submit": (start.known & (start.us < submit.us)) | (first.known & (first.us < submit.us)),
        "end_before_start": start.known & end.known & (end.us < start.us),
        "time_out_of_range": out_of_range(submit, start, end),
    }
    rejects, keep = refuse(faults, lines, lambda at: json.dumps(rows[at]._asdict()), file)
    kept = [rows[at] for at in keep]
    flags = {
        "never_started": (~start.known & ~is_open)[keep],
        "start_assumed": start.known[keep] & np.array([row.is_start_assumed for row in kept], bool),
        "requeued": np.array([row.attempts > 1 for row in kept], bool),
        "owner_absent": np.array([row.is_owner_absent for row in kept], bool),
    }
    jobs = jobs_table(
        cluster,
        {**_columns(kept), "state": pa.array(states[keep], pa.string()), "source": sources(file, lines[keep])},
        submit=submit.take(keep),
        start=start.take(keep),
        end=end.take(keep),
        flags=flags,
        first_start=first.take(keep),
        attempts=np.where(start.known[keep], np.array([max(row.attempts, 1) for row in kept], np.int64), 0),
    )
    return jobs, rejects, counted(flags, unreadable_request=sum(row.is_unreadable for row in kept))


def _columns(rows: list[Workload]) -> dict[str, pa.Array]:
    names = ("job_id", "user", "group", "queue", "qos", "job_name", "node_list", "gpu_model")
    columns = {name: pa.array([getattr(row, name) or None for row in rows], pa.string()) for name in names}
    counts = ("cpu_count", "mem_mib", "gpu_count", "node_count", "time_limit_s", "priority")
    return columns | {name: pa.array([getattr(row, name) for row in rows], pa.float64()) for name in counts}


def _instants(values: list[int | None]) -> Instants:
    known = np.array([value is not None for value in values], bool)
    return Instants(np.array([value or 0 for value in values], np.int64), known)
