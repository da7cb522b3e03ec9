"""A short run of `make fuzz`, hypothesis on rows of every layout, and proof that the harness sees what it is there to see."""

import json
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import LawBroken, check_jobs, check_reading, cluster_of
from mutator import FRAGMENTS, mutated_line, mutated_record
from run import fuzz, make_file
from samples import BY_NAME, LAYOUTS, Layout, make_job

from runcast.data.job import load
from runcast.data.lake import Lake
from runcast.data.sources import delimited, table
from runcast.data.sources.batch import Reject
from runcast.data.sources.registry import SOURCES

LINES = 1400  # of each layout: some 24,000 together


def test_every_format_is_fuzzed() -> None:
    assert {layout.format for layout in LAYOUTS} == set(SOURCES)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_mutated_lines_break_no_law(layout: Layout, tmp_path: Path) -> None:
    tally = fuzz(layout, 7, LINES, tmp_path, lines_per_file=700)
    assert tally.faults == []
    assert tally.lines == LINES
    assert tally.mutated > LINES / 3
    assert tally.accepted > LINES / 10  # damage is in the lines: what stands beside is read
    assert tally.rejected > LINES / 50


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_lines_as_they_should_be_are_jobs(layout: Layout, tmp_path: Path) -> None:
    """All of them, but for those that tell of one job again; the lake takes what comes."""
    draw = Random(1)
    rows = [layout.row(make_job(draw, number)) for number in range(1, 201)]
    records = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    content = layout.document(records) if layout.document else layout.head + "\n".join(records) + "\n"
    reading = check_reading(layout, content.encode(), tmp_path, blocks_too=True)
    assert (reading.rejected, reading.refused) == (0, "")
    assert reading.accepted + reading.skipped == 200
    cluster = cluster_of(layout)
    report = load(cluster, Lake(tmp_path / "lake"), SOURCES[layout.format](tmp_path / layout.file, cluster))
    assert report.accepted == report.ended + report.open + report.duplicates + sum(report.left_out.values())
    assert report.ended > 40


def test_same_seed_same_file() -> None:
    layout = BY_NAME["sacct"]
    assert make_file(layout, "sacct-1-0", 50) == make_file(layout, "sacct-1-0", 50)
    assert make_file(layout, "sacct-1-0", 50) != make_file(layout, "sacct-2-0", 50)


LINE_LAYOUTS = [layout for layout in LAYOUTS if layout.document is None]
DOCUMENTS = [layout for layout in LAYOUTS if layout.document is not None]


@pytest.mark.parametrize("layout", LINE_LAYOUTS, ids=lambda layout: layout.name)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_rows_break_no_law(tmp_path: Path, layout: Layout, data: st.DataObject) -> None:
    """Well-formed rows of which some fields, or all, are something else; hypothesis makes a failure small."""
    row = str(layout.row(make_job(Random(data.draw(st.integers(0, 20))), 5))).encode()
    delimiter = max((b"|", b",", b";", b" ", b"\x02", b"^^|"), key=row.count)
    value = st.one_of(st.sampled_from(FRAGMENTS), st.sampled_from(row.split(delimiter)), st.binary(max_size=6))
    rows = data.draw(st.lists(st.dictionaries(st.integers(0, row.count(delimiter)), value, max_size=4), max_size=6))
    lines = [delimiter.join(change.get(at, field) for at, field in enumerate(row.split(delimiter))) for change in rows]
    check_reading(layout, layout.head.encode() + b"\n".join([row, *lines]) + b"\n", tmp_path, blocks_too=True)


values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(), st.text(max_size=5), st.just("2024-03-31 02:30:00")
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)


@pytest.mark.parametrize("layout", DOCUMENTS, ids=lambda layout: layout.name)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_record_breaks_no_law(tmp_path: Path, layout: Layout, data: st.DataObject) -> None:
    record = layout.row(make_job(Random(3), 5))
    assert isinstance(record, dict)
    assert layout.document is not None
    changed = record | data.draw(st.dictionaries(st.sampled_from(sorted(record)), values, max_size=4))
    texts = [json.dumps(one) for one in (record, changed, data.draw(values))]
    check_reading(layout, layout.document(texts).encode(), tmp_path)


def test_mutators_change_most_of_what_they_are_given() -> None:
    draw, line = Random(1), str(BY_NAME["helios"].row(make_job(Random(1), 1))).encode()
    assert sum(mutated_line(line, line[::-1], draw) != line for _ in range(200)) > 180
    record = {"a": {"b": [1, 2]}, "c": None}
    assert sum(repr(mutated_record(record, draw)) != repr(record) for _ in range(200)) > 180
    assert record == {"a": {"b": [1, 2]}, "c": None}


class TestTheHarnessSees:
    """Each law, broken on purpose."""

    layout = BY_NAME["table"]

    def content(self, *lines: str) -> bytes:
        draw = Random(1)
        rows = [str(self.layout.row(make_job(draw, number))) for number in range(1, 21)]
        return (self.layout.head + "\n".join([*rows, *lines]) + "\n").encode()

    def test_a_line_that_is_lost(self, tmp_path: Path) -> None:
        with (
            mock.patch.object(table, "in_order", return_value=()),
            pytest.raises(LawBroken, match="21 records in the file, 20 accounted for"),
        ):
            check_reading(self.layout, self.content("short,line"), tmp_path)

    def test_a_crash(self, tmp_path: Path) -> None:
        with mock.patch.object(table, "_states", side_effect=ZeroDivisionError), pytest.raises(ZeroDivisionError):
            check_reading(self.layout, self.content(), tmp_path)

    def test_a_reader_that_does_not_end(self, tmp_path: Path) -> None:
        def forever(*told: Any) -> Any:
            while True:
                pass

        with (
            mock.patch("laws.SECONDS_AT_MOST", 1),
            mock.patch.object(table, "_states", forever),
            pytest.raises(LawBroken, match="not read in 1 s"),
        ):
            check_reading(self.layout, self.content(), tmp_path)

    def test_a_reject_of_another_line(self, tmp_path: Path) -> None:
        with (
            mock.patch.object(delimited, "_wrong_count", return_value=Reject("log.csv", 1, "wrong", "", "short,line")),
            pytest.raises(LawBroken, match="expected line 1 as it stands"),
        ):
            check_reading(self.layout, self.content("short,line"), tmp_path)

    @pytest.mark.parametrize(
        ("column", "value", "match"),
        [
            pytest.param("user", " ", "no blank text in user", id="blank"),
            pytest.param("cpu_count", -1.0, "no number below 0 in cpu_count", id="below 0"),
            pytest.param("cpu_count", float("nan"), "finite numbers in cpu_count", id="no number"),
            pytest.param("time_limit_s", 0.0, "limits above 0", id="no limit"),
            pytest.param("state", "ODD", "known words in state", id="word"),
            pytest.param("state", "RUNNING", "no end of a job that is open", id="open"),
            pytest.param("runtime_s", None, "a runtime for every event", id="event"),
            pytest.param("job_key", "c:1:1", "keys made of id and submission", id="key"),
            pytest.param("source", "log.csv", "file and line of every job", id="source"),
            pytest.param("end_time", 4_102_444_800_000_000, "moments before 2100", id="time"),
        ],
    )
    def test_a_value_outside_its_type(self, tmp_path: Path, column: str, value: Any, match: str) -> None:
        cluster = cluster_of(self.layout)
        (tmp_path / "log.csv").write_bytes(self.content())
        jobs = pa.concat_tables([batch.jobs for batch in SOURCES["table"](tmp_path / "log.csv", cluster)])
        jobs = jobs.filter(pa.compute.equal(jobs["label"], "event")).slice(0, 1)
        check_jobs(jobs, cluster)
        at = jobs.schema.get_field_index(column)
        spoiled = jobs.set_column(at, jobs.schema.field(at), pa.array([value], jobs.schema.field(at).type))
        with pytest.raises(LawBroken, match=match):
            check_jobs(spoiled, cluster)
