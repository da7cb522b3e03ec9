"""The predictor `runcast`, fitted: a median, a 0.9 quantile, a scorer that says which of a job's values is right, a refiner of that one.

Part of scoring.py, in a file of its own: numpy, and lightgbm's shared library.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from runcast.training import candidates, refiner
from runcast.training.booster import Booster
from runcast.training.conformal import Margin
from runcast.training.errors import ModelFileError
from runcast.training.forecast import Floats, Forecast, Inputs, clip
from runcast.training.refiner import Refiner

#: Between these confidences p50 moves from the median model's answer to the chosen candidate (in logarithms).
BLEND_FROM, BLEND_TO = 0.1, 0.7
#: Of equal calibrated chance, the higher score is the surer: a step of the calibration orders nothing within it.
SCORE_SHARE = 1e-6

FILES = ("p50.txt", "p50_ratio.txt", "p90.txt", "scorer.txt", "refiner.txt")

#: Raised when the code below changes its numbers though the constants above read the same.
CODE_VERSION = 3


@dataclass(frozen=True)
class Calibration:
    """A rising line from the scorer's score to the share of answers that were right, by its corners."""

    score: tuple[float, ...]
    share: tuple[float, ...]

    def of(self, score: Floats) -> Floats:
        return np.interp(score, self.score, self.share)

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Self:
        """Return what `content` gives; raises ModelFileError where it is no rising line of shares."""
        score, share = (np.asarray(content[name], np.float64) for name in ("score", "share"))
        is_line = score.ndim == 1 and score.shape == share.shape and score.size > 0
        if not is_line or (np.diff(score) < 0).any() or (np.diff(share) < 0).any() or share[0] < 0 or share[-1] > 1:
            raise ModelFileError(
                "calibration: expected scores and as many shares from 0 to 1, both rising; export the model again"
            )
        return cls(tuple(score.tolist()), tuple(share.tolist()))


#: What the median's second model is relative to; a job before which nothing had ended counts as one of a second.
NEAREST = "nearest_median_s"


def nearest_log(nearest_median_s: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return ln of the nearest median, 0 where there is none."""
    return candidates.log_of(np.where(np.isfinite(nearest_median_s), nearest_median_s, np.float32(1)))


class Median:
    """ln(median runtime), the mean of two models' answers: of ln(runtime), and of ln(runtime / nearest median).

    Trees answer what they have seen; the second follows the history to runtimes that training had not.
    """

    def __init__(self, of_runtime: Booster, of_ratio: Booster) -> None:
        self.of_runtime, self.of_ratio = of_runtime, of_ratio
        self.names = of_runtime.names
        self._nearest = self.names.index(NEAREST)

    def predict(self, values: NDArray[np.float32]) -> Floats:
        """Return ln(median) for float32 (n, k), one for each row."""
        follows = self.of_ratio.predict(values) + nearest_log(values[:, self._nearest])
        return (self.of_runtime.predict(values) + follows) * 0.5

    def predict_one(self, row: NDArray[np.float32]) -> float:
        """Return ln(median) for one row of float32 (k,)."""
        follows = self.of_ratio.predict_one(row) + float(nearest_log(row[self._nearest : self._nearest + 1])[0])
        return (self.of_runtime.predict_one(row) + follows) * 0.5


@dataclass(frozen=True)
class Ranked:
    """The median, a 0.9 quantile, a scorer and a refiner, the calibration of both, and p90's margin as of the end of training."""

    kind: str
    columns: tuple[str, ...]
    p50: Median = field(compare=False)
    p90: Booster = field(compare=False)
    scorer: Booster = field(compare=False)
    refiner: Refiner = field(compare=False)
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
        chosen = choose(self.scorer, inputs, median_log)
        point_log = self.refiner.refined(chosen.described, inputs.select(self.refiner.reads).values, chosen.value_log)
        chance = self.calibration.of(chosen.score)
        weight = np.clip((chance - BLEND_FROM) / (BLEND_TO - BLEND_FROM), 0.0, 1.0)
        p50_log = weight * point_log + (1 - weight) * median_log
        confidence = (1 - SCORE_SHARE) * chance + SCORE_SHARE * chosen.score
        source = np.full(len(inputs), self.kind)
        return clip(np.exp(p50_log), np.exp(p90_log), confidence, source, inputs.hard_limit_s, np.exp(point_log))

    @cached_property
    def _quantile_columns(self) -> NDArray[np.intp]:
        return np.array([self.columns.index(name) for name in self.p50.names], np.intp)

    def content(self) -> dict[str, Any]:
        return {
            "calibration": {"score": list(self.calibration.score), "share": list(self.calibration.share)},
            "margin": self.margin.content(),
        }

    def files(self) -> dict[str, str]:
        models = (self.p50.of_runtime, self.p50.of_ratio, self.p90, self.scorer, self.refiner.booster)
        return {name: model.text for name, model in zip(FILES, models, strict=True)}

    @classmethod
    def read(cls, kind: str, columns: tuple[str, ...], content: Mapping[str, Any], files: Mapping[str, str]) -> Self:
        of_runtime, of_ratio, p90, scorer, second_look = (Booster(files[name]) for name in FILES)
        names = of_runtime.names
        if not names == of_ratio.names == p90.names or NEAREST not in names or not {*names, *candidates.READS} <= {*columns}:
            raise ModelFileError(f"{', '.join(FILES[:3])}: their features are not the model's; export the model again")
        if scorer.names != candidates.COLUMNS:
            raise ModelFileError("scorer.txt: it was trained on other candidates than this version draws; train again")
        refines = Refiner(second_look)
        if not {*refines.reads} <= {*columns}:
            raise ModelFileError(f"{FILES[4]}: its features are not the model's; export the model again")
        calibration = Calibration.read(content["calibration"])
        margin = Margin.read(content["margin"])
        return cls(kind, columns, Median(of_runtime, of_ratio), p90, scorer, refines, calibration, margin)


#: Jobs whose candidates are described at once: 20,000 take some 100 MiB.
_CHUNK = 20_000


class Chosen(NamedTuple):
    """Of n jobs: ln of the best candidate, float32 (n,); its score, float64 (n,); its row of Candidates.described."""

    value_log: NDArray[np.float32]
    score: Floats
    described: NDArray[np.float32]


def choose(scorer: Booster, inputs: Inputs, median_log: Floats) -> Chosen:
    """Return of each job the candidate that `scorer` gives the best score, the first of equals."""
    count = len(inputs)
    chosen = Chosen(np.empty(count, np.float32), np.empty(count), np.empty((count, len(candidates.COLUMNS)), np.float32))
    for start in range(0, count, _CHUNK):
        rows = slice(start, min(start + _CHUNK, count))
        drawn = candidates.candidates(inputs.take(rows), median_log[rows])
        exists, described = drawn.described()
        score, place = np.full(exists.shape, -np.inf), np.full(exists.shape, -1)
        score[exists], place[exists] = scorer.predict(described), np.arange(len(described))
        job, at = np.arange(len(score)), score.argmax(1)
        chosen.value_log[rows] = drawn.values[job, at]
        chosen.score[rows] = score[job, at]
        chosen.described[rows] = described[place[job, at]]
    return chosen


def recipe_version() -> str:
    """Return the hash of how an answer is made of the models, 16 hex digits; it changes when any number may."""
    told = (
        CODE_VERSION,
        refiner.refiner_version(),
        candidates.candidates_version(),
        FILES,
        NEAREST,
        BLEND_FROM,
        BLEND_TO,
        SCORE_SHARE,
    )
    return sha256(repr(told).encode()).hexdigest()[:16]
