"""The monthly upkeep below a home: which folders of past nights go, and which an alias or the serving bundle keeps."""

import datetime as dt
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from runcast.data.cluster import Cluster
from runcast.data.settings import Settings
from runcast.evaluation.gates import GateReport
from runcast.registry.models import ModelVersion, approve, name_champion
from runcast.registry.runs import Night, log_replay
from runcast.registry.store import Store
from runcast.registry.upkeep import prune
from runcast.scheduler.bundle import FORMAT_VERSION, Manifest, make_current, write_bundle

TODAY = dt.date(2020, 10, 20)
NOW = dt.datetime(2020, 10, 20, 5, tzinfo=dt.UTC)
NIGHTS = [f"2020-09-{day}" for day in range(20, 26)]
LONG_AGO = dt.datetime(2020, 9, 30, tzinfo=dt.UTC).timestamp()


@pytest.fixture
def cluster(made_up_cluster: Cluster) -> Cluster:
    """Everything older than a day may go; one version for a rollback, one bundle beside the current."""
    keep = made_up_cluster.retention.model_copy(
        update={"versions_days": 1, "models_days": 1, "reports_days": 1, "rollbacks": 1, "bundles": 1}
    )
    return made_up_cluster.model_copy(update={"name": "venus", "retention": keep})


@pytest.fixture
def home(
    settings: Settings,
    store: Store,
    night: Callable[..., Night],
    register_night: Callable[[Night], ModelVersion],
    make_report: Callable[..., GateReport],
) -> Settings:
    """Six old nights: 23 is champion, 25 challenger, and the bundle of 21 serves as of the 22nd; folders last written long ago."""
    made = [register_night(night(day)) for day in range(20, 26)]
    for at in (1, 3):
        approve(store, made[at], make_report(made[at]))
        name_champion(store, made[at].name, made[at].version)
    for day in NIGHTS:
        for part in ("models/venus/{}/gbdt/model.json", "report/venus/{}/report.json", "nights/venus/{}/ingest.json",
                     "replay/venus/{}/report.html", "live/venus/{}.json", "live/venus/{}.parquet"):  # fmt: skip
            touch(settings.home / part.format(day))
    for sha in (made[0].model_sha256, made[3].model_sha256):
        touch(settings.models / "venus" / "registered" / sha[:16] / "model.json")
    touch(settings.home / "lake" / "jobs" / "cluster=venus" / "end_date=2020-09-20" / "part.parquet")
    for hour in range(5):
        write(settings, made[1], hour)
    make_current(settings.bundles / "venus", write(settings, made[1], 1).name, keep=9)
    return settings


def touch(path: Path, at: float = LONG_AGO) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    for one in (path, path.parent, path.parent.parent):
        os.utime(one, (at, at))


def write(settings: Settings, version: ModelVersion, hour: int) -> Path:
    content = settings.home / "content"
    content.mkdir(exist_ok=True)
    manifest = Manifest(
        FORMAT_VERSION, "venus", "gbdt", version.model_version, version.label, "features-1", "2020-09-22T22:00:00Z",
        f"2020-09-23T0{hour}:00:00Z", "2020-09-30T00:00:00Z", "calendar", "Europe/Berlin", "hard", True, (),
    )  # fmt: skip
    return write_bundle(settings.bundles / "venus", content, manifest)


def left(paths: Iterable[Path]) -> list[str]:
    return sorted(path.name for path in paths)


def test_old_nights_go_but_what_aliases_and_the_bundle_name(home: Settings, cluster: Cluster) -> None:
    record = prune(cluster, home, TODAY, NOW)
    assert set(record["versions"]) == {f"runcast-venus-gbdt/{n}" for n in (1, 3, 5)}
    assert set(record["kept"]) == {f"runcast-venus-gbdt/{n}" for n in (2, 4, 6)}, "served, champion, challenger"
    assert left(p for p in (home.models / "venus").iterdir() if p.name != "registered") == ["2020-09-23", "2020-09-25"]
    assert left((home.models / "venus" / "registered").iterdir()) == [f"{123:064x}"[:16]], "the copy of the champion"
    for folder in ("report", "nights", "replay"):  # the history that serves is that of the 22nd
        assert left((home.home / folder / "venus").iterdir()) == ["2020-09-22", "2020-09-23", "2020-09-25"], folder
    assert left((home.home / "live" / "venus").glob("*.json")) == ["2020-09-22.json", "2020-09-23.json", "2020-09-25.json"]
    assert left(p for p in (home.bundles / "venus").iterdir() if not p.name.startswith(".")) == [
        "20200923T010000Z-gbdt-2020-09-21-" + f"{121:064x}"[:8], "20200923T040000Z-gbdt-2020-09-21-" + f"{121:064x}"[:8], "current",
    ]  # fmt: skip
    assert list((home.home / "lake").rglob("part.parquet")), "jobs are never deleted"
    assert record["bytes"] > 0


def test_a_second_time_nothing_is_left_to_do(home: Settings, cluster: Cluster) -> None:
    prune(cluster, home, TODAY, NOW)
    again = prune(cluster, home, TODAY, NOW)
    assert (again["versions"], again["runs"], again["folders"], again["bytes"]) == ([], 0, [], 0)


def test_a_dry_run_says_the_same_and_deletes_nothing(home: Settings, cluster: Cluster) -> None:
    before = sorted(home.home.rglob("*"))
    dry = prune(cluster, home, TODAY, NOW, is_dry=True)
    assert [path for path in sorted(home.home.rglob("*")) if not {"locks", "begun"} & {*path.parts}] == before
    assert prune(cluster, home, TODAY, NOW) == {**dry, "is_dry": False}


def test_what_was_written_within_the_day_is_somebodys_who_catches_up(home: Settings, cluster: Cluster) -> None:
    touch(home.models / "venus" / "2020-09-20" / "gbdt" / "model.json", NOW.timestamp() - 3600)
    assert "models/venus/2020-09-20" not in prune(cluster, home, TODAY, NOW)["folders"]


def test_a_night_that_the_registry_has_not_been_told_of_keeps_its_models(home: Settings, cluster: Cluster) -> None:
    touch(home.models / "venus" / "2020-09-20" / ".unlogged")
    assert "models/venus/2020-09-20" not in prune(cluster, home, TODAY, NOW)["folders"]


def test_the_defaults_keep_a_quarter(home: Settings, made_up_cluster: Cluster) -> None:
    """25 days after the last night trained models (14 days) go, and the oldest of four other bundles; other limits are longer."""
    record = prune(made_up_cluster.model_copy(update={"name": "venus"}), home, TODAY, NOW)
    assert (record["versions"], record["runs"]) == ([], 0)
    assert {folder.split("/")[0] for folder in record["folders"]} == {"models", "bundles"}


def test_replays_go_with_their_runs(home: Settings, cluster: Cluster, store: Store) -> None:
    report = home.home / "replay" / "venus" / "2020-09-20"
    run_id = log_replay(store, "venus", "2020-09-20", "data", metrics={}, tags={}, note="", report=report, cut=NOW, logged_at=NOW)
    assert prune(cluster, home, TODAY, NOW)["runs"] == 4, "three nights and the replay"
    assert store.client.get_run(run_id).info.lifecycle_stage == "deleted"
