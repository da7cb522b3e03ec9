"""The keys by which jobs are alike, and what is remembered under each: one declaration for both faces.

A part is one property of a job as submitted (its user, its name with digits folded, its size ...). A level is a set of parts; two
jobs share a level's key where all its parts are equal, and a job with a null part has no key there. A key is a 64-bit number: the
sum of its parts' hashes and the level's own, modulo 2**64, so that the table face can add arrays and the state face integers.
At 10 million keys two different ones meet with a probability of 3e-6.

Adding a level is adding an entry to LEVELS; what it yields is the tuple of statistics beside it.
"""

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

MASK = 2**64 - 1
_DIGITS = re.compile(r"\d+")

#: Parts in the order both faces keep them, with the canonical columns each reads.
PARTS: dict[str, tuple[str, ...]] = {
    "user": ("user",),
    "name": ("job_name", "work_dir"),
    "name_shape": ("job_name",),
    "dir_shape": ("work_dir",),
    "group": ("group",),
    "queue": ("queue",),
    "array": ("array_id",),
    "size": ("gpu_count", "cpu_count", "node_count"),
    "limit": ("time_limit_s",),
    "hour": ("submit_time",),
}

#: Statistics that change only when a job of the key ends.
ENDED_STATS = (
    "last_1_s", "last_2_s", "last_3_s", "median_7_s", "min_7_s", "max_7_s", "log_std_7",
    "log_mean", "log_std", "runs", "failed_share_7", "last_outcome",
)  # fmt: skip
#: Statistics that change only when a job of the key is submitted.
SUBMITTED_STATS = ("gap_1_s", "gap_2_s", "gap_ratio", "submitted_n")
#: Statistics that also change with the moment of asking.
TIMED_STATS = ("age_s", "since_submit_s", "burst_n", "running_n", "waiting_n", "running_mean_s", "running_latest_s")

_FINE = (
    "last_1_s",
    "last_2_s",
    "last_3_s",
    "median_7_s",
    "min_7_s",
    "max_7_s",
    "log_std_7",
    "runs",
    "failed_share_7",
    "last_outcome",
    "age_s",
)
_MIDDLE = (*_FINE, "log_mean", "log_std")
_COARSE = ("last_1_s", "median_7_s", "log_std_7", "log_mean", "log_std", "failed_share_7", "age_s")
_RHYTHM = ("since_submit_s", "gap_1_s", "gap_2_s", "gap_ratio", "burst_n")
_SIBLINGS = ("running_n", "waiting_n", "running_mean_s", "running_latest_s")


@dataclass(frozen=True)
class Level:
    """A key and the statistics kept under it; `name` ends the name of each of its features (`median_7_s_by_<name>`)."""

    name: str
    parts: tuple[str, ...]
    stats: tuple[str, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for part in self.parts for column in PARTS[part]))

    @property
    def seed(self) -> int:
        return hash_text("level", self.name)

    @property
    def has_rhythm(self) -> bool:
        return any(stat in self.stats for stat in (*SUBMITTED_STATS, *_RHYTHM, *_SIBLINGS))

    @property
    def has_siblings(self) -> bool:
        return any(stat in self.stats for stat in _SIBLINGS)


#: Most specific first. Rhythm and siblings stand where a job is likely to be one of a series, and at the coarse levels that
#: logs without users still have.
LEVELS: tuple[Level, ...] = (
    Level("user_name_size_limit", ("user", "name", "size", "limit"), (*_FINE, *_RHYTHM)),
    Level("user_name_size", ("user", "name", "size"), _FINE),
    Level("user_name", ("user", "name"), (*_FINE, "submitted_n", *_RHYTHM, *_SIBLINGS)),
    Level("user_name_shape", ("user", "name_shape"), _FINE),
    Level("user_dir_shape", ("user", "dir_shape"), _FINE),
    Level("array", ("array",), (*_FINE, "submitted_n", *_RHYTHM, *_SIBLINGS)),
    Level("user_size_limit", ("user", "size", "limit"), (*_MIDDLE, *_RHYTHM, *_SIBLINGS)),
    Level("user_size", ("user", "size"), _MIDDLE),
    Level("user_limit", ("user", "limit"), _MIDDLE),
    Level("user_hour", ("user", "hour"), _COARSE),
    Level("user", ("user",), (*_MIDDLE, "submitted_n", *_RHYTHM, *_SIBLINGS)),
    Level("name_shape_size", ("name_shape", "size"), _COARSE),
    Level("group_size_limit", ("group", "size", "limit"), (*_MIDDLE, *_RHYTHM)),
    Level("group_size", ("group", "size"), (*_MIDDLE, *_RHYTHM)),
    Level("group", ("group",), (*_COARSE, *_RHYTHM, *_SIBLINGS)),
    Level("queue_size_limit", ("queue", "size", "limit"), (*_MIDDLE, *_RHYTHM)),
    Level("queue", ("queue",), (*_COARSE, *_SIBLINGS)),
    Level("size_limit", ("size", "limit"), (*_MIDDLE, *_RHYTHM)),
    Level("size", ("size",), (*_MIDDLE, *_RHYTHM)),
    Level("everything", (), (*_COARSE, *_RHYTHM, *_SIBLINGS)),
)
LEVEL_NAMES: tuple[str, ...] = tuple(level.name for level in LEVELS)

#: The chain of the plain baseline: the most specific of these that has any ended run gives `nearest_median_s`.
NEAREST: tuple[str, ...] = (
    "user_name_size_limit", "user_name_size", "user_name", "user_size_limit", "user_size", "user_limit", "user",
    "group_size", "group", "queue", "everything",
)  # fmt: skip

RING = 7  # runs remembered one by one
LOG_UNITS = 2**14  # ln(runtime) is summed as integers of 1/16384, so that no sum depends on its order
RUNS_CAP = 64  # counts above it say how long the log is, not how well the key is known
BURST_GAP_US = 60_000_000  # submissions of a key at most this far apart are one burst
US = 1_000_000
RESOURCE_UNITS = 1000  # GPUs and CPUs in use are summed as integers of 1/1000

OK, FAILED, CENSORED = 0, 1, 2  # outcome codes of ended runs


def hash_text(part: str, text: str) -> int:
    """Return the 64-bit hash of a part's text; never 0, which stands for null."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=part.encode()[:16]).digest()
    return int.from_bytes(digest, "little") or 1


def hash_number(part: str, value: float) -> int:
    """Return the 64-bit hash of a part's number; never 0. Equal numbers hash alike, -0.0 as 0.0."""
    digest = blake2b(struct.pack("<d", value + 0.0), digest_size=8, person=part.encode()[:16]).digest()
    return int.from_bytes(digest, "little") or 1


def fold_digits(text: str) -> str:
    """Return the text's shape: every run of digits becomes one `#`.

    >>> fold_digits("train_017_lr0.001.sh")
    'train_#_lr#.#.sh'
    """
    return _DIGITS.sub("#", text)


def outcome_code(label: str | None, state: str | None) -> int:
    """Return OK for a job that completed, FAILED for one that ended by itself otherwise, CENSORED for one that was cut."""
    if label == "censored":
        return CENSORED
    return OK if state == "COMPLETED" else FAILED


def text_or_none(value: Any) -> str | None:
    """Return a text field of a job, None where it is null in any of the ways a mapping can say so."""
    return value if isinstance(value, str) and value != "" else None


def number_or_nan(job: Mapping[str, Any], name: str) -> float:
    """Return a number field of a job, NaN where it is null."""
    value = job.get(name)
    return math.nan if value is None else float(value)
