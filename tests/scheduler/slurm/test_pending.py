"""squeue's JSON of three generations read into the same jobs."""

import json
from typing import Any

import pytest

from runcast.scheduler.slurm.pending import PendingJob, SqueueError, read_pending

#: As Slurm 22.05.8 wrote it (the fields that are read).
V22: dict[str, Any] = {
    "account": "physics",
    "admin_comment": "",
    "array_job_id": 0,
    "array_task_id": None,
    "array_task_string": "",
    "comment": "mine",
    "group_name": "games",
    "job_id": 17,
    "job_state": "PENDING",
    "name": "a|b\nc",
    "nice": 50,
    "partition": "gpu,short",
    "priority": 1,
    "qos": "normal",
    "submit_time": 1796009438,
    "time_limit": 5,
    "time_minimum": 0,
    "tres_req_str": "cpu=1,mem=4000M,node=1,billing=1,gres/gpu=2",
    "user_name": "games",
    "current_working_directory": "/tmp",
}


def number(value: int) -> dict[str, Any]:
    """A number as Slurm's data_parser of 23.02 and later writes it."""
    return {"set": True, "infinite": False, "number": value}


#: The same job in the shape of 23.11's data_parser/v0.0.40.
V23: dict[str, Any] = {
    **V22,
    "array_job_id": number(0),
    "array_task_id": {"set": False, "infinite": False, "number": 0},
    "job_state": ["PENDING"],
    "priority": number(1),
    "submit_time": number(1796009438),
    "time_limit": number(5),
    "time_minimum": number(0),
}

EXPECTED = PendingJob(
    target="17",
    job_id=17,
    submit_s=1796009438,
    is_held=False,
    nice=50,
    comment="mine",
    admin_comment="",
    time_limit_min=5,
    time_min=None,
    asked={
        "job_id": "17",
        "submit_time": 1796009438,
        "user": "games",
        "group": "games",
        "account": "physics",
        "queue": "gpu",
        "qos": "normal",
        "job_name": "a|b\nc",
        "work_dir": "/tmp",
        "cpu_count": 1.0,
        "node_count": 1.0,
        "mem_mib": 4000.0,
        "gpu_count": 2.0,
        "time_limit_s": 300,
    },
)


def pending(*jobs: dict[str, Any], gpus_tracked: bool = False) -> list[PendingJob]:
    return read_pending(json.dumps({"jobs": jobs}), gpus_tracked)


@pytest.mark.parametrize("job", [pytest.param(V22, id="22.05"), pytest.param(V23, id="23.11")])
def test_one_job_in_each_version(job: dict[str, Any]) -> None:
    assert pending(job) == [EXPECTED]


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETED", ["RUNNING", "COMPLETING"], None])
def test_only_pending_jobs_are_taken(state: Any) -> None:
    assert pending({**V22, "job_state": state}) == []


@pytest.mark.parametrize(
    ("tasks", "target"),
    [
        pytest.param("1-10%2", "17_[1-10]", id="the_throttle_is_no_part_of_the_name"),
        pytest.param("1,3,5-9", "17_[1,3,5-9]", id="a_set"),
        pytest.param("1-3,5,7,...", "17", id="a_set_that_squeue_cut_means_the_whole_array"),
    ],
)
def test_the_waiting_tasks_of_an_array_are_named_together(tasks: str, target: str) -> None:
    (job,) = pending({**V22, "array_job_id": 17, "array_task_string": tasks})
    assert job.target == target
    assert job.asked["array_id"] == "17"


def test_nulls_stay_out_of_the_question() -> None:
    blank = dict.fromkeys(V22) | {"job_id": 3, "job_state": "PENDING", "submit_time": 1796009438, "priority": 0}
    (job,) = pending(blank, gpus_tracked=True)
    assert job.asked == {"job_id": "3", "submit_time": 1796009438}
    assert (job.is_held, job.nice, job.time_limit_min) == (True, 0, None)


def test_no_limit_is_told_as_unlimited() -> None:
    (job,) = pending({**V23, "time_limit": {"set": True, "infinite": True, "number": 0}})
    assert job.asked["time_limit_kind"] == "unlimited"
    assert "time_limit_s" not in job.asked


@pytest.mark.parametrize("text", ["", "squeue: error", "[]", '{"errors": []}'])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(SqueueError, match="did not answer with a list of jobs"):
        read_pending(text, gpus_tracked=False)


def test_parts_of_a_heterogeneous_job_are_asked_for_as_the_whole() -> None:
    lead = {**V22, "job_id": 20, "het_job_id": 20, "het_job_offset": 0}
    part = {**V22, "job_id": 21, "het_job_id": number(20), "het_job_offset": number(1), "time_limit": 9}
    other = {**V22, "het_job_id": 0, "het_job_offset": 0}
    found = read_pending(json.dumps({"jobs": [part, other, lead]}), gpus_tracked=True)
    assert [(one.target, one.asked["job_id"], one.asked["gpu_count"], one.asked["time_limit_s"]) for one in found] == [
        ("21", "20", 4.0, 540.0),
        ("17", "17", 2.0, 300.0),
        ("20", "20", 4.0, 540.0),
    ]
    assert [one.time_limit_min for one in found] == [9, 5, 5]  # each part's own: a TimeMin must not pass it


def test_a_byte_that_is_not_utf8_is_a_name_and_damages_no_queue() -> None:
    text = json.dumps({"jobs": [{**V22, "name": "na?me", "admin_comment": "mine?"}]}).replace("?", "\udcff")
    (job,) = read_pending(text, gpus_tracked=True)
    assert (job.asked["job_name"], job.admin_comment) == ("na\\xffme", "mine\udcff")
