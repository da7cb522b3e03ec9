"""What stands beside each figure of the report: its title, what to make of it, and what somebody hears who does not see it."""

from collections.abc import Callable, Mapping
from typing import Any

from runcast.evaluation.numbers import percent
from runcast.training.kinds import FALLBACK, find_predictor

#: Title, what to see in it, and what to make of it.
CAPTIONS: dict[str, tuple[str, str]] = {
    "risk_coverage": (
        "Error against coverage",
        "Jobs enter from the left in the order of the confidence given at submission. A curve that stays low for long knows which of "
        "its forecasts are good; where it crosses a dashed line is the coverage at that target.",
    ),
    "calibration": (
        "Is the confidence, and the number, to be trusted?",
        "Left: ten groups of jobs by confidence; the line should rise. Right: jobs by the p50 they were given; the solid line should "
        "follow the dashed diagonal, and nine tenths of the jobs should lie below the dotted p90.",
    ),
    "slices": (
        "Where the errors are",
        "Error factor by kind of job. “long” and the states are chosen by how a job turned out, so they favour predictors that err to "
        "that side: read them as where errors come from.",
    ),
    "importance": (
        "What the models look at",
        "Each family of features is dealt out among up to 1,000 test jobs at random, the rest left as it is. At 2× the error factor "
        "doubles without that family; at 1× it is not missed, perhaps because another says the same.",
    ),
    "residual_by_week": (
        "Too long or too short, week by week",
        "Above 1× the forecasts of that week were too long, below too short; the band holds the middle half of the last model’s. A line "
        "that drifts away says that the work has changed since training.",
    ),
    "p90_by_week": (
        "Is p90 safe to plan on?",
        "The share of jobs that ended within their p90. 90 % is right (the band is 85–95 %); above it nodes are planned for too long, "
        "below it jobs outlive their plan too often.",
    ),
}
#: The figures' names on the page's own list of contents.
SHORT: dict[str, str] = {
    "risk_coverage": "Error against coverage",
    "calibration": "Calibration",
    "slices": "By kind of job",
    "importance": "What counts",
    "residual_by_week": "Over time",
    "p90_by_week": "p90 over time",
}


def alt_text(document: Mapping[str, Any], figure: str) -> str:
    """Return the figure in words, with the numbers of the models and of the plainest good baseline."""
    return _ALTS[figure](document)


def _risk_coverage(document: Mapping[str, Any]) -> str:
    said = [f"Line chart: median error of the surest share of jobs. All jobs: {_each(document, 'mdape')}."]
    for target in next(iter(document["coverage"].values()), {}):
        shares = "; ".join(f"{name} {percent(document['coverage'][name][target])}" for name in _shown(document))
        said.append(f"Coverage at {percent(float(target), 1)}: {shares}.")
    return " ".join(said)


def _calibration(document: Mapping[str, Any]) -> str:
    return (
        "Two charts: share of forecasts within 25 % for jobs of rising confidence, and runtime by the p50 that was given. "
        f"Within 25 %, all jobs: {_each(document, 'within_25')}."
    )


def _slices(document: Mapping[str, Any]) -> str:
    return "Dot chart: error factor of each predictor on each kind of job; the table below it holds the numbers."


def _importance(document: Mapping[str, Any]) -> str:
    losses = (
        f"{kind}: " + ", ".join(f"{family} {loss:.2f}×" for family, loss in of.items())
        for kind, of in document["importance"].items()
    )
    return f"Dot chart: error factor without a family of features, times that with it. {'. '.join(losses)}."


def _residual_by_week(document: Mapping[str, Any]) -> str:
    return (
        "Line chart: median of predicted over actual runtime for each week of submission. "
        f"Predicted too short, all jobs: {_each(document, 'under_share')}."
    )


def _p90_by_week(document: Mapping[str, Any]) -> str:
    return (
        "Line chart: share of jobs that ended within their p90 for each week of submission. "
        f"All jobs: {_each(document, 'p90_coverage')}."
    )


_ALTS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "risk_coverage": _risk_coverage,
    "calibration": _calibration,
    "slices": _slices,
    "importance": _importance,
    "residual_by_week": _residual_by_week,
    "p90_by_week": _p90_by_week,
}


def _shown(document: Mapping[str, Any]) -> list[str]:
    return [name for name in document["predictors"] if find_predictor(name).is_model or name == FALLBACK] or list(
        document["predictors"]
    )


def _each(document: Mapping[str, Any], metric: str) -> str:
    return "; ".join(f"{name} {percent(document['predictors'][name]['all'][metric])}" for name in _shown(document))
