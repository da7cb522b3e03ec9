"""sacct --json: the layouts of Slurm 21.08 to 24.11, and agreement with the text form."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.schema import JOBS
from runcast.data.sources import slurm_json, slurm_sacct
from runcast.data.sources.batch import Batch

SUBMIT = 1_709_287_200  # 2024-03-01T10:00:00Z


def number(value: int | None, *, infinite: bool = False) -> dict[str, Any]:
    """Write a number as Slurm does from 23.02 on."""
    return {"set": value is not None and not infinite, "infinite": infinite, "number": value or 0}


def job_2311(**changed: Any) -> dict[str, Any]:
    """A job of data_parser v0.0.40 (23.11): states are lists, optional numbers objects."""
    return {
        "account": "biology",
        "allocation_nodes": 2,
        "array": {"job_id": 0, "task_id": number(None), "task": ""},
        "association": {"account": "biology", "cluster": "hpc", "partition": "", "user": "u1"},
        "cluster": "hpc",
        "time": {
            "elapsed": 60, "eligible": SUBMIT, "submission": SUBMIT, "start": SUBMIT + 5, "end": SUBMIT + 65, "suspended": 0,
            "limit": number(60), "planned": number(5),
        },
        "group": "scientists",
        "het": {"job_id": 0, "job_offset": number(None)},
        "job_id": 306,
        "name": "wrap|ped\nname",
        "nodes": "cn[081-082]",
        "partition": "debug",
        "priority": number(1),
        "qos": "normal",
        "required": {"CPUs": 8, "memory_per_cpu": number(None), "memory_per_node": number(4000)},
        "restart_cnt": 0,
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "steps": [{"time": {"elapsed": 99, "end": number(0), "start": number(SUBMIT)}, "state": ["CANCELLED"]}],
        "tres": {
            "allocated": [{"type": "cpu", "name": "", "count": 16}, {"type": "energy", "name": "", "count": -2}],
            "requested": [
                {"type": "cpu", "name": "", "id": 1, "count": 8},
                {"type": "mem", "name": "", "id": 2, "count": 8000},
                {"type": "node", "name": "", "id": 4, "count": 2},
                {"type": "gres", "name": "gpu", "id": 1001, "count": 4},
                {"type": "gres", "name": "gpu:a100", "id": 1002, "count": 4},
            ],
        },
        "user": "u1",
        "working_directory": "/home/u1",
    } | changed  # fmt: skip


def job_2108(**changed: Any) -> dict[str, Any]:
    """The same job of dbv0.0.37 (21.08): plain numbers and nulls, one word for the state."""
    job = job_2311()
    job["array"] = {"job_id": 0, "task_id": None, "task": None}
    job["time"] = job["time"] | {"limit": 60}
    job["het"] = {"job_id": None, "job_offset": None}
    job["required"] = {"CPUs": 8, "memory": 4000}
    job["state"] = {"current": "COMPLETED", "reason": "None"}
    job["priority"] = 1
    del job["restart_cnt"]
    return job | changed


def cluster(time_zone: str = "Asia/Tokyo", **options: object) -> Cluster:
    source = {"format": "slurm_json", "paths": ["*"], "options": options}
    return Cluster.model_validate({"name": "c", "time_zone": time_zone, "gpus_tracked": True, "source": source})


@pytest.fixture
def read(tmp_path):
    def batches(*jobs: Any, document: dict[str, Any] | None = None, **options: object) -> list[Batch]:
        path = tmp_path / "sacct.json"
        path.write_text(json.dumps({"meta": {}, "errors": [], **(document or {}), "jobs": list(jobs)}))
        return list(slurm_json.read(path, cluster(**options)))

    return batches


def rows(batches: list[Batch]) -> list[dict[str, Any]]:
    return pa.concat_tables([JOBS.empty_table(), *(batch.jobs for batch in batches)]).to_pylist()


@pytest.mark.parametrize("job", [job_2108(), job_2311()], ids=["21.08", "23.11"])
def test_job_of_each_layout(read, job):
    assert rows(read(job)) == [
        {
            **dict.fromkeys(JOBS.names),
            "cluster": "c",
            "job_id": "306",
            "job_key": f"c:306:{SUBMIT}000000",
            "user": "u1",
            "group": "scientists",
            "account": "biology",
            "queue": "debug",
            "qos": "normal",
            "job_name": "wrap|ped\nname",
            "work_dir": "/home/u1",
            "submit_time": datetime.fromtimestamp(SUBMIT, UTC),
            "gpu_count": 4.0,
            "gpu_model": "a100",
            "cpu_count": 8.0,
            "mem_mib": 8000.0,
            "node_count": 2.0,
            "time_limit_s": 3600.0,
            "time_limit_kind": "hard",
            "start_time": datetime.fromtimestamp(SUBMIT + 5, UTC),
            "node_list": "cn[081-082]",
            "end_time": datetime.fromtimestamp(SUBMIT + 65, UTC),
            "state": "COMPLETED",
            "label": "event",
            "runtime_s": 60.0,
            "queue_s": 5.0,
            "attempts": 1,
            "source": "sacct.json:1",
            "flags": [],
        }
    ]


def test_text_and_json_of_one_job_are_the_same_record(read, tmp_path):
    path = tmp_path / "sacct.log"
    path.write_text(
        "JobID|User|Group|Account|Partition|QOS|Submit|Start|End|ElapsedRaw|State|ReqTRES|Timelimit|NodeList|WorkDir|JobName\n"
        f"306|u1|scientists|biology|debug|normal|{SUBMIT}|{SUBMIT + 5}|{SUBMIT + 65}|60|COMPLETED|"
        "cpu=8,mem=8000M,node=2,gres/gpu=4,gres/gpu:a100=4|01:00:00|cn[081-082]|/home/u1|wrap|ped\nname\n"
    )
    text = rows(list(slurm_sacct.read(path, cluster())))
    assert [{**job, "source": ""} for job in text] == [{**job, "source": ""} for job in rows(read(job_2311()))]


@pytest.mark.parametrize(
    ("changed", "job_id", "array_task"),
    [
        ({"array": {"job_id": 12, "task_id": number(3), "task": ""}}, "12_3", 3),
        ({"array": {"job_id": 12, "task_id": number(0), "task": ""}}, "12_0", 0),
        ({"array": {"job_id": 12, "task_id": None, "task": None}}, "306", None),
        ({"het": {"job_id": 12, "job_offset": number(1)}}, "12", None),
    ],
)
def test_id_is_the_one_that_the_text_form_shows(read, changed, job_id, array_task):
    job = rows(read(job_2311(**changed)))[0]
    assert (job["job_id"], job["array_task"]) == (job_id, array_task)


def test_parts_of_a_heterogeneous_job_are_one_job(read):
    parts = [
        job_2311(job_id=50, het={"job_id": 50, "job_offset": number(0)}),
        job_2311(
            job_id=51, het={"job_id": 50, "job_offset": number(1)}, tres={"requested": [{"type": "cpu", "name": "", "count": 4}]}
        ),
    ]
    batches = read(*parts, job_2311(job_id=51, time=job_2311()["time"] | {"submission": SUBMIT + 1}))
    found = {job["job_id"]: (job["cpu_count"], job["gpu_count"], job["flags"]) for job in rows(batches)}
    assert found == {"50": (12.0, 4.0, ["heterogeneous"]), "51": (8.0, 4.0, [])}
    assert batches[0].skipped == {"het_part": 1}


@pytest.mark.parametrize(
    ("eligible", "array", "queue_s"),
    [(SUBMIT + 3, 0, 2.0), (SUBMIT, 0, 5.0), (0, 0, 5.0), (SUBMIT + 9, 0, 5.0), (SUBMIT + 3, 12, 5.0)],
    ids=["held for 3 s", "never held", "not known", "after its start", "array task"],
)
def test_a_job_that_is_held_does_not_queue(read, eligible, array, queue_s):
    array = {"job_id": array, "task_id": number(1), "task": ""}
    job = rows(read(job_2311(array=array, time=job_2311()["time"] | {"eligible": eligible})))[0]
    assert (job["queue_s"], job["runtime_s"]) == (queue_s, 60.0)


def test_suspended_time_is_flagged_and_explains_what_elapsed_lacks(read):
    job = rows(read(job_2311(time=job_2311()["time"] | {"elapsed": 40, "suspended": 20})))[0]
    assert (job["runtime_s"], job["flags"]) == (60.0, ["suspended"])
    job = rows(read(job_2311(time=job_2311()["time"] | {"elapsed": 40, "suspended": 0})))[0]
    assert (job["runtime_s"], job["flags"]) == (60.0, ["duration_differs"])


def test_tasks_that_still_wait_are_one_row_and_counted(read):
    waits = job_2311(
        state={"current": ["PENDING"]},
        time=job_2311()["time"] | {"start": 0, "end": 0, "elapsed": 0},
        array={"job_id": 12, "task_id": number(None), "task": "4-9%2"},
    )
    (batch,) = read(waits)
    job = rows([batch])[0]
    assert (job["job_id"], job["array_id"], job["label"], job["flags"]) == (
        "12_[4-9%2]",
        "12",
        "excluded",
        ["array_rest"],
    )
    assert batch.notes["array_rest_tasks"] == 6


@pytest.mark.parametrize(
    ("task", "at_once", "job_id"),
    [
        ("0x3F0", 2, "12_[4-9%2]"),
        ("0xEA", 0, "12_[1,3,5-7]"),
        ("0x1", 0, "12_[0]"),
        ("4-9%2", 2, "12_[4-9%2]"),
        ("[1,3]", None, "12_[1,3]"),
    ],
)
def test_tasks_that_wait_are_written_as_the_text_form_writes_them(read, task, at_once, job_id):
    array = {"job_id": 12, "task_id": None, "task": task, "limits": {"max": {"running": {"tasks": at_once}}}}
    assert rows(read(job_2108(array=array, state={"current": "PENDING"})))[0]["job_id"] == job_id


def test_both_forms_of_a_real_slurm_22_05_give_the_same_jobs():
    """Only the words for a limit are lost: the JSON form of 22.05 shows null for UNLIMITED and for Partition_Limit."""
    folder = Path(__file__).parent / "slurm_22_05"
    forms = [
        rows(list(module.read(folder / name, cluster("UTC"))))
        for module, name in ((slurm_sacct, "sacct.txt"), (slurm_json, "sacct.json"))
    ]
    text, of_json = ({job["job_key"]: {**job, "source": ""} for job in form} for form in forms)
    assert len(text) == 16  # two heterogeneous jobs of two parts each
    words = {(job["job_id"], job["time_limit_kind"]) for job in text.values() if job["time_limit_s"] is None}
    assert {("16_[4-9%2]", "unlimited"), ("7", "partition")} <= words
    for key, job in of_json.items():
        if job["time_limit_kind"] == "absent":
            assert text[key].pop("time_limit_kind") in ("unlimited", "partition", "absent")
            del job["time_limit_kind"]
    assert of_json == text


def test_running_job_has_no_end_and_steps_say_nothing(read):
    running = job_2311(state={"current": ["RUNNING"]}, time=job_2311()["time"] | {"end": 0, "elapsed": 4711})
    job = rows(read(running))[0]
    assert (job["end_time"], job["runtime_s"], job["label"]) == (None, None, "censored")


def test_cancelled_while_it_waited_never_started(read):
    job = rows(
        read(
            job_2311(
                state={"current": ["CANCELLED"]}, nodes="None assigned", time=job_2311()["time"] | {"start": 0, "elapsed": 0}
            )
        )
    )[0]
    assert (job["start_time"], job["label"], job["flags"], job["node_list"]) == (None, "excluded", ["never_started"], None)


@pytest.mark.parametrize(
    ("limit", "limit_s", "kind"),
    [
        (number(60), 3600.0, "hard"),
        (60, 3600.0, "hard"),
        (number(0, infinite=True), None, "unlimited"),
        (number(None), None, "partition"),
        (None, None, "absent"),
        (4_294_967_295, None, "unlimited"),
        (4_294_967_294, None, "partition"),
    ],
)
def test_time_limit_is_in_minutes(read, limit, limit_s, kind):
    job = rows(read(job_2311(time=job_2311()["time"] | {"limit": limit})))[0]
    assert (job["time_limit_s"], job["time_limit_kind"]) == (limit_s, kind)


@pytest.mark.parametrize(
    ("required", "mem_mib"),
    [
        ({"CPUs": 8, "memory_per_cpu": number(500), "memory_per_node": number(None)}, 4000.0),
        ({"CPUs": 8, "memory_per_cpu": number(None), "memory_per_node": number(500)}, 1000.0),
        ({"CPUs": 8, "memory": (1 << 63) + 500}, 4000.0),
        ({"CPUs": 8, "memory": 500}, None),
        ({"CPUs": 8, "memory": 0}, None),
    ],
    ids=["per cpu", "per node", "21.08 per cpu", "21.08 either", "none"],
)
def test_memory_where_the_tres_list_lacks_it(read, required, mem_mib):
    nodes = [{"type": "node", "name": "", "id": 4, "count": 2}]
    job = rows(read(job_2311(required=required, tres={"allocated": [], "requested": nodes})))[0]
    assert (job["mem_mib"], job["cpu_count"]) == (mem_mib, 8.0)


def test_requeued_job_is_one_job(read):
    first = job_2311(state={"current": ["REQUEUED"]})
    second = job_2311(
        time=job_2311()["time"] | {"submission": SUBMIT + 66, "start": SUBMIT + 100, "end": SUBMIT + 400, "elapsed": 300}
    )
    batches = read(first, second)
    (job,) = rows(batches)
    assert (job["runtime_s"], job["attempts"], job["flags"], job["queue_s"]) == (300.0, 2, ["requeued"], 5.0)
    assert (batches[0].rows_in, batches[0].skipped) == (2, {"earlier_attempt": 1})


def test_unknown_state_and_lone_surrogates_do_no_harm(read):
    (batch,) = read(job_2311(state={"current": ["WARPED"]}, name="a\ud800"))
    job = rows([batch])[0]
    assert (job["state"], job["job_name"], batch.notes["unknown_state"]) == ("OTHER", "a?", 1)


def test_record_that_is_no_job_is_rejected_with_its_text(read):
    (batch,) = read(job_2311(), {"job_id": 7}, job_2311(job_id=8, time={"submission": SUBMIT, "start": SUBMIT}))
    assert [(reject.line, reject.reason) for reject in batch.rejects] == [(2, "not_a_job"), (3, "end_missing")]
    assert json.loads(batch.rejects[1].raw)["job_id"] == 8
    assert batch.rows_in == 3


@pytest.mark.parametrize(
    ("document", "jobs", "message"),
    [
        ({"errors": [{"error": "Connection refused", "source": "slurmdb"}]}, [], "Connection refused"),
        ({}, [{"job_id": 7, "job_state": ["RUNNING"], "submit_time": number(SUBMIT)}], "squeue or scontrol"),
    ],
)
def test_output_that_is_not_whole_or_of_another_command_is_refused(read, document, jobs, message):
    with pytest.raises(SourceError, match=message):
        read(*jobs, document=document)


def test_compressed_and_cut_files(read, tmp_path):
    expected = rows(read(job_2311()))
    text = (tmp_path / "sacct.json").read_bytes()
    packed = tmp_path / "packed" / "sacct.json"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(text))
    assert rows(list(slurm_json.read(packed, cluster()))) == expected
    packed.write_bytes(text[:-9])
    with pytest.raises(SourceError, match="not valid JSON"):
        list(slurm_json.read(packed, cluster()))


@pytest.mark.traces
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sarc_sacct_21.08.8", ("REQUEUED", None, 1.0, 4.0, 40_960.0, 86_400.0)),
        ("sarc_sacct_22.05.9", ("FAILED", 124_403.0, 16.0, 96.0, 262_144.0, 172_800.0)),
        ("sarc_sacct_23.11.5", ("RUNNING", None, 2.0, 4.0, 32_768.0, 432_000.0)),
        ("slurmweb_24.05_v0.0.41_slurmdb-job-timeout", ("TIMEOUT", 83.0, 0.0, 1.0, 512.0, 60.0)),
        ("slurmweb_24.11_v0.0.42_slurmdb-job-completed", ("COMPLETED", 61.0, 0.0, 32.0, 16_384.0, 120.0)),
        ("slurmweb_25.05_v0.0.43_slurmdb-job-timeout", ("TIMEOUT", 63.0, 0.0, 1.0, 512.0, 60.0)),
        ("slurmweb_25.11_v0.0.44_slurmdb-job-completed", ("COMPLETED", 30.0, 0.0, 4.0, 2048.0, 120.0)),
        ("slurmweb_25.11_v0.0.44_slurmdb-job-gpus-pending", ("PENDING", None, 0.0, 1.0, 512.0, 60.0)),
    ],
)
def test_real_output_of_each_version(traces, name, expected):
    """Values as a person reads them in the files: state, elapsed, gres/gpu, cpu and mem of tres.requested, minutes of time.limit."""
    batches = list(slurm_json.read(traces / "raw_samples" / "slurm" / f"{name}.json", cluster()))
    job = rows(batches)[-1]
    found = tuple(job[at] for at in ("state", "runtime_s", "gpu_count", "cpu_count", "mem_mib", "time_limit_s"))
    assert (found, [reject for batch in batches for reject in batch.rejects]) == (expected, [])


ODD = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-5, 2_000_000_000), st.floats(), st.text(max_size=4), st.sampled_from(["RUNNING"])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["set", "number", "count"]), inner)),
    max_leaves=4,
)
PARTS = [
    "time",
    "state",
    "array",
    "het",
    "required",
    "tres",
    "job_id",
    "name",
    "user",
    "nodes",
    "allocation_nodes",
    "restart_cnt",
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.builds(lambda changed: job_2311(**changed), st.dictionaries(st.sampled_from(PARTS), ODD, max_size=3)),
            st.builds(
                lambda changed: job_2311(time=job_2311()["time"] | changed),
                st.dictionaries(st.sampled_from(["submission", "start", "end", "elapsed", "limit"]), ODD),
            ),
            ODD,
        ),
        max_size=4,
    )
)
def test_every_record_has_one_fate(read, jobs):
    try:
        batches = read(*jobs)
    except SourceError:
        assert not isinstance(jobs[0], dict) or not isinstance(jobs[0].get("time"), dict)
        return
    assert sum(batch.rows_in for batch in batches) == len(jobs)
    for batch in batches:
        batch.jobs.validate(full=True)
        assert batch.jobs.schema.equals(JOBS)
