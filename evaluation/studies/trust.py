"""Whether a forecast's own word can be taken: is a confidence of 0.8 right in 80 of 100, and does p90 cover nine tenths every week.

From the predictions of a replay, one predictor's rows at a time.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from runcast.evaluation.bootstrap import week_of
from runcast.evaluation.figures import tenths
from runcast.evaluation.metrics import Floats, hits_within_25
from runcast.evaluation.risk_coverage import risk_coverage

#: Groups of jobs by confidence, of equal size; equal confidences stay together.
GROUPS = 10
#: A week of fewer jobs says little about a share of nine tenths.
WEEK_JOBS = 100
#: Where p90's coverage should lie in each week.
WEEKLY = (0.85, 0.95)
CURVE_POINTS = 40


def trust(
    submit_us: NDArray[np.int64],
    actual_s: Floats,
    point_s: Floats,
    p50_s: Floats,
    p90_s: Floats,
    confidence: Floats,
    hard_limit_s: Floats,
) -> dict[str, Any]:
    """Return what one predictor's forecasts, in order of submission, were worth by their own measure.

    `calibration` are groups of jobs by rising confidence: (mean confidence, share within 25 %, jobs); `calibration_error` is the
    mean gap between the two, weighted by jobs. `weeks` are (first submission of the week, share covered by p90) of weeks with
    enough jobs; `weeks_good` is the share of these within WEEKLY, None where there is none. `width` is the median of p90 / p50.
    `curve` is the risk-coverage curve: shares of jobs, and their MdAPE. `outlived` is the share of jobs that ran beyond their hard
    limit (NaN: they have none), as a job does until it is killed and its nodes are clean: no p90 at or below the limit covers them.
    `covered_others` is the share covered of all others.
    """
    hits = hits_within_25(actual_s, point_s)
    told = [(float(confidence[rows].mean()), float(hits[rows].mean()), len(rows)) for _, rows in tenths(confidence, GROUPS)]
    covered, outlived = actual_s <= p90_s, actual_s > hard_limit_s
    week = week_of(submit_us, int(submit_us[0]))
    weeks = [
        (int(submit_us[rows[0]]), float(covered[rows].mean()))
        for one in np.unique(week)
        if len(rows := np.flatnonzero(week == one)) >= WEEK_JOBS
    ]
    curve = risk_coverage(actual_s, point_s, confidence, CURVE_POINTS)
    return {
        "calibration": told,
        "calibration_error": sum(abs(said - right) * jobs for said, right, jobs in told) / len(hits),
        "covered": float(covered.mean()),
        "outlived": float(outlived.mean()),
        "covered_others": float(covered[~outlived].mean()),
        "weeks": weeks,
        "weeks_good": float(np.mean([WEEKLY[0] <= share <= WEEKLY[1] for _, share in weeks])) if weeks else None,
        "width": float(np.median(p90_s / p50_s)),
        "curve": [curve.coverage.tolist(), curve.mdape.tolist()],
    }
