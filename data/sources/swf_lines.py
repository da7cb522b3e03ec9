"""The lines of an SWF log as numbers: 18 a line, what simulators put after them cut off, other lines refused."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv

from runcast.data.sources.batch import Reject
from runcast.data.sources.blocks import Block, read_blocks, text_of

FIELDS = (
    "job", "submit", "wait", "run", "allocated", "cpu_time", "used_memory", "requested", "requested_time", "requested_memory",
    "status", "user", "group", "executable", "queue", "partition", "preceding", "think_time",
)  # fmt: skip

_NUMBER = rb"[+-]?(?:\d{1,25}(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,2})?"  # what no float can hold is no number of a log
_RECORD = re.compile(rb"[ \t]*" + rb"[ \t]+".join([_NUMBER] * len(FIELDS)) + rb"[ \t]*")
_LONGER = re.compile(rb"^(?![ \t]*;)([ \t]*(?:[^ \t\n]+[ \t]+){17}[^ \t\n]+)[ \t]+[^ \t\n][^\n]*$", re.MULTILINE)
_PARTIAL = (2, 3, 4)
_LEAST_ODD = 10  # lines whose status no manual knows; fewer, or below a thousandth, are slips


class Parsed(NamedTuple):
    """The readable lines of a block: `numbers[field]` is float64, `lines` the 1-based line of each."""

    numbers: Mapping[str, np.ndarray]
    lines: np.ndarray
    rejects: list[Reject]
    longer: int = 0  # lines that went on after the 18 numbers


class Statuses(NamedTuple):
    """What the statuses of a whole log say: whether they are SWF's, and the jobs of several lines among those with partial ones."""

    are_usable: bool = True
    several_lines: np.ndarray = np.empty(0)


def is_longer(block: Block) -> bool:
    """Whether the first record of a log is a standard one with more fields after it, as simulators write them."""
    for line in block.data.split(b"\n"):
        if line.strip() and not line.lstrip().startswith(b";"):
            words = line.split()
            return len(words) > len(FIELDS) and _RECORD.fullmatch(b" ".join(words[: len(FIELDS)])) is not None
    return False


def read_statuses(path: Path) -> Statuses:
    """Read a log for its statuses alone: neither is known before its last line."""
    jobs: list[np.ndarray] = []
    partial: list[np.ndarray] = []
    longer: bool | None = None
    rows = odd = 0
    for block in read_blocks(path):
        longer = is_longer(block) if longer is None else longer
        numbers = parse_lines(block, path.name, longer=longer, columns=("job", "status")).numbers
        status = numbers["status"]
        rows, odd = rows + len(status), odd + int(((status < -1) | (status > 5)).sum())
        jobs.append(numbers["job"])
        partial.append(numbers["job"][np.isin(status, _PARTIAL)])
    if odd >= max(_LEAST_ODD, rows / 1000):
        return Statuses(are_usable=False)
    if not any(map(len, partial)):
        return Statuses()
    ids, counts = np.unique(np.concatenate(jobs), return_counts=True)
    return Statuses(several_lines=np.intersect1d(ids[counts > 1], np.concatenate(partial)))


def parse_lines(block: Block, file: str, *, longer: bool = False, columns: Sequence[str] = FIELDS) -> Parsed:
    """Read a block's lines in one go where all are records, and line by line where some are not.

    With `longer`, what follows the 18 numbers of a line is left out and the line counted.
    """
    whole, cut = block.data, 0
    if longer:
        data, cut = _LONGER.subn(rb"\1", whole)
        block = Block(block.first_line, data)
    comments = _leading_comments(block.data)
    first = block.first_line + block.data.count(b"\n", 0, comments)
    lines = np.arange(first, first + block.data.count(b"\n", comments))
    try:
        return Parsed(_numbers(block.data[comments:], len(lines), columns), lines, [], cut)
    except pa.ArrowInvalid:
        pass
    good, numbers, rejects = [], [], []
    written = block.data.split(b"\n")[:-1]
    for number, (line, raw) in enumerate(zip(written, whole.split(b"\n")[:-1], strict=True), block.first_line):
        if _RECORD.fullmatch(line):
            good.append(line)
            numbers.append(number)
        elif (stripped := line.strip()) and not stripped.startswith(b";"):
            rejects.append(_reject(line, text_of(raw), number, file))
    values = _numbers(b"".join(line + b"\n" for line in good), len(good), columns)
    return Parsed(values, np.array(numbers, np.int64), rejects, cut)


def _numbers(data: bytes, rows: int, columns: Sequence[str]) -> dict[str, np.ndarray]:
    """Read lines of 18 numbers; raises ArrowInvalid where one has another count or something that is no number."""
    data = _single_blanks(data)
    if not data:
        return {name: np.empty(0) for name in columns}
    table = csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(column_names=FIELDS, use_threads=False, block_size=len(data) + 1),
        parse_options=csv.ParseOptions(delimiter=" ", quote_char=False, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(FIELDS, pa.float64()), null_values=[], include_columns=list(columns)
        ),
    )
    if table.num_rows != rows:
        raise pa.ArrowInvalid(f"{table.num_rows} rows in {rows} lines")
    numbers = {name: table[name].to_numpy() for name in columns}
    if not np.isfinite(sum(column.sum() for column in numbers.values())):
        raise pa.ArrowInvalid("a word for infinity, or not a number")
    return numbers


def _leading_comments(data: bytes) -> int:
    """Return where the first line that is no comment begins."""
    at = 0
    while data.startswith(b";", at):
        at = data.index(b"\n", at) + 1
    return at


def _single_blanks(data: bytes) -> bytes:
    """Make each run of blanks one, and take those at the ends of lines away."""
    codes = np.frombuffer(data.replace(b"\t", b" "), np.uint8)
    blank = codes == ord(" ")
    after_blank = np.concatenate([[True], blank[:-1] | (codes[:-1] == ord("\n"))]) if len(codes) else blank
    single: bytes = codes[~(blank & after_blank)].tobytes()
    return single.replace(b" \n", b"\n")


def _reject(line: bytes, raw: str, number: int, file: str) -> Reject:
    words = re.split(rb"[ \t]+", line.strip(b" \t"))
    if len(words) != len(FIELDS):
        return Reject(file, number, "wrong_field_count", f"expected {len(FIELDS)} fields, found {len(words)}", raw)
    bad = next(name for name, word in zip(FIELDS, words, strict=True) if not re.fullmatch(_NUMBER, word))
    return Reject(file, number, "not_a_number", f"field {bad}", raw)
