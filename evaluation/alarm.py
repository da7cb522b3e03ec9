"""The drift stage: takes what the night's report says of drift, tells whoever wants to know, and says whether it is an alarm.

A webhook gets one POST with JSON: cluster, day, and for each new drift its name, numbers and sentence; no value of the log is in it.
Its address is read from a file of its own, since such addresses are secrets. That it cannot be reached is told and changes nothing.
"""

import datetime as dt
import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

from runcast.data.asof import cut_us
from runcast.data.cluster import Cluster
from runcast.data.settings import Settings
from runcast.evaluation.report_file import read_document

WEBHOOK_TIMEOUT_S = 5.0
_TOLD = 8  # of the series, those nearest their limits or above them stand in the stage's record
Finding = Mapping[str, Any]


def alarm(cluster: Cluster, settings: Settings, day: dt.date, now: dt.datetime) -> dict[str, Any]:
    """Return what drifted on `day`; `alarm` is the text of a new drift, None where there is none or the cluster file wants no red task.

    The webhook is called for nights that ended less than `export.valid_days` before `now` only: a backfill wakes nobody. Raises
    ReportMissing where the night was not evaluated.
    """
    found: Sequence[Finding] = read_document(settings.reports / cluster.name / day.isoformat() / "report.json")["drift"]
    new = [one for one in found if one["is_new"]]
    text = f"{cluster.name}, {day}: " + "; ".join(one["sentence"] for one in new)
    age = now - dt.datetime.fromtimestamp(cut_us(day, cluster.zone) / 1e6, dt.UTC)
    return {
        "watched": len(found),
        "judged": sum(one["limit"] is not None for one in found),
        "drifting": [one["sentence"] for one in found if one["is_drift"]],
        "new": [one["sentence"] for one in new],
        "nearest": [{name: one[name] for name in ("name", "kind", "value", "usual", "limit")} for one in found[:_TOLD]],
        "webhook": tell(cluster, settings, day, new) if new and age.days < cluster.export.valid_days else "not called",
        "alarm": text if new and cluster.drift.fails_task else None,
    }


def tell(cluster: Cluster, settings: Settings, day: dt.date, new: Sequence[Finding]) -> str:
    """Call the webhook that the cluster file names and return what came of it; the address itself is never told."""
    if cluster.drift.webhook_url_file is None:
        return "none configured"
    file = Path(settings.expand(cluster.drift.webhook_url_file))
    try:
        url = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        return f"not called: {file} cannot be read ({type(error).__name__})"
    if not url.startswith(("http://", "https://")):
        return f"not called: {file} holds no http or https address"
    told = [{name: one[name] for name in ("name", "kind", "value", "usual", "limit", "sentence")} for one in new]
    body = json.dumps({"cluster": cluster.name, "day": day.isoformat(), "drift": told}).encode()
    try:
        request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"}, method="POST")
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=WEBHOOK_TIMEOUT_S) as answer:
            return f"answered {answer.status}"
    except urllib.error.HTTPError as error:
        return f"refused: answered {error.code}"
    except (OSError, HTTPException, ValueError) as error:
        return f"not reached: {type(error).__name__}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What is told goes to the address that was named, and nowhere else."""

    def redirect_request(self, *args: Any, **named: Any) -> None:
        return None
