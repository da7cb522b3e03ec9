"""`make ui`: Airflow and MLflow on loopback, behind a password (ui_access.py); Ctrl-C stops both.

Airflow's parts are started one by one rather than by `airflow standalone`: that one also starts two log servers, which listen on
every interface and cannot be told otherwise; on one machine the logs are read from the disk.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from environment import airflow_environment
from ui_access import USER, make_access, password_file

from runcast.data.files import keep_from_others
from runcast.data.settings import read_settings

AIRFLOW_PORT = int(os.environ.get("RUNCAST_AIRFLOW_PORT", "8080"))
MLFLOW_PORT = int(os.environ.get("RUNCAST_MLFLOW_PORT", "5000"))


def is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1):
            return True
    except (urllib.error.URLError, OSError):
        return False


SERVERS = ("mlflow", "airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer")


def start(names: Sequence[str] = SERVERS) -> dict[str, subprocess.Popen[bytes]]:
    """Start the servers named, each in a process group of its own so that Ctrl-C reaches only this process.

    Those that were started are stopped where another cannot be, or where this is interrupted.
    """
    keep_from_others()
    settings = read_settings()
    access = make_access(settings.home)
    (settings.home / "airflow").mkdir(exist_ok=True)
    (settings.home / "airflow").chmod(0o700)  # airflow.cfg holds the keys that its tokens are signed with
    environment = airflow_environment(settings, os.environ) | {
        **access,
        "AIRFLOW__API__PORT": str(AIRFLOW_PORT),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{AIRFLOW_PORT}/execution/",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # 0.5 GiB instead of 2.4
    }
    logs = settings.home / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with (logs / "airflow-db.log").open("ab") as log:
        for words in (["-m", "airflow", "db", "migrate"], [str(Path(__file__).with_name("pools.py"))]):
            subprocess.run([sys.executable, *words], env=environment, stdout=log, stderr=log, check=True)
    store = ["--backend-store-uri", settings.tracking_uri, "--default-artifact-root", (settings.home / "mlartifacts").as_uri()]
    allowed = ",".join(f"{host}:{MLFLOW_PORT}" for host in ("127.0.0.1", "localhost"))
    address = ["--host", "127.0.0.1", "--port", str(MLFLOW_PORT), "--allowed-hosts", allowed]
    commands = {
        "mlflow": ["mlflow", "server", *store, *address, "--workers", "1", "--app-name", "basic-auth"],
        "airflow-api-server": ["airflow", "api-server", "--workers", "1"],
        "airflow-scheduler": ["airflow", "scheduler", "--skip-serve-logs"],
        "airflow-dag-processor": ["airflow", "dag-processor"],
        "airflow-triggerer": ["airflow", "triggerer", "--skip-serve-logs"],
    }
    servers: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in names:
            with (logs / f"{name}.log").open("ab") as log:
                servers[name] = subprocess.Popen(
                    [sys.executable, "-m", *commands[name]], env=environment, stdout=log, stderr=log, start_new_session=True
                )
    except BaseException:
        stop(servers)
        raise
    return servers


def stop(servers: dict[str, subprocess.Popen[bytes]]) -> None:
    """Ask every server to stop, and kill with its children what has not after 40 s."""
    for server in servers.values():
        if server.poll() is None:
            server.send_signal(signal.SIGINT)
    deadline = time.monotonic() + 40
    for name, server in servers.items():
        try:
            server.wait(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            print(f"{name} did not stop by itself and was killed")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)  # the group: whatever children it left


def main() -> int:
    addresses = {"Airflow": f"http://127.0.0.1:{AIRFLOW_PORT}", "MLflow": f"http://127.0.0.1:{MLFLOW_PORT}"}
    probes = {"Airflow": addresses["Airflow"] + "/api/v2/version", "MLflow": addresses["MLflow"] + "/health"}
    taken = [address for name, address in addresses.items() if is_up(probes[name])]
    if taken:
        print(
            f"something answers at {', '.join(taken)} already; set RUNCAST_AIRFLOW_PORT or RUNCAST_MLFLOW_PORT", file=sys.stderr
        )
        return 1
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell starts what runs in the background with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    servers: dict[str, subprocess.Popen[bytes]] = {}
    waiting = set(addresses)
    try:
        servers = start()
        while all(server.poll() is None for server in servers.values()):
            for name in sorted(waiting):
                if is_up(probes[name]):
                    waiting.discard(name)
                    print(f"{name}: {addresses[name]}", flush=True)
                    if not waiting:
                        print(f"User {USER}, password in {password_file(read_settings().home)}", flush=True)
                        print(f"Ctrl-C stops both; so does kill {os.getpid()}", flush=True)
            time.sleep(0.5)
        dead = [name for name, server in servers.items() if server.poll() is not None]
        print(f"{', '.join(dead)} stopped by itself; see the logs in {read_settings().home / 'logs'}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopping", flush=True)
        return 0
    finally:
        stop(servers)


if __name__ == "__main__":
    sys.exit(main())
