"""The pipeline's side of the bundle: packed from a model folder and the history as of a cut, and checked.

This module uses what a scheduler host does not have. The check asks the written bundle about the latest jobs as if they were
submitted again at the cut, and compares with the table face and the training side's scorer: equal, or it is refused.
"""

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from runcast.data.cluster import Cluster
from runcast.data.columns import COLUMNS
from runcast.data.job import pseudonyms_kept
from runcast.data.lake import Lake
from runcast.data.settings import Settings
from runcast.features.bulk import state_of
from runcast.features.catalog import COLUMNS_READ, feature_version
from runcast.features.errors import StateError
from runcast.features.job import build_state
from runcast.features.matrix import Matrix
from runcast.features.state import State
from runcast.features.table import build
from runcast.scheduler.bundle import FORMAT_VERSION, Manifest, PseudonymsUsed, moment_of, utc_text, write_bundle
from runcast.scheduler.errors import BundleError, ParityError
from runcast.scheduler.predictor import MODEL, RECIPES, STATE, Predictor
from runcast.training.fitting import score_matrix
from runcast.training.scoring import load_scorer

PARITY_JOBS = 200  # of the latest; a difference in a feature's code shows on the first few
_ANSWERS = ("p50_s", "p90_s", "point_s", "confidence", "source")
_TOLD = frozenset({*COLUMNS_READ, *(c.name for c in COLUMNS if c.known_at == "submit")})


def history(jobs: pa.Table, clock: str, time_zone: str, cut: datetime) -> State:
    """Return the state that has been told of all `jobs`, as they stood at the cut."""
    return state_of(jobs.select(list(COLUMNS_READ)).to_pandas(), clock, time_zone, microseconds(cut))


def state_of_night(cluster: Cluster, settings: Settings, day: date) -> State:
    """Return the state as of the end of `day`; kept below the home, so that the stages of a night build it once.

    One is kept for each cluster: whoever asks for another takes the former away, also one that a killed process left beside it.
    """
    known = f"{Lake(settings.lake).fingerprint(cluster.name)} {day} {feature_version()} {cluster.clock} {cluster.time_zone}"
    kept = settings.home / "state" / cluster.name / f"{day}-{hashlib.sha256(known.encode()).hexdigest()[:16]}.npz"
    state = None
    if kept.exists():
        with contextlib.suppress(StateError):  # a disk may damage what was whole
            state = State.load(kept)
    if state is None:
        state = build_state(cluster, settings, day)
        kept.parent.mkdir(parents=True, exist_ok=True)
        state.save(kept)
    for other in kept.parent.iterdir():  # after each reading: whoever wrote `kept` may have been killed before this line
        if other != kept:
            other.unlink(missing_ok=True)
    return state


def pack(
    root: Path,
    *,
    cluster: Cluster,
    model: Path,
    state: State,
    model_version: str,
    registered: str | None,
    cut: datetime,
    created: datetime,
    pseudonyms: PseudonymsUsed | None = None,
    sign_key: Path | None = None,
) -> Path:
    """Write a bundle below `root` from a model folder and a state as of `cut`, signed where a key is named; return its folder.

    `pseudonyms` says how the names in the state were replaced; raises BundleError where the cluster file says otherwise.
    """
    if (cluster.pseudonymise is None) != (pseudonyms is None):
        raise BundleError(
            f"{cluster.name}: its cluster file asks for {'clear names' if pseudonyms else 'pseudonyms'}, the history holds "
            f"{'pseudonyms' if pseudonyms else 'clear names'}. Load the log again (`runcast ingest`), which says what to do."
        )
    scorer = load_scorer(model, feature_version())
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        cluster=cluster.name,
        kind=scorer.kind,
        model_version=model_version,
        registered=registered,
        feature_version=feature_version(),
        recipe_version=RECIPES.get(scorer.kind),
        data_cut=utc_text(cut),
        created=utc_text(created),
        valid_until=utc_text(created + timedelta(days=cluster.export.valid_days)),
        clock=cluster.clock,
        time_zone=cluster.time_zone,
        time_limit=cluster.time_limit,
        gpus_tracked=cluster.gpus_tracked,
        files=(),
        pseudonyms=pseudonyms,
    )
    with tempfile.TemporaryDirectory(prefix="runcast-") as scratch:
        content = Path(scratch) / "content"
        shutil.copytree(model, content / MODEL)
        state.save(content / STATE)
        return write_bundle(root, content, manifest, sign_key)


def pseudonyms_used(cluster: Cluster, settings: Settings) -> PseudonymsUsed | None:
    """Return how the names of the cluster's lake were replaced, None where they are in clear."""
    kept = pseudonyms_kept(cluster.name, settings)
    return None if kept is None else PseudonymsUsed(tuple(kept["columns"]), kept["key_fingerprint"])


def check_parity(bundle: Path, model: Path, jobs: pa.Table, cluster: Cluster) -> int:
    """Compare the bundle with the training side on the latest jobs, submitted again at the cut; return how many.

    Raises ParityError with the first job and answer that differ.
    """
    latest = jobs.take(_by_submission(jobs)[-PARITY_JOBS:])
    if not latest.num_rows:
        return 0
    predictor = Predictor.load(bundle, may_be_expired=True, has_pseudonyms=True)
    again = submitted_again(latest, moment_of(predictor.manifest.data_cut))
    expected = score_matrix(load_scorer(model, feature_version()), features_beside(jobs, again, cluster))
    for at, job in enumerate(as_mappings(again)):
        found = predictor.answer(job)
        for name in _ANSWERS:
            wanted = getattr(expected, name)[at]
            if found[name] != wanted:
                raise ParityError(
                    f"{bundle}: {name} of a job like {latest['job_key'][at]} is {found[name]!r}, the training side says {wanted!r}. "
                    f"The bundle was not made current; the one before serves. Report this with the cluster file and the night."
                )
    return len(again)


def features_beside(jobs: pa.Table, asked: pa.Table, cluster: Cluster) -> Matrix:
    """Return the table face's features of `asked`, submitted at one instant into the log `jobs`: they do not see each other."""
    columns = list(COLUMNS_READ)
    table = pa.concat_tables([jobs.select(columns), asked.select(columns)]).to_pandas()
    matrix = build(table, cluster.clock, cluster.time_zone)
    return matrix.take(np.arange(jobs.num_rows, jobs.num_rows + asked.num_rows))


def submitted_again(jobs: pa.Table, cut: datetime) -> pa.Table:
    """Return the jobs as if they were submitted at the cut: nothing has become of them, and their keys are new."""
    at = pa.scalar(cut, pa.timestamp("us", tz="UTC"))
    values: Mapping[str, Any] = {
        "job_key": pa.array([f"again:{key}" for key in jobs["job_key"].to_pylist()]),
        "submit_time": pa.array([at.as_py()] * jobs.num_rows, at.type),
        "state": pa.array(["PENDING"] * jobs.num_rows),
        "label": pa.array(["excluded"] * jobs.num_rows),
        **{name: pa.nulls(jobs.num_rows, jobs.schema.field(name).type) for name in ("start_time", "end_time", "runtime_s")},
    }
    for name, column in values.items():
        jobs = jobs.set_column(jobs.schema.get_field_index(name), jobs.schema.field(name), column)
    return jobs


def as_mappings(jobs: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield each job as the state takes it: canonical names, null as None, times in microseconds."""
    names = [name for name in jobs.column_names if name in _TOLD]
    for batch in jobs.select(names).to_batches(max_chunksize=10_000):
        columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in batch.columns]
        for values in zip(*(column.to_pylist() for column in columns), strict=True):
            yield dict(zip(names, values, strict=True))


def _by_submission(jobs: pa.Table) -> NDArray[np.intp]:
    return np.argsort(jobs["submit_time"].cast(pa.int64()).to_numpy(), kind="stable")


def microseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
