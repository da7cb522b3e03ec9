"""Cuts between nights, local dates over clock changes, and jobs as they stood at a cut."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from runcast.data.asof import cut_us, day_number, day_start_us, local_days, seen_at
from runcast.data.schema import JOBS


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


def job(**given: object) -> dict[str, object]:
    blank: dict[str, object] = dict.fromkeys(JOBS.names)
    base = {"cluster": "c", "job_id": "1", "job_key": "c/1", "submit_time": us("2024-03-01T10:00:00"), "time_limit_kind": "hard"}
    base |= {"state": "COMPLETED", "label": "event", "attempts": 1, "source": "f:1", "flags": []}
    return blank | base | given


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=JOBS)


@pytest.mark.parametrize(
    ("zone", "day", "expected"),
    [
        ("UTC", date(2024, 3, 1), "2024-03-01T00:00:00"),
        ("Asia/Shanghai", date(2024, 3, 1), "2024-02-29T16:00:00"),
        ("America/New_York", date(2024, 3, 10), "2024-03-10T05:00:00"),
        ("America/New_York", date(2024, 3, 11), "2024-03-11T04:00:00"),  # the 10th has 23 hours
        ("America/Havana", date(2023, 11, 5), "2023-11-05T04:00:00"),  # midnight comes twice: the first of them
        ("America/Sao_Paulo", date(2018, 11, 4), "2018-11-04T03:00:00"),  # midnight was skipped: the day begins at 01:00
    ],
)
def test_a_day_begins_at_its_first_local_instant(zone: str, day: date, expected: str) -> None:
    assert day_start_us(day, ZoneInfo(zone)) == us(expected)


def test_the_cut_of_a_day_is_the_next_days_beginning() -> None:
    assert cut_us(date(2024, 2, 29), ZoneInfo("Europe/Berlin")) == us("2024-02-29T23:00:00")


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Shanghai", "America/Havana", "Pacific/Apia", "Atlantic/Azores"])
def test_local_days_equal_the_standard_librarys_one_by_one(zone: str) -> None:
    times = np.random.default_rng(3).integers(0, 1_800_000_000, 5_000) * 1_000_000
    expected = [day_number(datetime.fromtimestamp(t / 1e6, ZoneInfo(zone)).date()) for t in times]
    assert local_days(times, ZoneInfo(zone)).tolist() == expected


def test_no_times_have_no_days() -> None:
    assert local_days(np.array([], dtype=np.int64), ZoneInfo("UTC")).tolist() == []


CUT = us("2024-03-02T00:00:00")
DONE = {"start_time": us("2024-03-01T10:00:10"), "queue_s": 10.0, "node_list": "n1", "runtime_s": 60.0}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            DONE | {"end_time": us("2024-03-01T10:01:10"), "flags": ["requeued"]},
            {
                "state": "COMPLETED",
                "label": "event",
                "runtime_s": 60.0,
                "end_time": us("2024-03-01T10:01:10"),
                "flags": ["requeued"],
            },
            id="ended before: as it is",
        ),
        pytest.param(
            DONE | {"end_time": CUT, "attempts": 3, "flags": ["requeued"]},
            {
                "state": "RUNNING",
                "label": "censored",
                "runtime_s": None,
                "end_time": None,
                "node_list": "n1",
                "attempts": 1,
                "flags": [],
            },
            id="ended at the cut: running",
        ),
        pytest.param(
            {"start_time": CUT, "end_time": CUT + 60_000_000, "queue_s": 50_400.0, "node_list": "n1", "runtime_s": 60.0},
            {"state": "PENDING", "label": "excluded", "start_time": None, "queue_s": None, "node_list": None, "attempts": 0},
            id="started at the cut: pending",
        ),
        pytest.param(
            DONE | {"state": "RUNNING", "end_time": us("2024-03-01T12:00:00")},
            {"state": "RUNNING", "end_time": None, "runtime_s": None},
            id="an end beside RUNNING is a forecast",
        ),
        pytest.param(
            {"state": "REQUEUED", "start_time": us("2024-03-01T11:00:00")},
            {"state": "PENDING", "start_time": None},
            id="requeued waits again",
        ),
        pytest.param(
            {"state": "CANCELLED", "label": "excluded", "attempts": 0},
            {"state": "CANCELLED", "label": "excluded", "end_time": None},
            id="cancelled without an end: over",
        ),
        pytest.param(
            {"state": "OTHER", "start_time": us("2024-03-01T11:00:00")}, {"state": "RUNNING"}, id="unknown state, no end: open"
        ),
    ],
)
def test_a_job_is_seen_as_it_stood_at_the_cut(given: dict[str, object], expected: dict[str, object]) -> None:
    seen = seen_at(table(job(**given)), CUT)
    assert seen.schema.equals(JOBS)
    row = seen.to_pylist()[0]
    row |= {name: int(row[name].timestamp()) * 1_000_000 for name in ("start_time", "end_time") if row[name] is not None}
    assert {name: row[name] for name in expected} == expected


def test_a_job_submitted_at_the_cut_is_not_seen() -> None:
    rows = table(job(job_key="early", submit_time=CUT - 1), job(job_key="late", submit_time=CUT))
    assert seen_at(rows, CUT)["job_key"].to_pylist() == ["early"]


def test_seeing_twice_changes_nothing() -> None:
    rows = table(job(**DONE, end_time=CUT), job(job_key="c/2", **DONE, end_time=CUT - 1))
    once = seen_at(rows, CUT)
    assert seen_at(once, CUT).equals(once)
