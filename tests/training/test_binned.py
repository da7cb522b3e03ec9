import ast
from collections.abc import Callable
from pathlib import Path

import lightgbm
import numpy as np
import pytest

from runcast.training.binned import rows_of

ROOT = Path(__file__).parents[2]
COMMON = {
    "objective": "quantile", "alpha": 0.9, "num_leaves": 15, "min_data_in_leaf": 20, "max_bin": 63, "feature_fraction": 0.4,
    "bagging_fraction": 0.7, "bagging_freq": 1, "seed": 7, "deterministic": True, "force_col_wise": True, "num_threads": 1,
    "verbosity": -1,
}  # fmt: skip


@pytest.mark.parametrize(
    "rows",
    [np.arange(1050), np.arange(600, 1200), np.r_[0:300, 900:1200], np.arange(0, 1200, 3)],
    ids=["earlier", "later", "around a fold", "every third"],
)
@pytest.mark.parametrize("zero_share", [0.0, 0.8], ids=["dense", "sparse"])
def test_rows_give_the_trees_that_subset_gives(make_jobs: Callable, rows: np.ndarray, zero_share: float) -> None:
    inputs, runtime_s = make_jobs(1200)
    values = np.where(np.random.default_rng(5).random(inputs.values.shape) < zero_share, np.float32(0), inputs.values)
    whole = lightgbm.Dataset(
        values, np.log(runtime_s), feature_name=list(inputs.names), params=COMMON, free_raw_data=False
    ).construct()
    ours, subset = (lightgbm.train(COMMON, part, 30) for part in (rows_of(whole, rows), whole.subset(rows.tolist())))
    assert ours.model_to_string() == subset.model_to_string()
    assert ours.dump_model()["tree_info"][0]["num_leaves"] > 1


def test_rows_have_the_labels_that_were_set_last(make_jobs: Callable) -> None:
    inputs, runtime_s = make_jobs(300)
    whole = lightgbm.Dataset(inputs.values, np.log(runtime_s), params=COMMON, free_raw_data=False).construct()
    whole.set_label(np.arange(300.0))
    assert rows_of(whole, np.array([7, 250])).construct().get_label().tolist() == [7.0, 250.0]


def test_no_fit_uses_subset_which_ends_the_process_on_some_data() -> None:
    calls = [
        f"{path.name}:{node.lineno}"
        for folder in ("training", "evaluation", "features", "scheduler", "mlflow/registry")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "subset"
    ]
    assert calls == []
