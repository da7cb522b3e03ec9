"""One job is answered exactly as it is in a table, by every kind, with unknown and extreme values and every limit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from runcast.data.cluster import GbdtParameters, Training
from runcast.training.errors import ModelFileError
from runcast.training.forecast import Forecast, Inputs, clip
from runcast.training.kinds import BASELINES, MODELS, fit
from runcast.training.one_row import answerer, clip_one

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
