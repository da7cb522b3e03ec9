"""The features stage: from the lake's jobs to the lake's features, and what later stages take from there."""

import datetime as dt
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from runcast.data.asof import cut_us
from runcast.data.cluster import Cluster
from runcast.data.lake import Lake
from runcast.data.settings import Settings
from runcast.features.bulk import state_of
from runcast.features.catalog import CATEGORIES, COLUMNS_READ, NAMES, feature_version
from runcast.features.errors import FeaturesStale
from runcast.features.matrix import Categories, Ended, Matrix
from runcast.features.reading import read_log
from runcast.features.state import State
from runcast.features.table import build

_VERSION, _AS_OF = "feature_version", "as_of_us"
_ENDED = ("start_us", "end_us", "runtime_s", "label", "state")
_CATEGORY = "category_"


@dataclass(frozen=True)
class FeatureReport:
    """What a night's features are made of; `features` counts columns that can exist in this log, of `catalog`.

    `runaways` are those of the open jobs that no longer count as running; see runaways.py.
    """

    cluster: str
    day: str
    jobs: int
    open_jobs: int
    runaways: int
    features: int
    catalog: int
    feature_version: str
    fingerprint: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def build_features(cluster: Cluster, settings: Settings, day: dt.date) -> FeatureReport:
    """Build the features of every job seen at the end of `day` (local) and write them to the lake."""
    lake = Lake(settings.lake)
    cut = cut_us(day, cluster.zone)
    jobs = _jobs(lake, cluster, cut)
    matrix = build(jobs, cluster.clock, cluster.time_zone)
    change = lake.write_features(cluster.name, to_arrow(matrix, cut))
    return FeatureReport(
        cluster=cluster.name,
        day=day.isoformat(),
        jobs=len(matrix),
        open_jobs=int((~matrix.ended.is_over).sum()),
        runaways=int((read_log(jobs[~matrix.ended.is_over]).clamped().runaway_us < cut).sum()),
        features=len(matrix.names),
        catalog=len(NAMES),
        feature_version=feature_version(),
        fingerprint=change.fingerprint,
    )


def read_matrix(cluster: Cluster, settings: Settings, day: dt.date) -> Matrix:
    """Return the matrix that `build_features` wrote for `day`; raises FeaturesStale where another day's or version's is there."""
    table = Lake(settings.lake).read_features(cluster.name)
    found = tuple(table[name][0].as_py() if table.num_rows else None for name in (_VERSION, _AS_OF))
    wanted = (feature_version(), cut_us(day, cluster.zone))
    if table.num_rows and found != wanted:
        raise FeaturesStale(
            f"{cluster.name}: the lake holds features of version {found[0]} as of {found[1]}, asked for {wanted[0]} as of "
            f"{wanted[1]} (end of {day}). Build them again (`runcast features --cluster {cluster.name} --date {day}`)."
        )
    return from_arrow(table)


def build_state(cluster: Cluster, settings: Settings, day: dt.date) -> State:
    """Return the state of the scheduler's side as of the end of `day` (local)."""
    cut = cut_us(day, cluster.zone)
    return state_of(_jobs(Lake(settings.lake), cluster, cut), cluster.clock, cluster.time_zone, cut)


def to_arrow(matrix: Matrix, as_of_us: int) -> pa.Table:
    """Return the matrix as a table: key, submission, version and cut, features, categories as text, outcomes."""
    columns: dict[str, Any] = {
        "job_key": pa.array(matrix.job_key, pa.string()),
        "submit_us": pa.array(matrix.submit_us),
        _VERSION: pa.DictionaryArray.from_arrays(np.zeros(len(matrix), np.int32), [feature_version()]).cast(pa.string()),
        _AS_OF: pa.array(np.full(len(matrix), as_of_us)),
    }
    columns |= {name: pa.array(matrix.column(name)) for name in matrix.names}
    for name, category in matrix.categories.items():
        codes = pa.array(category.codes, mask=category.codes < 0)
        words = pa.array(category.vocabulary, pa.string())
        columns[_CATEGORY + name] = pa.DictionaryArray.from_arrays(codes, words).cast(pa.string())
    for name in _ENDED:
        values = getattr(matrix.ended, name)
        columns[name] = pa.array(values, pa.string() if values.dtype == object else None)
    return pa.table(columns)


def from_arrow(table: pa.Table) -> Matrix:
    """Return the matrix that `to_arrow` was given."""
    names = tuple(name for name in NAMES if name in table.column_names)
    values = np.empty((table.num_rows, len(names)), np.float32, order="F")
    for at, name in enumerate(names):
        values[:, at] = table[name].to_numpy()
    categories = {}
    for name in CATEGORIES:
        codes, words = pd.factorize(table[_CATEGORY + name].to_pandas())
        categories[name] = Categories(codes.astype(np.int32), tuple(str(word) for word in words))
    ended = Ended(*(table[name].to_numpy(zero_copy_only=False) for name in _ENDED))
    return Matrix(
        names, values, categories, table["job_key"].to_numpy(zero_copy_only=False), table["submit_us"].to_numpy(), ended
    )


def _jobs(lake: Lake, cluster: Cluster, cut: int) -> pd.DataFrame:
    jobs: pd.DataFrame = lake.read_jobs(cluster.name, before=cut, columns=COLUMNS_READ).to_pandas()
    return jobs
