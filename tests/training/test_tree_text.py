"""A model's text is checked before LightGBM reads it: no text, however wrong, ends the process."""

import subprocess
import sys

import lightgbm
import numpy as np
import pytest

from runcast.training.errors import ModelFileError
from runcast.training.tree_text import check_tree_text

pytestmark = pytest.mark.attack

#: Of two features and three leaves, written by hand from the format's description: node 1 is the left child of node 0.
SMALL = """tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=quantile alpha:0.9
feature_names=a b
feature_infos=[0:1] none
tree_sizes=SIZE

TREE
end of trees

parameters:
end of parameters
"""
TREE = """Tree=0
num_leaves=3
num_cat=0
split_feature=0 1
split_gain=1 1
threshold=0.5 0.25
decision_type=2 2
left_child=1 -1
right_child=-3 -2
leaf_value=1 2 3
leaf_weight=1 1 1
leaf_count=1 1 1
internal_value=0 0
internal_weight=0 0
internal_count=3 2
is_linear=0
shrinkage=1


"""


def _model(tree: str = TREE) -> str:
    return SMALL.replace("SIZE", str(len(tree))).replace("TREE\n", tree)


def test_hand_written_model_passes_and_answers_as_its_tree_says() -> None:
    text = _model()
    check_tree_text(text)
    answers = lightgbm.Booster(model_str=text).predict(np.array([[0.1, 0.1], [0.1, 0.9], [0.9, 0.1]]))
    assert answers.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "objective",
    [
        {"objective": "regression_l1"},
        {"objective": "quantile", "alpha": 0.9},
        {"objective": "cross_entropy"},
        {"objective": "l2"},
    ],
    ids=lambda objective: objective["objective"],
)
@pytest.mark.parametrize("leaf", [5, 300], ids=["trees", "one leaf only"])
def test_every_model_that_lightgbm_writes_passes(objective: dict[str, object], leaf: int) -> None:
    draw = np.random.default_rng(1)
    values = draw.normal(size=(400, 3)).astype(np.float32)
    values[::7, 1] = np.nan
    data = lightgbm.Dataset(values, (values[:, 0] > 0).astype(float))
    fixed = {"verbosity": -1, "num_threads": 1, "min_data_in_leaf": leaf}
    check_tree_text(lightgbm.train(objective | fixed, data, 20).model_to_string())


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("split_feature=0 1", "split_feature=0 2", "tree 0: split_feature: expected 0 to 1, found 0 to 2"),
        ("split_feature=0 1", "split_feature=0 -1", "split_feature: expected 0 to 1, found -1"),
        ("split_feature=0 1", "split_feature=0", "split_feature: expected 2 numbers, found 1"),
        ("left_child=1 -1", "left_child=9 -1", "do not form one tree"),
        ("left_child=1 -1", "left_child=0 -1", "do not form one tree"),
        ("right_child=-3 -2", "right_child=-3 1", "do not form one tree"),
        ("right_child=-3 -2", "right_child=-3 -9", "do not form one tree"),
        ("num_leaves=3", "num_leaves=300000000", "leaf_value: expected 300000000 numbers, found 3"),
        ("num_leaves=3", "num_leaves=-3", "leaf_value: expected -3 numbers"),
        ("num_leaves=3", "num_leaves=99999999999999999999", "num_leaves: "),
        ("num_cat=0", "num_cat=1", "categorical or linear"),
        ("decision_type=2 2", "decision_type=1 2", "decision_type: expected numerical splits"),
        ("is_linear=0", "is_linear=1", "categorical or linear"),
        ("leaf_value=1 2 3", "leaf_value=1 nan 3", "leaf values must be finite"),
        ("leaf_value=1 2 3", "leaf_value=1 x 3", "leaf_value: expected numbers"),
        ("leaf_value=1 2 3", "leaf_value=1\t2 3", r"is '\\t': the library writes printable ASCII"),
        ("leaf_value=1 2 3", "leaf_value=1 2 ٣", "printable ASCII"),
        ("left_child=1 -1", "left_child=1\u00a0-1", "printable ASCII"),
        ("leaf_value=1 2 3", "leaf_value=1  2 3", "leaf_value: expected numbers with a space"),
        ("leaf_value=1 2 3", "leaf_value=1 2 3_0", "leaf_value: expected numbers with a space"),
        ("leaf_value=1 2 3", "leaf_value=1 2 3 ", "leaf_value: expected numbers with a space"),
        ("threshold=0.5 0.25", "threshold=Infinity 0.25", "threshold: expected numbers with a space"),
        ("threshold=0.5 0.25", "threshold=nan 0.25", "threshold: not a number"),
        ("shrinkage=1", "shrinkage=1\nshrinkage=1", "each name once"),
        ("shrinkage=1", "leaf_coeff=1", "unknown lines leaf_coeff"),
    ],
)
def test_wrong_tree_is_refused_with_its_field(before: str, after: str, problem: str) -> None:
    assert before in TREE
    with pytest.raises(ModelFileError, match=problem):
        check_tree_text(_model(TREE.replace(before, after)))


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("num_class=1", "num_class=100000", "num_class: expected 1"),
        ("num_tree_per_iteration=1", "num_tree_per_iteration=0", "num_tree_per_iteration: expected 1"),
        ("max_feature_idx=1", "max_feature_idx=100", "2 feature_names, 2 feature_infos, max_feature_idx '100'"),
        ("feature_names=a b", "feature_names=", "0 feature_names"),
        ("feature_infos=[0:1] none", "feature_infos=none", "1 feature_infos"),
        ("objective=quantile alpha:0.9", "objective=custom", "objective: expected one of"),
        ("version=v4", "version=v3", "version: expected v4"),
        ("label_index=0", "label_index=0\naverage_output", "name=value"),
        ("tree_sizes=", "tree_sizes=1 ", "is not where the header's tree_sizes says"),
        ("tree_sizes=", "tree_sizes=²", "printable ASCII"),
        ("end of trees", "Tree=1", "expected 'end of trees'"),
    ],
)
def test_wrong_header_is_refused(before: str, after: str, problem: str) -> None:
    assert before in _model()
    with pytest.raises(ModelFileError, match=problem):
        check_tree_text(_model().replace(before, after))


_MUTATE = """
import sys, numpy as np
from runcast.training.booster import Booster
from runcast.training.errors import ModelFileError
text, draw = sys.stdin.read(), np.random.default_rng(5)
end, digits = text.index("end of trees") + 12, "0123456789-. =\\nabe"
row, read = np.zeros((3, 12), np.float32), 0
for _ in range(3000):
    chars = list(text)
    for at in draw.integers(0, end, draw.integers(1, 4)):
        chars[at] = digits[draw.integers(len(digits))]
    try:
        Booster("".join(chars)).predict(row)
        read += 1
    except ModelFileError:
        pass
print(read)
"""


def test_no_altered_text_ends_the_process() -> None:
    draw = np.random.default_rng(3)
    values = draw.normal(size=(500, 12)).astype(np.float32)
    model = lightgbm.train(
        {"objective": "l1", "num_leaves": 15, "verbosity": -1, "num_threads": 1}, lightgbm.Dataset(values, values[:, 0].copy()), 5
    )
    done = subprocess.run(
        [sys.executable, "-c", _MUTATE],
        input=model.model_to_string(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert 0 < int(done.stdout) < 3000  # some changes leave a model that can be read, others do not
