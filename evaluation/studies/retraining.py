"""What retraining is worth to `runcast` itself: trained once, weekly and nightly, asked for the same days.

cadence.py compares windows as well, with a quick model; here is the whole predictor at its defaults, as a night trains it. A last way
trains nightly without the last days' submissions, of which only the short jobs have ended (see censoring.py).
"""

import time
from datetime import tzinfo
from typing import Any

import numpy as np

from runcast.data.cluster import Training
from runcast.evaluation.replay import CADENCES, test_rows
from runcast.evaluation.risk_coverage import coverage_at
from runcast.evaluation.studies.cadence import compared_weeks, days_of
from runcast.evaluation.studies.censoring import HORIZON
from runcast.evaluation.studies.headline import headline, times_worse
from runcast.features.matrix import Matrix
from runcast.training.fitting import Fit, answer, fit_at
from runcast.training.forecast import joined

OURS = "runcast"
HELD_BACK = "nightly, last days held back"
WEEKS = 3
#: Half of the jobs of this share, surest first, are at most so wrong: the measure of a report's coverage.
COVERED_ERROR = 0.089


def compare_retraining(matrix: Matrix, training: Training, test_share: float, zone: tzinfo, weeks: int = WEEKS) -> dict[str, Any]:
    """Return headline, coverage, trainings and processor seconds of one for each way to train, on the same jobs.

    `times` is the error factor over that of the model trained once, with an interval by drawing days.
    """
    tested = test_rows(matrix, test_share)
    stretches = compared_weeks(matrix.submit_us[tested], zone, weeks)
    days = days_of(matrix, tested, stretches)
    rows = np.concatenate(days.asked)
    actual_s = matrix.ended.runtime_s[rows]
    ways: dict[str, tuple[list[int], bool]] = {cadence: (days.cuts_us[cadence], False) for cadence in CADENCES}
    ways[HELD_BACK] = (days.cuts_us["nightly"], True)
    fits = _Fits(matrix, training)
    told = {
        way: joined(
            [answer(fits.at(cut_us, held), matrix.take(one))[OURS] for cut_us, one in zip(cuts_us, days.asked, strict=True)]
        )
        for way, (cuts_us, held) in ways.items()
    }
    return {
        "asked": len(rows),
        "weeks": [one[0] for one in stretches],
        "rows": [
            {
                "way": way,
                **headline(actual_s, forecast),
                "coverage": coverage_at(COVERED_ERROR, actual_s, forecast.point_s, forecast.confidence),
                "times": times_worse(actual_s, forecast.p50_s, told["once"].p50_s, days.of_job, training.seed),
                "trainings": len({*ways[way][0]}),
                "processor_s": float(np.mean([fits.processor_s[cut_us, ways[way][1]] for cut_us in {*ways[way][0]}])),
            }
            for way, forecast in told.items()
        ],
    }


class _Fits:
    """The predictor as of each cut, fitted where it is first asked for: of a week's first day weekly and nightly are one."""

    def __init__(self, matrix: Matrix, training: Training) -> None:
        self._matrix, self._training = matrix, training
        self._kept: dict[tuple[int, bool], Fit] = {}
        self.processor_s: dict[tuple[int, bool], float] = {}

    def at(self, cut_us: int, held: bool) -> Fit:
        asked = (cut_us, held)
        if asked not in self._kept:
            training = self._training.model_copy(update={"held_back_share": HORIZON}) if held else self._training
            began = time.process_time()
            self._kept[asked] = fit_at(self._matrix, cut_us, (OURS,), training)
            self.processor_s[asked] = time.process_time() - began
        return self._kept[asked]
