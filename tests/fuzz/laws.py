"""What must hold of every reading, whatever the file: named errors only, an end in time, rows that add up, values in their types."""

import functools
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
from samples import Layout

from runcast.data.cluster import Cluster
from runcast.data.columns import COLUMNS, LABELS, TIME_LIMIT_KINDS
from runcast.data.errors import SourceError
from runcast.data.schema import JOBS
from runcast.data.sources import blocks, delimited, htcondor, pbs, sge, slurm_sacct, swf, table_rows
from runcast.data.sources.batch import Batch, Reject
from runcast.data.sources.record import LATEST_US
from runcast.data.sources.registry import SOURCES
from runcast.data.states import OPEN_STATES, STATES

SECONDS_AT_MOST = 120  # for a file of some thousand lines: on a busy machine such a file takes about one
_STAND_INS = re.compile(r"[\x1c-\x1f]")


class LawBroken(AssertionError):
    """A reading did what none may."""


@dataclass(frozen=True)
class Reading:
    """What came of one file; `refused` is the message of a file that was refused as a whole."""

    accepted: int = 0
    rejected: int = 0
    skipped: int = 0
    refused: str = ""


def cluster_of(layout: Layout) -> Cluster:
    described: dict[str, Any] = {"format": layout.format, "paths": ["x"], "options": dict(layout.options)}
    return Cluster.model_validate(
        {"name": "c", "source": described, "time_zone": layout.zone, "clock": layout.clock, "gpus_tracked": True}
    )


def write(layout: Layout, content: bytes, folder: Path) -> Path:
    for name, text in layout.beside.items():
        (folder / name).write_text(text)
    path = folder / layout.file
    path.write_bytes(content)
    return path


def check_reading(layout: Layout, content: bytes, folder: Path, *, blocks_too: bool = False) -> Reading:
    """Read `content` as a file of this layout and hold it against every law; with `blocks_too`, in small blocks as well."""
    path, cluster = write(layout, content, folder), cluster_of(layout)
    batches, refused = _read(path, cluster)
    if blocks_too and layout.document is None:
        with small_blocks(9973):
            again, refused_again = _read(path, cluster)
        if bool(refused) != bool(refused_again) or (not refused and _told(again) != _told(batches)):
            raise LawBroken(f"{layout.name}: read in small blocks, something else comes of it")
    if refused:
        return Reading(refused=refused)
    lines = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    for batch in batches:
        check_jobs(batch.jobs, cluster)
        for reject in batch.rejects:
            check_reject(
                reject, path.name, lines if layout.document is None else None, is_whole="record_end" not in layout.options
            )
    rows_in = sum(batch.rows_in for batch in batches)
    if layout.document is None:
        notes: dict[str, int] = {}
        for batch in batches:
            for name, count in batch.notes.items():
                notes[name] = notes.get(name, 0) + count
        expected = layout.count(lines[layout.head.count("\n") :], notes)
        if expected is not None and rows_in != expected:
            raise LawBroken(f"{layout.name}: {expected} records in the file, {rows_in} accounted for")
    return Reading(
        sum(batch.jobs.num_rows for batch in batches),
        sum(len(batch.rejects) for batch in batches),
        sum(sum(batch.skipped.values()) for batch in batches),
    )


def check_jobs(jobs: pa.Table, cluster: Cluster) -> None:
    """Every value within its type: what columns.py says, and what any later stage takes for granted."""
    _require(jobs.schema.equals(JOBS), "the declared schema", jobs.schema)
    jobs.validate(full=True)
    if not jobs.num_rows:
        return
    for column in COLUMNS:
        values = jobs[column.name]
        _require(column.nullable or not values.null_count, f"no null in {column.name}", values.null_count)
        if column.type == "string":
            _none(pc.equal(pc.utf8_trim_whitespace(values), ""), values, f"no blank text in {column.name}")
        elif column.type == "float64":
            _none(pc.invert(pc.is_finite(values)), values, f"finite numbers in {column.name}")
            if column.name != "priority":
                _none(pc.less(values, 0), values, f"no number below 0 in {column.name}")
        elif column.type == "int32":
            _none(pc.less(values, 0), values, f"no number below 0 in {column.name}")
        elif column.type == "timestamp":
            us = values.cast(pa.int64())
            _none(
                pc.or_(pc.greater_equal(us, LATEST_US), pc.less_equal(us, -LATEST_US)),
                us,
                f"moments before 2100 in {column.name}",
            )
    _none(pc.less_equal(jobs["time_limit_s"], 0), jobs["time_limit_s"], "limits above 0")
    for name, known in (("state", STATES), ("label", LABELS), ("time_limit_kind", TIME_LIMIT_KINDS)):
        _none(pc.invert(pc.is_in(jobs[name], pa.array(list(known)))), jobs[name], f"known words in {name}")
    is_open = pc.is_in(jobs["state"], pa.array(sorted(OPEN_STATES)))
    _none(pc.and_(is_open, pc.is_valid(jobs["end_time"])), jobs["state"], "no end of a job that is open")
    _none(pc.and_(pc.equal(jobs["label"], "event"), pc.is_null(jobs["runtime_s"])), jobs["source"], "a runtime for every event")
    keys = pc.binary_join_element_wise(cluster.name, jobs["job_id"], jobs["submit_time"].cast(pa.int64()).cast(pa.string()), ":")
    _none(pc.not_equal(keys, jobs["job_key"]), jobs["job_key"], "keys made of id and submission")
    where = pc.match_substring_regex(jobs["source"], r":[1-9]\d*$")
    _none(pc.invert(where), jobs["source"], "file and line of every job")


def check_reject(reject: Reject, file: str, lines: list[bytes] | None, *, is_whole: bool) -> None:
    """A reject names its file, its line, a stable reason, and shows the record as it stands there (a whole line, or within one)."""
    _require(reject.file == file, f"file {file}", reject.file)
    _require(re.fullmatch(r"[a-z][a-z0-9_]*", reject.reason) is not None, "a reason by name", reject.reason)
    reject.raw.encode("utf-8")
    _require(reject.line >= 1, "a line from 1", reject.line)
    if lines is not None:
        _require(reject.line <= len(lines), f"a line of the {len(lines)} there are", reject.line)
        told, there = (
            _STAND_INS.sub(" ", text).strip() for text in (reject.raw.split("\n")[0], blocks.text_of(lines[reject.line - 1]))
        )
        _require(told == there if is_whole else told in there, f"line {reject.line} as it stands: {there[:120]!r}", told[:120])


@contextmanager
def small_blocks(size: int) -> Iterator[None]:
    """Let every source read its file in blocks of about `size` bytes."""
    reader = functools.partial(_read_blocks, size)
    with (
        mock.patch.object(delimited, "read_blocks", reader),
        mock.patch.object(table_rows, "read_blocks", reader),
        mock.patch.object(swf, "read_blocks", reader),
        mock.patch.object(slurm_sacct, "read_blocks", reader),
        mock.patch.object(htcondor, "read_blocks", reader),
        mock.patch.object(pbs, "read_blocks", reader),
        mock.patch.object(sge, "read_blocks", reader),
    ):
        yield


def _read_blocks(size: int, path: Path, asked: int = blocks.BLOCK_BYTES) -> Iterator[blocks.Block]:
    return blocks.read_blocks(path, min(asked, size) if asked >= blocks.BLOCK_BYTES else asked)


def _read(path: Path, cluster: Cluster) -> tuple[list[Batch], str]:
    """Return the batches, or why the file was refused as a whole; anything but a SourceError is let through as the fault it is."""

    def too_long(number: int, frame: object) -> None:
        raise LawBroken(f"{path}: not read in {SECONDS_AT_MOST} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS_AT_MOST)
    try:
        return list(SOURCES[cluster.source.format](path, cluster)), ""
    except SourceError as error:
        return [], str(error)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _told(batches: list[Batch]) -> tuple[list[Any], list[Reject], dict[str, int]]:
    """What a reading says, whatever the pieces it came in."""
    rows = pa.concat_tables([batch.jobs for batch in batches]).to_pylist() if batches else []
    skipped: dict[str, int] = {}
    for batch in batches:
        for name, count in batch.skipped.items():
            skipped[name] = skipped.get(name, 0) + count
    rejects = sorted(reject for batch in batches for reject in batch.rejects)
    return sorted(map(repr, rows)), rejects, skipped


def _require(holds: bool, expected: str, found: object) -> None:
    if not holds:
        raise LawBroken(f"expected {expected}; found {found!r}")


def _none(wrong: pa.ChunkedArray, values: pa.ChunkedArray, expected: str) -> None:
    mask = pc.fill_null(wrong, False)
    if pc.any(mask).as_py():
        raise LawBroken(f"expected {expected}; found {values.filter(mask)[0].as_py()!r}")
