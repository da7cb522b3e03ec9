"""The numbers of one replay: every metric of every predictor on every slice, coverage at the targets, and what chance could do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runcast.evaluation.bootstrap import Interval, weekly_intervals
from runcast.evaluation.metrics import METRICS, Floats, absolute_percentage_errors
from runcast.evaluation.risk_coverage import coverage_at
from runcast.evaluation.slices import Slice
from runcast.training.forecast import Forecast

#: predictor -> slice -> metric -> value; None where a slice has no jobs or the metric has no value there.
Scores = dict[str, dict[str, dict[str, float | None]]]
#: predictor -> target as text -> share of jobs.
Coverage = dict[str, dict[str, float | None]]


def score(actual_s: Floats, forecasts: Mapping[str, Forecast], slices: Sequence[Slice]) -> Scores:
    """Return every metric of every predictor on every slice."""
    return {
        name: {
            one.name: {
                metric.name: _or_none(metric.compute(actual_s[one.rows], getattr(forecast, metric.of)[one.rows]))
                for metric in METRICS
            }
            for one in slices
        }
        for name, forecast in forecasts.items()
    }


def coverages(actual_s: Floats, forecasts: Mapping[str, Forecast], targets: Sequence[float]) -> Coverage:
    """Return for each predictor the share of jobs, surest first, whose MdAPE is at or below each target."""
    return {
        name: {
            f"{target:g}": _or_none(coverage_at(target, actual_s, forecast.point_s, forecast.confidence)) for target in targets
        }
        for name, forecast in forecasts.items()
    }


@dataclass(frozen=True)
class Intervals:
    """Weekly block-bootstrap intervals on all jobs: `of` predictor -> metric, `against` model -> metric minus the best baseline's.

    `against` is given for lower-is-better metrics as a difference (below 0: the model is better), for within_25 above 0.
    """

    of: dict[str, dict[str, Interval]]
    against: dict[str, dict[str, Interval]]
    best_baseline: dict[str, str]
    draws: int
    seed: int


#: Metrics with intervals: what the verdict and the targets are about. Each is a mean or a median of one number per job.
_PER_JOB: dict[str, tuple[str, Callable[[Floats, Floats], Floats], Callable[[Floats], float]]] = {
    "mdape": ("point_s", absolute_percentage_errors, lambda errors: float(np.median(errors))),
    "within_25": (
        "point_s",
        lambda a, p: (absolute_percentage_errors(a, p) <= 0.25).astype(float),
        lambda hits: float(hits.mean()),
    ),
    "error_factor": ("p50_s", lambda a, p: np.abs(np.log(p / a)), lambda logs: float(np.exp(logs.mean()))),
}


def intervals(
    actual_s: Floats,
    forecasts: Mapping[str, Forecast],
    best_baseline: Mapping[str, str],
    models: Sequence[str],
    week: NDArray[np.int64],
    seed: int,
    draws: int,
) -> Intervals:
    """Return the intervals; `best_baseline` names for each metric the baseline that models are compared with."""
    statistics: dict[str, Callable[[NDArray[np.intp]], float]] = {}
    for metric, (of, per_job, statistic) in _PER_JOB.items():
        values = {name: per_job(actual_s, getattr(forecast, of)) for name, forecast in forecasts.items()}
        for name in forecasts:
            statistics[f"{name}|{metric}"] = lambda rows, v=values[name], s=statistic: s(v[rows])
    alone = _draw(statistics, week, seed, draws, models, best_baseline)
    return Intervals(
        of={name: {metric: alone[f"{name}|{metric}"] for metric in _PER_JOB} for name in forecasts},
        against={name: {metric: alone[f"{name}-{metric}"] for metric in _PER_JOB} for name in models},
        best_baseline=dict(best_baseline),
        draws=draws,
        seed=seed,
    )


def _draw(
    statistics: dict[str, Callable[[NDArray[np.intp]], float]],
    week: NDArray[np.int64],
    seed: int,
    draws: int,
    models: Sequence[str],
    best_baseline: Mapping[str, str],
) -> dict[str, Interval]:
    """Draw every statistic and the models' differences to the best baseline in the same weeks."""
    differences: dict[str, Callable[[NDArray[np.intp]], float]] = {}
    for name in models:
        for metric in _PER_JOB:
            one, other = statistics[f"{name}|{metric}"], statistics[f"{best_baseline[metric]}|{metric}"]
            differences[f"{name}-{metric}"] = lambda rows, a=one, b=other: a(rows) - b(rows)
    return weekly_intervals(statistics | differences, week, seed, draws)


def best_of(scores: Scores, names: Sequence[str], metric: str, rows: str = "all") -> str:
    """Return which of `names` is best by `metric` on the slice `rows`, the first where equal; None values lose."""
    better = next(one.better for one in METRICS if one.name == metric)

    def badness(name: str) -> float:
        value = scores[name][rows][metric]
        if value is None:
            return np.inf
        return {"lower": value, "higher": -value, "nearer_0.9": abs(value - 0.9), "neither": np.inf}[better]

    return min(names, key=badness)


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
