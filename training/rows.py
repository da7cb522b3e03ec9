"""Which jobs a model learns from at a cut, and how a matrix of features becomes a predictor's inputs.

The target is how long a job held its nodes, whatever ended it: a job cut from outside counts with the time it held them (see
DECISIONS.md).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from runcast.data.cluster import Training
from runcast.features.encoder import Encoder
from runcast.features.matrix import Matrix
from runcast.training.conformal import owner_of
from runcast.training.forecast import Floats, Inputs, hard_limit_s

#: At most so many, the latest ended: a night of a large cluster has to fit in minutes, and older work looks less like tomorrow's.
LATEST_JOBS = 200_000


def ended_before(matrix: Matrix, cut_us: int, training: Training) -> NDArray[np.intp]:
    """Return the jobs known at the cut: end_time < cut strictly, runtime above 0; earliest end first, ties in table order.

    Of these the cluster's window (days before the cut), without the last days' submissions where it holds them back, and at most
    LATEST_JOBS. Of the last days' jobs only the short ones have ended: docs/studies.md measures what that does.
    """
    rows = np.flatnonzero(matrix.ended.has_runtime & (matrix.ended.end_us < cut_us))
    if training.window_days is not None:
        rows = rows[matrix.ended.end_us[rows] >= cut_us - int(training.window_days * 86_400e6)]
    if training.held_back_share is not None and len(rows):
        took_us = np.quantile(matrix.ended.end_us[rows] - matrix.submit_us[rows], training.held_back_share)
        rows = rows[matrix.submit_us[rows] < cut_us - took_us]
    return rows[np.argsort(matrix.ended.end_us[rows], kind="stable")][-LATEST_JOBS:]


def plain_inputs(matrix: Matrix, names: Sequence[str]) -> Inputs:
    """Return the features called `names` as they stand in the matrix, for baselines: no encoder, no other column is copied."""
    return Inputs(tuple(names), np.column_stack([matrix.column(name) for name in names]), _limits(matrix))


def encoded_inputs(matrix: Matrix, encoder: Encoder) -> Inputs:
    """Return every feature and the encoder's codes of the categories."""
    return Inputs(encoder.columns, encoder.transform(matrix), _limits(matrix), owners(matrix))


def owners(matrix: Matrix) -> NDArray[np.object_]:
    """Return whose job each is, for the share of p90's margin."""
    users, groups = texts_of(matrix, "user"), texts_of(matrix, "group")
    return np.array([owner_of(user, group) for user, group in zip(users, groups, strict=True)], object)


def texts_of(matrix: Matrix, category: str) -> NDArray[np.object_]:
    """Return a category as texts, None for null."""
    held = matrix.categories[category]
    return np.array([*held.vocabulary, None], object)[held.codes]


def _limits(matrix: Matrix) -> Floats:
    return hard_limit_s(matrix.column("time_limit_s"), matrix.column("is_limit_hard"))
