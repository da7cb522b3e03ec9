"""How often the quality gate would have stopped the nights of the public logs, and which faults put into them it stops.

RUNCAST_TRACES=<folder> python benchmarks/gate.py [--nights 40 | --all] [--faulty 12] [--list] [--ended-only] [NAME …]

Each log is read as a cluster's that runs every night. An even sample of its nights is judged, each by the days before it and by nothing
later, as it was; an even sample of these also with one fault in what the log gained on the day: the share that is stopped, in percent.
Nights are those from the eighth day of the log to the day before its last submission: what comes after is the tail of an archive, which
no cluster writes. A night counts as stopped where a stop check fails, or where the load refuses a moved clock; as idle where moreover no
job ended on the day, so that nothing new could have been learnt. The checks are evaluated here in numpy; each log's first night, as it was
and with two of the faults, is judged by Great Expectations too, and a difference ends the benchmark.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.asof import DAY_US, cut_us, day_number, day_of, day_start_us, ended_at, local_days, microseconds, seen_at
from runcast.data.cluster import Cluster, read_clusters
from runcast.data.job import ingest, moved_clock
from runcast.data.lake import Lake
from runcast.data.quality import check_jobs
from runcast.data.quality_norms import AMOUNTS, MIN_NORM_DAYS, WINDOW_DAYS, WORDS, Day, Norms, measure, norms_of
from runcast.data.quality_suites import Check, jobs_frame, jobs_suite, night_frame, night_suite
from runcast.data.quality_units import units_of
from runcast.data.settings import EXAMPLES, read_settings
from runcast.data.states import OTHER

LEAST_DAYS = 45
HOUR_US = 3_600_000_000


@dataclass(frozen=True)
class Log:
    """All ended jobs of a log, its days (with or without jobs), and what each of them measures."""

    cluster: Cluster
    jobs: pa.Table
    first: int  # day number of the first end
    nights: range  # day numbers that can be judged
    refused: Counter[str]
    is_ended_only: bool  # jobs are told of once they ended
    kept: dict[tuple[int, bool], Day] = field(
        default_factory=dict
    )  # what days measure, by number and whether open jobs are told of

    @cached_property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        return microseconds(self.jobs["submit_time"]), microseconds(ended_at(self.jobs))

    def measured(self, number: int, tells_open: bool) -> Day:
        """Measures of a day by what is known now, where the log tells of open jobs and where it does not; kept."""
        if (number, tells_open) not in self.kept:
            [day] = norms_of(self.jobs, self.cluster, [day_of(number)], {}, tells_open=tells_open).days
            self.kept[number, tells_open] = day
        return self.kept[number, tells_open]

    def of(self, number: int) -> pa.Table:
        """What the log told at the end of the day of the jobs that waited, ran or ended on it."""
        (begin, cut), (submits, ends) = self.span(number), self.moments
        jobs = seen_at(self.jobs.take(pa.array(np.flatnonzero((submits < cut) & (ends >= begin)))), cut)
        return self.ended(jobs, number) if self.is_ended_only else jobs

    def span(self, number: int) -> tuple[int, int]:
        return day_start_us(day_of(number), self.cluster.zone), cut_us(day_of(number), self.cluster.zone)

    def ended(self, jobs: pa.Table, number: int) -> pa.Table:
        begin, cut = self.span(number)
        ends = microseconds(ended_at(jobs))
        return jobs.filter(pa.array((ends >= begin) & (ends < cut)))

    def before(self, number: int, tells_open: bool = True) -> Norms:
        begin = max(self.first, number - WINDOW_DAYS)
        refused = tuple(self.refused[day_of(day).isoformat()] for day in range(begin, number))
        return Norms(tuple(self.measured(day, tells_open) for day in range(begin, number)), refused)


#: What a log with a fault tells on a day, from what it told without; None where the log has nothing that could be so wrong.
Fault = Callable[[Log, int, pa.Table], pa.Table | None]


@dataclass(frozen=True)
class Suites:
    """A night's frames and checks, as data/job.py makes them."""

    jobs: tuple[pd.DataFrame, Sequence[Check]]
    night: tuple[pd.DataFrame, Sequence[Check]]

    def failed(self, severity: str) -> set[str]:
        return {
            check.name
            for frame, checks in (self.jobs, self.night)
            for check in checks
            if check.severity == severity and not holds(check, frame)
        }


def suites(log: Log, number: int, told: pa.Table, tells_open: bool, norms: Norms) -> Suites:
    day = day_of(number)
    today, ended = measure(told, log.cluster, day, tells_open=tells_open), log.ended(told, number)
    refused = log.refused[day.isoformat()] + log.refused[(day - timedelta(days=1)).isoformat()]
    frame, units = jobs_frame(ended), units_of(ended, ended.slice(0, 0))
    return Suites(
        (frame, jobs_suite(log.cluster, today, norms, frame)),
        (night_frame(today, norms, 0, refused, units), night_suite(log.cluster, today, norms)),
    )


def holds(check: Check, frame: pd.DataFrame) -> bool:
    """Whether the frame meets the check, by the meaning that Great Expectations gives it: of the values that are known, `mostly`."""
    arguments = check.arguments
    mostly, kind = arguments.get("mostly", 1.0), check.expectation
    low, high = arguments.get("min_value"), arguments.get("max_value")
    low, high = -np.inf if low is None else low, np.inf if high is None else high
    if kind == "ExpectTableRowCountToBeBetween":
        return bool(low <= len(frame) <= high)
    if kind == "ExpectColumnPairValuesAToBeGreaterThanB":
        pairs = frame[[arguments["column_A"], arguments["column_B"]]].dropna().to_numpy(np.float64)
        return share(pairs[:, 0] >= pairs[:, 1]) >= mostly
    column = frame[arguments["column"]]
    if kind == "ExpectColumnValuesToNotBeNull":
        return share(column.notna().to_numpy()) >= mostly
    known = column.dropna()
    if kind == "ExpectColumnValuesToBeBetween":
        return share(((known >= low) & (known <= high)).to_numpy()) >= mostly
    if kind == "ExpectColumnValuesToBeUnique":
        return bool(known.is_unique)
    among = share(known.isin(arguments["value_set"]).to_numpy()) if len(known) else None
    if kind == "ExpectColumnValuesToBeInSet":
        return among is None or among >= mostly
    if kind == "ExpectColumnValuesToNotBeInSet":
        return among is None or 1 - among >= mostly
    raise ValueError(f"{check.name}: {kind} is not known here")


def share(mask: np.ndarray) -> float:
    return float(mask.mean()) if len(mask) else 1.0


def no_rows(log: Log, number: int, jobs: pa.Table) -> pa.Table:
    return seen_at(jobs, log.span(number)[0])


def half(log: Log, number: int, jobs: pa.Table) -> pa.Table:
    """Leave out half of the rows; jobs that were known the night before are still known as they were."""
    is_lost = np.random.default_rng(number).permutation(jobs.num_rows) < jobs.num_rows // 2
    as_before = seen_at(jobs.filter(pa.array(is_lost)), log.span(number)[0])
    return pa.concat_tables([jobs.filter(pa.array(~is_lost)), as_before])


def cut_at_noon(log: Log, number: int, jobs: pa.Table) -> pa.Table:
    return seen_at(jobs, log.span(number)[1] - DAY_US // 2)


def moved(among: Sequence[str]) -> Fault:
    """Let each column that the log fills hold what belongs into the next."""

    def fault(log: Log, number: int, jobs: pa.Table) -> pa.Table | None:
        filled = [name for name in among if log.jobs[name].null_count < log.jobs.num_rows]
        if len(filled) < 2:
            return None
        told = jobs
        for name, other in zip(filled, [*filled[1:], filled[0]], strict=True):
            told = put(told, name, jobs[other])
        return told

    return fault


def half_empty(log: Log, number: int, jobs: pa.Table) -> pa.Table | None:
    """Lose every other value of the amount that the log fills best."""
    name = min(AMOUNTS, key=lambda one: log.jobs[one].null_count)
    if log.jobs[name].null_count > log.jobs.num_rows / 2:
        return None
    is_lost = np.random.default_rng(number).random(jobs.num_rows) < 0.5
    return put(jobs, name, pc.if_else(pa.array(is_lost), pa.scalar(None, jobs[name].type), jobs[name]))


def told_twice(log: Log, number: int, jobs: pa.Table) -> pa.Table:
    again = jobs
    for name in ("job_id", "job_key"):
        again = put(again, name, pc.binary_join_element_wise(jobs[name], "9", ""))
    return pa.concat_tables([jobs, again])


def hours(by: int) -> Fault:
    """Write all that the log gained on the day in another zone."""

    def fault(log: Log, number: int, jobs: pa.Table) -> pa.Table | None:
        if log.cluster.clock != "calendar":
            return None
        for name in ("submit_time", "start_time", "end_time"):
            jobs = put(jobs, name, pc.add(jobs[name], pa.scalar(by * HOUR_US, pa.duration("us"))))
        return seen_at(jobs, log.span(number)[1])

    return fault


def new_state(log: Log, number: int, jobs: pa.Table) -> pa.Table | None:
    """Give three of ten ended jobs a state that states.py does not know."""
    if log.before(number).most("other_share") > 0.5:  # the log tells of no outcomes
        return None
    rows = (np.arange(jobs.num_rows) % 10 < 3) & pc.is_valid(ended_at(jobs)).to_numpy()
    return changed(jobs, rows, state=OTHER, label="censored")


def renamed(column: str) -> Fault:
    """Give the word that came most often in the weeks before another name."""

    def fault(log: Log, number: int, jobs: pa.Table) -> pa.Table | None:
        words = log.before(number).counts(column)
        if len(words) < 2:
            return None
        word = max(words, key=lambda one: (words[one], one))
        return changed(jobs, pc.fill_null(pc.equal(jobs[column], word), False).to_numpy(), **{column: f"{word}-new"})

    return fault


def put(jobs: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    at, field = jobs.schema.get_field_index(name), jobs.schema.field(name)
    return jobs.set_column(at, field, values.cast(field.type))


def changed(jobs: pa.Table, rows: np.ndarray, **values: str) -> pa.Table:
    for name, value in values.items():
        jobs = put(jobs, name, pc.if_else(pa.array(rows), value, jobs[name]))
    return jobs


FAULTS: dict[str, Fault] = {
    "no rows": no_rows,
    "half the rows": half,
    "cut at noon": cut_at_noon,
    "names moved": moved(WORDS),
    "numbers moved": moved(AMOUNTS),
    "half a column": half_empty,
    "doubled": told_twice,
    "+1 h": hours(1),
    "−1 h": hours(-1),
    "+8 h": hours(8),
    "−8 h": hours(-8),
    "new state": new_state,
    "queue renamed": renamed("queue"),
    "account renamed": renamed("account"),
    "group renamed": renamed("group"),
}


def read(names: Sequence[str], is_ended_only: bool) -> Iterator[Log]:
    """Yield each log with days enough, as a cluster's that runs every night."""
    with tempfile.TemporaryDirectory() as home:
        settings = read_settings({**os.environ, "RUNCAST_HOME": home})
        for name, held in read_clusters(EXAMPLES).items():
            if held.refused or (names and name not in names):
                continue
            cluster = held.model_copy(update={"schedule": "30 2 * * *"})
            ingest(cluster, settings)
            lake = Lake(settings.lake)
            dates = lake.dates(name)
            jobs = lake.read_ended(name, dates).combine_chunks()
            first = day_number(date.fromisoformat(dates[0]))
            last = int(local_days(microseconds(jobs["submit_time"]).max(keepdims=True), cluster.zone)[0])
            if last - first >= LEAST_DAYS:
                refused = Counter(lake.read_rejects(name)["day"].to_pylist())
                yield Log(cluster, jobs, first, range(first + MIN_NORM_DAYS, last), refused, is_ended_only)


def has_own_ids(cluster: Cluster) -> bool:
    """Whether the log gives its jobs ids; else they are made of the content, and no job is known again once its times moved."""
    return cluster.source.format != "table" or "job_id" in cluster.source.options["columns"]


def is_refused(log: Log, number: int, told: pa.Table) -> bool:
    """Whether the load refuses what is told, because jobs that ran as the day began have moved."""
    known = log.of(number)
    known = known.filter(pa.array(microseconds(known["submit_time"]) < log.span(number)[0]))
    return has_own_ids(log.cluster) and moved_clock(told, known) is not None


def judge(log: Log, number: int, told: pa.Table) -> Suites:
    """The checks of a night; jobs that are told to have ended on the day before join that day's."""
    ends, (begin, _) = microseconds(ended_at(told)), log.span(number)
    tells_open = ended_at(told).null_count > 0
    norms = log.before(number, tells_open)
    earlier = told.filter(pa.array((ends < begin) & (ends >= begin - DAY_US)))
    if earlier.num_rows:
        both = pa.concat_tables([log.of(number - 1), earlier])
        latest = measure(both, log.cluster, day_of(number - 1), tells_open=tells_open)
        norms = replace(norms, days=(*norms.days[:-1], latest))
    return suites(log, number, told, tells_open, norms)


def compare_with_great_expectations(log: Log, number: int, judged: Suites) -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = check_jobs(log.cluster.name, day_of(number), Path(folder), jobs=judged.jobs, night=judged.night)
    theirs = {finding.check for finding in (*report.stops, *report.warns)}
    ours = judged.failed("stop") | judged.failed("warn")
    if report.broken or theirs != ours:
        sys.exit(f"{log.cluster.name}, {day_of(number)}: Great Expectations finds {theirs}, this script {ours}; {report.broken}")


def sample(nights: Sequence[int], most: int | None) -> list[int]:
    """At most so many of the nights, evenly spread; all of them where no number is given."""
    if most is None or most >= len(nights):
        return list(nights)
    return [nights[int(at)] for at in np.linspace(0, len(nights) - 1, most)]


@dataclass
class Walk:
    """What came of the nights that were judged, of one log or of several."""

    nights: int = 0
    stopped: int = 0
    idle: int = 0  # of the stopped, those on which no job ended
    warned: int = 0  # of the others
    faulty: int = 0
    stops: Counter[str] = field(default_factory=Counter)  # nights by check
    warnings: Counter[str] = field(default_factory=Counter)
    possible: Counter[str] = field(default_factory=Counter)  # nights by fault
    caught: Counter[str] = field(default_factory=Counter)
    listed: list[str] = field(default_factory=list)  # a line for each night that was stopped

    def add(self, other: "Walk") -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def row(self, name: str) -> str:
        cells = [f"{100 * self.caught[fault] / self.possible[fault]:.0f}" if self.possible[fault] else "–" for fault in FAULTS]
        counts = (name, self.nights, self.stopped, self.idle, self.warned, self.faulty, *cells)
        return "| " + " | ".join(f"{cell}" for cell in counts) + " |"


def walk(log: Log, nights: Sequence[int], faulty: Sequence[int]) -> Walk:
    """Judge nights of a log as they were, and some of them with each fault; the first is judged by Great Expectations too."""
    found = Walk(nights=len(nights), faulty=len(faulty))
    for number in nights:
        jobs = log.of(number)
        judged = judge(log, number, jobs)
        stops, warnings = judged.failed("stop"), judged.failed("warn")
        found.stops.update(stops)
        found.warnings.update(warnings)
        found.stopped += bool(stops)
        found.warned += bool(warnings) and not stops
        if stops:
            ended = log.ended(jobs, number).num_rows
            found.idle += not ended
            found.listed.append(f"{log.cluster.name} {day_of(number):%a %Y-%m-%d}: {', '.join(sorted(stops))} ({ended} jobs)")
        if number == nights[0]:
            compare_with_great_expectations(log, number, judged)
        if number not in faulty:
            continue
        for index, (name, fault) in enumerate(FAULTS.items()):
            if (told := fault(log, number, jobs)) is None:
                continue
            wrong = judge(log, number, told)
            found.possible[name] += 1
            found.caught[name] += is_refused(log, number, told) or bool(wrong.failed("stop"))
            if number == nights[0] and index % 7 == number % 7:
                compare_with_great_expectations(log, number, wrong)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nights", type=int, default=40, help="nights of each log that are judged, evenly spread")
    parser.add_argument("--faulty", type=int, default=12, help="of these, nights that faults are put into, evenly spread")
    parser.add_argument("--all", action="store_true", help="judge every night")
    parser.add_argument("--list", action="store_true", help="name the nights that were stopped")
    parser.add_argument("--ended-only", action="store_true", help="as if the logs told of jobs only once they ended")
    parser.add_argument("names", nargs="*", help="logs; default: all")
    asked = parser.parse_args()
    if "RUNCAST_TRACES" not in os.environ:
        print("RUNCAST_TRACES is not set: there are no real logs to walk the gate over")
        return
    print("| log | nights | stopped | idle | warned | faulty | " + " | ".join(FAULTS) + " |")
    print("|---|" + "--:|" * (5 + len(FAULTS)))
    total = Walk()
    for log in read(asked.names, asked.ended_only):
        nights = sample(log.nights, None if asked.all else asked.nights)
        found = walk(log, nights, sample(nights, asked.faulty))
        print(found.row(log.cluster.name), flush=True)
        total.add(found)
    print(total.row("all"))
    print(f"stops {dict(total.stops.most_common())}", f"warnings {dict(total.warnings.most_common())}", sep="\n")
    if asked.list:
        print(*total.listed, sep="\n")


if __name__ == "__main__":
    main()
