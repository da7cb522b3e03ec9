"""IBM Spectrum LSF: its accounting file lsb.acct, and what its commands print, told apart by what is in the file.

- lsb.acct (JOB_FINISH records of LSF 5.1 to 10.1): every job that ended, exact and complete; the one to take where it can be had.
- `bjobs -json -o "…"` or `bjobs -o "… delimiter='|'"`: open jobs too, and those that ended within CLEAN_PERIOD.
- `bacct -l` and `bhist -l`, folded or not.

A job's id is what LSF prints: `123`, `123[4]` for an element of an array. Start 0 is a job that never ran.
"""

import contextlib
import re
from collections.abc import Iterator
from datetime import date, datetime, time
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from runcast.data.cluster import Cluster
from runcast.data.errors import Quoted, SourceError
from runcast.data.sources.batch import Batch
from runcast.data.sources.blocks import open_log, read_piece, text_of
from runcast.data.sources.lsf_acct import RECORD, read_acct
from runcast.data.sources.lsf_bjobs import COMMAND, read_delimited_fields, read_json
from runcast.data.sources.lsf_text import PARAGRAPH, read_text
from runcast.data.sources.lsf_times import NO_YEAR

_LOOK_AT_BYTES = 1 << 18
_OLD_CSV = re.compile(r"\s*\"?job_id\"?,|[^\n]*,submit_time,", re.ASCII)
_BACCT = re.compile(r"\s*Accounting information about jobs that are")  # all that a quiet day has
_HEADER = re.compile(r"\s*JOBID *([^\w\s\[\]]) *[A-Z]", re.ASCII)
_DAY_IN_NAME = re.compile(r"(?<!\d)(\d{4})-?(\d\d)-?(\d\d)(?!\d)", re.ASCII)
_UNITS = {"kb": "K", "mb": "M", "gb": "G", "tb": "T", None: ""}


class Options(BaseModel):
    """`source.options` of an LSF log."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unit_for_limits: Literal["kb", "mb", "gb", "tb"] | None = (
        None  # LSF_UNIT_FOR_LIMITS of lsf.conf: of memory asked for without a unit, which is null where this is not said
    )
    written: date | Literal["file_name"] | None = (
        None  # day on which a command's output was written (file_name: as in each name): dates without a year are the latest up to it
    )
    fields: tuple[str, ...] | None = Field(None, min_length=1)  # of `bjobs -noheader -o "…"`, as they stand there
    delimiter: str = Field("|", min_length=1, max_length=1)  # of such a file; a header shows its own


def read(path: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield the jobs of one file in its order; raises SourceError for a file of another kind, or whose dates lack their year."""
    options = Options.model_validate(cluster.source.options)
    unit = _UNITS[options.unit_for_limits]
    written = _day_written(path, options)
    has_years = False
    for batch in _batches(path, cluster, options, unit, written):
        if not has_years and not batch.jobs.num_rows and any(reject.reason == NO_YEAR for reject in batch.rejects):
            raise SourceError(
                f"{path}: the dates have no year, and none is guessed. Set LSB_DISPLAY_YEAR=Y for bacct -l and bhist -l, or say in "
                "source.options when the export was written: `written: YYYY-MM-DD`, or `written: file_name` where the names hold the day."
            )
        has_years |= batch.jobs.num_rows > 0
        yield batch


def _day_written(path: Path, options: Options) -> datetime | None:
    """Return the end of the day on which a file was written, None where nothing says it; raises SourceError where its name should."""
    if options.written is None:
        return None
    if isinstance(options.written, date):
        return datetime.combine(options.written, time.max)
    for match in _DAY_IN_NAME.finditer(path.name):
        with contextlib.suppress(ValueError):
            return datetime.combine(date(*map(int, match.groups())), time.max)
    raise SourceError(f"{path}: `written: file_name`, but the name holds no day as YYYY-MM-DD or YYYYMMDD")


def _batches(path: Path, cluster: Cluster, options: Options, unit: str, written: datetime | None) -> Iterator[Batch]:
    with open_log(path) as file:
        beginning = text_of(read_piece(file, path, _LOOK_AT_BYTES)).replace("\r", "\n")
    lines = beginning.split("\n")
    if any(RECORD.match(line) for line in lines):
        return read_acct(path, cluster, unit)
    if beginning.lstrip("\ufeff \t\n").startswith("{"):
        return read_json(path, cluster, unit, written)
    if any(PARAGRAPH.match(line) for line in lines) or _BACCT.match(beginning):
        return read_text(path, cluster, unit, written)
    if (header := _HEADER.match(beginning)) or options.fields:
        delimiter = header[1] if header else options.delimiter
        return read_delimited_fields(path, cluster, unit, written, None if header else options.fields, delimiter)
    raise _unknown(path, beginning)


def _unknown(path: Path, beginning: str) -> SourceError:
    first = Quoted(beginning.strip().partition("\n")[0][:80])
    if _OLD_CSV.match(beginning):
        return SourceError(
            f"{path}: a CSV of jobs is read by `format: table` with a map of its columns; `lsf` reads LSF's own files (lsb.acct, "
            "bjobs -json, bacct -l, bhist -l). Runcast's data/clusters/examples/lsf.yaml maps such a CSV, to copy from. First line: ",
            first,
        )
    return SourceError(
        f"{path}: nothing that LSF writes: expected lsb.acct, bacct -l, bhist -l, or {COMMAND}. First line: ", first
    )
