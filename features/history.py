"""What is known of a key after each of its events: the arithmetic of the table face, on arrays sorted by key and time.

Every sum is of integers, every other step is one that IEEE 754 rounds in one way only (+ - * / sqrt min max), so the state face,
which goes one event at a time, arrives at the same bits. The one logarithm, of a runtime, is taken by `log_units` in both.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runcast.features.levels import CENSORED, ENDED_STATS, FAILED, LOG_UNITS, RING, RUNS_CAP, WITHIN

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]

#: Statistics the nearest block needs at every level.
ALWAYS = frozenset({"median_7_s", "log_std_7", "ring_n"})
PIECE = 16_384  # runs worked on at once

#: Comparators of a sorting network for seven values, 16 of them, in order.
SORT_7 = (
    (0, 6), (2, 3), (4, 5), (0, 2), (1, 4), (3, 6), (0, 1), (2, 5), (3, 4), (1, 2), (4, 6), (2, 3), (4, 5), (1, 2), (3, 4),
    (5, 6),
)  # fmt: skip


def log_units(runtime_s: Floats32) -> Ints:
    """Return ln(runtime) in whole units of 1/LOG_UNITS, the same for one value as for many."""
    units: Ints = np.rint(np.log(runtime_s.astype(np.float64)) * LOG_UNITS).astype(np.int64)
    return units


@dataclass(frozen=True)
class Runs:
    """Ended runs sorted by (key, end): which of its key each is, counted from 0, and what is remembered of it.

    `limit_share` is runtime over limit; `fresh_s` the runtime of that of the key's runs so far which was submitted last.
    """

    rank: Ints
    runtime_s: Floats32
    logs: Ints
    outcome: NDArray[np.int8]
    limit_share: Floats32
    fresh_s: Floats32


def after_each_end(runs: Runs, wanted: set[str]) -> dict[str, Floats32]:
    """Return the ended statistics of a key after each end of it, between an element for a key where nothing has ended and one,
    the last, for a job without the key.

    Beside the wanted statistics there are always `median_7_s`, `log_std_7` and `ring_n`. The work is done in pieces that stay
    in the processor's cache.
    """
    names = [name for name in (*ENDED_STATS, "ring_n") if name in wanted or name in ALWAYS]
    found = {name: np.empty(len(runs.rank) + 2, np.float32) for name in names}
    sums = _Sums(_running(runs.logs), _running(runs.logs * runs.logs), _running(runs.outcome == FAILED))
    for begin in range(0, len(runs.rank), PIECE):
        piece = slice(begin, min(begin + PIECE, len(runs.rank)))
        for name, values in _piece(runs, sums, piece, wanted).items():
            if name in found:
                found[name][piece.start + 1 : piece.stop + 1] = values
    for name, column in found.items():
        column[0], column[-1] = 0 if name in ("runs", "ring_n") else np.nan, np.nan
    return found


class _Sums(NamedTuple):
    """Sums of the first 0, 1, 2, ... of all runs: log units, their squares, failures."""

    logs: Ints
    squares: Ints
    failed: Ints


def _piece(runs: Runs, sums: _Sums, piece: slice, wanted: set[str]) -> dict[str, NDArray[np.generic]]:
    rank = runs.rank[piece]
    n = rank + 1
    ring_n = np.minimum(n, RING)
    lags = [_lag(runs.runtime_s, rank, piece, k) for k in range(RING)]
    found: dict[str, NDArray[np.generic]] = {
        "ring_n": ring_n,
        "runs": np.minimum(n, RUNS_CAP),
        "median_7_s": _median(lags, ring_n),
    }
    found |= {"last_outcome": runs.outcome[piece], "last_limit_share": runs.limit_share[piece], "fresh_s": runs.fresh_s[piece]}
    for k in range(RING):
        if f"last_{k + 1}_s" in wanted:
            found[f"last_{k + 1}_s"] = np.where(rank >= k, lags[k], np.float32(np.nan))
    if "mode_7_s" in wanted:
        found["mode_7_s"], found["mode_share_7"] = _mode(lags, rank, ring_n)
    stop = np.arange(piece.start, piece.stop) + 1
    start = stop - ring_n
    ring_sum, ring_square = sums.logs[stop] - sums.logs.take(start), sums.squares[stop] - sums.squares.take(start)
    found["log_std_7"] = np.sqrt(np.maximum(ring_n * ring_square - ring_sum * ring_sum, 0)) / ring_n / LOG_UNITS
    found["log_mean_7"] = ring_sum / ring_n / LOG_UNITS
    if "log_mean" in wanted:
        mean = (sums.logs[stop] - sums.logs.take(stop - n)) / n
        square = (sums.squares[stop] - sums.squares.take(stop - n)) / n
        found["log_mean"] = mean / LOG_UNITS
        found["log_std"] = np.sqrt(np.maximum(square - mean * mean, 0.0)) / LOG_UNITS
    found["failed_share_7"] = (sums.failed[stop] - sums.failed.take(start)) / ring_n
    return found


def outcome_codes(label: NDArray[np.object_], state: NDArray[np.object_]) -> NDArray[np.int8]:
    """Return `levels.outcome_code` of many jobs."""
    return np.where(label == "censored", CENSORED, np.where(state == "COMPLETED", 0, FAILED)).astype(np.int8)


def _lag(runtime_s: Floats32, rank: Ints, piece: slice, k: int) -> Floats32:
    """Return the k-th latest runtime of the key before each of the piece, +inf where there is none."""
    lagged = np.empty(len(rank), np.float32)
    before = min(max(k - piece.start, 0), len(rank))
    lagged[:before] = np.inf
    lagged[before:] = runtime_s[piece.start + before - k : max(piece.stop - k, 0)]
    lagged[rank < k] = np.inf
    return lagged


def _median(lags: list[Floats32], ring_n: Ints) -> Floats32:
    """Return the median of the first `ring_n` of seven columns, the mean of the middle two where they are even."""
    ascending = list(lags)
    for low, high in SORT_7:
        ascending[low], ascending[high] = np.minimum(ascending[low], ascending[high]), np.maximum(ascending[low], ascending[high])
    median = ascending[RING // 2]
    short = np.flatnonzero(ring_n < RING)
    if len(short):
        n, row = ring_n[short], np.arange(len(short))
        few = np.stack([column[short] for column in ascending[: RING // 2 + 1]])
        median[short] = (few[(n - 1) // 2, row].astype(np.float64) + few[n // 2, row].astype(np.float64)) * 0.5
    return median


def _mode(lags: list[Floats32], rank: Ints, ring_n: Ints) -> tuple[Floats32, Floats]:
    """Return the lag that is within 25 % of most lags, the latest of such, and the share of them."""
    bounds = [(lag * WITHIN[0], lag * WITHIN[1]) for lag in lags]
    best, best_hits = lags[0].copy(), np.zeros(len(rank), np.int8)
    for k, lag in enumerate(lags):
        hits = np.ones(len(rank), np.int8)
        for other, (low, high) in enumerate(bounds):
            if other != k:
                hits += ((lag >= low) & (lag <= high)).view(np.int8)
        better = (hits > best_hits) & (rank >= k)
        np.copyto(best, lag, where=better)
        np.copyto(best_hits, hits, where=better)
    return best, best_hits / ring_n


def _running(values: NDArray[np.generic]) -> Ints:
    """Return the sums of the first 0, 1, 2, ... values."""
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return sums
