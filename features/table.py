"""The table face: features of every job of a log at once, each from what was known strictly before its submission.

For every key the events of its jobs are sorted once by (key, time) as composite integers, with the questions (submissions) among
them; what a question may see is what lies before it. At one instant questions come first: an end, a start or a submission at the
very moment of a submission is not seen by it. A job cannot start or end before it was submitted: such times count as the
submission's.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from runcast.features.catalog import CATEGORIES, COLUMNS_READ, NAMES
from runcast.features.errors import MissingColumns
from runcast.features.history import Floats, Floats32, Ints, after_each_end, log_units, outcome_codes
from runcast.features.levels import (
    BURST_GAP_US,
    ENDED_STATS,
    LEVELS,
    NEAREST,
    RESOURCE_UNITS,
    RUNS_CAP,
    US,
    Level,
    fold_digits,
    hash_number,
    hash_text,
)
from runcast.features.matrix import OPEN_US, Categories, Ended, Matrix

Keys = NDArray[np.uint64]
Found = dict[str, Floats32 | Floats]

_QUESTION, _END, _START = 0, 1, 2


def build(jobs: pd.DataFrame, clock: str, time_zone: str) -> Matrix:
    """Return the features of each row of `jobs`, in the same order; open jobs have features too.

    `jobs` holds the canonical columns (COLUMNS_READ at least); `clock` says what calendar features are worth: calendar, week or
    relative. Raises MissingColumns.
    """
    missing = [name for name in COLUMNS_READ if name not in jobs.columns]
    if missing:
        raise MissingColumns(f"the table of jobs lacks {', '.join(missing)}; features read {len(COLUMNS_READ)} canonical columns")
    log = _read_log(jobs)
    parts, categories = _read_texts(jobs)
    calendar = _calendar(jobs["submit_time"], clock, time_zone)
    parts |= _number_parts(log, calendar["hour"])
    columns: Found = {name: values for name, values in calendar.items() if name != "hour"}
    columns |= _request(jobs, log) | _node_share(log)
    columns |= _history(log, parts)
    names = tuple(name for name in NAMES if name in columns)
    values = np.empty((len(jobs), len(names)), np.float32, order="F")
    for at, name in enumerate(names):
        values[:, at] = columns.pop(name)
    ended = Ended(log.raw_start_us, log.raw_end_us, log.runtime_s, log.label, log.state)
    return Matrix(names, values, categories, jobs["job_key"].to_numpy(object), log.submit_us, ended)


@dataclass(frozen=True)
class _Log:
    """The jobs as arrays; times in UTC microseconds, OPEN_US where it has not happened."""

    submit_us: Ints
    start_us: Ints
    end_us: Ints
    raw_start_us: Ints
    raw_end_us: Ints
    runtime_s: Floats
    label: NDArray[np.object_]
    state: NDArray[np.object_]
    gpu_count: Floats
    cpu_count: Floats
    node_count: Floats
    time_limit_s: Floats


def _read_log(jobs: pd.DataFrame) -> _Log:
    submit = _microseconds(jobs["submit_time"])
    start, end = _microseconds(jobs["start_time"]), _microseconds(jobs["end_time"])
    numbers = {name: _numbers(jobs, name) for name in ("gpu_count", "cpu_count", "node_count", "time_limit_s")}
    return _Log(
        submit, np.maximum(start, submit), np.maximum(end, submit), start, end, _numbers(jobs, "runtime_s"),
        jobs["label"].to_numpy(object), jobs["state"].to_numpy(object), **numbers,
    )  # fmt: skip


def _microseconds(times: pd.Series) -> Ints:
    """Return times as UTC microseconds whatever their unit, OPEN_US for null."""
    if not isinstance(times.dtype, pd.DatetimeTZDtype):
        if times.isna().all():
            return np.full(len(times), OPEN_US)
        raise MissingColumns(f"column {times.name!r} is {times.dtype}, expected times with a zone (the lake holds UTC)")
    us = times.dt.as_unit("us").astype("int64").to_numpy()
    return np.where(times.isna().to_numpy(), OPEN_US, us)


def _numbers(jobs: pd.DataFrame, name: str) -> Floats:
    return jobs[name].to_numpy(np.float64, na_value=np.nan)


def _read_texts(jobs: pd.DataFrame) -> tuple[dict[str, Keys], dict[str, Categories]]:
    """Return the hashed text parts (0 for null) and the categories."""
    codes: dict[str, tuple[NDArray[np.int64], list[str]]] = {}
    for column in dict.fromkeys((*CATEGORIES.values(), "array_id")):
        codes[column] = _factorize(jobs[column])
    shapes = {column: _folded(*codes[column]) for column in ("job_name", "work_dir")}
    hashed = {
        "user": _hashed("user", *codes["user"]),
        "name_shape": _hashed("name_shape", *shapes["job_name"]),
        "dir_shape": _hashed("dir_shape", *shapes["work_dir"]),
        "group": _hashed("group", *codes["group"]),
        "queue": _hashed("queue", *codes["queue"]),
        "array": _hashed("array", *codes["array_id"]),
    }
    name = _hashed("name", *codes["job_name"])
    hashed["name"] = np.where(name == 0, _hashed("name", *codes["work_dir"]), name)
    folded = {"name_shape": shapes["job_name"], "dir_shape": shapes["work_dir"]}
    texts = {name: folded.get(name, codes[column]) for name, column in CATEGORIES.items()}
    return hashed, {name: Categories(code.astype(np.int32), tuple(words)) for name, (code, words) in texts.items()}


def _factorize(column: pd.Series) -> tuple[NDArray[np.int64], list[str]]:
    """Return codes and their texts; null and empty are -1."""
    codes, words = pd.factorize(column)
    texts = [str(word) for word in words]
    if "" in texts:
        empty = texts.index("")
        texts.pop(empty)
        codes = np.where(codes == empty, -1, codes - (codes > empty))
    return codes, texts


def _folded(codes: NDArray[np.int64], texts: list[str]) -> tuple[NDArray[np.int64], list[str]]:
    """Return codes and texts with digits folded, in order of first use."""
    place: dict[str, int] = {}
    fold = np.array([place.setdefault(fold_digits(text), len(place)) for text in texts] + [-1], np.int64)
    return fold[codes], list(place)


def _hashed(part: str, codes: NDArray[np.int64], texts: list[str]) -> Keys:
    return np.array([*(hash_text(part, text) for text in texts), 0], np.uint64)[codes]


def _number_parts(log: _Log, hour: Floats) -> dict[str, Keys]:
    kind, size = _size(log)
    of_kind = [
        _hashed_numbers(f"size_{name}", np.where(kind == code, size, np.nan)) for code, name in enumerate(("gpu", "cpu", "node"))
    ]
    return {
        "size": of_kind[0] + of_kind[1] + of_kind[2],  # at most one of them is not 0
        "limit": _hashed_numbers("limit", log.time_limit_s),
        "hour": _hashed_numbers("hour", hour),
    }


def _size(log: _Log) -> tuple[NDArray[np.int8], Floats]:
    """Return what a job's size is counted in (0 GPUs, 1 CPUs, 2 nodes) and the size, NaN where nothing is known."""
    kind = np.where(log.gpu_count > 0, 0, np.where(np.isnan(log.cpu_count), 2, 1)).astype(np.int8)
    return kind, np.choose(kind, [log.gpu_count, log.cpu_count, log.node_count])


def _hashed_numbers(part: str, values: Floats) -> Keys:
    codes, found = pd.factorize(values + 0.0)
    return np.array([*(hash_number(part, float(value)) for value in found), 0], np.uint64)[codes]


def _calendar(submit: pd.Series, clock: str, time_zone: str) -> dict[str, Floats]:
    """Return calendar features as far as the clock carries them, and the local hour that is a part of keys."""
    null = np.full(len(submit), np.nan)
    if clock == "relative":
        return dict.fromkeys(("hour", "hour_of_day", "weekday", "hour_of_week", "month_day", "month"), null)
    local = submit.dt.tz_convert(time_zone).dt
    hour, weekday = local.hour.to_numpy(np.float64), local.day_of_week.to_numpy(np.float64)
    hour_of_day = (hour * 60 + local.minute.to_numpy(np.float64)) / 60
    dated = clock == "calendar"
    return {
        "hour": hour,
        "hour_of_day": hour_of_day,
        "weekday": weekday,
        "hour_of_week": weekday * 24 + hour_of_day,
        "month_day": local.day.to_numpy(np.float64) if dated else null,
        "month": local.month.to_numpy(np.float64) if dated else null,
    }


def _request(jobs: pd.DataFrame, log: _Log) -> dict[str, Floats]:
    memory = _numbers(jobs, "mem_mib")
    kind = jobs["time_limit_kind"]
    return {
        "gpu_count": log.gpu_count,
        "cpu_count": log.cpu_count,
        "mem_mib": memory,
        "node_count": log.node_count,
        "cpus_per_gpu": _over(log.cpu_count, log.gpu_count),
        "mem_mib_per_cpu": _over(memory, log.cpu_count),
        "time_limit_s": log.time_limit_s,
        "is_limit_hard": np.where(kind.isna().to_numpy(), np.nan, (kind == "hard").to_numpy(bool, na_value=False)),
        "priority": _numbers(jobs, "priority"),
        "gpus_per_node": _over(log.gpu_count, log.node_count),
        "cpus_per_node": _over(log.cpu_count, log.node_count),
        "array_task": _numbers(jobs, "array_task"),
    }


def _over(count: Floats, by: Floats) -> Floats:
    """Return count / by, NaN where `by` is not above 0."""
    ratio: Floats = np.divide(count, by, out=np.full(len(count), np.nan), where=by > 0)
    return ratio


def _node_share(log: _Log) -> dict[str, Floats]:
    order = np.argsort(log.submit_us, kind="stable")
    times = log.submit_us[order]
    earlier = np.searchsorted(times, times, "left")
    share = np.full(len(order), np.nan)
    has_gpus = log.gpu_count > 0
    for rows, count in ((has_gpus, log.gpu_count), (~has_gpus, log.cpu_count)):
        figure = np.where(rows, _over(count, log.node_count), np.nan)[order]
        most = np.concatenate([[np.nan], np.fmax.accumulate(figure)])[earlier]
        share[order] = np.where(rows[order], _over(figure, np.nan_to_num(most)), share[order])
    return {"node_share": share}


def _history(log: _Log, parts: dict[str, Keys]) -> Found:
    """Return the features of every level that exists in the table, the nearest block and the load."""
    count = len(log.submit_us)
    sweep = _Sweep(log)
    found: Found = {}
    nearest = _Nearest(count)
    for level in LEVELS:
        code = _codes(level, parts, count)
        if code is None:
            continue
        seen = sweep.ended(level, code, found)
        if level.name in NEAREST:
            nearest.offer(NEAREST.index(level.name), *seen)
        if level.name == "user":
            last, before = found["last_1_s_by_user"].astype(np.float64), found["last_2_s_by_user"].astype(np.float64)
            found["last_two_mean_s_by_user"] = np.where(np.isnan(before), last, (last + before) * 0.5)
        if level.has_rhythm:
            earlier = sweep.submitted(level, code, found)
            if level.has_siblings:
                sweep.running(level, code, earlier, found)
    found |= nearest.features()
    found.setdefault("last_two_mean_s_by_user", np.full(count, np.nan))
    return found


def _codes(level: Level, parts: dict[str, Keys], count: int) -> Ints | None:
    """Return dense codes of the level's keys, -1 where there is none; None where no job has one."""
    key = np.full(count, level.seed, np.uint64)
    null = np.zeros(count, bool)
    for part in level.parts:
        key += parts[part]
        null |= parts[part] == 0
    if null.all():
        return None if count else np.zeros(0, np.int64)
    codes = pd.factorize(key)[0] if level.parts else np.zeros(count, np.int64)
    return np.where(null, -1, codes)


class _Nearest:
    """The most specific level that has an ended run, filled from the most specific down."""

    def __init__(self, count: int) -> None:
        self._level = np.full(count, np.nan)
        self._median, self._spread, self._n = (
            np.full(count, np.nan, np.float32),
            np.full(count, np.nan, np.float32),
            np.zeros(count, np.float32),
        )

    def offer(self, level: int, median: Floats32, spread: Floats32, ring_n: Floats32) -> None:
        take = np.isnan(self._level) & (ring_n > 0)
        self._level[take] = level
        self._median[take], self._spread[take], self._n[take] = median[take], spread[take], ring_n[take]

    def features(self) -> Found:
        return {
            "nearest_median_s": self._median,
            "nearest_n": self._n,
            "nearest_spread_log": self._spread,
            "nearest_level": self._level,
        }


class _Sweep:
    """The events of a log in order of time, asked level by level."""

    def __init__(self, log: _Log) -> None:
        self._log = log
        order = np.argsort(log.submit_us, kind="stable")
        submit = log.submit_us[order]
        self._submitted = _Timeline([(order, submit)])
        self._runtime = log.runtime_s.astype(np.float32)
        self._outcome = outcome_codes(log.label, log.state)
        past = np.flatnonzero((log.raw_end_us != OPEN_US) & (self._runtime > 0))
        self._logs = np.zeros(len(submit), np.int64)
        self._logs[past] = log_units(self._runtime[past])
        past = past[np.lexsort((self._outcome[past], self._runtime[past], log.end_us[past]))]
        self._ended = _Timeline([(order, submit), (past, log.end_us[past])])
        end = np.flatnonzero(log.raw_end_us != OPEN_US)
        end = end[np.argsort(log.end_us[end], kind="stable")]
        start = np.flatnonzero(log.raw_start_us != OPEN_US)
        start = start[np.lexsort((log.end_us[start], log.start_us[start]))]
        self._all = _Timeline([(order, submit), (end, log.end_us[end]), (start, log.start_us[start])])

    def ended(self, level: Level, code: Ints, found: Found) -> tuple[Floats32, Floats32, Floats32]:
        """Add the ended statistics of a level; return what the nearest block needs: median, spread and number of the ring."""
        seen = self._ended.by_key(code)
        is_end = seen.kind == _END
        count = seen.so_far(is_end)
        ends = seen.job[is_end]
        wanted = {"median_7_s", "log_std_7", *(stat for stat in level.stats if stat in ENDED_STATS)}
        stats = after_each_end(count[is_end] - 1, self._runtime[ends], self._logs[ends], self._outcome[ends], wanted)
        place = np.full(len(code), -1)
        place[seen.job[~is_end]] = np.where(count > 0, np.cumsum(is_end), 0)[~is_end]
        for stat in level.stats:
            if stat in ENDED_STATS:
                found[f"{stat}_by_{level.name}"] = stats[stat].take(place)
        if "age_s" in level.stats:
            end = np.concatenate([[0], self._log.end_us[ends], [0]])
            age = (self._log.submit_us - end.take(place)) / US
            found[f"age_s_by_{level.name}"] = np.where(place > 0, age, np.nan)
        return stats["median_7_s"].take(place), stats["log_std_7"].take(place), stats["ring_n"].take(place)

    def submitted(self, level: Level, code: Ints, found: Found) -> Ints:
        """Add the rhythm of a level; return how many of the key were submitted strictly before each job."""
        seen = self._submitted.by_key(code)
        time = self._log.submit_us[seen.job]
        at = np.arange(len(time))
        is_first = np.zeros(len(time), bool)
        is_first[seen.first] = True
        begin = np.maximum.accumulate(np.where(is_first, at, 0))
        instant = np.maximum.accumulate(np.where(is_first | _differs(time), at, 0))
        earlier = instant - begin
        last, second, third = (np.where(earlier >= k, time.take(np.maximum(instant - k, 0)), 0) for k in (1, 2, 3))
        gap_1 = np.where(earlier >= 2, (last - second) / US, np.nan)
        gap_2 = np.where(earlier >= 3, (second - third) / US, np.nan)
        long = np.maximum(gap_1, gap_2)
        is_burst = is_first.copy()
        is_burst[1:] |= time[1:] - time[:-1] > BURST_GAP_US
        burst = np.maximum.accumulate(np.where(is_burst, at, 0))
        reaches = (earlier >= 1) & (time - last <= BURST_GAP_US)
        burst_n = np.where(reaches, instant - burst.take(np.maximum(instant - 1, 0)), 0)
        stats: dict[str, NDArray[np.generic]] = {
            "since_submit_s": np.where(earlier >= 1, (time - last) / US, np.nan),
            "gap_1_s": gap_1,
            "gap_2_s": gap_2,
            "gap_ratio": np.divide(np.minimum(gap_1, gap_2), long, out=np.where(np.isnan(long), np.nan, 1.0), where=long > 0),
            "burst_n": np.minimum(burst_n, RUNS_CAP),
            "submitted_n": np.minimum(earlier, RUNS_CAP),
        }
        for stat in level.stats:
            if stat in stats:
                found[f"{stat}_by_{level.name}"] = _placed(seen.job, stats[stat], len(code))
        count = np.zeros(len(code), np.int64)
        count[seen.job] = earlier
        return count

    def running(self, level: Level, code: Ints, earlier: Ints, found: Found) -> None:
        """Add the siblings that run or wait at each submission; for the level of everything also the load.

        `earlier` counts the key's submissions strictly before each job's.
        """
        log = self._log
        seen = self._all.by_key(code)
        is_start, is_end = seen.kind == _START, seen.kind == _END
        has_run = log.raw_start_us[seen.job] != OPEN_US
        ask = seen.kind == _QUESTION
        asked, start = seen.job[ask], log.start_us[seen.job]
        change = is_start.astype(np.int64) - (is_end & has_run)
        running = seen.so_far(change)[ask]
        left = seen.so_far(is_start | (is_end & ~has_run))[ask]
        waiting = earlier[asked] - left
        now = log.submit_us[asked]
        elapsed = now * running - seen.so_far(np.where(change == 0, 0, start) * change)[ask]
        latest = np.maximum.accumulate(np.where(is_start, np.arange(len(seen.job)), -1))[ask]
        is_known = latest >= np.repeat(seen.first, seen.sizes)[ask]
        job = seen.job.take(np.maximum(latest, 0))
        stats: dict[str, NDArray[np.generic]] = {
            "running_n": running,
            "waiting_n": waiting,
            "running_mean_s": np.divide(elapsed, running * US, out=np.full(len(now), np.nan), where=running > 0),
            "running_latest_s": np.where(is_known & (log.end_us[job] >= now), (now - log.start_us[job]) / US, np.nan),
        }
        for stat in level.stats:
            if stat in stats:
                found[f"{stat}_by_{level.name}"] = _placed(asked, stats[stat], len(code))
        if level.name == "everything":
            for name, count in (("gpus", log.gpu_count), ("cpus", log.cpu_count)):
                units = np.rint(np.nan_to_num(count) * RESOURCE_UNITS).astype(np.int64)
                of_job = units[seen.job]
                submitted = np.zeros(len(code), np.int64)
                asking = np.concatenate([[0], np.cumsum(of_job[ask])])
                submitted[asked] = asking[earlier[asked]]
                found[f"running_{name}"] = _placed(asked, seen.so_far(change * of_job)[ask] / RESOURCE_UNITS, len(code))
                gone = seen.so_far(np.where(is_start | (is_end & ~has_run), of_job, 0))[ask]
                found[f"waiting_{name}"] = _placed(asked, (submitted[asked] - gone) / RESOURCE_UNITS, len(code))


@dataclass(frozen=True)
class _Seen:
    """Events sorted by (key, time): the job and kind of each, where each key begins, and how many events it has."""

    job: Ints
    kind: NDArray[np.int8]
    first: Ints
    sizes: Ints

    def so_far(self, amount: NDArray[np.generic]) -> Ints:
        """Return the sum of `amount` over the key's events up to and with each, modulo 2**64."""
        total = np.cumsum(amount, dtype=np.int64)
        return total - np.repeat(total[self.first] - np.asarray(amount)[self.first].astype(np.int64), self.sizes)


class _Timeline:
    """Events of several kinds in one order of time; at one instant the kinds keep the order they were given in."""

    def __init__(self, kinds: list[tuple[Ints, Ints]]) -> None:
        """Take, for each kind, jobs and their times, sorted by time."""
        length = sum(len(jobs) for jobs, _ in kinds)
        self._job = np.empty(length, np.int64)
        self._kind = np.empty(length, np.int8)
        for kind, (jobs, times) in enumerate(kinds):
            place = np.arange(len(jobs))
            for other, (_, theirs) in enumerate(kinds):
                if other != kind:
                    place += np.searchsorted(theirs, times, "right" if other < kind else "left")
            self._job[place], self._kind[place] = jobs, kind

    def by_key(self, code: Ints) -> _Seen:
        """Return the events of jobs with a key (code >= 0), sorted by it and then by time."""
        length = max(len(self._job), 1)
        key = code[self._job]
        composite = key * length + np.arange(len(key))
        if len(key) and key.min() < 0:
            composite = composite[key >= 0]
        composite.sort()
        key = composite // length
        place = composite - key * length
        first = np.flatnonzero(_differs(key))
        return _Seen(self._job[place], self._kind[place], first, np.diff(np.append(first, len(key))))


def _differs(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return where a value differs from the one before it; the first does."""
    differs = np.ones(len(values), bool)
    differs[1:] = values[1:] != values[:-1]
    return differs


def _placed(job: Ints, values: NDArray[np.generic], count: int) -> Floats32:
    """Return the values at their jobs, NaN for jobs that have none."""
    column = np.full(count, np.nan, np.float32)
    column[job] = values
    return column
