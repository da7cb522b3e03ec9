"""What a job asks for, out of Slurm's TRES text: read by the reader of the nightly log, so that forecasts match training."""

from typing import Any

from runcast.data.sources.slurm_resources import tres


def requested(text: str, gpus_tracked: bool) -> dict[str, Any]:
    """Return cpu_count, node_count, mem_mib, gpu_count and gpu_model of a ReqTRES text; what it does not say is left out.

    Without any GPU the count is 0 where the cluster tracks GPUs.

    >>> requested("cpu=32,gres/gpu:a100=4,gres/gpu=4,mem=1.5G,node=2", gpus_tracked=True)
    {'cpu_count': 32.0, 'node_count': 2.0, 'mem_mib': 1536.0, 'gpu_count': 4.0, 'gpu_model': 'a100'}
    """
    asked = tres(text)
    gpus = asked.gpus.total
    if gpus is None and gpus_tracked and asked.cpus is not None:
        gpus = 0.0
    found = {
        "cpu_count": asked.cpus,
        "node_count": asked.nodes,
        "mem_mib": asked.mem_mib,
        "gpu_count": gpus,
        "gpu_model": asked.gpus.model,
    }
    return {name: value for name, value in found.items() if value is not None}
