"""Sockets that are listened on: a Unix socket that knows who connects, or a port, with TLS off loopback."""

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import struct
from collections.abc import Callable
from pathlib import Path

from runcast.scheduler.connection import Connection, Connections
from runcast.scheduler.errors import ServeError
from runcast.scheduler.rights import Peer

BACKLOG = 1024
ACCEPTED_AT_ONCE = 16
HANDSHAKE_S = 5.0
PAUSE_S = 0.1  # after the system refused a connection: out of descriptors or memory

Make = Callable[[Peer], Connection]

log = logging.getLogger("runcast.service")


class UnixSocket:
    """A Unix socket that appears with its permissions set; a socket nobody answers on is replaced. Raises ServeError."""

    def __init__(self, path: Path, mode: int) -> None:
        self._path, self._mode = path, mode
        self.listening, self._inode = self._open()

    def renewed(self) -> bool:
        """Listen anew where the socket's file has been removed, and return whether it had; raises where something else is there."""
        try:
            if self._path.stat().st_ino == self._inode:
                return False
            raise Replaced(f"{self._path}: something else has taken the socket's place; this service cannot be reached there")
        except FileNotFoundError:
            before = self.listening
            self.listening, self._inode = self._open()
            before.close()
            return True

    def close(self) -> None:
        self.listening.close()
        with contextlib.suppress(OSError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()

    def peer(self, connection: socket.socket) -> Peer:
        _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        return Peer(uid, f"uid {uid}")

    def _open(self) -> tuple[socket.socket, int]:
        path = self._path
        if path.exists() and not path.is_socket():
            raise ServeError(f"{path}: is there and is no socket; it is left as it is. Name another path.")
        if path.exists() and _answers(path):
            raise ServeError(f"{path}: another service answers there; stop it first")
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            listening.bind(str(beside))
            beside.chmod(self._mode)
            listening.listen(BACKLOG)
            listening.setblocking(False)
            inode = beside.stat().st_ino
            beside.replace(path)
        except OSError as error:
            listening.close()
            with contextlib.suppress(OSError):
                beside.unlink()
            raise ServeError(f"{path}: cannot listen there ({error.strerror or error})") from error
        return listening, inode


class Replaced(ServeError):
    """Another file has taken the socket's place: the process ends, so that whoever watches it starts a new one or sees the clash."""


class Port:
    """A port of an address; raises ServeError where it cannot be had."""

    def __init__(self, host: str, port: int) -> None:
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self.listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except (OSError, OverflowError, UnicodeError) as error:  # the latter two: no port, no host name
            raise ServeError(f"{host}:{port}: cannot listen there ({getattr(error, 'strerror', None) or error})") from error
        self.listening.setblocking(False)
        log.info("listening on %s port %d", *self.listening.getsockname()[:2])

    def renewed(self) -> bool:
        """Return False: nobody can remove a port."""
        return False

    def close(self) -> None:
        self.listening.close()

    def peer(self, connection: socket.socket) -> Peer:
        return Peer(None, str(connection.getpeername()[0]))


class Acceptor:
    """Accepts connections on a socket, within the bounds of `connections`, and hands each to what `make` returns."""

    def __init__(self, where: UnixSocket | Port, connections: Connections, make: Make, tls: ssl.SSLContext | None) -> None:
        self._where, self._connections, self._make, self._tls = where, connections, make, tls
        self._loop = asyncio.get_running_loop()
        self._number = -1
        self._warned_s = float("-inf")
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to accept, or go on after a pause or with the socket that took the place of the one before."""
        self.stop()
        self._number = self._where.listening.fileno()
        self._loop.add_reader(self._number, self._accept)

    def stop(self) -> None:
        if self._number >= 0:
            self._loop.remove_reader(self._number)
        self._number = -1

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                connection, _ = self._where.listening.accept()
                connection.setblocking(False)
                peer = self._where.peer(connection)
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:
                self._warn(f"no connection can be accepted for the moment ({error.strerror or error})")
                self.stop()
                self._loop.call_later(PAUSE_S, self.start)
                return
            if self._connections.has_room(peer):
                self._open(connection, peer)
            else:
                self._warn(f"{peer.name} has too many requests at once; the next ones are refused")
                connection.close()

    def _open(self, connection: socket.socket, peer: Peer) -> None:
        protocol = self._make(peer)
        protocol.opening = self._loop.create_task(self._shake_hands(connection, protocol))
        self._tasks.add(protocol.opening)
        protocol.opening.add_done_callback(self._tasks.discard)

    async def _shake_hands(self, connection: socket.socket, protocol: Connection) -> None:
        timeout_s = None if self._tls is None else HANDSHAKE_S
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, connection, ssl=self._tls, ssl_handshake_timeout=timeout_s)
        except (OSError, asyncio.CancelledError) as error:  # also ssl.SSLError: half a handshake, another protocol, gave way
            log.debug("%s: not connected: %r", protocol.peer.name, error)
            self._connections.discard(protocol)
            connection.close()

    def _warn(self, text: str) -> None:
        """Log, once a minute: whoever causes it must not fill the log as well."""
        if self._loop.time() - self._warned_s >= 60:
            self._warned_s = self._loop.time()
            log.warning("%s", text)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
