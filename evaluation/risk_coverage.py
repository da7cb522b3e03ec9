"""How much can be had at a given error: jobs in the order of the confidence given at submission, the surest first.

Table 2's 8.9 % and 10.8 % are stated without a definition and no published predictor reaches them on all jobs. What can be said
honestly is: on this share of the jobs, chosen by the confidence given before they ran, the median error is at or below 8.9 %.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runcast.evaluation.metrics import Floats, absolute_percentage_errors

#: Points of a drawn curve; more cannot be seen.
CURVE_POINTS = 200


@dataclass(frozen=True)
class Curve:
    """MdAPE of the surest `coverage` share of jobs, coverage rising to 1."""

    coverage: Floats
    mdape: Floats


def risk_coverage(actual_s: Floats, predicted_s: Floats, confidence: Floats, points: int = CURVE_POINTS) -> Curve:
    """Return the curve at up to `points` sizes; jobs of one confidence enter together."""
    errors, ends = _surest_first(actual_s, predicted_s, confidence)
    wanted = np.linspace(len(errors) / points, len(errors), points)
    sizes = np.unique(ends[np.minimum(np.searchsorted(ends, wanted), len(ends) - 1)]) if len(ends) else ends
    return Curve(sizes / max(len(errors), 1), np.array([np.median(errors[:size]) for size in sizes]))


def coverage_at(target: float, actual_s: Floats, predicted_s: Floats, confidence: Floats) -> float:
    """Return the largest share of jobs, surest first, whose MdAPE is at or below `target`; 0 where no such share exists.

    Jobs of one confidence enter together: nothing known at submission tells them apart.
    """
    errors, ends = _surest_first(actual_s, predicted_s, confidence)
    if not len(errors):
        return np.nan
    at_or_below = np.cumsum(errors <= target)[ends - 1]
    for size, count in zip(ends[::-1].tolist(), at_or_below[::-1].tolist(), strict=True):
        # More than half at or below: so is the median. Exactly half: the median is the mean of one on each side, so look.
        if 2 * count > size or (2 * count == size and np.median(errors[:size]) <= target):
            return float(size / len(errors))
    return 0.0


def _surest_first(actual_s: Floats, predicted_s: Floats, confidence: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """Return percentage errors by falling confidence, and the sizes at which a group of one confidence is complete."""
    order = np.argsort(-confidence, kind="stable")
    errors = absolute_percentage_errors(actual_s, predicted_s)[order]
    ends = np.append(np.flatnonzero(np.diff(confidence[order])) + 1, len(order)) if len(order) else np.empty(0, np.intp)
    return errors, ends.astype(np.intp)
