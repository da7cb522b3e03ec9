"""Which champion serves: one rule, on numbers that exist, and the sentence that says so.

The champions are compared on the latest night whose report has enough test jobs and a number of each of them, by the number of the
cluster's first gate; where that cannot compare them there (no direction, no jobs on its rows), by the error factor on all jobs. A kind
that a baseline stood in for has no number of its own. Reports and the order in which nights were run decide nothing else.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runcast.data.cluster import COVERAGE_PREFIX, Gate
from runcast.evaluation.gates import number_of
from runcast.evaluation.metrics import BY_NAME, direction_of
from runcast.evaluation.numbers import format_metric, percent
from runcast.training.kinds import FALLBACK

Report = Mapping[str, Any]

_EVERYTHING = Gate(metric="error_factor", rows="all")


@dataclass(frozen=True)
class Choice:
    """The kind that serves (None: the baseline), the night whose numbers decided (None: none had to, or none could), and why."""

    kind: str | None
    night: str | None
    sentence: str


def choose(
    champions: Sequence[str], first_gate: Gate | None, reports: Iterable[tuple[str, Report]], min_jobs: int, serves: str | None
) -> Choice:
    """Choose among the kinds that have a champion; `reports` are (night, document), the latest first, read only as far as needed.

    `serves` is the kind that serves now: it stays where no report compares the champions.
    """
    if not champions:
        return Choice(None, None, f"{FALLBACK} serves: no model has passed its gates")
    if len(champions) == 1:
        return Choice(champions[0], None, f"{champions[0]} serves: it is the only champion")
    gate, latest = first_gate or _EVERYTHING, None
    for night, report in reports:
        latest = latest or night
        if report["jobs"] < min_jobs:
            continue
        for asked in (gate, _EVERYTHING):
            numbers = {kind: None if kind in report["fallbacks"] else _number(asked, kind, report) for kind in champions}
            best = direction_of(asked.metric).best(numbers)
            if best is None or None in numbers.values():
                continue
            said = f"{best} serves: {_superlative(asked)} of {_count(champions)} champions, {_shown(asked, numbers[best])}"
            if asked != gate:
                said += f"; {gate.metric} on {gate.rows} jobs, the first gate's number, does not compare them"
            if night != latest:
                said += f"; night of {night}, the latest that compares them"
            return Choice(best, night, said)
    kind = serves if serves in champions else champions[0]
    why = "it served before" if kind == serves else "the first of them"
    return Choice(kind, None, f"{kind} serves: {why}; no report compares the {_count(champions)} champions")


def _number(gate: Gate, kind: str, report: Report) -> float | None:
    return number_of(gate, kind, report["predictors"], report["coverage"])


def _superlative(gate: Gate) -> str:
    """Say which of the gate's numbers is the best: lowest error factor on recurring jobs."""
    better = direction_of(gate.metric)
    if gate.metric.startswith(COVERAGE_PREFIX):
        label = f"coverage at {percent(float(gate.metric.removeprefix(COVERAGE_PREFIX)), 1)}"
    else:
        label = BY_NAME[gate.metric].label
    on = "" if gate.rows == "all" else f" on {gate.rows} jobs"
    return f"{better.best_is} {label}{on}" if better.goal is None else f"{label}{on} nearest to {percent(better.goal, 0)}"


def _shown(gate: Gate, value: float | None) -> str:
    metric = BY_NAME.get(gate.metric)
    if metric is None:
        return percent(value)
    return f"×{value:.2f}" if metric.style == "factor" else format_metric(value, metric)


def _count(champions: Sequence[str]) -> str:
    return {2: "two", 3: "three"}.get(len(champions), str(len(champions)))
