"""sacct's records, what is news in them, and the lines of the nightly log."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runcast.data.cluster import Cluster, Source
from runcast.data.sources import slurm_sacct
from runcast.data.states import OTHER, STATES
from runcast.scheduler.events import read_event
from runcast.scheduler.slurm.accounting import (
    FIELDS,
    Told,
    epoch_s,
    jobs_in_log,
    log_text,
    new_delimiter,
    news_of,
    phase_of,
    read_records,
    sacct_command,
)

pytestmark = pytest.mark.attack

#: As Slurm 22.05.8 wrote it with SLURM_TIME_FORMAT=%s.
ENDED = {
    "JobID": "17",
    "User": "games",
    "Group": "games",
    "Account": "",
    "Partition": "gpu",
    "QOS": "normal",
    "Submit": "1796009438",
    "Start": "1796009441",
    "End": "1796009442",
    "ElapsedRaw": "1",
    "State": "COMPLETED",
    "ReqTRES": "billing=1,cpu=1,gres/gpu=2,mem=4000M,node=1",
    "TimelimitRaw": "5",
    "NodeList": "n1",
    "WorkDir": "/tmp",
    "JobName": "train",
    "JobIDRaw": "17",
}
WAITING = {
    **ENDED,
    "Start": "Unknown",
    "End": "Unknown",
    "ElapsedRaw": "0",
    "State": "PENDING",
    "NodeList": "None assigned",
    "TimelimitRaw": "Partition_Limit",
}
RUNNING = {**ENDED, "End": "Unknown", "State": "RUNNING"}
CANCELLED_BEFORE = {
    **ENDED,
    "Start": "1796009450",
    "End": "1796009450",
    "ElapsedRaw": "0",
    "State": "CANCELLED by 5",
    "NodeList": "None assigned",
}


DELIMITER = "*drawn*"


def text_of(*records: dict[str, str], delimiter: str = DELIMITER) -> str:
    return "".join(delimiter.join(record[name] for name in FIELDS) + "\n" for record in records)


def news(*records: dict[str, str], told: dict[str, Told] | None = None) -> list[tuple[int, str, str]]:
    """Return time, id and kind of what is news, in order."""
    found = news_of(records, told or {}, {"gpu": 604800.0}, gpus_tracked=True)
    return [(one.at_s, one.job_id, one.event["event"]) for one in found]


#: A whole record of another user's job, as text between separators that a name may hold.
FORGED = ["99", "mail", *(ENDED[name] for name in FIELDS[2:-1]), "99"]
HOSTILE_NAMES = {
    "bar": "a|b",
    "lines": "two\nlines",
    "line_end_only": "\n",
    "ids_on_lines": "17\n18",
    "separator_of_control": "\x1f".join(["x\n99", *FORGED]),
    "separator_and_line": "x\x1f17\n" + "\x1f".join(FORGED) + "\n18\x1fx",
    "bars_and_line": "x|17\n" + "|".join(FORGED) + "\n18|x",
    "superscript": "x\x1f\u00b2",
    "quotes": "say `hi`, it's",
    "utf8": "na\u00efve \u8bad\u7ec3",
    "odd_line_ends": "a\rb\x0bc\x85d\u2028e",
    "not_utf8": "bad\udcff",
}


@pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES)
@pytest.mark.parametrize("field", ["JobName", "WorkDir"])
def test_no_name_forges_a_record_or_hides_one(field: str, name: str) -> None:
    records = [{**ENDED, field: name}, {**ENDED, "JobID": "18", "JobIDRaw": "18"}]
    assert read_records(text_of(*records), DELIMITER) == (records, [])


def test_each_call_draws_its_delimiter() -> None:
    drawn = {new_delimiter() for _ in range(100)}
    assert len(drawn) == 100
    assert {len(one) for one in drawn} == {16}  # 96 bits


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("End", "\u00b2", "End is '\u00b2', neither seconds"),
        ("Start", "\u0661\u0667\u0669", "Start is '\u0661\u0667\u0669', neither seconds"),
        ("Submit", "Unknown", "Submit is 'Unknown', no seconds"),
        ("Submit", "9" * 5000, "Submit is longer than 4096 characters"),
        ("End", "8640000000000", "End is '8640000000000', neither seconds"),  # the year 275760
        ("End", "-5", "End is '-5', neither seconds"),
        ("JobID", "1\u00b2", "JobID is no job's id"),
        ("JobID", "", "JobID is no job's id"),
        ("JobName", "x" * 5000, "JobName is longer than 4096 characters"),
    ],
)
def test_a_record_that_cannot_be_a_jobs_is_named_and_the_others_are_read(field: str, value: str, why: str) -> None:
    others = [{**ENDED, "JobID": number, "JobIDRaw": number} for number in ("16", "18")]
    records, refused = read_records(text_of(others[0], {**ENDED, field: value}, others[1]), DELIMITER)
    assert records == others
    assert [why in reason for reason in refused] == [True]


@given(values=st.lists(st.text(), min_size=len(FIELDS), max_size=len(FIELDS)))
def test_whatever_a_record_holds_nothing_raises_and_the_next_is_read(values: list[str]) -> None:
    record = dict(zip(FIELDS, (value.replace(DELIMITER, "") for value in values), strict=True))
    records, _ = read_records(
        text_of({**record, "JobIDRaw": "1"}, ENDED, {**ENDED, **record, "JobID": "9", "Submit": "5"}), DELIMITER
    )
    assert ENDED in records
    for one in records:
        news_of([one], {}, {}, gpus_tracked=True)
        assert jobs_in_log(log_text([one, ENDED])) == 2


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1796009442", 1796009442),
        ("0", None),
        ("", None),
        ("\u00b2", None),
        ("\u0661", None),
        ("4102444800", None),
        ("1e3", None),
    ],
)
def test_a_time_is_ascii_digits_before_2100(text: str, seconds: int | None) -> None:
    assert epoch_s(text) == seconds


def test_what_is_of_no_record_is_named() -> None:
    assert read_records("sacct: warning\n" + text_of(ENDED), DELIMITER) == ([ENDED], ["not of a record: 'sacct: warning'"])
    cut = text_of(ENDED) + text_of(ENDED)[:-20]
    assert read_records(cut, DELIMITER) == ([ENDED], ["a record was cut short"])
    between = text_of(ENDED) + "noise\n" + text_of(ENDED) + "more\n"
    assert read_records(between, DELIMITER) == ([ENDED] * 2, ["not of a record: 'noise'", "not of a record: 'more'"])
    assert read_records("", DELIMITER) == ([], [])


@pytest.mark.parametrize(
    ("record", "phase"),
    [
        (WAITING, "submitted"),
        (RUNNING, "started"),
        (ENDED, "ended"),
        (CANCELLED_BEFORE, "ended"),
        pytest.param({**ENDED, "State": "REQUEUED"}, "submitted", id="requeued_is_waiting_again"),
        pytest.param({**ENDED, "State": "PREEMPTED"}, "ended", id="preempted"),
        pytest.param({**ENDED, "State": "COMPLETING"}, "started", id="completing_still_holds_its_nodes"),
        pytest.param({**ENDED, "State": "SOMETHING_NEW"}, "ended", id="a_new_word_with_an_end"),
    ],
)
def test_how_far_a_job_has_come(record: dict[str, str], phase: str) -> None:
    assert phase_of(record) == phase


def row_of_log(record: dict[str, str], folder: Path, *more: dict[str, str]) -> dict[str, Any]:
    """Return the canonical row that the reader of the nightly log makes of a job's records."""
    (folder / "sacct.txt").write_text(log_text((record, *more)), encoding="utf-8", errors="backslashreplace", newline="\n")
    source = Source(format="slurm_sacct", paths=("sacct.txt",))
    batches = slurm_sacct.read(folder / "sacct.txt", Cluster(name="c", source=source, time_zone="UTC", gpus_tracked=True))
    (row,) = [row for batch in batches for row in batch.jobs.to_pylist()]
    return row


@pytest.mark.parametrize("state", sorted(set(STATES) - {OTHER}))
def test_the_feeder_and_the_reader_of_the_log_agree_how_far_a_job_has_come(tmp_path: Path, state: str) -> None:
    record = {**ENDED, "State": state}
    row = row_of_log(record, tmp_path)
    expected = "ended" if row["end_time"] else "started" if row["start_time"] else "submitted"
    assert phase_of(record) == expected


@pytest.mark.parametrize("word", ["", "(null)", "N/A", "NULL", "None", "Unknown", "null", "none", "nobody"])
@pytest.mark.parametrize(("field", "column"), [("Account", "account"), ("Group", "group"), ("JobName", "job_name")])
def test_the_feeder_and_the_reader_of_the_log_agree_which_words_say_nothing(
    tmp_path: Path, field: str, column: str, word: str
) -> None:
    record = {**WAITING, field: word}
    (submitted,) = news_of([record], {}, {}, gpus_tracked=True)
    assert submitted.event.get(column) == row_of_log(record, tmp_path)[column]


def het(*parts: dict[str, str]) -> list[dict[str, str]]:
    """Return the records of one heterogeneous job, 17+0 and so on, each with what its part has of its own."""
    return [{**ENDED, "JobID": f"17+{at}", "JobIDRaw": f"{17 + at}", **part} for at, part in enumerate(parts)]


TWO_LIMITS = het({"TimelimitRaw": "5"}, {"TimelimitRaw": "9", "ReqTRES": "cpu=3,gres/gpu:a100=4,mem=1G,node=2"})
LATER = {"Start": "1796009443", "End": "1796009460", "ElapsedRaw": "17"}
EARLY = {"Start": "1796009435", "End": "1796009495", "ElapsedRaw": "60"}
OPEN = {"End": "Unknown", "State": "RUNNING"}
#: What became of a job: all that the feeder tells of it must be what the reader of the log makes of the same records.
AGREED = {
    "alone": [ENDED],
    "starts_before_its_submission": [{**ENDED, **EARLY}],
    "starts_before_its_submission_and_runs": [{**ENDED, **EARLY, **OPEN}],
    "starts_a_minute_before": [{**ENDED, "Start": "1796009378", "End": "1796009400"}],
    "cancelled_before_its_submission": [{**CANCELLED_BEFORE, "Start": "1796009436", "End": "1796009436"}],
    "two_parts": TWO_LIMITS,
    "parts_in_another_order": TWO_LIMITS[::-1],
    "one_part_ends_later": het({}, LATER),
    "leader_ends_later": het(LATER, {"State": "FAILED"}),
    "one_part_still_runs": het({}, OPEN),
    "all_parts_wait": [{**part, **{n: WAITING[n] for n in ("Start", "End", "State", "NodeList")}} for part in TWO_LIMITS],
    "cancelled_while_it_waited": [{**part, "JobID": f"17+{at}"} for at, part in enumerate([CANCELLED_BEFORE] * 2)],
    "one_part_without_limit": het({"TimelimitRaw": "UNLIMITED"}, {}),
    "one_part_names_no_limit": het({"TimelimitRaw": ""}, {}),
    "one_part_without_memory": het({"ReqTRES": "cpu=1,node=1"}, {}),
    "two_models_of_gpu": het({"ReqTRES": "cpu=1,gres/gpu:a100=1"}, {"ReqTRES": "cpu=1,gres/gpu:h100=1"}),
    "submitted_a_second_apart": het({}, {"Submit": "1796009439"}),
    "parts_start_before_their_submission": het(EARLY, EARLY),
}


@pytest.mark.parametrize("records", AGREED.values(), ids=AGREED)
def test_the_events_of_a_job_are_the_row_that_the_log_makes_of_it(tmp_path: Path, records: list[dict[str, str]]) -> None:
    row = row_of_log(records[0], tmp_path, *records[1:])
    told = news_of(records, {}, {}, gpus_tracked=True)
    read = [read_event(one.event, "c", now_us=int(2e15))[1] for one in told]
    kinds = ["submitted", *(["started"] if row["start_time"] else []), *(["ended"] if row["end_time"] else [])]
    assert [one.event["event"] for one in told] == kinds
    assert [one["job_key"] for one in read] == [row["job_key"]] * len(told)
    logged = {name: value for name, value in row.items() if name in read[-1] and name not in ("source", "state")}
    instants = {name: int(logged[name].timestamp() * 1e6) for name in logged if name.endswith("_time") and logged[name]}
    assert {name: read[-1][name] for name in logged} == {**logged, **instants}


def test_a_heterogeneous_job_is_told_once_as_its_parts_go() -> None:
    waits = [{**part, **{n: WAITING[n] for n in ("Start", "End", "State", "NodeList")}} for part in TWO_LIMITS]
    told: dict[str, Told] = {}
    kinds = []
    for records in (waits, het({}, OPEN), het({}, OPEN), het({}, LATER), het({}, LATER)):
        found = news_of(records, told, {}, gpus_tracked=True)
        told |= {one.job_id: one.told for one in found}
        kinds.append([(one.job_id, one.event["event"], one.at_s) for one in found])
    assert kinds == [[("17", "submitted", 1796009438)], [("17", "started", 1796009441)], [], [("17", "ended", 1796009460)], []]


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ({"Start": "1796009377"}, "Start is 61 s before Submit; clocks of one cluster differ by at most 60 s"),
        ({"End": "1796009440"}, "End is 1 s before Start"),
        ({**CANCELLED_BEFORE, "Start": "1796009300", "End": "1796009300"}, "End is 138 s before Submit"),
    ],
)
def test_a_record_that_the_reader_of_the_log_refuses_is_not_told(tmp_path: Path, times: dict[str, str], why: str) -> None:
    records, refused = read_records(text_of({**ENDED, **times}), DELIMITER)
    assert (records, [why in reason for reason in refused]) == ([], [True])
    with pytest.raises(ValueError, match="not enough values"):
        row_of_log({**ENDED, **times}, tmp_path)  # a reject, no row


@pytest.mark.parametrize(
    ("record", "told", "expected"),
    [
        pytest.param(WAITING, None, ["submitted"], id="new_and_waiting"),
        pytest.param(ENDED, None, ["submitted", "started", "ended"], id="all_at_once"),
        pytest.param(RUNNING, Told(1796009438, "submitted"), ["started"], id="has_started_since"),
        pytest.param(ENDED, Told(1796009438, "started"), ["ended"], id="has_ended_since"),
        pytest.param(ENDED, Told(1796009438, "ended", 1796009442), [], id="nothing_is_told_twice"),
        pytest.param(RUNNING, Told(1796009438, "started"), [], id="still_running"),
        pytest.param(CANCELLED_BEFORE, Told(1796009438, "submitted"), ["ended"], id="cancelled_while_it_waited"),
        pytest.param(ENDED, Told(1700000000, "ended", 1700000100), ["submitted", "started", "ended"], id="the_id_is_used_again"),
    ],
)
def test_only_what_is_new_is_told(record: dict[str, str], told: Told | None, expected: list[str]) -> None:
    assert [kind for _, _, kind in news(record, told={"17": told} if told else {})] == expected


def test_a_requeued_job_stays_the_job_of_its_first_submission() -> None:
    told = {"17": Told(1796000000, "started")}
    (ended,) = news_of([ENDED], told, {}, gpus_tracked=False)
    assert ended.event["submit_time"] == 1796000000
    assert ended.told == Told(1796000000, "ended", 1796009442)


def test_a_job_cancelled_while_it_waited_has_no_start() -> None:
    ended = news_of([CANCELLED_BEFORE], {}, {}, gpus_tracked=False)[-1]
    assert ended.event["start_time"] is None
    assert ended.event["end_time"] == 1796009450


def test_an_event_carries_what_was_known_at_submission() -> None:
    (submitted,) = news_of([WAITING], {}, {"gpu": 604800.0}, gpus_tracked=True)
    assert submitted.event == {
        "event": "submitted",
        "job_id": "17",
        "submit_time": 1796009438,
        "user": "games",
        "group": "games",
        "queue": "gpu",
        "qos": "normal",
        "job_name": "train",
        "work_dir": "/tmp",
        "cpu_count": 1.0,
        "node_count": 1.0,
        "mem_mib": 4000.0,
        "gpu_count": 2.0,
        "time_limit_s": 604800.0,
    }


def test_waiting_tasks_of_an_array_are_told_one_by_one() -> None:
    array = {**WAITING, "JobID": "2_[1-3,7-9:2%2]", "JobIDRaw": "2"}
    assert [job_id for _, job_id, _ in news(array)] == ["2_1", "2_2", "2_3", "2_7", "2_9"]
    (first, *_) = news_of([array], {}, {}, gpus_tracked=False)
    assert (first.event["array_id"], first.event["array_task"]) == ("2", 1)
    task = {**RUNNING, "JobID": "2_1", "JobIDRaw": "4"}
    assert news(array, task, told={"2_1": Told(1796009438, "submitted")})[-1] == (1796009441, "2_1", "started")
    cut = {**WAITING, "JobID": "2_[1-3,...]"}
    assert [job_id for _, job_id, _ in news(cut)] == ["2_1", "2_2", "2_3"]


def test_news_come_in_the_order_of_time() -> None:
    later = {**ENDED, "JobID": "9", "JobIDRaw": "9", "Submit": "1796009441", "Start": "1796009441", "End": "1796009500"}
    assert [(job_id, kind) for _, job_id, kind in news(later, ENDED)] == [
        ("17", "submitted"),
        ("9", "submitted"),
        ("17", "started"),
        ("9", "started"),
        ("17", "ended"),
        ("9", "ended"),
    ]


@pytest.mark.parametrize(
    "name",
    [*(one for one in HOSTILE_NAMES.values() if "\udcff" not in one), " ", "\x1c", "a\x1cb\x1dc\x1fd", " spaced ", "a\r\nb"],
)
@pytest.mark.parametrize(("field", "column"), [("JobName", "job_name"), ("WorkDir", "work_dir")])
def test_a_name_is_the_same_in_the_event_and_in_the_log(tmp_path: Path, field: str, column: str, name: str) -> None:
    record = {**WAITING, field: name}
    (submitted,) = news_of([record], {}, {}, gpus_tracked=True)
    assert submitted.event.get(column) == row_of_log(record, tmp_path)[column]


def test_jobs_of_a_log_are_counted_in_both_of_its_forms() -> None:
    records = [{**ENDED, "JobName": name} for name in HOSTILE_NAMES.values()]
    assert jobs_in_log(log_text(records)) == len(records)
    assert jobs_in_log(log_text([])) == 0
    assert jobs_in_log("JobID|User|State\n7|ada|COMPLETED\n8|ada|COMPLETED\n") == 2


def test_sacct_is_asked_in_utc() -> None:
    command = sacct_command(1796009438, 1796009442.7, DELIMITER)
    assert command[-2:] == ["--starttime=2026-11-30T03:30:38", "--endtime=2026-11-30T03:30:42"]


def test_doctests_hold() -> None:
    import doctest

    import runcast.scheduler.slurm.accounting as accounting
    import runcast.scheduler.slurm.resources as resources
    import runcast.scheduler.slurm.scorer as scorer

    results: list[Any] = [doctest.testmod(module) for module in (accounting, resources, scorer)]
    assert [(result.failed, result.attempted > 0) for result in results] == [(0, True)] * 3
