"""`runcast clusters new`: a cluster file from what a scheduler says of itself and, where it says nothing, from what a person answers."""

import datetime as dt
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.text import Text

from runcast.data.cluster import CLUSTER_NAME, read_cluster
from runcast.data.errors import ClusterFileError, UsageError
from runcast.data.presets import PRESETS, Found, cluster_text, find_out, write_new
from runcast.data.settings import Settings
from runcast.show import plain
from runcast.show_clusters import clusters_table

SHOWN = 10  # jobs
_YEAR = dt.timedelta(days=365)

#: Puts a question, with the default, and returns the answer.
Ask = Callable[..., Any]


@dataclass(frozen=True)
class Answers:
    """What the command line says of the cluster; null where it says nothing."""

    time_zone: str | None = None
    gpus_tracked: bool | None = None
    since: str | None = None
    logs: str | None = None


def write(name: str, scheduler: str, answers: Answers, settings: Settings, now: dt.datetime, ask: Ask | None) -> Path:
    """Find out what a cluster file needs, write it into the first folder of cluster files and return its path.

    `ask` (null: nobody can be asked) is put what neither the scheduler nor `answers` says. Raises UsageError where the file is there
    already, an answer is missing or is none; ClusterFileError where the answers make no cluster file. Nothing is written then.
    """
    if scheduler not in PRESETS:
        raise UsageError(f"--from {scheduler}: known are {', '.join(PRESETS)}")
    path = settings.clusters[0] / f"{name}.yaml"
    if not CLUSTER_NAME.fullmatch(name):
        raise UsageError(f"{name[:120]!r} cannot name a cluster: up to 100 ASCII letters, digits, '_', '-' and '.'")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such folder. Set RUNCAST_CLUSTERS to the folder of the cluster files, or make it.")
    if path.exists():
        raise UsageError(f"{path} is there already; it is not written over. Choose another name, or move it away.")
    found = _answered(find_out(scheduler, settings.environment, answers.logs), answers, now, ask)
    text = (
        f"# Written by `runcast clusters new {name} --from {scheduler}`; every key: docs/cluster-file.md\n{cluster_text(found)}"
    )
    with tempfile.TemporaryDirectory() as folder:
        trial = Path(folder) / path.name
        trial.write_text(text, encoding="utf-8")
        try:
            read_cluster(trial)
        except ClusterFileError as error:
            raise ClusterFileError(f"{str(error).replace(str(trial), str(path))}\nNothing was written.") from None
    write_new(path, text)
    return path


def _answered(found: Found, answers: Answers, now: dt.datetime, ask: Ask | None) -> Found:
    """Return what is to stand in the file: the command line's word, else the scheduler's, else a person's, else the default."""
    zone = answers.time_zone
    if zone is None and ask is not None:
        zone = ask("Time zone of the cluster, e.g. Europe/Berlin", default=found.time_zone)
    zone = zone or found.time_zone
    if zone is None:
        raise UsageError("this machine does not say its time zone; name the cluster's: --time-zone Europe/Berlin")
    origin = dict(found.origin)
    if zone == found.time_zone and answers.time_zone is None:
        origin["time_zone"] = "of the machine that wrote this file"
    gpus = found.gpus_tracked if answers.gpus_tracked is None else answers.gpus_tracked
    if answers.gpus_tracked is not None:
        origin.pop("gpus_tracked", None)
    if gpus is None and ask is not None:
        gpus = _is_yes(ask("Does a job that asks for no GPU have none (y), or is that unknown (n)?", default="n"))
    since = None
    if found.names_days:
        year_ago = (now - _YEAR).date().isoformat()
        said = answers.since or (year_ago if ask is None else ask("First day to fetch", default=year_ago))
        since = _day(said)
    elif answers.since is not None:
        raise UsageError("--since: this log is not fetched by days; leave it out")
    return replace(found, time_zone=zone, gpus_tracked=gpus, since=since, origin=origin)


def _is_yes(answer: str) -> bool:
    if answer.strip().lower() not in ("y", "yes", "n", "no"):
        raise UsageError(f"{answer!r}: answer y or n")
    return answer.strip().lower() in ("y", "yes")


def _day(text: str) -> dt.date:
    try:
        return dt.datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=dt.UTC).date()
    except ValueError:
        raise UsageError(f"--since {text!r} is no day; write YYYY-MM-DD") from None


def shown(path: Path, row: Mapping[str, Any], settings: Settings) -> Group:
    """Return what the terminal shows of a new cluster: its file, whether it is ready, jobs as they are understood, what comes next."""
    after = "Mend it, then" if row["problem"] else "Next"
    commands = f"{after}: runcast {'clusters check' if row['problem'] else 'nightly --cluster'} {row['name']}"
    return Group(
        Text(plain(f"{path}:")), Text(path.read_text(encoding="utf-8")), clusters_table([row], settings), Text(f"\n{commands}")
    )
