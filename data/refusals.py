"""What a disk says that does not take what is written, as one error with what to do."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from runcast.data.errors import HomeRefuses

#: Full, over a quota, read-only, not allowed, failing, beyond a limit.
_REFUSALS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG})


@contextmanager
def told_where_refused(what: str) -> Iterator[None]:
    """Raise HomeRefuses for such errors, `what` being who wrote; other errors pass as they are."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        raise HomeRefuses(
            f"{what} could not write {error.filename or 'below RUNCAST_HOME'} ({error.strerror}). What was there is untouched. "
            "Make room, or mend the rights of RUNCAST_HOME, and run it again."
        ) from error
