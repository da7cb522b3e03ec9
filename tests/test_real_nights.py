"""Whole nights and replays on small real logs, through the command line; the large ones are `make nights` and `make accuracy`."""

import json

import pytest
from typer.testing import CliRunner

from runcast.cli import app
from runcast.data.settings import EXAMPLES

pytestmark = [pytest.mark.traces, pytest.mark.slow]

#: log -> ended jobs that ran, of its NOTE.md or counted by hand (tests/data/test_public_logs.py)
LOGS = {"kalos": 800, "openb": 7221, "eagle": 1000, "venus_2vc": 1867, "philly_retries": 3034}


@pytest.fixture
def run(traces, tmp_path, monkeypatch):
    monkeypatch.setenv("RUNCAST_HOME", str(tmp_path / "var"))
    monkeypatch.setenv("RUNCAST_TRACES", str(traces))
    monkeypatch.setenv("RUNCAST_CLUSTERS", str(EXAMPLES))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return lambda *words: CliRunner().invoke(app, list(words), catch_exceptions=False)


@pytest.mark.parametrize("name", LOGS)
def test_a_night_and_a_replay_succeed(run, tmp_path, name):
    night = run("nightly", "--cluster", name, "--json")
    assert night.exit_code == 0, night.output
    records = json.loads(night.stdout)
    served = records["export"]["kind"]
    assert (tmp_path / "var" / "bundles" / name / "current").is_symlink()
    assert served in {"cart", "gbdt", "runcast", "nearest_median"}
    if not records["promote"]["champions"]:
        assert served == "nearest_median"  # no model has passed: the baseline serves

    replay = run("replay", "--cluster", name, "--test-share", "0.2", "--every", "once", "--json")
    assert replay.exit_code == 0, replay.output
    assert json.loads(replay.stdout)["jobs"] == pytest.approx(LOGS[name] * 0.2, abs=1)
