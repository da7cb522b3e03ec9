"""A night's report below the home, as the registry reads it."""

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runcast.data.cluster import Cluster
from runcast.data.settings import Settings
from runcast.evaluation.gates import GateReport, GateResult
from runcast.evaluation.report_file import read_document


def report_folder(cluster: Cluster, settings: Settings, day: dt.date) -> Path:
    return settings.reports / cluster.name / day.isoformat()


def read_report(cluster: Cluster, settings: Settings, day: dt.date) -> Mapping[str, Any]:
    """Return the night's report; raises ReportMissing where the night was not evaluated, ReportDamaged."""
    return read_document(report_folder(cluster, settings, day) / "report.json")


def read_verdict(document: Mapping[str, Any], kind: str) -> GateReport | None:
    """Return the report's verdict on a kind, None where it was not judged."""
    found = document["verdicts"].get(kind)
    if found is None:
        return None
    fields = {name: found[name] for name in GateReport.__dataclass_fields__}
    return GateReport(**{**fields, "results": tuple(GateResult(**result) for result in found["results"])})
