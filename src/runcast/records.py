"""What is kept of nights: one small JSON record for each stage, and the failure that ended a night, below RUNCAST_HOME/nights.

RUNCAST_HOME/nights/<cluster>/<day>/<stage>.json, and failure.json beside them from the moment a stage fails until that stage succeeds.
"""

import datetime as dt
import json
from pathlib import Path
from typing import Any

from runcast.data.settings import Settings

Record = dict[str, Any]

_FAILURE = "failure"
_LONGEST = 4000  # characters of an error that are kept: a record stays small


def keep(settings: Settings, cluster_name: str, day: str, stage: str, record: Record) -> None:
    """Keep the record of a stage that succeeded; a failure of that stage is over."""
    _write(record_path(settings, cluster_name, day, stage), record)
    failed = read_failure(settings, cluster_name, day)
    if failed is not None and failed["stage"] == stage:
        record_path(settings, cluster_name, day, _FAILURE).unlink(missing_ok=True)


def keep_failure(settings: Settings, cluster_name: str, day: str, stage: str, error: Exception, now: dt.datetime) -> None:
    """Keep why a stage of a night failed."""
    failure = {
        "stage": stage,
        "kind": type(error).__name__,
        "error": str(error)[:_LONGEST],
        "at": now.isoformat(timespec="seconds"),
    }
    _write(record_path(settings, cluster_name, day, _FAILURE), failure)


def record_path(settings: Settings, cluster_name: str, day: str, stage: str) -> Path:
    return settings.home / "nights" / cluster_name / day / f"{stage}.json"


def read_night(settings: Settings, cluster_name: str, day: str) -> dict[str, Record]:
    """Return the records kept of one night, by stage; one that is damaged is left out, and `read_failure` tells of it."""
    kept = {path.stem: _read(path) for path in _kept(settings, cluster_name, day) if path.stem != _FAILURE}
    return {stage: record for stage, record in kept.items() if record is not None}


def read_failure(settings: Settings, cluster_name: str, day: str) -> Record | None:
    """Return the failure that a night ended with (stage, kind, error, at), None where no stage of it stands failed.

    A damaged record is a failure too: one bad file must not hide the nights of every cluster.
    """
    for path in _kept(settings, cluster_name, day):
        record = _read(path)
        if record is None:
            at = dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC).isoformat(timespec="seconds")
            error = f"{path} is damaged. Delete it and run the night of {day} again."
            return {"stage": path.stem, "kind": "RecordDamaged", "error": error, "at": at}
        if path.stem == _FAILURE:
            return record
    return None


def touched(settings: Settings, cluster_name: str, day: str) -> dt.datetime:
    """Return when something of a night was last kept, in UTC."""
    folder = settings.home / "nights" / cluster_name / day
    return dt.datetime.fromtimestamp(max(path.stat().st_mtime for path in (folder, *folder.glob("[!.]*.json"))), dt.UTC)


def nights(settings: Settings, cluster_name: str) -> list[str]:
    """Return the days of which there are records, oldest first."""
    folder = settings.home / "nights" / cluster_name
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def clusters_with_nights(settings: Settings) -> list[str]:
    """Return the names of the clusters that have had a night, in name order, whatever their files hold now."""
    folder = settings.home / "nights"
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _kept(settings: Settings, cluster_name: str, day: str) -> list[Path]:
    return sorted((settings.home / "nights" / cluster_name / day).glob("[!.]*.json"))


def _read(path: Path) -> Record | None:
    """Return a record, None where the file does not hold one."""
    try:
        record = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _write(path: Path, record: Record) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")  # the same each time: what a killed process left is written over
    beside.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    beside.replace(path)
