"""Named errors of the features stage."""

from runcast.data.errors import Exit, RuncastError


class FeatureReadsFuture(RuncastError):
    """A feature reads, of the job itself, a column that is not known at submission."""


class MissingColumns(RuncastError):
    """A table of jobs lacks canonical columns that the features read."""


class FeaturesStale(RuncastError):
    """The lake's features are of another day or another feature version than asked for."""

    exit_code = Exit.NOTHING_YET


class StateError(RuncastError):
    """A stored feature state is damaged, of another version, or was asked what it cannot answer."""

    exit_code = Exit.DAMAGED


class EncoderError(RuncastError):
    """An encoder cannot be read, or was given a matrix it was not fitted for."""

    exit_code = Exit.DAMAGED
