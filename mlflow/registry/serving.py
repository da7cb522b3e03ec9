"""Which of the champions the bundle of a night holds, from the reports that lie below the home; see evaluation/choice.py for the rule."""

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

from runcast.data.cluster import Cluster
from runcast.data.settings import Settings
from runcast.evaluation.choice import Choice, choose
from runcast.evaluation.errors import ReportDamaged, ReportMissing
from runcast.evaluation.report_file import read_document
from runcast.registry.models import ModelVersion
from runcast.scheduler.bundle import Manifest


def choose_champion(
    champions: Mapping[str, ModelVersion], cluster: Cluster, settings: Settings, night: dt.date, serves: Manifest | None
) -> tuple[Choice, ModelVersion | None]:
    """Return the choice among the champions as of `night`, and the version it is; None where no model has passed."""
    gates = cluster.evaluation.gates
    choice = choose(
        list(champions),
        gates[0] if gates else None,
        _reports_until(cluster, settings, night),
        cluster.evaluation.min_test_jobs,
        None if serves is None else serves.kind,
    )
    return choice, None if choice.kind is None else champions[choice.kind]


def changes_later_bundle(day: dt.date, choice: Choice, serving: ModelVersion | None, bundle: Manifest | None) -> bool:
    """Say whether the bundle of a later night holds another version than is chosen, and the night of `day` is why.

    It is where its own model is chosen, or its report compares the champions. Else another version serves for a reason of its own: a
    rollback by hand stays.
    """
    if bundle is None or serving is None or serving.label == bundle.registered:
        return False
    return day.isoformat() in (serving.night, choice.night)


def _reports_until(cluster: Cluster, settings: Settings, night: dt.date) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the reports of the nights up to `night`, the latest first; one that is damaged compares nothing and is passed over."""
    folder = settings.reports / cluster.name
    for day in sorted((path.parent.name for path in folder.glob("????-??-??/report.json")), reverse=True):
        if day <= night.isoformat():
            try:
                yield day, read_document(folder / day / "report.json")
            except (ReportMissing, ReportDamaged):
                continue
