import json
from dataclasses import replace

import pytest

from runcast.data.cluster import Gate
from runcast.evaluation.gates import ChampionComparison, GateReport, judge
from runcast.evaluation.metrics import BY_NAME

BASELINES = ("request", "nearest_median")


def scores(**factors: float) -> dict:
    """Scores with this error factor on all and recurring jobs; every other metric 0.5, none for new users."""
    others = dict.fromkeys(BY_NAME, 0.5)
    return {
        name: {
            "all": {**others, "error_factor": factor},
            "recurring": {**others, "error_factor": factor / 2},
            "new_user": dict.fromkeys(BY_NAME),
        }
        for name, factor in factors.items()
    }


COVERAGE = {"request": {"0.089": 0.0}, "nearest_median": {"0.089": 0.3}, "gbdt": {"0.089": 0.4}}


def verdict(gate: Gate, factor: float = 2.0, **changes) -> GateReport:
    given = {
        "cluster": "venus", "kind": "gbdt", "night": "2024-03-01", "data_fingerprint": "f00", "model_sha256": "abc",
        "coverage": COVERAGE, "baselines": BASELINES,
        "scores": scores(request=9.0, nearest_median=3.0, gbdt=factor),
        "jobs": 500, "min_jobs": 100, "distinct_answers": 400, "fallback_reason": None,
    }  # fmt: skip
    return judge([gate], **{**given, **changes})


@pytest.mark.parametrize(
    ("gate", "factor", "passed"),
    [
        pytest.param(Gate(), 2.9, True, id="default: better than the best baseline"),
        pytest.param(Gate(), 3.0, False, id="default: equal to the best baseline is not better"),
        pytest.param(Gate(), 5.0, False, id="default: better than one baseline is not enough"),
        pytest.param(Gate(at_most=2.0), 2.5, False, id="bound and baseline both have to hold"),
        pytest.param(Gate(at_most=4.0, than_best_baseline=False), 3.5, True, id="bound alone"),
        pytest.param(Gate(rows="recurring"), 2.9, True, id="on a slice, against the baseline on the same slice"),
        pytest.param(Gate(rows="recurring", at_most=1.0, than_best_baseline=False), 2.9, False, id="a slice's bound"),
        pytest.param(Gate(metric="p90_coverage", at_least=0.85, than_best_baseline=False), 2.0, False, id="at least"),
        pytest.param(Gate(metric="coverage_0.089"), 2.0, True, id="coverage at a target, against the baselines"),
        pytest.param(Gate(metric="coverage_0.089", at_least=0.6), 2.0, False, id="coverage bound"),
        pytest.param(Gate(rows="new_user"), 2.0, False, id="a slice without jobs proves nothing"),
        pytest.param(Gate(rows="group:gone"), 2.0, False, id="a group without jobs tonight proves nothing"),
    ],
)
def test_gate(gate: Gate, factor: float, passed: bool) -> None:
    assert verdict(gate, factor).passed is passed


def test_verdict_says_the_numbers() -> None:
    found = verdict(Gate(), 5.0)
    assert found.reasons == ("gbdt: error_factor on all jobs is 5; the best baseline (nearest_median) has 3",)
    assert (found.metric, found.value, found.best_baseline, found.best_baseline_value) == (
        "error_factor[all]",
        5.0,
        "nearest_median",
        3.0,
    )
    assert verdict(Gate(), 2.0).text == "passed"


@pytest.mark.parametrize(
    ("gate", "value", "reason"),
    [
        pytest.param(Gate(at_most=9), 5.0, "the best baseline (nearest_median) has 3", id="the bound holds"),
        pytest.param(Gate(at_most=1.5), 2.0, "at most 1.5 asked for", id="the baseline is beaten"),
        pytest.param(Gate(at_most=4), 5.0, "at most 4 asked for; the best baseline (nearest_median) has 3", id="both fail"),
    ],
)
def test_a_gate_that_fails_names_only_the_conditions_that_fail(gate: Gate, value: float, reason: str) -> None:
    assert verdict(gate, value).reasons == (f"gbdt: error_factor on all jobs is {value:.4g}; {reason}",)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"jobs": 99}, "99 test jobs, 100 asked for"),
        ({"distinct_answers": 1}, "gbdt gives 1 different answers: a constant is no model"),
        ({"fallback_reason": "30 ended jobs", "model_sha256": ""}, "30 ended jobs"),
        ({"model_sha256": ""}, "no gbdt was trained for this night; train it, then evaluate"),
    ],
    ids=["too few test jobs", "a constant", "a baseline in its place", "no model of the night"],
)
def test_no_gate_setting_lets_these_pass(changes: dict, sentence: str) -> None:
    found = verdict(Gate(at_most=1e9, than_best_baseline=False), **changes)
    assert (found.passed, found.reasons) == (False, (sentence,))


CHAMPION = ChampionComparison("2024-02-20", 300, "error_factor", champion=2.2, challenger=2.2)


@pytest.mark.parametrize(
    ("champion", "passed"),
    [
        pytest.param(CHAMPION, True, id="as good as the champion"),
        pytest.param(replace(CHAMPION, challenger=2.3), False, id="worse than the champion"),
        pytest.param(replace(CHAMPION, challenger=None, reason="k", failure="killed"), False, id="its fit was killed"),
        pytest.param(replace(CHAMPION, challenger=None, reason="40 jobs since, 100 asked for"), True, id="too little to compare"),
        pytest.param(ChampionComparison("d", 300, "within_25", 0.4, 0.3), False, id="higher is better: lower is worse"),
        pytest.param(ChampionComparison("d", 300, "p90_coverage", 0.91, 0.99), False, id="nearest to 90 %: 99 is worse than 91"),
        pytest.param(ChampionComparison("d", 300, "p90_coverage", 1.0, 0.9), True, id="nearest to 90 %: 90 is better than 100"),
        pytest.param(ChampionComparison("d", 300, "error_factor", 2.2, float("nan")), False, id="no number is worse than any"),
        pytest.param(ChampionComparison("d", 300, "spearman", None, 0.5), True, id="the champion has no number"),
    ],
)
def test_newcomer_against_the_champion(champion: ChampionComparison, passed: bool) -> None:
    assert verdict(Gate(), champion=champion).passed is passed


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")], ids=str)
def test_a_number_that_is_none_passes_no_gate_and_breaks_no_verdict(value: float | None) -> None:
    spoilt = scores(request=9.0, nearest_median=3.0, gbdt=2.0)
    for name in ("nearest_median", "gbdt"):
        spoilt[name]["all"]["error_factor"] = value
    found = verdict(Gate(at_most=1e9, than_best_baseline=False), scores=spoilt)
    assert found.reasons == ("gbdt: error_factor on all jobs has no value: it cannot be computed on them",)
    assert (found.value, found.best_baseline, found.best_baseline_value) == (None, "request", 9.0)
    json.dumps(found.to_json(), allow_nan=False)


def test_a_slice_without_jobs_is_said_to_have_none() -> None:
    assert verdict(Gate(rows="group:gone")).reasons == (
        "gbdt: error_factor on group:gone jobs has no value: there are none among the test jobs",
    )
