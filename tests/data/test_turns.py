"""One at a time: the second waits or is told who holds the lock, and a killed holder leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runcast.data.errors import MayPass, StageBusy
from runcast.data.turns import take_turn

HOLDER = """
import sys, time
from pathlib import Path
from runcast.data.errors import StageBusy
from runcast.data.turns import take_turn
with take_turn(Path(sys.argv[1]), "held", 0, StageBusy):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def hold(path: Path, seconds: float) -> "subprocess.Popen[str]":
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": "src"},
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_the_second_is_told_who_holds_it_and_may_try_again(tmp_path: Path) -> None:
    with hold(tmp_path / "lock", 60) as holder:
        with (
            pytest.raises(MayPass, match=rf"^venus is being read by process {holder.pid} on .*Wait for it to end"),
            take_turn(tmp_path / "lock", "venus is being read", 0, StageBusy),
        ):
            pass
        holder.kill()


def test_the_second_may_wait(tmp_path: Path) -> None:
    with hold(tmp_path / "lock", 0.5) as holder:
        with take_turn(tmp_path / "lock", "venus is being read", 60, StageBusy):
            assert holder.wait(10) == 0
        assert (tmp_path / "lock").read_text() == ""


def test_a_killed_holder_leaves_the_turn_to_the_next(tmp_path: Path) -> None:
    with hold(tmp_path / "lock", 60) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
    with take_turn(tmp_path / "lock", "venus is being read", 0, StageBusy):
        assert (tmp_path / "lock").read_text().startswith(f"process {os.getpid()} on ")
