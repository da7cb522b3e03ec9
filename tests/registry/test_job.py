"""The registry's and the export's stages of real nights: lake, features, training and evaluation are the real ones."""

import datetime as dt
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster
from runcast.data.job import load as load_log
from runcast.data.lake import Lake
from runcast.data.settings import Settings, read_settings
from runcast.data.sources.batch import Batch
from runcast.evaluation.errors import ReportMissing
from runcast.evaluation.job import evaluate
from runcast.features.job import build_features
from runcast.registry import job as registry
from runcast.registry import moving
from runcast.registry.errors import ClockBehind, NoChampion
from runcast.registry.models import name_champion
from runcast.registry.slug import metric_key
from runcast.registry.store import open_store
from runcast.scheduler.bundle import bundles, make_current, read_manifest, resolve
from runcast.scheduler.predictor import Predictor
from runcast.training.job import train
from runcast.training.kinds import BASELINES

KINDS = ("cart", "gbdt")
NIGHTS = [dt.date(2026, 3, day) for day in (30, 31)]
NOW = dt.datetime(2026, 4, 1, 2, tzinfo=dt.UTC)
ASKED = {
    "submit_time": "2026-04-01T08:00:00+02:00",
    "user": "u3",
    "job_name": "train_1_0.sh",
    "gpu_count": 4.0,
    "cpu_count": 32.0,
}


def run_night(cluster: Cluster, settings: Settings, night: dt.date, jobs: pa.Table) -> dict[str, dict[str, Any]]:
    """Run the stages of one night; the bundle is written an hour later each night."""
    load_log(cluster, Lake(settings.lake), [Batch(jobs)], last=night)
    build_features(cluster, settings, night)
    for kind in KINDS:
        train(cluster, settings, night, kind)
    evaluate(cluster, settings, night, champions=registry.champions_before(cluster, settings, night), kinds=(*BASELINES, *KINDS))
    now = NOW + dt.timedelta(hours=night.day)
    return {
        "register": registry.register(cluster, settings, night, now),
        "promote": registry.promote(cluster, settings, night),
        "export": registry.export(cluster, settings, night, now),
    }


def load(uri: str) -> Any:
    """MLflow's own loader; imported late, since it warns of itself until the registry has imported it."""
    from mlflow.pyfunc import load_model

    return load_model(uri)


@pytest.fixture(scope="module")
def cluster(made_up_cluster: Cluster) -> Cluster:
    """Every model passes: the gates are another test's subject."""
    return made_up_cluster.model_copy(update={"evaluation": made_up_cluster.evaluation.model_copy(update={"gates": ()})})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Settings:
    folder = tmp_path_factory.mktemp("home")
    shutil.copy(empty_database, folder)
    return read_settings({"RUNCAST_HOME": str(folder)})


@pytest.fixture(scope="module")
def nights(cluster: Cluster, home: Settings, made_up_jobs: pa.Table) -> list[dict[str, dict[str, Any]]]:
    return [run_night(cluster, home, night, made_up_jobs) for night in NIGHTS]


def test_each_night_is_one_version_of_each_kind(nights: list[dict[str, dict[str, Any]]]) -> None:
    assert [night["register"]["versions"] for night in nights] == [{"cart": n, "gbdt": n} for n in ("1", "2")]
    assert [set(night["promote"]["champions"]) for night in nights] == [{"cart", "gbdt"}] * 2


def test_records_are_small_json(nights: list[dict[str, dict[str, Any]]]) -> None:
    for night in nights:
        for record in night.values():
            assert len(json.dumps(record)) < 10_000


def test_bundle_is_the_champion_with_the_nights_history(
    nights: list[dict[str, dict[str, Any]]], home: Settings, cluster: Cluster
) -> None:
    done = nights[-1]["export"]
    manifest = read_manifest(resolve(home.bundles / cluster.name))
    assert done["registered"] in {f"runcast-demo-{kind}/2" for kind in ("cart", "gbdt")}
    assert (manifest.registered, manifest.data_cut) == (done["registered"], "2026-03-31T22:00:00Z")
    assert manifest.valid_until == (NOW + dt.timedelta(days=7, hours=31)).isoformat().replace("+00:00", "Z")
    assert len(bundles(home.bundles / cluster.name)) == 2


def test_run_shows_what_a_person_compares(nights: list[dict[str, dict[str, Any]]], home: Settings, cluster: Cluster) -> None:
    client = open_store(home).client
    run = client.get_run(nights[-1]["register"]["runs"]["gbdt"])
    assert {
        "all/mdape",
        "all/within_25",
        "all/error_factor",
        "coverage/0.089",
        "baseline/nearest_median/mdape",
        "best_baseline/error_factor",
        "drift/runtime/runtime_s",
        "drift/feature/gpu_count",
    } <= set(run.data.metrics)
    report = registry.read_report(cluster, home, NIGHTS[-1])
    people = {metric_key(part, "mdape") for part in report["slices"] if part.startswith(("user:", "queue:", "account:"))}
    assert people, "the report has them"
    assert not people & set(run.data.metrics), "they change from night to night; columns in MLflow stay"
    assert run.data.params["trees"] == "40"
    assert run.data.tags["runcast.verdict"] == "passed"
    artifacts = {f.path for f in client.list_artifacts(run.info.run_id, "report")}
    assert {"report/report.html", "report/report.json", "report/figures"} <= artifacts
    card = client.get_model_version("runcast-demo-gbdt", "2").description
    for said in ("night of 2026-03-31", "passed", "ended jobs", "error factor, recurring jobs", "nearest\\_median"):
        assert said in card


def test_a_night_in_the_past_leaves_the_serving_bundle(
    nights: list[dict[str, dict[str, Any]]], cluster: Cluster, home: Settings
) -> None:
    before = resolve(home.bundles / cluster.name)
    done = registry.export(cluster, home, NIGHTS[0], NOW + dt.timedelta(days=3))
    assert resolve(home.bundles / cluster.name) == before
    assert (done["written"], done["bundle"]) == (False, str(before))
    assert read_manifest(before).data_cut == "2026-03-31T22:00:00Z"


@pytest.mark.parametrize("beside", [1, 4])
def test_export_leaves_as_many_bundles_beside_the_current_one_as_the_cluster_file_says(
    nights: list[dict[str, dict[str, Any]]], cluster: Cluster, home: Settings, tmp_path: Path, beside: int
) -> None:
    shutil.copytree(home.home, tmp_path / "home", symlinks=True)
    copy = read_settings({"RUNCAST_HOME": str(tmp_path / "home")})
    one = cluster.model_copy(update={"retention": cluster.retention.model_copy(update={"bundles": beside})})
    for day in range(2, 6):
        registry.export(one, copy, NIGHTS[-1], NOW + dt.timedelta(days=day))
    assert len(bundles(copy.bundles / cluster.name)) == beside + 1


def test_nights_out_of_order_end_with_the_best_champion_serving_also_where_the_latest_night_judged_nothing(
    cluster: Cluster, made_up_jobs: pa.Table, empty_database: Path, tmp_path: Path
) -> None:
    """The night of the 31st finds three jobs; then the 30th is caught up, with all that its log holds."""
    shutil.copy(empty_database, tmp_path)
    settings = read_settings({"RUNCAST_HOME": str(tmp_path)})
    first = run_night(cluster, settings, NIGHTS[-1], made_up_jobs.slice(0, 3))
    assert registry.read_report(cluster, settings, NIGHTS[-1])["jobs"] <= 1
    assert first["export"]["choice"] == "nearest_median serves: no model has passed its gates"
    caught_up = run_night(cluster, settings, NIGHTS[0], made_up_jobs)
    report = registry.read_report(cluster, settings, NIGHTS[0])
    factors = {kind: report["predictors"][kind]["all"]["error_factor"] for kind in KINDS}
    assert set(caught_up["promote"]["champions"]) == set(KINDS)
    best = min(factors, key=lambda kind: factors[kind])
    assert best != KINDS[0], "the first of them would serve without any rule"
    manifest = read_manifest(resolve(settings.bundles / "demo"))
    assert (manifest.kind, manifest.data_cut) == (best, "2026-03-31T22:00:00Z")
    assert caught_up["export"]["choice"] == (
        f"{best} serves: lowest error factor of two champions, ×{factors[best]:.2f}; night of 2026-03-30, the latest that compares them"
    )
    assert registry.export(cluster, settings, NIGHTS[-1], NOW + dt.timedelta(days=2))["kind"] == best, (
        "whichever night exports last"
    )


def test_same_night_again_changes_nothing(nights: list[dict[str, dict[str, Any]]], cluster: Cluster, home: Settings) -> None:
    assert registry.register(cluster, home, NIGHTS[-1], NOW)["versions"] == nights[-1]["register"]["versions"]
    assert registry.promote(cluster, home, NIGHTS[-1])["champions"] == nights[-1]["promote"]["champions"]
    client = open_store(home).client
    experiment = client.get_experiment_by_name("runcast-demo")
    assert len(client.search_runs([experiment.experiment_id])) == 4
    assert len(client.search_logged_models([experiment.experiment_id])) == 4


@pytest.mark.parametrize("night", NIGHTS, ids=["a night before the latest", "the latest night"])
def test_a_night_that_is_judged_again_gets_the_same_report(
    nights: list[dict[str, dict[str, Any]]], cluster: Cluster, home: Settings, tmp_path: Path, night: dt.date
) -> None:
    """Its own models, and those of the night after it, have become champions since; they are not what it was compared with."""
    shutil.copytree(home.home, tmp_path / "home", symlinks=True)
    copy = read_settings({"RUNCAST_HOME": str(tmp_path / "home")})
    first = registry.report_folder(cluster, home, night)
    build_features(cluster, copy, night)
    again = evaluate(
        cluster, copy, night, champions=registry.champions_before(cluster, copy, night), kinds=(*BASELINES, *KINDS)
    ).folder
    assert {path.name: path.read_bytes() for path in again.rglob("*.*")} == {
        path.name: path.read_bytes() for path in first.rglob("*.*")
    }
    compared = json.loads((first / "report.json").read_text())["champion"]
    assert set(compared) == (set() if night == NIGHTS[0] else set(KINDS))


def test_registered_version_answers_as_the_bundle_does(
    nights: list[dict[str, dict[str, Any]]], home: Settings, cluster: Cluster
) -> None:
    """Through MLflow's own loader and its declared signature: nulls, missing columns, other order, an unknown column."""
    open_store(home)
    bundle = resolve(home.bundles / cluster.name)
    name, _, number = str(read_manifest(bundle).registered).partition("/")
    model, predictor = load(f"models:/{name}/{number}"), Predictor.load(bundle, may_be_expired=True)
    asked: list[dict[str, Any]] = [
        ASKED,
        {"submit_time": "2026-04-02T00:00:00Z"},
        {**ASKED, "user": None, "gpu_count": None, "queue": ""},
    ]
    frame = pd.DataFrame(asked)[["gpu_count", "user", "submit_time", "job_name", "cpu_count", "queue"]]
    answers = model.predict(frame.astype({"gpu_count": float, "cpu_count": float})).to_dict("records")
    for told, answer in zip(asked, answers, strict=True):
        assert answer == predictor.predict({name: value for name, value in told.items() if value is not None})


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([{"submit_time": "2026-04-02T00:00:00Z"}]),
        pd.DataFrame([{"submit_time": "2026-04-02T00:00:00Z", "user": None, "gpu_count": float("nan")}]),
        pd.DataFrame([{"user": "u3", "submit_time": "2026-04-02T00:00:00Z", "nobody_knows": 7}]),
        pd.DataFrame([{"submit_time": "2026-04-02T00:00:00Z", "time_limit_s": 3600.0}, {"submit_time": "2026-04-02T00:00:00Z"}]),
    ],
    ids=["every optional column missing", "nulls", "unknown column", "null among whole floats"],
)
def test_signature_takes_what_schedulers_lack(
    nights: list[dict[str, dict[str, Any]]], home: Settings, frame: pd.DataFrame
) -> None:
    open_store(home)
    model = load("models:/runcast-demo-gbdt@champion")
    assert (model.predict(frame)["p50_s"] >= 1).all()
    assert {c.type.name for c in model.metadata.signature.inputs} == {"double", "string"}


@pytest.mark.slow
def test_mlflow_serves_the_same_answers_over_http(
    nights: list[dict[str, dict[str, Any]]], home: Settings, cluster: Cluster
) -> None:
    """`mlflow models serve` of the registered version, without a network: JSON in, the bundle's answers out."""
    bundle = resolve(home.bundles / cluster.name)
    name, _, number = str(read_manifest(bundle).registered).partition("/")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [
        str(Path(sys.executable).parent / "mlflow"),
        "models",
        "serve",
        "-m",
        f"models:/{name}/{number}",
        "--env-manager",
        "local",
    ]
    environment = {
        **os.environ,
        "MLFLOW_TRACKING_URI": home.tracking_uri,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    with (home.home / "serve.log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "-p", str(port), "-w", "1"], env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        asked: list[dict[str, Any]] = [ASKED, {"submit_time": "2026-04-02T00:00:00Z", "user": None, "gpu_count": 0.5}]
        answers = _post_when_ready(port, {"dataframe_records": asked})["predictions"]
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)
    predictor = Predictor.load(bundle, may_be_expired=True)
    assert answers == [predictor.predict({name: value for name, value in told.items() if value is not None}) for told in asked]


def _post_when_ready(port: int, content: dict[str, Any], seconds: float = 120) -> dict[str, Any]:
    deadline = time.monotonic() + seconds
    while True:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("POST", "/invocations", json.dumps(content), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            found: dict[str, Any] = json.loads(reply.read())
            assert reply.status == 200, found
            return found
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)
        finally:
            connection.close()


def test_champion_folder_is_fetched_where_training_left_none(
    nights: list[dict[str, dict[str, Any]]], cluster: Cluster, home: Settings, tmp_path: Path
) -> None:
    store = open_store(home)
    version = registry.standing_champions(store, cluster)["gbdt"]
    there = registry.model_files(store, home, cluster, version)
    elsewhere = read_settings({"RUNCAST_HOME": str(tmp_path), "MLFLOW_TRACKING_URI": home.tracking_uri})
    fetched = registry.model_files(store, elsewhere, cluster, version)
    assert fetched != there
    assert (fetched / "model.json").read_bytes() == (there / "model.json").read_bytes()
    (fetched.parent / ".fetching-killed" / "model").mkdir(parents=True)
    assert registry.model_files(store, elsewhere, cluster, version) == fetched
    assert list(fetched.parent.iterdir()) == [fetched], "what a process left that was killed once the folder stood goes too"


def test_model_that_fails_its_gate_is_registered_and_the_baseline_serves(
    made_up_cluster: Cluster, made_up_jobs: pa.Table, empty_database: Path, tmp_path: Path
) -> None:
    impossible = made_up_cluster.evaluation.gates[0].model_copy(update={"at_most": 1.0})
    strict = made_up_cluster.model_copy(
        update={"evaluation": made_up_cluster.evaluation.model_copy(update={"gates": (impossible,)})}
    )
    shutil.copy(empty_database, tmp_path)
    settings = read_settings({"RUNCAST_HOME": str(tmp_path)})
    done = run_night(strict, settings, NIGHTS[-1], made_up_jobs)
    assert set(done["register"]["versions"]) == {"cart", "gbdt"}
    assert done["promote"]["champions"] == {}
    assert "at most 1 asked for" in done["promote"]["kept"]["gbdt"]
    assert (done["export"]["kind"], done["export"]["registered"]) == ("nearest_median", None)
    assert Predictor.load(settings.bundles / "demo", may_be_expired=True).predict(ASKED)["source"] == "nearest_median"
    with pytest.raises(NoChampion, match="the baseline nearest_median serves"):
        registry.rollback(strict, settings, NIGHTS[-1], NOW)

    # A night before it is caught up and passes: its model would have been champion, so it serves, with the later night's history.
    lenient = strict.model_copy(update={"evaluation": strict.evaluation.model_copy(update={"gates": ()})})
    caught_up = run_night(lenient, settings, NIGHTS[0], made_up_jobs)["export"]
    manifest = read_manifest(resolve(settings.bundles / "demo"))
    assert (caught_up["written"], caught_up["registered"]) == (True, manifest.registered)
    assert (str(manifest.registered)[-1], manifest.data_cut) == ("2", "2026-03-31T22:00:00Z"), "the second version registered"
    assert registry.export(lenient, settings, NIGHTS[0], NOW)["written"] is False, "a second time it changes nothing"
    with pytest.raises(NoChampion, match="is the first version that has served"):
        registry.rollback(lenient, settings, NIGHTS[-1], NOW)


def test_night_without_a_report_is_not_registered(cluster: Cluster, empty_database: Path, tmp_path: Path) -> None:
    shutil.copy(empty_database, tmp_path)
    with pytest.raises(ReportMissing, match="Evaluate the night again"):
        registry.register(cluster, read_settings({"RUNCAST_HOME": str(tmp_path)}), NIGHTS[0], NOW)


def test_a_clock_that_jumped_back_leaves_the_serving_bundle(
    nights: list[dict[str, dict[str, Any]]], cluster: Cluster, home: Settings
) -> None:
    """A bundle dated ten days back would have expired three days ago; one dated a minute into the day is right."""
    before, behind = resolve(home.bundles / cluster.name), dt.datetime(2026, 3, 21, 2, tzinfo=dt.UTC)
    for action in (registry.export, registry.rollback):
        with pytest.raises(
            ClockBehind,
            match=r"the clock says 2026-03-21 02:00 UTC, and the night of 2026-03-31 cannot be before 2026-03-30 22:00",
        ):
            action(cluster, home, NIGHTS[-1], behind)
    assert resolve(home.bundles / cluster.name) == before


def test_promotion_killed_between_alias_and_bundle_is_finished_by_whoever_comes_next(
    nights: list[dict[str, dict[str, Any]]], cluster: Cluster, home: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A copy of the home as of its first night, whose second night dies when the aliases have moved and the link has not."""
    shutil.copytree(home.home, tmp_path / "home", symlinks=True)
    copy = read_settings({"RUNCAST_HOME": str(tmp_path / "home")})
    root, store = copy.bundles / cluster.name, open_store(copy)
    first = read_manifest(root / bundles(root)[0])
    make_current(root, first.name)
    for kind in KINDS:
        name_champion(store, f"runcast-demo-{kind}", "1")
    registry.promote(cluster, copy, NIGHTS[-1])
    assert {v.version for v in registry.standing_champions(open_store(copy), cluster).values()} == {"1"}, (
        "moved with the bundle only"
    )
    with monkeypatch.context() as killed:
        killed.setattr(moving, "make_current", _killed)
        with pytest.raises(KeyboardInterrupt):
            registry.export(cluster, copy, NIGHTS[-1], NOW + dt.timedelta(days=9))
    assert read_manifest(resolve(root)) == first
    registry.champions_before(cluster, copy, NIGHTS[-1])
    served = str(read_manifest(resolve(root)).registered)
    assert served.endswith("/2")
    assert served in {v.label for v in registry.standing_champions(open_store(copy), cluster).values()}


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_rollback_moves_alias_and_bundle_together(
    nights: list[dict[str, dict[str, Any]]], cluster: Cluster, home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test of this home: what it leaves is another champion. A rollback that was killed is finished, not made twice."""
    root = home.bundles / cluster.name
    before = read_manifest(resolve(root))
    files = sorted(str(path) for path in root.rglob("*"))
    dry = registry.rollback(cluster, home, NIGHTS[-1], NOW + dt.timedelta(days=2), is_dry=True)
    assert (dry["is_dry"], dry["left"], dry["bundle"]) == (True, before.registered, str(resolve(root)))
    assert sorted(str(path) for path in root.rglob("*")) == files
    with monkeypatch.context() as killed:
        killed.setattr(moving, "make_current", _killed)
        with pytest.raises(KeyboardInterrupt):
            registry.rollback(cluster, home, NIGHTS[-1], NOW + dt.timedelta(days=2))
    assert read_manifest(resolve(root)).registered == before.registered
    done = registry.rollback(cluster, home, NIGHTS[-1], NOW + dt.timedelta(days=3))
    after = read_manifest(resolve(root))
    assert after.registered == dry["champion"] == done["champion"] == str(before.registered).replace("/2", "/1")
    assert (after.data_cut, after.kind) == (before.data_cut, before.kind), "the older model with the newest history"
    assert registry.standing_champions(open_store(home), cluster)[before.kind].label == done["champion"]
    with pytest.raises(NoChampion, match="nothing to roll back to"):
        registry.rollback(cluster, home, NIGHTS[-1], NOW + dt.timedelta(days=4))
