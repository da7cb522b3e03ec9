"""Start the service: a Unix socket, or a port of this machine; another address only with a token.

python -m runcast.scheduler.serve --bundle var/bundles/venus --socket /run/runcast/venus.sock
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

from runcast.data.errors import RuncastError
from runcast.scheduler.errors import ServeError
from runcast.scheduler.journal import Journal
from runcast.scheduler.service import Service

LOOPBACK = ("127.0.0.1", "::1", "localhost")
MOST_CONNECTIONS = 512  # a scheduler needs a handful; beyond it, requests are answered 503 instead of piling up
SHORTEST_TOKEN = 16  # characters
SWITCH_EVERY_S = 0.0005  # a bundle being loaded in its thread gives way to a request this soon


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    options = parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        serve(
            options.bundle, socket_path=options.socket, socket_mode=options.socket_mode, port=options.port,
            host=options.host, token_file=options.token_file, journal=options.journal,
        )  # fmt: skip
    except RuncastError as error:
        sys.stderr.write(f"runcast serve: {error}\n")
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the options of the command line."""
    found = argparse.ArgumentParser(prog="runcast serve", description="Answer a scheduler's questions from a bundle.")
    found.add_argument(
        "--bundle", type=Path, required=True, help="the cluster's bundles (the folder with `current`), or one bundle"
    )
    where = found.add_mutually_exclusive_group(required=True)
    where.add_argument("--socket", type=Path, help="Unix socket to answer on")
    where.add_argument("--port", type=int, help="port of the loopback address to answer on")
    found.add_argument(
        "--socket-mode", type=lambda text: int(text, 8), default=0o660, help="permissions of the socket (default: 660)"
    )
    found.add_argument("--host", default="127.0.0.1", help="with --port: another address than loopback needs --token-file")
    found.add_argument("--token-file", type=Path, help="requests must carry the token in this file")
    found.add_argument("--journal", type=Path, help="where events are kept (default: events.journal beside the bundles)")
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
) -> None:
    """Serve `bundles` until stopped; raises ServeError where it cannot begin, JournalError where another service runs."""
    if socket_path is None and host not in LOOPBACK and token_file is None:
        raise ServeError(f"--host {host} is not this machine's loopback: give --token-file, or use --socket")
    token = None if token_file is None else read_token(token_file)
    sys.setswitchinterval(SWITCH_EVERY_S)
    events = Journal(journal or bundles / "events.journal")
    listening = _listen_unix(socket_path, socket_mode) if socket_path is not None else _listen(host, port or 0)
    try:
        with listening as opened, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(Service(bundles, events, token=token), opened))
    finally:
        events.close()


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
        service, http="httptools", ws="none", lifespan="on", access_log=False, log_config=None,
        server_header=False, date_header=False, limit_concurrency=MOST_CONNECTIONS, timeout_graceful_shutdown=10,
    )  # fmt: skip
    for stop in (
        signal.SIGTERM,
        signal.SIGINT,
    ):  # uvicorn stops at them, then raises them again: there is still a socket to remove
        signal.signal(stop, lambda number, frame: None)
    await uvicorn.Server(config).serve(sockets=[listening])


@contextlib.contextmanager
def _listen_unix(path: Path, mode: int) -> Iterator[socket.socket]:
    """Listen on a Unix socket that appears with its permissions set; a socket nobody answers on is replaced."""
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
    except OSError as error:
        raise ServeError(f"{host}:{port}: cannot listen there ({error.strerror or error})") from error
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
