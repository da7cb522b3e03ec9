"""Pods of openb through its example file: which ended, which were cut by the trace's end, which never ran."""

import csv
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from runcast.data.cluster import read_cluster
from runcast.data.settings import EXAMPLES
from runcast.data.sources.batch import Batch
from runcast.data.sources.table import Options, read

COLUMNS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
END = "12902960"


def pod(phase: str = "Succeeded", created: str = "50", deleted: str = "900", scheduled: str = "50", **asked: str) -> str:
    request = {"cpu": "4000", "memory": "1024", "gpus": "1", "share": "500", "spec": "", "qos": "LS"} | asked
    return ",".join(["p", *request.values(), phase, created, deleted, scheduled])


def load(folder: Path, *lines: str) -> Batch:
    (folder / "pods.csv").write_text("\n".join([COLUMNS, *lines]) + "\n")
    (batch,) = read(folder / "pods.csv", read_cluster(EXAMPLES / "openb.yaml"))
    return batch


@pytest.mark.parametrize(
    ("line", "state", "label", "runtime_s", "flags"),
    [
        pytest.param(pod("Running"), "COMPLETED", "event", 850.0, ["ended_by_deletion"], id="deleted while running"),
        pytest.param(
            pod("Running", deleted=END), "RUNNING", "censored", None, ["open_at_log_end"], id="there at the trace's end"
        ),
        pytest.param(pod("Running", deleted=""), "RUNNING", "censored", None, ["open_at_log_end"], id="no deletion"),
        pytest.param(pod("Pending", scheduled=""), "CANCELLED", "excluded", None, ["never_started"], id="never scheduled"),
        pytest.param(pod("Pending", scheduled="", deleted=END), "PENDING", "excluded", None, ["open_at_log_end"], id="waits"),
        pytest.param(pod("Succeeded"), "COMPLETED", "event", 850.0, [], id="succeeded"),
        pytest.param(pod("Succeeded", deleted=END), "COMPLETED", "event", 12_902_910.0, [], id="succeeded in the last second"),
        pytest.param(pod("Failed"), "FAILED", "event", 850.0, [], id="failed"),
        pytest.param(pod("Failed", scheduled=""), "FAILED", "excluded", None, ["never_started"], id="failed before it ran"),
        pytest.param(pod("Evicted"), "PREEMPTED", "censored", 850.0, [], id="evicted"),
    ],
)
def test_phase_and_times_give_state_and_label(
    tmp_path: Path, line: str, state: str, label: str, runtime_s: float | None, flags: list[str]
) -> None:
    (row,) = load(tmp_path, line).jobs.to_pylist()
    assert (row["state"], row["label"], row["runtime_s"], row["flags"]) == (state, label, runtime_s, flags)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param({"gpus": "1", "share": "460"}, {"gpu_count": 0.46}, id="share"),
        pytest.param({"gpus": "1", "share": "470"}, {"gpu_count": 0.47}, id="share, exact"),
        pytest.param({"gpus": "8", "share": "1000"}, {"gpu_count": 8.0}, id="whole"),
        pytest.param({"gpus": "0", "share": ""}, {"gpu_count": 0.0}, id="none, no share"),
        pytest.param({"gpus": "2", "share": ""}, {"gpu_count": None}, id="share not known"),
        pytest.param({"cpu": "3152"}, {"cpu_count": 3.152, "node_count": 1.0, "mem_mib": 1024.0}, id="thousandths of a CPU"),
    ],
)
def test_request(tmp_path: Path, asked: dict[str, str], expected: dict[str, Any]) -> None:
    (row,) = load(tmp_path, pod(**asked)).jobs.to_pylist()
    assert {name: row[name] for name in expected} == expected


def test_submission_at_second_zero_is_a_time(tmp_path: Path) -> None:
    (row,) = load(tmp_path, pod(created="0", scheduled="3")).jobs.to_pylist()
    assert (row["submit_time"], row["queue_s"]) == (datetime(1970, 1, 1, tzinfo=UTC), 3.0)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"constants": {"node_count": "one"}}, "node_count: expected a whole number"),
        ({"constants": {"mem_mib": "1"}}, "only text columns, and counts"),
        ({"log_end": "2024-01-01T00:00:00"}, "timezone"),
        ({"columns": {"state": {"column": "s", "times": {"column": "x"}}}}, "`times` is for"),
    ],
    ids=["no count", "other number", "no zone", "times of a text"],
)
def test_option_that_says_nothing_is_refused(given: dict[str, Any], match: str) -> None:
    columns = {"submit_time": "a", "start_time": "b", "end_time": "c", **given.pop("columns", {})}
    with pytest.raises(ValidationError, match=match):
        Options.model_validate({"columns": columns, **given})


@pytest.mark.traces
def test_every_pod_of_the_trace_is_the_job_that_its_line_says(traces: Path) -> None:
    path = traces / "alibaba_gpu_v2023_openb" / "openb_pod_list_default.csv"
    batches = list(read(path, read_cluster(EXAMPLES / "openb.yaml")))
    jobs = pa.concat_tables([batch.jobs for batch in batches]).to_pylist()
    with path.open() as file:
        expected = [_job(line) for line in csv.DictReader(file)]
    names = (
        "job_id",
        "qos",
        "state",
        "label",
        "runtime_s",
        "queue_s",
        "gpu_count",
        "cpu_count",
        "mem_mib",
        "node_count",
        "attempts",
        "flags",
    )
    assert [tuple(job[name] for name in names) for job in jobs] == expected
    assert len(jobs) == 8152


def _job(line: dict[str, str]) -> tuple[Any, ...]:
    """Return a pod by the rules of the example file's comment, one line at a time."""
    created, deleted = float(line["creation_time"]), float(line["deletion_time"])
    scheduled = float(line["scheduled_time"]) if line["scheduled_time"] else None
    phase, is_cut = line["pod_phase"], line["deletion_time"] == END
    state = {
        "Succeeded": "COMPLETED",
        "Failed": "FAILED",
        "Running": "RUNNING" if is_cut else "COMPLETED",
        "Pending": "CANCELLED",
    }[phase]
    ran = scheduled is not None
    label = "excluded" if not ran else "censored" if state == "RUNNING" else "event"
    flags = ["never_started"] if not ran else ["open_at_log_end"] if state == "RUNNING" else []
    flags += ["ended_by_deletion"] if ran and phase == "Running" and not is_cut else []
    return (
        line["name"], line["qos"], state, label, deleted - scheduled if scheduled is not None and state != "RUNNING" else None,
        scheduled - created if scheduled is not None else None, int(line["num_gpu"]) * int(line["gpu_milli"]) / 1000,
        float(line["cpu_milli"]) * 1e-3, float(line["memory_mib"]), 1.0, int(ran), flags,
    )  # fmt: skip
