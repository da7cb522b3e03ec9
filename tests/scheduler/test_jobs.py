"""What the outside tells of a job is checked field by field."""

import math
from typing import Any

import pyarrow as pa
import pytest

from runcast.data.columns import COLUMNS
from runcast.scheduler.errors import JobFieldError
from runcast.scheduler.jobs import LARGEST_WHOLE, SUBMISSION_FIELDS, WHOLE_NUMBERS, read_job

T = "2020-09-01T08:00:00+08:00"


def test_every_column_known_at_submission_is_there_and_null_where_not_told() -> None:
    job = read_job({"submit_time": T})
    assert set(job) == {c.name for c in COLUMNS if c.known_at == "submit"}
    told = {name: value for name, value in job.items() if value is not None}
    assert told == {"submit_time": 1_598_918_400_000_000, "time_limit_kind": "absent"}  # 2020-09-01 00:00 UTC


@pytest.mark.parametrize(
    ("told", "microseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2020-09-01T00:00:00.000001Z", 1_598_918_400_000_001),
        ("2020-09-01T08:00:00+08:00", 1_598_918_400_000_000),
        ("2020-08-31 20:00:00-04:00", 1_598_918_400_000_000),
        (1_598_918_400, 1_598_918_400_000_000),
        (1_598_918_400.25, 1_598_918_400_250_000),
        (0, 0),
    ],
)
def test_time(told: Any, microseconds: int) -> None:
    assert read_job({"submit_time": told})["submit_time"] == microseconds


@pytest.mark.parametrize(
    ("told", "field", "why"),
    [
        ({}, "submit_time", "is required"),
        ({"submit_time": None}, "submit_time", "is required"),
        ({"submit_time": "2020-09-01T08:00:00"}, "submit_time", "has no offset"),
        ({"submit_time": "yesterday"}, "submit_time", "expected ISO 8601"),
        ({"submit_time": "1969-12-31T23:59:59Z"}, "submit_time", "outside 1970 to 2100"),
        ({"submit_time": "2100-01-01T00:00:00Z"}, "submit_time", "outside 1970 to 2100"),
        ({"submit_time": 1_598_918_400_000}, "submit_time", "is it in seconds"),
        ({"submit_time": -1}, "submit_time", "outside"),
        ({"submit_time": math.nan}, "submit_time", "outside"),
        ({"submit_time": True}, "submit_time", "found bool"),
        ({"submit_time": [1]}, "submit_time", "found list"),
        ({"submit_time": T, "user": 7}, "user", "expected text, found int '7'"),
        ({"submit_time": T, "user": "x" * 5000}, "user", "5000 characters long"),
        ({"submit_time": T, "gpu_count": "8"}, "gpu_count", "expected a number, found str '8'"),
        ({"submit_time": T, "gpu_count": True}, "gpu_count", "expected a number, found bool"),
        ({"submit_time": T, "gpu_count": -1}, "gpu_count", "expected 0 or 1e-06 to 1e.15 GPUs, found int '-1'"),
        ({"submit_time": T, "node_count": 1e-300}, "node_count", "expected 0 or 1e-06 to 1e.15 nodes"),
        ({"submit_time": T, "priority": -1e16}, "priority", "out of range"),
        (
            {"submit_time": T, "array_task": 1.5},
            "array_task",
            "expected a whole number from -2147483648 to 2147483647, found float '1.5'",
        ),
        ({"submit_time": T, "array_task": 2**31}, "array_task", "expected a whole number"),
        ({"submit_time": T, "array_task": -(2**31) - 1}, "array_task", "expected a whole number"),
        ({"submit_time": T, "array_task": math.inf}, "array_task", "expected a whole number"),
        ({"submit_time": T, "array_task": 10**400}, "array_task", "expected a whole number"),
        ({"submit_time": T, "array_task": True}, "array_task", "expected a number, found bool"),
        ({"submit_time": T, "array_task": "3"}, "array_task", "expected a number, found str"),
        ({"submit_time": T, "mem_mib": math.inf}, "mem_mib", "found float 'inf'"),
        ({"submit_time": T, "time_limit_s": 10**400}, "time_limit_s", "expected 0 or"),
        ({"submit_time": T, "time_limit_kind": "soft"}, "time_limit_kind", "expected one of hard, advisory"),
        ({"submit_time": T, "end_time": T}, "end_time", "known only at the job's end"),
        ({"submit_time": T, "runtime_s": 5}, "runtime_s", "known only at the job's end"),
        ({"submit_time": T, "node_list": "a"}, "node_list", "known only at the job's start"),
        ({"submit_time": T, "tme_limit_s": 5}, "tme_limit_s", "unknown field; known are job_id"),
        ({"submit_time": T, 5: 5}, "5", "unknown field"),
        ([], "job", "expected an object"),
        (None, "job", "expected an object"),
    ],
)
def test_wrong_field_is_named(told: Any, field: str, why: str) -> None:
    with pytest.raises(JobFieldError, match=why) as caught:
        read_job(told)
    assert caught.value.field == field


def test_empty_text_and_nan_are_null() -> None:
    job = read_job({"submit_time": T, "user": "", "gpu_count": math.nan, "queue": None})
    assert (job["user"], job["gpu_count"], job["queue"]) == (None, None, None)


@pytest.mark.parametrize(
    ("told", "policy", "limit_s", "kind"),
    [
        ({"time_limit_s": 3600}, "hard", 3600.0, "hard"),
        ({"time_limit_s": 3600}, "advisory", 3600.0, "advisory"),
        ({"time_limit_s": 3600}, "absent", None, "absent"),
        ({}, "hard", None, "absent"),
        ({"time_limit_s": 3600, "time_limit_kind": "advisory"}, "hard", 3600.0, "advisory"),
    ],
)
def test_limit_means_what_the_cluster_says(told: dict[str, Any], policy: str, limit_s: float | None, kind: str) -> None:
    job = read_job({"submit_time": T, **told}, policy)
    assert (job["time_limit_s"], job["time_limit_kind"]) == (limit_s, kind)


@pytest.mark.parametrize("told", [0, 3, 3.0, -1, 2**31 - 1, -(2**31)])
def test_a_whole_number_may_be_written_either_way(told: float) -> None:
    assert read_job({"submit_time": T, "array_task": told})["array_task"] == told


def test_every_whole_number_of_the_lake_is_one_at_submission() -> None:
    """The array's index is the only one today; its bounds are those of the lake's type."""
    assert {"array_task"} == WHOLE_NUMBERS
    assert pa.scalar(LARGEST_WHOLE, pa.int32()).as_py() == LARGEST_WHOLE
    with pytest.raises(pa.ArrowInvalid):
        pa.scalar(LARGEST_WHOLE + 1, pa.int32())


def test_numbers_become_floats() -> None:
    job = read_job({"submit_time": T, "gpu_count": 8, "array_task": 3, "priority": -5})
    assert [(job[n], type(job[n])) for n in ("gpu_count", "array_task", "priority")] == [
        (8.0, float),
        (3.0, float),
        (-5.0, float),
    ]


def test_fields_are_those_known_at_submission() -> None:
    assert [f.name for f in SUBMISSION_FIELDS if f.is_required] == ["submit_time"]
    assert {"end_time", "start_time", "state", "cluster", "job_key"}.isdisjoint(f.name for f in SUBMISSION_FIELDS)
