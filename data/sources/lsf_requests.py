"""What an LSF job asks for: `span[...]` and `rusage[...]` of a resource requirement, and what follows `-gpu`.

LSF's manuals ("Resource requirement strings", "bsub -gpu"): `rusage[mem=4GB:ngpus_physical=2/host]` reserves on each host unless it
says /task or /job; `num=2` of -gpu is of each host, `num=1/task` of each task; without a number LSF gives one GPU.
"""

import re
from functools import lru_cache
from typing import NamedTuple

_RUSAGE = re.compile(r"rusage\[([^\]]*)\]")
_GPUS = re.compile(r"\bngpus(?:_physical|_excl_p|_excl_t|_shared)?=(\d{1,6})(?:\.\d+)?(?:/(host|task|job))?\b", re.ASCII)
_MEMORY = re.compile(r"\bmem=(\d{1,15}(?:\.\d+)?)([KMGT]?)B?(?:/(host|task|job))?(?![\w.])", re.ASCII | re.IGNORECASE)
_SPAN = re.compile(r"span\[(?:hosts=(1)|ptile=(\d{1,6}))\]", re.ASCII)
_GPU_NUMBER = re.compile(r"(?:^|:)num=(\d{1,6})(?:/(host|task))?(?=:|$)", re.ASCII)
_GPU_MODEL = re.compile(r"(?:^|:)gmodel=([^:#]+)")
_MIB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}


class Request(NamedTuple):
    """Counts over the whole job, memory in MiB, a model of GPUs; None where nothing says, gpu_model "" then."""

    cpu_count: float | None
    gpu_count: float | None
    node_count: float | None
    mem_mib: float | None
    gpu_model: str


def read_request(slots: int, resources: str, gpus: str | None, host_count: int, limit_unit: str) -> Request:
    """Return a request; `resources` are the requirement strings, `gpus` what follows -gpu (None: not given), 0 counts unknown.

    Where no span says how many hosts, those that the job got count. `limit_unit` is LSF_UNIT_FOR_LIMITS, of a memory without a unit.

    >>> read_request(4, "span[ptile=2] rusage[ngpus_physical=2.00/host:mem=8GB]", None, 0, "")
    Request(cpu_count=4.0, gpu_count=4.0, node_count=2.0, mem_mib=16384.0, gpu_model='')
    """
    return _request(slots, resources, gpus, host_count, limit_unit)


@lru_cache(maxsize=1 << 14)
def _request(slots: int, resources: str, gpus: str | None, host_count: int, limit_unit: str) -> Request:
    nodes = _nodes(slots, resources, host_count)
    rusages = " ".join(_RUSAGE.findall(resources))
    counts = {"host": nodes, "": nodes, None: nodes, "task": float(slots) if slots else None, "job": 1.0}
    each: re.Match[str] | None = _GPU_NUMBER.search(gpus or "") or _GPUS.search(rusages)
    gpu_count = _times(float(each[1]), counts[each[2]]) if each else None
    if each is None and gpus is not None:
        gpu_count = _times(1.0, nodes)
    memory = _MEMORY.search(rusages)
    mem_mib = None
    if memory is not None and (unit := (memory[2] or limit_unit).upper()[:1]):
        mem_mib = _times(float(memory[1]) * _MIB[unit], counts[memory[3]])
    model = _GPU_MODEL.search(gpus or "")
    return Request(float(slots) if slots else None, gpu_count, nodes, mem_mib or None, model[1].strip() if model else "")


def _nodes(slots: int, resources: str, host_count: int) -> float | None:
    span = _SPAN.search(resources)
    if span is not None and span[1]:
        return 1.0
    if span is not None and slots and int(span[2]):
        return float(-(-slots // int(span[2])))
    return float(host_count) if host_count else (1.0 if slots == 1 else None)


def _times(value: float, count: float | None) -> float | None:
    return None if count is None else value * count
