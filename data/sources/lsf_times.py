"""Times as LSF's commands print them: `Thu Feb  3 17:40:37`, `Dec 28 19:56 L`, with or without a year, local to the cluster.

The letter behind a finish time says what the forecast of a running job rests on (bjobs(1)). The year is there with
LSB_DISPLAY_YEAR=Y; else it follows from a day up to which all dates lie, and the weekday, where there is one, has to agree.
"""

import re
from datetime import datetime, tzinfo
from typing import NamedTuple

from runcast.data.sources.lsf_jobs import Unreadable

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MOMENT = (
    rf"(?:(?P<weekday>{'|'.join(_DAYS)}) )?(?P<month>{'|'.join(_MONTHS)}) +(?P<day>\d{{1,2}}) +(?P<hour>\d{{1,2}}):(?P<minute>\d\d)"
    r"(?::(?P<second>\d\d))?(?: (?P<year>\d{4}))?"
)
_MOMENT = re.compile(MOMENT + r"(?: +[A-Z])?", re.ASCII)
NO_YEAR = "year_missing"
_BACK_TO_A_LEAP_YEAR = 9  # 1896 to 1904, the longest


class Moments(NamedTuple):
    """Whole seconds since 1970, 0 for none; whether the clock showed one of them twice."""

    submit_s: int
    start_s: int
    end_s: int
    ambiguous: bool


def read_moment(text: str, up_to: datetime | None) -> datetime | None:
    """Return a local time, None for none; raises Unreadable, for NO_YEAR where it has no year and no `up_to` is given.

    >>> read_moment("Dec 31 23:40", datetime(2022, 2, 2))
    datetime.datetime(2021, 12, 31, 23, 40)
    """
    if text.strip() in ("", "-"):
        return None
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        raise Unreadable("time_unreadable")
    if match["year"] is None and up_to is None:
        raise Unreadable(NO_YEAR)
    month = _MONTHS.index(match["month"]) + 1
    parts = (month, int(match["day"]), int(match["hour"]), int(match["minute"]), int(match["second"] or 0))
    moment = _in_year(int(match["year"]), parts) if match["year"] or up_to is None else _latest(up_to, parts)
    if match["weekday"] and moment.weekday() != _DAYS.index(match["weekday"]):
        raise Unreadable("weekday_of_another_year")
    return moment


def _in_year(year: int, parts: tuple[int, int, int, int, int]) -> datetime:
    try:
        return datetime(year, *parts)  # noqa: DTZ001  local, the zone follows
    except ValueError:
        raise Unreadable("time_unreadable") from None


def _latest(up_to: datetime, parts: tuple[int, int, int, int, int]) -> datetime:
    """Return the latest moment of that day and time which is not after `up_to`."""
    for year in range(up_to.year, max(up_to.year - _BACK_TO_A_LEAP_YEAR, 0), -1):
        try:
            moment = datetime(year, *parts)  # noqa: DTZ001  local, the zone follows
        except ValueError:  # 29 February
            continue
        if moment <= up_to:
            return moment
    raise Unreadable("time_unreadable")


def moments_of(submit: datetime | None, start: datetime | None, end: datetime | None, zone: tzinfo) -> Moments:
    """Turn local times into instants: of an hour that the clock shows twice the first that keeps their order, of a skipped one none."""
    earliest, seconds, ambiguous = 0, [], False
    for local in (submit, start, end):
        instant = 0
        if local is not None:
            first, second = (int(local.replace(tzinfo=zone, fold=fold).timestamp()) for fold in (0, 1))
            if first > second:
                raise Unreadable("time_nonexistent")
            ambiguous |= first != second
            instant = second if first < earliest <= second else first
            earliest = instant
        seconds.append(instant)
    return Moments(seconds[0], seconds[1], seconds[2], ambiguous)
