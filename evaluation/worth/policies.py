"""The policies that are compared, and the table of what each is worth.

Shares of the oracle's gain are within a family: SJF against SJF that knows the runtimes, QSSF and the EASYs likewise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runcast.evaluation.bootstrap import weekly_intervals
from runcast.evaluation.worth.easy import raised_plan_s, run_easy
from runcast.evaluation.worth.merit import bounded_slowdown, loss, merit, share_of_gain
from runcast.evaluation.worth.pool import Jobs, Schedule
from runcast.evaluation.worth.queue import run_queue

WEEK_S = 7 * 86_400.0
#: A schedule is one draw: a job a second earlier may change all that follow. So the jobs are shaken (Tsafrir, Ouaknine and Feitelson
#: 2007) and waits averaged.
SHAKES, SHAKE_S = 3, 60.0
ORACLE = "oracle"
LIMIT = "limit"


@dataclass(frozen=True)
class Plans:
    """What one predictor says of each job: `order_s` to sort by (a p50), `plan_s` to reserve with (a p90)."""

    order_s: NDArray[np.float64]
    plan_s: NDArray[np.float64]


def weigh(
    jobs: Jobs, capacity: int, payer: NDArray[np.object_], plans: Mapping[str, Plans], seed: int = 7, shakes: int = SHAKES
) -> list[dict[str, Any]]:
    """Schedule the jobs by every policy and return one row each: FIFO, then by family oracle, limits and predictors.

    `easy` reserves with p90 and doubles a plan that is outlived; `easy_p50` reserves with p50 and raises it step by step;
    `easy_sjbf` is that with the shortest p50 first; `easy_p90_sjbf` reserves with p90, raised, and takes the shortest p50 first. With
    limits they are left out where no job has one; where only some lack theirs, those plan with the longest limit given. Waits are
    means over `shakes` runs: the log as it is, and with each job up to SHAKE_S later. `than_today` is the mean completion less that
    of EASY with limits (of FIFO where there are none), and the slowdown likewise, with weekly block-bootstrap intervals. Raises
    ValueError where there are no jobs or one is larger than the pool.
    """
    if not len(jobs):
        raise ValueError("no jobs to schedule")
    shaken = _shaken(jobs, shakes, seed)

    def scheduled(run: Callable[..., Schedule], *told: NDArray[np.float64]) -> Schedule:
        return _mean_schedule(jobs, shaken, lambda some, *values: run(some, capacity, *values), told)

    knowing = {ORACLE: Plans(jobs.runtime_s, jobs.runtime_s)}
    limited = np.isfinite(jobs.limit_s)
    if limited.any():
        limit_s = np.where(limited, jobs.limit_s, jobs.limit_s[limited].max())
        knowing[LIMIT] = Plans(limit_s, limit_s)
    knowing |= plans
    ordering = {name: one for name, one in knowing.items() if name != LIMIT}
    fifo = scheduled(run_queue, np.zeros(len(jobs)))
    families: dict[str, dict[str, Schedule]] = {
        "fifo": {"": fifo},
        "sjf": {name: scheduled(run_queue, one.order_s) for name, one in ordering.items()},
        "qssf": {name: scheduled(run_queue, one.order_s * jobs.size) for name, one in ordering.items()},
        "easy": {name: scheduled(run_easy, one.plan_s) for name, one in knowing.items()},
        "easy_p50": {name: scheduled(_run_raised, one.order_s) for name, one in knowing.items()},
        "easy_sjbf": {name: scheduled(_run_raised, one.order_s, one.order_s) for name, one in knowing.items()},
        "easy_p90_sjbf": {name: scheduled(_run_raised, one.plan_s, one.order_s) for name, one in knowing.items()},
    }
    every = {(family, name): one for family, found in families.items() for name, one in found.items()}
    than_today = _than_today(jobs, every, families["easy"].get(LIMIT, fifo), seed)
    base = merit(jobs, fifo).mean_completion_s
    return [
        {
            "policy": family,
            "plans": name,
            **asdict(merit(jobs, one)),
            "share_of_oracle_gain": _share(jobs, base, one, families[family].get(ORACLE)),
            "than_today": than_today[family, name],
            **asdict(loss(one, fifo, payer)),
        }
        for (family, name), one in every.items()
    ]


def _run_raised(jobs: Jobs, capacity: int, plan_s: NDArray[np.float64], rank: NDArray[np.float64] | None = None) -> Schedule:
    return run_easy(jobs, capacity, plan_s, raised_plan_s, rank)


def _shaken(jobs: Jobs, shakes: int, seed: int) -> list[tuple[Jobs, NDArray[np.intp]]]:
    """Return the jobs as they are and with later submissions, each with the order that its jobs now come in."""
    rng = np.random.default_rng(seed)
    found = []
    for shake in range(shakes):
        submit_s = jobs.submit_s + (rng.uniform(0, SHAKE_S, len(jobs)) if shake else 0.0)
        order = np.argsort(submit_s, kind="stable")
        found.append((Jobs(submit_s[order], jobs.runtime_s[order], jobs.size[order], jobs.limit_s[order]), order))
    return found


def _mean_schedule(
    jobs: Jobs,
    shaken: Sequence[tuple[Jobs, NDArray[np.intp]]],
    run: Callable[..., Schedule],
    told: Sequence[NDArray[np.float64]],
) -> Schedule:
    """Return the schedule in which each job waits as long as it did on average; nothing is told of reservations."""
    wait_s = np.zeros(len(jobs))
    for some, order in shaken:
        wait_s[order] += run(some, *(values[order] for values in told)).start_s - some.submit_s
    return Schedule(jobs.submit_s + wait_s / len(shaken), np.full(len(jobs), np.nan))


def _than_today(
    jobs: Jobs, schedules: Mapping[tuple[str, str], Schedule], today: Schedule, seed: int
) -> dict[tuple[str, str], dict[str, dict[str, float | None]]]:
    """Return how much less (below 0) or more each schedule has of mean completion and bounded slowdown; weeks of submission are drawn."""
    week = (jobs.submit_s // WEEK_S).astype(np.int64)
    differences: dict[str, NDArray[np.float64]] = {}
    for (family, name), one in schedules.items():
        slowdown, before = (bounded_slowdown(told.start_s - jobs.submit_s, jobs.runtime_s) for told in (one, today))
        differences[f"{family}|{name}|completion_s"] = one.start_s - today.start_s
        differences[f"{family}|{name}|slowdown"] = slowdown - before
    drawn = weekly_intervals({key: _mean_of(later) for key, later in differences.items()}, week, seed)
    return {
        (family, name): {
            what: {
                "mean": float(differences[key := f"{family}|{name}|{what}"].mean()),
                "low": drawn[key].low,
                "high": drawn[key].high,
            }
            for what in ("completion_s", "slowdown")
        }
        for family, name in schedules
    }


def _mean_of(values: NDArray[np.float64]) -> Callable[[NDArray[np.intp]], float]:
    return lambda rows: float(values[rows].mean())


def _share(jobs: Jobs, fifo_s: float, schedule: Schedule, oracle: Schedule | None) -> float | None:
    if oracle is None:
        return None
    return share_of_gain(fifo_s, merit(jobs, schedule).mean_completion_s, merit(jobs, oracle).mean_completion_s)
