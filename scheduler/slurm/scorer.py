"""Sets what the operator chose on pending jobs through `scontrol update`, where a plugin inside slurmctld is not wanted.

    runcast slurm-score --memory /var/lib/runcast/scorer.json --order site_factor --note admin_comment

One pass reads the queue, asks the service for all pending jobs at once, and changes those whose forecast is new or has moved.
A pass that is run again changes nothing. What was there before is remembered and `--undo` puts it back. The time limit is never
touched, a held job is never released, and of a running job nothing is changed.
"""

import argparse
import logging
import math
import re
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from runcast.data.errors import RuncastError, UsageError
from runcast.outcome import report
from runcast.scheduler.client import Client, Forecast
from runcast.scheduler.options import Parser, seconds, whole
from runcast.scheduler.slurm.commands import SlurmCommandError, run
from runcast.scheduler.slurm.memory import Memory, MemoryFileError, held
from runcast.scheduler.slurm.pending import PendingJob, read_pending

Order = Literal["site_factor", "nice", "priority"]
Note = Literal["admin_comment", "comment"]
Run = Callable[[Sequence[str]], str]

DOUBLINGS = 32  # of GPU-seconds: beyond any job
MOVED_BY = 0.1  # a forecast that stays within a tenth is not written again
NOT_YET_S = -1.0  # forecast of a job whose change was begun: whatever comes next has moved
COMMAND_TIMEOUT_S = 30.0
SHORTEST_PAUSE_S = 1.0  # between two passes: each asks slurmctld for its whole queue
MOST_POINTS = 2**31 // (2 * DOUBLINGS)  # a site factor and a nice hold 2^31 to either side
MOST_PRIORITY = 2**32 - 3  # above it slurmctld's own marks begin
MOST_UPDATES = 1_000_000
_OWN_NOTE = re.compile(r"(?:^|; )runcast p50=\S+ p90=\S+(?: \w+=\S+)*$")

_log = logging.getLogger("runcast.slurm.scorer")


@dataclass(frozen=True)
class Choice:
    """What the operator chose: how to order, where to note, whether to plan."""

    order: Order | None = None
    order_points: int = 1000  # priority points for each doubling of p50 x GPUs
    priority_top: int = 100_000  # of order "priority"; must exceed 32 x order_points
    note: Note | None = None
    plan: bool = False


@dataclass(frozen=True)
class Remembered:
    """What was set on one job, by scontrol's names, and what had been there before."""

    p50_s: float
    p90_s: float
    options: dict[str, str]
    nice_before: int = 0


@dataclass(frozen=True)
class Change:
    """The commands that change one job, and what will be remembered of it (None: forgotten)."""

    key: str
    commands: tuple[tuple[str, ...], ...]
    remembered: Remembered | None


@dataclass
class PassReport:
    """What came of one pass."""

    pending: int = 0
    changed: int = 0
    unchanged: int = 0
    left_for_later: int = 0
    without_forecast: int = 0
    failed: list[str] = field(default_factory=list)


def cost_points(forecast: Forecast, gpu_count: float | None, points: int) -> int:
    """Return how late a job may come: `points` for each doubling of its GPU-seconds, at most 32 doublings.

    >>> cost_points({"p50_s": 3.0}, None, 1000), cost_points({"p50_s": 1.0}, 3.0, 1000)
    (2000, 2000)
    """
    work = forecast["p50_s"] * max(gpu_count or 1.0, 1.0)
    return round(min(math.log2(1.0 + work), DOUBLINGS) * points)


def note_text(forecast: Forecast) -> str:
    """Return the forecast as the note that job_submit.lua writes."""
    parts = [f"runcast p50={math.ceil(forecast['p50_s'])}s p90={math.ceil(forecast['p90_s'])}s"]
    if isinstance(forecast.get("confidence"), int | float):
        parts.append(f"confidence={forecast['confidence']:.2f}")
    if isinstance(forecast.get("n_history"), int):
        parts.append(f"n={forecast['n_history']}")
    for name, key in (("source", "source"), ("model", "model_version")):
        if re.fullmatch(r"[\w.:/@+-]{1,64}", str(forecast.get(key) or "")):
            parts.append(f"{name}={forecast[key]}")
    return " ".join(parts)


def without_note(comment: str) -> str:
    """Return a comment without Runcast's part of it.

    >>> without_note("mine; runcast p50=9s p90=20s n=3"), without_note("runcast p50=9s p90=20s")
    ('mine', '')
    """
    return _OWN_NOTE.sub("", comment)


def change_of(job: PendingJob, forecast: Forecast, choice: Choice, before: Remembered | None) -> Change | None:
    """Return what to change of a job, or None where it already is as chosen."""
    nice_before = job.nice
    if before is not None and before.options.get("Nice") == str(job.nice):
        nice_before = before.nice_before  # nobody has changed it since
    options = _options(job, forecast, choice, nice_before)
    if not options or (before is not None and set(before.options) == set(options) and not _has_moved(before, forecast)):
        return None
    dropped = {} if before is None else {name: value for name, value in _restored(job, before).items() if name not in options}
    remembered = Remembered(forecast["p50_s"], forecast["p90_s"], options, nice_before)
    return Change(job.key, (_update(job, {**dropped, **options}),), remembered)


def undo_of(job: PendingJob, before: Remembered) -> Change:
    """Return what puts a job back as it was before Runcast."""
    options = _restored(job, before)
    commands = [_update(job, options)] if options else []
    if "Priority" in before.options and not job.is_held:
        # scontrol(1): to give a priority back to Slurm's own computation, hold and then release.
        commands += [("scontrol", "hold", job.target), ("scontrol", "release", job.target)]
    return Change(job.key, tuple(commands), None)


def plan_refused(version_text: str, config_text: str) -> str | None:
    """Return why a TimeMin must not be set on this Slurm, or None where it may.

    Without time_min_as_soft_limit, which came with 23.11, backfill makes the TimeMin of a job it starts early its kill limit.

    >>> plan_refused("slurm-wlm 22.05.8", "")
    'Slurm 22.05 would make a TimeMin the kill limit; it takes 23.11 or newer'
    """
    version = re.search(r"(\d+)\.(\d+)", version_text)
    if version is None:
        return f"scontrol --version did not tell a version but {version_text[:40]!r}"
    if (int(version[1]), int(version[2])) < (23, 11):
        return f"Slurm {version[0]} would make a TimeMin the kill limit; it takes 23.11 or newer"
    parameters = re.search(r"^SchedulerParameters\s*=\s*(.*)$", config_text, re.MULTILINE)
    if parameters is None or "time_min_as_soft_limit" not in re.split(r"[,\s]+", parameters[1]):
        return "SchedulerParameters does not hold time_min_as_soft_limit"
    return None


def order_refused(order: str | None, config_text: str) -> str | None:
    """Return why an order by this field moves nothing on this Slurm, or None where it works.

    Tried on 22.05: priority/basic takes no notice of a site factor, and counts each new job down from the last one's nice.

    >>> order_refused("site_factor", "PriorityType            = priority/basic")
    'PriorityType is priority/basic; --order site_factor takes priority/multifactor'
    """
    if order not in ("site_factor", "nice") or not re.search(
        r"^PriorityType\s*=\s*priority/basic\s*$", config_text, re.MULTILINE
    ):
        return None
    return f"PriorityType is priority/basic; --order {order} takes priority/multifactor"


def score(memory: Memory, client: Client, run_command: Run, choice: Choice, limits: "Limits", gpus_tracked: bool) -> PassReport:
    """Run one pass; raises RuncastError, with nothing changed, where the queue or the service gives no answer."""
    remembered = _remembered(memory)
    jobs = read_pending(run_command(["squeue", "--json"]), gpus_tracked)
    forecasts = client.predict_many([job.asked for job in jobs])
    report = PassReport(pending=len(jobs), without_forecast=sum(forecast is None for forecast in forecasts))
    changes: list[Change] = []
    for job, forecast in zip(jobs, forecasts, strict=True):
        if forecast is None:
            continue
        change = change_of(job, forecast, choice, remembered.get(job.key))
        if change is None:
            report.unchanged += 1
        else:
            changes.append(change)
    changes.sort(key=lambda change: change.key in remembered)  # jobs that have nothing yet come first
    waiting = {job.key for job in jobs}
    _apply(changes, {key: kept for key, kept in remembered.items() if key in waiting}, memory, run_command, limits, report)
    return report


def undo(memory: Memory, run_command: Run, limits: "Limits") -> PassReport:
    """Put all pending jobs that were changed back as they were."""
    remembered = _remembered(memory)
    jobs = [job for job in read_pending(run_command(["squeue", "--json"]), gpus_tracked=False) if job.key in remembered]
    report = PassReport(pending=len(jobs))
    waiting = {job.key: remembered[job.key] for job in jobs}
    _apply([undo_of(job, remembered[job.key]) for job in jobs], waiting, memory, run_command, limits, report)
    return report


@dataclass(frozen=True)
class Limits:
    """Bounds of one pass: slurmctld is not to be kept busy by us."""

    updates: int = 1000
    seconds: float = 60.0
    is_dry_run: bool = False
    clock: Callable[[], float] = time.monotonic


def _options(job: PendingJob, forecast: Forecast, choice: Choice, nice_before: int) -> dict[str, str]:
    options: dict[str, str] = {}
    cost = cost_points(forecast, job.asked.get("gpu_count"), choice.order_points)
    if choice.order == "site_factor":
        options["SiteFactor"] = str(DOUBLINGS * choice.order_points - cost)
    elif choice.order == "nice":
        options["Nice"] = str(min(nice_before + cost, 2_147_483_645))
    elif choice.order == "priority" and not job.is_held:
        options["Priority"] = str(choice.priority_top - cost)
    if choice.note is not None:
        own = without_note(job.comment if choice.note == "comment" else job.admin_comment)
        options["Comment" if choice.note == "comment" else "AdminComment"] = "; ".join(filter(None, [own, note_text(forecast)]))
    minutes = max(math.ceil(forecast["p90_s"] / 60), 1)
    if choice.plan and job.time_limit_min is not None and minutes < job.time_limit_min:
        options["TimeMin"] = str(minutes)
    return options


def _restored(job: PendingJob, before: Remembered) -> dict[str, str]:
    """Return the options that put back what was there before, except for a Priority."""
    restored = {
        "Nice": str(before.nice_before),
        "SiteFactor": "0",
        "TimeMin": "0",
        "AdminComment": without_note(job.admin_comment),
        "Comment": without_note(job.comment),
    }
    changed_since = {"Nice"} if before.options.get("Nice") != str(job.nice) else set()
    return {name: restored[name] for name in before.options if name in restored and name not in changed_since}


def _has_moved(before: Remembered, forecast: Forecast) -> bool:
    pairs = ((before.p50_s, forecast["p50_s"]), (before.p90_s, forecast["p90_s"]))
    return any(abs(new - old) > MOVED_BY * max(old, 1.0) for old, new in pairs)


def _update(job: PendingJob, options: Mapping[str, str]) -> tuple[str, ...]:
    return ("scontrol", "update", f"JobId={job.target}", *(f"{name}={value}" for name, value in options.items()))


def _apply(
    changes: Sequence[Change],
    remembered: dict[str, Remembered],
    memory: Memory,
    run_command: Run,
    limits: Limits,
    report: PassReport,
) -> None:
    if limits.is_dry_run:
        for change in changes:
            for command in change.commands:
                sys.stdout.write(shlex.join(command) + "\n")
        report.left_for_later = len(changes)
        return
    start, chosen = limits.clock(), changes[: limits.updates]
    # What was there before is on disk before it is changed: a pass that dies can still be undone.
    begun = {c.key: replace(c.remembered, p50_s=NOT_YET_S) for c in chosen if c.remembered is not None}
    remembered = {**begun, **remembered}
    _save(memory, remembered)
    for done, change in enumerate(chosen):
        if limits.clock() - start > limits.seconds:
            chosen = chosen[:done]
            break
        try:
            for command in change.commands:
                run_command(command)
        except SlurmCommandError as error:
            report.failed.append(str(error))
            continue
        report.changed += 1
        if change.remembered is None:
            remembered.pop(change.key, None)
        else:
            remembered[change.key] = change.remembered
    report.left_for_later = len(changes) - len(chosen)
    _save(memory, remembered)


def _remembered(memory: Memory) -> dict[str, Remembered]:
    try:
        return {key: Remembered(**entry) for key, entry in memory.load().items()}
    except TypeError as error:
        raise MemoryFileError(f"the memory file is not the scorer's own ({error}). Give the scorer a file of its own.") from error


def _save(memory: Memory, remembered: Mapping[str, Remembered]) -> None:
    content: dict[str, Any] = {key: asdict(entry) for key, entry in remembered.items()}
    memory.save(content)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog="runcast slurm-score", description="Sets the operator's choice on Slurm's pending jobs.")
    parser.add_argument("--socket", type=Path, default=Path("/run/runcast/predict.sock"), help="of `runcast serve`")
    parser.add_argument("--memory", type=Path, required=True, help="file that remembers what was there before")
    parser.add_argument("--order", choices=("site_factor", "nice", "priority"), help="shorter p50 x GPUs first, by this field")
    parser.add_argument(
        "--order-points", type=whole(1, MOST_POINTS), default=1000, help="priority points for each doubling (%(default)s)"
    )
    parser.add_argument(
        "--priority-top", type=whole(1, MOST_PRIORITY), default=100_000, help="only for --order priority (%(default)s)"
    )
    parser.add_argument("--note", choices=("admin_comment", "comment"), help="write the forecast into this field")
    parser.add_argument("--plan", action="store_true", help="TimeMin from p90; Slurm >= 23.11 with time_min_as_soft_limit only")
    parser.add_argument("--max-updates", type=whole(1, MOST_UPDATES), default=1000, help="jobs changed in one pass (%(default)s)")
    parser.add_argument("--max-seconds", type=seconds(), default=60.0, help="for the changes of one pass (%(default)s)")
    parser.add_argument(
        "--timeout", type=seconds(), default=10.0, metavar="S", help="for one answer of the service (%(default)s)"
    )
    parser.add_argument(
        "--every", type=seconds(SHORTEST_PAUSE_S), metavar="S", help="go on, one pass every S seconds (default: one pass)"
    )
    parser.add_argument("--gpus-tracked", action="store_true", help="as in the cluster file: no GPU in a request means 0")
    parser.add_argument("--dry-run", action="store_true", help="print the commands and run none")
    parser.add_argument("--undo", action="store_true", help="put back what was there before, and end")
    arguments = parser.parse_args(argv)
    if not arguments.undo and not (arguments.order or arguments.note or arguments.plan):
        parser.error("nothing to set: choose at least one of --order, --note, --plan")
    if arguments.order == "priority" and arguments.priority_top <= DOUBLINGS * arguments.order_points:
        parser.error("--priority-top must exceed 32 x --order-points, or jobs would reach priority 0 and be held")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = _arguments(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")

    def run_command(command: Sequence[str]) -> str:
        return run(command, COMMAND_TIMEOUT_S)

    try:
        _check_slurm(arguments, run_command)
        with held(arguments.memory) as memory:
            return _keep_scoring(arguments, memory, run_command)
    except RuncastError as error:
        _log.error("%s", error)
        return report(error)


def _check_slurm(arguments: argparse.Namespace, run_command: Run) -> None:
    """Raise UsageError where this Slurm cannot have what the operator chose; what was set can be undone on any."""
    if arguments.undo or not (arguments.plan or arguments.order):
        return
    config = run_command(["scontrol", "show", "config"])
    if why := order_refused(arguments.order, config):
        raise UsageError(f"--order is refused: {why}")
    if arguments.plan and (why := plan_refused(run_command(["scontrol", "--version"]), config)):
        raise UsageError(f"--plan is refused: {why}")


def _keep_scoring(arguments: argparse.Namespace, memory: Memory, run_command: Run) -> int:
    choice = Choice(arguments.order, arguments.order_points, arguments.priority_top, arguments.note, arguments.plan)
    limits = Limits(arguments.max_updates, arguments.max_seconds, arguments.dry_run)
    client = Client(arguments.socket, arguments.timeout)
    while True:
        try:
            if arguments.undo:
                report = undo(memory, run_command, limits)
            else:
                report = score(memory, client, run_command, choice, limits, arguments.gpus_tracked)
            _log.info("%s", _summary(report))
        except RuncastError as error:
            if arguments.every is None or arguments.undo:
                raise
            _log.error("%s; trying again in %g s", error, arguments.every)
        if arguments.every is None or arguments.undo:
            return 0
        time.sleep(arguments.every)


def _summary(report: PassReport) -> str:
    text = (
        f"{report.pending} pending, {report.changed} changed, {report.unchanged} as they were, "
        f"{report.left_for_later} left for later, {report.without_forecast} without a forecast, {len(report.failed)} failed"
    )
    return "; ".join([text, *report.failed[:3]])


if __name__ == "__main__":
    sys.exit(main())
