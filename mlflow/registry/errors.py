"""Named errors of the registry."""

from runcast.data.errors import Exit, MayPass, RuncastError


class RegistryError(RuncastError):
    """The tracking store cannot be used as asked: its address, a name or a state."""


class StoreUnavailable(RegistryError, MayPass):
    """The tracking store does not answer, or its database stays locked; what the night made is kept, try again later."""

    exit_code = Exit.UNAVAILABLE


class ClockBehind(RegistryError, MayPass):
    """This machine's clock is before the day whose night it runs: what it dates would be expired when the clock is right."""

    exit_code = Exit.UNAVAILABLE


class NoChampion(RegistryError):
    """No version carries the champion alias; the baseline serves."""

    exit_code = Exit.NOTHING_YET


class GateNotPassed(RegistryError):
    """A version may not become champion: no report, a report on other data, a failed gate, or rolled back by hand."""

    exit_code = Exit.STOPPED


class ApprovalDamaged(RegistryError):
    """The home's record of a version that passed cannot be read; what serves stays as it is."""


class ModelAltered(RegistryError):
    """The registry's copy of a model is not the one that passed its gates; what serves stays as it is."""
