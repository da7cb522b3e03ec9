"""CART: one regression tree of ln(runtime), fitted by scikit-learn and exported as plain nodes.

MLaaS-in-the-Wild names the method. The tree's split points come from the squared error of ln(runtime); each node then answers
with the median and the 0.9 quantile of the runtimes that fell into it, so the export carries every number that is needed.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from runcast.data.cluster import CartParameters
from runcast.training.conformal import conformal_factor, split_latest
from runcast.training.errors import ConstantPredictor
from runcast.training.forecast import Floats, Inputs
from runcast.training.scoring import Cart

#: The latest ended jobs; sorting every feature in every node costs about 0.25 s per 1,000 jobs and 100 features.
LATEST_JOBS = 100_000


def fit_cart(inputs: Inputs, runtime_s: Floats, parameters: CartParameters, seed: int) -> Cart:
    """Fit on ended jobs ordered by end time, the latest LATEST_JOBS of them; raises ConstantPredictor where nothing splits."""
    values, target_s = inputs.values[-LATEST_JOBS:], runtime_s[-LATEST_JOBS:]
    tree = DecisionTreeRegressor(
        max_depth=parameters.max_depth, min_samples_leaf=parameters.min_samples_leaf, random_state=seed
    ).fit(values, np.log(target_s))
    if tree.tree_.node_count == 1:
        raise ConstantPredictor(f"no feature splits the {len(target_s)} training jobs: the tree would answer them all alike")
    return export_cart(tree, inputs.names, values, target_s)


def export_cart(tree: DecisionTreeRegressor, names: tuple[str, ...], values: NDArray[np.float32], runtime_s: Floats) -> Cart:
    """Return `tree` as plain nodes with the statistics of the training jobs in each; rows are ordered by end time."""
    fitted = tree.tree_
    feature = np.where(fitted.children_left < 0, -1, fitted.feature).astype(np.int32)
    nodes = {
        "feature": feature,
        "threshold": np.where(feature < 0, np.float32(0), round_down(fitted.threshold)),
        "left": fitted.children_left.astype(np.int32),
        "right": fitted.children_right.astype(np.int32),
        "unknown_left": (fitted.missing_go_to_left.astype(bool)) & (feature >= 0),
        "jobs": fitted.n_node_samples.astype(np.int32),
        **_node_statistics(tree, values, runtime_s),
    }
    earlier, latest = split_latest(len(runtime_s))
    leaf = tree.apply(values)
    earlier_p90_s = _node_statistics(tree, values[earlier], runtime_s[earlier])["p90_s"]
    factor = conformal_factor(runtime_s[latest], earlier_p90_s[leaf[latest]])
    return Cart("cart", names, nodes, factor)


def round_down(threshold: Floats) -> NDArray[np.float32]:
    """Return the largest float32 at or below each threshold: a float32 value is <= the one exactly when it is <= the other."""
    near = threshold.astype(np.float32)
    return np.where(near > threshold, np.nextafter(near, np.float32(-np.inf)), near)


def _node_statistics(tree: DecisionTreeRegressor, values: NDArray[np.float32], runtime_s: Floats) -> dict[str, Floats]:
    """Return p50_s, p90_s and error_log per node from the rows that fall into it; a node without rows takes its parent's."""
    fitted = tree.tree_
    count = fitted.node_count
    p50_s, p90_s, error_log = (np.full(count, np.nan) for _ in range(3))
    parent = np.full(count, -1)
    for node in range(count):
        for child in (fitted.children_left[node], fitted.children_right[node]):
            if child >= 0:
                parent[child] = node
    members: list[list[NDArray[np.intp]]] = [[] for _ in range(count)]
    leaf = tree.apply(values)
    order = np.argsort(leaf, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(leaf[order])) + 1):
        members[leaf[rows[0]]].append(rows)
    for node in range(count - 1, -1, -1):  # children have larger numbers than their parent
        if parent[node] >= 0:
            members[parent[node]].extend(members[node])
        if members[node]:
            held_s = runtime_s[np.concatenate(members[node])]
            p50_s[node], p90_s[node] = np.quantile(held_s, [0.5, 0.9])
            error_log[node] = np.abs(np.log(held_s / p50_s[node])).mean()
    for node in range(1, count):
        if np.isnan(p50_s[node]):
            p50_s[node], p90_s[node], error_log[node] = (a[parent[node]] for a in (p50_s, p90_s, error_log))
    return {"p50_s": p50_s, "p90_s": p90_s, "error_log": error_log}
