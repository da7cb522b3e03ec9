"""Runs Slurm's client commands: bounded in time, times as epoch seconds, a failure in the operator's words."""

import os
import subprocess
from collections.abc import Mapping, Sequence

from runcast.data.errors import Exit, RuncastError


class SlurmCommandError(RuncastError):
    """A Slurm command failed, timed out or is not installed; says which and what it wrote."""

    exit_code = Exit.UNAVAILABLE


def run(command: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None) -> str:
    """Return what the command wrote to its standard output; raises SlurmCommandError.

    Bytes that are not UTF-8 stand as surrogates in it, which `readable` writes out and a command's arguments take back.
    Slurm prints times as seconds since 1970 and reads them as UTC, so that no change of the clock makes one ambiguous.
    """
    env = {**(os.environ if environment is None else environment), "SLURM_TIME_FORMAT": "%s", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, env=env, timeout=timeout_s, check=False)
    except FileNotFoundError:
        raise SlurmCommandError(
            f"{command[0]} is not on the PATH: run this where Slurm's client commands are installed"
        ) from None
    except subprocess.TimeoutExpired:
        raise SlurmCommandError(f"{command[0]} gave no answer within {timeout_s:g} s: is slurmctld (or slurmdbd) up?") from None
    if done.returncode:
        text = done.stderr.decode("utf-8", "replace").strip()
        raise SlurmCommandError(f"{' '.join(command)[:200]}: exit {done.returncode}: {text[:500]}")
    return done.stdout.decode("utf-8", "surrogateescape")


def readable(text: str) -> str:
    """Write bytes that are not UTF-8 as `\\xfc`, as the readers of logs do: names that differ in one stay two."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
