"""A small cluster of its own, and the steps of a night on it: what the crash tests kill.

Ten days of made-up jobs in SWF, models of three trees, a gate that all pass, so that every night promotes. The night of the 8th is
over and serves; the night of the 9th is the one that something happens to, and a rollback follows it.
"""

import datetime as dt
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

CLUSTER, BEFORE, NIGHT = "tiny", "2026-01-08", "2026-01-09"
_FILE = """\
source: {{format: swf, paths: ["{log}"]}}
time_zone: Europe/Stockholm
training:
  min_jobs: 100
  cart: {{max_depth: 3}}
  gbdt: {{trees: 3, leaves: 4}}
  runcast: {{trees: 3, leaves: 4, scored_rows: 1000, margin_jobs: 50}}
evaluation: {{min_test_jobs: 30, gates: [{{at_most: 1000, than_best_baseline: false}}]}}
"""

ASKED = (
    {"submit_time": "2026-01-11T08:00:00Z", "user": "1", "cpu_count": 4.0, "time_limit_s": 7200.0},
    {"submit_time": "2026-01-11T20:00:00Z", "user": "3", "cpu_count": 4.0},
    {"submit_time": "2026-01-12T00:00:00Z"},
)

Step = Callable[[], object]


def make_home(folder: Path) -> None:
    """Write log and cluster file below `folder` and make it the home of this process."""
    draw = np.random.default_rng(11)
    lines = ["; UnixStartTime: 1767225600"]  # 2026-01-01 00:00 UTC
    for number in range(600):
        user = int(draw.integers(1, 5))
        run_s = 100 * user + int(draw.integers(0, 20)) + (30_000 if number % 17 == 0 else 0)  # some are open at each midnight
        lines.append(f"{number + 1} {number * 1440} 3 {run_s} 4 -1 -1 4 7200 -1 1 {user} 1 1 1 1 -1 -1")
    (folder / "clusters").mkdir(parents=True)
    (folder / "log.swf").write_text("\n".join(lines) + "\n")
    (folder / "clusters" / f"{CLUSTER}.yaml").write_text(_FILE.format(log=folder / "log.swf"))
    live_in(folder)


def live_in(folder: Path) -> None:
    """Let settings be read from `folder`: home, cluster files, and the folder for temporary files, which a kill leaves there."""
    (folder / "tmp").mkdir(exist_ok=True)
    tempfile.tempdir = str(folder / "tmp")
    os.environ |= {"RUNCAST_HOME": str(folder / "var"), "RUNCAST_CLUSTERS": str(folder / "clusters")}
    os.environ.pop("MLFLOW_TRACKING_URI", None)


def steps() -> dict[str, Step]:
    """The stages of the night, and the rollback after it, by name and in order."""
    from runcast.night import STAGES

    found: dict[str, Step] = {stage.name: _stage(stage.name, NIGHT) for stage in STAGES}
    return {**found, "rollback": _roll_back}


def run_night_before() -> None:
    from runcast.night import STAGES

    for stage in STAGES:
        _stage(stage.name, BEFORE)()


def _stage(name: str, day: str) -> Step:
    def run() -> object:
        from runcast.night import run_stage

        return run_stage(name, CLUSTER, day)

    return run


def _roll_back() -> object:
    from runcast.data.cluster import find_cluster
    from runcast.data.settings import read_settings
    from runcast.registry.job import rollback

    settings = read_settings()
    return rollback(find_cluster(settings.clusters, CLUSTER), settings, dt.date.fromisoformat(NIGHT), dt.datetime.now(dt.UTC))
