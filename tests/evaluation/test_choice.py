from typing import Any

import pytest

from runcast.data.cluster import Gate
from runcast.evaluation.choice import choose

KINDS = ("cart", "gbdt", "runcast")
#: cart, gbdt, runcast: error factor, p90 coverage, predicted too short, error factor on group:vc1, coverage at 8.9 %
NUMBERS = {"cart": (1.91, 0.89, 0.1, 1.2, 0.1), "gbdt": (1.81, 0.99, 0.3, 1.5, 0.4), "runcast": (1.80, 0.93, 0.5, 1.4, 0.3)}


def report(jobs: int = 500, without: tuple[str, ...] = (), **changed: Any) -> dict[str, Any]:
    """A night's report on every kind but those in `without`."""
    predictors, coverage = {}, {}
    for kind, (factor, p90, under, in_group, covered) in NUMBERS.items():
        if kind not in without:
            everything = {"error_factor": factor, "p90_coverage": p90, "under_share": under}
            predictors[kind] = {"all": everything, "group:vc1": {"error_factor": in_group}}
            coverage[kind] = {"0.089": covered}
    return {"jobs": jobs, "fallbacks": {}, "predictors": predictors, "coverage": coverage} | changed


NOTHING_TO_JUDGE = report(jobs=0, without=KINDS)


@pytest.mark.parametrize(
    ("gate", "sentence"),
    [
        (Gate(), "runcast serves: lowest error factor of three champions, ×1.80"),
        (None, "runcast serves: lowest error factor of three champions, ×1.80"),
        (Gate(rows="group:vc1"), "cart serves: lowest error factor on group:vc1 jobs of three champions, ×1.20"),
        (Gate(metric="coverage_0.089"), "gbdt serves: highest coverage at 8.9 % of three champions, 40.0 %"),
        (Gate(metric="p90_coverage"), "cart serves: p90 coverage nearest to 90 % of three champions, 89.0 %"),
        (
            Gate(metric="under_share", at_most=0.9, than_best_baseline=False),
            "runcast serves: lowest error factor of three champions, ×1.80; under_share on all jobs, the first gate's number, does not "
            "compare them",
        ),
        (
            Gate(rows="group:vc9"),
            "runcast serves: lowest error factor of three champions, ×1.80; error_factor on group:vc9 jobs, the first gate's number, "
            "does not compare them",
        ),
    ],
    ids=["default", "no gate", "a slice", "coverage at a target", "nearest", "no direction", "a slice without jobs tonight"],
)
def test_champion_is_chosen_by_the_first_gates_number_and_says_so(gate: Gate | None, sentence: str) -> None:
    found = choose(KINDS, gate, [("2026-03-31", report())], 100, None)
    assert (found.sentence, found.night) == (sentence, "2026-03-31")
    assert found.kind == sentence.split()[0]


@pytest.mark.parametrize(
    "tonight",
    [
        pytest.param(NOTHING_TO_JUDGE, id="nothing to judge"),
        pytest.param(report(jobs=99), id="too few test jobs"),
        pytest.param(report(without=("runcast",)), id="a champion that the report does not know"),
        pytest.param(report(fallbacks={"runcast": "too few jobs had ended"}), id="a baseline in a champion's place"),
        pytest.param({**report(), "predictors": {k: {"all": {"error_factor": float("nan")}} for k in KINDS}}, id="NaN"),
    ],
)
def test_a_night_that_cannot_compare_leaves_it_to_the_night_before(tonight: dict[str, Any]) -> None:
    found = choose(KINDS, Gate(), [("2026-03-31", tonight), ("2026-03-30", report())], 100, "cart")
    assert found.sentence == (
        "runcast serves: lowest error factor of three champions, ×1.80; night of 2026-03-30, the latest that compares them"
    )
    assert found.night == "2026-03-30"


@pytest.mark.parametrize(
    ("champions", "serves", "kind", "sentence"),
    [
        ((), "cart", None, "nearest_median serves: no model has passed its gates"),
        (("cart",), None, "cart", "cart serves: it is the only champion"),
        (("cart", "gbdt"), "gbdt", "gbdt", "gbdt serves: it served before; no report compares the two champions"),
        (("cart", "gbdt"), "runcast", "cart", "cart serves: the first of them; no report compares the two champions"),
    ],
    ids=["no champion", "one champion", "what serves stays", "what served is no champion"],
)
def test_without_numbers_the_choice_says_what_it_went_by(
    champions: tuple[str, ...], serves: str, kind: str | None, sentence: str
) -> None:
    found = choose(champions, Gate(), [("2026-03-31", NOTHING_TO_JUDGE)], 100, serves)
    assert (found.kind, found.sentence, found.night) == (kind, sentence, None)


def test_reports_are_read_only_as_far_as_needed() -> None:
    def reports() -> Any:
        yield "2026-03-31", report()
        raise AssertionError("the night before was read")

    assert choose(KINDS, Gate(), reports(), 100, None).kind == "runcast"
