"""What a Kubernetes pod asks for: CPUs, memory and GPUs, read from its specification as the scheduler of Kubernetes counts them.

Source: "Init Containers" (Resource sharing within containers), "Sidecar Containers", "Pod Overhead" and "Assign Pod-level CPU and
memory resources" of Kubernetes' manual. In short, for each resource: the larger of what all containers and sidecars ask for together
and what the start needs at its peak (an init container beside the sidecars started before it); a request of the whole pod instead,
where it has one; plus overhead. Where only a limit is given it is the request.

- GPUs are counted where a resource says how many: whole ones, and MIG slices as parts of one. A pod that asks for an accelerator in
  another way (a shared GPU, a claim of dynamic resource allocation, another vendor's device) has an unknown count, not 0.
- Standard library only, so that a scheduler host can use it.
"""

import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

Spec = Mapping[str, Any]

GPU_RESOURCES = frozenset({"nvidia.com/gpu", "amd.com/gpu"})
#: Resources of a domain that are no accelerators, by how their names begin; every other one may be.
NOT_ACCELERATORS = (
    "rdma/", "devices.kubevirt.io/", "vpc.amazonaws.com/", "github.com/", "smarter-devices/", "openshift.io/", "kubernetes.io/",
)  # fmt: skip
POD_LEVEL = ("cpu", "memory")  # what a request of the whole pod may name, huge pages aside
#: Labels by which a pod chooses the model of its GPUs; a product that ends in -SHARED is time-sliced: one "GPU" is a share of one.
PRODUCT_LABELS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "amd.com/gpu.product-name")
TIME_SLICED = "-SHARED"
MIG = re.compile(r"nvidia\.com/mig-((\d)g\.\d{1,4}gb)(?:\.me(?:\.all)?)?", re.ASCII)
A30_PROFILES = frozenset({"1g.6gb", "2g.12gb", "4g.24gb"})  # of four slices; all other GPUs that divide have seven

_SUFFIXES = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_QUANTITY = re.compile(r"\+?(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d{1,3})|([KMGTPE]i|[numkMGTPE]))?", re.ASCII)


class PodRequest(NamedTuple):
    """What one pod asks for; None where it does not say, or (GPUs) in a way that names no number."""

    cpu_count: float | None
    mem_mib: float | None
    gpu_count: float | None
    gpu_model: str | None


@lru_cache(maxsize=1 << 12)
def _quantity(text: str) -> float:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"expected a quantity of at least 0, such as 500m or 1.5Gi, found {text[:40]!r}")
    number, exponent, suffix = match.groups()
    value = float(f"{number}e{exponent}") if exponent else float(number) * _SUFFIXES[suffix or ""]
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]!r} is beyond any quantity")
    return value


def quantity(text: Any) -> float:
    """Return a resource quantity of Kubernetes as a number of at least 0; raises ValueError.

    >>> quantity("500m"), quantity("1.5Gi"), quantity(2), quantity("1e3")
    (0.5, 1610612736.0, 2.0, 1000.0)
    """
    return _quantity(str(text))


def pod_request(spec: Spec) -> PodRequest:
    """Return what a pod of this specification asks for; raises ValueError where a quantity is none."""
    asked = _effective(spec)
    gpus, model = _gpus(asked, spec)
    selector = spec.get("nodeSelector") or {}
    product = next((str(selector[label]) for label in PRODUCT_LABELS if selector.get(label)), None)
    if gpus and product is not None:
        gpus = None if product.endswith(TIME_SLICED) else gpus
        model = model or product
    mem_bytes = asked.get("memory")
    return PodRequest(asked.get("cpu"), None if mem_bytes is None else mem_bytes / 2**20, gpus, model)


def total_request(groups: Iterable[tuple[int, PodRequest]]) -> PodRequest:
    """Return what pods of one or several forms ask for together: each a sum, GPUs unknown where one form's are."""
    requests = [(pods, one) for pods, one in groups if pods]
    models = {one.gpu_model for _, one in requests if one.gpu_count}
    cpus = [pods * one.cpu_count for pods, one in requests if one.cpu_count is not None]
    mem_mib = [pods * one.mem_mib for pods, one in requests if one.mem_mib is not None]
    gpus = [pods * one.gpu_count for pods, one in requests if one.gpu_count is not None]
    return PodRequest(
        sum(cpus) if cpus else None,
        sum(mem_mib) if mem_mib else None,
        sum(gpus) if len(gpus) == len(requests) else None,
        "mixed" if len(models) > 1 else next(iter(models), None),
    )


def pods_at_once(job_spec: Spec) -> int:
    """Return how many pods of a Job run side by side at most: its parallelism (1 by default), and never more than completions."""
    parallelism, completions = job_spec.get("parallelism"), job_spec.get("completions")
    pods = 1 if parallelism is None else int(parallelism)
    return pods if completions is None else min(pods, int(completions))


def _effective(spec: Spec) -> dict[str, float]:
    """Return the pod's effective request by resource name."""
    running = _total(_request(one.get("resources")) for one in spec.get("containers") or [])
    sidecars: dict[str, float] = {}
    peak: dict[str, float] = {}
    for one in spec.get("initContainers") or []:
        if one.get("restartPolicy") == "Always":
            sidecars = _total([sidecars, _request(one.get("resources"))])
            at_start = sidecars
        else:
            at_start = _total([sidecars, _request(one.get("resources"))])
        peak = _largest(peak, at_start)
    together = _largest(_total([running, sidecars]), peak)
    whole = spec.get("resources") or {}
    requests, limits = whole.get("requests") or {}, whole.get("limits") or {}
    for name in POD_LEVEL:
        if name in requests:
            together[name] = quantity(requests[name])
        elif name in limits:
            together.setdefault(name, quantity(limits[name]))
    return _total([together, _quantities(spec.get("overhead") or {})])


def _gpus(asked: Mapping[str, float], spec: Spec) -> tuple[float | None, str | None]:
    """Return the number of GPUs and their model, as far as the names of resources say them."""
    count, is_known = 0.0, not _has_claims(spec)
    models: set[str | None] = set()
    for name, value in asked.items():
        mig = MIG.fullmatch(name)
        if not value or "/" not in name or name.startswith(NOT_ACCELERATORS):
            continue
        if name in GPU_RESOURCES:
            count += value
            models.add(None)
        elif mig:
            count += value * min(int(mig[2]) / (4 if mig[1] in A30_PROFILES else 7), 1.0)
            models.add(mig[1])
        else:
            is_known = False
    model = "mixed" if len(models) > 1 else next(iter(models), None)
    return (count if is_known else None), model


def _has_claims(spec: Spec) -> bool:
    """Tell whether devices are claimed (dynamic resource allocation): what is behind a claim stands in other objects."""
    every = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    return bool(spec.get("resourceClaims")) or any((one.get("resources") or {}).get("claims") for one in every)


def _request(resources: Any) -> dict[str, float]:
    given = resources or {}
    return _quantities({**(given.get("limits") or {}), **(given.get("requests") or {})})


def _quantities(resources: Mapping[str, Any]) -> dict[str, float]:
    return {name: quantity(text) for name, text in resources.items()}


def _total(requests: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for one in requests:
        for name, value in one.items():
            total[name] = total.get(name, 0.0) + value
    return total


def _largest(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in {**one, **other}}
