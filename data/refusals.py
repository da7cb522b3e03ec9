"""What a disk says that does not take what is written, as one error with what to do."""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runcast.data.errors import HomeRefuses, NoFolder

#: Full, over a quota, read-only, not allowed, failing, beyond a limit.
_REFUSALS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG})


@contextmanager
def told_where_refused(what: str) -> Iterator[None]:
    """Raise HomeRefuses for such errors, and NoFolder where a file is in the way; other errors pass as they are.

    `what` is who wrote.
    """
    try:
        yield
    except (NotADirectoryError, FileExistsError) as error:
        in_the_way = _file_in_the_way(error.filename)
        if in_the_way is None:
            raise
        raise NoFolder(
            f"{what} needs a folder at {in_the_way}, and there is a file. Nothing was written. "
            "Move it away, or set RUNCAST_HOME to a folder."
        ) from error
    except OSError as error:
        refusal = _refusal(error)
        if refusal is None:
            raise
        raise HomeRefuses(
            f"{what} could not write {refusal.filename or 'below RUNCAST_HOME'} ({refusal.strerror}). What was there is untouched. "
            "Make room, or mend the rights of RUNCAST_HOME, and run it again."
        ) from error


def _refusal(error: OSError) -> OSError | None:
    """Return what the disk said, None where it was something else.

    Python has two errors that hide it: a tree that was copied in part keeps the errors of its files as texts, without a number; and
    `tempfile` calls it a missing file where no folder for temporary files takes one, which is what a full disk looks like there.
    """
    if isinstance(error, shutil.Error):
        return next((one for one in _collected(error) if one.errno in _REFUSALS), None)
    if error.errno == errno.ENOENT and error.filename is None and "temporary directory" in (error.strerror or ""):
        return error
    return error if error.errno in _REFUSALS else None


def _collected(error: shutil.Error) -> Iterator[OSError]:
    """Yield the errors that copying a tree has collected: it tells (from, to, the error's text) of each file."""
    for _, to, text in error.args[0] if isinstance(error.args[0], list) else []:
        if number := re.match(r"\[Errno (\d+)\]", text):
            yield OSError(int(number[1]), os.strerror(int(number[1])), to)


def _file_in_the_way(name: str | bytes | int | None) -> Path | None:
    """Return the file that stands where `name`, or a folder above it, should be a folder; None where there is none."""
    if not isinstance(name, str):
        return None
    return next((path for path in (Path(name), *Path(name).parents) if path.is_file()), None)
