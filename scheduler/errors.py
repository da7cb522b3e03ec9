"""Named errors beside the scheduler: each says what was expected, what was found and what to do."""

from runcast.data.errors import Exit, RuncastError


class BundleError(RuncastError):
    """A bundle cannot be used; the scheduler goes on without Runcast."""


class BundleMissing(BundleError):
    """There is no bundle where one was named."""

    exit_code = Exit.NOTHING_YET


class BundleDamaged(BundleError):
    """A file of the bundle is missing, altered, cut off, or not listed in its manifest."""

    exit_code = Exit.DAMAGED


class BundleTooNew(BundleError):
    """The bundle was written in a later format than this program reads."""


class BundleMismatch(BundleError):
    """The bundle is of another cluster, or its features are not those this program computes."""


class BundleUnsigned(BundleError):
    """The bundle is not signed by a key that this host accepts."""


class BundleExpired(BundleError):
    """The bundle is past its valid_until: nights have not run, and stale forecasts are not served."""

    exit_code = Exit.NOTHING_YET


class ParityError(RuncastError):
    """A bundle does not give the training side's numbers; it was not made current."""

    exit_code = Exit.DAMAGED


class JournalError(RuncastError):
    """Events could not be kept on disk; they were not acknowledged."""

    exit_code = Exit.DISK


class JournalBusy(RuncastError):
    """The disk does not take events as fast as they come; they were not acknowledged."""

    exit_code = Exit.BUSY


class ServeError(RuncastError):
    """The service cannot begin: its address, token or socket."""


class JobFieldError(RuncastError):
    """One field of a job or event cannot be used; `field` names it."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
