"""The keys by which jobs are alike, and what is remembered under each: one declaration for both faces.

A part is one property of a job as submitted (its user, its name with digits folded, its size ...). A level is a set of parts; two
jobs share a level's key where all its parts are equal, and a job with a null part has no key there. A key is a 64-bit number: the
sum of its parts' hashes and the level's own, modulo 2**64, so that the table face can add arrays and the state face integers.
At 10 million keys two different ones meet with a probability of 3e-6.

Adding a level is adding an entry to LEVELS; what it yields is the tuple of statistics beside it.
"""

import re
import struct
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

MASK = 2**64 - 1
_DIGITS = re.compile(r"\d+")

#: Parts in the order both faces keep them, with the canonical columns each reads. `name` is the working directory, or the job
#: name where the log has none; `job_name` is the job name beside a working directory, so that no two levels are the same.
PARTS: dict[str, tuple[str, ...]] = {
    "user": ("user",),
    "name": ("work_dir", "job_name"),
    "job_name": ("work_dir", "job_name"),
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
    "last_1_s", "last_2_s", "last_3_s", "last_4_s", "last_5_s", "last_6_s", "last_7_s",
    "median_7_s", "mode_7_s", "mode_share_7", "log_mean_7", "log_std_7", "log_mean", "log_std",
    "runs", "failed_share_7", "last_outcome", "last_limit_share", "fresh_s",
)  # fmt: skip
SIBLING_STATS = ("running_n", "waiting_n", "running_mean_s", "running_latest_s")

_FINE = (
    "last_1_s", "last_2_s", "median_7_s", "mode_7_s", "mode_share_7", "log_mean_7", "log_std_7", "runs", "failed_share_7",
    "last_outcome", "last_limit_share", "fresh_s", "age_s", "since_submit_s", "since_third_s",
)  # fmt: skip
_COARSE = ("last_1_s", "median_7_s", "mode_7_s", "log_mean_7", "log_mean", "log_std", "age_s")
_SERIES = ("gap_s", "gap_ratio", "burst_n", "submitted_n")


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
    def has_siblings(self) -> bool:
        return any(stat in self.stats for stat in SIBLING_STATS)


#: Most specific first. Coarse levels yield few statistics, since more of them were measured to make models worse; siblings stand
#: where a job is likely to be one of a series, and at the coarse levels that logs without users still have.
LEVELS: tuple[Level, ...] = (
    Level("user_name_size_limit", ("user", "name", "size", "limit"), _FINE),
    Level("user_name_size", ("user", "name", "size"), ()),
    Level("user_name", ("user", "name"), (*_FINE, *_SERIES, *SIBLING_STATS)),
    Level("user_job_name", ("user", "job_name"), _FINE),
    Level("user_dir_name_shape", ("user", "dir_shape", "name_shape"), _FINE),
    Level("user_name_shape_size", ("user", "name_shape", "size"), _FINE),
    Level("array", ("array",), (*_FINE, *_SERIES, *SIBLING_STATS)),
    Level("user_size_limit", ("user", "size", "limit"), (*_FINE, *_SERIES, *SIBLING_STATS)),
    Level("user_size", ("user", "size"), _FINE),
    Level("user_limit", ("user", "limit"), _FINE),
    Level("user", ("user",), (*_FINE, *_SERIES, *SIBLING_STATS)),
    Level("user_hour", ("user", "hour"), _COARSE),
    Level("name_shape_size", ("name_shape", "size"), _COARSE),
    Level("group_size_limit", ("group", "size", "limit"), _FINE),
    Level("group_size", ("group", "size"), _FINE),
    Level("queue_size_limit", ("queue", "size", "limit"), _FINE),
    Level("group", ("group",), (*_COARSE, *SIBLING_STATS)),
    Level("queue", ("queue",), (*_COARSE, *SIBLING_STATS)),
    Level("size_limit", ("size", "limit"), (*_COARSE, "since_submit_s", "burst_n")),
    Level("size", ("size",), (*_COARSE, "since_submit_s", "burst_n")),
    Level("everything", (), (*_COARSE, "since_submit_s", "since_third_s", "burst_n", *SIBLING_STATS)),
)
LEVEL_NAMES: tuple[str, ...] = tuple(level.name for level in LEVELS)

#: Slots: for each job the first levels, most specific first, that know something and each more runs than the one before. They
#: say the same things whatever a job's levels are, with all of the ring: what candidates for a forecast are drawn from.
SLOTS: tuple[str, ...] = ("slot_1", "slot_2", "slot_3")
SLOT_LEVELS: tuple[str, ...] = tuple(
    name for name in LEVEL_NAMES if name not in ("user_name_size", "user_hour", "name_shape_size")
)
SLOT_STATS: tuple[str, ...] = (
    *(f"last_{k}_s" for k in range(1, 8)), "median_7_s", "mode_7_s", "mode_share_7", "log_std_7", "runs", "failed_share_7",
    "last_outcome", "fresh_s", "age_s", "fresh_age_s", "since_submit_s", "since_third_s", *SIBLING_STATS,
)  # fmt: skip

#: The chain of the plain baseline: the most specific of these that has any ended run gives `nearest_median_s`.
NEAREST: tuple[str, ...] = (
    "user_name_size_limit", "user_name_size", "user_name", "user_size_limit", "user_size", "user_limit", "user",
    "group_size", "group", "queue", "size_limit", "size", "everything",
)  # fmt: skip
#: The first of them: the keys that name the job's user.
_NEAREST_OF_USER = sum(name.split("_")[0] == "user" for name in NEAREST)


def own_runs(nearest_n: float, nearest_level: float, has_user: bool) -> int:
    """Return how many ended runs of the job's own stand behind its forecast, 0 to 7; the arguments are its features of these names.

    0 where its user is given and has none that ended: then runs of others answered. Of a job without a user, its most specific key's.
    """
    return 0 if has_user and not nearest_level < _NEAREST_OF_USER else int(nearest_n)


RING = 7  # runs remembered one by one
WITHIN = (np.float32(0.75), np.float32(1.25))  # a value this many times another is within 25 % of it
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
