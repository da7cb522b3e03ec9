"""What a disk says that does not take what is written, as one error with what to do."""

import errno
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
        if error.errno not in _REFUSALS:
            raise
        raise HomeRefuses(
            f"{what} could not write {error.filename or 'below RUNCAST_HOME'} ({error.strerror}). What was there is untouched. "
            "Make room, or mend the rights of RUNCAST_HOME, and run it again."
        ) from error


def _file_in_the_way(name: str | bytes | int | None) -> Path | None:
    """Return the file that stands where `name`, or a folder above it, should be a folder; None where there is none."""
    if not isinstance(name, str):
        return None
    return next((path for path in (Path(name), *Path(name).parents) if path.is_file()), None)
