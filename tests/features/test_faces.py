"""Every feature against an oracle written independently: plain Python, one job at a time, every other job looked at.

The logs are small and nasty: many ties, nulls, zero runtimes, jobs that never started, open jobs, bursts, rows in any order.
"""

import math
import re
import statistics
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runcast.features.bulk import state_of
from runcast.features.catalog import COLUMNS_READ, FEATURES, NAMES
from runcast.features.levels import LEVELS, NEAREST, SIBLING_STATS, SLOT_LEVELS, SLOT_STATS, SLOTS
from runcast.features.matrix import Matrix
from runcast.features.state import State
from runcast.features.table import build

ZONE = "America/New_York"
ORIGIN = 1_509_858_000  # 2017-11-05 01:00 in New York, an hour that comes twice
Row = dict[str, Any]

_ENDINGS = (
    ("COMPLETED", "event"),
    ("FAILED", "event"),
    ("OUT_OF_MEMORY", "event"),
    ("TIMEOUT", "censored"),
    ("CANCELLED", "censored"),
)


@st.composite
def _row(draw: st.DrawFn) -> Row:
    choice = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    submit = ORIGIN + choice(1, 30, 3600, 30_000, 8_000_000) * draw(st.integers(0, 12)) + choice(0, 0, 0.5)
    row: Row = {
        "user": choice("ann", "bob", None),
        "group": choice("g", "h", None),
        "account": choice("acc", None),
        "queue": choice("q", "long", None),
        "qos": None,
        "job_name": choice("run_1", "run_2", "eval", None),
        "work_dir": choice("/d/1", "/d/2", None),
        "array_id": choice("7", "8", None, None),
        "array_task": choice(0.0, 3.0, None),
        "gpu_count": choice(0.0, 1.0, 0.5, 8.0, None),
        "gpu_model": choice("a100", None),
        "cpu_count": choice(4.0, 0.0, None),
        "mem_mib": choice(1000.0, None),
        "node_count": choice(1.0, 2.0, 0.0, None),
        "time_limit_s": choice(60.0, 3600.0, None),
        "time_limit_kind": choice("hard", "advisory", "absent", "unlimited"),
        "priority": choice(1.5, None),
        "task_role": None,
        "framework": choice("torch", None),
        "submit_time": submit,
        "start_time": None,
        "end_time": None,
        "state": "PENDING",
        "label": "excluded",
        "runtime_s": None,
    }
    kind = choice("ended", "ended", "ended", "ended", "running", "forecast", "pending", "never_started", "gone")
    if kind in ("ended", "running", "forecast"):
        row["start_time"] = submit + choice(0, 0, 1, 30, 4000)
        row |= {"state": "RUNNING", "label": "censored"}
    if kind == "ended":
        run = choice(0, 1, 2.5, 7, 30, 100, 3600, 90_000)
        row["end_time"] = row["start_time"] + run
        row["state"], row["label"] = draw(st.sampled_from(_ENDINGS))
        row["runtime_s"] = float(run)
    if kind == "forecast":  # Slurm's end of a running job: start + limit
        row["end_time"] = row["start_time"] + 60
    if kind == "gone":  # SWF's cancelled before the start: nobody says when
        row["state"] = "CANCELLED"
    if kind == "never_started":
        row["end_time"] = submit + choice(0, 1, 30)
        row["state"] = "CANCELLED"
    return row


LOGS = st.lists(_row(), min_size=1, max_size=14)
slowly = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def as_table(rows: list[Row]) -> pd.DataFrame:
    """The rows as the lake gives them."""
    table = pd.DataFrame({name: [row.get(name) for row in rows] for name in COLUMNS_READ})
    table["job_key"] = [f"x/{row.get('job_key', at)}" for at, row in enumerate(rows)]
    for name in ("submit_time", "start_time", "end_time"):
        us = [None if row[name] is None else round(row[name] * 1_000_000) for row in rows]
        table[name] = pd.to_datetime(pd.Series(us, dtype="Int64"), unit="us", utc=True).dt.as_unit("us")
    for name in ("gpu_count", "cpu_count", "mem_mib", "node_count", "time_limit_s", "priority", "array_task", "runtime_s"):
        table[name] = table[name].astype("float64")
    texts = [name for name in table.columns if not (name.endswith("_time") or table[name].dtype == "float64")]
    return table.astype(dict.fromkeys(texts, "str"))


# The oracle


def _size(row: Row) -> tuple[str, float] | None:
    if row["gpu_count"]:
        return "gpu", row["gpu_count"]
    if row["cpu_count"] is not None:
        return "cpu", row["cpu_count"]
    return None if row["node_count"] is None else ("node", row["node_count"])


def _shape(text: str | None) -> str | None:
    return None if text is None else re.sub("[0-9]+", "#", text)


def _local(row: Row) -> datetime:
    return datetime.fromtimestamp(math.floor(row["submit_time"]), tz=UTC).astimezone(ZoneInfo(ZONE))


def _part(row: Row, part: str, clock: str) -> Any:
    return {
        "user": row["user"],
        "name": row["job_name"] if row["work_dir"] is None else row["work_dir"],
        "job_name": None if row["work_dir"] is None else row["job_name"],
        "name_shape": _shape(row["job_name"]),
        "dir_shape": _shape(row["work_dir"]),
        "group": row["group"],
        "queue": row["queue"],
        "array": row["array_id"],
        "size": _size(row),
        "limit": row["time_limit_s"],
        "hour": None if clock == "relative" else _local(row).hour,
    }[part]


def _key(row: Row, parts: tuple[str, ...], clock: str) -> tuple[Any, ...] | None:
    key = tuple(_part(row, part, clock) for part in parts)
    return None if None in key else key


def _started(row: Row, now: float) -> bool:
    return row["start_time"] is not None and row["start_time"] < now


def _ended(row: Row, now: float) -> bool:
    end = _end(row)
    return end is not None and end < now


def _end(row: Row) -> float | None:
    """When the job was over; the ends of running jobs are forecasts, and who is over without an end is so from the submission."""
    if row["state"] in ("RUNNING", "PENDING"):
        return None
    return row["submit_time"] if row["end_time"] is None else row["end_time"]


def _outcome(row: Row) -> int:
    return 2 if row["label"] == "censored" else 0 if row["state"] == "COMPLETED" else 1


def _past(alike: list[Row], now: float) -> list[Row]:
    """Ended runs of a key, latest first."""
    past = [row for row in alike if _ended(row, now) and (row["runtime_s"] or 0) > 0]
    return sorted(past, key=lambda row: (row["end_time"], row["runtime_s"], _outcome(row)), reverse=True)


def _log_std(runs: list[Row]) -> float:
    return statistics.pstdev([math.log(run["runtime_s"]) for run in runs])


def _history(alike: list[Row], now: float) -> dict[str, float]:
    past = _past(alike, now)
    found: dict[str, float] = {"runs": min(len(past), 64)}
    for at, run in enumerate(past[:7]):
        found[f"last_{at + 1}_s"] = run["runtime_s"]
    if past:
        ring = past[:7]
        seconds = [run["runtime_s"] for run in ring]
        found |= {"median_7_s": statistics.median(seconds), "log_std_7": _log_std(ring), "log_std": _log_std(past)}
        found["log_mean"] = statistics.fmean(math.log(run["runtime_s"]) for run in past)
        found["log_mean_7"] = statistics.fmean(math.log(run["runtime_s"]) for run in ring)
        near = [sum(0.75 * other <= one <= 1.25 * other for other in seconds) for one in seconds]
        found |= {"mode_7_s": seconds[near.index(max(near))], "mode_share_7": max(near) / len(ring)}
        found["failed_share_7"] = sum(_outcome(run) == 1 for run in ring) / len(ring)
        found["last_outcome"] = _outcome(past[0])
        if past[0]["time_limit_s"]:
            found["last_limit_share"] = past[0]["runtime_s"] / past[0]["time_limit_s"]
        fresh = max(past, key=lambda row: (row["submit_time"], row["end_time"], row["runtime_s"], _outcome(row)))
        found |= {"fresh_s": fresh["runtime_s"], "fresh_age_s": now - fresh["submit_time"]}
        found["age_s"] = now - past[0]["end_time"]
    return found


def _rhythm(alike: list[Row], now: float) -> dict[str, float]:
    times = sorted((row["submit_time"] for row in alike if row["submit_time"] < now), reverse=True)
    found: dict[str, float] = {"submitted_n": min(len(times), 64), "burst_n": 0}
    if times:
        found["since_submit_s"] = now - times[0]
        for later, earlier in zip([now, *times], times, strict=False):
            if later - earlier > 60:
                break
            found["burst_n"] += 1
    if len(times) > 1:
        found["gap_s"] = times[0] - times[1]
    if len(times) > 2:
        found["since_third_s"] = now - times[2]
        long, short = max(found["gap_s"], times[1] - times[2]), min(found["gap_s"], times[1] - times[2])
        found["gap_ratio"] = short / long if long else 1.0
    return found


def _is_runaway(row: Row, now: float) -> bool:
    """Whether a job, without an end, has outlived twice its hard limit and a day; where no hard limit ends it, a leap year."""
    is_hard = row["time_limit_kind"] == "hard" and row["time_limit_s"] is not None
    return row["start_time"] + (2 * row["time_limit_s"] + 86_400 if is_hard else 366 * 86_400) < now


def _runs(row: Row, now: float) -> bool:
    return row["submit_time"] < now and _started(row, now) and not _ended(row, now) and not _is_runaway(row, now)


def _siblings(alike: list[Row], now: float) -> dict[str, float]:
    running = [row for row in alike if _runs(row, now)]
    waiting = [row for row in alike if row["submit_time"] < now and not _started(row, now) and not _ended(row, now)]
    found: dict[str, float] = {"running_n": len(running), "waiting_n": len(waiting)}
    if running:
        found["running_mean_s"] = statistics.fmean(now - row["start_time"] for row in running)
    starts = [row["start_time"] for row in alike if _started(row, now)]
    if starts and any(row["start_time"] == max(starts) for row in running):
        found["running_latest_s"] = now - max(starts)
    return found


def _nearest(log: list[Row], job: Row, clock: str) -> dict[str, float]:
    parts = {level.name: level.parts for level in LEVELS}
    for at, name in enumerate(NEAREST):
        key = _key(job, parts[name], clock)
        ring = [] if key is None else _past([row for row in log if _key(row, parts[name], clock) == key], job["submit_time"])[:7]
        if ring:
            median = statistics.median(run["runtime_s"] for run in ring)
            return {"nearest_median_s": median, "nearest_n": len(ring), "nearest_spread_log": _log_std(ring), "nearest_level": at}
    return {"nearest_n": 0}


def _over(count: float | None, by: float | None) -> float | None:
    return count / by if count is not None and by is not None and by > 0 else None


def _node_share(log: list[Row], job: Row) -> float | None:
    def figure(row: Row) -> tuple[str, float] | None:
        kind = "gpu_count" if row["gpu_count"] else "cpu_count"
        value = _over(row[kind], row["node_count"])
        return None if value is None else (kind, value)

    own = figure(job)
    others = [figure(row) for row in log if row["submit_time"] < job["submit_time"]]
    most = max((other[1] for other in others if own and other and other[0] == own[0]), default=0)
    return own[1] / most if own and most > 0 else None


def oracle(log: list[Row], job: Row, clock: str) -> dict[str, float]:
    """Every feature of one job; what is not in the answer is null."""
    now = job["submit_time"]
    own: dict[str, float | None] = {
        name: job[name] for name in ("gpu_count", "cpu_count", "mem_mib", "node_count", "time_limit_s", "priority")
    }
    own["array_task"] = job["array_task"]
    if clock != "relative":
        local = _local(job)
        own |= {"hour_of_day": local.hour + local.minute / 60, "weekday": local.weekday()}
        own["hour_of_week"] = local.weekday() * 24 + local.hour + local.minute / 60
        if clock == "calendar":
            own |= {"month_day": local.day, "month": local.month}
    own["is_limit_hard"] = float(job["time_limit_kind"] == "hard")
    own |= {"cpus_per_gpu": _over(job["cpu_count"], job["gpu_count"]), "mem_mib_per_cpu": _over(job["mem_mib"], job["cpu_count"])}
    own |= {
        "gpus_per_node": _over(job["gpu_count"], job["node_count"]),
        "cpus_per_node": _over(job["cpu_count"], job["node_count"]),
    }
    own["node_share"] = _node_share(log, job)
    before = [row for row in log if row["submit_time"] < now and not _ended(row, now)]
    for name, column in (("gpus", "gpu_count"), ("cpus", "cpu_count")):
        own[f"running_{name}"] = sum(row[column] or 0 for row in before if _runs(row, now))
        own[f"waiting_{name}"] = sum(row[column] or 0 for row in before if not _started(row, now))
    own |= _nearest(log, job, clock)
    users = [row for row in log if row["user"] == job["user"] and job["user"] is not None]
    last_two = [run["runtime_s"] for run in _past(users, now)[:2]]
    own["last_two_mean_s_by_user"] = statistics.fmean(last_two) if last_two else None
    slots, most = list(SLOTS), 0
    for at, level in enumerate(LEVELS):
        key = _key(job, level.parts, clock)
        if key is None:
            continue
        alike = [row for row in log if _key(row, level.parts, clock) == key]
        stats = _history(alike, now) | _rhythm(alike, now)
        if set(SIBLING_STATS) & set(level.stats):
            stats |= _siblings(alike, now)
        own |= {f"{stat}_by_{level.name}": value for stat, value in stats.items() if stat in level.stats}
        if level.name in SLOT_LEVELS and slots and len(_past(alike, now)) > most:
            slot, most = slots.pop(0), len(_past(alike, now))
            own[f"level_of_{slot}"] = at
            own |= {f"{stat}_by_{slot}": value for stat, value in stats.items() if stat in SLOT_STATS}
    return {name: value for name, value in own.items() if value is not None}


# The tests


def everything(matrix: Matrix) -> np.ndarray:
    """All features of the catalog, those left out as NaN."""
    return matrix.select(NAMES).values


def tolerance(name: str) -> float:
    """Logs are summed in units of 1/16384; all else is right to a float32."""
    return 2e-4 if "log" in name else 0


@pytest.mark.parametrize("clock", ["calendar", "week", "relative"])
@given(log=LOGS)
@slowly
def test_table_equals_the_naive_oracle(log: list[Row], clock: str) -> None:
    values = everything(build(as_table(log), clock, ZONE))
    for at, job in enumerate(log):
        right = oracle(log, job, clock)
        for column, name in enumerate(NAMES):
            wanted = right.get(name, math.nan)
            assert values[at, column] == pytest.approx(wanted, rel=3e-7, abs=tolerance(name), nan_ok=True), (name, at)


@given(log=LOGS, cut=st.integers(0, 14))
@slowly
def test_what_happens_later_changes_no_earlier_feature(log: list[Row], cut: int) -> None:
    """Jobs that end at or after T are turned open, and those submitted after T deleted."""
    times = sorted(row["submit_time"] for row in log)
    now = times[min(cut, len(times) - 1)]
    seen = []
    for row in log:
        if row["submit_time"] > now:
            continue
        late = dict(row)
        if not _ended(row, now):
            late |= {"end_time": None, "runtime_s": None, "state": "RUNNING", "label": "censored"}
        if not _started(row, now):
            late |= {"start_time": None}
            late["state"] = late["state"] if late["state"] == "CANCELLED" else "PENDING"
        seen.append(late)
    asked = np.array([row["submit_time"] <= now for row in log])
    full = everything(build(as_table(log), "calendar", ZONE))[asked]
    np.testing.assert_array_equal(full, everything(build(as_table(seen), "calendar", ZONE)))


@given(log=LOGS, seed=st.integers(0, 9))
@slowly
def test_order_of_rows_does_not_matter(log: list[Row], seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(log))
    straight = build(as_table(log), "calendar", ZONE)
    shuffled = build(as_table([log[at] for at in order]), "calendar", ZONE)
    assert straight.names == shuffled.names
    np.testing.assert_array_equal(straight.values[order], shuffled.values)


@given(log=LOGS, shift=st.sampled_from([7, 86_400, 40_000_000]))
@slowly
def test_only_calendar_features_move_with_the_clock(log: list[Row], shift: int) -> None:
    times = ("submit_time", "start_time", "end_time")
    later = [row | {name: None if row[name] is None else row[name] + shift for name in times} for row in log]
    calendar = {feature.name for feature in FEATURES if feature.family in ("submission", "date")}
    still = [at for at, name in enumerate(NAMES) if name not in calendar and not name.endswith("_by_user_hour")]
    here, there = everything(build(as_table(log), "calendar", ZONE)), everything(build(as_table(later), "calendar", ZONE))
    np.testing.assert_array_equal(here[:, still], there[:, still])


def as_jobs(rows: list[Row]) -> list[Row]:
    """The rows as a scheduler gives them: times in microseconds."""
    times = ("submit_time", "start_time", "end_time")
    us = [{name: None if row[name] is None else round(row[name] * 1_000_000) for name in times} for row in rows]
    return [row | {"job_key": f"x/{at}"} | moments for at, (row, moments) in enumerate(zip(rows, us, strict=True))]


def told_before(state: State, jobs: list[Row], order: list[int]) -> None:
    """Tell everything of every job, in this order, at once: nothing is to be seen before its time."""
    for at in order:
        job = jobs[at]
        if job["start_time"] is not None:
            state.started(job)
        if _end(job) is not None:
            state.ended(job)
        state.submitted(job)


@pytest.mark.parametrize("clock", ["calendar", "week", "relative"])
@given(log=LOGS, seed=st.integers(0, 3))
@slowly
def test_one_job_from_the_state_equals_its_row_of_the_table(log: list[Row], seed: int, clock: str) -> None:
    matrix = build(as_table(log), clock, ZONE)
    values, jobs = everything(matrix), as_jobs(log)
    state = State(clock, ZONE)
    told_before(state, jobs, np.random.default_rng(seed).permutation(len(jobs)).tolist())
    for at in sorted(range(len(jobs)), key=lambda at: jobs[at]["submit_time"]):
        row, categories = state.row(jobs[at])
        np.testing.assert_array_equal(
            row, values[at], err_msg=str([n for n, a, b in zip(NAMES, row, values[at], strict=True) if a != b and a == a])
        )
        for name, category in matrix.categories.items():
            code = category.codes[at]
            assert categories[name] == (None if code < 0 else category.vocabulary[code])


@given(log=LOGS, cut=st.integers(0, 14))
@slowly
def test_a_state_made_at_once_equals_one_that_was_told(log: list[Row], cut: int) -> None:
    """As of a moment in the middle of the log; what happens later is told to both."""
    jobs = as_jobs(log)
    times = sorted(job["submit_time"] for job in jobs)
    as_of = times[min(cut, len(times) - 1)]
    at_once, told = state_of(as_table(log), "calendar", ZONE, as_of), State("calendar", ZONE)
    told_before(told, jobs, list(range(len(jobs))))
    told.advance(as_of)
    for job in jobs:
        moments = (at_once.submitted, job["submit_time"]), (at_once.started, job["start_time"]), (at_once.ended, _end(job))
        for tell, moment in moments:
            if moment is not None and moment >= as_of:
                tell(job)
    for job in sorted(jobs, key=lambda job: job["submit_time"]):
        if job["submit_time"] >= as_of:
            np.testing.assert_array_equal(at_once.row(job)[0], told.row(job)[0])
