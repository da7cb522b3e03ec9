"""Drift: do the latest days still look like the window that the models learn from, and are the forecasts as right as they were?

What is submitted (requests, categories, how well a job is known), how long jobs run, and the errors of forecasts are each held
against the window before: distributions by the distance of Jensen and Shannon, errors by the ratio of the error factors. Logs of
real clusters change all the time, each in its own measure, so that a fixed bound is always wrong for most of them: a change is
drift where it is large and larger than any of the stretches before it showed, each against its own past. It is told once: the
nights that follow see the same days again.

Nothing here holds a name of the log: values of categories are told by their rank.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import jensenshannon

from runcast.data.cluster import Drift
from runcast.evaluation.metrics import Floats, absolute_log_ratios, finite
from runcast.features.catalog import FAMILY
from runcast.features.matrix import Matrix

DAY_US = 86_400 * 10**6
#: Values of a category that count on their own, the most frequent first; the others count as one.
OWN_VALUES = 20
#: Fewer earlier stretches do not say what is usual.
ENOUGH_PERIODS = 4
#: What is watched of the features: requests, and how near and how alike the runs are that a job is known by. Hours and
#: load change by design.
_FAMILIES = ("request", "topology")
_KNOWN_BY = ("nearest_level", "nearest_n", "nearest_spread_log", "nearest_median_s")

Kind = Literal["feature", "category", "runtime", "error"]
Counts = NDArray[np.float64]


@dataclass(frozen=True)
class Errors:
    """Forecasts whose jobs have ended: when (UTC microseconds), the runtime and what was said, one entry per job."""

    end_us: NDArray[np.int64]
    actual_s: Floats
    predicted_s: Floats


@dataclass(frozen=True)
class Series:
    """One thing that is watched: `values[s]` is how far the stretch that ended `s` days before the cut was from the window before it.

    A distance of 0 to 1, or a ratio of error factors; NaN where either side has too few jobs. `moved` says what moved most at the
    cut.
    """

    name: str
    kind: Kind
    values: Floats
    moved: str = ""


@dataclass(frozen=True)
class Finding:
    """What one night says of one series; `limit` is None where too few stretches have been seen to say what is usual."""

    name: str
    kind: Kind
    value: float | None
    usual: float | None  # the largest value of the stretches before
    limit: float | None
    is_drift: bool
    is_new: bool  # the nights that saw some of the same days did not say so
    moved: str

    @property
    def sentence(self) -> str:
        """Say what drifted, by how much, and what is usual; empty where nothing is judged."""
        if self.value is None or self.limit is None:
            return ""
        what = {
            "error": f"the error factor of {self.name} is {self.value:.2f} times that of the window before",
            "runtime": f"runtimes are {self.value:.2f} from those of the window before",
        }.get(self.kind, f"{self.name} is {self.value:.2f} from the window before")
        return f"{what}, limit {self.limit:.2f}" + (f" ({self.moved})" if self.moved else "")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "sentence": self.sentence}


def findings(
    matrix: Matrix, cut_us: int, forecasts: Mapping[str, Errors], rule: Drift, window_days: float | None
) -> list[Finding]:
    """Return what the night that ends at `cut_us` says of each series, the one nearest its limit or farthest above it first."""
    found = [judge(series, rule) for series in watch(matrix, cut_us, forecasts, rule, window_days)]
    return sorted(found, key=lambda one: (-_share_of_limit(one), one.name))


def watch(
    matrix: Matrix, cut_us: int, forecasts: Mapping[str, Errors], rule: Drift, window_days: float | None, nights: int = 0
) -> list[Series]:
    """Return every series at the cut and at the nights before it, as many as a verdict needs or `nights`, the larger.

    `matrix` holds all jobs submitted before the cut. `window_days` is what the models learn from, None for everything. Features are
    counted on the day of the submission, runtimes and errors on the day of the end: a job that still runs would else be missing
    from the latest days only. What no job of the log has is left out.
    """
    window = None if window_days is None else max(1, round(window_days))
    look = _Look(rule.days, window, max(nights, rule.days * (rule.periods + 1)), rule.min_jobs)
    submitted = _day(matrix.submit_us, cut_us)
    found = []
    for name in filter(is_watched, matrix.names):
        values = matrix.column(name).astype(np.float64)
        if np.isfinite(values).any():
            found.append(_distances(name, "feature", *bin_numbers(values), submitted, look))
    for name, category in matrix.categories.items():
        if not category.vocabulary:
            continue
        binned = bin_category(category.codes, len(category.vocabulary))
        found.append(_distances(name, "category", *binned, submitted, look))
    ran = matrix.ended.has_runtime & (matrix.ended.end_us < cut_us)
    binned = bin_numbers(matrix.ended.runtime_s[ran])
    found.append(_distances("runtime_s", "runtime", *binned, _day(matrix.ended.end_us[ran], cut_us), look))
    found += [_error_ratios(name, errors, _day(errors.end_us, cut_us), look) for name, errors in forecasts.items()]
    return [series for series in found if np.isfinite(series.values).any()]


def is_watched(name: str) -> bool:
    """Whether drift looks at this feature."""
    return FAMILY[name] in _FAMILIES or name in _KNOWN_BY


def judge(series: Series, rule: Drift) -> Finding:
    """Return the verdict on the latest stretch."""
    limits = limits_of(series, rule)
    value, limit = series.values[0], limits[0]
    drifts = is_drift(series.values[: rule.days], limits)
    return Finding(
        name=series.name,
        kind=series.kind,
        value=finite(value),
        usual=None if finite(limit) is None else finite(np.nanmax(_before(series.values, rule)[0])),
        limit=finite(limit),
        is_drift=bool(drifts[0]),
        is_new=bool(drifts[0] and not drifts[1:].any()),
        moved=series.moved,
    )


def _share_of_limit(finding: Finding) -> float:
    return finding.value / finding.limit if finding.value is not None and finding.limit is not None else -1.0


def limits_of(series: Series, rule: Drift) -> Floats:
    """Return for each night that has enough others before it what its value must exceed to be drift; NaN where that is not known."""
    at_least, times = (
        (rule.error_at_least, rule.error_times_usual)
        if series.kind == "error"
        else (rule.distance_at_least, rule.distance_times_usual)
    )
    before = _before(series.values, rule)
    known = np.isfinite(before).sum(axis=1) >= ENOUGH_PERIODS
    usual = np.max(before, axis=1, initial=-np.inf, where=np.isfinite(before))
    with np.errstate(over="ignore"):  # a limit that no float holds is never exceeded
        return np.where(known, np.maximum(at_least, times * usual), np.nan)


def is_drift(values: Floats, limits: Floats) -> NDArray[np.bool_]:
    """Return whether each value is above its limit; False where either is unknown."""
    return np.asarray(values[: len(limits)] > limits[: len(values)])


def bin_numbers(values: Floats) -> tuple[NDArray[np.intp], list[str]]:
    """Return each value's bin and the bins' labels: between the deciles of all, equal ones joined, and one for null."""
    known = values[np.isfinite(values)]
    edges = np.unique(np.quantile(known, np.arange(1, 10) / 10, method="nearest")) if len(known) else np.empty(0)
    codes = np.where(np.isfinite(values), np.searchsorted(edges, values, "left"), len(edges) + 1)
    texts = [f"{edge:g}" for edge in edges]
    between = [f"above {low}, up to {high}" for low, high in pairwise(texts)]
    labels = [f"up to {texts[0]}", *between, f"above {texts[-1]}"] if texts else ["any"]
    return codes.astype(np.intp), [*labels, "null"]


def bin_category(codes: NDArray[np.int32], size: int) -> tuple[NDArray[np.intp], list[str]]:
    """Return each value's bin and the bins' labels: the most frequent values by rank, all others, and null."""
    often = np.argsort(-np.bincount(codes[codes >= 0], minlength=size), kind="stable")[:OWN_VALUES]
    place = np.full(size + 1, len(often), np.intp)  # the last entry is that of code -1
    place[often] = np.arange(len(often))
    place[-1] = len(often) + 1
    return place[codes], [*(f"value no. {rank} by frequency" for rank in range(1, len(often) + 1)), "other values", "null"]


def _day(time_us: NDArray[np.int64], cut_us: int) -> NDArray[np.int64]:
    """Return how many whole days before the cut each moment lies; 0 is the latest day."""
    return (cut_us - 1 - time_us) // DAY_US


@dataclass(frozen=True)
class _Look:
    """Which days are held against which, and for how many nights."""

    days: int
    window: int | None
    nights: int
    min_jobs: int

    def stretches(self, before: Counts) -> tuple[Counts, Counts]:
        """Return for each night the sums of its latest days and those of the window before them."""
        last = len(before) - 1
        night = np.arange(self.nights)
        begin, edge = np.minimum(night, last), np.minimum(night + self.days, last)
        end = np.full(self.nights, last) if self.window is None else np.minimum(edge + self.window, last)
        return before[edge] - before[begin], before[end] - before[edge]


def _distances(name: str, kind: Kind, codes: NDArray[np.intp], labels: list[str], day: NDArray[np.int64], look: _Look) -> Series:
    """Return the series of distances of one distribution."""
    latest, reference = look.stretches(_sums_before(day, codes, len(labels)))
    enough = (latest.sum(axis=1) >= look.min_jobs) & (reference.sum(axis=1) >= look.min_jobs)
    values = np.full(look.nights, np.nan)
    with np.errstate(invalid="ignore"):  # equal distributions can come out as the root of minus nothing
        values[enough] = np.nan_to_num(jensenshannon(latest[enough], reference[enough], base=2, axis=1))
    return Series(name, kind, values, _moved(latest[0], reference[0], labels) if enough[0] else "")


def _error_ratios(name: str, errors: Errors, day: NDArray[np.int64], look: _Look) -> Series:
    """Return the series of ratios of error factors: exp of the difference of the mean |ln(predicted / actual)|."""
    logs, one = absolute_log_ratios(errors.actual_s, errors.predicted_s), np.zeros(len(day), np.intp)
    jobs, jobs_before = (counts[:, 0] for counts in look.stretches(_sums_before(day, one, 1)))
    total, total_before = (sums[:, 0] for sums in look.stretches(_sums_before(day, one, 1, logs)))
    enough = (jobs >= look.min_jobs) & (jobs_before >= look.min_jobs)
    values = np.full(look.nights, np.nan)
    values[enough] = np.exp(total[enough] / jobs[enough] - total_before[enough] / jobs_before[enough])
    return Series(name, "error", values)


def _sums_before(day: NDArray[np.int64], codes: NDArray[np.intp], bins: int, weights: Floats | None = None) -> Counts:
    """Return for d = 0, 1, … the counts (or sums of weights) by bin of all days less than d before the cut."""
    days = int(day.max(initial=-1)) + 1
    flat = np.bincount(day * bins + codes, weights, minlength=days * bins)
    return np.concatenate([np.zeros((1, bins)), np.cumsum(flat.reshape(days, bins), axis=0)])


def _before(values: Floats, rule: Drift) -> Floats:
    """Return for each night with so many before it the values of the stretches before its own, which share no day with it."""
    nights = max(0, len(values) - rule.days * rule.periods)
    at = np.arange(nights)[:, None] + rule.days * np.arange(1, rule.periods + 1)[None, :]
    before: Floats = values[at]
    return before


def _moved(latest: Floats, reference: Floats, labels: list[str]) -> str:
    """Say which bin's share changed most, and from what to what."""
    now, then = latest / latest.sum(), reference / reference.sum()
    most = int(np.argmax(np.abs(now - then)))
    return f"{labels[most]}: {100 * then[most]:.0f} % before, {100 * now[most]:.0f} % now"
