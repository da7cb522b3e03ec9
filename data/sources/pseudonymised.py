"""Batches of a source with pseudonyms for their names; no clear name is left in them, and none in an error that quotes the log."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.errors import SourceError
from runcast.data.pseudonyms import ARRAY_ID, Pseudonyms
from runcast.data.sources.batch import WITHHELD, Batch


def pseudonymised(batches: Iterable[Batch], names: Pseudonyms) -> Iterator[Batch]:
    """Yield the batches with pseudonyms; the raw text of a reject, of which nobody knows where its names are, is withheld."""
    try:
        for batch in batches:
            rejects = tuple(r._replace(raw=f"{WITHHELD}{len(r.raw)} characters)") for r in batch.rejects)
            yield Batch(_with_pseudonyms(batch.jobs, names), rejects, batch.skipped, batch.notes)
    except SourceError as error:
        raise error.without_quotes() from None  # the cause would quote, too


def _with_pseudonyms(jobs: pa.Table, names: Pseudonyms) -> pa.Table:
    for column in (*names.columns, ARRAY_ID):
        if names.maps(column):
            jobs = _replaced(jobs, column, _mapped(jobs[column], column, names))
    if names.maps("job_id"):
        submitted = jobs["submit_time"].cast(pa.int64()).cast(pa.string())
        jobs = _replaced(jobs, "job_key", pc.binary_join_element_wise(jobs["cluster"], jobs["job_id"], submitted, ":"))
    return jobs


def _mapped(column: pa.ChunkedArray, name: str, names: Pseudonyms) -> pa.Array:
    encoded = column.combine_chunks().dictionary_encode()
    words = pa.array([names.of(name, word) for word in encoded.dictionary.to_pylist()], pa.string())
    return words.take(encoded.indices)


def _replaced(jobs: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    at = jobs.schema.get_field_index(name)
    return jobs.set_column(at, jobs.schema.field(at), values)
