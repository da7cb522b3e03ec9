"""The table face of levels: for every key what each submission could see of the key's other jobs.

At one instant submissions are asked first: an end, a start or a submission at the very moment of a submission is not seen by it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runcast.features.history import Floats, Floats32, Runs, after_each_end, log_units
from runcast.features.levels import (
    BURST_GAP_US,
    ENDED_STATS,
    LEVEL_NAMES,
    RESOURCE_UNITS,
    RUNS_CAP,
    SLOT_LEVELS,
    SLOT_STATS,
    SLOTS,
    US,
    Level,
)
from runcast.features.matrix import OPEN_US
from runcast.features.timeline import Ints, Timeline, differs

_ASK, _END, _START = 0, 1, 2

#: Features by name, to be written into: one array of the jobs' length each.
Columns = dict[str, Floats32]


@dataclass(frozen=True)
class Jobs:
    """What the sweep reads of the jobs: times in UTC microseconds, OPEN_US where it has not happened.

    A job that has not ended by `runaway_us` no longer counts as running; see runaways.py.
    """

    submit_us: Ints
    start_us: Ints
    end_us: Ints
    runaway_us: Ints
    runtime_s: Floats
    outcome: NDArray[np.int8]
    gpu_count: Floats
    cpu_count: Floats
    time_limit_s: Floats


@dataclass(frozen=True)
class Ring:
    """Of each job's key the last runs that had ended: their median, the spread of their logarithms, and how many there are."""

    median_s: Floats32
    spread_log: Floats32
    n: Floats32


@dataclass(frozen=True)
class Asked:
    """Submissions of jobs with a key, sorted by key and time: the jobs, and the codes of their keys, ascending."""

    job: Ints
    key: Ints


class Past:
    """The runs that ended, in the order of their ends, with what does not depend on the level."""

    def __init__(self, jobs: Jobs) -> None:
        runtime = jobs.runtime_s.astype(np.float32)
        past = np.flatnonzero((jobs.end_us != OPEN_US) & (runtime > 0))
        self.job = past[np.lexsort((jobs.outcome[past], runtime[past], jobs.end_us[past]))]
        self.end_us = jobs.end_us[self.job]
        self._runtime = runtime
        self._outcome = jobs.outcome
        self._logs = np.zeros(len(runtime), np.int64)
        self._logs[past] = log_units(runtime[past])
        limit = jobs.time_limit_s
        self._share = np.divide(runtime, limit, out=np.full(len(runtime), np.nan), where=limit > 0).astype(np.float32)
        self._by_submission = self.job[np.argsort(jobs.submit_us[self.job], kind="stable")]
        self._place = np.zeros(len(runtime), np.int64)
        self._place[self._by_submission] = np.arange(len(past))

    def runs(self, job: Ints, key: Ints, rank: Ints) -> tuple[Runs, Ints]:
        """Return the runs of jobs sorted by (key, end), and of each the job of its key so far that was submitted last."""
        offset = key * max(len(self._by_submission), 1)
        fresh = self._by_submission.take(np.maximum.accumulate(offset + self._place.take(job)) - offset)
        runtime, logs, outcome = self._runtime.take(job), self._logs.take(job), self._outcome.take(job)
        return Runs(rank, runtime, logs, outcome, self._share.take(job), self._runtime.take(fresh)), fresh


class SlotChoice:
    """Which level is each job's first, second and third slot, as the levels are offered from the most specific on."""

    def __init__(self, columns: Columns, count: int) -> None:
        self._columns = columns
        self._filled, self._most = np.zeros(count, np.int8), np.zeros(count, np.int64)
        self._runs = np.zeros(count, np.int64)
        for slot in SLOTS:
            for name in (f"level_of_{slot}", *(f"{stat}_by_{slot}" for stat in SLOT_STATS)):
                columns[name][:] = np.nan

    def offer(self, level: Level, job: Ints, runs: Ints) -> "Rows":
        """Return which of these jobs take this level as a slot: those for which it knows more runs than the slot before."""
        rows = job[(runs > self._most.take(job)) & (self._filled.take(job) < len(SLOTS))]
        self._runs[job] = runs
        slot = self._filled[rows]
        self._filled[rows] += 1
        self._most[rows] = self._runs[rows]
        chosen = [(name, rows[slot == at]) for at, name in enumerate(SLOTS)]
        for name, theirs in chosen:
            self._columns[f"level_of_{name}"][theirs] = LEVEL_NAMES.index(level.name)
        return [(name, theirs) for name, theirs in chosen if len(theirs)]


#: Slots and the jobs that take the level at hand for it.
Rows = list[tuple[str, Ints]]


class Sweep:
    """The events of a log in order of time, asked level by level with the code of each job's key (-1 for none)."""

    def __init__(self, jobs: Jobs, columns: Columns) -> None:
        """Take the jobs and the columns of the features that are to be written."""
        self._jobs, self._columns = jobs, columns
        order = np.argsort(jobs.submit_us, kind="stable")
        asks = (order, jobs.submit_us[order])
        self._past = Past(jobs)
        self._gone_us = np.minimum(jobs.end_us, jobs.runaway_us)
        gone = np.flatnonzero(self._gone_us != OPEN_US)
        gone = gone[np.argsort(self._gone_us[gone], kind="stable")]
        start = np.flatnonzero(jobs.start_us != OPEN_US)
        start = start[np.lexsort((self._gone_us[start], jobs.start_us[start]))]
        self._ended = Timeline(asks, (self._past.job, self._past.end_us))
        self._all = Timeline(asks, (gone, self._gone_us[gone]), (start, jobs.start_us[start]))
        self._slots = SlotChoice(columns, len(order))

    def ended(self, level: Level, code: Ints) -> tuple[Ring, Rows, Asked]:
        """Write the statistics of ended runs.

        Returns what the nearest block needs, who takes the level as a slot, and the submissions in order of key and time.
        """
        walk = self._ended.by_key(code)
        is_end = walk.kind == _END
        end, ask = np.flatnonzero(is_end), np.flatnonzero(~is_end)
        asked = Asked(walk.job.take(ask), walk.key.take(ask))
        seen = ask - np.arange(len(ask))  # ends before each submission, of its key and of all keys before it
        begin = np.flatnonzero(differs(asked.key))  # every key is asked for
        before, asks = walk.first - begin, np.diff(np.append(begin, len(ask)))
        key, job = walk.key.take(end), walk.job.take(end)
        rank = np.arange(len(end)) - np.repeat(before, walk.sizes - asks)
        runs, fresh = self._past.runs(job, key, rank)
        is_slot = level.name in SLOT_LEVELS
        stats = after_each_end(runs, {stat for stat in ENDED_STATS if stat in level.stats or (is_slot and stat in SLOT_STATS)})
        place = np.full(len(code), len(end) + 1)  # of no key
        known = seen - np.repeat(before, asks)
        place[asked.job] = np.where(known > 0, seen, 0)
        rows = self._slots.offer(level, asked.job, known) if is_slot else []
        places = [place.take(theirs) for _, theirs in rows]
        for stat, values in stats.items():
            if stat in level.stats:
                values.take(place, out=self._columns[f"{stat}_by_{level.name}"], mode="clip")
            if stat in SLOT_STATS:
                for (slot, theirs), at in zip(rows, places, strict=True):
                    self._columns[f"{stat}_by_{slot}"][theirs] = values.take(at)
        for stat, moment in (("age_s", self._jobs.end_us.take(job)), ("fresh_age_s", self._jobs.submit_us.take(fresh))):
            if stat in level.stats or rows:
                moment = np.concatenate([[np.nan], moment, [np.nan]])
                self._put(stat, level, rows, (self._jobs.submit_us - moment.take(place)) / US)
        ring = Ring(stats["median_7_s"].take(place), stats["log_std_7"].take(place), stats["ring_n"].take(place))
        return ring, rows, asked

    def submitted(self, level: Level, asked: Asked, rows: Rows) -> Ints:
        """Write the rhythm of submissions; return how many of the key were submitted strictly before each job."""
        job = asked.job
        time = self._jobs.submit_us.take(job)
        at = np.arange(len(time))
        is_first = differs(asked.key)
        begin = np.maximum.accumulate(np.where(is_first, at, 0))
        instant = np.maximum.accumulate(np.where(is_first | differs(time), at, 0))
        earlier = instant - begin
        last, last_but_two = np.maximum(instant - 1, 0), np.maximum(instant - 3, 0)
        since, third = (time - time.take(last)) / US, (time - time.take(last_but_two)) / US
        since[earlier < 1], third[earlier < 3] = np.nan, np.nan
        self._scatter("since_submit_s", level, rows, job, since)
        self._scatter("since_third_s", level, rows, job, third)
        if "submitted_n" in level.stats:
            self._scatter("submitted_n", level, rows, job, np.minimum(earlier, RUNS_CAP))
        if "burst_n" in level.stats:
            is_burst = is_first.copy()
            is_burst[1:] |= time[1:] - time[:-1] > BURST_GAP_US
            burst = np.maximum.accumulate(np.where(is_burst, at, 0))
            reaches = np.where(since <= BURST_GAP_US / US, np.minimum(instant - burst.take(last), RUNS_CAP), 0)
            self._scatter("burst_n", level, rows, job, reaches)
        if "gap_s" in level.stats:
            second = np.maximum(instant - 2, 0)
            gap = np.where(earlier >= 2, (time.take(last) - time.take(second)) / US, np.nan)
            before = np.where(earlier >= 3, (time.take(second) - time.take(last_but_two)) / US, np.nan)
            long = np.maximum(gap, before)
            ratio = np.divide(np.minimum(gap, before), long, out=np.where(np.isnan(long), np.nan, 1.0), where=long > 0)
            self._scatter("gap_s", level, rows, job, gap)
            self._scatter("gap_ratio", level, rows, job, ratio)
        count = np.zeros(len(self._jobs.submit_us), np.int64)
        count[job] = earlier
        return count

    def running(self, level: Level, code: Ints, earlier: Ints, rows: Rows) -> None:
        """Write the siblings that run or wait at each submission, and for the level of everything also the load.

        `earlier` counts the key's submissions strictly before each job's.
        """
        jobs = self._jobs
        walk = self._all.by_key(code)
        ask, is_start, is_end = np.flatnonzero(walk.kind == _ASK), walk.kind == _START, walk.kind == _END
        start_us = jobs.start_us.take(walk.job)
        has_run = start_us != OPEN_US
        change = is_start.view(np.int8) - (is_end & has_run).view(np.int8)
        gone = is_start | (is_end & ~has_run)
        asked, running = walk.job.take(ask), walk.so_far(change).take(ask)
        now_us = jobs.submit_us.take(asked)
        elapsed = now_us * running - walk.so_far(start_us * change).take(ask)
        mean = np.divide(elapsed, running * US, out=np.full(len(ask), np.nan), where=running > 0)
        latest = np.maximum.accumulate(np.where(is_start, np.arange(len(walk.job)), -1)).take(ask)
        sibling = walk.job.take(np.maximum(latest, 0))
        still_runs = (latest >= np.repeat(walk.first, walk.sizes).take(ask)) & (self._gone_us.take(sibling) >= now_us)
        age = np.where(still_runs, (now_us - jobs.start_us.take(sibling)) / US, np.nan)
        self._scatter("running_n", level, rows, asked, running)
        self._scatter("waiting_n", level, rows, asked, earlier.take(asked) - walk.so_far(gone).take(ask))
        self._scatter("running_mean_s", level, rows, asked, mean)
        self._scatter("running_latest_s", level, rows, asked, age)
        if level.parts == ():
            for name, count in (("gpus", jobs.gpu_count), ("cpus", jobs.cpu_count)):
                units = np.rint(np.nan_to_num(count) * RESOURCE_UNITS).astype(np.int64)
                of_job = units.take(walk.job)
                submitted = np.concatenate([[0], np.cumsum(units.take(asked))]).take(earlier.take(asked))
                self._columns[f"running_{name}"][asked] = walk.so_far(change * of_job).take(ask) / RESOURCE_UNITS
                waiting = submitted - walk.so_far(gone * of_job).take(ask)
                self._columns[f"waiting_{name}"][asked] = waiting / RESOURCE_UNITS

    def _scatter(self, stat: str, level: Level, rows: Rows, job: Ints, values: NDArray[np.generic]) -> None:
        """Write values that stand in the order of `job`; jobs without a key keep NaN."""
        rows = rows if stat in SLOT_STATS else []
        if stat not in level.stats and not rows:
            return
        column = self._columns.get(f"{stat}_by_{level.name}")
        if column is None:
            column = np.empty(len(self._jobs.submit_us), np.float32)
        if len(job) < len(column):
            column[:] = np.nan
        column[job] = values.astype(np.float32)
        for slot, theirs in rows:
            self._columns[f"{stat}_by_{slot}"][theirs] = column.take(theirs)

    def _put(self, stat: str, level: Level, rows: Rows, values: Floats) -> None:
        """Write values of all jobs."""
        if stat in level.stats:
            self._columns[f"{stat}_by_{level.name}"][:] = values
        for slot, theirs in rows:
            self._columns[f"{stat}_by_{slot}"][theirs] = values.take(theirs)
