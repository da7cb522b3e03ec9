"""A night one of whose fits is killed, really, by signal: the other kinds go on, the champion serves, and everything says so."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from runcast.cli import app
from runcast.data.cluster import find_cluster
from runcast.data.settings import read_settings
from runcast.records import read_failure, read_night
from runcast.registry.job import standing_champions
from runcast.registry.store import open_store

CLUSTER = """
source: {format: swf, paths: ["%s"]}
time_zone: UTC
training: {min_jobs: 100, gbdt: {trees: 300}, runcast: {trees: 9, leaves: 7, scored_rows: 500}}
evaluation: {min_test_jobs: 30, gates: [{metric: error_factor, at_most: 50, than_best_baseline: false}]}
"""
CRASH = "gbdt: the fit was killed by signal 11 (SIGSEGV)"
MEMORY = "gbdt: the fit was killed by signal 9 (SIGKILL): by the kernel for want of memory, or by hand"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swf_log: Callable[..., str]) -> Callable[..., Result]:
    """A home with the good night of 10 January, in which every kind became champion; returns what runs a command in it."""
    (tmp_path / "log.swf").write_text(swf_log(jobs=1200, every_s=800, seed=3))
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "small.yaml").write_text(CLUSTER % (tmp_path / "log.swf"))
    monkeypatch.setenv("RUNCAST_HOME", str(tmp_path / "var"))
    monkeypatch.setenv("RUNCAST_CLUSTERS", str(tmp_path / "clusters"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def call(*words: str) -> Result:
        return CliRunner().invoke(app, list(words), catch_exceptions=False)

    assert call("nightly", "--cluster", "small", "--date", "2026-01-10").exit_code == 0
    return call


def champion_nights() -> dict[str, str]:
    settings = read_settings()
    champions = standing_champions(open_store(settings), find_cluster(settings.clusters, "small"))
    return {kind: version.night for kind, version in champions.items()}


def test_a_fit_killed_in_training_is_named_and_the_others_become_champions(run: Callable, kill_fit: Callable) -> None:
    with kill_fit("gbdt", signal.SIGSEGV):
        done = run("nightly", "--cluster", "small", "--date", "2026-01-11", "--json")
    assert done.exit_code == 11
    assert f"error: train_gbdt: {CRASH}" in done.stderr
    printed = json.loads(done.stdout)
    assert (printed["train_gbdt"]["failure"], printed["kind"], printed["exit_code"]) == (CRASH, "FitFailed", 11)

    settings = read_settings()
    records = read_night(settings, "small", "2026-01-11")
    assert read_failure(settings, "small", "2026-01-11") is None, "the night itself is whole"
    assert set(records["register"]["versions"]) == {"cart", "runcast"}
    assert champion_nights() == {"cart": "2026-01-11", "gbdt": "2026-01-10", "runcast": "2026-01-11"}
    assert (settings.bundles / "small" / "current" / "manifest.json").exists()
    assert not (settings.models / "small" / "2026-01-11" / "gbdt").exists()

    assert f"small, night of 2026-01-11, train_gbdt: {CRASH}" in " ".join(run("status").stdout.split())
    assert [row["failed_fits"] for row in json.loads(run("status", "--json").stdout)["nights"]] == [[f"train_gbdt: {CRASH}"]] * 3
    page = (settings.reports / "index.html").read_text()
    assert "Needs a look" in page
    assert f"<pre>train_gbdt: {CRASH}</pre>" in page

    assert run("nightly", "--cluster", "small", "--date", "2026-01-11").exit_code == 0, "the same night again is whole"
    assert champion_nights()["gbdt"] == "2026-01-11"
    assert "killed by" not in run("status").stdout


def test_a_fit_killed_while_the_night_is_judged_does_not_become_champion(run: Callable, kill_fit: Callable) -> None:
    day = ("--cluster", "small", "--date", "2026-01-11")
    for stage in (("ingest", *day), ("quality", *day), ("features", *day), ("train", *day)):
        assert run(*stage).exit_code == 0
    with kill_fit("gbdt", signal.SIGKILL):
        done = run("evaluate", *day)
    assert done.exit_code == 11
    assert MEMORY in done.stderr.replace("\n", " ")
    verdicts = read_night(read_settings(), "small", "2026-01-11")["evaluate"]["verdicts"]
    assert {kind: verdict["passed"] for kind, verdict in verdicts.items()} == {"cart": True, "gbdt": False, "runcast": True}
    assert verdicts["gbdt"]["text"].startswith(f"not passed: {MEMORY}; nearest_median answers instead")


def test_a_fit_of_a_published_predictor_that_is_killed_is_said_and_costs_no_verdict(run: Callable, kill_fit: Callable) -> None:
    with kill_fit("helios", signal.SIGSEGV):
        done = run("nightly", "--cluster", "small", "--date", "2026-01-11")
    assert done.exit_code == 11
    assert "error: evaluate: helios: the fit was killed by signal 11 (SIGSEGV)" in done.stderr
    assert champion_nights() == dict.fromkeys(("cart", "gbdt", "runcast"), "2026-01-11")


def test_a_replay_goes_on_without_a_fit_that_is_killed_and_says_so(run: Callable, kill_fit: Callable) -> None:
    with kill_fit("runcast", signal.SIGSEGV):
        done = run("replay", "--cluster", "small", "--json")
    assert done.exit_code == 11
    document = json.loads(done.stdout)
    assert document["failures"] == {"runcast": "runcast: the fit was killed by signal 11 (SIGSEGV)"}
    assert document["predictors"]["runcast"] == document["predictors"]["nearest_median"]
    assert document["predictors"]["gbdt"] != document["predictors"]["nearest_median"]
