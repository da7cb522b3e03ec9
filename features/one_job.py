"""One job as a mapping of canonical names, read the way the table face reads a row.

Texts are hashed once and kept at hand; local time is worked out once for each quarter of an hour: no zone changes within one.
"""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from runcast.features.catalog import CATEGORIES
from runcast.features.levels import LEVELS, PARTS, RESOURCE_UNITS, US, fold_digits, hash_number, hash_text

Job = Mapping[str, Any]
Keys = NDArray[np.uint64]

CACHED = 20_000  # values kept at hand for each part; above it they are forgotten and begun anew
LONGEST_CACHED = 256  # characters: longer texts are worked out each time, or a few thousand of them would fill the memory
KEPT = 10_000  # jobs whose keys are kept at hand
_QUARTER_US = 900 * US
_NAN = math.nan

_IN_LEVEL = np.array([[part in level.parts for part in PARTS] for level in LEVELS], np.uint64)
_HAS_HOUR = _IN_LEVEL[:, list(PARTS).index("hour")]
_SEEDS = np.array([level.seed for level in LEVELS], np.uint64)
_FOLDED = ("name_shape", "dir_shape")


class Request(NamedTuple):
    """The numbers a job asks for, NaN where it does not say."""

    gpu_count: float
    cpu_count: float
    node_count: float
    time_limit_s: float


class Asked(NamedTuple):
    """Keys of a job at every level, which levels it has none at, and which it has (the same for all jobs with the same nulls)."""

    keys: Keys
    dead: NDArray[np.intp]
    live: NDArray[np.intp]


class Hashes(dict[Any, int]):
    """Hashes of the values of one part, worked out once; 0 of null. Too many are forgotten, and begun anew."""

    def __init__(self, hash_of: Callable[[Any], int]) -> None:
        super().__init__()
        self._hash_of = hash_of

    def __missing__(self, value: Any) -> int:
        found = self._hash_of(value) if value or value == 0 else 0
        if isinstance(value, str) and len(value) > LONGEST_CACHED:
            return found
        if len(self) >= CACHED:
            self.clear()
        self[value] = found
        return found


def _of_texts(part: str, fold: Callable[[str], str] = str) -> Hashes:
    return Hashes(lambda text: hash_text(part, fold(text)))


def _of_numbers(part: str) -> Hashes:
    return Hashes(lambda number: hash_number(part, number))


class JobReader:
    """Reads jobs of one cluster; keeps nothing but caches."""

    def __init__(self, clock: str, time_zone: str) -> None:
        self._clock = clock
        self._zone = ZoneInfo(time_zone)
        self._offsets: dict[int, int] = {}
        self._days: dict[int, tuple[float, float, float]] = {}
        self._user, self._group, self._queue, self._array = (_of_texts(part) for part in ("user", "group", "queue", "array"))
        self._name, self._only_name, self._job_name = (_of_texts(part) for part in ("name", "only_name", "job_name"))
        self._name_shape, self._dir_shape = (_of_texts(part, fold_digits) for part in _FOLDED)
        self._gpus, self._cpus, self._nodes = (_of_numbers(part) for part in ("size_gpu", "size_cpu", "size_node"))
        self._limit, self._hour = _of_numbers("limit"), _of_numbers("hour")
        self._shape: dict[str, str] = {}
        self._asked: dict[tuple[Any, ...], Asked] = {}
        self._existing: dict[tuple[bool, ...], tuple[NDArray[np.intp], NDArray[np.intp]]] = {}
        self._of_hours: dict[int, Keys] = {}

    def request(self, job: Job) -> Request:
        get = job.get
        gpus, cpus, nodes, limit = get("gpu_count"), get("cpu_count"), get("node_count"), get("time_limit_s")
        return Request(
            _NAN if gpus is None else float(gpus),
            _NAN if cpus is None else float(cpus),
            _NAN if nodes is None else float(nodes),
            _NAN if limit is None else float(limit),
        )

    def keys(self, job: Job, request: Request) -> Asked:
        """Return the keys of a job; jobs that differ in nothing but their submission share what is kept at hand."""
        get = job.get
        read = get("user"), get("job_name"), get("work_dir"), get("group"), get("queue"), get("array_id"), request
        known = self._asked.get(read)
        if known is None:
            known = self._read_keys(*read)
            if len("".join(filter(None, read[:-1]))) > 2 * LONGEST_CACHED:
                return Asked(known.keys + self._of_hour(job["submit_time"]), known.dead, known.live)
            if len(self._asked) >= KEPT:
                self._asked.clear()
            self._asked[read] = known
        return Asked(known.keys + self._of_hour(job["submit_time"]), known.dead, known.live)

    def _read_keys(
        self,
        user: str | None,
        name: str | None,
        work_dir: str | None,
        group: str | None,
        queue: str | None,
        array_id: str | None,
        request: Request,
    ) -> Asked:
        """Return the keys but for the hour's part, which is there for all jobs or for none."""
        limit = request.time_limit_s
        parts = (
            self._user[user],
            self._name[work_dir] or self._only_name[name],
            self._job_name[name] if work_dir else 0,
            self._name_shape[name],
            self._dir_shape[work_dir],
            self._group[group],
            self._queue[queue],
            self._array[array_id],
            self._of_size(request),
            0 if limit != limit else self._limit[limit],
            0,
        )
        nulls = (*(part == 0 for part in parts[:-1]), self._clock == "relative")
        existing = self._existing.get(nulls)
        if existing is None:
            lacks = _IN_LEVEL @ np.array(nulls, np.uint64) > 0
            existing = self._existing[nulls] = (np.flatnonzero(lacks), np.flatnonzero(~lacks))
        return Asked(_IN_LEVEL @ np.array(parts, np.uint64) + _SEEDS, *existing)

    def calendar(self, submit_us: int) -> tuple[float, float, float, float, float]:
        """Return hour of day, weekday, hour of week, day of the month and month, NaN where the clock does not carry them."""
        if self._clock == "relative":
            return _NAN, _NAN, _NAN, _NAN, _NAN
        days, second = divmod(self._local_s(submit_us), 86_400)
        hour_of_day = second // 60 / 60
        weekday, month_day, month = self._of_day(days)
        if self._clock != "calendar":
            return hour_of_day, weekday, weekday * 24 + hour_of_day, _NAN, _NAN
        return hour_of_day, weekday, weekday * 24 + hour_of_day, month_day, month

    def categories(self, job: Job) -> dict[str, str | None]:
        return {name: self.category(job, name) for name in CATEGORIES}

    def category(self, job: Job, name: str) -> str | None:
        """Return the text of a category, None for null."""
        text: str | None = job.get(CATEGORIES[name])
        if not text:
            return None
        return self._folded(text) if name in _FOLDED else text

    def _folded(self, text: str) -> str:
        if len(text) > LONGEST_CACHED:
            return fold_digits(text)
        shape = self._shape.get(text)
        if shape is None:
            if len(self._shape) >= CACHED:
                self._shape.clear()
            shape = self._shape[text] = fold_digits(text)
        return shape

    def _of_size(self, request: Request) -> int:
        if request.gpu_count > 0:
            return self._gpus[request.gpu_count]
        if request.cpu_count == request.cpu_count:
            return self._cpus[request.cpu_count]
        return 0 if request.node_count != request.node_count else self._nodes[request.node_count]

    def _of_hour(self, submit_us: int) -> Keys:
        """Return what the hour of the day adds to the keys of the levels that have it."""
        hour = -1 if self._clock == "relative" else self._local_s(submit_us) % 86_400 // 3600
        found = self._of_hours.get(hour)
        if found is None:
            found = self._of_hours[hour] = _HAS_HOUR * np.uint64(0 if hour < 0 else self._hour[float(hour)])
        return found

    def _local_s(self, submit_us: int) -> int:
        quarter = submit_us // _QUARTER_US
        offset = self._offsets.get(quarter)
        if offset is None:
            if len(self._offsets) >= CACHED:
                self._offsets.clear()
            moment = datetime.fromtimestamp(quarter * 900, UTC).astimezone(self._zone).utcoffset()
            offset = self._offsets[quarter] = 0 if moment is None else int(moment.total_seconds())
        return submit_us // US + offset

    def _of_day(self, day: int) -> tuple[float, float, float]:
        found = self._days.get(day)
        if found is None:
            if len(self._days) >= CACHED:
                self._days.clear()
            date = datetime.fromtimestamp(day * 86_400, UTC)
            found = self._days[day] = (float(date.weekday()), float(date.day), float(date.month))
        return found


def units(count: float) -> int:
    """Return GPUs or CPUs in whole 1/RESOURCE_UNITS, 0 where unknown."""
    return 0 if count != count else round(count * RESOURCE_UNITS)


def per_node(request: Request) -> tuple[float, float]:
    return over(request.gpu_count, request.node_count), over(request.cpu_count, request.node_count)


def over(count: float, by: float) -> float:
    """Return count / by, NaN where `by` is not above 0."""
    return count / by if by > 0 else _NAN
