"""A request's way in and out: bounded bodies, the content's type, no writes from web pages, one form for errors."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from runcast.scheduler.errors import JobFieldError
from runcast.scheduler.jobs import parse

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Headers = Sequence[tuple[bytes, bytes]]

LARGEST_BODY = 1_048_576  # bytes; a thousand jobs with long names fit
MOST_AT_ONCE = 1000  # jobs or events in one request
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
    """The bodies of requests that are not answered yet, bounded all together and for each peer."""

    def __init__(self) -> None:
        self._bytes: Counter[str] = Counter()

    @contextmanager
    def of(self, peer: str) -> "Iterator[Callable[[int], None]]":
        """Yield what adds so many bytes of a request; raises Refusal where there is no room. They are given back at the end."""
        added = 0

        def add(count: int) -> None:
            nonlocal added
            added += count
            self._bytes[peer] += count
            if self._bytes[peer] > MOST_BODIES_OF_PEER or self._bytes.total() > MOST_BODIES:
                raise Refusal(503, "too many requests wait; send this one again later", headers=((b"connection", b"close"),))

        try:
            yield add
        finally:
            self._bytes[peer] -= added
            if not self._bytes[peer]:
                del self._bytes[peer]


async def read_body(headers: Headers, receive: Receive, add: Callable[[int], None]) -> bytes:
    """Return the body; raises Refusal where it is too large or is not finished."""
    length = header(headers, b"content-length")
    if length.isdigit() and (len(length) > 20 or int(length) > LARGEST_BODY):  # of bytes: ASCII digits only
        raise _too_large()
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "the request was not finished")
        part = message.get("body", b"")
        size += len(part)
        if size > LARGEST_BODY:
            raise _too_large()
        add(len(part))
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def check_sender(method: str, headers: Headers, hosts: frozenset[str] | None) -> None:
    """Refuse what a web page made a browser send, and a body that says it is no JSON.

    `hosts` are the names that a loopback port goes by, None where any name is: a name that somebody else's DNS leads here is none.
    """
    if header(headers, b"sec-fetch-site") not in (b"", b"none", b"same-origin"):
        raise Refusal(403, "does not answer other web sites")
    if method == "POST" and header(headers, b"origin"):
        raise Refusal(403, "does not take what a web page sends")
    if hosts is not None and (host := header(headers, b"host").decode("latin-1")) and _name(host) not in hosts:
        raise Refusal(403, f"is not called {host[:60]!r}; use one of {', '.join(sorted(hosts))}")
    kind = header(headers, b"content-type").partition(b";")[0].strip().lower()
    if method == "POST" and kind not in (b"", JSON):
        raise Refusal(415, "takes application/json: curl --json, or -H 'Content-Type: application/json'")


def one_or_many(body: bytes) -> tuple[list[Any], bool]:
    """Return the jobs or events of a request, and whether they were a list."""
    try:
        content = parse(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {error}") from None
    if not isinstance(content, list):
        return [content], False
    if len(content) > MOST_AT_ONCE:
        raise Refusal(413, f"{len(content)} at once, at most {MOST_AT_ONCE} are taken")
    return content, True


def wrong_field(error: JobFieldError, at: int | None) -> Refusal:
    where = "" if at is None else f"[{at}]."
    return Refusal(422, f"{where}{error}", f"{where}{error.field}")


def header(headers: Headers, wanted: bytes) -> bytes:
    """Return the value of the first header of that name (lower case), empty where there is none."""
    for name, value in headers:
        if name == wanted:
            return value
    return b""


def dump(value: Any) -> bytes:
    return _ENCODER.encode(value).encode()


def _too_large() -> Refusal:
    return Refusal(
        413, f"the body may have {LARGEST_BODY} bytes at most; send fewer jobs at once", headers=((b"connection", b"close"),)
    )


def _name(host: str) -> str:
    """Return a Host header's name without its port."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0].lower()
