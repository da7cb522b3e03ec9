"""Fitting `runcast`: a median, a 0.9 quantile, a scorer of candidate values by how likely each is to be right, a refiner of the best.

The median of a runtime that is either a minute or a day is neither. So the values a job may well take are gathered (candidates.py)
and a model learns, for each, the chance that it is within 25 %; its calibrated chance is the confidence. The best is moved a little by a
model of where the runtime lies round it: that is the point. What an earlier model says of a training job is of one that had not
learned from it: the later would trust it too much.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from runcast.data.cluster import RuncastParameters
from runcast.training.binned import rows_of
from runcast.training.booster import Booster
from runcast.training.candidates import CANDIDATES, COLUMNS, READS, candidates, graded, is_right
from runcast.training.conformal import Margin, Owner, residual_log, split_latest
from runcast.training.errors import ConstantPredictor
from runcast.training.forecast import Floats, Inputs
from runcast.training.ranked import NEAREST, Calibration, Chosen, Median, Ranked, choose, nearest_log
from runcast.training.refiner import Refiner, columns_of, rows, runtimes_among

BINS = 63
#: The quantile models do not read the slots, which say again what the levels say, nor siblings: both were measured to add noise.
_NOT_OF_QUANTILES = ("_by_slot_1", "_by_slot_2", "_by_slot_3", "_of_slot_1", "_of_slot_2", "_of_slot_3")
_SIBLINGS = ("running_n", "waiting_n", "running_mean_s", "running_latest_s")
#: How right a value is, for the scorer: mostly whether it is within 25 %, and of two such the sharper.
WINDOWS: tuple[tuple[float, float], ...] = ((0.25, 0.55), (0.09, 0.25), (0.03, 0.20))
FOLDS = 2
#: The scorer is calibrated on the latest of these shares of the jobs.
CALIBRATION_SHARE = 0.2
JOBS_AT_LEAST = 20
#: The refiner learns what scorers choose that had not seen the job: one of the earliest of these shares of the jobs, one of the others.
EARLIER_SHARE = 0.6
#: A value off by this (of ln) or more teaches the refiner nothing: it was the wrong one, no way to tell where round the right one to be.
FAR_LOG = 0.8
#: The latest job is so many times as likely to be among those the scorer learns from as the first.
RECENCY = 4.0

Rows = NDArray[np.intp]


def fit_runcast(inputs: Inputs, runtime_s: Floats, parameters: RuncastParameters, seed: int, threads: int) -> Ranked:
    """Fit on ended jobs ordered by end time; raises ConstantPredictor where nothing splits."""
    latest = np.arange(len(inputs))[-parameters.latest_jobs :]
    inputs, runtime_log = inputs.take(latest), np.log(np.maximum(runtime_s[latest], 1))
    if len(inputs) < JOBS_AT_LEAST:
        raise ConstantPredictor(
            f"{len(inputs)} training jobs, at least {JOBS_AT_LEAST} are needed: a part of them is set aside for calibration"
        )
    models = _Models(parameters, seed, threads)
    names = quantile_columns(inputs.names)
    values = inputs.select(names).values
    every = lightgbm.Dataset(values, runtime_log, feature_name=list(names), params=models.quantile(0.5), free_raw_data=False)
    of_runtime, of_runtime_unseen = _fit_median(models, every, values)
    if not any(tree["num_leaves"] > 1 for tree in of_runtime.dump_model()["tree_info"]):
        raise ConstantPredictor(
            f"no feature splits the {len(inputs)} training jobs: the model would give every job the same forecast"
        )
    p90, margin = _fit_p90(models, every, inputs, runtime_log)
    near_log = nearest_log(inputs.select((NEAREST,)).values[:, 0])
    every.set_label(runtime_log - near_log)
    of_ratio, of_ratio_unseen = _fit_median(models, every, values)
    unseen_log = (of_runtime_unseen + (of_ratio_unseen + near_log)) * 0.5
    asked = _recent_sample(len(inputs), parameters.refined_jobs, seed)
    chosen = _choose_unseen(models, inputs, unseen_log, runtime_log, asked)
    reads = runtimes_among(names)
    told = rows(chosen.described, inputs.take(asked).select(reads).values, reads, chosen.value_log)
    off_log = runtime_log[asked] - chosen.value_log
    held = asked >= int(len(inputs) * (1 - CALIBRATION_SHARE))
    before = _fit_refiner(models, told[~held], off_log[~held], reads)
    calibration = calibrate(chosen.score[held], is_right(before.booster.predict(told[held]), off_log[held]))
    scorer = _fit_scorer(models, inputs, unseen_log, runtime_log)
    refiner = _fit_refiner(models, told, off_log, reads)
    columns = tuple(dict.fromkeys((*names, *READS)))
    return Ranked(
        "runcast", columns, Median(_plain(of_runtime), _plain(of_ratio)), _plain(p90), scorer, refiner, calibration, margin
    )


def quantile_columns(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the features that the quantile models read."""
    return tuple(name for name in names if not name.endswith(_NOT_OF_QUANTILES) and not name.startswith(_SIBLINGS))


def calibrate(score: Floats, right: NDArray[np.bool_]) -> Calibration:
    """Return the rising line nearest to the share of right answers, as its corners."""
    fitted = IsotonicRegression(out_of_bounds="clip").fit(score, right)
    return Calibration(tuple(fitted.X_thresholds_.tolist()), tuple(fitted.y_thresholds_.tolist()))


@dataclass(frozen=True)
class _Models:
    """The parameters of each LightGBM model."""

    given: RuncastParameters
    seed: int
    threads: int

    def quantile(self, level: float) -> dict[str, Any]:
        objective = {"objective": "regression_l1"} if level == 0.5 else {"objective": "quantile", "alpha": level}
        return (
            self._common()
            | objective
            | {
                "learning_rate": self.given.learning_rate,
                "min_data_in_leaf": self.given.min_data_in_leaf,
                "feature_fraction": 0.4,
            }
        )

    def scorer(self) -> dict[str, Any]:
        return self._common() | {
            "objective": "cross_entropy",
            "learning_rate": 0.06,
            "min_data_in_leaf": 200,
            "feature_fraction": 0.5,
        }

    def train_quantile(self, level: float, data: lightgbm.Dataset, trees: int) -> lightgbm.Booster:
        return lightgbm.train(self.quantile(level), data, trees)

    def _common(self) -> dict[str, Any]:
        return {
            "num_leaves": self.given.leaves,
            "bagging_fraction": 0.7,
            "bagging_freq": 1,
            "max_bin": BINS,
            "seed": self.seed,
            "num_threads": self.threads,
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }


def _fit_p90(models: _Models, every: lightgbm.Dataset, inputs: Inputs, runtime_log: Floats) -> tuple[lightgbm.Booster, Margin]:
    """Return the 0.9 quantile of the earlier jobs, and its margin as of the latest, which it has not seen."""
    earlier, latest = split_latest(len(inputs))
    p90 = models.train_quantile(0.9, rows_of(every, earlier), models.given.trees)
    residuals: Floats = np.empty(0)
    owners: Iterable[Owner] = repeat(None)
    if len(latest):
        held = inputs.take(latest)
        owners = owners if held.owner is None else held.owner
        p90_log = np.asarray(p90.predict(held.select(p90.feature_name()).values, num_threads=models.threads))
        residuals = residual_log(runtime_log[latest], p90_log, held.hard_limit_s)
    return p90, Margin(models.given.margin_jobs, models.given.margin_level, residuals.tolist(), owners).trained()


def _fit_median(models: _Models, every: lightgbm.Dataset, values: NDArray[np.float32]) -> tuple[lightgbm.Booster, Floats]:
    """Return the model of the median of what `every` is labelled with, and of each job what a model says that had not seen it.

    The latter is fitted on the other contiguous blocks of jobs.
    """
    model = models.train_quantile(0.5, every, max(1, models.given.trees * 3 // 4))
    rows = np.arange(len(values))
    found = np.empty(len(values))
    for block in np.array_split(rows, FOLDS):
        rest = np.concatenate([rows[: block[0]], rows[block[-1] + 1 :]])
        other = models.train_quantile(0.5, rows_of(every, rest), max(1, models.given.trees // 2))
        found[block] = other.predict(values[block], num_threads=models.threads)
    return model, found


def _fit_scorer(models: _Models, inputs: Inputs, median_log: Floats, runtime_log: Floats) -> Booster:
    rows = _recent_sample(len(inputs), models.given.scored_rows // CANDIDATES, models.seed)
    drawn = candidates(inputs.take(rows), median_log[rows])
    exists, described = drawn.described()
    label = graded(drawn.values, runtime_log[rows, None], WINDOWS)[exists]
    data = lightgbm.Dataset(described, label, feature_name=list(COLUMNS), params=models.scorer())
    return _plain(lightgbm.train(models.scorer(), data, models.given.trees))


def _choose_unseen(models: _Models, inputs: Inputs, median_log: Floats, runtime_log: Floats, asked: Rows) -> Chosen:
    """Return of the jobs `asked` (rising) the candidate that a scorer chooses which had not seen them."""
    earlier, later = np.split(np.arange(len(inputs)), [int(len(inputs) * EARLIER_SHARE)])
    found = []
    for learned, told in ((later, asked[asked < len(earlier)]), (earlier, asked[asked >= len(earlier)])):
        scorer = _fit_scorer(models, inputs.take(learned), median_log[learned], runtime_log[learned])
        found.append(choose(scorer, inputs.take(told), median_log[told]))
    return Chosen(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _fit_refiner(models: _Models, told: NDArray[np.float32], off_log: NDArray[np.floating], reads: tuple[str, ...]) -> Refiner:
    """Return the refiner that learned from rows of values off by `off_log`; the nearer, the more a row weighs."""
    weight = np.maximum(1 - np.abs(off_log) / FAR_LOG, 0)
    near = weight > 0 if weight.any() else np.ones(len(weight), np.bool_)  # of a handful of jobs none may be near
    data = lightgbm.Dataset(
        told[near], off_log[near], weight=weight[near], feature_name=list(columns_of(reads)), params=models.quantile(0.5)
    )
    return Refiner(_plain(models.train_quantile(0.5, data, models.given.trees * 3 // 4)))


def _recent_sample(count: int, wanted: int, seed: int) -> Rows:
    """Return up to `wanted` of `count` rows in their order, the latest RECENCY times as likely as the first."""
    if count <= wanted:
        return np.arange(count)
    weight = RECENCY ** (np.arange(count) / count)
    return np.sort(np.random.default_rng(seed).choice(count, max(wanted, 1), replace=False, p=weight / weight.sum()))


def _plain(booster: lightgbm.Booster) -> Booster:
    """Return the booster as its text says it is, so that what is judged is what is stored."""
    return Booster(booster.model_to_string())
