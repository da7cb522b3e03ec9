"""How a sacct log is cut into records and fields: its columns, its delimiter, and what it begins with.

A user can write a plain delimiter and a line end into a job's name, and so a whole record of another user's job. A delimiter of 16
characters or more that was drawn at random for the export cannot be guessed: a record is then whole when all of its delimiters are
there, whatever stands between them. Where the header shows `|`, 16 to 64 hexadecimal digits and `|`, that is the log's delimiter.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, field_validator

from runcast.data.errors import Quoted, SourceError
from runcast.data.sources.blocks import read_blocks, text_of
from runcast.data.sources.slurm_fields import SlurmOptions

FREE_TEXT = frozenset({"jobname", "workdir", "submitline", "comment", "admincomment", "systemcomment", "extra", "reason"})
BOM = b"\xef\xbb\xbf"
BETWEEN = b"\x1f"  # stands between fields for a long delimiter

_SECRET_BYTES = 16
_DRAWN = re.compile(rb"[A-Za-z]+(\|[0-9a-f]{16,64}\|)")
_ERROR = re.compile(rb"(?:sacct|slurm[a-z_]*): (?:error|fatal): ")


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
class Layout:
    """How a record is cut into fields; `names` are lower case, in the file's order."""

    file: str
    names: tuple[str, ...]
    delimiter: bytes
    record_end: bytes | None
    header: bytes | None  # its text, as the file's first record
    ends_with_delimiter: bool  # --parsable instead of --parsable2

    @property
    def is_free_text_last(self) -> bool:
        return self.names[-1] in FREE_TEXT

    @property
    def is_counted(self) -> bool:
        """Whether the number of delimiters alone tells where a record begins and ends, whatever line ends it holds.

        No name can hold a delimiter of this length: nobody knew it when the jobs were submitted.
        """
        is_secret = len(self.delimiter) >= _SECRET_BYTES
        return is_secret and self.record_end is None and not {self.names[0], self.names[-1]} & FREE_TEXT

    @property
    def spans_lines(self) -> bool:
        """Whether a record can go on over a line end."""
        return self.record_end is not None or self.is_free_text_last or self.is_counted

    @property
    def id_at(self) -> int:
        return self.names.index("jobid" if "jobid" in self.names else "jobidraw")

    @property
    def between(self) -> bytes:
        """The one byte between fields in what pyarrow reads."""
        return self.delimiter if len(self.delimiter) == 1 else BETWEEN

    def refuse_error(self, line: bytes, number: int) -> None:
        """Raise SourceError where a line that is no record is what Slurm's commands print when they fail."""
        if _ERROR.match(line):
            raise SourceError(
                f"{self.file}: line {number} is an error message of Slurm's: ",
                Quoted(text_of(line)),
                ". The export failed, so jobs are missing: export again, with 2> to another file. Where it is a job's name that "
                "looks like this, export with a random delimiter, as README.md does.",
            )


def layout_of(path: Path, options: Options) -> Layout:
    """Return the layout of a log from its first lines; raises SourceError where they are none of sacct's."""
    record_end = options.record_end.encode() if options.record_end else None
    data = next(read_blocks(path, 1 << 16)).data.removeprefix(BOM)
    records = [record.strip(b"\n") for record in data.split(record_end or b"\n") if record.strip()]
    if not records:
        raise SourceError(f"{path}: nothing but blank lines at the beginning; expected the output of sacct --parsable2")
    delimiter = options.delimiter.encode()
    if delimiter == b"|" and (drawn := _DRAWN.match(records[0])):
        delimiter = drawn[1]
    found = tuple(text_of(name).strip().lower() for name in records[0].split(delimiter))
    header = records[0] if set(found) & {"jobid", "jobidraw", "submit", "state"} else None
    if options.columns is not None:
        names = tuple(name.strip().lower() for name in options.columns)
        ends_with_delimiter = all(r.endswith(delimiter) and r.count(delimiter) >= len(names) for r in records)
        return Layout(path.name, names, delimiter, record_end, header, ends_with_delimiter)
    if header is None:
        if _ERROR.match(records[0]):
            raise SourceError(
                f"{path}: the log begins with an error of Slurm's: ", Quoted(text_of(records[0])), ". Export again."
            )
        raise SourceError(
            f"{path}: the first line is no header of sacct but ",
            Quoted(text_of(records[0])),
            ". Give source.options.columns where the log has none, or source.options.delimiter where it is not "
            f"{options.delimiter!r}.",
        )
    return Layout(path.name, found[:-1] if found[-1] == "" else found, delimiter, record_end, header, found[-1] == "")
