"""What a Grid Engine job asks for: the `category` of its record, which repeats the options of qsub that scheduling depends on.

`-u ada -l h_rt=24:00:00,h_vmem=4G,gpu=1 -pe smp 8 -q long.q`: requests after `-soft` are wishes and are not read. Values are as
sge_types(5) has them: times are seconds or hours:minutes:seconds; memory is a number with K, M, G, T (of 1024) or k, m, g, t (of
1000), bytes without. Resources that hold GPUs and memory are named by the site, and multiplied by the slots where they are
consumables of the kind YES, which is the usual one; of the kind JOB they are for the whole job.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from runcast.data.sources.pbs_requests import walltime_s

_MEMORY = re.compile(r"(\d{1,18}(?:\.\d{0,9})?)([KkMmGgTt]?)", re.ASCII)
_BYTES = {"": 1, **{letter: 1024**power for power, letter in enumerate("KMGT", 1)}}
_BYTES |= {letter: 1000**power for power, letter in enumerate("kmgt", 1)}
#: A count, perhaps with the devices or kinds that are wanted behind it: 2, 1(a100), 1[cuda_id=0].
_COUNT = re.compile(r"(\d{1,6})(?:\.0*)?(?:[\[(].*)?", re.ASCII)


class Request(NamedTuple):
    """Limits in seconds, GPUs and MiB as the options say them (for each slot or the whole job), and the queues of -q."""

    limit_s: float | None
    soft_limit_s: float | None
    gpus: float | None
    mem_mib: float | None
    queue: str


@lru_cache(maxsize=1 << 16)
def read_category(category: str, gpu_resources: tuple[str, ...], memory_resources: tuple[str, ...]) -> Request:
    """Return what a category asks for; of several resources the first that is given counts, None where none is.

    >>> read_category("-u ada -l gpu=2,h_rt=1:00:00,h_vmem=4G -pe smp 8 -q long.q", ("gpu",), ("h_vmem",))
    Request(limit_s=3600.0, soft_limit_s=None, gpus=2.0, mem_mib=4096.0, queue='long.q')
    """
    asked: dict[str, str] = {}
    queue, is_soft = "", False
    words = iter(category.split())
    for word in words:
        if word in ("-soft", "-hard"):
            is_soft = word == "-soft"
        elif word in ("-l", "-q"):
            value = next(words, "")
            if word == "-q" and not is_soft:
                queue = value
            elif word == "-l" and not is_soft:
                asked |= dict(part.partition("=")[::2] for part in value.split(","))
    gpus = next((asked[name] for name in gpu_resources if name in asked), "")
    count = _COUNT.fullmatch(gpus)
    memory = (memory_mib(asked[name]) for name in memory_resources if name in asked)
    return Request(
        walltime_s(asked.get("h_rt", "")),
        walltime_s(asked.get("s_rt", "")),
        float(count[1]) if count else None if gpus else 0.0,
        next((mib for mib in memory if mib is not None), None),
        queue,
    )


def memory_mib(text: str) -> float | None:
    """Return an amount of memory in MiB, None where it is none, infinite, or 0.

    >>> memory_mib("2500M"), memory_mib("1.024t"), memory_mib("1048576"), memory_mib("INFINITY")
    (2500.0, 976562.5, 1.0, None)
    """
    match = _MEMORY.fullmatch(text)
    return (float(match[1]) * _BYTES[match[2]] / 2**20 or None) if match else None
