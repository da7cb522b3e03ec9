"""An operator's decision to train on a day although checks stopped it: RUNCAST_HOME/quality/<cluster>/accepted/<day>.json.

It is of one day and of the checks that stopped that day when it was made: whatever else fails later stops the night as before. It stays
until its file is deleted, so that the night can be run again, by whoever it is, and comes out the same.
"""

import json
import re
from dataclasses import asdict, dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from runcast.data.errors import NothingToAccept
from runcast.data.settings import Settings

_LONGEST = 500  # characters of a reason


@dataclass(frozen=True)
class Acceptance:
    """That the night of `day` may go on where no other than these checks stops it, why, and when (UTC) that was said."""

    cluster: str
    day: str
    checks: tuple[str, ...]
    reason: str
    at: str

    def to_json(self) -> dict[str, Any]:
        """The decision as plain JSON values."""
        return {**asdict(self), "checks": list(self.checks)}


def accept(cluster: str, settings: Settings, day: date, reason: str, now: datetime) -> Acceptance:
    """Keep that the checks which stopped the latest night of `day` need not stop it; `now` is aware.

    What was accepted of that day earlier stays so. Raises NothingToAccept without a reason, and where the day has not been stopped:
    nobody has seen what to accept.
    """
    reason = " ".join(reason.split())
    if not re.search(r"\w", reason):
        raise NothingToAccept(
            f"{cluster}, {day}: a reason is needed to accept a day that was stopped; say why it may be trained on"
        )
    stopped_by, known = _stopped_by(cluster, settings, day), read_acceptance(cluster, settings, day)
    if not stopped_by:
        if known is not None:
            return known
        raise NothingToAccept(
            f"{cluster}, {day}: no check has stopped this night, so there is nothing to accept. Run it first; what stops it is then "
            "named, and can be accepted."
        )
    checks = sorted({*stopped_by, *(known.checks if known else ())})
    accepted = Acceptance(cluster, f"{day}", tuple(checks), reason[:_LONGEST], now.isoformat(timespec="seconds"))
    path = _path(cluster, settings, day)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(accepted.to_json(), indent=1) + "\n", encoding="utf-8")
    beside.replace(path)
    return accepted


def read_acceptance(cluster: str, settings: Settings, day: date) -> Acceptance | None:
    """Return what was accepted of a day, None where nothing was."""
    try:
        kept = json.loads(_path(cluster, settings, day).read_bytes())
    except FileNotFoundError:
        return None
    return Acceptance(**{**kept, "checks": tuple(kept["checks"])})


def quality_folder(cluster: str, settings: Settings) -> Path:
    """The folder of a cluster's judgements, its pages and what was accepted."""
    return settings.home / "quality" / quote(cluster, safe="")


def _stopped_by(cluster: str, settings: Settings, day: date) -> list[str]:
    """Names of the checks that stopped the latest night of `day`; none where it was not run, or by a version that did not keep them."""
    try:
        report = json.loads((quality_folder(cluster, settings) / "reports" / f"{day}.json").read_bytes())
    except FileNotFoundError:
        return []
    return list(report.get("stopped_by", []))


def _path(cluster: str, settings: Settings, day: date) -> Path:
    return quality_folder(cluster, settings) / "accepted" / f"{day}.json"
