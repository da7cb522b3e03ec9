"""Stages: one process at a time, and a disk that refuses is told in one message."""

import errno
from pathlib import Path

import pytest

from runcast import night
from runcast.data.errors import HomeRefuses, MayPass, StageBusy
from runcast.data.turns import take_turn

CLUSTER = """
source: {format: swf, paths: ["%s"]}
time_zone: UTC
"""
DAY = "2026-01-01"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cluster of ten jobs of one day, of which nothing has been loaded."""
    lines = [f"{n + 1} {n * 600} 3 60 4 -1 -1 4 7200 -1 1 1 1 1 1 1 -1 -1" for n in range(10)]
    (tmp_path / "log.swf").write_text("\n".join(["; UnixStartTime: 1767225600", *lines]) + "\n")
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "small.yaml").write_text(CLUSTER % (tmp_path / "log.swf"))
    monkeypatch.setenv("RUNCAST_HOME", str(tmp_path / "var"))
    monkeypatch.setenv("RUNCAST_CLUSTERS", str(tmp_path / "clusters"))
    return tmp_path / "var"


def test_a_stage_that_another_process_runs_is_not_begun(home: Path) -> None:
    with (
        take_turn(home / "locks" / "small.ingest", "held", 0, StageBusy),
        pytest.raises(StageBusy, match="small: the stage ingest is being run by process"),
    ):
        night.run_stage("ingest", "small", DAY)
    assert not (home / "lake").exists()
    assert night.run_stage("ingest", "small", DAY)["ended"] == 10


def test_a_full_disk_is_told_and_the_stage_can_be_run_again(home: Path) -> None:
    """/dev/full in the place of the record: the last thing that a stage writes."""
    record = home / "nights" / "small" / DAY / ".ingest.json.part"
    record.parent.mkdir(parents=True)
    record.symlink_to("/dev/full")
    with pytest.raises(
        HomeRefuses, match=r"small, 2026-01-01: ingest could not write .* \(No space left on device\)\. What was there"
    ) as told:
        night.run_stage("ingest", "small", DAY)
    assert isinstance(told.value, MayPass)
    record.unlink()
    assert night.run_stage("ingest", "small", DAY)["written_count"] == 0, "the load itself had been made"


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ECONNREFUSED, errno.EMFILE], ids=errno.errorcode.get)
def test_an_error_that_is_not_the_disks_stays_what_it_is(home: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fails(*_: object) -> night.Record:
        raise OSError(number, "so it is")

    monkeypatch.setitem(night.BY_NAME, "ingest", night.Stage("ingest", "fails", fails))
    with pytest.raises(OSError, match="so it is") as told:
        night.run_stage("ingest", "small", DAY)
    assert told.value.errno == number
