"""A table of canonical jobs as arrays: times, numbers, and the hashed parts that keys are made of."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from runcast.data.states import OPEN_STATES, OTHER
from runcast.features.catalog import CATEGORIES, COLUMNS_READ
from runcast.features.errors import MissingColumns
from runcast.features.history import Floats, outcome_codes
from runcast.features.levels import Level, fold_digits, hash_number, hash_text
from runcast.features.matrix import OPEN_US, Categories
from runcast.features.runaways import all_run_at_most_us
from runcast.features.sweep import Jobs
from runcast.features.timeline import Ints

Keys = NDArray[np.uint64]
HashTexts = Callable[[str, list[str]], Keys]

_OPEN = sorted(OPEN_STATES)


def check_columns(jobs: pd.DataFrame) -> None:
    """Raise MissingColumns where the table lacks a canonical column that features read."""
    missing = [name for name in COLUMNS_READ if name not in jobs.columns]
    if missing:
        raise MissingColumns(f"the table of jobs lacks {', '.join(missing)}; features read {len(COLUMNS_READ)} canonical columns")


@dataclass(frozen=True)
class Log:
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
    is_limit_hard: NDArray[np.bool_]

    def clamped(self) -> Jobs:
        """Return what the sweep reads: no job starts or ends before it was submitted."""
        submit, outcome = self.submit_us, outcome_codes(self.label, self.state)
        start, end = np.maximum(self.start_us, submit), np.maximum(self.end_us, submit)
        runaway = np.where(start == OPEN_US, 0, start) + all_run_at_most_us(self.time_limit_s, self.is_limit_hard)
        runaway = np.where(start == OPEN_US, OPEN_US, runaway)
        return Jobs(submit, start, end, runaway, self.runtime_s, outcome, self.gpu_count, self.cpu_count, self.time_limit_s)


def read_log(jobs: pd.DataFrame) -> Log:
    """Return the jobs as arrays.

    An end beside a state that is not an end is a forecast and is not read. A job that is over though nobody says since when (SWF
    has such: cancelled before they started) counts as over from its submission.
    """
    submit = _microseconds(jobs["submit_time"])
    numbers = {name: read_numbers(jobs, name) for name in ("gpu_count", "cpu_count", "node_count", "time_limit_s")}
    start, end = _microseconds(jobs["start_time"]), _microseconds(jobs["end_time"])
    label, state = jobs["label"].to_numpy(object), jobs["state"].to_numpy(object)
    end = np.where(jobs["state"].isin(_OPEN).to_numpy(bool), OPEN_US, end)
    is_over = ~jobs["state"].isin([*_OPEN, OTHER]).to_numpy(bool)
    end = np.where(is_over & (end == OPEN_US), submit, end)
    is_hard = (jobs["time_limit_kind"] == "hard").to_numpy(bool, na_value=False)
    return Log(submit, start, end, read_numbers(jobs, "runtime_s"), label, state, **numbers, is_limit_hard=is_hard)


def _microseconds(times: pd.Series) -> Ints:
    """Return times as UTC microseconds whatever their unit, OPEN_US for null."""
    if not isinstance(times.dtype, pd.DatetimeTZDtype):
        if times.isna().all():
            return np.full(len(times), OPEN_US)
        raise MissingColumns(f"column {times.name!r} is {times.dtype}, expected times with a zone (the lake holds UTC)")
    us = times.dt.as_unit("us").astype("int64").to_numpy()
    return np.where(times.isna().to_numpy(), OPEN_US, us)


def read_numbers(jobs: pd.DataFrame, name: str) -> Floats:
    return jobs[name].to_numpy(np.float64, na_value=np.nan)


def read_texts(jobs: pd.DataFrame, hash_texts: HashTexts) -> tuple[dict[str, Keys], dict[str, Categories]]:
    """Return the hashed text parts (0 for null) and the categories.

    `hash_texts` is `stable_hashes` where keys are to meet those of another process, else `quick_hashes`.
    """
    codes: dict[str, tuple[NDArray[np.int64], list[str]]] = {}
    for column in dict.fromkeys((*CATEGORIES.values(), "array_id")):
        codes[column] = _factorize(jobs[column])
    shapes = {column: _folded(*codes[column]) for column in ("job_name", "work_dir")}

    def hashed(part: str, codes: NDArray[np.int64], texts: list[str]) -> Keys:
        return np.append(hash_texts(part, texts), np.uint64(0)).take(codes, mode="wrap")

    place = hashed("name", *codes["work_dir"])
    parts = {
        "user": hashed("user", *codes["user"]),
        "name": np.where(place == 0, hashed("only_name", *codes["job_name"]), place),
        "job_name": np.where(place == 0, 0, hashed("job_name", *codes["job_name"])),
        "name_shape": hashed("name_shape", *shapes["job_name"]),
        "dir_shape": hashed("dir_shape", *shapes["work_dir"]),
        "group": hashed("group", *codes["group"]),
        "queue": hashed("queue", *codes["queue"]),
        "array": hashed("array", *codes["array_id"]),
    }
    folded = {"name_shape": shapes["job_name"], "dir_shape": shapes["work_dir"]}
    texts = {name: folded.get(name, codes[column]) for name, column in CATEGORIES.items()}
    return parts, {name: Categories(code.astype(np.int32), tuple(words)) for name, (code, words) in texts.items()}


def stable_hashes(part: str, texts: list[str]) -> Keys:
    """Return the hashes that a job of another process has too."""
    return np.array([hash_text(part, text) for text in texts], np.uint64)


def quick_hashes(part: str, texts: list[str]) -> Keys:
    """Return hashes of this table alone: of the places of the texts, not of their letters (splitmix64)."""
    mixed = np.arange(1, len(texts) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(hash_text("part", part))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return np.maximum(mixed ^ (mixed >> np.uint64(31)), np.uint64(1))


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


def number_parts(log: Log, hour: Floats) -> dict[str, Keys]:
    kind, size = _size(log)
    of_kind = [
        _hashed_numbers(f"size_{name}", np.where(kind == code, size, np.nan)) for code, name in enumerate(("gpu", "cpu", "node"))
    ]
    return {
        "size": of_kind[0] + of_kind[1] + of_kind[2],  # at most one of them is not 0
        "limit": _hashed_numbers("limit", log.time_limit_s),
        "hour": _hashed_numbers("hour", hour),
    }


def _size(log: Log) -> tuple[NDArray[np.int8], Floats]:
    """Return what a job's size is counted in (0 GPUs, 1 CPUs, 2 nodes) and the size, NaN where nothing is known."""
    kind = np.where(log.gpu_count > 0, 0, np.where(np.isnan(log.cpu_count), 2, 1)).astype(np.int8)
    return kind, np.choose(kind, [log.gpu_count, log.cpu_count, log.node_count])


def _hashed_numbers(part: str, values: Floats) -> Keys:
    codes, found = pd.factorize(values + 0.0)
    return np.array([*(hash_number(part, float(value)) for value in found), 0], np.uint64)[codes]


def read_calendar(submit: pd.Series, clock: str, time_zone: str) -> dict[str, Floats]:
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


def level_keys(level: Level, parts: dict[str, Keys]) -> tuple[Keys, NDArray[np.bool_]]:
    """Return each job's key at a level of at least one part, and where it has none."""
    key = np.zeros_like(parts["user"]) + np.uint64(level.seed)
    null = np.zeros(len(key), bool)
    for part in level.parts:
        key += parts[part]
        null |= parts[part] == 0
    return key, null
