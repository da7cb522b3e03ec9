"""What a helper process remembers between two passes: one small JSON file, replaced whole, held by one process at a time."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runcast.data.errors import Exit, RuncastError


class MemoryFileError(RuncastError):
    """The memory file cannot be used: held by another process, damaged, or not writable."""

    exit_code = Exit.DAMAGED


class Memory:
    """The file at `path`; a file that is not there is an empty memory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> dict[str, Any]:
        """Return the content; raises MemoryFileError where it is damaged."""
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise MemoryFileError(f"{self._path}: cannot be read ({error}). Move it away to begin anew.") from error
        if not isinstance(content, dict):
            raise MemoryFileError(f"{self._path}: holds no object. Move it away to begin anew.")
        return content

    def save(self, content: dict[str, Any]) -> None:
        """Replace the content in one step."""
        write_atomically(self._path, json.dumps(content, separators=(",", ":"), sort_keys=True))


def write_atomically(path: Path, text: str) -> None:
    """Write beside, flush, rename: at any instant the path holds the old text or the new one, whole."""
    beside = path.with_name(f".{path.name}.writing")
    try:
        with beside.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise MemoryFileError(f"{path}: cannot be written ({error.strerror}). It is kept as it was.") from error


@contextmanager
def held(path: Path) -> Iterator[Memory]:
    """Hold the memory for as long as the block runs; raises MemoryFileError where another process does."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o640)
    except OSError as error:
        raise MemoryFileError(f"{path}: cannot be used ({error.strerror}). Name a file that may be written.") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise MemoryFileError(f"{path}: another process uses it; let that one end, or give this one a file of its own") from None
    try:
        yield Memory(path)
    finally:
        os.close(handle)
