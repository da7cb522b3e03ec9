"""The predictors by name, and what happens where one cannot be fitted.

A later predictor is one more line in KINDS (and in scoring.RULES, which reads it back).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from runcast.data.cluster import Training
from runcast.features.matrix import Matrix
from runcast.training.baselines import fit_baseline
from runcast.training.cart import fit_cart
from runcast.training.comparisons import Helios, Mlaas, fit_helios, fit_mlaas
from runcast.training.errors import ConstantPredictor, NotEnoughJobs, UnknownKind
from runcast.training.forecast import Floats, Inputs
from runcast.training.gbdt import fit_gbdt, without_dates
from runcast.training.rows import LATEST_JOBS
from runcast.training.runcast import fit_runcast
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


KINDS: tuple[Kind, ...] = (
    _baseline("request", "the user's own time limit; the training median where there is none"),
    _baseline("last_two", "mean of the user's last two finished jobs (Tsafrir et al.)"),
    _baseline("nearest_median", "median of the last runs of the most similar finished jobs"),
    Kind(
        "cart",
        "model",
        "one regression tree on all features",
        lambda inputs, runtime_s, training: fit_cart(inputs, runtime_s, training.cart, training.seed),
        lambda training: {**training.cart.model_dump(), "latest_jobs": LATEST_JOBS, "seed": training.seed},
    ),
    Kind(
        "gbdt",
        "model",
        "gradient-boosted trees (LightGBM) on all features but dates",
        lambda inputs, runtime_s, training: fit_gbdt(
            without_dates(inputs), runtime_s, training.gbdt, training.seed, training.threads
        ),
        lambda training: {**training.gbdt.model_dump(), "latest_jobs": LATEST_JOBS, "seed": training.seed},
    ),
    Kind(
        "runcast",
        "model",
        "of candidate values the one most likely to be right, beside boosted quantiles",
        lambda inputs, runtime_s, training: fit_runcast(
            without_dates(inputs), runtime_s, training.runcast, training.seed, training.threads
        ),
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
    """The rule that serves, and why where it is not the one that was asked for."""

    rule: Rule
    fallback_reason: str | None = None


def fit(name: str, inputs: Inputs, runtime_s: Floats, training: Training) -> Fitted:
    """Fit `name`, or the fallback baseline where there is too little to learn from. Rows are ordered by end time.

    Raises NotEnoughJobs where not even the baseline has a job to look at.
    """
    kind = find_kind(name)
    if kind.is_baseline:
        return Fitted(kind.fit(inputs, runtime_s, training))
    try:
        if len(inputs) < training.min_jobs:
            raise NotEnoughJobs(f"{len(inputs)} ended jobs to learn from, {name} needs {training.min_jobs} (training.min_jobs)")
        return Fitted(kind.fit(inputs, runtime_s, training))
    except (NotEnoughJobs, ConstantPredictor) as error:
        return Fitted(find_kind(FALLBACK).fit(inputs, runtime_s, training), f"{error}; {FALLBACK} serves instead")


def fit_comparison(name: str, matrix: Matrix, inputs: Inputs, training: Training) -> Fitted | Mlaas | Helios:
    """Fit the comparison `name` on the matrix of ended jobs; where it cannot be, the fallback baseline on their `inputs`."""
    comparison = next(one for one in COMPARISONS if one.name == name)
    try:
        if len(matrix) < training.min_jobs:
            raise NotEnoughJobs(f"{len(matrix)} ended jobs to learn from, {name} needs {training.min_jobs} (training.min_jobs)")
        return comparison.fit(matrix, training)
    except (NotEnoughJobs, ConstantPredictor) as error:
        rule = find_kind(FALLBACK).fit(inputs, matrix.ended.runtime_s, training)
        return Fitted(rule, f"{error}; {FALLBACK} answers instead")
