"""Named errors of the evaluation stage: each says where, what was expected, what was found and what to do."""

from runcast.data.errors import RuncastError


class NothingToJudge(RuncastError):
    """No job to test on, or nothing had ended before the first of them."""


class ReportMissing(RuncastError):
    """A night has no report: it was not evaluated, or retention has taken it away."""


class ReportDamaged(RuncastError):
    """A night's report.json is not what an evaluation writes: cut off, or altered."""


class UnreadablePredictions(RuncastError):
    """A file of predictions is not what a replay of this cluster's log writes."""


class NothingServed(RuncastError):
    """The cluster file does not say where served forecasts are kept: there is nothing to look at."""


class ServedFilesMissing(RuncastError):
    """No file of served forecasts is where the cluster file says."""


class OutsideCheckFailed(RuncastError):
    """The search that ours is compared with could not be run."""


class PageWithoutMarks(RuncastError):
    """A page of the docs does not say where the measured figures belong."""
