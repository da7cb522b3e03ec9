"""The days that a command, a task or a load may name: written YYYY-MM-DD, within the calendar of the lake, and over."""

import re
from datetime import date, datetime, timedelta

from runcast.data.cluster import Cluster
from runcast.data.errors import NoSuchNight

_FIRST, _LAST = date(1970, 1, 1), date(2099, 12, 31)  # of the times that a job may have


def checked_day(cluster: Cluster, text: str, now: datetime) -> date:
    """Return the day that `text` names; `now` is aware. Raises NoSuchNight for what is no day, and as `require_over` does."""
    try:
        day = date.fromisoformat(text)
    except (ValueError, TypeError):
        day = None
    if day is None or not re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        meant = f", for example {day}" if day else ""
        raise NoSuchNight(f"{cluster.name}: {text!r} is not a day; write YYYY-MM-DD{meant}")
    require_over(cluster, day, now)
    return day


def require_over(cluster: Cluster, day: date, now: datetime) -> None:
    """Raise NoSuchNight for a day outside 1970 to 2099 and, on a calendar clock, for one that is not over in the cluster's zone.

    A load up to a day that is not over would leave every later night in the past of the lake, with its open jobs as they are now.
    """
    if cluster.clock == "calendar" and day > latest_complete_day(cluster, now):
        today = now.astimezone(cluster.zone).date()
        state = "is not over" if day == today else "has not begun"
        raise NoSuchNight(
            f"{cluster.name}: {day} {state} in {cluster.time_zone}; the night of a day is run when it is over. "
            f"The latest such day is {latest_complete_day(cluster, now)}."
        )
    if not _FIRST <= day <= _LAST:
        raise NoSuchNight(f"{cluster.name}: {day} is outside {_FIRST.year} to {_LAST.year}; no job can have ended then")


def latest_complete_day(cluster: Cluster, now: datetime) -> date:
    """Return yesterday in the cluster's zone: the latest day of which all can be known at `now` (aware)."""
    return now.astimezone(cluster.zone).date() - timedelta(days=1)
