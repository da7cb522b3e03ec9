"""How large the history of a million ended jobs is, how long it takes to load, and to ask.

python benchmarks/state.py [--jobs 1000000] [--users 2000]
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from predictor import CLUSTER, CUT, made_up, questions, report

from runcast.features.state import State
from runcast.scheduler.export import history
from runcast.scheduler.jobs import read_job


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--load", type=Path)
    options = parser.parse_args()
    if options.load:
        load(options.load, options.users)
        return
    jobs = made_up(options.jobs, options.users)
    began = time.perf_counter()
    state = history(jobs, CLUSTER.clock, CLUSTER.time_zone, CUT)
    print(f"{options.jobs} jobs, {len(state)} keys: built in {time.perf_counter() - began:.1f} s")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.npz"
        state.save(path)
        print(f"on disk {path.stat().st_size / 2**20:.0f} MiB")
        subprocess.run([sys.executable, __file__, "--load", str(path), "--users", str(options.users)], check=True)


def load(path: Path, users: int) -> None:
    """In a process of its own: what the state adds to it."""
    asked = [read_job(job) for job in questions(made_up(20_000, users), 20_000)]
    before, began = resident_mib(), time.perf_counter()
    state = State.load(path)
    took = time.perf_counter() - began
    print(f"loaded in {took:.2f} s, {resident_mib() - before:.0f} MiB resident")
    report("features", asked, state.row)


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


if __name__ == "__main__":
    main()
