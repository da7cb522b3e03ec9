"""Whose the refused records of a load are: a user who can break records by a job's name must not refuse everybody's jobs."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.sources.batch import Batch

_NAME_LINES = 255  # Slurm's accounting keeps so many bytes of a name, so its lines lie this near to its record's


@dataclass
class RejectShare:
    """Accepted and refused records of a load by user; a refused one is that of the job it stands behind."""

    accepted: Counter[str | None] = field(default_factory=Counter)
    rejected: Counter[str | None] = field(default_factory=Counter)

    def add(self, batch: Batch) -> None:
        counts = pc.value_counts(batch.jobs["user"].combine_chunks())
        self.accepted.update(dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)))
        if not batch.rejects or not batch.jobs.num_rows:
            return
        lines, rows = job_before(batch)
        near = rows[(lines > 0) & (_lines_of(batch) - lines <= _NAME_LINES)]
        self.rejected.update(batch.jobs["user"].take(pa.array(near)).to_pylist())

    def of_one_user(self, rejected: int, records: int, at_most: float) -> int:
        """Return how many of the `rejected` are of the user who has the most, where without this user no more than `at_most` are.

        Else 0, and where too few records of others are left to say that they can be read.
        """
        named = {user: count for user, count in self.rejected.items() if user is not None}
        user = max(named, key=lambda name: (named[name], name), default=None)
        if user is None:
            return 0
        left = records - named[user] - self.accepted[user]
        share = (rejected - named[user]) / left if left else 1.0
        return named[user] if left * at_most >= 1 and share <= at_most else 0


def job_before(batch: Batch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return, for each reject, line and row of the job before it in its file; where there is none, 0 and the row of the one after."""
    lines = pc.struct_field(pc.extract_regex(batch.jobs["source"], r":(?P<line>\d+)$"), "line").cast(pa.int64()).to_numpy()
    order = np.argsort(lines, kind="stable")
    at = np.searchsorted(lines[order], _lines_of(batch), side="right") - 1
    rows = order[np.maximum(at, 0)]
    return np.where(at < 0, 0, lines[rows]), rows


def _lines_of(batch: Batch) -> npt.NDArray[np.int64]:
    return np.array([reject.line for reject in batch.rejects], np.int64)
