"""The command `runcast`, and `python -m runcast`.

A scheduler host has the extra `scheduler` only: `runcast serve` works there; every other command needs the extra `pipeline`.
"""

import sys


def main() -> int:
    """Run the command line; returns the exit code."""
    if sys.argv[1:2] == ["serve"]:
        from runcast.scheduler.serve import main as serve

        return serve(sys.argv[2:])
    try:
        from runcast.cli import main as command_line
    except ModuleNotFoundError as error:
        sys.stderr.write(
            f"runcast: {error.name} is not installed. On this host only `runcast serve` works; for every other command: "
            "pip install 'runcast[pipeline]'\n"
        )
        return 1
    command_line()
    return 0


if __name__ == "__main__":
    sys.exit(main())
