"""Start the service: a Unix socket, or a port of this machine; another address only with a token.

runcast serve --bundle var/bundles/venus --socket /run/runcast/venus.sock
"""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from runcast.data.errors import RuncastError
from runcast.data.pseudonyms import read_key
from runcast.outcome import report
from runcast.scheduler.bundle import MANIFEST
from runcast.scheduler.errors import ServeError
from runcast.scheduler.journal import Journal
from runcast.scheduler.options import Parser, seconds, whole
from runcast.scheduler.served import DAYS_KEPT, ServedLog
from runcast.scheduler.service import FLUSH_EVERY_S, Service

LOOPBACK = ("127.0.0.1", "::1", "localhost")
MOST_CONNECTIONS = 512  # a scheduler needs a handful; beyond it, requests are answered 503 instead of piling up
SLOWEST_S = 15.0  # a connection without a whole answer for so long is closed; idle ones are closed sooner, by uvicorn
SHORTEST_TOKEN = 16  # characters
SERVED = "served"  # the folder, beside the journal, of what was told to jobs
MOST_DAYS, MOST_SECONDS = 3650, 60.0
SWITCH_EVERY_S = 0.0005  # a bundle being loaded in its thread gives way to a request this soon


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    options = parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        serve(
            options.bundle, socket_path=options.socket, socket_mode=options.socket_mode, port=options.port,
            host=options.host, token_file=options.token_file, journal=options.journal, flush_every_s=options.flush_every,
            served_days=options.served_days,
            pseudonym_key=options.pseudonym_key,
        )  # fmt: skip
    except RuncastError as error:
        sys.stderr.write(f"runcast serve: {error}\n")
        return report(error)
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the options of the command line."""
    found = Parser(prog="runcast serve", description="Answer a scheduler's questions from a bundle.")
    found.add_argument(
        "--bundle", type=Path, required=True, help="the cluster's bundles (the folder with `current`), or one bundle"
    )
    where = found.add_mutually_exclusive_group(required=True)
    where.add_argument("--socket", type=Path, help="Unix socket to answer on")
    where.add_argument("--port", type=int, help="port of the loopback address to answer on")
    found.add_argument(
        "--socket-mode",
        type=whole(0, 0o777, base=8),
        default=0o660,
        metavar="MODE",
        help="permissions of the socket (default: 660)",
    )
    found.add_argument("--host", default="127.0.0.1", help="with --port: another address than loopback needs --token-file")
    found.add_argument("--token-file", type=Path, help="requests must carry the token in this file")
    found.add_argument("--journal", type=Path, help="where events are kept (default: events.journal beside the bundles)")
    found.add_argument(
        "--flush-every", type=seconds(0, MOST_SECONDS), default=FLUSH_EVERY_S, metavar="S",
        help="flush events to disk every S seconds; 0: before each is acknowledged (default: %(default)g)",
    )  # fmt: skip
    found.add_argument(
        "--served-days", type=whole(0, MOST_DAYS), default=DAYS_KEPT, metavar="N",
        help="days of forecasts told to jobs kept in `served`, beside the journal; 0: none (default: %(default)s)",
    )  # fmt: skip
    found.add_argument("--pseudonym-key", type=Path, help="key file of a cluster whose names are replaced (`pseudonymise`)")
    return found


def serve(
    bundles: Path,
    *,
    socket_path: Path | None = None,
    socket_mode: int = 0o660,
    port: int | None = None,
    host: str = "127.0.0.1",
    token_file: Path | None = None,
    journal: Path | None = None,
    flush_every_s: float = FLUSH_EVERY_S,
    served_days: int = DAYS_KEPT,
    pseudonym_key: Path | None = None,
) -> None:
    """Serve `bundles` until stopped; raises ServeError where it cannot begin, JournalError where another service runs."""
    if socket_path is None and host not in LOOPBACK and token_file is None:
        raise ServeError(f"--host {host} is not this machine's loopback: give --token-file, or use --socket")
    if not bundles.is_dir():
        raise ServeError(
            f"--bundle {bundles}: no such folder. Name the cluster's bundles; before its first night, make the folder."
        )
    token = None if token_file is None else read_token(token_file)
    if pseudonym_key is not None:
        read_key(pseudonym_key)  # said now, not at the first bundle
    sys.setswitchinterval(SWITCH_EVERY_S)
    events = Journal(_journal_path(bundles, journal))
    listening = _listen_unix(socket_path, socket_mode) if socket_path is not None else _listen(host, port or 0)
    try:
        with listening as opened, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            served = ServedLog(events.path.parent / SERVED, served_days)
            service = Service(bundles, events, served, token=token, pseudonym_key=pseudonym_key, flush_every_s=flush_every_s)
            runner.run(_run(service, opened))
    finally:
        events.close()


def _journal_path(bundles: Path, journal: Path | None) -> Path:
    """Return where events are kept: as asked, else beside the bundles; never in a bundle, which a stray file makes damaged."""
    if journal is None:
        inside = (bundles / MANIFEST).exists()
        return (bundles.resolve().parent if inside else bundles) / "events.journal"
    inside_of = next((folder for folder in journal.resolve().parents if (folder / MANIFEST).exists()), None)
    if inside_of is not None:
        raise ServeError(f"--journal {journal}: lies in the bundle {inside_of}, which must not be changed; put it beside")
    return journal


def read_token(path: Path) -> str:
    """Return the token in a file that only its owner may read."""
    try:
        mode, token = path.stat().st_mode, path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise ServeError(f"{path}: the token cannot be read ({error})") from error
    if mode & 0o077:
        raise ServeError(f"{path}: others may read or write it (mode {mode & 0o777:o}); chmod 600 {path}")
    if len(token) < SHORTEST_TOKEN:
        raise ServeError(f"{path}: the token has {len(token)} characters, at least {SHORTEST_TOKEN} are asked for")
    return token


async def _run(service: Service, listening: socket.socket) -> None:
    config = uvicorn.Config(
        service, http=Bounded, ws="none", lifespan="on", access_log=False, log_config=None,
        server_header=False, date_header=False, limit_concurrency=MOST_CONNECTIONS, timeout_graceful_shutdown=10,
    )  # fmt: skip
    for stop in (
        signal.SIGTERM,
        signal.SIGINT,
    ):  # uvicorn stops at them, then raises them again: there is still a socket to remove
        signal.signal(stop, lambda number, frame: None)
    await uvicorn.Server(config).serve(sockets=[listening])


class Bounded(HttpToolsProtocol):
    """A connection that is closed where nothing whole comes of it in time: half a request, or an answer nobody reads.

    Without it, connections that say nothing would fill MOST_CONNECTIONS, and all others were refused for good.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._latest_s = self.loop.time()
        self._watch = self.loop.call_later(SLOWEST_S, self._look_at_time)

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._latest_s = self.loop.time()
        super().on_response_complete()

    def _look_at_time(self) -> None:
        left_s = self._latest_s + SLOWEST_S - self.loop.time()
        if left_s > 0:
            self._watch = self.loop.call_later(left_s, self._look_at_time)
        else:
            self.transport.abort()


@contextlib.contextmanager
def _listen_unix(path: Path, mode: int) -> Iterator[socket.socket]:
    """Listen on a Unix socket that appears with its permissions set; a socket nobody answers on is replaced."""
    if path.exists() and not path.is_socket():
        raise ServeError(f"{path}: is there and is no socket; it is left as it is. Name another path.")
    if path.exists() and _answers(path):
        raise ServeError(f"{path}: another service answers there; stop it first")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        listening.bind(str(beside))
        beside.chmod(mode)
        listening.listen(1024)
        beside.replace(path)
    except OSError as error:
        listening.close()
        with contextlib.suppress(OSError):
            beside.unlink()
        raise ServeError(f"{path}: cannot listen there ({error.strerror or error})") from error
    inode = path.stat().st_ino
    try:
        yield listening
    finally:
        listening.close()
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ino == inode:
                path.unlink()


@contextlib.contextmanager
def _listen(host: str, port: int) -> Iterator[socket.socket]:
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=1024)
    except (OSError, OverflowError, UnicodeError) as error:  # the latter two: no port, no host name
        raise ServeError(f"{host}:{port}: cannot listen there ({getattr(error, 'strerror', None) or error})") from error
    logging.getLogger("runcast.service").info("listening on %s port %d", *listening.getsockname()[:2])
    with listening:
        yield listening


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


if __name__ == "__main__":
    sys.exit(main())
