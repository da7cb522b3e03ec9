"""Every option of a table does what it says on every column, or is refused before a row is read."""

import json
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from functools import partial
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
from runcast.data.sources import table, table_options
from runcast.data.sources.batch import Batch

LEAST = {"job_id": "id", "submit_time": "sub", "start_time": "beg", "end_time": "end"}
EPOCH: dict[str, Any] = {"time": "epoch_s", "columns": LEAST}


def read(path: Path, options: dict[str, Any]) -> list[Batch]:
    source = {"format": "table", "paths": ["t"], "options": options}
    cluster = Cluster.model_validate({"name": "c", "source": source, "time_zone": "Europe/Berlin"})
    return list(table.read(path, cluster))


def read_text(folder: Path, text: str, options: dict[str, Any], name: str = "t.csv") -> Batch:
    path = folder / name
    path.write_text(text)
    (batch,) = read(path, options)
    return batch


def value(folder: Path, canonical: str, column: dict[str, Any], text: str) -> tuple[Any, Batch]:
    """Read one row whose column x is mapped to a canonical column; its value there, None where the row is a reject."""
    columns = {**LEAST, canonical: {"column": "x", **column}}
    batch = read_text(folder, f"id;sub;beg;end;x\n1;1000;2000;3000;{text}\n", {**EPOCH, "columns": columns, "delimiter": ";"})
    return (batch.jobs[canonical][0].as_py() if batch.jobs.num_rows else None), batch


@pytest.mark.parametrize(
    ("unit", "text", "seconds"),
    [
        pytest.param("hh:mm:ss", "02:00:00", 7200.0, id="two hours"),
        pytest.param("hh:mm:ss", "1-02:00:00", 93_600.0, id="a day and two hours"),
        pytest.param("hh:mm:ss", "1 day, 2:00:00", 93_600.0, id="as Python writes it"),
        pytest.param("hh:mm:ss", "0 days 00:00:05.5", 5.5, id="as pandas writes it"),
        pytest.param("hh:mm:ss", "100:00:01", 360_001.0, id="more than a day of hours, as PBS writes it"),
        pytest.param("hh:mm", "2:30", 9000.0, id="hours and minutes, as LSF writes it"),
    ],
)
def test_length_of_time_as_a_clock_shows_it(tmp_path: Path, unit: str, text: str, seconds: float) -> None:
    found, batch = value(tmp_path, "time_limit_s", {"unit": unit}, text)
    assert (found, batch.notes.get("unreadable_time_limit_s", 0)) == (seconds, 0)


@pytest.mark.parametrize("text", ["120", "4:00", "00:61:00", "-0:00:16", "2h"])
def test_what_no_clock_shows_is_unreadable_and_counted(tmp_path: Path, text: str) -> None:
    found, batch = value(tmp_path, "time_limit_s", {"unit": "hh:mm:ss"}, text)
    assert (found, batch.notes["unreadable_time_limit_s"]) == (None, 1)


@pytest.mark.parametrize(
    ("unit", "text", "kind"),
    [
        pytest.param("hh:mm:ss", "UNLIMITED", "unlimited", id="unlimited, among clocks"),
        pytest.param("minutes", "UNLIMITED", "unlimited", id="unlimited, among minutes"),
        pytest.param("hh:mm:ss", "Partition_Limit", "partition", id="the partition's, which the log does not say"),
        pytest.param("hh:mm:ss", "", "absent", id="nothing"),
        pytest.param("hh:mm:ss", "02:00:00", "hard", id="a limit"),
    ],
)
def test_words_of_time_limits(tmp_path: Path, unit: str, text: str, kind: str) -> None:
    _, batch = value(tmp_path, "time_limit_s", {"unit": unit}, text)
    assert batch.jobs["time_limit_kind"].to_pylist() == [kind]
    assert "unreadable_time_limit_s" not in batch.notes


def test_runtime_as_a_clock_shows_it(tmp_path: Path) -> None:
    columns = {"job_id": "id", "submit_time": "sub", "queue_s": {"column": "wait", "unit": "minutes"}}
    columns["runtime_s"] = {"column": "run", "unit": "hh:mm:ss"}
    batch = read_text(tmp_path, "id,sub,wait,run\n1,1000,1,00:01:40\n2,1000,1,later\n", {**EPOCH, "columns": columns})
    assert (batch.jobs["runtime_s"].to_pylist(), batch.jobs["queue_s"].to_pylist()) == ([100.0], [60.0])
    assert [reject.reason for reject in batch.rejects] == ["runtime_s_unreadable"]


@pytest.mark.parametrize(
    ("canonical", "column", "text", "expected"),
    [
        pytest.param("submit_time", {"pattern": "at=(?P<value>.+)"}, "at=1500", datetime.fromtimestamp(1500, UTC), id="time"),
        pytest.param("mem_mib", {"pattern": r"(?P<value>\d+)G", "unit": "gib"}, "4G", 4096.0, id="count"),
        pytest.param("cpu_count", {"values": {"half": "0.5"}}, "half", 0.5, id="word for a number"),
        pytest.param("submit_time", {"values": {"begin": "900"}}, "begin", datetime.fromtimestamp(900, UTC), id="word for a time"),
        pytest.param("gpu_count", {"null_words": ["99"]}, "99", None, id="number that means none"),
        pytest.param("queue", {"null_words": []}, "None", "None", id="no word means none"),
        pytest.param("queue", {"null_words": ["n.n."]}, "N.N.", None, id="a word of the site's own"),
        pytest.param("queue", {"null_words": ["n.n."]}, "NA", "NA", id="in place of the usual ones"),
        pytest.param("queue", {}, "NA", None, id="the usual ones"),
        pytest.param("job_name", {}, "None", "None", id="job called None"),
        pytest.param("job_name", {"null_words": ["none"]}, "None", None, id="job name that says none"),
        pytest.param("queue", {"values": {"None": "scavenge"}}, "None", "scavenge", id="what is said of a word comes first"),
        pytest.param("state", {"values": {"OK": "COMPLETED"}}, "OK", "COMPLETED", id="word for a state"),
        pytest.param("state", {"pattern": r"^(?P<value>\w+)\("}, "FAILED(1)", "FAILED", id="part of a state"),
    ],
)  # fmt: skip
def test_pattern_values_and_null_words_work_on_every_kind_of_column(
    tmp_path: Path, canonical: str, column: dict[str, Any], text: str, expected: Any
) -> None:
    assert value(tmp_path, canonical, column, text)[0] == expected


def test_number_that_a_pattern_does_not_fit_is_unreadable_not_read_whole(tmp_path: Path) -> None:
    found, batch = value(tmp_path, "mem_mib", {"pattern": r"(?P<value>\d+)G"}, "4096")
    assert (found, batch.notes["unreadable_mem_mib"]) == (None, 1)
    _, batch = value(tmp_path, "submit_time", {"pattern": "at=(?P<value>.+)"}, "1500")
    assert [reject.reason for reject in batch.rejects] == ["submit_time_unreadable"]


def test_null_words_of_the_file_are_those_of_every_column_that_has_none(tmp_path: Path) -> None:
    columns = {**LEAST, "user": "u", "queue": {"column": "q", "null_words": ["x"]}}
    options = {**EPOCH, "columns": columns, "null_words": ["?"]}
    batch = read_text(tmp_path, "id,sub,beg,end,u,q\n1,1000,2000,3000,?,?\n2,1000,2000,3000,x,x\n", options)
    assert (batch.jobs["user"].to_pylist(), batch.jobs["queue"].to_pylist()) == ([None, "x"], ["?", None])


def test_number_beyond_any_float_is_unreadable(tmp_path: Path) -> None:
    found, batch = value(tmp_path, "mem_mib", {"unit": "gib"}, "1e308")
    assert (found, batch.notes["unreadable_mem_mib"]) == (None, 1)


def test_restarts_are_attempts(tmp_path: Path) -> None:
    columns = {**LEAST, "restarts": "n"}
    text = "id,sub,beg,end,n\n1,1000,2000,3000,2\n2,1000,2000,3000,0\n3,1000,2000,3000,\n4,1000,,,2\n"
    batch = read_text(tmp_path, text, {**EPOCH, "columns": columns})
    assert batch.jobs["attempts"].to_pylist() == [3, 1, 1, 0]


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        pytest.param("%d.%m.%Y %H:%M:%S", "09.04.2018 10:00:05", utc(2018, 4, 9, 8, 0, 5), id="day first, summer in Berlin"),
        pytest.param("%d/%m/%Y %H:%M", "03/12/2018 10:00", utc(2018, 12, 3, 9), id="day first, not December's third in March"),
        pytest.param("%m/%d/%Y %I:%M %p", "03/12/2018 04:00 PM", utc(2018, 3, 12, 15), id="month first, twelve hours"),
        pytest.param("%Y %b %d %H:%M:%S", "2018 Apr  9 10:00:00", utc(2018, 4, 9, 8), id="blank before a short day"),
        pytest.param("%b %d %H:%M:%S %Y", "Mar  1 10:00:00 2024", utc(2024, 3, 1, 9), id="as bjobs writes it"),
        pytest.param("%Y%m%d%H%M%S%z", "20240301100000-0500", utc(2024, 3, 1, 15), id="offset"),
        pytest.param("%Y-%m-%dT%H:%M:%S.%f", "2024-03-01T10:00:00.250000", datetime(2024, 3, 1, 9, 0, 0, 250_000, UTC), id="fraction"),
        pytest.param("%d.%m.%Y %H:%M:%S", "31.02.2018 10:00:05", "submit_time_unreadable", id="no such day"),
        pytest.param("%d.%m.%Y %H:%M:%S", "2018-04-09 10:00:05", "submit_time_unreadable", id="another form"),
        pytest.param("%d.%m.%Y %H:%M:%S", "25.03.2018 02:30:00", "submit_time_nonexistent", id="skipped hour"),
        pytest.param("%d.%m.%Y %H:%M:%S", "N/A", "submit_missing", id="none"),
        pytest.param("%d.%m.%Y %H:%M:%S", "01.01.0001 00:00:00", "submit_missing", id="year 1"),
    ],
)  # fmt: skip
def test_times_in_a_form_of_the_sites_own(tmp_path: Path, form: str, text: str, expected: Any) -> None:
    columns = {"job_id": "id", "submit_time": {"column": "sub", "time": {"format": form}}, "runtime_s": "run"}
    batch = read_text(tmp_path, f"id,sub,run\n1,{text},10\n", {"columns": columns, "start_is_submit": True})
    found = batch.jobs["submit_time"][0].as_py() if batch.jobs.num_rows else batch.rejects[0].reason
    assert found == expected


def test_marks_after_a_time_are_cut_off_by_a_pattern(tmp_path: Path) -> None:
    when = {"pattern": "^(?P<value>.*?)(?: [LEX])?$", "time": {"format": "%b %d %H:%M:%S %Y"}}
    columns = {"job_id": "id", "submit_time": {"column": "sub", **when}, "runtime_s": "run"}
    text = "id,sub,run\n1,Mar  1 10:00:00 2024 L,10\n2,Mar  1 10:00:00 2024,10\n"
    batch = read_text(tmp_path, text, {"columns": columns, "start_is_submit": True})
    assert batch.jobs["submit_time"].to_pylist() == [utc(2024, 3, 1, 9)] * 2


COLUMN = {"column": "x"}


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        pytest.param({"submitted": "x"}, "submitted: no such canonical column", id="canonical name"),
        pytest.param({"user": {**COLUMN, "unti": "minutes"}}, "unti", id="key of a column"),
        pytest.param({"mem_mib": {**COLUMN, "unit": "furlong"}}, "mem_mib: unit 'furlong' is none of its units: mib", id="no unit"),
        pytest.param({"mem_mib": {**COLUMN, "unit": "minutes"}}, "mem_mib: unit 'minutes' is none of its", id="memory in minutes"),
        pytest.param({"runtime_s": {**COLUMN, "unit": "gib"}}, "runtime_s: unit 'gib' is none of its", id="time in GiB"),
        pytest.param({"user": {**COLUMN, "unit": "one"}}, "user: has no unit", id="unit of a text"),
        pytest.param({"end_time": {**COLUMN, "unit": "seconds"}}, "end_time: has no unit; say `time: epoch_ms`", id="unit of a time"),
        pytest.param({"runtime_s": {**COLUMN, "time": "epoch_s"}}, "runtime_s: `time` is for", id="time of a length"),
        pytest.param({"user": {**COLUMN, "zero_is_null": True}}, "user: `zero_is_null` is for numbers", id="zero of a text"),
        pytest.param({"end_time": {**COLUMN, "times": "cpu_count"}}, "end_time: `times: cpu_count` is for", id="times of a time"),
        pytest.param({"mem_mib": {**COLUMN, "times": "node_count"}}, "needs node_count among the columns", id="times nothing"),
        pytest.param({"cpu_count": {**COLUMN, "times": "cpu_count"}}, "cpu_count: `times: cpu_count` is for", id="times itself"),
        pytest.param({"node_count": {**COLUMN, "times": "cpu_count"}, "cpu_count": {**COLUMN, "times": "node_count"}},
                     "node_count: `times: cpu_count` is for", id="in a circle"),
        pytest.param({"user": {**COLUMN, "pattern": "(a)"}}, "is no RE2 pattern with named groups", id="pattern without the group"),
        pytest.param({"end_time": {**COLUMN, "time": {"format": "%d.%m. %H:%M"}}}, "has no year", id="no year"),
        pytest.param({"end_time": {**COLUMN, "time": {"format": "%d.%m.%Y"}}}, "does not say day, hour and minute", id="no hour"),
        pytest.param({"end_time": {**COLUMN, "time": {"format": "%d.%m.%Y %I:%M"}}}, "does not say", id="noon or midnight"),
        pytest.param({"end_time": {**COLUMN, "time": {"format": "%Y-%m-%d %H:%M %Z"}}}, "abbreviation names no zone", id="CET"),
        pytest.param({"end_time": {**COLUMN, "time": {"format": "%Y-%m-%d %Q %H:%M"}}}, "no form of a time", id="no directive"),
        pytest.param({"end_time": {**COLUMN, "time": "local"}}, "time", id="time format"),
    ],
)  # fmt: skip
def test_option_that_would_do_nothing_on_its_column_is_refused(columns: dict[str, Any], match: str) -> None:
    with pytest.raises(ValidationError, match=match):
        table.Options.model_validate({"columns": {**LEAST, **columns}})


@pytest.mark.parametrize(
    ("options", "match"),
    [
        pytest.param({"delimeter": ";"}, "delimeter", id="option"),
        pytest.param({"array_pattern": "("}, "is no RE2 pattern", id="broken pattern"),
        pytest.param({"constants": {"mem_mib": "1"}}, "only text columns", id="constant of a number"),
        pytest.param({"start_is_submit": True}, "start_is_submit is for logs without a start", id="two starts"),
        pytest.param({"columns": {"job_id": "id", "runtime_s": "r"}}, "no submission time", id="no submission"),
        pytest.param({"columns": {"submit_time": "s", "start_time": "b"}}, "neither end_time nor runtime_s", id="no end"),
        pytest.param({"columns": {"submit_time": "s", "runtime_s": "r"}}, "nothing says when a job started", id="no start"),
        pytest.param({"columns": {k: v for k, v in LEAST.items() if k != "job_id"}, "repeated_ids": "array_tasks"},
                     "read job_id", id="ids that are not there"),
    ],
)  # fmt: skip
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValidationError, match=match):
        table.Options.model_validate({**EPOCH, **options})


@pytest.mark.parametrize(
    ("name", "text", "option", "match"),
    [
        pytest.param("t.jsonl", '{"id": 1}\n', {"delimiter": ";"}, "is read as jsonl, where source.options.delimiter", id="JSON"),
        pytest.param(
            "t.csv", "id\n", {"kind": "csv", "records": "jobs"}, "is read as csv, where source.options.records", id="CSV"
        ),
    ],
)
def test_option_of_another_kind_of_file_is_refused(tmp_path: Path, name: str, text: str, option: Any, match: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SourceError, match=match):
        read(tmp_path / name, {**EPOCH, **option})


JOB = {"id": "7", "sub": 1000, "beg": 2000, "end": 3000, "spec": {"user": "ada", "nodes": [{"gpus": 4}, {"gpus": 2}]}}
DOTTED = {**EPOCH, "columns": {**LEAST, "user": "spec.user", "gpu_count": "spec.nodes.0.gpus", "queue": "spec.queue"}}


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        pytest.param("t.jsonl", json.dumps(JOB) + "\n", {}, id="lines"),
        pytest.param("t.json", json.dumps([JOB]), {}, id="array on one line"),
        pytest.param("t.json", "\ufeff" + json.dumps([JOB], indent=1), {}, id="array over lines, with a byte order mark"),
        pytest.param("t.json", json.dumps({"JOBS": 1, "RECORDS": [JOB]}, indent=1), {"records": "RECORDS"}, id="in an object"),
        pytest.param("t.txt", json.dumps([JOB]), {"kind": "json"}, id="of another name"),
    ],
)  # fmt: skip
def test_json_of_every_shape_is_the_same_job(tmp_path: Path, name: str, text: str, options: dict[str, Any]) -> None:
    batch = read_text(tmp_path, text, {**DOTTED, **options}, name)
    (job,) = batch.jobs.to_pylist()
    assert (job["job_id"], job["user"], job["gpu_count"], job["queue"], job["source"]) == ("7", "ada", 4.0, None, f"{name}:1")


def test_element_of_an_array_that_is_no_object_is_a_reject(tmp_path: Path) -> None:
    batch = read_text(tmp_path, json.dumps([JOB, 5, {**JOB, "sub": None}]), DOTTED, "t.json")
    assert [(reject.line, reject.reason, reject.raw[:4]) for reject in batch.rejects] == [
        (2, "not_an_object", "5"),
        (3, "submit_missing", '{"id'),
    ]
    assert batch.rows_in == 3


def test_key_with_a_dot_in_its_name_is_no_path(tmp_path: Path) -> None:
    batch = read_text(tmp_path, json.dumps([{**JOB, "spec.user": "bob"}]), DOTTED, "t.json")
    assert batch.jobs["user"].to_pylist() == ["bob"]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        pytest.param(
            json.dumps({"jobs": [JOB]}, indent=1), "Name the key of its array of jobs: source.options.records", id="object"
        ),
        pytest.param(json.dumps({"jobs": [JOB]}), "under it: source.options.records: jobs", id="object of one line"),
        pytest.param(json.dumps([JOB])[:-5], "not valid JSON", id="cut"),
        pytest.param(json.dumps([{"a": 1}]), "has no column 'beg'", id="other keys"),
    ],
)
def test_json_that_cannot_be_read_is_refused_in_words(tmp_path: Path, text: str, match: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(SourceError, match=match):
        read(tmp_path / "t.json", EPOCH)


def parquet(folder: Path, x: pa.Array) -> Path:
    when = {"id": ["1", "2"], "sub": [1000, 1000], "beg": [2000, 2000], "end": [3000, 3000]}
    pq.write_table(pa.table({**when, "x": x}), folder / "t.parquet")
    return folder / "t.parquet"


@pytest.mark.parametrize(
    ("canonical", "x", "expected"),
    [
        pytest.param("time_limit_s", pa.array([timedelta(minutes=90), None], pa.duration("us")), [5400.0, None], id="microseconds"),
        pytest.param("time_limit_s", pa.array([1500, None], pa.duration("ms")), [1.5, None], id="milliseconds"),
        pytest.param("cpu_count", pa.array([Decimal("1.50"), None], pa.decimal128(6, 2)), [1.5, None], id="decimal"),
        pytest.param("cpu_count", pa.array([3, None], pa.uint8()), [3.0, None], id="bytes"),
        pytest.param("gpu_count", pa.array([True, False]), [1.0, 0.0], id="switch"),
        pytest.param("user", pa.array(["ann", None]).dictionary_encode(), ["ann", None], id="category"),
        pytest.param("user", pa.array(["ann", "NA"], pa.large_string()), ["ann", None], id="large text"),
        pytest.param("user", pa.array([b"ann", b"\xff"], pa.binary()), ["ann", "\ufffd"], id="bytes of text"),
        pytest.param("user", pa.array([7.0, None]), ["7", None], id="float number"),
        pytest.param("user", pa.array([float("inf"), 1e300]), ["inf", "1e+300"], id="floats that are no ids"),
        pytest.param("user", pa.nulls(2), [None, None], id="nothing"),
    ],
)  # fmt: skip
def test_parquet_types_with_a_plain_meaning(tmp_path: Path, canonical: str, x: pa.Array, expected: list[Any]) -> None:
    (batch,) = read(parquet(tmp_path, x), {**EPOCH, "columns": {**LEAST, canonical: "x"}})
    assert batch.jobs[canonical].to_pylist() == expected


def test_runtime_of_a_duration_type(tmp_path: Path) -> None:
    columns = {"job_id": "id", "submit_time": "sub", "start_time": "beg", "runtime_s": "x"}
    (batch,) = read(parquet(tmp_path, pa.array([timedelta(hours=1, seconds=0.5)] * 2)), {**EPOCH, "columns": columns})
    assert batch.jobs["runtime_s"].to_pylist() == [3600.5, 3600.5]


@pytest.mark.parametrize(
    ("canonical", "column", "x"),
    [
        pytest.param("time_limit_s", {}, pa.array([clock(1), None], pa.time64("us")), id="time of day"),
        pytest.param("time_limit_s", {}, pa.array([date(2024, 1, 1), None]), id="date for a length"),
        pytest.param("time_limit_s", {}, pa.array([datetime(2024, 1, 1), None]), id="moment for a length"),  # noqa: DTZ001  a naive column
        pytest.param("time_limit_s", {"unit": "minutes"}, pa.array([timedelta(1), None]), id="length by its type, in minutes"),
        pytest.param("mem_mib", {}, pa.array([timedelta(1), None]), id="length for memory"),
        pytest.param("user", {}, pa.array([["a"], None]), id="list"),
        pytest.param("user", {}, pa.array([{"a": 1}, None]), id="struct"),
        pytest.param("user", {}, pa.array([timedelta(1), None]), id="length for a text"),
        pytest.param("end_time", {}, pa.array([date(2024, 1, 1), None]), id="date without a clock"),
        pytest.param("end_time", {}, pa.array([clock(1), None], pa.time64("us")), id="clock without a date"),
        pytest.param("end_time", {}, pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 2), id="moment as epoch seconds"),
        pytest.param("end_time", {"time": "naive"}, pa.array([timedelta(1), None]), id="length for a time"),
        pytest.param("end_time", {"time": "naive"}, pa.array([[1], None]), id="list for a time"),
        pytest.param("end_time", {"time": "naive", "null_words": ["x"]}, pa.array([datetime(2024, 1, 1)] * 2), id="words of moments"),  # noqa: DTZ001
    ],
)  # fmt: skip
def test_parquet_type_without_a_meaning_is_refused_by_the_columns_name(
    tmp_path: Path, canonical: str, column: dict[str, Any], x: pa.Array
) -> None:
    options = {**EPOCH, "columns": {**LEAST, canonical: {"column": "x", **column}}}
    with pytest.raises(SourceError, match=rf"t.parquet: column 'x' \({canonical}\) is of the type .*; expected"):
        read(parquet(tmp_path, x), options)


TYPES: dict[str, st.SearchStrategy[pa.Array]] = {
    name: st.lists(st.none() | values, min_size=2, max_size=2).map(partial(pa.array, type=kind))
    for name, kind, values in (
        ("int64", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        ("uint64", pa.uint64(), st.integers(0, 2**64 - 1)),
        ("float32", pa.float32(), st.floats(width=32)),
        ("float64", pa.float64(), st.floats()),
        ("bool", pa.bool_(), st.booleans()),
        ("text", pa.string(), st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(["UNLIMITED", "1:00:00", "NA", "1e400"])),
        ("bytes", pa.binary(), st.binary(max_size=4)),
        ("date", pa.date32(), st.dates()),
        ("time", pa.time64("us"), st.times()),
        ("moment", pa.timestamp("us"), st.datetimes()),
        ("zoned", pa.timestamp("us", tz="Asia/Tokyo"), st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))),  # noqa: DTZ001
        ("length", pa.duration("ns"), st.timedeltas(timedelta(-100_000), timedelta(100_000))),
        ("decimal", pa.decimal128(30, 5), st.decimals(-(10**20), 10**20, places=5)),
        ("list", pa.list_(pa.int64()), st.lists(st.integers(0, 9), max_size=2)),
        ("struct", pa.struct({"a": pa.int64()}), st.fixed_dictionaries({"a": st.integers(0, 9)})),
    )
}  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_the_type_and_the_options_there_is_a_reading_or_a_refusal_in_words(tmp_path: Path, data: st.DataObject) -> None:
    x = data.draw(st.sampled_from(sorted(TYPES)).flatmap(TYPES.__getitem__), "values")
    canonical = data.draw(st.sampled_from([name for name in table_options.MAPPABLE if name != "job_id"]), "column")
    column: dict[str, Any] = {"column": "x"}
    if data.draw(st.booleans()):
        column["null_words"] = ["", "0"]
    if data.draw(st.booleans()):
        column["pattern"] = r"^(?P<value>\S+)"
    units = table_options.units_of(canonical)
    if units:
        column["unit"] = data.draw(st.sampled_from(units), "unit")
    if canonical in table_options.TIMES:
        forms = ["naive", "aware", "epoch_s", "epoch_us", {"seconds_from": "2024-01-01"}, {"format": "%Y-%m-%d %H:%M:%S"}]
        column["time"] = data.draw(st.sampled_from(forms), "time")
    columns = {**LEAST, canonical: column}
    refusal = ""
    batches: list[Batch] = []
    try:
        batches = read(parquet(tmp_path, x), {**EPOCH, "columns": columns})
    except SourceError as error:
        refusal = str(error)
    assert ("column 'x'" in refusal) or sum(batch.rows_in for batch in batches) == 2
    for batch in batches:
        batch.jobs.validate(full=True)
