"""Named errors of the data stage: each says where, what was expected, what was found and what to do."""


class RuncastError(Exception):
    """Base of every error that Runcast raises on purpose; the command line prints it without a traceback."""


class ClusterFileError(RuncastError):
    """A cluster file cannot be used; carries the path, the line and the nearest known key."""


class SourceError(RuncastError):
    """A log cannot be read at all: missing, empty, of another format, or without what a prediction needs."""


class TooManyRejects(RuncastError):
    """More of a load was rejected than the cluster allows; nothing was written."""


class LakeError(RuncastError):
    """The lake is locked, damaged or not in the declared schema."""


class QualityStop(RuncastError):
    """A stop check failed: nothing is trained and the champion stays."""
