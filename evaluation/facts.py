"""What a reader should know of a log and of the forecasts before reading numbers; every sentence is computed from the test jobs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from runcast.evaluation.metrics import BY_NAME, Floats, finite
from runcast.evaluation.numbers import percent
from runcast.evaluation.slices import NAMED
from runcast.features.matrix import Matrix
from runcast.training.forecast import FLOOR_S, Forecast

#: A job that outlives its limit by no more is close to what an operator allows for killing and cleaning up (Slurm's KillWait).
LITTLE_S = 300.0
#: Share of test jobs past their hard limit from which the report speaks of it: a tenth of what p90 may leave uncovered.
_TOLD_FROM = 0.01
#: Share of test jobs beyond twice their limit from which the limits themselves are to be doubted: real logs have less than a hundredth.
_DOUBTED_FROM = 0.05
#: A slice of fewer test jobs says nothing of how its people are served.
FEWEST_JOBS = 30

Document = Mapping[str, Any]


def limits_outlived(runtime_s: Floats, limit_s: Floats) -> dict[str, Any]:
    """Return which shares of the jobs ran past their hard limit (`limit_s`, NaN where none): at all, by little, by more, beyond twice.

    A limit below a second caps no forecast and counts as none. `p90_at_most` is the share that a p90 within the limits can
    cover, `uncovered` the sentence that says so, empty where that is more than 99 %.
    """
    has_limit = limit_s >= FLOOR_S  # NaN compares false
    past_s = np.where(has_limit, runtime_s - limit_s, 0.0)
    outlived = float((past_s > 0).mean())
    at_most = f"No p90 is above a hard limit, so p90 can cover at most {percent(1 - outlived)} of the jobs."
    return {
        "with_limit": float(has_limit.mean()),
        "outlived": outlived,
        "by_little": float(((past_s > 0) & (past_s <= LITTLE_S)).mean()),
        "by_more": float((past_s > LITTLE_S).mean()),
        "beyond_twice": float((has_limit & (runtime_s > 2 * limit_s)).mean()),
        "p90_at_most": 1 - outlived,
        "uncovered": at_most if outlived >= _TOLD_FROM else "",
    }


def totals(actual_s: Floats, forecasts: Mapping[str, Forecast]) -> dict[str, dict[str, float | None]]:
    """Return for each predictor what its point, p50 and p90 add up to, as a share of the time that the jobs took."""
    took_s = float(actual_s.sum())
    return {
        name: {of: finite(float(getattr(forecast, of).sum()) / took_s) for of in ("point_s", "p50_s", "p90_s")}
        for name, forecast in forecasts.items()
    }


def notes(matrix: Matrix, limits: Mapping[str, Any]) -> list[str]:
    """Return the sentences that stand above the numbers."""
    said = []
    if not np.isfinite(matrix.column("time_limit_s")).any():
        said.append("This log has no time limits: the baseline `request` answers every job with the training median.")
    users = matrix.categories.get("user")
    if users is None or not (users.codes >= 0).any():
        said.append(
            "This log names no users: histories are those of groups, queues and sizes, and `last_two` has nothing to look at."
        )
    if limits["uncovered"]:
        said.append(
            f"{percent(limits['outlived'])} of the test jobs ran past their hard limit: {percent(limits['by_little'])} by at most "
            f"{LITTLE_S / 60:.0f} minutes, {percent(limits['by_more'])} by more. {limits['uncovered']}"
        )
    if limits["beyond_twice"] >= _DOUBTED_FROM:
        said.append(
            f"{percent(limits['beyond_twice'])} of the test jobs ran for more than twice their limit. Where a limit kills, few jobs do: "
            "see whether the cluster file reads the limits in the unit in which the log has them, or whether they are only advice "
            "(`time_limit: advisory`)."
        )
    return said


def best_model(document: Document, models: Sequence[str]) -> str | None:
    """Return the model with the best error factor on all test jobs."""
    numbers = {name: document["predictors"][name]["all"]["error_factor"] for name in models if name in document["predictors"]}
    return BY_NAME["error_factor"].better.best(numbers)


def served_worst(document: Document, model: str, count: int = 8) -> list[str]:
    """Return the slices of groups, queues, accounts and users on which the model's error factor is worst, the worst first."""
    factors = {
        name: document["predictors"][model][name]["error_factor"]
        for name, about in document["slices"].items()
        if name.partition(":")[0] in NAMED and about["jobs"] >= FEWEST_JOBS
    }
    return BY_NAME["error_factor"].better.ranked(factors)[: -count - 1 : -1]
