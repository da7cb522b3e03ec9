import numpy as np
import pytest

from runcast.training.conformal import conformal_factor, split_latest


@pytest.mark.parametrize(
    ("actual_s", "expected"),
    [
        pytest.param([], 1.0, id="nothing to calibrate on"),
        pytest.param([1, 2, 3, 4, 5, 6, 7, 8, 9], 9.0, id="9 jobs: rank ceil(10 * 0.9) = 9"),
        pytest.param(list(range(1, 20)), 18.0, id="19 jobs: rank ceil(20 * 0.9) = 18"),
        pytest.param([3, 1, 2], 3.0, id="3 jobs: rank ceil(3.6) = 4, at most the largest"),
    ],
)
def test_factor_is_the_rank_of_split_conformal(actual_s: list[float], expected: float) -> None:
    assert conformal_factor(np.array(actual_s, float), np.ones(len(actual_s))) == expected


def test_covers_nine_tenths_of_exchangeable_jobs() -> None:
    rng = np.random.default_rng(5)
    calibration, later = rng.lognormal(0, 1, 2000), rng.lognormal(0, 1, 20_000)
    factor = conformal_factor(calibration, np.ones(2000))
    assert (later <= factor).mean() == pytest.approx(0.9, abs=0.015)


def test_latest_jobs_calibrate_and_too_few_do_not() -> None:
    earlier, latest = split_latest(800)
    assert (earlier[-1], latest[0], len(latest)) == (699, 700, 100)
    earlier, latest = split_latest(300)
    assert (len(earlier), len(latest)) == (300, 0)
