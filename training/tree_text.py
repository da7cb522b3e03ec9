"""LightGBM's text format, checked before the library reads it: the library trusts the text, and ends the process where it is wrong.

A bundle may come from elsewhere, with every hash made right again. So the header, each tree's arrays and its structure are checked
here: node 0 is the root, a node's children have larger numbers, and each node and leaf has one parent (leaf k is written -k - 1).
The format is that of LightGBM's `Tree::ToString` and `GBDT::SaveModelToString`, version 4. Numpy level.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runcast.training.errors import ModelFileError

#: A model of ours has some 3 MB of text; one above this is not read.
LONGEST_TEXT = 256 * 2**20
_VERSION = "v4"
_OBJECTIVES = ("regression_l1", "regression", "quantile", "cross_entropy")
_HEADER = (
    "version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective", "feature_names",
    "feature_infos", "tree_sizes",
)  # fmt: skip
_PER_NODE = ("split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child")
_PER_NODE_UNREAD = ("internal_value", "internal_weight", "internal_count")
_PER_LEAF_UNREAD = ("leaf_weight", "leaf_count")
_SCALARS = ("num_leaves", "num_cat", "is_linear", "shrinkage")
_TREE = frozenset({*_PER_NODE, *_PER_NODE_UNREAD, *_PER_LEAF_UNREAD, *_SCALARS, "leaf_value", "Tree"})
#: Bits of decision_type: 0 categorical, 1 default left, 2 and 3 how a missing value is known.
_CATEGORICAL, _DECISION_TYPES = 1, 16
#: The library counts bytes, cuts at spaces alone and ends the process at a number that it does not know, which Python may.
_NOT_WRITTEN = re.compile(r"[^\x20-\x7e\n]")
_NUMBERS = re.compile(r"(?:[0-9eE.+\-]+|-?inf|-?nan)(?: (?:[0-9eE.+\-]+|-?inf|-?nan))*")


def check_tree_text(text: str) -> None:
    """Raise ModelFileError, naming the tree and field, unless `text` is a whole model of regression trees over its features."""
    if len(text) > LONGEST_TEXT:
        raise ModelFileError(f"a model text of {len(text)} characters; at most {LONGEST_TEXT} are read. Export the model again")
    if odd := _NOT_WRITTEN.search(text):
        raise _damaged(f"character {odd.start()} is {odd[0]!r}: the library writes printable ASCII and line ends alone")
    head, _, body = text.partition("\nTree=0\n")
    if not text.startswith("tree\n") or not body:
        raise _damaged("the text does not begin with a header and a tree")
    header = _fields(head.splitlines()[1:], "header")
    features, sizes = _check_header(header)
    start = len(head) + 1
    for tree, size in enumerate(sizes):
        block = text[start : start + size]
        if not block.startswith(f"Tree={tree}\n") or not block.endswith("\n"):
            raise _damaged(f"tree {tree} is not where the header's tree_sizes says: the text is cut off or altered")
        _check_tree(_fields(block.splitlines(), f"tree {tree}"), f"tree {tree}", features)
        start += size
    if not text.startswith("end of trees", start):
        raise _damaged(f"after {len(sizes)} trees: expected 'end of trees', found {text[start : start + 20]!r}")


def _check_header(header: Mapping[str, str]) -> tuple[int, list[int]]:
    """Return the number of features and the length of each tree's text."""
    if differing := sorted(set(_HEADER) ^ header.keys()):
        raise _damaged(f"header: lines missing or unknown: {', '.join(differing)}")
    for name, expected in (("version", _VERSION), ("num_class", "1"), ("num_tree_per_iteration", "1"), ("label_index", "0")):
        if header[name] != expected:
            raise _damaged(f"header: {name}: expected {expected}, found {header[name]!r}")
    if header["objective"].partition(" ")[0] not in _OBJECTIVES:
        raise _damaged(f"header: objective: expected one of {', '.join(_OBJECTIVES)}, found {header['objective']!r}")
    features = len(header["feature_names"].split())
    infos = len(header["feature_infos"].split())
    if not 0 < features == infos or header["max_feature_idx"] != str(features - 1):
        raise _damaged(f"header: {features} feature_names, {infos} feature_infos, max_feature_idx {header['max_feature_idx']!r}")
    sizes = _numbers(header, "tree_sizes", "header", np.int64)
    if not len(sizes) or sizes.min() < 1:
        raise _damaged("header: tree_sizes: expected one positive length for each tree")
    return features, sizes.tolist()


def _check_tree(tree: Mapping[str, str], where: str, features: int) -> None:
    if unknown := sorted(tree.keys() - _TREE):
        raise _damaged(f"{where}: unknown lines {', '.join(unknown)}")
    if tree.get("num_cat") != "0" or tree.get("is_linear", "0") != "0":
        raise _damaged(f"{where}: categorical or linear trees are not read")
    leaves = _numbers(tree, "num_leaves", where, np.int64, 1)[0]
    value = _numbers(tree, "leaf_value", where, np.float64, leaves)
    if leaves < 1 or not np.isfinite(value).all() or not np.isfinite(_numbers(tree, "shrinkage", where, np.float64, 1)[0]):
        raise _damaged(f"{where}: leaf values must be finite numbers, at least one")
    for name in _PER_LEAF_UNREAD:
        _numbers(tree, name, where, np.float64, leaves, may_be_absent=leaves == 1)
    if leaves == 1:
        return
    for name in ("split_gain", *_PER_NODE_UNREAD):
        _numbers(tree, name, where, np.float64, leaves - 1)
    feature, kind, left, right = (
        _numbers(tree, name, where, np.int64, leaves - 1)
        for name in ("split_feature", "decision_type", "left_child", "right_child")
    )
    if feature.min() < 0 or feature.max() >= features:
        raise _damaged(f"{where}: split_feature: expected 0 to {features - 1}, found {feature.min()} to {feature.max()}")
    if kind.min() < 0 or kind.max() >= _DECISION_TYPES or (kind & _CATEGORICAL).any():
        raise _damaged(f"{where}: decision_type: expected numerical splits, found {sorted(set(kind.tolist()))}")
    if np.isnan(_numbers(tree, "threshold", where, np.float64, leaves - 1)).any():
        raise _damaged(f"{where}: threshold: not a number")
    _check_structure(left, right, where)


def _check_structure(left: NDArray[np.int64], right: NDArray[np.int64], where: str) -> None:
    """Raise unless the children form one tree: every node but the root and every leaf once, no child before its parent."""
    inner, children = len(left), np.concatenate([left, right])
    parents = np.tile(np.arange(inner), 2)
    is_one_tree = np.array_equal(np.sort(children), np.delete(np.arange(-inner - 1, inner), inner + 1))
    if not is_one_tree or (children[children >= 0] <= parents[children >= 0]).any():
        raise _damaged(f"{where}: left_child and right_child do not form one tree")


def _fields(lines: list[str], where: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in filter(None, lines):
        name, equals, value = line.partition("=")
        if not equals or name in fields:
            raise _damaged(f"{where}: expected lines name=value, each name once, found {line[:60]!r}")
        fields[name] = value
    return fields


def _numbers(
    fields: Mapping[str, str],
    name: str,
    where: str,
    dtype: type[np.generic],
    count: int | None = None,
    *,
    may_be_absent: bool = False,
) -> NDArray[Any]:
    text = fields.get(name, "")
    if may_be_absent and not text:
        return np.empty(0, dtype)
    if not _NUMBERS.fullmatch(text):
        raise _damaged(f"{where}: {name}: expected numbers with a space between two, found {text[:40]!r}")
    try:
        numbers = np.array(text.split(" "), dtype)
    except (ValueError, OverflowError) as error:
        raise _damaged(f"{where}: {name}: {error}") from None
    if count is not None and len(numbers) != count:
        raise _damaged(f"{where}: {name}: expected {count} numbers, found {len(numbers)}")
    return numbers


def _damaged(problem: str) -> ModelFileError:
    return ModelFileError(f"a LightGBM model's text cannot be used: {problem}; copy or train the model again")
