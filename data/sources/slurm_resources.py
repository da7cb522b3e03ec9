"""What a Slurm job asks for, as sacct writes it: TRES lists, GRES lists and memory."""

import re
from functools import lru_cache
from typing import Literal, NamedTuple

Scope = Literal["job", "node", "cpu"]

_MIB = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}  # no unit: MB, sacct(1)
_MEMORY = re.compile(r"(\d{1,20}(?:\.\d{1,9})?)([KMGTP]?)([nc]?)", re.ASCII | re.IGNORECASE)
_COUNT = re.compile(r"\d{1,12}(?:\.\d{1,6})?", re.ASCII)
#: One entry of a GRES list; a model may be a number (`gpu:3090:2`), and is no model where a count does not follow (`gpu:2`).
_GRES = re.compile(
    r"(?:PER_(?P<per>NODE|JOB|SOCKET|TASK):)?(?:gres[:/])?gpu"
    r"(?::(?P<model>\(null\)|[^:=()]+(?=[:=]\d)|[^:=()]*[^\d:=()][^:=()]*))?(?:[:=](?P<count>\d{1,9}))?(?:\([^)]*\))?",
    re.ASCII | re.IGNORECASE,
)
#: GRES that compute like a GPU, or are a share of one: with them a request without gres/gpu is not one without a GPU.
_ACCELERATORS = frozenset("shard mps npu hpu gaudi tpu ipu mlu dcu xpu vpu mic ve neuron accelerator".split())  # noqa: SIM905

#: Old Slurm marks "per CPU" with the highest bit of the number and its sacct prints the bit: 2147486648Mn is 3000 MB per CPU.
_PER_CPU_BITS = (1 << 31, 1 << 63)


class Memory(NamedTuple):
    """Memory of a request: MiB for each unit of `scope`; None where it is not given or (`readable` False) not understood."""

    mib: float | None
    scope: Scope
    readable: bool = True


class Gpus(NamedTuple):
    """GPUs of a list: None where it names none."""

    total: float | None
    model: str | None


class Gres(NamedTuple):
    """GPUs of a GRES list: how many on each node, and how many beside them for the whole job; None where they are not known."""

    per_node: float | None
    per_job: float | None
    model: str | None


class Tres(NamedTuple):
    """A TRES list: totals of the job, None where the list lacks them.

    Where `is_accelerated` the job asks for a share of a GPU, or for an accelerator that is none.
    """

    cpus: float | None = None
    mem_mib: float | None = None
    nodes: float | None = None
    gpus: Gpus = Gpus(None, None)
    is_accelerated: bool = False


@lru_cache(maxsize=1 << 16)
def tres(text: str) -> Tres:
    """Read a TRES list such as `cpu=32,gres/gpu:a100=4,gres/gpu=4,mem=62.50G,node=1`.

    A typed entry says again what the untyped one counts, so the untyped one is the total where it stands; several models make
    the model `mixed`.

    >>> tres("cpu=32,gres/gpu:a100=4,gres/gpu=4,node=1").gpus
    Gpus(total=4.0, model='a100')
    """
    cpus = mem_mib = nodes = total = None
    is_accelerated = False
    typed: dict[str, float] = {}
    for entry in text.split(","):
        name, _, value = entry.strip().partition("=")
        if name == "cpu":
            cpus = _count(value)
        elif name == "node":
            nodes = _count(value)
        elif name == "mem":
            mem_mib = memory(value).mib
        elif name == "gres/gpu":
            total = _count(value)
        elif name.startswith("gres/gpu:") and (counted := _count(value)) is not None:
            model = name.removeprefix("gres/gpu:")
            typed[model] = typed.get(model, 0.0) + counted
        elif name.startswith("gres/") and name.removeprefix("gres/").partition(":")[0] in _ACCELERATORS:
            is_accelerated |= _count(value) != 0
    asked = [model for model, counted in typed.items() if counted]
    if total is None and typed:
        total = sum(typed.values())
    if is_accelerated and not total:
        total = None
    return Tres(cpus, mem_mib, nodes, Gpus(total, _model(asked)), is_accelerated)


@lru_cache(maxsize=1 << 14)
def gres(text: str) -> Gres:
    """Read a GRES list, such as ReqGRES: `gpu:2`, `gpu:a100:2`, `gpu:8(S:0-3)`, `gres:gpu:1,mps:100`, `PER_JOB:gpu:4`.

    What is asked for each socket or task is not known.

    >>> gres("PER_NODE:gpu:v100:4"), gres("gpu:(null):2")
    (Gres(per_node=4.0, per_job=0.0, model='v100'), Gres(per_node=2.0, per_job=0.0, model=None))
    """
    counts, models = {"node": 0.0, "job": 0.0}, set()
    matches = [match for entry in re.split(r",(?![^(]*\))", text) if (match := _GRES.fullmatch(entry.strip()))]
    for match in matches:
        per = (match["per"] or "node").lower()
        if per not in counts:
            return Gres(None, None, None)
        counts[per] += float(match["count"] or 1)
        if match["model"] not in (None, "(null)"):
            models.add(match["model"])
    return Gres(counts["node"], counts["job"], _model(sorted(models))) if matches else Gres(None, None, None)


@lru_cache(maxsize=1 << 14)
def memory(text: str) -> Memory:
    """Read sacct's ReqMem: `4Gn` for each node, `2000Mc` for each CPU, `4G` for the whole job; 0 stands for "not given".

    The letters went away in Slurm 21.08, whose number is the job's: 22.05 prints 100M for two CPUs of --mem-per-cpu=50M.

    >>> memory("4Gn"), memory("2147486648Mn"), memory("20H")
    (Memory(mib=4096.0, scope='node', readable=True), Memory(mib=3000.0, scope='cpu', readable=True), \
Memory(mib=None, scope='job', readable=False))
    """
    word = text.strip()
    if word.lower() in ("", "n/a", "none", "null", "unknown", "?"):
        return Memory(None, "job")
    match = _MEMORY.fullmatch(word)
    if not match:
        return Memory(None, "job", readable=False)
    number, unit, suffix = match[1], match[2].upper(), match[3].lower()
    scope: Scope = "node" if suffix == "n" else "cpu" if suffix == "c" else "job"
    if "." not in number and scope != "cpu":
        for bit in _PER_CPU_BITS:
            if bit <= int(number) < 2 * bit:
                number, scope = str(int(number) - bit), "cpu"
                break
    mib = float(number) * _MIB[unit]
    return Memory(mib or None, scope)


def _model(models: list[str]) -> str | None:
    if not models:
        return None
    return models[0] if len(models) == 1 else "mixed"


def _count(text: str) -> float | None:
    return float(text) if _COUNT.fullmatch(text) else None
