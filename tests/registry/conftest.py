"""A real SQLite-backed MLflow in the test's own folder."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runcast.data.settings import Settings, read_settings
from runcast.registry.runs import Night
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
