"""Tables through a column map: hand-made rows with the right canonical values, and refusals."""

import gzip
import json
import random
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.sources import table
from runcast.data.sources.batch import Batch

#: The least a table can say; times are epoch seconds.
LEAST = {"job_id": "id", "submit_time": "sub", "start_time": "beg", "end_time": "end"}


def cluster(options: dict[str, Any], **more: Any) -> Cluster:
    source = {"format": "table", "paths": ["t"], "options": options}
    return Cluster.model_validate({"name": "c", "source": source, "time_zone": "America/Los_Angeles", **more})


def read(folder: Path, text: str | bytes, options: dict[str, Any], name: str = "t.csv", **more: Any) -> list[Batch]:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(table.read(path, cluster(options, **more)))


def jobs(folder: Path, text: str, options: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [row for batch in read(folder, text, options, **more) for row in batch.jobs.to_pylist()]


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("time", "written", "expected"),
    [
        pytest.param("naive", "2024-03-01 08:00:00", utc(2024, 3, 1, 16), id="naive winter"),
        pytest.param("naive", "2024-07-01T08:00:00", utc(2024, 7, 1, 15), id="naive summer"),
        pytest.param("aware", "2024-03-01 08:00:00+08:00", utc(2024, 3, 1), id="aware"),
        pytest.param("aware", "2024-03-01T00:00:00Z", utc(2024, 3, 1), id="aware Z"),
        pytest.param("epoch_s", "1704067210", utc(2024, 1, 1, 0, 0, 10), id="seconds"),
        pytest.param("epoch_s", "1704067210.5", datetime(2024, 1, 1, 0, 0, 10, 500_000, tzinfo=UTC), id="fractions"),
        pytest.param("epoch_ms", "1704067210500", datetime(2024, 1, 1, 0, 0, 10, 500_000, tzinfo=UTC), id="milliseconds"),
        pytest.param("epoch_us", "1704067210000001", datetime(2024, 1, 1, 0, 0, 10, 1, tzinfo=UTC), id="microseconds"),
        pytest.param({"seconds_from": "2024-03-01T00:00:00"}, "60", utc(2024, 3, 1, 8, 1), id="from a local anchor"),
        pytest.param({"seconds_from": "2024-03-01T00:00:00Z"}, "60", utc(2024, 3, 1, 0, 1), id="from a zoned anchor"),
        pytest.param(
            {"seconds_from": "2024-03-01T00:00:00Z", "unit": "microseconds"},
            "60000000",
            utc(2024, 3, 1, 0, 1),
            id="microseconds from",
        ),
    ],
)
def test_time_formats(tmp_path: Path, time: Any, written: str, expected: datetime) -> None:
    options = {"time": time, "columns": {"job_id": "id", "submit_time": "sub", "runtime_s": "run"}, "start_is_submit": True}
    (job,) = jobs(tmp_path, f"id,sub,run\n1,{written},10\n", options)
    assert (job["submit_time"], job["runtime_s"]) == (expected, 10.0)


def test_same_instant_in_two_zones_is_one_instant(tmp_path: Path) -> None:
    text = "id,sub,beg,end\n1,2024-03-01 08:00:00+08:00,2024-03-01 00:00:00+00:00,2024-02-29 19:00:01-05:00\n"
    (job,) = jobs(tmp_path, text, {"time": "aware", "columns": LEAST})
    assert (job["queue_s"], job["runtime_s"]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("start", "end", "run", "runtime_s", "flags"),
    [
        pytest.param("2017-11-05 00:30:00", "2017-11-05 03:30:00", "14400", 14400.0, [], id="over the repeated hour"),
        pytest.param("2017-11-05 00:30:00", "2017-11-05 01:30:00", "3600", 3600.0, ["clock_ambiguous"], id="ends in it, first"),
        pytest.param("2017-11-05 00:30:00", "2017-11-05 01:30:00", "7200", 7200.0, ["clock_ambiguous"], id="ends in it, second"),
        pytest.param("2017-11-05 01:50:00", "2017-11-05 01:10:00", "1200", 1200.0, ["clock_ambiguous"], id="runs over its end"),
        pytest.param(
            "2017-11-05 01:30:00", "2017-11-05 02:30:00", "3600", 3600.0, ["clock_ambiguous"], id="starts in it, second"
        ),
    ],
)
def test_repeated_hour_is_settled_by_the_duration(
    tmp_path: Path, start: str, end: str, run: str, runtime_s: float, flags: list[str]
) -> None:
    text = f"id,sub,beg,end,run\n1,2017-11-04 12:00:00,{start},{end},{run}\n"
    (job,) = jobs(tmp_path, text, {"columns": {**LEAST, "runtime_s": "run"}})
    assert (job["runtime_s"], job["flags"]) == (runtime_s, [*flags, "state_unknown"])


def test_hour_that_was_skipped_is_a_reject(tmp_path: Path) -> None:
    (batch,) = read(
        tmp_path, "id,sub,beg,end\n1,2017-03-12 01:00:00,2017-03-12 02:30:00,2017-03-12 04:00:00\n", {"columns": LEAST}
    )
    assert [reject.reason for reject in batch.rejects] == ["start_time_nonexistent"]


def test_seconds_are_not_taken_for_nanoseconds(tmp_path: Path) -> None:
    (batch,) = read(
        tmp_path,
        "id,sub,beg,end\n1,2024-01-01T00:00:10,2024-01-01T00:00:10,2024-01-01T00:00:11\n",
        {"columns": LEAST},
        time_zone="UTC",
    )
    assert batch.jobs["submit_time"].cast(pa.int64()).to_pylist() == [1_704_067_210_000_000]


@pytest.mark.parametrize(
    ("columns", "row", "expected"),
    [
        pytest.param(
            {"time_limit_s": {"column": "x", "unit": "minutes"}},
            "90",
            {"time_limit_s": 5400.0, "time_limit_kind": "hard"},
            id="minutes",
        ),
        pytest.param({"time_limit_s": "x"}, "0", {"time_limit_s": None, "time_limit_kind": "absent"}, id="no limit"),
        pytest.param({"mem_mib": {"column": "x", "unit": "gib"}}, "1.5", {"mem_mib": 1536.0}, id="gib"),
        pytest.param({"mem_mib": {"column": "x", "unit": "bytes"}}, "1048576", {"mem_mib": 1.0}, id="bytes"),
        pytest.param({"mem_mib": {"column": "x", "zero_is_null": True}}, "0", {"mem_mib": None}, id="zero is not asked for"),
        *[
            pytest.param({"mem_mib": {"column": "x", "unit": "suffix"}}, written, {"mem_mib": mib}, id=f"suffix {written}")
            for written, mib in [
                ("4G", 4096.0),
                ("512M", 512.0),
                ("2048K", 2.0),
                ("1.5 TiB", 1572864.0),
                ("4gb", 4096.0),
                ("8Gi", 8192.0),
                ("1048576B", 1.0),
                ("1048576b", 1.0),
                ("n/a", None),
                ("4096", None),
                ("4 gigs", None),
                ("-1G", None),
                ("G", None),
            ]
        ],
        pytest.param({"gpu_count": {"column": "x", "unit": "percent"}}, "50", {"gpu_count": 0.5}, id="share of a GPU"),
        pytest.param({"gpu_count": "x"}, "0", {"gpu_count": 0.0}, id="no GPU"),
        pytest.param({"gpu_count": "x"}, "N/A", {"gpu_count": None}, id="not available"),
        pytest.param({"cpu_count": "x"}, "-1", {"cpu_count": None}, id="negative count"),
        pytest.param({"cpu_count": "x"}, "1e2", {"cpu_count": 100.0}, id="exponent"),
        pytest.param({"user": "x"}, " ann ", {"user": "ann"}, id="blanks around a name"),
        pytest.param({"user": "x"}, "Unknown", {"user": None}, id="word for none"),
        pytest.param({"user": "x"}, "007", {"user": "007"}, id="zeros of a name"),
        pytest.param({"queue": {"column": "x", "values": {"a": "alpha"}}}, "a", {"queue": "alpha"}, id="by word"),
        pytest.param(
            {"task_role": {"column": "x", "pattern": "-(?P<value>[^-#]+)#"}}, "j-worker#3", {"task_role": "worker"}, id="pattern"
        ),
        pytest.param(
            {"task_role": {"column": "x", "pattern": "-(?P<value>[^-#]+)#"}}, "none", {"task_role": None}, id="no match"
        ),
    ],
)
def test_values_in_the_canonical_unit(tmp_path: Path, columns: dict[str, Any], row: str, expected: dict[str, Any]) -> None:
    (job,) = jobs(tmp_path, f"id,sub,beg,end,x\n1,1000,2000,3000,{row}\n", {"time": "epoch_s", "columns": {**LEAST, **columns}})
    assert {name: job[name] for name in expected} == expected


def test_memory_for_each_node_is_summed(tmp_path: Path) -> None:
    columns = {**LEAST, "node_count": "n", "mem_mib": {"column": "m", "unit": "gib", "times": "node_count"}}
    rows = jobs(
        tmp_path, "id,sub,beg,end,n,m\n1,1000,2000,3000,2,4\n2,1000,2000,3000,,4\n", {"time": "epoch_s", "columns": columns}
    )
    assert [row["mem_mib"] for row in rows] == [8192.0, None]


def test_unreadable_request_is_null_and_counted(tmp_path: Path) -> None:
    (batch,) = read(
        tmp_path, "id,sub,beg,end,m\n1,1000,2000,3000,20H\n", {"time": "epoch_s", "columns": {**LEAST, "mem_mib": "m"}}
    )
    assert (batch.jobs["mem_mib"].to_pylist(), batch.notes) == (
        [None],
        {"state_unknown": 1, "unreadable_mem_mib": 1, "unreadable_mem_mib:20H": 1},
    )


@pytest.mark.parametrize(
    ("columns", "row", "expected"),
    [
        pytest.param({"start_time": "a", "end_time": "b"}, "2000,3000", (1000.0, 1000.0), id="start and end"),
        pytest.param({"start_time": "a", "runtime_s": "b"}, "2000,60", (60.0, 1000.0), id="start and duration"),
        pytest.param({"queue_s": "a", "runtime_s": "b"}, "30,60", (60.0, 30.0), id="wait and duration"),
        pytest.param({"queue_s": "a", "end_time": "b"}, "30,2000", (970.0, 30.0), id="wait and end"),
        pytest.param({"end_time": "a", "runtime_s": "b"}, "2000,60", (60.0, 940.0), id="end and duration"),
    ],
)
def test_run_and_wait_follow_from_what_the_log_has(
    tmp_path: Path, columns: dict[str, str], row: str, expected: tuple[float, float]
) -> None:
    options = {"time": "epoch_s", "columns": {"job_id": "id", "submit_time": "sub", **columns}}
    (job,) = jobs(tmp_path, f"id,sub,a,b\n1,1000,{row}\n", options)
    assert (job["runtime_s"], job["queue_s"]) == expected


def test_start_taken_from_the_submission_is_flagged_and_gives_no_wait(tmp_path: Path) -> None:
    options = {"time": "epoch_s", "columns": {"submit_time": "sub", "runtime_s": "run"}, "start_is_submit": True}
    (job,) = jobs(tmp_path, "sub,run\n1000,5\n", options)
    assert (job["runtime_s"], job["queue_s"], job["label"]) == (5.0, None, "event")
    assert job["flags"] == ["start_assumed", "state_unknown"]


STATED = {"time": "epoch_s", "columns": {**LEAST, "state": "state"}}


@pytest.mark.parametrize(
    ("row", "state", "label", "runtime_s", "flags"),
    [
        pytest.param("2000,3000,COMPLETED", "COMPLETED", "event", 1000.0, [], id="completed"),
        pytest.param("2000,3000,CANCELLED by 7", "CANCELLED", "censored", 1000.0, [], id="cancelled"),
        pytest.param("2000,3000,TIMEOUT", "TIMEOUT", "censored", 1000.0, [], id="timeout"),
        pytest.param("2000,3000,SOMETHING_NEW", "OTHER", "censored", 1000.0, [], id="unknown word"),
        pytest.param("2000,3000,", "OTHER", "event", 1000.0, ["state_unknown"], id="no word"),
        pytest.param("None,3000,CANCELLED by 700", "CANCELLED", "excluded", None, ["never_started"], id="cancelled in the queue"),
        pytest.param(
            "None,Unknown,CANCELLED", "CANCELLED", "excluded", None, ["never_started", "end_assumed"], id="at an unknown time"
        ),
        pytest.param("Unknown,Unknown,PENDING", "PENDING", "excluded", None, [], id="pending"),
        pytest.param("2000,Unknown,RUNNING", "RUNNING", "censored", None, [], id="running"),
        pytest.param("2000,4600,RUNNING", "RUNNING", "censored", None, ["end_is_forecast"], id="running, end is start and limit"),
        pytest.param("2000,,", "RUNNING", "censored", None, [], id="no word, no end"),
        pytest.param(",,", "PENDING", "excluded", None, [], id="no word, no start"),
        pytest.param("2000,2000,COMPLETED", "COMPLETED", "event", 0.0, [], id="no time at all"),
    ],
)
def test_state_label_and_end(tmp_path: Path, row: str, state: str, label: str, runtime_s: float | None, flags: list[str]) -> None:
    (job,) = jobs(tmp_path, f"id,sub,beg,end,state\n1,1000,{row}\n", STATED)
    assert (job["state"], job["label"], job["runtime_s"], job["flags"]) == (state, label, runtime_s, flags)
    assert (job["end_time"] is None) == (state in ("RUNNING", "PENDING"))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        pytest.param("1,soon,2000,3000,COMPLETED", "submit_time_unreadable", id="submission"),
        pytest.param("1,,2000,3000,COMPLETED", "submit_missing", id="no submission"),
        pytest.param("1,0,2000,3000,COMPLETED", "submit_missing", id="submission of 1970"),
        pytest.param("1,1000,2000,later,COMPLETED", "end_time_unreadable", id="end"),
        pytest.param("1,1000,2000,Unknown,COMPLETED", "end_missing", id="completed without an end"),
        pytest.param("1,1000,3000,2000,COMPLETED", "end_before_start", id="ends before it starts"),
        pytest.param("1,1000,900,2000,COMPLETED", "start_before_submit", id="starts before it is submitted"),
        pytest.param("1,1000,,900,CANCELLED", "end_before_submit", id="withdrawn before it is submitted"),
        pytest.param("1,1000,2000,5e9,COMPLETED", "time_out_of_range", id="another unit"),
        pytest.param(",1000,2000,3000,COMPLETED", "job_id_missing", id="no id"),
        pytest.param("1,1000,2000,3000", "wrong_field_count", id="short"),
    ],
)
def test_row_that_is_no_job_is_a_reject_with_line_and_text(tmp_path: Path, row: str, reason: str) -> None:
    (batch,) = read(tmp_path, f"id,sub,beg,end,state\n8,1000,2000,3000,FAILED\n{row}\n9,1000,2000,3000,FAILED\n", STATED)
    assert batch.jobs["job_id"].to_pylist() == ["8", "9"]
    (reject,) = batch.rejects
    assert (reject.file, reject.line, reject.reason, reject.raw) == ("t.csv", 3, reason, row)
    assert batch.rows_in == 3


@pytest.mark.parametrize(
    ("run", "reason"),
    [pytest.param("-0:00:16", "runtime_s_unreadable", id="clock text"), pytest.param("-16", "runtime_negative", id="negative")],
)
def test_duration_that_is_none_is_a_reject(tmp_path: Path, run: str, reason: str) -> None:
    options = {"time": "epoch_s", "columns": {"submit_time": "sub", "runtime_s": "run", "queue_s": "wait"}}
    (batch,) = read(tmp_path, f"sub,run,wait\n1000,{run},0\n", options)
    assert [reject.reason for reject in batch.rejects] == [reason]


def test_duration_that_differs_from_the_times_is_flagged_and_the_times_win(tmp_path: Path) -> None:
    options = {"time": "epoch_s", "columns": {**LEAST, "runtime_s": "run"}}
    (job,) = jobs(tmp_path, "id,sub,beg,end,run\n1,1000,1010,1050,50\n", options)
    assert (job["runtime_s"], job["flags"]) == (40.0, ["duration_differs", "state_unknown"])


def test_runtime_at_the_clamp_is_a_lower_bound(tmp_path: Path) -> None:
    options = {"time": "epoch_s", "columns": LEAST, "runtime_clamped_at_s": 1000}
    rows = jobs(tmp_path, "id,sub,beg,end\n1,1000,2000,2999\n2,1000,2000,3000\n", options)
    assert [(row["label"], row["runtime_s"]) for row in rows] == [("event", 999.0), ("censored", 1000.0)]


def test_cancelled_without_a_runtime_never_started_where_the_option_says_so(tmp_path: Path) -> None:
    columns = {"job_id": "id", "submit_time": "sub", "queue_s": "wait", "runtime_s": "run", "state": "state"}
    text = "id,sub,wait,run,state\n1,1000,30,0,CANCELLED\n2,1000,30,0,FAILED\n3,1000,30,5,CANCELLED\n"
    rows = jobs(tmp_path, text, {"time": "epoch_s", "columns": columns, "zero_runtime": "cancelled_never_started"})
    assert [(row["label"], row["attempts"]) for row in rows] == [("excluded", 0), ("event", 1), ("censored", 1)]
    assert rows[0]["end_time"] == utc(1970, 1, 1, 0, 17, 10)


def test_array_ids_are_split(tmp_path: Path) -> None:
    options = {"time": "epoch_s", "columns": LEAST, "array_pattern": r"^(?P<array>\d+)_\[?(?P<task>\d*)"}
    rows = jobs(
        tmp_path, "id,sub,beg,end\n" + "".join(f"{n},1000,2000,3000\n" for n in ("88388_717", "12", "6203_[25-11")), options
    )
    assert [(row["array_id"], row["array_task"]) for row in rows] == [("88388", 717), (None, None), ("6203", 25)]
    assert rows[0]["job_key"] == "c:88388_717:1000000000"


def test_rows_of_one_id_are_told_apart_where_they_are_tasks(tmp_path: Path) -> None:
    text = "id,sub,beg,end\n5,1000,2000,3000\n5,1000,2000,3000\n6,1000,2000,3000\n5,1000,2000,3500\n"
    rows = jobs(tmp_path, text, {"time": "epoch_s", "columns": LEAST, "repeated_ids": "array_tasks"})
    assert [(row["job_id"], row["array_id"]) for row in rows] == [("5", "5"), ("5.1", "5"), ("6", None), ("5.2", "5")]


def test_durations_that_begin_at_the_submission_are_without_the_wait(tmp_path: Path) -> None:
    columns = {"job_id": "id", "submit_time": "sub", "queue_s": "wait", "runtime_s": "run"}
    text = "id,sub,wait,run\n1,1704067210,10,18\n2,1704067210,20,18\n3,1704067210,,18\n"
    options = {"time": "epoch_s", "columns": columns, "runtime_begins": "submission"}
    (batch,) = read(tmp_path, text, options)
    (row, unknown) = batch.jobs.to_pylist()
    assert (row["runtime_s"], row["queue_s"], row["end_time"]) == (8.0, 10.0, utc(2024, 1, 1, 0, 0, 28))
    assert (unknown["runtime_s"], unknown["label"]) == (None, "excluded")
    assert [(reject.line, reject.reason) for reject in batch.rejects] == [(3, "runtime_negative")]
    with pytest.raises(ValidationError, match="needs runtime_s and queue_s"):
        table.Options.model_validate({"columns": {"submit_time": "sub", "runtime_s": "run"}, "runtime_begins": "submission"})


NAMELESS = {"time": "epoch_s", "columns": {"submit_time": "sub", "runtime_s": "run", "group": "vc"}, "start_is_submit": True}


def test_rows_without_an_id_join_over_overlapping_loads(tmp_path: Path) -> None:
    rows = ["1000,5,a\n", "1000,5,a\n", "1001,5,a\n", "1002,7,b\n"]
    first = [row["job_key"] for row in jobs(tmp_path, "sub,run,vc\n" + "".join(rows[:3]), NAMELESS)]
    second = [row["job_key"] for row in jobs(tmp_path, "sub,run,vc\n" + "".join(rows[2:]), NAMELESS)]
    assert len(set(first)) == 3
    assert first[2] == second[0]
    assert len({*first, *second}) == 4


def test_order_of_columns_does_not_matter(tmp_path: Path) -> None:
    one = jobs(tmp_path, "sub,run,vc,more\n1000,5,a,x\n", NAMELESS)
    other = jobs(tmp_path, "vc,more,run,sub\na,x,5,1000\n", NAMELESS)
    assert one == other


def test_constants_stand_in_every_row(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, "sub,run,vc\n1000,5,a\n", {**NAMELESS, "constants": {"state": "Succeeded", "queue": "only"}})
    assert (job["state"], job["queue"], job["flags"]) == ("COMPLETED", "only", ["start_assumed"])


def test_table_without_a_column_of_the_map_is_refused(tmp_path: Path) -> None:
    options = {"columns": {"submit_time": "when", "runtime_s": "duration_sec"}, "start_is_submit": True}
    with pytest.raises(SourceError, match="has no column 'when'"):
        read(tmp_path, "pod_id,duration_sec\n1,5\n", options)


@pytest.mark.parametrize(("mark", "yaml"), [(";", '";"'), ("\t", r'"\t"'), ("|", '"|"')], ids=["semicolon", "tab", "bar"])
def test_a_table_with_another_delimiter_is_refused_with_the_option_that_reads_it(tmp_path: Path, mark: str, yaml: str) -> None:
    text = "id,sub,beg,end\n1,1000,2000,3000\n".replace(",", mark)
    with pytest.raises(SourceError, match=re.escape(f"Try source.options.delimiter: {yaml}")):
        read(tmp_path, text, {"time": "epoch_s", "columns": LEAST})
    (job,) = jobs(tmp_path, text, {"time": "epoch_s", "columns": LEAST, "delimiter": mark})
    assert job["runtime_s"] == 1000.0


@pytest.mark.parametrize("word", ["nil", "NIL", "(null)", "\\N", "#N/A", "<NA>", "n.a.", "<null>"])
def test_words_for_none_are_null_of_texts_numbers_and_times_alike(tmp_path: Path, word: str) -> None:
    columns = {**LEAST, "user": "u", "cpu_count": "c", "state": "s"}
    text = f"id,sub,beg,end,u,c,s\n1,2024-03-01 10:00:00,2024-03-01 11:00:00,{word},{word},{word},RUNNING\n"
    (job,) = jobs(tmp_path, text, {"columns": columns})
    assert (job["user"], job["cpu_count"], job["end_time"], job["label"]) == (None, None, None, "censored")


@pytest.mark.parametrize(
    ("columns", "text", "expected"),
    [
        ({"gpu_count": "x"}, "1e300", None),
        ({"cpu_count": "x"}, "1e16", None),
        ({"cpu_count": "x"}, "1e-9", None),
        ({"priority": "x"}, "-1e16", None),
        ({"priority": "x"}, "-1e14", -1e14),
        ({"time_limit_s": {"column": "x", "unit": "days"}}, "99999999999", None),
        ({"gpu_count": "x"}, "0", 0.0),
    ],
)
def test_a_request_beyond_what_a_forecast_may_be_asked_for_is_not_learned_from(
    tmp_path: Path, columns: dict[str, Any], text: str, expected: float | None
) -> None:
    """One such number ended the fit of two kinds of models: it is none in float32."""
    (name,) = columns
    (job,) = jobs(tmp_path, f"id,sub,beg,end,x\n1,1000,2000,3000,{text}\n", {"time": "epoch_s", "columns": {**LEAST, **columns}})
    assert job[name] == expected


def write_parquet(path: Path, zone: str | None) -> Path:
    when = pa.array([1_704_067_200_000_000, None], pa.timestamp("us", tz=zone))
    pq.write_table(pa.table({"id": [1, 2], "sub": when, "run": [5.0, 6.0], "u": pa.array(["a", None]).dictionary_encode()}), path)
    return path


TYPED = {"columns": {"job_id": "id", "submit_time": "sub", "runtime_s": "run", "user": "u"}, "start_is_submit": True}


def test_parquet_is_read_by_its_types(tmp_path: Path) -> None:
    (batch,) = table.read(write_parquet(tmp_path / "t.parquet", "UTC"), cluster({**TYPED, "time": "aware"}))
    (job,) = batch.jobs.to_pylist()
    assert (job["job_id"], job["submit_time"], job["runtime_s"], job["user"]) == ("1", utc(2024, 1, 1), 5.0, "a")
    (reject,) = batch.rejects
    assert (reject.line, reject.reason) == (2, "submit_missing")
    assert json.loads(reject.raw) == {"id": "2", "run": "6.0", "sub": "None", "u": "None"}


def test_naive_parquet_times_are_local(tmp_path: Path) -> None:
    (batch,) = table.read(write_parquet(tmp_path / "t.parquet", None), cluster(TYPED))
    assert batch.jobs["submit_time"].to_pylist() == [utc(2024, 1, 1, 8)]


@pytest.mark.parametrize(("zone", "time"), [("UTC", "naive"), (None, "aware")])
def test_parquet_part_of_the_other_kind_of_time_is_refused(tmp_path: Path, zone: str | None, time: str) -> None:
    path = write_parquet(tmp_path / "t.parquet", zone)
    with pytest.raises(SourceError, match=f"'sub' holds times with .* but the cluster file says `time: {time}`"):
        list(table.read(path, cluster({**TYPED, "time": time})))


def test_time_without_a_zone_in_an_aware_column_is_a_reject(tmp_path: Path) -> None:
    options = {"time": "aware", "columns": LEAST}
    (batch,) = read(tmp_path, "id,sub,beg,end\n1,2024-03-01 08:00:00,2024-03-01 08:00:00Z,2024-03-01 09:00:00Z\n", options)
    assert [reject.reason for reject in batch.rejects] == ["submit_time_unreadable"]


def test_file_that_is_no_parquet_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not a readable Parquet file"):
        read(tmp_path, "id,sub\n", TYPED, name="t.parquet")


def test_json_lines(tmp_path: Path) -> None:
    lines = ['{"id": 1, "sub": 1000, "run": 5.5, "vc": "a"}', "[1]", "{broken", "", '{"id": "2", "sub": "1000", "run": 5}']
    options = {
        "time": "epoch_s",
        "columns": {"job_id": "id", "submit_time": "sub", "runtime_s": "run", "group": "vc"},
        "start_is_submit": True,
    }
    (batch,) = read(tmp_path, "\n".join(lines) + "\n", options, name="t.jsonl")
    assert [(row["job_id"], row["runtime_s"], row["group"]) for row in batch.jobs.to_pylist()] == [
        ("1", 5.5, "a"),
        ("2", 5.0, None),
    ]
    assert [(reject.line, reject.reason) for reject in batch.rejects] == [(2, "not_an_object"), (3, "not_json")]


FRAGMENT = st.sampled_from(
    ["1000", "2000", "3000", ",", ",,", "\n", '"', "x", "é", "-5", "1e99", "nan", "inf", "Unknown", " ", "\r", "9" * 30]
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.one_of(st.binary(max_size=200), st.lists(FRAGMENT, max_size=60).map(lambda parts: "".join(parts).encode())))
def test_whatever_the_bytes_nothing_but_source_errors_escapes_and_rows_add_up(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any.csv"
    path.write_bytes(b"id,sub,beg,end,state\n" + content)
    options = {"time": "epoch_s", "columns": {**LEAST, "state": "state"}}
    batches = list(table.read(path, cluster(options)))
    for batch in batches:
        batch.jobs.validate(full=True)
    if b'"' not in content:
        lines = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        assert sum(batch.rows_in for batch in batches) == sum(bool(line) for line in lines)
    packed = tmp_path / "any.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    again = list(table.read(packed, cluster(options)))
    assert [b.jobs.drop(["source"]) for b in again] == [b.jobs.drop(["source"]) for b in batches]


def test_shuffled_rows_give_the_same_jobs(tmp_path: Path) -> None:
    rows = [f"{n},{1000 + n},{2000 + n},{3000 + 7 * n}\n" for n in range(300)]
    shuffled = random.Random(3).sample(rows, len(rows))
    options = {"time": "epoch_s", "columns": LEAST}
    one, other = (
        sorted(
            (row["job_key"], row["runtime_s"], row["queue_s"])
            for row in jobs(tmp_path, "id,sub,beg,end\n" + "".join(some), options)
        )
        for some in (rows, shuffled)
    )
    assert one == other
