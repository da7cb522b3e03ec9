"""Pods of openb: which ended, which were cut by the trace's end, which never ran."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.sources import k8s_pods
from runcast.data.sources.batch import Batch

HEADER = ",".join(k8s_pods.COLUMNS) + "\n"


def pod(
    phase: str = "Succeeded", created: str = "50", deleted: str = "900", scheduled: str = "50", name: str = "p", **request: str
) -> str:
    asked = {"cpu": "4000", "memory": "1024", "gpus": "1", "share": "500", "spec": "", "qos": "LS"} | request
    return ",".join([name, *asked.values(), phase, created, deleted, scheduled]) + "\n"


LAST = pod(name="last", deleted="1000", phase="Running")


def read(folder: Path, text: str, options: dict[str, Any] | None = None) -> Batch:
    path = folder / "pods.csv"
    path.write_text(text)
    source = {"format": "k8s_pods", "paths": ["x"], "options": options or {}}
    (batch,) = k8s_pods.read(
        path, Cluster.model_validate({"name": "c", "source": source, "time_zone": "UTC", "clock": "relative"})
    )
    return batch


def first(folder: Path, text: str, options: dict[str, Any] | None = None) -> dict[str, Any]:
    row: dict[str, Any] = read(folder, HEADER + text, options).jobs.to_pylist()[0]
    return row


@pytest.mark.parametrize(
    ("text", "state", "label", "runtime_s", "flags"),
    [
        pytest.param(pod("Running"), "COMPLETED", "event", 850.0, ["ended_by_deletion"], id="deleted while running"),
        pytest.param(
            pod("Running", deleted="1000"), "RUNNING", "censored", None, ["open_at_log_end"], id="there at the trace's end"
        ),
        pytest.param(pod("Running", deleted=""), "RUNNING", "censored", None, ["open_at_log_end"], id="no deletion"),
        pytest.param(pod("Pending", scheduled=""), "CANCELLED", "excluded", None, ["never_started"], id="never scheduled"),
        pytest.param(
            pod("Pending", scheduled="", deleted="1000"), "PENDING", "excluded", None, ["open_at_log_end"], id="still waiting"
        ),
        pytest.param(pod("Succeeded"), "COMPLETED", "event", 850.0, [], id="succeeded"),
        pytest.param(pod("Failed"), "FAILED", "event", 850.0, [], id="failed"),
        pytest.param(pod("Failed", scheduled=""), "FAILED", "excluded", None, ["never_started"], id="failed before it ran"),
        pytest.param(
            pod("Succeeded", scheduled=""), "COMPLETED", "event", 850.0, ["start_assumed"], id="scheduling not recorded"
        ),
        pytest.param(pod("Evicted"), "PREEMPTED", "censored", 850.0, [], id="evicted"),
        pytest.param(pod("Unplugged"), "OTHER", "censored", 850.0, [], id="unknown word"),
    ],
)
def test_phase_and_times_give_state_and_label(
    tmp_path: Path, text: str, state: str, label: str, runtime_s: float | None, flags: list[str]
) -> None:
    row = first(tmp_path, text + LAST)
    assert (row["state"], row["label"], row["runtime_s"], row["flags"]) == (state, label, runtime_s, flags)


def test_end_of_the_trace_may_be_given(tmp_path: Path) -> None:
    assert first(tmp_path, pod("Running"), {"trace_end_s": 900})["end_time"] is None
    assert first(tmp_path, pod("Running"), {"trace_end_s": 901})["end_time"] == datetime(1970, 1, 1, 0, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param({"gpus": "1", "share": "460"}, {"gpu_count": 0.46}, id="share"),
        pytest.param({"gpus": "8", "share": "1000"}, {"gpu_count": 8.0}, id="whole"),
        pytest.param({"gpus": "0", "share": "0"}, {"gpu_count": 0.0}, id="none"),
        pytest.param({"gpus": "0", "share": ""}, {"gpu_count": 0.0}, id="none, no share"),
        pytest.param({"gpus": ""}, {"gpu_count": None}, id="not known"),
        pytest.param({"cpu": "3152"}, {"cpu_count": 3.152, "node_count": 1.0, "mem_mib": 1024.0}, id="thousandths of a CPU"),
        pytest.param({"spec": "V100M16|V100M32"}, {"gpu_model": "mixed"}, id="several models"),
        pytest.param({"spec": "T4"}, {"gpu_model": "T4"}, id="model"),
    ],
)
def test_request(tmp_path: Path, request_: dict[str, str], expected: dict[str, Any]) -> None:
    row = first(tmp_path, pod(**request_) + LAST)
    assert {name: row[name] for name in expected} == pytest.approx(expected)


def test_submission_at_second_zero_is_a_time(tmp_path: Path) -> None:
    row = first(tmp_path, pod(created="0", scheduled="3") + LAST)
    assert (row["submit_time"], row["queue_s"], row["job_key"]) == (datetime(1970, 1, 1, tzinfo=UTC), 3.0, "c:p:0")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(pod(created=""), "submit_missing", id="no creation"),
        pytest.param(pod(created="x"), "creation_time_unreadable", id="creation"),
        pytest.param(pod(scheduled="10"), "start_before_submit", id="early"),
        pytest.param(pod(deleted="40", scheduled=""), "end_before_start", id="order"),
        pytest.param(pod(deleted=""), "end_missing", id="no end"),
        pytest.param(pod(name=""), "job_id_missing", id="no name"),
        pytest.param("p,1\n", "wrong_field_count", id="short"),
    ],
)
def test_row_that_is_no_pod_is_a_reject(tmp_path: Path, text: str, reason: str) -> None:
    batch = read(tmp_path, HEADER + LAST + text)
    assert [(r.line, r.reason, r.raw) for r in batch.rejects] == [(3, reason, text.rstrip("\n"))]
    assert (batch.jobs.num_rows, batch.rows_in) == (1, 2)


def test_file_of_another_format_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no column cpu_milli"):
        read(tmp_path, "name,cpu\n1,2\n")


@pytest.mark.parametrize(
    ("phase", "reason", "restarts", "expected"),
    [
        pytest.param("Failed", "Evicted", "0", ("PREEMPTED", "censored", 1), id="evicted"),
        pytest.param("Failed", "OOMKilled", "3", ("OUT_OF_MEMORY", "event", 4), id="out of memory, after three restarts"),
        pytest.param("Failed", "DeadlineExceeded", "", ("DEADLINE", "censored", 1), id="past its deadline"),
        pytest.param("Failed", "Error", "x", ("FAILED", "event", 1), id="reason that says no more, restarts that are none"),
        pytest.param("Succeeded", "Completed", "1", ("COMPLETED", "event", 2), id="succeeded at the second start"),
    ],
)
def test_reason_of_a_failed_pod_and_restarts_are_read_where_they_are_there(
    tmp_path: Path, phase: str, reason: str, restarts: str, expected: tuple[str, str, int]
) -> None:
    lines = (pod(phase).strip(), reason, restarts), (LAST.strip(), "", "0")
    batch = read(tmp_path, HEADER.strip() + ",reason,restarts\n" + "".join(",".join(parts) + "\n" for parts in lines))
    job = batch.jobs.to_pylist()[0]
    assert (job["state"], job["label"], job["attempts"]) == expected
