"""Taking turns: a file lock that says who holds it.

The lock belongs to the process (`flock`): whoever is killed lets go of it, and there is nothing to clear up. It must work where
the home is: local disks, NFS 4.
"""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runcast.data.errors import MayPass

_POLL_S = 0.05


@contextmanager
def take_turn(path: Path, what: str, wait_s: float, refused: type[MayPass]) -> Iterator[None]:
    """Be the one process that holds the lock at `path`; `refused` where another still does after `wait_s` seconds.

    `what` begins the message: "venus is being written". Raises OSError where the lock cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(handle.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    holder = path.read_text() or "another process"
                    raise refused(f"{what} by {holder}. Wait for it to end, then run again.") from None
                time.sleep(_POLL_S)
        handle.truncate(0)
        handle.write(f"process {os.getpid()} on {socket.gethostname()}")
        handle.flush()
        try:
            yield
        finally:
            handle.truncate(0)
