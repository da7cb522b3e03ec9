"""Named errors of the training stage: each says where, what was expected, what was found and what to do."""

from runcast.data.errors import RuncastError


class NotEnoughJobs(RuncastError):
    """Too few ended jobs to learn from; the baseline serves instead."""


class ConstantPredictor(RuncastError):
    """The fitted model answers every job with the same number; it is not a model."""


class ModelFileError(RuncastError):
    """A model folder cannot be used: missing or changed files, another format, other features, or too old a library."""


class UnknownKind(RuncastError):
    """No predictor of that name."""
