"""lsb.acct: right values by hand from the records' text and the manual's list of fields; damaged records are rejects, alone."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster
from runcast.data.errors import EmptyLog, SourceError
from runcast.data.sources import blocks
from runcast.data.sources.batch import Batch
from runcast.data.sources.lsf import read
from runcast.data.sources.lsf_requests import Request, read_request

T0 = 1_709_287_200  # 2024-03-01 10:00:00 UTC
USAGE = "0.5 0.2 3748 0 -1 0 0 436 4 0 928 0 -1 0 0 0 19 2 -1"


def quoted(*texts: str) -> str:
    return " ".join('"' + text.replace('"', '""') + '"' for text in texts)


def counted(texts: list[str]) -> str:
    return f"{len(texts)} {quoted(*texts)}".strip()


def finish(
    job: int = 123, *, submit: int = T0, start: int = T0 + 10, end: int = T0 + 3610, status: int = 64, begin: int = 0, slots: int = 4,
    res_req: str = "", asked: tuple[str, ...] = (), hosts: tuple[str, ...] = ("n1",) * 4, name: str = "train", command: str = "./train.sh",
    element: int = 0, sla: str = "", exit_info: int = 0, extensions: tuple[tuple[int, str], ...] = (), usage: str = "0",
    limit: int = 7200, effective: str = "", networks: str = "0", ineligible: int = -1, ranges: str = "0", requeue: int = 0,
) -> str:  # fmt: skip
    """Write a record of LSF 10.1 (10.108) as lsb.acct(5) lists its fields."""
    return " ".join(
        [
            f'"JOB_FINISH" "10.108" {end} {job} 1501 33554434 {slots} {submit} {begin} 0 {start}',
            quoted("ada", "gpu", res_req, "", "", "login1", "/home/ada", "", "", "", "1709287200.123"),
            counted(list(asked)), counted(list(hosts)), f"{status} 60.0", quoted(name, command), USAGE, quoted("", "phys"), "0 4",
            quoted("", ""), f"{element} 2048 0", quoted("", "", "", sla), "0", quoted(""), f"{exit_info}", quoted(""), "-1",
            quoted("/ada", "", "", ""), "-1", quoted("", ""), "5136", quoted(""), f"{start}", quoted("", ""),
            " ".join([f"{len(extensions)}", *(f"{key} {quoted(value)}" for key, value in extensions)]), usage,
            f"{limit} 4194304 1024", quoted(effective, ""), "-1", quoted(""), "-1 0", quoted(""), "0 0", quoted(""),
            f"{end - start}", quoted("/home/ada"), networks, quoted(""), "0.000000 0.00 0.00 0.00 0.00", counted(list(hosts)),
            f"{ineligible} {ranges} {requeue} 0 0 1", quoted("schedulingOverhead", "0.00"),
        ]
    )  # fmt: skip


def cluster(**options: object) -> Cluster:
    source = {"format": "lsf", "paths": ["x"], "options": options}
    return Cluster.model_validate({"name": "c", "source": source, "time_zone": "America/Denver"})


def load(tmp_path: Path, *lines: str, **options: object) -> tuple[list[dict[str, Any]], list[Batch]]:
    path = tmp_path / "lsb.acct"
    path.write_text("\n".join(lines) + "\n")
    batches = list(read(path, cluster(**options)))
    return pa.concat_tables([batch.jobs for batch in batches]).to_pylist(), batches


def rejected(batches: list[Batch]) -> list[tuple[int, str]]:
    return [(reject.line, reject.reason) for batch in batches for reject in batch.rejects]


def test_job_is_what_its_record_says(tmp_path: Path) -> None:
    (job,), batches = load(
        tmp_path, finish(sla="deadline1", effective="select[type == any] rusage[ngpus_physical=2.00] span[hosts=1]")
    )
    expected = {
        "job_id": "123", "user": "ada", "queue": "gpu", "account": "phys", "qos": "deadline1", "job_name": "train",
        "work_dir": "/home/ada", "state": "COMPLETED", "label": "event", "runtime_s": 3600.0, "queue_s": 10.0, "attempts": 1,
        "cpu_count": 4.0, "gpu_count": 2.0, "node_count": 1.0, "time_limit_s": 7200.0, "time_limit_kind": "hard", "flags": [],
        "node_list": "n1 n1 n1 n1", "job_key": f"c:123:{T0 * 10**6}", "source": "lsb.acct:1", "array_id": None,
    }  # fmt: skip
    assert {name: job[name] for name in expected} == expected
    assert sum(batch.rows_in for batch in batches) == 1


@pytest.mark.parametrize(
    ("fields", "state", "label"),
    [
        ({"status": 64}, "COMPLETED", "event"),
        ({"status": 192}, "COMPLETED", "event"),  # DONE, and its post-execution too
        ({"status": 32}, "FAILED", "event"),
        ({"status": 32, "exit_info": 14}, "CANCELLED", "censored"),  # TERM_OWNER
        ({"status": 32, "exit_info": 15}, "CANCELLED", "censored"),  # TERM_ADMIN
        ({"status": 32, "exit_info": 5}, "TIMEOUT", "censored"),  # TERM_RUNLIMIT
        ({"status": 32, "exit_info": 12}, "TIMEOUT", "censored"),  # TERM_CPULIMIT
        ({"status": 32, "exit_info": 16}, "OUT_OF_MEMORY", "event"),  # TERM_MEMLIMIT
        ({"status": 32, "exit_info": 1}, "PREEMPTED", "censored"),  # TERM_PREEMPT
        ({"status": 32, "exit_info": 34}, "PREEMPTED", "censored"),  # TERM_RC
        ({"status": 32, "exit_info": 6}, "DEADLINE", "censored"),  # TERM_DEADLINE
        ({"status": 32, "exit_info": 19}, "NODE_FAIL", "censored"),  # TERM_ZOMBIE
        ({"status": 32, "exit_info": 28}, "LAUNCH_FAILED", "censored"),  # TERM_PRE_EXEC_FAIL
        ({"status": 32, "exit_info": 7}, "FAILED", "event"),  # TERM_PROCESSLIMIT
        ({"status": 32, "exit_info": 99}, "FAILED", "event"),  # a reason of a later LSF
        ({"status": 32, "exit_info": 14, "start": 0, "hosts": ()}, "CANCELLED", "excluded"),
        ({"status": 32, "start": 0}, "CANCELLED", "excluded"),
    ],
)
def test_status_and_termination_reason_say_how_a_job_ended(
    tmp_path: Path, fields: dict[str, Any], state: str, label: str
) -> None:
    (job,), _ = load(tmp_path, finish(**fields))
    assert (job["state"], job["label"]) == (state, label)


def test_start_0_is_a_job_that_never_ran(tmp_path: Path) -> None:
    (job,), _ = load(tmp_path, finish(start=0, status=32, exit_info=14, hosts=()))
    assert (job["start_time"], job["runtime_s"], job["queue_s"], job["attempts"], job["flags"]) == (
        None,
        None,
        None,
        0,
        ["never_started"],
    )


@pytest.mark.parametrize(
    ("fields", "job_id", "array_id", "task", "name"),
    [
        ({"element": 23, "name": "imb_sr[1-90]"}, "123[23]", "123", 23, "imb_sr"),
        ({"element": 7, "name": "sweep[1-9:2,20]%5"}, "123[7]", "123", 7, "sweep"),
        ({"name": ""}, "123", None, None, "./train.sh"),  # as bjobs shows it
        ({"name": 'say ""hi"" "you"'}, "123", None, None, 'say ""hi"" "you"'),
        ({"name": "a b  c"}, "123", None, None, "a b  c"),
    ],
    ids=["element", "steps and a limit", "no name", "quotes", "blanks"],
)
def test_ids_are_those_that_lsf_prints(
    tmp_path: Path, fields: dict[str, Any], job_id: str, array_id: str | None, task: int | None, name: str
) -> None:
    (job,), _ = load(tmp_path, finish(**fields))
    assert (job["job_id"], job["array_id"], job["array_task"], job["job_name"]) == (job_id, array_id, task, name)


@pytest.mark.parametrize(
    "fields",
    [
        {"asked": ("n1", "n2+1")},
        {"asked": ("n1",), "hosts": ()},
        {"extensions": ((1110, "default"), (1086, "-1 -1 -1 7200 -1 "), (1041, "jfincache"))},
        {"usage": "2 n1-ib 1306 0 1287486 242 0 n2-ib 1291 0 643768 66 0"},  # as LSF 9.11 writes it, bare names
        {"usage": '1 "n1" 1306 0 1287486 242 0'},
        {"usage": '2 "n1" 1306 0 1287486 242 "n2" 1291 0 643768 66'},  # four numbers, as the manual of 10.1 has it
        {"networks": '2 "18338657682652659712" 1 "18338657682652659713" 2'},
        {"ranges": "2 1 5 1 9 9 1"},
    ],
    ids=["hosts asked for", "hosts asked for and none used", "extensions", "usage by host", "quoted", "of four", "networks", "ranges"],
)  # fmt: skip
def test_counts_in_the_record_say_how_long_its_lists_are(tmp_path: Path, fields: dict[str, Any]) -> None:
    (job,), _ = load(tmp_path, finish(**fields, effective="rusage[ngpus_physical=1/task]", requeue=T0 + 5, name='"'))
    assert (job["time_limit_s"], job["gpu_count"], job["job_name"], job["flags"]) == (7200.0, 4.0, '"', ["requeued"])


def test_requeued_job_counts_its_last_run_and_no_time_in_the_queue(tmp_path: Path) -> None:
    (job,), _ = load(tmp_path, finish(start=T0 + 600, requeue=T0 + 300))
    assert (job["runtime_s"], job["queue_s"], job["attempts"], job["flags"]) == (3010.0, None, 2, ["requeued"])


def test_runs_before_a_requeue_are_starts_of_one_job(tmp_path: Path) -> None:
    """TERM_REQUEUE_OWNER (10) twice, then a run to the end; job 8 has not run again."""
    runs = [finish(start=T0 + at, end=T0 + at + 50, status=32, exit_info=10) for at in (10, 100)]
    lines = [*runs, finish(8, status=32, exit_info=11), finish(start=T0 + 200, end=T0 + 260)]
    jobs, batches = load(tmp_path, *lines)
    names = ("job_id", "state", "label", "attempts", "runtime_s", "queue_s")
    assert [tuple(job[name] for name in names) for job in jobs] == [
        ("123", "COMPLETED", "event", 3, 60.0, None),
        ("8", "REQUEUED", "excluded", 0, None, None),
    ]
    assert jobs[1]["end_time"] is None
    assert sum(batch.rows_in for batch in batches) == len(lines)


@pytest.mark.parametrize(
    ("fields", "queue_s"),
    [
        ({"ineligible": 300}, 100.0),
        ({"begin": T0 + 350}, 50.0),
        ({"ineligible": 0, "begin": 0}, 400.0),
        ({"ineligible": 900}, 400.0),
    ],
    ids=["held by a dependency", "bsub -b", "neither", "longer than it waited"],
)
def test_time_in_which_a_job_could_not_start_is_no_time_in_the_queue(
    tmp_path: Path, fields: dict[str, int], queue_s: float
) -> None:
    (job,), _ = load(tmp_path, finish(start=T0 + 400, **fields))
    assert job["queue_s"] == queue_s


def test_hosts_in_short_form_and_of_another_cluster(tmp_path: Path) -> None:
    jobs, _ = load(tmp_path, finish(slots=128, hosts=tuple(f"16*h{n}" for n in range(8))), finish(slots=1, hosts=("n1@east",)))
    assert [(job["cpu_count"], job["node_count"], job["node_list"][:8]) for job in jobs] == [
        (128, 8, "16*h0 16"),
        (1, 1, "n1@east"),
    ]


@pytest.mark.parametrize(
    ("slots", "resources", "gpus", "hosts", "expected"),
    [
        (8, "span[ptile=2] rusage[mem=4GB]", None, 0, Request(8, None, 4, 16 * 1024.0, "")),
        (4, "rusage[ngpus_physical=2.00/host] span[ptile=2]", None, 2, Request(4, 4, 2, None, "")),
        (1, "rusage[ngpus_physical=8.00] span[hosts=1]", "num=8:j_exclusive=yes", 1, Request(1, 8, 1, None, "")),
        (4, "span[hosts=1]", "num=1/task:mode=shared:gmodel=NVIDIAH100#80G", 1, Request(4, 4, 1, None, "NVIDIAH100")),
        (1, "", "", 1, Request(1, 1, 1, None, "")),  # -gpu -
        (6, "rusage[mem=2048KB/task:ngpus_excl_p=1/job]", None, 3, Request(6, 1, 3, 12.0, "")),
        (2, "rusage[mem=6291456.00,xcelium_sc=1.00:duration=1m]", None, 1, Request(2, None, 1, None, "")),  # of what unit?
        (2, "", None, 0, Request(2, None, None, None, "")),
        (2, "select[ngpus>0 && mem>4000] rusage[tmp=1]", None, 1, Request(2, None, 1, None, "")),
    ],
)
def test_requests(slots: int, resources: str, gpus: str | None, hosts: int, expected: Request) -> None:
    assert read_request(slots, resources, gpus, hosts, "") == expected


def test_memory_without_a_unit_is_of_lsf_unit_for_limits(tmp_path: Path) -> None:
    line = finish(res_req="rusage[mem=6291456]")
    assert [load(tmp_path, line, **options)[0][0]["mem_mib"] for options in ({}, {"unit_for_limits": "kb"})] == [None, 6144.0]


def test_gpu_request_of_bsub_stands_among_the_extensions(tmp_path: Path) -> None:
    (job,), _ = load(tmp_path, finish(extensions=((1041, "jfincache"), (2000, "num=2:mode=shared:j_exclusive=yes"))))
    assert job["gpu_count"] == 2.0


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (' 4 "n1" "n1" "n1" "n1" 64', ' "n1" "n1" "n1" "n1" 64', "fields_damaged"),
        (' 0 4 "n1"', ' 04 "n1"', "fields_damaged"),
        (' 4 "n1" "n1" "n1" "n1" 64', ' 5 "n1" "n1" "n1" "n1" 64', "counts_damaged"),
        (' 0 4 "n1" "n1" "n1" "n1" 64', ' 999999999 4 "n1" "n1" "n1" "n1" 64', "counts_damaged"),
        ('"login1"', '"login1 ', "quotes_damaged"),
        (USAGE, USAGE[:-3], "fields_damaged"),
        (f" {T0} 0 0", " yesterday 0 0", "fields_damaged"),
        (" 64 60.0", " 1 60.0", "status_unreadable"),
        (f"{T0 + 3610} 123", f"{T0 + 3} 123", "end_before_start"),
        (f" 4 {T0} 0", f" 4 {T0 + 5000} 0", "start_before_submit"),
        (f" 4 {T0} 0", " 4 0 0", "submit_missing"),
        (f"{T0 + 3610} 123", f"{9 * 10**11} 123", "time_out_of_range"),
    ],
)
def test_damaged_record_is_a_reject_and_no_other(tmp_path: Path, old: str, new: str, reason: str) -> None:
    good = finish()
    assert old in good
    jobs, batches = load(tmp_path, good, good.replace(old, new, 1), good.replace(" 123 ", " 124 ", 1))
    assert [job["job_id"] for job in jobs] == ["123", "124"]
    assert rejected(batches) == [(2, reason)]


def test_records_of_other_kinds_are_passed_over_and_comments_are_none(tmp_path: Path) -> None:
    lines = [
        "# restored",
        "",
        finish(),
        finish().replace("JOB_FINISH", "JOB_RESIZE"),
        '"EVENT_ADRSV_FINISH" "10.108" 1 2 3',
        "lost",
    ]
    jobs, batches = load(tmp_path, *lines)
    assert (len(jobs), rejected(batches)) == (1, [(6, "unreadable_line")])
    skipped = {name: count for batch in batches for name, count in batch.skipped.items()}
    assert skipped == {"record_JOB_RESIZE": 1, "record_EVENT_ADRSV_FINISH": 1}


def test_text_with_line_ends_is_one_record_and_a_missing_quote_takes_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks.read_blocks, "__defaults__", (200,))  # blocks that cut records
    script = finish(1, command='#!/bin/sh\n#BSUB -n 4\necho "JOB_FINISH"')
    jobs, batches = load(tmp_path, script, finish(2).replace('"login1"', '"login1 '), finish(3))
    assert [(job["job_id"], job["source"]) for job in jobs] == [("1", "lsb.acct:1"), ("3", "lsb.acct:5")]
    assert rejected(batches) == [(4, "quotes_damaged")]


@pytest.mark.parametrize(
    ("record", "limit_s"),
    [
        # LSF 5.1: ends with the reservation
        (f'"JOB_FINISH" "5.1" {T0 + 9} 7 283 0 1 {T0} 0 0 {T0 + 2} "u" "8nm" "" "" "" "h" "d" "" "" "" "f" 0 1 "n" 64 3.3 "" "c" '
         f'{USAGE} "" "default" 0 1 "" "" 0 310424 339112 "" "" ""', None),
        # 7.06: ends with the extensions
        (f'"JOB_FINISH" "7.06" {T0 + 9} 7 283 0 1 {T0} 0 0 {T0 + 2} "u" "8nm" "" "" "" "h" "d" "" "" "" "f" 0 1 "n" 64 3.3 "" "c" '
         f'{USAGE} "" "default" 0 1 "" "" 0 3 3 "" "" "" "" 0 "" 0 "" -1 "/u" "" "" "" -1 "" "" 80 "" {T0} "" "" 0', None),
        # 9.13: ends with the slots
        (f'"JOB_FINISH" "9.13" {T0 + 9} 7 283 0 1 {T0} 0 0 {T0 + 2} "u" "8nm" "" "" "" "h" "d" "" "" "" "f" 0 1 "n" 64 3.3 "" "c" '
         f'{USAGE} "" "default" 0 1 "" "" 0 3 3 "" "" "" "" 0 "" 0 "" -1 "/u" "" "" "" -1 "" "" 80 "" {T0} "" "" 0 0 600 64 9 "select[]" '
         '"" -1 "" -1 0 "" 0 0 "" 7 "/tmp" 0 "" 0.0 0.00 0.00 0.00 0.00 1 "n"', 600.0),
    ],
    ids=["5.1", "7.06", "9.13"],
)  # fmt: skip
def test_records_of_older_versions_end_earlier(tmp_path: Path, record: str, limit_s: float | None) -> None:
    (job,), _ = load(tmp_path, record)
    assert (job["runtime_s"], job["time_limit_s"], job["account"], job["cpu_count"]) == (7.0, limit_s, "default", 1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job_id,user,submit_time,start_time,end_time,state\n1,u,2019-03-08 14:40:30,,,DONE\n", "read by `format: table`"),
        ("Subject: Job 7: <x> in cluster <c> Done\n", "nothing that LSF writes"),
        ('"JOB_NEW" "10.108" 1643910037 101 1501 33570818 1\n', "it is an lsb.events"),
        ("\n", "nothing that LSF writes"),
    ],
    ids=["the CSV that was called lsf", "a mail", "lsb.events", "nothing"],
)
def test_file_of_another_kind_is_refused_with_what_to_do(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(SourceError, match=message):
        list(read(path, cluster()))


def test_empty_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("")
    with pytest.raises(EmptyLog):
        list(read(tmp_path / "log", cluster()))
