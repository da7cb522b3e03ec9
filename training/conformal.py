"""Split-conformal correction of p90: what the latest ended jobs, unseen by the quantile, say it must be multiplied by."""

import math

import numpy as np
from numpy.typing import NDArray

from runcast.training.forecast import Floats

#: The latest tenth to eighth of what had ended: near enough to tomorrow, large enough for a 0.9 quantile.
CALIBRATION_SHARE = 0.125
#: Below this many calibration jobs the corrected quantile is noise; the fitted one is left as it is.
CALIBRATION_JOBS_AT_LEAST = 50


def split_latest(jobs: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return (earlier, latest) positions of `jobs` rows that are ordered by end time; latest is empty when too few."""
    latest = math.floor(jobs * CALIBRATION_SHARE)
    if latest < CALIBRATION_JOBS_AT_LEAST:
        latest = 0
    rows = np.arange(jobs)
    return rows[: jobs - latest], rows[jobs - latest :]


def conformal_factor(actual_s: Floats, p90_s: Floats, level: float = 0.9) -> float:
    """Return what `p90_s` must be multiplied by so that it covers `level` of jobs like these; 1 where there are none.

    The ceil((n + 1) * level)-th smallest of actual / p90: with exchangeable jobs the next one is covered with at least `level`.
    """
    jobs = len(actual_s)
    if not jobs:
        return 1.0
    rank = min(math.ceil((jobs + 1) * level), jobs)
    return float(np.sort(actual_s / p90_s)[rank - 1])
