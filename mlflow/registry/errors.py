"""Named errors of the registry."""

from runcast.data.errors import RuncastError


class RegistryError(RuncastError):
    """The tracking store cannot be used as asked: its address, a name or a state."""


class NoChampion(RegistryError):
    """No version carries the champion alias; the baseline serves."""


class GateNotPassed(RegistryError):
    """A version may not become champion: no report, a report on other data, a failed gate, or rolled back by hand."""
