"""`runcast status --nights N`: the last nights of a cluster one below the other: error, baseline, coverage, warnings, what served."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text

from runcast import night, records
from runcast.data.settings import Settings
from runcast.evaluation.front_page import Night, best_baseline, outcome_of
from runcast.evaluation.metrics import finite
from runcast.show import factor, percent, plain, plain_table

Record = Mapping[str, Any]

_TITLES = ("night", "factor", "base", "p90", "warn", "served", "until")


def last_nights(settings: Settings, names: Sequence[str], count: int) -> list[dict[str, Any]]:
    """Return the last `count` nights of each cluster, oldest first, from the records that their stages kept.

    `error_factor`, `p90_coverage`: of what the night let serve, on its test jobs; None where it has no numbers. `valid_until`: when that
    bundle ends if no later night replaces it.
    """
    return [_night(settings, name, day) for name in names for day in records.nights(settings, name)[-count:]]


def _night(settings: Settings, name: str, day: str) -> dict[str, Any]:
    titles = {stage.name: stage.title for stage in night.STAGES}
    failure = records.read_failure(settings, name, day)
    stages = records.of_latest_run(records.read_night(settings, name, day), failure, titles)
    one = Night(day, stages, failure, None, records.touched(settings, name, day))
    outcome, stage = outcome_of(one, titles)
    export, numbers = stages.get("export", {}), stages.get("evaluate", {}).get("all") or {}
    served, (baseline, best) = numbers.get(export.get("kind", ""), {}), best_baseline(numbers)
    return {
        "cluster": name,
        "day": day,
        "outcome": outcome,
        "stage": stage or None,
        "error": failure["error"] if failure else None,
        "jobs": stages.get("evaluate", {}).get("jobs"),
        "error_factor": finite(served.get("error_factor")),
        "best_baseline": baseline,
        "best_baseline_factor": best,
        "p90_coverage": finite(served.get("p90_coverage")),
        "warnings": records.warnings(stages),
        "serves": export.get("model_version"),
        "valid_until": export.get("valid_until"),
    }


def nights_history(nights: Sequence[Record]) -> Group:
    """One line per night, below each cluster's name; then what each night warned of, and why nights failed."""
    table = plain_table(*_TITLES, right=("factor", "base", "p90", "warn"))
    lines, last = [], None
    for one in nights:
        if one["cluster"] != last:
            table.add_row(Text(one["cluster"], "bold"))
            last = one["cluster"]
        table.add_row(
            one["day"],
            factor(one["error_factor"]),
            factor(one["best_baseline_factor"]),
            percent(one["p90_coverage"]),
            str(len(one["warnings"]) or "–"),
            Text(plain(one["serves"] or f"{one['outcome']}: {one['stage']}")),
            (one["valid_until"] or "–")[:10],
        )
        lines += [f"{one['cluster']}, {one['day']}: {plain(warning)}" for warning in one["warnings"]]
        if one["error"]:
            lines.append(f"{one['cluster']}, {one['day']}: failed at {one['stage']}: {plain(one['error'])}")
    legend = (
        "factor: error factor of what the night let serve; base: the best baseline's; p90: share of jobs that end before their p90; "
        "warn: warnings, below; until: the bundle's last day, where no later night replaced it"
    )
    return Group(table, *[Text(line) for line in ("", legend, "", *lines)])
