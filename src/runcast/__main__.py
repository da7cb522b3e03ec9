"""The command `runcast`, and `python -m runcast`.

A scheduler host has the extra `scheduler` only: the commands of host.py work there; every other one needs the extra `pipeline`.
"""

import sys

from runcast.host import HOST_COMMANDS, run_host_command


def main() -> int:
    """Run the command line; returns the exit code."""
    if sys.argv[1:2] and sys.argv[1] in HOST_COMMANDS:
        return run_host_command(sys.argv[1], sys.argv[2:])
    try:
        from runcast.cli import main as command_line
    except ModuleNotFoundError as error:
        sys.stderr.write(
            f"runcast: {error.name} is not installed. On this host only these commands work: {', '.join(HOST_COMMANDS)}; "
            "for every other one: pip install 'runcast[pipeline]'\n"
        )
        return 1
    command_line()
    return 0


if __name__ == "__main__":
    sys.exit(main())
