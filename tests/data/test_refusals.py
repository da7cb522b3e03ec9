"""What stands in the way of a folder is named, with what to do."""

from pathlib import Path

import pytest

from runcast.data.errors import NoFolder, StageBusy
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
