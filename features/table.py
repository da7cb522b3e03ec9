"""The table face: features of every job of a log at once, each from what was known strictly before its submission.

This module reads the canonical columns into arrays and keys; sweep.py walks each level's keys in order of time. A job cannot start
or end before it was submitted: such times count as the submission's.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from runcast.features.catalog import CATEGORIES, COLUMNS_READ, NAMES, OWN_COUNT
from runcast.features.errors import MissingColumns
from runcast.features.history import Floats, outcome_codes
from runcast.features.levels import LEVELS, NEAREST, Level, fold_digits, hash_number, hash_text
from runcast.features.matrix import OPEN_US, Categories, Ended, Matrix
from runcast.features.sweep import Columns, Jobs, Sweep
from runcast.features.timeline import Ints

Keys = NDArray[np.uint64]


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
    parts |= _number_parts(log, calendar.pop("hour"))
    own = calendar | _request(jobs, log) | _node_share(log)
    existing = [level for level in LEVELS if _exists(level, parts)]
    names = (*NAMES[:OWN_COUNT], *(f"{stat}_by_{level.name}" for level in existing for stat in level.stats))
    values = np.empty((len(jobs), len(names)), np.float32, order="F")
    columns = {name: values[:, at] for at, name in enumerate(names)}
    for name, column in own.items():
        columns[name][:] = column
    _write_history(log, existing, parts, columns)
    ended = Ended(log.start_us, log.end_us, log.runtime_s, log.label, log.state)
    return Matrix(names, values, categories, jobs["job_key"].to_numpy(object), log.submit_us, ended)


@dataclass(frozen=True)
class _Log:
    """The jobs as arrays; times in UTC microseconds, OPEN_US where it has not happened."""

    submit_us: Ints
    start_us: Ints
    end_us: Ints
    runtime_s: Floats
    label: NDArray[np.object_]
    state: NDArray[np.object_]
    gpu_count: Floats
    cpu_count: Floats
    node_count: Floats
    time_limit_s: Floats


def _read_log(jobs: pd.DataFrame) -> _Log:
    submit = _microseconds(jobs["submit_time"])
    numbers = {name: _numbers(jobs, name) for name in ("gpu_count", "cpu_count", "node_count", "time_limit_s")}
    start, end = _microseconds(jobs["start_time"]), _microseconds(jobs["end_time"])
    label, state = jobs["label"].to_numpy(object), jobs["state"].to_numpy(object)
    return _Log(submit, start, end, _numbers(jobs, "runtime_s"), label, state, **numbers)


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


def _exists(level: Level, parts: dict[str, Keys]) -> bool:
    """Return whether any job has a key at this level."""
    return not level.parts or bool(np.logical_and.reduce([parts[part] != 0 for part in level.parts]).any())


def _write_history(log: _Log, levels: list[Level], parts: dict[str, Keys], columns: Columns) -> None:
    """Write the features of the levels, the nearest block, the last two and the load."""
    submit = log.submit_us
    outcome = outcome_codes(log.label, log.state)
    start, end = np.maximum(log.start_us, submit), np.maximum(log.end_us, submit)
    sweep = Sweep(Jobs(submit, start, end, log.runtime_s, outcome, log.gpu_count, log.cpu_count))
    nearest = [columns[name] for name in ("nearest_level", "nearest_median_s", "nearest_spread_log", "nearest_n")]
    for column, none in zip(nearest, (np.nan, np.nan, np.nan, 0), strict=True):
        column[:] = none
    for level in levels:
        code = _codes(level, parts, len(submit))
        ring = sweep.ended(level, code, columns)
        if level.name in NEAREST:
            take = np.flatnonzero(np.isnan(nearest[0]) & (ring.n > 0))
            for column, values in zip(nearest[1:], (ring.median_s, ring.spread_log, ring.n), strict=True):
                column[take] = values[take]
            nearest[0][take] = NEAREST.index(level.name)
        if level.has_rhythm:
            earlier = sweep.submitted(level, code, columns)
            if level.has_siblings:
                sweep.running(level, code, earlier, columns)
    columns["last_two_mean_s_by_user"][:] = np.nan
    if "last_1_s_by_user" in columns:
        last, before = columns["last_1_s_by_user"].astype(np.float64), columns["last_2_s_by_user"].astype(np.float64)
        columns["last_two_mean_s_by_user"][:] = np.where(np.isnan(before), last, (last + before) * 0.5)


def _codes(level: Level, parts: dict[str, Keys], count: int) -> Ints:
    """Return dense codes of the level's keys, -1 where there is none."""
    if not level.parts:
        return np.zeros(count, np.int64)
    key = np.full(count, level.seed, np.uint64)
    null = np.zeros(count, bool)
    for part in level.parts:
        key += parts[part]
        null |= parts[part] == 0
    codes: Ints = pd.factorize(key)[0]
    if null.any():
        codes = np.where(null, -1, codes)
    return codes
