"""One night for one cluster: its stages, in order.

Airflow's tasks and the command line both call `run_stage`; each stage reads its settings, calls one job function, keeps a small
JSON record below RUNCAST_HOME/nights/<cluster>/<day>/ and returns it. Stages hand on names of partitions and folders, never frames.
"""

import datetime as dt
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runcast.data.cluster import Cluster, find_cluster
from runcast.data.asof import cut_us
from runcast.data.errors import NoSuchNight, SourceError
from runcast.data.settings import Settings, read_settings

Record = dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """One step of a night: its name, what a person should know of it, and the function that does it."""

    name: str
    title: str
    run: Callable[[Cluster, Settings, dt.date], Record]


def _ingest(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
    from runcast.data.job import ingest

    return ingest(cluster, settings, first=None, last=day).to_json()


def _quality(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
    from runcast.data.job import check

    report = check(cluster, settings, day)
    report.require_passed()
    return report.to_json()


def _features(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
    from runcast.features.job import build_features

    return build_features(cluster, settings, day).to_json()


def _train(kind: str) -> Callable[[Cluster, Settings, dt.date], Record]:
    def run(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
        from runcast.training.job import train

        return train(cluster, settings, day, kind).to_json()

    return run


def _evaluate(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
    from runcast.evaluation.job import evaluate
    from runcast.registry.job import champions

    return evaluate(cluster, settings, day, champions=champions(cluster, settings)).summary()


def _register(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
    from runcast.registry.job import register

    return register(cluster, settings, day, now=dt.datetime.now(dt.UTC))


def _promote(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
    from runcast.registry.job import promote

    return promote(cluster, settings, day)


def _export(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
    from runcast.registry.job import export

    return export(cluster, settings, day, now=dt.datetime.now(dt.UTC))


#: Kinds of model trained each night, in the order of the reports.
MODEL_KINDS: tuple[str, ...] = ("cart", "gbdt", "runcast")

STAGES: tuple[Stage, ...] = (
    Stage("ingest", "read the log into the lake", _ingest),
    Stage("quality", "check what was loaded", _quality),
    Stage("features", "one row per submitted job", _features),
    *(Stage(f"train_{kind}", f"fit {kind} on all that had ended", _train(kind)) for kind in MODEL_KINDS),
    Stage("evaluate", "replay the latest jobs beside the baselines", _evaluate),
    Stage("register", "log the run and register the versions", _register),
    Stage("promote", "move the champion alias, if the gates passed", _promote),
    Stage("export", "write the bundle for the scheduler", _export),
)
BY_NAME: dict[str, Stage] = {stage.name: stage for stage in STAGES}


def run_stage(name: str, cluster_name: str, day: str) -> Record:
    """Run one stage of the night of `day` (YYYY-MM-DD, local to the cluster) and keep its record; the record is returned."""
    settings = read_settings()
    cluster = find_cluster(settings.clusters, cluster_name)
    date = dt.date.fromisoformat(day)
    record = {"cluster": cluster.name, "day": day, "stage": name, **BY_NAME[name].run(cluster, settings, date)}
    _write(record_path(settings, cluster.name, day, name), record)
    return record


def run_night(cluster_name: str, day: str) -> Iterator[Record]:
    """Run every stage in order, yielding each record as it is done; the first error ends the night and is raised."""
    for stage in STAGES:
        yield run_stage(stage.name, cluster_name, day)


def record_path(settings: Settings, cluster_name: str, day: str, stage: str) -> Path:
    return settings.home / "nights" / cluster_name / day / f"{stage}.json"


def read_night(settings: Settings, cluster_name: str, day: str) -> dict[str, Record]:
    """Return the records kept of one night, by stage; empty where there was none."""
    folder = settings.home / "nights" / cluster_name / day
    return {stage.name: json.loads(path.read_text()) for stage in STAGES if (path := folder / f"{stage.name}.json").exists()}


def nights(settings: Settings, cluster_name: str) -> list[str]:
    """Return the days of which there are records, oldest first."""
    folder = settings.home / "nights" / cluster_name
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def clusters_with_nights(settings: Settings) -> list[str]:
    """Return the names of the clusters that have had a night, in name order, whatever their files hold now."""
    folder = settings.home / "nights"
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def choose_day(cluster: Cluster, settings: Settings, asked: str | None, now: dt.datetime) -> str:
    """Return the day asked for as YYYY-MM-DD or, where none is, the default of the cluster; raises NoSuchNight.

    The default is yesterday for a cluster that runs every night, and the last day on which a job ended for a finished log, which is
    read for it. `now` is aware.
    """
    if asked is not None:
        return checked_day(cluster, asked, now).isoformat()
    if cluster.schedule:
        return latest_complete_day(cluster, now)
    from runcast.data.job import ingest
    from runcast.data.lake import Lake

    ingest(cluster, settings, first=None, last=None)
    dates = Lake(settings.lake).dates(cluster.name)
    if not dates:
        raise SourceError(f"{cluster.name}: no job in this log has ended, so there is no night to run; name one with --date")
    return max(dates)


def checked_day(cluster: Cluster, text: str, now: dt.datetime) -> dt.date:
    """Return the day that `text` names; raises NoSuchNight for what is no day, or for one that has not begun in the cluster's zone."""
    try:
        day = dt.date.fromisoformat(text)
        cut_us(day, cluster.zone)
    except (ValueError, TypeError, OverflowError):
        raise NoSuchNight(f"{cluster.name}: {text!r} is not a day; write YYYY-MM-DD") from None
    if cluster.clock == "calendar" and day > now.astimezone(cluster.zone).date():
        raise NoSuchNight(
            f"{cluster.name}: {day} has not begun in {cluster.time_zone}; the night of a day is run when it is over"
        )
    return day


def latest_complete_day(cluster: Cluster, now: dt.datetime) -> str:
    """Return yesterday in the cluster's zone: the latest day of which all can be known at `now` (aware)."""
    return (now.astimezone(cluster.zone).date() - dt.timedelta(days=1)).isoformat()


def _write(path: Path, record: Record) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    beside.replace(path)
