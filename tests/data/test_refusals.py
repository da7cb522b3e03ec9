"""What stands in the way of a folder is named, with what to do; and so is a disk that refuses, whoever says it and how."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from runcast.data.errors import HomeRefuses, NoFolder, StageBusy
from runcast.data.refusals import told_where_refused
from runcast.data.turns import take_turn


@pytest.mark.parametrize("home", ["file", "file/home", "file/a/home"], ids=["home", "parent", "above"])
def test_a_file_where_a_folder_is_needed_is_named(tmp_path: Path, home: str) -> None:
    (tmp_path / "file").write_text("mine")
    wanted = rf"^venus needs a folder at {tmp_path / 'file'}, and there is a file.*RUNCAST_HOME"
    with (
        pytest.raises(NoFolder, match=wanted),
        told_where_refused("venus"),
        take_turn(tmp_path / home / "locks" / "x", "venus is being read", 0, StageBusy),
    ):
        pass
    assert (tmp_path / "file").read_text() == "mine"


def test_another_file_that_exists_is_not_taken_for_that(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileExistsError), told_where_refused("venus"):
        (tmp_path / "folder").mkdir()


def tree_onto_a_full_disk(folder: Path) -> None:
    """Copy two files, of which the second finds /dev/full in its place."""
    (folder / "from" / "below").mkdir(parents=True)
    (folder / "to" / "below").mkdir(parents=True)
    (folder / "from" / "a").write_text("takes no room")
    (folder / "from" / "below" / "b").write_text("takes room")
    (folder / "to" / "below" / "b").symlink_to("/dev/full")
    shutil.copytree(folder / "from", folder / "to", dirs_exist_ok=True)


def tree_that_lost_a_file(folder: Path) -> None:
    (folder / "from").mkdir()
    (folder / "from" / "a").symlink_to(folder / "nothing")
    shutil.copytree(folder / "from", folder / "to")


@pytest.mark.parametrize(
    ("copy", "kind", "text"),
    [
        (
            tree_onto_a_full_disk,
            HomeRefuses,
            r"^venus could not write .*/to/below/b \(No space left on device\)\. What was there is",
        ),
        (tree_that_lost_a_file, shutil.Error, r"\[Errno 2\]"),
        (lambda _: shutil.move(__file__, Path(__file__).parent), shutil.Error, "already exists"),
    ],
    ids=["full", "another error", "no list"],
)
def test_a_tree_that_is_copied_in_part_tells_the_disks_refusal(
    tmp_path: Path, copy: Callable[[Path], None], kind: type[Exception], text: str
) -> None:
    """`shutil.Error` is an OSError without a number, raised by our copies of trees and by MLflow's."""
    with pytest.raises(kind, match=text), told_where_refused("venus"):
        copy(tmp_path)


def test_no_folder_for_temporary_files_is_a_disk_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk `tempfile` finds no folder that takes its trial file; here there is none at all."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "none")])
    with pytest.raises(HomeRefuses, match="No usable temporary directory found"), told_where_refused("venus"):
        tempfile.TemporaryDirectory()
