"""One slot for every key of every level: what `state.py` reads and changes, in arrays.

A slot holds its key's statistics ready to be read (READY) and what is needed to bring them up to date by one event. Two slots are
fixed: ABSENT, of a key nothing is known of, and NO_KEY, of a job that has no key at a level. The index from key to slot is a
sorted array, which loads at the speed of the disk, and a dictionary of what came since.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from runcast.features.history import log_units
from runcast.features.levels import BURST_GAP_US, ENDED_STATS, FAILED, LOG_UNITS, RING, RUNS_CAP, US, WITHIN

Places = NDArray[np.intp]
Keys = NDArray[np.uint64]

ABSENT, NO_KEY = 0, 1
FIXED = 2

#: Statistics that are read as they are (float32), in the order of their columns: of ends, of submissions, of siblings.
READY: tuple[str, ...] = (
    *ENDED_STATS, "ring_n", "gap_s", "gap_ratio", "submitted_n", "burst_n", "running_n", "waiting_n",
)  # fmt: skip
COLUMN: dict[str, int] = {name: at for at, name in enumerate(READY)}
#: Counts among them: 0 for a key nothing is known of, where all else is NaN.
COUNTS: tuple[str, ...] = ("runs", "ring_n", "submitted_n", "burst_n", "running_n", "waiting_n")

#: Times of a slot: float64 microseconds, exact up to the year 2255, NaN where there is none. The first five are read. Those of
#: submissions are the latest, second and third latest, and of the ended run that was submitted last.
END, FRESH_SUBMIT, SUBMIT_1, SUBMIT_3, RUNNING_START, SUBMIT_2, START = range(7)
TIMES = 7
#: Sums of a slot: of log units, of their squares, of the starts of running jobs (modulo 2**64).
LOGS, SQUARES, STARTS = range(3)
#: Counts of a slot: runs, outcomes of the ring (2 bits each), submissions, those of the burst, running since START.
RUNS, OUTCOMES, SUBMITTED, BURST, AT_START = range(5)

_RING = slice(0, RING)
_AFTER_END = slice(RING, COLUMN["ring_n"] + 1)
_AFTER_SUBMIT = slice(COLUMN["gap_s"], COLUMN["burst_n"] + 1)
_FRESH, _RUNNING, _WAITING = COLUMN["fresh_s"], COLUMN["running_n"], COLUMN["waiting_n"]
_OUTCOME_MASK = 4**RING - 1
_FAILED_IN = np.array([sum((bits >> 2 * k) & 3 == FAILED for k in range(RING)) for bits in range(4**RING)], np.float64)
_LARGEST = np.iinfo(np.uint64).max


class EndedRun(NamedTuple):
    """One ended run: when it was submitted and ended, its runtime, outcome code, and runtime over limit (NaN without one)."""

    submit_us: int
    end_us: int
    runtime_s: np.float32
    outcome: int
    limit_share: np.float32


@dataclass
class SlotArrays:
    """One row for each slot: what is ready, times, sums and counts."""

    ready: NDArray[np.float32]
    times: NDArray[np.float64]
    sums: NDArray[np.int64]
    counts: NDArray[np.int32]

    @classmethod
    def empty(cls, count: int) -> Self:
        return cls(
            np.zeros((count, len(READY)), np.float32),
            np.zeros((count, TIMES), np.float64),
            np.zeros((count, 3), np.int64),
            np.zeros((count, 5), np.int32),
        )

    @classmethod
    def joined(cls, blocks: Sequence[Self]) -> Self:
        return cls(*(np.concatenate([getattr(block, field.name) for block in blocks]) for field in fields(cls)))

    def head(self, count: int) -> "SlotArrays":
        return SlotArrays(self.ready[:count], self.times[:count], self.sums[:count], self.counts[:count])


class SlotStore:
    """The slots and their index; `claim` gives a key its slot, the other methods bring slots up to date by one event."""

    def __init__(self) -> None:
        """Begin with the two fixed slots."""
        slots = SlotArrays.empty(FIXED)
        slots.ready[:], slots.times[:] = np.nan, np.nan
        slots.ready[ABSENT, [COLUMN[name] for name in COUNTS]] = 0
        self._begin(slots, np.empty(0, np.uint64), np.empty(0, np.int32))

    @classmethod
    def of(cls, slots: SlotArrays, keys: Keys) -> Self:
        """Return the store of these slots, the fixed ones first, then one for each of `keys` in their order."""
        order = np.argsort(keys)
        store = cls()
        store._begin(slots, keys[order], (order + FIXED).astype(np.int32))
        return store

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the store that `arrays` was called on."""
        store = cls()
        slots = SlotArrays(*(np.ascontiguousarray(arrays[field.name]) for field in fields(SlotArrays)))
        store._begin(slots, arrays["keys"], arrays["slots"])
        return store

    def _begin(self, slots: SlotArrays, keys: Keys, places: NDArray[np.int32]) -> None:
        self.ready, self.times, self.sums, self.counts = slots.ready, slots.times, slots.sums, slots.counts
        self.used = len(slots.ready)
        self._free: list[int] = []  # slots of keys that were forgotten
        self._new: dict[int, int] = {}
        self._set_index(keys, places)

    def __len__(self) -> int:
        return self.used - FIXED - len(self._free)

    def slot_arrays(self) -> SlotArrays:
        """Return the slots without slack."""
        return SlotArrays(self.ready, self.times, self.sums, self.counts).head(self.used)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as arrays; equal histories told in equal order give equal arrays."""
        self._merge_index()
        slots = self.slot_arrays()
        found: dict[str, NDArray[Any]] = {field.name: getattr(slots, field.name) for field in fields(slots)}
        return found | {"keys": self._keys[:-1], "slots": self._slots[:-1]}

    def find(self, keys: Keys) -> Places:
        """Return the slot of each key, ABSENT where it has none."""
        at = self._keys.searchsorted(keys)
        slots: Places = (self._slots.take(at) * (self._keys.take(at) == keys)).astype(np.intp)  # ABSENT is 0
        if self._new:
            for place in np.flatnonzero(slots == ABSENT).tolist():
                slots[place] = self._new.get(int(keys[place]), ABSENT)
        return slots

    def claim(self, keys: Keys) -> Places:
        """Return the slot of each key, a new one where it has none."""
        slots = self.find(keys)
        for place in np.flatnonzero(slots == ABSENT).tolist():
            slot = self._free.pop() if self._free else self._another()
            slots[place] = self._new[int(keys[place])] = slot
            self.ready[slot], self.times[slot] = self.ready[ABSENT], np.nan
            self.sums[slot], self.counts[slot] = 0, 0
        if len(self._new) > 65_536 + len(self._keys) // 2:
            self._merge_index()
        return slots

    def submit(self, slots: Places, time_us: int) -> None:
        """Count one submission; it may be earlier than the latest."""
        ready, times, counts = self.ready, self.times, self.counts
        known = times[slots]
        reaches = time_us - known[:, SUBMIT_1] <= BURST_GAP_US
        burst = np.where(reaches, counts[slots, BURST], 0) + 1
        latest = np.empty((len(slots), 4))
        latest[:, 0], latest[:, 1:] = -time_us, -known[:, [SUBMIT_1, SUBMIT_2, SUBMIT_3]]
        latest.sort(axis=1)  # latest first, NaN last
        gaps = (latest[:, 1:3] - latest[:, :2]) / US
        long, short = gaps.max(axis=1), gaps.min(axis=1)
        times[slots, SUBMIT_1], times[slots, SUBMIT_2], times[slots, SUBMIT_3] = -latest[:, 0], -latest[:, 1], -latest[:, 2]
        counts[slots, BURST] = burst
        count = counts[slots, SUBMITTED] + 1
        counts[slots, SUBMITTED] = count
        after = np.empty((len(slots), 4), np.float32)
        after[:, 0] = gaps[:, 0]
        after[:, 1] = np.divide(short, long, out=np.where(np.isnan(long), np.nan, 1.0), where=long > 0)
        after[:, 2], after[:, 3] = np.minimum(count, RUNS_CAP), np.minimum(burst, RUNS_CAP)
        ready[slots, _AFTER_SUBMIT] = after
        ready[slots, _WAITING] += 1

    def start(self, slots: Places, time_us: int) -> None:
        """Let one job run that no longer waits."""
        self.ready[slots, _RUNNING] += 1
        self.sums[slots, STARTS] += time_us
        last = self.times[slots, START]
        same = last == time_us
        later = ~(last >= time_us)
        self.counts[slots, AT_START] = np.where(later, 1, self.counts[slots, AT_START] + same)
        self.times[slots, START] = np.where(later, time_us, last)
        self.times[slots, RUNNING_START] = np.where(later | same, time_us, self.times[slots, RUNNING_START])

    def stop(self, slots: Places, start_us: int) -> None:
        """Let one running job go, which had started at `start_us`."""
        self.ready[slots, _RUNNING] -= 1
        self.sums[slots, STARTS] -= start_us
        left = self.counts[slots, AT_START] - (self.times[slots, START] == start_us)
        self.counts[slots, AT_START] = left
        self.times[slots, RUNNING_START] = np.where(left > 0, self.times[slots, RUNNING_START], np.nan)

    def withdraw(self, slots: Places) -> None:
        """Let one waiting job go."""
        self.ready[slots, _WAITING] -= 1

    def end(self, slots: Places, run: EndedRun) -> None:
        """Add one ended run to the history; it counts as the latest."""
        ready, counts, times = self.ready, self.counts, self.times
        ring = np.empty((len(slots), RING), np.float32)
        ring[:, 0] = run.runtime_s
        ring[:, 1:] = ready[slots, : RING - 1]
        runs = counts[slots, RUNS] + 1
        ring_n = np.minimum(runs, RING)
        row = np.arange(len(slots))
        ascending = np.sort(ring, axis=1)  # NaN last
        middle = (ascending[row, (ring_n - 1) // 2].astype(np.float64) + ascending[row, ring_n // 2].astype(np.float64)) * 0.5
        near = ((ring[:, :, None] >= (ring * WITHIN[0])[:, None]) & (ring[:, :, None] <= (ring * WITHIN[1])[:, None])).sum(axis=2)
        mode = near.argmax(axis=1)
        logs = log_units(np.where(np.isnan(ring), np.float32(1), ring))
        ring_sum, ring_square = logs.sum(axis=1), (logs * logs).sum(axis=1)
        own = logs[0, 0]
        sums = self.sums[slots, LOGS] + own
        squares = self.sums[slots, SQUARES] + own * own
        mean = sums / runs
        bits = ((counts[slots, OUTCOMES] << 2) | run.outcome) & _OUTCOME_MASK
        fresh = ~(times[slots, FRESH_SUBMIT] > run.submit_us)
        after = np.empty((len(slots), _AFTER_END.stop - _AFTER_END.start), np.float32)
        for column, values in enumerate(
            (
                middle,
                ring[row, mode],
                near[row, mode] / ring_n,
                ring_sum / ring_n / LOG_UNITS,
                np.sqrt(np.maximum(ring_n * ring_square - ring_sum * ring_sum, 0)) / ring_n / LOG_UNITS,
                mean / LOG_UNITS,
                np.sqrt(np.maximum(squares / runs - mean * mean, 0.0)) / LOG_UNITS,
                np.minimum(runs, RUNS_CAP),
                _FAILED_IN[bits] / ring_n,
                run.outcome,
                run.limit_share,
                np.where(fresh, run.runtime_s, ready[slots, _FRESH]),
                ring_n,
            )
        ):
            after[:, column] = values
        ready[slots, _RING] = ring
        ready[slots, _AFTER_END] = after
        counts[slots, RUNS], counts[slots, OUTCOMES] = runs, bits
        self.sums[slots, LOGS], self.sums[slots, SQUARES] = sums, squares
        times[slots, END] = np.fmax(times[slots, END], run.end_us)
        times[slots, FRESH_SUBMIT] = np.where(fresh, run.submit_us, times[slots, FRESH_SUBMIT])

    def forget_oldest(self, count: int, in_use: Places) -> None:
        """Forget the `count` keys whose latest submission and end are longest ago, but for slots in use; others take their slots."""
        touched = np.fmax(self.times[: self.used, END], self.times[: self.used, SUBMIT_1])
        touched[np.isnan(touched)] = -np.inf
        for spared in (slice(0, FIXED), in_use, self._free):
            touched[spared] = np.inf
        oldest = np.argpartition(touched, min(count, self.used - 1))[:count]
        oldest = oldest[touched[oldest] < np.inf]
        self._merge_index()
        is_forgotten = np.zeros(self.used, np.bool_)
        is_forgotten[oldest] = True
        stays = ~is_forgotten[self._slots[:-1]]
        self._set_index(self._keys[:-1][stays], self._slots[:-1][stays])
        self._free += oldest.tolist()

    def _another(self) -> int:
        if self.used == len(self.ready):
            self._allocate(self.used + self.used // 4 + 1024)
        self.used += 1
        return self.used - 1

    def _allocate(self, capacity: int) -> None:
        """Make room, with slack, so that growing by one is cheap on average."""
        grown, old = SlotArrays.empty(capacity), self.slot_arrays()
        for field in fields(grown):
            getattr(grown, field.name)[: self.used] = getattr(old, field.name)
        self.ready, self.times, self.sums, self.counts = grown.ready, grown.times, grown.sums, grown.counts

    def _set_index(self, keys: Keys, slots: NDArray[np.int32]) -> None:
        """Keep sorted keys and their slots behind a last one that no search runs past."""
        self._keys = np.append(keys, np.uint64(_LARGEST))
        self._slots = np.append(slots, np.int32(ABSENT))

    def _merge_index(self) -> None:
        new = np.fromiter(self._new, np.uint64, len(self._new))
        keys = np.concatenate([self._keys[:-1], new])
        slots = np.concatenate([self._slots[:-1], np.fromiter(self._new.values(), np.int32, len(self._new))])
        order = np.argsort(keys)
        self._set_index(keys[order], slots[order])
        self._new = {}
