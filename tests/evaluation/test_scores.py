import numpy as np
import pytest

from runcast.evaluation.metrics import BY_NAME
from runcast.evaluation.scores import coverages, intervals, score
from runcast.evaluation.slices import Slice

ACTUAL_S = np.array([100.0, 100.0, 100.0, 100.0])
ALL = Slice("all", "", np.ones(4, bool))


def test_each_metric_reads_its_own_prediction(make_forecast) -> None:
    forecast = make_forecast([100, 100, 100, 100], p90_s=[100, 99, 200, 200])
    forecast = type(forecast)(forecast.p50_s, forecast.p90_s, forecast.point_s * 1.5, forecast.confidence, forecast.source)
    found = score(ACTUAL_S, {"a": forecast}, [ALL])["a"]["all"]
    assert (found["mdape"], found["error_factor"], found["p90_coverage"]) == (0.5, 1.0, 0.75)


def test_slice_without_jobs_has_no_values(make_forecast) -> None:
    found = score(ACTUAL_S, {"a": make_forecast([1, 2, 3, 4])}, [ALL, Slice("new_user", "", np.zeros(4, bool))])
    assert set(found["a"]["new_user"].values()) == {None}


def test_coverage_at_the_targets_of_table_2(make_forecast) -> None:
    forecast = make_forecast([100, 109, 150, 200], confidence=[0.9, 0.8, 0.7, 0.6])
    assert coverages(ACTUAL_S, {"a": forecast}, (0.089, 0.108)) == {"a": {"0.089": 0.5, "0.108": 0.75}}


@pytest.mark.parametrize(
    ("metric", "expected"),
    [("error_factor", "near"), ("within_25", "near"), ("p90_coverage", "far"), ("under_share", None)],
    ids=["lower is better", "higher is better", "nearer to 0.9 is better", "neither is better"],
)
def test_best_knows_which_way_is_better(make_forecast, metric: str, expected: str | None) -> None:
    scores = score(
        ACTUAL_S,
        {
            "far": make_forecast([300, 300, 300, 300], p90_s=[400, 400, 400, 90]),
            "near": make_forecast([90, 90, 90, 300], p90_s=[95, 95, 95, 95]),
        },
        [ALL],
    )
    assert BY_NAME[metric].better.best({name: one["all"][metric] for name, one in scores.items()}) == expected


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_forecast_that_is_no_number_has_no_metric(make_forecast) -> None:
    found = score(ACTUAL_S, {"a": make_forecast([np.nan, 1, np.inf, 1])}, [ALL])["a"]["all"]
    assert {name for name, value in found.items() if value is None} == {
        "mdape",
        "error_factor",
        "r2_log",
        "spearman",
        "mape",
        "wape",
    }


def test_model_is_compared_with_the_best_baseline_in_the_same_weeks(make_forecast) -> None:
    rng = np.random.default_rng(0)
    actual_s = rng.lognormal(6, 1, 400)
    forecasts = {"base": make_forecast(actual_s * 2), "model": make_forecast(actual_s * 1.1)}
    best = {"mdape": "base", "within_25": "base", "error_factor": "base"}
    found = intervals(actual_s, forecasts, best, ["model"], np.repeat(np.arange(8), 50), seed=1, draws=50)
    assert (found.of["base"]["mdape"].low, found.of["base"]["mdape"].high) == pytest.approx((1.0, 1.0))
    assert (found.against["model"]["mdape"].low, found.against["model"]["mdape"].high) == pytest.approx((-0.9, -0.9))
    assert found.against["model"]["within_25"].low == pytest.approx(1.0)
    assert found.of["base"]["mdape"].weeks == 8
