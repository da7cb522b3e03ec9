"""Figures of merit of a schedule: what its users feel, how near it comes to the oracle's, and who pays for it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runcast.evaluation.worth.pool import Jobs, Schedule

#: Runtimes below this count as this much in a slowdown (Feitelson): a job of a second that waited a minute is no disaster.
SLOWDOWN_FLOOR_S = 10.0


@dataclass(frozen=True)
class Merit:
    """Means over the jobs of one schedule."""

    mean_completion_s: float
    mean_wait_s: float
    mean_bounded_slowdown: float


@dataclass(frozen=True)
class Loss:
    """Who pays: the payer (user or group) whose jobs complete later by the most, in the mean, than under FIFO.

    `worst` is None where the log names nobody; its loss is 0 or below where nobody loses.
    """

    worst: str | None
    worst_jobs: int
    worst_loss_s: float | None
    losing_share: float | None


def bounded_slowdown(wait_s: NDArray[np.float64], runtime_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return max(1, (wait + run) / max(run, 10 s)) for each job."""
    return np.maximum(1.0, (wait_s + runtime_s) / np.maximum(runtime_s, SLOWDOWN_FLOOR_S))


def merit(jobs: Jobs, schedule: Schedule) -> Merit:
    """Measure a schedule of at least one job."""
    wait_s = schedule.start_s - jobs.submit_s
    return Merit(
        mean_completion_s=float(np.mean(wait_s + jobs.runtime_s)),
        mean_wait_s=float(np.mean(wait_s)),
        mean_bounded_slowdown=float(np.mean(bounded_slowdown(wait_s, jobs.runtime_s))),
    )


def share_of_gain(fifo: float, reached: float, oracle: float) -> float | None:
    """Return how much of what the oracle gains over FIFO is reached; None where it gains nothing. Smaller values are better."""
    return None if oracle >= fifo else (fifo - reached) / (fifo - oracle)


def loss(schedule: Schedule, fifo: Schedule, payer: NDArray[np.object_]) -> Loss:
    """Compare each payer's mean completion with FIFO's; jobs with payer None count for nobody, ties go to the first name."""
    later_s: dict[str, list[float]] = {}
    for name, seconds in zip(payer, (schedule.start_s - fifo.start_s).tolist(), strict=True):
        if name is not None:
            later_s.setdefault(name, []).append(seconds)
    if not later_s:
        return Loss(None, 0, None, None)
    means = {name: float(np.mean(later_s[name])) for name in sorted(later_s)}
    worst = max(means, key=means.__getitem__)
    losing = sum(mean > 0 for mean in means.values())
    return Loss(worst, len(later_s[worst]), means[worst], losing / len(means))
