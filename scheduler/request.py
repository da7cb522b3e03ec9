"""A request's way in and out: bounded bodies, the content's type, no writes from web pages, one form for errors."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runcast.scheduler.errors import JobFieldError
from runcast.scheduler.jobs import parse

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Headers = Mapping[bytes, bytes]  # by name in lower case; of two the last

LARGEST_BODY = 1_048_576  # bytes; a thousand jobs with long names fit
MOST_AT_ONCE = 1000  # jobs or events in one request
MOST_FIELDS = 64  # of a job or event; there are some thirty
MOST_BODIES, MOST_BODIES_OF_PEER = 64 << 20, 16 << 20  # bytes of requests that are not answered yet

JSON, TEXT, HTML = b"application/json", b"text/plain; version=0.0.4; charset=utf-8", b"text/html; charset=utf-8"

_ENCODER = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True)
class Reply:
    """What a request is answered."""

    status: int
    body: bytes
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Refusal(Exception):
    """A request that is answered with an error."""

    def __init__(
        self, status: int, message: str, field: str | None = None, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        super().__init__(message)
        error = {"message": message} if field is None else {"message": message, "field": field}
        self.reply = Reply(status, dump({"error": error}), headers=headers)


class Bodies:
    """The bytes of requests that are not answered yet, bounded all together and for each peer."""

    def __init__(self) -> None:
        self._by_peer: dict[str, int] = {}
        self._all = 0

    def add(self, peer: str, count: int) -> None:
        """Count bytes of a request; raises Refusal where there is no room for more. They are to be given back, too."""
        self._all += count
        of_peer = self._by_peer[peer] = self._by_peer.get(peer, 0) + count
        if of_peer > MOST_BODIES_OF_PEER or self._all > MOST_BODIES:
            raise Refusal(503, "too many requests wait; send this one again later", headers=((b"connection", b"close"),))

    def give_back(self, peer: str, count: int) -> None:
        self._all -= count
        left = self._by_peer.get(peer, 0) - count
        if left:
            self._by_peer[peer] = left
        else:
            self._by_peer.pop(peer, None)


class Body:
    """The body of one request, read in bounds."""

    def __init__(self, bodies: Bodies, peer: str) -> None:
        self._bodies, self._peer, self._size = bodies, peer, 0

    async def read(self, headers: Headers, receive: Receive) -> bytes:
        """Return the body; raises Refusal where it is too large, is not finished, or finds no room."""
        length = headers.get(b"content-length", b"")
        if length.isdigit() and (len(length) > 20 or int(length) > LARGEST_BODY):  # of bytes: ASCII digits only
            raise _too_large()
        parts: list[bytes] = []
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refusal(400, "the request was not finished")
            part = message.get("body", b"")
            self._size += len(part)
            self._bodies.add(self._peer, len(part))
            if self._size > LARGEST_BODY:
                raise _too_large()
            parts.append(part)
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Make room for others."""
        self._bodies.give_back(self._peer, self._size)


def check_sender(method: str, headers: Headers, hosts: frozenset[str] | None) -> None:
    """Refuse what a web page made a browser send, and a body that says it is no JSON.

    `hosts` are the names that a loopback port goes by, None where any name is: a name that somebody else's DNS leads here is none.
    """
    if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
        raise Refusal(403, "does not answer other web sites")
    if hosts is not None and (host := headers.get(b"host", b"").decode("latin-1")) and _name(host) not in hosts:
        raise Refusal(403, f"is not called {host[:60]!r}; use one of {', '.join(sorted(hosts))}")
    if method != "POST":
        return
    if b"origin" in headers:
        raise Refusal(403, "does not take what a web page sends")
    kind = headers.get(b"content-type", JSON)
    if kind != JSON and kind.partition(b";")[0].strip().lower() != JSON:
        raise Refusal(415, "takes application/json: curl --json, or -H 'Content-Type: application/json'")


def one_or_many(body: bytes) -> tuple[list[Any], bool]:
    """Return the jobs or events of a request, and whether they were a list.

    None holds more than MOST_FIELDS values, and no value holds others: a body of empty lists takes twenty times its bytes, and a list
    waits for its turn.
    """
    try:
        content = parse(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {error}") from None
    if not isinstance(content, list):
        return [content], False
    if len(content) > MOST_AT_ONCE:
        raise Refusal(413, f"{len(content)} at once, at most {MOST_AT_ONCE} are taken")
    for at, one in enumerate(content):
        if problem := _too_much_in(one):
            raise wrong_field(problem, at)
    return content, True


def _too_much_in(one: Any) -> JobFieldError | None:
    if isinstance(one, list):
        return JobFieldError("job", "expected an object of fields, found list")
    if not isinstance(one, dict):
        return None
    if len(one) > MOST_FIELDS:
        return JobFieldError("job", f"has {len(one)} fields, at most {MOST_FIELDS} are taken")
    for name, value in one.items():
        if isinstance(value, list | dict):
            return JobFieldError(name[:100], f"expected text or a number, found {type(value).__name__}")
    return None


def wrong_field(error: JobFieldError, at: int | None) -> Refusal:
    where = "" if at is None else f"[{at}]."
    return Refusal(422, f"{where}{error}", f"{where}{error.field}")


def dump(value: Any) -> bytes:
    return _ENCODER.encode(value).encode()


def _too_large() -> Refusal:
    return Refusal(
        413, f"the body may have {LARGEST_BODY} bytes at most; send fewer jobs at once", headers=((b"connection", b"close"),)
    )


def _name(host: str) -> str:
    """Return a Host header's name without its port."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0].lower()
