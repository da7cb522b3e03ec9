"""The state that a night keeps for its stages: the same whoever builds it, and the only one of its cluster, whoever was killed."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster
from runcast.data.job import load
from runcast.data.lake import Lake
from runcast.data.settings import Settings, read_settings
from runcast.data.sources.batch import Batch
from runcast.scheduler.export import state_of_night

NIGHTS = [dt.date(2026, 3, day) for day in (30, 31)]


@pytest.fixture
def settings(cluster: Cluster, jobs: pa.Table, tmp_path: Path) -> Settings:
    """A home that holds the jobs of both nights and the state of the first."""
    settings = read_settings({"RUNCAST_HOME": str(tmp_path)})
    load(cluster, Lake(settings.lake), [Batch(jobs)], last=NIGHTS[-1])
    state_of_night(cluster, settings, NIGHTS[0])
    return settings


def kept(settings: Settings, cluster: Cluster) -> list[str]:
    return sorted(path.name[:10] for path in (settings.home / "state" / cluster.name).iterdir())


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("step", ["replace", "unlink"], ids=["before it has its name", "before the former has gone"])
def test_a_night_killed_while_it_keeps_its_state_leaves_one_after_the_rerun(
    settings: Settings, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with monkeypatch.context() as once:
        once.setattr(Path, step, killed)
        with pytest.raises(KeyboardInterrupt):
            state_of_night(cluster, settings, NIGHTS[1])
    assert len(kept(settings, cluster)) == 2
    for _ in range(2):
        state_of_night(cluster, settings, NIGHTS[1])
        assert kept(settings, cluster) == ["2026-03-31"]


def test_a_state_that_the_disk_damaged_is_built_again(settings: Settings, cluster: Cluster) -> None:
    (path,) = (settings.home / "state" / cluster.name).iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    state_of_night(cluster, settings, NIGHTS[0])
    assert path.read_bytes() == whole
