"""The command `runcast`, and `python -m runcast`.

A scheduler host has the extra `scheduler` only: the commands of host.py work there; every other one needs the extra `pipeline`.
"""

import importlib.metadata
import sys

from runcast.data.errors import NotInstalled
from runcast.data.files import keep_from_others
from runcast.host import HOST_COMMANDS, host_help, run_host_command
from runcast.outcome import release_stdout, report, reserve_stdout


def main() -> int:
    """Run the command line; returns the exit code."""
    keep_from_others()
    words = sys.argv[1:]
    if words == ["--version"]:
        sys.stdout.write(f"runcast {importlib.metadata.version('runcast')}\n")
        return 0
    if words and words[0] in HOST_COMMANDS:
        return run_host_command(words[0], words[1:])
    try:
        from runcast.cli import main as command_line
    except ModuleNotFoundError as error:
        return _on_a_scheduler_host(words, error)
    command_line()
    return 0


def _on_a_scheduler_host(words: list[str], missing: ModuleNotFoundError) -> int:
    if words in (["--help"], []):
        sys.stdout.write(host_help() + "\n")
        return 0
    error = NotInstalled(
        f"{missing.name} is not installed. On this host only these commands work: {', '.join(HOST_COMMANDS)}. "
        "Every other one needs the pipeline: in a clone of Runcast, make setup"
    )
    if "--json" in words:
        reserve_stdout()
    try:
        sys.stderr.write(f"runcast: {error}\n")
        return report(error)
    finally:
        release_stdout()


if __name__ == "__main__":
    sys.exit(main())
