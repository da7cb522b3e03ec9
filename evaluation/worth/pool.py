"""What is scheduled, and where: rigid jobs on one homogeneous pool of processors or GPUs, without preemption.

Sizes and capacities are whole numbers of one unit; what the unit is does not matter here.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Jobs:
    """Jobs in the order of their submission, one entry per job in each array; the order breaks ties between equals.

    `submit_s` rises; `runtime_s` is above 0; `size` is at least 1; `limit_s` is where the job is killed, inf where nowhere.
    Raises ValueError where that does not hold.
    """

    submit_s: NDArray[np.float64]
    runtime_s: NDArray[np.float64]
    size: NDArray[np.int64]
    limit_s: NDArray[np.float64]

    def __post_init__(self) -> None:
        lengths = {len(self.submit_s), len(self.runtime_s), len(self.size), len(self.limit_s)}
        if len(lengths) != 1:
            raise ValueError(f"arrays of jobs differ in length: {sorted(lengths)}")
        if (np.diff(self.submit_s) < 0).any():
            raise ValueError("jobs must be in the order of their submission")
        if not (self.runtime_s > 0).all() or not (self.size >= 1).all() or not (self.limit_s > 0).all():
            raise ValueError("each job needs a runtime and a limit above 0 s and a size of at least 1")

    def __len__(self) -> int:
        return len(self.submit_s)


@dataclass(frozen=True)
class Schedule:
    """When each job started; `reserved_s` is the first start promised to it while it headed the queue, NaN where none was."""

    start_s: NDArray[np.float64]
    reserved_s: NDArray[np.float64]


def refuse_oversize(jobs: Jobs, capacity: int) -> None:
    """Raise ValueError where a job is larger than the pool: it would wait forever."""
    if len(jobs) and (largest := int(jobs.size.max())) > capacity:
        raise ValueError(f"a job of size {largest} cannot run in a pool of {capacity}; drop it first")


def peak_use(start_s: NDArray[np.float64], end_s: NDArray[np.float64], size: NDArray[np.int64]) -> int:
    """Return the most that ran at once; what ends at an instant has gone before what starts at it. 0 without jobs."""
    times = np.concatenate([start_s, end_s])
    change = np.concatenate([size, -size])
    order = np.lexsort((change, times))
    return int(np.cumsum(change[order]).max(initial=0))
