"""How right forecasts are: one signature for every number, `(actual_s, predicted_s) -> float`, and which of two numbers is better.

Both are seconds, actual above 0, same length. A metric of no jobs is NaN. Runtimes span seconds to weeks, so the ratios matter:
MAPE and WAPE are kept because others print them, and are ruled by a few jobs that die at once or run for a month.

A metric knows its direction; gates, champions, the best of several, pages and reports compare by it and by nothing else. What is no
finite number (NaN, infinity) is no value: it is written as null, shown as a dash, and is worse than any value.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from runcast.data.cluster import COVERAGE_PREFIX

Floats = NDArray[np.float64]


def absolute_percentage_errors(actual_s: Floats, predicted_s: Floats) -> Floats:
    """Return |predicted - actual| / actual per job."""
    return np.abs(predicted_s - actual_s) / actual_s


def absolute_log_ratios(actual_s: Floats, predicted_s: Floats) -> Floats:
    """Return |ln(predicted / actual)| per job: the same for double and half."""
    ratios: Floats = np.abs(np.log(predicted_s / actual_s))
    return ratios


def hits_within_25(actual_s: Floats, predicted_s: Floats) -> Floats:
    """Return 1 for each job whose percentage error is at most 25 %, else 0."""
    return (absolute_percentage_errors(actual_s, predicted_s) <= 0.25).astype(np.float64)


def mdape(actual_s: Floats, predicted_s: Floats) -> float:
    """Half of the jobs have a percentage error at or below this."""
    return _of(np.median, absolute_percentage_errors(actual_s, predicted_s))


def mape(actual_s: Floats, predicted_s: Floats) -> float:
    """Mean percentage error; jobs that die in seconds rule it."""
    return _of(np.mean, absolute_percentage_errors(actual_s, predicted_s))


def within_25(actual_s: Floats, predicted_s: Floats) -> float:
    """Share of jobs whose percentage error is at most 25 %."""
    return _of(np.mean, hits_within_25(actual_s, predicted_s))


def wape(actual_s: Floats, predicted_s: Floats) -> float:
    """Sum of absolute errors over the sum of runtimes; the longest jobs rule it."""
    return float(np.abs(predicted_s - actual_s).sum() / actual_s.sum()) if len(actual_s) else np.nan


def error_factor(actual_s: Floats, predicted_s: Floats) -> float:
    """exp of the mean |ln(predicted / actual)|: 2 means off by a factor of two, geometric mean, either side alike."""
    return float(np.exp(_of(np.mean, absolute_log_ratios(actual_s, predicted_s))))


def r2_log(actual_s: Floats, predicted_s: Floats) -> float:
    """R² of ln(runtime): 1 is perfect, 0 is as good as the geometric mean of these jobs; no value (NaN) where all runtimes are equal."""
    if not len(actual_s) or np.ptp(actual_s) == 0:
        return np.nan
    log_actual = np.log(actual_s)
    return float(1 - ((np.log(predicted_s) - log_actual) ** 2).sum() / ((log_actual - log_actual.mean()) ** 2).sum())


def off_by_2x(actual_s: Floats, predicted_s: Floats) -> float:
    """Share of jobs predicted at more than double or less than half their runtime."""
    return _of(np.mean, absolute_log_ratios(actual_s, predicted_s) > np.log(2))


def under_share(actual_s: Floats, predicted_s: Floats) -> float:
    """Share of jobs predicted shorter than they ran."""
    return _of(np.mean, predicted_s < actual_s)


def p90_coverage(actual_s: Floats, predicted_s: Floats) -> float:
    """Share of jobs that ended within their p90; 0.9 is right, more is too wide, less too narrow."""
    return _of(np.mean, actual_s <= predicted_s)


def spearman(actual_s: Floats, predicted_s: Floats) -> float:
    """Rank correlation, ties at their mean rank: what ordering a queue needs. No value (NaN) where either side is constant."""
    if len(actual_s) < 2 or np.ptp(actual_s) == 0 or np.ptp(predicted_s) == 0:
        return np.nan
    return float(np.corrcoef(mean_ranks(actual_s), mean_ranks(predicted_s))[0, 1])


def mean_ranks(values: Floats) -> Floats:
    """Return the rank of each value from 1, ties at the mean of theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[which]


def _of(statistic: Callable[[Any], Any], values: NDArray[Any]) -> float:
    return float(statistic(values)) if len(values) else np.nan


def finite(value: float | None) -> float | None:
    """Return the value as a plain float, None where it is no finite number."""
    return float(value) if value is not None and math.isfinite(value) else None


@dataclass(frozen=True)
class Direction:
    """Which way a number is better; with `goal`, nearest to that value. Compares values, of which None and NaN are the worst."""

    best_is: Literal["lowest", "highest", "nearest", "none"]
    goal: float | None = None

    def best(self, values: Mapping[str, float | None]) -> str | None:
        """Return the name with the best value, the first where equal; None where no name has a value or no way is better."""
        return next(iter(self.ranked(values)), None)

    def ranked(self, values: Mapping[str, float | None]) -> list[str]:
        """Return the names that have a value to compare, the best first, equal ones in their order."""
        distances = {name: distance for name, value in values.items() if (distance := self._distance(value)) is not None}
        return sorted(distances, key=lambda name: distances[name])

    def is_better(self, value: float | None, other: float | None) -> bool:
        """Say whether `value` is strictly better than `other`; never where no way is better."""
        distance, of_other = self._distance(value), self._distance(other)
        return distance is not None and (of_other is None or distance < of_other)

    def _distance(self, value: float | None) -> float | None:
        """Return how far from the best a value is: of two, the smaller is better. None where there is no value to compare."""
        number = finite(value)
        if number is None or self.best_is == "none":
            return None
        if self.goal is not None:
            return abs(number - self.goal)
        return number if self.best_is == "lowest" else -number


LOWER, HIGHER, NEITHER = Direction("lowest"), Direction("highest"), Direction("none")


@dataclass(frozen=True)
class Metric:
    """A number of the report: what it is computed from, which way is better, and how it is printed."""

    name: str
    compute: Callable[[Floats, Floats], float]
    of: Literal["point_s", "p50_s", "p90_s"]
    better: Direction
    label: str
    style: Literal["percent", "factor", "number"]

    @property
    def meaning(self) -> str:
        return str(self.compute.__doc__).strip()


METRICS: tuple[Metric, ...] = (
    Metric("mdape", mdape, "point_s", LOWER, "MdAPE", "percent"),
    Metric("within_25", within_25, "point_s", HIGHER, "within 25 %", "percent"),
    Metric("error_factor", error_factor, "p50_s", LOWER, "error factor", "factor"),
    Metric("r2_log", r2_log, "p50_s", HIGHER, "R² of logs", "number"),
    Metric("off_by_2x", off_by_2x, "p50_s", LOWER, "off by > 2×", "percent"),
    Metric("under_share", under_share, "p50_s", NEITHER, "under-predicted", "percent"),
    Metric("p90_coverage", p90_coverage, "p90_s", Direction("nearest", 0.9), "p90 coverage", "percent"),
    Metric("spearman", spearman, "p50_s", HIGHER, "rank correlation", "number"),
    Metric("mape", mape, "point_s", LOWER, "MAPE", "percent"),
    Metric("wape", wape, "point_s", LOWER, "WAPE", "percent"),
)
BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}


def direction_of(name: str) -> Direction:
    """Return the direction of a metric, or of the coverage at a target (coverage_0.089): more is better."""
    return HIGHER if name.startswith(COVERAGE_PREFIX) else BY_NAME[name].better
