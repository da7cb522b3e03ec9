from collections.abc import Callable

import lightgbm
import numpy as np
import pytest

from runcast.data.cluster import GbdtParameters
from runcast.training.errors import ConstantPredictor
from runcast.training.forecast import Inputs
from runcast.training.gbdt import fit_gbdt, without_dates

PARAMETERS = GbdtParameters(trees=60, leaves=15)


def test_quantiles_do_not_cross_where_the_raw_models_do(make_jobs: Callable) -> None:
    inputs, runtime_s = make_jobs(1200)
    rule = fit_gbdt(inputs, runtime_s, GbdtParameters(trees=200, leaves=63), seed=1, threads=1)
    new, _ = make_jobs(4000, seed=9)
    raw50, raw90 = (booster.predict(new.values) for booster in (rule.p50, rule.p90))
    assert (raw90 < raw50).any()
    forecast = rule.forecast(new)
    assert (forecast.p50_s <= forecast.p90_s).all()
    assert (forecast.confidence <= 1).all()


def test_p90_covers_nine_tenths_of_later_jobs(make_jobs: Callable) -> None:
    inputs, runtime_s = make_jobs(6000)
    rule = fit_gbdt(inputs, runtime_s, PARAMETERS, seed=1, threads=1)
    new, new_s = make_jobs(6000, seed=11)
    assert (new_s <= rule.forecast(new).p90_s).mean() == pytest.approx(0.9, abs=0.02)


def test_surer_jobs_are_more_often_right() -> None:
    rng = np.random.default_rng(4)
    noisy = rng.integers(0, 10, 4000)
    runtime_s = 600 * np.exp(rng.normal(0, 0.05 + 0.2 * noisy))
    inputs = Inputs(("noisy",), noisy[:, None].astype(np.float32), np.full(4000, np.nan))
    rule = fit_gbdt(inputs, runtime_s, PARAMETERS, seed=1, threads=1)
    confidence = rule.forecast(Inputs(("noisy",), np.array([[0], [2], [5], [9]], np.float32), np.full(4, np.nan))).confidence
    assert (np.diff(confidence) < 0).all()


def test_dates_are_left_out() -> None:
    names = ("hour_of_day", "month_day", "weekday", "month")
    left = without_dates(Inputs(names, np.array([[1, 2, 3, 4]], np.float32), np.array([np.nan])))
    assert (left.names, left.values.tolist()) == (("hour_of_day", "weekday"), [[1.0, 3.0]])


def test_same_jobs_and_seed_give_the_same_bytes(make_jobs: Callable) -> None:
    inputs, runtime_s = make_jobs(1500)
    first, second = (fit_gbdt(inputs, runtime_s, PARAMETERS, seed=7, threads=1).files() for _ in range(2))
    assert first == second


def test_model_that_cannot_split_is_refused() -> None:
    inputs = Inputs(("a",), np.ones((600, 1), np.float32), np.full(600, np.nan))
    with pytest.raises(ConstantPredictor, match="no feature splits the 600 training jobs"):
        fit_gbdt(inputs, np.arange(1.0, 601.0), PARAMETERS, seed=1, threads=1)


def test_stored_text_answers_as_the_trained_model(make_jobs: Callable) -> None:
    inputs, runtime_s = make_jobs(1500)
    rule = fit_gbdt(inputs, runtime_s, PARAMETERS, seed=7, threads=1)
    reread = lightgbm.Booster(model_str=rule.files()["p50.txt"])
    assert (reread.predict(inputs.values) == rule.p50.predict(inputs.values)).all()
