"""How old a model may be, and how much of the past it should learn from: cadences and windows on the same jobs.

`once` is trained when the log's latest fifth begins; `weekly` and `nightly` at local midnights within the weeks that are compared,
which are spread over that fifth. So `once` is as stale on the last week as a model is that nobody retrained. Of each week the jobs of its
first and fifth day are asked for: what a day adds to the age of a model shows on these as on all seven.
"""

import time
from collections.abc import Sequence
from datetime import tzinfo
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runcast.data.cluster import Training
from runcast.evaluation.metrics import Floats
from runcast.evaluation.replay import CADENCES, Cadence, cuts, submitted_in, test_rows
from runcast.evaluation.studies.headline import headline_of, quick_answers_s, times_worse
from runcast.features.encoder import Encoder
from runcast.features.matrix import Matrix
from runcast.training.gbdt import without_dates
from runcast.training.rows import encoded_inputs, ended_before

#: Days before a cut whose ended jobs are learned from; None is everything.
WINDOWS_DAYS: tuple[float | None, ...] = (30, 90, 180, None)
WEEKS = 4
DAYS_ASKED = (0, 4)
#: Each training learns from at most so many jobs of its window, evenly spread over it: what the window holds, at a bearable cost.
MOST_JOBS = 50_000
Rows = NDArray[np.intp]


def compared_weeks(submit_us: NDArray[np.int64], zone: tzinfo, count: int) -> list[list[int]]:
    """Return `count` weeks within rising submissions, evenly spread, the last one at the end: 8 local midnights each.

    Fewer where the stretch is too short for as many different ones.
    """
    midnights = cuts(int(submit_us[0]), int(submit_us[-1]), "nightly", zone)[1:]
    last = len(midnights) - 8
    if last < 0:
        return []
    begins = sorted({round(last * (at + 1) / count) for at in range(count)})
    return [midnights[begin : begin + 8] for begin in begins]


class Days(NamedTuple):
    """Days that are asked: the jobs of each, and for each cadence the moment of the training that answers it."""

    asked: list[Rows]
    cuts_us: dict[Cadence, list[int]]

    @property
    def of_job(self) -> Rows:
        """Return for each job asked, day by day, which day it is of."""
        return np.repeat(np.arange(len(self.asked)), [len(one) for one in self.asked])


def days_of(matrix: Matrix, tested: Rows, stretches: Sequence[Sequence[int]]) -> Days:
    """Return the days asked of each week in `stretches` (see compared_weeks); `once` is trained at the first of `tested`."""
    return Days(
        [submitted_in(matrix, one[at], one[at + 1]) for one in stretches for at in DAYS_ASKED],
        {
            "once": [int(matrix.submit_us[tested[0]])] * (len(stretches) * len(DAYS_ASKED)),
            "weekly": [one[0] for one in stretches for _ in DAYS_ASKED],
            "nightly": [one[at] for one in stretches for at in DAYS_ASKED],
        },
    )


def compare_cadences(matrix: Matrix, training: Training, test_share: float, zone: tzinfo, weeks: int = WEEKS) -> dict[str, Any]:
    """Return headline, jobs learned from and processor seconds of a training for each window and cadence, on the same jobs.

    `times` is the error factor over that of everything, nightly. Its interval draws days, since the weeks are few.
    """
    tested = test_rows(matrix, test_share)
    stretches = compared_weeks(matrix.submit_us[tested], zone, weeks)
    days = days_of(matrix, tested, stretches)
    rows, day = np.concatenate(days.asked), days.of_job
    actual_s = matrix.ended.runtime_s[rows]
    answered = {
        (window, cadence): _answers(
            matrix, training.model_copy(update={"window_days": window}), days.cuts_us[cadence], days.asked
        )
        for window in WINDOWS_DAYS
        for cadence in CADENCES
    }
    base_s = answered[None, "nightly"][0]
    return {
        "asked": len(rows),
        "weeks": [one[0] for one in stretches],
        "rows": [
            {
                "window_days": window,
                "cadence": cadence,
                **headline_of(actual_s, answers_s),
                "times": times_worse(actual_s, answers_s, base_s, day, training.seed),
                "learned": learned,
                "processor_s": seconds,
            }
            for (window, cadence), (answers_s, learned, seconds) in answered.items()
        ],
    }


def _answers(matrix: Matrix, training: Training, cut_us: Sequence[int], asked: Sequence[Rows]) -> tuple[Floats, int, float]:
    """Return the answers for the days' jobs in order, mean jobs learned from and mean processor seconds of the trainings."""
    pieces, learned, seconds = [], [], []
    for cut in dict.fromkeys(cut_us):
        rows = np.concatenate([one for one, at in zip(asked, cut_us, strict=True) if at == cut])
        began = time.process_time()
        before = ended_before(matrix, cut, training)
        before = before[np.linspace(0, len(before) - 1, min(len(before), MOST_JOBS)).round().astype(np.intp)]
        known, later = matrix.take(before), matrix.take(rows)
        encoder = Encoder.fit(known)
        given, wanted = (without_dates(encoded_inputs(one, encoder)) for one in (known, later))
        pieces.append(quick_answers_s(given, known.ended.runtime_s, wanted, training))
        learned.append(len(before))
        seconds.append(time.process_time() - began)
    return np.concatenate(pieces), round(float(np.mean(learned))), float(np.mean(seconds))
