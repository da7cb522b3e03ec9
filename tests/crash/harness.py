"""Kills a night at its n-th file operation, runs it again, and compares with a night that was never killed.

    python tests/crash/harness.py --points 200 --seed 7

One process imports everything once; each point is a fork of it that works in one home, put back from a copy before. The night is
run step by step, and the home is kept before each: a point begins at the step it falls into, and after the kill that step is run
again, as Airflow does it, and must end in the very state it ends in undisturbed. Every tenth point runs the whole night again
instead, as `runcast nightly` does. Points are spread evenly over the operations of the night, with some in every step; another
seed shifts them, so that runs with different seeds try different ones.
"""

import argparse
import ctypes
import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import nights
import observed

SHIM = Path(__file__).with_name("file_operations.c")
LEAST_IN_A_STEP = 4
WHOLE_NIGHT_EVERY = 10


@dataclass(frozen=True)
class Point:
    """Where something happens: the step, its operation, what (0: a kill, else the error of the disk), and what is run again."""

    step: str
    operation: int
    error: int = 0
    whole_night: bool = False

    @property
    def label(self) -> str:
        what = errno.errorcode[self.error] if self.error else "killed"
        return f"{self.step}, operation {self.operation}: {what}" + (", whole night again" if self.whole_night else "")

    @classmethod
    def labelled(cls, label: str) -> "Point":
        """Return the point of a label; raises ValueError for any other text."""
        found = re.fullmatch(r"(\w+), operation (\d+): (killed|E[A-Z]+)(, whole night again)?", label)
        if found is None:
            raise ValueError(f"{label!r} is no point, such as 'export, operation 85: killed'")
        return cls(found[1], int(found[2]), 0 if found[3] == "killed" else getattr(errno, found[3]), found[4] is not None)


def build_shim(folder: Path) -> Path:
    """Compile the counter; raises CalledProcessError, or FileNotFoundError where there is no C compiler."""
    library = folder / "file_operations.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(SHIM), "-ldl"], check=True)
    return library


class Home:
    """The folder that is worked in, and its copies by name."""

    def __init__(self, root: Path) -> None:
        self.root, self.work = root, root / "work"

    def keep(self, name: str) -> None:
        shutil.copytree(self.work, self.root / "kept" / name, symlinks=True)

    def put_back(self, name: str) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.root / "kept" / name, self.work, symlinks=True)


class FileOperations:
    """The library that counts, loaded into this process by LD_PRELOAD."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(None)
        self.library.operations.restype = ctypes.c_long

    def arm(self, folder: Path, operation: int, error: int) -> None:
        self.library.arm(str(folder).encode(), ctypes.c_long(operation), error)

    def count(self) -> int:
        return int(self.library.operations())

    def disarm(self) -> None:
        self.library.disarm()


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent dies: nobody else would end it, and it would write on."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, linux/prctl.h


def in_child(action: Callable[[], Any]) -> tuple[int, Any]:
    """Run `action` in a fork: (signal or 0, what it returned as JSON, or the text of its error under `error`)."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        die_with_parent()
        os.close(reader)
        try:
            answer = {"done": action()}
        except BaseException as error:  # noqa: BLE001 the parent is told
            answer = {"error": f"{type(error).__name__}: {error}", "where": traceback.format_exc()}
        with os.fdopen(writer, "w") as sink:
            json.dump(answer, sink)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as source:
        text = source.read()
    status = os.waitpid(child, 0)[1]
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, json.loads(text) if text else None


def done(answer: tuple[int, Any]) -> Any:
    killed, value = answer
    if killed or "error" in value:
        raise RuntimeError(f"signal {killed}: {value and value['where']}")
    return value["done"]


class Harness:
    """A home with the night before, the states of an undisturbed night after each step, and how many operations each step has."""

    def __init__(self, root: Path) -> None:
        self.home, self.shim = Home(root), FileOperations()
        root.mkdir(parents=True, exist_ok=True)
        done(in_child(lambda: nights.make_home(self.home.work)))
        nights.live_in(self.home.work)
        names = done(in_child(self._first_night))
        for name in names:  # what a night imports, once for all forks
            if name not in sys.modules and not name.startswith("__"):
                try:
                    __import__(name)
                except Exception:  # noqa: BLE001 a module that does not import again is imported by each fork
                    continue
        self.steps = nights.steps()
        self.states: dict[str, Any] = {"": done(in_child(observed.observed))}
        self.operations: dict[str, int] = {}
        before = ""
        for name, step in self.steps.items():
            self.home.keep(name)
            self.operations[name] = done(in_child(lambda step=step: self._counted(step)))
            self.states[name] = done(in_child(observed.observed))
            self.states[f"before {name}"] = self.states[before]
            before = name
        self.last = before

    def _first_night(self) -> list[str]:
        nights.run_night_before()
        observed.observed()
        return sorted(sys.modules)

    def _counted(self, step: nights.Step) -> int:
        self.shim.arm(self.home.work / "var", 0, 0)
        step()
        self.shim.disarm()
        return self.shim.count()

    def try_point(self, point: Point) -> list[str]:
        """Let it happen, look at once, run again, compare: what is wrong, in words."""
        self.home.put_back(point.step)
        killed, answer = in_child(lambda: self._disturbed(point))
        faults = []
        if point.error == 0 and killed != signal.SIGKILL and (killed or "done" not in answer):
            return [f"ended by itself: signal {killed}, {answer}"]  # not reached: threads do not come in the same order each time
        if point.error and (killed or ("error" in answer and not _is_told(answer["error"]))):
            faults.append(f"not told as an error of ours: {answer and answer['where']}")
        faults += done(in_child(lambda: self._faults_after(point)))
        return faults

    def _disturbed(self, point: Point) -> None:
        self.shim.arm(self.home.work / "var", point.operation, point.error)
        self.steps[point.step]()

    def _faults_after(self, point: Point) -> list[str]:
        before, after = self.states[f"before {point.step}"], self.states[point.step]
        faults = observed.faults_at_once(observed.read_settings(), before, after)
        again = list(self.steps)[: list(self.steps).index(point.step) + 1] if point.whole_night else [point.step]
        if point.step == "rollback" and not observed.differences(after, observed.observed()):
            again = []  # it was whole: only its lock was to be let go; another one would go a version further back
        try:
            for name in again:
                self.steps[name]()
        except Exception:  # noqa: BLE001 told with the point
            return [*faults, f"the rerun failed: {traceback.format_exc()}"]
        return faults + observed.differences(after, observed.observed())


def _is_told(error: str) -> bool:
    """Whether an error is one of Runcast's own, by its class's name."""
    from runcast.data.errors import RuncastError

    def names(kind: type) -> Iterable[str]:
        yield kind.__name__
        for below in kind.__subclasses__():
            yield from names(below)

    return error.split(":")[0] in set(names(RuncastError))


def spread(operations: dict[str, int], points: int, error: int = 0, seed: int = 0) -> list[Point]:
    """Spread `points` over the operations, some in every step where there are enough of them, none twice.

    They stand at even distances, by seed 0 in the middle of their stretch of operations, else all shifted by one part of it.
    """
    total, least = sum(operations.values()), min(LEAST_IN_A_STEP, max(1, points // (3 * len(operations))))
    left = max(points - least * len(operations), 0)
    found = []
    for name, count in operations.items():
        wanted = min(count, least + round(left * count / total)) if points >= len(operations) else 0
        found += [Point(name, 1 + int((i + _shift(seed, name, error)) * count / wanted), error) for i in range(wanted)]
    if not found and points:  # fewer than there are steps: over all of them, by their operations
        starts = dict(zip(operations, accumulate(operations.values(), initial=0), strict=False))
        for at in (int((i + _shift(seed, "", error)) * total / points) for i in range(points)):
            name = max((name for name in starts if starts[name] <= at), key=starts.__getitem__)
            found.append(Point(name, 1 + at - starts[name], error))
    return [
        replace(point, whole_night=(i + seed) % WHOLE_NIGHT_EVERY == WHOLE_NIGHT_EVERY - 1 and point.step != "rollback")
        for i, point in enumerate(found)
    ]


def _shift(seed: int, step: str, error: int) -> float:
    """Return which part of its stretch of operations a point stands at, from 0 to 1."""
    return random.Random(f"{seed} {step} {error}").random() if seed else 0.5


def run(
    root: Path, wanted: dict[int, int], shard: int, shards: int, chosen: Sequence[str], seed: int, named: Sequence[Point]
) -> dict[str, Any]:
    """Try the points that are wanted, by error (0: a kill), or those that are named; what each step has, was tried, was wrong."""
    harness = Harness(root)
    operations = {name: count for name, count in harness.operations.items() if not chosen or name in chosen}
    faults: dict[str, list[str]] = {}
    tried = Counter[str]()
    points = (
        named or [point for error, count in wanted.items() for point in spread(operations, count, error, seed)][shard::shards]
    )
    for point in points:
        begun = time.monotonic()
        found = harness.try_point(point)
        tried[point.step] += 1
        if found:
            faults[point.label] = found
        print(f"{point.label}: {time.monotonic() - begun:.1f} s {found or ''}", file=sys.stderr, flush=True)
    return {"seed": seed, "operations": operations, "points": tried.total(), "points_by_step": dict(tried), "faults": faults}


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=200, help="operations at which the process is killed")
    parser.add_argument("--full", type=int, default=0, help="operations from which the disk is full")
    parser.add_argument("--read-only", type=int, default=0, help="operations from which the disk is read-only")
    parser.add_argument("--seed", type=int, default=0, help="other operations for each seed")
    parser.add_argument("--step", action="append", default=[], help="only this step; repeatable")
    parser.add_argument("--point", action="append", default=[], type=Point.labelled, help="only this one, as printed; repeatable")
    parser.add_argument("--shard", default="0/1", help="i/n: only every n-th point, from the i-th")
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    asked = parser.parse_args(words)
    if "LD_PRELOAD" not in os.environ:
        return _counted_from_the_start(words, asked.folder)
    die_with_parent()
    shard, shards = map(int, asked.shard.split("/"))
    wanted = {0: asked.points, errno.ENOSPC: asked.full, errno.EROFS: asked.read_only}
    told = run(asked.folder / "crash", wanted, shard, shards, asked.step, asked.seed, asked.point)
    print(json.dumps(told, indent=1))
    return 1 if told["faults"] else 0


def _counted_from_the_start(words: Sequence[str], folder: Path | None) -> int:
    """Run this program again with the counter loaded, and clear up after it, also when told to stop."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="runcast-crash-") as scratch:
        environment = {**os.environ, "LD_PRELOAD": str(build_shim(Path(scratch))), "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = str(SHIM.parents[2] / "src")
        again = [sys.executable, __file__, *words, "--folder", str(folder or scratch)]
        return subprocess.run(again, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
