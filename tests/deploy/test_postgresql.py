"""Airflow and MLflow on a real PostgreSQL: a whole night through Airflow, logged to a tracking server, as deploy/ sets them up."""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from real_postgres import Postgres, wait_until

from runcast.data.settings import read_settings
from runcast.night import STAGES
from runcast.registry.store import open_store

ROOT = Path(__file__).resolve().parents[2]
DAY = "2026-01-09"
CLUSTER = """
source: {format: swf, paths: ["%s"]}
time_zone: Europe/Stockholm
schedule: "30 2 * * *"
training: {min_jobs: 100, gbdt: {trees: 20}}
evaluation: {min_test_jobs: 30}
"""


@pytest.fixture
def cluster_files(tmp_path: Path) -> Path:
    """The folder of cluster files, with one made-up log of 800 jobs over ten days."""
    draw = np.random.default_rng(11)
    lines = ["; UnixStartTime: 1767225600"]  # 2026-01-01 00:00 UTC
    for number in range(800):
        user = int(draw.integers(1, 5))
        ran_s = 100 * user + int(draw.integers(0, 20))
        lines.append(f"{number + 1} {number * 1080} 3 {ran_s} 4 -1 -1 4 7200 -1 1 {user} 1 1 1 1 -1 -1")
    (tmp_path / "log.swf").write_text("\n".join(lines) + "\n")
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "tiny.yaml").write_text(CLUSTER % (tmp_path / "log.swf"))
    return tmp_path / "clusters"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "var").mkdir()
    return tmp_path / "var"


@pytest.fixture
def tracking_server(postgres: Postgres, home: Path) -> Iterator[str]:
    """The tracking server as mlflow/server/start.sh starts it, over PostgreSQL; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    state = home.parent / "state"
    prepare = ["sh", str(ROOT / "deploy" / "compose" / "prepare.sh"), str(state), str(os.getuid()), str(os.getgid())]
    subprocess.run(prepare, check=True, capture_output=True, env={**os.environ, "MLFLOW_USERS": postgres.url("mlflow")})
    places = {
        "RUNCAST_HOME": str(home),
        "RUNCAST_MLFLOW": str(Path(sys.executable).parent / "mlflow"),
        "RUNCAST_MLFLOW_AUTH": str(state / "secrets" / "mlflow_auth"),
        "RUNCAST_MLFLOW_SECRET": str(state / "secrets" / "mlflow_secret"),
    }
    environment = {**os.environ, **places, "MLFLOW_TRACKING_URI": postgres.url("mlflow")}
    log = home.parent / "mlflow.log"
    with log.open("wb") as sink:
        start = ["sh", ROOT / "mlflow" / "server" / "start.sh", str(port)]
        server = subprocess.Popen(start, env=environment, stdout=sink, stderr=sink, start_new_session=True)
    try:
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/health"), server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)  # its own session: the server and its worker, nothing else
        server.wait(timeout=60)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


@pytest.mark.slow
def test_a_night_runs_with_airflow_and_mlflow_on_postgresql(
    postgres: Postgres, tracking_server: str, cluster_files: Path, home: Path
) -> None:
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": postgres.url("airflow"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": postgres.url("airflow", "psycopg_async"),
        "MLFLOW_TRACKING_URI": tracking_server,
        "HOME": str(home.parent / "state" / "home"),  # where prepare.sh put the password
        "RUNCAST_HOME": str(home),
        "RUNCAST_CLUSTERS": str(cluster_files),
        "RUNCAST_POOL": "runcast_training",
    }
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{tracking_server}/api/2.0/mlflow/registered-models/search?max_results=1", timeout=10)
    pools, night = [str(ROOT / "dags" / "pools.py")], [str(ROOT / "dags" / "in_process.py"), "tiny", DAY]
    for words in (["-m", "airflow", "db", "migrate"], pools, night):
        done = subprocess.run([sys.executable, *words], check=False, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]

    assert ("runcast_training",) in postgres.rows("airflow", "SELECT pool FROM slot_pool")
    assert postgres.rows("airflow", "SELECT dag_id, state FROM dag_run") == [("nightly_tiny", "success")]
    tasks = postgres.rows("airflow", "SELECT task_id FROM task_instance WHERE state = 'success'")
    assert {name for (name,) in tasks} == {"which_day", "fits", *(stage.name for stage in STAGES)}
    runs = postgres.rows(
        "mlflow", "SELECT r.name, r.status FROM runs r JOIN experiments e USING (experiment_id) WHERE e.name = 'runcast-tiny'"
    )
    assert sorted(runs) == [(f"{DAY} {kind}", "FINISHED") for kind in ("cart", "gbdt", "runcast")]
    assert (home / "bundles" / "tiny" / "current" / "manifest.json").exists()
    assert list(home.rglob("*.db")) == [], "nothing was kept in SQLite"


def test_without_a_server_artifacts_lie_below_the_home(
    postgres: Postgres, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = read_settings({"RUNCAST_HOME": str(home), "MLFLOW_TRACKING_URI": postgres.url("mlflow")})
    store = open_store(settings)
    experiment = store.client.get_experiment(store.experiment_id("venus"))
    assert experiment.artifact_location == (home / "mlartifacts" / "venus").as_uri()
    assert [path.name for path in tmp_path.iterdir()] == ["var"], "nothing in the working directory"


def test_each_role_sees_its_own_database_only(postgres: Postgres) -> None:
    query = "SELECT datname FROM pg_database WHERE has_database_privilege(datname, 'connect') AND NOT datistemplate ORDER BY 1"
    assert postgres.rows("airflow", query) == [("airflow",), ("postgres",)]
    assert postgres.rows("mlflow", query) == [("mlflow",), ("postgres",)]
