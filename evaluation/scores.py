"""The numbers of one replay: metrics of every predictor on every slice, coverage at the targets, and what chance could do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runcast.evaluation.bootstrap import Interval, weekly_intervals
from runcast.evaluation.metrics import METRICS, Floats, absolute_log_ratios, absolute_percentage_errors, finite, hits_within_25
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
                metric.name: finite(metric.compute(actual_s[one.rows], getattr(forecast, metric.of)[one.rows]))
                for metric in METRICS
            }
            for one in slices
        }
        for name, forecast in forecasts.items()
    }


def coverages(actual_s: Floats, forecasts: Mapping[str, Forecast], targets: Sequence[float]) -> Coverage:
    """Return for each predictor the share of jobs, surest first, whose MdAPE is at or below each target."""
    return {
        name: {f"{target:g}": finite(coverage_at(target, actual_s, forecast.point_s, forecast.confidence)) for target in targets}
        for name, forecast in forecasts.items()
    }


@dataclass(frozen=True)
class Intervals:
    """Weekly block-bootstrap intervals on all jobs: `of` predictor -> metric, `against` model -> metric minus the best baseline.

    A difference below 0 speaks for the model where lower is better (mdape, error_factor), above 0 for within_25.
    """

    of: dict[str, dict[str, Interval]]
    against: dict[str, dict[str, Interval]]
    best_baseline: dict[str, str]
    draws: int
    seed: int


Statistic = Callable[[NDArray[np.intp]], float]


@dataclass(frozen=True)
class _PerJob:
    """A metric that is a mean or a median of one number per job, so that a draw only gathers those."""

    of: str
    value: Callable[[Floats, Floats], Floats]
    summary: Callable[[Floats], float]


#: Metrics with intervals: what the verdict and the targets are about.
PER_JOB: dict[str, _PerJob] = {
    "mdape": _PerJob("point_s", absolute_percentage_errors, lambda errors: float(np.median(errors))),
    "within_25": _PerJob("point_s", hits_within_25, lambda hits: float(hits.mean())),
    "error_factor": _PerJob("p50_s", absolute_log_ratios, lambda logs: float(np.exp(logs.mean()))),
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
    alone = {
        (name, metric): _statistic(per_job, actual_s, forecast)
        for metric, per_job in PER_JOB.items()
        for name, forecast in forecasts.items()
    }
    against = {
        (name, metric): _difference(alone[name, metric], alone[best_baseline[metric], metric])
        for metric in PER_JOB
        for name in models
    }
    drawn = weekly_intervals(
        {f"{name}|{metric}": one for (name, metric), one in alone.items()}
        | {f"{name}-{metric}": one for (name, metric), one in against.items()},
        week,
        seed,
        draws,
    )
    return Intervals(
        of={name: {metric: drawn[f"{name}|{metric}"] for metric in PER_JOB} for name in forecasts},
        against={name: {metric: drawn[f"{name}-{metric}"] for metric in PER_JOB} for name in models},
        best_baseline=dict(best_baseline),
        draws=draws,
        seed=seed,
    )


def _statistic(per_job: _PerJob, actual_s: Floats, forecast: Forecast) -> Statistic:
    values = per_job.value(actual_s, getattr(forecast, per_job.of))
    return lambda rows: per_job.summary(values[rows])


def _difference(one: Statistic, other: Statistic) -> Statistic:
    return lambda rows: one(rows) - other(rows)
