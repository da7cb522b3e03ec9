import numpy as np
import pytest

from runcast.training.errors import ModelFileError
from runcast.training.forecast import Inputs, clip

NO_LIMIT = np.nan


@pytest.mark.parametrize(
    ("p50_s", "p90_s", "hard_limit_s", "expected_p50_s", "expected_p90_s"),
    [
        pytest.param(100.0, 300.0, NO_LIMIT, 100.0, 300.0, id="nothing to clip"),
        pytest.param(0.2, 0.5, NO_LIMIT, 1.0, 1.0, id="one second at least"),
        pytest.param(100.0, 40.0, NO_LIMIT, 100.0, 100.0, id="crossed quantiles: p90 is raised to p50"),
        pytest.param(100.0, 300.0, 200.0, 100.0, 200.0, id="p90 stops at the hard limit"),
        pytest.param(500.0, 900.0, 200.0, 200.0, 200.0, id="both stop at the hard limit"),
        pytest.param(100.0, 300.0, 0.0, 100.0, 300.0, id="a limit of 0 is no limit"),
    ],
)
def test_clip_rules(p50_s: float, p90_s: float, hard_limit_s: float, expected_p50_s: float, expected_p90_s: float) -> None:
    one = clip(np.array([p50_s]), np.array([p90_s]), np.array([0.5]), np.array(["x"]), np.array([hard_limit_s]))
    assert (one.p50_s[0], one.p90_s[0], one.point_s[0]) == (expected_p50_s, expected_p90_s, expected_p50_s)


def test_point_may_differ_from_the_median_and_obeys_the_limit() -> None:
    one = clip(np.array([100.0]), np.array([300.0]), np.array([2.0]), np.array(["x"]), np.array([150.0]), np.array([400.0]))
    assert one.point_s[0] == 150.0
    assert one.confidence[0] == 1.0


def test_predictor_without_an_answer_is_an_error() -> None:
    with pytest.raises(ModelFileError, match=r"p50_s is not finite for 1 of 2 jobs"):
        clip(np.array([1.0, np.nan]), np.ones(2), np.ones(2), np.array(["x", "x"]), np.full(2, NO_LIMIT))


def test_inputs_are_chosen_by_name() -> None:
    inputs = Inputs(("a", "b", "c"), np.array([[1, 2, 3]], np.float32), np.array([NO_LIMIT]))
    assert inputs.select(("c", "a")).values.tolist() == [[3.0, 1.0]]
    assert inputs.select(("a", "b", "c")) is inputs
    with pytest.raises(ModelFileError, match="not given: d"):
        inputs.select(("a", "d"))
    with pytest.raises(ModelFileError, match="'d' is needed"):
        inputs.column("d")


def test_inputs_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(jobs, features\) = \(1, 2\), found \(1, 3\)"):
        Inputs(("a", "b"), np.zeros((1, 3), np.float32), np.array([NO_LIMIT]))
