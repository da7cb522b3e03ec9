"""A good night, then a bad one: what the stop says, what it leaves alone, what serves on, and how an operator goes on from there.

One home, real stages, a real service beside it; the tests follow each other as the nights do.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from runcast.cli import app, main
from runcast.data.lake import Lake
from runcast.data.settings import Settings, read_settings
from runcast.night import run_stage
from runcast.records import read_failure, read_night
from runcast.registry.store import open_store

pytestmark = pytest.mark.slow
GOOD, BAD, NEXT = "2026-01-10", "2026-01-11", "2026-01-12"
CLUSTER = """
source: {format: swf, paths: ["%s"]}
time_zone: UTC
schedule: "30 2 * * *"
training: {min_jobs: 200, gbdt: {trees: 40}, runcast: {trees: 9, leaves: 7, scored_rows: 500}}
evaluation: {min_test_jobs: 50}
"""
JOB = {"user": "2", "cpu_count": 4, "time_limit_s": 7200, "submit_time": f"{NEXT}T10:00:00Z", "queue": "1"}
Run = Callable[..., Any]


def write_log(path: Path, queues: dict[int, int]) -> None:
    """A job each quarter of an hour from 1 to 11 January; `queues` by day, where it is not 1.

    User 1 runs for ten minutes, user 2 for a tenth of the limit, which no baseline sees, and user 3 for one of two times.
    """
    draw, lines = np.random.default_rng(3), ["; UnixStartTime: 1767225600"]
    for number in range(96 * 11):
        user, queue, limit_s = int(draw.integers(1, 4)), queues.get(number // 96 + 1, 1), int(draw.choice([3600, 7200, 14_400]))
        runtime_s = {1: 600, 2: limit_s // 10, 3: int(draw.choice([30, 3000]))}[user]
        lines.append(f"{number + 1} {number * 900} 3 {runtime_s} 4 -1 -1 4 {limit_s} -1 1 {user} 1 1 {queue} 1 -1 -1")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Cluster file, log and home; the environment names them while the module runs."""
    folder = tmp_path_factory.mktemp("stop")
    (folder / "clusters").mkdir()
    (folder / "clusters" / "hpc.yaml").write_text(CLUSTER % (folder / "log.swf"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNCAST_HOME", str(folder / "var"))
        patch.setenv("RUNCAST_CLUSTERS", str(folder / "clusters"))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield folder


def run(*words: str, given: str | None = None) -> Any:
    done = CliRunner().invoke(app, list(words), input=given, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


def refused(*words: str) -> int:
    """Run a command that fails, as its process would, and return its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["runcast", *words])
        with pytest.raises(SystemExit) as ended:
            main()
    return int(str(ended.value.code))


def night(day: str, *more: str) -> tuple[str, ...]:
    return ("nightly", "--cluster", "hpc", "--date", day, "--json", *more)


def registered(settings: Settings) -> dict[str, Any]:
    """All that the registry holds: versions with their aliases, and the runs of every experiment."""
    client = open_store(settings).client
    models = client.search_registered_models()
    runs = client.search_runs([one.experiment_id for one in client.search_experiments()])
    return {
        "aliases": {model.name: dict(model.aliases) for model in models},
        "versions": sorted((one.name, str(one.version)) for one in client.search_model_versions("")),
        "runs": sorted(one.info.run_id for one in runs),
    }


def trained(settings: Settings) -> list[str]:
    return sorted(str(path) for path in settings.models.rglob("*"))


@pytest.fixture(scope="module")
def good(folder: Path) -> dict[str, Any]:
    """The night of the good day, and what it left."""
    write_log(folder / "log.swf", {})
    records = json.loads(run(*night(GOOD)).stdout)
    settings = read_settings()
    return {
        "records": records,
        "registry": registered(settings),
        "models": trained(settings),
        "bundle": (settings.bundles / "hpc" / "current").readlink(),
        "answer": run("predict", "--bundle", str(settings.bundles / "hpc" / "current"), given=json.dumps(JOB)).stdout,
    }


@pytest.fixture(scope="module")
def ask(folder: Path, good: dict[str, Any]) -> Iterator[Callable[[], tuple[int, Any]]]:
    """Ask a service that was started after the good night."""
    where = folder / "s"
    command = [
        sys.executable,
        "-m",
        "runcast",
        "serve",
        "--bundle",
        str(folder / "var" / "bundles" / "hpc"),
        "--socket",
        str(where),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    with (folder / "serve.log").open("wb") as log, subprocess.Popen(command, env=environment, stderr=log, stdout=log) as service:

        def asked() -> tuple[int, Any]:
            connection = HTTPConnection("localhost", timeout=20)
            connection.sock = socket(AF_UNIX, SOCK_STREAM)
            connection.sock.connect(str(where))
            try:
                connection.request("POST", "/v1/predict", json.dumps(JOB))
                reply = connection.getresponse()
                return reply.status, json.loads(reply.read())
            finally:
                connection.close()

        try:
            deadline = time.monotonic() + 60
            while not where.exists() and service.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            yield asked
        finally:
            service.terminate()


def test_a_good_night_makes_a_champion_that_serves(good: dict[str, Any], ask: Callable[[], tuple[int, Any]]) -> None:
    assert "champion" in {alias for aliases in good["registry"]["aliases"].values() for alias in aliases}
    assert ask() == (200, json.loads(good["answer"]))


def test_a_bad_day_stops_and_nothing_else_moves(
    folder: Path, good: dict[str, Any], ask: Callable[[], tuple[int, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(folder / "log.swf", {11: 7})
    code = refused(*night(BAD))
    printed, settings = capsys.readouterr(), read_settings()
    said, failure = printed.err, json.loads(printed.out)
    assert (code, failure["exit_code"], failure["kind"], failure["stops"]) == (
        4,
        4,
        "QualityStop",
        ["known_queues", "queue_renamed"],
    )
    assert f"hpc, {BAD}: nothing is trained, the champion stays." in said
    assert "known_queues: expected queues that were seen in the days before; found 1" in said
    assert f"runcast nightly --cluster hpc --date {BAD} --accept-quality REASON" in said
    assert (registered(settings), trained(settings)) == (good["registry"], good["models"])
    assert set(read_night(settings, "hpc", BAD)) == {"ingest"}
    assert (settings.bundles / "hpc" / "current").readlink() == good["bundle"]
    assert run("predict", "--bundle", str(settings.bundles / "hpc" / "current"), given=json.dumps(JOB)).stdout == good["answer"]
    assert ask() == (200, json.loads(good["answer"]))


def test_page_and_status_say_so(good: dict[str, Any]) -> None:
    page = (read_settings().reports / "index.html").read_text()
    assert "What served before goes on serving" in page
    assert "known_queues: expected queues that were seen in the days before; found 1" in page
    [row] = json.loads(run("status", "--json").stdout)["nights"]
    assert (row["day"], row["model"]) == (BAD, None)
    assert row["failure"].startswith("failed at quality: ")
    assert "known_queues" in run("status").stdout


def test_an_acceptance_needs_a_day_that_was_stopped_a_name_for_it_and_a_reason(
    good: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for day, reason, message in (
        (GOOD, "it is new", f"hpc, {GOOD}: no check has stopped this night"),
        (BAD, " \n", f"hpc, {BAD}: a reason is needed"),
    ):
        assert refused(*night(day, "--accept-quality", reason)) == 2
        assert message in capsys.readouterr().err
    done = CliRunner().invoke(app, ["nightly", "--cluster", "hpc", "--accept-quality", "it is new"])
    assert (done.exit_code, read_failure(read_settings(), "hpc", BAD) is not None) == (2, True)
    assert not list((read_settings().home / "quality").rglob("accepted"))


def test_put_right_it_is_the_night_that_was_never_bad(
    folder: Path, good: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(folder / "log.swf", {})
    run_stage("ingest", "hpc", BAD)
    judged = json.loads(run("quality", "--cluster", "hpc", "--date", BAD, "--json").stdout)
    assert (judged["passed"], judged["accepted"], read_failure(read_settings(), "hpc", BAD)) == (True, None, None)
    lake = Lake(read_settings().lake)
    monkeypatch.setenv("RUNCAST_HOME", str(folder / "never"))
    for day in (GOOD, BAD):
        run_stage("ingest", "hpc", day)
    other = Lake(read_settings().lake)
    assert lake.fingerprint("hpc") == other.fingerprint("hpc")
    files = [
        {path.relative_to(one.root): path.read_bytes() for path in one.root.rglob("*.parquet") if "features" not in path.parts}
        for one in (lake, other)
    ]
    assert files[0] == files[1]
    theirs = json.loads(run("quality", "--cluster", "hpc", "--date", BAD, "--json").stdout)
    assert {**theirs, "data_docs": ""} == {**judged, "data_docs": ""}


def test_an_accepted_day_is_trained_on_and_everyone_can_see_why(folder: Path, good: dict[str, Any]) -> None:
    write_log(folder / "log.swf", {11: 7})
    run("ingest", "--cluster", "hpc", "--date", BAD)
    assert refused("quality", "--cluster", "hpc", "--date", BAD) == 4
    records = json.loads(run(*night(BAD, "--accept-quality", "queue 7 <new> as announced")).stdout)
    accepted = records["quality"]["accepted"]
    assert (accepted["day"], accepted["reason"]) == (BAD, "queue 7 <new> as announced")
    assert records["quality"]["passed"] is False
    assert accepted["checks"] == records["quality"]["stopped_by"] == ["known_queues", "queue_renamed"]
    assert records["export"]["bundle"].rpartition("/")[2] != str(good["bundle"])
    page = (read_settings().reports / "index.html").read_text()
    assert "accepted although stopped by known_queues, queue_renamed</span>: queue 7 &lt;new&gt; as announced" in page
    line = f"hpc, night of {BAD}: accepted although stopped by known_queues, queue_renamed: queue 7 <new> as announced"
    assert line in " ".join(run("status").stdout.split())
    assert json.loads(run("quality", "--cluster", "hpc", "--date", BAD, "--json").stdout)["accepted"] == accepted, "it stays"


def test_what_was_not_accepted_stops_as_before(folder: Path, good: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """The accepted night, read again: now each of its jobs is told twice."""
    write_log(folder / "log.swf", {11: 7})
    with (folder / "log.swf").open("r+") as log:
        day = [line.partition(" ") for line in log.readlines()[-96:]]
        log.writelines(f"{int(number) + 5000} {rest}" for number, _, rest in day)
    run("ingest", "--cluster", "hpc", "--date", BAD)
    assert refused("quality", "--cluster", "hpc", "--date", BAD) == 4
    assert "doubled_jobs" in capsys.readouterr().err
