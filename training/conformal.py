"""Split-conformal correction of p90: what the latest ended jobs, unseen by the quantile, say it must be multiplied by."""

import math
from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runcast.training.forecast import Floats

Ints = NDArray[np.int64]

#: The latest eighth of what had ended: near enough to tomorrow, large enough for a 0.9 quantile.
CALIBRATION_SHARE = 0.125
#: Below this many calibration jobs the corrected quantile is noise; the fitted one is left as it is.
CALIBRATION_JOBS_AT_LEAST = 50
#: Jobs that a margin remembers at most: some 40 MiB beside a scheduler.
MARGIN_JOBS_AT_MOST = 200_000


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


#: One user's jobs are at most this share of the window: less than the 1 - level beyond the quantile, so that no user alone is beyond it.
USER_SHARE = 0.05
#: Where no user is named, a group's: it holds many users, and a log may have few groups; see DECISIONS.md.
GROUP_SHARE = 0.5
#: ln of the factor by which the margin may leave that of training, either way; a bundle serves for days, until it is trained again.
SHIFT_AT_MOST = math.log(3)

Owner = str | None
_GROUP = "group "  # begins the name of an owner that is a group


def owner_of(user: str | None, group: str | None) -> Owner:
    """Return whose job it is, for the share of the margin: the user's; the group's where no user is named; None where neither is."""
    if user is not None:
        return f"user {user}"
    return None if group is None else f"{_GROUP}{group}"


class Margin:
    """How far p90 must be moved, by the latest jobs that were predicted and have ended: the rolling form of the correction.

    It keeps ln(runtime / p90) of the latest `size` of them in the order they ended, of one owner's at most USER_SHARE (GROUP_SHARE) of
    `size`: who runs many jobs, or one array, moves the others' p90 no further than that. OVERRUN is of one that outlived its limit: no p90
    could have covered that one, so more of the others have to be. `level` of all are to be covered. `trained_log` is the shift as of
    training, None where there was none; later ones stay within SHIFT_AT_MOST of it.
    """

    def __init__(
        self,
        size: int,
        level: float,
        residuals: Iterable[float] = (),
        owners: Iterable[Owner] = repeat(None),
        trained_log: float | None = None,
    ) -> None:
        self.size, self.level, self.trained_log = size, level, trained_log
        self._of_user_at_most, self._of_group_at_most = (max(1, int(size * share)) for share in (USER_SHARE, GROUP_SHARE))
        self._added = 0
        self._latest: dict[int, tuple[float, Owner]] = {}  # by number, rising
        self._by_owner: dict[str, deque[int]] = {}
        self._ascending: list[float] = []
        for residual, owner in zip(residuals, owners, strict=False):
            self.add(residual, owner)

    def add(self, residual: float, owner: Owner = None) -> None:
        """Take in a job that has ended: ln(runtime / the p90 it was told, before any margin), and whose it is."""
        self._added += 1
        self._latest[self._added] = (residual, owner)
        insort(self._ascending, residual)
        if owner is not None:
            own = self._by_owner.setdefault(owner, deque())
            own.append(self._added)
            if len(own) > self._at_most(owner):
                self._drop(own[0])
        if len(self._latest) > self.size:
            self._drop(next(iter(self._latest)))

    def _at_most(self, owner: str) -> int:
        return self._of_group_at_most if owner.startswith(_GROUP) else self._of_user_at_most

    def _drop(self, number: int) -> None:
        """Drop a residual that is the oldest of its owner's."""
        residual, owner = self._latest.pop(number)
        del self._ascending[bisect_left(self._ascending, residual)]
        if owner is not None:
            own = self._by_owner[owner]
            own.popleft()
            if not own:
                del self._by_owner[owner]

    def shift_log(self) -> float:
        """Return what ln(p90) is to be raised by; 0 while there are too few residuals to tell."""
        count = len(self._ascending)
        if count < CALIBRATION_JOBS_AT_LEAST:
            return 0.0
        coverable = bisect_left(self._ascending, OVERRUN)
        if not coverable:
            return 0.0
        shift = self._ascending[min(math.ceil((count + 1) * self.level), math.ceil(coverable * COVERED_AT_MOST)) - 1]
        if self.trained_log is None:
            return shift
        return min(max(shift, self.trained_log - SHIFT_AT_MOST), self.trained_log + SHIFT_AT_MOST)

    def continued(self, latest_first: Iterable[tuple[float, Owner]]) -> "Margin":
        """Return the margin once these have been added, told from the latest back: as many are looked at as fill it."""
        kept: list[tuple[float, Owner]] = []
        of_owner: Counter[Owner] = Counter()
        for residual, owner in chain(latest_first, reversed(self._latest.values())):
            if owner is None or of_owner[owner] < self._at_most(owner):
                of_owner[owner] += 1
                kept.append((residual, owner))
                if len(kept) == self.size:
                    break
        kept.reverse()
        return Margin(self.size, self.level, [one[0] for one in kept], [one[1] for one in kept], self.trained_log)

    def trained(self) -> "Margin":
        """Return the margin as training leaves it: later shifts are bounded round its own."""
        enough = len(self._ascending) >= CALIBRATION_JOBS_AT_LEAST
        return Margin(self.size, self.level, self._residuals(), self._owners(), self.shift_log() if enough else None)

    def copy(self) -> "Margin":
        return Margin(self.size, self.level, self._residuals(), self._owners(), self.trained_log)

    def content(self) -> dict[str, Any]:
        return {
            "size": self.size,
            "level": self.level,
            "trained_log": self.trained_log,
            "residuals": self._residuals(),
            "owners": self._owners(),
        }

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "Margin":
        """Return what `content` gave; of a model trained before owners were kept, without them and their bounds.

        Raises ValueError, TypeError or KeyError where it gave none of these: what is wrong would show only once jobs have ended.
        """
        size, level, trained_log = content["size"], content["level"], content.get("trained_log")
        residuals, owners = content["residuals"], content.get("owners") or [None] * len(content["residuals"])
        if not isinstance(size, int) or not 1 <= size <= MARGIN_JOBS_AT_MOST or not isinstance(level, float) or not 0 < level < 1:
            raise ValueError(
                f"margin: expected a size up to {MARGIN_JOBS_AT_MOST} and a level between 0 and 1: {size!r}, {level!r}"
            )
        if not isinstance(residuals, list) or not isinstance(owners, list) or not len(residuals) == len(owners) <= size:
            raise ValueError(f"margin: expected as many owners as residuals, up to {size}")
        logs = residuals if trained_log is None else [*residuals, trained_log]
        if not all(isinstance(one, float | int) and abs(one) <= OVERRUN for one in logs):
            raise ValueError(f"margin: expected residuals and trained_log from -{OVERRUN:g} to {OVERRUN:g}")
        if not all(isinstance(owner, str | None) for owner in owners):
            raise ValueError("margin: expected names of owners, or null")
        return cls(size, level, residuals, owners, trained_log)

    def _residuals(self) -> list[float]:
        return [residual for residual, _ in self._latest.values()]

    def _owners(self) -> list[Owner]:
        return [owner for _, owner in self._latest.values()]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Margin) and self.content() == other.content()

    __hash__ = None  # type: ignore[assignment]  # it changes


def rolled(
    margin: Margin, p90_log: Floats, residual: Floats, submit_us: Ints, end_us: Ints, owner: NDArray[np.object_]
) -> Floats:
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
            margin.add(float(residual[ended[done]]), owner[ended[done]])
            done += 1
        shifted[job] = p90_log[job] + margin.shift_log()
    return shifted
