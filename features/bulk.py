"""A state from a whole log at once: what telling it every event one by one would give, many times faster."""

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from runcast.features.history import after_each_end
from runcast.features.levels import BURST_GAP_US, ENDED_STATS, LEVELS, RESOURCE_UNITS, RING, RUNS_CAP, US, hash_text
from runcast.features.matrix import OPEN_US
from runcast.features.open_jobs import Known, OpenJob
from runcast.features.reading import (
    Log,
    check_columns,
    level_keys,
    number_parts,
    read_calendar,
    read_log,
    read_texts,
    stable_hashes,
)
from runcast.features.slots import (
    AT_START,
    BURST,
    COLUMN,
    COUNTS,
    END,
    FIXED,
    FRESH_SUBMIT,
    LOGS,
    OUTCOMES,
    RUNNING_START,
    RUNS,
    SQUARES,
    START,
    STARTS,
    SUBMIT_1,
    SUBMIT_2,
    SUBMIT_3,
    SUBMITTED,
    SlotArrays,
    SlotStore,
)
from runcast.features.state import REMEMBERED, State
from runcast.features.sweep import Jobs, Past
from runcast.features.timeline import Ints, Timeline, differs


def state_of(jobs: pd.DataFrame, clock: str, time_zone: str, as_of_us: int) -> State:
    """Return the state that has been told all that happened strictly before `as_of_us` (UTC microseconds).

    `jobs` holds the canonical columns; jobs that run or wait then are kept open, so that their start and end can be told later.
    """
    check_columns(jobs)
    jobs = jobs[(jobs["submit_time"] < pd.Timestamp(as_of_us, unit="us", tz="UTC")).to_numpy(bool)]
    log = read_log(jobs)
    parts = read_texts(jobs, stable_hashes)[0] | number_parts(log, read_calendar(jobs["submit_time"], clock, time_zone)["hour"])
    known = _as_of(log.clamped(), as_of_us)
    is_running = _are_running(known, as_of_us)
    events = _Events(known, is_running)
    blocks, keys = [SlotStore().slot_arrays()], []
    places = np.full((len(LEVELS), len(jobs)), -1)
    used = FIXED
    for at, level in enumerate(LEVELS):
        key, null = level_keys(level, parts)
        code = np.full(len(key), -1)
        code[~null], found = pd.factorize(key[~null], sort=True)
        blocks.append(events.slots(code, len(found)))
        keys.append(found)
        places[at] = np.where(null, -1, code + used)
        used += len(found)
    store = SlotStore.of(SlotArrays.joined(blocks), np.concatenate(keys))
    return State(clock, time_zone, _known(jobs["job_key"].to_numpy(object), log, known, is_running, places, store))


def _as_of(jobs: Jobs, as_of_us: int) -> Jobs:
    start, end = (np.where(times < as_of_us, times, OPEN_US) for times in (jobs.start_us, jobs.end_us))
    return replace(jobs, start_us=start, end_us=end, runaway_us=np.where(start == OPEN_US, OPEN_US, jobs.runaway_us))


def _are_running(jobs: Jobs, as_of_us: int) -> NDArray[np.bool_]:
    """Return which jobs have started and not ended, runaways apart."""
    return np.asarray((jobs.start_us != OPEN_US) & (jobs.end_us == OPEN_US) & (jobs.runaway_us >= as_of_us))


class _Events:
    """The events of a log in order of time, asked level by level for what its keys' slots hold after the last."""

    def __init__(self, jobs: Jobs, is_running: NDArray[np.bool_]) -> None:
        self._jobs, self._is_running = jobs, is_running
        order = np.argsort(jobs.submit_us, kind="stable")
        self._submitted = Timeline((order, jobs.submit_us[order]))
        self._past = Past(jobs)
        self._ended = Timeline((self._past.job, self._past.end_us))
        self._has_started = jobs.start_us != OPEN_US
        self._is_open = jobs.end_us == OPEN_US

    def slots(self, code: Ints, count: int) -> SlotArrays:
        """Return the slots of `count` keys in the order of their codes."""
        slots = SlotArrays.empty(count)
        slots.ready[:] = np.nan
        slots.ready[:, [COLUMN[name] for name in COUNTS]] = 0
        slots.times[:] = np.nan
        self._submissions(code, slots)
        self._ends(code, slots)
        self._siblings(code, slots)
        return slots

    def _submissions(self, code: Ints, slots: SlotArrays) -> None:
        walk = self._submitted.by_key(code)
        time = self._jobs.submit_us[walk.job]
        last, n = walk.first + walk.sizes - 1, walk.sizes
        latest = [np.where(n > k, time[np.maximum(last - k, 0)], np.nan) for k in range(3)]
        is_burst = differs(walk.key)
        is_burst[1:] |= time[1:] - time[:-1] > BURST_GAP_US
        burst = last - np.maximum.accumulate(np.where(is_burst, np.arange(len(time)), 0))[last] + 1
        gap, before = (latest[0] - latest[1]) / US, (latest[1] - latest[2]) / US
        long, short = np.maximum(gap, before), np.minimum(gap, before)
        key = code[walk.job[walk.first]]
        for column, values in zip((SUBMIT_1, SUBMIT_2, SUBMIT_3), latest, strict=True):
            slots.times[key, column] = values
        slots.counts[key, SUBMITTED], slots.counts[key, BURST] = n, burst
        stats = {"gap_s": gap, "submitted_n": np.minimum(n, RUNS_CAP), "burst_n": np.minimum(burst, RUNS_CAP)}
        stats["gap_ratio"] = np.divide(short, long, out=np.where(np.isnan(long), np.nan, 1.0), where=long > 0)
        for name, values in stats.items():
            slots.ready[key, COLUMN[name]] = values

    def _ends(self, code: Ints, slots: SlotArrays) -> None:
        walk = self._ended.by_key(code)
        jobs = walk.job
        last = walk.first + walk.sizes - 1
        rank = np.arange(len(jobs)) - np.repeat(walk.first, walk.sizes)
        runs, fresh = self._past.runs(jobs, walk.key, rank)
        stats = after_each_end(runs, set(ENDED_STATS))
        key, n = code[jobs[walk.first]], walk.sizes
        for name, values in stats.items():
            slots.ready[key, COLUMN[name]] = values[last + 1]
        bits = np.zeros(len(last), np.int64)
        for k in range(RING):
            bits |= np.where(n > k, runs.outcome[np.maximum(last - k, 0)].astype(np.int64) << 2 * k, 0)
        slots.counts[key, RUNS], slots.counts[key, OUTCOMES] = n, bits
        slots.sums[key, LOGS] = walk.so_far(runs.logs)[last]
        slots.sums[key, SQUARES] = walk.so_far(runs.logs * runs.logs)[last]
        slots.times[key, END] = self._jobs.end_us[jobs[last]]
        slots.times[key, FRESH_SUBMIT] = self._jobs.submit_us[fresh[last]]

    def _siblings(self, code: Ints, slots: SlotArrays) -> None:
        has_key = code >= 0
        started = np.flatnonzero(has_key & self._has_started)
        running = np.flatnonzero(has_key & self._is_running)
        waiting = np.flatnonzero(has_key & ~self._has_started & self._is_open)
        start = self._jobs.start_us
        latest = np.full(len(slots.times), -np.inf)
        np.maximum.at(latest, code[started], start[started].astype(np.float64))
        slots.times[:, START] = np.where(np.isinf(latest), np.nan, latest)
        at_start = np.bincount(code[running][start[running] == latest[code[running]]], minlength=len(latest))
        slots.counts[:, AT_START] = at_start
        slots.times[:, RUNNING_START] = np.where(at_start > 0, slots.times[:, START], np.nan)
        np.add.at(slots.sums[:, STARTS], code[running], start[running])
        slots.ready[:, COLUMN["running_n"]] = np.bincount(code[running], minlength=len(latest))
        slots.ready[:, COLUMN["waiting_n"]] = np.bincount(code[waiting], minlength=len(latest))


def _known(
    job_key: NDArray[np.object_], log: Log, jobs: Jobs, is_running: NDArray[np.bool_], places: Ints, store: SlotStore
) -> Known:
    """Return what a state knows beside its slots: open jobs, ends to be recognised, the load and the widest request of a node."""
    is_open, has_started = jobs.end_us == OPEN_US, jobs.start_us != OPEN_US
    gpus, cpus = (np.rint(np.nan_to_num(count) * RESOURCE_UNITS).astype(np.int64) for count in (jobs.gpu_count, jobs.cpu_count))
    rows = sorted(np.flatnonzero(is_open).tolist(), key=lambda row: (jobs.submit_us[row], job_key[row]))
    opened = {}
    for row in rows:
        slots, is_runaway = places[:, row], bool(has_started[row] and not is_running[row])
        start, runaway = (int(us) if us != OPEN_US else None for us in (jobs.start_us[row], jobs.runaway_us[row]))
        opened[str(job_key[row])] = OpenJob(
            slots[slots >= 0].astype(np.intp), start, int(gpus[row]), int(cpus[row]), runaway, is_runaway
        )
    ended = np.flatnonzero(~is_open)
    ended = ended[np.lexsort((jobs.submit_us[ended], jobs.end_us[ended]))][-REMEMBERED:]
    is_waiting, has_gpus = is_open & ~has_started, gpus > 0
    times = np.concatenate([jobs.submit_us, jobs.start_us, jobs.end_us])
    return Known(
        store=store,
        open=opened,
        ended=dict.fromkeys(hash_text("job_key", str(key)) for key in job_key[ended]),
        applied_us=int(times[times != OPEN_US].max(initial=-(2**62))),
        most_gpus_per_node=_most(jobs.gpu_count[has_gpus], log.node_count[has_gpus]),
        most_cpus_per_node=_most(jobs.cpu_count[~has_gpus], log.node_count[~has_gpus]),
        load=[int(units[rows].sum()) for units in (gpus, cpus) for rows in (is_running, is_waiting)],
    )


def _most(count: NDArray[np.float64], nodes: NDArray[np.float64]) -> float:
    """Return the largest count per node, 0 where none is known."""
    known = (nodes > 0) & ~np.isnan(count)
    return float((count[known] / nodes[known]).max(initial=0.0))
