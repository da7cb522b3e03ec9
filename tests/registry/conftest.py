"""A real SQLite-backed MLflow in the test's own folder."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runcast.data.settings import Settings, read_settings
from runcast.evaluation.gates import GateReport, GateResult
from runcast.registry.models import ModelVersion, register
from runcast.registry.runs import Night, log_night
from runcast.registry.store import Store, open_store


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLflow's tables, made once: making them takes seconds."""
    home = tmp_path_factory.mktemp("empty")
    open_store(read_settings({"RUNCAST_HOME": str(home)}))
    return home / "mlflow.db"


@pytest.fixture
def settings(tmp_path: Path, empty_database: Path) -> Settings:
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(empty_database, home)
    return read_settings({"RUNCAST_HOME": str(home)})


@pytest.fixture
def store(settings: Settings) -> Store:
    return open_store(settings)


@pytest.fixture
def night() -> Callable[..., Night]:
    """Make a night's name; what is not given is the same for all."""

    def make(day: int = 26, **changed: str) -> Night:
        given = {
            "cluster": "venus",
            "kind": "gbdt",
            "night": f"2020-09-{day:02}",
            "data_fingerprint": f"{day:064x}",
            "feature_version": "features-1",
            "model_sha256": f"{day + 100:064x}",
        }
        return Night(cut=datetime(2020, 9, day, 16, tzinfo=UTC), **{**given, **changed})

    return make


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "some-bundle"
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    return folder


@pytest.fixture
def register_night(store: Store, bundle: Path) -> Callable[[Night], ModelVersion]:
    def run(night: Night) -> ModelVersion:
        run_id = log_night(
            store, night, parameters={}, metrics={}, tags={}, note="", report=None, logged_at=datetime(2026, 1, 1, tzinfo=UTC)
        )
        return register(store, night, run_id=run_id, bundle=bundle, description="a card")

    return run


@pytest.fixture
def make_report() -> Callable[..., GateReport]:
    """Make the verdict on a version: passed, unless `failed` says why not."""

    def make(version: ModelVersion, **changed: Any) -> GateReport:
        failed = changed.pop("failed", None)
        results = (GateResult("error_factor[all]", failed is None, failed or "it holds"),)
        about = {name: getattr(version, name) for name in ("cluster", "kind", "night", "data_fingerprint", "model_sha256")}
        return GateReport(**{**about, **changed}, passed=failed is None, results=results, metric="error_factor[all]")

    return make
