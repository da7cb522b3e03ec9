"""What is kept of past nights: never less than an alias names, or a rollback could want.

A night older than the limit loses its version, its logged model and its run, files included where they lie on this machine; on a
server the files go when its own `mlflow gc` runs. The scheduler's bundles carry copies of their own and need none of it.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mlflow.entities import Run, ViewType
from mlflow.exceptions import MlflowException

from runcast.registry import models
from runcast.registry.models import ModelVersion
from runcast.registry.slug import model_name
from runcast.registry.store import Store, while_locked

KEPT_DAYS = 90  # a quarter of nights to compare; a version weighs what its history state weighs
KEPT_PASSED = 3  # versions a rollback can go to, however old


@dataclass(frozen=True)
class Pruned:
    """What was deleted, by name, and what stayed though it is old."""

    versions: tuple[str, ...]
    runs: tuple[str, ...]
    kept: tuple[str, ...]


def prune(store: Store, cluster: str, kind: str, today: date, *, days: int = KEPT_DAYS, passed: int = KEPT_PASSED) -> Pruned:
    """Delete what is older than `days` of one kind; what an alias names and the latest `passed` versions that passed stay."""
    before = (today - timedelta(days=days)).isoformat()
    versions = models.versions(store, model_name(cluster, kind))
    needed = _needed(store, versions, passed)
    old = [version for version in versions if version.night < before]
    gone = [version for version in old if version.version not in needed]
    for version in gone:
        _delete_version(store, version)
    standing_runs = {version.run_id for version in versions} - {version.run_id for version in gone}
    runs = [
        run
        for run in _runs(store, cluster, kind)
        if run.data.tags["runcast.night"] < before and run.info.run_id not in standing_runs
    ]
    for run in runs:
        while_locked(partial(store.client.delete_run, run.info.run_id))
        _delete_files(store, run.info.artifact_uri)
    return Pruned(
        tuple(version.label for version in gone),
        tuple(run.info.run_id for run in runs),
        tuple(version.label for version in old if version.version in needed),
    )


def _needed(store: Store, versions: list[ModelVersion], passed: int) -> set[str]:
    named = models.aliased(store, versions[0].name) if versions else set()
    latest = sorted((v for v in versions if models.was_champion(store, v)), key=lambda v: (v.night, int(v.version)))[-passed:]
    return named | {version.version for version in latest}


def _delete_version(store: Store, version: ModelVersion) -> None:
    """Delete a version, then its logged model: whoever dies between leaves a model without a version, which the next run deletes."""
    while_locked(lambda: store.client.delete_model_version(version.name, version.version))
    if version.source.startswith("models:/"):
        _delete_logged(store, version.source.removeprefix("models:/"))


def _delete_logged(store: Store, model_id: str) -> None:
    try:
        logged = store.client.get_logged_model(model_id)
    except MlflowException:  # deleted already
        return
    while_locked(lambda: store.client.delete_logged_model(model_id))
    _delete_files(store, logged.artifact_location)


def _runs(store: Store, cluster: str, kind: str) -> Iterator[Run]:
    experiment, token = store.experiment_id(cluster), None
    while True:
        page = store.client.search_runs([experiment], f"tags.`runcast.kind` = '{kind}'", ViewType.ACTIVE_ONLY, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _delete_files(store: Store, place: str) -> None:
    """Delete a folder of the local artifact store; anything else is the server's."""
    parts = urlsplit(place)
    if store.artifacts is None or parts.scheme not in ("", "file"):
        return
    folder = Path(unquote(parts.path)).parent  # …/<run or model id>/artifacts
    if store.artifacts.resolve() in folder.resolve().parents:
        shutil.rmtree(folder, ignore_errors=True)
