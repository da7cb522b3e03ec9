"""The report of one night as one HTML page that opens without a network: styles, figures and numbers are all inside.

Whatever a log calls its users, groups or states is text: it is escaped on its way into the page and never acts.
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from runcast.evaluation.captions import CAPTIONS, SHORT, alt_text
from runcast.evaluation.facts import FEWEST_JOBS, best_model, served_worst
from runcast.evaluation.figures import COLOURS
from runcast.evaluation.metrics import BY_NAME, METRICS, finite
from runcast.evaluation.numbers import finite_only, format_metric, format_number, percent
from runcast.evaluation.slices import LARGEST
from runcast.training.kinds import find_predictor

_HEADLINE = ("mdape", "within_25", "error_factor")


def render_report(document: Mapping[str, Any], figures: Mapping[str, str]) -> str:
    """Return the page; `figures` are SVG texts by name."""
    models = [name for name in document["predictors"] if find_predictor(name).is_model]
    model = best_model(document, models)
    images = {name: "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode() for name, svg in figures.items()}
    return (
        page_environment()
        .get_template("report.html")
        .render(
            d=document,
            sentence=in_one_sentence(document),
            models=models,
            model=model,
            largest=LARGEST,
            fewest=FEWEST_JOBS,
            worst=[] if model is None else served_worst(document, model),
            best=best_by_slice(document),
            images=images,
            captions=CAPTIONS,
            short=SHORT,
            alts={name: alt_text(document, name) for name in figures},
            metrics=METRICS,
            by_name=BY_NAME,
            headline=_HEADLINE,
            colours=COLOURS,
        )
    )


def page_environment() -> Environment:
    """Return how templates become pages: everything is escaped, and a name that is not given is an error."""
    environment = Environment(
        loader=PackageLoader("runcast.evaluation"), autoescape=select_autoescape(default=True), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "percent": percent, "metric": format_metric, "number": format_number, "meaning": lambda kind: find_predictor(kind).meaning,
        "is_model": lambda kind: find_predictor(kind).is_model, "names": names_as_code,
    }  # fmt: skip
    return environment


def names_as_code(text: str) -> Markup:
    """Return text in which backticks set off names, as our notes do, as HTML with each name as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts))


def in_one_sentence(document: Mapping[str, Any]) -> str:
    """Say the outcome in plain words: the best model against the best baseline on all jobs."""
    predictors = document["predictors"]
    models = [name for name in predictors if find_predictor(name).is_model]
    baselines = [name for name in predictors if find_predictor(name).is_baseline]
    if not models or not baselines:
        return document["notes"][0] if document["notes"] else "Only baselines were asked for."

    factors = {name: finite(slices["all"]["error_factor"]) for name, slices in predictors.items()}
    better = BY_NAME["error_factor"].better
    model, baseline = (better.best({name: factors[name] for name in names}) for names in (models, baselines))
    if model is None or baseline is None:
        return f"No {'model' if model is None else 'baseline'} has an error factor on these jobs: nothing can be compared."
    beside = "less than" if better.is_better(factors[model], factors[baseline]) else "no better than"
    return (
        f"{model} is off by a factor of {factors[model]:.2f} (geometric mean over all test jobs), {beside} the best baseline, "
        f"{baseline}, with {factors[baseline]:.2f}. Half of its forecasts are within {percent(predictors[model]['all']['mdape'])} "
        "of what the job then took."
    )


def best_by_slice(document: Mapping[str, Any]) -> dict[str, str]:
    """Return for each slice the predictor with the smallest error factor."""
    better = BY_NAME["error_factor"].better
    best = {
        name: better.best({predictor: slices[name]["error_factor"] for predictor, slices in document["predictors"].items()})
        for name in document["slices"]
    }
    return {name: predictor for name, predictor in best.items() if predictor is not None}


def to_json(document: Mapping[str, Any]) -> str:
    """Return the document as JSON text; equal documents give equal bytes, and what is no finite number is null."""
    return json.dumps(finite_only(document), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write beside, then rename: a reader sees the old file or the new one, never a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    if isinstance(content, str):
        beside.write_text(content, encoding="utf-8", newline="\n")
    else:
        beside.write_bytes(content)
    beside.replace(path)
