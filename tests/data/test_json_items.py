"""Elements of a JSON array, read one after the other."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runcast.data.errors import SourceError
from runcast.data.sources import json_items
from runcast.data.sources.json_items import array_items

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=12,
)


@pytest.fixture
def items(tmp_path):
    def read(content: str | bytes, beside: dict | None = None) -> list:
        path = tmp_path / "file.json"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return list(array_items(path, "jobs", {} if beside is None else beside))

    return read


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(VALUES, max_size=6),
    st.dictionaries(st.text().filter(lambda key: key != "jobs"), VALUES, max_size=3),
    st.integers(1, 40),
)
def test_any_document_is_read_as_the_json_library_reads_it(items, jobs, others, piece_bytes):
    beside: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_items, "_PIECE_BYTES", piece_bytes)
        assert items(json.dumps({**others, "jobs": jobs}, indent=1), beside) == jobs
    assert beside == others


def test_several_documents_in_a_row(items):
    assert items('{"jobs": [1, 2]}\n{"meta": {}, "jobs": []} {"jobs": [3]}\n') == [1, 2, 3]


def test_array_without_its_object_is_read(items):
    assert items('[{"a": 1}, {"a": 2}]') == [{"a": 1}, {"a": 2}]
    assert items("[]") == []


def test_number_at_the_end_of_a_piece_is_not_cut(items, monkeypatch):
    monkeypatch.setattr(json_items, "_PIECE_BYTES", 1)
    assert items('{"jobs": [12345, 6.25e2]}') == [12345, 625.0]


def test_byte_order_mark_and_bytes_that_are_not_utf8(items):
    assert items(b'\xef\xbb\xbf{"jobs": ["n\xf6m"]}') == ["n\\xf6m"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ("3", r"this is no JSON: expected '\{' or '\[' at its beginning, found '3'"),
        ("sacct: error: no connection", "this is no JSON: .* found 'sacct: error: no connection'"),
        ("{}", "no array 'jobs'"),
        ('{"meta": 1, "jobs": {}}', "no array 'jobs' in this JSON file; it has 'jobs, meta'"),
        ('{"jobs": [1, 2', "cut short"),
        ('{"jobs": [1,]}', "not valid JSON"),
        ('{"jobs": [1] "a": 2}', "expected ','"),
        ('{"jobs": [' + "[" * 100_000, "not valid JSON"),
        ('{"jobs": [' + "9" * 5_000 + "]}", "not valid JSON"),
        ("JobID|State\n", "this is no JSON"),
    ],
    ids=range(11),
)
def test_what_is_no_such_document_is_a_source_error(items, content, message):
    with pytest.raises(SourceError, match=message):
        items(content)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(items, content):
    for text in (content, b'{"jobs": [' + content):
        try:
            items(text)
        except SourceError:
            continue
