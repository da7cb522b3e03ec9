"""Jobs whose end accounting has lost: when they stop to count as running, in every face of the features."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from runcast.features.bulk import state_of
from runcast.features.catalog import COLUMNS_READ, NAMES
from runcast.features.state import State
from runcast.features.table import build

Row = dict[str, Any]
DAY_S = 86_400
SHOWN = (
    "running_n_by_user",
    "running_gpus",
    "running_cpus",
    "running_mean_s_by_user",
    "running_latest_s_by_user",
    "waiting_n_by_user",
)


def job(key: str, submit_s: float, start_s: float | None = None, end_s: float | None = None, **more: Any) -> Row:
    row: Row = {"job_key": key, "user": "ann", "gpu_count": 8.0, "cpu_count": 64.0, "state": "RUNNING", "label": "censored"}
    row |= {
        "submit_time": submit_s,
        "start_time": start_s,
        "end_time": end_s,
        "time_limit_s": 1.0 * DAY_S,
        "time_limit_kind": "hard",
    }
    if end_s is not None and start_s is not None:
        row |= {"state": "COMPLETED", "label": "event", "runtime_s": float(end_s - start_s)}
    return row | more


def as_table(rows: list[Row]) -> pd.DataFrame:
    table = pd.DataFrame([{name: row.get(name) for name in COLUMNS_READ} for row in rows])
    for name in ("submit_time", "start_time", "end_time"):
        us = pd.Series([row[name] and round(row[name] * 1e6) for row in rows], dtype="Int64")
        table[name] = pd.to_datetime(us, unit="us", utc=True).dt.as_unit("us")
    for name in ("gpu_count", "cpu_count", "mem_mib", "node_count", "time_limit_s", "priority", "array_task", "runtime_s"):
        table[name] = table[name].astype("float64")
    return table


def in_us(row: Row) -> Row:
    times = ("submit_time", "start_time", "end_time")
    return row | {name: None if row[name] is None else round(row[name] * 1e6) for name in times}


def told(rows: list[Row], state: State | None = None, since_us: int = -(2**62)) -> State:
    """A state that is told what happened since a moment; a new one where none is given."""
    state = State("calendar", "UTC") if state is None else state
    for row in map(in_us, rows):
        for tell, moment in (state.submitted, "submit_time"), (state.started, "start_time"), (state.ended, "end_time"):
            if row[moment] is not None and row[moment] >= since_us:
                tell(row)
    return state


def faces(log: list[Row], asked: Row, folder: Path) -> dict[str, dict[str, float]]:
    """The features of a job that asks for 0 GPUs and CPUs, by face."""
    found = {"table": build(as_table([*log, asked]), "calendar", "UTC").select(NAMES).values[-1]}
    question = in_us(asked)
    at_once = state_of(as_table(log), "calendar", "UTC", question["submit_time"])
    at_once.save(folder / "state.npz")
    half_us = question["submit_time"] // 2
    state_of(as_table(log), "calendar", "UTC", half_us).save(folder / "half.npz")
    states = {"events": told(log), "at once": at_once, "saved": State.load(folder / "state.npz")}
    states["saved before"] = told(log, State.load(folder / "half.npz"), half_us)
    found |= {name: state.row(question)[0] for name, state in states.items()}
    return {name: {shown: float(row[NAMES.index(shown)]) for shown in SHOWN} for name, row in found.items()}


NONE = dict(zip(SHOWN, (0, 0, 0, math.nan, math.nan, 0), strict=True))


def runs_since(elapsed_s: float) -> dict[str, float]:
    return dict(zip(SHOWN, (1, 8, 64, elapsed_s, elapsed_s, 0), strict=True))


@pytest.mark.parametrize(
    ("given", "elapsed_s", "is_runaway"),
    [
        pytest.param({}, 3 * DAY_S, False, id="twice its limit and a day"),
        pytest.param({}, 3 * DAY_S + 0.000001, True, id="a microsecond longer"),
        pytest.param({}, 1096 * DAY_S, True, id="running since 2021"),
        pytest.param({"time_limit_s": 60.0}, DAY_S + 120, False, id="a short limit: a day of grace"),
        pytest.param({"time_limit_s": 60.0}, DAY_S + 121, True, id="a short limit: a day and a second more"),
        pytest.param({"time_limit_s": 365.0 * DAY_S}, 366 * DAY_S + 1, True, id="a limit of a year"),
        *(
            pytest.param({"time_limit_s": limit_s, "time_limit_kind": kind}, days * DAY_S, days > 366, id=f"{kind}, {days} days")
            for kind, limit_s in (("unlimited", None), ("absent", None), ("advisory", 60.0))
            for days in (300, 366, 367)
        ),
    ],
)
def test_a_job_without_an_end_counts_as_running_for_so_long_in_every_face(
    tmp_path: Path, given: Row, elapsed_s: float, is_runaway: bool
) -> None:
    asked = job("asked", 10 + elapsed_s, gpu_count=0.0, cpu_count=0.0)
    expected = NONE if is_runaway else runs_since(elapsed_s)
    for face, row in faces([job("1", 0, 10, **given)], asked, tmp_path).items():
        np.testing.assert_allclose(list(row.values()), list(expected.values()), rtol=1e-7, err_msg=face)


def test_a_sibling_that_runs_is_seen_beside_a_runaway_in_every_face(tmp_path: Path) -> None:
    log = [job("dead", 0, 10), job("alive", 9 * DAY_S, 9 * DAY_S), job("ended", 9 * DAY_S, 9 * DAY_S, 9 * DAY_S + 60)]
    for face, row in faces(log, job("asked", 9 * DAY_S + 100, gpu_count=0.0, cpu_count=0.0), tmp_path).items():
        assert row == runs_since(100), face


@pytest.mark.parametrize("when_s", [5 * DAY_S, 20 * DAY_S], ids=["after it counted as dead", "long after"])
def test_the_end_of_a_runaway_is_history_and_takes_nothing_away(tmp_path: Path, when_s: float) -> None:
    log = [job("1", 0, 10, when_s), job("2", when_s - 50, when_s - 40)]
    asked = job("asked", when_s + 60, gpu_count=0.0, cpu_count=0.0)
    for face, row in faces(log, asked, tmp_path).items():
        assert row == runs_since(100), face
    state = told(log)
    assert state.row(in_us(asked))[0][NAMES.index("last_1_s_by_user")] == pytest.approx(when_s - 10)


def test_a_requeued_runaway_runs_from_its_new_start() -> None:
    state = told([job("1", 0, 10)])
    asked = in_us(job("asked", 9 * DAY_S))
    assert state.row(asked)[0][NAMES.index("running_n_by_user")] == 0
    state.started(in_us(job("1", 0, 9 * DAY_S)))
    row = state.row(in_us(job("asked", 9 * DAY_S + 5)))[0]
    assert [row[NAMES.index(name)] for name in SHOWN] == [1, 8, 64, 5, 5, 0]
    row = state.row(in_us(job("asked", 13 * DAY_S)))[0]
    assert row[NAMES.index("running_n_by_user")] == 0


@pytest.mark.parametrize("is_saved", [False, True], ids=["asked again", "saved between"])
def test_a_question_about_a_far_day_does_not_change_the_next_answer(tmp_path: Path, is_saved: bool) -> None:
    state = told([job("1", 0, 10), job("2", 30, 40, time_limit_s=60.0), job("ended", 0, 5, 50)])
    before = state.row(in_us(job("asked", 100)))[0]
    state.save(tmp_path / "before.npz")
    assert state.row(in_us(job("asked", 9000 * DAY_S)))[0][NAMES.index("running_n_by_user")] == 0
    if is_saved:
        state.save(tmp_path / "after.npz")
        assert (tmp_path / "after.npz").read_bytes() == (tmp_path / "before.npz").read_bytes()
        state = State.load(tmp_path / "after.npz")
    np.testing.assert_array_equal(state.row(in_us(job("asked", 100)))[0], before)
    assert [before[NAMES.index(name)] for name in SHOWN] == [2, 16, 128, 75, 60, 0]


def test_jobs_that_ended_are_forgotten_as_future_runaways() -> None:
    state = State("calendar", "UTC")
    for at in range(5000):
        state.update(in_us(job(f"{at}", at, at, at + 1, time_limit_s=None, time_limit_kind="absent")))
        state.advance((at + 2) * 1_000_000)
    assert len(state._runaways._running) <= 1003
