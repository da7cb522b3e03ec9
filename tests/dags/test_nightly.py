"""The DAGs as Airflow sees them: parsed by its own DagBag, with policies that hold for each."""

import datetime as dt
from pathlib import Path

import pytest

from runcast.data.cluster import read_clusters
from runcast.night import STAGES, latest_complete_day

DAGS = Path(__file__).resolve().parents[2] / "dags"

LIVE = 'time_zone: Europe/Stockholm\nschedule: "30 2 * * *"\nsource: {format: swf, paths: ["log.swf"]}\n'
FINISHED = "time_zone: Europe/Stockholm\nsource: {format: swf, paths: ['log.swf']}\n"
REFUSED = FINISHED + "refused: it holds no runtime\n"
BROKEN = FINISHED + "tarining: {}\n"

# Airflow 3.3 itself uses a deprecated pattern class of pathspec when it reads .airflowignore.
pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")


@pytest.fixture
def parse(airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write the named cluster files and parse the DAG folder; RUNCAST_HOME does not exist and is not made."""

    def bag(**files: str):
        from airflow.dag_processing.dagbag import DagBag

        folder = tmp_path / "clusters"
        folder.mkdir()
        for name, text in files.items():
            (folder / f"{name}.yaml").write_text(text)
        monkeypatch.setenv("RUNCAST_CLUSTERS", str(folder))
        monkeypatch.setenv("RUNCAST_HOME", str(tmp_path / "absent"))
        return DagBag(dag_folder=str(DAGS))

    return bag


def test_one_dag_per_usable_cluster_file(parse):
    bag = parse(live=LIVE, finished=FINISHED, refused=REFUSED)
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ["nightly_finished", "nightly_live"]


def test_parsing_makes_no_folder_and_reads_no_log(parse, tmp_path):
    parse(live=LIVE)
    assert not (tmp_path / "absent").exists()


def test_the_shipped_cluster_files_all_give_a_dag(airflow_home, monkeypatch):
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.delenv("RUNCAST_CLUSTERS", raising=False)
    monkeypatch.delenv("RUNCAST_TRACES", raising=False)
    bag = DagBag(dag_folder=str(DAGS))
    usable = {name for name, cluster in read_clusters(DAGS.parent / "data" / "clusters").items() if cluster.refused is None}
    assert bag.import_errors == {}
    assert set(bag.dags) == {f"nightly_{name}" for name in usable}


def test_a_broken_cluster_file_is_seen_and_leaves_the_others(parse):
    bag = parse(live=LIVE, broken=BROKEN)
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ["nightly_broken", "nightly_live"]
    assert "did you mean 'training'" in bag.dags["nightly_broken"].doc_md
    assert [task.task_id for task in bag.dags["nightly_broken"].tasks] == ["cluster_file"]


def test_each_dag_has_an_owner_a_runbook_retries_and_a_timeout(parse):
    for dag in parse(live=LIVE, finished=FINISHED).dags.values():
        assert dag.max_active_runs == 1
        assert "When a task is red" in dag.doc_md
        for task in dag.tasks:
            assert task.owner == "runcast", task.task_id
            assert task.execution_timeout is not None, task.task_id
            assert task.retries == (0 if task.task_id == "which_day" else 2), task.task_id


def test_the_graph_is_the_night_in_order(parse):
    dag = parse(live=LIVE).dags["nightly_live"]
    assert [task.task_id for task in dag.topological_sort()] == ["which_day", *[stage.name for stage in STAGES]]
    upstream = {task.task_id: task.upstream_task_ids for task in dag.tasks}
    assert upstream["train_runcast"] == upstream["train_gbdt"] == upstream["train_cart"] == {"features"}  # side by side
    assert upstream["evaluate"] == {"features", "train_cart", "train_gbdt", "train_runcast"}


def test_stages_announce_what_they_leave_behind(parse):
    dag = parse(live=LIVE).dags["nightly_live"]
    assert {task.task_id: [asset.name for asset in task.outlets] for task in dag.tasks if task.outlets} == {
        "ingest": ["live_jobs"],
        "features": ["live_features"],
        "register": ["live_models"],
        "export": ["live_bundle"],
    }


def test_a_scheduled_cluster_runs_on_its_own_zone_and_a_finished_log_only_by_hand(parse):
    dags = parse(live=LIVE, finished=FINISHED).dags
    assert (dags["nightly_live"].timetable.expression, str(dags["nightly_live"].timetable.timezone)) == (
        "30 2 * * *",
        "Europe/Stockholm",
    )
    assert dags["nightly_finished"].schedule is None


@pytest.mark.parametrize(
    ("now_utc", "day"),
    [
        ("2026-03-02T01:30:00", "2026-03-01"),  # 02:30 in Stockholm
        ("2026-03-01T23:30:00", "2026-03-01"),  # already the 2nd in Stockholm
        ("2026-03-01T22:30:00", "2026-02-28"),  # still the 1st
        ("2026-03-29T22:30:00", "2026-03-29"),  # the night of the change to summer time: 00:30 on the 30th
    ],
)
def test_the_latest_complete_day_is_local(tmp_path, now_utc, day):
    (tmp_path / "live.yaml").write_text(LIVE)
    cluster = read_clusters(tmp_path)["live"]
    assert latest_complete_day(cluster, dt.datetime.fromisoformat(now_utc).replace(tzinfo=dt.UTC)) == day
