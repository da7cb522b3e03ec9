"""What `runcast` learns from, and its median, which follows a job's history beyond what training had."""

from collections.abc import Callable

import numpy as np
import pytest

from runcast.data.cluster import GbdtParameters, RuncastParameters, Training
from runcast.training.errors import ModelFileError
from runcast.training.forecast import Inputs
from runcast.training.kinds import fit
from runcast.training.ranked import FILES, NEAREST, Ranked

TRAINING = Training(min_jobs=500, gbdt=GbdtParameters(trees=20), runcast=RuncastParameters(trees=40))


@pytest.fixture
def rule(make_jobs: Callable) -> Ranked:
    found = fit("runcast", *make_jobs(1500), TRAINING).rule
    assert isinstance(found, Ranked)
    return found


@pytest.mark.parametrize("kind", ["gbdt", "runcast"])
def test_boosted_models_read_no_dates(kind: str, make_jobs: Callable) -> None:
    inputs, runtime_s = make_jobs(600)
    dates = np.tile(np.arange(2, dtype=np.float32), (600, 1))
    dated = Inputs((*inputs.names, "month", "month_day"), np.hstack([inputs.values, dates]), inputs.hard_limit_s)
    assert not {"month", "month_day"} & {*fit(kind, dated, runtime_s, TRAINING).rule.columns}


def test_median_follows_the_history_beyond_what_training_had(rule: Ranked, make_jobs: Callable) -> None:
    """Trees alone answer the same for every value above the largest they have seen."""
    inputs, runtime_s = make_jobs(1500)
    long, longer = (inputs.select(rule.p50.names).values.copy() for _ in range(2))
    for values, nearest_s in ((long, 1e3 * runtime_s.max()), (longer, 1e6 * runtime_s.max())):
        values[:, rule.p50.names.index(NEAREST)] = nearest_s
    assert rule.p50.predict(longer) - rule.p50.predict(long) == pytest.approx(np.log(1000) / 2, rel=1e-5)
    np.testing.assert_array_equal(rule.p50.of_runtime.predict(longer), rule.p50.of_runtime.predict(long))


def test_median_of_one_job_is_that_of_a_table(rule: Ranked, make_jobs: Callable) -> None:
    values = make_jobs(300)[0].select(rule.p50.names).values
    assert np.isnan(values[:, rule.p50.names.index(NEAREST)]).any()
    np.testing.assert_array_equal(rule.p50.predict(values), [rule.p50.predict_one(row) for row in values])


def test_stored_rule_reads_back_as_it_was(rule: Ranked, make_jobs: Callable) -> None:
    inputs = make_jobs(300, seed=4)[0].select(rule.columns)
    again = Ranked.read("runcast", rule.columns, rule.content(), rule.files())
    np.testing.assert_array_equal(again.forecast(inputs).p50_s, rule.forecast(inputs).p50_s)
    assert again == rule


@pytest.mark.parametrize("name", FILES[1:3])
def test_models_of_other_features_are_refused(name: str, rule: Ranked) -> None:
    files = rule.files() | {name: rule.files()["scorer.txt"]}
    with pytest.raises(ModelFileError, match="their features are not the model's"):
        Ranked.read("runcast", rule.columns, rule.content(), files)
