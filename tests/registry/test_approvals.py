"""Whoever can reach the tracking store can move aliases, set tags and change files; none of it decides what serves."""

import datetime as dt
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from mlflow.entities.model_registry import ModelVersion as MlflowVersion

from runcast.data.cluster import Cluster
from runcast.data.job import load as load_log
from runcast.data.lake import Lake
from runcast.data.settings import Settings, read_settings
from runcast.data.sources.batch import Batch
from runcast.evaluation.job import evaluate
from runcast.features.job import build_features
from runcast.registry import job as registry
from runcast.registry.approvals import Approvals
from runcast.registry.errors import ApprovalDamaged, ModelAltered, NoChampion
from runcast.registry.models import ModelVersion
from runcast.registry.store import open_store
from runcast.scheduler.bundle import read_manifest, resolve
from runcast.training.job import train
from runcast.training.kinds import BASELINES

pytestmark = pytest.mark.attack

KIND, NAME = "gbdt", "runcast-demo-gbdt"
NIGHTS = [dt.date(2026, 3, day) for day in (29, 30, 31)]
NOW = dt.datetime(2026, 4, 1, 2, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def cluster(made_up_cluster: Cluster) -> Cluster:
    return made_up_cluster.model_copy(update={"evaluation": made_up_cluster.evaluation.model_copy(update={"gates": ()})})


@pytest.fixture(scope="module")
def strict(cluster: Cluster) -> Cluster:
    """The same cluster with a gate that no model passes."""
    gate = {"metric": "error_factor", "at_most": 1.0001}
    evaluation = Cluster.model_validate({**cluster.model_dump(), "evaluation": {"gates": [gate]}}).evaluation
    return cluster.model_copy(update={"evaluation": evaluation})


def _night(cluster: Cluster, settings: Settings, night: dt.date, jobs: pa.Table) -> None:
    load_log(cluster, Lake(settings.lake), [Batch(jobs)], last=night)
    build_features(cluster, settings, night)
    train(cluster, settings, night, KIND)
    evaluate(cluster, settings, night, champions=registry.champions_before(cluster, settings, night), kinds=(*BASELINES, KIND))
    registry.register(cluster, settings, night, NOW)
    registry.promote(cluster, settings, night)
    registry.export(cluster, settings, night, NOW + dt.timedelta(hours=night.day))


@pytest.fixture(scope="module")
def made(
    cluster: Cluster, strict: Cluster, made_up_jobs: pa.Table, empty_database: Path, tmp_path_factory: pytest.TempPathFactory
) -> Settings:
    """Versions 1 and 2 passed and served, version 3 failed its gate; 2 serves."""
    folder = tmp_path_factory.mktemp("home")
    shutil.copy(empty_database, folder)
    settings = read_settings({"RUNCAST_HOME": str(folder)})
    for night in NIGHTS[:2]:
        _night(cluster, settings, night, made_up_jobs)
    _night(strict, settings, NIGHTS[2], made_up_jobs)
    return settings


@pytest.fixture
def home(made: Settings, tmp_path: Path) -> Settings:
    """A copy; the artifacts' addresses stay those of the original, which nobody changes."""
    shutil.copytree(made.home, tmp_path / "home", symlinks=True)
    return read_settings({"RUNCAST_HOME": str(tmp_path / "home")})


def _version(settings: Settings, number: str) -> MlflowVersion:
    return open_store(settings).client.get_model_version(NAME, number)


def _export(cluster: Cluster, settings: Settings, hour: int = 100) -> str | None:
    """Export the latest night again; return the label that serves after it."""
    registry.export(cluster, settings, NIGHTS[2], NOW + dt.timedelta(hours=hour))
    return read_manifest(resolve(settings.bundles / "demo")).registered


def _alias(settings: Settings) -> str | None:
    aliases = open_store(settings).client.get_registered_model(NAME).aliases
    return None if "champion" not in aliases else str(aliases["champion"])


def test_what_passed_is_written_below_the_home(made: Settings) -> None:
    written = sorted(path.name for path in (made.home / "approvals" / "demo").iterdir())
    assert written == ["begun", f"{NAME}.1.json", f"{NAME}.2.json"]
    approval = json.loads((made.home / "approvals" / "demo" / f"{NAME}.2.json").read_text())
    tags = _version(made, "2").tags
    assert approval == {
        "cluster": "demo", "kind": KIND, "night": "2026-03-30", "rolled_back_at": None,
        "data_fingerprint": tags["runcast.data_fingerprint"], "model_sha256": tags["runcast.model_sha256"],
    }  # fmt: skip


def test_alias_moved_to_a_model_that_failed_its_gate_serves_nothing_and_is_put_right(
    strict: Cluster, home: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    client = open_store(home).client
    client.set_registered_model_alias(NAME, "champion", "3")
    client.set_model_version_tag(NAME, "3", "runcast.gate", "passed")
    assert _export(strict, home) == f"{NAME}/2"
    assert _alias(home) == "2"
    assert f"{NAME}/3 is named champion in the tracking store" in caplog.text


def test_alias_deleted_by_somebody_is_put_right(strict: Cluster, home: Settings) -> None:
    open_store(home).client.delete_registered_model_alias(NAME, "champion")
    assert (_export(strict, home), _alias(home)) == (f"{NAME}/2", "2")


@pytest.mark.parametrize("tag", ["runcast.model_sha256", "runcast.data_fingerprint", "runcast.night", "runcast.kind"])
def test_version_whose_tags_were_changed_is_not_the_one_that_passed(strict: Cluster, home: Settings, tag: str) -> None:
    """A hash of other files, another night: the approval is of what was judged. The version before serves."""
    value = {"runcast.night": "2026-03-28", "runcast.kind": "cart"}.get(tag, "0" * 64)
    open_store(home).client.set_model_version_tag(NAME, "2", tag, value)
    assert _export(strict, home) == f"{NAME}/1"


def test_altered_artifact_is_refused_and_what_serves_stays(strict: Cluster, home: Settings, made: Settings) -> None:
    """The night's own folder is gone (retention), so the registry's copy is what would serve."""
    shutil.rmtree(home.models / "demo" / "2026-03-30")
    before = resolve(home.bundles / "demo")
    (model,) = (made.home / "mlartifacts").rglob(f"*{_version(home, '2').source.rpartition('/')[2]}*/**/model.json")
    original = model.read_bytes()
    model.write_bytes(original.replace(b'"p90_factor": ', b'"p90_factor": 9'))
    try:
        with pytest.raises(ModelAltered, match=rf"{NAME}/2: the registry's copy is not the model that passed its gates"):
            _export(strict, home)
    finally:
        model.write_bytes(original)
    assert resolve(home.bundles / "demo") == before
    assert _export(strict, home) == f"{NAME}/2"


def test_fetched_copy_that_was_altered_later_is_refused(strict: Cluster, home: Settings) -> None:
    shutil.rmtree(home.models / "demo" / "2026-03-30")
    _export(strict, home)
    (copy,) = (home.models / "demo" / "registered").iterdir()
    (copy / "p50.txt").write_text("tree\n")
    with pytest.raises(ModelAltered, match="Somebody altered it"):
        _export(strict, home, hour=101)


def test_rollback_goes_to_what_passed_and_not_to_what_tags_say_served(strict: Cluster, home: Settings) -> None:
    open_store(home).client.set_model_version_tag(NAME, "3", "runcast.served_since", "2026-03-01T00:00:00.000000+00:00")
    assert registry.rollback(strict, home, NIGHTS[2], NOW + dt.timedelta(hours=200))["champion"] == f"{NAME}/1"


def test_version_rolled_back_does_not_come_back_when_its_tag_is_deleted(strict: Cluster, home: Settings) -> None:
    registry.rollback(strict, home, NIGHTS[2], NOW + dt.timedelta(hours=200))
    client = open_store(home).client
    client.delete_model_version_tag(NAME, "2", "runcast.rolled_back")
    client.set_registered_model_alias(NAME, "champion", "2")
    assert _export(strict, home, hour=201) == f"{NAME}/1"
    with pytest.raises(NoChampion, match="nothing to roll back to"):
        registry.rollback(strict, home, NIGHTS[2], NOW + dt.timedelta(hours=202))


@pytest.mark.parametrize("cluster_tag", ["another", "..", ""])
def test_version_rolled_back_under_another_clusters_tag_does_not_come_back_with_its_own(
    strict: Cluster, home: Settings, cluster_tag: str
) -> None:
    client = open_store(home).client
    client.set_model_version_tag(NAME, "2", "runcast.cluster", cluster_tag)
    registry.rollback(strict, home, NIGHTS[2], NOW + dt.timedelta(hours=200))
    client.set_model_version_tag(NAME, "2", "runcast.cluster", "demo")
    client.set_registered_model_alias(NAME, "champion", "2")
    assert _export(strict, home, hour=201) == f"{NAME}/1"


def test_number_that_another_version_had_is_no_obstacle(tmp_path: Path) -> None:
    """A tracking store brought back from a backup gives numbers again; what passed under one of them has passed."""
    approvals = Approvals(tmp_path)
    before, after = (
        ModelVersion(NAME, "4", "demo", KIND, night, "data", "features", night * 8, "run", "models:/m-1")
        for night in ("2026-03-30", "2026-03-31")
    )
    approvals.add(before)
    approvals.add(after)
    assert (approvals.has(before), approvals.has(after)) == (False, True)
    approvals.roll_back(after, "2026-04-01")
    approvals.add(before)
    assert (approvals.has(before), approvals.has(after)) == (False, False), "what was rolled back stays so"


def test_home_from_before_the_record_takes_it_from_its_own_reports(strict: Cluster, home: Settings) -> None:
    """Not from the tracking store, where version 3 says that it passed."""
    shutil.rmtree(home.home / "approvals")
    open_store(home).client.set_model_version_tag(NAME, "3", "runcast.gate", "passed")
    open_store(home).client.set_registered_model_alias(NAME, "champion", "3")
    assert _export(strict, home) == f"{NAME}/2"
    assert sorted(path.stem for path in (home.home / "approvals" / "demo").glob("*.json")) == [f"{NAME}.1", f"{NAME}.2"]


def test_damaged_record_stops_the_export_and_says_how_to_go_on(strict: Cluster, home: Settings) -> None:
    path = home.home / "approvals" / "demo" / f"{NAME}.2.json"
    path.write_text("{")
    with pytest.raises(ApprovalDamaged, match="Delete it, and run that night's promote and export again"):
        _export(strict, home)
    path.unlink()
    registry.promote(strict, home, NIGHTS[1])
    assert _export(strict, home) == f"{NAME}/2"
