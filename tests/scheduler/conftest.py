"""Models of the made-up cluster, trained by the training stage, and bundles of them."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster
from runcast.features.catalog import feature_version
from runcast.features.encoder import Encoder
from runcast.features.table import build
from runcast.scheduler.export import history, pack
from runcast.training.fitting import fit_at
from runcast.training.scoring import ModelCard, Scorer, save_scorer

sys.path.insert(0, str(Path(__file__).parent))  # running.py, also for the attacks

CUT = datetime(2026, 3, 31, 22, tzinfo=UTC)  # midnight in Berlin
CREATED = datetime(2026, 4, 1, 2, tzinfo=UTC)
KINDS = ("cart", "gbdt", "runcast", "nearest_median")


@pytest.fixture(scope="session")
def now() -> datetime:
    """An hour after the bundles were written."""
    return CREATED + timedelta(hours=1)


@pytest.fixture(scope="session")
def cluster(made_up_cluster: Cluster) -> Cluster:
    return made_up_cluster


@pytest.fixture(scope="session")
def jobs(made_up_jobs: pa.Table) -> pa.Table:
    return made_up_jobs


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
