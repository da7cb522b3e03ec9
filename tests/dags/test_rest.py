"""Airflow itself, driven as people drive it: servers on loopback, a backfill of three nights asked for over the REST API.

The nights are asked for backwards, and what they leave is compared with a home in which the same nights ran in their turn. Then the
scheduler may start what waits for a night's jobs.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from runcast.data.lake import Lake
from runcast.data.settings import Settings, read_settings
from runcast.records import nights
from runcast.registry.models import champion, versions
from runcast.registry.store import open_store
from runcast.scheduler.bundle import read_manifest, resolve
from runcast.training.kinds import MODELS

DAGS = Path(__file__).resolve().parents[2] / "dags"
DAYS = ["2026-01-07", "2026-01-08", "2026-01-09"]
CLUSTER = """
source: {format: swf, paths: ["%s"]}
time_zone: Europe/Stockholm
schedule: "30 2 * * *"
training: {min_jobs: 100, gbdt: {trees: 10, leaves: 7}, runcast: {trees: 9, leaves: 7, scored_rows: 500}}
evaluation: {min_test_jobs: 30, gates: [{at_most: 1000, than_best_baseline: false}]}
"""
_JOB_SCHEDULE = "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE"
PATIENCE_S = 1800  # on a machine with much other work

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory, swf_log: Callable[..., str]) -> Path:
    """One cluster file, and its made-up log of 500 jobs over ten days."""
    folder = tmp_path_factory.mktemp("clusters")
    (folder / "log.swf").write_text(swf_log(jobs=500, every_s=1728, seed=5))
    (folder / "tiny.yaml").write_text(CLUSTER % (folder / "log.swf"))
    return folder


def environment(clusters: Path, home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "MLFLOW", "RUNCAST"))}
    return {**kept, "RUNCAST_HOME": str(home), "RUNCAST_CLUSTERS": str(clusters), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def in_turn_begun(clusters: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Settings, subprocess.Popen[bytes]]]:
    """A home in which a process runs the nights one after the other, beside Airflow: the machine has two cores."""
    told = environment(clusters, tmp_path_factory.mktemp("in_turn"))
    code = f"from runcast.night import BY_NAME, run_stage\nfor day in {DAYS}: [run_stage(name, 'tiny', day) for name in BY_NAME]"
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], env=told) as process:
        yield read_settings(told), process
        process.kill()


@pytest.fixture(scope="module")
def in_turn(in_turn_begun: tuple[Settings, subprocess.Popen[bytes]]) -> Settings:
    settings, process = in_turn_begun
    assert process.wait(PATIENCE_S) == 0
    return settings


@dataclass(frozen=True)
class Airflow:
    """Running servers: where they write, how their REST API is asked, and how the scheduler is started anew."""

    settings: Settings
    ask: Callable[..., Any]
    restart_scheduler: Callable[[], None]


@pytest.fixture(scope="module")
def airflow(clusters: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    """The parts of Airflow that `make ui` starts, and a function that asks its REST API; all stopped by their ids at the end."""
    home = tmp_path_factory.mktemp("airflow")
    told = environment(clusters, home) | {
        "RUNCAST_AIRFLOW_PORT": str(free_port()),
        _JOB_SCHEDULE: "False",  # only what is asked for: no night of yesterday
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("AIRFLOW", "MLFLOW", "RUNCAST")):
                patch.delenv(name)
        for name, value in told.items():
            patch.setenv(name, value)
        patch.syspath_prepend(DAGS)
        patch.delitem(sys.modules, "local_ui", raising=False)
        import local_ui

        servers = local_ui.start(["airflow-api-server", "airflow-scheduler", "airflow-dag-processor"])

        def restart_scheduler() -> None:
            local_ui.stop({name: servers.pop(name) for name in ("airflow-scheduler",)})
            patch.delenv(_JOB_SCHEDULE)
            servers.update(local_ui.start(["airflow-scheduler"]))

        try:
            yield Airflow(read_settings(told), client(local_ui.AIRFLOW_PORT, servers, home), restart_scheduler)
        finally:
            local_ui.stop(servers)
            assert all(server.poll() is not None for server in servers.values())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def client(port: int, servers: dict[str, subprocess.Popen[bytes]], home: Path) -> Callable[..., Any]:
    """Return a function that sends a request and returns the answer's JSON, once the server is there and has given a token."""
    root, headers = f"http://127.0.0.1:{port}", {"Content-Type": "application/json"}

    def ask(method: str, path: str, content: Any = None) -> Any:
        dead = [name for name, server in servers.items() if server.poll() is not None]
        assert not dead, f"{dead} stopped by itself"
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(root + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    account = {"username": "operator", "password": (home / "ui" / "password").read_text().strip()}
    headers["Authorization"] = "Bearer " + until(lambda: ask("POST", "/auth/token", account))["access_token"]
    return ask


def until(find: Callable[[], Any]) -> Any:
    """Return what `find` returns once it is true; the server may not answer yet."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            if found := find():
                return found
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            if isinstance(error, urllib.error.HTTPError) and error.code not in (404, 503):
                raise
        assert time.monotonic() < deadline, "nothing came of it in time"
        time.sleep(1)


def ended(ask: Callable[..., Any], dag: str, count: int) -> list[dict[str, Any]]:
    """Return the DAG's runs in the order they began, once there are so many and all have ended."""
    runs: list[dict[str, Any]] = ask("GET", f"/api/v2/dags/{dag}/dagRuns?order_by=start_date")["dag_runs"]
    return runs if len(runs) >= count and all(run["state"] in ("success", "failed") for run in runs) else []


@pytest.fixture(scope="module")
def backfilled(airflow: Airflow, in_turn_begun: object) -> tuple[Settings, list[dict[str, Any]]]:
    """The home after a backfill of the three nights, the last night first; and its runs in the order they began."""
    ask = airflow.ask
    for dag in ("nightly_tiny", "live_accuracy_tiny"):
        until(lambda dag=dag: ask("GET", f"/api/v2/dags/{dag}"))
    asked = {
        "dag_id": "nightly_tiny",
        "from_date": f"{DAYS[0]}T00:00:00+01:00",
        "to_date": "2026-01-09T23:00:00+01:00",
        "run_backwards": True,
        "max_active_runs": 1,
    }
    ask("POST", "/api/v2/backfills", asked)
    for dag in ("live_accuracy_tiny", "nightly_tiny"):
        ask("PATCH", f"/api/v2/dags/{dag}", {"is_paused": False})
    return airflow.settings, until(lambda: ended(ask, "nightly_tiny", len(DAYS)))


def test_every_night_of_the_backfill_succeeds_the_last_one_first(backfilled: tuple[Settings, list[dict[str, Any]]]) -> None:
    settings, runs = backfilled
    assert [(run["run_type"], run["state"]) for run in runs] == [("backfill", "success")] * 3
    begun = [run["logical_date"] for run in runs]
    assert begun == sorted(begun, reverse=True)
    assert nights(settings, "tiny") == DAYS


def test_the_lake_is_that_of_nights_in_their_turn(backfilled: tuple[Settings, list[dict[str, Any]]], in_turn: Settings) -> None:
    lake, other = Lake(backfilled[0].lake), Lake(in_turn.lake)
    assert lake.fingerprint("tiny") == other.fingerprint("tiny")
    assert lake.read_rejects("tiny").equals(other.read_rejects("tiny"))
    assert lake.verify("tiny")[1] == []


def test_champions_and_what_serves_are_those_of_nights_in_their_turn(
    backfilled: tuple[Settings, list[dict[str, Any]]], in_turn: Settings
) -> None:
    def ends(settings: Settings) -> dict[str, Any]:
        store, bundle = open_store(settings), read_manifest(resolve(settings.bundles / "tiny"))
        standing = {kind: champion(store, "tiny", kind) for kind in MODELS}
        return {
            "champions": {kind: (one.night, one.model_sha256) for kind, one in standing.items()},
            "nights": {kind: sorted(v.night for v in versions(store, f"runcast-tiny-{kind}")) for kind in MODELS},
            "serves": (bundle.model_version, bundle.data_cut),
        }

    found = ends(backfilled[0])
    assert found == ends(in_turn)
    assert {night for night, _ in found["champions"].values()} == {"2026-01-09"}


def test_what_waits_for_a_nights_jobs_is_told_the_days(
    airflow: Airflow, backfilled: tuple[Settings, list[dict[str, Any]]]
) -> None:
    """The last test: it starts the scheduler anew, free to start what the nights set off. The file names no served forecasts.

    The nights' events came while nothing could start: Airflow gives the first to one run, and the others to the run of the next event.
    """
    ask = airflow.ask
    ask("PATCH", "/api/v2/dags/nightly_tiny", {"is_paused": True})
    airflow.restart_scheduler()
    until(lambda: ended(ask, "live_accuracy_tiny", 1))
    (asset,) = ask("GET", "/api/v2/assets?name_pattern=tiny_jobs")["assets"]
    ask("POST", "/api/v2/assets/events", {"asset_id": asset["id"], "extra": {"day": DAYS[-1]}})
    runs = until(lambda: ended(ask, "live_accuracy_tiny", 2))
    assert [(run["run_type"], run["state"], run["logical_date"]) for run in runs] == [("asset_triggered", "success", None)] * 2
    looks = [look for run in runs for look in looks_of(ask, run["dag_run_id"])]
    assert {day for day, _ in looks} == set(DAYS)
    assert {state for _, state in looks} == {"skipped"}


def looks_of(ask: Callable[..., Any], run_id: str) -> list[tuple[str, str]]:
    """Return the day and the state of each mapped task of a run."""
    tasks = ask("GET", f"/api/v2/dags/live_accuracy_tiny/dagRuns/{quote(run_id)}/taskInstances")["task_instances"]
    return [(task["rendered_map_index"], task["state"]) for task in tasks if task["task_id"] == "look"]
