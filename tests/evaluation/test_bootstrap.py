import numpy as np
import pytest

from runcast.evaluation.bootstrap import WEEK_US, Interval, week_of, weekly_intervals


def test_weeks_are_counted_from_the_first_test_job() -> None:
    assert week_of(np.array([10, 9 + WEEK_US, 10 + WEEK_US]), 10).tolist() == [0, 0, 1]


@pytest.mark.parametrize("weeks", [1, 2, 4])
def test_a_few_weeks_are_no_evidence_of_their_own_spread(weeks: int) -> None:
    found = weekly_intervals({"mean": lambda rows: float(rows.mean())}, np.arange(60) % weeks, seed=1)
    assert found == {"mean": Interval(None, None, weeks)}


def test_same_seed_same_interval_and_another_seed_another() -> None:
    week = np.repeat(np.arange(8), 20)
    values = np.random.default_rng(0).normal(week, 1)
    one, again, other = (weekly_intervals({"m": lambda rows: float(values[rows].mean())}, week, seed) for seed in (1, 1, 2))
    assert one == again != other


def test_alike_weeks_have_no_spread_and_different_ones_do() -> None:
    week = np.repeat(np.arange(8), 20)
    found = weekly_intervals({"same": lambda rows: 1.0, "week": lambda rows: float(week[rows].mean())}, week, seed=1)
    assert (found["same"].low, found["same"].high) == (1.0, 1.0)
    low, high = found["week"].low, found["week"].high
    assert low is not None
    assert high is not None
    assert 0 < low < 3.5 < high < 7


@pytest.mark.parametrize("weeks", [5, 8, 20])
def test_covers_the_truth_about_as_often_as_it_says(weeks: int) -> None:
    """Weeks with a shift of their own, 200 logs; single jobs would cover less than half, plain percentiles of 5 weeks 84 %."""
    rng, week, inside = np.random.default_rng(3), np.repeat(np.arange(weeks), 30), 0
    for one in range(200):
        values = rng.normal(0, 1, weeks)[week] + rng.normal(0, 1, len(week))
        interval = weekly_intervals({"m": lambda rows, v=values: float(v[rows].mean())}, week, one, draws=100)["m"]
        inside += interval.low is not None and interval.high is not None and interval.low <= 0 <= interval.high
    assert 0.86 <= inside / 200 <= 0.99
