import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runcast.evaluation.risk_coverage import coverage_at, risk_coverage


def of_errors(errors: list[float], confidence: list[float], target: float) -> float:
    """Jobs of 1,000,000 s predicted with these percentage errors."""
    actual_s = np.full(len(errors), 1e6)
    return coverage_at(target, actual_s, actual_s * (1 + np.array(errors, float)), np.array(confidence, float))


@pytest.mark.parametrize(
    ("errors", "confidence", "expected"),
    [
        pytest.param([0, 0, 1, 1, 1], [5, 4, 3, 2, 1], 3 / 5, id="medians 0 0 0 .5 1: the surest 3 of 5"),
        pytest.param([0, 0, 0, 1, 1], [5, 4, 3, 2, 1], 1.0, id="the median of all is within"),
        pytest.param([1, 1, 1], [3, 2, 1], 0.0, id="never within"),
        pytest.param([1, 0, 0, 0.05], [4, 3, 2, 1], 1.0, id="a bad start is made good"),
        pytest.param([0, 1, 1, 1], [1, 1, 1, 1], 0.0, id="ties enter together"),
        pytest.param([0, 1, 1, 1], [2, 1, 1, 1], 1 / 4, id="a group of one before a tie"),
        pytest.param([0.05, 0.15], [2, 1], 1.0, id="even count: the median is the mean of the two middle ones, here 10 %"),
        pytest.param([0.05, 0.16], [2, 1], 1 / 2, id="even count: the mean of the middle ones is above"),
    ],
)
def test_coverage_is_the_largest_prefix_within_the_target(errors: list[float], confidence: list[float], expected: float) -> None:
    assert of_errors(errors, confidence, 0.1001) == expected


def naive(errors: list[float], confidence: list[float], target: float) -> float:
    best = 0
    for bound in set(confidence):
        chosen = [error for error, sure in zip(errors, confidence, strict=True) if sure >= bound]
        if np.median(chosen) <= target:
            best = max(best, len(chosen))
    return best / len(errors)


@given(st.lists(st.tuples(st.sampled_from([0, 0.25, 0.5, 1, 2]), st.integers(0, 6)), min_size=1, max_size=60))
def test_equals_the_naive_search(jobs: list[tuple[float, int]]) -> None:
    errors, confidence = map(list, zip(*jobs, strict=True))
    assert of_errors(errors, confidence, 0.375) == naive(errors, confidence, 0.375)


def test_any_increasing_change_of_confidence_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    actual_s, predicted_s, confidence = rng.lognormal(8, 1, 500), rng.lognormal(8, 1, 500), rng.random(500)
    one = coverage_at(0.5, actual_s, predicted_s, confidence)
    assert one == coverage_at(0.5, actual_s, predicted_s, np.exp(5 * confidence))


def test_curve_ends_at_all_jobs_with_their_mdape() -> None:
    rng = np.random.default_rng(1)
    actual_s, predicted_s = rng.lognormal(8, 1, 5000), rng.lognormal(8, 1, 5000)
    curve = risk_coverage(actual_s, predicted_s, rng.random(5000))
    assert len(curve.coverage) == 200
    assert curve.coverage[-1] == 1
    assert curve.mdape[-1] == pytest.approx(np.median(np.abs(predicted_s / actual_s - 1)))
    assert (np.diff(curve.coverage) > 0).all()


def test_constant_confidence_is_one_point() -> None:
    curve = risk_coverage(np.ones(10), np.ones(10) * 2, np.zeros(10))
    assert (curve.coverage.tolist(), curve.mdape.tolist()) == ([1.0], [1.0])


def test_no_jobs() -> None:
    empty = np.empty(0)
    assert np.isnan(coverage_at(0.1, empty, empty, empty))
    assert len(risk_coverage(empty, empty, empty).coverage) == 0
