"""Numbers of the command lines beside the scheduler: one without sense is refused at the start, in words, not in the first pass."""

import argparse
from collections.abc import Callable

SHORTEST_S, LONGEST_S = 0.001, 31 * 86_400.0


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
