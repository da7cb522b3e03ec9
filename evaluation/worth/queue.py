"""One queue, one order: FIFO, shortest job first, smallest service first. The head that does not fit blocks the rest.

Blocking is what makes an order mean something: without it small jobs pass a large one for as long as they keep coming.
"""

import heapq

import numpy as np
from numpy.typing import NDArray

from runcast.evaluation.worth.pool import Jobs, Schedule, refuse_oversize


def run_queue(jobs: Jobs, capacity: int, rank: NDArray[np.float64]) -> Schedule:
    """Start waiting jobs by rising `rank` (ties by submission), each when it heads the queue and fits.

    At one instant jobs end first, then jobs arrive, then jobs start. FIFO is a rank that is equal for all; SJF ranks by a
    runtime; QSSF by a runtime times the size. Raises ValueError where a job is larger than the pool.
    """
    refuse_oversize(jobs, capacity)
    submit_s, runtime_s, size, order = jobs.submit_s.tolist(), jobs.runtime_s.tolist(), jobs.size.tolist(), rank.tolist()
    start_s = np.full(len(jobs), np.nan)
    waiting: list[tuple[float, int]] = []
    ends: list[tuple[float, int]] = []
    free, arrived = capacity, 0
    while arrived < len(jobs) or ends:
        now = min(submit_s[arrived] if arrived < len(jobs) else np.inf, ends[0][0] if ends else np.inf)
        while ends and ends[0][0] <= now:
            free += size[heapq.heappop(ends)[1]]
        while arrived < len(jobs) and submit_s[arrived] <= now:
            heapq.heappush(waiting, (order[arrived], arrived))
            arrived += 1
        while waiting and size[waiting[0][1]] <= free:
            job = heapq.heappop(waiting)[1]
            start_s[job] = now
            free -= size[job]
            heapq.heappush(ends, (now + runtime_s[job], job))
    return Schedule(start_s, np.full(len(jobs), np.nan))
