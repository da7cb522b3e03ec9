"""Old nights go, files and all; what an alias names, or a rollback could want, stays."""

import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException

from runcast.evaluation.gates import GateReport
from runcast.registry.models import ModelVersion, approve, champion, download, name_champion
from runcast.registry.models import versions as all_versions
from runcast.registry.retention import prune
from runcast.registry.runs import Night
from runcast.registry.store import Store

TODAY = date(2020, 10, 20)


@pytest.fixture
def versions(
    store: Store,
    night: Callable[..., Night],
    register_night: Callable[[Night], ModelVersion],
    make_report: Callable[..., GateReport],
) -> list[ModelVersion]:
    """Versions 1 to 6 of the nights 20 to 25; 1, 2 and 4 passed, so that 4 is champion and 6 challenger."""
    made = [register_night(night(day)) for day in range(20, 26)]
    for at in (0, 1, 3):
        approve(store, made[at], make_report(made[at]))
        name_champion(store, made[at].name, made[at].version)
    return made


def _files(store: Store) -> int:
    assert store.artifacts is not None
    return len(list(store.artifacts.rglob("MLmodel")))


def test_old_versions_go_with_runs_and_files(store: Store, versions: list[ModelVersion]) -> None:
    done = prune(store, "venus", "gbdt", TODAY, days=1, rollbacks=1)
    assert set(done.versions) == {f"runcast-venus-gbdt/{n}" for n in (1, 2, 3, 5)}
    assert set(done.kept) == {"runcast-venus-gbdt/4", "runcast-venus-gbdt/6"}
    assert set(done.runs) == {versions[n].run_id for n in (0, 1, 2, 4)}
    assert _files(store) == 2
    assert champion(store, "venus", "gbdt") == versions[3]


def test_versions_that_a_rollback_can_go_to_stay(store: Store, versions: list[ModelVersion]) -> None:
    done = prune(store, "venus", "gbdt", TODAY, days=1, rollbacks=2)
    assert set(done.kept) == {f"runcast-venus-gbdt/{n}" for n in (2, 4, 6)}


def test_young_nights_stay(store: Store, versions: list[ModelVersion]) -> None:
    done = prune(store, "venus", "gbdt", TODAY, days=27, rollbacks=1)  # 23 September and later
    assert set(done.versions) == {f"runcast-venus-gbdt/{n}" for n in (1, 2, 3)}


def test_again_changes_nothing(store: Store, versions: list[ModelVersion]) -> None:
    prune(store, "venus", "gbdt", TODAY, days=1, rollbacks=1)
    assert prune(store, "venus", "gbdt", TODAY, days=1, rollbacks=1).versions == ()
    assert prune(store, "venus", "cart", TODAY, days=1, rollbacks=1).kept == ()


@pytest.mark.parametrize("step", ["delete_logged_model", "delete_model_version", "delete_run"])
def test_what_a_killed_run_left_goes_with_the_next(
    store: Store, versions: list[ModelVersion], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Killed right after a step. Nothing is forgotten before its files are gone."""
    for version in versions:
        store.client.log_text(version.run_id, "judged", "report.txt")
    done = getattr(type(store.client), step)

    def killed(*given: object) -> None:
        done(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as once:
        once.setattr(type(store.client), step, killed)
        with pytest.raises(KeyboardInterrupt):
            prune(store, "venus", "gbdt", TODAY, days=1, rollbacks=1)
    prune(store, "venus", "gbdt", TODAY, days=1, rollbacks=1)
    assert store.artifacts is not None
    standing = {versions[n].source.removeprefix("models:/") for n in (3, 5)} | {versions[n].run_id for n in (3, 5)}
    assert {path.parent.name for path in store.artifacts.rglob("artifacts")} <= standing
    assert {version.version for version in all_versions(store, versions[0].name)} == {"4", "6"}


def test_other_clusters_and_kinds_are_left_alone(
    store: Store, versions: list[ModelVersion], night: Callable[..., Night], register_night: Callable[[Night], ModelVersion]
) -> None:
    others = [register_night(night(20, kind="cart")), register_night(night(20, cluster="philly"))]
    prune(store, "venus", "gbdt", TODAY, days=1, rollbacks=1)
    for other in others:
        assert store.client.get_model_version(other.name, other.version).status == "READY"


def test_version_whose_files_are_gone_does_not_stop_it(store: Store, versions: list[ModelVersion]) -> None:
    assert store.artifacts is not None
    shutil.rmtree(store.artifacts / "venus" / "models" / versions[0].source.removeprefix("models:/"))
    assert len(prune(store, "venus", "gbdt", TODAY, days=1, rollbacks=1).versions) == 4


def test_champion_outlives_the_deletion_of_its_run(store: Store, versions: list[ModelVersion], tmp_path: Path) -> None:
    store.client.delete_run(versions[3].run_id)
    prune(store, "venus", "gbdt", TODAY, days=1, rollbacks=1)
    assert (download(store, champion(store, "venus", "gbdt"), tmp_path) / "manifest.json").exists()
    with pytest.raises(MlflowException, match="not found"):
        store.client.get_model_version("runcast-venus-gbdt", "1")
