"""Counts of the service in Prometheus' text format, version 0.0.4. Nothing here reads a clock or keeps a name of a user or job."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

#: Upper bounds of the latency buckets: around the promise of 5 ms, and the 20 ms after which a scheduler no longer waits.
SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0)

Labels = tuple[tuple[str, str], ...]


class Counter:
    """A number that only grows, one for each set of labels."""

    kind = "counter"

    def __init__(self, name: str, meaning: str) -> None:
        self.name, self.meaning = name, meaning
        self._values: dict[Labels, float] = {}

    def add(self, labels: Labels = (), amount: float = 1) -> None:
        self._values[labels] = self._values.get(labels, 0) + amount

    def lines(self) -> list[str]:
        return [_line(self.name, labels, value) for labels, value in sorted(self._values.items())]


class Histogram:
    """How often a duration fell into each bucket, one set of buckets for each set of labels."""

    kind = "histogram"

    def __init__(self, name: str, meaning: str, bounds: Sequence[float] = SECONDS) -> None:
        self.name, self.meaning, self._bounds = name, meaning, tuple(bounds)
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, labels: Labels = ()) -> None:
        counts = self._counts.setdefault(labels, [0] * (len(self._bounds) + 1))
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + value

    def lines(self) -> list[str]:
        found = []
        for labels, counts in sorted(self._counts.items()):
            below = 0
            for bound, count in zip((*map(_number, self._bounds), "+Inf"), counts, strict=True):
                below += count
                found.append(_line(f"{self.name}_bucket", (*labels, ("le", bound)), below))
            found += [_line(f"{self.name}_sum", labels, self._sums[labels]), _line(f"{self.name}_count", labels, below)]
        return found


def exposition(metrics: Sequence[Counter | Histogram], gauges: Mapping[str, tuple[str, Mapping[Labels, float]]]) -> str:
    """Return the page; `gauges` are values of this moment: name -> (meaning, labels -> value)."""
    lines = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.meaning}", f"# TYPE {metric.name} {metric.kind}", *metric.lines()]
    for name, (meaning, values) in gauges.items():
        lines += [
            f"# HELP {name} {meaning}",
            f"# TYPE {name} gauge",
            *(_line(name, labels, value) for labels, value in values.items()),
        ]
    return "\n".join(lines) + "\n"


def _line(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"{name}{{{inside}}} {_number(value)}" if inside else f"{name} {_number(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
