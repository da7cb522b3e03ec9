"""Registered models: one version for each night and kind, read by alias only.

`challenger` is the latest night registered, `champion` the best of its kind. Champion becomes only what a passed report on the same
data approves, and never an older night than it has: a backfill leaves it where running every night would have. A version that
became champion keeps that as a tag, and so does one whose bundle served, with the moment from which: a rollback goes to the version
that served before. A version rolled back by hand is not approved again. The champion moves together with the bundle; see moving.py.
Aliases and tags are for people: what passed and what was rolled back is read from the home's own record (approvals.py), and an alias
that names a version without an approval names nothing here.
"""

import logging
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
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
_PASSED = "runcast.gate"  # "passed" once a version has been approved with its report
_WAS_CHAMPION = "runcast.was_champion"  # "yes" once the alias was moved to it: a night that passed out of order may never have it
_SERVED_SINCE = "runcast.served_since"  # when its bundle was made current after another's, UTC
_ROLLED_BACK = "runcast.rolled_back"  # when, by hand

_log = logging.getLogger("runcast.registry")


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
    """What a promotion comes to: the champion once the aliases have moved, whether that is another one, and why it is that one."""

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
        logged = _log_model(store, night, run_id, bundle)
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
    name_challenger(store, version)
    return version


def name_challenger(store: Store, version: ModelVersion) -> None:
    """Let the alias name a version of the latest night; one of an earlier night leaves it."""
    current = _by_alias(store, version.name, CHALLENGER)
    if current is None or (current.night, int(current.version)) < (version.night, int(version.version)):
        while_locked(lambda: store.client.set_registered_model_alias(version.name, CHALLENGER, version.version))


def approve(store: Store, version: ModelVersion, report: GateReport | None) -> None:
    """Mark `version` as one that may become champion; raises GateNotPassed without a passed report on its own data."""
    _check_report(version, report)
    if (at := store.approvals.rolled_back_at(version)) is not None:
        raise GateNotPassed(f"{version.label} was rolled back at {at}: it does not come back. Train another night.")
    store.approvals.add(version)
    _tag(store, version.name, version.version, _PASSED, "passed")


def promotion(store: Store, version: ModelVersion) -> Promotion:
    """Say what an approved version comes to: the champion never goes back to an older night."""
    current = approved_champion(store, version.name)
    if current is not None and current.version == version.version:
        return Promotion(current, False, f"{version.label} is the champion already")
    if current is not None and current.night > version.night:
        return Promotion(current, False, f"{current.label} of the later night {current.night} stays")
    before = "none" if current is None else current.label
    return Promotion(version, True, f"{version.label} passed every gate; the champion before: {before}")


def name_champion(store: Store, name: str, version: str | None) -> None:
    """Let the alias of the registered model `name` name `version`; None: no version."""
    if version is not None:
        while_locked(lambda: store.client.set_registered_model_alias(name, CHAMPION, version))
        _tag(store, name, version, _WAS_CHAMPION, "yes")
    elif _by_alias(store, name, CHAMPION) is not None:
        while_locked(lambda: store.client.delete_registered_model_alias(name, CHAMPION))


def served_before(store: Store, cluster: str, kinds: Iterable[str], served: ModelVersion) -> ModelVersion:
    """Return the version of any kind that served before `served` did; raises NoChampion where none has.

    A version that was rolled back does not count, nor one that passed its gates but never served.
    """
    told = _tags(store, served)
    until = told.get(_SERVED_SINCE)
    found = []
    for version in (v for kind in kinds for v in versions(store, model_name(cluster, kind)) if v.label != served.label):
        tags = _tags(store, version)
        since = tags.get(_SERVED_SINCE)
        if since is None or not store.approvals.has(version):
            continue
        if until is None or since < until:
            found.append((since, version))
    if not found:
        raise NoChampion(f"{served.label} is the first version that has served: there is nothing to roll back to")
    return max(found, key=lambda one: one[0])[1]


def champions_after(store: Store, left: ModelVersion, back: ModelVersion) -> dict[str, str | None]:
    """Return the champion of each kind that a rollback from `left` to `back` touches: of another kind, `left`'s has the one before."""
    if left.name == back.name:
        return {back.name: back.version}
    named = approved_champion(store, left.name)
    if named is None or named.version != left.version:
        return {back.name: back.version}
    before = _champion_before(store, left)
    return {left.name: None if before is None else before.version, back.name: back.version}


def mark_left(store: Store, label: str, at: str) -> None:
    """Mark a version as rolled back: it is not approved again, and no rollback goes to it."""
    name, _, version = label.rpartition("/")
    _tag(store, name, version, _ROLLED_BACK, at)
    store.approvals.roll_back(labelled(store, label), at)


def is_serving(store: Store, version: ModelVersion) -> bool:
    """Say whether the registry knows since when the version serves."""
    return _SERVED_SINCE in _tags(store, version)


def mark_served(store: Store, label: str, since: str) -> None:
    """Keep from when the version's bundle serves."""
    name, _, version = label.rpartition("/")
    _tag(store, name, version, _SERVED_SINCE, since)


def champion(store: Store, cluster: str, kind: str) -> ModelVersion:
    """Return the version that serves; raises NoChampion where no version has passed."""
    found = approved_champion(store, model_name(cluster, kind))
    if found is None:
        raise _no_champion(cluster, kind)
    return found


def approved_champion(store: Store, name: str) -> ModelVersion | None:
    """Return the version that the alias names, where the home approved it; one that it did not is told of, and is None."""
    found = _by_alias(store, name, CHAMPION)
    if found is None or store.approvals.has(found):
        return found
    _log.warning(
        "%s is named champion in the tracking store, and %s has no approval of it: it does not serve. Somebody moved the alias, or the "
        "version was altered; the next export names the version again that passed.", found.label, store.approvals.root,
    )  # fmt: skip
    return None


def has_foreign_champion(store: Store, name: str) -> bool:
    """Say whether the champion alias names a version that the home did not approve."""
    found = _by_alias(store, name, CHAMPION)
    return found is not None and not store.approvals.has(found)


def _champion_before(store: Store, left: ModelVersion) -> ModelVersion | None:
    standing = [v for v in approved(store, left.name) if v != left and was_champion(store, v)]
    return max(standing, key=lambda v: (v.night, int(v.version)), default=None)


def _no_champion(cluster: str, kind: str) -> NoChampion:
    return NoChampion(f"{cluster}: no {kind} model has passed its gates yet; the baseline serves")


def find(store: Store, night: Night) -> ModelVersion | None:
    """Return the version that `register` made of this night; None where it has not."""
    return _find_version(store, model_name(night.cluster, night.kind), night)


def adopt(store: Store, name: str, report_of: Callable[[ModelVersion], GateReport | None], serves: str | None) -> None:
    """Approve what passed before the home had a record: versions whose report below the home passed, and the one that serves.

    `report_of` returns the home's own report on a version, None where there is none; `serves` is the label in the serving bundle.
    """
    for found in _search(store, name):
        version = _read(found)
        if _ROLLED_BACK in found.tags:
            store.approvals.roll_back(version, found.tags[_ROLLED_BACK])
        elif _PASSED in found.tags and (version.label == serves or _is_passed(version, report_of(version))):
            store.approvals.add(version)


def _is_passed(version: ModelVersion, report: GateReport | None) -> bool:
    try:
        _check_report(version, report)
    except GateNotPassed:
        return False
    return True


def labelled(store: Store, label: str) -> ModelVersion:
    """Return the version of a label such as runcast-venus-gbdt/3; raises RegistryError where it is there no more."""
    name, _, number = label.rpartition("/")
    try:
        return _read(store.client.get_model_version(name, number))
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        raise RegistryError(f"{label}: the bundle that serves names it, and the registry does not know it") from error


def download(store: Store, version: ModelVersion, into: Path) -> Path:
    """Copy the version's files below `into` and return the folder of its bundle."""
    if not version.source.startswith("models:/"):
        raise RegistryError(f"{version.label} comes from {version.source!r}; it was not registered by runcast")
    folder = download_artifacts(artifact_uri=version.source, dst_path=str(into), tracking_uri=store.tracking_uri)
    return bundle_in(Path(folder))


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
    """Log the model's files under the run; one that a killed process left is gone on with, whole or not."""
    client = store.client
    logged = _find_logged(store, night, run_id) or while_locked(
        lambda: client.create_logged_model(
            store.experiment_id(night.cluster),
            name=night.model_version,
            source_run_id=run_id,
            tags=night.tags,
            model_type="runcast",
        )
    )
    if logged.status.value == "READY":
        return logged
    with tempfile.TemporaryDirectory(prefix="runcast-") as scratch:
        folder = Path(scratch) / "model"
        save_pyfunc(folder, bundle, run_id=run_id, model_id=logged.model_id)
        client.log_model_artifacts(logged.model_id, str(folder))
    return while_locked(lambda: client.finalize_logged_model(logged.model_id, "READY"))


def _find_logged(store: Store, night: Night, run_id: str) -> LoggedModel | None:
    found = store.client.search_logged_models([store.experiment_id(night.cluster)], f"name = '{night.model_version}'")
    return next((logged for logged in found if logged.source_run_id == run_id), None)


def _find_version(store: Store, name: str, night: Night) -> ModelVersion | None:
    same = [v for v in versions(store, name) if (v.night, v.data_fingerprint, v.model_sha256) == _identity(night)]
    return min(same, key=lambda v: int(v.version), default=None)


def _identity(night: Night) -> tuple[str, str, str]:
    return night.night, night.data_fingerprint, night.model_sha256


def versions(store: Store, name: str) -> list[ModelVersion]:
    """Return every version of a registered model."""
    return [_read(found) for found in _search(store, name)]


def approved(store: Store, name: str) -> list[ModelVersion]:
    """Return the versions of a registered model that have passed their gates and were not rolled back."""
    return [version for version in versions(store, name) if store.approvals.has(version)]


def latest_approved(store: Store, name: str, *, before: str) -> ModelVersion | None:
    """Return the approved version of the latest night before the day `before`, of several the latest; None where there is none."""
    earlier = [version for version in approved(store, name) if version.night < before]
    return max(earlier, key=lambda v: (v.night, int(v.version)), default=None)


def _search(store: Store, name: str) -> list[MlflowVersion]:
    found: list[MlflowVersion] = []
    token = None
    while True:
        page = store.client.search_model_versions(f"name = '{name}'", page_token=token)
        found += page
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


def was_champion(store: Store, version: ModelVersion) -> bool:
    """Say whether the version has been champion of its kind and was not rolled back."""
    return _WAS_CHAMPION in _tags(store, version) and store.approvals.rolled_back_at(version) is None


def sortable(at: datetime) -> str:
    """Return a moment as text that sorts as time does."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _tags(store: Store, version: ModelVersion) -> Mapping[str, str]:
    tags: Mapping[str, str] = store.client.get_model_version(version.name, version.version).tags
    return tags


def _tag(store: Store, name: str, version: str, key: str, value: str) -> None:
    while_locked(lambda: store.client.set_model_version_tag(name, version, key, value))


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
