"""Events are checked field by field, and say of a job what the log would say."""

from typing import Any

import pytest

from runcast.scheduler.errors import JobFieldError
from runcast.scheduler.events import read_event

JOB = {"job_id": "17", "submit_time": 1_598_918_400}  # 2020-09-01 00:00 UTC
START, END = 1_598_918_460, 1_598_918_520.5


def test_submitted_carries_the_fields_and_the_key() -> None:
    kind, job = read_event({"event": "submitted", **JOB, "user": "u1", "time_limit_s": 60}, "venus")
    assert (kind, job["user"], job["time_limit_kind"]) == ("submitted", "u1", "hard")
    assert job["job_key"] == "venus:17:1598918400000000"


def test_started() -> None:
    kind, job = read_event({"event": "started", **JOB, "start_time": START}, "venus")
    assert (kind, job["start_time"], job["end_time"]) == ("started", 1_598_918_460_000_000, None)


@pytest.mark.parametrize(
    ("state", "start", "canonical", "label", "runtime_s"),
    [
        ("COMPLETED", START, "COMPLETED", "event", 60.5),
        ("FAILED", START, "FAILED", "event", 60.5),
        ("TIMEOUT", START, "TIMEOUT", "censored", 60.5),
        ("CANCELLED by 7", START, "CANCELLED", "censored", 60.5),
        ("CANCELLED", None, "CANCELLED", "excluded", None),
        ("SOMETHING_NEW", START, "OTHER", "censored", 60.5),
    ],
)
def test_ended(state: str, start: int | None, canonical: str, label: str, runtime_s: float | None) -> None:
    kind, job = read_event({"event": "ended", **JOB, "start_time": start, "end_time": END, "state": state}, "venus")
    assert (kind, job["state"], job["label"], job["runtime_s"]) == ("ended", canonical, label, runtime_s)


@pytest.mark.parametrize(
    ("told", "field", "why"),
    [
        ([], "event", "expected an object"),
        ({**JOB}, "event", "expected one of submitted, started, ended"),
        ({"event": "vanished", **JOB}, "event", "found 'vanished'"),
        ({"event": ["ended"], **JOB}, "event", "expected one of"),
        ({"event": "submitted", "submit_time": 0}, "job_id", "is required"),
        ({"event": "submitted", "job_id": "1"}, "submit_time", "is required"),
        ({"event": "submitted", "job_id": 17, "submit_time": 0}, "job_id", "expected text"),
        ({"event": "submitted", **JOB, "start_time": START}, "start_time", "does not belong"),
        ({"event": "started", **JOB}, "start_time", "is required"),
        ({"event": "started", **JOB, "start_time": 5}, "start_time", "is before submit_time"),
        ({"event": "started", **JOB, "start_time": START, "state": "RUNNING"}, "state", "does not belong"),
        ({"event": "ended", **JOB, "state": "COMPLETED"}, "end_time", "is required"),
        ({"event": "ended", **JOB, "end_time": END}, "state", "is required"),
        ({"event": "ended", **JOB, "end_time": END, "state": "RUNNING"}, "state", "has not ended"),
        ({"event": "ended", **JOB, "end_time": END, "state": "F" * 101}, "state", "is 101 characters long, at most 100"),
        ({"event": "ended", **JOB, "start_time": END, "end_time": START, "state": "FAILED"}, "end_time", "is before start_time"),
        (
            {"event": "ended", **JOB, "end_time": END, "state": "FAILED", "runtime_s": 5},
            "runtime_s",
            "known only at the job's end",
        ),
    ],
)
def test_wrong_field_is_named(told: Any, field: str, why: str) -> None:
    with pytest.raises(JobFieldError, match=why) as caught:
        read_event(told, "venus")
    assert caught.value.field == field


NOW_S = 1_598_918_400 + 864_000


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({"event": "submitted", "job_id": "1", "submit_time": NOW_S + 300.000001}, "submit_time"),
        ({"event": "submitted", "job_id": "1", "submit_time": NOW_S + 300}, None),
        ({"event": "started", **JOB, "start_time": NOW_S + 301}, "start_time"),
        ({"event": "ended", **JOB, "start_time": START, "end_time": "2099-12-31T00:00:00Z", "state": "COMPLETED"}, "end_time"),
        ({"event": "ended", **JOB, "start_time": START, "end_time": NOW_S + 23 * 3600, "state": "COMPLETED"}, "end_time"),
        ({"event": "ended", **JOB, "start_time": START, "end_time": NOW_S + 300, "state": "COMPLETED"}, None),
    ],
    ids=["submitted", "a clock five minutes ahead", "started", "ended", "ended within a day", "ended within five minutes"],
)
def test_what_lies_more_than_five_minutes_ahead_has_not_happened(event: dict[str, Any], field: str | None) -> None:
    read_event(event, "venus")  # nobody says when now is
    if field is None:
        read_event(event, "venus", now_us=NOW_S * 1_000_000)
        return
    with pytest.raises(JobFieldError, match="ahead of this machine's clock, at most 300 s") as caught:
        read_event(event, "venus", now_us=NOW_S * 1_000_000)
    assert caught.value.field == field
