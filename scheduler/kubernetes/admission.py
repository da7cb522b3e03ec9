"""What is answered to an AdmissionReview: allowed always, with a patch of the annotations that are Runcast's.

Annotations below runcast.io/ are read by schedulers, so they say only what Runcast said: one that a user wrote is taken out of a new
object, whether or not there is a forecast, and a change of them is taken back when an object is updated.
"""

import base64
import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from runcast.data.errors import RuncastError
from runcast.data.pod_resources import pod_request, pods_at_once, total_request
from runcast.scheduler.client import Forecast

PREFIX = "runcast.io"
QUEUE_LABELS = ("kueue.x-k8s.io/queue-name", "volcano.sh/queue-name")
VOLCANO = "batch.volcano.sh"

#: Where the specification above the pods stands in each kind, and where that of a pod stands in it.
_ABOVE: dict[str, tuple[str, ...]] = {"Pod": (), "Job": ("spec",), "CronJob": ("spec", "jobTemplate", "spec")}
_POD_SPEC: dict[str, tuple[str, ...]] = {"Pod": ("spec",), "Job": ("template", "spec"), "CronJob": ("template", "spec")}

_log = logging.getLogger("runcast.kubernetes")

Object = Mapping[str, Any]
Ask = Callable[[dict[str, Any]], Forecast]
Patch = list[dict[str, Any]]


class ReviewError(RuncastError):
    """The request's body is no AdmissionReview that could be answered."""


def answer(review: Any, ask: Ask, now_s: float) -> dict[str, Any]:
    """Return the AdmissionReview that answers `review`: allowed always, with a patch of Runcast's annotations.

    Raises ReviewError where there is no uid to answer to.
    """
    request = review.get("request") if isinstance(review, dict) else None
    uid = request.get("uid") if isinstance(request, dict) else None
    if request is None or not isinstance(uid, str) or not uid:
        raise ReviewError(f"expected an AdmissionReview with request.uid, found {str(review)[:80]!r}")
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    annotations, problem = _annotations(request, ask, now_s)
    if problem:
        response["auditAnnotations"] = {"forecast": f"none: {problem[:200]}"}
    if patch := _patch(request, annotations):
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
    return {"apiVersion": review.get("apiVersion") or "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def job_of(request: Object, now_s: float) -> dict[str, Any] | None:
    """Return the new object as a job in the service's words, or None where it is no workload that is being created."""
    kind = _kind(request)
    created = request.get("object")
    if kind is None or request.get("operation") != "CREATE" or not isinstance(created, dict):
        return None
    above = _at(created, _ABOVE[kind])
    if request["kind"].get("group") == VOLCANO:
        groups = [(int(task.get("replicas", 1)), _at(task, ("template", "spec"))) for task in above.get("tasks") or []]
    else:
        groups = [(1 if kind == "Pod" else pods_at_once(above), _at(above, _POD_SPEC[kind]))]
    metadata = created.get("metadata") or {}
    labels = metadata.get("labels") or {}
    first = groups[0][1] if groups else {}
    deadlines_s = [deadline_s for place in (above, first) if (deadline_s := place.get("activeDeadlineSeconds"))]
    job = {
        "submit_time": now_s,
        "user": (request.get("userInfo") or {}).get("username"),
        "group": request.get("namespace") or metadata.get("namespace"),
        "queue": next((labels[name] for name in QUEUE_LABELS if labels.get(name)), None) or above.get("queue"),
        "qos": above.get("priorityClassName") or first.get("priorityClassName"),
        "job_name": metadata.get("name") or (metadata.get("generateName") or "").rstrip("-"),
        "node_count": sum(pods for pods, _ in groups),
        **total_request((pods, pod_request(spec)) for pods, spec in groups if pods)._asdict(),
        "time_limit_s": min(deadlines_s, default=None),
        "time_limit_kind": "hard" if deadlines_s else None,
    }
    return {name: value for name, value in job.items() if value not in (None, "")}


def annotations_of(forecast: Forecast) -> dict[str, str]:
    """Return the annotations for a forecast; whole seconds, rounded up."""
    annotations = {
        f"{PREFIX}/p50-seconds": str(math.ceil(forecast["p50_s"])),
        f"{PREFIX}/p90-seconds": str(math.ceil(forecast["p90_s"])),
    }
    if isinstance(forecast.get("confidence"), int | float):
        annotations[f"{PREFIX}/confidence"] = f"{forecast['confidence']:.2f}"
    for name, key in (("source", "source"), ("model-version", "model_version")):
        if isinstance(forecast.get(key), str):
            annotations[f"{PREFIX}/{name}"] = forecast[key][:200]
    return annotations


def _annotations(request: Object, ask: Ask, now_s: float) -> tuple[dict[str, str], str]:
    """Return the annotations of a new workload, none for everything else; and why there is no forecast, where one was wanted."""
    try:
        job = job_of(request, now_s)
        return ({} if job is None else annotations_of(ask(job))), ""
    except RuncastError as error:
        return {}, str(error)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        # An object of a shape that nobody foresaw must still be admitted: what is wrong with it is the API server's to say.
        _log.warning("no forecast for %s: %r", request.get("kind"), error)
        return {}, f"the object could not be read ({type(error).__name__})"


def _patch(request: Object, annotations: Mapping[str, str]) -> Patch:
    """Return the JSON patch (RFC 6902) after which Runcast's annotations are these (new object) or as before (update)."""
    written = request.get("object")
    if _kind(request) is None or not isinstance(written, dict):
        return []
    has = _own(written)
    if request.get("operation") == "UPDATE":
        annotations = _own(request.get("oldObject"))
    elif request.get("operation") != "CREATE":
        return []
    metadata = written.get("metadata")
    if annotations and metadata is None:
        return [{"op": "add", "path": "/metadata", "value": {"annotations": annotations}}]
    if annotations and not (metadata or {}).get("annotations"):
        return [{"op": "add", "path": "/metadata/annotations", "value": annotations}]
    removed: Patch = [{"op": "remove", "path": _path(name)} for name in has if name not in annotations]
    return removed + [
        {"op": "add", "path": _path(name), "value": value} for name, value in annotations.items() if has.get(name) != value
    ]


def _own(written: Any) -> dict[str, Any]:
    """Return an object's annotations below runcast.io/."""
    metadata = written.get("metadata") if isinstance(written, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(annotations, dict):
        return {}
    return {name: value for name, value in annotations.items() if name.startswith(f"{PREFIX}/")}


def _path(name: str) -> str:
    """Return the JSON pointer (RFC 6901) to an annotation, in which the slash of a key is written ~1."""
    return "/metadata/annotations/" + name.replace("~", "~0").replace("/", "~1")


def _kind(request: Object) -> str | None:
    """Return the kind of the object where it is one of ours, and not a part of one."""
    kind = request.get("kind")
    name = kind.get("kind") if isinstance(kind, dict) else None
    return name if isinstance(name, str) and name in _ABOVE and not request.get("subResource") else None


def _at(place: Any, steps: Iterable[str]) -> Any:
    for step in steps:
        place = place.get(step) or {}
    return place
