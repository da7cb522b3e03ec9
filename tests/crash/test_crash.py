"""A short run of the harness; `make crash` goes through 200 points and more."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from harness import Point, spread

HARNESS = Path(__file__).with_name("harness.py")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler to build the counter of file operations with")
def test_a_night_that_is_killed_or_finds_no_room_is_finished_by_the_next_run(tmp_path: Path) -> None:
    """Killed once in each step, and from some operation on a full or a read-only disk: told, readable at once, whole after the rerun."""
    words = ["--points", "11", "--full", "4", "--read-only", "3", "--folder", str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    run = subprocess.run([sys.executable, str(HARNESS), *words], env=environment, capture_output=True, text=True, check=False)
    assert run.stdout, run.stderr
    told = json.loads(run.stdout)
    assert told["faults"] == {}
    assert told["points"] == 18
    assert min(told["operations"].values()) >= 10, "Arrow's, SQLite's and Python's writes are counted"
    assert told["operations"]["register"] > 300


@pytest.mark.parametrize("points", [2, 60, 300], ids=["fewer than steps", "some", "as many as there are"])
def test_another_seed_tries_other_operations_and_none_twice(points: int) -> None:
    operations = {"ingest": 43, "quality": 178, "rollback": 69}
    tried = {seed: [(point.step, point.operation) for point in spread(operations, points, seed=seed)] for seed in range(4)}
    for found in tried.values():
        assert len(set(found)) == len(found) >= min(points, 50)
        assert all(1 <= operation <= operations[step] for step, operation in found)
    assert len({tuple(found) for found in tried.values()}) == (1 if points >= sum(operations.values()) else 4)


def test_a_point_is_named_as_it_is_printed() -> None:
    for error in (0, errno.ENOSPC, errno.EROFS):
        points = spread({"train_cart": 40, "rollback": 69}, 40, error)
        assert [Point.labelled(point.label) for point in points] == points
    with pytest.raises(ValueError, match="is no point"):
        Point.labelled("export 85")
