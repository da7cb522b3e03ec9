"""Named errors of the training stage: each says where, what was expected, what was found and what to do."""

from runcast.data.errors import Exit, RuncastError


class NotEnoughJobs(RuncastError):
    """Too few ended jobs to learn from; the baseline serves instead."""

    exit_code = Exit.NOTHING_YET


class ConstantPredictor(RuncastError):
    """The fitted model answers every job with the same number; it is not a model."""

    exit_code = Exit.NOTHING_YET


class FitFailed(RuncastError):
    """The fit of one kind of model was killed by a signal, ended in an error, or took too long; the other kinds are fitted."""

    exit_code = Exit.INCOMPLETE


class ModelFileError(RuncastError):
    """A model folder cannot be used: missing or changed files, another format, other features, or too old a library."""

    exit_code = Exit.DAMAGED


class UnknownKind(RuncastError):
    """No predictor of that name."""

    exit_code = Exit.USAGE
