"""PAI's tables: units, levels, joins and headers as its README has them, on hand-made rows."""

import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from runcast.data.cluster import Cluster
from runcast.data.errors import ClusterFileError, SourceError
from runcast.data.sources import pai
from runcast.data.sources.batch import Batch

HEADERS = {
    "pai_job_table": "job_name,inst_id,user,status,start_time,end_time",
    "pai_task_table": "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
    "pai_instance_table": "job_name,task_name,inst_name,worker_name,inst_id,status,start_time,end_time,machine",
    "pai_group_tag_table": "inst_id,user,gpu_type_spec,group,workload",
}
JOB = "j1,i1,u1,Terminated,100.0,200.0\n"
WORKER = "j1,worker,2.0,Terminated,110.0,182.0,600.0,29.296875,50.0,T4\n"
INSTANCES = "j1,worker,a,w1,i1,Terminated,110.0,170.0,m1\nj1,worker,b,w2,i1,Terminated,112.0,182.0,m2\n"
INSTANCES += "j1,worker,c,w3,i1,Running,112.0,,m2\nj1,worker,d,w4,i1,Failed,0.0,150.0,m2\n"
TAG = "i1,u1,V100,g1,nmt\n"


def write(folder: Path, suffix: str = "", headers: dict[str, str] | None = None, **tables: str) -> Path:
    for table, header in {**HEADERS, **(headers or {})}.items():
        (folder / f"{table}.header").write_text(header + "\n")
    for name, rows in tables.items():
        content = rows.encode()
        (folder / f"pai_{name}_table.csv{suffix}").write_bytes(gzip.compress(content) if suffix == ".gz" else content)
    return folder


def cluster(options: dict[str, Any] | None = None, **more: Any) -> Cluster:
    source = {"format": "pai", "paths": ["x"], "options": options or {}}
    return Cluster.model_validate({"name": "c", "source": source, "time_zone": "Asia/Shanghai", "clock": "week", **more})


def read(path: Path, options: dict[str, Any] | None = None) -> list[Batch]:
    return list(pai.read(path, cluster(options)))


def jobs(path: Path, options: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    return [row for batch in read(path, options) for row in batch.jobs.to_pylist()]


def test_task_is_a_job_with_its_submission_request_and_tags(tmp_path: Path) -> None:
    (job,) = jobs(write(tmp_path, job=JOB, task=WORKER, group_tag=TAG))
    assert (job["job_id"], job["user"], job["task_role"], job["group"], job["framework"]) == (
        "j1/worker",
        "u1",
        "worker",
        "g1",
        "nmt",
    )
    assert (job["queue_s"], job["runtime_s"]) == (10.0, 72.0)
    assert (job["gpu_count"], job["cpu_count"], job["mem_mib"], job["gpu_model"]) == (1.0, 12.0, 60000.0, "V100")
    assert (job["state"], job["label"], job["job_key"], job["source"]) == (
        "COMPLETED",
        "event",
        "c:j1/worker:100000000",
        "pai_task_table.csv:1",
    )


@pytest.mark.parametrize(
    ("label", "runtime_s", "flags"),
    [
        pytest.param("task_span", 72.0, [], id="span of the task"),
        pytest.param("instance_mean", 65.0, ["runtime_is_instance_mean"], id="mean of its ended instances"),
    ],
)
def test_label_is_of_the_declared_level(tmp_path: Path, label: str, runtime_s: float, flags: list[str]) -> None:
    (job,) = jobs(write(tmp_path, job=JOB, task=WORKER, instance=INSTANCES), {"label": label})
    assert (job["runtime_s"], job["label"], job["flags"]) == (runtime_s, "event", flags)
    assert job["end_time"] == datetime(1970, 1, 1, 0, 3, 2, tzinfo=UTC)


def test_task_without_ended_instances_has_no_mean_to_learn_from(tmp_path: Path) -> None:
    task = WORKER + WORKER.replace("worker", "ps")
    rows = jobs(write(tmp_path, job=JOB, task=task, instance=INSTANCES), {"label": "instance_mean"})
    assert [(row["label"], row["runtime_s"]) for row in rows] == [("event", 65.0), ("excluded", None)]


@pytest.mark.parametrize(
    ("plan_gpu", "gpu_type", "gpus"),
    [
        pytest.param("", "T4", None, id="empty is unknown"),
        pytest.param("", "CPU", 0.0, id="empty for a CPU task is none"),
        pytest.param("0.0", "T4", 0.0, id="none"),
        pytest.param("100.0", "T4", 2.0, id="whole GPUs"),
        pytest.param("25.0", "T4", 0.5, id="quarters"),
    ],
)
def test_gpus_are_hundredths_for_each_instance(tmp_path: Path, plan_gpu: str, gpu_type: str, gpus: float | None) -> None:
    (job,) = jobs(write(tmp_path, job=JOB, task=WORKER.replace("50.0,T4", f"{plan_gpu},{gpu_type}")))
    assert job["gpu_count"] == gpus


@pytest.mark.parametrize(
    ("change", "state", "label"),
    [
        pytest.param("Terminated,110.0,182.0", "COMPLETED", "event", id="terminated"),
        pytest.param("Failed,110.0,182.0", "FAILED", "event", id="failed"),
        pytest.param("Running,110.0,", "RUNNING", "censored", id="running"),
        pytest.param("Running,110.0,182.0", "RUNNING", "censored", id="running with an end"),
        pytest.param("Waiting,0.0,0.0", "PENDING", "excluded", id="waiting"),
        pytest.param("Failed,0.0,182.0", "FAILED", "excluded", id="failed before start"),
        pytest.param("Odd,110.0,182.0", "OTHER", "censored", id="unknown word"),
    ],
)
def test_only_terminated_is_success(tmp_path: Path, change: str, state: str, label: str) -> None:
    (job,) = jobs(write(tmp_path, job=JOB, task=WORKER.replace("Terminated,110.0,182.0", change)))
    assert (job["state"], job["label"]) == (state, label)


@pytest.mark.parametrize(
    ("job", "task", "reason"),
    [
        pytest.param("", WORKER, "job_not_in_job_table", id="no job"),
        pytest.param(JOB.replace("100.0", ""), WORKER, "submit_missing", id="no submission"),
        pytest.param(JOB, WORKER.replace("182.0", ""), "end_missing", id="no end"),
        pytest.param(JOB, WORKER.replace("182.0", "x"), "end_time_unreadable", id="end"),
        pytest.param(JOB, WORKER.replace("110.0", "90.0"), "start_before_submit", id="early"),
        pytest.param(JOB, WORKER.replace("182.0", "105.0"), "end_before_start", id="order"),
        pytest.param(JOB, WORKER.replace("worker", ""), "job_id_missing", id="no task"),
        pytest.param(JOB, "j1,worker,2.0\n", "wrong_field_count", id="short"),
    ],
)
def test_row_that_is_no_job_is_a_reject(tmp_path: Path, job: str, task: str, reason: str) -> None:
    good = WORKER.replace("worker", "ps").replace("j1", "j9")
    (batch,) = read(write(tmp_path, job="j9,i9,u9,Failed,100.0,200.0\n" + job, task=good + task))
    assert batch.jobs["job_id"].to_pylist() == ["j9/ps"]
    assert [(r.line, r.reason, r.raw) for r in batch.rejects] == [(2, reason, task.rstrip("\n"))]


def test_hour_and_weekday_are_true_in_shanghai(tmp_path: Path) -> None:
    (job,) = jobs(write(tmp_path, job=JOB.replace("100.0", "494319.0"), task=WORKER.replace("110.0,182.0", "494320.0,494330.0")))
    local = job["submit_time"].astimezone(ZoneInfo("Asia/Shanghai"))
    assert (local.hour, local.strftime("%A")) == (1, "Wednesday")


@pytest.mark.parametrize(("key", "value"), [("time_zone", "UTC"), ("clock", "calendar")])
def test_zone_and_clock_are_not_a_choice(tmp_path: Path, key: str, value: str) -> None:
    write(tmp_path, job=JOB, task=WORKER)
    with pytest.raises(ClusterFileError, match="time_zone Asia/Shanghai and clock week"):
        list(pai.read(tmp_path, cluster(**{key: value})))


def test_names_of_columns_come_from_the_header_file(tmp_path: Path) -> None:
    swapped = "task_name,job_name," + HEADERS["pai_task_table"].split(",", 2)[2]
    rows = jobs(write(tmp_path, headers={"pai_task_table": swapped}, job=JOB, task=WORKER.replace("j1,worker", "worker,j1")))
    assert [row["job_id"] for row in rows] == ["j1/worker"]


@pytest.mark.parametrize(
    ("header", "match"),
    [
        pytest.param(None, r"pai_task_table.header, which is not there", id="missing"),
        pytest.param(
            HEADERS["pai_task_table"] + ",extra", "does not fit pai_task_table.header: expected 11 fields, found 10", id="longer"
        ),
        pytest.param("job_name,task_name", "names no inst_num, status", id="without what is needed"),
    ],
)
def test_header_that_does_not_fit_is_fatal(tmp_path: Path, header: str | None, match: str) -> None:
    write(tmp_path, headers={"pai_task_table": header or ""}, job=JOB, task=WORKER)
    if header is None:
        (tmp_path / "pai_task_table.header").unlink()
    with pytest.raises(SourceError, match=match):
        read(tmp_path)


def test_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="holds no pai_job_table"):
        read(write(tmp_path, task=WORKER))


def test_path_may_name_the_task_table_and_tables_may_be_compressed(tmp_path: Path) -> None:
    plain = jobs(write(tmp_path, job=JOB, task=WORKER, group_tag=TAG) / "pai_task_table.csv")
    packed = tmp_path / "packed"
    packed.mkdir()
    write(packed, suffix=".gz", job=JOB, task=WORKER, group_tag=TAG)
    (job,) = jobs(packed)
    assert {**job, "source": None} == {**plain[0], "source": None}
