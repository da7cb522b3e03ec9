"""The table face of levels: for every key what each submission could see of the key's other jobs.

At one instant submissions are asked first: an end, a start or a submission at the very moment of a submission is not seen by it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runcast.features.history import Floats, Floats32, after_each_end, log_units
from runcast.features.levels import BURST_GAP_US, ENDED_STATS, RESOURCE_UNITS, RUNS_CAP, US, Level
from runcast.features.matrix import OPEN_US
from runcast.features.timeline import Ints, Timeline, differs

_ASK, _END, _START = 0, 1, 2

#: Statistics by name to be written into: one array of the jobs' length each.
Columns = dict[str, Floats32]


@dataclass(frozen=True)
class Jobs:
    """What the sweep reads of the jobs: times in UTC microseconds, OPEN_US where it has not happened."""

    submit_us: Ints
    start_us: Ints
    end_us: Ints
    runtime_s: Floats
    outcome: NDArray[np.int8]
    gpu_count: Floats
    cpu_count: Floats


@dataclass(frozen=True)
class Ring:
    """Of each job's key the last runs that had ended: their median, the spread of their logarithms, and how many there are."""

    median_s: Floats32
    spread_log: Floats32
    n: Floats32


class Sweep:
    """The events of a log in order of time, asked level by level with the code of each job's key (-1 for none)."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        order = np.argsort(jobs.submit_us, kind="stable")
        asks = (order, jobs.submit_us[order])
        self._runtime = jobs.runtime_s.astype(np.float32)
        past = np.flatnonzero((jobs.end_us != OPEN_US) & (self._runtime > 0))
        self._logs = np.zeros(len(order), np.int64)
        self._logs[past] = log_units(self._runtime[past])
        past = past[np.lexsort((jobs.outcome[past], self._runtime[past], jobs.end_us[past]))]
        end = np.flatnonzero(jobs.end_us != OPEN_US)
        end = end[np.argsort(jobs.end_us[end], kind="stable")]
        start = np.flatnonzero(jobs.start_us != OPEN_US)
        start = start[np.lexsort((jobs.end_us[start], jobs.start_us[start]))]
        self._submitted = Timeline(asks)
        self._ended = Timeline(asks, (past, jobs.end_us[past]))
        self._all = Timeline(asks, (end, jobs.end_us[end]), (start, jobs.start_us[start]))

    def ended(self, level: Level, code: Ints, columns: Columns) -> Ring:
        """Write the statistics of ended runs; return what the nearest block needs."""
        walk = self._ended.by_key(code)
        is_end = walk.kind == _END
        end, ask = np.flatnonzero(is_end), np.flatnonzero(~is_end)
        total = np.cumsum(is_end)
        before = total.take(walk.first) - is_end.take(walk.first)
        rank = np.arange(len(end)) - before.take(walk.key.take(end))
        ended = walk.job.take(end)
        wanted = {stat for stat in ENDED_STATS if f"{stat}_by_{level.name}" in columns}
        stats = after_each_end(rank, self._runtime.take(ended), self._logs.take(ended), self._jobs.outcome.take(ended), wanted)
        seen = total.take(ask)
        place = np.full(len(code), len(end) + 1)  # of no key
        place[walk.job.take(ask)] = np.where(seen > before.take(walk.key.take(ask)), seen, 0)
        for stat in wanted:
            stats[stat].take(place, out=columns[f"{stat}_by_{level.name}"], mode="clip")
        if f"age_s_by_{level.name}" in columns:
            end_us = np.concatenate([[np.nan], self._jobs.end_us.take(ended), [np.nan]])
            columns[f"age_s_by_{level.name}"][:] = (self._jobs.submit_us - end_us.take(place)) / US
        return Ring(stats["median_7_s"].take(place), stats["log_std_7"].take(place), stats["ring_n"].take(place))

    def submitted(self, level: Level, code: Ints, columns: Columns) -> Ints:
        """Write the rhythm of submissions; return how many of the key were submitted strictly before each job."""
        walk = self._submitted.by_key(code)
        time = self._jobs.submit_us.take(walk.job)
        at = np.arange(len(time))
        is_first = differs(walk.key)
        instant = np.maximum.accumulate(np.where(is_first | differs(time), at, 0))
        earlier = instant - walk.first.take(walk.key)
        step = np.empty(len(time))
        step[:1] = np.nan
        step[1:] = time[1:] - time[:-1]
        is_burst = is_first | (step > BURST_GAP_US)
        step /= US
        step[is_first] = np.nan
        last = np.maximum(instant - 1, 0)
        since = np.where(earlier >= 1, (time - time.take(last)) / US, np.nan)
        gap_1 = np.where(earlier >= 2, step.take(last), np.nan)
        gap_2 = np.where(earlier >= 3, step.take(np.maximum(instant - 2, 0)), np.nan)
        long = np.maximum(gap_1, gap_2)
        burst = np.maximum.accumulate(np.where(is_burst, at, 0))
        stats: dict[str, NDArray[np.generic]] = {
            "since_submit_s": since,
            "gap_1_s": gap_1,
            "gap_2_s": gap_2,
            "gap_ratio": np.divide(np.minimum(gap_1, gap_2), long, out=np.where(np.isnan(long), np.nan, 1.0), where=long > 0),
            "burst_n": np.where(since <= BURST_GAP_US / US, np.minimum(instant - burst.take(last), RUNS_CAP), 0),
            "submitted_n": np.minimum(earlier, RUNS_CAP),
        }
        _write(columns, level, walk.job, stats)
        count = np.zeros(len(code), np.int64)
        count[walk.job] = earlier
        return count

    def running(self, level: Level, code: Ints, earlier: Ints, columns: Columns) -> None:
        """Write the siblings that run or wait at each submission, and for the level of everything also the load.

        `earlier` counts the key's submissions strictly before each job's.
        """
        jobs = self._jobs
        walk = self._all.by_key(code)
        ask, is_start = np.flatnonzero(walk.kind == _ASK), walk.kind == _START
        start_us = jobs.start_us.take(walk.job)
        is_end = walk.kind == _END
        has_run = start_us != OPEN_US
        change = is_start.astype(np.int64) - (is_end & has_run)
        gone = (is_start | (is_end & ~has_run)).astype(np.int64)
        asked, running = walk.job.take(ask), walk.so_far(change, ask)
        now_us = jobs.submit_us.take(asked)
        elapsed = now_us * running - walk.so_far(start_us * change, ask)
        latest = np.maximum.accumulate(np.where(is_start, np.arange(len(walk.job)), -1)).take(ask)
        is_known = latest >= walk.first.take(walk.key.take(ask))
        sibling = walk.job.take(np.maximum(latest, 0))
        stats: dict[str, NDArray[np.generic]] = {
            "running_n": running,
            "waiting_n": earlier.take(asked) - walk.so_far(gone, ask),
            "running_mean_s": np.divide(elapsed, running * US, out=np.full(len(ask), np.nan), where=running > 0),
            "running_latest_s": np.where(
                is_known & (jobs.end_us.take(sibling) >= now_us), (now_us - jobs.start_us.take(sibling)) / US, np.nan
            ),
        }
        _write(columns, level, asked, stats)
        if level.parts == ():
            for name, count in (("gpus", jobs.gpu_count), ("cpus", jobs.cpu_count)):
                units = np.rint(np.nan_to_num(count) * RESOURCE_UNITS).astype(np.int64)
                of_job = units.take(walk.job)
                submitted = np.concatenate([[0], np.cumsum(units.take(asked))]).take(earlier.take(asked))
                columns[f"running_{name}"][asked] = walk.so_far(change * of_job, ask) / RESOURCE_UNITS
                columns[f"waiting_{name}"][asked] = (submitted - walk.so_far(gone * of_job, ask)) / RESOURCE_UNITS


def _write(columns: Columns, level: Level, job: Ints, stats: dict[str, NDArray[np.generic]]) -> None:
    """Write the level's statistics at their jobs; the others, without a key, keep NaN."""
    for stat, values in stats.items():
        column = columns.get(f"{stat}_by_{level.name}")
        if column is not None:
            if len(job) < len(column):
                column[:] = np.nan
            column[job] = values
