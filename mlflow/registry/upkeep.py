"""The monthly job: what the cluster file's `retention` no longer keeps goes, in the registry and below the home.

A dry run says the same and deletes nothing. What always stays is told in retention.py.
"""

import datetime as dt
from pathlib import Path
from typing import Any
from urllib.parse import quote

from runcast.data.cluster import Cluster
from runcast.data.settings import Settings
from runcast.registry import models, retention
from runcast.registry.job import night_of, served_now, unlogged_nights
from runcast.registry.models import ModelVersion
from runcast.registry.moving import in_turn, opened
from runcast.registry.page import REPLAY
from runcast.registry.slug import model_name
from runcast.registry.store import Store
from runcast.scheduler.bundle import Manifest, old_bundles
from runcast.training.kinds import MODELS

Record = dict[str, Any]


@in_turn
def prune(cluster: Cluster, settings: Settings, today: dt.date, now: dt.datetime, *, is_dry: bool = False) -> Record:
    """Delete what is no longer kept of past nights, unless `is_dry`; the record says what, folders relative to the home."""
    store, keep = opened(cluster, settings, must_exist=True), cluster.retention
    serves = served_now(cluster, settings)
    done = {
        kind: retention.prune(
            store,
            cluster.name,
            kind,
            today,
            days=keep.versions_days,
            rollbacks=keep.rollbacks,
            serves=None if serves is None else serves.registered,
            is_dry=is_dry,
        )
        for kind in MODELS
    }
    replays = retention.prune_runs(store, cluster.name, REPLAY, today, days=keep.reports_days, is_dry=is_dry)
    folders = [
        *_old_models(store, cluster, settings, today, now),
        *_old_nights(store, cluster, settings, today, now, serves),
        *old_bundles(settings.bundles / cluster.name, keep.bundles),
    ]
    return {
        "cluster": cluster.name,
        "is_dry": is_dry,
        "versions": [label for one in done.values() for label in one.versions],
        "kept": [label for one in done.values() for label in one.kept],
        "runs": sum(len(one.runs) for one in done.values()) + len(replays),
        "folders": [str(path.relative_to(settings.home)) for path in folders],
        "bytes": retention.delete(folders, is_dry),
    }


def _old_models(store: Store, cluster: Cluster, settings: Settings, today: dt.date, now: dt.datetime) -> list[Path]:
    """Return the trained models of past nights, and fetched copies, that no alias names; the registry has copies of its own.

    Nights that the registry has not been told of stay.
    """
    root, named = settings.models / cluster.name, _aliased(store, cluster)
    needed = {version.night for version in named} | set(unlogged_nights(cluster, settings))
    fetched = root / "registered"
    hashes = {version.model_sha256[:16] for version in named}
    copies = sorted(fetched.iterdir()) if fetched.is_dir() else []
    return [
        *retention.old_days(root, today, cluster.retention.models_days, needed, now),
        *(path for path in copies if path.name not in hashes and not retention.is_fresh(path, now)),
    ]


def _old_nights(
    store: Store, cluster: Cluster, settings: Settings, today: dt.date, now: dt.datetime, serves: Manifest | None
) -> list[Path]:
    """Return old reports, records of nights, replays and live accuracy; those of nights that an alias or the bundle names stay."""
    nights = settings.home / "nights" / cluster.name
    needed = {version.night for version in _aliased(store, cluster)}
    if serves is not None:
        needed.add(night_of(cluster, serves).isoformat())
    if nights.is_dir():  # the latest night is what `runcast status` shows and a rollback goes by; it began with `ingest`
        needed.add(max((path.parent.name for path in nights.glob("*/ingest.json")), default=""))
    folders = [
        settings.reports / cluster.name,
        nights,
        settings.home / "replay" / cluster.name,
        settings.home / "live" / cluster.name,
        settings.home / "quality" / quote(cluster.name, safe="") / "reports",
    ]
    return [path for one in folders for path in retention.old_days(one, today, cluster.retention.reports_days, needed, now)]


def _aliased(store: Store, cluster: Cluster) -> list[ModelVersion]:
    """Return every version of the cluster that an alias names."""
    found = []
    for name in (model_name(cluster.name, kind) for kind in MODELS):
        versions = models.versions(store, name)
        numbers = models.aliased(store, name) if versions else set()
        found += [version for version in versions if version.version in numbers]
    return found
