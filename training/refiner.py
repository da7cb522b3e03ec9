"""A second look at the value that was chosen: a model says where near it the runtime lies, by what the levels' runtimes are.

Part of scoring.py, in a file of its own: numpy, and lightgbm's shared library.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from runcast.training.booster import Booster
from runcast.training.candidates import COLUMNS, log_of
from runcast.training.errors import ModelFileError
from runcast.training.forecast import Floats

Floats32 = NDArray[np.float32]

#: Raised when the code below changes its numbers though its constants read the same.
CODE_VERSION = 1

#: Runtimes of the levels, s, or means of their logarithms: each is read as how far it lies from the chosen value.
_RUNTIMES = re.compile(r"(last_\d_s|median_7_s|mode_7_s|fresh_s|log_mean|log_mean_7)_by_(?!slot_)\w+")
_LOGS = "log_mean"
#: Begins the name of a column that tells how far.
_FROM = "from_"


def runtimes_among(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of the features that a refiner reads beside the chosen value's own row, in their order."""
    return tuple(name for name in names if _RUNTIMES.fullmatch(name))


def columns_of(reads: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the columns of `rows` for these features."""
    return (*COLUMNS, *(f"{_FROM}{name}" for name in reads))


def rows(described: Floats32, runtimes: Floats32, reads: Sequence[str], value_log: Floats32 | np.float32) -> Floats32:
    """Return float32 (n, k), one row for each job, of its chosen value: what is told of it, and how far each runtime lies from it.

    `described` is the value's row of Candidates.described, `runtimes` the features `reads`, `value_log` the value itself.
    """
    is_log = np.array([name.startswith(_LOGS) for name in reads], np.bool_)
    far = np.where(is_log, runtimes, log_of(runtimes)) - np.asarray(value_log)[..., np.newaxis]
    return np.concatenate([described, far], axis=-1)


def refiner_version() -> str:
    """Return what changes when any number of `rows` may."""
    return repr((CODE_VERSION, _RUNTIMES.pattern, _LOGS, _FROM))


class Refiner:
    """The median of ln(runtime / chosen value) where the value is nearly right, by a model over `rows`."""

    def __init__(self, booster: Booster) -> None:
        """Read what it reads from the model's columns; raises ModelFileError where they are not those of this version."""
        self.booster = booster
        self.reads = tuple(name.removeprefix(_FROM) for name in booster.names[len(COLUMNS) :])
        if booster.names != columns_of(self.reads) or runtimes_among(self.reads) != self.reads:
            raise ModelFileError("refiner.txt: it was trained on other columns than this version tells; train again")

    def refined(self, described: Floats32, runtimes: Floats32, value_log: Floats32) -> Floats:
        """Return ln of the values as they are told, float64 (n,); for the arguments see `rows`."""
        return value_log + self.booster.predict(rows(described, runtimes, self.reads, value_log))

    def refined_one(self, described: Floats32, runtimes: Floats32, value_log: np.float32) -> float:
        """Return `refined` of one job: `described` and `runtimes` are one row each."""
        return float(value_log) + self.booster.predict_one(rows(described, runtimes, self.reads, value_log))
