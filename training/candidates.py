"""Values that a job's runtime may well be, and what speaks for each: the runs of its slots, the median model, the limit.

Numpy only, and the same arithmetic for one job as for a table. Runtimes are natural logarithms of seconds here; a value is right
where the runtime lies within 25 % of it, that is where ln(runtime / value) lies between LOW and HIGH.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from runcast.training.forecast import FLOOR_S, Floats, Inputs

Floats32 = NDArray[np.float32]

#: Raised when the code below changes its numbers though its constants read the same.
CODE_VERSION = 2

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


def candidates_version() -> str:
    """Return the hash of what is drawn and told, 16 hex digits; it changes when any number may."""
    text = repr((CODE_VERSION, READS, COLUMNS, _OF_SLOT, LOW, HIGH, NEAR))
    return sha256(text.encode()).hexdigest()[:16]


def candidates(inputs: Inputs, p50_log: Floats) -> Candidates:
    """Return the candidates of jobs whose median model says `p50_log`; none lies above a hard limit or below a second."""
    asked = inputs.select(READS).values
    asked = np.where(np.isinf(asked), np.float32(np.nan), asked)
    of_slots = log_of(asked[:, _VALUES]).reshape(-1, STEPS, RING + len(_MIDDLES))
    p50, limit = p50_log.astype(np.float32)[:, None], log_of(asked[:, _LIMIT])
    values = np.concatenate([*(of_slots[:, step, places] for step, places in enumerate(_OF_SLOT)), p50, limit], 1)
    caps_s = np.where(inputs.hard_limit_s >= FLOOR_S, inputs.hard_limit_s, np.inf)  # NaN, and less than a second, cap nothing
    cap = np.log(caps_s).astype(np.float32)[:, None]
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


class OneJob:
    """`candidates` and `described` of one job at a time: the same numbers from a tenth of the calls, in arrays that are kept.

    Runs are counted by tables over the bits of a ring. Whatever changes above changes here: tests hold both against each other.
    """

    def __init__(self) -> None:
        places = [step * _IN_SLOT + place for step, of_slot in enumerate(_OF_SLOT) for place in of_slot]
        self._drawn = np.array([_VALUES.start + place for place in places], np.intp)
        self._rings = np.arange(STEPS)[:, None] * _IN_SLOT + np.arange(RING) + _VALUES.start
        self._values = np.empty(CANDIDATES, np.float32)
        self._rows = np.empty((CANDIDATES, len(COLUMNS)), np.float32)
        self._own = np.empty(_OWN.stop - _OWN.start, np.float32)
        self._own_steady, self._own_times, self._own_as_is = np.split(self._own[2:], np.cumsum([STEPS, len(_BLOCKS[3])]))
        self._runs = np.empty((3, STEPS, RING), np.bool_)
        self._near = np.empty((2, CANDIDATES, STEPS, RING), np.bool_)
        self._apart = np.empty((2, CANDIDATES, CANDIDATES), np.float32)

    def described(self, asked: NDArray[np.float32], hard_limit_s: float, p50_log: float) -> tuple[Floats32, Floats32]:
        """Return the existing candidates of a job, (k,), and what is told of each, (k, len(COLUMNS)), until the next job.

        `asked` are its features in the order of READS; what of them is infinite is made NaN in place.
        """
        asked[np.isinf(asked)] = np.nan
        logs = log_of(asked[:_LOGS])
        self._own[0], self._own[1] = p50_log, logs[_LIMIT.start]
        value, which = self._draw(logs, hard_limit_s)
        count, rings = len(value), logs.take(self._rings)
        runs, alike, alike_n = self._read_rings(rings)
        np.log1p(np.maximum(asked[_TIMES], np.float32(0)), out=self._own_times)
        self._own_as_is[:] = asked[_AS_IS]
        rows = self._rows[:count]
        rows[:, 0], rows[:, 1] = which, value
        rows[:, 2:4] = value[:, None] - self._own[:2]
        self._count_around(value, rows)
        off = rings - value[:, None, None]
        near = self._near[:, :count]
        np.logical_and(off >= LOW, off <= HIGH, out=near[0])
        np.less_equal(np.abs(off), NEAR, out=near[1])
        inside, inside_near = np.packbits(near, axis=3)[..., 0]
        for columns, told in zip(
            _STEP_COLUMNS,
            (_COUNT[inside] / runs, _COUNT[inside_near] / runs, _FIRST[inside], -off[:, :, 0], _COUNT[inside & alike] / alike_n),
            strict=True,
        ):
            rows[:, columns] = told
        rows[:, _OVER_ELAPSED] = value[:, None] - logs[_ELAPSED]
        rows[:, _OWN] = self._own
        return value, rows

    def _draw(self, logs: Floats32, hard_limit_s: float) -> tuple[Floats32, NDArray[np.intp]]:
        """Return the candidates and which they are."""
        values = self._values
        values[:-2] = logs.take(self._drawn)
        values[-2:] = self._own[:2]
        cap = np.float32(np.log(hard_limit_s)) if hard_limit_s >= FLOOR_S else np.inf
        np.minimum(np.maximum(values, np.float32(0), out=values), np.float32(cap), out=values)
        which = np.flatnonzero(values == values)
        return values.take(which), which

    def _read_rings(self, rings: Floats32) -> tuple[NDArray[np.int64], NDArray[np.uint8], Floats]:
        """Return of each slot its runs (at least 1), the bits of those the run after which was like the latest, and how many; steady."""
        known, like_latest, like_before = self._runs
        np.equal(rings, rings, out=known)
        like_latest[:, -1] = like_before[:, -1] = False
        like_latest[:, :-1] = _is_like(rings[:, 1:], rings[:, :1])
        like_before[:, :-1] = _is_like(rings[:, 1:], rings[:, :-1])
        known_bits, alike, steady = np.packbits(self._runs, axis=2)[..., 0]
        runs = _COUNT[known_bits]
        np.divide(_COUNT[steady], np.maximum(_COUNT[known_bits & _BUT_LATEST], 1), out=self._own_steady, casting="same_kind")
        return np.maximum(runs, 1), alike, _COUNT_OR_NAN[alike]

    def _count_around(self, value: Floats32, rows: Floats32) -> None:
        """Fill in how many candidates lie below each by more than 25 %, above it, and with it."""
        count = len(value)
        off = value - value[:, None]
        apart = self._apart[:, :count, :count]
        np.less(off, LOW, out=apart[0])
        np.greater(off, HIGH, out=apart[1])
        below, above = apart.sum(2)
        rows[:, 4], rows[:, 5], rows[:, 6] = count - below - above, below, above


_IN_SLOT = RING + len(_MIDDLES)
_LOGS = _LIMIT.stop  # what of READS is read as ln(seconds) comes first
#: Of a byte whose highest bit is a ring's latest run: bits set, NaN for none, the place of the first (RING for none).
_COUNT = np.array([bits.bit_count() for bits in range(256)])
_COUNT_OR_NAN = np.where(_COUNT > 0, _COUNT, np.nan)
_FIRST = np.array([RING, *(8 - bits.bit_length() for bits in range(1, 256))])
_BUT_LATEST = np.uint8(0b0111_1111)
