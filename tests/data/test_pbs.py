"""PBS and Torque accounting logs: right values by hand from the records' text and the manuals; real samples where they are."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster
from runcast.data.errors import EmptyLog, SourceError
from runcast.data.sources.batch import Batch
from runcast.data.sources.pbs import read
from runcast.data.sources.pbs_requests import Request, read_request, size_mib, walltime_s

CLUSTER = Cluster.model_validate({"name": "p", "source": {"format": "pbs", "paths": ["unused"]}, "time_zone": "America/Denver"})

T0 = 1_709_287_200  # 2024-03-01 10:00:00 UTC
WHO = f"user=ada group=phys jobname=train queue=gpu ctime={T0} qtime={T0} etime={T0}"
ASKS = "Resource_List.ncpus=4 Resource_List.ngpus=1 Resource_List.nodect=1 Resource_List.walltime=02:00:00"


def _at(second: int) -> str:
    return f"03/01/2024 {10 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def record(kind: str, job: str, second: int, message: str = "") -> str:
    return f"{_at(second)};{kind};{job};{message}"


def started(job: str, second: int, **more: object) -> str:
    return record("S", job, second, f"{WHO} start={T0 + second} exec_host=n1/0*4 {ASKS}" + _more(more))


def ended(job: str, start: int, end: int, status: int = 0, **more: object) -> str:
    given = f"{WHO} start={T0 + start} exec_host=n1/0*4 {ASKS} session=9 end={T0 + end} Exit_status={status}"
    return record("E", job, end, given + _more(more))


def _more(fields: dict[str, object]) -> str:
    return "".join(f" {name}={value}" for name, value in fields.items())


def load(tmp_path: Path, *lines: str) -> tuple[list[dict[str, Any]], list[Batch]]:
    path = tmp_path / "20240301"
    path.write_text("\n".join(lines) + "\n")
    batches = list(read(path, CLUSTER))
    assert sum(batch.rows_in for batch in batches) == len([line for line in lines if line.strip()])
    return pa.concat_tables([batch.jobs for batch in batches]).to_pylist(), batches


def _skipped(batches: list[Batch]) -> dict[str, int]:
    return {name: count for batch in batches for name, count in batch.skipped.items()}


def _rejected(batches: list[Batch]) -> list[tuple[int, str]]:
    return [(reject.line, reject.reason) for batch in batches for reject in batch.rejects]


def test_job_is_one_row_whatever_records_tell_of_it(tmp_path: Path) -> None:
    jobs, batches = load(
        tmp_path,
        record("Q", "123.srv", 0, "queue=gpu"),
        started("123.srv", 10),
        ended("123.srv", 10, 3610),
        record("C", "123.srv", 9),
    )
    (job,) = jobs
    expected = {
        "job_id": "123.srv", "user": "ada", "group": "phys", "job_name": "train", "queue": "gpu", "state": "COMPLETED",
        "label": "event", "runtime_s": 3600.0, "queue_s": 10.0, "attempts": 1, "cpu_count": 4.0, "gpu_count": 1.0, "node_count": 1.0,
        "time_limit_s": 7200.0, "time_limit_kind": "hard", "node_list": "n1/0*4", "job_key": f"p:123.srv:{T0 * 10**6}",
        "source": "20240301:3", "flags": [],
    }  # fmt: skip
    assert {name: job[name] for name in expected} == expected
    assert _skipped(batches) == {"queued_without_details": 1, "earlier_record": 1, "record_C": 1}


@pytest.mark.parametrize(
    ("lines", "state", "label", "attempts"),
    [
        ([started("1.s", 10)], "RUNNING", "censored", 1),
        ([record("Q", "1.s", 0, WHO)], "PENDING", "excluded", 0),
        ([record("Q", "1.s", 0, WHO), record("D", "1.s", 50, "requestor=ada@n1")], "CANCELLED", "excluded", 0),
        ([record("Q", "1.s", 0, WHO), record("A", "1.s", 50, "Job deleted as a result of job 7.s")], "CANCELLED", "excluded", 0),
        ([started("1.s", 10), record("D", "1.s", 60, "requestor=ada@n1"), ended("1.s", 10, 60, 271)], "CANCELLED", "censored", 1),
        ([started("1.s", 10), record("R", "1.s", 60), started("1.s", 90), ended("1.s", 90, 200)], "COMPLETED", "event", 2),
        ([started("1.s", 10), record("R", "1.s", 60)], "PENDING", "excluded", 0),
        ([ended("1.s", 90, 200, run_count=3)], "COMPLETED", "event", 3),
        ([ended("1.s", 90, 200, start_count=2)], "COMPLETED", "event", 2),
    ],
    ids=[
        "started only", "queued with details", "deleted while queued", "aborted while queued", "deleted while it ran", "rerun",
        "rerun and waits", "runs of other files by run_count", "by Torque's start_count",
    ],
)  # fmt: skip
def test_life_of_a_job(tmp_path: Path, lines: list[str], state: str, label: str, attempts: int) -> None:
    (job,), _ = load(tmp_path, *lines)
    assert (job["state"], job["label"], job["attempts"]) == (state, label, attempts)


def test_requeued_job_counts_its_last_run_and_no_time_in_the_queue(tmp_path: Path) -> None:
    (job,), _ = load(tmp_path, started("1.s", 10), record("R", "1.s", 60), started("1.s", 90), ended("1.s", 90, 200))
    assert (job["runtime_s"], job["queue_s"], job["flags"]) == (110.0, None, ["requeued"])


def test_queue_begins_when_the_job_became_eligible(tmp_path: Path) -> None:
    """Held by a dependency until 300 s after its creation: etime says so."""
    line = ended("1.s", 400, 500).replace(f"etime={T0}", f"etime={T0 + 300}")
    (job,), _ = load(tmp_path, line)
    assert job["queue_s"] == 100.0


@pytest.mark.parametrize(
    ("status", "end", "state"),
    [
        (0, 3610, "COMPLETED"),
        (1, 3610, "FAILED"),
        (127, 3610, "FAILED"),
        (139, 3610, "FAILED"),  # 128 + SEGV
        (271, 3610, "CANCELLED"),  # 256 + TERM, long before the limit of two hours
        (143, 3610, "CANCELLED"),  # 128 + TERM
        (265, 7225, "TIMEOUT"),  # 256 + KILL, at the limit
        (271, 7206, "TIMEOUT"),  # the server looks every few seconds
        (-11, 7300, "TIMEOUT"),  # Torque: JOB_EXEC_OVERLIMIT_WT
        (-29, 7300, "TIMEOUT"),  # PBS Professional: JOB_EXEC_KILL_WALLTIME
        (-10, 3610, "OUT_OF_MEMORY"),
        (-27, 3610, "OUT_OF_MEMORY"),
        (-3, 12, "LAUNCH_FAILED"),
    ],
)
def test_exit_status_says_how_a_job_ended(tmp_path: Path, status: int, end: int, state: str) -> None:
    (job,), _ = load(tmp_path, ended("1.s", 10, end, status))
    assert job["state"] == state


def test_array_tasks_are_jobs_and_their_parent_is_none(tmp_path: Path) -> None:
    jobs, batches = load(
        tmp_path, record("Q", "7[].s", 0, WHO), ended("7[3].s", 5, 9), ended("7[11].s", 5, 9), ended("7[].s", 5, 9)
    )
    assert [(job["job_id"], job["array_id"], job["array_task"]) for job in jobs] == [("7[3].s", "7", 3), ("7[11].s", "7", 11)]
    assert _skipped(batches) == {"array_parent": 2}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("what is this", "unreadable_line"),
        ("2024-03-01 10:00:00;E;1.s;user=ada", "unreadable_line"),
        (record("E", "abc", 5, WHO), "job_id_unreadable"),
        (record("E", "1.s", 5, f"user=ada start={T0} end={T0 + 1}"), "submit_missing"),
        (record("E", "1.s", 5, f"{WHO} start={T0} Exit_status=0"), "end_missing"),
        (ended("1.s", 100, 50), "end_before_start"),
        (ended("1.s", -5, 50), "start_before_submit"),
        (ended("1.s", 10, 50).replace(f"end={T0 + 50}", "end=²"), "end_unreadable"),
        (ended("1.s", 10, 50).replace(f"end={T0 + 50}", "end=99999999999"), "end_unreadable"),
        (ended("1.s", 10, 50).replace("jobname=train", f"jobname=x end={T0 + 9}"), "field_twice"),
        (ended("1.s", 10, 50).replace("jobname=train", 'account="a b" user=eve jobname=x'), "field_twice"),
    ],
)
def test_wrong_record_is_kept_as_a_reject_and_hurts_no_other(tmp_path: Path, line: str, reason: str) -> None:
    """Two of them are a user's attempt to write the end of a job, or another user, into a name."""
    jobs, batches = load(tmp_path, ended("8.s", 10, 50), line, ended("9.s", 10, 50))
    assert [job["job_id"] for job in jobs] == ["8.s", "9.s"]
    assert _rejected(batches) == [(2, reason)]
    assert batches[0].rejects[0].raw == line


def test_values_with_blanks_and_quotes_stay_whole(tmp_path: Path) -> None:
    line = ended("1.s", 10, 50, account='"my lab"').replace("jobname=train", "jobname=two words")
    (job,), _ = load(tmp_path, line)
    assert (job["account"], job["job_name"], job["queue"]) == ("my lab", "two words", "gpu")


def test_project_stands_for_an_account_unless_it_is_the_default(tmp_path: Path) -> None:
    jobs, _ = load(tmp_path, ended("1.s", 1, 2, project="climate"), ended("2.s", 1, 2, project="_pbs_project_default"))
    assert [job["account"] for job in jobs] == ["climate", None]


def test_file_of_something_else_says_what_was_expected(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("JobID|User\n1|ada\n")
    with pytest.raises(SourceError, match=r"no record of a PBS or Torque accounting log .*JobID"):
        list(read(tmp_path / "log", CLUSTER))
    (tmp_path / "empty").write_text("")
    with pytest.raises(EmptyLog):
        list(read(tmp_path / "empty", CLUSTER))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"select": "2:ncpus=4:ngpus=1:mem=8gb"}, Request(8, 2, 2, 16_384)),
        ({"select": "1:ncpus=8+2:ncpus=4:ngpus=2"}, Request(16, 4, 3, None)),
        ({"select": "5:ncpus=13", "ncpus": "65", "nodect": "5"}, Request(65, None, 5, None)),
        ({"select": "3"}, Request(3, None, 3, None)),
        ({"select": "ncpus=4:ngpus=1"}, Request(4, 1, 1, None)),
        ({"select": "1:ncpus=1", "ncpus": "1", "ngpus": "0", "mem": "10gb"}, Request(1, 0, 1, 10_240)),
        ({"nodes": "4:ppn=8", "nodect": "4"}, Request(32, None, 4, None)),
        ({"nodes": "14:ppn=8+16:ppn=1"}, Request(128, None, 30, None)),
        ({"nodes": "1:ppn=28:gpus=1:default", "ncpus": "1"}, Request(28, 1, 1, None)),
        ({"nodes": "2:ppn=4:gpus=2"}, Request(8, 4, 2, None)),
        ({"nodes": "node7:ppn=2+node9:ppn=2"}, Request(4, None, 2, None)),
        ({"nodes": "nodes=1:ppn=1", "ncpus": "1"}, Request(1, None, 1, None)),
        ({"nodes": "1:ppn=4", "pmem": "2gb"}, Request(4, None, 1, 8192)),
        ({"mppwidth": "64", "mppnppn": "2", "ncpus": "1", "select": "1"}, Request(64, None, 32, None)),
        ({"nodes": "1:ppn=x"}, Request(None, None, None, None)),
        ({"nodes": "+"}, Request(None, None, None, None)),
        ({}, Request(None, None, None, None)),
    ],
    ids=str,
)
def test_request_of_a_job(asked: dict[str, str], expected: Request) -> None:
    assert read_request({f"Resource_List.{name}": value for name, value in asked.items()}) == expected


def test_torque_6_tasks(tmp_path: Path) -> None:
    """`-L tasks=1:lprocs=80:memory=100GB`: words with `=` in one value."""
    line = ended("1.s", 10, 50).replace(
        ASKS, "Resource_Request_2.0=-L tasks=1:lprocs=80:memory=100GB -L tasks=2:lprocs=4:memory=1GB "
    )
    (job,), _ = load(tmp_path, line)
    assert (job["cpu_count"], job["mem_mib"]) == (88.0, 102 * 1024.0)


@pytest.mark.parametrize(
    ("text", "mib"),
    [("1gb", 1024), ("15240kb", 15240 / 1024), ("1993mb", 1993), ("512M", 512), ("1048576b", 1), ("1048576", 1), ("131072w", 1),
     ("1tb", 1024**2), ("1.5gb", 1536), ("much", None), ("", None), ("²gb", None)],
)  # fmt: skip
def test_sizes(text: str, mib: float | None) -> None:
    assert size_mib(text) == mib


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("24:00:00", 86_400), ("00:36:37", 2197), ("2:00:00:00", 172_800), ("12722", 12_722), ("100:00:00", 360_000), ("1:00", None),
     ("soon", None), ("00:00:00", None), ("", None)],
)  # fmt: skip
def test_walltimes(text: str, seconds: float | None) -> None:
    assert walltime_s(text) == seconds


@pytest.mark.traces
def test_real_samples_load_with_the_values_that_stand_in_them(traces: Path) -> None:
    """Read off the records by eye: counts, runtimes (end - start), requests, and how they ended."""
    folder = traces / "raw_samples" / "pbs"
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for path in sorted([*folder.glob("*.acct"), *folder.glob("*.log")]):
        batches = list(read(path, CLUSTER))
        lines = [line for line in path.read_text().splitlines() if line.strip()]
        assert sum(batch.rows_in for batch in batches) == len(lines), path.name
        for batch in batches:
            rows |= {(path.name.split("_")[0], row["job_id"]): row for row in batch.jobs.to_pylist()}
    names = ("runtime_s", "cpu_count", "gpu_count", "node_count", "time_limit_s", "state")
    expected = {
        ("xdmod", "6.edge.ccr.buffalo.edu"): (2197, 32, None, 4, 14_400, "COMPLETED"),
        ("xdmod", "2994.pbs"): (156, 65, None, 5, 163, "COMPLETED"),
        ("xdmod", "7904"): (8407, 28, 1, 1, 345_600, "FAILED"),
        ("ncar", "4413086.casper-pbs"): (3330, 1, 1, 1, 14_400, "CANCELLED"),
        ("hnormalise", "161299[389].mymaster.somecluster.somedomain"): (198, 16, None, 1, 18_000, "COMPLETED"),
        ("hnormalise", "268279.master21.swalot.gent.vsc"): (43_175, 40, None, 2, 43_140, "TIMEOUT"),
        ("pbstools", "13512.pitzer-batch.ten.osc.edu"): (34, 80, None, None, 3600, "COMPLETED"),
        ("safe", "102.user123"): (41_399, 64, None, 32, 43_200, "COMPLETED"),
        ("safe", "709313.iwrcgpbs0.fzk.de"): (82_847, 1, None, 1, 84_600, "COMPLETED"),
        ("apel", "21048463.lcgbatch01.gridpp.rl.ac.uk"): (24_159, None, None, None, 345_600, "COMPLETED"),
    }
    assert {key: tuple(rows[key][name] for name in names) for key in expected} == expected
