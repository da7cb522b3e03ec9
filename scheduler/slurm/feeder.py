"""Feeds Slurm's accounting to Runcast: as events to the service, and as the nightly log.

    runcast slurm-feed events --socket /run/runcast/predict.sock --memory /var/lib/runcast/feeder.json
    runcast slurm-feed log --folder /var/lib/runcast/log --days 3

`events` tells the service what was submitted, started and ended since the pass before; nothing is lost while the service is
away, and what was told is not told again. `log` writes one file for each day on which jobs ended and one for the jobs that have
not, each replaced whole. It needs no service.
"""

import argparse
import logging
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runcast.data.errors import RuncastError
from runcast.outcome import report
from runcast.scheduler.client import JOBS_AT_ONCE, Client, RefusedError
from runcast.scheduler.options import Parser, seconds, whole
from runcast.scheduler.slurm.accounting import (
    News,
    Record,
    Told,
    by_id,
    epoch_s,
    het_ids,
    jobs_in_log,
    jobs_named,
    latest_attempts,
    limits_of_partitions,
    log_text,
    new_delimiter,
    news_of,
    phase_of,
    read_records,
    sacct_command,
)
from runcast.scheduler.slurm.commands import readable, run
from runcast.scheduler.slurm.memory import Memory, MemoryFileError, held, write_atomically

DAY_S = 86_400
OVERLAP_S = 3_600  # accounting arrives late where slurmdbd was away: each pass reads this much again
SACCT_TIMEOUT_S = 120.0
SHORTEST_PAUSE_S = 1.0  # between two passes: each asks accounting
MOST_DAYS_BACK = 3_650
IDS_AT_ONCE = 1_000  # of heterogeneous jobs, in one call of sacct
MOST_LINES = 10  # of the log, about what was refused in one pass: a user can have any number of odd jobs

_log = logging.getLogger("runcast.slurm.feeder")
Run = Callable[[Sequence[str]], str]


@dataclass(frozen=True)
class EventsReport:
    """What came of one pass of events."""

    records: int
    told: int
    refused: int
    unreadable: int


def tell_events(
    memory: Memory, client: Client, run_command: Run, now_s: float, first_pass_s: float, gpus_tracked: bool
) -> EventsReport:
    """Tell the service what happened since the last pass (on the first one: since `first_pass_s` ago).

    What is told is remembered batch by batch, so that a pass that dies goes on where it was. Raises RuncastError where sacct or
    the service fails; the next pass begins at the same place.
    """
    told, read_until_s = _remembered(memory)
    since_s = (now_s - first_pass_s if read_until_s is None else read_until_s) - OVERLAP_S
    records, unreadable = _records(run_command, since_s, now_s)
    limits = limits_of_partitions(run_command(["scontrol", "show", "partition", "--oneliner"]))
    news = news_of(records, told, limits, gpus_tracked)
    refused: list[str] = []
    for first in range(0, len(news), JOBS_AT_ONCE):
        some = news[first : first + JOBS_AT_ONCE]
        refused += _tell(client, some)
        told |= {one.job_id: one.told for one in some}
        memory.save(_content(read_until_s, told))
    kept = {job_id: entry for job_id, entry in told.items() if entry.end_s is None or entry.end_s >= now_s - 2 * OVERLAP_S}
    memory.save(_content(now_s, _without_vanished(kept, records, now_s)))
    _warn("not read from sacct", unreadable)
    _warn("refused by the service", refused)
    return EventsReport(len(records), len(news) - len(refused), len(refused), len(unreadable))


def write_log(folder: Path, run_command: Run, now_s: float, days: int) -> dict[str, int]:
    """Write the nightly log of the last `days` days (UTC, today included); return the jobs of each file by name.

    A day's file is never replaced by one with fewer jobs: accounting that has been purged is no reason to forget.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MemoryFileError(
            f"{folder}: cannot be the log's folder ({error.strerror}). Name one that may be written."
        ) from error
    first_s = (int(now_s) // DAY_S - days + 1) * DAY_S
    records, unreadable = _records(run_command, first_s, now_s, each_attempt=True)
    _warn("not read from sacct", unreadable)
    files: dict[str, list[Record]] = {"sacct-open.txt": []}
    # All attempts and parts of a job stand in one file, that of the last to end: the log's reader joins them there.
    for group in by_id(records):
        latest = latest_attempts(group)
        ends_s = [epoch_s(one["End"]) for one in latest if phase_of(one) == "ended"]
        end_s = max((end for end in ends_s if end is not None), default=0)
        if len(ends_s) < len(latest) or not end_s:
            files["sacct-open.txt"] += group
        elif end_s >= first_s:
            files.setdefault(f"sacct-{datetime.fromtimestamp(end_s, UTC):%Y-%m-%d}.txt", []).extend(group)
    written = {}
    # Ended jobs first: one that is for a moment in both files is read as ended.
    for name in sorted(files, key=lambda name: (name == "sacct-open.txt", name)):
        had = jobs_in_log((folder / name).read_text("utf-8", "replace")) if (folder / name).exists() else 0
        if name != "sacct-open.txt" and had > len(files[name]):
            _log.warning("%s: has %d jobs, sacct now knows only %d; it is kept", folder / name, had, len(files[name]))
            continue
        write_atomically(folder / name, log_text(files[name]))
        written[name] = len(files[name])
    return written


def _records(run_command: Run, start_s: float, end_s: float, each_attempt: bool = False) -> tuple[list[Record], list[str]]:
    """Ask sacct for the records between two moments; also say of each piece of its output that is none why.

    Of a heterogeneous job they may lack parts that ended before the first moment: its records are asked for by id.
    """

    def ask(first_s: float, ids: Sequence[str] = ()) -> tuple[list[Record], list[str]]:
        delimiter = new_delimiter()
        return read_records(run_command(sacct_command(first_s, end_s, delimiter, ids, each_attempt)), delimiter)

    records, refused = ask(start_s)
    met = {record["JobID"] for record in records}
    ids = het_ids(records)
    for first in range(0, len(ids), IDS_AT_ONCE):
        parts = ask(0, ids[first : first + IDS_AT_ONCE])[0]
        records += [part for part in parts if "+" in part["JobID"] and part["JobID"] not in met]
    return records, refused


def _warn(what: str, texts: Sequence[str]) -> None:
    for text in texts[:MOST_LINES]:
        _log.warning("%s: %s", what, text)
    if len(texts) > MOST_LINES:
        _log.warning("%s: %d more", what, len(texts) - MOST_LINES)


def _tell(client: Client, some: Sequence[News]) -> list[str]:
    """Tell a batch; return what the service refuses of it, and why."""
    try:
        client.tell([one.event for one in some])
    except RefusedError as refusal:
        if len(some) == 1:
            return [f"job {some[0].job_id}, {some[0].event['event']}: {refusal}"]
        half = len(some) // 2
        return _tell(client, some[:half]) + _tell(client, some[half:])
    return []


def _remembered(memory: Memory) -> tuple[dict[str, Told], float | None]:
    """Return what was told and up to when accounting was read; raises MemoryFileError where the file is another program's."""
    content = memory.load()
    try:
        told = {job_id: Told(**entry) for job_id, entry in content.pop("told", {}).items()}
        read_until_s = content.pop("read_until_s", None)
        if content:
            raise ValueError(f"it holds {min(content)!r}")
        return told, None if read_until_s is None else float(read_until_s)
    except (AttributeError, TypeError, ValueError) as error:
        raise MemoryFileError(f"the memory file is not the feeder's own ({error}). Give the feeder a file of its own.") from error


def _content(read_until_s: float | None, told: dict[str, Told]) -> dict[str, Any]:
    entries = {
        job_id: {name: value for name, value in vars(entry).items() if value is not None} for job_id, entry in told.items()
    }
    return {"told": entries, **({} if read_until_s is None else {"read_until_s": read_until_s})}


def _without_vanished(told: dict[str, Told], records: Iterable[Record], now_s: float) -> dict[str, Told]:
    """Drop jobs submitted over a month ago that accounting no longer knows: purged, or runaway."""
    known = jobs_named(records)
    return {job_id: entry for job_id, entry in told.items() if job_id in known or entry.submit_s >= now_s - 31 * DAY_S}


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog="runcast slurm-feed", description="Feeds Slurm's accounting to Runcast.")
    tasks = parser.add_subparsers(dest="task", required=True)
    events = tasks.add_parser("events", help="tell the service what was submitted, started and ended")
    events.add_argument("--socket", type=Path, default=Path("/run/runcast/predict.sock"), help="of `runcast serve`")
    events.add_argument("--memory", type=Path, required=True, help="file that remembers what was told")
    events.add_argument(
        "--every", type=seconds(SHORTEST_PAUSE_S), metavar="S", help="go on, one pass every S seconds (default: one pass)"
    )
    events.add_argument(
        "--first-pass",
        type=seconds(0, MOST_DAYS_BACK * DAY_S),
        default=DAY_S,
        metavar="S",
        help="how far back the very first pass looks (%(default)s)",
    )
    events.add_argument(
        "--timeout", type=seconds(), default=10.0, metavar="S", help="for one answer of the service (%(default)s)"
    )
    events.add_argument("--gpus-tracked", action="store_true", help="as in the cluster file: no GPU in a request means 0")
    log = tasks.add_parser("log", help="write the nightly log")
    log.add_argument("--folder", type=Path, required=True, help="where the cluster file's source.paths look: FOLDER/sacct-*.txt")
    log.add_argument(
        "--days", type=whole(1, MOST_DAYS_BACK), default=3, help="days (UTC) to write anew, today included (%(default)s)"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a task of the command line; returns the exit code."""
    arguments = _arguments(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")

    def run_command(command: Sequence[str]) -> str:
        return readable(run(command, SACCT_TIMEOUT_S))

    try:
        if arguments.task == "log":
            for name, jobs in write_log(arguments.folder, run_command, time.time(), arguments.days).items():
                _log.info("%s: %d jobs", arguments.folder / name, jobs)
            return 0
        with held(arguments.memory) as memory:
            return _keep_telling(arguments, memory, Client(arguments.socket, arguments.timeout), run_command)
    except RuncastError as error:
        _log.error("%s", error)
        return report(error)


def _keep_telling(arguments: argparse.Namespace, memory: Memory, client: Client, run_command: Run) -> int:
    while True:
        try:
            report = tell_events(memory, client, run_command, time.time(), arguments.first_pass, arguments.gpus_tracked)
            _log.info(
                "%d records, %d not read; %d events told, %d refused",
                report.records,
                report.unreadable,
                report.told,
                report.refused,
            )
        except RuncastError as error:
            if arguments.every is None:
                raise
            _log.error("%s; trying again in %g s", error, arguments.every)
        if arguments.every is None:
            return 0
        time.sleep(arguments.every)


if __name__ == "__main__":
    sys.exit(main())
