"""Delimited text against hand-made files, and against Python's csv module on random ones."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runcast.data.errors import SourceError
from runcast.data.sources.blocks import BLOCK_BYTES
from runcast.data.sources.delimited import Piece, read_delimited


def read(
    folder: Path, text: str | bytes, delimiter: str = ",", comment: str | None = None, header: tuple[str, ...] | None = None
) -> list[Piece]:
    path = folder / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(read_delimited(path, delimiter, comment, header))


def records(pieces: list[Piece]) -> list[tuple[str, ...]]:
    return [row for piece in pieces for row in zip(*(column.to_pylist() for column in piece.columns.values()), strict=True)]


def numbers(pieces: list[Piece]) -> list[int]:
    return [int(n) for piece in pieces for n in piece.lines]


@pytest.mark.parametrize(
    ("text", "expected", "lines"),
    [
        pytest.param("a,b\n1,2\n3,4\n", [("1", "2"), ("3", "4")], [2, 3], id="plain"),
        pytest.param("a,b\n1,2\n3,4", [("1", "2"), ("3", "4")], [2, 3], id="no last line end"),
        pytest.param("a,b\r\n1,2\r\n3,4\r\n", [("1", "2"), ("3", "4")], [2, 3], id="dos"),
        pytest.param("a,b\r1,2\r3,4\r", [("1", "2"), ("3", "4")], [2, 3], id="old mac"),
        pytest.param("\ufeffa,b\n1,2\n", [("1", "2")], [2], id="byte order mark"),
        pytest.param("\n\na,b\n\n1,2\n\n3,4\n", [("1", "2"), ("3", "4")], [5, 7], id="blank lines"),
        pytest.param('a,b\n"1",2\n3,"x,y"\n', [("1", "2"), ("3", "x,y")], [2, 3], id="quotes"),
        pytest.param('a,b\n1,"x\ny"\n3,4\n', [("1", "x\ny"), ("3", "4")], [2, 4], id="line end in quotes"),
        pytest.param('a,b\n1,"x\n\ny"\n3,4\n', [("1", "x\n\ny"), ("3", "4")], [2, 5], id="blank line in quotes"),
        pytest.param('a,b\n1,"say ""hi"""\n', [("1", 'say "hi"')], [2], id="doubled quotes"),
        pytest.param('a,b\n1,5" disk\n3,4\n', [("1", '5" disk'), ("3", "4")], [2, 3], id="quote inside a field"),
        pytest.param("a,b\n1,\n,2\n", [("1", ""), ("", "2")], [2, 3], id="empty fields"),
        pytest.param("a,b\n1,é\n", [("1", "é")], [2], id="not ascii"),
        pytest.param(b"a,b\n1,\xff\n", [("1", "\\xff")], [2], id="not utf-8"),
        pytest.param('"a","b"\n1,2\n', [("1", "2")], [2], id="quoted header"),
    ],
)
def test_records_and_their_lines(tmp_path: Path, text: str | bytes, expected: list[tuple[str, ...]], lines: list[int]) -> None:
    pieces = read(tmp_path, text)
    assert records(pieces) == expected
    assert numbers(pieces) == lines
    assert not [reject for piece in pieces for reject in piece.rejects]


@pytest.mark.parametrize(
    ("text", "reason", "line", "raw"),
    [
        pytest.param("a,b\n1,2\nx\n3,4\n", "wrong_field_count", 3, "x", id="short"),
        pytest.param("a,b\n1,2\nx,y,z\n3,4\n", "wrong_field_count", 3, "x,y,z", id="long"),
        pytest.param('a,b\n1,2\nx,"y\n3,4\n', "bad_quote", 3, 'x,"y', id="quote that never closes"),
        pytest.param('a,b\n1,2\n"x"y,z\n3,4\n', "bad_quote", 3, '"x"y,z', id="text after a quote"),
        pytest.param('a,b\n1,2\n"x,y"\n3,4\n', "wrong_field_count", 3, '"x,y"', id="short, quoted"),
    ],
)
def test_record_that_does_not_fit_costs_only_itself(tmp_path: Path, text: str, reason: str, line: int, raw: str) -> None:
    pieces = read(tmp_path, text)
    assert records(pieces) == [("1", "2"), ("3", "4")]
    (reject,) = [reject for piece in pieces for reject in piece.rejects]
    assert (reject.reason, reject.line, reject.raw) == (reason, line, raw)


def test_stray_quote_in_a_long_file_costs_one_line(tmp_path: Path) -> None:
    text = 'a,b\nx,"y\n' + "".join(f"{n},v\n" for n in range(5000))
    pieces = read(tmp_path, text)
    assert len(records(pieces)) == 5000
    assert [(r.line, r.raw) for p in pieces for r in p.rejects] == [(2, 'x,"y')]


def test_quoted_record_may_go_on_in_the_next_block(tmp_path: Path) -> None:
    row = f"{'v' * 97},v\n"
    head = "a,b\n" + row * (BLOCK_BYTES // len(row) - 1)
    filler = "x" * (BLOCK_BYTES - len(head) - 8)
    pieces = read(tmp_path, text := f'{head}{filler},"one\nand two"\nlast,"q"\n')
    assert len(pieces) > 1
    assert records(pieces)[-2:] == [(filler, "one\nand two"), ("last", "q")]
    assert numbers(pieces)[-1] == text.count("\n")


def test_comments_and_repeated_headers_are_no_records(tmp_path: Path) -> None:
    pieces = read(tmp_path, "# made by hand\na,b\n1,2\n# more\na,b\n3,4\n", comment="#")
    assert (records(pieces), numbers(pieces)) == ([("1", "2"), ("3", "4")], [3, 6])
    assert [piece.skipped for piece in pieces] == [{"repeated_header": 1}]


def test_header_may_be_given_for_a_file_without(tmp_path: Path) -> None:
    assert records(read(tmp_path, "1|2\n3|4\n", delimiter="|", header=("a", "b"))) == [("1", "2"), ("3", "4")]


def test_raw_text_is_that_of_the_record(tmp_path: Path) -> None:
    (piece,) = read(tmp_path, 'a,b\nbad\n1,"x\ny"\n3,4\n')
    assert [piece.raw_text(i) for i in range(2)] == ['1,"x\ny"', "3,4"]
    (piece,) = read(tmp_path, "a,b\n1,2\nbad\n3,4\n")
    assert [piece.raw_text(i) for i in range(2)] == ["1,2", "3,4"]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        pytest.param("a,a\n1,2\n", "a name twice: 'a'", id="twice"),
        pytest.param("a,\n1,2\n", "an empty name", id="empty name"),
        pytest.param("\n\n", "holds no header line", id="blank file"),
    ],
)
def test_header_that_cannot_name_columns_is_an_error(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(SourceError, match=match):
        read(tmp_path, text)


FIELD = st.text(alphabet=st.sampled_from('ab1 ,"\n\u00e9'), max_size=6)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(FIELD, FIELD, FIELD), max_size=8))
def test_what_the_csv_module_writes_comes_back(tmp_path: Path, rows: list[tuple[str, ...]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("x", "y", "z"), *rows])
    pieces = read(tmp_path, text.getvalue())
    assert records(pieces) == rows
    assert not [reject for piece in pieces for reject in piece.rejects]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.text(alphabet=st.sampled_from("ab,; \u00e9"), min_size=1, max_size=8), max_size=10))
def test_without_quotes_every_line_is_a_record_or_a_reject(tmp_path: Path, lines: list[str]) -> None:
    pieces = read(tmp_path, "x,y\n" + "".join(f"{line}\n" for line in lines))
    rejects = [(reject.line, reject.raw) for piece in pieces for reject in piece.rejects]
    assert sorted([*numbers(pieces), *(number for number, _ in rejects)]) == list(range(2, len(lines) + 2))
    assert records(pieces) == [tuple(line.split(",")) for line in lines if line.count(",") == 1]
    assert rejects == [(n, line) for n, line in enumerate(lines, 2) if line.count(",") != 1]
