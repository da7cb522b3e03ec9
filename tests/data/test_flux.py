"""`flux jobs --json`: right values by hand from RFC 21 and flux-jobs(1); real samples where they are."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster
from runcast.data.sources import blocks
from runcast.data.sources.batch import Batch
from runcast.data.sources.flux import read

T0 = 1_709_287_200  # 2024-03-01 10:00:00 UTC
ENDED = {
    "id": 49727668224, "userid": 1000, "username": "ada", "urgency": 16, "t_submit": T0 + 0.5, "t_depend": T0 + 0.5, "t_run": T0 + 10.5,
    "t_cleanup": T0 + 610.75, "t_inactive": T0 + 611, "state": "INACTIVE", "result": "COMPLETED", "name": "fit", "cwd": "/home/ada",
    "queue": "batch", "bank": "physics", "project": "p1", "ntasks": 2, "ncores": 8, "nnodes": 2, "nodelist": "n[1-2]",
    "duration": 3600.0, "annotations": {"sched": {"resource_summary": "rank[0-1]/core[0-3],gpu[0-1]"}},
}  # fmt: skip


def cluster(gpus_tracked: bool = False) -> Cluster:
    source = {"format": "flux", "paths": ["unused"]}
    return Cluster.model_validate({"name": "f", "source": source, "time_zone": "UTC", "gpus_tracked": gpus_tracked})


def load(tmp_path: Path, text: str, of: Cluster | None = None) -> tuple[list[dict[str, Any]], list[Batch]]:
    (tmp_path / "jobs.json").write_text(text)
    batches = list(read(tmp_path / "jobs.json", of or cluster()))
    return pa.concat_tables([batch.jobs for batch in batches]).to_pylist(), batches


@pytest.mark.parametrize(
    "written",
    [
        lambda jobs: json.dumps({"jobs": jobs}),
        lambda jobs: json.dumps({"jobs": jobs}, indent=2),
        lambda jobs: "".join(json.dumps(job) + "\n" for job in jobs),
        json.dumps,
    ],
    ids=["flux jobs --json", "indented", "JSON lines", "array"],
)
def test_each_form_gives_the_same_jobs(tmp_path: Path, written: Any) -> None:
    jobs, _ = load(tmp_path, written([ENDED, {**ENDED, "id": 8}]))
    expected = {
        "job_id": "49727668224", "user": "ada", "account": "physics", "group": "p1", "queue": "batch", "job_name": "fit",
        "work_dir": "/home/ada", "state": "COMPLETED", "label": "event", "runtime_s": 600.25, "queue_s": 10.0, "cpu_count": 8.0,
        "gpu_count": 4.0, "node_count": 2.0, "node_list": "n[1-2]", "time_limit_s": 3600.0, "attempts": 1, "flags": [],
    }  # fmt: skip
    assert {name: jobs[0][name] for name in expected} == expected
    assert [job["job_id"] for job in jobs] == ["49727668224", "8"]


def test_one_line_may_hold_more_than_a_line_of_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """flux prints all jobs in one line, which no reader of lines takes beyond 64 MiB."""
    monkeypatch.setattr(blocks, "LINE_BYTES_AT_MOST", 1 << 17)
    jobs, _ = load(tmp_path, json.dumps({"jobs": [{**ENDED, "id": number} for number in range(1000)]}))
    assert len(jobs) == 1000


OPEN = {"t_cleanup": None, "t_inactive": None, "result": None}


@pytest.mark.parametrize(
    ("changes", "state", "label", "runtime_s"),
    [
        ({"result": 1}, "COMPLETED", "event", 600.25),
        ({"result": 2}, "FAILED", "event", 600.25),
        ({"result": 4}, "CANCELLED", "censored", 600.25),
        ({"result": 8}, "TIMEOUT", "censored", 600.25),
        ({"result": "CANCELED"}, "CANCELLED", "censored", 600.25),
        ({"result": 2, "exception_type": "timeout"}, "TIMEOUT", "censored", 600.25),
        ({"result": "FAILED", "exception": {"occurred": True, "type": "timeout"}}, "TIMEOUT", "censored", 600.25),
        ({"result": None, "success": False}, "FAILED", "event", 600.25),
        ({"result": None}, "OTHER", "event", 600.25),
        (
            {"result": 1, "t_cleanup": T0 + 900},
            "COMPLETED",
            "event",
            600.5,
        ),  # cleaned up after it was inactive: the earlier counts
        ({"result": 4, "t_run": None, "t_cleanup": None}, "CANCELLED", "excluded", None),
        ({**OPEN, "state": 16}, "RUNNING", "censored", None),
        ({**OPEN, "t_run": None, "state": 8}, "PENDING", "excluded", None),
    ],
)
def test_times_and_result_say_how_a_job_ended(
    tmp_path: Path, changes: dict[str, Any], state: str, label: str, runtime_s: float | None
) -> None:
    (job,), _ = load(tmp_path, json.dumps([{**ENDED, **changes}]))
    assert (job["state"], job["label"], job["runtime_s"]) == (state, label, runtime_s)


@pytest.mark.parametrize(
    ("summary", "tracked", "gpus"),
    [
        ("rank0/core[0-3],gpu0", True, 1.0),
        ("rank[0,4-6]/core0,gpu[0-1,3] rank7/core0", True, 12.0),
        ("rank[0-3]/core[0-3]", True, 0.0),
        ("rank[0-3]/core[0-3]", False, None),
        (None, True, None),
    ],
)
def test_gpus_of_a_resource_summary(tmp_path: Path, summary: str | None, tracked: bool, gpus: float | None) -> None:
    (job,), _ = load(tmp_path, json.dumps([{**ENDED, "annotations": {"sched": {"resource_summary": summary}}}]), cluster(tracked))
    assert job["gpu_count"] == gpus


def test_duration_of_0_is_no_limit_and_a_number_stands_for_an_unnamed_user(tmp_path: Path) -> None:
    (job,), _ = load(tmp_path, json.dumps([{**ENDED, "duration": 0.0, "username": None}]))
    assert (job["time_limit_s"], job["time_limit_kind"], job["user"]) == (None, "absent", "1000")


def test_wrong_record_is_kept_as_a_reject_and_hurts_no_other(tmp_path: Path) -> None:
    lines = [
        json.dumps(ENDED),
        "{",
        "[]",
        json.dumps({**ENDED, "t_submit": "soon"}),
        json.dumps({**ENDED, "id": None}),
        json.dumps(ENDED),
    ]
    jobs, batches = load(tmp_path, "\n".join(lines) + "\n")
    assert len(jobs) == 2
    assert [(one.line, one.reason) for batch in batches for one in batch.rejects] == [
        (2, "not_json"), (3, "not_an_object"), (4, "submit_time_unreadable"), (5, "job_id_missing"),
    ]  # fmt: skip


@pytest.mark.traces
def test_real_samples_load_with_the_values_that_stand_in_them(traces: Path) -> None:
    folder = traces / "raw_samples" / "flux"
    jobs = [row for batch in read(folder / "flux_jobs_records_states.jsonl", cluster()) for row in batch.jobs.to_pylist()]
    assert [(job["job_id"], job["state"], job["node_count"], job["cpu_count"]) for job in jobs] == [
        ("49727668224", "PENDING", None, 1), ("49727668224", "PENDING", None, 1), ("54391734272", "PENDING", None, 1),
        ("59122909184", "PENDING", None, 1), ("44258295808", "RUNNING", 4, 16), ("35114713088", "COMPLETED", 1, 1),
    ]  # fmt: skip
    assert jobs[-1]["runtime_s"] == pytest.approx(1664571163.1124246 - 1664571163.0629747, abs=1e-6)
    old = [row for batch in read(folder / "flux_jobs_records_2020.jsonl", cluster()) for row in batch.jobs.to_pylist()]
    assert len(old) == 15
    assert {(job["job_id"], job["state"], job["label"]) for job in old} == {("207416721408", "OTHER", "event")}
    assert max(job["runtime_s"] for job in old) == pytest.approx(1579463919.4712203 - 1579463919.4045851, abs=1e-6)
