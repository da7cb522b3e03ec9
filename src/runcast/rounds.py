"""What runs beside the nights: the daily look at served forecasts, the weekly replay, the monthly upkeep.

Airflow's tasks and the command line call the same functions. Each keeps its own files below RUNCAST_HOME and, where it has numbers,
logs them to the cluster's experiment; whoever dies between has kept them, and the next run logs them.
"""

import datetime as dt
from collections.abc import Callable
from typing import Any

from runcast.data.cluster import find_cluster
from runcast.data.days import checked_day
from runcast.data.settings import read_settings

Record = dict[str, Any]


def live_accuracy(cluster_name: str, day: str) -> Record:
    """Judge what the jobs that ended on `day` (YYYY-MM-DD, local) had been told; see evaluation/live."""
    from runcast.evaluation.live.job import look_at, record_path
    from runcast.registry.job import log_live

    settings, now = read_settings(), dt.datetime.now(dt.UTC)
    cluster = find_cluster(settings.clusters, cluster_name)
    document = look_at(cluster, settings, checked_day(cluster, day, now))
    kept = record_path(settings, cluster.name, day)
    return {**document, "record": str(kept), **log_live(cluster, settings, document, kept, now)}


def weekly_replay(cluster_name: str, day: str, progress: Callable[[str], None] = lambda text: None) -> Record:
    """Replay what was known at the end of `day`, models retrained every week; the report is RUNCAST_HOME/replay/<cluster>/<day>/."""
    from runcast.evaluation.job import replay
    from runcast.registry.job import log_replay

    settings = read_settings()
    cluster = find_cluster(settings.clusters, cluster_name)
    as_of = checked_day(cluster, day, dt.datetime.now(dt.UTC))
    folder = settings.home / "replay" / cluster.name / day
    document = replay(cluster, settings, every="weekly", as_of=as_of, report=folder, progress=progress)
    logged = log_replay(cluster, settings, document, folder, dt.datetime.now(dt.UTC))
    return {**document, "report": str(folder / "report.html"), **logged}


def prune(cluster_name: str, *, is_dry: bool = False) -> Record:
    """Delete what is no longer kept of past nights, or say what would go."""
    from runcast.registry.upkeep import prune as prune_cluster

    settings, now = read_settings(), dt.datetime.now(dt.UTC)
    cluster = find_cluster(settings.clusters, cluster_name)
    return prune_cluster(cluster, settings, now.astimezone(cluster.zone).date(), now, is_dry=is_dry)


def check_lake(cluster_name: str) -> Record:
    """Read every file of the cluster's lake against its manifest; raises LakeError naming those that differ."""
    from runcast.data.errors import LakeError
    from runcast.data.lake import Lake

    settings = read_settings()
    cluster = find_cluster(settings.clusters, cluster_name)
    files, damage = Lake(settings.lake).verify(cluster.name)
    if damage:
        raise LakeError(
            f"{settings.lake}: {len(damage)} of {len(files)} files of {cluster.name} are not what was written: "
            f"{'; '.join(damage[:5])}. Delete them and load their days again: runcast ingest --cluster {cluster.name} --all."
        )
    return {"cluster": cluster.name, "files": len(files), "bytes": sum(part.bytes for part in files.values())}
