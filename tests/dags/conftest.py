"""An Airflow of its own for each test session: a migrated SQLite database and the project's DAG folder, below a temporary folder."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DAGS = Path(__file__).resolve().parents[2] / "dags"
SOURCES = DAGS.parent / "src"


@pytest.fixture(scope="session")
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """AIRFLOW_HOME with a migrated database; set before anything imports airflow in this process."""
    assert "airflow" not in sys.modules, "airflow was imported before its home was set"
    home = tmp_path_factory.mktemp("airflow")
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}?timeout=60",
        "PYTHONPATH": str(SOURCES),
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    sys.path.insert(0, str(DAGS))  # as Airflow itself does for the folder of a bundle
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, capture_output=True)
    yield home
    sys.path.remove(str(DAGS))
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
