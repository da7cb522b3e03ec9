"""The policies that are compared, and the table of what each is worth.

Shares of the oracle's gain are within a family: SJF against SJF that knows the runtimes, QSSF and EASY likewise.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from runcast.evaluation.worth.easy import run_easy
from runcast.evaluation.worth.merit import loss, merit, share_of_gain
from runcast.evaluation.worth.pool import Jobs, Schedule
from runcast.evaluation.worth.queue import run_queue

ORACLE = "oracle"
LIMIT = "limit"


@dataclass(frozen=True)
class Plans:
    """What one predictor says of each job: `order_s` to sort by (a p50), `plan_s` to reserve with (a p90)."""

    order_s: NDArray[np.float64]
    plan_s: NDArray[np.float64]


def weigh(
    jobs: Jobs, capacity: int, payer: NDArray[np.object_], plans: Mapping[str, Plans]
) -> list[dict[str, str | int | float | None]]:
    """Schedule the jobs by every policy and return one row each: FIFO, then by family oracle, limits and predictors.

    EASY with limits is left out where no job has one; where only some lack theirs, those plan with the longest limit given.
    Raises ValueError where there are no jobs or one is larger than the pool.
    """
    if not len(jobs):
        raise ValueError("no jobs to schedule")
    fifo = run_queue(jobs, capacity, np.zeros(len(jobs)))
    knowing = {ORACLE: Plans(jobs.runtime_s, jobs.runtime_s)} | dict(plans)
    families: dict[str, dict[str, Schedule]] = {
        "fifo": {"": fifo},
        "sjf": {name: run_queue(jobs, capacity, one.order_s) for name, one in knowing.items()},
        "qssf": {name: run_queue(jobs, capacity, one.order_s * jobs.size) for name, one in knowing.items()},
        "easy": {ORACLE: run_easy(jobs, capacity, jobs.runtime_s)},
    }
    limited = np.isfinite(jobs.limit_s)
    if limited.any():
        families["easy"][LIMIT] = run_easy(jobs, capacity, np.where(limited, jobs.limit_s, jobs.limit_s[limited].max()))
    families["easy"] |= {name: run_easy(jobs, capacity, one.plan_s) for name, one in plans.items()}
    base = merit(jobs, fifo).mean_completion_s
    return [
        {
            "policy": family,
            "plans": name,
            **asdict(merit(jobs, one)),
            "share_of_oracle_gain": _share(jobs, base, one, schedules.get(ORACLE)),
            **asdict(loss(one, fifo, payer)),
        }
        for family, schedules in families.items()
        for name, one in schedules.items()
    ]


def _share(jobs: Jobs, fifo_s: float, schedule: Schedule, oracle: Schedule | None) -> float | None:
    if oracle is None:
        return None
    return share_of_gain(fifo_s, merit(jobs, schedule).mean_completion_s, merit(jobs, oracle).mean_completion_s)
