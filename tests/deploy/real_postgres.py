"""A real PostgreSQL from Debian's packages, for the tests that need one: a Unix socket in a temporary folder, passwords from files."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PASSWORDS = {"postgres": "of the superuser", "airflow": 'one\'s "own" $word', "mlflow": "another"}  # quotes must do no harm


@dataclass(frozen=True)
class Postgres:
    """A running server: its socket's folder, and a password file for each role, in libpq's form."""

    socket: Path
    secrets: Path

    def url(self, role: str, driver: str = "psycopg") -> str:
        """The address of the database that is called like its owner, as SQLAlchemy takes it; the password stays in its file."""
        return f"postgresql+{driver}://{role}@/{role}?host={self.socket}&passfile={self.secrets / f'{role}_pgpass'}"

    def rows(self, role: str, query: str) -> list[tuple[Any, ...]]:
        passfile = str(self.secrets / f"{role}_pgpass")
        with psycopg.connect(host=str(self.socket), user=role, dbname=role, passfile=passfile) as connection:
            return connection.execute(query).fetchall()  # type: ignore[call-overload, no-any-return]


@contextmanager
def real_postgres() -> Iterator[Postgres]:
    """A server that listens on no port, started as an unprivileged user and stopped by its process id."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parents[1].name))
    if not found:
        pytest.skip("no PostgreSQL here (Debian: apt-get install postgresql)")
    programs, base = found[-1].parent, Path(tempfile.mkdtemp(prefix="runcast-pg-"))
    as_owner: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    data, socket, secrets = base / "data", base / "socket", base / "secrets"
    for folder in (socket, secrets):
        folder.mkdir()
    for role, password in PASSWORDS.items():
        write_private(secrets / f"{role}_pgpass", f"*:*:*:{role}:{password}\n")
    write_private(base / "superuser", PASSWORDS["postgres"] + "\n")
    if as_owner:
        base.chmod(0o755)
        for path in (base, socket, base / "superuser"):
            shutil.chown(path, "postgres", "postgres")

    def run(*words: str | Path, **more: Any) -> None:
        done = subprocess.run(words, check=False, capture_output=True, text=True, **more)
        assert done.returncode == 0, done.stdout + done.stderr

    locale = ("--encoding=UTF8", "--locale=C.UTF-8")
    access = ("--username=postgres", f"--pwfile={base / 'superuser'}", "--auth=scram-sha-256")
    run(programs / "initdb", "--pgdata", data, "--no-sync", *locale, *access, **as_owner)
    options = ("-c", "listen_addresses=", "-c", f"unix_socket_directories={socket}", "-c", "fsync=off")
    with (base / "log").open("wb") as log:
        server = subprocess.Popen([programs / "postgres", "-D", data, *options], stdout=log, stderr=log, **as_owner)
    try:
        ready = [programs / "pg_isready", "--quiet", "--host", socket]
        wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, server, base / "log")
        own = {"PGHOST": str(socket), "PGPASSFILE": str(secrets / "postgres_pgpass"), "POSTGRES_USER": "postgres"}
        run("sh", DEPLOY / "compose" / "databases.sh", env={**os.environ, **own, "RUNCAST_SECRETS": str(secrets)})
        yield Postgres(socket, secrets)
    finally:
        server.send_signal(signal.SIGINT)  # fast: sessions that are left are broken off
        server.wait(timeout=60)
        shutil.rmtree(base)


def write_private(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text)


def wait_until(is_true: Callable[[], bool], server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until a server answers; fails with its log where it has stopped, or does not within two minutes."""
    deadline = time.monotonic() + 120
    while not is_true():
        if server.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"no answer:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.2)
