"""What the days before a night looked like, by many small measures: what a night's checks hold it against.

A measure is one number of one day's ended jobs. Its norm is what it was on each of the days before, so that every log is its own
yardstick: a log whose days differ by a factor of five is allowed to, one that never misses an id is not. The measures are chosen
for what goes wrong with logs: rows that are missing (row counts, gaps in ids), rows told twice, columns that moved, a clock that
runs in another zone, words that are new.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.asof import cut_us, day_start_us, ended_at, microseconds
from runcast.data.cluster import Cluster
from runcast.data.columns import COLUMNS
from runcast.data.states import OTHER

Floats = npt.NDArray[np.float64]

WINDOW_DAYS = 28  # four of each weekday
MIN_NORM_DAYS = 7  # fewer days before say little about the next
MIN_SHARE_ROWS = 20  # a share of fewer jobs says little
_ARRAYS = ("array_id", "array_task")  # null says that the job is of no array, and a day may well have none
EXPECTED = (*(c.name for c in COLUMNS if c.nullable and c.known_at == "submit" and c.name not in _ARRAYS), "runtime_s")
WORDS = ("user", "group", "account", "queue", "qos")  # columns whose values come again
RENAMED = ("queue", "group", "account")  # of these, what administrators name
AMOUNTS = ("gpu_count", "cpu_count", "node_count", "mem_mib", "time_limit_s")
SIZES = ("gpu_count", "cpu_count", "node_count")  # of these, what goes together
LEAST_FALL = 1.75  # so that half the rows of a steady log are too few
COMPARED_ROWS = 50  # fewer jobs may well be all of another kind
DOWN_SHARE = 0.05  # of the usual running jobs; a few that hang outlive a maintenance
_NO_TIME = np.iinfo(np.int64).min
_READ = tuple(dict.fromkeys(("job_id", "submit_time", "start_time", "end_time", "state", *WORDS, *AMOUNTS, *EXPECTED)))


@dataclass(frozen=True)
class Day:
    """The measures of one day; NaN where there are too few jobs to tell."""

    rows: int
    is_weekend: bool
    consecutive_id_share: float = np.nan  # of distinct numeric ids submitted on the day, those whose predecessor is there
    repeated_id_share: float = np.nan
    paired_share: float = np.nan  # of jobs that differ in more than their id, those that come an even number of times
    other_share: float = np.nan
    silent_h: float = np.nan  # longest time of the day, from midnight to midnight, in which no job came, began or ended
    silent_end_h: float = np.nan  # from the last of these to midnight
    running: float = np.nan  # jobs at the end of the day; NaN where the log does not tell of open jobs
    hours: Floats = field(
        default_factory=lambda: np.zeros(24)
    )  # users (or jobs without one) that submitted in each hour of the day
    amounts: Mapping[str, Floats] = field(default_factory=dict)  # sorted known values by column
    words: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # counts by column
    users_of: Mapping[str, Mapping[tuple[str, str | None], int]] = field(
        default_factory=dict
    )  # counts of word and user, by column
    known: Mapping[str, float] = field(default_factory=dict)  # share of the users' jobs that are not null, by column


@dataclass(frozen=True)
class Norms:
    """The days before, in order, with or without jobs."""

    days: tuple[Day, ...]
    refused: tuple[int, ...] = ()  # records that were refused beside the jobs of each day

    @property
    def rows(self) -> int:
        return sum(day.rows for day in self.days)

    @property
    def is_usable(self) -> bool:
        return len(self.days) >= MIN_NORM_DAYS and self.rows >= MIN_SHARE_ROWS

    def values(self, measure: str) -> Floats:
        """The measure on each of the days that have it."""
        values = np.array([getattr(day, measure) for day in self.days], np.float64)
        return values[~np.isnan(values)]

    def most(self, measure: str) -> float:
        return float(self.values(measure).max(initial=0.0))

    def is_down(self, day: Day) -> bool:
        """Whether the machines stood nearly still at the end of the day; False where the log does not tell of running jobs."""
        usual = float(np.median([other.running for other in self.days])) if self.days else np.nan
        return day.running < DOWN_SHARE * usual

    def heard_share(self, day: Day) -> float:
        """Part of the usual hours of a day that are left beside its longest silence; 1 where that is as usual."""
        usual_h = 24 - float(np.median(self.values("silent_h")))
        return min(1.0, (24 - day.silent_h) / usual_h) if usual_h > 0 else 1.0

    @property
    def longest_silent_end_h(self) -> float:
        """Longest silence up to midnight on a day at whose end the machines were at work."""
        return max((day.silent_end_h for day in self.days if not self.is_down(day)), default=0.0)

    @property
    def least_consecutive_id_share(self) -> float:
        """Least share of ids in a row on a day; NaN where ids do not follow each other, or too few days tell."""
        shares = self.values("consecutive_id_share")
        is_telling = len(shares) >= MIN_NORM_DAYS and np.median(shares) >= 0.3
        return float(shares.min()) if is_telling else np.nan

    def known_shares(self, column: str) -> tuple[float, float]:
        """Least share that a column was known on a day, and below what share it is lost; of days with jobs enough, if there are any.

        It is lost as rows are: a little more than half of the usual always may, else one and a half times their deepest fall.
        """
        days = [day for day in self.days if day.rows >= MIN_SHARE_ROWS] or [day for day in self.days if day.rows]
        shares = [day.known[column] for day in days]
        return min(shares), min(float(np.median(shares)) / LEAST_FALL, min(shares) / 1.5)

    def counts(self, column: str) -> dict[str, int]:
        """How often each word of a column came on all the days."""
        found: dict[str, int] = {}
        for day in self.days:
            for word, count in day.words.get(column, {}).items():
                found[word] = found.get(word, 0) + count
        return found

    def usual_rows(self, is_weekend: bool) -> tuple[float, float]:
        """Median of the rows of such a day (working day or weekend), and by what factor a day may fall below it.

        A little more than half is always allowed; else four times the days' spread, and one and a half times their deepest fall.
        """
        medians = {}
        for kind in (False, True):
            alike = [day.rows for day in self.days if day.is_weekend == kind]
            medians[kind] = float(np.median(alike if len(alike) >= 4 else [day.rows for day in self.days]))
        falls = np.array([np.log((medians[day.is_weekend] + 1) / (day.rows + 1)) for day in self.days])
        spread = 1.4826 * float(np.median(np.abs(falls)))
        return medians[is_weekend], float(np.exp(max(np.log(LEAST_FALL), 4 * spread, 1.5 * falls.max())))


def measure(jobs: pa.Table, cluster: Cluster, day: date, *, tells_open: bool) -> Day:
    """Measure `day` by the jobs that were known at its end, or later; those that leave no trace on the day may be among them.

    Most measures are of the jobs that ended on the day. Ids and silences are of all that happened on it; where the log does not tell
    of open jobs (not `tells_open`), only of jobs that had ended by its end, so that days compare with the one that was just loaded.
    """
    is_weekend = cluster.clock != "relative" and day.weekday() >= 5
    begin, cut = day_start_us(day, cluster.zone), cut_us(day, cluster.zone)
    moments = {
        "submit": microseconds(jobs["submit_time"]), "start": microseconds(jobs["start_time"]), "end": microseconds(ended_at(jobs))
    }  # fmt: skip
    on_day = {name: (us >= begin) & (us < cut) for name, us in moments.items()}
    heard = np.ones(jobs.num_rows, bool) if tells_open else (moments["end"] < cut) & (moments["end"] > _NO_TIME)
    silences = (
        np.diff(np.sort(np.concatenate([[begin, cut], *(us[on_day[name] & heard] for name, us in moments.items())]))) / 3.6e9
    )
    running = (moments["start"] > _NO_TIME) & (moments["start"] < cut) & ((moments["end"] >= cut) | (moments["end"] == _NO_TIME))
    ids = jobs["job_id"].filter(pa.array(on_day["submit"] & heard))
    jobs = jobs.filter(pa.array(on_day["end"]))
    found = Day(
        rows=jobs.num_rows,
        is_weekend=is_weekend,
        consecutive_id_share=_consecutive_share(ids),
        silent_h=float(silences.max()),
        silent_end_h=float(silences[-1]),
        running=float(running.sum()) if tells_open else np.nan,
        words={name: _counts(jobs[name]) for name in WORDS},
        users_of={name: _counts_with_users(jobs, name) for name in RENAMED},
        known=_known(jobs) if jobs.num_rows else {},
    )
    if jobs.num_rows < MIN_SHARE_ROWS:
        return found
    return replace(
        found,
        repeated_id_share=1 - pc.count_distinct(jobs["job_id"]).as_py() / jobs.num_rows,
        paired_share=_paired_share(jobs),
        other_share=share(pc.equal(jobs["state"], OTHER)),
        hours=_hours(jobs, cluster),
        amounts={name: np.sort(jobs[name].drop_null().to_numpy()) for name in AMOUNTS},
    )


def norms_of(jobs: pa.Table, cluster: Cluster, days: Sequence[date], refused: Mapping[str, int], *, tells_open: bool) -> Norms:
    """Measure each of `days` by the jobs known now, all of them together; `refused` counts rejects by day."""
    submits, ends = microseconds(jobs["submit_time"]), microseconds(ended_at(jobs))
    some = jobs.select(_READ).combine_chunks()
    found = []
    for day in days:
        begin, cut = day_start_us(day, cluster.zone), cut_us(day, cluster.zone)
        alive = (submits < cut) & ((ends >= begin) | (ends == _NO_TIME))
        found.append(measure(some.take(pa.array(np.flatnonzero(alive))), cluster, day, tells_open=tells_open))
    return Norms(tuple(found), tuple(refused.get(day.isoformat(), 0) for day in days))


def foreign_columns(day: Day, norms: Norms) -> list[str]:
    """Names of the columns that hold something else than on any of the days before: other words, or amounts of another size."""
    if day.rows < COMPARED_ROWS:
        return []
    found = [name for name in WORDS if len(norms.counts(name)) >= 2 and new_share(day, norms, name) > 0.8]
    for name in AMOUNTS:
        theirs = [other.amounts[name] for other in norms.days if len(other.amounts.get(name, ())) >= MIN_SHARE_ROWS]
        ours = day.amounts.get(name, np.empty(0))
        if len(theirs) < MIN_NORM_DAYS or len(ours) < MIN_SHARE_ROWS:
            continue
        whole = np.sort(np.concatenate(theirs))
        points = np.unique(np.concatenate([whole, ours]))
        if _distance(ours, whole, points) > max(0.6, 1.5 * max(_distance(other, whole, points) for other in theirs)):
            found.append(name)
    return found


def zone_evidence(day: Day, norms: Norms) -> tuple[int, float, float]:
    """Hours by which the day's submissions fit the days before best, how much better than unmoved, and how much that was before.

    The measure is the logarithm of a likelihood ratio: 0 where the day fits best as it is.
    """
    if not norms.days:
        return 0, 0.0, 0.0
    alike = [other.hours for other in norms.days if other.is_weekend == day.is_weekend]
    alike = alike if len(alike) >= 4 else [other.hours for other in norms.days]
    profile = np.sum(alike, axis=0) + 1.0
    lag, gain = _best_lag(day.hours, profile)
    return lag, gain, max((_best_lag(hours, profile)[1] for hours in alike), default=0.0)


def new_share(day: Day, norms: Norms, column: str) -> float:
    """Share of the day's jobs whose word was not there on the days before; 0 where no word was."""
    known, ours = norms.counts(column), day.words.get(column, {})
    if not known or not day.rows:
        return 0.0
    return sum(count for word, count in ours.items() if word not in known) / day.rows


def renamed_share(day: Day, norms: Norms, column: str) -> float:
    """Share of the day's jobs by which a word seems to be another's new name; 0 where no word that goes is missing.

    That is: new words of users who were there before, as far as the log names users, in the place of words that came on nine of ten days.
    """
    words, users = norms.counts(column), norms.counts("user")
    if not words or not day.rows:
        return 0.0
    pairs = day.users_of.get(column, {}).items()
    new = sum(count for (word, user), count in pairs if word not in words and (user is None or user in users))
    return min(new / day.rows, lost_share(day, norms, column))


def lost_share(day: Day, norms: Norms, column: str) -> float:
    """Share that the words had which came on nine of ten days before, and do not come today."""
    known, whole = norms.counts(column), max(norms.rows, 1)
    with_jobs = [other for other in norms.days if other.rows]
    steady = [w for w in known if sum(w in other.words.get(column, {}) for other in with_jobs) >= 0.9 * len(with_jobs)]
    return sum(known[word] for word in steady if word not in day.words.get(column, {})) / whole


def is_null(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Null, or text that stands for nothing: an empty string is a null that a source forgot to make one."""
    if pa.types.is_string(column.type):
        return pc.or_(pc.is_null(column), pc.fill_null(pc.is_in(column, pa.array(["", "None"])), False))
    return pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))


def share(mask: pa.ChunkedArray) -> float:
    return pc.mean(mask.cast(pa.float64())).as_py() or 0.0


def _counts(column: pa.ChunkedArray) -> dict[str, int]:
    known = column.filter(pc.invert(is_null(column)))
    return {entry["values"]: entry["counts"] for entry in known.value_counts().to_pylist()}


def _known(jobs: pa.Table) -> dict[str, float]:
    """Share of jobs that are not null, by column: the mean of the users' shares, so that one user's burst of jobs weighs as one user.

    Jobs without a user are those of one. The users' own column is counted by jobs. That a cancelled job has no runtime is an answer: it
    may never have started.
    """
    users = jobs["user"].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
    jobs_of = np.bincount(users)
    shares = {}
    for name in EXPECTED:
        is_known = pc.invert(is_null(jobs[name]))
        if name == "runtime_s":
            is_known = pc.or_(is_known, pc.fill_null(pc.equal(jobs["state"], "CANCELLED"), False))
        known = is_known.to_numpy().astype(np.float64)
        by_user = np.bincount(users, weights=known) / jobs_of
        shares[name] = float(known.mean() if name == "user" else by_user.mean())
    return shares


def _counts_with_users(jobs: pa.Table, column: str) -> dict[tuple[str, str | None], int]:
    known = jobs.select([column, "user"]).filter(pc.invert(is_null(jobs[column])))
    counts = known.group_by([column, "user"], use_threads=False).aggregate([([], "count_all")])
    return {(row[column], row["user"]): row["count_all"] for row in counts.to_pylist()}


def _consecutive_share(ids: pa.ChunkedArray) -> float:
    """Of the distinct numbers that ids begin with (`17`, `17_3`), the share whose predecessor is one too; NaN where few are numbers."""
    digits = pc.struct_field(pc.extract_regex(ids, r"^(?P<number>\d{1,15})(?:[_+.\[].*)?$"), "number").drop_null()
    if len(digits) < max(0.9 * len(ids), MIN_SHARE_ROWS):
        return np.nan
    numbers = np.unique(digits.cast(pa.int64()).to_numpy())
    return float(np.mean(np.diff(numbers) == 1)) if len(numbers) >= MIN_SHARE_ROWS else np.nan


def _paired_share(jobs: pa.Table) -> float:
    """Of the jobs that differ in user, queue, size or a moment, the share that comes two, four, … times: all, where a log is told twice.

    Tasks of an array that ran a second each are alike too, but not for that an even number of them.
    """
    same = ["user", "queue", "submit_time", "start_time", "end_time", "cpu_count", "gpu_count"]
    counts = jobs.select(same).group_by(same, use_threads=False).aggregate([([], "count_all")])["count_all"].to_numpy()
    return float(np.mean(counts % 2 == 0))


def _hours(jobs: pa.Table, cluster: Cluster) -> Floats:
    """Distinct users by local hour of submission, so that one user's thousand jobs weigh as one; jobs without a user weigh as one too."""
    if cluster.clock == "relative":
        return np.zeros(24)
    local = pc.local_timestamp(jobs["submit_time"].cast(pa.timestamp("us", tz=cluster.time_zone)))
    hours = pd.DataFrame(
        {
            "hour": pc.hour(local).to_numpy(),
            "day": pc.floor_temporal(local, unit="day").to_numpy(),
            "user": jobs["user"].to_pylist(),
        }
    )
    return np.bincount(hours.drop_duplicates()["hour"], minlength=24).astype(np.float64)


def _best_lag(hours: Floats, profile: Floats) -> tuple[int, float]:
    """Lag in hours (-11 to 12) that moves `profile` best onto `hours`, and the gain in log likelihood over no lag."""
    logs = np.log(profile / profile.sum())
    fits = np.array([float(hours @ np.roll(logs, lag)) for lag in range(24)])
    best = int(fits.argmax())
    return best - 24 if best > 12 else best, float(fits[best] - fits[0])


def _distance(some: Floats, others: Floats, points: Floats) -> float:
    """Largest difference of the two distributions at `points` (Kolmogorov and Smirnov); both sorted."""
    ours, theirs = (np.searchsorted(values, points, side="right") / len(values) for values in (some, others))
    return float(np.abs(ours - theirs).max())
