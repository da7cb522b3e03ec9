"""How commands end, as processes: the exit code by kind, and with --json one JSON object on standard output whatever happens."""

import importlib
import json
import os
import pkgutil
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import runcast
from runcast.data.errors import Exit, RuncastError
from runcast.outcome import HINTS

ROOT = Path(__file__).parents[1]
CLUSTER = 'source: {format: swf, paths: ["%s"]}\ntime_zone: UTC\n'


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A home with one cluster file, whose log is not there."""
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "small.yaml").write_text(CLUSTER % (tmp_path / "log.swf"))
    (tmp_path / "file").write_text("")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "RUNCAST_"))}
    return {**kept, "RUNCAST_HOME": str(tmp_path / "var"), "RUNCAST_CLUSTERS": str(tmp_path / "clusters")}


def run(environment: dict[str, str], *words: str) -> tuple[int, Any, str]:
    """Run `runcast --json` as a process; returns the exit code, the one object on standard output, and standard error."""
    command = [sys.executable, "-m", "runcast", *words, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (["nightly"], 2, "UsageError"),
        (["nightly", "--clster", "small"], 2, "UsageError"),
        (["nihgtly"], 2, "UsageError"),
        (["clusters"], 2, "UsageError"),
        (["clusters", "check", "smal"], 2, "UsageError"),
        (["nightly", "--cluster", "smal"], 2, "UnknownCluster"),
        (["ingest", "--cluster", "small", "--date", "2026-02-30"], 2, "UsageError"),
        (["clusters", "check"], 3, "ClusterFileError"),
        (["nightly", "--cluster", "small", "--date", "2026-01-01"], 3, "SourceError"),
        (["predict", "--bundle", "nowhere"], 5, "BundleMissing"),
        (["status"], 8, "NoFolder"),
        (["serve", "--bundle", "nowhere"], 2, "UsageError"),
        (["serve", "--bundle", "nowhere", "--socket", "s", "--token-file", "none"], 3, "ServeError"),
        (["slurm-score", "--memory", "m.json"], 2, "UsageError"),
        (["kubernetes-webhook", "--port", "99999"], 2, "UsageError"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_failure_is_one_json_object_with_its_code(environment, tmp_path, monkeypatch, words, code, kind) -> None:
    monkeypatch.chdir(tmp_path)
    returned, answer, said = run(environment, *words)
    assert (returned, answer["exit_code"], answer["kind"]) == (code, code, kind), said
    assert answer["error"]
    assert answer["stops"] == []
    assert answer["hint"] == HINTS[Exit(code)]
    assert "Traceback" not in said


def test_a_home_that_is_a_file_is_the_disks_code(environment, tmp_path) -> None:
    returned, answer, _ = run(environment | {"RUNCAST_HOME": str(tmp_path / "file")}, "nightly", "--cluster", "small")
    assert (returned, answer["kind"]) == (8, "NoFolder")


def test_an_unexpected_fault_keeps_its_traceback_and_is_one_object_too(environment) -> None:
    code = (
        "import sys, runcast.cli\n"
        "def broken(*_): print('noise'); raise ZeroDivisionError('by zero')\n"
        "runcast.cli.read_files = broken\n"
        "sys.argv = ['runcast', 'clusters', 'list', '--json']\n"
        "runcast.cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["kind"], answer["error"]) == (1, "ZeroDivisionError", "by zero")
    assert "noise" in done.stderr
    assert "Traceback" in done.stderr


def test_what_a_child_prints_does_not_reach_standard_output(environment) -> None:
    code = (
        "import subprocess, sys, runcast.cli\n"
        "def noisy(*_): subprocess.run(['echo', 'noise']); return {}\n"
        "runcast.cli.read_files = noisy\n"
        "sys.argv = ['runcast', 'clusters', 'list', '--json']\n"
        "runcast.cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (json.loads(done.stdout), done.stderr) == ({"clusters": []}, "noise\n")


@pytest.mark.slow
def test_a_whole_night_prints_one_object_and_nothing_else(environment, tmp_path) -> None:
    """400 jobs of ten minutes, 20 minutes apart: whatever the libraries of a night print goes to standard error."""
    lines = ["; UnixStartTime: 1767225600"]  # 2026-01-01 00:00 UTC
    lines += [f"{n + 1} {n * 1200} 5 {600 + n % 7} 4 -1 -1 4 3600 -1 1 {n % 3} 1 {n % 3} 1 1 -1 -1" for n in range(400)]
    (tmp_path / "log.swf").write_text("\n".join(lines) + "\n")
    small = "training: {min_jobs: 100, gbdt: {trees: 10}, runcast: {trees: 9}}\nevaluation: {min_test_jobs: 30}\n"
    (tmp_path / "clusters" / "small.yaml").write_text(CLUSTER % (tmp_path / "log.swf") + small)
    returned, answer, said = run(environment, "nightly", "--cluster", "small", "--date", "2026-01-06")
    first, *_, last = answer
    assert (returned, first, last) == (0, "ingest", "drift"), said
    returned, answer, _ = run(environment, "status", "--nights", "14")
    assert (returned, [one["day"] for one in answer["nights"]]) == (0, ["2026-01-06"])
    assert answer["nights"][0]["valid_until"] is not None


def test_ctrl_c_is_130_and_one_object(environment) -> None:
    code = "import time, sys, runcast.cli\nruncast.cli.read_files = lambda _: (print('waiting', flush=True), time.sleep(60))\n"
    code += "sys.argv = ['runcast', 'clusters', 'list', '--json']\nruncast.cli.main()\n"
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr.readline() == "waiting\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, json.loads(out)["kind"], json.loads(out)["exit_code"]) == (130, "Interrupted", 130)


def test_version_is_printed(environment) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runcast", "--version"], env=environment, capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"runcast \d+\.\d+\.\d+\n", done.stdout)


def test_every_code_has_its_line_in_the_docs_and_a_hint() -> None:
    page = (ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    assert (
        [int(code) for code in re.findall(r"^\| (\d+) \|", page, re.M)]
        == [int(code) for code in Exit]
        == [int(code) for code in HINTS]
    )


def test_no_error_of_ours_ends_like_a_fault() -> None:
    for module in pkgutil.walk_packages(runcast.__path__, "runcast."):
        if module.name.endswith((".errors", ".client", ".commands", ".memory", ".pending", ".webhook")):
            importlib.import_module(module.name)

    def below(kind: type[RuncastError]) -> list[type[RuncastError]]:
        return [kind, *(one for child in kind.__subclasses__() for one in below(child))]

    kinds = below(RuncastError)
    assert len(kinds) > 40
    assert [kind for kind in kinds if kind.exit_code in (Exit.DONE, Exit.FAULT)] == []
