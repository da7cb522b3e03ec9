"""A tracking store that is locked or down: nights keep what they made, the old champion serves, and the next night logs them first."""

import datetime as dt
import json
import shutil
import sqlite3
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import OperationalError

from runcast.data.cluster import Cluster
from runcast.data.errors import MayPass
from runcast.data.job import load
from runcast.data.lake import Lake
from runcast.data.settings import Settings, read_settings
from runcast.data.sources.batch import Batch
from runcast.evaluation.job import evaluate
from runcast.features.job import build_features
from runcast.registry import job as registry
from runcast.registry import models
from runcast.registry import store as stores
from runcast.registry.errors import StoreUnavailable
from runcast.registry.store import open_store, told_when_unavailable
from runcast.scheduler.bundle import read_manifest, resolve
from runcast.training.job import train

NIGHTS = [dt.date(2026, 3, day) for day in (29, 30, 31)]
NOW = dt.datetime(2026, 4, 1, 2, tzinfo=dt.UTC)
NOBODY_THERE = "http://127.0.0.1:9"


def judged(cluster: Cluster, settings: Settings, night: dt.date, jobs: pa.Table) -> None:
    """The stages before the registry's, for the kind that trains fastest."""
    load(cluster, Lake(settings.lake), [Batch(jobs)], last=night)
    build_features(cluster, settings, night)
    train(cluster, settings, night, "cart")
    evaluate(
        cluster, settings, night, champions=registry.champions_before(cluster, settings, night), kinds=("nearest_median", "cart")
    )


def with_gates(cluster: Cluster, *gates: object) -> Cluster:
    return cluster.model_copy(update={"evaluation": cluster.evaluation.model_copy(update={"gates": gates})})


@pytest.mark.parametrize("lost_at", ["register", "promote"])
def test_nights_without_a_store_are_logged_by_the_next_in_order_and_once(
    lost_at: str,
    made_up_cluster: Cluster,
    made_up_jobs: pa.Table,
    empty_database: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The 29th as always, the 30th with nobody at the store's address from a stage on, the 31st as always but its model fails its gate."""
    shutil.copy(empty_database, tmp_path)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    settings = read_settings({"RUNCAST_HOME": str(tmp_path)})
    down = read_settings({"RUNCAST_HOME": str(tmp_path), "MLFLOW_TRACKING_URI": NOBODY_THERE})
    lenient = with_gates(made_up_cluster)
    strict = with_gates(made_up_cluster, made_up_cluster.evaluation.gates[0].model_copy(update={"at_most": 1.0}))
    served = settings.bundles / "demo"

    judged(lenient, settings, NIGHTS[0], made_up_jobs)
    for stage in (registry.register, registry.export):
        stage(lenient, settings, NIGHTS[0], NOW)
        registry.promote(lenient, settings, NIGHTS[0])
    registry.export(lenient, settings, NIGHTS[0], NOW)
    before = resolve(served)
    assert read_manifest(before).registered == "runcast-demo-cart/1"

    judged(lenient, down, NIGHTS[1], made_up_jobs)
    assert "compared with the champion that serves only: cart" in caplog.text
    assert registry.champions_before(lenient, down, NIGHTS[0]) == {}, "what serves is that night's own"
    lost = partial(registry.register, now=NOW) if lost_at == "register" else registry.promote
    if lost_at == "promote":
        registry.register(lenient, settings, NIGHTS[1], NOW)
    with pytest.raises(
        StoreUnavailable, match=r"127\.0\.0\.1:9: does not answer .*What the night made is kept, and the bundle serves on"
    ) as told:
        lost(lenient, down, NIGHTS[1])
    assert isinstance(told.value, MayPass)
    assert registry.unlogged_nights(lenient, settings) == ["2026-03-30"]
    assert resolve(served) == before

    judged(strict, settings, NIGHTS[2], made_up_jobs)
    done = registry.register(strict, settings, NIGHTS[2], NOW + dt.timedelta(days=1))
    assert (done["caught_up"], done["versions"]) == ({"2026-03-30": "logged: cart 2"}, {"cart": "3"})
    assert registry.register(strict, settings, NIGHTS[2], NOW + dt.timedelta(days=1)) == {**done, "caught_up": {}}
    assert registry.unlogged_nights(strict, settings) == ["2026-03-31"], "until its verdicts are told as well"
    assert list(registry.promote(strict, settings, NIGHTS[2])["kept"]) == ["cart"]
    assert registry.unlogged_nights(strict, settings) == []
    exported = registry.export(strict, settings, NIGHTS[2], NOW + dt.timedelta(days=1))
    assert exported["registered"] == "runcast-demo-cart/2", "the night that had to wait has passed: its model is the champion"

    client = open_store(settings).client
    runs = client.search_runs([client.get_experiment_by_name("runcast-demo").experiment_id])
    assert sorted((run.info.run_name, run.info.status) for run in runs) == [
        (f"{night} cart", "FINISHED") for night in ("2026-03-29", "2026-03-30", "2026-03-31")
    ]


def test_a_night_that_cannot_be_caught_up_with_is_told_and_keeps_no_other_back(
    made_up_cluster: Cluster, made_up_jobs: pa.Table, empty_database: Path, tmp_path: Path
) -> None:
    shutil.copy(empty_database, tmp_path)
    settings = read_settings({"RUNCAST_HOME": str(tmp_path)})
    lost = settings.models / "demo" / "2026-03-29" / ".unlogged"
    lost.parent.mkdir(parents=True)
    lost.touch()
    judged(made_up_cluster, settings, NIGHTS[2], made_up_jobs)
    done = registry.register(made_up_cluster, settings, NIGHTS[2], NOW)
    assert done["versions"] == {"cart": "1"}
    assert done["caught_up"]["2026-03-29"].startswith("not logged: no report at ")
    registry.promote(made_up_cluster, settings, NIGHTS[2])
    assert registry.unlogged_nights(made_up_cluster, settings) == ["2026-03-29"]


def test_days_of_live_accuracy_without_a_store_are_logged_by_the_next_in_order_and_once(
    made_up_cluster: Cluster, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The 9th and 10th find nobody at the store's address, and the record of the 10th is damaged since."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    down = read_settings({"RUNCAST_HOME": str(settings.home), "MLFLOW_TRACKING_URI": NOBODY_THERE})
    counts = dict.fromkeys(("jobs", "answered", "unanswered", "late", "before_log", "unanswered_share"), 1)

    def log(day: int, of: Settings) -> dict[str, Any]:
        document = {**counts, "day": f"2026-01-{day:02}", "served": {"rejected": 0}, "all": {"error_factor": float(day)}}
        record = tmp_path / f"{document['day']}.json"
        record.write_text(json.dumps(document))
        return registry.log_live(made_up_cluster, of, document, record, NOW)

    for day in (9, 10):
        with pytest.raises(StoreUnavailable):
            log(day, down)
    (tmp_path / "2026-01-10.json").write_text("{")
    done = log(11, settings)
    assert done["caught_up"]["2026-01-09"] == "logged"
    assert done["caught_up"]["2026-01-10"].startswith("not logged: ")
    assert log(11, settings)["caught_up"] == {}
    points = open_store(settings).client.get_metric_history(done["run"], "live/error_factor")
    assert [(one.step, one.value) for one in points] == [(20462, 9.0), (20464, 11.0)]  # days after 1970
    assert not list(tmp_path.glob("*.unlogged"))


def test_replays_without_a_store_are_logged_by_the_next(
    made_up_cluster: Cluster, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    down = read_settings({"RUNCAST_HOME": str(settings.home), "MLFLOW_TRACKING_URI": NOBODY_THERE})
    empty: dict[str, Any] = {
        "jobs": 0,
        "drift": [],
        "predictors": {},
        "verdicts": {},
        "coverage": {},
        "notes": [],
        "command": "runcast weekly",
    }

    def log(day: int, of: Settings) -> dict[str, Any]:
        document = {**empty, "day": f"2026-01-{day:02}", "data": {"fingerprint": f"{day:064x}"}}
        report = tmp_path / str(document["day"])
        report.mkdir(exist_ok=True)
        (report / "report.json").write_text(json.dumps(document))
        return registry.log_replay(made_up_cluster, of, document, report, NOW)

    for day in (3, 10):
        with pytest.raises(StoreUnavailable):
            log(day, down)
    (tmp_path / "2026-01-10" / "report.json").unlink()
    done = log(17, settings)
    assert done["caught_up"]["2026-01-03"] == "logged"
    assert done["caught_up"]["2026-01-10"].startswith("not logged: no report at ")
    assert log(17, settings)["caught_up"] == {}
    client = open_store(settings).client
    runs = client.search_runs([client.get_experiment_by_name("runcast-demo").experiment_id])
    assert sorted(str(run.info.run_name) for run in runs) == ["2026-01-03 replay", "2026-01-17 replay"]


def test_a_night_killed_before_its_alias_moved_is_the_challenger_after_the_rerun(
    made_up_cluster: Cluster, made_up_jobs: pa.Table, empty_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(empty_database, tmp_path)
    settings = read_settings({"RUNCAST_HOME": str(tmp_path)})
    judged(made_up_cluster, settings, NIGHTS[2], made_up_jobs)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as once:
        once.setattr(models, "name_challenger", killed)
        with pytest.raises(KeyboardInterrupt):
            registry.register(made_up_cluster, settings, NIGHTS[2], NOW)
    assert registry.register(made_up_cluster, settings, NIGHTS[2], NOW)["versions"] == {"cart": "1"}
    assert open_store(settings).client.get_registered_model("runcast-demo-cart").aliases == {"challenger": 1}


def test_a_database_that_another_process_writes_is_waited_for(settings: Settings) -> None:
    store = open_store(settings)
    writer = sqlite3.connect(settings.home / "mlflow.db", isolation_level=None, check_same_thread=False)
    writer.execute("BEGIN IMMEDIATE")
    release = threading.Timer(1.0, lambda: (writer.execute("COMMIT"), writer.close()))
    release.start()
    assert store.experiment_id("venus")
    release.join()


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (MlflowException("(sqlite3.OperationalError) database is locked"), "stays locked by another process"),
        (sqlite3.OperationalError("database or disk is full"), "its disk is full"),
        (sqlite3.OperationalError("attempt to write a readonly database"), "cannot be written"),
        (sqlite3.OperationalError("disk I/O error"), "its disk refuses"),
        (OperationalError("select 1", {}, Exception("connection to server at 10.0.0.1 failed")), "does not answer"),
        (MlflowException("API request to http://h/api failed with exception HTTPConnectionPool"), "does not answer"),
        (MlflowException("API request to endpoint /api failed with error code 503 != 200"), "does not answer as it should"),
    ],
    ids=["locked", "full", "read-only", "input and output", "PostgreSQL", "refused", "unavailable"],
)
def test_what_may_pass_is_told_in_one_way_and_without_the_password(error: Exception, why: str) -> None:
    with pytest.raises(StoreUnavailable, match=why) as told, told_when_unavailable("postgresql://ada:secret@h/mlflow"):
        raise error
    assert "secret" not in str(told.value)
    assert "what a night could not tell it the next night does" in str(told.value)


def test_what_does_not_pass_stays_what_it_is() -> None:
    with pytest.raises(MlflowException, match="no such column"), told_when_unavailable("sqlite:///a.db"):
        raise MlflowException("no such column")
    assert stores.LOCK_TRIES > 1
