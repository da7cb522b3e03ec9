"""The training stage: from the lake's features of a night to a model folder.

A model is written as RUNCAST_HOME/models/<cluster>/<night>/<kind>/. Where too little had ended for it, the baseline that serves
instead is written under its own name, and no folder of the kind is left.
"""

import datetime as dt
import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from runcast.data.asof import cut_us
from runcast.data.cluster import Cluster
from runcast.data.settings import Settings
from runcast.features.catalog import feature_version
from runcast.features.job import read_matrix
from runcast.features.matrix import Matrix
from runcast.training.fitting import Fit, fit_at
from runcast.training.kinds import find_kind
from runcast.training.scoring import ModelCard, Scorer, save_scorer

_LIBRARIES = ("lightgbm", "numpy", "scikit-learn")


@dataclass(frozen=True)
class TrainReport:
    """What one training did; `served_by` differs from `kind` where a baseline stands in, and `fallback_reason` says why.

    `failure` is of a fit that was killed or failed; the kind's champion is not touched by it.
    """

    cluster: str
    day: str
    kind: str
    served_by: str
    fallback_reason: str | None
    failure: str | None
    jobs: int
    censored_jobs: int
    features: int
    feature_version: str
    data_fingerprint: str
    path: str
    model_sha256: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def train(cluster: Cluster, settings: Settings, day: dt.date, kind: str) -> TrainReport:
    """Fit `kind` on everything that had ended by the end of `day` and write it.

    Raises UnknownKind, FeaturesStale where the features of that day were not built, and NotEnoughJobs where nothing had ended.
    """
    find_kind(kind)
    matrix = read_night(cluster, settings, day)
    fit = fit_at(matrix, cut_us(day, cluster.zone), (kind,), cluster.training)
    fitted = fit.fitted[kind]
    served_by = fitted.rule.kind
    scorer = Scorer(fitted.rule, make_card(cluster, matrix, fit, served_by))
    folder = model_folder(settings, cluster, day, served_by)
    save_scorer(scorer, folder)
    if served_by != kind and (left := model_folder(settings, cluster, day, kind)).exists():
        shutil.rmtree(left)
    return TrainReport(
        cluster=cluster.name,
        day=day.isoformat(),
        kind=kind,
        served_by=served_by,
        fallback_reason=fitted.fallback_reason,
        failure=fitted.failure,
        jobs=len(fit.rows),
        censored_jobs=int(scorer.card.training["censored_jobs"]),
        features=len(scorer.columns),
        feature_version=scorer.card.feature_version,
        data_fingerprint=str(scorer.card.training["data_fingerprint"]),
        path=str(folder),
        model_sha256=folder_sha256(folder),
    )


def read_night(cluster: Cluster, settings: Settings, day: dt.date) -> Matrix:
    """Return the features of a night; the memory that reading took is given back, 0.9 GiB of 1.6 for 580,000 jobs."""
    matrix = read_matrix(cluster, settings, day)
    pa.default_memory_pool().release_unused()
    return matrix


def model_folder(settings: Settings, cluster: Cluster, day: dt.date, kind: str) -> Path:
    return settings.models / cluster.name / day.isoformat() / kind


def make_card(cluster: Cluster, matrix: Matrix, fit: Fit, kind: str) -> ModelCard:
    """Return where the model came from; nothing in it depends on the machine or the hour."""
    learned = matrix.ended.take(fit.rows)
    is_baseline = find_kind(kind).is_baseline
    return ModelCard(
        cluster=cluster.name,
        feature_version=feature_version(),
        encoder={} if is_baseline or fit.encoder is None else json.loads(fit.encoder.to_json()),
        parameters=find_kind(kind).parameters(cluster.training),
        training={
            "cut": iso(fit.cut_us),
            "cut_us": fit.cut_us,
            "window_days": cluster.training.window_days,
            "jobs": len(fit.rows),
            "censored_jobs": int((learned.label == "censored").sum()),
            "first_submit": iso(int(matrix.submit_us[fit.rows].min())),
            "first_end": iso(int(learned.end_us.min())),
            "last_end": iso(int(learned.end_us.max())),
            "data_fingerprint": fingerprint(matrix),
        },
        libraries={name: version(name) for name in _LIBRARIES},
    )


def fingerprint(matrix: Matrix) -> str:
    """Return the SHA-256 of what training and evaluation see of the jobs: keys, submissions, ends, runtimes, states."""
    whole = hashlib.sha256(feature_version().encode())
    for texts in (matrix.job_key, matrix.ended.state, matrix.ended.label):
        whole.update("\n".join(map(str, texts)).encode() + b"\0")
    for numbers in (matrix.submit_us, matrix.ended.end_us, matrix.ended.runtime_s):
        whole.update(np.ascontiguousarray(numbers).tobytes())
    return whole.hexdigest()


def folder_sha256(folder: Path) -> str:
    """Return the SHA-256 over names and contents of all files below `folder`, in name order."""
    whole = hashlib.sha256()
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        whole.update(path.relative_to(folder).as_posix().encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def iso(time_us: int) -> str:
    """Return a moment as ISO 8601 in UTC, to the second."""
    return dt.datetime.fromtimestamp(time_us / 1e6, dt.UTC).isoformat(timespec="seconds")
