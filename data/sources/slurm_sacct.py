"""Slurm's `sacct --parsable2` (or `--parsable`) as text: one record a line, fields between delimiters, nothing quoted.

Oddities of the format, and what is made of them:
- Any columns in any order, with a header or (then `columns` in the cluster file) without; headers repeated inside are skipped.
- A job name may hold the delimiter or a line end, so with a plain delimiter a user can write records of other users' jobs. An export
  with a random one cannot be forged (slurm_layout.py). With a plain one, the rest of the record belongs to the last column
  where that is free text; elsewhere such a record is rejected whole, never shifted. A mark at the end of each record (`record_end`)
  tells line ends in names from those of records.
- Error messages of sacct among the records: the export failed, and the log is refused.
- Steps (`60.batch`) are skipped: the allocation's row has the times and the state. `sacct -X` leaves them out.
- Several records of one job (`sacct -D`, exports that overlap) become one; see slurm_attempts.py.
Clean blocks are split by pyarrow's CSV reader; only a block with an odd line is gone through line by line.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.sources.batch import Batch, Reject
from runcast.data.sources.blocks import LINE_BYTES_AT_MOST, Block, read_blocks, text_of
from runcast.data.sources.slurm_attempts import HASHED_BYTES, batches, id_hashes, text_hashes
from runcast.data.sources.slurm_cutter import DELIMITER_INSIDE, ID, LINE_END_INSIDE, Cutter
from runcast.data.sources.slurm_fields import FIELDS, Fields, Tally, require_fields
from runcast.data.sources.slurm_layout import BETWEEN, BOM, Layout, Options, layout_of

BLOCK_BYTES = 8 << 20  # some 30,000 records: per-block work is then under a tenth of the whole
_FEW_VALUES = FIELDS - {"jobid", "jobidraw", "submit", "start", "end", "elapsed", "elapsedraw", "jobname", "workdir", "nodelist"}


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
    layout = layout_of(path, options)
    require_fields(layout.names, str(path))
    return batches(_id_hashes(path, layout), _pieces(path, layout), path, cluster, options)


def _pieces(path: Path, layout: Layout) -> Iterator[tuple[Fields, Tally]]:
    for block in _blocks(path, layout):
        records = _records(block, layout, FIELDS)
        rejects = [reject._replace(file=path.name) for reject in records.rejects]
        yield _fields(records, layout, path.name), Tally(rejects, {}, records.notes)


def _id_hashes(path: Path, layout: Layout) -> Iterator[np.ndarray]:
    """Hash the ids of all records; where the id comes first, without cutting the records into fields."""
    if layout.id_at or layout.record_end or layout.delimiter[:1].isalnum():
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


def _blocks(path: Path, layout: Layout) -> Iterator[Block]:
    """Yield the log in blocks of whole records, its header left out.

    Where a record can span lines, the last one of a block waits for the lines that may belong to it.
    """
    first_line, rest = 1, b""
    for block in read_blocks(path, BLOCK_BYTES):
        data = rest + block.data
        first_line = block.first_line - rest.count(b"\n")
        if block.first_line == 1 and (header := _header_bytes(data, layout)):
            first_line += data.count(b"\n", 0, header)
            data = data[header:]
        cut = _last_record(data, layout) if layout.spans_lines else len(data)
        if cut:
            yield Block(first_line, data[:cut] if cut < len(data) else data)
        rest = data[cut:]
        if len(rest) > LINE_BYTES_AT_MOST:
            raise SourceError(
                f"{path}: the record at line {first_line} has over {LINE_BYTES_AT_MOST >> 20} MiB; this is no job log"
            )
    if rest:
        yield Block(first_line + (data.count(b"\n", 0, cut) if cut else 0), rest)


def _header_bytes(data: bytes, layout: Layout) -> int:
    """Return how many bytes of the file's beginning are its byte order mark and header."""
    if layout.header is None:
        return len(BOM) if data.startswith(BOM) else 0
    end = data.index(layout.header) + len(layout.header) + len(layout.record_end or b"")
    return end + data.startswith(b"\n", end)


def _last_record(data: bytes, layout: Layout) -> int:
    """Return where the last record of `data` begins, 0 where it is the only one."""
    if layout.record_end:
        end = data.rfind(layout.record_end + b"\n")
        return end + len(layout.record_end) + 1 if end >= 0 else 0
    end = len(data) - 1
    while end > 0:
        start = data.rfind(b"\n", 0, end) + 1
        parts = data[start:end].split(layout.delimiter, len(layout.names) - 1)
        if len(parts) == len(layout.names) and ID.match(text_of(parts[layout.id_at])):
            return start
        end = start - 1
    return 0


def _records(block: Block, layout: Layout, wanted: frozenset[str]) -> _Records:
    """Cut a block into columns, in one go where every line is a record."""
    notes: dict[str, int] = {}
    data = block.data
    for stand_in in (DELIMITER_INSIDE, LINE_END_INSIDE, *([] if BETWEEN in layout.delimiter else [BETWEEN])):
        if stand_in in data:  # whatever else the block holds: a record is read the same in any company
            data = data.replace(stand_in, b" ")
    if not _is_utf8(data):
        notes["lines_not_utf8"] = sum(not _is_utf8(line) for line in data.split(b"\n"))
        data = text_of(data).encode()
    if layout.record_end is None and (layout.between == layout.delimiter or BETWEEN not in data):
        whole = data.replace(layout.delimiter, layout.between) if layout.between != layout.delimiter else data
        table = _table(whole, layout, wanted, layout.ends_with_delimiter)
        if table is not None:
            return _Records(whole, np.arange(block.first_line, block.first_line + table.num_rows), table, notes=notes)
    cutter = Cutter(layout)
    if layout.record_end:
        cutter.cut_at_marks(Block(block.first_line, data), layout.record_end)
    elif layout.is_counted:
        cutter.cut_at_counts(Block(block.first_line, data))
    else:
        cutter.cut_at_lines(Block(block.first_line, data))
    data, lines = b"".join(line + b"\n" for line in cutter.clean), np.array(cutter.numbers, np.int64)
    table = _table(data, layout, wanted, ends_with_delimiter=False)
    if table is None or table.num_rows != len(lines):
        raise SourceError(f"the records at line {block.first_line} and following cannot be cut into fields")
    return _Records(data, lines, _without_stand_ins(table, layout), cutter.rejects, {**notes, **cutter.notes}, cutter.texts)


def _table(data: bytes, layout: Layout, wanted: frozenset[str], ends_with_delimiter: bool) -> pa.Table | None:
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


def _without_stand_ins(table: pa.Table, layout: Layout) -> pa.Table:
    """Put delimiters and line ends back into the last field, and line ends into any other text."""
    for at, name in enumerate(table.column_names):
        if pa.types.is_string(table.schema.field(name).type):
            text = pc.replace_substring(table[name], LINE_END_INSIDE.decode(), "\n")
            table = table.set_column(at, name, pc.replace_substring(text, DELIMITER_INSIDE.decode(), layout.delimiter.decode()))
    return table


def _fields(records: _Records, layout: Layout, file: str) -> Fields:
    lines: list[bytes] = records.texts

    def raw(at: int) -> str:
        if not lines:
            lines.extend(records.data.split(b"\n"))
        return _raw_text(lines[at], layout)

    columns = {name: records.table[name].combine_chunks() for name in records.table.column_names}
    return Fields(columns, records.lines, file, raw)


def _raw_text(line: bytes, layout: Layout) -> str:
    if layout.between != layout.delimiter:
        line = line.replace(layout.between, layout.delimiter)
    return text_of(line.replace(LINE_END_INSIDE, b"\n"))


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
