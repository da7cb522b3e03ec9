"""The predictors of the literature: the rolling mean's rules by hand, name clusters, and both over a made-up log."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from runcast.data.cluster import CartParameters, GbdtParameters, Training
from runcast.data.columns import COLUMNS
from runcast.features.table import build
from runcast.training.comparisons import Codes, Runs, cluster_names, fit_helios, fit_mlaas, rolling_means
from runcast.training.errors import UnknownKind
from runcast.training.fitting import answer, fit_at
from runcast.training.kinds import COMPARISONS, PREDICTORS, find_kind, find_predictor

NAN = float("nan")


def runs(*rows: tuple[Any, ...]) -> Runs:
    """Jobs as (user, name, size, submit, end, runtime)."""
    user, name, size, submit, end, runtime_s = zip(*rows, strict=True) if rows else ((),) * 6
    return Runs(list(user), list(name), list(size), np.array(submit, int), np.array(end, int), np.array(runtime_s, float))


HISTORY = runs(
    ("ann", "train_resnet", 8, 0, 1, 100.0),
    ("ann", "train_resnet", 8, 0, 1, 200.0),
    ("ann", "train_resnet", 1, 0, 1, 10.0),
    ("bob", "train_resnet", 8, 0, 1, 900.0),
    ("bob", "evaluate", 1, 0, 1, 30.0),
)


@pytest.mark.parametrize(
    ("user", "name", "size", "expected_s"),
    [
        pytest.param("ann", "train_resnet", 8, 150.0, id="user, name and size"),
        pytest.param("ann", "train_resnet", 4, 310 / 3, id="another size: all of the user's runs of the name"),
        pytest.param("zoe", "train_resnet", 8, 1210 / 4, id="another user: everybody's runs of the name"),
        pytest.param("ann", "train_resnet2", 8, 150.0, id="a close name"),
        pytest.param("ann", "zzz", 8, 310 / 3, id="no close name: the user's runs"),
        pytest.param("ann", None, 8, 310 / 3, id="no name: the user's runs"),
        pytest.param("zoe", None, 8, 1240 / 5, id="nothing known: all runs"),
    ],
)
def test_rolling_mean_falls_back_from_like_to_any(user: str, name: str | None, size: float, expected_s: float) -> None:
    assert rolling_means(HISTORY, runs((user, name, size, 10, 20, NAN)))[0] == pytest.approx(expected_s)


def test_rolling_mean_learns_from_a_job_only_strictly_after_its_end() -> None:
    asked = runs(("zoe", "new", 1, 10, 15, 60.0), ("zoe", "new", 1, 15, 30, 70.0), ("zoe", "new", 1, 16, 40, 80.0))
    assert rolling_means(HISTORY, asked).tolist() == [248.0, 248.0, 60.0]


def test_rare_names_join_the_frequent_and_unlike_names_found_clusters() -> None:
    frequent = [f"name_{k:03d}_{'xyzuvw'[k % 6] * (k // 6 + 1)}" for k in range(100)]
    code = cluster_names(np.array(frequent * 2 + ["qqqqqqqqqqqq", frequent[0] + "!"], object))
    assert code(np.array(frequent, object)).tolist() == [sorted(frequent).index(one) for one in frequent]
    assert code(np.array(["qqqqqqqqqqqq"], object)).tolist() == [100.0]
    assert code(np.array([frequent[0] + "!"], object))[0] < 100
    assert code(np.array(["()[]{}"], object)).tolist() == [-1.0]
    assert np.isnan(code(np.array([None], object))[0])


def test_codes_of_the_unseen_and_of_null() -> None:
    codes = Codes.fit(np.array(["b", None, "a", "b"], object))
    assert codes.code(np.array(["a", "b", "new"], object)).tolist() == [1, 0, -1]
    assert np.isnan(codes.code(np.array([None], object))[0])


def log(jobs: int = 900) -> pd.DataFrame:
    """Jobs whose runtime follows the name, which holds a number, a third of them without a group."""
    rng = np.random.default_rng(1)
    user, name = rng.integers(0, 6, jobs), rng.integers(0, 4, jobs)
    submit = pd.Timestamp("2024-03-04", tz="UTC") + pd.to_timedelta(np.sort(rng.uniform(0, 30 * 86_400, jobs)).round(), unit="s")
    runtime_s = np.round(60 * 4.0**name * np.exp(rng.normal(0, 0.1, jobs))) + 1
    given: dict[str, Any] = {
        "cluster": "c", "job_id": [str(k) for k in range(jobs)], "job_key": [f"c/{k}" for k in range(jobs)],
        "user": [f"u{one}" for one in user], "group": [None if one % 3 == 0 else f"g{one}" for one in user],
        "job_name": [f"{('train', 'evaluate', 'sweep', 'x')[one]}_{k}" for k, one in enumerate(name)],
        "gpu_count": 1.0, "state": "COMPLETED", "label": "event", "runtime_s": runtime_s, "attempts": 1, "time_limit_kind": "absent",
        "submit_time": submit, "start_time": submit, "end_time": submit + pd.to_timedelta(runtime_s, unit="s"),
    }  # fmt: skip
    empty = {"string": "str", "float64": "float64", "int32": "float64", "timestamp": "datetime64[us, UTC]", "list<string>": "str"}
    frame = pd.DataFrame({c.name: given.get(c.name, pd.Series([None] * jobs, dtype=empty[c.type])) for c in COLUMNS})
    return frame.astype(dict.fromkeys(("submit_time", "start_time", "end_time"), "datetime64[us, UTC]"))


TRAINING = Training(min_jobs=200, cart=CartParameters(), gbdt=GbdtParameters(trees=60, leaves=15))


def test_both_predict_a_log_that_follows_their_features() -> None:
    matrix = build(log(), "calendar", "UTC")
    fit = fit_at(matrix, int(matrix.submit_us[700]), [one.name for one in COMPARISONS], TRAINING)
    found = answer(fit, matrix.take(np.arange(700, 900)))
    actual_s = matrix.ended.runtime_s[700:]
    assert list(found) == ["mlaas", "helios"]
    assert np.median(np.abs(found["helios"].p50_s / actual_s - 1)) < 0.3  # the name tells the runtime, and it reads names
    assert np.median(np.abs(found["mlaas"].p50_s / actual_s - 1)) > 0.3  # it does not
    for forecast in found.values():
        assert (forecast.p50_s <= forecast.p90_s).all()


def test_group_tag_of_a_job_without_a_group_is_its_user() -> None:
    matrix = build(log(), "calendar", "UTC")
    tree = fit_mlaas(matrix, TRAINING)
    assert tree.tree.columns[:2] == ("user", "group_tag")
    assert {*tree.group.of} == {"g1", "g2", "g4", "g5"}


def test_too_few_jobs_are_answered_by_the_baseline_with_the_reason() -> None:
    matrix = build(log(), "calendar", "UTC")
    fit = fit_at(matrix, int(matrix.submit_us[100]), ["helios"], TRAINING)
    assert "helios needs 200" in str(fit.fitted["helios"].fallback_reason)
    assert len(answer(fit, matrix.take(np.arange(100, 120)))["helios"]) == 20


def test_helios_of_a_log_without_names_or_users_is_its_trees_and_the_mean() -> None:
    jobs = log().assign(user=pd.Series([None] * 900, dtype="str"), job_name=pd.Series([None] * 900, dtype="str"))
    matrix = build(jobs, "calendar", "UTC")
    forecast = fit_helios(matrix.take(np.arange(700)), TRAINING).answer(matrix.take(np.arange(700, 900)))
    assert np.isfinite(forecast.p50_s).all()


def test_comparisons_are_neither_stored_nor_served() -> None:
    assert {"mlaas", "helios"} < {*PREDICTORS}
    assert find_predictor("helios").role == "comparison"
    with pytest.raises(UnknownKind, match="for comparison in replays and reports"):
        find_kind("helios")
