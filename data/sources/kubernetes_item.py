"""What is kept of one object of Kubernetes: who it is, what it belongs to, what it asks for, and how it ran."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from runcast.data.pod_resources import PodRequest, pod_request, total_request

Object = Mapping[str, Any]

#: A Job of Volcano bears the same kind as a Job of Kubernetes.
VOLCANO_JOB, VOLCANO_GROUP = "VolcanoJob", "batch.volcano.sh"
KUEUE = "Workload"
KUBEFLOW = frozenset({"PyTorchJob", "MPIJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MXJob"})
OWNERS = frozenset({"Job", "JobSet", "TrainJob", "RayJob", "RayCluster", VOLCANO_JOB, *KUBEFLOW})
#: What runs until somebody takes it away: its pods are no jobs.
SERVICES = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Deployment", "Node", "LeaderWorkerSet"})
QUEUE_LABELS = ("kueue.x-k8s.io/queue-name", "volcano.sh/queue-name")
MAX_EXEC_LABEL = "kueue.x-k8s.io/max-exec-time-seconds"


class Reference(NamedTuple):
    """Another object, by uid where it is written, else by kind, namespace and name."""

    kind: str
    namespace: str
    name: str
    uid: str


class Request(NamedTuple):
    """What an object's pods ask for together, and how many there are at once; None where the object does not say."""

    pods: PodRequest
    pod_count: int


@dataclass(slots=True, eq=False)
class Item:
    """One object, in its latest state of the file. Times are microseconds since 1970 UTC."""

    number: int  # in the file
    me: Reference
    created_us: int
    parents: tuple[Reference, ...] = ()  # the nearest first
    job_name: str = ""
    queue: str = ""
    qos: str = ""
    user: str = ""
    priority: float | None = None
    limit_s: float | None = None
    request: Request | None = None
    is_unreadable: bool = False  # its request
    state: str = ""  # canonical; "" where the object does not say
    start_us: int | None = None  # of its present or last run
    first_us: int | None = None  # of its first, where that is known
    is_start_assumed: bool = False
    end_us: int | None = None
    attempts: int = 0  # as far as the object itself counts them
    node: str = ""


class Unusable(ValueError):
    """An object that cannot be read: the reason of its reject, and a detail."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


def part(place: Any, *names: str) -> Object:
    """Return the mapping below `names`, empty where there is none."""
    for name in names:
        place = place.get(name) if isinstance(place, dict) else None
    return place if isinstance(place, dict) else {}


def parts(place: Object, name: str) -> list[Object]:
    """Return the mappings of a list, empty where there is none."""
    values = place.get(name)
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def text(value: Any) -> str:
    """Return a text that UTF-8 can hold, "" for anything else."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def whole(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < 10**9 else None


def number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and -1e12 < value < 1e12 else None


def instant_us(value: Any, name: str) -> int | None:
    """Return an RFC 3339 time, None where there is none; raises Unusable where it is something else."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError
        return round((moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1e6)
    except (TypeError, ValueError, OverflowError):
        raise Unusable("time_unreadable", f"{name}: {text(value)[:40]!r} is no RFC 3339 time") from None


def conditions(status: Object) -> dict[str, Object]:
    """Return an object's conditions by type."""
    return {text(one.get("type")): one for one in parts(status, "conditions")}


def is_true(condition: Object | None) -> bool:
    return condition is not None and condition.get("status") == "True"


def changed_us(condition: Object | None) -> int | None:
    return None if condition is None else instant_us(condition.get("lastTransitionTime"), "lastTransitionTime")


def deletion_us(metadata: Object) -> int | None:
    """Return when the deletion was asked for: its time stamp lies ahead by the grace period."""
    at = instant_us(metadata.get("deletionTimestamp"), "deletionTimestamp")
    grace_s = whole(metadata.get("deletionGracePeriodSeconds")) or 0
    return None if at is None else at - grace_s * 1_000_000


def limit_s(*places: Object) -> float | None:
    """Return the shortest of the limits that stand in specifications."""
    written = [number(place.get(name)) for place in places for name in ("activeDeadlineSeconds", "maximumExecutionTimeSeconds")]
    return min((one for one in written if one is not None and one > 0), default=None)


def request_of(groups: Iterable[tuple[int, Object]]) -> tuple[Request | None, bool]:
    """Return what pods of these counts and specifications ask for, None where there are none, and whether that was unreadable."""
    some = [(pods, spec) for pods, spec in groups if spec]
    if not some:
        return None, False
    count = sum(pods for pods, _ in some)
    try:
        return Request(total_request((pods, pod_request(spec)) for pods, spec in some), count), False
    except (AttributeError, TypeError, ValueError):  # a quantity that is none, or a tree of another shape
        return Request(PodRequest(None, None, None, None), count), True
