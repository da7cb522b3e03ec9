"""EASY backfill: first come, first served, and whoever does not delay the head's reservation may go before it.

A reservation is made with plans (a limit, a p50, a p90, the runtime itself). A plan is not a limit: a job that outlives it is not
killed, its plan is corrected upward (Tsafrir, Etsion, Feitelson 2007), and the head's reservation moves.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from runcast.evaluation.worth.pool import Jobs, Schedule, refuse_oversize

#: (given plan, start, now, hard limit) -> a plan that ends later than now.
Correct = Callable[[float, float, float, float], float]
#: What Tsafrir et al. add to a plan that is outlived for the first, second ... time: 1, 5, 15, 30 minutes, 1 to 100 hours.
RAISES_S = tuple(60.0 * minutes for minutes in (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000))


def doubled_plan_s(given_s: float, start_s: float, now_s: float, limit_s: float) -> float:
    """Return the plan of a job that was planned `given_s`, started at `start_s` and still runs at `now_s`: it ends later than now.

    Doubled as often as needed, and not beyond the limit while the job is within it; a job that outlives its limit (logs hold
    such) is doubled on.
    """
    plan_s = given_s
    while start_s + plan_s <= now_s:
        plan_s = limit_s if plan_s < limit_s < 2 * plan_s else 2 * plan_s
    return plan_s


def raised_plan_s(given_s: float, start_s: float, now_s: float, limit_s: float) -> float:
    """Return the same, raised by RAISES_S in turn (the last again and again), and not beyond the limit while within it."""
    plan_s, raises = given_s, chain(RAISES_S, repeat(RAISES_S[-1]))
    while start_s + plan_s <= now_s:
        raised_s = plan_s + next(raises)
        plan_s = limit_s if plan_s < limit_s < raised_s else raised_s
    return plan_s


def run_easy(
    jobs: Jobs,
    capacity: int,
    plan_s: NDArray[np.float64],
    correct: Correct = doubled_plan_s,
    rank: NDArray[np.float64] | None = None,
) -> Schedule:
    """Schedule by EASY with the plans `plan_s` (above 0, one per job), queue in order of submission.

    `rank` orders those that may go before the head, the smallest first, ties by submission: with runtimes it is SJBF, shortest job
    backfilled first. None: by submission.
    At one instant jobs end first, then plans that ran out are corrected, then jobs arrive, then jobs start. Raises ValueError
    where a job is larger than the pool or a plan is not above 0.
    """
    refuse_oversize(jobs, capacity)
    if not (plan_s > 0).all():
        raise ValueError("each job needs a plan above 0 s")
    pool = _Pool(jobs, capacity, plan_s, correct, rank)
    while pool.arrived < len(jobs) or pool.ends:
        pool.step()
    return Schedule(pool.start_s, pool.reserved_s)


class _Pool:
    """The state between two events. The queue is the jobs of [head, arrived) that have not started."""

    def __init__(
        self, jobs: Jobs, capacity: int, plan_s: NDArray[np.float64], correct: Correct, rank: NDArray[np.float64] | None
    ) -> None:
        self.correct, self.rank = correct, None if rank is None else rank.tolist()
        self.submit_s, self.runtime_s = jobs.submit_s.tolist(), jobs.runtime_s.tolist()
        self.size, self.limit_s = jobs.size.tolist(), jobs.limit_s.tolist()
        self.plans = plan_s  # as given, for whole-queue comparisons
        self.given_s = plan_s.tolist()
        self.plan_s = plan_s.tolist()  # as corrected
        self.start_s = np.full(len(jobs), np.nan)
        self.reserved_s = np.full(len(jobs), np.nan)
        self.never = capacity + 1  # fits nowhere: stands for the size of whoever does not wait
        self.waiting_size = jobs.size.copy()
        self.free = capacity
        self.head = self.arrived = 0
        self.ends: list[tuple[float, int]] = []  # heap of the true ends
        self.planned: list[tuple[float, int]] = []  # the same jobs by planned end, sorted
        self.shadow_s = np.inf  # when the head will start, by plan
        self.spare = 0  # what is free then beside the head

    def step(self) -> None:
        """Go to the next instant at which something happens, and let happen what happens there."""
        now = self.ends[0][0] if self.ends else np.inf
        if self.arrived < len(self.submit_s):
            now = min(now, self.submit_s[self.arrived])
        if self.planned and self.head < self.arrived:  # a plan that runs out matters to those who wait
            now = min(now, self.planned[0][0])
        changed = self._end(now)
        changed |= self._correct(now)
        first_new = self.arrived
        while self.arrived < len(self.submit_s) and self.submit_s[self.arrived] <= now:
            self.arrived += 1
        if changed or self.head == first_new:  # nobody waited: there is no reservation to keep to
            self._start_from_head(now)
        else:  # who could not start before cannot start now: time has passed and nothing has become free
            self._backfill(now, range(first_new, self.arrived))

    def _end(self, now: float) -> bool:
        ended = False
        while self.ends and self.ends[0][0] <= now:
            job = heapq.heappop(self.ends)[1]
            del self.planned[bisect_left(self.planned, (float(self.start_s[job]) + self.plan_s[job], job))]
            self.free += self.size[job]
            ended = True
        return ended

    def _correct(self, now: float) -> bool:
        corrected = False
        while self.planned and self.planned[0][0] <= now:
            job = self.planned.pop(0)[1]
            start_s = float(self.start_s[job])
            self.plan_s[job] = self.correct(self.given_s[job], start_s, now, self.limit_s[job])
            insort(self.planned, (start_s + self.plan_s[job], job))
            corrected = True
        return corrected

    def _start(self, job: int, now: float) -> None:
        self.start_s[job] = now
        self.free -= self.size[job]
        self.waiting_size[job] = self.never
        heapq.heappush(self.ends, (now + self.runtime_s[job], job))
        insort(self.planned, (now + self.plan_s[job], job))

    def _start_from_head(self, now: float) -> None:
        while self.head < self.arrived and (self.waiting_size[self.head] == self.never or self.size[self.head] <= self.free):
            if self.waiting_size[self.head] != self.never:
                self._start(self.head, now)
            self.head += 1
        if self.head == self.arrived:
            return
        self._reserve()
        queue = slice(self.head + 1, self.arrived)
        fits = self.waiting_size[queue] <= self.free
        harmless = (now + self.plans[queue] <= self.shadow_s) | (self.waiting_size[queue] <= self.spare)
        self._backfill(now, (np.flatnonzero(fits & harmless) + self.head + 1).tolist())

    def _reserve(self) -> None:
        """Find when the head fits if all plans come true, and what is then left beside it."""
        needed = self.size[self.head] - self.free
        for at, (planned_end_s, job) in enumerate(self.planned):
            needed -= self.size[job]
            if needed <= 0 and (at + 1 == len(self.planned) or self.planned[at + 1][0] > planned_end_s):
                break
        self.shadow_s, self.spare = planned_end_s, -needed
        if np.isnan(self.reserved_s[self.head]):
            self.reserved_s[self.head] = self.shadow_s

    def _backfill(self, now: float, candidates: Iterable[int]) -> None:
        for job in candidates if self.rank is None else sorted(candidates, key=self.rank.__getitem__):
            if self.free == 0:
                return
            size = self.size[job]
            if size > self.free:
                continue
            if now + self.plan_s[job] <= self.shadow_s:
                self._start(job, now)
            elif size <= self.spare:
                self.spare -= size
                self._start(job, now)
