"""`make run`: three made-up clusters, one night of the real DAG on each, and what came of it.

Airflow's `dag.test` runs every task in one process, against a database below RUNCAST_HOME; nothing listens, nothing is scheduled. Each
cluster has a process of its own, as many at a time as there are cores. Airflow's log of a night is
RUNCAST_HOME/airflow/nightly_<cluster>.log; where a night fails its last lines are shown.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from environment import airflow_environment
from rich.console import Console

from runcast import show
from runcast.data.demo import LAST_DAY, write_demo
from runcast.data.files import keep_from_others
from runcast.data.settings import read_settings

console = Console(soft_wrap=True)


def run_night(name: str, day: str) -> int:
    """Run one night's DAG in this process; returns the exit code."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    return 0 if bag.dags[f"nightly_{name}"].test(run_conf={"date": day}).state == "success" else 1


def night_beside(name: str, day: str, log: Path) -> bool:
    """Run one night in a process of its own, its output in `log`; returns whether it succeeded."""
    begun = time.monotonic()
    with log.open("wb") as sink:
        ended = subprocess.run([sys.executable, __file__, name, day], stdout=sink, stderr=sink, check=False)
    outcome = "success" if ended.returncode == 0 else "[bold red]failed[/]"
    console.print(f"  nightly_{name}: {outcome} in {time.monotonic() - begun:.0f} s")
    return ended.returncode == 0


def main() -> int:
    """Write the demo, run its nights, print the table."""
    keep_from_others()
    settings = read_settings()
    os.environ.update(airflow_environment(settings, os.environ))
    logs = settings.home / "airflow"
    logs.mkdir(parents=True, exist_ok=True)

    console.print("Writing the demo: three made-up logs in three real formats (Slurm sacct, Helios CSV, PAI tables)")
    demo = write_demo(settings.home / "demo")
    for line in show.demo_lines(demo):
        console.print(f"  {line}")
    names, day = [log.cluster for log in demo], LAST_DAY.isoformat()

    # The DAGs and their assets are written once, before the nights: two processes that both find them missing would collide.
    with console.status("preparing Airflow's database"), (logs / "db.log").open("wb") as sink:
        pools = str(Path(__file__).with_name("pools.py"))
        for words in (["-m", "airflow", "db", "migrate"], [pools], ["-m", "airflow", "dags", "reserialize"]):
            subprocess.run([sys.executable, *words], check=True, stdout=sink, stderr=sink)
    console.print(f"Running the night of {day} in Airflow: ingest, quality, features, train, evaluate, register, promote, export")
    with console.status("about two minutes on two cores"), ThreadPoolExecutor(os.cpu_count()) as pool:
        done = list(pool.map(lambda name: night_beside(name, day, logs / f"nightly_{name}.log"), names))
    failed = [name for name, succeeded in zip(names, done, strict=True) if not succeeded]
    for name in failed:
        tell_failure(logs / f"nightly_{name}.log")
    console.print(show.nights_table(settings, names, day))
    if failed:
        return 1
    console.print(show.what_next(settings, names[0], day), markup=False)
    return 0


def tell_failure(log: Path, lines: int = 25) -> None:
    """Show the last lines of a night that failed."""
    console.print(f"[bold red]{log.stem} failed.[/] The last lines of {log}:")
    console.print("\n".join(log.read_text(errors="replace").splitlines()[-lines:]), markup=False)


def start(words: Sequence[str]) -> int:
    """Without words: the whole of `make run`; with a cluster and a day: that night, in this process."""
    return run_night(*words) if words else main()


if __name__ == "__main__":
    sys.exit(start(sys.argv[1:]))
