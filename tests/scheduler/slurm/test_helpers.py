"""The scorer and the feeder against a real Slurm, and against the reader of the nightly log."""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from answering import answering
from one_node import OneNode
from test_accounting import HOSTILE_NAMES

from runcast.scheduler.client import Client
from runcast.scheduler.slurm.accounting import news_of, read_records, sacct_command
from runcast.scheduler.slurm.commands import SlurmCommandError, run
from runcast.scheduler.slurm.feeder import tell_events, write_log
from runcast.scheduler.slurm.memory import held
from runcast.scheduler.slurm.scorer import Choice, Limits, plan_refused, score, undo

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

Run = Callable[[Sequence[str]], str]
NOTE = "runcast p50=90s p90=401s confidence=0.75 n=12 source=nearest_median model=demo/7"


@pytest.fixture
def commands(node: OneNode) -> Run:
    node.run("scancel", "--user=games")
    node.run("scancel", "--user=news")
    node.wait_until_idle(30)
    return lambda command: run(command, 30.0, node.environment)


def shown(node: OneNode, number: int, name: str) -> str:
    text = node.run("scontrol", "show", "job", str(number)).stdout
    return next((line.strip().removeprefix(f"{name}=") for line in text.splitlines() if line.strip().startswith(f"{name}=")), "")


def nice(node: OneNode, number: int) -> str:
    return node.run("squeue", "--noheader", f"--jobs={number}", "--format=%y").stdout.split()[0]


def test_the_scorer_sets_notes_and_order_on_waiting_jobs_and_undoes_them(node: OneNode, commands: Run, tmp_path: Path) -> None:
    plain = node.submit("--begin=now+1hour", "--job-name=a|b\nc", "--nice=50", "--gres=gpu:2", user="games", script="true")
    array = node.submit("--begin=now+1hour", "--array=1-9%2", "--time=30", user="news", script="true")
    blocker = node.submit("--exclusive", user="games", script="sleep 60")
    choice = Choice(order="nice", note="admin_comment")
    with answering(tmp_path / "s") as service, held(tmp_path / "m.json") as memory:
        client = Client(tmp_path / "s", 5.0)
        report = score(memory, client, commands, choice, Limits(), gpus_tracked=True)
        assert report.failed == []
        assert [asked["job_name"] for asked in service.asked if asked["job_id"] == str(plain)] == ["a|b\nc"]
        assert shown(node, plain, "AdminComment") == NOTE
        assert (nice(node, plain), nice(node, array)) == ("7550", "6508")
        assert shown(node, array, "AdminComment") == NOTE
        assert "TimeLimit=00:30:00" in node.run("scontrol", "show", "job", str(array)).stdout
        assert score(memory, client, commands, choice, Limits(), gpus_tracked=True).changed == 0
        undo(memory, commands, Limits())
        assert (shown(node, plain, "AdminComment"), nice(node, plain), nice(node, array)) == ("", "50", "0")
    node.run("scancel", str(blocker))


def test_the_scorer_orders_by_site_factor_and_by_priority(node: OneNode, commands: Run, tmp_path: Path) -> None:
    numbers = [node.submit("--begin=now+1hour", f"--job-name={name}", user="games", script="true") for name in ("long", "short")]
    with answering(tmp_path / "s") as service:
        service.forecasts = {"long": {"p50_s": 4000.0, "p90_s": 5000.0}}
        for order in ("site_factor", "priority"):
            with held(tmp_path / f"{order}.json") as memory:
                score(memory, Client(tmp_path / "s", 5.0), commands, Choice(order=order), Limits(), gpus_tracked=True)
                long, short = (int(node.run("squeue", "--noheader", f"--jobs={n}", "--format=%Q").stdout) for n in numbers)
                assert short - long == round(1000 * 5.458)  # log2(4001 / 91)
                undo(memory, commands, Limits())
                assert len({node.run("squeue", "--noheader", f"--jobs={n}", "--format=%Q").stdout for n in numbers}) == 1


def test_the_version_of_this_slurm_decides_about_plans(node: OneNode, commands: Run) -> None:
    refused = plan_refused(commands(["scontrol", "--version"]), commands(["scontrol", "show", "config"]))
    assert refused is not None


def test_a_command_that_fails_says_what_slurm_said(commands: Run) -> None:
    with pytest.raises(SlurmCommandError, match="Invalid job id specified"):
        commands(["scontrol", "update", "JobId=999999", "Nice=5"])
    with pytest.raises(SlurmCommandError, match="no-such-command is not on the PATH"):
        commands(["no-such-command"])


def test_the_feeder_tells_the_life_of_jobs_and_writes_the_same_jobs_into_the_log(
    node: OneNode, commands: Run, tmp_path: Path
) -> None:
    start_s = time.time()
    done = node.submit("--job-name=a|b\nc", "--gres=gpu:2", "--time=5", user="games", script="sleep 1")
    failed = node.submit("--nice=10", "--job-name=failed", user="news", script="sleep 1; exit 3")
    array = node.submit("--array=1-2", "--job-name=tasks", user="news", script="sleep 1")
    cancelled = node.submit("--begin=now+1hour", "--job-name=cancelled", user="news", script="true")
    with answering(tmp_path / "s") as service, held(tmp_path / "m.json") as memory:
        client = Client(tmp_path / "s", 5.0)
        tell_events(memory, client, commands, time.time(), 60.0, gpus_tracked=True)
        node.run("scancel", str(cancelled))
        node.wait_until_idle(60)
        wanted = {str(done), str(failed), f"{array}_1", f"{array}_2"}
        while wanted - {event["job_id"] for event in service.events if event["event"] == "ended"}:
            assert time.time() < start_s + 60  # slurmctld tells slurmdbd some seconds later
            time.sleep(0.5)
            tell_events(memory, client, commands, time.time() + 1, 60.0, gpus_tracked=True)
        events = [event for event in service.events if event["submit_time"] >= int(start_s)]
        count = len(service.events)
        tell_events(memory, client, commands, time.time() + 1, 60.0, gpus_tracked=True)
        assert len(service.events) == count
    by_job: dict[str, list[str]] = {}
    for event in events:
        by_job.setdefault(event["job_id"], []).append(event["event"])
    life = ["submitted", "started", "ended"]
    assert by_job[str(done)] == by_job[str(failed)] == by_job[f"{array}_1"] == by_job[f"{array}_2"] == life
    assert {event["state"] for event in events if event["job_id"] == str(failed) and event["event"] == "ended"} == {"FAILED"}
    assert next(event["job_name"] for event in events if event["job_id"] == str(done)) == "a|b\nc"

    written = write_log(tmp_path / "log", commands, time.time() + 1, days=1)
    assert sum(written.values()) >= 4
    slurm_sacct = pytest.importorskip("runcast.data.sources.slurm_sacct")
    from runcast.data.cluster import Cluster, Source

    files = sorted((tmp_path / "log").glob("sacct-*.txt"))
    cluster = Cluster(name="onenode", source=Source(format="slurm_sacct", paths=("log/*",)), time_zone="UTC", gpus_tracked=True)
    rows = {row["job_id"]: row for path in files for batch in slurm_sacct.read(path, cluster) for row in batch.jobs.to_pylist()}
    records, unreadable = read_records(commands(sacct_command(start_s - 1, time.time() + 1, "<>")), "<>")
    assert unreadable == []
    told = [news.event for news in news_of(records, {}, {}, gpus_tracked=True) if news.event["event"] == "ended"]
    names = (
        "user",
        "group",
        "account",
        "queue",
        "qos",
        "work_dir",
        "gpu_count",
        "gpu_model",
        "cpu_count",
        "mem_mib",
        "node_count",
        "time_limit_s",
    )
    assert len(told) >= 4
    for event in told:
        row = rows[event["job_id"]]
        assert {name: event.get(name) for name in names} == {name: row[name] for name in names}
        assert event["submit_time"] == row["submit_time"].timestamp()
        assert event["end_time"] == row["end_time"].timestamp()
        assert event["state"].split()[0] == row["state"]


def test_the_feeder_reads_jobs_of_hostile_names_as_what_they_are(node: OneNode, commands: Run, tmp_path: Path) -> None:
    start_s = time.time()
    hostile = [name for name in HOSTILE_NAMES.values() if len(name.encode("utf-8", "surrogateescape")) < 1024]
    blocker = node.submit("--exclusive", user="news", script="sleep 60")  # they wait: sacct names a job once it could start
    numbers = {str(node.submit(f"--job-name={name}", user="games", script="true")) for name in [*hostile, "plain"]}
    with answering(tmp_path / "s") as service, held(tmp_path / "m.json") as memory:
        client = Client(tmp_path / "s", 5.0)
        while numbers - {event["job_id"] for event in service.events}:
            assert time.time() < start_s + 60
            time.sleep(0.5)
            report = tell_events(memory, client, commands, time.time() + 1, 60.0, gpus_tracked=True)
            assert (report.refused, report.unreadable) == (0, 0)
        new = [event for event in service.events if event["submit_time"] >= int(start_s)]
    assert len(hostile) >= 10
    expected = {(str(blocker), "news"), *((number, "games") for number in numbers)}
    assert {(event["job_id"], event["user"]) for event in new} == expected
    assert "99" not in {event["job_id"] for event in service.events}
    write_log(tmp_path / "log", commands, time.time() + 1, days=1)
    slurm_sacct = pytest.importorskip("runcast.data.sources.slurm_sacct")
    from runcast.data.cluster import Cluster, Source

    source = Source(format="slurm_sacct", paths=("*",))
    cluster = Cluster(name="c", source=source, time_zone="UTC", gpus_tracked=True)
    batches = [batch for path in (tmp_path / "log").iterdir() for batch in slurm_sacct.read(path, cluster)]
    names = {job["job_id"]: (job["user"], job["job_name"]) for batch in batches for job in batch.jobs.to_pylist()}
    assert numbers <= set(names)
    assert {user for user, _ in names.values()} <= {"games", "news"}
    told = {event["job_id"]: event.get("job_name") for event in new if "\udcff" not in event.get("job_name", "")}
    assert {number: name for number, (_, name) in names.items() if number in told} == told


def test_both_run_from_the_command_line(node: OneNode, commands: Run, tmp_path: Path) -> None:
    number = node.submit("--begin=now+1hour", "--job-name=waits", user="games", script="true")
    environment = {**node.environment, "PYTHONPATH": str(Path(__file__).parents[3] / "src")}

    def python(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", f"runcast.scheduler.slurm.{module}", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    socket, memory = f"--socket={tmp_path}/s", f"--memory={tmp_path}/m.json"
    with answering(tmp_path / "s") as service:
        dry = python("scorer", socket, memory, "--note=admin_comment", "--dry-run")
        assert f"scontrol update JobId={number} 'AdminComment={NOTE}'" in dry.stdout
        assert python("scorer", socket, memory, "--note=admin_comment").returncode == 0
        assert shown(node, number, "AdminComment") == NOTE
        assert "1 changed" in python("scorer", memory, "--undo").stderr
        assert shown(node, number, "AdminComment") == ""
        refused = python("scorer", socket, memory, "--plan")
        assert (refused.returncode, "--plan is refused: " in refused.stderr) == (2, True)
        told = python("feeder", "events", socket, f"--memory={tmp_path}/f.json", "--gpus-tracked")
        assert told.returncode == 0, told.stderr
        assert service.events
    logged = python("feeder", "log", f"--folder={tmp_path}/log", "--days=1")
    assert logged.returncode == 0, logged.stderr
    assert (tmp_path / "log" / "sacct-open.txt").exists()
    failed = python("scorer", socket, memory, "--note=admin_comment")
    assert (failed.returncode, "refused: " in failed.stderr) == (9, True)
