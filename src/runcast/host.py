"""The commands of a scheduler host, which has the extra `scheduler` alone.

Each is a module with a `main` of its own, loaded when asked for.
"""

import importlib
import sys
import traceback
from collections.abc import Sequence
from typing import NamedTuple

from runcast.data.errors import Exit
from runcast.outcome import print_json, release_stdout, report, reserve_stdout


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
    """Run a command of HOST_COMMANDS; returns the exit code. With `--json` standard output holds one JSON object when it ends."""
    as_json = "--json" in arguments
    if as_json:
        reserve_stdout()
    try:
        code = int(importlib.import_module(HOST_COMMANDS[name].module).main([one for one in arguments if one != "--json"]))
        if as_json and code == Exit.DONE:
            print_json({"command": name, "exit_code": 0})
    except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001 - a fault: its traceback is printed, and the process ends
        if not isinstance(error, KeyboardInterrupt):
            traceback.print_exc(file=sys.stderr)
        code = report(error)
    finally:
        if as_json:
            release_stdout()
    return code


def host_help() -> str:
    """What `runcast --help` says on a host that has these commands alone."""
    width = max(map(len, HOST_COMMANDS))
    lines = [f"  {name:<{width}}  {command.meaning}" for name, command in HOST_COMMANDS.items()]
    return "\n".join(
        [
            "usage: runcast COMMAND [options]     (COMMAND --help lists them; --version)",
            "",
            "Runtime forecasts for GPU and HPC jobs. This host has what a scheduler needs:",
            "",
            *lines,
            "",
            "Every other command belongs on the host of the nights.",
        ]
    )
