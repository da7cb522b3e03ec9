"""CART: one regression tree of ln(runtime), fitted by scikit-learn and exported as plain nodes.

MLaaS-in-the-Wild names the method. The tree's split points come from the squared error of ln(runtime); each node then answers
with the median and the 0.9 quantile of the runtimes that fell into it, so the export carries every number that is needed.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from runcast.data.cluster import CartParameters
from runcast.training.conformal import conformal_factor, split_latest
from runcast.training.errors import ConstantPredictor
from runcast.training.forecast import Floats, Inputs
from runcast.training.scoring import Cart


def fit_cart(inputs: Inputs, runtime_s: Floats, parameters: CartParameters, seed: int) -> Cart:
    """Fit on ended jobs ordered by end time; raises ConstantPredictor where nothing splits.

    The latest jobs choose no split and enter no p90, so that they can say how far p90 is off on jobs the tree has not seen. The
    medians are those of all jobs.
    """
    earlier, latest = split_latest(len(runtime_s))
    tree = DecisionTreeRegressor(
        max_depth=parameters.max_depth, min_samples_leaf=parameters.min_samples_leaf, random_state=seed
    ).fit(inputs.values[earlier], np.log(runtime_s[earlier]))
    if tree.tree_.node_count == 1:
        raise ConstantPredictor(
            f"no feature splits the {len(earlier)} training jobs: the model would give every job the same forecast"
        )
    of_earlier = export_cart(tree, inputs.names, inputs.values[earlier], runtime_s[earlier])
    of_all = export_cart(tree, inputs.names, inputs.values, runtime_s)
    factor = conformal_factor(runtime_s[latest], of_earlier.forecast(inputs.take(latest)).p90_s)
    return replace(of_all, nodes={**of_all.nodes, "p90_s": of_earlier.nodes["p90_s"]}, p90_factor=factor)


def export_cart(tree: DecisionTreeRegressor, names: tuple[str, ...], values: NDArray[np.float32], runtime_s: Floats) -> Cart:
    """Return `tree` as plain nodes with the statistics of these jobs in each."""
    fitted = tree.tree_
    feature = np.where(fitted.children_left < 0, -1, fitted.feature).astype(np.int32)
    nodes = {
        "feature": feature,
        "threshold": np.where(feature < 0, np.float32(0), round_down(fitted.threshold)),
        "left": fitted.children_left.astype(np.int32),
        "right": fitted.children_right.astype(np.int32),
        "unknown_left": (fitted.missing_go_to_left.astype(bool)) & (feature >= 0),
    }
    exported = Cart("cart", names, nodes, p90_factor=1.0)
    return replace(exported, nodes=nodes | _node_statistics(exported, values, runtime_s))


def round_down(threshold: Floats) -> NDArray[np.float32]:
    """Return the largest finite float32 at or below each threshold: a finite float32 is <= the one exactly when <= the other.

    scikit-learn splits known values from unknown ones at infinity.
    """
    near = np.minimum(threshold, np.finfo(np.float32).max).astype(np.float32)
    return np.where(near > threshold, np.nextafter(near, np.float32(-np.inf)), near)


def _node_statistics(tree: Cart, values: NDArray[np.float32], runtime_s: Floats) -> dict[str, NDArray[Any]]:
    """Return jobs, p50_s, p90_s and error_log per node of the rows that fall into it; a node without rows takes its parent's."""
    left, right = tree.nodes["left"], tree.nodes["right"]
    count = len(left)
    inner = np.flatnonzero(tree.nodes["feature"] >= 0)
    parent = np.full(count, -1)
    parent[left[inner]] = parent[right[inner]] = inner
    members: list[list[NDArray[np.intp]]] = [[] for _ in range(count)]
    leaf = tree.leaves(values)
    order = np.argsort(leaf, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(leaf[order])) + 1):
        members[leaf[rows[0]]].append(rows)
    jobs = np.zeros(count, np.int32)
    p50_s, p90_s, error_log = (np.full(count, np.nan) for _ in range(3))
    for node in range(count - 1, -1, -1):  # children have larger numbers than their parent
        if parent[node] >= 0:
            members[parent[node]].extend(members[node])
        if members[node]:
            held_s = runtime_s[np.concatenate(members[node])]
            jobs[node] = len(held_s)
            p50_s[node], p90_s[node] = np.quantile(held_s, [0.5, 0.9])
            error_log[node] = np.abs(np.log(held_s / p50_s[node])).mean()
    for node in np.flatnonzero(jobs == 0).tolist():
        p50_s[node], p90_s[node], error_log[node] = (of[parent[node]] for of in (p50_s, p90_s, error_log))
    return {"jobs": jobs, "p50_s": p50_s, "p90_s": p90_s, "error_log": error_log}
