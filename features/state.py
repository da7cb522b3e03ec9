"""The state face: the features of one job at a time, from a history kept current by events.

Of the numpy level, for use beside the scheduler. Events (submitted, started, ended) wait until a job submitted strictly later is
asked for: what happens at the very moment of a submission is not seen by it, as in the table face. Jobs are mappings of canonical
names; times are UTC microseconds, and a job cannot start or end before it was submitted.

Events may come in any order as long as no job has been asked for that was submitted later than they happened; one that comes
after that is counted when it comes, as the latest end of its keys. Told twice, an event counts once: a submission while its job
is open, an end among the last REMEMBERED. A second start of a job (a requeue) replaces the first. A job that ended without having
been told of before adds to the history of runs and to nothing else. A state serves one thread at a time.
"""

import heapq
import json
import math
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from runcast.features.catalog import NAMES, feature_version
from runcast.features.encoder import UNSEEN
from runcast.features.errors import StateError
from runcast.features.levels import (
    BURST_GAP_US,
    LEVEL_NAMES,
    LEVELS,
    MASK,
    NEAREST,
    RESOURCE_UNITS,
    SLOT_LEVELS,
    SLOTS,
    US,
    hash_text,
    outcome_code,
    own_runs,
)
from runcast.features.one_job import Job, JobReader, Request, over, per_node, units
from runcast.features.open_jobs import Known, OpenJob, Runaways, whole
from runcast.features.runaways import LONGEST_US, runs_at_most_us
from runcast.features.slots import COLUMN, NO_KEY, READY, RUNS, STARTS, SUBMIT_1, TIMES, EndedRun, Places, SlotStore
from runcast.features.state_file import read_arrays, write_arrays
from runcast.features.working_row import AGES_AT, BURST_AT, MEAN_AT, NO_LEVEL, NOTHING, READY_AT, WIDTH, WorkingPlan

FORMAT = 1
REMEMBERED = 65_536  # ends that a second telling is recognised among: about a day of a busy cluster
#: What events may add before the oldest go: keys (some 300 bytes each), open jobs, events that no submission has counted so far.
MOST_NEW_KEYS, MOST_OPEN, MOST_PENDING = 500_000, 200_000, 100_000

_NAN = math.nan
_SUBMITTED, _STARTED, _ENDED = 0, 1, 2
_NEAREST = tuple(LEVEL_NAMES.index(name) for name in NEAREST)
_USER = LEVEL_NAMES.index("user")
_SIBLINGS = tuple(at for at, level in enumerate(LEVELS) if level.has_siblings)
_SLOT_LEVELS = tuple(LEVEL_NAMES.index(name) for name in SLOT_LEVELS)
_MEDIAN, _SPREAD, _RING_N, _BURST, _RUNNING = (
    COLUMN[name] for name in ("median_7_s", "log_std_7", "ring_n", "burst_n", "running_n")
)
_BURST_GAP_S = BURST_GAP_US / US


class _Told(NamedTuple):
    """What an event carries: the job's key and times, its keys at the levels it has, what it asks for and how long it may run."""

    job_key: str
    submit_us: int
    start_us: int | None
    keys: NDArray[np.uint64]
    gpu_units: int
    cpu_units: int
    gpus_per_node: float
    cpus_per_node: float
    limit_s: float
    runs_at_most_us: int = LONGEST_US


class State:
    """History of one cluster's jobs by key, as of the events told so far."""

    def __init__(self, clock: str, time_zone: str, known: Known | None = None) -> None:
        """Take `clock` and `time_zone` as in the cluster's file; they decide which calendar features there are."""
        self.clock, self.time_zone = clock, time_zone
        self._known = Known.nothing() if known is None else known
        self._store = self._known.store
        self._most_keys = len(self._store) + MOST_NEW_KEYS
        self._reader = JobReader(clock, time_zone)
        self._pending: list[tuple[Any, ...]] = []
        self._runaways = Runaways(self._known.open)
        self._told = 0
        self._row = np.full(WIDTH, np.nan, np.float32)
        self._ready = self._row[READY_AT:AGES_AT].reshape(len(LEVELS), len(READY))
        self._ages = self._row[AGES_AT:BURST_AT].reshape(len(LEVELS), TIMES)
        self._burst, self._mean = self._row[BURST_AT:MEAN_AT], self._row[MEAN_AT:NOTHING]
        self._since = np.empty((len(LEVELS), TIMES))
        self._whole = WorkingPlan(NAMES)

    def __len__(self) -> int:
        """Return how many keys are known."""
        return len(self._store)

    def submitted(self, job: Job) -> None:
        """Tell that a job was submitted."""
        self._tell(job["submit_time"], _SUBMITTED, 0.0, 0, job, None)

    def started(self, job: Job) -> None:
        """Tell that a job started; needs start_time."""
        start = max(job["start_time"], job["submit_time"])
        self._tell(start, _STARTED, 0.0, 0, job, start)

    def ended(self, job: Job) -> None:
        """Tell that a job ended; needs state, label, end_time (null: over from its submission), start_time and runtime_s."""
        start, runtime = job.get("start_time"), job.get("runtime_s")
        usable = runtime is not None and runtime > 0
        outcome = outcome_code(job.get("label"), job.get("state")) if usable else 0
        end = job["submit_time"] if job["end_time"] is None else max(job["end_time"], job["submit_time"])
        self._tell(end, _ENDED, float(np.float32(runtime)) if usable else 0.0, outcome, job, start)

    def update(self, job: Job) -> None:
        """Tell all that an ended row of a log says: submission, start and end."""
        self.submitted(job)
        if job.get("start_time") is not None:
            self.started(job)
        self.ended(job)

    def row(self, job: Job) -> tuple[NDArray[np.float32], dict[str, str | None]]:
        """Return the features of a job submitted now, float32 in catalog order, and the texts of its categories."""
        return self.read(job, self._whole)[0], self._reader.categories(job)

    def read(self, job: Job, plan: WorkingPlan) -> tuple[NDArray[np.float32], int]:
        """Return the columns of a plan for a job submitted now, float32, and how many ended runs of its own stand behind it (own_runs)."""
        submit_us = job["submit_time"]
        if self._pending and self._pending[0][0] < submit_us:
            self.advance(submit_us)
        now_us = submit_us if submit_us > self._known.applied_us else self._known.applied_us
        if self._runaways.differ_at(now_us):
            self._count_runaways(now_us)
        reader, store, ready, since = self._reader, self._store, self._ready, self._since
        request = reader.request(job)
        asked = reader.keys(job, request)
        slots = store.find(asked.keys)
        slots[asked.dead] = NO_KEY
        store.ready.take(slots, 0, ready, "clip")
        store.times.take(slots, 0, since, "clip")
        np.subtract(now_us, since, since)
        np.divide(since, US, since)
        self._ages[:] = since
        self._burst[:] = ready[:, _BURST] * (since[:, SUBMIT_1] <= _BURST_GAP_S)
        running = ready[:, _RUNNING].tolist()
        for level in _SIBLINGS:
            self._mean[level] = self._mean_elapsed_s(now_us, int(running[level]), slots[level]) if running[level] > 0 else _NAN
        history, levels = self._history_of_own(), self._slots_of(slots)
        self._row[:READY_AT] = (*self._own(job, request), *history, *(_NAN if at == NO_LEVEL else at for at in levels))
        row = self._row.take(plan.places(levels))
        for at, category, codes in plan.codes:
            text = reader.category(job, category)
            row[at] = _NAN if text is None else codes.get(text, UNSEEN)
        return row, own_runs(history[1], history[3], _USER not in asked.dead)

    def _slots_of(self, slots: Places) -> list[int]:
        """Return the levels that are this job's slots, NO_LEVEL for none."""
        runs = self._store.counts.take(slots, 0)[:, RUNS].tolist()
        chosen: list[int] = []
        most = 0
        for level in _SLOT_LEVELS:
            if runs[level] > most:
                most = runs[level]
                chosen.append(level)
                if len(chosen) == len(SLOTS):
                    return chosen
        return chosen + [NO_LEVEL] * (len(SLOTS) - len(chosen))

    def advance(self, until_us: int, at_most: int | None = None) -> bool:
        """Bring the history up to `until_us`: all events before it, strictly, are counted. `row` does so by itself.

        With `at_most` no more than so many are counted; returns whether all are.
        """
        pending, left = self._pending, -1 if at_most is None else at_most
        while pending and pending[0][0] < until_us:
            if not left:
                return False
            left -= 1
            event = heapq.heappop(pending)
            self._known.applied_us = max(self._known.applied_us, event[0])
            self._count(*event)
        return True

    def _tell(self, time_us: int, kind: int, runtime_s: float, outcome: int, job: Job, start_us: int | None) -> None:
        asked = self._reader.keys(job, request := self._reader.request(job))
        self._told += 1
        told = _Told(
            job["job_key"], job["submit_time"], start_us, asked.keys[asked.live],
            units(request.gpu_count), units(request.cpu_count), *per_node(request), request.time_limit_s,
            runs_at_most_us(request.time_limit_s, job.get("time_limit_kind")),
        )  # fmt: skip
        heapq.heappush(self._pending, (time_us, kind, runtime_s, outcome, self._told, told))
        if len(self._pending) > MOST_PENDING:
            self.advance(self._pending[0][0] + 1, at_most=2)

    def _count(self, time_us: int, kind: int, runtime_s: float, outcome: int, _: int, told: _Told) -> None:
        if kind == _SUBMITTED:
            self._submit(told)
        elif kind == _STARTED:
            self._start(time_us, told)
        else:
            self._end(time_us, runtime_s, outcome, told)

    def _submit(self, told: _Told) -> None:
        if told.job_key in self._known.open or hash_text("job_key", told.job_key) in self._known.ended:
            return
        if len(self._known.open) >= MOST_OPEN:
            self._let_go(self._known.open.pop(next(iter(self._known.open))))  # the first submitted: its end never came
        slots = self._claim(told)
        self._store.submit(slots, told.submit_us)
        job = self._known.open[told.job_key] = OpenJob(slots, None, told.gpu_units, told.cpu_units)
        self._hold(job, 1)
        if told.gpu_units > 0:
            self._known.most_gpus_per_node = max(self._known.most_gpus_per_node, told.gpus_per_node)
        else:
            self._known.most_cpus_per_node = max(self._known.most_cpus_per_node, told.cpus_per_node)

    def _start(self, time_us: int, told: _Told) -> None:
        self._submit(told)  # where the submission was not told
        job = self._known.open.get(told.job_key)
        if job is None:
            return
        self._let_go(job)
        self._store.start(job.slots, time_us)
        job.start_us, job.runaway_us, job.is_runaway = time_us, time_us + told.runs_at_most_us, False
        self._hold(job, 1)
        self._runaways.add(told.job_key, job)

    def _end(self, time_us: int, runtime_s: float, outcome: int, told: _Told) -> None:
        mark = hash_text("job_key", told.job_key)
        job = self._known.open.pop(told.job_key, None)
        if job is None:
            if mark in self._known.ended:
                return
            slots = self._claim(told)
        else:
            slots = job.slots
            self._let_go(job)
        if runtime_s > 0:
            share = np.float32(over(runtime_s, told.limit_s))
            self._store.end(slots, EndedRun(told.submit_us, time_us, np.float32(runtime_s), outcome, share))
        self._known.ended[mark] = None
        if len(self._known.ended) > REMEMBERED:
            del self._known.ended[next(iter(self._known.ended))]

    def _count_runaways(self, now_us: int) -> None:
        """Let the jobs that are runaways at a moment hold nothing, and the others what they hold."""
        for job in self._runaways.changed_at(now_us):
            if job.is_runaway and job.start_us is not None:
                job.is_runaway = False
                self._store.start(job.slots, job.start_us)
                self._hold(job, 1)
            else:
                self._let_go(job)
                job.is_runaway = True

    def _let_go(self, job: OpenJob) -> None:
        """Let a job neither wait nor run any longer; a runaway does neither."""
        if job.is_runaway:
            return
        self._hold(job, -1)
        if job.start_us is None:
            self._store.withdraw(job.slots)
        else:
            self._store.stop(job.slots, job.start_us)

    def _claim(self, told: _Told) -> Places:
        """Return the slots of an event's keys; where there are too many keys, the oldest are forgotten first."""
        if len(self._store) >= self._most_keys:
            in_use = np.concatenate([np.empty(0, np.intp), *(job.slots for job in self._known.open.values())])
            self._store.forget_oldest(MOST_NEW_KEYS // 4, in_use)
            self._most_keys = max(self._most_keys, len(self._store) + MOST_NEW_KEYS // 8)  # where most are of open jobs
        return self._store.claim(told.keys)

    def _mean_elapsed_s(self, now_us: int, running: int, slot: int) -> float:
        wrapped = now_us * running - int(self._store.sums[slot, STARTS])
        return float(((wrapped + 2**63) & MASK) - 2**63) / float(running * US)

    def _own(self, job: Job, request: Request) -> tuple[float, ...]:
        """Return the features that need no history of keys, in catalog order."""
        get = job.get
        gpus, cpus, nodes, limit = request
        memory, kind, priority, task = get("mem_mib"), get("time_limit_kind"), get("priority"), get("array_task")
        memory = _NAN if memory is None else float(memory)
        gpus_per_node, cpus_per_node = per_node(request)
        share = (
            over(gpus_per_node, self._known.most_gpus_per_node)
            if gpus > 0
            else over(cpus_per_node, self._known.most_cpus_per_node)
        )
        running_gpus, waiting_gpus, running_cpus, waiting_cpus = self._known.load
        return (
            *self._reader.calendar(job["submit_time"]),
            gpus,
            cpus,
            memory,
            nodes,
            over(cpus, gpus),
            over(memory, cpus),
            limit,
            _NAN if kind is None else float(kind == "hard"),
            _NAN if priority is None else float(priority),
            gpus_per_node,
            cpus_per_node,
            share,
            _NAN if task is None else float(task),
            running_gpus / RESOURCE_UNITS,
            waiting_gpus / RESOURCE_UNITS,
            running_cpus / RESOURCE_UNITS,
            waiting_cpus / RESOURCE_UNITS,
        )

    def _history_of_own(self) -> tuple[float, ...]:
        """Return the nearest block and the user's last two, from the slots just gathered."""
        ready = self._ready
        last, before = ready[_USER, :2].tolist()
        last_two = last if before != before else (last + before) * 0.5
        ring_n = ready[:, _RING_N].tolist()
        for at, level in enumerate(_NEAREST):
            if ring_n[level] > 0:
                return float(ready[level, _MEDIAN]), ring_n[level], float(ready[level, _SPREAD]), at, last_two
        return _NAN, 0.0, _NAN, _NAN, last_two

    def save(self, path: Path) -> None:
        """Write the state to one file, whole or not at all; equal states give equal bytes."""
        self._count_runaways(self._known.applied_us)  # so that the bytes do not depend on what was asked
        slots = [job.slots for job in self._known.open.values()]
        arrays = self._store.arrays() | {
            "open_slots": np.concatenate([np.empty(0, np.int32), *slots]).astype(np.int32),
            "open_sizes": np.array([len(places) for places in slots], np.int32),
            "ended": np.fromiter(self._known.ended, np.uint64, len(self._known.ended)),
        }
        told = [(*event[:4], *event[5][:3], event[5].keys.tolist(), *event[5][4:]) for event in sorted(self._pending)]
        meta = {
            "format": FORMAT,
            "feature_version": feature_version(),
            "clock": self.clock,
            "time_zone": self.time_zone,
            "applied_us": self._known.applied_us,
            "most_per_node": [self._known.most_gpus_per_node, self._known.most_cpus_per_node],
            "load": self._known.load,
            "open": [job.to_json(key) for key, job in self._known.open.items()],
            "pending": told,
        }
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
        write_arrays(path, arrays)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Return the state that `save` wrote; raises StateError where it is damaged or of another version."""
        arrays = read_arrays(path)
        try:
            meta = json.loads(arrays.pop("meta").tobytes())
            found = (meta["format"], meta["feature_version"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise StateError(f"{path}: not a feature state, or damaged: {type(error).__name__}: {error}") from error
        if found != (FORMAT, feature_version()):
            raise StateError(
                f"{path}: a state of format {found[0]} and features {found[1]}, this Runcast has format {FORMAT} and "
                f"features {feature_version()}. Export it again with this version."
            )
        try:
            return cls._of(arrays, meta)
        except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
            raise StateError(f"{path}: not a feature state, or damaged: meta: {type(error).__name__}: {error}") from error

    @classmethod
    def _of(cls, arrays: dict[str, NDArray[Any]], meta: dict[str, Any]) -> Self:
        """Return the state of a file's arrays, which were checked, and of its meta data, which was not."""
        slots = np.split(arrays["open_slots"].astype(np.intp), np.cumsum(arrays["open_sizes"])[:-1])
        slots = slots[: len(arrays["open_sizes"])]  # of no parts, numpy makes one
        opened = {str(key): OpenJob.of_json(places, *values) for (key, *values), places in zip(meta["open"], slots, strict=True)}
        store, ended = SlotStore.from_arrays(arrays), dict.fromkeys(arrays["ended"].tolist())
        gpus, cpus = map(float, meta["most_per_node"])
        load = [whole(units) for units in meta["load"]]
        if len(load) != len(Known.nothing().load):
            raise ValueError(f"load: expected {len(Known.nothing().load)} numbers, found {len(load)}")
        state = cls(
            str(meta["clock"]), str(meta["time_zone"]), Known(store, opened, ended, int(meta["applied_us"]), gpus, cpus, load)
        )
        for told, (time_us, kind, runtime_s, outcome, *event) in enumerate(meta["pending"]):
            key, submit_us, start_us, keys, gpu_units, cpu_units, gpus_per_node, cpus_per_node, limit_s, *longest_us = event
            about = _Told(
                str(key), whole(submit_us), None if start_us is None else whole(start_us), np.array(keys, np.uint64).reshape(-1),
                whole(gpu_units), whole(cpu_units), float(gpus_per_node), float(cpus_per_node), float(limit_s), *map(int, longest_us),
            )  # fmt: skip
            if kind not in (_SUBMITTED, _STARTED, _ENDED) or len(about.keys) > len(LEVELS):
                raise ValueError(f"pending: event {told} of kind {kind!r} with {len(about.keys)} keys")
            state._pending.append((whole(time_us), kind, float(runtime_s), int(outcome), told, about))
        state._told = len(state._pending)
        return state

    def _hold(self, job: OpenJob, sign: int) -> None:
        """Add what a job holds to the load (sign 1) or take it away (-1), as running or waiting."""
        at = 1 if job.start_us is None else 0
        self._known.load[at] += sign * job.gpu_units
        self._known.load[at + 2] += sign * job.cpu_units
