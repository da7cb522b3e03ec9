"""Files that are whole or not there: written beside, flushed to disk, renamed, and the folder flushed."""

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file and its missing folders; a process killed meanwhile leaves the file as it was, and what it wrote beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
