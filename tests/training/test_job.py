import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster
from runcast.data.job import load
from runcast.data.lake import Lake
from runcast.data.schema import JOBS
from runcast.data.settings import Settings, read_settings
from runcast.data.sources.batch import Batch
from runcast.features.catalog import feature_version
from runcast.features.errors import FeaturesStale
from runcast.features.job import build_features, read_matrix
from runcast.training.errors import NotEnoughJobs, UnknownKind
from runcast.training.fitting import answer, fit_at, score_matrix
from runcast.training.job import fingerprint, folder_sha256, train
from runcast.training.scoring import load_scorer

CLUSTER = Cluster.model_validate(
    {
        "name": "made_up",
        "source": {"format": "table", "paths": ["unused"]},
        "time_zone": "UTC",
        "training": {"min_jobs": 300, "gbdt": {"trees": 10, "leaves": 7}},
    }
)
DAY = dt.date(2024, 2, 9)


def jobs(count: int = 800, days: int = 40) -> pd.DataFrame:
    """Jobs of five users over `days` from 2024-01-01, each with a runtime of its own; a tenth timed out."""
    rng = np.random.default_rng(6)
    submit = pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(
        np.sort(rng.integers(0, days * 86_400 - 9_000, count)), unit="s"
    )
    user = rng.integers(0, 5, count)
    runtime_s = np.round(60 * 3.0**user * np.exp(rng.normal(0, 0.2, count))) / 4 + 1
    state = rng.choice(["COMPLETED", "TIMEOUT"], count, p=[0.9, 0.1])
    table = pd.DataFrame(index=range(count), columns=JOBS.names)
    given = {
        "cluster": "made_up", "job_id": [str(one) for one in range(count)], "job_key": [f"made_up:{one}" for one in range(count)],
        "user": [f"u{one}" for one in user], "submit_time": submit, "start_time": submit + pd.Timedelta(seconds=60),
        "end_time": submit + pd.Timedelta(seconds=60) + pd.to_timedelta(runtime_s, unit="s"), "time_limit_s": 1800.0,
        "time_limit_kind": "hard", "state": state, "label": np.where(state == "TIMEOUT", "censored", "event"),
        "runtime_s": runtime_s, "queue_s": 60.0, "attempts": 1, "source": "made_up:1", "flags": [[] for _ in range(count)],
    }  # fmt: skip
    return table.assign(**given)


def to_arrow(table: pd.DataFrame) -> pa.Table:
    def plain(column: pd.Series) -> list[object]:
        return [None if missing else value for value, missing in zip(column, column.isna(), strict=True)]

    return pa.table({name: pa.array(plain(table[name]), JOBS.field(name).type) for name in JOBS.names}, schema=JOBS)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings({"RUNCAST_HOME": str(tmp_path)})


@pytest.fixture
def prepare(settings: Settings) -> Callable[..., Settings]:
    """Load jobs into a lake and build the features of a day."""

    def make(table: pd.DataFrame, day: dt.date = DAY, cluster: Cluster = CLUSTER) -> Settings:
        load(cluster, Lake(settings.lake), [Batch(to_arrow(table))])
        build_features(cluster, settings, day)
        return settings

    return make


@pytest.mark.parametrize("kind", ["nearest_median", "cart", "gbdt"])
def test_model_folder_answers_as_the_fit_it_was_made_from(kind: str, prepare: Callable) -> None:
    settings = prepare(jobs())
    report = train(CLUSTER, settings, DAY, kind)
    assert (report.served_by, report.fallback_reason) == (kind, None)
    assert report.path.endswith(f"models/made_up/2024-02-09/{kind}")
    matrix = read_matrix(CLUSTER, settings, DAY)
    cut_us = int(pd.Timestamp("2024-02-10", tz="UTC").timestamp() * 1e6)
    expected = answer(fit_at(matrix, cut_us, (kind,), CLUSTER.training), matrix)[kind]
    found = score_matrix(load_scorer(Path(report.path), feature_version()), matrix)
    for name in ("p50_s", "p90_s", "confidence"):
        assert (getattr(found, name) == getattr(expected, name)).all()


def test_card_says_what_was_learned_from(prepare: Callable) -> None:
    settings = prepare(jobs())
    report = train(CLUSTER, settings, DAY, "gbdt")
    card = load_scorer(Path(report.path)).card
    table = jobs()
    known = table[table["end_time"] < pd.Timestamp("2024-02-10", tz="UTC")]
    assert report.jobs == card.training["jobs"] == len(known) == 800
    assert report.censored_jobs == (known["state"] == "TIMEOUT").sum() > 50
    assert card.training["cut"] == "2024-02-10T00:00:00+00:00"
    assert card.feature_version == report.feature_version == feature_version()
    assert card.parameters["trees"] == 10
    assert card.parameters["latest_jobs"] == 200_000
    assert card.encoder["vocabularies"]["user"] == ["u0", "u1", "u2", "u3", "u4"] or set(card.encoder["vocabularies"]["user"]) == {
        "u0", "u1", "u2", "u3", "u4",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["cart", "gbdt"])
def test_training_twice_gives_the_same_bytes(kind: str, prepare: Callable) -> None:
    settings = prepare(jobs())
    assert train(CLUSTER, settings, DAY, kind) == train(CLUSTER, settings, DAY, kind)


def test_small_cluster_is_served_by_the_baseline_with_the_reason(prepare: Callable) -> None:
    settings = prepare(jobs(count=200))
    report = train(CLUSTER, settings, DAY, "cart")
    assert report.served_by == "nearest_median"
    assert report.fallback_reason == (
        "200 ended jobs to learn from, cart needs 300 (training.min_jobs); nearest_median serves instead"
    )
    folder = settings.models / "made_up" / "2024-02-09"
    assert [path.name for path in sorted(folder.iterdir())] == ["nearest_median"]


def test_baseline_in_its_place_leaves_no_older_model_behind(prepare: Callable) -> None:
    settings = prepare(jobs())
    train(CLUSTER, settings, DAY, "cart")
    cautious = CLUSTER.model_copy(update={"training": CLUSTER.training.model_copy(update={"min_jobs": 10_000})})
    train(cautious, settings, DAY, "cart")
    assert not (settings.models / "made_up" / "2024-02-09" / "cart").exists()


def test_night_in_the_past_learns_nothing_of_later_days(prepare: Callable) -> None:
    day = dt.date(2024, 1, 25)
    settings = prepare(jobs(), day)
    late = train(CLUSTER, settings, day, "cart")
    table = jobs()
    only_then = table[table["end_time"] < pd.Timestamp("2024-01-26", tz="UTC")]
    assert late.jobs == len(only_then) < 800
    kept = load_scorer(Path(late.path)).rule.content()
    prepare(only_then, day)
    again = train(CLUSTER, settings, day, "cart")
    assert load_scorer(Path(again.path)).rule.content() == kept


def test_window_leaves_out_what_ended_earlier(prepare: Callable) -> None:
    settings = prepare(jobs())
    windowed = CLUSTER.model_copy(update={"training": CLUSTER.training.model_copy(update={"window_days": 20.0})})
    table = jobs()
    expected = (table["end_time"] >= pd.Timestamp("2024-01-21", tz="UTC")).sum()
    assert train(windowed, settings, DAY, "cart").jobs == expected < 800


def test_the_last_days_submissions_are_held_back_where_asked(prepare: Callable) -> None:
    day, table = dt.date(2024, 1, 25), jobs()
    settings = prepare(table, day)
    held = CLUSTER.model_copy(update={"training": CLUSTER.training.model_copy(update={"held_back_share": 1.0})})
    cut = pd.Timestamp("2024-01-26", tz="UTC")
    ended = table[table["end_time"] < cut]
    longest = (ended["end_time"] - ended["submit_time"]).max()
    expected = (ended["submit_time"] < cut - longest).sum()
    assert train(held, settings, day, "cart").jobs == expected < len(ended)


def test_features_of_another_day_are_refused(prepare: Callable) -> None:
    settings = prepare(jobs())
    with pytest.raises(FeaturesStale, match="2024-01-20"):
        train(CLUSTER, settings, dt.date(2024, 1, 20), "cart")


def test_nothing_ended_is_an_error(prepare: Callable) -> None:
    table = jobs(count=20).assign(end_time=pd.NaT, start_time=pd.NaT, runtime_s=np.nan, state="PENDING", label="excluded")
    table["end_time"] = pd.to_datetime(table["end_time"], utc=True)
    table["start_time"] = pd.to_datetime(table["start_time"], utc=True)
    settings = prepare(table)
    with pytest.raises(NotEnoughJobs, match="no job had ended before the first test job"):
        train(CLUSTER, settings, DAY, "cart")


def test_unknown_kind_is_refused_before_anything_is_read(settings: Settings) -> None:
    with pytest.raises(UnknownKind, match="no predictor 'forest'"):
        train(CLUSTER, settings, DAY, "forest")


def test_report_is_small_json(prepare: Callable) -> None:
    report = train(CLUSTER, prepare(jobs()), DAY, "gbdt")
    assert len(json.dumps(report.to_json())) < 10_000


def test_fingerprint_changes_with_any_outcome(prepare: Callable) -> None:
    matrix = read_matrix(CLUSTER, prepare(jobs()), DAY)
    before = fingerprint(matrix)
    assert before == fingerprint(matrix)
    changed = jobs()
    changed.loc[5, "runtime_s"] += 1
    assert fingerprint(read_matrix(CLUSTER, prepare(changed), DAY)) != before


def test_folder_hash_is_over_names_and_contents(tmp_path: Path) -> None:
    def folder(name: str, **files: str) -> Path:
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(text)
        return tmp_path / name

    one, same = folder("one", a="x", b="y"), folder("same", b="y", a="x")
    assert folder_sha256(one) == folder_sha256(same)
    assert len({folder_sha256(path) for path in (one, folder("swapped", a="y", b="x"), folder("renamed", a="x", c="y"))}) == 3
