"""Acme's Seren and Kalos: the README's rows, Kalos's durations, and the real samples."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster, read_cluster
from runcast.data.errors import SourceError
from runcast.data.settings import EXAMPLES
from runcast.data.sources import acme, table
from runcast.data.sources.batch import Batch

SEREN = "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time"
#: Example rows of AcmeTrace's README.
SEREN_ROWS = (
    "5778432,u5907,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,"
    "2023-03-01 00:20:51+08:00,117,32,936.0",
    "5778469,u5907,1,8,128,Other,COMPLETED,2023-03-01 00:23:58+08:00,2023-03-01 00:24:11+08:00,"
    "2023-03-01 01:09:04+08:00,2693,13,21544.0",
)
KALOS = (
    "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,"
    "submit_time,start_time,end_time,fail_time,stop_time,duration,queue,gpu_time"
)
KALOS_ROWS = (
    "dlctk696s0jbvitv,uf794,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,"
    "2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0",
    "dlc1t2ypl09b8qtp,uf794,8,64,960,1000,100.0,Other,CANCELLED,2023-05-17 11:28:42+00:00,2023-05-17 11:28:54+00:00,"
    "2023-05-17 11:30:04+00:00,,2023-05-17 11:30:04+00:00,82,12.0,5248.0",
)


def cluster(source_format: str = "acme") -> Cluster:
    source = {"format": source_format, "paths": ["*"]}
    return Cluster.model_validate({"name": "acme", "time_zone": "Asia/Shanghai", "gpus_tracked": True, "source": source})


def read(folder: Path, *lines: str, name: str = "trace.csv") -> tuple[list[dict[str, Any]], Batch]:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    (batch,) = acme.read(path, cluster())
    return batch.jobs.to_pylist(), batch


def test_rows_of_seren_are_consistent(tmp_path: Path) -> None:
    jobs, batch = read(tmp_path, SEREN, *SEREN_ROWS)
    found = [(job["runtime_s"], job["queue_s"], job["label"], job["gpu_count"], job["user"], job["framework"]) for job in jobs]
    assert found == [(117.0, 32.0, "event", 8.0, "u5907", "Other"), (2693.0, 13.0, "event", 8.0, "u5907", "Other")]
    assert batch.notes == {}


def test_duration_of_kalos_holds_the_wait_and_is_not_the_runtime(tmp_path: Path) -> None:
    jobs, batch = read(tmp_path, KALOS, *KALOS_ROWS)
    assert [(job["runtime_s"], job["queue_s"], job["label"]) for job in jobs] == [(8.0, 10.0, "event"), (70.0, 12.0, "censored")]
    assert [job["mem_mib"] for job in jobs] == [8 * 1000 * 1024.0] * 2
    assert batch.notes == {"duration_differs": 2}


def test_gpu_seconds_follow_from_the_times(tmp_path: Path) -> None:
    row = "j,u,1,8,128,Other,COMPLETED,2023-05-17 08:00:00+00:00,2023-05-17 08:00:10+00:00,2023-05-17 08:00:50+00:00,50,10,400"
    jobs, _ = read(tmp_path, SEREN, row)
    assert jobs[0]["runtime_s"] * jobs[0]["gpu_count"] == 320


def test_offsets_are_read_and_not_the_zone(tmp_path: Path) -> None:
    east, west = (SEREN_ROWS[0].replace("+08:00", offset) for offset in ("+08:00", "+00:00"))
    times = [read(tmp_path, SEREN, row)[0][0]["submit_time"] for row in (east, west)]
    assert (times[1] - times[0]).total_seconds() == 8 * 3600


@pytest.mark.parametrize(
    ("change", "column", "value"),
    [
        (("1,8,128", "1,0,4"), "gpu_count", 0.0),
        (("1,8,128", "0,8,128"), "node_count", None),
        (("1,8,128", "1,8,0"), "cpu_count", None),
    ],
)
def test_counts_and_zeros(tmp_path: Path, change: tuple[str, str], column: str, value: float | None) -> None:
    jobs, _ = read(tmp_path, SEREN, SEREN_ROWS[0].replace(*change))
    assert (jobs[0][column], jobs[0]["label"]) == (value, "event")


@pytest.mark.parametrize("end", ["", "None"])
def test_finished_job_without_end_is_rejected(tmp_path: Path, end: str) -> None:
    _, batch = read(tmp_path, SEREN, SEREN_ROWS[0].replace("2023-03-01 00:20:51+08:00", end))
    assert [(reject.line, reject.reason) for reject in batch.rejects] == [(2, "end_missing")]


def test_json_lines_and_csv_of_one_job_are_the_same(tmp_path: Path) -> None:
    record = {
        "cpu_count": 960, "duration_s": 18, "end_time": "2023-05-17 11:01:16+00:00", "gpu_count": 64,
        "job_id": "dlctk696s0jbvitv", "mem_per_pod_gb": 1000, "node_count": 8, "queue_wait_s": 10.0,
        "start_time": "2023-05-17 11:01:08+00:00", "stop_time": None, "submit_time": "2023-05-17 11:00:58+00:00",
        "termination_state": "FAILED", "user_hash": "uf794", "workload_type": "Other",
    }  # fmt: skip
    (of_json,), _ = read(tmp_path, json.dumps(record), name="trace.jsonl")
    (of_csv,), _ = read(tmp_path, KALOS, KALOS_ROWS[0])
    assert {**of_json, "source": ""} == {**of_csv, "source": ""}


@pytest.mark.parametrize("first", ["a,b,c", '{"jobs": []}', "; SWF"])
def test_other_files_are_refused(tmp_path: Path, first: str) -> None:
    with pytest.raises(SourceError, match="no column"):
        read(tmp_path, first)


@pytest.mark.traces
@pytest.mark.parametrize(("name", "differs"), [("kalos_jobs", 5), ("seren_jobs_head", 0)])
def test_real_rows(traces: Path, name: str, differs: int) -> None:
    (batch,) = acme.read(traces / "acme_kalos_sample800" / f"Qinghao__AcmeTrace__{name}_sample.jsonl", cluster())
    assert (batch.jobs.num_rows, batch.rejects, batch.notes.get("duration_differs", 0)) == (5, (), differs)


@pytest.mark.traces
def test_kalos_sample_has_the_runtimes_of_its_original_rows(traces: Path) -> None:
    folder = traces / "acme_kalos_sample800"
    of = read_cluster(EXAMPLES / "kalos.yaml")
    batches = list(table.read(folder / "analysis_acmetrace_kalos_jobs.sample.jsonl.xz", of))
    jobs = pa.concat_tables([batch.jobs for batch in batches]).to_pylist()
    assert (len(jobs), sum(batch.rows_in for batch in batches)) == (800, 800)
    assert {job["label"] for job in jobs} == {"event"}
    assert min(job["runtime_s"] for job in jobs) > 0
    (whole_rows,) = acme.read(folder / "Qinghao__AcmeTrace__kalos_jobs_sample.jsonl", cluster())
    originals = {job["job_id"]: job for job in whole_rows.jobs.to_pylist()}
    same = [job for job in jobs if job["job_id"] in originals]
    assert len(same) == 5
    for job in same:
        whole = originals[job["job_id"]]
        for column in ("submit_time", "start_time", "end_time", "runtime_s", "queue_s", "gpu_count"):
            assert job[column] == whole[column]
