"""Records of Slurm's accounting as columns of text by sacct's field names, and how a column is read.

Most of sacct's columns hold few distinct texts (states, TRES lists, limits): each is read once, however many records have it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, field_validator

from runcast.data.errors import SourceError
from runcast.data.slurm_words import NO_NAME_WORDS, NO_NODES_WORDS, NO_VALUE_WORDS
from runcast.data.sources.batch import Batch, Reject
from runcast.data.sources.durations import time_limit
from runcast.data.sources.record import in_order

T = TypeVar("T")

#: sacct fields that are read, in lower case; a log may hold them in any order and others beside them.
FIELDS = frozenset(
    """
    jobid jobidraw cluster state submit start end elapsed elapsedraw user group account partition qos jobname workdir
    reqtres reqgres reqcpus reqnodes reqmem alloctres alloccpus allocnodes ncpus nnodes nodelist timelimit timelimitraw restarts
    eligible suspended
    """.split()  # noqa: SIM905 - a list of words
)
NO_WORDS = pa.array(sorted(NO_VALUE_WORDS))
NO_NODES = pa.array(sorted(NO_NODES_WORDS))
NO_NAME = pa.array(sorted(NO_NAME_WORDS))


class SlurmOptions(BaseModel):
    """Options that both Slurm formats take."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    allocated_as_requested: bool = False  # a log without ReqTRES and the like: take what was allocated for what was asked
    slurm_cluster: str | None = None  # of a log that holds several clusters (sacct --allclusters): the one to read
    partition_limits: dict[str, str] = {}  # limit of a job that names none and has not started, by partition, as sinfo prints it

    @field_validator("partition_limits")
    @classmethod
    def _readable_limits(cls, value: dict[str, str]) -> dict[str, str]:
        for partition, limit in value.items():
            if time_limit(limit).kind not in ("given", "unlimited"):
                raise ValueError(
                    f"{limit!r} of {partition!r} is no limit; write it as sinfo does: 7-00:00:00, 12:00:00, or UNLIMITED"
                )
        return value


@dataclass(frozen=True)
class Looked(Generic[T]):
    """What each distinct text of a column was read as, and which of them each record has."""

    values: list[T]
    at: np.ndarray

    def numbers(self, part: Callable[[T], float | None]) -> np.ndarray:
        """Return one number for each record, NaN for None."""
        values = [part(value) for value in self.values]
        numbers: np.ndarray = np.array([np.nan if value is None else value for value in values], dtype=np.float64)[self.at]
        return numbers

    def texts(self, part: Callable[[T], str | None]) -> pa.Array:
        return pa.array([part(value) for value in self.values], pa.string()).take(pa.array(self.at))

    def mask(self, is_so: Callable[[T], bool]) -> np.ndarray:
        mask: np.ndarray = np.array([is_so(value) for value in self.values], dtype=bool)[self.at]
        return mask


@dataclass(frozen=True)
class Fields:
    """Records of one file as columns: text (plain or dictionary) by sacct's field name in lower case, "" or null where empty.

    `lines` is the 1-based line (or record number) of each; `raw` returns the text of the record at a position.
    """

    columns: Mapping[str, pa.Array]
    lines: np.ndarray
    file: str
    raw: Callable[[int], str]

    @property
    def rows(self) -> int:
        return len(self.lines)

    @property
    def ids(self) -> pa.Array:
        """The ids that jobs are known by: JobID, or JobIDRaw where the log lacks it."""
        return self.text("jobid" if "jobid" in self.columns else "jobidraw")

    def take(self, rows: np.ndarray) -> "Fields":
        chosen = pa.array(rows)
        columns = {name: column.take(chosen) for name, column in self.columns.items()}
        return Fields(columns, self.lines[rows], self.file, lambda at: self.raw(int(rows[at])))

    def text(self, name: str) -> pa.Array:
        """Return a column as it stands in the log, null where the log lacks it."""
        column = self.columns.get(name)
        if column is None:
            return pa.nulls(self.rows, pa.string())
        return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column

    def words(self, name: str, none: pa.Array = NO_WORDS) -> pa.Array:
        """Return a column with every word for none as null."""
        column = self.columns.get(name)
        if column is None:
            return pa.nulls(self.rows, pa.string())
        if pa.types.is_dictionary(column.type):
            return _without(column.dictionary, none).take(column.indices)
        return _without(column, none)

    def read(self, name: str, how: Callable[[str], T]) -> Looked[T]:
        """Read a column text by text; a null, or a column that the log lacks, is read as ""."""
        column = self.columns.get(name)
        if column is None:
            return Looked([how("")], np.zeros(self.rows, np.int64))
        encoded = column.dictionary_encode()  # a dictionary column is returned as it is
        at = pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        return Looked([how(text) for text in pc.fill_null(encoded.dictionary, "").to_pylist()] + [how("")], at)

    def counts(self, name: str) -> np.ndarray:
        """Read whole numbers, the first of `2-4`; NaN where there is none. Nobody asks for 0 CPUs or nodes: 0 is none."""
        return self.read(name, _count).numbers(lambda count: count)


@dataclass
class Tally:
    """What was not accepted, and what was accepted but is odd."""

    rejects: list[Reject] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str, count: int) -> None:
        if count:
            self.skipped[reason] = self.skipped.get(reason, 0) + count

    def note(self, name: str, count: int) -> None:
        if count:
            self.notes[name] = self.notes.get(name, 0) + count

    def batch(self, jobs: pa.Table) -> Batch:
        """Return `jobs` with this tally, rejects in the file's order."""
        return Batch(jobs, in_order(self.rejects), self.skipped, self.notes)


def require_fields(found: Iterable[str], where: str) -> None:
    """Raise SourceError naming what is missing for a runtime to be known: an id, submission, state, and start and end."""
    have = set(found)
    missing = [] if have & {"jobid", "jobidraw"} else ["JobID"]
    missing += [name for name in ("Submit", "State") if name.lower() not in have]
    spans = {"Start": {"start"}, "End": {"end"}, "Elapsed": {"elapsed", "elapsedraw"}}
    lacking = [name for name, keys in spans.items() if not keys & have]
    missing += lacking if len(lacking) > 1 else []
    if missing:
        raise SourceError(
            f"{where}: the log lacks {', '.join(missing)}; a runtime needs JobID, Submit, State and two of Start, End, Elapsed. "
            "Export again with sacct --parsable2 --format=JobID,Submit,Start,End,Elapsed,State,..."
        )


def mask_of(values: pa.Array) -> np.ndarray:
    """Return a boolean column as a mask, False where null."""
    mask: np.ndarray = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return mask


def is_one_of(texts: pa.Array, words: Iterable[str]) -> np.ndarray:
    return mask_of(pc.is_in(texts, value_set=pa.array(sorted(words))))


def _without(column: pa.Array, words: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_in(column, value_set=words), pa.scalar(None, pa.string()), column)


def _count(text: str) -> float | None:
    first = text.partition("-")[0].strip()
    return float(first) if first.isascii() and first.isdigit() and len(first) < 16 and int(first) else None
