"""What a state knows of jobs beside the statistics of their keys: who is open, what they hold, and when each becomes a runaway."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from runcast.features.matrix import OPEN_US
from runcast.features.slots import Places, SlotStore

MOST_WHOLE = 2**62


@dataclass
class OpenJob:
    """A job that was submitted and has not ended: its slots, when it started, what it holds, and when it becomes a runaway."""

    slots: Places
    start_us: int | None
    gpu_units: int
    cpu_units: int
    runaway_us: int | None = None
    is_runaway: bool = False

    def to_json(self, job_key: str) -> tuple[Any, ...]:
        """Return the job but for its slots as plain JSON values."""
        return (job_key, self.start_us, self.gpu_units, self.cpu_units, self.runaway_us, self.is_runaway)

    @classmethod
    def of_json(
        cls, slots: Places, start_us: Any, gpu_units: Any, cpu_units: Any, runaway_us: Any = None, is_runaway: Any = False
    ) -> Self:
        """Return the job of `to_json`; one kept by a version that did not know of runaways never becomes one."""
        start_us, runaway_us = (None if us is None else whole(us) for us in (start_us, runaway_us))
        return cls(slots, start_us, whole(gpu_units), whole(cpu_units), runaway_us, bool(is_runaway))


def whole(value: Any) -> int:
    """Return a whole number of a file; raises OverflowError where a difference of two such would fit no array."""
    number = int(value)
    if abs(number) > MOST_WHOLE:
        raise OverflowError(f"expected at most 2^62 either way, found {number}")
    return number


@dataclass
class Known:
    """What a state knows of the jobs told of: slots of their keys, who is open, ends to be recognised, and the cluster's load.

    `load` is running GPUs, waiting GPUs, running CPUs and waiting CPUs, in 1/RESOURCE_UNITS.
    """

    store: SlotStore
    open: dict[str, OpenJob]
    ended: dict[int, None]
    applied_us: int
    most_gpus_per_node: float
    most_cpus_per_node: float
    load: list[int]

    @classmethod
    def nothing(cls) -> Self:
        return cls(SlotStore(), {}, {}, -(2**62), 0.0, 0.0, [0, 0, 0, 0])


class Runaways:
    """Which running jobs count as runaways at a moment, and when that changes; jobs that ended or started anew are passed over.

    The moment may go back: a question about a far day says nothing of the next one.
    """

    def __init__(self, open_jobs: dict[str, OpenJob]) -> None:
        """Take the open jobs, which may change later."""
        self._open = open_jobs
        self._begin()

    def differ_at(self, now_us: int) -> bool:
        """Whether a job may become a runaway, or be none any more, if it is `now_us`."""
        return self._running[0][0] < now_us or -self._gone[0][0] >= now_us

    def add(self, job_key: str, job: OpenJob) -> None:
        """Take a job that has just started."""
        heapq.heappush(self._running, (job.runaway_us or 0, job_key))
        if len(self._running) > 2 * len(self._open) + 1000:
            self._begin()

    def changed_at(self, now_us: int) -> Iterator[OpenJob]:
        """Yield the jobs that are runaways at `now_us`, strictly after their time, and were none, or the other way about; each once."""
        while self._running[0][0] < now_us:
            runaway_us, key = heapq.heappop(self._running)
            if (job := self._job(key, runaway_us)) is not None and not job.is_runaway:
                heapq.heappush(self._gone, (-runaway_us, key))
                yield job
        while -self._gone[0][0] >= now_us:
            minus_us, key = heapq.heappop(self._gone)
            if (job := self._job(key, -minus_us)) is not None and job.is_runaway:
                heapq.heappush(self._running, (-minus_us, key))
                yield job

    def _job(self, key: str, runaway_us: int) -> OpenJob | None:
        job = self._open.get(key)
        return job if job is not None and job.runaway_us == runaway_us else None

    def _begin(self) -> None:
        started = [(job.runaway_us, key, job) for key, job in self._open.items() if job.runaway_us is not None]
        self._running = [(OPEN_US, ""), *((us, key) for us, key, job in started if not job.is_runaway)]
        self._gone = [(OPEN_US, ""), *((-us, key) for us, key, job in started if job.is_runaway)]
        heapq.heapify(self._running)
        heapq.heapify(self._gone)
