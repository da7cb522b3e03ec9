"""Do jobs that still run at the cut mislead the model? A log cut in the middle, and what was learned there, judged by what came.

At a cut only ended jobs are known, and of the last days' jobs the short ones have ended. A model that learns from those may take
the last days' work for shorter than it is. The yardstick knows the future: the same model, trained on every job submitted before
the cut as it later ended. What the others say less than it, class by class of runtime, is the bias that the cut makes.
"""

from collections.abc import Iterable
from datetime import tzinfo
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runcast.data.cluster import Training
from runcast.evaluation.bootstrap import weekly_intervals
from runcast.evaluation.metrics import Floats
from runcast.evaluation.replay import cuts, submitted_in
from runcast.evaluation.studies.headline import headline_of, quick_answers_s
from runcast.features.catalog import FAMILY
from runcast.features.encoder import Encoder
from runcast.features.matrix import Matrix
from runcast.training.forecast import Inputs
from runcast.training.gbdt import without_dates
from runcast.training.rows import encoded_inputs

DAY_US = 86_400_000_000
#: Days after the cut whose jobs are asked for.
ASKED_DAYS = 7
#: A job as long as this share of those submitted before is a long one.
LONG = 0.9
#: Runtimes up to which a job is of each class, s.
CLASSES: tuple[tuple[str, float], ...] = (
    ("up to 10 min", 600), ("10 min to 1 h", 3_600), ("1 to 6 h", 21_600), ("6 to 24 h", 86_400), ("over 24 h", np.inf),
)  # fmt: skip
#: Where the held-back horizon and the weights look: this share of ended jobs took no longer from submission to end.
HORIZON = 0.99
#: No job stands for more than so many.
WEIGHT_AT_MOST = 20
#: Each way is the geometric mean of so many models, of different seeds: what one seed does is larger than what is looked for.
SEEDS = 2
YARDSTICK = "yardstick"
Rows = NDArray[np.intp]


def busiest_cut(matrix: Matrix, zone: tzinfo) -> int:
    """Return the midnight in the middle third of the log (by submission) at which most long jobs run."""
    rows = submitted_in(matrix, None, None)
    submit_us, ended = matrix.submit_us[rows], matrix.ended
    third = len(rows) // 3
    is_long = rows[ended.runtime_s[rows] >= np.quantile(ended.runtime_s[rows], LONG)]
    starts, ends = np.sort(ended.start_us[is_long]), np.sort(ended.end_us[is_long])
    midnights = cuts(int(submit_us[third]), int(submit_us[-third]), "nightly", zone)[1:]
    running = np.searchsorted(starts, midnights) - np.searchsorted(ends, midnights)
    return midnights[int(np.argmax(running))]


def probe(matrix: Matrix, training: Training, zone: tzinfo, window_days: float | None) -> dict[str, Any]:
    """Return the bias of each way to train at the busiest cut, on the jobs of the week after it, by class of runtime.

    `against_yardstick` is the median of ln(answer / yardstick's answer): 0 where the cut does no harm, with an interval over days.
    """
    cut_us = busiest_cut(matrix, zone)
    begin_us = matrix.submit_us.min() if window_days is None else cut_us - int(window_days * DAY_US)
    ended = matrix.ended
    submitted = np.flatnonzero(ended.has_runtime & (matrix.submit_us < cut_us) & (ended.end_us >= begin_us))
    submitted = submitted[np.argsort(ended.end_us[submitted], kind="stable")]
    known = submitted[ended.end_us[submitted] < cut_us]
    asked = submitted_in(matrix, cut_us, cut_us + ASKED_DAYS * DAY_US)
    actual_s = ended.runtime_s[asked]
    took_us = np.quantile((ended.end_us - matrix.submit_us)[known], HORIZON)
    ways: dict[str, tuple[Rows, bool, int]] = {
        YARDSTICK: (submitted, True, 0),
        "yardstick, other seeds": (submitted, True, 1),
        "ended jobs": (known, True, 0),
        "yardstick, no siblings": (submitted, False, 0),
        "ended jobs, no siblings": (known, False, 0),
        "last days held back": (known[matrix.submit_us[known] < cut_us - took_us], True, 0),
        "ended jobs, weighted": (weighted(ended.start_us, ended.end_us, submitted, cut_us), True, 0),
    }
    answers = {
        way: _answers_s(matrix, rows, with_siblings, asked, training, range(turn * SEEDS, (turn + 1) * SEEDS))
        for way, (rows, with_siblings, turn) in ways.items()
    }
    day = (matrix.submit_us[asked] - cut_us) // DAY_US
    classes = _classes(actual_s)
    return {
        "cut_us": int(cut_us),
        "window_days": window_days,
        "known": len(known),
        "running": len(submitted) - len(known),
        "running_share_of_last_day": _running_share(matrix, submitted, cut_us),
        "horizon_days": float(took_us / DAY_US),
        "asked": len(asked),
        "classes": {name: int(rows.sum()) for name, rows in classes.items()},
        "ways": {
            way: {
                "jobs": len(ways[way][0]),
                **headline_of(actual_s, answer_s),
                "bias": {name: _median_log(answer_s[rows], actual_s[rows]) for name, rows in classes.items()},
                "against_yardstick": {
                    name: _against(answer_s[rows], answers[YARDSTICK][rows], day[rows], training.seed)
                    for name, rows in classes.items()
                },
            }
            for way, answer_s in answers.items()
        },
    }


def weighted(start_us: NDArray[np.int64], end_us: NDArray[np.int64], submitted: Rows, cut_us: int) -> Rows:
    """Return the ended jobs of `submitted` (by rising end), each as often as it stands for jobs that still run.

    Inverse probability of censoring: a job that ran for r is seen only if it began at least r before the cut. The chance of that,
    among all that began, is Kaplan and Meier's estimate of how long jobs have been under watch; 1 over it, at most WEIGHT_AT_MOST,
    is rounded so that the sum is kept: by a running total.
    """
    started = submitted[start_us[submitted] < cut_us]
    is_ended = end_us[started] < cut_us
    watched = np.minimum(end_us[started], cut_us) - start_us[started]
    order = np.lexsort((~is_ended, watched))  # at equal times ends come before those still running
    at_risk = len(started) - np.arange(len(started))
    kept = np.cumprod(np.where(is_ended[order], 1.0, 1 - 1 / at_risk))
    before = np.concatenate([[1.0], kept[:-1]])  # of being watched for at least so long
    weight = np.empty(len(started))
    weight[order] = np.minimum(1 / np.maximum(before, 1e-9), WEIGHT_AT_MOST)
    rows, weight = started[is_ended], weight[is_ended]
    times = np.diff(np.floor(np.cumsum(weight) + 1e-9), prepend=0).astype(np.intp)
    return np.repeat(rows, times)


def _answers_s(matrix: Matrix, rows: Rows, with_siblings: bool, asked: Rows, training: Training, turns: Iterable[int]) -> Floats:
    known, later = matrix.take(rows), matrix.take(asked)
    encoder = Encoder.fit(known)

    def inputs(part: Matrix) -> Inputs:
        found = without_dates(encoded_inputs(part, encoder))
        return found.select([name for name in found.names if with_siblings or FAMILY.get(name) != "siblings"])

    given, wanted, runtime_s = inputs(known), inputs(later), known.ended.runtime_s
    seeds = [training.model_copy(update={"seed": training.seed + turn}) for turn in turns]
    answers_s: Floats = np.exp(np.mean([np.log(quick_answers_s(given, runtime_s, wanted, one)) for one in seeds], axis=0))
    return answers_s


def _classes(actual_s: Floats) -> dict[str, NDArray[np.bool_]]:
    found, above = {"all": np.ones(len(actual_s), bool)}, 0.0
    for name, up_to in CLASSES:
        rows = (actual_s > above) & (actual_s <= up_to)
        if rows.any():
            found[name] = rows
        above = up_to
    return found


def _running_share(matrix: Matrix, submitted: Rows, cut_us: int) -> float:
    """Return which share of the jobs submitted in the day before the cut had not ended by then."""
    last = submitted[matrix.submit_us[submitted] >= cut_us - DAY_US]
    return float((matrix.ended.end_us[last] >= cut_us).mean()) if len(last) else 0.0


def _median_log(one_s: Floats, other_s: Floats) -> float:
    return float(np.median(np.log(one_s / other_s)))


def _against(answer_s: Floats, yardstick_s: Floats, day: NDArray[np.int64], seed: int) -> dict[str, float | None]:
    logs = np.log(answer_s / yardstick_s)
    drawn = weekly_intervals({"log": lambda rows: float(logs[rows].mean())}, day, seed)["log"]
    return {"log": float(logs.mean()), "low": drawn.low, "high": drawn.high}
