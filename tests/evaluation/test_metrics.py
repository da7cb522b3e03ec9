from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from runcast.evaluation.metrics import BY_NAME, METRICS, Floats, direction_of

ACTUAL_S = np.array([100.0, 100.0, 100.0, 100.0, 200.0])
PREDICTED_S = np.array([100.0, 125.0, 75.0, 400.0, 50.0])
# percentage errors:      0      .25   .25    3     .75     ln ratios: 0, ln 1.25, ln .75, ln 4, ln .25


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mdape", 0.25),
        ("mape", (0 + 0.25 + 0.25 + 3 + 0.75) / 5),
        ("within_25", 3 / 5),
        ("wape", (0 + 25 + 25 + 300 + 150) / 600),
        ("error_factor", exp((log(1.25) - log(0.75) + log(4) + log(4)) / 5)),
        ("off_by_2x", 2 / 5),
        ("under_share", 2 / 5),
        ("p90_coverage", 3 / 5),
    ],
)
def test_right_values(name: str, expected: float) -> None:
    assert BY_NAME[name].compute(ACTUAL_S, PREDICTED_S) == pytest.approx(expected)


def test_off_by_exactly_two_is_not_more_than_two() -> None:
    assert BY_NAME["off_by_2x"].compute(np.array([100.0, 100.0]), np.array([200.0, 50.0])) == 0


def test_r2_of_logs_is_1_for_the_truth_and_0_for_the_geometric_mean() -> None:
    actual_s = np.array([1.0, 10.0, 100.0])
    assert BY_NAME["r2_log"].compute(actual_s, actual_s) == 1
    assert BY_NAME["r2_log"].compute(actual_s, np.full(3, 10.0)) == pytest.approx(0)


def test_rank_correlation_equals_scipy_with_ties() -> None:
    rng = np.random.default_rng(0)
    actual_s, predicted_s = (rng.integers(1, 20, 500).astype(float) for _ in range(2))
    assert BY_NAME["spearman"].compute(actual_s, predicted_s) == pytest.approx(spearmanr(actual_s, predicted_s).statistic)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_no_jobs_is_no_number(metric) -> None:
    assert np.isnan(metric.compute(np.empty(0), np.empty(0)))


@pytest.mark.parametrize("name", ["spearman", "r2_log"])
def test_constant_runtimes_have_no_correlation(name: str) -> None:
    assert np.isnan(BY_NAME[name].compute(np.full(3, 5.0), np.array([1.0, 2.0, 3.0])))


positive = st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)), min_size=1, max_size=30)


def arrays(pairs: list[tuple[int, int]]) -> tuple[Floats, Floats]:
    actual_s, predicted_s = np.array(pairs, float).T
    return actual_s, predicted_s


@given(positive)
def test_a_change_of_unit_changes_no_metric(pairs: list[tuple[int, int]]) -> None:
    actual_s, predicted_s = arrays(pairs)
    for metric in METRICS:
        one, other = metric.compute(actual_s, predicted_s), metric.compute(actual_s / 4, predicted_s / 4)
        assert one == pytest.approx(other, rel=1e-6, abs=1e-6, nan_ok=True), metric.name


@given(positive, st.randoms(use_true_random=False))
def test_order_of_jobs_changes_no_metric(pairs: list[tuple[int, int]], random) -> None:
    shuffled = random.sample(pairs, len(pairs))
    for metric in METRICS:
        assert metric.compute(*arrays(pairs)) == pytest.approx(metric.compute(*arrays(shuffled)), nan_ok=True), metric.name


@given(positive)
def test_error_factor_is_the_same_for_over_and_under(pairs: list[tuple[int, int]]) -> None:
    actual_s, predicted_s = arrays(pairs)
    factor = BY_NAME["error_factor"].compute
    assert factor(actual_s, predicted_s) == pytest.approx(factor(predicted_s, actual_s))
    assert factor(actual_s, predicted_s) >= 1


@pytest.mark.parametrize(
    ("metric", "value", "other", "is_better", "is_worse"),
    [
        ("error_factor", 1.8, 1.9, True, False),
        ("error_factor", 1.9, 1.9, False, False),
        ("within_25", 0.5, 0.4, True, False),
        ("coverage_0.089", 0.2, 0.3, False, True),
        ("p90_coverage", 0.91, 0.99, True, False),
        ("p90_coverage", 0.90, 1.00, True, False),
        ("p90_coverage", 0.5, 0.88, False, True),
        ("under_share", 0.1, 0.9, False, False),
        ("error_factor", 9.0, float("nan"), True, False),
        ("error_factor", float("inf"), 9.0, False, True),
        ("spearman", None, -1.0, False, True),
        ("mdape", None, float("nan"), False, False),
    ],
)
def test_a_metric_says_which_of_two_numbers_is_better(
    metric: str, value: float | None, other: float | None, is_better: bool, is_worse: bool
) -> None:
    better = direction_of(metric)
    assert (better.is_better(value, other), better.is_better(other, value)) == (is_better, is_worse)


def test_best_of_several_is_the_first_of_equals_and_never_one_without_a_value() -> None:
    better = BY_NAME["error_factor"].better
    assert better.best({"a": float("nan"), "b": 2.0, "c": 2.0, "d": None, "e": float("-inf")}) == "b"
    assert better.best({"a": None, "b": float("inf")}) is None
    assert better.best({}) is None
