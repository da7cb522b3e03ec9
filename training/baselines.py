"""What a model has to beat: the user's limit, the mean of the user's last two finished jobs, the median of the nearest history.

The features hold their answers; what is fitted is the fallback where a job has none, the factor to p90, and how often each is
right.
"""

import numpy as np
from numpy.typing import NDArray

from runcast.training.errors import NotEnoughJobs
from runcast.training.forecast import Floats, Inputs
from runcast.training.scoring import Baseline

#: What each baseline reads; the first is its answer.
READS: dict[str, tuple[str, ...]] = {
    "request": ("time_limit_s",),
    "last_two": ("last_two_mean_s_by_user",),
    "nearest_median": ("nearest_median_s", "nearest_n", "nearest_spread_log"),
}


def fit_baseline(kind: str, inputs: Inputs, runtime_s: Floats) -> Baseline:
    """Fit the baseline `kind` on ended jobs; raises NotEnoughJobs where there is none."""
    if not len(inputs):
        raise NotEnoughJobs(
            "no job had ended yet, so there is nothing to learn from. Come back in a few days, or load an earlier part of the log"
        )
    given_s = inputs.column(READS[kind][0])
    known = np.isfinite(given_s) & (given_s > 0)
    fallback_s = float(np.median(runtime_s))
    ratio_log = np.log(runtime_s) - np.log(np.where(known, np.where(known, given_s, 1.0), fallback_s))
    is_hit = np.abs(np.expm1(-ratio_log)) <= 0.25
    return Baseline(
        kind=kind,
        columns=READS[kind],
        fallback_s=fallback_s,
        p90_factor=(_p90_factor(ratio_log, known), _p90_factor(ratio_log, ~known)),
        hit_share=(_share(is_hit, known), _share(is_hit, ~known)),
    )


def _p90_factor(ratio_log: Floats, rows: NDArray[np.bool_]) -> float:
    """Return the 0.9 quantile of actual / answer; over all rows where `rows` holds none, so that a first case has an answer."""
    return float(np.exp(np.quantile(ratio_log[rows] if rows.any() else ratio_log, 0.9)))


def _share(is_hit: NDArray[np.bool_], rows: NDArray[np.bool_]) -> float:
    return float(is_hit[rows].mean()) if rows.any() else 0.0
