"""The ordered list of features, what each means, and what it is allowed to read.

A feature's own columns (`reads`) must all be known at submission; what it learns from other jobs (`of_others`) may be anything,
since both faces let it see only what those jobs had shown strictly before the submission. A feature that breaks this does not
build. This module is of the numpy level: it imports the standard library only.
"""

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from runcast.data.columns import BY_NAME
from runcast.features.errors import FeatureReadsFuture
from runcast.features.levels import ENDED_STATS, LEVELS, NEAREST, SLOT_LEVELS, SLOT_STATS, SLOTS

#: Of the families, `date` (day of the month, month) works as a clock in logs of a few months: without it the error factor of an L1
#: GBDT on Philly fell from 3.18 to 3.00. It is there for models that are defined with it.
Family = Literal["submission", "date", "request", "topology", "array", "load", "history", "periodicity", "siblings"]

#: Raised when the code behind a feature changes its numbers though its definition reads the same.
CODE_VERSION = 1


@dataclass(frozen=True)
class Feature:
    """One column of the matrix; the value is a float32, NaN where it cannot be known.

    `reads` are columns of the job itself, `of_others` columns of other jobs as far as they were known before the submission.
    """

    name: str
    unit: str
    family: Family
    reads: tuple[str, ...]
    meaning: str
    of_others: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9_]+", self.name):
            raise ValueError(f"feature {self.name!r}: a name is made of a-z, 0-9 and _ only")
        for column in (*self.reads, *self.of_others):
            if column not in BY_NAME:
                raise ValueError(f"feature {self.name!r} reads {column!r}, which is no canonical column")
        late = [column for column in self.reads if BY_NAME[column].known_at != "submit"]
        if late:
            raise FeatureReadsFuture(
                f"feature {self.name!r} reads {', '.join(late)} of the job itself, known only at "
                f"{', '.join(BY_NAME[column].known_at for column in late)}. Read it of ended jobs (of_others), or leave it out."
            )


_SIZE = ("gpu_count", "cpu_count", "node_count")
_NEAREST = ("user", "group", "queue", "job_name", "work_dir", *_SIZE, "time_limit_s")
_GPUS = ("submit_time", "start_time", "end_time", "gpu_count")
_CPUS = ("submit_time", "start_time", "end_time", "cpu_count")
_ENDED = ("submit_time", "end_time", "runtime_s", "time_limit_s", "state", "label")

_OWN: tuple[Feature, ...] = (
    Feature("hour_of_day", "h", "submission", ("submit_time",), "Local time of day, in hours and whole minutes."),
    Feature("weekday", "", "submission", ("submit_time",), "Local weekday, Monday 0."),
    Feature("hour_of_week", "h", "submission", ("submit_time",), "Local hours since Monday 00:00, in whole minutes."),
    Feature("month_day", "", "date", ("submit_time",), "Local day of the month."),
    Feature("month", "", "date", ("submit_time",), "Local month."),
    Feature("gpu_count", "GPUs", "request", ("gpu_count",), "GPUs asked for."),
    Feature("cpu_count", "CPUs", "request", ("cpu_count",), "CPUs asked for."),
    Feature("mem_mib", "MiB", "request", ("mem_mib",), "Memory asked for."),
    Feature("node_count", "nodes", "request", ("node_count",), "Nodes asked for."),
    Feature("cpus_per_gpu", "CPUs", "request", ("cpu_count", "gpu_count"), "CPUs for each GPU; null without GPUs."),
    Feature("mem_mib_per_cpu", "MiB", "request", ("mem_mib", "cpu_count"), "Memory for each CPU; null without CPUs."),
    Feature("time_limit_s", "s", "request", ("time_limit_s",), "Limit or estimate given by the user."),
    Feature("is_limit_hard", "", "request", ("time_limit_kind",), "Whether the job is killed at its limit: 1 or 0."),
    Feature("priority", "", "request", ("priority",), "Priority at submission."),
    Feature("gpus_per_node", "GPUs", "topology", ("gpu_count", "node_count"), "GPUs on each node; null without nodes."),
    Feature("cpus_per_node", "CPUs", "topology", ("cpu_count", "node_count"), "CPUs on each node; null without nodes."),
    Feature(
        "node_share", "", "topology", _SIZE,
        "GPUs (CPUs where there are none) per node over the most that any earlier job asked of one; 1 and above: whole nodes.",
        _SIZE,
    ),
    Feature("array_task", "", "array", ("array_task",), "Index within the job array."),
    Feature("running_gpus", "GPUs", "load", (), "GPUs of the jobs running at submission.", _GPUS),
    Feature("waiting_gpus", "GPUs", "load", (), "GPUs of the jobs waiting at submission.", _GPUS),
    Feature("running_cpus", "CPUs", "load", (), "CPUs of the jobs running at submission.", _CPUS),
    Feature("waiting_cpus", "CPUs", "load", (), "CPUs of the jobs waiting at submission.", _CPUS),
    Feature(
        "nearest_median_s", "s", "history", _NEAREST,
        "Median of the last 7 ended runs of the most specific key that has any; the plain baseline.", _ENDED,
    ),
    Feature(
        "nearest_n", "", "history", _NEAREST,
        "How many runs that median is of, 1 to 7; 0 where nothing had ended.", _ENDED,
    ),
    Feature(
        "nearest_spread_log", "", "history", _NEAREST,
        "Population standard deviation of ln(runtime) of those runs.", _ENDED,
    ),
    Feature(
        "nearest_level", "", "history", _NEAREST,
        f"Which key it was: 0 {NEAREST[0]} to {len(NEAREST) - 1} {NEAREST[-1]}.", _ENDED,
    ),
    Feature("last_two_mean_s_by_user", "s", "history", ("user",), "Mean of the user's last two ended runs, or of one.", _ENDED),
)  # fmt: skip

_ORDINALS = ("latest", "second latest", "third latest", "fourth latest", "fifth latest", "sixth latest", "seventh latest")

#: statistic -> unit, family, meaning; "%s" is the level in words
_STATS: dict[str, tuple[str, Family, str]] = {
    **{
        f"last_{k}_s": ("s", "history", f"Runtime of the {word} ended run of the same %s.")
        for k, word in enumerate(_ORDINALS, start=1)
    },
    "median_7_s": ("s", "history", "Median runtime of the last 7 ended runs of the same %s."),
    "mode_7_s": (
        "s",
        "history",
        "Of the last 7 ended runs of the same %s the one within 25 %% of most of them, the latest of such.",
    ),
    "mode_share_7": ("", "history", "Share of the last 7 ended runs of the same %s that lie within 25 %% of that one."),
    "log_mean_7": ("", "history", "Mean ln(runtime) of the last 7 ended runs of the same %s."),
    "log_std_7": ("", "history", "Population standard deviation of ln(runtime) of the last 7 ended runs of the same %s."),
    "log_mean": ("", "history", "Mean ln(runtime) of all ended runs of the same %s."),
    "log_std": ("", "history", "Population standard deviation of ln(runtime) of all ended runs of the same %s."),
    "runs": ("", "history", "Ended runs of the same %s, counted up to 64."),
    "failed_share_7": (
        "",
        "history",
        "Share of the last 7 ended runs of the same %s that ended by themselves without completing.",
    ),
    "last_outcome": ("", "history", "Outcome of the latest ended run of the same %s: 0 completed, 1 failed, 2 cut from outside."),
    "last_limit_share": ("", "history", "Runtime over time limit of the latest ended run of the same %s; null without a limit."),
    "fresh_s": ("s", "history", "Runtime of that ended run of the same %s which was submitted last."),
    "age_s": ("s", "history", "Time since the latest run of the same %s ended."),
    "fresh_age_s": ("s", "history", "Time since that ended run of the same %s which was submitted last was submitted."),
    "since_submit_s": ("s", "periodicity", "Time since the latest earlier submission of the same %s."),
    "since_third_s": ("s", "periodicity", "Time since the third latest earlier submission of the same %s."),
    "gap_s": ("s", "periodicity", "Time between the two latest earlier submissions of the same %s."),
    "gap_ratio": (
        "",
        "periodicity",
        "Shorter over longer of the two latest gaps between submissions of the same %s; steady is 1.",
    ),
    "burst_n": (
        "",
        "periodicity",
        "Earlier submissions of the same %s in one burst (gaps up to 60 s) that reaches the submission.",
    ),
    "submitted_n": ("", "periodicity", "Earlier submissions of the same %s, counted up to 64."),
    "running_n": ("", "siblings", "Jobs of the same %s running at submission."),
    "waiting_n": ("", "siblings", "Jobs of the same %s waiting at submission."),
    "running_mean_s": ("s", "siblings", "How long the running jobs of the same %s had been running, on average."),
    "running_latest_s": ("s", "siblings", "How long the latest-started job of the same %s had been running, if it still was."),
}
_OF_OTHERS: dict[Family, tuple[str, ...]] = {
    "history": _ENDED,
    "periodicity": ("submit_time",),
    "siblings": ("submit_time", "start_time", "end_time"),
}


def _of_level(name: str, words: str, columns: tuple[str, ...], stats: tuple[str, ...]) -> tuple[Feature, ...]:
    found = []
    for stat in stats:
        unit, family, meaning = _STATS[stat]
        own = columns if stat in ENDED_STATS else tuple(dict.fromkeys((*columns, "submit_time")))
        found.append(Feature(f"{stat}_by_{name}", unit, family, own, meaning % words, (*columns, *_OF_OTHERS[family])))
    return tuple(found)


_IN_SLOTS = tuple(dict.fromkeys(column for level in LEVELS if level.name in SLOT_LEVELS for column in level.reads))
_SLOTS: tuple[Feature, ...] = tuple(
    feature
    for slot in SLOTS
    for feature in (
        Feature(
            f"level_of_{slot}",
            "",
            "history",
            _IN_SLOTS,
            f"Which level {slot} is, by its place in LEVELS: the next that knows more runs than the one before.",
            _ENDED,
        ),
        *_of_level(slot, f"key as {slot}", _IN_SLOTS, SLOT_STATS),
    )
)
_LEVELS: tuple[Feature, ...] = tuple(
    feature
    for level in LEVELS
    for feature in _of_level(level.name, level.name.replace("_", ", ") if level.parts else "cluster", level.reads, level.stats)
)

FEATURES: tuple[Feature, ...] = (*_OWN, *_SLOTS, *_LEVELS)
NAMES: tuple[str, ...] = tuple(feature.name for feature in FEATURES)
OWN_COUNT, SLOT_COUNT = len(_OWN), len(_SLOTS)
if len(set(NAMES)) != len(NAMES):
    raise ValueError("two features of one name: " + ", ".join(sorted({name for name in NAMES if NAMES.count(name) > 1})))

#: Feature -> family: what a model leaves out, it leaves out by family.
FAMILY: dict[str, Family] = {feature.name: feature.family for feature in FEATURES}

#: Categories of the encoder: name -> the canonical column it comes from.
CATEGORIES: dict[str, str] = {
    "user": "user",
    "group": "group",
    "account": "account",
    "queue": "queue",
    "qos": "qos",
    "name_shape": "job_name",
    "dir_shape": "work_dir",
    "gpu_model": "gpu_model",
    "task_role": "task_role",
    "framework": "framework",
}

#: Every canonical column that the features read.
COLUMNS_READ: tuple[str, ...] = tuple(
    name
    for name in BY_NAME
    if name in CATEGORIES.values()
    or any(name in (*feature.reads, *feature.of_others) for feature in FEATURES)
    or name == "job_key"
)


def feature_version() -> str:
    """Return the hash of names, definitions and code version, 16 hex digits; it changes when any number may."""
    text = repr((CODE_VERSION, FEATURES, CATEGORIES, LEVELS, NEAREST, SLOT_LEVELS))
    return sha256(text.encode()).hexdigest()[:16]
