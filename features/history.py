"""What is known of a key after each of its events: the arithmetic of the table face, on arrays sorted by key and time.

Every sum is of integers, every other step is one that IEEE 754 rounds in one way only (+ - * / sqrt min max), so the state face,
which goes one event at a time, arrives at the same bits. The one logarithm, of a runtime, is taken by `log_units` in both.
"""

import numpy as np
from numpy.typing import NDArray

from runcast.features.levels import CENSORED, FAILED, LOG_UNITS, RING, RUNS_CAP

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]

#: Comparators of a sorting network for seven values, 16 of them, in order.
SORT_7 = (
    (0, 6), (2, 3), (4, 5), (0, 2), (1, 4), (3, 6), (0, 1), (2, 5), (3, 4), (1, 2), (4, 6), (2, 3), (4, 5), (1, 2), (3, 4),
    (5, 6),
)  # fmt: skip


def log_units(runtime_s: Floats32) -> Ints:
    """Return ln(runtime) in whole units of 1/LOG_UNITS, the same for one value as for many."""
    units: Ints = np.rint(np.log(runtime_s.astype(np.float64)) * LOG_UNITS).astype(np.int64)
    return units


def after_each_end(
    rank: Ints, runtime_s: Floats32, logs: Ints, outcome: NDArray[np.int8], wanted: set[str]
) -> dict[str, Floats32]:
    """Return the ended statistics of a key after each end of it, between an element for a key where nothing has ended and one,
    the last, for a job without the key.

    All arrays are sorted by (key, end); `rank` counts the ends of the key before this one. Beside the wanted statistics there are
    always `median_7_s`, `log_std_7` and `ring_n`.
    """
    n = rank + 1
    ring_n = np.minimum(n, RING)
    lags = [runtime_s, *(_lag(runtime_s, rank, k) for k in range(1, RING))]
    found: dict[str, NDArray[np.generic]] = {"ring_n": ring_n, "runs": np.minimum(n, RUNS_CAP), "last_outcome": outcome}
    found |= {f"last_{k + 1}_s": np.where(np.isinf(lags[k]), np.float32(np.nan), lags[k]) for k in range(3)}
    found |= _ring(lags, ring_n)
    sums, squares = _running(logs), _running(logs * logs)
    at = np.arange(len(rank))
    start = at + 1 - ring_n
    ring_sum, ring_square = sums[1:] - sums.take(start), squares[1:] - squares.take(start)
    found["log_std_7"] = np.sqrt(np.maximum(ring_n * ring_square - ring_sum * ring_sum, 0)) / ring_n / LOG_UNITS
    if "log_mean" in wanted:
        mean = (sums[1:] - sums.take(at - rank)) / n
        square = (squares[1:] - squares.take(at - rank)) / n
        found["log_mean"] = mean / LOG_UNITS
        found["log_std"] = np.sqrt(np.maximum(square - mean * mean, 0.0)) / LOG_UNITS
    failed = _running(outcome == FAILED)
    found["failed_share_7"] = (failed[1:] - failed.take(start)) / ring_n
    always = {"median_7_s", "log_std_7", "ring_n"}
    return {name: _with_none(name, values) for name, values in found.items() if name in wanted or name in always}


def outcome_codes(label: NDArray[np.object_], state: NDArray[np.object_]) -> NDArray[np.int8]:
    """Return `levels.outcome_code` of many jobs."""
    return np.where(label == "censored", CENSORED, np.where(state == "COMPLETED", 0, FAILED)).astype(np.int8)


def _lag(values: Floats32, rank: Ints, k: int) -> Floats32:
    """Return the k-th latest value of the key before each, +inf where there is none."""
    lagged = np.empty_like(values)
    lagged[:k] = np.inf
    lagged[k:] = values[: max(len(values) - k, 0)]
    lagged[rank < k] = np.inf
    return lagged


def _ring(lags: list[Floats32], ring_n: Ints) -> dict[str, NDArray[np.generic]]:
    """Return median (mean of the middle two where they are even), minimum and maximum of the first `ring_n` of seven columns."""
    ascending = list(lags)
    for low, high in SORT_7:
        ascending[low], ascending[high] = np.minimum(ascending[low], ascending[high]), np.maximum(ascending[low], ascending[high])
    median, most = ascending[RING // 2], ascending[-1]
    short = np.flatnonzero(ring_n < RING)
    if len(short):
        n, row = ring_n[short], np.arange(len(short))
        few = np.stack([column[short] for column in ascending])
        median[short] = (few[(n - 1) // 2, row].astype(np.float64) + few[n // 2, row].astype(np.float64)) * 0.5
        most[short] = few[n - 1, row]
    return {"median_7_s": median, "min_7_s": ascending[0], "max_7_s": most}


def _running(values: NDArray[np.generic]) -> Ints:
    """Return the sums of the first 0, 1, 2, ... values."""
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


def _with_none(name: str, values: NDArray[np.generic]) -> Floats32:
    """Return the values as float32 between one for a key without ends (0 of a count, else NaN) and one for no key (NaN)."""
    result = np.empty(len(values) + 2, np.float32)
    result[0] = 0 if name in ("runs", "ring_n") else np.nan
    result[1:-1] = values
    result[-1] = np.nan
    return result
