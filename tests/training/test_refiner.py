"""The refiner: what it reads, how far that lies from the chosen value, and that its second look comes nearer to the runtime."""

from collections.abc import Callable

import lightgbm
import numpy as np
import pytest

from runcast.data.cluster import RuncastParameters, Training
from runcast.training.booster import Booster
from runcast.training.candidates import COLUMNS
from runcast.training.errors import ModelFileError
from runcast.training.forecast import Inputs
from runcast.training.kinds import fit
from runcast.training.ranked import Ranked, choose
from runcast.training.refiner import Refiner, columns_of, rows, runtimes_among

TRAINING = Training(min_jobs=500, runcast=RuncastParameters(trees=60))
NAN = float("nan")


def fitted(inputs: Inputs, runtime_s: np.ndarray) -> Ranked:
    rule = fit("runcast", inputs, runtime_s, TRAINING).rule
    assert isinstance(rule, Ranked)
    return rule


def booster_over(columns: tuple[str, ...]) -> Booster:
    values = np.random.default_rng(1).random((60, len(columns)))
    data = lightgbm.Dataset(values, values[:, 0], feature_name=list(columns))
    return Booster(lightgbm.train({"verbosity": -1, "num_threads": 1}, data, 2).model_to_string())


@pytest.mark.parametrize(
    ("name", "is_read"),
    [
        ("last_1_s_by_user", True),
        ("median_7_s_by_user_name_size_limit", True),
        ("fresh_s_by_array", True),
        ("log_mean_7_by_queue", True),
        ("log_mean_by_everything", True),
        ("median_7_s_by_slot_1", False),  # of slots the value's own row tells
        ("log_std_7_by_user", False),
        ("age_s_by_user", False),
        ("nearest_median_s", False),
        ("time_limit_s", False),
    ],
)
def test_reads_the_runtimes_of_the_levels(name: str, is_read: bool) -> None:
    assert runtimes_among(("hour_of_day", name)) == ((name,) if is_read else ())


@pytest.mark.parametrize(
    ("feature", "told", "value_s", "expected"),
    [
        ("last_1_s_by_user", 200.0, 100.0, np.log(2)),
        ("last_1_s_by_user", 25.0, 100.0, -np.log(4)),
        ("last_1_s_by_user", 0.2, 100.0, -np.log(100)),  # runtimes count from a second up
        ("last_1_s_by_user", NAN, 100.0, NAN),
        ("log_mean_by_user", 3.0, np.e, 2.0),  # a logarithm already
        ("log_mean_7_by_user", NAN, np.e, NAN),
    ],
)
def test_tells_how_far_a_runtime_lies_from_the_value(feature: str, told: float, value_s: float, expected: float) -> None:
    described = np.arange(2, dtype=np.float32)[np.newaxis]
    found = rows(described, np.array([[told]], np.float32), (feature,), np.log(np.array([value_s], np.float32)))
    np.testing.assert_allclose(found, [[0, 1, expected]], rtol=1e-6)


@pytest.mark.parametrize(
    "columns",
    [COLUMNS[1:], (*COLUMNS, "from_age_s_by_user"), (*COLUMNS, "median_7_s_by_user"), (*reversed(COLUMNS),)],
    ids=["one is missing", "no runtime", "no distance", "other order"],
)
def test_model_of_other_columns_is_refused(columns: tuple[str, ...]) -> None:
    with pytest.raises(ModelFileError, match=r"refiner\.txt"):
        Refiner(booster_over(columns))


def test_model_whose_features_the_predictor_lacks_is_refused(make_jobs: Callable) -> None:
    rule = fitted(*make_jobs(600))
    other = booster_over(columns_of(("last_1_s_by_queue",)))
    with pytest.raises(ModelFileError, match="its features are not the model's"):
        Ranked.read("runcast", rule.columns, rule.content(), rule.files() | {"refiner.txt": other.text})


def test_comes_nearer_where_a_level_tells_where_in_the_window(make_jobs: Callable) -> None:
    """All slots know is within 20 % of the runtime; the user's median is within 2 %, and no candidate."""
    inputs, runtime_s = make_jobs(3000, unknown_share=0.0)
    rng = np.random.default_rng(5)
    values = inputs.values.copy()
    for at, name in enumerate(inputs.names):
        if name == "median_7_s_by_user":
            values[:, at] = runtime_s * rng.uniform(0.98, 1.02, 3000)
        elif name.startswith(("last_", "fresh_s", "median_7_s", "mode_7_s")) and "_s_by_slot" in name:
            values[:, at] = runtime_s * rng.uniform(0.8, 1.2, 3000)
    inputs = Inputs(inputs.names, values, inputs.hard_limit_s)
    learned, asked = np.arange(2400), np.arange(2400, 3000)
    rule = fitted(inputs.take(learned), runtime_s[learned])
    given = inputs.take(asked).select(rule.columns)
    median_log = np.log(runtime_s[asked]) + 3.0  # far off: the choice is among the slots
    chosen = choose(rule.scorer, given, median_log)
    refined_log = rule.refiner.refined(chosen.described, given.select(rule.refiner.reads).values, chosen.value_log)
    off = [np.median(np.abs(np.log(runtime_s[asked]) - log)) for log in (chosen.value_log, refined_log)]
    assert off[1] < off[0] / 2
