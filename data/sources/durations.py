"""Lengths of time as Slurm writes them: elapsed times and time limits.

sbatch(1) names the forms "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours", "days-hours:minutes" and
"days-hours:minutes:seconds"; sacct(1) adds fractions of a second. So `4:00` is four minutes, `3-0:00` three days.
"""

import re
from functools import lru_cache
from typing import Literal, NamedTuple

CLOCKS_DIFFER_S = 60  # the most that clocks of one cluster differ; what lies further apart is a fault of the log

_FORM = re.compile(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9})(?::(\d{1,9}))?)?(\.\d{1,9})?", re.ASCII)
_WHOLE = re.compile(r"\d{1,9}", re.ASCII)

_UNLIMITED = frozenset({"unlimited", "infinite"})
_OF_THE_PARTITION = frozenset({"partition_limit", "partitionlimit"})
_NOT_GIVEN = frozenset({"", "none", "n/a", "null", "unknown", "not_set", "default"})


class Limit(NamedTuple):
    """A time limit: seconds where `kind` is given, else None; `partition` is the limit of the partition, whatever it is."""

    seconds: float | None
    kind: Literal["given", "unlimited", "partition", "absent", "unreadable"]


@lru_cache(maxsize=1 << 16)
def duration_s(text: str) -> float | None:
    """Return the seconds that `text` says, or None where it is no duration (negative, garbage).

    >>> duration_s("2-01:24:56"), duration_s("01:05.753"), duration_s("4:00"), duration_s("2-12"), duration_s("90")
    (177896.0, 65.753, 240.0, 216000.0, 5400.0)
    """
    match = _FORM.fullmatch(text.strip())
    if not match:
        return None
    days, first, second, third, fraction = match.groups()
    if days is not None or third is not None:
        hours, minutes, seconds = first, second, third
    else:
        hours, minutes, seconds = None, first, second
    if fraction and seconds is None:
        return None
    whole = int(days or 0) * 86_400 + int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return whole + float(fraction or 0)


@lru_cache(maxsize=1 << 14)
def time_limit(text: str) -> Limit:
    """Read sacct's Timelimit. A limit of zero means none (sbatch(1)); `Partition_Limit` names a limit that the log lacks."""
    word = text.strip().lower()
    if word in _NOT_GIVEN:
        return Limit(None, "absent")
    if word in _OF_THE_PARTITION:
        return Limit(None, "partition")
    if word in _UNLIMITED:
        return Limit(None, "unlimited")
    seconds = duration_s(word)
    if seconds is None:
        return Limit(None, "unreadable")
    return Limit(seconds, "given") if seconds else Limit(None, "unlimited")


@lru_cache(maxsize=1 << 14)
def time_limit_of_minutes(text: str) -> Limit:
    """Read sacct's TimelimitRaw: whole minutes, or one of the words that Timelimit knows."""
    word = text.strip()
    if _WHOLE.fullmatch(word):
        return time_limit(f"{word}:00")
    limit = time_limit(word)
    return limit if limit.seconds is None else Limit(None, "unreadable")
