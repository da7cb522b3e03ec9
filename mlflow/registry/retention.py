"""What is kept of past nights: never less than an alias or the serving bundle names, or a rollback could want.

A night older than the limit loses its version, its logged model and its run, files included where they lie on this machine; on a
server the files go when its own `mlflow gc` runs. The scheduler's bundles carry copies of their own and need none of it. Below the
home, folders of past nights go by their own limits. What was written within the last day stays, whatever night it is of: somebody
is catching up. Jobs in the lake are never deleted.
"""

import contextlib
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mlflow.entities import Run, ViewType
from mlflow.exceptions import MlflowException

from runcast.registry import models
from runcast.registry.models import ModelVersion
from runcast.registry.slug import model_name
from runcast.registry.store import Store, while_locked

_CATCHING_UP = timedelta(days=1)


@dataclass(frozen=True)
class Pruned:
    """What was deleted, by name, and what stayed though it is old."""

    versions: tuple[str, ...]
    runs: tuple[str, ...]
    kept: tuple[str, ...]


def prune(
    store: Store,
    cluster: str,
    kind: str,
    today: date,
    *,
    days: int,
    rollbacks: int,
    serves: str | None = None,
    is_dry: bool = False,
) -> Pruned:
    """Delete what is older than `days` of one kind, unless `is_dry`; say what.

    What an alias names, the latest `rollbacks` versions that were champion, and the version of the label `serves` stay.
    """
    before = (today - timedelta(days=days)).isoformat()
    versions = models.versions(store, model_name(cluster, kind))
    needed = _needed(store, versions, rollbacks) | {version.version for version in versions if version.label == serves}
    old = [version for version in versions if version.night < before]
    gone = [version for version in old if version.version not in needed]
    standing_runs = {version.run_id for version in versions} - {version.run_id for version in gone}
    runs = [run for run in _runs(store, cluster, kind, before) if run.info.run_id not in standing_runs]
    if not is_dry:
        for version in gone:
            _delete_version(store, version)
            store.approvals.remove(version)
        _delete_runs(store, runs)
    return Pruned(
        tuple(version.label for version in gone),
        tuple(run.info.run_id for run in runs),
        tuple(version.label for version in old if version.version in needed),
    )


def prune_runs(store: Store, cluster: str, kind: str, today: date, *, days: int, is_dry: bool = False) -> tuple[str, ...]:
    """Delete the runs of a kind that has no versions, where they are older than `days`, and return their ids."""
    runs = list(_runs(store, cluster, kind, (today - timedelta(days=days)).isoformat()))
    if not is_dry:
        _delete_runs(store, runs)
    return tuple(run.info.run_id for run in runs)


def old_days(folder: Path, today: date, days: int, needed: Iterable[str], now: datetime) -> list[Path]:
    """Return what lies in `folder` under the name of a day older than `days`, in name order; nothing is deleted.

    `needed` days stay, and whatever was written within the day before `now` (aware).
    """
    before, kept = today - timedelta(days=days), set(needed)
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        day = _day_of(path)
        if day is not None and day < before and day.isoformat() not in kept and not is_fresh(path, now):
            found.append(path)
    return found


def delete(paths: Iterable[Path], is_dry: bool) -> int:
    """Delete files and folders, unless `is_dry`, and return their bytes."""
    freed = 0
    for path in paths:
        inside = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file() and not p.is_symlink()]
        freed += sum(p.stat().st_size for p in inside)
        if not is_dry:
            with contextlib.suppress(FileNotFoundError):  # an export that runs now deletes bundles, too
                path.unlink() if path.is_file() else shutil.rmtree(path)
    return freed


def _day_of(path: Path) -> date | None:
    """Return the day that a folder is of, or a file such as 2026-03-01.json; None for any other name."""
    try:
        return date.fromisoformat(path.name.partition(".")[0])
    except ValueError:
        return None


def is_fresh(path: Path, now: datetime) -> bool:
    """Say whether something was written there within the day before `now` (aware)."""
    latest = max(p.stat().st_mtime for p in (path, *path.rglob("*")))
    return datetime.fromtimestamp(latest, UTC) > now - _CATCHING_UP


def _needed(store: Store, versions: list[ModelVersion], rollbacks: int) -> set[str]:
    named = models.aliased(store, versions[0].name) if versions else set()
    champions = sorted((v for v in versions if models.was_champion(store, v)), key=lambda v: (v.night, int(v.version)))
    return named | {version.version for version in champions[-rollbacks:]}


def _delete_version(store: Store, version: ModelVersion) -> None:
    """Delete a version's logged model, then the version: the next run goes on where one was killed, since it finds the version."""
    if version.source.startswith("models:/"):
        _delete_logged(store, version.source.removeprefix("models:/"))
    while_locked(lambda: store.client.delete_model_version(version.name, version.version))


def _delete_logged(store: Store, model_id: str) -> None:
    try:
        logged = store.client.get_logged_model(model_id)
    except MlflowException:  # deleted already
        return
    _delete_files(store, logged.artifact_location)
    while_locked(lambda: store.client.delete_logged_model(model_id))


def _delete_runs(store: Store, runs: Iterable[Run]) -> None:
    for run in runs:
        _delete_files(store, run.info.artifact_uri)
        while_locked(partial(store.client.delete_run, run.info.run_id))


def _runs(store: Store, cluster: str, kind: str, before: str) -> Iterator[Run]:
    """Yield the runs of a kind whose night is before the day `before`."""
    experiment, token = store.experiment_id(cluster), None
    while True:
        page = store.client.search_runs([experiment], f"tags.`runcast.kind` = '{kind}'", ViewType.ACTIVE_ONLY, page_token=token)
        yield from (run for run in page if run.data.tags["runcast.night"] < before)
        token = page.token
        if not token:
            return


def _delete_files(store: Store, place: str) -> None:
    """Delete a folder of the local artifact store, before what names it: nobody would find it again. Anything else is the server's."""
    parts = urlsplit(place)
    if store.artifacts is None or parts.scheme not in ("", "file"):
        return
    folder = Path(unquote(parts.path)).parent  # …/<run or model id>/artifacts
    if store.artifacts.resolve() in folder.resolve().parents:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
