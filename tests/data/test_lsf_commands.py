"""What bjobs, bacct -l and bhist -l print: right values by hand from the text; years are never guessed."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.sources import blocks
from runcast.data.sources.batch import Batch
from runcast.data.sources.lsf import read

HEAD = "Job <7>, Job Name <fit>, User <ada>, Project <phys>, Status <DONE>, Queue <gpu>, Command <./fit.sh -a>, Share group charged </ada>"
BACCT = [
    HEAD,
    "Thu Feb  3 17:40:37 2022: Submitted from host <login1>, CWD </home/ada>, Output File </home/ada/%J.out>;",
    "Thu Feb  3 17:40:47 2022: Dispatched 4 Task(s) on Host(s) <n2> <n2> <n1> <n1>, Allocated 4 Slot(s) on Host(s) <n2> <n2> <n1> <n1>, "
    "Effective RES_REQ <select[ngpus>0] order[r15s:pg] rusage[ngpus_physical=2.00/host] span[ptile=2] >;",
    "Thu Feb  3 18:40:47 2022: Completed <done>.",
]
BHIST = [
    "Job <7[3]>, Job Name <fit[1-9]>, User <ada>, Project <phys>, Command <./fit.sh --all>",
    "Thu Feb  3 17:40:37 2022: Submitted from host <login1>, to Queue <gpu>, CWD <$HOME>, 2 Task(s), Requested Resources "
    "<span[hosts=1] rusage[mem=4GB]>, Requested GPU <num=1:mode=shared>;",
    "Thu Feb  3 17:40:47 2022: Dispatched 2 Task(s) on Host(s) <n1> <n1>, Effective RES_REQ <select[] rusage[ngpus_physical=1.00] >;",
    "Thu Feb  3 17:40:48 2022: Starting (Pid 99);",
    "Thu Feb  3 17:50:47 2022: Exited with exit code 9. The CPU time used is 1.0 seconds;",
    "Thu Feb  3 17:50:49 2022: Completed <exit>; TERM_OWNER: job killed by owner;",
]


def folded(lines: list[str], indent: int = 26, width: int = 80) -> list[str]:
    """Fold as LSF does: at column 80, in the middle of words, behind so many blanks."""
    done = []
    for line in lines:
        done.append(line[:width])
        rest = line[width:]
        while rest:
            done.append(" " * indent + rest[: width - indent])
            rest = rest[width - indent :]
    return done


def load(tmp_path: Path, text: str, name: str = "export", **options: object) -> tuple[list[dict[str, Any]], list[Batch]]:
    path = tmp_path / name
    path.write_text(text)
    source = {"format": "lsf", "paths": ["x"], "options": options}
    cluster = Cluster.model_validate({"name": "c", "source": source, "time_zone": "Europe/Zurich"})
    batches = list(read(path, cluster))
    return pa.concat_tables([batch.jobs for batch in batches]).to_pylist(), batches


def rejected(batches: list[Batch]) -> list[tuple[int, str]]:
    return [(reject.line, reject.reason) for batch in batches for reject in batch.rejects]


def bjobs(*records: dict[str, str]) -> str:
    return json.dumps({"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}, indent=2)


def record(**fields: str) -> dict[str, str]:
    return {
        "JOBID": "7", "STAT": "DONE", "USER": "ada", "QUEUE": "gpu", "PROJ_NAME": "phys", "JOB_NAME": "fit", "EXIT_REASON": "-",
        "SUBMIT_TIME": "Feb  3 17:40:37 2022", "START_TIME": "Feb  3 17:40:47 2022", "FINISH_TIME": "Feb  3 18:40:47 2022 L",
        "MIN_REQ_PROC": "4", "EXEC_HOST": "2*n1:2*n2", "RUNTIMELIMIT": "02:00:00", "SUB_CWD": "$HOME",
        "EFFECTIVE_RESREQ": "select[] rusage[ngpus_physical=2.00] ", **fields,
    }  # fmt: skip


@pytest.mark.parametrize("lines", [BACCT, folded(BACCT)], ids=["unfolded", "folded"])
def test_bacct_job_is_what_its_paragraph_says(tmp_path: Path, lines: list[str]) -> None:
    (job,), batches = load(
        tmp_path, "\n".join(["Accounting information about jobs that are:", "----", *lines, "", "SUMMARY:  ", " 1"])
    )
    expected = {
        "job_id": "7", "user": "ada", "queue": "gpu", "account": "phys", "job_name": "fit", "work_dir": "/home/ada", "state": "COMPLETED",
        "runtime_s": 3600.0, "queue_s": 10.0, "cpu_count": 4.0, "gpu_count": 4.0, "node_count": 2.0, "source": "export:3", "flags": [],
        "submit_time": datetime(2022, 2, 3, 16, 40, 37, tzinfo=UTC), "node_list": "n2 n2 n1 n1", "attempts": 1,
    }  # fmt: skip
    assert {name: job[name] for name in expected} == expected
    assert sum(batch.rows_in for batch in batches) == 1


@pytest.mark.parametrize("lines", [BHIST, folded(BHIST)], ids=["unfolded", "folded"])
def test_bhist_job_is_what_its_paragraph_says(tmp_path: Path, lines: list[str]) -> None:
    (job,), _ = load(tmp_path, "\n".join([*lines, "", " RUNLIMIT", " 120.0 min of n1", "", "Summary of time in seconds"]))
    expected = {
        "job_id": "7[3]", "array_id": "7", "array_task": 3, "job_name": "fit", "queue": "gpu", "work_dir": "$HOME", "state": "CANCELLED",
        "label": "censored", "runtime_s": 600.0, "cpu_count": 2.0, "gpu_count": 1.0, "node_count": 1.0, "mem_mib": 4096.0,
        "time_limit_s": 7200.0,
    }  # fmt: skip
    assert {name: job[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("lines", "state", "label", "attempts"),
    [
        (BHIST[:2], "PENDING", "excluded", 0),
        (BHIST[:4], "RUNNING", "censored", 1),
        ([*BHIST[:2], BHIST[5]], "CANCELLED", "excluded", 0),
        (
            [*BHIST[:5], BHIST[2].replace("17:40:47", "17:52:00"), BHIST[5].replace("17:50:49", "17:59:00")],
            "CANCELLED",
            "censored",
            2,
        ),
        ([*BHIST[:3], "Thu Feb  3 17:45:00 2022: Done successfully. The CPU time used is 1 seconds;"], "COMPLETED", "event", 1),
        ([*BHIST[:5]], "FAILED", "event", 1),
    ],
    ids=["waiting", "running", "killed while it waited", "requeued", "done", "exit code"],
)
def test_life_of_a_job(tmp_path: Path, lines: list[str], state: str, label: str, attempts: int) -> None:
    (job,), _ = load(tmp_path, "\n".join(lines))
    assert (job["state"], job["label"], job["attempts"]) == (state, label, attempts)


def test_requeued_job_counts_its_last_run(tmp_path: Path) -> None:
    again = [BHIST[2].replace("17:40:47", "17:52:00"), BHIST[5].replace("17:50:49", "17:59:00")]
    (job,), _ = load(tmp_path, "\n".join([*BHIST[:5], *again]))
    assert (job["runtime_s"], job["queue_s"], job["flags"]) == (420.0, None, ["requeued"])


def without_year(lines: list[str]) -> str:
    return "\n".join(line.replace(" 2022:", ":") for line in lines)


class TestAYear:
    """Dates without one."""

    def test_is_not_guessed(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match=r"the dates have no year.*LSB_DISPLAY_YEAR=Y.*written"):
            load(tmp_path, without_year(BACCT))

    def test_is_that_of_the_period_in_the_header(self, tmp_path: Path) -> None:
        header = "  - completed between   Sat Jan  1 00:00:00 2022\n                  and   Mon Feb 21 23:59:00 2022\n"
        (job,), _ = load(tmp_path, header + without_year(BACCT))
        assert job["submit_time"] == datetime(2022, 2, 3, 16, 40, 37, tzinfo=UTC)

    @pytest.mark.parametrize("lines", [BACCT, folded(BACCT, indent=21)], ids=["unfolded", "folded"])
    def test_is_the_latest_up_to_the_day_of_the_export(self, tmp_path: Path, lines: list[str]) -> None:
        (job,), _ = load(tmp_path, without_year(lines), written="2023-01-31")
        assert (job["submit_time"].year, job["runtime_s"]) == (2022, 3600.0)

    def test_has_to_agree_with_the_weekday(self, tmp_path: Path) -> None:
        """3 February 2021 was a Wednesday."""
        jobs, batches = load(tmp_path, without_year(BACCT), written="2021-12-31")
        assert (jobs, rejected(batches)) == ([], [(1, "weekday_of_another_year")])

    def test_turns_between_submission_and_start(self, tmp_path: Path) -> None:
        text = bjobs(record(SUBMIT_TIME="Dec  31 23:40", START_TIME="Jan  1 00:05", FINISH_TIME="Jan  1 01:05 L"))
        (job,), _ = load(tmp_path, text, written="2022-01-01")
        assert (job["submit_time"], job["queue_s"], job["runtime_s"]) == (
            datetime(2021, 12, 31, 22, 40, tzinfo=UTC),
            1500.0,
            3600.0,
        )

    def test_follows_from_the_day_in_each_file_s_name(self, tmp_path: Path) -> None:
        minutes = dict.fromkeys(("SUBMIT_TIME", "START_TIME", "FINISH_TIME"), "Feb  3 17:40")
        for name, year in (("bjobs-2022-02-03T1750.json", 2022), ("bjobs.20230202.json", 2022), ("bjobs-2023-02-03.json", 2023)):
            (job,), _ = load(tmp_path, bjobs(record(**minutes)), name, written="file_name")
            assert job["submit_time"].year == year, name
        with pytest.raises(SourceError, match="the name holds no day"):
            load(tmp_path, bjobs(record(**minutes)), "bjobs-2022-13-03.json", written="file_name")

    def test_of_a_leap_day_is_a_leap_year(self, tmp_path: Path) -> None:
        times = dict.fromkeys(("SUBMIT_TIME", "START_TIME", "FINISH_TIME"), "Feb 29 10:00")
        (job,), _ = load(tmp_path, bjobs(record(**times)), written="2026-03-01")
        assert job["submit_time"].year == 2024


@pytest.mark.parametrize(
    ("name", "reason"),
    [("x>, User <root", "field_twice"), ("x>, User <root>, Project <p>, Status <DONE>, Queue <q>, Command <y", "field_twice")],
)
def test_name_that_could_be_read_in_two_ways_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    jobs, batches = load(tmp_path, "\n".join([HEAD.replace("<fit>", f"<{name}>"), *BACCT[1:], "", *BACCT]))
    assert ([job["job_id"] for job in jobs], rejected(batches)) == (["7"], [(1, reason)])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("Feb  3 17:40:37", "Feb 30 17:40:37", "time_unreadable"),
        ("Submitted from", "Sent from", "submit_missing"),
        ("18:40:47 2022: Completed", "17:40:40 2022: Completed", "end_before_start"),
        (", Project <phys>", "", "head_unreadable"),
    ],
)
def test_paragraph_that_is_no_job_is_a_reject(tmp_path: Path, old: str, new: str, reason: str) -> None:
    text = "\n".join(BACCT)
    assert old in text
    jobs, batches = load(tmp_path, text.replace(old, new) + "\n\n" + text.replace("<7>", "<8>"))
    assert ([job["job_id"] for job in jobs], rejected(batches)) == (["8"], [(1, reason)])


def test_hour_that_the_clock_shows_twice_keeps_the_order_and_a_skipped_one_is_none(tmp_path: Path) -> None:
    """Zurich: 3:00 became 2:00 on 2022-10-30, and 2:00 became 3:00 on 2022-03-27."""
    twice = record(SUBMIT_TIME="Oct 30 01:00:00 2022", START_TIME="Oct 30 02:50:00 2022", FINISH_TIME="Oct 30 02:10:00 2022")
    skipped = record(SUBMIT_TIME="Mar 27 02:30:00 2022")
    (job,), batches = load(tmp_path, bjobs(twice, skipped))
    assert (job["runtime_s"], job["flags"]) == (1200.0, ["clock_ambiguous"])
    assert rejected(batches) == [(2, "time_nonexistent")]


def test_bjobs_json_is_a_job_a_record(tmp_path: Path) -> None:
    (job,), _ = load(tmp_path, bjobs(record()))
    expected = {
        "job_id": "7", "user": "ada", "queue": "gpu", "account": "phys", "job_name": "fit", "work_dir": "$HOME", "state": "COMPLETED",
        "runtime_s": 3600.0, "queue_s": 10.0, "cpu_count": 4.0, "gpu_count": 4.0, "node_count": 2.0, "time_limit_s": 7200.0,
        "node_list": "2*n1 2*n2", "source": "export:1",
    }  # fmt: skip
    assert {name: job[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"STAT": "RUN"}, {"state": "RUNNING", "end_time": None, "label": "censored"}),  # its finish time is a forecast
        ({"STAT": "PEND", "START_TIME": "-", "FINISH_TIME": "-"}, {"state": "PENDING", "label": "excluded", "attempts": 0}),
        ({"STAT": "SSUSP"}, {"state": "SUSPENDED", "label": "censored"}),
        ({"STAT": "EXIT", "EXIT_REASON": "TERM_RUNLIMIT: job killed after …"}, {"state": "TIMEOUT", "label": "censored"}),
        ({"STAT": "EXIT"}, {"state": "FAILED"}),
        ({"STAT": "EXIT", "START_TIME": "-"}, {"state": "CANCELLED", "flags": ["never_started"]}),
        ({"STAT": "LATER"}, {"state": "OTHER", "label": "censored"}),
        ({"JOBID": "7[3]"}, {"job_id": "7[3]", "array_id": "7", "array_task": 3}),
        ({"JOBINDEX": "3"}, {"job_id": "7[3]"}),
        ({"JOBINDEX": "0"}, {"job_id": "7", "array_id": None}),
        ({"JOB_NAME": "fit[3]"}, {"job_id": "7[3]", "job_name": "fit"}),
        ({"EFFECTIVE_RESREQ": "-", "GPU_NUM": "6"}, {"gpu_count": 6.0}),
        ({"RUNTIMELIMIT": "-"}, {"time_limit_s": None}),
        ({"RUNTIMELIMIT": "90.0 min of n1"}, {"time_limit_s": 5400.0}),
        ({"RUNTIMELIMIT": "3.0/hostA"}, {"time_limit_s": 180.0}),
        ({"RUNTIMELIMIT": "3.0"}, {"time_limit_s": 180.0}),
    ],
)
def test_fields_of_bjobs(tmp_path: Path, fields: dict[str, str], expected: dict[str, Any]) -> None:
    (job,), _ = load(tmp_path, bjobs(record(**fields)))
    assert {name: job[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("finish", "run_time", "runtime_s"),
    [
        ("Feb  3 17:41 L", "00:00:42", 42.0),
        ("Feb  3 17:41 L", "42 second(s)", 42.0),
        ("Feb  3 17:41 L", "", 60.0),
        ("Feb  3 17:45 L", "00:00:42", 300.0),  # suspended in between: it held its place
        ("Feb  3 17:41:05 2022 L", "00:00:42", 65.0),
    ],
)
def test_run_time_has_the_seconds_that_minutes_lack(tmp_path: Path, finish: str, run_time: str, runtime_s: float) -> None:
    times = {"SUBMIT_TIME": "Feb  3 17:40", "START_TIME": "Feb  3 17:40", "FINISH_TIME": finish, "RUN_TIME": run_time}
    (job,), _ = load(tmp_path, bjobs(record(**times)), written="2022-02-03")
    assert job["runtime_s"] == runtime_s


def test_bjobs_records_that_are_no_jobs(tmp_path: Path) -> None:
    lost = {"JOBID": "9", "ERROR": "Job <9> is not found"}
    jobs, batches = load(tmp_path, bjobs(record(), lost, record(JOBID="x"), record(START_TIME="Feb  3 17:00:00 2022")))
    assert (len(jobs), rejected(batches)) == (1, [(3, "job_id_unreadable"), (4, "start_before_submit")])
    assert [dict(batch.skipped) for batch in batches] == [{"no_matching_job": 1}]


@pytest.mark.parametrize("sign", ["|", ";", "^"])
def test_bjobs_with_a_delimiter(tmp_path: Path, sign: str) -> None:
    rows = [record(), record(JOBID="8", JOB_NAME=f"a{sign}b"), record(JOBID="9")]
    jobs, batches = load(tmp_path, "\n".join([sign.join(rows[0]), *(sign.join(row.values()) for row in rows)]))
    assert [(job["job_id"], job["runtime_s"]) for job in jobs] == [("7", 3600.0), ("9", 3600.0)]
    assert rejected(batches) == [(3, "too_many_fields")]


def test_bjobs_without_a_header_needs_its_fields(tmp_path: Path) -> None:
    line = "7|DONE|ada|Feb  3 17:40:37 2022|Feb  3 17:40:47 2022|Feb  3 18:40:47 2022 L|fit"
    with pytest.raises(SourceError, match="nothing that LSF writes"):
        load(tmp_path, line)
    fields = ["jobid", "stat", "user", "submit_time", "start_time", "finish_time", "name"]
    (job,), _ = load(tmp_path, line, fields=fields)
    assert (job["job_id"], job["job_name"], job["runtime_s"]) == ("7", "fit", 3600.0)


def test_export_without_what_makes_a_job_is_refused_with_the_command(tmp_path: Path) -> None:
    short = {name: value for name, value in record().items() if name != "START_TIME"}
    with pytest.raises(SourceError, match=r"no start_time; export with bjobs -u all -a -hms -json -o"):
        load(tmp_path, bjobs(short))


def test_paragraphs_are_whole_whatever_the_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n\n".join("\n".join(folded([line.replace("<7>", f"<{n}>") for line in BACCT])) for n in range(1, 6))
    whole, _ = load(tmp_path, text)
    monkeypatch.setattr(blocks.read_blocks, "__defaults__", (100,))
    cut, _ = load(tmp_path, text)
    assert len(whole) == 5
    assert cut == whole
