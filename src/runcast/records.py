"""What is kept of nights: one small JSON record for each stage, and the failure that ended a night, below RUNCAST_HOME/nights.

A night begins with `ingest`: a stage that somebody runs by hand on another day keeps its record, and makes no night of it. Each `ingest`
of a day begins another run of its night.

RUNCAST_HOME/nights/<cluster>/<day>/<stage>.json, and failure.json beside them from the moment a stage fails until that stage succeeds.
"""

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from runcast.data.settings import Settings

Record = dict[str, Any]

_FAILURE = "failure"
_DAMAGED = "RecordDamaged"  # the kind of failure of a record that cannot be read
_FIRST = "ingest"  # the stage that a night begins with
#: What pages and tables read of a record, by stage; a value of another type is damage.
_READ: dict[str, dict[str, type]] = {
    _FAILURE: {"stage": str, "kind": str, "error": str, "at": str},
    "ingest": {"rows_in": int, "rejected": int},
    "quality": {"warns_count": int, "broken_count": int, "stops": list, "broken": list, "warns": list},
    "evaluate": {"all": dict, "limits": dict, "failures": dict},
    "register": {"versions": dict, "experiment_id": str},
    "promote": {"champions": dict},
    "export": {"kind": str, "model_version": str, "bundle": str, "choice": str},
    "drift": {"drifting": list},
}
_NEEDED: dict[str, set[str]] = {_FAILURE: {"stage", "kind", "error", "at"}, "export": {"kind"}}
_RUN = "run"  # of a record: every `ingest` of a day begins the next run of its night
_LONGEST = 4000  # characters of an error that are kept: a record stays small


def keep(settings: Settings, cluster_name: str, day: str, stage: str, record: Record) -> None:
    """Keep the record of a stage that succeeded, with the number of its run; a failure of that stage is over."""
    begun = _run(_read(record_path(settings, cluster_name, day, _FIRST)))
    run = begun + 1 if stage == _FIRST else begun
    _write(record_path(settings, cluster_name, day, stage), {**record, _RUN: run})
    failed = record_path(settings, cluster_name, day, _FAILURE)
    if failed.exists() and ((failure := _read(failed)) is None or failure["stage"] == stage):
        failed.unlink()


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
    """Return the records of a night's latest run, by stage; one that is damaged is left out, and `read_failure` tells of it.

    What the latest run has not reached yet, or never will because its process was killed, is left out as well: a record of the run
    before says nothing about the data of now.
    """
    kept = {path.stem: _read(path) for path in _kept(settings, cluster_name, day) if path.stem != _FAILURE}
    run = _run(kept.get(_FIRST))
    return {
        stage: {name: value for name, value in record.items() if name != _RUN}
        for stage, record in kept.items()
        if record is not None and _run(record) >= run
    }


def read_failure(settings: Settings, cluster_name: str, day: str) -> Record | None:
    """Return the failure that a night ended with (stage, kind, error, at), None where no stage of it stands failed.

    A damaged record is a failure too: one bad file must not hide the nights of every cluster.
    """
    for path in _kept(settings, cluster_name, day):
        record = _read(path)
        if record is None:
            at = dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC).isoformat(timespec="seconds")
            error = f"{path} is damaged. Delete it and run the night of {day} again."
            return {"stage": path.stem, "kind": _DAMAGED, "error": error, "at": at}
        if path.stem == _FAILURE:
            return record
    return None


def failed_fits(stages: Mapping[str, Record]) -> list[str]:
    """Return which fits of a night were killed or failed, by stage: "train_gbdt: gbdt: the fit was killed by signal 11 (SIGSEGV)"."""
    trained = [(stage, record.get("failure")) for stage, record in stages.items() if stage.startswith("train_")]
    judged = [("evaluate", failure) for failure in stages.get("evaluate", {}).get("failures", {}).values()]
    return [f"{stage}: {failure}" for stage, failure in (*trained, *judged) if failure]


def warnings(stages: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what a night's checks warned of, each with what it expected and found, and which of them broke."""
    quality = stages.get("quality", {})
    found = [(one, "") for one in quality.get("warns", [])] + [(one, "check broken: ") for one in quality.get("broken", [])]
    return [f"{mark}{one.get('check')}: expected {one.get('expected')}; found {one.get('found')}" for one, mark in found]


def of_latest_run(stages: Mapping[str, Record], failure: Record | None, order: Iterable[str]) -> dict[str, Record]:
    """Return the records of a night's latest run, given its stages in `order`: where one failed, those before it only.

    What lies there of the failed stage and the later ones is of a run before: its verdicts are not those of the data of now.
    """
    if failure is None or failure["kind"] == _DAMAGED:
        return dict(stages)
    before = list(order)
    before = before[: before.index(failure["stage"])] if failure["stage"] in before else before
    return {stage: record for stage, record in stages.items() if stage in before}


def _run(record: Record | None) -> int:
    """Return which run of its night kept a record: 1, 2, ...; 0 for none, and for records older than these numbers."""
    run = (record or {}).get(_RUN, 0)
    return run if isinstance(run, int) else 0


def touched(settings: Settings, cluster_name: str, day: str) -> dt.datetime:
    """Return when something of a night was last kept, in UTC."""
    folder = settings.home / "nights" / cluster_name / day
    return dt.datetime.fromtimestamp(max(path.stat().st_mtime for path in (folder, *folder.glob("[!.]*.json"))), dt.UTC)


def nights(settings: Settings, cluster_name: str) -> list[str]:
    """Return the days whose nights were begun, oldest first."""
    folder = settings.home / "nights" / cluster_name
    return sorted(path.name for path in folder.iterdir() if _is_night(path)) if folder.is_dir() else []


def latest_loaded(settings: Settings, cluster_name: str) -> str | None:
    """Return the latest night whose day was loaded: what the lake is known to reach. A night that failed before is passed over."""
    return next(
        (day for day in reversed(nights(settings, cluster_name)) if _FIRST in read_night(settings, cluster_name, day)), None
    )


def clusters_with_nights(settings: Settings) -> list[str]:
    """Return the names of the clusters that have had a night, in name order, whatever their files hold now."""
    folder = settings.home / "nights"
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _is_night(folder: Path) -> bool:
    try:
        dt.date.fromisoformat(folder.name)
    except ValueError:
        return False
    failed = folder / f"{_FAILURE}.json"
    if (folder / f"{_FIRST}.json").exists():
        return True
    return failed.exists() and ((failure := _read(failed)) is None or failure["stage"] == _FIRST)


def _kept(settings: Settings, cluster_name: str, day: str) -> list[Path]:
    return sorted((settings.home / "nights" / cluster_name / day).glob("[!.]*.json"))


def _read(path: Path) -> Record | None:
    """Return a record, None where the file does not hold one of its stage."""
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and _is_whole(path.stem, record) else None


def _is_whole(stage: str, record: Record) -> bool:
    read = _READ.get(stage, {})
    if not _NEEDED.get(stage, set()) <= record.keys():
        return False
    numbers = record.get("all") if stage == "evaluate" else None  # by kind, by metric
    return all(isinstance(record[name], kind) for name, kind in read.items() if name in record) and (
        numbers is None or all(isinstance(one, dict) for one in numbers.values())
    )


def _write(path: Path, record: Record) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")  # the same each time: what a killed process left is written over
    beside.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    beside.replace(path)
