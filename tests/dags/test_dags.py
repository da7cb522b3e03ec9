"""The DAGs as Airflow sees them: parsed by its own DagBag, with policies that hold for each."""

import datetime as dt
import os
import subprocess
import sys
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from runcast.data.cluster import read_clusters
from runcast.data.days import checked_day, latest_complete_day
from runcast.data.errors import LakeBusy, LakeError, NoSuchNight, RuncastError
from runcast.data.settings import EXAMPLES
from runcast.night import STAGES
from runcast.registry.errors import StoreUnavailable

DAGS = Path(__file__).resolve().parents[2] / "dags"

LIVE = 'time_zone: Europe/Stockholm\nschedule: "30 2 * * *"\nsource: {format: swf, paths: ["log.swf"]}\n'
FINISHED = "time_zone: Europe/Stockholm\nsource: {format: swf, paths: ['log.swf']}\n"
NO_REPLAY = LIVE + "evaluation: {replay_schedule: null}\n"
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


def test_each_usable_cluster_file_has_its_dags_and_a_finished_log_only_nights(parse):
    bag = parse(live=LIVE, finished=FINISHED, refused=REFUSED)
    assert bag.import_errors == {}
    assert sorted(bag.dags) == [
        "live_accuracy_live", "nightly_finished", "nightly_live", "retention_live", "weekly_live",
    ]  # fmt: skip


def test_parsing_makes_no_folder_and_reads_no_log(parse, tmp_path):
    parse(live=LIVE)
    assert not (tmp_path / "absent").exists()


def test_parsing_imports_no_library_of_the_stages(airflow_home):
    """In a process of its own: Airflow parses DAG files often."""
    code = "import nightly, live_accuracy, weekly_replay, retention, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env={**os.environ, "PYTHONPATH": f"{DAGS}{os.pathsep}{DAGS.parent / 'src'}"},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    heavy = {"pandas", "pyarrow", "lightgbm", "sklearn", "mlflow", "great_expectations", "matplotlib"}
    assert heavy & set(done.stdout.split()) == set()


def test_the_shipped_cluster_files_all_give_a_dag(airflow_home, monkeypatch):
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.delenv("RUNCAST_CLUSTERS", raising=False)
    monkeypatch.delenv("RUNCAST_TRACES", raising=False)
    bag = DagBag(dag_folder=str(DAGS))
    assert bag.import_errors == {}
    assert set(bag.dags) == {"nightly_demo_helios", "nightly_demo_pai", "nightly_demo_slurm"}, "finished logs: nights only"


def test_the_example_files_all_give_a_dag_where_their_folder_is_named(airflow_home, monkeypatch):
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.setenv("RUNCAST_CLUSTERS", os.pathsep.join([str(EXAMPLES), str(EXAMPLES.parent)]))
    monkeypatch.delenv("RUNCAST_TRACES", raising=False)
    bag = DagBag(dag_folder=str(DAGS))
    usable = {name for name, cluster in read_clusters((EXAMPLES, EXAMPLES.parent)).items() if cluster.refused is None}
    assert len(usable) > 20
    assert bag.import_errors == {}
    assert set(bag.dags) == {f"nightly_{name}" for name in usable}


def test_a_broken_cluster_file_is_seen_and_leaves_the_others(parse):
    bag = parse(live=LIVE, broken=BROKEN)
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ["live_accuracy_live", "nightly_broken", "nightly_live", "retention_live", "weekly_live"]
    assert "did you mean 'training'" in bag.dags["nightly_broken"].doc_md
    assert [task.task_id for task in bag.dags["nightly_broken"].tasks] == ["cluster_file"]


def test_file_names_and_names_that_no_dag_can_have_are_seen_and_leave_the_others(parse):
    bag = parse(
        **{
            "live": LIVE,
            "sp ace": LIVE,
            "out": LIVE + "name: ../../out\n",
            "a": LIVE + "name: twin\n",
            "b": LIVE + "name: twin\n",
        }
    )
    assert bag.import_errors == {}
    usable = ["live_accuracy_live", "nightly_live", "retention_live", "weekly_live"]
    assert sorted(bag.dags) == sorted([*usable, "nightly_a", "nightly_b", "nightly_out", "nightly_sp_ace"])
    assert "cannot name a cluster" in bag.dags["nightly_out"].doc_md
    assert "also that of" in bag.dags["nightly_a"].doc_md


def test_each_dag_has_an_owner_a_runbook_retries_and_a_timeout(parse):
    for dag in parse(live=LIVE, finished=FINISHED).dags.values():
        assert dag.max_active_runs == 1
        assert "red**" in dag.doc_md, "what to do when a task is red"
        assert dag.dagrun_timeout is not None
        assert dag.catchup is False
        for task in dag.tasks:
            assert task.owner == "runcast", task.task_id
            assert task.execution_timeout is not None, task.task_id
            assert task.retries == 4, task.task_id
            assert task.retry_exponential_backoff == 2.0, "a multiplier: True would mean that waits do not grow"
            assert task.doc_md, task.task_id


def test_the_graph_is_the_night_in_order(parse):
    dag = parse(live=LIVE).dags["nightly_live"]
    in_order = [task.task_id for task in dag.topological_sort() if task.task_id not in ("drift", "fits")]
    assert in_order == ["which_day", *[stage.name for stage in STAGES if stage.name != "drift"]]
    upstream = {task.task_id: task.upstream_task_ids for task in dag.tasks}
    assert upstream["train_runcast"] == upstream["train_gbdt"] == upstream["train_cart"] == {"features"}  # side by side
    assert upstream["evaluate"] == {"features", "train_cart", "train_gbdt", "train_runcast"}
    assert upstream["drift"] == upstream["fits"] == upstream["register"] == {"evaluate"}
    leaves = {task.task_id for task in dag.tasks if not task.downstream_task_ids}
    assert leaves == {"drift", "fits", "export"}, "an alarm stops nothing"
    assert set(dag.task_group.get_child_by_label("train").children) == {"train_cart", "train_gbdt", "train_runcast"}


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
    ("dag", "file", "expression"),
    [
        ("weekly_live", LIVE, "0 10 * * 6"),
        ("weekly_live", LIVE + "evaluation: {replay_schedule: '0 4 * * 0'}\n", "0 4 * * 0"),
        ("retention_live", LIVE, "0 12 1 * *"),
    ],
    ids=["weekly", "weekly as the file says", "monthly"],
)
def test_what_runs_beside_the_nights_runs_in_the_clusters_zone(parse, dag, file, expression):
    timetable = parse(live=file).dags[dag].timetable
    assert (timetable.expression, str(timetable.timezone)) == (expression, "Europe/Stockholm")


def test_a_replay_without_a_schedule_runs_by_hand_only(parse):
    assert parse(live=NO_REPLAY).dags["weekly_live"].schedule is None


def test_live_accuracy_waits_for_the_jobs_that_a_night_loads(parse):
    dags = parse(live=LIVE).dags
    (waited_for,) = dags["live_accuracy_live"].timetable.asset_condition.objects
    (left,) = dags["nightly_live"].get_task("ingest").outlets
    assert (waited_for.name, waited_for.uri) == (left.name, left.uri) == ("live_jobs", "runcast://live/jobs")


HEAVY_TASKS = {"features", "train_cart", "train_gbdt", "train_runcast", "evaluate", "replay"}


@pytest.mark.parametrize("named", ["runcast_training", None])
def test_tasks_that_take_a_core_share_a_pool_where_one_is_named(parse, monkeypatch, named):
    """Without the name they run in the pool that always exists: in one that does not, they would wait for ever and say nothing."""
    monkeypatch.delenv("RUNCAST_POOL", raising=False)
    if named:
        monkeypatch.setenv("RUNCAST_POOL", named)
    monkeypatch.delitem(sys.modules, "runcast_dags", raising=False)
    pools = {task.task_id: task.pool for dag in parse(live=LIVE).dags.values() for task in dag.tasks}
    monkeypatch.delitem(sys.modules, "runcast_dags")
    assert {task for task, pool in pools.items() if pool != "default_pool"} == (HEAVY_TASKS if named else set())


def test_the_pool_is_made_once_and_an_operators_slots_stay(airflow_home):
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session
    from pools import POOL, ensure_pool

    ensure_pool(slots=2)
    with create_session() as session:
        Pool.get_pool(POOL, session=session).slots = 7
    ensure_pool(slots=2)
    with create_session() as session:
        assert Pool.get_pool(POOL, session=session).slots == 7


class BadData(RuncastError):
    """Of any stage."""


@pytest.mark.parametrize(
    ("raised", "is_tried_again"),
    [
        (BadData("x"), False),
        (LakeError("damaged"), False),
        (NoSuchNight("x"), False),
        (LakeBusy("held by another night"), True),
        (StoreUnavailable("down"), True),
        (OSError("no space"), True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_bad_data_fails_at_once_and_what_may_pass_is_tried_again(airflow_home, raised, is_tried_again):
    from airflow.sdk.exceptions import AirflowFailException
    from runcast_dags import attempt

    def do():
        raise raised

    with pytest.raises(Exception, match=str(raised)) as error:
        attempt(do)
    assert isinstance(error.value, AirflowFailException) is not is_tried_again


def interval_end(text: str) -> dict[str, dt.datetime]:
    return {"data_interval_end": dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)}


@pytest.mark.parametrize(
    ("context", "day"),
    [
        ({"params": {"date": "2026-03-02"}} | interval_end("2026-03-10T01:30:00"), "2026-03-02"),
        ({"params": {"date": None}} | interval_end("2026-03-10T01:30:00"), "2026-03-09"),
        ({"params": {}} | interval_end("2026-03-10T01:30:00"), "2026-03-09"),
        ({"params": {"date": None}}, None),
        ({"params": {"date": None}, "data_interval_end": None}, None),
    ],
    ids=["asked for", "scheduled or backfilled", "no parameter", "by hand or by an asset", "no logical date"],
)
def test_the_day_of_a_run(parse, context, day):
    """Without an interval it is yesterday: whatever that is while the test runs."""
    parse(live=LIVE)
    from runcast_dags import day_of_run

    before = dt.datetime.now(ZoneInfo("Europe/Stockholm")).date()
    found = day_of_run("live", context)
    after = dt.datetime.now(ZoneInfo("Europe/Stockholm")).date()
    assert found in ({day} if day else {(today - dt.timedelta(days=1)).isoformat() for today in (before, after)})


NOW = dt.datetime(2026, 3, 1, 23, 30, tzinfo=dt.UTC)  # already the 2nd in Stockholm


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("2026-03-01", None),
        ("1970-01-01", None),
        ("2026-03-02", r"2026-03-02 is not over in Europe/Stockholm.*The latest such day is 2026-03-01\."),
        ("2026-03-03", r"2026-03-03 has not begun in Europe/Stockholm"),
        ("2099-01-01", "has not begun"),
        ("9999-12-31", "has not begun"),
        ("0001-01-01", "0001-01-01 is outside 1970 to 2099"),
        ("20260228", "'20260228' is not a day; write YYYY-MM-DD, for example 2026-02-28"),
        ("2026-W09-6", "write YYYY-MM-DD, for example 2026-02-28"),
        ("２026-02-28", "is not a day; write YYYY-MM-DD"),
        ("2026-02-30", "'2026-02-30' is not a day; write YYYY-MM-DD"),
        ("yesterday", "'yesterday' is not a day"),
        ("", "'' is not a day"),
    ],
)
def test_a_day_that_is_none_or_is_not_over_is_refused(tmp_path, text, refused):
    (tmp_path / "live.yaml").write_text(LIVE)
    cluster = read_clusters(tmp_path)["live"]
    if refused is None:
        assert checked_day(cluster, text, NOW).isoformat() == text
    else:
        with pytest.raises(NoSuchNight, match=refused):
            checked_day(cluster, text, NOW)


@pytest.mark.parametrize(
    ("text", "refused"), [("2098-01-01", None), ("9999-12-31", "outside 1970 to 2099"), ("0001-01-01", "outside")]
)
def test_a_clock_without_dates_has_days_of_its_own_within_the_calendar(tmp_path, text, refused):
    (tmp_path / "live.yaml").write_text(LIVE + "clock: relative\n")
    cluster = read_clusters(tmp_path)["live"]
    if refused is None:
        assert checked_day(cluster, text, NOW).isoformat() == text
    else:
        with pytest.raises(NoSuchNight, match=refused):
            checked_day(cluster, text, NOW)


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
    assert f"{latest_complete_day(cluster, dt.datetime.fromisoformat(now_utc).replace(tzinfo=dt.UTC))}" == day
