"""A small made-up cluster, its models trained by the training stage, and bundles of them."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster
from runcast.data.schema import JOBS
from runcast.features.catalog import feature_version
from runcast.features.encoder import Encoder
from runcast.features.table import build
from runcast.scheduler.export import history, pack
from runcast.training.fitting import fit_at
from runcast.training.scoring import ModelCard, Scorer, save_scorer

CUT = datetime(2026, 3, 31, 22, tzinfo=UTC)  # midnight in Berlin
CREATED = datetime(2026, 4, 1, 2, tzinfo=UTC)
KINDS = ("cart", "gbdt", "nearest_median")


@pytest.fixture(scope="session")
def now() -> datetime:
    """An hour after the bundles were written."""
    return CREATED + timedelta(hours=1)


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    source = {"format": "table", "paths": ["unused"]}
    training = {"min_jobs": 200, "gbdt": {"trees": 40, "leaves": 15}}
    return Cluster.model_validate(
        {"name": "demo", "source": source, "time_zone": "Europe/Berlin", "gpus_tracked": True, "training": training}
    )


@pytest.fixture(scope="session")
def jobs() -> pa.Table:
    """3,000 jobs of 30 days as they stood at the cut: users with habits, some without a name, some never started, some running."""
    draw = np.random.default_rng(7)
    n, begin = 3000, CUT - timedelta(days=30)
    user, name = draw.integers(0, 25, n), draw.integers(0, 4, n)
    habit_s = np.exp(draw.normal(6.5, 1.8, (25, 4)))[user, name]
    submit = np.sort(draw.integers(0, 30 * 86_400 * 10**6, n))
    start = submit + draw.integers(0, 7200 * 10**6, n)
    end = start + (np.maximum(habit_s * np.exp(draw.normal(0, 0.3, n)), 1) * 1e6).astype(np.int64)
    never = draw.random(n) < 0.03
    gpus = 2.0 ** draw.integers(0, 4, n)
    cut_us = 30 * 86_400 * 10**6
    ran = ~never & (start < cut_us)
    ended = ran & (end < cut_us)
    gone = never & (start < cut_us)
    state = np.where(ended, draw.choice(["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"], n, p=[0.8, 0.1, 0.05, 0.05]), "RUNNING")
    state = np.where(gone, "CANCELLED", np.where(ran, state, "PENDING"))
    label = np.where(ran & ~np.isin(state, ["COMPLETED", "FAILED"]), "censored", np.where(ran, "event", "excluded"))
    missing = draw.random(n) < 0.05
    limit_s = np.where(draw.random(n) < 0.1, np.nan, draw.choice([3600.0, 14_400.0, 86_400.0], n))

    begin_us = round(begin.timestamp() * 1e6)

    def moment(us: np.ndarray, known: np.ndarray) -> pa.Array:
        return pa.array(begin_us + us, mask=~known).cast(pa.timestamp("us", tz="UTC"))

    def text(values: list[str], unknown: np.ndarray | None = None) -> pa.Array:
        return pa.array(values, pa.string(), mask=unknown)

    columns: dict[str, Any] = {
        "cluster": text(["demo"] * n),
        "job_id": text([str(i) for i in range(n)]),
        "job_key": text([f"demo:{i}:{begin_us + at}" for i, at in enumerate(submit)]),
        "user": text([f"u{u}" for u in user], missing),
        "group": text([f"g{u % 5}" for u in user]),
        "queue": text(["gpu"] * n),
        "job_name": text([f"train_{m}_{i % 7}.sh" for i, m in enumerate(name)]),
        "submit_time": moment(submit, np.ones(n, bool)),
        "gpu_count": pa.array(gpus),
        "cpu_count": pa.array(gpus * 8),
        "mem_mib": pa.array(gpus * 65_536),
        "node_count": pa.array(np.ceil(gpus / 8)),
        "time_limit_s": pa.array(limit_s, mask=np.isnan(limit_s)),
        "time_limit_kind": text(np.where(np.isnan(limit_s), "absent", "hard").tolist()),
        "start_time": moment(start, ran),
        "end_time": moment(np.where(gone, start, end), ended | gone),
        "state": text(state.tolist()),
        "label": text(label.tolist()),
        "runtime_s": pa.array((end - start) / 1e6, mask=~ended),
        "attempts": pa.array(ran.astype(np.int32)),
        "source": text(["made up"] * n),
        "flags": pa.array([[]] * n, pa.list_(pa.string())),
    }
    return pa.table({field.name: columns.get(field.name, pa.nulls(n, field.type)) for field in JOBS}, schema=JOBS)


@pytest.fixture(scope="session")
def models(jobs: pa.Table, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Model folders by kind, as the training stage writes them."""
    root = tmp_path_factory.mktemp("models")
    matrix = build(jobs.to_pandas(), cluster.clock, cluster.time_zone)
    fit = fit_at(matrix, round(CUT.timestamp() * 1e6), KINDS, cluster.training)
    for kind, fitted in fit.fitted.items():
        assert fitted.fallback_reason is None
        assert isinstance(fit.encoder, Encoder)
        encoder = {} if kind == "nearest_median" else json.loads(fit.encoder.to_json())
        save_scorer(Scorer(fitted.rule, ModelCard("demo", feature_version(), encoder, {}, {}, {})), root / kind)
    return {kind: root / kind for kind in KINDS}


@pytest.fixture(scope="session")
def make_bundle(jobs: pa.Table, cluster: Cluster, models: dict[str, Path]) -> Callable[..., Path]:
    """Write a bundle of one kind below a folder; more arguments replace those of pack."""
    state = history(jobs, cluster.clock, cluster.time_zone, CUT)

    def make(root: Path, kind: str = "gbdt", **changed: Any) -> Path:
        given = {
            "cluster": cluster,
            "model": models[kind],
            "state": state,
            "model_version": f"{kind}-2026-03-31-0123abcd",
            "registered": f"runcast-demo-{kind}/1",
            "cut": CUT,
            "created": CREATED,
        }
        return pack(root, **{**given, **changed})

    return make
