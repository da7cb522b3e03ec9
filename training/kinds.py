"""The predictors by name, and what happens where one cannot be fitted.

A later predictor is one more line in KINDS (in fitters.FITTERS, which fits it, and in scoring.RULES, which reads it back).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from runcast.data.cluster import Training
from runcast.data.errors import RuncastError
from runcast.features.matrix import Matrix
from runcast.training.baselines import fit_baseline
from runcast.training.comparisons import Helios, Mlaas, fit_helios, fit_mlaas
from runcast.training.errors import ConstantPredictor, FitFailed, NotEnoughJobs, UnknownKind
from runcast.training.forecast import Floats, Inputs
from runcast.training.isolation import fit_isolated
from runcast.training.rows import LATEST_JOBS
from runcast.training.scoring import Rule

#: What serves where a model cannot be fitted: the best of the baselines on every real log measured.
FALLBACK = "nearest_median"


Role = Literal["baseline", "comparison", "model"]


@dataclass(frozen=True)
class Kind:
    """One predictor: `fit` takes ended jobs ordered by end time and their runtimes; `parameters` is written into the card."""

    name: str
    role: Role
    meaning: str
    fit: Callable[[Inputs, Floats, Training], Rule]
    parameters: Callable[[Training], dict[str, Any]]

    @property
    def is_baseline(self) -> bool:
        return self.role == "baseline"

    @property
    def is_model(self) -> bool:
        """Whether it is trained each night, judged, and may serve."""
        return self.role == "model"


@dataclass(frozen=True)
class Comparison:
    """A predictor of the literature: measured in replays and reports beside ours, never judged, stored or served.

    `fit` takes the matrix of ended jobs ordered by end time: it reads texts that the encoder does not keep.
    """

    name: str
    meaning: str
    fit: Callable[[Matrix, Training], Mlaas | Helios]
    role: Role = "comparison"
    is_baseline: bool = False
    is_model: bool = False


def _baseline(name: str, meaning: str) -> Kind:
    return Kind(name, "baseline", meaning, lambda inputs, runtime_s, _: fit_baseline(name, inputs, runtime_s), lambda _: {})


def _model(name: str, meaning: str, parameters: Callable[[Training], dict[str, Any]]) -> Kind:
    return Kind(name, "model", meaning, partial(fit_isolated, name), parameters)


KINDS: tuple[Kind, ...] = (
    _baseline("request", "the user's own time limit; the training median where there is none"),
    _baseline("last_two", "mean of the user's last two finished jobs (Tsafrir et al.)"),
    _baseline("nearest_median", "median of the last runs of the most similar finished jobs"),
    _model(
        "cart",
        "one regression tree on all features",
        lambda training: {**training.cart.model_dump(), "latest_jobs": LATEST_JOBS, "seed": training.seed},
    ),
    _model(
        "gbdt",
        "gradient-boosted trees (LightGBM) on all features but dates",
        lambda training: {**training.gbdt.model_dump(), "latest_jobs": LATEST_JOBS, "seed": training.seed},
    ),
    _model(
        "runcast",
        "of candidate values the one most likely to be right, beside boosted quantiles",
        lambda training: {**training.runcast.model_dump(), "seed": training.seed},
    ),
)

BASELINES: tuple[str, ...] = tuple(kind.name for kind in KINDS if kind.is_baseline)
MODELS: tuple[str, ...] = tuple(kind.name for kind in KINDS if kind.is_model)

COMPARISONS: tuple[Comparison, ...] = (
    Comparison("mlaas", "MLaaS in the Wild: one tree on user, group tag, request and submission time", fit_mlaas),
    Comparison("helios", "Helios: 0.1 rolling mean over close names, 0.9 boosted trees", fit_helios),
)
#: Every predictor there is, in the order of reports: baselines, comparisons, models.
PREDICTORS: tuple[str, ...] = (*BASELINES, *(one.name for one in COMPARISONS), *MODELS)


def find_kind(name: str) -> Kind:
    """Return the predictor called `name` that can be stored; raises UnknownKind."""
    found = find_predictor(name)
    if isinstance(found, Comparison):
        raise UnknownKind(f"{name} is for comparison in replays and reports; it is neither stored nor served")
    return found


def find_predictor(name: str) -> Kind | Comparison:
    """Return the predictor called `name`; raises UnknownKind."""
    every: tuple[Kind | Comparison, ...] = (*KINDS, *COMPARISONS)
    for kind in every:
        if kind.name == name:
            return kind
    raise UnknownKind(f"no predictor {name!r}; known are {', '.join(PREDICTORS)}")


@dataclass(frozen=True)
class Fitted:
    """The rule that answers; where it is not the one of the kind, why, and the failure of its fit where that was the reason."""

    rule: Rule
    fallback_reason: str | None = None
    failure: str | None = None


def fit(name: str, inputs: Inputs, runtime_s: Floats, training: Training) -> Fitted:
    """Fit `name`, or the fallback baseline where there is too little to learn from or the fit fails. Rows are ordered by end time.

    Raises NotEnoughJobs where not even the baseline has a job to look at.
    """
    kind = find_kind(name)
    if kind.is_baseline:
        return Fitted(kind.fit(inputs, runtime_s, training))
    try:
        _require_jobs(name, len(inputs), training)
        return Fitted(kind.fit(inputs, runtime_s, training))
    except (NotEnoughJobs, ConstantPredictor, FitFailed) as error:
        return _fallback(error, inputs, runtime_s, training, "answers" if isinstance(error, FitFailed) else "serves")


def fit_comparison(name: str, matrix: Matrix, inputs: Inputs, training: Training) -> Fitted | Mlaas | Helios:
    """Fit the comparison `name` on the matrix of ended jobs; where it cannot be, the fallback baseline on their `inputs`."""
    comparison = next(one for one in COMPARISONS if one.name == name)
    try:
        _require_jobs(name, len(matrix), training)
        return comparison.fit(matrix, training)
    except (NotEnoughJobs, ConstantPredictor, FitFailed) as error:
        return _fallback(error, inputs, matrix.ended.runtime_s, training, "answers")


def _require_jobs(name: str, jobs: int, training: Training) -> None:
    if jobs < training.min_jobs:
        raise NotEnoughJobs(f"{jobs} ended jobs to learn from, {name} needs {training.min_jobs} (training.min_jobs)")


def _fallback(error: RuncastError, inputs: Inputs, runtime_s: Floats, training: Training, does: str) -> Fitted:
    rule = find_kind(FALLBACK).fit(inputs, runtime_s, training)
    return Fitted(rule, f"{error}; {FALLBACK} {does} instead", str(error) if isinstance(error, FitFailed) else None)
