"""Delimited text (CSV and its like) in pieces of whole records, each with its line number, all fields as text.

A record of another number of fields than the header is a reject with its raw text, never shifted. Quoted fields may hold the
delimiter and line ends; a quote that never closes costs its own line only. Blank lines and comments are no records; a header
that stands inside the file again is counted as skipped.
"""

import csv
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from runcast.data.errors import Quoted, SourceError
from runcast.data.sources.batch import Reject
from runcast.data.sources.blocks import Block, read_blocks, text_of

QUOTED_RECORD_LINES_AT_MOST = 1000  # a longer "record" is a quote that somebody forgot to close


@dataclass(frozen=True)
class Piece:
    """Some records of a file: `columns` are strings by header name; `lines` is the 1-based line each record begins at."""

    columns: dict[str, pa.Array]
    lines: np.ndarray
    texts: Callable[[], Sequence[str]]  # raw text by record, made only where somebody asks
    rejects: tuple[Reject, ...] = ()
    skipped: dict[str, int] = field(default_factory=dict)

    @cached_property
    def raw(self) -> Sequence[str]:
        """The records as they stand in the log."""
        return self.texts()

    def raw_text(self, record: int) -> str:
        return self.raw[record]


def read_delimited(
    path: Path, delimiter: str = ",", comment: str | None = None, header: Sequence[str] | None = None
) -> Iterator[Piece]:
    """Yield the records of `path`; the first record is the header where none is given.

    Raises SourceError where there is no header, or one with a name twice.
    """
    reader = _Reader(path.name, delimiter, comment, tuple(header) if header else None)
    for block in read_blocks(path):
        yield reader.piece(block)
    if reader.rest:
        yield reader.piece(Block(1, b""), last=True)
    if reader.header is None:
        raise SourceError(f"{path}: holds no header line")


class _Line(NamedTuple):
    number: int
    data: bytes


class _Reader:
    """Keeps the header and the lines of a record that goes on in the next block."""

    def __init__(self, file: str, delimiter: str, comment: str | None, header: tuple[str, ...] | None) -> None:
        self.file = file
        self.delimiter = delimiter
        self.comment = comment.encode() if comment else None
        self.header = _checked(header, file) if header else None
        self.header_line = b""
        self.rest: list[_Line] = []

    def piece(self, block: Block, *, last: bool = False) -> Piece:
        """Read one block; at the `last` a quote that is still open has no more lines to close in."""
        if not self._needs_lines(block.data):
            first, count = block.first_line, block.data.count(b"\n")
            return self._plain(block.data, np.arange(first, first + count), lambda: text_of(block.data).split("\n")[:-1], 0)
        lines = [*self.rest, *map(_Line, itertools.count(block.first_line), block.data.split(b"\n")[:-1])]
        quoted = bool(self.rest) or b'"' in block.data
        self.rest = []
        if self.header is None:
            lines = self._without_header(lines)
        if quoted:
            return self._quoted(lines, last)
        records = [line for line in lines if not self._is_none(line.data)]
        kept = [line for line in records if line.data != self.header_line]
        data = b"".join(line.data + b"\n" for line in kept)
        numbers = np.array([line.number for line in kept], np.int64)
        return self._plain(data, numbers, lambda: [text_of(line.data) for line in kept], len(records) - len(kept))

    def _needs_lines(self, data: bytes) -> bool:
        """Whether some line is not simply one record."""
        return (
            self.header is None
            or bool(self.rest)
            or b'"' in data
            or data.startswith(b"\n")
            or b"\n\n" in data
            or (self.comment is not None and (data.startswith(self.comment) or b"\n" + self.comment in data))
            or (bool(self.header_line) and self.header_line + b"\n" in data)
        )

    def _is_none(self, line: bytes) -> bool:
        return not line or (self.comment is not None and line.startswith(self.comment))

    def _without_header(self, lines: list[_Line]) -> list[_Line]:
        at = next((i for i, line in enumerate(lines) if not self._is_none(line.data)), None)
        if at is None:
            return []
        self.header_line = lines[at].data
        try:
            names = next(csv.reader([text_of(self.header_line).lstrip("\ufeff")], delimiter=self.delimiter), [])
        except csv.Error as error:
            raise SourceError(f"{self.file}: the header line cannot be read ({error})") from error
        self.header = _checked(tuple(name.strip() for name in names), self.file)
        return lines[at + 1 :]

    def _plain(self, data: bytes, lines: np.ndarray, texts: Callable[[], Sequence[str]], repeated: int) -> Piece:
        """Read lines without quotes: one line, one record."""
        header = self.header or ()
        if not len(lines):
            return Piece(dict.fromkeys(header, pa.array([], pa.string())), lines, list, (), _counted(repeated))
        if not data.isascii():
            data = text_of(data).encode()
        invalid: list[arrow_csv.InvalidRow] = []

        def set_aside(row: arrow_csv.InvalidRow) -> str:
            invalid.append(row)
            return "skip"

        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(column_names=list(header), use_threads=False, block_size=len(data) + 1),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self.delimiter, quote_char=False, ignore_empty_lines=False, invalid_row_handler=set_aside
            ),
            convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False),
        )
        bad = np.array([row.number - 1 for row in invalid], np.int64)
        rejects = tuple(
            _wrong_count(self.file, int(lines[row.number - 1]), len(header), row.actual_columns, row.text) for row in invalid
        )
        if len(bad):
            kept = np.delete(np.arange(len(lines)), bad)
            every, lines = texts, lines[kept]

            def texts() -> Sequence[str]:
                raw = every()
                return [raw[i] for i in map(int, kept)]

        columns = {name: table[name].combine_chunks() for name in header}
        return Piece(columns, lines, texts, rejects, _counted(repeated))

    def _quoted(self, lines: list[_Line], last: bool) -> Piece:
        """Read lines among which some hold quotes: a record may go on over line ends."""
        header = self.header or ()
        texts = [text_of(line.data) for line in lines]
        records: list[list[str]] = []
        spans: list[tuple[int, int]] = []
        rejects: list[Reject] = []
        at = repeated = 0
        while at < len(texts):
            if self._is_none(lines[at].data) or lines[at].data == self.header_line:
                repeated += bool(texts[at]) and lines[at].data == self.header_line
                at += 1
                continue
            fields, used = _record(texts, at, self.delimiter)
            if fields is None and used and not last:
                self.rest = lines[at:]
                break
            if fields is not None and len(fields) == len(header):
                records.append(fields)
                spans.append((at, at + used))
                at += used
                continue
            rejects.append(
                Reject(self.file, lines[at].number, "bad_quote", "", texts[at])
                if fields is None
                else _wrong_count(self.file, lines[at].number, len(header), len(fields), texts[at])
            )
            at += 1
        by_column = zip(*records, strict=True) if records else [()] * len(header)
        columns = {name: pa.array(values, pa.string()) for name, values in zip(header, by_column, strict=True)}
        numbers = np.array([lines[a].number for a, _ in spans], np.int64)
        return Piece(columns, numbers, lambda: ["\n".join(texts[a:b]) for a, b in spans], tuple(rejects), _counted(repeated))


def _record(texts: list[str], at: int, delimiter: str) -> tuple[list[str] | None, int]:
    """Read the record that begins at line `at`: its fields and how many lines it takes.

    Without fields its quotes are wrong: 0 lines where they can never be right, else the lines there were to close them in.
    """
    if '"' not in texts[at]:
        return texts[at].split(delimiter), 1
    upto = min(len(texts), at + QUOTED_RECORD_LINES_AT_MOST)
    reader = csv.reader((text + "\n" for text in texts[at:upto]), delimiter=delimiter, strict=True)
    try:
        return next(reader), reader.line_num
    except (csv.Error, StopIteration):
        reached_the_end = reader.line_num == upto - at < QUOTED_RECORD_LINES_AT_MOST
        return None, upto - at if reached_the_end else 0


def _wrong_count(file: str, line: int, expected: int, found: int, raw: str) -> Reject:
    return Reject(file, line, "wrong_field_count", f"expected {expected} fields, found {found}", raw)


def _counted(repeated_headers: int) -> dict[str, int]:
    return {"repeated_header": repeated_headers} if repeated_headers else {}


def _checked(names: tuple[str, ...], file: str) -> tuple[str, ...]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not all(names):
        raise SourceError(
            f"{file}: the header ",
            Quoted(", ".join(names)),
            f" has {'a name twice' if twice else 'an empty name'}",
            *((": ", Quoted(", ".join(twice))) if twice else ()),
        )
    return names
