"""Numbers of the command lines beside the scheduler: one without sense is refused at the start, in words, not in the first pass."""

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from runcast.data.errors import UsageError
from runcast.outcome import report

SHORTEST_S, LONGEST_S = 0.001, 31 * 86_400.0


class Parser(argparse.ArgumentParser):
    """Ends with exit code 2 and the reason, like its base; with `--json` the reason is on standard output too."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(report(UsageError(message)), f"{self.prog}: error: {message}\n")


def seconds(low: float = SHORTEST_S, high: float = LONGEST_S) -> Callable[[str], float]:
    """Return what reads a span in seconds from `low` to `high`."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:  # also refuses NaN
            raise argparse.ArgumentTypeError(f"expected {low:g} to {high:g} seconds, found {text!r}")
        return value

    return read


def whole(low: int, high: int, base: int = 10) -> Callable[[str], int]:
    """Return what reads a whole number from `low` to `high`, written to `base` 10 or 8."""

    def read(text: str) -> int:
        try:
            value = int(text, base)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            first, last = (f"{low:o}", f"{high:o}") if base == 8 else (str(low), str(high))
            kind = "an octal number" if base == 8 else "a whole number"
            raise argparse.ArgumentTypeError(f"expected {kind} from {first} to {last}, found {text!r}")
        return value

    return read
