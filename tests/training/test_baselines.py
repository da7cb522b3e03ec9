import numpy as np
import pytest

from runcast.training.baselines import fit_baseline
from runcast.training.errors import NotEnoughJobs
from runcast.training.forecast import Inputs

NAN = np.nan


def rows(names: tuple[str, ...], *values: tuple[float, ...]) -> Inputs:
    return Inputs(names, np.array(values, np.float32).reshape(-1, len(names)), np.full(len(values), NAN))


def test_request_answers_the_limit_and_the_training_median_where_there_is_none() -> None:
    rule = fit_baseline("request", rows(("time_limit_s",), (1000,), (1000,), (NAN,)), np.array([500.0, 900.0, 100.0]))
    forecast = rule.forecast(rows(("time_limit_s",), (3600,), (NAN,)))
    assert forecast.p50_s.tolist() == [3600.0, 500.0]
    assert forecast.source.tolist() == ["request", "training_median"]
    assert forecast.confidence.tolist() == [0.5, 0.0]  # 900 of 1000 is within 25 %, 500 is not; 500 for 100 is not


def test_log_without_limits_is_answered_with_the_median() -> None:
    rule = fit_baseline("request", rows(("time_limit_s",), (NAN,), (NAN,), (NAN,)), np.array([10.0, 20.0, 90.0]))
    forecast = rule.forecast(rows(("time_limit_s",), (NAN,), (600,)))
    assert forecast.p50_s.tolist() == [20.0, 600.0]
    assert set(forecast.source) == {"training_median", "request"}


def test_p90_is_the_quantile_of_actual_over_answer_on_training_jobs() -> None:
    # ratios actual / answer: 0.1, 0.2, ... 1.0 times 10: the 0.9 quantile of their logs lies 0.1 of the way from ln 9 to ln 10
    answers = rows(("last_two_mean_s_by_user",), *[(100.0,)] * 10)
    rule = fit_baseline("last_two", answers, np.arange(1, 11) * 100.0)
    expected = 100.0 * np.exp(np.log(9) + 0.1 * (np.log(10) - np.log(9)))
    assert rule.forecast(answers).p90_s == pytest.approx([expected] * 10)


def test_nearest_median_is_surer_with_three_runs_then_with_less_spread() -> None:
    names = ("nearest_median_s", "nearest_n", "nearest_spread_log")
    rule = fit_baseline("nearest_median", rows(names, (10, 3, 0.1), (20, 3, 0.1)), np.array([10.0, 20.0]))
    surest_first = rows(names, (50, 7, 0.0), (50, 3, 0.2), (50, 7, 2.5), (50, 1, 0.0), (50, 2, 0.4), (50, 1, NAN), (NAN, 0, NAN))
    confidence = rule.forecast(surest_first).confidence
    assert confidence[0] == 1.0
    assert confidence[-1] == 0.0
    assert (np.diff(confidence) <= 0).all()
    assert (np.diff(confidence[:5]) < 0).all()


def test_first_job_of_all_has_no_history_and_gets_the_median() -> None:
    names = ("nearest_median_s", "nearest_n", "nearest_spread_log")
    rule = fit_baseline("nearest_median", rows(names, (NAN, 0, NAN), (30, 1, 0)), np.array([30.0, 40.0]))
    forecast = rule.forecast(rows(names, (NAN, 0, NAN)))
    assert (forecast.p50_s[0], forecast.source[0]) == (35.0, "training_median")


def test_nothing_ended_is_an_error_that_says_so() -> None:
    with pytest.raises(NotEnoughJobs, match="no job had ended"):
        fit_baseline("request", rows(("time_limit_s",)), np.empty(0))
