"""Named errors of the evaluation stage: each says where, what was expected, what was found and what to do."""

from runcast.data.errors import Exit, RuncastError


class NothingToJudge(RuncastError):
    """No job to test on, or nothing had ended before the first of them."""

    exit_code = Exit.NOTHING_YET


class ReportMissing(RuncastError):
    """A night has no report: it was not evaluated, or retention has taken it away."""

    exit_code = Exit.NOTHING_YET


class ReportDamaged(RuncastError):
    """A night's report.json is not what an evaluation writes: cut off, or altered."""

    exit_code = Exit.DAMAGED


class UnreadablePredictions(RuncastError):
    """A file of predictions is not what a replay of this cluster's log writes."""


class NothingServed(RuncastError):
    """The cluster file does not say where served forecasts are kept: there is nothing to look at."""


class ServedFilesMissing(RuncastError):
    """No file of served forecasts is where the cluster file says."""

    exit_code = Exit.NOTHING_YET


class OutsideCheckFailed(RuncastError):
    """The search that ours is compared with could not be run."""

    exit_code = Exit.UNAVAILABLE


class PageWithoutMarks(RuncastError):
    """A page of the docs does not say where the measured figures belong."""
