"""The table face: features of every job of a log at once, each from what was known strictly before its submission.

This module reads the canonical columns into arrays and keys; sweep.py walks each level's keys in order of time. A job cannot
start or end before it was submitted: such times count as the submission's.
"""

import numpy as np
import pandas as pd

from runcast.features.catalog import NAMES, OWN_COUNT, SLOT_COUNT
from runcast.features.history import Floats
from runcast.features.levels import LEVELS, NEAREST, Level
from runcast.features.matrix import Ended, Matrix
from runcast.features.reading import (
    Keys,
    Log,
    check_columns,
    level_keys,
    number_parts,
    quick_hashes,
    read_calendar,
    read_log,
    read_numbers,
    read_texts,
)
from runcast.features.sweep import Columns, Sweep
from runcast.features.timeline import Ints


def build(jobs: pd.DataFrame, clock: str, time_zone: str) -> Matrix:
    """Return the features of each row of `jobs`, in the same order; open jobs have features too.

    `jobs` holds the canonical columns (COLUMNS_READ at least); `clock` says what calendar features are worth: calendar, week or
    relative. Raises MissingColumns.
    """
    check_columns(jobs)
    _keep_freed_memory()
    log = read_log(jobs)
    parts, categories = read_texts(jobs, quick_hashes)
    calendar = read_calendar(jobs["submit_time"], clock, time_zone)
    parts |= number_parts(log, calendar.pop("hour"))
    own = calendar | _request(jobs, log) | _node_share(log)
    existing = [level for level in LEVELS if _exists(level, parts)]
    names = (*NAMES[: OWN_COUNT + SLOT_COUNT], *(f"{stat}_by_{level.name}" for level in existing for stat in level.stats))
    values = np.empty((len(jobs), len(names)), np.float32, order="F")
    columns = {name: values[:, at] for at, name in enumerate(names)}
    for name, column in own.items():
        columns[name][:] = column
    _write_history(log, existing, parts, columns)
    ended = Ended(log.start_us, log.end_us, log.runtime_s, log.label, log.state)
    return Matrix(names, values, categories, jobs["job_key"].to_numpy(object), log.submit_us, ended)


def _keep_freed_memory() -> None:
    """Let glibc keep freed arrays of up to 32 MiB for the next ones, as it does once it has seen one of nearly that size freed.

    Else it hands most temporary arrays back to the system, and touching new pages takes a fifth of the time of a build.
    """
    np.empty(2**25 - 2**16, np.uint8)


def _request(jobs: pd.DataFrame, log: Log) -> dict[str, Floats]:
    memory = read_numbers(jobs, "mem_mib")
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
        "priority": read_numbers(jobs, "priority"),
        "gpus_per_node": _over(log.gpu_count, log.node_count),
        "cpus_per_node": _over(log.cpu_count, log.node_count),
        "array_task": read_numbers(jobs, "array_task"),
    }


def _over(count: Floats, by: Floats) -> Floats:
    """Return count / by, NaN where `by` is not above 0."""
    ratio: Floats = np.divide(count, by, out=np.full(len(count), np.nan), where=by > 0)
    return ratio


def _node_share(log: Log) -> dict[str, Floats]:
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


def _write_history(log: Log, levels: list[Level], parts: dict[str, Keys], columns: Columns) -> None:
    """Write the features of the levels, the nearest block, the last two and the load."""
    sweep = Sweep(log.clamped(), columns)
    nearest = [columns[name] for name in ("nearest_level", "nearest_median_s", "nearest_spread_log", "nearest_n")]
    for column, none in zip(nearest, (np.nan, np.nan, np.nan, 0), strict=True):
        column[:] = none
    for level in levels:
        code = _codes(level, parts, len(log.submit_us))
        ring, rows, asked = sweep.ended(level, code)
        if level.name in NEAREST:
            take = np.flatnonzero(np.isnan(nearest[0]) & (ring.n > 0))
            for column, values in zip(nearest[1:], (ring.median_s, ring.spread_log, ring.n), strict=True):
                column[take] = values[take]
            nearest[0][take] = NEAREST.index(level.name)
        if level.stats:
            earlier = sweep.submitted(level, asked, rows)
            if level.has_siblings:
                sweep.running(level, code, earlier, rows)
    columns["last_two_mean_s_by_user"][:] = np.nan
    if "last_1_s_by_user" in columns:
        last, before = columns["last_1_s_by_user"].astype(np.float64), columns["last_2_s_by_user"].astype(np.float64)
        columns["last_two_mean_s_by_user"][:] = np.where(np.isnan(before), last, (last + before) * 0.5)


def _codes(level: Level, parts: dict[str, Keys], count: int) -> Ints:
    """Return dense codes of the level's keys, -1 where there is none."""
    if not level.parts:
        return np.zeros(count, np.int64)
    key, null = level_keys(level, parts)
    codes: Ints = pd.factorize(key)[0]
    if null.any():
        codes = np.where(null, -1, codes)
    return codes
