"""Files that are whole or not there: written beside, flushed to disk, renamed, and the folder flushed."""

import os
from pathlib import Path

NOT_FOR_OTHERS = 0o027  # the owner writes, the group reads


def keep_from_others() -> None:
    """Let this process make no file or folder that others may read or the group may write: 0640 and 0750, or stricter where it was.

    For the beginning of a command: logs, models and forecasts name who ran what.
    """
    os.umask(os.umask(0o077) | NOT_FOR_OTHERS)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file and its missing folders; a process killed meanwhile leaves the file as it was, and what it wrote beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    flush_folder(path.parent)


def flush_folder(path: Path) -> None:
    """Have the disk keep what was renamed in a folder."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
