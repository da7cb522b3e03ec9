"""Events kept before they are acknowledged: the service's memory between two bundles.

What is written outlives the process, kill -9 included; what is flushed outlives the machine too.

One event a line: the CRC-32 of the text in eight hex digits, a space, the event as JSON. A line is written whole or, where the
process died or the disk was full in the middle of it, cut off at the end of the file; such an end was never acknowledged and is
dropped when the journal is opened.
"""

import contextlib
import fcntl
import json
import os
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from runcast.scheduler.errors import JournalError

Event = dict[str, Any]

_READ_AT_ONCE = 1 << 20  # bytes


class Snapshot:
    """The events of a journal at one moment, oldest first; read from the file each time they are gone through, then closed."""

    def __init__(self, file: int, size: int) -> None:
        self._file, self._size = file, size

    def __iter__(self) -> Iterator[Event]:
        """Yield the events; a line that holds none is left out."""
        for line in _lines(self._file, self._size):
            if (event := _event_of(line)) is not None:
                yield event

    def close(self) -> None:
        os.close(self._file)


class Journal:
    """An open journal; one process writes it. Raises JournalError where another has it open or the disk refuses.

    Safe for several threads: a write whose caller has gone away goes on in its thread, and the next one waits for it. After a refusal
    it works again as soon as the disk does. `damaged_lines` and `cut_off_bytes` say what was lost when it was opened.
    """

    def __init__(self, path: Path) -> None:
        """Open or make the journal and drop a cut-off end."""
        self.path = path
        self._writing = threading.Lock()
        self._swapping = threading.Lock()  # for the moment in which another file takes the open one's place
        self._unflushed = False
        self._has_tail = False  # whether something unfinished may stand behind the last whole line
        self._lost_a_flush = False  # a page that the disk refused counts as clean afterwards: only a new file is sure
        try:
            self._lock = _lock(path)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
            size = os.fstat(self._file).st_size
            self.count = self.damaged_lines = self._size = 0
            for line in _lines(self._file, size):
                self._size += len(line) + 1
                is_event = _event_of(line) is not None
                self.count, self.damaged_lines = self.count + is_event, self.damaged_lines + (not is_event)
            self.cut_off_bytes = size - self._size
            self._cut_back()
            _flush_folder(path.parent)
        except OSError as error:
            raise JournalError(
                f"{path}: the journal cannot be opened ({error.strerror}). Name a file that may be written with --journal."
            ) from error

    @property
    def size_bytes(self) -> int:
        return self._size

    def read(self) -> list[Event]:
        """Return all events, oldest first; also where somebody has removed the file meanwhile."""
        with contextlib.closing(self.snapshot()) as events:
            return list(events)

    def snapshot(self) -> Snapshot:
        """Return the events of this moment, without reading them so far; a journal of a busy day is larger than the memory for it."""
        with self._writing:
            try:
                return Snapshot(os.dup(self._file), self._size)
            except OSError as error:
                raise JournalError(f"{self.path}: cannot be read ({error.strerror}).") from error

    def append(self, events: Sequence[Event], is_flushed: bool = True) -> None:
        """Write the events, and flush them together; after a JournalError none of them is in the journal."""
        data = b"".join(map(_line, events))
        with self._writing:
            try:
                if os.fstat(self._file).st_nlink == 0:  # somebody removed it: what it held goes back on disk first
                    self._replace(_parts(self._file, self._size))
                if self._has_tail:
                    self._cut_back()
                self._has_tail = True
                _write(self._file, data, self._size)
                if is_flushed:
                    self._flush_now()
            except OSError as error:
                with contextlib.suppress(OSError):  # else before the next events
                    self._cut_back()
                raise JournalError(
                    f"{self.path}: events could not be kept ({error.strerror}). Make room, or move the journal."
                ) from error
            self._has_tail = False
            self._unflushed |= not is_flushed
            self._size += len(data)
            self.count += len(events)

    def flush(self) -> None:
        """Flush what was appended without it; another thread may append meanwhile. What a disk refused is written anew."""
        if not self._unflushed and not self._lost_a_flush:
            return
        try:
            if self._lost_a_flush:
                with self._writing:
                    self._unflushed = False
                    self._replace(_parts(self._file, self._size))
            else:
                with self._swapping:
                    self._unflushed = False
                    self._flush_now()
        except OSError as error:
            self._unflushed = True
            raise JournalError(
                f"{self.path}: what was written may not be on disk ({error.strerror}). Look after the disk, or move the journal."
            ) from error

    def keep(self, is_wanted: Callable[[Event], bool]) -> int:
        """Drop the events that are not wanted any more, in one step; return how many were dropped."""
        with self._writing:
            try:
                wanted = sum(map(is_wanted, Snapshot(self._file, self._size)))
                dropped = self.count - wanted
                if dropped:
                    self._replace(line + b"\n" for line in _lines(self._file, self._size) if _is_wanted(line, is_wanted))
                    self.count = wanted
            except OSError as error:
                raise JournalError(f"{self.path}: could not be shortened ({error.strerror}). It is kept as it was.") from error
            return dropped

    def close(self, timeout_s: float = 5.0) -> None:
        """Close the files; where a disk still holds up a write they stay open: another file could get their numbers."""
        if self._writing.acquire(timeout=timeout_s):
            os.close(self._file)
            os.close(self._lock)

    def _replace(self, parts: Iterable[bytes]) -> None:
        """Put a file that holds `parts` in the journal's place, in one step."""
        beside = self.path.with_name(f".{self.path.name}.writing")
        file = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o640)
        size = 0
        try:
            for part in parts:
                _write(file, part, size)
                size += len(part)
            os.fsync(file)
            beside.replace(self.path)
        except OSError:
            os.close(file)
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
        with self._swapping:
            os.close(self._file)
            self._file, self._size, self._has_tail, self._lost_a_flush = file, size, False, False
        _flush_folder(self.path.parent)

    def _flush_now(self) -> None:
        try:
            os.fdatasync(self._file)
        except OSError:
            self._lost_a_flush = True
            raise

    def _cut_back(self) -> None:
        os.ftruncate(self._file, self._size)
        self._has_tail = False


def _write(file: int, data: bytes, offset: int) -> None:
    written = 0
    while written < len(data):
        written += os.pwrite(file, data[written:], offset + written)


def _line(event: Event) -> bytes:
    text = json.dumps(event, separators=(",", ":"), sort_keys=True).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _parts(file: int, size: int) -> Iterator[bytes]:
    """Yield the first `size` bytes of an open file, whatever has become of its name."""
    offset = 0
    while offset < size and (part := os.pread(file, min(_READ_AT_ONCE, size - offset), offset)):
        offset += len(part)
        yield part


def _lines(file: int, size: int) -> Iterator[bytes]:
    """Yield the whole lines among them, without their ends."""
    rest = b""
    for part in _parts(file, size):
        *lines, rest = (rest + part).split(b"\n")
        yield from lines


def _is_wanted(line: bytes, is_wanted: Callable[[Event], bool]) -> bool:
    event = _event_of(line)
    return event is not None and is_wanted(event)


def _event_of(line: bytes) -> Event | None:
    crc, _, text = line.partition(b" ")
    return _parsed(text) if crc == b"%08x" % zlib.crc32(text) else None


def _parsed(text: bytes) -> Event | None:
    """Return the event that a line with a right checksum holds, None where another program wrote something else."""
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


def _lock(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o640)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise JournalError(f"{path}: another service writes it. Stop that one, or give this one its own --journal.") from None
    return handle


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
