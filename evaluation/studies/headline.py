"""The three numbers every study is read by, how far two sets of answers differ, and the quick model that studies fit many times."""

import numpy as np
from numpy.typing import NDArray

from runcast.data.cluster import GbdtParameters, Training
from runcast.evaluation.bootstrap import weekly_intervals
from runcast.evaluation.metrics import Floats, absolute_log_ratios, error_factor, mdape, within_25
from runcast.training.forecast import FLOOR_S, Forecast, Inputs
from runcast.training.gbdt import fit_median

#: A third of the trees at twice the rate, and half the leaves: differences between feature sets and windows are those of the whole
#: model, at a sixth of the time.
QUICK = GbdtParameters(trees=100, leaves=31, learning_rate=0.15)


def headline(actual_s: Floats, forecast: Forecast) -> dict[str, float]:
    """Return MdAPE and within 25 % of the point and the error factor of p50, as reports give them."""
    return {
        "mdape": mdape(actual_s, forecast.point_s),
        "within_25": within_25(actual_s, forecast.point_s),
        "error_factor": error_factor(actual_s, forecast.p50_s),
    }


def headline_of(actual_s: Floats, predicted_s: Floats) -> dict[str, float]:
    """Return the same of one number per job, which is point and p50 at once."""
    return {
        "mdape": mdape(actual_s, predicted_s),
        "within_25": within_25(actual_s, predicted_s),
        "error_factor": error_factor(actual_s, predicted_s),
    }


def quick_answers_s(learned: Inputs, runtime_s: Floats, asked: Inputs, training: Training) -> Floats:
    """Return the medians by a QUICK model fitted on `learned`, at least a second; limits cap nothing here."""
    model = fit_median(learned, runtime_s, QUICK, training.seed, training.threads)
    return np.maximum(np.exp(model.predict(asked.values)), FLOOR_S)


def times_worse(
    actual_s: Floats, answers_s: Floats, base_s: Floats, block: NDArray[np.intp] | NDArray[np.int64], seed: int
) -> dict[str, float | None]:
    """Return error factor over that of `base_s`, and the ends of its interval by drawing blocks (weeks, or days) of jobs."""
    more = absolute_log_ratios(actual_s, answers_s) - absolute_log_ratios(actual_s, base_s)
    drawn = weekly_intervals({"more": lambda rows: float(more[rows].mean())}, block.astype(np.int64), seed)["more"]
    low, high = (None if end is None else float(np.exp(end)) for end in (drawn.low, drawn.high))
    return {"times": float(np.exp(more.mean())), "low": low, "high": high}
