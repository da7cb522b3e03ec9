"""Split-conformal correction of p90: what the latest ended jobs, unseen by the quantile, say it must be multiplied by."""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runcast.training.forecast import Floats

Ints = NDArray[np.int64]

#: The latest eighth of what had ended: near enough to tomorrow, large enough for a 0.9 quantile.
CALIBRATION_SHARE = 0.125
#: Below this many calibration jobs the corrected quantile is noise; the fitted one is left as it is.
CALIBRATION_JOBS_AT_LEAST = 50


def split_latest(jobs: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return (earlier, latest) positions of `jobs` rows that are ordered by end time; latest is empty when too few."""
    latest = math.floor(jobs * CALIBRATION_SHARE)
    if latest < CALIBRATION_JOBS_AT_LEAST:
        latest = 0
    rows = np.arange(jobs)
    return rows[: jobs - latest], rows[jobs - latest :]


def conformal_factor(actual_s: Floats, p90_s: Floats, level: float = 0.9) -> float:
    """Return what `p90_s` must be multiplied by so that it covers `level` of jobs like these; 1 where there are none.

    The ceil((n + 1) * level)-th smallest of actual / p90: with exchangeable jobs the next one is covered with at least `level`.
    """
    jobs = len(actual_s)
    if not jobs:
        return 1.0
    rank = min(math.ceil((jobs + 1) * level), jobs)
    return float(np.sort(actual_s / p90_s)[rank - 1])


#: ln(runtime / p90) of a job that outlived its hard limit, which p90 never exceeds.
OVERRUN = 50.0
#: Where many jobs outlive their limits, the others are covered to this share and no further.
COVERED_AT_MOST = 0.98


def residual_log(runtime_log: Floats, p90_log: Floats, hard_limit_s: Floats) -> Floats:
    """Return ln(runtime / p90), OVERRUN where the runtime is above the hard limit (NaN where there is none)."""
    limit_log = np.log(
        np.maximum(np.where(np.isnan(hard_limit_s), np.inf, hard_limit_s), 1)
    )  # as runtimes are: equal ones stay equal
    overruns = runtime_log > limit_log
    return np.where(overruns, OVERRUN, np.minimum(runtime_log - p90_log, OVERRUN / 2))


class Margin:
    """How far p90 must be moved, by the latest jobs that were predicted and have ended: the rolling form of the correction.

    It keeps ln(runtime / p90) of the latest `size` of them in the order they ended, OVERRUN of one that outlived its limit: no p90
    could have covered that one, so more of the others have to be. `level` of all are to be covered.
    """

    def __init__(self, size: int, level: float, residuals: Iterable[float] = ()) -> None:
        self.size, self.level = size, level
        self._latest: deque[float] = deque()
        self._ascending: list[float] = []
        for residual in residuals:
            self.add(residual)

    def add(self, residual: float) -> None:
        """Take in a job that has ended: ln(runtime / the p90 it was told, before any margin)."""
        self._latest.append(residual)
        insort(self._ascending, residual)
        if len(self._latest) > self.size:
            del self._ascending[bisect_left(self._ascending, self._latest.popleft())]

    def shift_log(self) -> float:
        """Return what ln(p90) is to be raised by; 0 while there are too few residuals to tell."""
        count = len(self._ascending)
        if count < CALIBRATION_JOBS_AT_LEAST:
            return 0.0
        coverable = bisect_left(self._ascending, OVERRUN)
        if not coverable:
            return 0.0
        return self._ascending[min(math.ceil((count + 1) * self.level), math.ceil(coverable * COVERED_AT_MOST)) - 1]

    def copy(self) -> "Margin":
        return Margin(self.size, self.level, self._latest)

    def content(self) -> dict[str, Any]:
        return {"size": self.size, "level": self.level, "residuals": list(self._latest)}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "Margin":
        return cls(content["size"], content["level"], content["residuals"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Margin) and self.content() == other.content()

    __hash__ = None  # type: ignore[assignment]  # it changes


def rolled(margin: Margin, p90_log: Floats, residual: Floats, submit_us: Ints, end_us: Ints) -> Floats:
    """Return ln(p90) of jobs in submission order, each raised by the margin as of its submission.

    A job's residual counts for those submitted strictly after it ended; NaN is of a job without one.
    """
    margin = margin.copy()
    ended = np.flatnonzero(~np.isnan(residual))
    ended = ended[np.argsort(end_us[ended], kind="stable")]
    ready = np.searchsorted(end_us[ended], submit_us, side="left")
    shifted, done = np.empty(len(p90_log)), 0
    for job, until in enumerate(ready.tolist()):
        while done < until:
            margin.add(float(residual[ended[done]]))
            done += 1
        shifted[job] = p90_log[job] + margin.shift_log()
    return shifted
