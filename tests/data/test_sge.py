"""Grid Engine's accounting files: right values by hand from accounting(5), sge_status(5) and the records; real samples where they are."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster
from runcast.data.errors import EmptyLog, SourceError
from runcast.data.sources.batch import Batch
from runcast.data.sources.sge import read
from runcast.data.sources.sge_requests import Request, memory_mib, read_category

T0 = 1_709_287_200  # 2024-03-01 10:00:00 UTC


def cluster(gpus_tracked: bool = False, **options: object) -> Cluster:
    source = {"format": "sge", "paths": ["unused"], "options": options}
    return Cluster.model_validate({"name": "s", "source": source, "time_zone": "UTC", "gpus_tracked": gpus_tracked})


def record(
    job: int | str = 7, submit: int = T0, start: int = T0 + 10, end: int = T0 + 3610, *, failed: int = 0, status: int = 0,
    queue: str = "all.q", host: str = "n1", name: str = "train", account: str = "sge", project: str = "NONE",
    department: str = "defaultdepartment", pe: str = "NONE", slots: int = 1, task: int = 0, category: str = "-u ada -l h_rt=7200",
    pe_task: str = "NONE", tail: str = ":0:0",
) -> str:  # fmt: skip
    """Write a record of 45 fields (SGE 6.2); `tail` is what stands behind maxvmem."""
    usage = ":".join(["1.5", "0.2", *["0"] * 15])  # ru_utime to ru_nivcsw but ru_wallclock
    return (
        f"{queue}:{host}:phys:ada:{name}:{job}:{account}:0:{submit}:{start}:{end}:{failed}:{status}:{end - start}:{usage}"
        f":{project}:{department}:{pe}:{slots}:{task}:1.7:0.5:0.001:{category}:0.000000:{pe_task}:104857600.0{tail}"
    )


def load(tmp_path: Path, *lines: str, of: Cluster | None = None, comments: int = 0) -> tuple[list[dict[str, Any]], list[Batch]]:
    path = tmp_path / "accounting"
    path.write_text("\n".join(lines) + "\n")
    batches = list(read(path, of or cluster()))
    assert sum(batch.rows_in for batch in batches) == len(lines) - comments
    return pa.concat_tables([batch.jobs for batch in batches]).to_pylist(), batches


def _skipped(batches: list[Batch]) -> dict[str, int]:
    return {name: count for batch in batches for name, count in batch.skipped.items()}


def test_record_is_a_job(tmp_path: Path) -> None:
    line = record(project="climate", pe="mpi", slots=4, category="-u ada -l h_rt=7200,h_vmem=2G -pe mpi 4")
    (job,), _ = load(tmp_path, "# Version: 6.2", "#", line, comments=2)
    expected = {
        "job_id": "7", "user": "ada", "group": "phys", "account": "climate", "job_name": "train", "queue": "all.q",
        "state": "COMPLETED", "label": "event", "runtime_s": 3600.0, "queue_s": 10.0, "attempts": 1, "cpu_count": 4.0,
        "mem_mib": 8192.0, "node_count": None, "gpu_count": None, "time_limit_s": 7200.0, "time_limit_kind": "hard", "array_id": None,
        "array_task": None, "node_list": "n1", "work_dir": None, "job_key": f"s:7:{T0 * 10**6}", "source": "accounting:3", "flags": [],
    }  # fmt: skip
    assert {name: job[name] for name in expected} == expected


UGE = ":0:0:NONE:NONE:0:0:head:/home/ada/x"  # advance reservation to the directory


@pytest.mark.parametrize(
    "tail",
    ["", ":0:0", ":0:0:NONE", f"{UGE}:qsub a.sh", f"{UGE}:qsub a:b:c.sh:3600.4:80:NONE"],
    ids=["43 fields", "45 fields", "46 fields", "52 fields", "55 fields and colons in the command"],
)  # fmt: skip
def test_versions_differ_in_what_stands_behind_the_category(tmp_path: Path, tail: str) -> None:
    (job,), _ = load(tmp_path, record(tail=tail))
    assert (job["job_id"], job["runtime_s"], job["time_limit_s"]) == ("7", 3600.0, 7200.0)
    assert job["work_dir"] == ("/home/ada/x" if "head" in tail else None)


@pytest.mark.parametrize(
    ("given", "name", "limit_s"),
    [
        ({"category": "-l h_rt=24:00:00"}, "train", 86_400.0),
        ({"category": "-l cpu=24:00:00,h_rt=60", "tail": ""}, "train", 60.0),
        ({"name": "a:b:12", "category": "-l h_rt=1:00:00 -q a"}, "a:b:12", 3600.0),
        ({"name": "run:7"}, "run:7", 7200.0),
        ({"category": "-l h_rt=2\\xff00\\xff05"}, "train", 7205.0),
        ({"category": "NONE"}, "train", None),
    ],
)
def test_colons_inside_texts_are_no_ends_of_fields(
    tmp_path: Path, given: dict[str, Any], name: str, limit_s: float | None
) -> None:
    (job,), _ = load(tmp_path, record(**given))
    assert (job["job_id"], job["job_name"], job["time_limit_s"], job["user"]) == ("7", name, limit_s, "ada")
    assert (job["runtime_s"], job["state"]) == (3600.0, "COMPLETED")


def test_byte_255_in_a_text_is_the_colon_it_replaced(tmp_path: Path) -> None:
    path = tmp_path / "accounting"
    path.write_bytes(record(name="fit\xffa", category="-l h_rt=2\xff00\xff05").encode("latin-1") + b"\n")
    (batch,) = read(path, cluster())
    assert batch.jobs.select(["job_name", "time_limit_s"]).to_pylist() == [{"job_name": "fit:a", "time_limit_s": 7205.0}]


@pytest.mark.parametrize("factor", [1, 1000], ids=["seconds", "milliseconds"])
def test_times_are_seconds_or_milliseconds_by_their_size(tmp_path: Path, factor: int) -> None:
    (job,), _ = load(tmp_path, record(7, T0 * factor, (T0 + 10) * factor, (T0 + 3610) * factor))
    assert (job["submit_time"].timestamp(), job["queue_s"], job["runtime_s"]) == (T0, 10.0, 3600.0)


@pytest.mark.parametrize(
    ("failed", "status", "end", "more", "state", "label"),
    [
        (0, 0, 3610, {}, "COMPLETED", "event"),
        (0, 1, 3610, {}, "FAILED", "event"),
        (0, 137, 3610, {}, "FAILED", "event"),  # a child was killed; the script ended by itself
        (15, 0, 3610, {}, "COMPLETED", "event"),  # the epilog failed, after the job
        (30, 100, 3610, {}, "FAILED", "event"),  # the application said so
        (100, 137, 3610, {}, "CANCELLED", "censored"),  # KILL, long before the limit
        (100, 137, 7208, {}, "TIMEOUT", "censored"),  # KILL at h_rt, two seconds early
        (100, 139, 3610, {}, "FAILED", "event"),  # SEGV
        (100, 138, 3610, {"category": "-l h_rt=7200,s_rt=3600"}, "TIMEOUT", "censored"),  # USR1 at the soft limit
        (100, 0, 3610, {}, "OTHER", "censored"),  # no usage was written
        (37, 137, 7211, {}, "TIMEOUT", "censored"),
        (37, 137, 3610, {}, "CANCELLED", "censored"),  # the limit on memory or CPU time
        (44, 137, 3610, {"category": "NONE"}, "TIMEOUT", "censored"),  # UGE: execd enforced h_rt limit
        (19, 0, 3610, {}, "NODE_FAIL", "censored"),
        (100, 143, 3610, {"tail": ":0:0:NONE:ada@head:0:0:head:NONE:qsub x"}, "CANCELLED", "censored"),
        (100, 137, 7210, {"tail": ":0:0:NONE:ada@head:0:0:head:NONE:qsub x"}, "CANCELLED", "censored"),  # qdel, by its record
        (77, 0, 3610, {}, "OTHER", "censored"),
        (8, 1, 12, {}, "LAUNCH_FAILED", "excluded"),  # the prolog failed
        (28, 0, 10, {}, "LAUNCH_FAILED", "excluded"),  # no such directory
        (25, 99, 3610, {}, "REQUEUED", "excluded"),
    ],
)  # fmt: skip
def test_failed_and_exit_status_say_how_a_job_ended(
    tmp_path: Path, failed: int, status: int, end: int, more: dict[str, Any], state: str, label: str
) -> None:
    (job,), _ = load(tmp_path, record(end=T0 + end, failed=failed, status=status, **more))
    assert (job["state"], job["label"]) == (state, label)


def test_job_deleted_before_it_started(tmp_path: Path) -> None:
    (job,), _ = load(tmp_path, record(start=0, end=0, failed=21, queue="UNKNOWN", host="UNKNOWN"))
    assert [job[name] for name in ("state", "label", "attempts", "queue", "node_list", "start_time", "runtime_s", "queue_s", "flags")] == [
        "CANCELLED", "excluded", 0, None, None, None, None, None, ["never_started"],
    ]  # fmt: skip


def test_records_without_any_time_are_no_jobs_and_are_counted(tmp_path: Path) -> None:
    jobs, batches = load(tmp_path, record(7, 0, 0, 0, failed=21, queue="UNKNOWN", host="UNKNOWN"), record(8))
    assert ([job["job_id"] for job in jobs], _skipped(batches)) == (["8"], {"without_times": 1})


@pytest.mark.parametrize(
    ("tries", "attempts", "queue_s", "skipped"),
    [
        ([{"submit": 0, "start": 0, "end": 0, "failed": 1}], 2, None, {"without_times": 1}),
        ([{"failed": 25, "status": 99, "end": T0 + 60}], 2, 10.0, {"earlier_attempt": 1}),
        ([{"failed": 25, "end": T0 + 60}, {"failed": 8, "start": T0 + 80, "end": T0 + 80}], 3, 10.0, {"earlier_attempt": 2}),
    ],
    ids=["could not be started", "rescheduled", "rescheduled, then its prolog failed"],
)  # fmt: skip
def test_job_that_comes_again_is_one_job_of_several_attempts(
    tmp_path: Path, tries: list[dict[str, Any]], attempts: int, queue_s: float | None, skipped: dict[str, int]
) -> None:
    jobs, batches = load(tmp_path, *[record(7, **one) for one in tries], record(8), record(7, start=T0 + 100, end=T0 + 300))
    (job,) = [job for job in jobs if job["job_id"] == "7"]
    assert (job["runtime_s"], job["attempts"], job["queue_s"], job["flags"]) == (200.0, attempts, queue_s, ["requeued"])
    assert (len(jobs), _skipped(batches)) == (2, skipped)


def test_recycled_number_is_another_job(tmp_path: Path) -> None:
    jobs, _ = load(tmp_path, record(7, failed=8), record(7, T0 + 9000, T0 + 9010, T0 + 9100))
    assert sorted((job["state"], job["attempts"]) for job in jobs) == [("COMPLETED", 1), ("LAUNCH_FAILED", 0)]


def test_slaves_of_a_parallel_job_are_not_counted_again(tmp_path: Path) -> None:
    jobs, batches = load(
        tmp_path, record(pe="mpi", slots=8, pe_task="1.n1"), record(pe="mpi", slots=8, pe_task="2.n2"), record(pe="mpi", slots=8)
    )
    assert [(job["job_id"], job["cpu_count"]) for job in jobs] == [("7", 8.0)]
    assert _skipped(batches) == {"slave_of_parallel_job": 2}


def test_array_tasks_are_jobs_with_the_id_that_qstat_prints(tmp_path: Path) -> None:
    jobs, _ = load(tmp_path, record(38, task=1), record(38, task=77), record(39))
    assert [(job["job_id"], job["array_id"], job["array_task"]) for job in jobs] == [
        ("38.1", "38", 1), ("38.77", "38", 77), ("39", None, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "account", "group"),
    [
        ({}, None, "phys"),
        ({"project": "climate", "department": "earth"}, "climate", "earth"),
        ({"account": "lab7"}, "lab7", "phys"),
    ],
)
def test_projects_and_departments(tmp_path: Path, given: dict[str, Any], account: str | None, group: str) -> None:
    (job,), _ = load(tmp_path, record(**given))
    assert (job["account"], job["group"]) == (account, group)


@pytest.mark.parametrize(
    ("request_text", "of", "gpus"),
    [
        ("-l gpu=2 -pe smp 4", cluster(), 8.0),
        ("-l gpu=2 -pe smp 4", cluster(gpus_per="job"), 2.0),
        ("-l ngpus=1 -pe smp 4", cluster(gpus_per="job"), 1.0),
        ("-l tesla=1(a100) -pe smp 4", cluster(gpu_resources=["tesla"], gpus_per="job"), 1.0),
        ("-l tesla=1 -pe smp 4", cluster(), None),
        ("-l h_rt=5 -pe smp 4", cluster(gpus_tracked=True), 0.0),
        ("-l gpu=TRUE -pe smp 4", cluster(gpus_tracked=True), None),
        ("-soft -l gpu=1 -hard -l h_rt=5 -pe smp 4", cluster(gpus_tracked=True), 0.0),
    ],
)
def test_gpus_of_a_request(tmp_path: Path, request_text: str, of: Cluster, gpus: float | None) -> None:
    (job,), _ = load(tmp_path, record(pe="smp", slots=4, category=request_text), of=of)
    assert job["gpu_count"] == gpus


def test_memory_and_queue_as_the_options_say(tmp_path: Path) -> None:
    line = record(pe="smp", slots=4, category="-l mem_free=3G,h_vmem=INFINITY -pe smp 4 -q long.q")
    (by_slot,), _ = load(tmp_path, line)
    (by_job,), _ = load(tmp_path, line, of=cluster(memory_per="job", queue="requested"))
    assert [(job["mem_mib"], job["queue"]) for job in (by_slot, by_job)] == [(12_288.0, "all.q"), (3072.0, "long.q")]


def test_start_some_seconds_before_the_submission_is_a_clock_that_is_off(tmp_path: Path) -> None:
    (job,), _ = load(tmp_path, record(start=T0 - 2))
    assert (job["runtime_s"], job["queue_s"], job["flags"]) == (3612.0, 0.0, ["start_before_submit"])


FORGED = record(9, T0, T0 + 1, T0 + 2)  # a user's attempt to write another end, as the name of a job


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("what is this", "unreadable_line"),
        (record().replace(f":{T0}:", ":soon:"), "unreadable_line"),
        (record(job="seven"), "unreadable_line"),
        (record(name=FORGED), "unreadable_line"),
        (record().rsplit(":", 4)[0], "unreadable_line"),
        (record(submit=0), "submit_missing"),
        (record(end=0), "end_missing"),
        (record(end=T0 + 5), "end_before_start"),
        (record(start=T0 - 61), "start_before_submit"),
        (record(end=9_999_999_999), "time_out_of_range"),
    ],
    ids=["text", "time", "number", "forged", "cut", "no submission", "no end", "end first", "early", "far"],
)
def test_wrong_record_is_kept_as_a_reject_and_hurts_no_other(tmp_path: Path, line: str, reason: str) -> None:
    jobs, batches = load(tmp_path, record(5), line, record(6))
    assert [job["job_id"] for job in jobs] == ["5", "6"]
    assert [(one.line, one.reason, one.raw) for batch in batches for one in batch.rejects] == [(2, reason, line)]


def test_file_of_something_else_says_what_was_expected(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("JobID|User\n1|ada\n")
    with pytest.raises(SourceError, match=r"no record of a Grid Engine accounting file .*JobID"):
        list(read(tmp_path / "log", cluster()))
    (tmp_path / "empty").write_text("")
    with pytest.raises(EmptyLog):
        list(read(tmp_path / "empty", cluster()))


@pytest.mark.parametrize(
    ("text", "mib"),
    [("25G", 25_600), ("2500M", 2500), ("0.5G", 512), ("1k", 1000 / 2**20), ("1m", 1e6 / 2**20), ("1048576", 1), ("1.000T", 1024**2),
     ("0", None), ("INFINITY", None), ("much", None), ("²G", None), ("", None)],
)  # fmt: skip
def test_memory(text: str, mib: float | None) -> None:
    assert memory_mib(text) == mib


def test_first_resource_that_a_job_asks_for_counts() -> None:
    asked = read_category(
        "-U u,v -u ada -l gpu=1,ngpus=4,m_mem_free=2G,s_rt=0:30:0 -q a,b", ("ngpus", "gpu"), ("h_vmem", "m_mem_free")
    )
    assert asked == Request(limit_s=None, soft_limit_s=1800.0, gpus=4.0, mem_mib=2048.0, queue="a,b")


@pytest.mark.traces
def test_real_samples_load_with_the_values_that_stand_in_them(traces: Path) -> None:
    """Read off the records by eye: runtimes (end - start), slots, memory times slots, h_rt, and how they ended."""
    folder, rows, skipped = traces / "raw_samples" / "sge", {}, {}
    for path in sorted(path for path in folder.iterdir() if "accounting" in path.name):
        batches = list(read(path, cluster()))
        lines = [line for line in path.read_text().splitlines() if len(line) > 1 and line[0] != "#"]
        assert sum(batch.rows_in for batch in batches) == len(lines), path.name
        assert not [reject for batch in batches for reject in batch.rejects], path.name
        skipped[path.name.removesuffix(".accounting")] = _skipped(batches)
        for batch in batches:
            rows |= {(path.name.removesuffix(".accounting"), row["source"].split(":")[1]): row for row in batch.jobs.to_pylist()}
    assert {name: counts for name, counts in skipped.items() if counts} == {
        "idiv_sge60_to_uge84": {"without_times": 2},
        "ug82_accounting": {"without_times": 5},
        "safe_eddie_2008_2010": {"slave_of_parallel_job": 1},
    }
    names = ("job_id", "runtime_s", "cpu_count", "mem_mib", "time_limit_s", "account", "state", "attempts")
    expected = {
        ("apel_grid_sites", "2"): ("6972834", 180_001, 9, 9 * 1124, 180_300, "por_defecto", "TIMEOUT", 1),
        ("apel_grid_sites", "3"): ("1630912", 20_572, 1, None, None, "pilatl.p", "FAILED", 1),
        ("apel_grid_sites", "5"): ("3872561", 220.488, 1, None, None, None, "COMPLETED", 1),
        ("idiv_sge60_to_uge84", "1"): ("10245", 300, 1, None, None, "group", "COMPLETED", 1),
        ("idiv_sge60_to_uge84", "5"): ("42", 64.103, 5, 5 * 8192, 2_592_000, "project", "CANCELLED", 1),
        ("idiv_sge60_to_uge84", "7"): ("42", 217_020, 1, None, None, "project", "COMPLETED", 1),
        ("ug82_accounting", "5"): ("1", 0.008, 1, None, None, None, "FAILED", 1),
        ("ug82_accounting", "14"): ("4", 10.006, 1, None, None, None, "FAILED", 2),
        ("xdmod_sge_62", "2"): ("22947", 60, 1, 1024**2, 36_000, None, "COMPLETED", 1),
        ("safe_eddie_2008_2010", "1"): ("1155664", 3292, 1, 2500, 14_400, "ecdf_baseline", "COMPLETED", 1),
        ("safe_eddie_2008_2010", "11"): ("2211", 149_662, 16, None, None, None, "CANCELLED", 1),
        ("safe_eddie_2008_2010", "13"): ("40", 1, 8, None, None, None, "COMPLETED", 1),
        ("safe_sge_accounting.txt", "30"): ("27", 9.999, 1, None, 10, "is_iti_rs", "TIMEOUT", 1),
        ("safe_sge_accounting.txt", "118"): ("38.78", 10.05, 1, None, 172_805, "is_iti_rs", "COMPLETED", 1),
    }  # fmt: skip
    assert {key: tuple(rows[key][name] for name in names) for key in expected} == expected
