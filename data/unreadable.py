"""Requests that stand in a log and cannot be read: counted by column, shown with the words found, refused where a column is lost.

A value that cannot be read is null, as if it had not been given. Where that befalls most jobs, the cluster file reads the column wrongly.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.cluster import Cluster
from runcast.data.errors import Quoted, UnreadableColumn
from runcast.data.sources.hints import unit_hint

UNREADABLE = "unreadable_"  # begins a note: of a column how often; with `:WORD` behind it, how often this word
_WORDS, _LONGEST = 3, 40
_JOBS_TELL, _LOST_SHARE = 20, 0.5  # of so many jobs


class Unreadable(NamedTuple):
    """A canonical column, in how many jobs it cannot be read, and the most frequent words there."""

    column: str
    jobs: int
    words: Mapping[str, int]


def unreadable_notes(column: str, values: pa.Array, unreadable: np.ndarray, *, shows_words: bool) -> dict[str, int]:
    """Return the notes of one column: the total, and its most frequent words where they may be shown."""
    total = int(unreadable.sum())
    if not total:
        return {}
    notes = {f"{UNREADABLE}{column}": total}
    if shows_words and (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        counts = pc.utf8_slice_codeunits(values.filter(pa.array(unreadable)), 0, _LONGEST).value_counts().to_pylist()
        first = sorted(counts, key=lambda one: (-one["counts"], one["values"] or ""))[:_WORDS]
        notes |= {f"{UNREADABLE}{column}:{one['values']}": one["counts"] for one in first}
    return notes


def unreadable_columns(notes: Mapping[str, int]) -> list[Unreadable]:
    """Return what the notes of a load say of columns that could not be read, in the notes' order."""
    named = {name.removeprefix(UNREADABLE): count for name, count in notes.items() if name.startswith(UNREADABLE)}
    found = []
    for column, count in named.items():
        if ":" not in column:
            words = {name.partition(":")[2]: n for name, n in named.items() if name.startswith(f"{column}:")}
            found.append(Unreadable(column, count, dict(sorted(words.items(), key=lambda item: (-item[1], item[0]))[:_WORDS])))
    return found


def sentence(one: Unreadable, jobs: int) -> str:
    """Say what cannot be read, and what in the cluster file might read it; the log's words are not made plain."""
    words = ", ".join(f"{Quoted(word)} {count}" for word, count in one.words.items())
    hints = [unit_hint(one.column, word) for word in one.words]
    return (
        f"{one.column} cannot be read in {one.jobs} of {jobs} jobs, and counts there as not given"
        f"{': ' + words if words else ''}{next((hint for hint in hints if hint), '')}"
    )


def refuse_lost_columns(cluster: Cluster, notes: Mapping[str, int], jobs: int) -> None:
    """Raise UnreadableColumn where a column is there and cannot be read in most jobs of a load."""
    lost = [one for one in unreadable_columns(notes) if jobs >= _JOBS_TELL and one.jobs > _LOST_SHARE * jobs]
    if lost:
        raise UnreadableColumn(
            f"{cluster.name}: {sentence(lost[0], jobs)}. Nothing was written. Mend source.options.columns.{lost[0].column} of the "
            f"cluster file, or leave it out."
            if cluster.source.format == "table"
            else f"{cluster.name}: {sentence(lost[0], jobs)}. Nothing was written. Is source.format right ({cluster.source.format})?"
        )
