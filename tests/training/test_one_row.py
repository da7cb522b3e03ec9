"""One job is answered exactly as it is in a table, by every kind, with unknown and extreme values and every limit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runcast.data.cluster import GbdtParameters, RuncastParameters, Training
from runcast.training.candidates import READS, OneJob, candidates
from runcast.training.errors import ModelFileError
from runcast.training.forecast import Forecast, Inputs, clip
from runcast.training.kinds import BASELINES, MODELS, fit
from runcast.training.one_row import OneRanked, answerer, clip_one
from runcast.training.ranked import Ranked

LIMITS = (np.nan, 0.5, 1.0, 60.0, 86_400.0)


def asked(inputs: Inputs) -> Inputs:
    """Rows of the training set, rows of unknown and extreme values, under each limit in turn."""
    width = inputs.values.shape[1]
    extreme = np.array([[value] * width for value in (np.nan, 0.0, -1.0, 1e30, -1e30, 3.0, np.inf)], np.float32)
    values = np.concatenate([inputs.values, extreme, *([inputs.values[:1]] * len(LIMITS))])
    return Inputs(inputs.names, values, np.resize(np.array(LIMITS), len(values)))


@pytest.mark.parametrize("kind", [*BASELINES, *MODELS])
def test_one_row_is_answered_as_in_a_table(kind: str, make_jobs: Callable) -> None:
    inputs, runtime_s = make_jobs(800)
    rule = fit(kind, inputs, runtime_s, Training(min_jobs=100, gbdt=GbdtParameters(trees=30))).rule
    assert rule.kind == kind
    table = asked(inputs).select(rule.columns)
    answer, expected = answerer(rule), rule.forecast(table)
    for at in range(len(table)):
        found = answer(table.values[at], float(table.hard_limit_s[at]))
        assert found._asdict() == {name: getattr(expected, name)[at] for name in found._fields}


@dataclass(frozen=True)
class Later:
    """A rule that came later and has no form for one row."""

    kind: str = "later"
    columns: tuple[str, ...] = ("a", "b")

    def forecast(self, inputs: Inputs) -> Forecast:
        p50_s = inputs.column("a") + inputs.column("b")
        source = np.full(len(inputs), self.kind)
        return clip(p50_s, p50_s * 2, np.full(len(inputs), 0.5), source, inputs.hard_limit_s, point_s=p50_s + 1)

    def content(self) -> dict[str, Any]:
        return {}

    def files(self) -> dict[str, str]:
        return {}


def test_rule_without_a_form_for_one_row_is_asked_through_its_table() -> None:
    assert answerer(Later())(np.array([3, 4], np.float32), np.nan) == (7.0, 14.0, 8.0, 0.5, "later")


def test_forecast_that_is_not_finite_is_an_error_here_too() -> None:
    with pytest.raises(ModelFileError, match="not finite"):
        clip_one(np.nan, 1.0, 0.5, "x", np.nan)


SECONDS = st.sampled_from(
    [0.0, 0.5, 1.0, 59.9, 60.0, 61.0, 75.0, 80.0, 3600.0, 86_400.0, 1e15, -5.0, np.inf, -np.inf, 3.4e38, 1e-30]
)
VALUES = st.one_of(st.just(np.nan), SECONDS, st.floats(1, 1e6, width=32), st.integers(0, 64).map(float))
HARD_LIMITS = st.one_of(st.just(np.nan), st.sampled_from([1e-6, 0.5, 1.0, 60.0, 1e15]), st.floats(1, 1e7))
P50_LOGS = st.one_of(st.floats(-2, 16), st.sampled_from([-30.0, 0.0, 40.0]))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    known=st.dictionaries(st.sampled_from(range(len(READS))), VALUES, max_size=len(READS)),
    rest=VALUES,
    hard_limit_s=HARD_LIMITS,
    p50_log=P50_LOGS,
)
def test_candidates_of_one_job_are_those_of_a_table(
    known: dict[int, float], rest: float, hard_limit_s: float, p50_log: float
) -> None:
    row = np.array([known.get(at, rest) for at in range(len(READS))], np.float32)
    drawn = candidates(Inputs(READS, row[np.newaxis], np.array([hard_limit_s])), np.array([p50_log]))
    exists, described = drawn.described()
    job = OneJob()
    job.described(row[::-1].copy(), 60.0, 3.0)  # what the job before left behind does not show
    values, found = job.described(row.copy(), hard_limit_s, p50_log)
    np.testing.assert_array_equal(values, drawn.values[exists])
    np.testing.assert_array_equal(found, described)


@pytest.fixture(scope="module")
def fitted() -> dict[str, Ranked]:
    return {}


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    known=st.lists(VALUES, min_size=8, max_size=40),
    at=st.integers(0, 700),
    hard_limit_s=HARD_LIMITS,
)
def test_ranked_answers_any_one_row_as_in_a_table(
    known: list[float], at: int, hard_limit_s: float, make_jobs: Callable, fitted: dict[str, Ranked]
) -> None:
    """A training job of which some features are replaced, by unknown and extreme values too."""
    inputs, runtime_s = make_jobs(800)
    if not fitted:
        training = Training(min_jobs=100, runcast=RuncastParameters(trees=20))
        rule = fit("runcast", inputs, runtime_s, training).rule
        assert isinstance(rule, Ranked)
        fitted["runcast"] = rule
    rule = fitted["runcast"]
    row = inputs.select(rule.columns).values[at].copy()
    row[(at * 7 + np.arange(len(known)) * 3) % len(row)] = known
    table = Inputs(rule.columns, row[np.newaxis], np.array([hard_limit_s]))
    answer, p90_log = OneRanked(rule).shifted(row, hard_limit_s, 0.25)
    expected = rule.answer(table, rule.p90_log(table) + 0.25)
    assert p90_log == rule.p90_log(table)[0]
    assert answer._asdict() == {name: getattr(expected, name)[0] for name in answer._fields}
