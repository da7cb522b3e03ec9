"""The rows of a table as the file has them: CSV and the like, Parquet, JSON lines, and JSON arrays, by the names in the file."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runcast.data.errors import Quoted, SourceError
from runcast.data.sources.batch import Reject
from runcast.data.sources.blocks import open_log, read_blocks, read_piece, text_of
from runcast.data.sources.delimited import read_delimited
from runcast.data.sources.json_items import array_items, top_items
from runcast.data.sources.table_options import Factor, Options

_BATCH_ROWS = 65_536
_ITEMS = 16_384  # of a JSON array at once
_OF_ONE_KIND = {"delimiter": ("csv",), "comment": ("csv",), "header": ("csv",), "records": ("json",)}


@dataclass(frozen=True)
class Rows:
    """Some records of a table: columns by the file's own names, 1-based line or record numbers, raw text on demand."""

    columns: Mapping[str, pa.Array]
    lines: np.ndarray
    raw: Callable[[int], str]
    rejects: tuple[Reject, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)


def read_rows(path: Path, options: Options) -> Iterator[Rows]:
    """Yield the rows of a file in its order; raises SourceError where it lacks a column, or an option is for another kind of file."""
    kind = options.kind or _kind(path, options)
    for name, kinds in _OF_ONE_KIND.items():
        if name in options.model_fields_set and kind not in kinds:
            raise SourceError(
                f"{path}: is read as {kind}, where source.options.{name} means nothing; leave it out, or set `kind`"
            )
    every = list(options.columns.values())
    needed = {words.column for c in every for words in (c, *c.detail.values())} | options.only_where.keys()
    needed |= {c.times.column for c in every if isinstance(c.times, Factor)}
    return (_only(rows, options.only_where) for rows in _every_row(path, kind, options, needed))


def _every_row(path: Path, kind: str, options: Options, needed: set[str]) -> Iterator[Rows]:
    if kind == "parquet":
        return _parquet_rows(path, needed)
    if kind == "jsonl":
        return (object_rows(path, read, needed) for read in line_objects(path))
    if kind == "json":
        items = array_items(path, options.records, {}) if options.records else top_items(path)
        return (object_rows(path, read, needed) for read in item_objects(path, items))
    return _delimited_rows(path, options, needed)


def _only(rows: Rows, only_where: Mapping[str, tuple[str, ...]]) -> Rows:
    """Return the rows whose columns hold one of the words, and count the others as skipped."""
    if not only_where or not len(rows.lines):
        return rows
    wanted = np.ones(len(rows.lines), bool)
    for name, words in only_where.items():
        text = pc.utf8_trim_whitespace(rows.columns[name].cast(pa.string()))
        wanted &= pc.is_in(text, value_set=pa.array(words, pa.string())).to_numpy(zero_copy_only=False)
    at = np.flatnonzero(wanted)
    skipped = {**rows.skipped, **({"other_record": len(wanted) - len(at)} if len(at) < len(wanted) else {})}
    columns = {name: column.take(pa.array(at)) for name, column in rows.columns.items()}
    return Rows(columns, rows.lines[at], lambda row: rows.raw(int(at[row])), rows.rejects, skipped)


def _kind(path: Path, options: Options) -> Literal["csv", "parquet", "jsonl", "json"]:
    names = {suffix.lower() for suffix in path.suffixes}
    if ".parquet" in names:
        return "parquet"
    if options.records:
        return "json"
    if not {".jsonl", ".ndjson", ".json"} & names:
        return "csv"
    start = first_text(path)
    line = start.split(b"\n", 1)[0]
    if b"".join(start[:4096].split()).startswith((b"[{", b"[]")):
        return "json"
    if line.strip() == b"{":
        raise SourceError(f"{path}: one JSON object over many lines. Name the key of its array of jobs: source.options.records")
    return "jsonl"


def _delimited_rows(path: Path, options: Options, needed: set[str]) -> Iterator[Rows]:
    for piece in read_delimited(path, options.delimiter, options.comment, options.header):
        if piece.columns:
            _check_columns(path, needed, piece.columns)
        yield Rows(piece.columns, piece.lines, piece.raw_text, piece.rejects, piece.skipped)


def _parquet_rows(path: Path, needed: set[str]) -> Iterator[Rows]:
    if not path.is_file():
        raise SourceError(f"{path}: no such file. Check source.paths of the cluster file.")
    try:
        with pq.ParquetFile(path) as file:
            _check_columns(path, needed, file.schema_arrow.names)
            first = 1
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=sorted(needed), use_threads=False):
                lines = np.arange(first, first + batch.num_rows)
                first += batch.num_rows
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                yield Rows(columns, lines, partial(_row_text, batch))
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path}: not a readable Parquet file ({error})") from error


def _row_text(batch: pa.RecordBatch, row: int) -> str:
    return json.dumps({name: str(value) for name, value in batch.slice(row, 1).to_pylist()[0].items()})


@dataclass(frozen=True)
class Objects:
    """Some records that are JSON objects, with their line or record numbers, raw texts, and what was none."""

    objects: Sequence[dict[str, Any]]
    lines: Sequence[int]
    raw: Callable[[int], str]
    rejects: Sequence[Reject] = ()


def line_objects(path: Path) -> Iterator[Objects]:
    """Yield the objects of JSON lines; a line that is none is a reject."""
    for block in read_blocks(path):
        objects: list[dict[str, object]] = []
        numbers: list[int] = []
        raw: list[str] = []
        rejects: list[Reject] = []
        for number, line in enumerate(block.data.split(b"\n")[:-1], block.first_line):
            if not line.strip():
                continue
            text = text_of(line)
            try:
                value = json.loads(text)
            except (ValueError, RecursionError) as error:
                rejects.append(Reject(path.name, number, "not_json", str(error), text))
                continue
            if not isinstance(value, dict):
                rejects.append(Reject(path.name, number, "not_an_object", type(value).__name__, text))
                continue
            objects.append(value)
            numbers.append(number)
            raw.append(text)
        yield Objects(objects, numbers, raw.__getitem__, rejects)


def item_objects(path: Path, items: Iterable[Any]) -> Iterator[Objects]:
    """Yield the objects among the elements of a JSON array; an element that is none is a reject."""
    numbered = enumerate(items, 1)
    while chunk := list(itertools.islice(numbered, _ITEMS)):
        good = [(number, item) for number, item in chunk if isinstance(item, dict)]
        rejects = [
            Reject(path.name, number, "not_an_object", type(item).__name__, _shown(item))
            for number, item in chunk
            if not isinstance(item, dict)
        ]
        objects = [item for _, item in good]
        yield Objects(objects, [number for number, _ in good], partial(_shown_at, objects), rejects)


def read_objects(path: Path, records: str) -> Iterator[Objects]:
    """Yield the objects of JSON lines, of an array, or of the array `records` of an object, told apart by how the file begins."""
    start = first_text(path)
    if start.startswith(b"["):
        return item_objects(path, top_items(path))
    head = b"".join(start[:4096].split())
    if head.startswith(b'{"' + records.encode() + b'":[') or start.split(b"\n", 1)[0].strip() == b"{":
        return item_objects(path, array_items(path, records, {}))
    return line_objects(path)


def first_text(path: Path) -> bytes:
    """Return the beginning of a file, without a byte order mark and blanks."""
    with open_log(path) as file:  # no block of lines: a JSON file may be one line
        return read_piece(file, path, 1 << 16).removeprefix(b"\xef\xbb\xbf").lstrip()


def _shown(item: object) -> str:
    return json.dumps(item).encode("utf-8", "replace").decode()


def _shown_at(objects: Sequence[object], at: int) -> str:
    return _shown(objects[at])


def object_rows(path: Path, read: Objects, needed: Iterable[str]) -> Rows:
    """Return the values under the needed keys as text; raises SourceError where no object has any of them."""
    objects = read.objects
    columns = {name: pa.array([_json_text(value) for value in _at(objects, name)], pa.string()) for name in needed}
    if (
        objects
        and all(column.null_count == len(objects) for column in columns.values())
        and not any(columns.keys() & o.keys() for o in objects)
    ):
        _check_columns(path, set(columns), sorted({key for o in objects for key in o}))
    return Rows(columns, np.array(read.lines, np.int64), read.raw, tuple(read.rejects))


def _at(objects: Sequence[dict[str, object]], name: str) -> Iterator[object]:
    """Yield what stands under a key, or, where an object has no such key, at the end of a dotted path."""
    if "." not in name:
        return (o.get(name) for o in objects)
    steps = name.split(".")
    return (o[name] if name in o else _follow(o, steps) for o in objects)


def _follow(value: object, steps: Sequence[str]) -> object:
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isascii() and step.isdigit() and len(step) < 6 and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _json_text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()  # lone surrogates cannot be stored
    if type(value) is int or (type(value) is float and isfinite(value)):
        return repr(value)  # as json.dumps writes them, in a quarter of the time
    return json.dumps(value)


def _check_columns(path: Path, needed: set[str], there: Sequence[str] | Mapping[str, object]) -> None:
    missing = sorted(needed - set(there))
    if missing:
        only = next(iter(there)) if len(there) == 1 else ""
        between = next((mark for mark in ";\t|" if mark in only), None)
        try_ = f". Is the delimiter another? Try source.options.delimiter: {json.dumps(between)}" if between else ""
        if only and ".json" in path.suffixes:
            try_ = f". Where the jobs stand in an array under it: source.options.records: {only}"
        raise SourceError(
            f"{path}: has no column {', '.join(map(repr, missing))}; its columns are ", Quoted(", ".join(there)), try_
        )
