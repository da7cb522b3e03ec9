"""Whole runs by Airflow itself (`dag.test`): what a DAG leaves behind, and what stops it."""

import signal
from pathlib import Path

import pytest

from runcast.data.settings import read_settings
from runcast.night import STAGES
from runcast.records import read_failure, read_night

DAGS = Path(__file__).resolve().parents[2] / "dags"
CLUSTER = """
source: {format: swf, paths: ["%s"]}
time_zone: Europe/Stockholm
schedule: "30 2 * * *"
training: {min_jobs: 100, gbdt: {trees: 20}, runcast: {trees: 9, leaves: 7, scored_rows: 500}}
evaluation: {min_test_jobs: 30}
"""

# Airflow and its web framework warn of each other's deprecations while a DAG runs in process; ours are errors elsewhere.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


@pytest.fixture
def dags(airflow_home, tmp_path, monkeypatch, swf_log):
    """Write a made-up log of 800 jobs over ten days and return the DAGs of its cluster by name."""
    from airflow.dag_processing.dagbag import DagBag

    (tmp_path / "log.swf").write_text(swf_log(jobs=800, every_s=1080, seed=11))
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "tiny.yaml").write_text(CLUSTER % (tmp_path / "log.swf"))
    monkeypatch.setenv("RUNCAST_HOME", str(tmp_path / "var"))
    monkeypatch.setenv("RUNCAST_CLUSTERS", str(tmp_path / "clusters"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return DagBag(dag_folder=str(DAGS)).dags


def states(run) -> dict[str, str]:
    return {instance.task_id: str(instance.state) for instance in run.get_task_instances()}


def test_a_night_in_airflow_leaves_what_the_command_line_does(dags):
    run = dags["nightly_tiny"].test(run_conf={"date": "2026-01-09"})
    assert run.state == "success"
    settings = read_settings()
    records = read_night(settings, "tiny", "2026-01-09")
    assert set(records) == {stage.name for stage in STAGES}
    assert (settings.bundles / "tiny" / "current").readlink().name == Path(records["export"]["bundle"]).name
    assert records["ingest"]["last"] == "2026-01-09"
    # Beside the nights, on what that one left; the replay and the upkeep find nothing to stop them.
    assert dags["weekly_tiny"].test(run_conf={"date": "2026-01-09"}).state == "success"
    assert (settings.home / "replay" / "tiny" / "2026-01-09" / "report.html").exists()
    assert states(dags["retention_tiny"].test(run_conf={"dry_run": True})) == {"check_lake": "success", "prune": "success"}


def test_a_drift_alarm_is_a_red_task_after_a_whole_night(dags, tmp_path):
    file = tmp_path / "clusters" / "tiny.yaml"
    file.write_text(
        file.read_text() + "drift: {days: 1, periods: 4, min_jobs: 10, distance_at_least: 0.001, distance_times_usual: 1}\n"
    )
    found = states(dags["nightly_tiny"].test(run_conf={"date": "2026-01-09"}))
    assert {name for name, state in found.items() if state != "success"} == {"drift"}
    record = read_night(read_settings(), "tiny", "2026-01-09")["drift"]
    assert record["alarm"].startswith("tiny, 2026-01-09: ")
    assert (read_settings().bundles / "tiny" / "current" / "manifest.json").exists()


def test_a_bad_day_is_not_tried_again_and_goes_on_only_once_it_is_accepted(dags, tmp_path):
    """All jobs of the day are in a queue that nobody has seen; the reason is of one day, which must be named."""
    lines = (tmp_path / "log.swf").read_text().splitlines()
    new = [line.split() for line in lines[1 + 8 * 80 :]]
    (tmp_path / "log.swf").write_text("\n".join([*lines[: 1 + 8 * 80], *(" ".join([*a[:14], "7", *a[15:]]) for a in new)]) + "\n")
    stopped = states(dags["nightly_tiny"].test(run_conf={"date": "2026-01-09"}))
    after = {stage.name for stage in STAGES[2:]}
    assert (stopped["ingest"], stopped["quality"], {stopped[name] for name in after}) == (
        "success",
        "failed",
        {"upstream_failed"},
    )
    settings = read_settings()
    assert read_failure(settings, "tiny", "2026-01-09")["kind"] == "QualityStop"
    assert not settings.models.exists()
    unnamed = states(dags["nightly_tiny"].test(run_conf={"date": None, "accept_quality": "queue 7 is new"}))
    assert (unnamed["quality"], unnamed["features"]) == ("failed", "upstream_failed")
    assert not list((settings.home / "quality").rglob("accepted"))
    run = dags["nightly_tiny"].test(run_conf={"date": "2026-01-09", "accept_quality": "queue 7 is new"})
    assert run.state == "success"
    assert read_night(settings, "tiny", "2026-01-09")["quality"]["accepted"]["reason"] == "queue 7 is new"


def test_a_log_that_is_gone_fails_the_first_stage_without_another_try(dags, tmp_path):
    (tmp_path / "log.swf").unlink()
    run = dags["nightly_tiny"].test(run_conf={"date": "2026-01-09"})
    found = states(run)
    assert run.state == "failed"
    assert found["which_day"] == "success"
    assert found["ingest"] == "failed"
    assert {found[stage.name] for stage in STAGES[1:]} == {"upstream_failed"}
    assert not (tmp_path / "var" / "bundles").exists()


def test_a_day_that_has_not_begun_fails_before_anything_is_read(dags, tmp_path):
    found = states(dags["nightly_tiny"].test(run_conf={"date": "2999-01-01"}))
    assert found["which_day"] == "failed"
    assert {state for task, state in found.items() if task != "which_day"} == {"upstream_failed"}
    assert not (tmp_path / "var").exists()


def test_live_accuracy_of_a_cluster_that_keeps_no_forecasts_is_skipped_not_failed(dags, capsys):
    """As an asset's event starts it: without a logical date and an interval; here without events, so it looks at yesterday."""
    run = dags["live_accuracy_tiny"].test(logical_date=None)
    assert (run.logical_date, str(run.state)) == (None, "success")
    assert states(run) == {"which_days": "success", "look": "skipped"}
    assert "Name the files of `runcast serve` as export.served" in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL], ids=["crash", "out of memory"])
def test_a_fit_that_is_killed_is_a_red_task_in_a_red_run_and_the_others_serve(dags, tmp_path, kill_fit, number):
    file = tmp_path / "clusters" / "tiny.yaml"
    file.write_text(file.read_text().replace("gbdt: {trees: 20}", "gbdt: {trees: 300}"))
    with kill_fit("gbdt", number):
        run = dags["nightly_tiny"].test(run_conf={"date": "2026-01-09"})
    found = states(run)
    assert run.state == "failed"
    assert {name for name, state in found.items() if state != "success"} == {"train_gbdt", "fits"}
    settings = read_settings()
    records = read_night(settings, "tiny", "2026-01-09")
    assert records["train_gbdt"]["failure"].startswith(f"gbdt: the fit was killed by signal {number:d}")
    assert set(records["register"]["versions"]) == {"cart", "runcast"}
    assert (settings.bundles / "tiny" / "current" / "manifest.json").exists()


def test_a_training_stage_that_cannot_begin_stops_the_night(dags, tmp_path):
    """A folder of models that is a file: no kind's affair, and evaluating what an earlier run left would judge other models."""
    (tmp_path / "var" / "models").mkdir(parents=True)
    (tmp_path / "var" / "models" / "tiny").touch()
    found = states(dags["nightly_tiny"].test(run_conf={"date": "2026-01-09"}))
    assert {found[f"train_{kind}"] for kind in ("cart", "gbdt", "runcast")} == {"failed"}
    assert found["evaluate"] == "failed"
    assert {found[name] for name in ("register", "promote", "export", "fits")} == {"upstream_failed"}
