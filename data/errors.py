"""Named errors of the data stage: each says where, what was expected, what was found and what to do."""

from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from runcast.data.sources.batch import Reject


class Exit(IntEnum):
    """Exit codes of every command, by kind of outcome; docs/exit-codes.md says what each means and what to do."""

    DONE = 0
    FAULT = 1
    USAGE = 2
    REFUSED = 3
    STOPPED = 4
    NOTHING_YET = 5
    DAMAGED = 6
    BUSY = 7
    DISK = 8
    UNAVAILABLE = 9
    NOT_INSTALLED = 10
    INCOMPLETE = 11
    INTERRUPTED = 130  # what a shell reports of a process that SIGINT ended


class RuncastError(Exception):
    """Base of every error that Runcast raises on purpose; the command line prints it without a traceback.

    `exit_code` is the command's; `stops` names the checks that stopped a night, where that is what happened.
    """

    exit_code: ClassVar[Exit] = Exit.REFUSED
    stops: tuple[str, ...] = ()


class UsageError(RuncastError):
    """The command line itself is wrong: an option, a value or a command that does not exist."""

    exit_code = Exit.USAGE


class NotInstalled(RuncastError):
    """This host lacks packages that the command needs."""

    exit_code = Exit.NOT_INSTALLED


class MayPass(RuncastError):
    """What may pass by itself: a lock that somebody holds, a full disk, a store that does not answer. A night tries again."""

    exit_code = Exit.BUSY


class NoSuchNight(RuncastError):
    """A night was asked for of a day that is none, or that is not over."""

    exit_code = Exit.USAGE


class ClusterFileError(RuncastError):
    """A cluster file cannot be used; says the path, the line and the nearest known key. `cluster` is its name, where that is known."""

    def __init__(self, message: str, cluster: str | None = None) -> None:
        super().__init__(message)
        self.cluster = cluster


class Quoted(str):
    """Text of a log inside a message: shown cut and escaped, so that it cannot act on a terminal, or withheld."""

    SHOWN = 200  # characters

    def __str__(self) -> str:
        return repr(self[: self.SHOWN])


class SourceError(RuncastError):
    """A log cannot be read at all: missing, empty, of another format, or without what a prediction needs.

    The message is made of its parts; those that quote the log are `Quoted`, so that it can be said without them.
    """

    def __init__(self, *parts: str) -> None:
        super().__init__("".join(map(str, parts)))
        self._parts = parts

    def without_quotes(self) -> "SourceError":
        """Return the same error with what it quotes of the log left out."""
        return SourceError(*("(withheld)" if isinstance(part, Quoted) else part for part in self._parts))


class EmptyLog(SourceError):
    """A file has no bytes, or holds none once it is unpacked: an export that died, or a log that was just rotated."""


class PseudonymKeyError(RuncastError):
    """The key of the pseudonyms cannot be used: missing, readable by others, or too short."""


class HistoryMismatch(RuncastError):
    """The cluster file now says something that the jobs loaded before do not fit: another zone, or other names; nothing was written."""


class LogChanged(SourceError, MayPass):
    """A log was cut, replaced or taken away while it was read; nothing was written."""


class CollectFailed(MayPass):
    """The command that prints a log failed, wrote errors, or went on too long; what was fetched before stays, nothing was read."""

    exit_code = Exit.UNAVAILABLE


class TooManyRejects(RuncastError):
    """More of a load was rejected than the cluster allows; nothing was written.

    `rejects` are the refused records, and `days` where in the log each stands.
    """

    rejects: "tuple[Reject, ...]" = ()
    days: tuple[str | None, ...] = ()


class UnknownStates(RuncastError):
    """Nearly all jobs of a load are in states that nobody knows; nothing was written."""


class UnreadableColumn(RuncastError):
    """A column that the log has cannot be read in most of its jobs; nothing was written."""


class LakeError(RuncastError):
    """The lake is locked, damaged or not in the declared schema."""

    exit_code = Exit.DAMAGED


class LakeBehind(LakeError):
    """The lake does not reach the end of the day that was asked for."""

    exit_code = Exit.NOTHING_YET


class LakeBusy(LakeError, MayPass):
    """Another process writes the cluster, or the disk refuses: nothing was written; try again later."""

    exit_code = Exit.BUSY


class StageBusy(MayPass):
    """Another process runs the same stage of the same cluster; nothing was begun."""


class UnknownCluster(ClusterFileError):
    """No cluster file has the name that the command line gives."""

    exit_code = Exit.USAGE


class HomeRefuses(MayPass):
    """The disk below RUNCAST_HOME is full, read-only, failing, or its rights are others; what was there is untouched."""

    exit_code = Exit.DISK


class NoFolder(RuncastError):
    """RUNCAST_HOME, or a folder on the way to it or below it, is a file or cannot be read, or is not there; nothing was written."""

    exit_code = Exit.DISK


class QualityStop(RuncastError):
    """A stop check failed: nothing is trained and the champion stays. `stops` names the checks."""

    exit_code = Exit.STOPPED

    def __init__(self, message: str, stops: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.stops = stops


class NothingToAccept(RuncastError):
    """A day was to be trained on although its checks stopped it, but none did, or no reason was given."""

    exit_code = Exit.USAGE
