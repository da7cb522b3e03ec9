"""Writes RUNCAST_HOME/report/index.html: every cluster's latest night on one page, from the records and the bundles that are there."""

import datetime as dt
import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from runcast.data.cluster import find_cluster
from runcast.data.errors import ClusterFileError
from runcast.data.settings import Settings
from runcast.evaluation.front_page import ClusterNights, Night, render_front_page
from runcast.evaluation.report import write_atomically
from runcast.records import clusters_with_nights, failed_fits, nights, of_latest_run, read_failure, read_night, touched
from runcast.registry.page import every_experiment, view_address
from runcast.scheduler.bundle import read_manifest, resolve
from runcast.scheduler.errors import BundleError

SHOWN_NIGHTS = 30
LOCAL_MLFLOW = "http://127.0.0.1:5000/"  # of `make ui`


def write_front_page(settings: Settings, stages: Mapping[str, str], now: dt.datetime) -> Path:
    """Write the page and return where it is; `stages` are a night's stages in order with their titles.

    Two nights that end at once write one after the other, so that the page is never older than the records it was made after.
    """
    page = settings.reports / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    with (settings.reports / ".index.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = [_told(settings, name, stages) for name in clusters_with_nights(settings) if nights(settings, name)]
        mlflow = mlflow_pages(settings.tracking_uri) + every_experiment()
        write_atomically(page, render_front_page(told, stages, mlflow=mlflow, written_at=now))
    return page


def mlflow_pages(tracking_uri: str) -> str:
    """Return the address of MLflow's pages, without a user or a password; what `make ui` starts, where the store is no server."""
    parts = urlsplit(tracking_uri)
    if parts.scheme not in ("http", "https"):
        return LOCAL_MLFLOW
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/") + "/", "", ""))


def serving(settings: Settings, cluster_name: str) -> dict[str, Any] | None:
    """Return kind, model_version, valid_until and path of the bundle that serves now, None where none does or it cannot be read."""
    try:
        bundle = resolve(settings.bundles / cluster_name)
        manifest = read_manifest(bundle)
    except BundleError:
        return None
    return {
        "kind": manifest.kind,
        "model_version": manifest.model_version,
        "valid_until": manifest.valid_until,
        "bundle": str(bundle),
    }


def _told(settings: Settings, name: str, stages: Mapping[str, str]) -> ClusterNights:
    def address(target: Path) -> str | None:
        """Relative to the page, so that the folder can be copied or served; None where the file is not there."""
        return quote(Path(os.path.relpath(target, settings.reports)).as_posix()) if target.exists() else None

    def of(day: str) -> Night:
        failure = read_failure(settings, name, day)
        kept = of_latest_run(read_night(settings, name, day), failure, stages)
        report = address(settings.reports / name / day / "report.html") if "evaluate" in kept else None
        return Night(day, kept, failure, report, touched(settings, name, day), failed_fits(kept))

    told = [of(day) for day in nights(settings, name)[-SHOWN_NIGHTS:]]
    experiments = [
        night.stages["register"]["experiment_id"] for night in told if "experiment_id" in night.stages.get("register", {})
    ]
    links = {
        "nights in MLflow": mlflow_pages(settings.tracking_uri) + view_address(experiments[-1]) if experiments else None,
        "data docs": address(settings.home / "quality" / quote(name, safe="") / "docs" / "index.html"),
        "bundle": address(settings.bundles / name / "current" / "manifest.json"),
    }
    return ClusterNights(
        name,
        _description(settings, name),
        told,
        serving(settings, name),
        {words: found for words, found in links.items() if found is not None},
    )


def _description(settings: Settings, name: str) -> str:
    """Return what the cluster file says it is; nothing where the file is gone or broken, which is the night's affair."""
    try:
        return find_cluster(settings.clusters, name).description
    except ClusterFileError:
        return ""
