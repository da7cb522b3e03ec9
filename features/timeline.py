"""Events of several kinds in one order of time, to be walked key by key.

The order of time is made once; for each level it is sorted by key as one array of composite integers, key times length plus
place, which numpy sorts several times faster than it can sort places by two criteria.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Walk:
    """Events sorted by (key, time): the job and the kind of each, its key counted from 0, and where each key begins."""

    job: Ints
    kind: NDArray[np.int8]
    key: Ints
    first: Ints

    def so_far(self, amount: Ints, at: Ints) -> Ints:
        """Return, for the events at `at`, the sum of `amount` over their key's events up to and with them, modulo 2**64."""
        total = np.cumsum(amount, dtype=np.int64)
        before = total.take(self.first) - amount.take(self.first)
        return total.take(at) - before.take(self.key.take(at))


class Timeline:
    """Events of several kinds; at one instant the kinds keep the order they were given in."""

    def __init__(self, *kinds: tuple[Ints, Ints]) -> None:
        """Take, for each kind, jobs and their times, sorted by time."""
        length = sum(len(jobs) for jobs, _ in kinds)
        self._job = np.empty(length, np.int64)
        self._kind = np.empty(length, np.int8)
        for kind, (jobs, times) in enumerate(kinds):
            place = np.arange(len(jobs))
            for other, (_, theirs) in enumerate(kinds):
                if other != kind:
                    place += np.searchsorted(theirs, times, "right" if other < kind else "left")
            self._job[place], self._kind[place] = jobs, kind

    def by_key(self, code: Ints) -> Walk:
        """Return the events of the jobs that have a key (code >= 0)."""
        length = max(len(self._job), 1)
        composite = code.take(self._job)
        has_key = composite >= 0
        composite *= length
        composite += np.arange(len(composite))
        if not has_key.all():
            composite = composite[has_key]
        composite.sort()
        code = composite // length
        composite -= code * length
        begins = differs(code)
        return Walk(self._job.take(composite), self._kind.take(composite), np.cumsum(begins) - 1, np.flatnonzero(begins))


def differs(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return where a value differs from the one before it; the first does."""
    found = np.ones(len(values), bool)
    found[1:] = values[1:] != values[:-1]
    return found
