"""Helios's cluster_log.csv: the README's example rows and its odd ones."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.sources import helios
from runcast.data.sources.batch import Batch

HEADER = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
#: Example rows of the README.
EXAMPLE = (
    "1425511,uXBbc,vcJkd,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0\n"
    "1425512,uVMrF,vchbv,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n"
    "1425513,uzqls,vcpDC,1,1,1,CANCELLED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-17 14:15:21,675233,0\n"
)


def read(folder: Path, text: str) -> Batch:
    path = folder / "cluster_log.csv"
    path.write_text(text)
    source = {"format": "helios", "paths": ["x"]}
    (batch,) = helios.read(
        path, Cluster.model_validate({"name": "venus", "source": source, "time_zone": "Asia/Shanghai", "gpus_tracked": True})
    )
    return batch


def job(folder: Path, **fields: str) -> dict[str, Any]:
    values = dict(zip(HEADER.strip().split(","), EXAMPLE.splitlines()[1].split(","), strict=True)) | fields
    (row,) = read(folder, HEADER + ",".join(values.values()) + "\n").jobs.to_pylist()
    return row


def test_examples_of_the_readme(tmp_path: Path) -> None:
    batch = read(tmp_path, HEADER + EXAMPLE)
    rows = batch.jobs.to_pylist()
    assert [row["runtime_s"] for row in rows] == [36848.0, 249.0, 675233.0]
    assert [row["label"] for row in rows] == ["event", "event", "censored"]
    assert rows[1]["submit_time"] == datetime(2020, 6, 9, 10, 41, 27, tzinfo=UTC)
    assert (rows[1]["user"], rows[1]["group"], rows[1]["gpu_count"], rows[1]["cpu_count"], rows[1]["node_count"]) == (
        "uVMrF",
        "vchbv",
        4,
        16,
        1,
    )
    assert (rows[1]["job_name"], rows[1]["flags"], batch.notes) == (None, [], {})


def test_cpu_job_stays_and_is_told_from_a_gpu_job(tmp_path: Path) -> None:
    row = job(tmp_path, gpu_num="0", node_num="1", cpu_num="4")
    assert (row["gpu_count"], row["cpu_count"], row["node_count"], row["label"]) == (0.0, 4.0, 1.0, "event")


def test_no_nodes_beside_gpus_is_not_known(tmp_path: Path) -> None:
    row = job(tmp_path, gpu_num="8", node_num="0")
    assert (row["gpu_count"], row["node_count"]) == (8.0, None)


@pytest.mark.parametrize(
    ("state", "label"),
    [("TIMEOUT", "censored"), ("NODE_FAIL", "censored"), ("COMPLETED", "event")],
    ids=["timeout", "node", "completed"],
)
def test_every_state_of_the_readme_has_its_label(tmp_path: Path, state: str, label: str) -> None:
    assert job(tmp_path, state=state)["label"] == label


def test_job_withdrawn_from_the_queue_never_started(tmp_path: Path) -> None:
    row = job(tmp_path, state="CANCELLED", start_time="", duration="0")
    assert (row["label"], row["runtime_s"], row["flags"]) == ("excluded", None, ["never_started"])


def test_suspended_job_is_open(tmp_path: Path) -> None:
    row = job(tmp_path, state="SUSPENDED")
    assert (row["label"], row["end_time"], row["flags"]) == ("censored", None, ["end_is_forecast"])


def test_duration_that_disagrees_is_flagged(tmp_path: Path) -> None:
    row = job(tmp_path, duration="300")
    assert (row["runtime_s"], row["flags"]) == (249.0, ["duration_differs"])


def test_file_of_another_format_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no column 'cpu_num'"):
        read(tmp_path, "job_id,arrival_s\n1,2\n")
