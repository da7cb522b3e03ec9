"""The answers of scoring.py for one job, in plain numbers: the same arithmetic without the cost of arrays of length one.

A scheduler asks for one job at a time and within a tenth of a millisecond. A rule that has no form of its own here is asked through
its table form; the tests compare both for every kind, bit for bit.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runcast.training.candidates import READS, OneJob
from runcast.training.errors import ModelFileError
from runcast.training.forecast import FLOOR_S, Inputs
from runcast.training.ranked import BLEND_FROM, BLEND_TO, SCORE_SHARE, Ranked
from runcast.training.scoring import Baseline, Cart, Gbdt, Rule

Row = NDArray[np.float32]


class Answer(NamedTuple):
    """One job's forecast; see Forecast."""

    p50_s: float
    p90_s: float
    point_s: float
    confidence: float
    source: str


#: From a row of values in the order of the rule's columns, and the hard limit (s, NaN where there is none).
Answerer = Callable[[Row, float], Answer]


def answerer(rule: Rule) -> Answerer:
    """Return the function that answers one job by `rule`."""
    if isinstance(rule, Gbdt):
        return _of_gbdt(rule)
    if isinstance(rule, Cart):
        return _of_cart(rule)
    if isinstance(rule, Ranked):
        return OneRanked(rule)
    if isinstance(rule, Baseline):
        return _of_baseline(rule)
    return _of_table(rule)


def clip_one(
    p50_s: float, p90_s: float, confidence: float, source: str, hard_limit_s: float, point_s: float | None = None
) -> Answer:
    """Return `clip` of one forecast; its point is p50 where none is given."""
    if not all(math.isfinite(one) for one in (p50_s, p90_s, confidence, p50_s if point_s is None else point_s)):
        raise ModelFileError("a forecast is not finite; retrain the model")
    cap = hard_limit_s if hard_limit_s >= FLOOR_S else math.inf  # NaN compares false
    floored = max(p50_s, FLOOR_S)
    low, high = min(floored, cap), min(max(p90_s, floored), cap)
    point = low if point_s is None else min(max(point_s, FLOOR_S), cap)
    return Answer(low, high, point, min(max(confidence, 0.0), 1.0), source)


def _of_gbdt(rule: Gbdt) -> Answerer:
    def answer(row: Row, hard_limit_s: float) -> Answer:
        p50_s = float(np.exp(rule.p50.predict_one(row)))
        p90_s = float(np.exp(rule.p90.predict_one(row))) * rule.p90_factor
        return clip_one(p50_s, p90_s, min(p50_s / p90_s, 1.0), rule.kind, hard_limit_s)

    return answer


class OneRanked:
    """`Ranked` for one job; called, it answers with the margin of the rule."""

    def __init__(self, rule: Ranked) -> None:
        self._rule, self._job = rule, OneJob()
        places = {name: at for at, name in enumerate(rule.columns)}
        self._quantiles = np.array([places[name] for name in rule.p50.names], np.intp)
        self._reads = np.array([places[name] for name in READS], np.intp)
        self._refiner_reads = np.array([places[name] for name in rule.refiner.reads], np.intp)
        self._score, self._share = np.array(rule.calibration.score), np.array(rule.calibration.share)
        self._shift_log = rule.margin.shift_log()

    def __call__(self, row: Row, hard_limit_s: float) -> Answer:
        return self.shifted(row, hard_limit_s, self._shift_log)[0]

    def shifted(self, row: Row, hard_limit_s: float, shift_log: float) -> tuple[Answer, float]:
        """Return the answer with p90 raised by this margin, and ln(p90) without it: what the runtime will be held against."""
        rule, quantiles = self._rule, row.take(self._quantiles)
        median_log, p90_log = rule.p50.predict_one(quantiles), rule.p90.predict_one(quantiles)
        values, described = self._job.described(row.take(self._reads), hard_limit_s, median_log)
        scores = rule.scorer.predict(described)
        best = scores.argmax()
        score = float(scores[best])
        point_log = rule.refiner.refined_one(described[best], row.take(self._refiner_reads), values[best])
        chance = float(np.interp(score, self._score, self._share))
        weight = min(max((chance - BLEND_FROM) / (BLEND_TO - BLEND_FROM), 0.0), 1.0)
        p50_log = weight * point_log + (1 - weight) * median_log
        confidence = (1 - SCORE_SHARE) * chance + SCORE_SHARE * score
        p50_s, p90_s, point_s = np.exp((p50_log, p90_log + shift_log, point_log)).tolist()
        return clip_one(p50_s, p90_s, confidence, rule.kind, hard_limit_s, point_s), p90_log


def _of_cart(rule: Cart) -> Answerer:
    feature, threshold, left, right, unknown_left = (
        rule.nodes[name].tolist() for name in ("feature", "threshold", "left", "right", "unknown_left")
    )
    p50_s, p90_s = rule.nodes["p50_s"].tolist(), (rule.nodes["p90_s"] * rule.p90_factor).tolist()
    confidence = np.exp(-rule.nodes["error_log"]).tolist()

    def answer(row: Row, hard_limit_s: float) -> Answer:
        node = 0
        while (column := feature[node]) >= 0:
            value = float(row[column])
            is_left = unknown_left[node] if value != value else value <= threshold[node]
            node = left[node] if is_left else right[node]
        return clip_one(p50_s[node], p90_s[node], confidence[node], rule.kind, hard_limit_s)

    return answer


def _of_baseline(rule: Baseline) -> Answerer:
    by_spread = rule.kind == "nearest_median"
    runs_at, spread_at = (rule.columns.index(name) for name in ("nearest_n", "nearest_spread_log")) if by_spread else (0, 0)

    def answer(row: Row, hard_limit_s: float) -> Answer:
        given_s = float(row[0])
        known = math.isfinite(given_s) and given_s > 0
        p50_s = given_s if known else rule.fallback_s
        source = rule.kind if known else "training_median"
        if not by_spread:
            confidence = rule.hit_share[0 if known else 1]
        elif not known:
            confidence = 0.0
        else:
            spread_log = float(row[spread_at])
            steady = float(np.exp(-abs(spread_log))) if math.isfinite(spread_log) else 0.0
            confidence = 0.5 + 0.5 * steady if row[runs_at] >= rule.SURE_RUNS else 0.25 * steady
        return clip_one(p50_s, p50_s * rule.p90_factor[0 if known else 1], confidence, source, hard_limit_s)

    return answer


def _of_table(rule: Rule) -> Answerer:
    def answer(row: Row, hard_limit_s: float) -> Answer:
        found = rule.forecast(Inputs(rule.columns, row[np.newaxis], np.array([hard_limit_s], np.float64)))
        p50_s, p90_s, point_s, confidence = (float(one[0]) for one in (found.p50_s, found.p90_s, found.point_s, found.confidence))
        return Answer(p50_s, p90_s, point_s, confidence, str(found.source[0]))

    return answer
