"""What a model looks at: how much worse it gets when one family of features is dealt out among the jobs at random.

A family is shuffled as a whole: its features say much the same, and shuffled one by one each would seem not to matter. Nothing is
trained again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from runcast.evaluation.metrics import Floats, error_factor
from runcast.evaluation.replay import Replay
from runcast.features.catalog import FAMILY
from runcast.features.matrix import Matrix
from runcast.training.forecast import Inputs
from runcast.training.rows import encoded_inputs
from runcast.training.scoring import Rule

#: Test jobs that are asked again, evenly spread.
JOBS = 1000
#: The family of the encoder's codes: who submitted, and what it is called.
NAMES = "names"

#: What people call the families.
MEANINGS: Mapping[str, str] = {
    "submission": "hour and weekday",
    "date": "day of the month, month",
    "request": "what was asked for",
    "topology": "shape: per node, per GPU",
    "array": "place in a job array",
    "load": "load of the cluster",
    "history": "runs of like jobs that ended",
    "periodicity": "rhythm of submissions",
    "siblings": "like jobs running or waiting",
    NAMES: "names: user, group, queue, …",
}

#: kind -> family -> error factor with the family shuffled over the error factor as it is.
Importance = dict[str, dict[str, float]]


def importance(matrix: Matrix, done: Replay, kinds: Sequence[str], seed: int, jobs: int = JOBS) -> Importance:
    """Return for each model of the last cut how many times larger its error factor is without each family it reads.

    1 is no loss; a kind that a baseline stood in for is left out.
    """
    rows = done.rows[np.unique(np.linspace(0, len(done.rows) - 1, min(jobs, len(done.rows))).round().astype(np.intp))]
    fitted = {kind: done.last.fitted[kind].rule for kind in kinds if kind not in done.fallbacks}
    if not fitted or done.last.encoder is None:
        return {}
    inputs, actual_s = encoded_inputs(matrix.take(rows), done.last.encoder), matrix.ended.runtime_s[rows]
    dealt = np.random.default_rng(seed).permutation(len(rows))
    return {kind: _of_rule(rule, inputs.select(rule.columns), actual_s, dealt) for kind, rule in fitted.items()}


def families(names: Sequence[str]) -> Mapping[str, NDArray[np.intp]]:
    """Return the columns of each family among the encoded columns `names`, families in the order of their first column."""
    found: dict[str, list[int]] = {}
    for column, name in enumerate(names):
        found.setdefault(FAMILY.get(name, NAMES), []).append(column)
    return {family: np.array(columns, np.intp) for family, columns in found.items()}


def _of_rule(rule: Rule, inputs: Inputs, actual_s: Floats, dealt: NDArray[np.intp]) -> dict[str, float]:
    as_it_is = error_factor(actual_s, rule.forecast(inputs).p50_s)
    found = {}
    for family, columns in families(inputs.names).items():
        values = inputs.values.copy()
        values[:, columns] = inputs.values[dealt][:, columns]
        found[family] = error_factor(actual_s, rule.forecast(replace(inputs, values=values)).p50_s) / as_it_is
    return found
