"""A mutating admission webhook: writes the forecast into the annotations of a new pod or job, and always lets it pass.

    runcast kubernetes-webhook --socket /run/runcast/predict.sock --cert tls.crt --key tls.key

Annotations are what schedulers and queues of Kubernetes may read without harm: a time limit (`activeDeadlineSeconds`, Kueue's
max-exec-time label) ends the workload and is never touched. No forecast in time, or none at all: allowed, with the reason in the
audit annotation. With `--client-ca` only the API server is answered. What a client can hold is bounded in bytes, connections and
seconds before anything of it is parsed. How to install and to take out: docs/kubernetes.md.
"""

import argparse
import http.client
import json
import logging
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from runcast.outcome import report
from runcast.scheduler.client import Client
from runcast.scheduler.errors import ServeError
from runcast.scheduler.kubernetes.admission import Ask, ReviewError, answer
from runcast.scheduler.options import Parser, seconds, whole

LARGEST_REVIEW_BYTES = 4 << 20  # etcd's objects end at 1.5 MiB; a review holds the object once on CREATE, twice on UPDATE
BODIES_AT_ONCE_BYTES = 16 << 20  # of all connections, finished or not
VALUE_BYTES = 200  # that one value of JSON takes at most, once it is parsed
PARSED_AT_ONCE_BYTES = 64 << 20  # of all reviews that are not answered yet; one of the API server's takes some 100 KiB
CHUNK_BYTES = 64 << 10
LARGEST_HEAD_BYTES = 16 << 10  # of one request's line and headers; the API server's have some hundred
REQUEST_S = 5.0  # from the first byte awaited to the last answered; the API server gives up after one
MOST_CONNECTIONS = 128
MOST_OF_ONE_PEER = 32

_log = logging.getLogger("runcast.kubernetes")


class BusyError(Exception):
    """The bodies that are being received, or the reviews that are being answered, fill what is set aside for them."""


@dataclass(frozen=True)
class Tls:
    """Certificate and key of the webhook; with `client_ca`, reviews are taken only from holders of its certificates.

    `client_names`: common names that such a certificate must have one of; any where there is none.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None
    client_names: frozenset[str] = frozenset()

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL  # the kubelet's readiness probe has none; a review without one is refused
        return context

    def written(self) -> tuple[float, ...]:
        return tuple(path.stat().st_mtime for path in (self.certificate, self.key, self.client_ca) if path is not None)


class Webhook(ThreadingHTTPServer):
    """The HTTP server; with `tls` it reads certificates anew when they are replaced, as cert-manager does."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], ask: Ask, tls: Tls | None, clock: Callable[[], float]) -> None:
        super().__init__(address, _Handler)
        self.ask, self.clock, self.tls = ask, clock, tls
        self.parsing = threading.Lock()  # one body at a time
        self._lock = threading.Lock()
        self._open: dict[socket.socket, tuple[str, float]] = {}  # peer, and the monotonic second at which it is cut off
        self._bodies_bytes = self._parsed_bytes = 0
        self._written = tls.written() if tls else ()
        self._context = tls.context() if tls else None

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        connection.settimeout(REQUEST_S)
        if self._context is None:
            return connection, address
        self._take_up_certificates()
        # The handshake is left to the connection's own thread, so that a silent client holds up nobody else.
        return self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def process_request(self, request: Any, client_address: Any) -> None:
        peer = str(client_address[0])
        with self._lock:
            of_peer = sum(other == peer for other, _ in self._open.values())
            if is_taken := len(self._open) < MOST_CONNECTIONS and of_peer < MOST_OF_ONE_PEER:
                self._open[request] = (peer, time.monotonic() + REQUEST_S)
        if is_taken:
            super().process_request(request, client_address)
        else:
            _log.info("connection from %s refused: %d open, %d of this peer", peer, len(self._open), of_peer)
            self.close_request(request)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Cut off connections whose request took too long, at every turn of the accepting loop."""
        now = time.monotonic()
        with self._lock:
            late = [connection for connection, (_, until) in self._open.items() if until < now]
            for connection in late:
                self._open[connection] = (self._open[connection][0], float("inf"))
        for connection in late:
            try:
                socket.socket.shutdown(connection, socket.SHUT_RDWR)  # below TLS: its thread may be inside
            except OSError as error:
                _log.debug("already closed: %s", error)

    def begin(self, connection: socket.socket) -> None:
        """Start the time of a connection's next request."""
        with self._lock:
            if connection in self._open:
                self._open[connection] = (self._open[connection][0], time.monotonic() + REQUEST_S)

    @contextmanager
    def body(self, file: BufferedIOBase, length: int) -> Iterator[bytes]:
        """Read a body of `length` bytes and count it while the block runs; raises BusyError, or ConnectionError where it ends early."""
        taken, parts = 0, []
        try:
            while taken < length:
                size = min(CHUNK_BYTES, length - taken)
                self._count(size)
                taken += size
                part = file.read(size)
                if len(part) < size:
                    raise ConnectionError(f"the body ended after {taken - size + len(part)} of {length} bytes")
                parts.append(part)
            yield b"".join(parts)
        finally:
            self._count(-taken)

    @contextmanager
    def parsed(self, body: bytes) -> Iterator[Any]:
        """Yield what a body says in JSON, counted while the block runs by what it may take; raises BusyError, ValueError."""
        size = len(body) + VALUE_BYTES * (1 + sum(body.count(begin) for begin in (b",", b":", b"[", b"{")))
        with self._lock:
            if self._parsed_bytes + size > PARSED_AT_ONCE_BYTES:
                raise BusyError
            self._parsed_bytes += size
        try:
            with self.parsing:
                review = json.loads(body)
            yield review
        finally:
            review = None
            with self._lock:
                self._parsed_bytes -= size

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.info("connection from %s ended: %r", client_address, sys.exc_info()[1])

    def _count(self, size: int) -> None:
        with self._lock:
            if size > 0 and self._bodies_bytes + size > BODIES_AT_ONCE_BYTES:
                raise BusyError
            self._bodies_bytes += size

    def _take_up_certificates(self) -> None:
        if self.tls is None:
            return
        try:
            if (written := self.tls.written()) != self._written:
                self._context, self._written = self.tls.context(), written
        except OSError:  # ssl.SSLError is one: half replaced; what is loaded goes on
            _log.warning("%s: cannot be read anew; the certificate before stays", self.tls.certificate)


class _Head:
    """The lines before a body, at most LARGEST_HEAD_BYTES of them."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file, self._left = file, LARGEST_HEAD_BYTES

    def readline(self, size: int = -1) -> bytes:
        line = self._file.readline(self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            raise http.client.LineTooLong("head")
        return line


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Webhook

    def handle_one_request(self) -> None:
        self.server.begin(self.connection)
        self._body_file = self.rfile
        self.rfile = _Head(self.rfile)  # type: ignore[assignment]
        try:
            super().handle_one_request()
        finally:
            self.rfile = self._body_file

    def do_GET(self) -> None:
        self._send(200, {"status": "ok"}) if self.path == "/healthz" else self._send(404, {"error": "no such path"})

    def do_POST(self) -> None:
        self.close_connection = True  # unless the body was read to its end
        if not self._is_api_server():
            return self._send(403, {"error": "a review needs the API server's client certificate"})
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):  # `²` is a digit, and no number
            return self._send(400, {"error": "expected a Content-Length in digits"})
        if len(length) > 15 or int(length) > LARGEST_REVIEW_BYTES:
            return self._send(413, {"error": f"expected a Content-Length up to {LARGEST_REVIEW_BYTES}"})
        try:
            with self.server.body(self._body_file, int(length)) as body, self.server.parsed(body) as review:
                content = answer(review, self.server.ask, self.server.clock())
        except BusyError:
            return self._send(503, {"error": "too much at once"})
        except (ValueError, RecursionError, ReviewError) as error:
            return self._send(400, {"error": str(error)[:200]})
        self.close_connection = self.headers.get("Connection", "").lower() == "close"
        self._send(200, content)

    def _is_api_server(self) -> bool:
        tls = self.server.tls
        if tls is None or tls.client_ca is None:
            return True
        certificate = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
        subject = (certificate or {}).get("subject", ())
        names = {value for part in subject for name, value in part if name == "commonName"}  # type: ignore[str-unpack]
        return bool(names & tls.client_names if tls.client_names else subject)

    def _send(self, status: int, content: Any) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        _log.debug(format, *args)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog="runcast kubernetes-webhook", description="Annotates new pods and jobs with a forecast.")
    parser.add_argument("--socket", type=Path, default=Path("/run/runcast/predict.sock"), help="of `runcast serve`")
    parser.add_argument("--address", default="127.0.0.1", help="to listen on; another than loopback needs --cert (%(default)s)")
    parser.add_argument("--port", type=whole(0, 65_535), default=8443, help="(%(default)s)")
    parser.add_argument("--cert", type=Path, help="certificate, PEM; the API server speaks only TLS")
    parser.add_argument("--key", type=Path, help="its key, PEM")
    parser.add_argument("--client-ca", type=Path, metavar="FILE", help="CA, PEM, of the certificate that the API server shows")
    parser.add_argument(
        "--client-name", action="append", default=[], metavar="CN", help="which that certificate must have (several)"
    )
    parser.add_argument("--timeout", type=seconds(), default=0.2, metavar="S", help="for the service's answer (%(default)s)")
    arguments = parser.parse_args(argv)
    if (arguments.cert is None) != (arguments.key is None):
        parser.error("--cert and --key go together")
    if arguments.cert is None and arguments.address not in ("127.0.0.1", "::1", "localhost"):
        parser.error("without --cert and --key it listens on loopback only")
    if arguments.client_ca is not None and arguments.cert is None:
        parser.error("--client-ca needs --cert and --key")
    if arguments.client_name and arguments.client_ca is None:
        parser.error("--client-name needs --client-ca")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until stopped."""
    arguments = _arguments(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    client = Client(arguments.socket, arguments.timeout)
    tls = None
    if arguments.cert:
        tls = Tls(arguments.cert, arguments.key, arguments.client_ca, frozenset(arguments.client_name))
        if arguments.client_ca is None:
            _log.warning("without --client-ca whoever reaches port %d may ask: let only the API server reach it", arguments.port)
    try:
        server = Webhook((arguments.address, arguments.port), client.predict, tls, time.time)
    except OSError as error:
        refused = ServeError(f"{arguments.address} port {arguments.port}: cannot serve ({error})")
        _log.error("%s", refused)
        return report(refused)
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
