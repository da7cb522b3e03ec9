"""Philly's job log: the README's own example, and the odd attempts it warns of."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.sources import philly
from runcast.data.sources.batch import Batch

#: Example entry of the trace's README, in short: two attempts on 8 GPUs of one machine each.
TWICE = {
    "status": "Pass",
    "vc": "ee9e8c",
    "jobid": "application_1506638472019_14199",
    "attempts": [
        {
            "start_time": "2017-10-07 01:12:09",
            "end_time": "2017-10-07 01:13:23",
            "detail": [{"ip": "m47", "gpus": [f"gpu{n}" for n in range(8)]}],
        },
        {
            "start_time": "2017-10-07 01:13:30",
            "end_time": "2017-10-09 06:53:12",
            "detail": [{"ip": "m412", "gpus": [f"gpu{n}" for n in range(8)]}],
        },
    ],
    "submitted_time": "2017-10-07 01:11:39",
    "user": "ce2f4c",
}
REDUCED = {
    "id": "a1",
    "num_gpus": 4,
    "runtime": 3.5,
    "submitted_time": "2017-12-01 00:00:00",
    "attempts": [{"start_time": "2017-12-01 00:00:10", "end_time": "2017-12-01 00:01:10"}],
}


def read(folder: Path, content: Any, options: dict[str, Any] | None = None) -> list[Batch]:
    path = folder / "cluster_job_log"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content, indent=1).encode())
    source = {"format": "philly", "paths": ["x"], "options": options or {}}
    zone = "America/Los_Angeles"
    return list(
        philly.read(path, Cluster.model_validate({"name": "c", "source": source, "time_zone": zone, "gpus_tracked": True}))
    )


def jobs(folder: Path, content: Any, options: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    return [row for batch in read(folder, content, options) for row in batch.jobs.to_pylist()]


@pytest.mark.parametrize(
    ("label", "runtime_s", "start"),
    [
        pytest.param("span", 193263.0, datetime(2017, 10, 7, 8, 12, 9, tzinfo=UTC), id="first start to last end"),
        pytest.param("last_attempt", 193182.0, datetime(2017, 10, 7, 8, 13, 30, tzinfo=UTC), id="last attempt alone"),
    ],
)
def test_job_of_two_attempts(tmp_path: Path, label: str, runtime_s: float, start: datetime) -> None:
    (job,) = jobs(tmp_path, [TWICE], {"label": label})
    assert (job["runtime_s"], job["start_time"], job["queue_s"], job["attempts"]) == (runtime_s, start, 30.0, 2)
    assert job["end_time"] == datetime(2017, 10, 9, 13, 53, 12, tzinfo=UTC)
    assert (job["gpu_count"], job["node_list"], job["node_count"]) == (8.0, "m412", None)
    assert (job["state"], job["label"], job["user"], job["group"], job["flags"]) == (
        "COMPLETED",
        "event",
        "ce2f4c",
        "ee9e8c",
        ["requeued"],
    )
    assert job["job_key"] == "c:application_1506638472019_14199:1507363899000000"


def test_gpus_are_summed_over_the_machines_of_the_last_attempt(tmp_path: Path) -> None:
    detail = [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu3"]}]
    last = {"start_time": "2017-10-07 02:00:00", "end_time": "2017-10-07 03:00:00", "detail": detail}
    (job,) = jobs(tmp_path, [{**TWICE, "attempts": [TWICE["attempts"][0], last]}])  # type: ignore[index]
    assert (job["gpu_count"], job["node_list"]) == (3.0, "m1,m2")


def test_reduced_layout(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, [REDUCED])
    assert (job["job_id"], job["gpu_count"], job["runtime_s"], job["queue_s"]) == ("a1", 4.0, 60.0, 10.0)
    assert (job["state"], job["label"], job["flags"], job["source"]) == ("OTHER", "event", ["state_unknown"], "cluster_job_log:1")


@pytest.mark.parametrize(
    ("attempts", "status", "state", "label", "flags"),
    [
        pytest.param([], "Killed", "CANCELLED", "excluded", ["never_started", "end_assumed"], id="none, killed"),
        pytest.param([], "Failed", "FAILED", "excluded", ["never_started", "end_assumed"], id="none, failed"),
        pytest.param([("2017-10-07 02:00:00", None)], "Pass", "RUNNING", "censored", ["open_at_log_end"], id="end null"),
        pytest.param([("2017-10-07 02:00:00", "None")], "Pass", "RUNNING", "censored", ["open_at_log_end"], id="end 'None'"),
        pytest.param([("2017-10-07 02:00:00", "")], "Pass", "RUNNING", "censored", ["open_at_log_end"], id="end empty"),
        pytest.param([("2017-10-07 02:00:00", "2017-10-07 03:00:00")], "Killed", "CANCELLED", "censored", [], id="killed"),
        pytest.param([("2017-10-07 02:00:00", "2017-10-07 02:00:00")], "Pass", "COMPLETED", "event", [], id="no time at all"),
        pytest.param([("2017-10-07 02:00:00", "2017-10-07 03:00:00")], "Odd", "OTHER", "censored", [], id="unknown word"),
    ],
)
def test_state_and_label(
    tmp_path: Path, attempts: list[tuple[str, str | None]], status: str, state: str, label: str, flags: list[str]
) -> None:
    runs = [{"start_time": start, "end_time": end, "detail": []} for start, end in attempts]
    (job,) = jobs(tmp_path, [{**TWICE, "attempts": runs, "status": status}])
    assert (job["state"], job["label"], job["flags"]) == (state, label, flags)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"attempts": [{"start_time": "None", "end_time": "2017-10-07 02:00:00"}]}, "start_missing", id="no start"),
        pytest.param(
            {"attempts": [{"start_time": "2017-10-07 02:00:00", "end_time": "2017-10-07 01:30:00"}]},
            "end_before_start",
            id="order",
        ),
        pytest.param(
            {"attempts": [{"start_time": "2017-10-07 01:00:00", "end_time": "2017-10-07 02:00:00"}]},
            "start_before_submit",
            id="early",
        ),
        pytest.param({"attempts": [{"start_time": "2017-10-07 02:00:00", "end_time": "soon"}]}, "end_unreadable", id="end"),
        pytest.param({"attempts": "none"}, "attempts_unreadable", id="attempts"),
        pytest.param({"submitted_time": None}, "submit_missing", id="no submission"),
        pytest.param({"submitted_time": "2017-03-12 02:30:00"}, "submitted_nonexistent", id="skipped hour"),
        pytest.param({"jobid": ""}, "job_id_missing", id="no id"),
    ],
)
def test_record_that_is_no_job_is_a_reject(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    (batch,) = read(tmp_path, [REDUCED, {**TWICE, **change}, 7])
    assert batch.jobs["job_id"].to_pylist() == ["a1"]
    assert [(reject.line, reject.reason) for reject in batch.rejects] == [(2, reason), (3, "not_an_object")]
    assert json.loads(batch.rejects[0].raw) == {**TWICE, **change}
    assert batch.rows_in == 3


def test_job_over_the_repeated_hour_has_its_true_length(tmp_path: Path) -> None:
    run = {"start_time": "2017-11-05 00:30:00", "end_time": "2017-11-05 03:30:00"}
    assert jobs(tmp_path, [{**REDUCED, "submitted_time": "2017-11-05 00:00:00", "attempts": [run]}])[0]["runtime_s"] == 14400.0


def test_end_that_the_clock_shows_before_the_start_is_the_later_instant(tmp_path: Path) -> None:
    run = {"start_time": "2017-11-05 01:50:00", "end_time": "2017-11-05 01:10:00"}
    (job,) = jobs(tmp_path, [{**REDUCED, "submitted_time": "2017-11-05 00:00:00", "attempts": [run]}])
    assert (job["runtime_s"], job["flags"]) == (1200.0, ["clock_ambiguous", "state_unknown"])


def test_log_larger_than_what_is_read_at_once(tmp_path: Path) -> None:
    many = [{**TWICE, "jobid": f"j{n}", "vc": "é" * (n % 7)} for n in range(4000)]  # about 4 MB, and pieces that cut characters
    content = json.dumps(many, ensure_ascii=False).encode()
    rows = jobs(tmp_path, content)
    assert [row["job_id"] for row in rows] == [job["jobid"] for job in many]
    assert [row["group"] for row in rows] == [job["vc"] or None for job in many]
    assert [row["job_id"] for row in jobs(tmp_path, gzip.compress(content))] == [row["job_id"] for row in rows]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        pytest.param(b"", "the file is empty", id="empty"),
        pytest.param(b"{}", "expected a JSON array of jobs", id="object"),
        pytest.param(b"jobid,vc\n", "expected a JSON array of jobs", id="csv"),
        pytest.param(b'[{"jobid": "a"', "record 1 is not valid JSON, or the file is cut short", id="cut"),
        pytest.param(b'[{"jobid": "a"}, {]', "record 2 is not valid JSON", id="broken"),
        pytest.param(b"[" * 100_000, "record 1 is not valid JSON", id="deep"),
    ],
)
def test_file_of_another_format_is_an_error(tmp_path: Path, content: bytes, match: str) -> None:
    with pytest.raises(SourceError, match=match):
        read(tmp_path, content)


def test_empty_array_has_no_jobs(tmp_path: Path) -> None:
    assert jobs(tmp_path, b" [ ]") == []


VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["None", "2017-10-07 02:00:00", "2017-10-07", "é", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["start_time", "end_time", "detail", "ip", "gpus"]), inner, max_size=4)
    ),
    max_leaves=8,
)
RECORD = st.dictionaries(
    st.sampled_from(["jobid", "id", "status", "vc", "user", "submitted_time", "attempts", "num_gpus"]), VALUE, max_size=8
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(RECORD | VALUE, max_size=6))
def test_whatever_the_records_hold_each_is_accounted_for(tmp_path: Path, records: list[Any]) -> None:
    batches = read(tmp_path, records)
    assert sum(batch.rows_in for batch in batches) == len(records)
    for batch in batches:
        batch.jobs.validate(full=True)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=60) | st.text(alphabet=st.sampled_from('[]{},:"0a '), max_size=30).map(str.encode))
def test_whatever_the_bytes_only_source_errors_escape(tmp_path: Path, content: bytes) -> None:
    try:
        read(tmp_path, content)
    except SourceError:
        return
    assert content.lstrip().startswith(b"[") or content.lstrip().startswith(b"\xef\xbb\xbf")
