"""The page of all clusters: one row each, with the latest night, what serves, its error beside the baseline, and what needs a look.

Made from the records that the stages of a night keep; opens without a network, reads in black and white and on a narrow screen. Equal
records and the same clock give equal bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from markupsafe import Markup

from runcast.evaluation.metrics import BY_NAME, finite
from runcast.evaluation.numbers import percent
from runcast.evaluation.report import page_environment
from runcast.training.kinds import BASELINES, MODELS

Record = Mapping[str, Any]

Outcome = Literal["model", "baseline", "unfinished", "stopped", "failed"]
#: Mark, badge and words of each outcome: none is told by colour alone.
OUTCOMES: Mapping[Outcome, tuple[str, str, str]] = {
    "model": ("✓", "good", "a model serves"),
    "baseline": ("!", "warn", "the baseline serves"),
    "unfinished": ("…", "warn", "not finished"),
    "stopped": ("✗", "", "stopped by a check"),
    "failed": ("✗", "", "failed"),
}


#: A night that has kept nothing for so long is no longer under way: Airflow ends a stage after two hours.
STALLED = timedelta(hours=3)


@dataclass(frozen=True)
class Night:
    """One night of a cluster as its records tell it: by stage, and the failure that ended it, if one did."""

    day: str
    stages: Mapping[str, Record]
    failure: Record | None  # stage, error, kind, at
    report: str | None  # address of its report, relative to the page
    touched: datetime  # when its latest record was kept
    failed_fits: Sequence[str] = ()  # fits that were killed or failed, each with its stage; the night went on without them


@dataclass(frozen=True)
class ClusterNights:
    """What the page is told of a cluster: its nights, oldest first and at least one, and the bundle that serves now."""

    cluster: str
    description: str
    nights: Sequence[Night]
    serves: Record | None  # of the current bundle: kind, model_version, valid_until
    links: Mapping[str, str]  # words -> address, relative to the page where it is a file; only what is there


def render_front_page(clusters: Sequence[ClusterNights], stages: Mapping[str, str], *, mlflow: str, written_at: datetime) -> str:
    """Return the page; `stages` are a night's stages in order with their titles, `mlflow` the address of its pages."""
    rows = [_row(one, stages, written_at) for one in clusters]
    return (
        page_environment()
        .get_template("index.html")
        .render(
            rows=rows,
            attention=[row for row in rows if row["attention"]],
            counts={outcome: sum(row["outcome"] == outcome for row in rows) for outcome in OUTCOMES},
            outcomes=OUTCOMES,
            mlflow=mlflow,
            written_at=written_at.strftime("%Y-%m-%d %H:%M UTC"),
        )
    )


def outcome_of(night: Night, stages: Mapping[str, str]) -> tuple[Outcome, str]:
    """Return how a night ended, and the stage that it ended at: the failed one, or the first that is missing."""
    if night.failure is not None:
        return ("stopped" if night.failure["kind"] == "QualityStop" else "failed"), str(night.failure["stage"])
    missing = next((name for name in stages if name not in night.stages), None)
    if missing is not None:
        return "unfinished", missing
    return ("model" if night.stages["export"]["kind"] in MODELS else "baseline"), ""


def sparkline(points: Sequence[tuple[str, float | None, float | None]], width: int = 132, height: int = 30) -> Markup:
    """Return the errors of the last nights as a small picture: (day, error factor of what served, of the best baseline), oldest first."""
    known = [value for _, *pair in points for value in pair if value is not None]
    if not known:
        return Markup("")
    low, high = min(known), max(known)
    span, step = (high - low) or 1.0, (width - 12) / max(len(points) - 1, 1)

    def at(index: int, value: float) -> str:
        return f"{4 + index * step:.1f},{height - 5 - (height - 10) * (value - low) / span:.1f}"

    lines = [[at(index, point[of]) for index, point in enumerate(points) if point[of] is not None] for of in (1, 2)]  # type: ignore[arg-type]
    served, baseline = (" ".join(line) for line in lines)
    last_x, last_y = lines[0][-1].split(",") if lines[0] else ("", "")
    return Markup(
        '<svg viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" aria-label="{said}"><title>{said}</title>'
        '<polyline points="{baseline}" class="baseline"/><polyline points="{served}" class="served"/>{dot}</svg>'
    ).format(
        w=width,
        h=height,
        said=_said(points),
        baseline=baseline,
        served=served,
        dot=Markup('<circle cx="{}" cy="{}" r="3"/>').format(last_x, last_y) if last_x else "",
    )


def _said(points: Sequence[tuple[str, float | None, float | None]]) -> str:
    """Say the picture in words."""
    told = [(day, served, baseline) for day, served, baseline in points if served is not None]
    if not told:
        return "Error factor of the last nights: not known"
    (first_day, first, _), (last_day, last, baseline) = told[0], told[-1]
    said = f"Error factor {last:.2f} on {last_day}" + (f", best baseline {baseline:.2f}" if baseline is not None else "")
    return said if len(told) == 1 else f"{said}; {first:.2f} on {first_day}, {len(told)} nights"


def _row(one: ClusterNights, stages: Mapping[str, str], now: datetime) -> dict[str, Any]:
    latest = one.nights[-1]
    outcome, stage = outcome_of(latest, stages)
    replaced = _replaced(latest, one.serves)
    judged = _judged(one.nights, str(one.serves["model_version"]) if replaced and one.serves else None)
    kind = one.serves["kind"] if one.serves else None
    numbers = judged.stages["evaluate"]["all"] if judged else {}
    limits = judged.stages["evaluate"].get("limits", {}) if judged else {}
    served, (baseline, best) = numbers.get(kind, {}), best_baseline(numbers)
    factor = finite(served.get("error_factor"))
    ingest, quality = latest.stages.get("ingest", {}), latest.stages.get("quality", {})
    is_stalled = outcome == "unfinished" and now - latest.touched > STALLED
    is_expired = bool(one.serves) and datetime.fromisoformat(one.serves["valid_until"]) <= now  # type: ignore[index]
    warnings = int(quality.get("warns_count", 0)) + int(quality.get("broken_count", 0))
    return {
        "cluster": one.cluster,
        "description": one.description,
        "day": latest.day,
        "outcome": outcome,
        "stage": stage,
        "title": stages.get(stage, ""),
        "error": latest.failure["error"] if latest.failure else None,
        "serves": one.serves,
        "replaced": replaced,
        "chosen": None if replaced else str(latest.stages.get("export", {}).get("choice", "")).partition(": ")[2],
        "is_expired": is_expired,
        "judged_day": judged.day if judged and judged.day != latest.day else None,
        "error_factor": factor,
        "baseline": baseline,
        "baseline_factor": best,
        "better": None if factor is None or best is None or kind in BASELINES else _beside(factor, best),
        "p90_at_most": limits.get("p90_at_most") if limits.get("uncovered") else None,
        "p90_coverage": finite(served.get("p90_coverage")),
        "rejected": ingest.get("rejected"),
        "reject_share": percent(ingest["rejected"] / ingest["rows_in"]) if ingest.get("rows_in") else None,
        "accepted": quality.get("accepted"),
        "warnings": warnings if quality else None,
        "findings": [*quality.get("stops", []), *quality.get("broken", []), *quality.get("warns", [])],
        "line": sparkline([_point(night) for night in one.nights]),
        "touched": latest.touched.strftime("%Y-%m-%d %H:%M UTC"),
        "is_stalled": is_stalled,
        "failed_fits": latest.failed_fits,
        "attention": outcome in ("failed", "stopped") or is_stalled or is_expired or bool(latest.failed_fits),
        "report": next((night.report for night in reversed(one.nights) if night.report), None),
        "links": one.links,
        "earlier": [
            (
                night.day,
                night.report,
                OUTCOMES[outcome_of(night, stages)[0]],
                bool(night.stages.get("quality", {}).get("accepted")),
            )
            for night in reversed(one.nights[:-1])
        ],
    }


def _replaced(latest: Night, serves: Record | None) -> str | None:
    """Return the model that the latest night let serve where another serves now: after a rollback, or a night caught up."""
    version = latest.stages.get("export", {}).get("model_version")
    return version if version and serves and serves["model_version"] != version else None


def _judged(nights: Sequence[Night], model_version: str | None) -> Night | None:
    """Return the latest night with numbers; of those that let `model_version` serve, where one is named and there are any."""
    judged = [night for night in nights if night.stages.get("evaluate", {}).get("all")]
    own = [night for night in judged if night.stages.get("export", {}).get("model_version") == model_version]
    return next(reversed(own or judged), None)


def best_baseline(numbers: Mapping[str, Record]) -> tuple[str | None, float | None]:
    """Return the baseline with the smallest error factor on all jobs, and that factor."""
    factors = {name: finite(numbers.get(name, {}).get("error_factor")) for name in BASELINES}
    name = BY_NAME["error_factor"].better.best(factors)
    return name, None if name is None else factors[name]


def _beside(factor: float, baseline: float) -> str:
    """Say how an error factor compares with the baseline's."""
    if factor == baseline:
        return "as much"
    return f"{percent(abs(factor - baseline) / baseline)} {'less' if factor < baseline else 'more'}"


def _point(night: Night) -> tuple[str, float | None, float | None]:
    numbers, kind = night.stages.get("evaluate", {}).get("all") or {}, night.stages.get("export", {}).get("kind")
    return night.day, finite(numbers.get(kind, {}).get("error_factor")), best_baseline(numbers)[1]
