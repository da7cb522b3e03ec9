from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from runcast.evaluation.metrics import BY_NAME, METRICS, Floats

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
