"""What runs beside the scheduler. `runcast.scheduler.Predictor` answers in process; it is loaded when it is asked for, so that the
parts that need the standard library only (client, Slurm's helpers, webhook) stay without numpy and LightGBM.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "Predictor":
        return import_module("runcast.scheduler.predictor").Predictor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
