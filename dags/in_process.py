"""`make run`: three made-up clusters, one night of the real DAG on each, in this process, and what came of it.

Airflow's `dag.test` runs every task here, one after the other, against a database below RUNCAST_HOME; nothing listens, nothing is
scheduled. Airflow's own log goes to RUNCAST_HOME/airflow/in_process.log; a failed task's last lines are shown.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from environment import airflow_environment
from rich.console import Console

from runcast import show
from runcast.data.demo import LAST_DAY, write_demo
from runcast.data.settings import read_settings

console = Console()


@contextlib.contextmanager
def all_output_to(path: Path) -> Iterator[None]:
    """Send file descriptors 1 and 2 to `path` (appended): Airflow's tasks write there directly."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with path.open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, descriptor in zip(kept, (1, 2), strict=True):
            os.dup2(number, descriptor)
            os.close(number)


def run_dags(names: Sequence[str], day: str, log: Path, screen: Console) -> list[str]:
    """Run the night of `day` on each cluster; return the names of those whose run failed."""
    with all_output_to(log):
        from airflow.dag_processing.dagbag import DagBag

        bag = DagBag(dag_folder=os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    failed = []
    for name in names:
        begun = time.monotonic()
        with screen.status(f"{name}: the night of {day} in Airflow (nightly_{name})"), all_output_to(log):
            run = bag.dags[f"nightly_{name}"].test(run_conf={"date": day})
        if run.state != "success":
            failed.append(name)
        screen.print(f"  nightly_{name}: {run.state} in {time.monotonic() - begun:.0f} s")
    return failed


def main() -> int:
    settings = read_settings()
    os.environ.update(airflow_environment(settings, os.environ))
    log = settings.home / "airflow" / "in_process.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    # The console keeps writing to the terminal while descriptors 1 and 2 point at the log.
    screen = Console(file=os.fdopen(os.dup(1), "w"), force_terminal=console.is_terminal)

    screen.print("Writing the demo: three made-up logs in three real formats (Slurm sacct, Helios CSV, PAI tables).")
    logs = write_demo(settings.home / "demo")
    for line in show.demo_lines(logs):
        screen.print(f"  {line}")
    names, day = [log.cluster for log in logs], LAST_DAY.isoformat()
    with screen.status("Airflow: preparing its database"), log.open("ab") as sink:
        subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, stdout=sink, stderr=sink)
    failed = run_dags(names, day, log, screen)
    if failed:
        screen.print(f"[bold red]failed:[/] {', '.join(failed)}. The last lines of {log}:")
        screen.print("\n".join(log.read_text(errors="replace").splitlines()[-40:]), markup=False)
        return 1
    screen.print(show.nights_table(settings, names, day))
    screen.print(show.what_next(settings, names[0], day), markup=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
