"""How long a job without an end counts as running: accounting may lose an end, and such a job would run for ever.

A job that has outlived a hard limit twice over, and a day more, is dead: limits that are enforced kill within minutes, and of the
million public runs with a limit 25 ended later than that. Where no hard limit ends a job, a year does. From then on the job is no
running sibling and holds nothing; its end, should it still be told of, is history like any other. What is known at its start decides.
"""

import numpy as np
from numpy.typing import NDArray

from runcast.features.levels import US

_DAY_S = 86_400.0
_LONGEST_S = 366 * _DAY_S
LONGEST_US = round(_LONGEST_S * US)


def runs_at_most_us(time_limit_s: float, time_limit_kind: str | None) -> int:
    """Return for how long (µs) after its start a job counts as running; NaN is no limit."""
    if time_limit_kind == "hard" and time_limit_s > 0:
        return round(min(2 * time_limit_s + _DAY_S, _LONGEST_S) * US)
    return LONGEST_US


def all_run_at_most_us(time_limit_s: NDArray[np.float64], is_hard: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return `runs_at_most_us` of many jobs."""
    longest_s = np.where(is_hard & (time_limit_s > 0), np.minimum(2 * time_limit_s + _DAY_S, _LONGEST_S), _LONGEST_S)
    longest_us: NDArray[np.int64] = np.rint(longest_s * US).astype(np.int64)
    return longest_us
