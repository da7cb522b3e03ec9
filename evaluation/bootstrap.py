"""How far a number could move by chance: whole weeks of test jobs are drawn again and again.

Jobs of one week are alike (the same people sweep the same parameters), so single jobs would pretend to more evidence than there
is.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DRAWS = 200
LEVEL = 0.95
WEEK_US = 7 * 86_400_000_000


@dataclass(frozen=True)
class Interval:
    """The `LEVEL` interval of a number; both ends None where there are fewer than 2 weeks to draw from."""

    low: float | None
    high: float | None
    weeks: int


def week_of(submit_us: NDArray[np.int64], first_us: int) -> NDArray[np.int64]:
    """Return the week of each submission, counted from `first_us`."""
    return (submit_us - first_us) // WEEK_US


def weekly_intervals(
    statistics: dict[str, Callable[[NDArray[np.intp]], float]], week: NDArray[np.int64], seed: int, draws: int = DRAWS
) -> dict[str, Interval]:
    """Return the interval of each statistic, a function of row numbers (with repeats); all share the same draws.

    Percentile bootstrap over weeks; equal seeds give equal intervals.
    """
    weeks = [np.flatnonzero(week == one) for one in np.unique(week)]
    if len(weeks) < 2:
        return {name: Interval(None, None, len(weeks)) for name in statistics}
    rng = np.random.default_rng(seed)
    found: dict[str, list[float]] = {name: [] for name in statistics}
    for _ in range(draws):
        rows = np.concatenate([weeks[one] for one in rng.integers(0, len(weeks), len(weeks))])
        for name, statistic in statistics.items():
            found[name].append(statistic(rows))
    tail = (1 - LEVEL) / 2
    ends = {name: np.quantile(values, [tail, 1 - tail]) for name, values in found.items()}
    return {name: Interval(float(low), float(high), len(weeks)) for name, (low, high) in ends.items()}
