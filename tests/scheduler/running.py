"""A service in a process of its own, asked over its real socket: for tests, and for the attacks."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket
from typing import Any


def connected(path: Path, uid: int | None = None, timeout_s: float = 20) -> socket:
    """Return a connection to a Unix socket, of another account where root says so: the kernel tells the effective one's uid."""
    connection = socket(AF_UNIX, SOCK_STREAM)
    connection.settimeout(timeout_s)
    try:
        if uid is None:
            connection.connect(str(path))
        else:
            _connect_as(uid, connection, path)
    except OSError:
        connection.close()
        raise
    return connection


def _connect_as(uid: int, connection: socket, path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # which folders lie above is not for that account to see
    path.parent.chmod(0o711)
    os.seteuid(uid)
    try:
        connection.connect(path.name)
    finally:
        os.seteuid(os.getuid())
        os.chdir(before)


class UnixConnection(HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, uid: int | None = None, timeout_s: float = 20) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path, self._uid, self._timeout_s = path, uid, timeout_s

    def connect(self) -> None:
        self.sock = connected(self._path, self._uid, self._timeout_s)


class Running:
    """A service in a process of its own."""

    def __init__(self, folder: Path, *options: str, limit_file_bytes: int | None = None) -> None:
        self.folder, self.socket, self.bundles = folder, folder / "s", folder / "bundles"
        where = () if "--port" in options else ("--socket", str(self.socket))
        command = [sys.executable, "-m", "runcast.scheduler.serve", "--bundle", str(self.bundles), *where, *options]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        limit = (
            None
            if limit_file_bytes is None
            else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit_file_bytes, resource.RLIM_INFINITY))
        )
        self.log = (folder / "log").open("ab")
        self.process = subprocess.Popen(command, env=environment, stderr=self.log, stdout=self.log, preexec_fn=limit)
        deadline = time.monotonic() + 30
        while where and time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError):
                self.get("/healthz")
                return
            time.sleep(0.05)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        uid: int | None = None,
        timeout_s: float = 20,
    ) -> tuple[int, Any]:
        connection = UnixConnection(self.socket, uid, timeout_s)
        try:
            with contextlib.suppress(BrokenPipeError):  # refused before all of the body was sent
                connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            content = reply.read()
            is_json = reply.headers.get("content-type") == "application/json"
            return reply.status, json.loads(content) if is_json and content else content.decode()
        finally:
            connection.close()

    def get(self, path: str) -> tuple[int, Any]:
        return self.request("GET", path)

    def post(self, path: str, content: Any, uid: int | None = None, timeout_s: float = 20) -> tuple[int, Any]:
        return self.request("POST", path, json.dumps(content).encode(), uid=uid, timeout_s=timeout_s)

    def port(self) -> int:
        """Return the port that it listens on, once it does."""
        path = self.folder / "log"
        deadline = time.monotonic() + 30
        while " port " not in path.read_text():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(path.read_text())
            time.sleep(0.05)
        return int(path.read_text().rsplit(" port ", 1)[1].split()[0])

    def resident_mib(self) -> float:
        """Return the memory that the process has in use."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)
        self.log.close()
