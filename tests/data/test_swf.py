"""SWF against the manual (version 2.2) and hand-made lines."""

import gzip
import lzma
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.sources import swf
from runcast.data.sources.batch import Batch
from runcast.data.sources.blocks import BLOCK_BYTES

KNOWN = "; UnixStartTime: 1000000000\n"  # 2001-09-09T01:46:40Z


def cluster(options: dict[str, Any] | None = None, **more: Any) -> Cluster:
    source = {"format": "swf", "paths": ["log.swf"], "options": options or {}}
    return Cluster.model_validate({"name": "c", "source": source, "time_zone": "Europe/Stockholm", **more})


def read(folder: Path, text: str | bytes, options: dict[str, Any] | None = None, **more: Any) -> list[Batch]:
    path = folder / "log.swf"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(swf.read(path, cluster(options, **more)))


def jobs(folder: Path, text: str, options: dict[str, Any] | None = None, **more: Any) -> list[dict[str, Any]]:
    return [row for batch in read(folder, text, options, **more) for row in batch.jobs.to_pylist()]


def line(number: int = 1, **fields: float) -> str:
    """One job line; what is not named is -1, as in a log that does not know it."""
    values = (
        dict.fromkeys(swf.FIELDS, -1.0)
        | {"job": number, "submit": 0, "wait": 0, "run": 10, "allocated": 1, "requested": 1, "status": 1}
        | fields
    )
    return " ".join(f"{value:g}" for value in values.values()) + "\n"


CASE_26 = (
    "; UnixStartTime: UNKNOWN\n"
    "1 0 5 0 4 -1 -1 4 3600 -1 1 7 -1 -1 1 -1 -1 -1\n"
    "2 9 -1 -1 -1 -1 -1 8 600 -1 5 -1 -1 -1 1 -1 -1 -1\n"
    "3 20 1 2.5 0 -1 -1 2 -1 -1 0 8 -1 -1 1 -1 -1 -1\n"
)


def test_zero_fractional_and_missing_runtimes_are_told_apart(tmp_path: Path) -> None:
    first, second, third = jobs(tmp_path, CASE_26, clock="relative")
    assert (first["runtime_s"], first["label"], first["user"], first["time_limit_s"], first["queue_s"]) == (
        0.0,
        "event",
        "7",
        3600.0,
        5.0,
    )
    assert (second["runtime_s"], second["start_time"], second["label"], second["user"]) == (None, None, "excluded", None)
    assert (second["state"], second["flags"]) == ("CANCELLED", ["never_started", "end_assumed"])
    assert (third["runtime_s"], third["cpu_count"], third["time_limit_s"], third["time_limit_kind"]) == (2.5, 2.0, None, "absent")


def test_log_of_unknown_start_is_refused_unless_its_clock_is_said_to_be_relative(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"UnixStartTime is 'UNKNOWN'.*clock: relative"):
        read(tmp_path, CASE_26)
    with pytest.raises(SourceError, match=r"UnixStartTime is '0'"):
        read(tmp_path, CASE_26.replace("UNKNOWN", "0"))
    assert jobs(tmp_path, CASE_26, clock="relative")[1]["submit_time"] == datetime(1970, 1, 1, 0, 0, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "options", "expected"),
    [
        pytest.param("; UnixStartTime: 1000000000\n", {}, datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC), id="seconds"),
        pytest.param(";UnixStartTime:1000000000\n", {}, datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC), id="without blanks"),
        pytest.param("; UnixStartTime: 2001-09-09 03:46:40\n", {}, datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC), id="local date"),
        pytest.param(
            "; UnixStartTime: 2001-09-09T01:46:40+00:00\n", {}, datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC), id="date with zone"
        ),
        pytest.param(
            "; UnixStartTime: Sun Sep  9 03:46:40 CEST 2001\n",
            {},
            datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC),
            id="as date prints",
        ),
        pytest.param("; UnixStartTime: 0\n", {"unix_start_time": 0}, datetime(1970, 1, 1, tzinfo=UTC), id="zero, as an option"),
        pytest.param("", {"unix_start_time": 5}, datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC), id="option"),
        pytest.param(KNOWN, {"unix_start_time": "2020-01-01T00:00:00Z"}, datetime(2020, 1, 1, tzinfo=UTC), id="option wins"),
    ],
)
def test_anchor_is_read_from_header_or_option(tmp_path: Path, header: str, options: dict[str, Any], expected: datetime) -> None:
    (job,) = jobs(tmp_path, header + line(), options)
    assert job["submit_time"] == expected


def test_times_identity_and_source_of_a_job(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, KNOWN + "\n" + line(17, submit=60, wait=30, run=90.5, user=0, group=3, executable=12))
    assert job["start_time"] == datetime(2001, 9, 9, 1, 48, 10, tzinfo=UTC)
    assert job["end_time"] == datetime(2001, 9, 9, 1, 49, 40, 500_000, tzinfo=UTC)
    assert (job["job_id"], job["job_key"], job["source"]) == ("17", "c:17:1000000060000000", "log.swf:3")
    assert (job["user"], job["group"], job["job_name"], job["attempts"], job["flags"]) == ("0", "3", "12", 1, [])


@pytest.mark.parametrize(
    ("fields", "state", "label", "runtime_s"),
    [
        pytest.param({"status": 1}, "COMPLETED", "event", 10.0, id="completed"),
        pytest.param({"status": 0}, "FAILED", "event", 10.0, id="failed"),
        pytest.param({"status": 5}, "CANCELLED", "censored", 10.0, id="cancelled while running"),
        pytest.param({"status": 5, "run": -1}, "CANCELLED", "excluded", None, id="cancelled before start"),
        pytest.param(
            {"status": 5, "run": 0, "allocated": -1, "requested": 4}, "CANCELLED", "excluded", None, id="cancelled, no processors"
        ),
        pytest.param({"status": 5, "run": 0}, "CANCELLED", "censored", 0.0, id="cancelled at once"),
        pytest.param({"status": 0, "run": -1, "allocated": -1}, "FAILED", "excluded", None, id="failed before start"),
        pytest.param({"status": -1}, "OTHER", "event", 10.0, id="outcome not known"),
        pytest.param({"status": 2, "run": -1}, "RUNNING", "censored", None, id="running at the log's end"),
        pytest.param({"status": 9}, "OTHER", "censored", 10.0, id="status of no manual"),
    ],
)
def test_status_gives_state_and_label(
    tmp_path: Path, fields: dict[str, float], state: str, label: str, runtime_s: float | None
) -> None:
    (job,) = jobs(tmp_path, KNOWN + line(**fields))
    assert (job["state"], job["label"], job["runtime_s"]) == (state, label, runtime_s)
    assert (job["end_time"] is None) == (state == "RUNNING")


def test_withdrawn_job_ends_when_its_wait_ended(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, KNOWN + line(submit=0, wait=40, run=-1, status=5, allocated=-1))
    assert job["end_time"] == datetime(2001, 9, 9, 1, 47, 20, tzinfo=UTC)
    assert (job["start_time"], job["queue_s"], job["attempts"], job["flags"]) == (None, None, 0, ["never_started"])


def test_bursts_after_a_summary_are_skipped_and_the_summary_is_the_job(tmp_path: Path) -> None:
    text = (
        KNOWN
        + line(1, run=300, status=1)
        + line(1, submit=-1, run=100, status=2)
        + line(1, submit=-1, run=200, status=3)
        + line(2)
    )
    (batch,) = read(tmp_path, text)
    assert [job["runtime_s"] for job in batch.jobs.to_pylist()] == [300.0, 10.0]
    assert (batch.skipped, batch.rejects, batch.rows_in) == ({"partial_execution": 2}, (), 4)


def test_bursts_are_known_across_blocks(tmp_path: Path) -> None:
    summary = line(1, run=300, status=0)
    comment = ";" + "-" * (BLOCK_BYTES - len(KNOWN) - len(summary) - 2) + "\n"  # so that the burst begins the second block
    batches = read(tmp_path, KNOWN + comment + summary + line(1, submit=-1, run=300, status=4) + line(2))
    assert [batch.jobs.num_rows for batch in batches] == [1, 1]
    assert [batch.skipped for batch in batches] == [{}, {"partial_execution": 1}]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        pytest.param("2 0 0 10 1 -1 -1 1 -1 -1 1 -1 -1 -1 -1 -1 -1\n", "wrong_field_count", id="short"),
        pytest.param("2 0 0 10 1 -1 -1 1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1 7\n", "wrong_field_count", id="long"),
        pytest.param(line(2).replace("10", "ten"), "not_a_number", id="word"),
        pytest.param(line(2).replace("10", "nan"), "not_a_number", id="nan"),
        pytest.param(line(2).replace("10", "1e400"), "not_a_number", id="beyond floats"),
        pytest.param(line(2, submit=-1), "submit_missing", id="no submission"),
        pytest.param(line(2, run=-7), "runtime_negative", id="negative"),
        pytest.param(line(2, run=-1), "runtime_missing", id="completed without a runtime"),
        pytest.param(line(2.5), "id_not_whole", id="fraction of a job"),  # type: ignore[arg-type]
        pytest.param(line(2, submit=5e9), "time_out_of_range", id="in another unit"),
    ],
)
def test_bad_line_is_a_reject_with_its_number_and_text_and_shifts_nothing(tmp_path: Path, bad: str, reason: str) -> None:
    (batch,) = read(tmp_path, KNOWN + line(1, user=4) + bad + "; a comment\n" + line(3, user=5))
    assert [(job["job_id"], job["user"]) for job in batch.jobs.to_pylist()] == [("1", "4"), ("3", "5")]
    (reject,) = batch.rejects
    assert (reject.file, reject.line, reject.reason, reject.raw) == ("log.swf", 3, reason, bad.rstrip("\n"))
    assert batch.rows_in == 3


def test_processors_are_those_requested_and_else_those_allocated(tmp_path: Path) -> None:
    text = (
        KNOWN
        + line(1, requested=8, allocated=4)
        + line(2, requested=-1, allocated=4)
        + line(3, requested=-1, allocated=-1, run=5)
    )
    rows = jobs(tmp_path, text)
    assert [row["cpu_count"] for row in rows] == [8.0, 4.0, None]
    assert [row["flags"] for row in rows] == [[], ["cpus_from_allocation"], []]


def test_memory_is_kib_a_processor_and_comes_in_mib_in_total(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, KNOWN + line(requested=4, requested_memory=524288))
    assert job["mem_mib"] == 2048.0


@pytest.mark.parametrize(
    ("header", "options", "nodes"),
    [
        pytest.param("; MaxNodes: 338 (batch partition; 512 total)\n; MaxProcs: 338\n", {}, 4.0, id="one processor a node"),
        pytest.param("; MaxNodes: 10\n; MaxProcs: 80\n", {}, None, id="several"),
        pytest.param("", {}, None, id="not said"),
        pytest.param("", {"processors": "nodes"}, 4.0, id="option"),
    ],
)
def test_nodes_are_known_only_where_a_processor_is_a_node(
    tmp_path: Path, header: str, options: dict[str, Any], nodes: float | None
) -> None:
    (job,) = jobs(tmp_path, KNOWN + header + line(requested=4), options)
    assert job["node_count"] == nodes


def test_names_of_the_header_are_used_where_they_tell_numbers_apart(tmp_path: Path) -> None:
    header = (
        "; Queue: 0 interactive\n;     Queue: 1 - Normal jobs queue\n; Queues: two words\n"
        "; Partition:  1  batch\n; Partition: 2 UNKNOWN\n; Partition: 3 gpu\n; Partition: 4 gpu\n"
        "; Partition: 5 0\n; Partition: 6  -1\n"
    )
    text = "".join(
        line(n, queue=q, partition=p)
        for n, (q, p) in enumerate([(0, -1), (1, -1), (7, 1), *((-1, p) for p in range(1, 7)), (-1, -1)])
    )
    queues = [row["queue"] for row in jobs(tmp_path, KNOWN + header + text)]
    assert queues == ["interactive", "1", "7", "batch", "2", "3", "4", "5", "6", None]


def test_options_say_what_a_column_is_worth(tmp_path: Path) -> None:
    text = KNOWN + line(executable=9, status=0)
    (job,) = jobs(tmp_path, text, {"executable": "unusable", "status": "unusable"})
    assert (job["job_name"], job["state"], job["label"], job["flags"]) == (None, "OTHER", "event", ["state_unknown"])


def test_limit_of_a_cluster_without_limits_is_not_read(tmp_path: Path) -> None:
    text = KNOWN + line(requested_time=600)
    assert [jobs(tmp_path, text, time_limit=kind)[0]["time_limit_kind"] for kind in ("hard", "advisory", "absent")] == [
        "hard",
        "advisory",
        "absent",
    ]
    assert jobs(tmp_path, text, time_limit="absent")[0]["time_limit_s"] is None


def test_wait_that_is_missing_leaves_the_queueing_time_null(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, KNOWN + line(wait=-1, run=10))
    assert (job["runtime_s"], job["queue_s"], job["flags"]) == (10.0, None, ["wait_missing"])


@pytest.mark.parametrize(
    ("zone", "notes"),
    [
        pytest.param("Europe/Stockholm", {}, id="same"),
        pytest.param("Europe/Paris", {}, id="same clock by another name"),
        pytest.param("US/Pacific", {"time_zone_differs_from_header": 1}, id="other"),
        pytest.param("UNKNOWN", {}, id="not said"),
        pytest.param("Mars/Olympus", {"time_zone_of_header_unknown": 1}, id="unknown"),
    ],
)
def test_zone_of_the_header_is_compared_with_the_clusters(tmp_path: Path, zone: str, notes: dict[str, int]) -> None:
    (batch,) = read(tmp_path, KNOWN + f"; TimeZoneString: {zone}\n" + line())
    assert batch.notes == notes


def test_unsorted_log_keeps_the_order_of_the_file(tmp_path: Path) -> None:
    assert [row["job_id"] for row in jobs(tmp_path, KNOWN + line(1, submit=50) + line(2, submit=10))] == ["1", "2"]


def test_file_without_a_last_line_end_loses_no_job(tmp_path: Path) -> None:
    assert len(jobs(tmp_path, KNOWN + line(1) + line(2).rstrip("\n"))) == 2


def test_blanks_tabs_and_dos_line_ends_do_not_matter(tmp_path: Path) -> None:
    plain = jobs(tmp_path, KNOWN + line(1, user=3) + line(2))
    spaced = jobs(
        tmp_path,
        KNOWN + "".join("  \t" + text.replace(" ", " \t  ").replace("\n", "  \r\n") for text in (line(1, user=3), line(2))),
    )
    assert spaced == plain


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress], ids=["gz", "xz"])
def test_compressed_log_gives_the_rows_of_the_plain_one(tmp_path: Path, pack: Any) -> None:
    text = KNOWN + "".join(line(n, submit=n, user=n % 3) for n in range(200))
    assert [b.jobs.to_pylist() for b in read(tmp_path, pack(text.encode()))] == [b.jobs.to_pylist() for b in read(tmp_path, text)]


def test_cut_archive_is_an_error(tmp_path: Path) -> None:
    whole = gzip.compress((KNOWN + "".join(line(n) for n in range(500))).encode())
    with pytest.raises(SourceError, match="damaged or cut short"):
        read(tmp_path, whole[:-20])


@pytest.mark.parametrize(("content", "match"), [(b"", "the file is empty"), (None, "no such file")], ids=["empty", "missing"])
def test_file_that_is_not_there_or_empty_is_an_error(tmp_path: Path, content: bytes | None, match: str) -> None:
    path = tmp_path / "log.swf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SourceError, match=match):
        list(swf.read(path, cluster()))


BYTES = st.one_of(
    st.binary(max_size=400),
    st.lists(
        st.one_of(
            st.sampled_from([line(1), line(1, status=2, run=5), line(2, run=-1, status=5), "; x\n", "\n", "\r\n", " \n"]),
            st.text(max_size=40),
        ),
        max_size=12,
    ).map(lambda parts: "".join(parts).encode("utf-8", "surrogatepass")),
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=BYTES)
def test_whatever_the_bytes_every_line_is_accounted_for(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any.swf"
    path.write_bytes(KNOWN.encode() + content)
    batches = list(swf.read(path, cluster()))
    lines = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    records = [text for text in lines if text.strip() and not text.strip().startswith(b";")]
    assert sum(batch.rows_in for batch in batches) == len(records)
    for batch in batches:
        batch.jobs.validate(full=True)
        assert all(reject.line >= 1 and reject.raw for reject in batch.rejects)
    packed = tmp_path / "any.swf.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    again = list(swf.read(packed, cluster()))
    assert [b.jobs.drop(["source"]) for b in again] == [b.jobs.drop(["source"]) for b in batches]


@pytest.mark.parametrize("header", ["", "; UnixStartTime: UNKNOWN\n", "; UnixStartTime: 0\n"], ids=["none", "unknown", "zero"])
def test_times_that_are_unix_seconds_by_their_size_are_read_as_such_with_a_note(tmp_path: Path, header: str) -> None:
    (batch,) = read(tmp_path, header + line(submit=1_000_000_000) + line(2, submit=1_000_000_060))
    assert batch.jobs["submit_time"][0].as_py() == datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
    assert batch.notes == {"times_are_unix_seconds": 1}


def test_large_times_among_small_ones_are_no_unix_seconds(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="UnixStartTime is 'absent'"):
        read(tmp_path, line(submit=1_000_000_000) + line(2, submit=60))


@pytest.mark.parametrize(("status", "run"), [(2, 5), (3, 5), (4, 5)], ids=["continued", "last", "failed"])
def test_partial_execution_that_is_its_jobs_only_line_is_a_job_of_unknown_outcome(tmp_path: Path, status: int, run: int) -> None:
    (batch,) = read(tmp_path, KNOWN + line(1) + line(2, status=status, run=run))
    job = batch.jobs.to_pylist()[1]
    assert (job["job_id"], job["state"], job["label"], job["runtime_s"], job["flags"]) == (
        "2",
        "OTHER",
        "event",
        5.0,
        ["state_unknown"],
    )
    assert batch.rejects == ()


def test_partial_executions_of_a_job_without_its_summary_are_rejects(tmp_path: Path) -> None:
    (batch,) = read(tmp_path, KNOWN + line(1) + line(2, status=2) + line(3) + line(2, status=3))
    assert [(reject.line, reject.reason) for reject in batch.rejects] == [
        (3, "partial_without_summary"),
        (5, "partial_without_summary"),
    ]


def test_exit_codes_in_place_of_statuses_are_no_status_and_cost_no_job(tmp_path: Path) -> None:
    codes = [0] * 30 + [267, 127, -4, 70, 2, 3] * 4
    (batch,) = read(tmp_path, KNOWN + "".join(line(n, status=code) for n, code in enumerate(codes, 1)))
    assert set(zip(batch.jobs["state"].to_pylist(), batch.jobs["label"].to_pylist(), strict=True)) == {("OTHER", "event")}
    assert (batch.jobs.num_rows, batch.rejects) == (54, ())
    assert batch.notes == {"state_unknown": 54, "status_unusable": 1}


def test_partial_executions_of_a_log_whose_status_is_unusable_are_jobs(tmp_path: Path) -> None:
    (batch,) = read(tmp_path, KNOWN + line(1, status=2) + line(2, status=2), {"status": "unusable"})
    assert (batch.jobs.num_rows, batch.rejects) == (2, ())


EXTENDED = "1 0 5 100 4 -1 -1 4 3600 -1 1 7 1 1 2 1 -1 -1 {n1,n2} batch a request of words\n"


def test_fields_that_simulators_add_are_cut_off_and_noted(tmp_path: Path) -> None:
    short = EXTENDED.replace(" -1 -1 {n1,n2}", " {n1,n2}").replace(" batch a request of words", "")
    (batch,) = read(
        tmp_path, KNOWN + EXTENDED + line(2) + EXTENDED.replace("100", "ten") + short + "; of 20 " + "words " * 20 + "\n"
    )
    assert [(job["job_id"], job["runtime_s"]) for job in batch.jobs.to_pylist()] == [("1", 100.0), ("2", 10.0)]
    assert batch.notes == {"fields_beyond_the_standard": 2}
    assert [(reject.line, reject.reason) for reject in batch.rejects] == [(4, "not_a_number"), (5, "wrong_field_count")]
    assert batch.rejects[0].raw == EXTENDED.replace("100", "ten").rstrip("\n")


def test_one_longer_line_in_a_log_of_the_standard_stays_a_reject(tmp_path: Path) -> None:
    (batch,) = read(tmp_path, KNOWN + line(1) + EXTENDED)
    assert [reject.reason for reject in batch.rejects] == ["wrong_field_count"]
