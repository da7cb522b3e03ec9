"""What a load that was refused for its rejects had refused: kept below home/refused until a load of the cluster succeeds.

The lake is as it was; without this nobody could look at what was wrong. At most SHOWN records are kept, the first by file and line, with
the counts of all; where names are replaced, their raw text is withheld as in the lake.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from runcast.data.settings import Settings
from runcast.data.sources.batch import Reject

SHOWN = 1000
_RAW = 2000  # characters of a record


def keep_refused(cluster: str, settings: Settings, rejects: Sequence[Reject], days: Sequence[str | None]) -> None:
    """Keep the records that a load refused; `days` says where in the log each stands."""
    rows = sorted(zip(rejects, days, strict=True), key=lambda row: (row[0].file, row[0].line))[:SHOWN]
    content = {
        "count": len(rejects),
        "by_reason": dict(Counter(reject.reason for reject in rejects).most_common()),
        "rejects": [{**reject._asdict(), "raw": reject.raw[:_RAW], "day": day} for reject, day in rows],
    }
    path = _path(cluster, settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(json.dumps(content) + "\n", encoding="utf-8")
    beside.replace(path)


def read_refused(cluster: str, settings: Settings) -> dict[str, Any] | None:
    """Return what the latest load refused, None where it was not refused; a damaged file is none."""
    try:
        kept = json.loads(_path(cluster, settings).read_bytes())
        return kept if isinstance(kept, dict) and kept.keys() >= {"count", "by_reason", "rejects"} else None
    except (FileNotFoundError, ValueError, RecursionError):
        return None


def forget_refused(cluster: str, settings: Settings) -> None:
    """Take away what an earlier load refused: this one succeeded."""
    _path(cluster, settings).unlink(missing_ok=True)


def _path(cluster: str, settings: Settings) -> Path:
    return settings.home / "refused" / f"{quote(cluster, safe='')}.json"
