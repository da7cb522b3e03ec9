"""What a heterogeneous Slurm job asks for: its parts, `50+0` and `50+1`, are one job, as the reader of the log makes of them.

The counterpart of data/sources/slurm_het.py, which needs pyarrow.
"""

from collections.abc import Sequence
from typing import Any

_SUMS = ("cpu_count", "mem_mib", "node_count")  # not known of the job where it is not known of one part


def merged_request(requests: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one submission for those of all parts, the leader's first: its names, the sum of counts, the longest limit.

    >>> merged_request([{"user": "ada", "cpu_count": 4.0, "gpu_count": 1.0}, {"user": "ada", "cpu_count": 2.0}])
    {'user': 'ada', 'cpu_count': 6.0, 'gpu_count': 1.0}
    """
    merged = dict(requests[0])
    changed: dict[str, Any] = {
        name: sum(request[name] for request in requests) if all(name in request for request in requests) else None
        for name in _SUMS
    }
    gpus = [request["gpu_count"] for request in requests if "gpu_count" in request]
    models = {request["gpu_model"] for request in requests if "gpu_model" in request}
    limits_s = [request["time_limit_s"] for request in requests if "time_limit_s" in request]
    is_unlimited = any(request.get("time_limit_kind") == "unlimited" for request in requests)
    changed |= {
        "gpu_count": sum(gpus) if gpus else None,
        "gpu_model": "mixed" if len(models) > 1 else next(iter(models), None),
        "time_limit_s": max(limits_s) if limits_s and not is_unlimited else None,
        "time_limit_kind": "unlimited" if is_unlimited else None,
    }
    for name, value in changed.items():
        merged.pop(name, None) if value is None else merged.update({name: value})
    return merged
