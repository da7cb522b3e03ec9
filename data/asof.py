"""What could be seen at the end of a day: the cut between nights, so that a backfill never reads later facts.

The cut of a day is the first instant of the next day in the cluster's zone. A job submitted at or after the cut is not seen; a
job that ended at or after it is seen as open. Local dates come from Python's zone data: Arrow's needs that of the machine.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.states import OPEN_STATES, OTHER, STATES

DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1)
_UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")
_OPEN = pa.array(sorted(OPEN_STATES))
_OPEN_OR_UNKNOWN = pa.array(sorted({*OPEN_STATES, OTHER}))
_WAITING = pa.array(sorted(state for state in OPEN_STATES if STATES[state] == "excluded"))


def day_start_us(day: date, zone: tzinfo) -> int:
    """First instant of `day` in `zone`, in microseconds since 1970 UTC; the earlier one where midnight comes twice."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    return int((midnight.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))


def cut_us(day: date, zone: tzinfo) -> int:
    """End of `day` in `zone` (the next day's first instant), in microseconds since 1970 UTC."""
    return day_start_us(day + timedelta(days=1), zone)


def local_days(times_us: npt.NDArray[np.int64], zone: tzinfo) -> npt.NDArray[np.int64]:
    """Local calendar day of each instant, as days since 1970-01-01; exact over clock changes."""
    if not len(times_us):
        return np.empty(0, dtype=np.int64)
    utc_days = times_us // DAY_US
    first = int(utc_days.min()) - 1
    near = np.zeros(int(utc_days.max()) - first + 3, dtype=bool)
    for away in range(4):  # a zone is less than a day away from UTC
        near[utc_days - first - 1 + away] = True
    days = np.flatnonzero(near) + first
    starts = np.array([day_start_us(day_of(int(d)), zone) for d in days], dtype=np.int64)
    return days[np.searchsorted(starts, times_us, side="right") - 1]


def day_of(number: int) -> date:
    """The date `number` days after 1970-01-01."""
    return _EPOCH + timedelta(days=number)


def day_number(day: date) -> int:
    """Days from 1970-01-01 to `day`."""
    return (day - _EPOCH).days


def microseconds(times: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """A timestamp[us] column as integers; null is the smallest integer, which is before every time."""
    integers = times.cast(pa.int64())
    known = pc.fill_null(integers, np.iinfo(np.int64).min) if integers.null_count else integers
    return known.to_numpy()  # type: ignore[no-any-return]


def ended_at(jobs: pa.Table) -> pa.ChunkedArray:
    """When each job ended; null while it is queued or running, whatever end a log forecasts for it.

    A job whose state says that it is over but whose log does not say when (cancelled before it started, in SWF) counts as over
    from its submission: it never held anything.
    """
    is_over = pc.invert(pc.is_in(jobs["state"], _OPEN_OR_UNKNOWN))
    end = pc.if_else(pc.is_in(jobs["state"], _OPEN), None, jobs["end_time"])
    return pc.if_else(is_over, pc.coalesce(end, jobs["submit_time"]), end)


def seen_at(jobs: pa.Table, cut: int) -> pa.Table:
    """The jobs as they stood just before `cut` (microseconds UTC): without later submissions, later starts and later ends.

    Every open job carries what a scheduler could know: its state is RUNNING or PENDING, its runtime null, its label censored
    (running: at least so long) or excluded (no runtime yet); attempts counts the start that is known; flags, which may tell of
    the end, are empty. Rows keep their order.
    """
    jobs = jobs.filter(pc.less(jobs["submit_time"], _instant(cut)))
    ended = pc.fill_null(pc.less(ended_at(jobs), _instant(cut)), False)
    if pc.all(ended, min_count=0).as_py():
        return jobs
    waits = pc.is_in(jobs["state"], _WAITING)  # requeued jobs keep the start of the attempt before
    started = pc.and_not(pc.fill_null(pc.less(jobs["start_time"], _instant(cut)), False), waits)
    known: Mapping[str, Any] = {
        "start_time": pc.if_else(started, jobs["start_time"], None),
        "node_list": pc.if_else(started, jobs["node_list"], None),
        "queue_s": pc.if_else(started, jobs["queue_s"], None),
        "end_time": pa.nulls(jobs.num_rows, _UTC_MICROSECONDS),
        "runtime_s": pa.nulls(jobs.num_rows, pa.float64()),
        "state": pc.if_else(started, "RUNNING", "PENDING"),
        "label": pc.if_else(started, "censored", "excluded"),
        "attempts": started.cast(pa.int32()),
        "flags": pa.array([[]] * jobs.num_rows, pa.list_(pa.string())),
    }
    for name, open_value in known.items():
        at = jobs.schema.get_field_index(name)
        jobs = jobs.set_column(at, jobs.schema.field(name), pc.if_else(ended, jobs[name], open_value))
    return jobs


def _instant(us: int) -> pa.Scalar:
    return pa.scalar(us, _UTC_MICROSECONDS)
