"""One run for each night and kind, with what a person compares."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from runcast.registry.page import VIEW
from runcast.registry.runs import Night, find_run, log_live, log_night, log_replay
from runcast.registry.store import Store

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def report(tmp_path: Path) -> Path:
    folder = tmp_path / "report"
    (folder / "figures").mkdir(parents=True)
    (folder / "report.html").write_text("<html>")
    (folder / "figures" / "risk_coverage.png").write_bytes(b"png")
    return folder


def _log(store: Store, night: Night, report: Path | None = None, at: datetime = AT) -> str:
    metrics = {"gbdt/all/mdape": 0.500012, "gbdt/long/mdape": float("nan"), "gbdt/new/mdape": float("inf")}
    return log_night(
        store,
        night,
        parameters={"trees": 300, "seed": 7},
        metrics=metrics,
        tags={"runcast.verdict": "passed"},
        note="# card",
        report=report,
        logged_at=at,
    )


def test_run_holds_parameters_metrics_report_and_data(store: Store, night: Callable[..., Night], report: Path) -> None:
    run_id = _log(store, night(), report)
    run = store.client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "2020-09-26 gbdt"
    assert run.data.params == {"trees": "300", "seed": "7"}
    assert run.data.metrics == {"gbdt/all/mdape": 0.5}, "four digits; what is not finite is left out"
    assert run.data.tags["runcast.feature_version"] == "features-1"
    assert run.data.tags["mlflow.note.content"] == "# card"
    assert run.inputs.dataset_inputs[0].dataset.digest == night().data_fingerprint[:36]
    assert {f.path for f in store.client.list_artifacts(run_id, "report")} == {"report/report.html", "report/figures"}


def test_same_night_twice_is_one_run(store: Store, night: Callable[..., Night]) -> None:
    first = _log(store, night())
    assert _log(store, night(), at=datetime(2026, 1, 2, tzinfo=UTC)) == first
    assert len(store.client.get_metric_history(first, "gbdt/all/mdape")) == 1
    assert len(store.client.search_runs([store.experiment_id("venus")])) == 1


def test_run_left_open_by_a_killed_night_is_finished(store: Store, night: Callable[..., Night]) -> None:
    left = store.client.create_run(store.experiment_id("venus"), tags=night().tags)
    assert _log(store, night()) == left.info.run_id
    assert store.client.get_run(left.info.run_id).info.status == "FINISHED"


@pytest.mark.parametrize(
    "changed", [{"night": "2020-09-27"}, {"kind": "cart"}, {"data_fingerprint": "e" * 64}, {"model_sha256": "e" * 64}]
)
def test_another_night_kind_data_or_model_is_another_run(
    store: Store, night: Callable[..., Night], changed: dict[str, str]
) -> None:
    first = _log(store, night())
    assert find_run(store, night(**changed)) is None
    assert _log(store, night(**changed)) != first


def test_more_than_a_hundred_parameters(store: Store, night: Callable[..., Night]) -> None:
    many = {f"p{i}": i for i in range(250)}
    run_id = log_night(store, night(), parameters=many, metrics={}, tags={}, note="", report=None, logged_at=AT)
    assert len(store.client.get_run(run_id).data.params) == 250


def test_a_day_of_live_accuracy_is_one_point_and_what_is_logged_last_is_shown(store: Store, tmp_path: Path) -> None:
    """Logged twice alike, then with late accounting: a lower number, which MLflow by itself would not prefer at one step and time."""
    record = tmp_path / "2026-01-09.json"
    record.write_text("{}")
    day = date(2026, 1, 9)

    def log(value: float, hour: int, day: date = day) -> str:
        at = datetime(2026, 1, 10, hour, tzinfo=UTC)
        return log_live(store, "venus", day, metrics={"live/error_factor": value}, record=record, logged_at=at)

    runs = {log(2.0, 3), log(2.0, 4), log(1.5, 5), log(1.7, 6, date(2026, 1, 10))}
    assert len(runs) == 1, "one run for all days"
    points = [(one.step, one.value) for one in store.client.get_metric_history(runs.pop(), "live/error_factor")]
    assert points == [(20462, 2.0), (20462, 1.5), (20463, 1.7)]


@pytest.mark.parametrize(("second", "runs"), [("same", 1), ("other", 2)])
def test_the_same_replay_is_the_same_run(store: Store, tmp_path: Path, second: str, runs: int) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "report.html").write_text("page")
    made = {
        log_replay(
            store, "venus", "2026-01-09", data, metrics={"gbdt/all/mdape": 0.25, "cart/all/mdape": float("nan")}, tags={"a": "b"},
            note="n", report=tmp_path / "report", cut=datetime(2026, 1, 10, tzinfo=UTC), logged_at=datetime(2026, 1, 11, tzinfo=UTC),
        )
        for data in ("same", second)
    }  # fmt: skip
    assert len(made) == runs
    run = store.client.get_run(made.pop())
    assert (run.data.metrics, run.info.status) == ({"gbdt/all/mdape": 0.25}, "FINISHED")
    assert len(store.client.get_metric_history(run.info.run_id, "gbdt/all/mdape")) == 1
    assert [file.path for file in store.client.list_artifacts(run.info.run_id, "report")] == ["report/report.html"]


def test_the_saved_view_shows_nights_alone(store: Store, night: Callable[..., Night], tmp_path: Path) -> None:
    """What the view searches for, asked of the store itself: replays and live accuracy would stand there with empty columns."""
    (tmp_path / "report").mkdir()
    (tmp_path / "live.json").write_text("{}")
    for kind in ("cart", "gbdt"):
        log_night(store, night(kind=kind), parameters={}, metrics={}, tags={}, note="", report=None, logged_at=AT)
    log_live(store, "venus", date(2026, 1, 9), metrics={}, record=tmp_path / "live.json", logged_at=AT)
    log_replay(
        store, "venus", "2026-01-09", "f" * 64, metrics={}, tags={}, note="", report=tmp_path / "report", cut=AT, logged_at=AT
    )  # fmt: skip
    experiment = store.client.get_experiment(store.experiment_id("venus"))
    state = json.loads(json.loads(experiment.tags[f"mlflow.sharedViewState.{VIEW}"])["state"])
    shown = store.client.search_runs([experiment.experiment_id], state["searchFilter"])
    assert sorted(run.info.run_name for run in shown) == ["2020-09-26 cart", "2020-09-26 gbdt"]
    assert len(store.client.search_runs([experiment.experiment_id])) == 4
