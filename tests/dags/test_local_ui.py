"""`make ui`: real servers on loopback ports, asked with and without the password and under foreign Host headers; how they are stopped."""

import base64
import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

DAGS = Path(__file__).resolve().parents[2] / "dags"
PATIENCE_S = 300  # on a machine with much other work
pytestmark = [pytest.mark.slow]
IGNORING_SIGINT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, sys.argv[1]])
"""


@dataclass(frozen=True)
class Ui:
    """The two servers' ports, the home, and the account's password."""

    airflow: int
    mlflow: int
    home: Path
    password: str


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(port: int, path: str, host: str = "127.0.0.1", body: str | None = None, **headers: str) -> tuple[int, str]:
    """Send one request; returns the status and the body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        named = {"Host": f"{host}:{port}", "Content-Type": "application/json", **headers}
        connection.request("GET" if body is None else "POST", path, body, named)
        reply = connection.getresponse()
        return reply.status, reply.read().decode(errors="replace")
    finally:
        connection.close()


def until_up(port: int, path: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            if ask(port, path)[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.5)
    pytest.fail(f"nothing at {port}: {log.read_text()}")


def environment(home: Path, ports: tuple[int, int]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "MLFLOW", "RUNCAST"))}
    (home / "clusters").mkdir()
    return {
        **kept, "RUNCAST_HOME": str(home), "RUNCAST_CLUSTERS": str(home / "clusters"),
        "RUNCAST_AIRFLOW_PORT": str(ports[0]), "RUNCAST_MLFLOW_PORT": str(ports[1]),
    }  # fmt: skip


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """All that `make ui` starts, by a shell that ignores SIGINT as one does for a job in the background; ended by SIGINT."""
    home, ports = tmp_path_factory.mktemp("home"), (free_port(), free_port())
    log = home / "ui.log"
    with log.open("wb") as sink:
        command = [sys.executable, "-c", IGNORING_SIGINT, str(DAGS / "local_ui.py")]
        process = subprocess.Popen(command, env=environment(home, ports), stdout=sink, stderr=sink)
    try:
        until_up(ports[0], "/api/v2/version", process, log)
        until_up(ports[1], "/health", process, log)
        yield Ui(*ports, home, (home / "ui" / "password").read_text().strip())
    finally:
        process.send_signal(signal.SIGINT)
        code_of_end = process.wait(timeout=90)
    assert code_of_end == 0, log.read_text()
    for port in ports:
        with pytest.raises(OSError, match="refused"):
            ask(port, "/health")


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"operator:{password}".encode()).decode()


SEARCH = "/api/2.0/mlflow/experiments/search?max_results=5"
ALIAS = "/api/2.0/mlflow/registered-models/alias"


@pytest.mark.parametrize(
    "path", [SEARCH, "/", "/ajax-api/2.0/mlflow/experiments/search?max_results=5", "/get-artifact?path=x&run_uuid=y"]
)
def test_mlflow_answers_nobody_without_the_password(ui: Ui, path: str) -> None:
    assert ask(ui.mlflow, path)[0] == 401
    assert ask(ui.mlflow, path, Authorization=basic("guess"))[0] == 401


def test_mlflow_lets_nobody_move_an_alias_without_the_password(ui: Ui) -> None:
    assert ask(ui.mlflow, ALIAS, body=json.dumps({"name": "m", "alias": "champion", "version": "1"}))[0] == 401


def test_mlflow_answers_the_operator(ui: Ui) -> None:
    status, body = ask(ui.mlflow, SEARCH, Authorization=basic(ui.password))
    assert (status, "experiments" in json.loads(body)) == (200, True)


def token(ui: Ui, password: str) -> tuple[int, str]:
    return ask(ui.airflow, "/auth/token", body=json.dumps({"username": "operator", "password": password}))


def test_airflow_gives_a_token_for_the_password_alone(ui: Ui) -> None:
    assert ask(ui.airflow, "/auth/token")[0] in (401, 403, 404, 405)
    assert ask(ui.airflow, "/api/v2/dags")[0] == 401
    assert token(ui, "guess")[0] == 401
    status, body = token(ui, ui.password)
    assert status == 201
    assert ask(ui.airflow, "/api/v2/dags", Authorization=f"Bearer {json.loads(body)['access_token']}")[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil.example"])
def test_a_foreign_host_header_is_refused_with_the_right_password_too(ui: Ui, host: str) -> None:
    assert ask(ui.mlflow, SEARCH, host, Authorization=basic(ui.password))[0] == 403
    assert ask(ui.airflow, "/api/v2/version", host)[0] == 400


def test_localhost_is_a_name_of_this_machine(ui: Ui) -> None:
    assert ask(ui.mlflow, SEARCH, "localhost", Authorization=basic(ui.password))[0] == 200
    assert ask(ui.airflow, "/api/v2/version", "localhost")[0] == 200


def test_others_cannot_read_the_password_nor_the_keys(ui: Ui) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (ui.home / "ui").iterdir() if path.suffix != ".db"}
    assert modes == dict.fromkeys(("password", "airflow.json", "mlflow.ini", "mlflow_secret"), 0o600)
    assert [stat.S_IMODE((ui.home / name).stat().st_mode) for name in ("ui", "airflow")] == [0o700, 0o700]
    for log in [ui.home / "ui.log", *(ui.home / "logs").glob("*.log")]:
        assert ui.password not in log.read_text(errors="replace"), log.name
