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
from runcast.features.levels import LEVELS, PARTS, US, fold_digits, hash_number, hash_text

Job = Mapping[str, Any]

CACHED = 100_000  # values kept at hand for each part; above it they are forgotten and begun anew
KEPT = 10_000  # jobs whose keys are kept at hand
_QUARTER_US = 900 * US
_NAN = math.nan

_IN_LEVEL = np.array([[part in level.parts for part in PARTS] for level in LEVELS], np.uint64)
_SEEDS = np.array([level.seed for level in LEVELS], np.uint64)
_FOLDED = tuple(name for name in CATEGORIES if name in ("name_shape", "dir_shape"))
_PLAIN = tuple((name, column) for name, column in CATEGORIES.items() if name not in _FOLDED)


class Request(NamedTuple):
    """The numbers a job asks for, NaN where it does not say."""

    gpu_count: float
    cpu_count: float
    node_count: float
    time_limit_s: float


class Asked(NamedTuple):
    """Keys of a job at every level, which levels it has none at, and which it has (the same for all jobs with the same nulls)."""

    keys: NDArray[np.uint64]
    dead: NDArray[np.intp]
    live: NDArray[np.intp]


class JobReader:
    """Reads jobs of one cluster; keeps nothing but caches."""

    def __init__(self, clock: str, time_zone: str) -> None:
        self._clock = clock
        self._zone = ZoneInfo(time_zone)
        self._offsets: dict[int, int] = {}
        self._days: dict[int, tuple[float, float, float]] = {}
        self._text: dict[str, dict[str, int]] = {}
        self._number: dict[str, dict[float, int]] = {}
        self._shape: dict[str, str] = {}
        self._asked: dict[tuple[Any, ...], Asked] = {}
        self._existing: dict[tuple[bool, ...], tuple[NDArray[np.intp], NDArray[np.intp]]] = {}

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
        """Return the keys of a job; one is read again for each of its events, so the latest read are kept at hand."""
        get = job.get
        name, work_dir = get("job_name"), get("work_dir")
        texts = get("user"), name, work_dir, get("group"), get("queue"), get("array_id")
        read = (*texts, request, job["submit_time"])
        known = self._asked.get(read)
        if known is None:
            if len(self._asked) >= KEPT:
                self._asked.clear()
            known = self._asked[read] = self._read_keys(job, request)
        return known

    def _read_keys(self, job: Job, request: Request) -> Asked:
        get = job.get
        name, work_dir = get("job_name"), get("work_dir")
        parts = (
            self._of_text("user", get("user")),
            self._of_text("name", work_dir) or self._of_text("only_name", name),
            self._of_text("job_name", name) if work_dir else 0,
            self._of_text("name_shape", name, fold_digits),
            self._of_text("dir_shape", work_dir, fold_digits),
            self._of_text("group", get("group")),
            self._of_text("queue", get("queue")),
            self._of_text("array", get("array_id")),
            self._of_size(request),
            self._of_number("limit", request.time_limit_s),
            self._of_hour(job["submit_time"]),
        )
        nulls = tuple([part == 0 for part in parts])
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
        get = job.get
        found: dict[str, str | None] = {name: get(column) or None for name, column in _PLAIN}
        for name in _FOLDED:
            text = get(CATEGORIES[name])
            found[name] = self._folded(text) if text else None
        return found

    def _folded(self, text: str) -> str:
        shape = self._shape.get(text)
        if shape is None:
            if len(self._shape) >= CACHED:
                self._shape.clear()
            shape = self._shape[text] = fold_digits(text)
        return shape

    def _of_text(self, part: str, text: str | None, fold: Callable[[str], str] | None = None) -> int:
        """Return the hash of a text, 0 for none."""
        if not text:
            return 0
        known = self._text.get(part)
        if known is None:
            known = self._text[part] = {}
        found = known.get(text)
        if found is None:
            if len(known) >= CACHED:
                known.clear()
            found = known[text] = hash_text(part, text if fold is None else fold(text))
        return found

    def _of_number(self, part: str, value: float) -> int:
        """Return the hash of a number, 0 for NaN."""
        if value != value:
            return 0
        known = self._number.get(part)
        if known is None:
            known = self._number[part] = {}
        found = known.get(value)
        if found is None:
            if len(known) >= CACHED:
                known.clear()
            found = known[value] = hash_number(part, value)
        return found

    def _of_size(self, request: Request) -> int:
        if request.gpu_count > 0:
            return self._of_number("size_gpu", request.gpu_count)
        if request.cpu_count == request.cpu_count:
            return self._of_number("size_cpu", request.cpu_count)
        return self._of_number("size_node", request.node_count)

    def _of_hour(self, submit_us: int) -> int:
        if self._clock == "relative":
            return 0
        return self._of_number("hour", float(self._local_s(submit_us) % 86_400 // 3600))

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
