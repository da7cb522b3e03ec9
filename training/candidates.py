"""Values that a job's runtime may well be, and what speaks for each: the runs of its slots, the median model, the limit.

Numpy only, and the same arithmetic for one job as for a table. Runtimes are natural logarithms of seconds here; a value is right
where the runtime lies within 25 % of it, that is where ln(runtime / value) lies between LOW and HIGH.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from runcast.training.forecast import Floats, Inputs

LOW, HIGH = float(np.log(1 / 1.25)), float(np.log(1 / 0.75))
#: A tighter window: of two values equally safe within 25 %, the sharper one is the better answer.
NEAR = float(np.log(1.09))

RING, STEPS = 7, 3
#: The values of a slot in an array: its 7 latest runs, then these.
_MIDDLES: tuple[str, ...] = ("fresh_s", "median_7_s", "mode_7_s")
_FRESH, _MEDIAN, _MODE = range(RING, RING + len(_MIDDLES))
#: Which of them are candidates, by slot.
_OF_SLOT: tuple[tuple[int, ...], ...] = (
    (0, 1, 2, _FRESH, _MEDIAN, _MODE),
    (0, 1, _FRESH, _MEDIAN, _MODE),
    (0, _MEDIAN, _MODE),
)
CANDIDATES = sum(len(places) for places in _OF_SLOT) + 2  # and the median model's value and the limit

#: What of a slot stands beside each candidate: as it is, and as ln(1 + seconds).
_PLAIN: tuple[str, ...] = (
    "mode_share_7", "log_std_7", "runs", "failed_share_7", "last_outcome", "running_n", "waiting_n",
)  # fmt: skip
_DURATIONS: tuple[str, ...] = ("age_s", "fresh_age_s", "since_submit_s", "since_third_s")
_JOB: tuple[str, ...] = ("gpu_count", "cpu_count", "node_count", "hour_of_day", "weekday", "priority")


def _of(stats: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{stat}_by_slot_{step}" for step in range(1, STEPS + 1) for stat in stats)


_LEVELS = tuple(f"level_of_slot_{step}" for step in range(1, STEPS + 1))
_BLOCKS: tuple[tuple[str, ...], ...] = (
    _of((*(f"last_{k}_s" for k in range(1, RING + 1)), *_MIDDLES)),
    _of(("running_mean_s", "running_latest_s")),
    ("time_limit_s",),
    _of(_DURATIONS),
    (*_LEVELS, *_of(_PLAIN), *_JOB),
)
#: The features read, in the order of their places in an array.
READS: tuple[str, ...] = tuple(name for block in _BLOCKS for name in block)
_ENDS = np.cumsum([len(block) for block in _BLOCKS])
_VALUES, _ELAPSED, _LIMIT, _TIMES, _AS_IS = (
    slice(int(end) - len(block), int(end)) for end, block in zip(_ENDS, _BLOCKS, strict=True)
)

#: Names of the columns of `Candidates.described`.
COLUMNS: tuple[str, ...] = (
    "candidate", "value", "over_p50", "over_limit", "candidates_inside", "candidates_below", "candidates_above",
    *(f"{stat}_{step}" for stat in ("ring_inside", "ring_near", "first_inside", "over_last", "followed") for step in range(1, STEPS + 1)),
    *(f"over_{name}" for name in _BLOCKS[1]),
    "p50", "limit", *(f"steady_{step}" for step in range(1, STEPS + 1)), *_BLOCKS[3], *_BLOCKS[4],
)  # fmt: skip
_STEP_COLUMNS = [slice(7 + STEPS * at, 7 + STEPS * (at + 1)) for at in range(5)]
_OVER_ELAPSED = slice(7 + STEPS * 5, 7 + STEPS * 7)
_OWN = slice(7 + STEPS * 7, len(COLUMNS))


@dataclass(frozen=True)
class Candidates:
    """Of n jobs: `values` float32 (n, CANDIDATES), NaN where there is none, and what is needed to describe them."""

    values: NDArray[np.float32]
    rings: NDArray[np.float32]  # (n, STEPS, RING)
    elapsed: NDArray[np.float32]  # (n, 2 * STEPS): how long running jobs of the slots have run
    alike: NDArray[np.bool_]  # (n, STEPS, RING - 1): whether the run before each but the oldest was like the latest
    own: NDArray[np.float32]  # (n, k): the same beside every candidate

    @cached_property
    def alike_n(self) -> NDArray[np.float64]:
        count = self.alike.sum(2)
        return np.where(count > 0, count, np.nan)

    def described(self) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Return which candidates exist, (n, CANDIDATES), and float32 (existing, len(COLUMNS)): one row for each, job by job."""
        values, rings = self.values, self.rings
        exists = ~np.isnan(values)
        job, which = np.nonzero(exists)
        value = values[job, which]
        found = np.empty((len(job), len(COLUMNS)), np.float32)
        found[:, 0], found[:, 1] = which, value
        found[:, 2], found[:, 3] = value - self.own[job, 0], value - self.own[job, 1]
        apart = values[job] - value[:, None]
        below, above = apart < LOW, apart > HIGH
        found[:, 5], found[:, 6] = below.sum(1), above.sum(1)
        found[:, 4] = exists.sum(1)[job] - found[:, 5] - found[:, 6]
        off = rings[job] - value[:, None, None]
        inside = (off >= LOW) & (off <= HIGH)
        runs = np.maximum((~np.isnan(rings)).sum(2), 1)[job]
        for columns, told in zip(
            _STEP_COLUMNS,
            (
                inside.sum(2) / runs,
                (np.abs(off) <= NEAR).sum(2) / runs,
                np.where(inside.any(2), inside.argmax(2), RING),
                -off[:, :, 0],
                (self.alike[job] & inside[:, :, :-1]).sum(2) / self.alike_n[job],
            ),
            strict=True,
        ):
            found[:, columns] = told
        found[:, _OVER_ELAPSED] = value[:, None] - self.elapsed[job]
        found[:, _OWN] = self.own[job]
        return exists, found


def candidates(inputs: Inputs, p50_log: Floats) -> Candidates:
    """Return the candidates of jobs whose median model says `p50_log`; none lies above a hard limit or below a second."""
    asked = inputs.select(READS).values
    asked = np.where(np.isinf(asked), np.float32(np.nan), asked)
    of_slots = log_of(asked[:, _VALUES]).reshape(-1, STEPS, RING + len(_MIDDLES))
    p50, limit = p50_log.astype(np.float32)[:, None], log_of(asked[:, _LIMIT])
    values = np.concatenate([*(of_slots[:, step, places] for step, places in enumerate(_OF_SLOT)), p50, limit], 1)
    most = log_of(inputs.hard_limit_s)
    cap = np.where(np.isnan(most), np.float32(np.inf), most)[:, None]
    values = np.minimum(np.maximum(values, np.float32(0)), cap)  # NaN stays
    times = np.log1p(np.maximum(asked[:, _TIMES], np.float32(0)))
    rings = of_slots[:, :, :RING]
    alike = _is_like(rings[:, :, 1:], rings[:, :, :1])
    steady = _is_like(rings[:, :, 1:], rings[:, :, :-1]).sum(2) / np.maximum((~np.isnan(rings[:, :, 1:])).sum(2), 1)
    own = np.concatenate([p50, limit, steady.astype(np.float32), times, asked[:, _AS_IS]], 1)
    return Candidates(values, rings, log_of(asked[:, _ELAPSED]), alike, own)


def _is_like(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.bool_]:
    off = one - other
    like: NDArray[np.bool_] = (off >= LOW) & (off <= HIGH)
    return like


def is_right(value_log: NDArray[np.floating], runtime_log: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return where the value is within 25 % of the runtime; False for NaN."""
    off = runtime_log - value_log
    return (off >= LOW) & (off <= HIGH)


def graded(value_log: NDArray[np.floating], runtime_log: NDArray[np.floating], windows: Sequence[tuple[float, float]]) -> Floats:
    """Return how right each value is: of the windows (relative error, weight) those that hold it, their weights summed."""
    error = np.abs(np.expm1(value_log - runtime_log))
    return np.asarray(sum(weight * (error <= window) for window, weight in windows))


def log_of(seconds: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return ln(seconds) as float32, of less than a second 0, of NaN NaN."""
    logs: NDArray[np.float32] = np.log(np.maximum(seconds, 1)).astype(np.float32)
    return logs
