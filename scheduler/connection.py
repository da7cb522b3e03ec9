"""One connection, bounded before anybody is asked who they are: bytes and number of headers, body, time, and how many there are.

uvicorn's parser bounds none of these: it keeps every header of a request without end. Where there are too many connections, the one
that has been idle for longest gives way, of whoever has most; so connections that say nothing keep nobody out.
"""

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from runcast.scheduler.request import LARGEST_BODY
from runcast.scheduler.rights import Peer
from runcast.scheduler.service import PEER

SLOWEST_S = 15.0  # a connection without a whole answer for so long is closed; idle ones are closed sooner, by uvicorn
MOST_CONNECTIONS = 512  # a scheduler needs a handful
MOST_OF_PEER = 64
MOST_HEADERS, MOST_HEAD = 64, 16_384  # headers, and bytes of them and the URL; Runcast's own clients send 4 headers in 150 bytes
MOST_RAW = 2 * LARGEST_BODY  # bytes of one request
MOST_BESIDE = 65_536  # of those that are no body: head, lengths of chunks, trailers; the parser keeps an unfinished trailer
MOST_PIPELINED = 16  # requests sent before earlier ones of the connection were answered; no client of Runcast's sends any
PIECE = 8_192  # bytes given to the parser at once; between two pieces the bounds are looked at

TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class TooLarge(Exception):
    """A request's head, or the number of those that wait, is beyond its bound: the parser stops, and send_400_response answers."""


class Connections:
    """All connections by peer, those that were idle for longest first."""

    def __init__(self, at_most: int = MOST_CONNECTIONS, of_peer: int = MOST_OF_PEER) -> None:
        self._at_most, self._of_peer = at_most, of_peer
        self._count = 0
        self._by_peer: dict[str, dict[Connection, None]] = {}

    def __len__(self) -> int:
        return self._count

    def has_room(self, peer: Peer) -> bool:
        """Return whether another connection of a peer may be opened; makes room for it, where an idle one can go."""
        own = self._by_peer.get(peer.name, {})
        if len(own) >= self._of_peer:
            return self._close_idle(own)
        if self._count >= self._at_most:
            return self._close_idle(max(self._by_peer.values(), key=len))
        return True

    def add(self, connection: "Connection") -> None:
        self._by_peer.setdefault(connection.peer.name, {})[connection] = None
        self._count += 1

    def discard(self, connection: "Connection") -> None:
        own = self._by_peer.get(connection.peer.name, {})
        if connection not in own:
            return
        del own[connection]
        self._count -= 1
        if not own:
            del self._by_peer[connection.peer.name]

    def touch(self, connection: "Connection") -> None:
        """Take a connection that has just been answered for the one that was idle for shortest."""
        own = self._by_peer.get(connection.peer.name, {})
        if connection in own:
            del own[connection]
            own[connection] = None

    def _close_idle(self, own: "dict[Connection, None]") -> bool:
        idle = next((one for one in own if one.is_idle()), None)
        if idle is None:
            return False
        self.discard(idle)
        idle.give_way()
        return True


class Connection(HttpToolsProtocol):
    """A connection that is closed where nothing whole comes of it in time: half a request, or an answer nobody reads."""

    def __init__(
        self, config: uvicorn.Config, state: ServerState, loop: asyncio.AbstractEventLoop, peer: Peer, connections: Connections
    ) -> None:
        super().__init__(config, state, {}, loop)
        self.peer = peer
        self.opening: asyncio.Task[Any] | None = None  # until TLS has shaken hands
        self._all = connections
        self._watch: asyncio.TimerHandle | None = None
        self._latest_s = 0.0
        self._begin()
        connections.add(self)

    def is_idle(self) -> bool:
        """Whether no whole request of it is being answered."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def give_way(self) -> None:
        """Close it at once."""
        if self._watch is not None:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._latest_s = self.loop.time()
        self._watch = self.loop.call_later(SLOWEST_S, self._look_at_time)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._all.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        for at in range(0, len(data), PIECE):
            piece = data[at : at + PIECE] if len(data) > PIECE else data
            self._raw += len(piece)
            super().data_received(piece)
            if self._is_in_head:
                self._unfinished += len(piece)
            if self._unfinished > MOST_HEAD or self._is_too_long() or self._has_too_many_headers():
                self._refuse()
            if self.transport.is_closing():
                return

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser refuses; what one of our bounds refuses is said to be too large."""
        if self._has_too_many_headers() or self._has_too_many_waiting():
            self._refuse()
        else:
            super().send_400_response(msg)

    def on_message_begin(self) -> None:
        if self._has_too_many_waiting():
            raise TooLarge
        super().on_message_begin()
        self.scope[PEER] = self.peer  # type: ignore[literal-required]
        self._begin()

    def on_headers_complete(self) -> None:
        if self._has_too_many_headers():
            raise TooLarge
        self._is_in_head, self._unfinished = False, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def on_response_complete(self) -> None:
        self._latest_s = self.loop.time()
        self._all.touch(self)
        super().on_response_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Answer as if there were no Upgrade, then close: the parser reads nothing after it."""
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def _begin(self) -> None:
        self._unfinished = self._raw = self._body = 0  # bytes: of a head without an end so far, of a request, of its body
        self._is_in_head = True

    def _has_too_many_headers(self) -> bool:
        """Whether there are too many; trailers count among them."""
        return self.headers is not None and len(self.headers) > MOST_HEADERS

    def _has_too_many_waiting(self) -> bool:
        return len(self.pipeline) >= MOST_PIPELINED

    def _is_too_long(self) -> bool:
        return self._raw > MOST_RAW or self._raw - self._body > MOST_BESIDE

    def _refuse(self) -> None:
        if not self.transport.is_closing():
            if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
                self.transport.write(TOO_LARGE)
            self.transport.close()

    def _look_at_time(self) -> None:
        left_s = self._latest_s + SLOWEST_S - self.loop.time()
        if left_s > 0:
            self._watch = self.loop.call_later(left_s, self._look_at_time)
        else:
            self.transport.abort()
