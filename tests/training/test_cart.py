import json
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from runcast.data.cluster import CartParameters
from runcast.training.cart import export_cart, fit_cart, round_down
from runcast.training.errors import ConstantPredictor
from runcast.training.forecast import Inputs
from runcast.training.scoring import Cart

PARAMETERS = CartParameters(max_depth=8, min_samples_leaf=20)


def edge_rows(tree: DecisionTreeRegressor, base: np.ndarray) -> np.ndarray:
    """Return rows of `base` with one feature set to each threshold, one ulp (float32) beside it, NaN, -1 and large values."""
    rows = []
    for node in np.flatnonzero(tree.tree_.children_left >= 0):
        feature, threshold = tree.tree_.feature[node], np.float32(tree.tree_.threshold[node])
        beside = [np.nextafter(threshold, np.float32(side)) for side in (-np.inf, np.inf)]
        for value in (threshold, *beside, np.float32(np.nan), np.float32(-1), np.float32(1e9)):
            row = base[node % len(base)].copy()
            row[feature] = value
            rows.append(row)
    return np.array(rows, np.float32)


@pytest.mark.parametrize("unknown_share", [0.0, 0.3], ids=["no unknown values at training", "unknown values at training"])
def test_export_sends_every_edge_value_where_scikit_learn_does(make_jobs: Callable, unknown_share: float) -> None:
    inputs, runtime_s = make_jobs(1500, unknown_share=unknown_share)
    tree = DecisionTreeRegressor(max_depth=8, min_samples_leaf=20, random_state=0).fit(inputs.values, np.log(runtime_s))
    exported = export_cart(tree, inputs.names, inputs.values, runtime_s)
    rows = np.concatenate([edge_rows(tree, inputs.values), inputs.values])
    if unknown_share == 0:  # scikit-learn refuses NaN it has not seen at training; ours sends it to the larger side
        rows = rows[~np.isnan(rows).any(axis=1)]
    assert len(rows) > 1600
    assert exported.leaves(rows).tolist() == tree.apply(rows).tolist()


def test_leaf_answers_with_the_median_and_quantile_of_its_training_runtimes(make_jobs: Callable) -> None:
    inputs, runtime_s = make_jobs(300)  # too few to calibrate: the factor is 1
    rule = fit_cart(inputs, runtime_s, PARAMETERS, seed=1)
    leaf = rule.leaves(inputs.values)
    forecast = rule.forecast(inputs)
    assert rule.p90_factor == 1.0
    for one in np.unique(leaf):
        held_s = runtime_s[leaf == one]
        assert len(held_s) >= 20
        assert forecast.p50_s[leaf == one] == pytest.approx(np.median(held_s), rel=1e-6)
        assert forecast.p90_s[leaf == one] == pytest.approx(np.quantile(held_s, 0.9), rel=1e-6)


def test_inner_nodes_carry_statistics_too(make_jobs: Callable) -> None:
    inputs, runtime_s = make_jobs(300)
    nodes = fit_cart(inputs, runtime_s, PARAMETERS, seed=1).nodes
    assert nodes["p50_s"][0] == pytest.approx(np.median(runtime_s))
    assert nodes["jobs"][0] == 300


def test_unknown_not_seen_at_training_goes_to_the_larger_side() -> None:
    values = np.array([[0.0]] * 30 + [[1.0]] * 70, np.float32)
    runtime_s = np.array([10.0] * 30 + [1000.0] * 70)
    rule = fit_cart(Inputs(("a",), values, np.full(100, np.nan)), runtime_s, PARAMETERS, seed=1)
    asked = Inputs(("a",), np.array([[np.nan], [0.0], [1.0], [np.inf], [-np.inf]], np.float32), np.full(5, np.nan))
    assert rule.forecast(asked).p50_s.tolist() == [1000.0, 10.0, 1000.0, 1000.0, 10.0]


@pytest.mark.parametrize("threshold", [0.1, 1.0, 2.0**24 + 1, -0.1, 1e-30])
def test_float32_threshold_decides_as_the_float64_one(threshold: float) -> None:
    rounded = round_down(np.array([threshold]))[0]
    near = np.float32(threshold)
    for value in (near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))):
        assert (value <= rounded) == (float(value) <= threshold)


def test_p90_covers_nine_tenths_of_later_jobs(make_jobs: Callable) -> None:
    inputs, runtime_s = make_jobs(6000)
    rule = fit_cart(inputs, runtime_s, CartParameters(), seed=1)
    new, new_s = make_jobs(6000, seed=11)
    assert rule.p90_factor > 1.05  # the quantile of a leaf that was chosen to be alike is too low
    assert (new_s <= rule.forecast(new).p90_s).mean() == pytest.approx(0.9, abs=0.02)


def test_split_of_known_from_unknown_is_stored_as_a_finite_number() -> None:
    """scikit-learn's threshold for it is infinity, which JSON does not have."""
    values = np.array([[5.0]] * 50 + [[np.nan]] * 50, np.float32)
    runtime_s = np.array([10.0] * 50 + [1000.0] * 50)
    rule = fit_cart(Inputs(("a",), values, np.full(100, np.nan)), runtime_s, PARAMETERS, seed=1)
    again = Cart.read("cart", ("a",), json.loads(json.dumps(rule.content(), allow_nan=False)), {})
    asked = Inputs(("a",), np.array([[np.nan], [5.0], [-3e38], [3e38]], np.float32), np.full(4, np.nan))
    assert again.forecast(asked).p50_s.tolist() == [1000.0, 10.0, 10.0, 10.0]


def test_confidence_is_higher_where_the_leaf_is_tighter() -> None:
    rng = np.random.default_rng(2)
    values = np.repeat(np.array([[0.0], [1.0]], np.float32), 100, axis=0)
    runtime_s = np.concatenate([100 * np.exp(rng.normal(0, 0.01, 100)), 9000 * np.exp(rng.normal(0, 1.0, 100))])
    rule = fit_cart(Inputs(("a",), values, np.full(200, np.nan)), runtime_s, CartParameters(max_depth=1), seed=1)
    tight, loose = rule.forecast(Inputs(("a",), np.array([[0], [1]], np.float32), np.full(2, np.nan))).confidence
    assert 1 >= tight > 0.98 > loose > 0


def test_epoch_seconds_would_lose_their_meaning_in_float32() -> None:
    """Why no feature is an absolute time: sixteen submissions 16 s apart are three values to a tree."""
    epochs = 1.7e9 + 16 * np.arange(16)
    assert len(np.unique(epochs.astype(np.float32))) == 3


def test_tree_that_cannot_split_is_refused() -> None:
    inputs = Inputs(("a",), np.ones((640, 1), np.float32), np.full(640, np.nan))
    with pytest.raises(ConstantPredictor, match="no feature splits the 560 training jobs"):
        fit_cart(inputs, np.arange(1.0, 641.0), PARAMETERS, seed=1)


def test_same_jobs_and_seed_give_the_same_tree(make_jobs: Callable) -> None:
    inputs, runtime_s = make_jobs(1500)
    first, second = (json.dumps(fit_cart(inputs, runtime_s, PARAMETERS, seed=7).content()) for _ in range(2))
    assert first == second


def test_json_gives_back_the_same_answers(make_jobs: Callable) -> None:
    inputs, runtime_s = make_jobs(1500)
    rule = fit_cart(inputs, runtime_s, PARAMETERS, seed=7)
    again = Cart.read("cart", rule.columns, json.loads(json.dumps(rule.content())), {})
    for name in ("p50_s", "p90_s", "confidence"):
        assert (getattr(again.forecast(inputs), name) == getattr(rule.forecast(inputs), name)).all()
