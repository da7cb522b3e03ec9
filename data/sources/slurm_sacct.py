"""Slurm's `sacct --parsable2` (or `--parsable`) as text: one record a line, fields between delimiters, nothing quoted.

Oddities of the format, and what is made of them:
- Any columns in any order, with a header or (then `columns` in the cluster file) without; headers repeated inside are skipped.
- A job name may hold the delimiter or a line end. Where the last column is free text the rest of the record belongs to it;
  elsewhere such a record is rejected whole, never shifted. A rare `--delimiter` and a mark at the end of each record
  (`record_end`, e.g. a last column that is constant) avoid the question.
- Steps (`60.batch`) are skipped: the allocation's row has the times and the state. `sacct -X` leaves them out.
- Several records of one job (`sacct -D`, exports that overlap) become one; see slurm_attempts.py.
Clean blocks are split by pyarrow's CSV reader; only a block with an odd line is gone through line by line.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pydantic import Field, field_validator

from runcast.data.cluster import Cluster
from runcast.data.errors import Quoted, SourceError
from runcast.data.sources.batch import Batch, Reject
from runcast.data.sources.blocks import LINE_BYTES_AT_MOST, Block, read_blocks, text_of
from runcast.data.sources.slurm_attempts import HASHED_BYTES, batches, id_hashes, text_hashes
from runcast.data.sources.slurm_fields import FIELDS, Fields, SlurmOptions, Tally, require_fields
from runcast.data.sources.slurm_ids import JOB_ID, STEP_ID

BLOCK_BYTES = 8 << 20  # some 30,000 records: per-block work is then under a tenth of the whole
_FREE_TEXT = frozenset({"jobname", "workdir", "submitline", "comment", "admincomment", "systemcomment", "extra", "reason"})
_FEW_VALUES = FIELDS - {"jobid", "jobidraw", "submit", "start", "end", "elapsed", "elapsedraw", "jobname", "workdir", "nodelist"}

# Stand in, inside the last field, for a delimiter and a line end that belong to it, and between fields for a long delimiter.
_DELIMITER_INSIDE, _LINE_END_INSIDE, _BETWEEN = b"\x1c", b"\x1d", b"\x1f"
_ID = re.compile(f"{JOB_ID}|{STEP_ID}", re.ASCII)
_ID_OR_NAME = re.compile(f"{JOB_ID}|{STEP_ID}|(?i:jobid|jobidraw)$", re.ASCII)
_BOM = b"\xef\xbb\xbf"


class Options(SlurmOptions):
    """`source.options` of a sacct log."""

    columns: tuple[str, ...] | None = Field(None, min_length=1)  # sacct's field names, for a log without header
    delimiter: str = Field("|", min_length=1)  # as given to sacct --delimiter; may be several characters
    record_end: str | None = Field(None, min_length=1)  # mark at the end of each record, before the line end

    @field_validator("delimiter", "record_end")
    @classmethod
    def _one_line(cls, value: str | None) -> str | None:
        if value is not None and set(value) & set("\n\r\x1c\x1d"):
            raise ValueError("a delimiter or a mark cannot hold a line end, nor the control characters 1C and 1D")
        return value


@dataclass(frozen=True)
class _Layout:
    """How a record is cut into fields; `names` are lower case, in the file's order."""

    names: tuple[str, ...]
    delimiter: bytes
    record_end: bytes | None
    header: bytes | None  # its text, as the file's first record
    ends_with_delimiter: bool  # --parsable instead of --parsable2

    @property
    def is_free_text_last(self) -> bool:
        return self.names[-1] in _FREE_TEXT

    @property
    def id_at(self) -> int:
        return self.names.index("jobid" if "jobid" in self.names else "jobidraw")

    @property
    def between(self) -> bytes:
        """The one byte between fields in what pyarrow reads."""
        return self.delimiter if len(self.delimiter) == 1 else _BETWEEN


@dataclass(frozen=True)
class _Records:
    """Records of one block, each on one line of `data`, with the line number of each and what did not become one."""

    data: bytes
    lines: np.ndarray
    table: pa.Table
    rejects: list[Reject] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    texts: list[bytes] = field(default_factory=list)  # the records as they stand in the log, where `data` was made anew


def read(path: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield the jobs of one sacct log in batches; the file is read twice, first for the ids that are met again."""
    options = Options.model_validate(cluster.source.options)
    layout = _layout(path, options)
    require_fields(layout.names, str(path))
    return batches(_id_hashes(path, layout), _pieces(path, layout), path, cluster, options)


def _pieces(path: Path, layout: _Layout) -> Iterator[tuple[Fields, Tally]]:
    for block in _blocks(path, layout):
        records = _records(block, layout, FIELDS)
        rejects = [reject._replace(file=path.name) for reject in records.rejects]
        yield _fields(records, layout, path.name), Tally(rejects, {}, records.notes)


def _id_hashes(path: Path, layout: _Layout) -> Iterator[np.ndarray]:
    """Hash the ids of all records; where the id comes first, without cutting the records into fields."""
    if layout.id_at or layout.record_end or len(layout.delimiter) > 1:
        wanted = frozenset({layout.names[layout.id_at]})
        for block in _blocks(path, layout):
            yield text_hashes(_fields(_records(block, layout, wanted), layout, path.name).ids)
        return
    for block in read_blocks(path, BLOCK_BYTES):
        data = np.frombuffer(block.data, np.uint8)
        starts = np.concatenate([[0], np.flatnonzero(data == ord("\n"))[:-1] + 1])
        yield id_hashes(data, starts, _lengths(data, starts, layout.delimiter[0]))


def _lengths(data: np.ndarray, starts: np.ndarray, delimiter: int) -> np.ndarray:
    """Return how many bytes from each start lie before the delimiter, at most as many as are hashed."""
    window = np.concatenate([data, np.full(HASHED_BYTES, delimiter, np.uint8)])
    is_end = np.lib.stride_tricks.sliding_window_view(window, HASHED_BYTES)[starts] == delimiter
    return np.where(is_end.any(axis=1), is_end.argmax(axis=1), HASHED_BYTES)


def _layout(path: Path, options: Options) -> _Layout:
    delimiter = options.delimiter.encode()
    record_end = options.record_end.encode() if options.record_end else None
    data = next(read_blocks(path, 1 << 16)).data.removeprefix(_BOM)
    records = [record.strip(b"\n") for record in data.split(record_end or b"\n") if record.strip()]
    if not records:
        raise SourceError(f"{path}: nothing but blank lines at the beginning; expected the output of sacct --parsable2")
    found = tuple(text_of(name).strip().lower() for name in records[0].split(delimiter))
    header = records[0] if set(found) & {"jobid", "jobidraw", "submit", "state"} else None
    if options.columns is not None:
        names = tuple(name.strip().lower() for name in options.columns)
        ends_with_delimiter = all(r.endswith(delimiter) and r.count(delimiter) >= len(names) for r in records)
        return _Layout(names, delimiter, record_end, header, ends_with_delimiter)
    if header is None:
        raise SourceError(
            f"{path}: the first line is no header of sacct but ",
            Quoted(text_of(records[0])),
            ". Give source.options.columns where the log has none, or source.options.delimiter where it is not "
            f"{options.delimiter!r}.",
        )
    return _Layout(found[:-1] if found[-1] == "" else found, delimiter, record_end, header, found[-1] == "")


def _blocks(path: Path, layout: _Layout) -> Iterator[Block]:
    """Yield the log in blocks of whole records, its header left out.

    Where a record can span lines, the last one of a block waits for the lines that may belong to it.
    """
    spans_lines = layout.record_end is not None or layout.is_free_text_last
    first_line, rest = 1, b""
    for block in read_blocks(path, BLOCK_BYTES):
        data = rest + block.data
        first_line = block.first_line - rest.count(b"\n")
        if block.first_line == 1 and (header := _header_bytes(data, layout)):
            first_line += data.count(b"\n", 0, header)
            data = data[header:]
        cut = _last_record(data, layout) if spans_lines else len(data)
        if cut:
            yield Block(first_line, data[:cut] if cut < len(data) else data)
        rest = data[cut:]
        if len(rest) > LINE_BYTES_AT_MOST:
            raise SourceError(
                f"{path}: the record at line {first_line} has over {LINE_BYTES_AT_MOST >> 20} MiB; this is no job log"
            )
    if rest:
        yield Block(first_line + (data.count(b"\n", 0, cut) if cut else 0), rest)


def _header_bytes(data: bytes, layout: _Layout) -> int:
    """Return how many bytes of the file's beginning are its byte order mark and header."""
    if layout.header is None:
        return len(_BOM) if data.startswith(_BOM) else 0
    end = data.index(layout.header) + len(layout.header) + len(layout.record_end or b"")
    return end + data.startswith(b"\n", end)


def _last_record(data: bytes, layout: _Layout) -> int:
    """Return where the last record of `data` begins, 0 where it is the only one."""
    if layout.record_end:
        end = data.rfind(layout.record_end + b"\n")
        return end + len(layout.record_end) + 1 if end >= 0 else 0
    end = len(data) - 1
    while end > 0:
        start = data.rfind(b"\n", 0, end) + 1
        parts = data[start:end].split(layout.delimiter, len(layout.names) - 1)
        if len(parts) == len(layout.names) and _ID.match(text_of(parts[layout.id_at])):
            return start
        end = start - 1
    return 0


def _records(block: Block, layout: _Layout, wanted: frozenset[str]) -> _Records:
    """Cut a block into columns, in one go where every line is a record."""
    notes: dict[str, int] = {}
    data = block.data
    for stand_in in (_DELIMITER_INSIDE, _LINE_END_INSIDE, *([] if _BETWEEN in layout.delimiter else [_BETWEEN])):
        if stand_in in data:  # whatever else the block holds: a record is read the same in any company
            data = data.replace(stand_in, b" ")
    if not _is_utf8(data):
        notes["lines_not_utf8"] = sum(not _is_utf8(line) for line in data.split(b"\n"))
        data = text_of(data).encode()
    if layout.record_end is None and (layout.between == layout.delimiter or _BETWEEN not in data):
        whole = data.replace(layout.delimiter, layout.between) if layout.between != layout.delimiter else data
        table = _table(whole, layout, wanted, layout.ends_with_delimiter)
        if table is not None:
            return _Records(whole, np.arange(block.first_line, block.first_line + table.num_rows), table, notes=notes)
    cutter = _Cutter(layout)
    if layout.record_end:
        cutter.cut_at_marks(Block(block.first_line, data), layout.record_end)
    else:
        cutter.cut_at_lines(Block(block.first_line, data))
    data, lines = b"".join(line + b"\n" for line in cutter.clean), np.array(cutter.numbers, np.int64)
    table = _table(data, layout, wanted, ends_with_delimiter=False)
    if table is None or table.num_rows != len(lines):
        raise SourceError(f"the records at line {block.first_line} and following cannot be cut into fields")
    return _Records(data, lines, _without_stand_ins(table, layout), cutter.rejects, {**notes, **cutter.notes}, cutter.texts)


class _Cutter:
    """Goes through odd lines one by one; leaves records of the right number of fields on one line each, and rejects."""

    def __init__(self, layout: _Layout) -> None:
        self._layout = layout
        self.clean: list[bytes] = []
        self.numbers: list[int] = []
        self.texts: list[bytes] = []
        self.rejects: list[Reject] = []
        self.notes: dict[str, int] = {}

    def cut_at_lines(self, block: Block) -> None:
        """Take a line as a record, or as the rest of the one before where the last field is free text and it is no record."""
        open_line, open_text = 0, b""
        for number, line in enumerate(block.data.split(b"\n")[:-1], block.first_line):
            if not line.strip():
                self._note("blank_lines")
            elif open_line and self._continues(line):
                open_text += _LINE_END_INSIDE + line
                self._note("continuation_lines")
            else:
                if open_line:
                    self._record(open_line, open_text)
                open_line, open_text = number, line
        if open_line:
            self._record(open_line, open_text)

    def cut_at_marks(self, block: Block, mark: bytes) -> None:
        """Take as a record what stands before each mark, whatever line ends it holds."""
        number = block.first_line
        pieces = block.data.split(mark)
        for at, piece in enumerate(pieces):
            text = piece.lstrip(b"\n")  # the line end after the mark before, and blank lines
            begins = number + len(piece) - len(text)
            number += piece.count(b"\n")
            if not text.strip():
                continue
            if at == len(pieces) - 1:
                self._reject(begins, "record_end_missing", text)
            else:
                self._record(begins, text.replace(b"\n", _LINE_END_INSIDE))

    def _continues(self, line: bytes) -> bool:
        layout = self._layout
        if not layout.is_free_text_last:
            return False
        parts = line.split(layout.delimiter, len(layout.names) - 1)
        begins_a_record = len(parts) > layout.id_at + 1 and _ID_OR_NAME.match(text_of(parts[layout.id_at])) is not None
        return len(parts) < len(layout.names) and not begins_a_record

    def _record(self, number: int, text: bytes) -> None:
        layout = self._layout
        width = len(layout.names)
        record = text.removesuffix(layout.delimiter) if layout.ends_with_delimiter else text
        parts = record.split(layout.delimiter, width - 1 if layout.is_free_text_last else -1)
        if len(parts) != width:
            self._reject(number, "wrong_field_count", text, f"expected {width} fields, found {len(parts)}")
            return
        parts[-1] = parts[-1].replace(layout.delimiter, _DELIMITER_INSIDE)
        self.clean.append(layout.between.join(parts))
        self.numbers.append(number)
        self.texts.append(text)

    def _reject(self, number: int, reason: str, text: bytes, detail: str = "") -> None:
        self.rejects.append(Reject("", number, reason, detail, text_of(text.replace(_LINE_END_INSIDE, b"\n"))))

    def _note(self, name: str) -> None:
        self.notes[name] = self.notes.get(name, 0) + 1


def _table(data: bytes, layout: _Layout, wanted: frozenset[str], ends_with_delimiter: bool) -> pa.Table | None:
    """Read lines into the wanted columns, the first of each name; None where a line has another number of fields."""
    position = {name: f"{layout.names.index(name)}" for name in layout.names if name in wanted}
    if not data:
        return pa.table({name: pa.array([], pa.string()) for name in position})
    odd: list[csv.InvalidRow] = []

    def keep(row: csv.InvalidRow) -> str:
        odd.append(row)
        return "skip"

    kinds = {at: pa.dictionary(pa.int32(), pa.string()) if name in _FEW_VALUES else pa.string() for name, at in position.items()}
    width = len(layout.names) + ends_with_delimiter
    if ends_with_delimiter:
        kinds[f"{width - 1}"] = pa.string()
    try:
        table = csv.read_csv(
            pa.BufferReader(data),
            read_options=csv.ReadOptions(
                column_names=[f"{i}" for i in range(width)], use_threads=False, block_size=len(data) + 1
            ),
            parse_options=csv.ParseOptions(
                delimiter=layout.between.decode(), quote_char=False, ignore_empty_lines=False, invalid_row_handler=keep
            ),
            convert_options=csv.ConvertOptions(include_columns=list(kinds), column_types=kinds, null_values=[]),
        )
    except pa.ArrowInvalid:
        return None
    if odd or (ends_with_delimiter and pc.any(pc.not_equal(table[f"{width - 1}"], "")).as_py()):
        return None
    return pa.table({name: table[at] for name, at in position.items()})


def _without_stand_ins(table: pa.Table, layout: _Layout) -> pa.Table:
    """Put delimiters and line ends back into the last field, and line ends into any other text."""
    for at, name in enumerate(table.column_names):
        if pa.types.is_string(table.schema.field(name).type):
            text = pc.replace_substring(table[name], _LINE_END_INSIDE.decode(), "\n")
            table = table.set_column(at, name, pc.replace_substring(text, _DELIMITER_INSIDE.decode(), layout.delimiter.decode()))
    return table


def _fields(records: _Records, layout: _Layout, file: str) -> Fields:
    lines: list[bytes] = records.texts

    def raw(at: int) -> str:
        if not lines:
            lines.extend(records.data.split(b"\n"))
        return _raw_text(lines[at], layout)

    columns = {name: records.table[name].combine_chunks() for name in records.table.column_names}
    return Fields(columns, records.lines, file, raw)


def _raw_text(line: bytes, layout: _Layout) -> str:
    if layout.between != layout.delimiter:
        line = line.replace(layout.between, layout.delimiter)
    return text_of(line.replace(_LINE_END_INSIDE, b"\n"))


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
