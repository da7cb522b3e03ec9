"""Candidates: which values are drawn, and what is told of each, against values worked out by hand."""

from typing import Any

import numpy as np
import pytest

from runcast.training.candidates import CANDIDATES, COLUMNS, HIGH, LOW, READS, Candidates, candidates, graded, is_right
from runcast.training.forecast import Inputs


def draw(p50_s: float = 100.0, hard_limit_s: float = np.nan, **known: float) -> Candidates:
    """The candidates of one job of which only this is known."""
    values = np.array([[known.get(name, np.nan) for name in READS]], np.float32)
    return candidates(Inputs(READS, values, np.array([hard_limit_s])), np.log([p50_s]))


def seconds(drawn: Candidates) -> list[float]:
    return np.exp(drawn.values[0][~np.isnan(drawn.values[0])].astype(float)).round(3).tolist()


def told(drawn: Candidates, column: str) -> list[float]:
    return drawn.described()[1][:, COLUMNS.index(column)].round(4).tolist()


def test_a_job_without_history_has_the_median_model_alone() -> None:
    assert seconds(draw()) == [100.0]
    assert told(draw(), "candidate") == [CANDIDATES - 2]


def test_candidates_come_from_slots_the_model_and_the_limit() -> None:
    drawn = draw(last_1_s_by_slot_1=60, last_4_s_by_slot_1=70, median_7_s_by_slot_1=65, last_1_s_by_slot_3=10, time_limit_s=3600)
    assert seconds(drawn) == [60, 65, 10, 100, 3600]  # the fourth latest run is no candidate


@pytest.mark.parametrize(
    ("limit_s", "right"),
    [(80.0, [80, 80, 80]), (np.nan, [500, 100, 80]), (0.5, [500, 100, 80])],
    ids=["hard", "advisory", "below a second: none"],
)
def test_none_lies_above_a_hard_limit(limit_s: float, right: list[float]) -> None:
    assert seconds(draw(hard_limit_s=limit_s, last_1_s_by_slot_1=500, time_limit_s=80)) == right


def test_none_lies_below_a_second() -> None:
    assert seconds(draw(p50_s=0.2, last_1_s_by_slot_1=0.5)) == [1, 1]


def test_what_is_told_of_each_candidate() -> None:
    drawn = draw(
        last_1_s_by_slot_1=100,
        last_2_s_by_slot_1=120,
        last_3_s_by_slot_1=400,
        last_4_s_by_slot_1=101,
        running_mean_s_by_slot_1=50,
    )
    assert seconds(drawn) == [100, 120, 400, 100]
    assert told(drawn, "ring_inside_1") == [0.75, 0.75, 0.25, 0.75]  # 100, 120 and 101 lie between 75 % and 133 % of either
    assert told(drawn, "ring_near_1") == [0.5, 0.25, 0.25, 0.5]
    assert told(drawn, "first_inside_1") == [0, 0, 2, 0]
    assert told(drawn, "candidates_inside") == [3, 3, 1, 3]
    assert told(drawn, "candidates_above") == [1, 1, 0, 1]
    assert told(drawn, "candidates_below") == [0, 0, 3, 0]
    assert told(drawn, "over_running_mean_s_by_slot_1") == pytest.approx(np.log([2, 2.4, 8, 2]), abs=1e-3)
    assert told(drawn, "ring_inside_2") == [0, 0, 0, 0]
    assert np.isnan(told(drawn, "over_last_2")).all()


@pytest.mark.parametrize(("predicted_s", "right"), [(74.9, False), (75.1, True), (124.9, True), (125.1, False), (np.nan, False)])
def test_right_is_within_a_quarter_of_the_runtime(predicted_s: float, right: bool) -> None:
    assert is_right(np.log(np.array([predicted_s])), np.log(np.array([100.0])))[0] == right


def test_windows_are_those_of_the_metric() -> None:
    assert (np.exp(LOW), np.exp(HIGH)) == (pytest.approx(100 / 125), pytest.approx(100 / 75))


def test_grade_adds_the_windows_that_hold_the_value() -> None:
    windows = ((0.25, 0.5), (0.1, 0.5))
    values = np.log(np.array([[100.0, 111.0, 124.0, 126.0, np.nan]]))
    assert graded(values, np.log([[100.0]]), windows).tolist() == [[1.0, 0.5, 0.5, 0.0, 0.0]]


def test_one_job_is_drawn_as_within_a_table() -> None:
    rng = np.random.default_rng(0)
    values = np.exp(rng.normal(5, 2, (40, len(READS)))).astype(np.float32)
    values[rng.random(values.shape) < 0.3] = np.nan
    inputs, p50_log = Inputs(READS, values, np.full(40, np.nan)), rng.normal(5, 2, 40)
    exists, together = candidates(inputs, p50_log).described()
    ends = np.cumsum(exists.sum(1))
    for job in range(40):
        one: Any = slice(job, job + 1)
        alone = candidates(inputs.take(one), p50_log[one]).described()[1]
        np.testing.assert_array_equal(alone, together[ends[job] - len(alone) : ends[job]])
