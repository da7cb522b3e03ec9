"""What each feature family is worth: boosted trees without it, and with nothing else.

The families are the catalog's; the codes of users, groups, names and the like are one more. Beside what `gbdt` reads, dates are
judged by what they add, since it leaves them out.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from runcast.data.cluster import Training
from runcast.evaluation.bootstrap import week_of
from runcast.evaluation.metrics import Floats
from runcast.evaluation.replay import test_rows
from runcast.evaluation.studies.headline import headline_of, quick_answers_s, times_worse
from runcast.features.catalog import FAMILY
from runcast.features.encoder import Encoder
from runcast.features.matrix import Matrix
from runcast.training.forecast import Inputs
from runcast.training.rows import encoded_inputs, ended_before

#: The encoder's integer codes: who asks, where, and for what by name.
CODES = "codes"
#: Left out of what every other family is judged beside.
APART = "date"


def family_of(column: str) -> str:
    """Return the family of an encoded column."""
    return FAMILY.get(column, CODES)


def ablate(matrix: Matrix, training: Training, test_share: float) -> dict[str, Any]:
    """Return what each family that says anything in this log is worth on its latest `test_share`, trained once before it.

    For each: features, headline without it and with nothing else, and `worth`: by how many times the error factor is larger
    without it, with its weekly interval. `everything` and `nothing` (the training median) are the two ends.
    """
    rows = test_rows(matrix, test_share)
    learned = ended_before(matrix, int(matrix.submit_us[rows[0]]), training)
    known, later = matrix.take(learned), matrix.take(rows)
    encoder = Encoder.fit(known)
    given, asked = encoded_inputs(known, encoder), encoded_inputs(later, encoder)
    actual_s, learned_s = later.ended.runtime_s, known.ended.runtime_s

    def answers_s(names: Sequence[str]) -> Floats:
        return quick_answers_s(given.select(names), learned_s, asked.select(names), training)

    families = _families(given)
    shipped = [name for family, names in families.items() if family != APART for name in names]
    everything_s = answers_s(shipped)
    week = week_of(later.submit_us, int(later.submit_us[0]))
    found = {}
    for family, names in families.items():
        if family == APART:
            without_s, with_s = everything_s, answers_s([*shipped, *names])
        else:
            without_s, with_s = answers_s([name for name in shipped if name not in names]), everything_s
        found[family] = {
            "features": len(names),
            "left_out": headline_of(actual_s, without_s),
            "alone": headline_of(actual_s, answers_s(names)),
            "worth": times_worse(actual_s, without_s, with_s, week, training.seed),
        }
    return {
        "learned": len(learned),
        "asked": len(rows),
        "everything": headline_of(actual_s, everything_s),
        "nothing": headline_of(actual_s, np.full(len(rows), float(np.median(learned_s)))),
        "families": found,
    }


def _families(given: Inputs) -> dict[str, list[str]]:
    """Return the columns of each family that tell any two training jobs apart, in catalog order."""
    found: dict[str, list[str]] = {}
    for name, column in zip(given.names, given.values.T, strict=True):
        known = column[np.isfinite(column)]
        if len(known) and (len(known) < len(column) or np.ptp(known) > 0):
            found.setdefault(family_of(name), []).append(name)
    return found
