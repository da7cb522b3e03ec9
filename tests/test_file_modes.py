"""What a real night leaves is for its account and its group: nobody else reads it, and nobody but the account writes it."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runcast.data.files import keep_from_others

ROOT = Path(__file__).resolve().parents[1]
CLUSTER = """
source: {format: swf, paths: ["%s"]}
time_zone: UTC
training: {min_jobs: 100, gbdt: {trees: 10}}
evaluation: {min_test_jobs: 30, gates: [{metric: error_factor, at_most: 100, than_best_baseline: false}]}
"""

GROUP = 60_001  # of the service that reads bundles; no account has it


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, swf_log: Callable[..., str]) -> Path:
    """The home after a night, run as a person runs it, under the usual mask of 022."""
    folder = tmp_path_factory.mktemp("modes")
    (folder / "log.swf").write_text(swf_log(jobs=800, every_s=1080, seed=11))
    (folder / "clusters").mkdir()
    (folder / "clusters" / "tiny.yaml").write_text(CLUSTER % (folder / "log.swf"))
    (folder / "var" / "bundles").mkdir(parents=True)
    if os.geteuid() == 0:
        os.chown(folder / "var" / "bundles", -1, GROUP)
        (folder / "var" / "bundles").chmod(0o2750)  # as deploy/README.md has it
    (folder / "var").chmod(0o750)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "RUNCAST_HOME": str(folder / "var"),
        "RUNCAST_CLUSTERS": str(folder / "clusters"),
        "OMP_NUM_THREADS": "1",
    }
    environment.pop("MLFLOW_TRACKING_URI", None)
    command = [sys.executable, "-m", "runcast", "nightly", "--cluster", "tiny", "--date", "2026-01-09"]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False, umask=0o022)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder / "var"


def modes(folder: Path) -> dict[str, int]:
    places = [path for path in (folder, *folder.rglob("*")) if not path.is_symlink()]
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in places}


def test_nothing_of_a_night_is_for_others_or_for_the_group_to_write(home: Path) -> None:
    found = modes(home)
    assert len(found) > 50
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o027} == {}


def test_a_service_in_the_group_can_read_the_bundle_that_serves(home: Path) -> None:
    bundle = (home / "bundles" / "tiny" / "current").resolve()
    found = {name: mode & 0o777 for name, mode in modes(bundle).items()}
    assert {mode for name, mode in found.items() if (bundle / name).is_dir()} == {0o750}
    assert {mode for name, mode in found.items() if (bundle / name).is_file()} == {0o640}
    assert modes(home / "bundles")["tiny"] & 0o777 == 0o750
    if os.geteuid() == 0:  # the folder's group is handed on to all that the night writes into it
        assert {path.stat().st_gid for path in (home / "bundles", bundle, *bundle.rglob("*"))} == {GROUP}


@pytest.mark.parametrize(("before", "after"), [(0o022, 0o027), (0o002, 0o027), (0o077, 0o077), (0, 0o027)])
def test_a_mask_that_is_stricter_stays(before: int, after: int) -> None:
    own = os.umask(before)
    try:
        keep_from_others()
        assert os.umask(before) == after
    finally:
        os.umask(own)
