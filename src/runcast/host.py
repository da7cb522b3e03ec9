"""The commands of a scheduler host, which has the extra `scheduler` alone.

Each is a module with a `main` of its own, loaded when asked for.
"""

import importlib
from collections.abc import Sequence
from typing import NamedTuple


class HostCommand(NamedTuple):
    """The module that runs a command, and what it does in a line."""

    module: str
    meaning: str


HOST_COMMANDS: dict[str, HostCommand] = {
    "serve": HostCommand("runcast.scheduler.serve", "Answer a scheduler from a bundle, on a Unix socket or a port of this machine."),
    "slurm-score": HostCommand(
        "runcast.scheduler.slurm.scorer", "Set what the operator chose on Slurm's pending jobs; --undo takes it back."
    ),
    "slurm-feed": HostCommand("runcast.scheduler.slurm.feeder", "Feed Slurm's accounting to the service (events) and to the nights (log)."),
    "kubernetes-webhook": HostCommand("runcast.scheduler.kubernetes.webhook", "Annotate new pods and jobs with their forecast."),
}  # fmt: skip


def run_host_command(name: str, arguments: Sequence[str]) -> int:
    """Run a command of HOST_COMMANDS; returns the exit code."""
    code: int = importlib.import_module(HOST_COMMANDS[name].module).main(arguments)
    return code
