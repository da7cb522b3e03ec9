"""Events of several kinds in one order of time, to be walked key by key.

The order of time is made once; for each level it is sorted by key as one array of composite integers, key times length plus
place, which numpy sorts several times faster than it can sort places by two criteria.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_KIND_BITS = 2


@dataclass(frozen=True)
class Walk:
    """Events sorted by (key, time): job and kind of each, its key's code (ascending), where each key begins and how many it has."""

    job: Ints
    kind: NDArray[np.int8]
    key: Ints
    first: Ints
    sizes: Ints

    def so_far(self, amount: Ints) -> Ints:
        """Return, for each event, the sum of `amount` over its key's events up to and with it, modulo 2**64."""
        total = np.cumsum(amount, dtype=np.int64)
        total -= np.repeat(total.take(self.first) - amount.take(self.first), self.sizes)
        return total


class Timeline:
    """Events of several kinds; at one instant the kinds keep the order they were given in."""

    def __init__(self, *kinds: tuple[Ints, Ints]) -> None:
        """Take, for each kind, jobs and their times, sorted by time."""
        self._job = np.empty(sum(len(jobs) for jobs, _ in kinds), np.int64)
        self._event = np.empty_like(self._job)  # job and kind in one, so that one look-up finds both
        for kind, (jobs, times) in enumerate(kinds):
            place = np.arange(len(jobs))
            for other, (_, theirs) in enumerate(kinds):
                if other != kind:
                    place += np.searchsorted(theirs, times, "right" if other < kind else "left")
            self._job[place], self._event[place] = jobs, jobs << _KIND_BITS | kind

    def by_key(self, code: Ints) -> Walk:
        """Return the events of the jobs that have a key (code >= 0)."""
        length = max(len(self._job), 1)
        composite = code.take(self._job)
        has_no_key = len(composite) > 0 and composite.min() < 0
        composite *= length
        composite += np.arange(len(composite))
        if has_no_key:
            composite = composite[composite >= 0]
        composite.sort()
        key = composite // length
        composite -= key * length
        event = self._event.take(composite)
        first = np.flatnonzero(differs(key))
        kind = (event & (2**_KIND_BITS - 1)).astype(np.int8)
        return Walk(event >> _KIND_BITS, kind, key, first, np.diff(np.append(first, len(key))))


def differs(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return where a value differs from the one before it; the first does."""
    found = np.ones(len(values), bool)
    found[1:] = values[1:] != values[:-1]
    return found
