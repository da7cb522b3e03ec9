"""What a job asks for, out of Slurm's TRES text; read as the nightly log is, so that forecasts match training."""

import re
from typing import Any

_MIB = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)")


def requested(tres: str, gpus_tracked: bool) -> dict[str, Any]:
    """Return cpu_count, node_count, mem_mib, gpu_count and gpu_model of a ReqTRES text; what it does not say is left out.

    The total `gres/gpu` counts where it stands, else the sum of the typed ones. Without any GPU the count is 0 where the
    cluster tracks GPUs.

    >>> requested("cpu=32,gres/gpu:a100=4,gres/gpu=4,mem=1.5G,node=2", gpus_tracked=True)
    {'cpu_count': 32.0, 'node_count': 2.0, 'mem_mib': 1536.0, 'gpu_count': 4.0, 'gpu_model': 'a100'}
    """
    entries = dict(item.rsplit("=", 1) for item in tres.split(",") if "=" in item)
    typed = {
        name.removeprefix("gres/gpu:"): number
        for name, value in entries.items()
        if name.startswith("gres/gpu:") and (number := _number(value))
    }
    gpus = _number(entries.get("gres/gpu", ""))
    if gpus is None and typed:
        gpus = sum(typed.values())
    if gpus is None and gpus_tracked and "cpu" in entries:
        gpus = 0.0
    found = {
        "cpu_count": _number(entries.get("cpu", "")),
        "node_count": _number(entries.get("node", "")),
        "mem_mib": _mib(entries.get("mem", "")),
        "gpu_count": gpus,
        "gpu_model": None if not typed else next(iter(typed)) if len(typed) == 1 else "mixed",
    }
    return {name: value for name, value in found.items() if value is not None}


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d+(?:\.\d+)?", text) else None


def _mib(text: str) -> float | None:
    match = _MEMORY.fullmatch(text)
    return float(match[1]) * _MIB[match[2]] or None if match else None
