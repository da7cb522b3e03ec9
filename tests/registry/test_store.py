"""The store is where the settings say, and waits for its turn."""

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import mlflow.telemetry.utils
import pytest
from mlflow.exceptions import MlflowException

from runcast.data.errors import MayPass
from runcast.data.settings import Settings, read_settings
from runcast.registry.errors import RegistryError, StoreUnavailable
from runcast.registry.runs import Night, log_night
from runcast.registry.store import LOCK_TRIES, Store, open_store, while_locked


def test_database_and_artifacts_lie_below_the_home(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(settings)
    experiment = store.client.get_experiment(store.experiment_id("venus"))
    assert (settings.home / "mlflow.db").is_file()
    assert experiment.artifact_location == (settings.home / "mlartifacts" / "venus").as_uri()
    assert [p.name for p in tmp_path.iterdir()] == ["home"], "nothing in the working directory"


@pytest.mark.parametrize("uri", ["file:./mlruns", "file:///var/mlruns", "./mlruns", "mlruns"])
def test_plain_folder_is_refused_with_the_remedy(tmp_path: Path, uri: str) -> None:
    with pytest.raises(RegistryError, match="Unset MLFLOW_TRACKING_URI for SQLite"):
        open_store(read_settings({"RUNCAST_HOME": str(tmp_path), "MLFLOW_TRACKING_URI": uri}))


def test_server_that_does_not_answer_may_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    told = {"RUNCAST_HOME": str(tmp_path), "MLFLOW_TRACKING_URI": "http://ada:secret@127.0.0.1:9"}
    with pytest.raises(MayPass, match=r"ada:…@127\.0\.0\.1:9: does not answer") as refused:
        open_store(read_settings(told))
    assert "secret" not in str(refused.value)


def test_one_experiment_for_each_cluster(store: Store) -> None:
    first = store.experiment_id("venus")
    assert store.experiment_id("venus") == first
    assert store.experiment_id("venus/a") != first


def test_deleted_experiment_is_restored(store: Store) -> None:
    first = store.experiment_id("venus")
    store.client.delete_experiment(first)
    assert store.experiment_id("venus") == first
    assert store.client.get_experiment(first).lifecycle_stage == "active"


def test_telemetry_is_off() -> None:
    assert mlflow.telemetry.utils.MLFLOW_DISABLE_TELEMETRY.get() is True


def test_reader_does_not_block_the_writer(store: Store, settings: Settings, night: Callable[..., Night]) -> None:
    reader = sqlite3.connect(settings.home / "mlflow.db")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM runs").fetchone()
    log_night(
        store,
        night(),
        parameters={},
        metrics={"m": 1.0},
        tags={},
        note="",
        report=None,
        logged_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    reader.close()


def test_locked_database_is_tried_again() -> None:
    waits: list[float] = []
    errors = iter([MlflowException("(sqlite3.OperationalError) database is locked")] * 2)

    def action() -> str:
        for error in errors:
            raise error
        return "done"

    assert while_locked(action, waits.append) == "done"
    assert waits == [0.5, 1.0]


def test_database_that_stays_locked_is_reported() -> None:
    waits: list[float] = []

    def action() -> None:
        raise MlflowException("database is locked")

    with pytest.raises(StoreUnavailable, match="stays locked"):
        while_locked(action, waits.append)
    assert len(waits) == LOCK_TRIES - 1


def test_other_errors_are_not_tried_again() -> None:
    waits: list[float] = []

    def action() -> None:
        raise MlflowException("no such table")

    with pytest.raises(MlflowException, match="no such table"):
        while_locked(action, waits.append)
    assert waits == []
