"""The margin of p90 beside a scheduler: `conformal.rolled`, for jobs that are told of one at a time. Numpy only.

What a job was told is held until it ends; what it says then counts for jobs submitted strictly later. The order in which ends are
told changes nothing: a residual has its place by when its job ended, and of equal ends by which was told its p90 first. Only what is
told RESIDUALS_AT_MOST ends late differs: such an end counts as of the latest forgotten one, such a job gets the margin of training.
"""

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np

from runcast.training.conformal import Margin, Owner, residual_log

OPEN_AT_MOST = 200_000  # jobs told a p90 that have not ended; beyond, the first told are forgotten: their ends never came
OVER_AT_MOST = 65_536  # jobs that have ended, among which one that is told of again is recognised
RESIDUALS_AT_MOST = (
    65_536  # by when their jobs ended; beyond, the first are only in the margin, so that a bundle of weeks stays small
)


class P90Told(NamedTuple):
    """What one job was told: ln(p90) before any margin, and the hard limit (s, NaN where there is none); whose job it is."""

    job_key: str
    p90_log: float
    hard_limit_s: float
    owner: Owner = None


class RunningMargin:
    """The margin of one model, which begins as that of its training and takes in the jobs told since."""

    def __init__(self, margin: Margin) -> None:
        self._trained = margin.copy()
        self._before = margin.copy()  # with the residuals that are forgotten
        self._before_us = -(2**63)  # when the last of them ended
        self._counted = 0  # so many residuals, the first, are in the margin
        self._margin: Margin | None = margin.copy()
        self._open: dict[str, tuple[int, P90Told]] = {}
        self._over: dict[str, None] = {}
        self._told = 0
        self._end_us, self._order, self._residual, self._owner = array("q"), array("q"), array("d"), array("q")
        self._owners: list[Owner] = []  # each name once, however many jobs are its
        self._codes: dict[Owner, int] = {}

    def __contains__(self, job_key: str) -> bool:
        """Whether nothing that a job may be told counts any more: it has been told its p90, or it has ended."""
        return job_key in self._open or job_key in self._over

    def told(self, one: P90Told) -> None:
        """Remember what a job was told; the first counts, and none that is told after its end."""
        if one.job_key in self:
            return
        self._told += 1
        self._open[one.job_key] = (self._told, one)
        if len(self._open) > OPEN_AT_MOST:
            del self._open[next(iter(self._open))]

    def ended(self, job_key: str, end_us: int, runtime_s: float | None) -> None:
        """Take in how long a job ran, where it was told a p90 and ran at all."""
        known = self._open.pop(job_key, None)
        self._over[job_key] = None
        if len(self._over) > OVER_AT_MOST:
            del self._over[next(iter(self._over))]
        if known is None or runtime_s is None or not runtime_s > 0:
            return
        order, one = known
        runtime_log = np.log(np.maximum(np.array([runtime_s]), 1))
        residual = residual_log(runtime_log, np.array([one.p90_log]), np.array([one.hard_limit_s]))
        self._insert(end_us, order, float(residual[0]), one.owner)

    def shift_log(self, submit_us: int) -> float:
        """Return what ln(p90) of a job submitted then is to be raised by."""
        if submit_us <= self._before_us:
            return self._trained.shift_log()  # what had ended strictly before cannot be told any more
        count = bisect_left(self._end_us, submit_us)
        if count < self._counted:  # told of late
            return self._margin_of(count).shift_log()
        if self._margin is None:
            self._margin = self._margin_of(self._counted)
        while self._counted < count:
            self._margin.add(*self._job(self._counted))
            self._counted += 1
        return self._margin.shift_log()

    def _insert(self, end_us: int, order: int, residual: float, owner: Owner) -> None:
        end_us = max(end_us, self._before_us)
        first, last = bisect_left(self._end_us, end_us), bisect_right(self._end_us, end_us)
        at = bisect_left(self._order, order, first, last)
        self._end_us.insert(at, end_us)
        self._order.insert(at, order)
        self._residual.insert(at, residual)
        if owner not in self._codes:
            self._codes[owner] = len(self._owners)
            self._owners.append(owner)
        self._owner.insert(at, self._codes[owner])
        if at < self._counted:
            self._counted += 1
            self._margin = None  # made anew when it is asked for, not at each of many that are told late
        if len(self._end_us) > RESIDUALS_AT_MOST:
            self._forget(len(self._end_us) - RESIDUALS_AT_MOST + RESIDUALS_AT_MOST // 8)

    def _forget(self, count: int) -> None:
        """Leave the first `count` residuals to the margin before all others."""
        for at in range(count):
            self._before.add(*self._job(at))
        self._before_us = self._end_us[count - 1]
        owners = [self._owners[code] for code in self._owner[count:]]
        del self._end_us[:count], self._order[:count], self._residual[:count], self._owner[:]
        self._codes = {owner: code for code, owner in enumerate(dict.fromkeys(owners))}
        self._owners = list(self._codes)
        self._owner.extend(self._codes[owner] for owner in owners)
        if count > self._counted:
            self._margin = None
        self._counted = max(self._counted - count, 0)

    def _job(self, at: int) -> tuple[float, Owner]:
        return self._residual[at], self._owners[self._owner[at]]

    def _margin_of(self, count: int) -> Margin:
        """Return the margin with the first `count` residuals, made anew."""
        return self._before.continued(self._job(at) for at in range(count - 1, -1, -1))
