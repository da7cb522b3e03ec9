"""The command line as a person uses it: a small made-up SWF log, real stages, real files; results read back as JSON."""

import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from runcast.cli import app, main
from runcast.data.cluster import read_cluster
from runcast.data.errors import ClusterFileError, NoFolder, SourceError
from runcast.data.lake import Lake
from runcast.data.settings import read_settings
from runcast.evaluation.errors import NothingServed
from runcast.night import MODEL_KINDS
from runcast.registry.store import open_store
from runcast.scheduler.bundle import make_current
from runcast.training.kinds import MODELS

CLUSTER = """
description: A made-up log of three users
source: {format: swf, paths: ["%s"]}
time_zone: Europe/Stockholm
training: {min_jobs: 200, gbdt: {trees: 40}}
evaluation: {min_test_jobs: 50}
"""
START_S = 1_767_225_600  # 2026-01-01 00:00 UTC


def write_log(path: Path, jobs: int = 1500) -> None:
    """Write a log in which user 1 always runs 600 s, user 2 a tenth of the limit, and user 3 one of two lengths."""
    draw = np.random.default_rng(3)
    lines = [f"; UnixStartTime: {START_S}", "; TimeZoneString: Europe/Stockholm"]
    for number in range(jobs):
        user = int(draw.integers(1, 4))
        limit_s = int(draw.choice([3600, 7200, 14400]))
        runtime_s = {1: 600, 2: limit_s // 10, 3: int(draw.choice([30, 3000]))}[user]
        lines.append(f"{number + 1} {number * 600} 5 {runtime_s} 4 -1 -1 4 {limit_s} -1 1 {user} 1 {user} 1 1 -1 -1")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home with one night of the made-up cluster `small` and a cluster file that is refused."""
    folder = tmp_path_factory.mktemp("runcast")
    write_log(folder / "small.swf")
    (folder / "clusters").mkdir()
    (folder / "clusters" / "small.yaml").write_text(CLUSTER % (folder / "small.swf"))
    (folder / "clusters" / "barren.yaml").write_text(CLUSTER % (folder / "small.swf") + "refused: it holds no runtime\n")
    return folder


@pytest.fixture
def run(home, monkeypatch):
    """Run a command in that home and return its result."""
    monkeypatch.setenv("RUNCAST_HOME", str(home / "var"))
    monkeypatch.setenv("RUNCAST_CLUSTERS", str(home / "clusters"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def call(*words: str, given: str | bytes | None = None):
        return CliRunner().invoke(app, list(words), input=given, catch_exceptions=False)

    return call


@pytest.fixture(scope="module")
def night(home):
    """The whole night, run once through the command line; its records by stage."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNCAST_HOME", str(home / "var"))
        patch.setenv("RUNCAST_CLUSTERS", str(home / "clusters"))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        done = CliRunner().invoke(
            app, ["nightly", "--cluster", "small", "--date", "2026-01-11", "--json"], catch_exceptions=False
        )
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_night_goes_through_every_stage(night):
    assert list(night) == [
        "ingest", "quality", "features", "train_cart", "train_gbdt", "train_runcast", "evaluate", "register", "promote", "export", "drift",
    ]  # fmt: skip


def test_a_night_reads_nothing_after_its_end(night):
    # The day ends at 23:00 UTC, 263 h after the first submission: time for 6 * 263 submissions, more than there are.
    assert night["ingest"]["ended"] + night["ingest"]["open"] == 1500
    assert night["ingest"]["rows_in"] == 1500


def test_models_are_registered_and_the_better_one_is_exported(night):
    assert set(night["register"]["versions"]) == {"cart", "gbdt", "runcast"}
    assert Path(night["export"]["bundle"]).is_dir()


def test_the_bundle_answers_like_the_log_behaves(run, home, night):
    bundle = str(home / "var" / "bundles" / "small" / "current")
    asked = [
        {"user": "1", "cpu_count": 4, "time_limit_s": 3600, "submit_time": "2026-01-12T10:00:00Z", "job_name": "1", "queue": "1"},
        {"user": "2", "cpu_count": 4, "time_limit_s": 7200, "submit_time": "2026-01-12T10:00:00Z", "job_name": "2", "queue": "1"},
    ]
    done = run("predict", "--bundle", bundle, given="".join(json.dumps(job) + "\n" for job in asked))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == 0
    assert answers[0]["p50_s"] == pytest.approx(600, rel=0.05)
    assert answers[1]["p50_s"] == pytest.approx(720, rel=0.05)
    assert all(answer["p50_s"] <= answer["p90_s"] for answer in answers)


def test_lines_that_are_no_json_are_called_that_whatever_their_bytes(run, home, night):
    bundle = str(home / "var" / "bundles" / "small" / "current")
    done = run("predict", "--bundle", bundle, given=b'rubbish\n{"user": "\xff"}\n' + b"[" * 100_000 + b'\n{"submit_time": 1e9}\n')
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line.get("error", "answered")[:9] for line in lines] == ["not JSON:"] * 3 + ["answered"]
    assert done.exit_code == 3


def test_a_job_that_cannot_be_read_gets_an_error_line_and_the_others_their_answers(run, home, night):
    bundle = str(home / "var" / "bundles" / "small" / "current")
    done = run(
        "predict",
        "--bundle",
        bundle,
        given='{"submit_time": "2026-01-12T10:00:00Z"}\n\n{"submit_time": 1, "cpu_count": "many"}\nrubbish\n'
        '{"submit_time": 1, "cpu_count": NaN}\n',
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == 3
    assert [line.get("line") for line in lines] == [None, 3, 4, 5], "lines of the input, blank ones counted"
    assert ["error" in line for line in lines] == [False, True, True, True]
    assert "cpu_count" in lines[1]["error"]
    assert "NaN is no JSON number" in lines[3]["error"]


def test_replay_writes_one_row_per_test_job_and_predictor(run, home, night):
    file = home / "predictions.parquet"
    done = run("replay", "--cluster", "small", "--test-share", "0.2", "--every", "once", "--predictions", str(file), "--json")
    assert done.exit_code == 0, done.output
    result, table = json.loads(done.stdout), pq.read_table(file)
    assert table.column_names == [
        "cluster", "job_key", "job_id", "submit_time", "runtime_s", "predictor", "p50_s", "p90_s", "point_s", "confidence",
    ]  # fmt: skip
    assert result["jobs"] == 300  # a fifth of 1500
    assert {"request", "last_two", "nearest_median", "cart", "gbdt"} <= set(result["predictors"])
    assert table.num_rows == 300 * len(result["predictors"])
    assert set(result["coverage"]["gbdt"]) == {"0.089", "0.108"}
    assert result["predictors"]["gbdt"]["all"]["mdape"] == pytest.approx(mdape(table, "gbdt"), abs=1e-9)


def mdape(table, predictor):
    """Compute the median percentage error from the file alone, as a reader of it would."""
    chosen = np.array(table["predictor"].to_pylist()) == predictor
    point_s, runtime_s = table["point_s"].to_numpy()[chosen], table["runtime_s"].to_numpy()[chosen]
    return float(np.median(np.abs(point_s - runtime_s) / runtime_s))


def test_status_shows_the_latest_night(run, night):
    rows = json.loads(run("status", "--json").stdout)["nights"]
    assert [(row["cluster"], row["day"], row["model"]) for row in rows] == [("small", "2026-01-11", kind) for kind in MODEL_KINDS]
    assert "small" in run("status").stdout


def test_status_names_the_bundle_that_serves_now(run, home, night):
    bundles = home / "var" / "bundles" / "small"
    before, other = (bundles / "current").readlink(), bundles / "20260101T000000Z-other"
    shutil.copytree(bundles / before, other)
    try:
        make_current(bundles, other.name)  # what a rollback does
        assert {row["bundle"] for row in json.loads(run("status", "--json").stdout)["nights"]} == {str(other)}
    finally:
        make_current(bundles, before.name)
        shutil.rmtree(other)


def test_a_night_ends_with_the_page_of_all_clusters(run, home, night):
    page = home / "var" / "report" / "index.html"
    assert 'href="small/2026-01-11/report.html"' in page.read_text()
    assert night["export"]["model_version"] in page.read_text()
    page.unlink()
    assert run("status", "--html").stdout.strip().replace("\n", "") == str(page)
    assert page.exists()


def test_status_says_what_drifts(run, home, night):
    record = home / "var" / "nights" / "small" / "2026-01-11" / "drift.json"
    before = record.read_text()
    assert json.loads(before)["alarm"] is None
    record.write_text(json.dumps({**json.loads(before), "drifting": ["mem_mib is 0.60 from the window before, limit 0.45"]}))
    try:
        assert "small, drift: mem_mib is 0.60 from the window before" in run("status").stdout
    finally:
        record.write_text(before)


def test_status_says_what_failed(run, home, night):
    failure = home / "var" / "nights" / "small" / "2026-01-11" / "failure.json"
    failure.write_text(
        json.dumps({"stage": "export", "kind": "OSError", "error": "disk full", "at": "2026-01-12T00:00:00+00:00"})
    )
    try:
        assert "failed at export: disk full" in run("status").stdout
        assert {row["failure"] for row in json.loads(run("status", "--json").stdout)["nights"]} == {"failed at export: disk full"}
    finally:
        failure.unlink()


def test_every_kind_of_model_has_its_stage():
    assert MODEL_KINDS == MODELS


def test_the_report_stands_where_the_night_says(home, night):
    page = home / "var" / "report" / "small" / "2026-01-11" / "report.html"
    assert page.exists()
    assert "http://" not in page.read_text().replace("http://www.w3.org", "")  # nothing is fetched


def test_clusters_check_shows_three_jobs_as_understood_with_their_units(run):
    text = run("clusters", "check", "small").stdout
    assert "job 1 (small.swf:" in text
    assert "submitted 20" in text
    assert "asked for 4 CPUs, limit" in text
    assert "COMPLETED: learnt from as it ran" in text
    (row,) = json.loads(run("clusters", "check", "small", "--json").stdout)["clusters"]
    assert (len(row["preview"]["shown"]), row["preview"]["problem"], row["problem"]) == (3, None, None)


def test_a_log_of_which_nothing_can_be_read_is_not_ready(run, home):
    (home / "odd.swf").write_text("; UnixStartTime: 1000000000\n" + "no record\n" * 20)
    file = home / "clusters" / "odd.yaml"
    file.write_text(CLUSTER % (home / "odd.swf"))
    try:
        done = run("clusters", "check", "odd")
        assert done.exit_code == 3
        assert "20 of its first 20 records are refused (wrong_field_count 20)" in " ".join(done.stdout.split())
    finally:
        file.unlink()


@pytest.mark.parametrize("name", ["stray.yml", "STRAY.YAML"])
def test_cluster_file_that_is_passed_over_is_named(run, home, name):
    file = home / "clusters" / name
    file.write_text(CLUSTER % (home / "small.swf"))
    try:
        done = run("clusters", "check")
        assert done.exit_code == 3
        assert f"{name}: is passed over, since cluster files end in .yaml; rename it" in " ".join(done.stdout.split())
        assert run("clusters", "check", "small").exit_code == 0
    finally:
        file.unlink()


def test_folder_without_a_cluster_file_is_no_success(run, tmp_path, monkeypatch):
    monkeypatch.setenv("RUNCAST_CLUSTERS", str(tmp_path))
    with pytest.raises(ClusterFileError, match=r"no cluster file \(\*.yaml\) there"):
        run("clusters", "check")


def test_what_is_piped_is_not_wrapped(home):
    long = home / ("x" * 90)
    long.mkdir()
    (long / "small.yaml").write_text(CLUSTER % (home / "none.swf"))
    env = {**os.environ, "RUNCAST_HOME": str(home / "var"), "RUNCAST_CLUSTERS": str(long)}
    env.pop("COLUMNS", None)
    done = subprocess.run(
        [sys.executable, "-m", "runcast", "clusters", "check"], env=env, capture_output=True, text=True, check=False
    )
    assert any(str(home / "none.swf") in line and str(long / "small.yaml") in line for line in done.stdout.splitlines())
    assert all(line == line.rstrip() or len(line) < 200 for line in done.stdout.splitlines())


def test_clusters_list_names_every_file_and_what_is_wrong(run):
    rows = {row["name"]: row for row in json.loads(run("clusters", "list", "--json").stdout)["clusters"]}
    assert rows["small"]["problem"] is None
    assert rows["barren"]["problem"] == "it holds no runtime"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nightly", "--cluster", "smal"], 2, "did you mean 'small'"),
        (["nightly", "--cluster", "barren"], 3, "it holds no runtime"),
        (["replay", "--cluster", "small", "--every", "hourly"], 2, "hourly"),
        (["predict", "--bundle", "nowhere"], 5, "nowhere"),
    ],
)
def test_errors_are_one_message_and_an_exit_code_by_kind(run, words, code, message, monkeypatch, capsys):
    run("--help")  # sets the environment
    monkeypatch.setattr("sys.argv", ["runcast", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


def test_an_interrupted_night_says_how_to_go_on(run, monkeypatch, capsys):
    run("--help")  # sets the environment

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("runcast.night.run_stage", interrupted)
    monkeypatch.setattr("sys.argv", ["runcast", "nightly", "--cluster", "small", "--date", "2026-01-11"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert "interrupted: what had been written is whole. The same command again goes on" in " ".join(
        capsys.readouterr().err.split()
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["clusters", "check", "smal"], "did you mean 'small'?"),
        (["clusters", "check", "small", "zzz"], "no cluster file for zzz"),
        (
            ["replay", "--cluster", "small", "--from", "2026-01-05", "--to", "2026-01-01"],
            "--from 2026-01-05 is after --to 2026-01-01",
        ),
    ],
)
def test_what_is_mistyped_is_told(run, words, message):
    done = run(*words)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.replace("│", "").split())


def test_a_log_whose_files_are_all_empty_is_a_problem(run, home):
    (home / "empty.swf").touch()
    file = home / "clusters" / "hollow.yaml"
    file.write_text(CLUSTER % (home / "empty.swf"))
    try:
        done = run("clusters", "check", "hollow", "--json")
        answer = json.loads(done.stdout)
        assert (done.exit_code, answer["exit_code"], answer["error"]) == (3, 3, "not ready: hollow")
        assert answer["clusters"][0]["problem"] == "every file that source.paths names is empty"
    finally:
        file.unlink()


def test_status_of_a_home_without_a_night_says_so(run, tmp_path, monkeypatch):
    monkeypatch.setenv("RUNCAST_HOME", str(tmp_path))
    assert "No night has been run below" in run("status").stdout
    assert json.loads(run("status", "--json").stdout)["nights"] == []


@pytest.mark.parametrize(
    "words", [["ingest", "--cluster", "small"], ["ingest", "--cluster", "small", "--all", "--date", "2026-01-01"]]
)
def test_ingest_wants_one_way_to_name_what_is_loaded(run, words):
    assert run(*words).exit_code == 2


TODAY = dt.datetime.now(ZoneInfo("Europe/Stockholm")).date()


@pytest.mark.parametrize(
    "words",
    [
        ["ingest", "--date"], ["ingest", "--from"], ["ingest", "--from", "2026-01-01", "--to"],
        ["replay", "--as-of"], ["replay", "--from"], ["replay", "--to"], ["rejects", "--date"],
        *([command, "--date"] for command in ("quality", "features", "train", "evaluate", "nightly", "export", "weekly", "live")),
    ],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("day", ["", "20260111", "0001-01-01", "9999-12-31", f"{TODAY}"])
def test_every_command_refuses_a_day_that_is_none_or_is_not_over_and_writes_nothing(run, home, words, day):
    (home / "var").mkdir(exist_ok=True)
    before = sorted(home.rglob("*"))
    done = run(*words[:1], "--cluster", "small", *words[1:], day)
    assert done.exit_code == 2
    assert re.search("is not over|has not begun|is not a day|is outside", " ".join(done.stderr.replace("│", " ").split()))
    assert sorted(home.rglob("*")) == before


def test_a_night_before_the_log_begins_says_so_and_keeps_only_that(run, home, night):
    with pytest.raises(SourceError, match=r"by the end of 2025-12-31: the log begins on 2026-01-01\. Nothing was written"):
        run("nightly", "--cluster", "small", "--date", "2025-12-31")
    kept = home / "var" / "nights" / "small" / "2025-12-31"
    assert [path.name for path in kept.iterdir()] == ["failure.json"]
    shutil.rmtree(kept)


def test_a_line_nested_too_deep_gets_an_error_line_and_the_next_its_answer(run, home, night):
    bundle = str(home / "var" / "bundles" / "small" / "current")
    done = run("predict", "--bundle", bundle, given="[" * 100_000 + '\n{"submit_time": "2026-01-12T10:00:00Z"}\n')
    assert done.exit_code == 3
    assert ["error" in json.loads(line) for line in done.stdout.splitlines()] == [True, False]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"time_zon: UTC\n", b"a: [b\n", b""])
def test_a_broken_cluster_file_stops_its_own_cluster_only(run, home, night, content):
    broken = home / "clusters" / "broken.yaml"
    broken.write_bytes(content)
    try:
        assert run("ingest", "--cluster", "small", "--all").exit_code == 0
        assert run("status").exit_code == 0
        assert run("clusters", "check", "small").exit_code == 0
        rows = {row["name"]: row for row in json.loads(run("clusters", "list", "--json").stdout)["clusters"]}
        assert "broken.yaml" in rows["broken"]["problem"]
        with pytest.raises(ClusterFileError, match=r"broken\.yaml"):
            run("ingest", "--cluster", "broken", "--all")
    finally:
        broken.unlink()


READ_A_HOME = (
    ["status"], ["status", "--json"], ["status", "--html"], ["status", "-c", "small"], ["rollback", "-c", "small"],
    ["rejects", "-c", "small"],
    ["rejects", "replay", "-c", "small"], ["prune", "-c", "small", "--dry-run"],
    *([stage, "-c", "small", "--date", "2026-01-09"] for stage in ("quality", "features", "train", "evaluate", "export", "live", "weekly")),
)  # fmt: skip
MAKE_A_HOME = (
    ["demo"], ["ingest", "-c", "small", "--all"], ["replay", "-c", "small"], ["nightly", "-c", "small"],
    ["nightly", "-c", "small", "--date", "2026-01-09"], ["worth", "-c", "small", "--predictions", "p.parquet"],
)  # fmt: skip


@pytest.mark.parametrize("words", [*READ_A_HOME, *MAKE_A_HOME], ids=" ".join)
@pytest.mark.parametrize("below", ["", "home"], ids=["a file", "in a file"])
def test_a_home_that_is_no_folder_is_refused_by_every_command(run, tmp_path, monkeypatch, words, below):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("RUNCAST_HOME", str(tmp_path / "file" / below))
    with pytest.raises(NoFolder, match=r"RUNCAST_HOME is \S*file\S*, which cannot be read as a folder \(Not a directory\)"):
        run(*words)


@pytest.mark.parametrize("words", READ_A_HOME, ids=" ".join)
def test_a_home_that_is_not_there_is_refused_and_not_made_by_what_reads_it(run, tmp_path, monkeypatch, words):
    monkeypatch.setenv("RUNCAST_HOME", str(tmp_path / "varr"))
    with pytest.raises(NoFolder, match=r"RUNCAST_HOME is \S*varr, and nothing is there"):
        run(*words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_home_that_cannot_be_read_is_refused(run, tmp_path, monkeypatch):
    (tmp_path / "shut").mkdir(mode=0)
    monkeypatch.setenv("RUNCAST_HOME", str(tmp_path / "shut"))
    with pytest.raises(NoFolder, match="Permission denied"):
        run("status")


def test_status_of_an_unknown_cluster_is_an_error(run, night):
    with pytest.raises(ClusterFileError, match="did you mean 'small'"):
        run("status", "--cluster", "smal")


@pytest.mark.parametrize("schedule", ["99 2 * * *", "nightly", "30 2 * *"])
@pytest.mark.parametrize(
    ("text", "where"),
    [
        (CLUSTER + "schedule: '%s'\n", "7: schedule"),
        (CLUSTER.replace("{min_test_jobs: 50}", "{replay_schedule: '%s'}"), "6: evaluation.replay_schedule"),
    ],
    ids=["of nights", "of replays"],
)
def test_a_schedule_that_is_no_cron_expression_is_refused_with_its_line(tmp_path, schedule, text, where):
    (tmp_path / "one.yaml").write_text(text % ("log.swf", schedule))
    with pytest.raises(ClusterFileError, match=rf"one\.yaml:{where}: .*no cron expression"):
        read_cluster(tmp_path / "one.yaml")


@pytest.fixture
def live_cluster(home):
    """The same log under the name `watched`, whose cluster file says where served forecasts are kept."""
    file = home / "clusters" / "watched.yaml"
    file.write_text(CLUSTER % (home / "small.swf") + "export: {served: ['${RUNCAST_HOME}/served/*.jsonl']}\n")
    yield "watched"
    file.unlink()


def test_live_accuracy_is_judged_logged_and_shown(run, home, night, live_cluster):
    """Each job that ended on the 9th was told exactly its runtime, and double of it as p90; one line is torn."""
    assert run("ingest", "--cluster", live_cluster, "--date", "2026-01-09").exit_code == 0
    jobs = Lake(home / "var" / "lake").read_ended(live_cluster, ["2026-01-09"]).to_pylist()
    served = home / "var" / "served" / "all.jsonl"
    served.parent.mkdir(exist_ok=True)
    told = {"cluster": live_cluster, "confidence": 0.5, "source": "runcast", "model_version": "runcast-2026-01-08-00000000"}
    lines = [
        {**told, "job_key": job["job_key"], "p50_s": job["runtime_s"], "p90_s": 2 * job["runtime_s"], "point_s": job["runtime_s"]}
        | dict.fromkeys(("submit_time", "answered_at"), job["submit_time"].isoformat())
        for job in jobs
    ]
    served.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"cluster"')
    found = json.loads(run("live", "--cluster", live_cluster, "--date", "2026-01-09", "--json").stdout)
    assert (found["answered"], found["all"]["error_factor"], found["served"]["rejected"]) == (len(jobs), 1.0, 1)
    assert "within 25 % 100.0 %" in run("live", "--cluster", live_cluster, "--date", "2026-01-09").stdout
    shown = run("live", "-c", live_cluster, "--date", "2026-01-09").stdout
    assert "1 of 145 lines refused: not JSON 1; the first is all.jsonl:145" in shown  # a job every 600 s: 144 a day
    client = open_store(read_settings({"RUNCAST_HOME": str(home / "var")})).client
    history = client.get_metric_history(found["run"], "live/error_factor")
    assert [(one.step, one.value) for one in history] == [(20462, 1.0)], "20,462 days after 1970; three looks are one point"


def test_live_accuracy_of_a_cluster_that_keeps_no_served_forecasts_says_what_to_write(run, night):
    with pytest.raises(NothingServed, match=r"Name the files of `runcast serve` as export\.served"):
        run("live", "--cluster", "small", "--date", "2026-01-11")


def test_a_dry_run_of_prune_says_what_would_go_and_deletes_nothing(run, home, night):
    """Retention counts from today, and the only night, of January 2026, is named by aliases and by the bundle: everything stays."""
    before = sorted(path for path in (home / "var").rglob("*") if "mlflow.db" not in path.name)
    record = json.loads(run("prune", "--cluster", "small", "--dry-run", "--json").stdout)
    assert sorted(path for path in (home / "var").rglob("*") if "mlflow.db" not in path.name) == before
    assert (record["is_dry"], record["versions"], record["folders"]) == (True, [], [])


def test_a_replay_as_of_a_day_sees_nothing_later(run, home, night):
    done = json.loads(run("replay", "--cluster", "small", "--as-of", "2026-01-06", "--json").stdout)
    assert done["data"]["test_last_submit"] < "2026-01-06T23:00:00"
    assert done["command"].endswith("--as-of 2026-01-06")
