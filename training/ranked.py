"""The predictor `runcast`, fitted: a median, a 0.9 quantile, and a scorer that says which of a job's candidate values is right.

Part of scoring.py, in a file of its own: numpy, and lightgbm's shared library.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from runcast.training import candidates
from runcast.training.booster import Booster
from runcast.training.conformal import Margin
from runcast.training.errors import ModelFileError
from runcast.training.forecast import Floats, Forecast, Inputs, clip

#: Between these confidences p50 moves from the median model's answer to the chosen candidate (in logarithms).
BLEND_FROM, BLEND_TO = 0.1, 0.7
#: Of equal calibrated chance, the higher score is the surer: a step of the calibration orders nothing within it.
SCORE_SHARE = 1e-6


@dataclass(frozen=True)
class Calibration:
    """A rising line from the scorer's score to the share of answers that were right, by its corners."""

    score: tuple[float, ...]
    share: tuple[float, ...]

    def of(self, score: Floats) -> Floats:
        return np.interp(score, self.score, self.share)


@dataclass(frozen=True)
class Ranked:
    """Three LightGBM models, the scorer's calibration, and the margin of p90 as of the end of training."""

    kind: str
    columns: tuple[str, ...]
    p50: Booster = field(compare=False)
    p90: Booster = field(compare=False)
    scorer: Booster = field(compare=False)
    calibration: Calibration
    margin: Margin

    def forecast(self, inputs: Inputs) -> Forecast:
        return self.answer(inputs, self.p90_log(inputs) + self.margin.shift_log())

    def p90_log(self, inputs: Inputs) -> Floats:
        """Return ln(p90) as the quantile model says it, without margin and limits: what later runtimes are held against."""
        return self.p90.predict(inputs.values[:, self._quantile_columns])

    def answer(self, inputs: Inputs, p90_log: Floats) -> Forecast:
        """Return the forecast with this p90."""
        median_log = self.p50.predict(inputs.values[:, self._quantile_columns])
        point_log, score = self.choose(inputs, median_log)
        chance = self.calibration.of(score)
        weight = np.clip((chance - BLEND_FROM) / (BLEND_TO - BLEND_FROM), 0.0, 1.0)
        p50_log = weight * point_log + (1 - weight) * median_log
        confidence = (1 - SCORE_SHARE) * chance + SCORE_SHARE * score
        source = np.full(len(inputs), self.kind)
        return clip(np.exp(p50_log), np.exp(p90_log), confidence, source, inputs.hard_limit_s, np.exp(point_log))

    def choose(self, inputs: Inputs, median_log: Floats) -> tuple[Floats, Floats]:
        """Return of each job the candidate with the best score, and that score."""
        return choose(self.scorer, inputs, median_log)

    @cached_property
    def _quantile_columns(self) -> NDArray[np.intp]:
        return np.array([self.columns.index(name) for name in self.p50.names], np.intp)

    def content(self) -> dict[str, Any]:
        return {
            "calibration": {"score": list(self.calibration.score), "share": list(self.calibration.share)},
            "margin": self.margin.content(),
        }

    def files(self) -> dict[str, str]:
        return {"p50.txt": self.p50.text, "p90.txt": self.p90.text, "scorer.txt": self.scorer.text}

    @classmethod
    def read(cls, kind: str, columns: tuple[str, ...], content: Mapping[str, Any], files: Mapping[str, str]) -> Self:
        p50, p90, scorer = (Booster(files[name]) for name in ("p50.txt", "p90.txt", "scorer.txt"))
        if p50.names != p90.names or not {*p50.names, *candidates.READS} <= {*columns}:
            raise ModelFileError("p50.txt, p90.txt: their features are not among the model's; export the model again")
        if scorer.names != candidates.COLUMNS:
            raise ModelFileError("scorer.txt: it was trained on other candidates than this version draws; train again")
        calibration = Calibration(tuple(content["calibration"]["score"]), tuple(content["calibration"]["share"]))
        return cls(kind, columns, p50, p90, scorer, calibration, Margin.read(content["margin"]))


#: Jobs whose candidates are described at once: 20,000 take some 100 MiB.
_CHUNK = 20_000


def choose(scorer: Booster, inputs: Inputs, median_log: Floats) -> tuple[Floats, Floats]:
    """Return of each job the candidate (logarithm) that `scorer` gives the best score, the first of equals, and that score."""
    point, best = np.empty(len(inputs)), np.empty(len(inputs))
    for start in range(0, len(inputs), _CHUNK):
        rows = slice(start, min(start + _CHUNK, len(inputs)))
        drawn = candidates.candidates(inputs.take(rows), median_log[rows])
        exists, described = drawn.described()
        score = np.full(exists.shape, -np.inf)
        score[exists] = scorer.predict(described)
        at = score.argmax(1)[:, None]
        point[rows] = np.take_along_axis(drawn.values, at, 1)[:, 0]
        best[rows] = np.take_along_axis(score, at, 1)[:, 0]
    return point, best
