"""Registered models: one version for each night and kind, read by alias only.

`challenger` is the latest night registered, `champion` the one that serves. The champion moves only with a passed report on the
same data, and never to an older night than it has: a backfill leaves it where running every night would have. A version that
passed keeps that as a tag, so that a rollback finds the champion before; a version rolled back by hand is not promoted again.
Whoever dies between registering and moving an alias leaves the readers with the old champion.
"""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from mlflow.artifacts import download_artifacts
from mlflow.entities import LoggedModel
from mlflow.entities.model_registry import ModelVersion as MlflowVersion
from mlflow.exceptions import MlflowException

from runcast.evaluation.gates import GateReport
from runcast.registry.card import model_description
from runcast.registry.errors import GateNotPassed, NoChampion, RegistryError
from runcast.registry.pyfunc import bundle_in, save_pyfunc
from runcast.registry.runs import Night
from runcast.registry.slug import model_name, slug
from runcast.registry.store import Store, while_locked

CHALLENGER = "challenger"
CHAMPION = "champion"
_PASSED = "runcast.gate"  # "passed" once a version has been promoted with its report
_ROLLED_BACK = "runcast.rolled_back"  # when, by hand


@dataclass(frozen=True)
class ModelVersion:
    """One version of a registered model; `version` is MLflow's number, as text."""

    name: str
    version: str
    cluster: str
    kind: str
    night: str
    data_fingerprint: str
    feature_version: str
    model_sha256: str
    run_id: str
    source: str

    @property
    def model_version(self) -> str:
        """Name of the model that answers carry; see Night.model_version."""
        return f"{slug(self.kind)}-{self.night}-{self.model_sha256[:8]}"

    @property
    def label(self) -> str:
        """Return name and number as people write them: runcast-venus-gbdt/3."""
        return f"{self.name}/{self.version}"


@dataclass(frozen=True)
class Promotion:
    """What a promotion did: the champion afterwards, and why it is that one."""

    champion: ModelVersion
    moved: bool
    reason: str


def register(store: Store, night: Night, *, run_id: str, bundle: Path, description: str) -> ModelVersion:
    """Register the night's model, packed with its `bundle`, and name it challenger; the second time changes nothing.

    `description` is the model card, in Markdown.
    """
    name, client = model_name(night.cluster, night.kind), store.client
    _ensure_registered(store, night, name)
    version = _find_version(store, name, night)
    if version is None:
        logged = _find_logged(store, night, run_id) or _log_model(store, night, run_id, bundle)
        version = _read(
            while_locked(
                lambda: client.create_model_version(
                    name,
                    source=f"models:/{logged.model_id}",
                    run_id=run_id,
                    model_id=logged.model_id,
                    tags=night.tags,
                    description=description,
                )
            )
        )
    current = _by_alias(store, name, CHALLENGER)
    if current is None or (current.night, int(current.version)) < (version.night, int(version.version)):
        while_locked(lambda: client.set_registered_model_alias(name, CHALLENGER, version.version))
    return version


def promote(store: Store, version: ModelVersion, report: GateReport | None) -> Promotion:
    """Make `version` the champion; raises GateNotPassed without a passed report on its own data."""
    _check_report(version, report)
    tags = store.client.get_model_version(version.name, version.version).tags
    if _ROLLED_BACK in tags:
        raise GateNotPassed(
            f"{version.label} was rolled back at {tags[_ROLLED_BACK]}: it does not come back. Train another night."
        )
    while_locked(lambda: store.client.set_model_version_tag(version.name, version.version, _PASSED, "passed"))
    current = _by_alias(store, version.name, CHAMPION)
    if current is not None and current.version == version.version:
        return Promotion(current, False, f"{version.label} is the champion already")
    if current is not None and current.night > version.night:
        return Promotion(current, False, f"{current.label} of the later night {current.night} stays")
    while_locked(lambda: store.client.set_registered_model_alias(version.name, CHAMPION, version.version))
    before = "none" if current is None else current.label
    return Promotion(version, True, f"{version.label} passed every gate; the champion before: {before}")


def rollback(store: Store, cluster: str, kind: str, at: datetime) -> ModelVersion:
    """Move the champion back to the latest passed version of a night before it, and return that one; the other does not return.

    The tag on the version that is left is what decides: once it is there, `champion` answers with the other.
    """
    left, back = rollback_target(store, cluster, kind)
    while_locked(lambda: store.client.set_model_version_tag(left.name, left.version, _ROLLED_BACK, at.isoformat()))
    while_locked(lambda: store.client.set_registered_model_alias(left.name, CHAMPION, back.version))
    return back


def rollback_target(store: Store, cluster: str, kind: str) -> tuple[ModelVersion, ModelVersion]:
    """Return the version that the alias names and the one before it; raises NoChampion where there is none."""
    current = _by_alias(store, model_name(cluster, kind), CHAMPION)
    if current is None:
        raise _no_champion(cluster, kind)
    earlier = [v for v in versions(store, current.name) if has_passed(store, v) and v.night < current.night]
    if not earlier:
        raise NoChampion(f"{current.label} is the only champion there has been: there is nothing to roll back to")
    return current, max(earlier, key=lambda v: (v.night, int(v.version)))


def champion(store: Store, cluster: str, kind: str) -> ModelVersion:
    """Return the version that serves; raises NoChampion where no version has passed."""
    found = _by_alias(store, model_name(cluster, kind), CHAMPION)
    if found is None:
        raise _no_champion(cluster, kind)
    if _ROLLED_BACK in store.client.get_model_version(found.name, found.version).tags:  # killed before it moved the alias
        return rollback_target(store, cluster, kind)[1]
    return found


def _no_champion(cluster: str, kind: str) -> NoChampion:
    return NoChampion(f"{cluster}: no {kind} model has passed its gates yet; the baseline serves")


def find(store: Store, night: Night) -> ModelVersion | None:
    """Return the version that `register` made of this night; None where it has not."""
    return _find_version(store, model_name(night.cluster, night.kind), night)


def is_left(store: Store, label: str) -> bool:
    """Say whether the version of this label was rolled back."""
    name, _, number = label.rpartition("/")
    return _ROLLED_BACK in store.client.get_model_version(name, number).tags


def download_model(store: Store, version: ModelVersion, folder: Path) -> None:
    """Copy the version's model folder to `folder`, whole or not at all."""
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=_made(folder.parent)) as scratch:
        model = download(store, version, Path(scratch)) / "model"
        if folder.exists():
            shutil.rmtree(folder)
        model.rename(folder)


def download(store: Store, version: ModelVersion, into: Path) -> Path:
    """Copy the version's files below `into` and return the folder of its bundle."""
    if not version.source.startswith("models:/"):
        raise RegistryError(f"{version.label} comes from {version.source!r}; it was not registered by runcast")
    folder = download_artifacts(artifact_uri=version.source, dst_path=str(into), tracking_uri=store.tracking_uri)
    return bundle_in(Path(folder))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _check_report(version: ModelVersion, report: GateReport | None) -> None:
    if report is None:
        raise GateNotPassed(
            f"{version.label}: no report. Evaluate the night first: runcast evaluate --cluster {version.cluster}."
        )
    wanted = (version.cluster, version.kind, version.night, version.data_fingerprint, version.model_sha256)
    found = (report.cluster, report.kind, report.night, report.data_fingerprint, report.model_sha256)
    if wanted != found:
        names = ("cluster", "kind", "night", "data", "model")
        differing = [f"{n}: expected {w}, found {f}" for n, w, f in zip(names, wanted, found, strict=True) if w != f]
        raise GateNotPassed(f"{version.label}: the report is on something else ({'; '.join(differing)})")
    if not report.passed:
        raise GateNotPassed(f"{version.label}: {'; '.join(report.reasons) or 'a gate failed'}")


def _ensure_registered(store: Store, night: Night, name: str) -> None:
    if store.client.search_registered_models(f"name = '{name}'", max_results=1):
        return
    text = model_description(night.cluster, night.kind)
    tags = {"runcast.cluster": night.cluster, "runcast.kind": night.kind}
    try:
        while_locked(lambda: store.client.create_registered_model(name, tags=tags, description=text))
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":  # another process was faster
            raise


def _log_model(store: Store, night: Night, run_id: str, bundle: Path) -> LoggedModel:
    client = store.client
    logged = while_locked(
        lambda: client.create_logged_model(
            store.experiment_id(night.cluster),
            name=night.model_version,
            source_run_id=run_id,
            tags=night.tags,
            model_type="runcast",
        )
    )
    with tempfile.TemporaryDirectory(prefix="runcast-") as scratch:
        folder = Path(scratch) / "model"
        save_pyfunc(folder, bundle, run_id=run_id, model_id=logged.model_id)
        client.log_model_artifacts(logged.model_id, str(folder))
    return while_locked(lambda: client.finalize_logged_model(logged.model_id, "READY"))


def _find_logged(store: Store, night: Night, run_id: str) -> LoggedModel | None:
    """Return the night's finished logged model, left by a run that died before it made the version."""
    found = store.client.search_logged_models([store.experiment_id(night.cluster)], f"name = '{night.model_version}'")
    return next((m for m in found if m.status.value == "READY" and m.source_run_id == run_id), None)


def _find_version(store: Store, name: str, night: Night) -> ModelVersion | None:
    same = [v for v in versions(store, name) if (v.night, v.data_fingerprint, v.model_sha256) == _identity(night)]
    return min(same, key=lambda v: int(v.version), default=None)


def _identity(night: Night) -> tuple[str, str, str]:
    return night.night, night.data_fingerprint, night.model_sha256


def versions(store: Store, name: str) -> list[ModelVersion]:
    """Return every version of a registered model."""
    found, token = [], None
    while True:
        page = store.client.search_model_versions(f"name = '{name}'", page_token=token)
        found += [_read(v) for v in page]
        token = page.token
        if not token:
            return found


def _by_alias(store: Store, name: str, alias: str) -> ModelVersion | None:
    try:
        return _read(store.client.get_model_version_by_alias(name, alias))
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):  # no such model; no such alias
            return None
        raise


def aliased(store: Store, name: str) -> set[str]:
    """Return the numbers that an alias of the registered model names."""
    return {str(number) for number in store.client.get_registered_model(name).aliases.values()}


def has_passed(store: Store, version: ModelVersion) -> bool:
    """Say whether the version has been promoted with a passed report, and not been rolled back."""
    tags: Mapping[str, str] = store.client.get_model_version(version.name, version.version).tags
    return tags.get(_PASSED) == "passed" and _ROLLED_BACK not in tags


def _read(found: MlflowVersion) -> ModelVersion:
    tags = found.tags
    return ModelVersion(
        name=found.name,
        version=str(found.version),
        cluster=tags.get("runcast.cluster", ""),
        kind=tags.get("runcast.kind", ""),
        night=tags.get("runcast.night", ""),
        data_fingerprint=tags.get("runcast.data_fingerprint", ""),
        feature_version=tags.get("runcast.feature_version", ""),
        model_sha256=tags.get("runcast.model_sha256", ""),
        run_id=found.run_id or "",
        source=found.source or "",
    )
