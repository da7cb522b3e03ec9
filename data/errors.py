"""Named errors of the data stage: each says where, what was expected, what was found and what to do."""


class RuncastError(Exception):
    """Base of every error that Runcast raises on purpose; the command line prints it without a traceback."""


class MayPass(RuncastError):
    """What may pass by itself: a lock that somebody holds, a full disk, a store that does not answer. A night tries again."""


class NoSuchNight(RuncastError):
    """A night was asked for of a day that is none, or that has not begun."""


class ClusterFileError(RuncastError):
    """A cluster file cannot be used; carries the path, the line and the nearest known key."""


class SourceError(RuncastError):
    """A log cannot be read at all: missing, empty, of another format, or without what a prediction needs."""


class LogChanged(SourceError, MayPass):
    """A log was cut, replaced or taken away while it was read; nothing was written."""


class TooManyRejects(RuncastError):
    """More of a load was rejected than the cluster allows; nothing was written."""


class LakeError(RuncastError):
    """The lake is locked, damaged or not in the declared schema."""


class LakeBehind(LakeError):
    """The lake does not reach the end of the day that was asked for."""


class LakeBusy(LakeError, MayPass):
    """Another process writes the cluster, or the disk refuses: nothing was written; try again later."""


class StageBusy(MayPass):
    """Another process runs the same stage of the same cluster; nothing was begun."""


class HomeRefuses(MayPass):
    """The disk below RUNCAST_HOME is full, read-only, failing, or its rights are others; what was there is untouched."""


class QualityStop(RuncastError):
    """A stop check failed: nothing is trained and the champion stays."""
