"""JSON messages over a stream socket, each with its length before it and, where there is one, a file descriptor beside that."""

import json
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("!Q")


def send(to: socket.socket, message: Any, descriptor: int | None = None) -> None:
    """Send a message; `descriptor` stays open here and arrives as another number."""
    content = json.dumps(message).encode()
    socket.send_fds(to, [_LENGTH.pack(len(content))], [] if descriptor is None else [descriptor])
    to.sendall(content)


def receive(of: socket.socket) -> tuple[bytes, list[int]]:
    """Return the next message's JSON and its descriptors; raises EOFError where the other end is closed."""
    head, descriptors, _, _ = socket.recv_fds(of, _LENGTH.size, 1)
    (length,) = _LENGTH.unpack(head + _exactly(of, _LENGTH.size - len(head)) if head else _exactly(of, _LENGTH.size))
    return _exactly(of, length), descriptors


def _exactly(of: socket.socket, count: int) -> bytes:
    content = bytearray()
    while len(content) < count:
        part = of.recv(min(count - len(content), 2**20))
        if not part:
            raise EOFError
        content += part
    return bytes(content)
