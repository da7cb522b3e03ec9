"""The report of one night as one HTML page that opens without a network: styles, figures and numbers are all inside.

Whatever a log calls its users, groups or states is text: it is escaped on its way into the page and never acts.
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from runcast.evaluation.figures import COLOURS
from runcast.evaluation.metrics import BY_NAME, METRICS, Metric
from runcast.training.kinds import find_predictor

#: Title, what to see in it, and what to make of it.
FIGURES: dict[str, tuple[str, str]] = {
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
    "residual_by_week": (
        "Too long or too short, week by week",
        "Above 1× the forecasts of that week were too long, below too short. A line that drifts away says that the work has changed "
        "since training.",
    ),
    "p90_by_week": (
        "Is p90 safe to plan on?",
        "The share of jobs that ended within their p90. 90 % is right (the band is 85–95 %); above it nodes are planned for too long, "
        "below it jobs outlive their plan too often.",
    ),
}
_HEADLINE = ("mdape", "within_25", "error_factor")


def render_report(document: Mapping[str, Any], figures: Mapping[str, str]) -> str:
    """Return the page; `figures` are SVG texts by name."""
    environment = Environment(
        loader=PackageLoader("runcast.evaluation"), autoescape=select_autoescape(default=True), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "percent": percent, "metric": format_metric, "number": format_number, "meaning": lambda kind: find_predictor(kind).meaning,
        "is_model": lambda kind: find_predictor(kind).is_model,
    }  # fmt: skip
    images = {name: "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode() for name, svg in figures.items()}
    return environment.get_template("report.html").render(
        d=document, images=images, captions=FIGURES, metrics=METRICS, by_name=BY_NAME, headline=_HEADLINE, colours=COLOURS,
        sentence=in_one_sentence(document), best=best_by_slice(document),
    )  # fmt: skip


def in_one_sentence(document: Mapping[str, Any]) -> str:
    """Say the outcome in plain words: the best model against the best baseline on all jobs."""
    predictors = document["predictors"]
    models = [name for name in predictors if find_predictor(name).is_model]
    baselines = [name for name in predictors if find_predictor(name).is_baseline]
    if not models or not baselines:
        return document["notes"][0] if document["notes"] else "Only baselines were asked for."

    def factor(name: str) -> float:
        value = predictors[name]["all"]["error_factor"]
        return float("inf") if value is None else float(value)

    model, baseline = min(models, key=factor), min(baselines, key=factor)
    mdape = predictors[model]["all"]["mdape"]
    better = "less than" if factor(model) < factor(baseline) else "no better than"
    return (
        f"{model} is off by a factor of {factor(model):.2f} (geometric mean over all test jobs), {better} the best baseline, "
        f"{baseline}, with {factor(baseline):.2f}. Half of its forecasts are within {percent(mdape)} of what the job then took."
    )


def best_by_slice(document: Mapping[str, Any]) -> dict[str, str]:
    """Return for each slice the predictor with the smallest error factor."""
    found: dict[str, str] = {}
    for name in document["slices"]:
        known = {
            predictor: slices[name]["error_factor"]
            for predictor, slices in document["predictors"].items()
            if slices[name]["error_factor"] is not None
        }
        if known:
            found[name] = min(known, key=lambda predictor: known[predictor])
    return found


def percent(value: float | None, decimals: int | None = None) -> str:
    """Return a share as people read it: one decimal below 100 %, none above."""
    if value is None:
        return "–"
    digits = decimals if decimals is not None else (1 if abs(value) < 1 else 0)
    return f"{100 * value:,.{digits}f} %"


def format_number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def format_metric(value: float | None, metric: Metric) -> str:
    """Return a metric's value in its own style; a dash where there is none."""
    if value is None:
        return "–"
    if metric.style == "percent":
        return percent(value)
    return f"{value:,.2f}×" if metric.style == "factor" else f"{value:.2f}"


def to_json(document: Mapping[str, Any]) -> str:
    """Return the document as JSON text; equal documents give equal bytes, and no NaN gets in."""
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write beside, then rename: a reader sees the old file or the new one, never a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    if isinstance(content, str):
        beside.write_text(content, encoding="utf-8", newline="\n")
    else:
        beside.write_bytes(content)
    beside.replace(path)
