from typing import Any

import numpy as np
import pytest

from runcast.data.cluster import Cluster
from runcast.evaluation.facts import limits_outlived, notes, served_worst, totals
from runcast.evaluation.gates import judge
from runcast.evaluation.metrics import BY_NAME

NAN = float("nan")


@pytest.mark.parametrize(
    ("runtime_s", "limit_s", "outlived", "by_little", "by_more", "beyond_twice"),
    [
        ([60, 60, 60, 60], [60, 61, NAN, 3600], 0, 0, 0, 0),  # ended at the limit is not past it
        ([61, 3900, 3901, 100], [60, 3600, 3600, 100], 0.75, 0.5, 0.25, 0),
        ([7200, 7201, 10, 10], [3600, 3600, 20, 20], 0.5, 0, 0.5, 0.25),
        ([10, 10, 10, 10], [0.5, 0, -1, NAN], 0, 0, 0, 0),  # a limit below a second caps nothing
        ([600, 60, 600, 6], [10, 1, 10, NAN], 0.75, 0.25, 0.5, 0.75),
    ],
    ids=["within", "little and more", "twice", "no limits", "minutes read as seconds"],
)
def test_share_of_jobs_that_outlive_their_limits(
    runtime_s: list[float], limit_s: list[float], outlived: float, by_little: float, by_more: float, beyond_twice: float
) -> None:
    found = limits_outlived(np.array(runtime_s, float), np.array(limit_s, float))
    assert (found["outlived"], found["by_little"], found["by_more"], found["beyond_twice"]) == (
        outlived, by_little, by_more, beyond_twice,
    )  # fmt: skip
    assert found["p90_at_most"] == 1 - outlived
    assert ("p90 can cover at most" in found["uncovered"]) == (outlived > 0)


def test_sentences_on_limits_say_the_shares_and_no_cause(matrix: Any) -> None:
    """Of 1,000 jobs 12 outlive their limit by a minute and 8 by an hour, none beyond twice."""
    runtime_s, limit_s = np.full(1000, 600.0), np.full(1000, 36_000.0)
    runtime_s[:12], runtime_s[12:20] = 36_060, 39_600
    (said,) = notes(matrix, limits_outlived(runtime_s, limit_s))
    assert said == (
        "2.0 % of the test jobs ran past their hard limit: 1.2 % by at most 5 minutes, 0.8 % by more. "
        "No p90 is above a hard limit, so p90 can cover at most 98.0 % of the jobs."
    )
    assert notes(matrix, limits_outlived(runtime_s[11:], limit_s[11:])) == [], "less than a hundredth is not told"


def test_many_jobs_beyond_twice_their_limit_put_the_limits_in_doubt(matrix: Any) -> None:
    runtime_s, limit_s = np.full(100, 600.0), np.where(np.arange(100) < 50, 60.0, 1000.0)
    past, doubt = notes(matrix, limits_outlived(runtime_s, limit_s))
    assert past.startswith("50.0 % of the test jobs ran past their hard limit: 0.0 % by at most 5 minutes, 50.0 % by more.")
    assert doubt.startswith("50.0 % of the test jobs ran for more than twice their limit.")
    assert "in the unit in which the log has them" in doubt


def test_default_gates_refuse_a_model_whose_p90_covers_half_of_the_jobs() -> None:
    """Limits in minutes read as seconds cap p90: 49.8 % covered, although the error factor beats every baseline."""
    gates = Cluster.model_validate(
        {"name": "x", "source": {"format": "table", "paths": ["p"]}, "time_zone": "UTC"}
    ).evaluation.gates
    numbers = dict.fromkeys(BY_NAME, 0.5)
    for covers, passed in ((0.498, False), (0.655, True), (0.9, True), (1.0, True)):
        found = judge(
            gates, cluster="x", kind="gbdt", night="2026-03-01", data_fingerprint="f", model_sha256="a", coverage={},
            scores={
                "gbdt": {"all": {**numbers, "error_factor": 2.0, "p90_coverage": covers}},
                "nearest_median": {"all": {**numbers, "error_factor": 3.7}},
            },
            baselines=["nearest_median"], jobs=500, min_jobs=100, distinct_answers=400, fallback_reason=None,
        )  # fmt: skip
        assert found.passed is passed
        assert passed or found.reasons == ("gbdt: p90_coverage on all jobs is 0.498; at least 0.6 asked for",)


def test_totals_are_shares_of_the_time_that_the_jobs_took(make_forecast: Any) -> None:
    forecast = make_forecast([10, 20, 30], p90_s=[20, 40, 90])
    assert totals(np.array([100.0, 10.0, 10.0]), {"a": forecast}) == {"a": {"point_s": 0.5, "p50_s": 0.5, "p90_s": 1.25}}


def test_worst_served_are_slices_of_people_and_places_with_enough_jobs() -> None:
    factors = {
        "all": 2.0, "state:FAILED": 99.0, "user:a": 3.0, "user:few": 50.0, "queue:q": 5.0, "account:x": None, "group:g": 1.5, "user:z": 5.0,
    }  # fmt: skip
    document = {
        "slices": {name: {"jobs": 29 if name == "user:few" else 30} for name in factors},
        "predictors": {"gbdt": {name: {"error_factor": factor} for name, factor in factors.items()}},
    }
    assert served_worst(document, "gbdt") == ["user:z", "queue:q", "user:a", "group:g"]
    assert served_worst(document, "gbdt", count=1) == ["user:z"]
