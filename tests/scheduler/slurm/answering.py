"""A small real HTTP server on a Unix socket that answers as the service does, or misbehaves in a named way."""

import json
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

FORECAST = {
    "p50_s": 90.0,
    "p90_s": 400.5,
    "point_s": 120.0,
    "confidence": 0.75,
    "source": "nearest_median",
    "n_history": 12,
    "model_version": "demo/7",
}

#: What a faulty service may send, byte for byte, by name of the fault.
RUBBISH = {
    "noise": bytes(range(256)) * 64,
    "no_length": b"HTTP/1.1 200 OK\r\n\r\n{}",
    "not_json": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnot JSON!",
    "deep": b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n" + b"[" * 60_000,
    "trailing": b'HTTP/1.1 200 OK\r\nContent-Length: 32\r\n\r\n{"p50_s": 90.0, "p90_s": 400} {}',
    "reversed": b'HTTP/1.1 200 OK\r\nContent-Length: 29\r\n\r\n{"p50_s": 900, "p90_s": 1.50}',
    "huge": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b" " * 100_000,
    "header_without_end": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000,
    "cut": b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"p50_s":',
}


class Answering:
    """The server's switch and memory: `mode` is what the next request meets, `asked` what was sent so far."""

    def __init__(self) -> None:
        self.mode = "good"
        self.modes: Iterator[str] = iter(())  # of the next requests; then `mode`
        self.asked: list[Any] = []
        self.events: list[Any] = []
        self.forecasts: dict[str, dict[str, Any]] = {}
        self.refused_names: set[str] = set()  # of jobs that are refused as the service refuses a wrong field
        self.event_status = 200
        self.forget_s = 3.0  # how long a hang lasts

    def forecast(self, job: dict[str, Any]) -> dict[str, Any]:
        return {**FORECAST, **self.forecasts.get(job.get("job_name") or "", {})}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_POST(self) -> None:
        answering = self.server.answering
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        many = body if isinstance(body, list) else [body]
        if any(one.get("job_name") in answering.refused_names for one in many):
            return self._send(422, {"error": {"message": "job_name: is refused", "field": "job_name"}})
        if self.path == "/v1/events" and answering.event_status != 200:
            return self._send(answering.event_status, {"error": {"message": "not now"}})
        if self.path == "/v1/events":
            answering.events += many
            return self._send(200, {"kept": len(many)})
        answering.asked += many
        mode = next(answering.modes, answering.mode)
        if mode == "good":
            answers = [answering.forecast(job) for job in many]
            self._send(200, answers if isinstance(body, list) else answers[0])
        elif mode == "hang":
            time.sleep(answering.forget_s)
            self.close_connection = True
        elif mode == "trickle":
            self._trickle()
        elif mode == "close":
            self.close_connection = True
        elif mode == "stale":
            self._send(503, {"error": {"message": "the bundle expired at 2026-01-01T00:00:00Z"}})
        elif mode == "refused_field":
            self._send(422, {"error": {"message": "gpu_count: expected 0 to 1e+15 GPUs, found -1", "field": "gpu_count"}})
        else:
            self.wfile.write(RUBBISH[mode])
            self.close_connection = True

    def _send(self, status: int, content: Any) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _trickle(self) -> None:
        """One byte every 5 ms: each read succeeds, the whole takes far too long."""
        text = json.dumps(FORECAST)
        answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()
        for byte in answer:
            self.wfile.write(bytes([byte]))
            time.sleep(0.005)

    def handle(self) -> None:
        try:
            super().handle()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client had given up, as it should

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64
    answering: Answering


@contextmanager
def answering(path: Path) -> Iterator[Answering]:
    """Serve at `path` for as long as the block runs."""
    path.unlink(missing_ok=True)
    with _Server(str(path), _Handler) as server:
        path.chmod(0o666)
        server.answering = Answering()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.answering
        finally:
            server.shutdown()
            thread.join()
            path.unlink(missing_ok=True)


@contextmanager
def nobody_accepts(path: Path) -> Iterator[None]:
    """Listen at `path` with the queue of connections full, as a stopped process leaves it."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.chmod(0o666)
        listening.listen(0)
        waiting = []
        try:
            for _ in range(4):
                one = socket.socket(socket.AF_UNIX)
                one.setblocking(False)
                waiting.append(one)
                if one.connect_ex(str(path)):
                    break
            yield
        finally:
            for one in waiting:
                one.close()
            path.unlink(missing_ok=True)
