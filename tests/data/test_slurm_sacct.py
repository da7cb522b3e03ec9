"""sacct's text: what each kind of record becomes, what is rejected or skipped, and that every line has one fate."""

import gzip
import lzma
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from runcast.data.cluster import Cluster, read_cluster
from runcast.data.errors import SourceError
from runcast.data.schema import JOBS
from runcast.data.settings import EXAMPLES
from runcast.data.sources import slurm_sacct
from runcast.data.sources.batch import Batch, Reject

HEADER = "JobID|State|Submit|Start|End|Elapsed|User|JobName"


def cluster(time_zone: str = "UTC", gpus_tracked: bool = False, **options: object) -> Cluster:
    source = {"format": "slurm_sacct", "paths": ["*"], "options": options}
    return Cluster.model_validate({"name": "c", "time_zone": time_zone, "gpus_tracked": gpus_tracked, "source": source})


class Log:
    """Everything that one file gave, put together."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches
        self.table = pa.concat_tables([JOBS.empty_table(), *(batch.jobs for batch in batches)])
        self.jobs: list[dict] = self.table.to_pylist()
        self.rejects: list[Reject] = [reject for batch in batches for reject in batch.rejects]
        self.skipped = sum((Counter(batch.skipped) for batch in batches), Counter())
        self.notes = sum((Counter(batch.notes) for batch in batches), Counter())
        self.rows_in = sum(batch.rows_in for batch in batches)

    @property
    def by_id(self) -> dict[str, dict]:
        assert len({job["job_key"] for job in self.jobs}) == len(self.jobs)
        return {job["job_id"]: job for job in self.jobs}

    @property
    def reasons(self) -> list[tuple[int, str]]:
        return [(reject.line, reject.reason) for reject in self.rejects]


@pytest.fixture
def log(tmp_path):
    def read(text: str | bytes, of: Cluster | None = None, name: str = "sacct.log") -> Log:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return Log(list(slurm_sacct.read(path, of or cluster())))

    return read


def one(job_id: str = "7", state: str = "COMPLETED", **changed: str) -> str:
    """A log of one job that ran from 10:00:05 to 10:01:05, with `changed` fields in place of the usual or beside them."""
    day = "2024-03-01T"
    usual = {"JobID": job_id, "State": state, "Submit": day + "10:00:00", "Start": day + "10:00:05", "End": day + "10:01:05"}
    fields = usual | changed
    return "|".join(fields) + "\n" + "|".join(fields.values()) + "\n"


def rows(*records: str) -> str:
    return "\n".join((HEADER, *records)) + "\n"


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2024-03-01T{clock}").replace(tzinfo=UTC)


# --- states, sentinels and labels


def test_cancelled_before_its_start_never_started_and_is_excluded(log):
    job = log(rows("901|CANCELLED by 700|2024-03-01T10:00:00|None|2024-03-01T10:05:00|00:00:00|u|n")).jobs[0]
    assert (job["state"], job["start_time"], job["runtime_s"], job["queue_s"]) == ("CANCELLED", None, None, None)
    assert (job["label"], job["attempts"], job["flags"]) == ("excluded", 0, ["never_started"])
    assert job["end_time"] == at("10:05:00")


def test_finished_job_without_end_is_rejected_not_imputed(log):
    read = log(rows("902|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:05|Unknown|00:00:17|u|n"))
    assert read.jobs == []
    assert read.reasons == [(2, "end_missing")]
    assert read.rejects[0].raw == "902|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:05|Unknown|00:00:17|u|n"


def test_pending_job_is_kept_open_and_excluded(log):
    job = log(rows("903|PENDING|2024-03-01T10:00:00|Unknown|Unknown|00:00:00|u|n")).jobs[0]
    assert (job["state"], job["start_time"], job["end_time"], job["label"]) == ("PENDING", None, None, "excluded")
    assert job["flags"] == []


@pytest.mark.parametrize("none", ["None", "Unknown", "N/A", "NULL", "", "1970-01-01", "1970-01-01T00:00:00"])
def test_every_word_for_no_time_is_no_time(log, none):
    job = log(rows(f"1|CANCELLED|2024-03-01T10:00:00|{none}|2024-03-01T10:05:00|00:00:00|u|n")).jobs[0]
    assert (job["start_time"], job["flags"]) == (None, ["never_started"])


@pytest.mark.parametrize(
    ("state", "start", "end", "label", "runtime_s"),
    [
        ("COMPLETED", "10:00:05", "10:01:05", "event", 60.0),
        ("FAILED", "10:00:05", "10:01:05", "event", 60.0),
        ("OUT_OF_MEMORY", "10:00:05", "10:01:05", "event", 60.0),
        ("OUT_OF_ME+", "10:00:05", "10:01:05", "event", 60.0),
        ("TIMEOUT", "10:00:05", "10:01:05", "censored", 60.0),
        ("CANCELLED by 54321", "10:00:05", "10:01:05", "censored", 60.0),
        ("CANCELLED+", "10:00:05", "10:01:05", "censored", 60.0),
        ("PREEMPTED", "10:00:05", "10:01:05", "censored", 60.0),
        ("NODE_FAIL", "10:00:05", "10:01:05", "censored", 60.0),
        ("DEADLINE", "10:00:05", "10:01:05", "censored", 60.0),
        ("SOMETHING_NEW", "10:00:05", "10:01:05", "censored", 60.0),
        ("RUNNING", "10:00:05", "Unknown", "censored", None),
        ("RUNNING", "10:00:05", "11:00:05", "censored", None),
        ("PENDING", "12:00:00", "Unknown", "excluded", None),
        ("COMPLETED", "10:00:05", "10:00:05", "event", 0.0),
    ],
)
def test_label_and_runtime_by_state(log, state, start, end, label, runtime_s):
    end = end if end == "Unknown" else f"2024-03-01T{end}"
    job = log(rows(f"1|{state}|2024-03-01T10:00:00|2024-03-01T{start}|{end}||u|n")).jobs[0]
    assert (job["label"], job["runtime_s"]) == (label, runtime_s)


def test_end_of_a_running_job_is_a_forecast_and_left_out(log):
    job = log(rows("1|RUNNING|2024-03-01T09:00:00|2024-03-01T10:00:00|2024-03-22T10:00:00|00:16:40|u|n")).jobs[0]
    assert (job["end_time"], job["runtime_s"], job["label"], job["start_time"]) == (None, None, "censored", at("10:00:00"))


def test_expected_start_of_a_pending_job_is_a_forecast_and_left_out(log):
    job = log(rows("1|PENDING|2024-03-01T09:00:00|2024-03-02T10:00:00|Unknown|00:00:00|u|n")).jobs[0]
    assert (job["start_time"], job["queue_s"], job["attempts"]) == (None, None, 0)


def test_unknown_state_is_kept_as_other_and_counted(log):
    read = log(one(state="SOMETHING_NEW"))
    assert (read.jobs[0]["state"], read.notes["unknown_state"]) == ("OTHER", 1)


def test_cancelled_while_it_waited_shows_one_instant_and_no_nodes(log):
    text = one(state="CANCELLED by 3", Start="2024-03-01T10:05:00", End="2024-03-01T10:05:00", NodeList="None assigned")
    job = log(text).jobs[0]
    assert (job["start_time"], job["runtime_s"], job["label"], job["node_list"]) == (None, None, "excluded", None)


def test_instant_failure_on_a_node_started(log):
    job = log(one(state="FAILED", End="2024-03-01T10:00:05", NodeList="n1")).jobs[0]
    assert (job["runtime_s"], job["label"], job["attempts"], job["node_list"]) == (0.0, "event", 1, "n1")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"Submit": "Unknown"}, "submit_missing"),
        ({"Submit": "yesterday"}, "submit_unreadable"),
        ({"Start": "soon"}, "start_unreadable"),
        ({"End": "late"}, "end_unreadable"),
        ({"Start": "Unknown"}, "start_missing"),
        ({"End": "2024-03-01T10:00:04"}, "end_before_start"),
        ({"Start": "2024-03-01T09:58:59"}, "start_before_submit"),
        ({"Elapsed": "-0:00:16"}, "elapsed_unreadable"),
        ({"End": "2124-03-01T10:00:04"}, "time_out_of_range"),
        ({"JobID": "seven"}, "job_id_unreadable"),
        ({"State": "CANCELLED", "Start": "None", "End": "2024-03-01T09:00:00"}, "end_before_submit"),
    ],
)
def test_what_cannot_be_a_job_is_rejected_with_its_reason(log, changed, reason):
    text = one(**changed)
    read = log(text)
    assert read.reasons == [(2, reason)]
    assert read.rejects[0].raw == text.splitlines()[1]
    assert read.rejects[0].file == "sacct.log"
    assert read.jobs == []


@pytest.mark.parametrize("digits", ["²", "٣٤", "1²", "９"])
@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ("JobID", "job_id_unreadable"),
        ("Submit", "submit_unreadable"),
        ("End", "end_unreadable"),
        ("Elapsed", "elapsed_unreadable"),
    ],
)
def test_digits_of_other_scripts_are_no_numbers(log, column, reason, digits):
    read = log(one(**{column: digits}))
    assert (read.reasons, read.jobs) == ([(2, reason)], [])


@pytest.mark.parametrize("digits", ["²", "٣٤", "1²", "９"])
def test_digits_of_other_scripts_are_no_request(log, digits):
    job = log(one(ReqCPUS=digits, ReqMem=digits, Timelimit=digits, Restarts=digits, ReqTRES=f"gres/gpu={digits}")).jobs[0]
    assert [job[name] for name in ("cpu_count", "mem_mib", "time_limit_s", "gpu_count", "attempts")] == [None] * 4 + [1]


@pytest.mark.parametrize("epoch", ["9" * 11, "9" * 40, "4102444800"])
def test_times_beyond_any_clock_are_rejects(log, epoch):
    assert [reason for _, reason in log(one(End=epoch)).reasons] in (["time_out_of_range"], ["end_unreadable"])


def test_start_seconds_before_the_submission_is_a_clock_that_is_off(log):
    read = log(one(Start="2024-03-01T09:59:58"))
    job = read.jobs[0]
    assert (job["submit_time"], job["start_time"], job["queue_s"]) == (at("10:00:00"), at("10:00:00"), 0.0)
    assert (job["runtime_s"], job["end_time"] - job["start_time"]) == (67.0, timedelta(seconds=67))
    assert (job["flags"], read.notes["start_before_submit"]) == (["start_before_submit"], 1)


@pytest.mark.parametrize(
    ("state", "more", "started"),
    [
        ("CANCELLED by 3", {}, False),
        ("DEADLINE", {}, False),
        ("CANCELLED by 3", {"Elapsed": "00:00:00", "NNodes": "1"}, False),
        ("FAILED", {"NNodes": "0"}, False),
        ("FAILED", {"NNodes": "1"}, True),
        ("COMPLETED", {}, True),
        ("CANCELLED by 3", {"NodeList": "n1"}, True),
    ],
)
def test_job_without_length_in_a_log_without_nodes_never_started_where_that_may_be(log, state, more, started):
    """Older Slurm shows the cancellation as start and end; NNodes is what was asked for, or 0."""
    job = log(one(state=state, Start="2024-03-01T10:05:00", End="2024-03-01T10:05:00", **more)).jobs[0]
    assert (job["start_time"] is not None, job["runtime_s"], job["attempts"]) == (started, 0.0 if started else None, int(started))


# --- text that spans fields or lines


def test_free_text_last_keeps_delimiters_and_line_ends(log):
    ended = "2024-03-01T10:00:00|2024-03-01T10:00:05|2024-03-01T10:01:05|00:01:00"
    read = log(rows(f"904|COMPLETED|{ended}|u1|ab|cd", f"905|COMPLETED|{ended}|u1|line1\nline2", f"906|FAILED|{ended}|u2|ok"))
    assert {i: job["job_name"] for i, job in read.by_id.items()} == {"904": "ab|cd", "905": "line1\nline2", "906": "ok"}
    assert [job["source"] for job in read.jobs] == ["sacct.log:2", "sacct.log:3", "sacct.log:5"]
    assert (read.rejects, read.notes["continuation_lines"]) == ([], 1)


def test_wrong_field_count_with_free_text_inside_rejects_that_row_alone(log):
    header, record = one(JobName="name", User="u").splitlines()
    names = [name for name in header.split("|") if name != "JobName"]
    moved = "|".join(["JobName", *names])
    fields = record.split("|")
    values = "|".join([*fields[:5], "u"])
    read = log(f"{moved}\na|b|{values}\nplain|{values}\nx\ny|{values.replace('7', '8', 1)}\n")
    assert read.reasons == [(2, "wrong_field_count"), (4, "wrong_field_count")]
    assert read.rejects[0].raw == f"a|b|{values}"
    assert "expected 7 fields, found 8" in read.rejects[0].detail
    assert [job["job_name"] for job in read.jobs] == ["plain", "y"]


def test_record_cut_off_by_a_dying_sacct_is_rejected_not_taken_for_a_name(log):
    ended = "2024-03-01T10:00:00|2024-03-01T10:00:05|2024-03-01T10:01:05|00:01:00"
    read = log(rows(f"1|COMPLETED|{ended}|u|n", "2|COMPL"))
    assert read.reasons == [(3, "wrong_field_count")]
    assert read.jobs[0]["job_name"] == "n"


def test_header_of_another_export_inside_is_no_part_of_a_name(log):
    ended = "2024-03-01T10:00:00|2024-03-01T10:00:05|2024-03-01T10:01:05|00:01:00"
    read = log(rows(f"1|COMPLETED|{ended}|u|n") + one("2"))
    assert read.reasons == [(3, "wrong_field_count"), (4, "wrong_field_count")]
    assert read.jobs[0]["job_name"] == "n"


def test_lines_of_one_name_are_one_reject_and_those_that_may_be_records_are_not(log):
    ended = "2024-03-01T10:00:00|2024-03-01T10:00:05|2024-03-01T10:01:05|00:01:00"
    name = "x\n" + "\n".join(["1|2"] * 60)
    read = log(
        rows(f"1|COMPLETED|{ended}|games|{name}", f"2|COMPLETED|{ended}|u|n", f"3|COMPLETED|{ended}", f"4|COMPLETED|{ended}")
    )
    assert read.reasons == [(3, "wrong_field_count"), (64, "wrong_field_count"), (65, "wrong_field_count")]
    assert read.rejects[0].raw == "\n".join(["1|2"] * 60)
    assert (read.notes["continuation_lines"], read.rows_in) == (59, 5)


def test_lines_longer_than_any_name_are_rejects_of_their_own(log):
    ended = "2024-03-01T10:00:00|2024-03-01T10:00:05|2024-03-01T10:01:05|00:01:00"
    read = log(rows(f"1|COMPLETED|{ended}|u|x", *["1|" + "y" * 98] * 6))
    assert read.reasons == [(3, "wrong_field_count"), (5, "wrong_field_count"), (7, "wrong_field_count")]


def test_continuation_across_blocks_belongs_to_its_record(log, monkeypatch):
    monkeypatch.setattr(slurm_sacct, "BLOCK_BYTES", 64)
    ended = "2024-03-01T10:00:00|2024-03-01T10:00:05|2024-03-01T10:01:05|00:01:00"
    read = log(rows(*(f"{i}|COMPLETED|{ended}|u|a{i}\nb|{i}\nc" for i in range(9))))
    assert [job["job_name"] for job in read.jobs] == [f"a{i}\nb|{i}\nc" for i in range(9)]
    assert [job["source"] for job in read.jobs] == [f"sacct.log:{2 + 3 * i}" for i in range(9)]


def test_mark_at_the_end_of_records_allows_line_ends_anywhere(log):
    header, record = one(JobName="two\nlines", User="u").splitlines()[0], "7|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:05"
    text = (
        f"{header}@@\n{record}|2024-03-01T10:01:05|two\nlines|u@@\n{record.replace('7', '8', 1)}|2024-03-01T10:01:05|n|u@@\nrest"
    )
    read = log(text, cluster(record_end="@@"))
    assert [(job["job_name"], job["source"]) for job in read.jobs] == [("two\nlines", "sacct.log:2"), ("n", "sacct.log:4")]
    assert read.reasons == [(5, "record_end_missing")]


def test_damaged_records_that_end_with_a_mark_are_refused_one_by_one(log):
    text = "JobID|State|Submit|Start|End|JobName@@\n1|short@@\n2|short@@\n"
    assert log(text, cluster(record_end="@@")).reasons == [(2, "wrong_field_count"), (3, "wrong_field_count")]


@pytest.mark.parametrize("delimiter", ["^|^", "\x1f", "\t", ";", "¦", "@@"])
def test_other_delimiters(log, delimiter):
    text = one(JobName="a|b").split("\n")
    header, record = text[0], text[1].replace("a|b", "\0")
    other = f"{header.replace('|', delimiter)}\n{record.replace('|', delimiter)}\n".replace("\0", "a|b")
    job = log(other, cluster(delimiter=delimiter)).jobs[0]
    assert (job["job_name"], job["runtime_s"]) == ("a|b", 60.0)


def test_parsable_with_a_delimiter_at_the_end_of_lines(log):
    text = "".join(line + "|\n" for line in one(JobName="n").splitlines())
    assert log(text).jobs[0]["job_name"] == "n"
    bare = text.split("\n", 1)[1]
    names = one(JobName="n").splitlines()[0].split("|")
    assert log(bare, cluster(columns=names)).jobs[0]["job_name"] == "n"


@pytest.mark.parametrize(
    "option", [{"delimiter": ""}, {"delimiter": "\n"}, {"record_end": "a\r"}, {"delimeter": "|"}, {"columns": []}]
)
def test_options_that_make_no_sense_are_refused(option):
    with pytest.raises(ValidationError):
        slurm_sacct.Options.model_validate(option)


# --- headers, columns, files


def test_log_without_header_takes_its_columns_from_the_cluster_file(log):
    header, record = one().splitlines()
    bare = log(record + "\n", cluster(columns=header.split("|")))
    assert bare.jobs == [{**job, "source": "sacct.log:1"} for job in log(one()).jobs]


def test_header_that_is_there_although_columns_are_given_is_no_record(log):
    read = log(one(), cluster(columns=one().splitlines()[0].split("|")))
    assert (read.rows_in, len(read.jobs)) == (1, 1)


def test_header_repeated_inside_is_skipped(log):
    read = log(one() + one(job_id="8"))
    assert (len(read.jobs), dict(read.skipped), read.rows_in) == (2, {"repeated_header": 1}, 3)


def test_column_order_does_not_matter(log):
    header, record = (line.split("|") for line in one(User="u", ReqTRES="cpu=2,mem=4G,node=1").splitlines())
    pairs = list(zip(header, record, strict=True))
    expected = log(one(User="u", ReqTRES="cpu=2,mem=4G,node=1")).table
    for order in list(permutations(pairs))[:: 5040 // 12]:
        text = "|".join(n for n, _ in order) + "\n" + "|".join(v for _, v in order) + "\n"
        assert log(text).table.equals(expected)


@pytest.mark.parametrize(
    ("columns", "missing"),
    [
        ("ConsumedEnergyRaw|CPUTimeRAW|ReqCPUS|ReqMem|Submit|Timelimit|Partition|QOS|State", "JobID, Start, End, Elapsed"),
        ("JobID|Start|End", "Submit, State"),
        ("JobID|Submit|State|Start", "End, Elapsed"),
        ("JobID|Submit|State|Elapsed", "Start, End"),
    ],
)
def test_log_without_what_a_runtime_needs_is_refused_naming_the_columns(log, columns, missing):
    with pytest.raises(SourceError, match=f"lacks {missing};"):
        log(columns + "\n" + "|".join("1" for _ in columns.split("|")) + "\n")


@pytest.mark.parametrize("left_out", ["Start", "End"])
def test_elapsed_stands_in_for_a_column_the_log_lacks(log, left_out):
    header, record = (line.split("|") for line in one(Elapsed="00:01:00").splitlines())
    at_column = header.index(left_out)
    text = "\n".join("|".join(v for i, v in enumerate(line) if i != at_column) for line in (header, record)) + "\n"
    job = log(text).jobs[0]
    assert (job["start_time"], job["end_time"], job["runtime_s"]) == (at("10:00:05"), at("10:01:05"), 60.0)


def test_missing_empty_and_other_files_are_source_errors(log, tmp_path):
    with pytest.raises(SourceError, match="no such file"):
        list(slurm_sacct.read(tmp_path / "absent", cluster()))
    with pytest.raises(SourceError, match="empty"):
        log("")
    with pytest.raises(SourceError, match="blank"):
        log("\n\n")
    with pytest.raises(SourceError, match="no header"):
        log("; SWF\n1 0 5 0\n")
    with pytest.raises(SourceError, match="no header"):
        log("JobID           State\n------------ ---------\n7 COMPLETED\n")
    with pytest.raises(SourceError, match="no header"):
        log(one(), cluster(delimiter=";"))


def test_byte_order_mark_carriage_returns_and_blank_lines(log):
    expected = log(one()).jobs
    read = log("\ufeff" + one().replace("\n", "\r\n\r\n"))
    assert [{**job, "source": ""} for job in read.jobs] == [{**job, "source": ""} for job in expected]


def test_names_that_are_not_utf8_stay_apart_and_are_counted(log):
    record = "{0}|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:05|2024-03-01T10:01:05|00:01:00|u|f?r"
    text = rows(*(record.format(i) for i in (7, 8, 9))).encode().replace(b"?", b"\xfc", 1).replace(b"?", b"\xf6", 1)
    read = log(text)
    assert [job["job_name"] for job in read.jobs] == ["f\\xfcr", "f\\xf6r", "f?r"]
    assert read.notes["lines_not_utf8"] == 2


def test_compressed_files_give_the_same_jobs(log):
    text = (one() + one("8")).encode()
    expected = log(text).table
    for pack in (gzip.compress, lzma.compress):
        assert log(pack(text)).table.equals(expected)
    with pytest.raises(SourceError, match="damaged or cut"):
        log(gzip.compress(text * 9)[:-20])


def test_jobs_of_several_clusters_need_a_choice(log):
    text = one(Cluster="a") + one(Cluster="b").split("\n", 1)[1]
    with pytest.raises(SourceError, match="several clusters \\('a, b'\\)"):
        log(text)
    read = log(text, cluster(slurm_cluster="b"))
    assert ([job["source"] for job in read.jobs], dict(read.skipped)) == (["sacct.log:3"], {"other_cluster": 1})


# --- steps, arrays, het jobs


def test_steps_are_skipped_and_never_lengthen_the_job(log):
    read = log(
        "JobID|State|User|Submit|Start|End|Elapsed\n"
        "60|COMPLETED|u|2024-03-01T00:00:00|2024-03-01T00:00:00|2024-03-01T03:33:25|03:33:25\n"
        "60.batch|CANCELLED||2024-03-01T00:00:00|2024-03-01T00:00:00|2024-03-01T03:33:56|03:33:56\n"
        "60.extern|COMPLETED||2024-03-01T00:00:00|2024-03-01T00:00:00|2024-03-01T03:33:25|03:33:25\n"
        "60.0|COMPLETED||2024-03-01T00:00:00|Unknown|Unknown|00:00:00\n"
    )
    assert [(job["runtime_s"], job["state"], job["user"]) for job in read.jobs] == [(12_805.0, "COMPLETED", "u")]
    assert (dict(read.skipped), read.rejects) == ({"step": 3}, [])


def test_array_tasks_and_those_that_still_wait(log):
    waits = "2024-03-01T10:00:00|Unknown|Unknown|00:00:00|u|n"
    read = log(
        rows(
            f"12_[4-9%2]|PENDING|{waits}",
            f"12_[1,3,5-7]|PENDING|{waits}",
            "12_3|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:05|2024-03-01T10:01:05|00:01:00|u|n",
            "14|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:05|2024-03-01T10:01:05|00:01:00|u|n",
        )
    )
    found = [(job["job_id"], job["array_id"], job["array_task"], job["label"]) for job in read.jobs]
    assert found == [
        ("12_[4-9%2]", "12", None, "excluded"),
        ("12_[1,3,5-7]", "12", None, "excluded"),
        ("12_3", "12", 3, "event"),
        ("14", None, None, "event"),
    ]
    assert read.notes["array_rest_tasks"] == 6 + 5


HET = """JobID|JobIDRaw|User|Submit|Start|End|Elapsed|State|ReqTRES|Timelimit|NodeList|JobName
50+0|50|ada|{0}00:00|{0}00:10|{0}50:10|00:50:00|COMPLETED|cpu=16,mem=4G,gres/gpu:a100=8,node=1|02:00:00|g1|het
50+0.batch|50.batch||{0}00:10|{0}00:10|{0}50:10|00:50:00|COMPLETED|||g1|batch
50+1|51|ada|{0}00:00|{0}00:11|{0}59:10|00:58:59|{1}|cpu=4,mem=1G,node=2|01:00:00|n[1-2]|het
51|51|bob|{0}02:00|{0}03:00|{0}50:00|00:47:00|COMPLETED|cpu=4,mem=1G,node=1|01:00:00|n3|next
"""


def test_parts_of_a_heterogeneous_job_are_one_job(log):
    read = log(HET.format("2024-03-01T10:", "FAILED"), cluster(gpus_tracked=True))
    job = read.by_id["50"]
    assert set(read.by_id) == {"50", "51"}
    assert [job[name] for name in ("cpu_count", "mem_mib", "node_count", "gpu_count", "gpu_model")] == [20, 5120, 3, 8, "a100"]
    assert (job["start_time"], job["end_time"], job["runtime_s"]) == (at("10:00:10"), at("10:59:10"), 3540.0)
    assert (job["state"], job["label"], job["attempts"], job["queue_s"]) == ("COMPLETED", "event", 1, 10.0)
    assert (job["time_limit_s"], job["node_list"], job["flags"]) == (7200.0, "g1,n[1-2]", ["heterogeneous"])
    assert (dict(read.skipped), read.rows_in) == ({"step": 1, "het_part": 1}, 4)


def test_heterogeneous_job_runs_as_long_as_one_of_its_parts(log):
    text = HET.format("2024-03-01T10:", "RUNNING").replace("2024-03-01T10:59:10", "Unknown")
    job = log(text).by_id["50"]
    assert (job["state"], job["end_time"], job["runtime_s"], job["label"]) == ("RUNNING", None, None, "censored")


def test_parts_that_slurmctld_made_a_second_apart_are_one_job(log):
    apart = HET.format("2024-03-01T10:", "FAILED").replace("50+1|51|ada|2024-03-01T10:00:00", "50+1|51|ada|2024-03-01T10:00:01")
    read = log(apart)
    job = read.by_id["50"]
    assert (len(read.jobs), job["submit_time"], job["cpu_count"], job["runtime_s"]) == (2, at("10:00:00"), 20, 3540.0)


def test_limit_of_a_heterogeneous_job_has_the_kind_of_the_part_that_names_it(log):
    job = log(HET.format("2024-03-01T10:", "FAILED").replace("02:00:00|g1", "|g1")).by_id["50"]
    assert (job["time_limit_s"], job["time_limit_kind"]) == (3600.0, "hard")


def test_job_that_started_before_its_submission_is_one_while_it_waits_and_after(log):
    read = log(
        "JobID|State|User|Submit|Start|End|Elapsed\n"
        "60|PENDING|u|2024-03-01T10:00:00|Unknown|Unknown|00:00:00\n"
        "60|COMPLETED|u|2024-03-01T10:00:00|2024-03-01T09:59:58|2024-03-01T10:05:00|00:05:02\n"
    )
    assert [(job["state"], job["runtime_s"]) for job in read.jobs] == [("COMPLETED", 302.0)]
    assert read.jobs[0]["job_key"].endswith(f":60:{int(at('10:00:00').timestamp())}000000")


def test_heterogeneous_job_is_one_whatever_the_order_and_repetition_of_its_records(log):
    header, *records = HET.format("2024-03-01T10:", "FAILED").splitlines()
    expected = {**log(HET.format("2024-03-01T10:", "FAILED")).by_id["50"], "source": ""}
    for order in permutations(records):
        read = log("\n".join((header, *order, records[2])) + "\n")
        assert {**read.by_id["50"], "source": ""} == expected
        assert read.rows_in == 5


def test_requeued_heterogeneous_job_is_one_job(log):
    first = HET.format("2024-03-01T10:", "REQUEUED").replace("COMPLETED|cpu=16", "REQUEUED|cpu=16")
    again = HET.format("2024-03-01T11:", "COMPLETED").split("\n", 1)[1]
    job = log(first + again).by_id["50"]
    assert (job["submit_time"], job["start_time"], job["runtime_s"]) == (at("10:00:00"), at("11:00:10"), 3540.0)
    assert (job["attempts"], job["flags"]) == (2, ["heterogeneous", "requeued"])


# --- requeues, recycled ids, duplicates


REQUEUED = (
    "907|REQUEUED|2024-03-01T10:00:00|2024-03-01T10:01:00|2024-03-01T11:00:00|00:59:00|u|n",
    "907|COMPLETED|2024-03-01T10:00:00|2024-03-01T11:05:00|2024-03-01T12:05:00|01:00:00|u|n",
)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_resized_job_is_one_run_with_what_it_first_asked_for(log, order):
    """scontrol update NumNodes ends a record in RESIZING and begins one with the same submission; Slurm's accounting plugin."""
    columns = "JobID|User|Submit|Start|End|Elapsed|State|ReqTRES|NodeList|JobName\n"
    records = [
        f"1|ada|2024-03-01T10:00:00|2024-03-01T{start}|2024-03-01T{end}|{elapsed}|{state}|cpu={cpus},node={cpus}|n1|shrink"
        for start, end, elapsed, state, cpus in (
            ("10:00:10", "10:30:10", "00:30:00", "RESIZING", 4),
            ("10:30:10", "11:00:10", "00:30:00", "RESIZING", 2),
            ("11:00:10", "11:30:10", "00:30:00", "COMPLETED", 1),
        )
    ]
    read = log(columns + "\n".join(records[i] for i in order) + "\n")
    job = read.by_id["1"]
    assert (job["start_time"], job["runtime_s"], job["attempts"], job["queue_s"]) == (at("10:00:10"), 5400.0, 1, 10.0)
    assert (job["cpu_count"], job["label"], job["flags"]) == (4.0, "event", ["resized"])
    assert dict(read.skipped) == {"resized": 2}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_requeued_job_is_one_job_labelled_by_its_last_attempt(log, order):
    read = log(rows(*(REQUEUED[i] for i in order)))
    job = read.jobs[0]
    assert (len(read.jobs), job["runtime_s"], job["label"], job["attempts"]) == (1, 3600.0, "event", 2)
    assert (job["flags"], job["queue_s"], job["submit_time"]) == (["requeued"], 60.0, at("10:00:00"))
    assert (dict(read.skipped), read.rows_in) == ({"earlier_attempt": 1}, 2)


def test_requeued_job_with_a_new_submission_time_keeps_its_first(log):
    second = REQUEUED[1].replace("2024-03-01T10:00:00", "2024-03-01T11:00:01")
    job = log(rows(REQUEUED[0], second)).jobs[0]
    assert (job["submit_time"], job["runtime_s"], job["attempts"], job["queue_s"]) == (at("10:00:00"), 3600.0, 2, 60.0)


def test_preempted_job_that_is_queued_again_at_once_is_one_job(log):
    first = REQUEUED[0].replace("REQUEUED", "PREEMPTED")
    second = REQUEUED[1].replace("2024-03-01T10:00:00", "2024-03-01T11:00:01")
    assert [job["attempts"] for job in log(rows(first, second)).jobs] == [2]


def test_requeued_job_without_a_second_attempt_waits_again(log):
    job = log(rows(REQUEUED[0])).jobs[0]
    assert (job["state"], job["end_time"], job["runtime_s"], job["label"], job["flags"]) == (
        "REQUEUED",
        None,
        None,
        "excluded",
        ["requeued"],
    )


def test_recycled_id_is_two_jobs(log):
    record = "908|COMPLETED|{0}-05-01T00:00:00|{0}-05-01T00:00:01|{0}-05-01T00:00:11|00:00:10|u|n"
    read = log(rows(record.format(2017), record.format(2024)))
    assert len({job["job_key"] for job in read.jobs}) == 2
    assert not read.skipped


def test_attempts_far_apart_in_the_file_are_joined(log, monkeypatch):
    monkeypatch.setattr(slurm_sacct, "BLOCK_BYTES", 256)
    others = [
        f"{i}|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:05|2024-03-01T10:01:05|00:01:00|u|n" for i in range(1000, 1020)
    ]
    read = log(rows(REQUEUED[0], *others, REQUEUED[1]))
    assert len(read.batches) > 3
    assert (len(read.jobs), read.by_id["907"]["attempts"], read.by_id["907"]["runtime_s"]) == (21, 2, 3600.0)
    assert dict(read.skipped) == {"earlier_attempt": 1}


def test_same_file_twice_in_one_gives_the_same_jobs(log):
    text = rows(*REQUEUED, REQUEUED[1].replace("907", "3"))
    once, twice = log(text), log(text * 2)
    assert sorted(job["job_key"] for job in twice.jobs) == sorted(job["job_key"] for job in once.jobs)
    assert twice.by_id["907"]["attempts"] == 2
    assert twice.by_id["3"]["attempts"] == 1


def test_running_job_met_again_when_it_has_ended_is_its_ended_record(log):
    running = "9|RUNNING|2024-03-01T10:00:00|2024-03-01T10:01:00|Unknown|00:10:00|u|n"
    ended = "9|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:01:00|2024-03-01T11:01:00|01:00:00|u|n"
    for order in ((running, ended), (ended, running)):
        read = log(rows(*order))
        assert [(job["state"], job["runtime_s"], job["attempts"], job["flags"]) for job in read.jobs] == [
            ("COMPLETED", 3600.0, 1, [])
        ]
        assert dict(read.skipped) == {"duplicate": 1}


def test_restarts_that_the_log_counts_are_attempts(log):
    job = log(one(Restarts="2")).jobs[0]
    assert (job["attempts"], job["queue_s"]) == (3, None)


# --- requests


@pytest.mark.parametrize(
    ("tres", "tracked", "count", "model"),
    [
        ("cpu=32,gres/gpu:a100=4,gres/gpu=4,node=1", True, 4.0, "a100"),
        ("cpu=8,gres/gpu:a100=2,gres/gpu:v100=1", True, 3.0, "mixed"),
        ("cpu=8,mem=1G,node=1,billing=8", True, 0.0, None),
        ("cpu=8,mem=1G,node=1,billing=8", False, None, None),
        ("cpu=8,gres/shard=4,node=1", True, None, None),
        ("cpu=8,gres/shard:tesla=4,gres/shard=4,gres/gpu=0,node=1", True, None, None),
        ("cpu=8,gres/mps=50,gres/gpu=1,node=1", True, 1.0, None),
        ("cpu=8,gres/npu:910b=8,node=1", True, None, None),
        ("cpu=8,gres/tmpdisk=100,node=1", True, 0.0, None),
        ("N/A", True, None, None),
        ("", True, None, None),
    ],
)
def test_gpus_asked_for(log, tres, tracked, count, model):
    job = log(one(ReqTRES=tres, AllocTRES="cpu=1,gres/gpu=9"), cluster(gpus_tracked=tracked)).jobs[0]
    assert (job["gpu_count"], job["gpu_model"]) == (count, model)


def test_gres_is_per_node(log):
    job = log(one(ReqGRES="gpu:2", ReqNodes="3")).jobs[0]
    assert (job["gpu_count"], job["node_count"]) == (6.0, 3.0)
    assert log(one(ReqGRES="gpu:2", NNodes="3")).jobs[0]["gpu_count"] is None
    assert log(one(ReqGRES="PER_JOB:gpu:4")).jobs[0]["gpu_count"] == 4.0
    assert log(one(ReqGRES="PER_NODE:gpu:v100:2,gpu:1", ReqNodes="3")).jobs[0]["gpu_count"] == 9.0


def test_allocation_stands_in_only_where_the_cluster_file_says_so(log):
    text = one(NCPUS="24", NNodes="2", ReqMem="4Gn", AllocTRES="cpu=24,mem=8G,node=2,gres/gpu:a100=2")
    job = log(text).jobs[0]
    assert [job[name] for name in ("cpu_count", "node_count", "mem_mib", "gpu_count")] == [None] * 4
    job = log(text, cluster(allocated_as_requested=True)).jobs[0]
    assert [job[name] for name in ("cpu_count", "node_count", "mem_mib", "gpu_count")] == [24.0, 2.0, 8192.0, 2.0]
    assert (job["gpu_model"], job["flags"]) == ("a100", ["allocated_as_requested"])


@pytest.mark.parametrize(
    ("memory", "cpus", "nodes", "mem_mib"),
    [
        ("4Gn", "4", "2", 8192.0),
        ("2000Mc", "8", "1", 16_000.0),
        ("0n", "8", "1", None),
        ("1.50Gn", "8", "1", 1536.0),
        ("2147486648Mn", "8", "1", 24_000.0),
        ("20H", "8", "1", None),
        ("4G", "8", "2", 4096.0),
    ],
)
def test_memory_asked_for_in_total(log, memory, cpus, nodes, mem_mib):
    """Without a letter it is the job's: Slurm 22.05 prints 100M for `-n2 --mem-per-cpu=50M` (slurm_22_05/sacct.txt, job 5)."""
    read = log(one(ReqMem=memory, ReqCPUS=cpus, ReqNodes=nodes))
    assert read.jobs[0]["mem_mib"] == mem_mib
    assert read.notes["memory_unreadable"] == (memory == "20H")


def test_memory_of_the_tres_list_comes_first(log):
    read = log(one(ReqMem="4G", ReqTRES="cpu=8,mem=32G,node=1"))
    assert (read.jobs[0]["mem_mib"], read.notes) == (32_768.0, Counter())


@pytest.mark.parametrize(
    ("column", "text", "limit_s", "kind"),
    [
        ("Timelimit", "4:00", 240.0, "hard"),
        ("Timelimit", "2-12", 216_000.0, "hard"),
        ("Timelimit", "90", 5_400.0, "hard"),
        ("TimelimitRaw", "90", 5_400.0, "hard"),
        ("Timelimit", "UNLIMITED", None, "unlimited"),
        ("Timelimit", "Partition_Limit", None, "partition"),
        ("TimelimitRaw", "Partition_Limit", None, "partition"),
        ("Timelimit", "NOT_SET", None, "absent"),
        ("Timelimit", "", None, "absent"),
    ],
)
def test_time_limit_of_a_job(log, column, text, limit_s, kind):
    job = log(one(**{column: text})).jobs[0]
    assert (job["time_limit_s"], job["time_limit_kind"]) == (limit_s, kind)


@pytest.mark.parametrize(
    ("partition", "limit_s", "kind"),
    [("gpu", 604_800.0, "hard"), ("gpu,cpu", 604_800.0, "hard"), ("long", None, "unlimited"), ("cpu", None, "partition")],
)
def test_limit_of_the_partition_is_that_of_the_cluster_file(log, partition, limit_s, kind):
    of = cluster(partition_limits={"gpu": "7-00:00:00", "long": "UNLIMITED"})
    job = log(one(Timelimit="Partition_Limit", Partition=partition), of).jobs[0]
    assert (job["time_limit_s"], job["time_limit_kind"]) == (limit_s, kind)
    job = log(one(Timelimit="01:00:00", Partition=partition), of).jobs[0]
    assert (job["time_limit_s"], job["time_limit_kind"]) == (3600.0, "hard")


def test_limit_of_a_partition_that_is_none_is_refused():
    with pytest.raises(ValidationError, match="'a week' of 'gpu' is no limit; write it as sinfo does"):
        slurm_sacct.Options.model_validate({"partition_limits": {"gpu": "a week"}})


@pytest.mark.parametrize("name", ["None", "Unknown", "nan", "null", "N/A", "007", "1e5"])
def test_a_job_may_be_called_anything(log, name):
    job = log(one(User="None", JobName=name, WorkDir=f"/{name}")).jobs[0]
    assert (job["job_name"], job["work_dir"], job["user"]) == (name, f"/{name}", None)


def test_words_for_none_are_null_in_every_text_column(log):
    empty = {
        "User": "",
        "Group": "None",
        "Account": "(null)",
        "Partition": "N/A",
        "QOS": "Unknown",
        "JobName": "",
        "WorkDir": "(null)",
    }
    job = log(one(**empty)).jobs[0]
    assert [job[name] for name in ("user", "group", "account", "queue", "qos", "job_name", "work_dir")] == [None] * 7


# --- clocks


@pytest.mark.parametrize(
    ("start", "end", "elapsed", "runtime_s", "flags"),
    [
        ("00:30:00", "03:30:00", "", 14_400.0, []),
        ("00:30:00", "01:30:00", "02:00:00", 7_200.0, ["clock_ambiguous"]),
        ("00:30:00", "01:30:00", "01:00:00", 3_600.0, ["clock_ambiguous"]),
        ("00:30:00", "01:30:00", "", 3_600.0, ["clock_ambiguous"]),
        ("01:50:00", "01:10:00", "", 1_200.0, ["clock_ambiguous"]),
        ("01:30:00", "02:30:00", "01:00:00", 3_600.0, ["clock_ambiguous"]),
        ("01:30:00", "02:30:00", "", 7_200.0, ["clock_ambiguous"]),
    ],
)
def test_night_of_the_repeated_hour(log, start, end, elapsed, runtime_s, flags):
    day = "2017-11-05T"
    text = one(Submit=day + "00:00:00", Start=day + start, End=day + end, Elapsed=elapsed)
    job = log(text, cluster("America/Los_Angeles")).jobs[0]
    assert (job["runtime_s"], job["flags"]) == (runtime_s, flags)


def test_wait_within_the_repeated_hour_is_not_negative(log):
    day = "2017-11-05T"
    text = one(Submit=day + "01:50:00", Start=day + "01:10:00", End=day + "01:40:00", Elapsed="00:30:00")
    job = log(text, cluster("America/Los_Angeles")).jobs[0]
    assert (job["queue_s"], job["runtime_s"]) == (1_200.0, 1_800.0)


def test_time_in_the_skipped_hour_is_rejected(log):
    text = one(Submit="2017-03-12T01:00:00", Start="2017-03-12T02:30:00", End="2017-03-12T04:00:00")
    assert log(text, cluster("America/Los_Angeles")).reasons == [(2, "start_nonexistent")]


def test_times_as_epoch_seconds(log):
    job = log(one(Submit="1709287200", Start="1709287205", End="1709287265"), cluster("Asia/Tokyo")).jobs[0]
    assert (job["submit_time"], job["runtime_s"]) == (at("10:00:00"), 60.0)


def test_elapsed_that_differs_from_the_times_is_counted(log):
    read = log(one(Elapsed="00:00:30"))
    assert (read.jobs[0]["runtime_s"], read.jobs[0]["flags"], read.notes["duration_differs"]) == (60.0, ["duration_differs"], 1)


# --- whatever comes


FIELD = st.one_of(
    st.sampled_from(
        ["", "Unknown", "2024-03-01T10:00:00", "2024-03-01T10:00:09", "COMPLETED", "RUNNING", "REQUEUED", "7", "7.0", "7_1"]
    ),
    st.text(max_size=6),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.lists(FIELD, max_size=10).map("|".join), st.just(HEADER), st.just("")), max_size=8))
def test_every_line_has_one_fate(log, lines):
    text = "\n".join([HEADER, *lines]) + "\n"
    read = log(text)
    universal = text.replace("\r\n", "\n").replace("\r", "\n")
    ignored = read.notes["continuation_lines"] + read.notes["blank_lines"]
    assert universal.count("\n") == 1 + read.rows_in + ignored
    assert read.rows_in == len(read.jobs) + len(read.rejects) + sum(read.skipped.values())
    assert len({job["job_key"] for job in read.jobs}) == len(read.jobs)
    assert read.table.schema.equals(JOBS)
    read.table.validate(full=True)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.sampled_from([{}, {"delimiter": "||"}, {"record_end": "@"}, {"delimiter": "\x1f"}]))
def test_any_bytes_are_read_or_refused(log, content, options):
    header = HEADER.replace("|", options.get("delimiter", "|")) + options.get("record_end", "") + "\n"
    for text in (content, header.encode() + content):
        try:
            read = log(text, cluster(**options))
        except SourceError:
            continue
        assert read.rows_in == len(read.jobs) + len(read.rejects) + sum(read.skipped.values())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(1, 5),
            st.sampled_from(["COMPLETED", "REQUEUED", "RUNNING", "PREEMPTED", "PENDING"]),
            st.integers(0, 9),
            st.integers(0, 50),
        ),
        min_size=1,
        max_size=25,
    ),
    st.sampled_from([80, 300, 1 << 20]),
)
def test_block_size_and_order_of_records_change_no_job(log, records, block_bytes):
    def clock(minute: int) -> str:
        return f"2024-03-01T10:{minute:02}:00"

    lines = [f"{i}|{s}|{clock(0)}|{clock(b)}|{clock(min(59, b + d))}||u{i}|n" for i, s, b, d in records]
    whole = log(rows(*lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slurm_sacct, "BLOCK_BYTES", block_bytes)
        cut = log(rows(*lines))
    assert cut.rows_in == whole.rows_in == len(lines)

    def without_source(read: Log) -> list[str]:
        return sorted(str({**job, "source": None}) for job in read.jobs)

    assert without_source(cut) == without_source(whole)


# --- real logs


def test_output_of_a_real_slurm_22_05(log):
    """A one-node Slurm 22.05.8, `sacct --duplicates --parsable2`, while job 17 ran and 18 and 19 waited."""
    read = log((Path(__file__).parent / "slurm_22_05" / "sacct.txt").read_bytes())
    jobs = read.by_id
    found = {i: (job["state"], job["label"], job["runtime_s"], job["queue_s"], job["attempts"]) for i, job in jobs.items()}
    assert found == {
        "1": ("COMPLETED", "event", 2.0, 1.0, 1),
        "2": ("COMPLETED", "event", 30.0, 1.0, 2),  # scontrol requeue: a second record, submitted when it was queued again
        "5": ("TIMEOUT", "censored", 74.0, 1.0, 1),
        "6": ("FAILED", "event", 0.0, 1.0, 1),
        "3_0": ("COMPLETED", "event", 1.0, 31.0, 1),
        "3_1": ("COMPLETED", "event", 1.0, 34.0, 1),
        "3_2": ("COMPLETED", "event", 1.0, 37.0, 1),
        "7": ("CANCELLED", "excluded", None, None, 0),
        "9": ("CANCELLED", "excluded", None, None, 0),
        "10": ("CANCELLED", "excluded", None, None, 0),  # Start and End are both the moment it was cancelled
        "14": ("COMPLETED", "event", 25.0, 0.0, 1),
        "15": ("CANCELLED", "excluded", None, None, 0),
        "16_[4-9%2]": ("CANCELLED", "excluded", None, None, 0),
        "17": ("RUNNING", "censored", None, 2.0, 1),
        "18_[1,3,5-7%2]": ("PENDING", "excluded", None, None, 0),
        "19": ("PENDING", "excluded", None, None, 0),
    }
    assert (jobs["1"]["job_name"], jobs["6"]["job_name"]) == ("na|me", "line1\nline2")
    assert (jobs["1"]["gpu_count"], jobs["5"]["mem_mib"], jobs["5"]["time_limit_s"]) == (2.0, 100.0, 60.0)
    assert (jobs["7"]["time_limit_kind"], jobs["16_[4-9%2]"]["time_limit_kind"]) == ("partition", "unlimited")
    assert (jobs["3_2"]["array_id"], jobs["3_2"]["array_task"]) == ("3", 2)
    assert (dict(read.skipped), read.rejects, read.rows_in) == ({"step": 10, "earlier_attempt": 1, "het_part": 2}, [], 29)
    assert read.notes["array_rest_tasks"] == 6 + 5


def real(traces: Path, name: str) -> Log:
    of = read_cluster(EXAMPLES / f"{name}.yaml")
    return Log(list(slurm_sacct.read(traces / "xdmod_referencedata" / f"{name}.log", of)))


@pytest.mark.traces
@pytest.mark.parametrize(
    ("name", "jobs", "labels", "never_started"),
    [
        ("pozidriv", 11_704, {"event": 10_134 + 1_007, "censored": 468 - 419 + 86 + 9, "excluded": 419}, 419),
        ("phillips", 4_285, {"event": 2_324 + 1_717, "censored": 243 - 239 + 1, "excluded": 239}, 239),
    ],
)
def test_real_logs_are_read_whole(traces, name, jobs, labels, never_started):
    """The counts are those of awk over the raw files: states, and nodes of "None assigned"."""
    read = real(traces, name)
    assert (read.rows_in, len(read.jobs), len(read.rejects), dict(read.skipped)) == (jobs, jobs, 0, {})
    assert Counter(job["label"] for job in read.jobs) == labels
    assert dict(read.notes) == {"never_started": never_started}


@pytest.mark.traces
def test_real_log_without_a_runtime_is_refused(traces):
    with pytest.raises(SourceError, match="lacks JobID, Start, End, Elapsed"):
        list(slurm_sacct.read(traces / "slurm_kabre" / "sacct.csv", cluster()))
