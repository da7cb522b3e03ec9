"""Jobs parsed from bhist: dispatches, reasons for an exit, times of a zone without summer time."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.sources import lsf
from runcast.data.sources.batch import Batch

NAMES = "job_id,user,job_name,cwd,tasks,gpus,host,submit_time,start_time,end_time,cpu_s,state,term,ndisp,duration_s,wait_s"


def row(**fields: str) -> str:
    values = {
        **{"job_id": "7", "user": "u1", "job_name": "n", "cwd": "$h/d", "tasks": "5", "gpus": "1", "host": "gpu02"},
        **{"submit_time": "2019-03-08 14:40:30", "start_time": "2019-03-08 14:40:34", "end_time": "2019-03-08 16:51:47"},
        **{"cpu_s": "1.5", "state": "DONE", "term": "", "ndisp": "1", "duration_s": "7873.0", "wait_s": "4.0"},
        **fields,
    }
    return ",".join(values.values()) + "\n"


def read(folder: Path, text: str) -> Batch:
    path = folder / "jobs.csv"
    path.write_text(text)
    source = {"format": "lsf", "paths": ["x"]}
    (batch,) = lsf.read(path, Cluster.model_validate({"name": "c", "source": source, "time_zone": "Asia/Shanghai"}))
    return batch


def job(folder: Path, **fields: str) -> dict[str, Any]:
    (found,) = read(folder, NAMES + "\n" + row(**fields)).jobs.to_pylist()
    return found


def test_job_with_all_it_has(tmp_path: Path) -> None:
    found = job(tmp_path)
    assert (found["submit_time"], found["runtime_s"], found["queue_s"]) == (
        datetime(2019, 3, 8, 6, 40, 30, tzinfo=UTC),
        7873.0,
        4.0,
    )
    assert [found[n] for n in ("user", "job_name", "work_dir", "node_list", "cpu_count", "gpu_count")] == [
        "u1",
        "n",
        "$h/d",
        "gpu02",
        5.0,
        1.0,
    ]
    assert (found["state"], found["label"], found["attempts"], found["flags"]) == ("COMPLETED", "event", 1, [])


@pytest.mark.parametrize(
    ("fields", "state", "label", "attempts", "runtime_s"),
    [
        pytest.param({"state": "EXIT"}, "FAILED", "event", 1, 7873.0, id="failed"),
        pytest.param({"state": "EXIT", "term": "TERM_OWNER"}, "CANCELLED", "censored", 1, 7873.0, id="killed by the owner"),
        pytest.param({"state": "EXIT", "term": "TERM_RUNLIMIT"}, "TIMEOUT", "censored", 1, 7873.0, id="at the limit"),
        pytest.param({"state": "EXIT", "term": "TERM_MEMLIMIT"}, "OUT_OF_MEMORY", "event", 1, 7873.0, id="memory"),
        pytest.param({"state": "EXIT", "term": "TERM_UNKNOWN"}, "FAILED", "event", 1, 7873.0, id="reason not known"),
        pytest.param({"ndisp": "3"}, "COMPLETED", "excluded", 3, None, id="dispatched again"),
        pytest.param(
            {"ndisp": "0", "start_time": "", "state": "EXIT", "term": "TERM_OWNER"}, "CANCELLED", "excluded", 0, None, id="never"
        ),
        pytest.param({"state": "OTHER", "end_time": ""}, "RUNNING", "censored", 1, None, id="running at the log's end"),
        pytest.param(
            {"state": "OTHER", "end_time": "", "start_time": "", "ndisp": "0"}, "PENDING", "excluded", 0, None, id="waiting"
        ),
        pytest.param({"state": "ZOMBI"}, "OTHER", "censored", 1, 7873.0, id="unknown word"),
    ],
)
def test_state_label_and_attempts(
    tmp_path: Path, fields: dict[str, str], state: str, label: str, attempts: int, runtime_s: float | None
) -> None:
    found = job(tmp_path, **fields)
    assert (found["state"], found["label"], found["attempts"], found["runtime_s"]) == (state, label, attempts, runtime_s)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param({"end_time": "2019-03-08 14:40:31"}, "end_before_start", id="order"),
        pytest.param({"start_time": "2019-03-08 14:40:29"}, "start_before_submit", id="early"),
        pytest.param({"submit_time": ""}, "submit_missing", id="no submission"),
        pytest.param({"submit_time": "8 March"}, "submit_time_unreadable", id="submission"),
        pytest.param({"end_time": ""}, "end_missing", id="no end"),
        pytest.param({"job_id": ""}, "job_id_missing", id="no id"),
        pytest.param({"ndisp": "-1"}, "attempts_unreadable", id="dispatches"),
    ],
)
def test_row_that_is_no_job_is_a_reject(tmp_path: Path, fields: dict[str, str], reason: str) -> None:
    batch = read(tmp_path, NAMES + "\n" + row() + row(**fields))
    assert [(r.line, r.reason, r.raw + "\n") for r in batch.rejects] == [(3, reason, row(**fields))]
    assert (batch.jobs.num_rows, batch.rows_in) == (1, 2)


def test_file_of_another_format_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no column job_id"):
        read(tmp_path, "id,submit\n1,2\n")
