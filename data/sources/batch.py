"""What a source yields: canonical rows, rejects and counts that add up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

WITHHELD = "(withheld: "  # what the raw text of a reject begins with where names are replaced


class Reject(NamedTuple):
    """One refused record: file, 1-based line (record number where a format has no lines), stable reason, detail, raw text."""

    file: str
    line: int
    reason: str
    detail: str
    raw: str


@dataclass(frozen=True)
class Batch:
    """A piece of a log: rows in == jobs + rejects + skipped, always.

    `jobs` has the schema JOBS. `skipped` counts records that are not jobs (steps, headers repeated inside, comments are not
    records at all), by reason. `notes` counts what was accepted but is odd (unknown states, repaired times), by name.
    """

    jobs: pa.Table
    rejects: tuple[Reject, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows_in(self) -> int:
        return int(self.jobs.num_rows) + len(self.rejects) + sum(self.skipped.values())
