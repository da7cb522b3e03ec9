"""How far a number could move by chance: whole weeks of test jobs are drawn again and again.

Jobs of one week are alike (the same people sweep the same parameters), so single jobs would pretend to more evidence than there
is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

DRAWS = 200
LEVEL = 0.95
#: Fewer blocks say too little of how far blocks differ for any interval.
BLOCKS_AT_LEAST = 5
WEEK_US = 7 * 86_400_000_000


@dataclass(frozen=True)
class Interval:
    """The `LEVEL` interval of a number; both ends None where there are fewer than BLOCKS_AT_LEAST weeks to draw from."""

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

    Percentile bootstrap over weeks, its tails moved out for their small number (the expanded percentile interval of Hesterberg, What
    Teachers Should Know About the Bootstrap, The American Statistician 69, 2015); equal seeds give equal intervals.
    """
    weeks = [np.flatnonzero(week == one) for one in np.unique(week)]
    if len(weeks) < BLOCKS_AT_LEAST:
        return {name: Interval(None, None, len(weeks)) for name in statistics}
    rng = np.random.default_rng(seed)
    found: dict[str, list[float]] = {name: [] for name in statistics}
    for _ in range(draws):
        rows = np.concatenate([weeks[one] for one in rng.integers(0, len(weeks), len(weeks))])
        for name, statistic in statistics.items():
            found[name].append(statistic(rows))
    tail = _tail(len(weeks))
    ends = {name: np.quantile(values, [tail, 1 - tail]) for name, values in found.items()}
    return {name: Interval(float(low), float(high), len(weeks)) for name, (low, high) in ends.items()}


def _tail(blocks: int) -> float:
    """Return which quantile of the draws is the lower end: less than (1 - LEVEL) / 2, the fewer blocks the less."""
    return float(norm.cdf(-math.sqrt(blocks / (blocks - 1)) * t.ppf((1 + LEVEL) / 2, blocks - 1)))
