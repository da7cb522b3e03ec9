"""A thousand records of a cluster's latest log files: three jobs as they are understood, and what looks wrong about them.

Nothing is written. What looks wrong is a guess from the values alone; it never keeps a cluster from being used.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa

from runcast.data.cluster import Cluster
from runcast.data.collect import collect_sample
from runcast.data.errors import EmptyLog, SourceError
from runcast.data.settings import Settings
from runcast.data.sources.batch import Reject
from runcast.data.sources.hints import hint
from runcast.data.sources.registry import find_files, read_file
from runcast.data.unreadable import sentence, unreadable_columns

RECORDS = 1000
FILES = 10  # read at most, the latest by name first: one may hold only the jobs that have not ended
SHOWN = 3
FETCHED_DAYS = 7  # looked at where nothing was collected yet
DAY_S = 86_400
LONGEST_OFFSET_H = 26  # from UTC-12 to UTC+14
_SHOWN_COLUMNS = (
    "job_id", "array_id", "user", "group", "account", "queue", "qos", "job_name", "submit_time", "start_time", "end_time",
    "queue_s", "runtime_s", "gpu_count", "gpu_model", "cpu_count", "mem_mib", "node_count", "time_limit_s", "time_limit_kind",
    "state", "label", "attempts", "source",
)  # fmt: skip
_REQUESTS = (
    "user", "group", "account", "queue", "job_name", "gpu_count", "cpu_count", "mem_mib", "node_count", "time_limit_s",
)  # fmt: skip


@dataclass(frozen=True)
class Preview:
    """What the first records of log files come to; `problem` says why a load would fail."""

    file: str  # the latest that holds any
    more_files: int
    records: int
    jobs: int
    rejects: Mapping[str, int]  # by reason
    notes: Mapping[str, int]
    shown: tuple[Mapping[str, Any], ...]  # jobs as understood: canonical columns, times local to the cluster, nulls left out
    always_null: tuple[str, ...]  # of what a forecast reads
    looks_wrong: tuple[str, ...]
    problem: str | None = None


@dataclass
class _Sample:
    """The records of some files, as their adapter understands them."""

    cluster: Cluster
    path: Path  # the first that was read
    more_files: int = 0
    records: int = 0
    tables: list[pa.Table] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)


def preview(
    cluster: Cluster, settings: Settings, now: datetime, shown: int = SHOWN, files: Sequence[Path] | None = None
) -> Preview:
    """Read the first records of the latest files (by name) that hold any; raises SourceError, ClusterFileError where none can be read.

    `files` (null: those of the log) may be others, such as a sample; of the jobs `shown` are described, evenly chosen.
    """
    sample = _read(cluster, settings, find_files(cluster, settings) if files is None else files)
    jobs = pa.concat_tables(sample.tables).to_pandas() if sample.tables else pd.DataFrame()
    reasons = Counter(reject.reason for reject in sample.rejects)
    return Preview(
        file=str(sample.path),
        more_files=sample.more_files,
        records=sample.records,
        jobs=len(jobs),
        rejects=dict(reasons.most_common()),
        notes=dict(sample.notes),
        shown=tuple(_shown(jobs, at, cluster.time_zone) for at in _chosen(len(jobs), shown)),
        always_null=tuple(name for name in _REQUESTS if len(jobs) and jobs[name].isna().all()),
        looks_wrong=tuple(_looks_wrong(jobs, sample, now)) if len(jobs) else (),
        problem=_problem(sample, len(jobs), reasons),
    )  # fmt: skip


def preview_fetched(cluster: Cluster, settings: Settings, now: datetime, shown: int = SHOWN) -> Preview:
    """Fetch the latest days, today first, until one has jobs enough, and read that one; nothing of it is kept.

    Raises CollectFailed where a day cannot be fetched, SourceError where none of them has a record.
    """
    today, best, unread = now.astimezone(cluster.zone).date(), None, None
    names_days = cluster.source.collect is not None and cluster.source.collect.names_days
    with tempfile.TemporaryDirectory() as folder:
        for back in range(FETCHED_DAYS if names_days else 1):
            day = today - timedelta(days=back)
            path = collect_sample(cluster, settings, day, Path(folder), now)
            try:
                found = preview(cluster, settings, now, shown, [path])
            except SourceError as error:
                unread = error
                continue
            if best is None or found.jobs > best.jobs:
                best = replace(
                    found, file=f"what source.collect printed for {day}" if names_days else "what source.collect printed"
                )
            if found.jobs >= shown:
                break
    if best is None:
        raise SourceError(f"{cluster.name}: what source.collect printed holds no job yet, up to {today}: {unread}")
    return best


def _chosen(jobs: int, count: int) -> list[int]:
    """Return the positions of at most `count` of so many jobs, the first and the last among them.

    >>> _chosen(10, 3), _chosen(2, 3), _chosen(0, 3)
    ([0, 5, 9], [0, 1], [])
    """
    return list(range(jobs)) if jobs <= count else [-(-at * (jobs - 1) // (count - 1)) for at in range(count)]


def _read(cluster: Cluster, settings: Settings, files: Sequence[Path]) -> _Sample:
    """Read batches until there are records enough; an empty file is passed over while there are others."""
    sample = _Sample(cluster, files[-1])
    for path in reversed(files):
        before = sample.records
        try:
            _add(sample, path, settings)
        except EmptyLog:
            continue
        if sample.records > before:
            sample.path, sample.more_files = (sample.path, sample.more_files + 1) if before else (path, 0)
        if sample.records >= RECORDS or sample.more_files == FILES - 1:
            break
    if sample.records:
        return sample
    if len(files) == 1:
        raise SourceError(f"{files[0]}: holds no record yet")
    raise SourceError(f"none of the log's {len(files)} files holds a record")


def _add(sample: _Sample, path: Path, settings: Settings) -> None:
    for batch in read_file(path, sample.cluster, settings):
        sample.records += batch.rows_in
        sample.tables.append(batch.jobs)
        sample.rejects += batch.rejects
        sample.notes.update(batch.notes)
        if sample.records >= RECORDS:
            break


def _problem(sample: _Sample, jobs: int, reasons: Counter[str]) -> str | None:
    """Say why a load of such records would be refused, with one of them and what may be said for it."""
    at_most = sample.cluster.source.reject_share_at_most
    refused = len(sample.rejects)
    if jobs and refused <= at_most * sample.records:
        return None
    if not refused:
        return f"{sample.path}: none of its first {sample.records} records is a job"
    first = next(reject for reject in sample.rejects if reject.reason == reasons.most_common(1)[0][0])
    why = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common(3))
    return (
        f"{sample.path}: {refused} of its first {sample.records} records are refused ({why}); a load stops above {100 * at_most:g} %. "
        f"Line {first.line}{f' of {first.file}' if sample.more_files else ''}: {first.raw[:200]!r}.{hint(first, sample.cluster.source)}"
    )


def _shown(jobs: pd.DataFrame, at: int, zone: str) -> dict[str, Any]:
    row = jobs.iloc[at]
    values: dict[str, Any] = {}
    for name in _SHOWN_COLUMNS:
        value = row[name]
        if value is None or value is pd.NaT or value != value:
            continue
        if isinstance(value, pd.Timestamp):
            values[name] = value.tz_convert(ZoneInfo(zone)).isoformat(sep=" ", timespec="seconds")
        else:
            values[name] = value.item() if isinstance(value, np.generic) else value
    return values


def _looks_wrong(jobs: pd.DataFrame, sample: _Sample, now: datetime) -> Iterator[str]:
    yield from (sentence(one, len(jobs)) for one in unreadable_columns(sample.notes))
    for check in _CHECKS:
        if text := check(jobs, sample):
            yield text
    if text := _future(jobs, sample, now):
        yield text


def _share(mask: Any) -> float:
    return float(np.mean(mask)) if len(mask) else 0.0


def _states(jobs: pd.DataFrame, sample: _Sample) -> str:
    ended = jobs[jobs["end_time"].notna()]
    unsaid = ended["flags"].map(lambda flags: "state_unknown" in flags)
    if len(ended) and unsaid.all():
        return "no state says how jobs ended: each counts as one that ended by itself, also those that were killed"
    share = _share((ended["state"] == "OTHER") & ~unsaid)
    if share > 0.2:
        return f"the states of {100 * share:.0f} % of the jobs are words that mean nothing here, so these jobs count as cut short"
    return ""


def _users(jobs: pd.DataFrame, sample: _Sample) -> str:
    return "no job has a user, and who submits says most about how long a job runs" if jobs["user"].isna().all() else ""


def _gpus(jobs: pd.DataFrame, sample: _Sample) -> str:
    if (jobs["gpu_count"] > 0).any():
        return ""
    if sample.cluster.gpus_tracked:
        return "no job asks for a GPU, although the cluster file says gpus_tracked"
    return "no job asks for a GPU" if (jobs["gpu_count"] == 0).any() else ""


def _limits(jobs: pd.DataFrame, sample: _Sample) -> str:
    """A limit in another unit: many jobs outlive it by far, or it is longer than any machine's."""
    both = jobs[jobs["time_limit_s"].notna() & jobs["runtime_s"].notna()]
    limit, ran = both["time_limit_s"], both["runtime_s"]
    beyond = both[ran > 1.5 * limit + 120]
    if len(both) >= 10 and len(beyond) > 0.1 * len(both):
        times = float((beyond["runtime_s"] / beyond["time_limit_s"]).median())
        unit = ", as if it were in hours" if times > 600 else ", as if it were in minutes"
        return (
            f"{100 * len(beyond) / len(both):.0f} % of the jobs ran past 1.5 times their limit (median limit "
            f"{limit.median():g} s){unit if float(limit.median()) < 20_000 else ''}: see its `unit`"
        )
    if len(both) >= 10 and float(limit.median()) > 366 * DAY_S:
        return f"half the limits are above {limit.median() / DAY_S:.0f} days: see its `unit`"
    if len(both) >= 100 and float((ran / limit).quantile(0.99)) < 0.02:
        return f"hardly a job ran a fiftieth of its limit (median limit {limit.median() / DAY_S:.3g} days): see its `unit`"
    return ""


def _runtimes(jobs: pd.DataFrame, sample: _Sample) -> str:
    ran = jobs["runtime_s"].dropna()
    if len(ran) < 10:
        return "" if len(ran) else "no job has a runtime to learn from"
    if float(ran.median()) > 30 * DAY_S:
        return f"half the runtimes are above {ran.median() / DAY_S:.0f} days: are they in milliseconds?"
    if float(ran.max()) <= 0:
        return "every runtime is 0"
    if float(ran.max()) < 1:
        return f"the longest runtime is {ran.max():g} s: are they in hours or days?"
    return ""


def _waits(jobs: pd.DataFrame, sample: _Sample) -> str:
    waits = jobs["queue_s"].dropna()
    if len(waits) >= 10 and float(waits.max()) <= 0:
        return "no job ever waited: is the submission's column the start's?"
    return ""


def _memory(jobs: pd.DataFrame, sample: _Sample) -> str:
    asked = jobs.loc[jobs["mem_mib"] > 0, "mem_mib"]
    if len(asked) < 10 or 16 <= float(asked.median()) < 2**24:
        return ""
    return (
        f"half the jobs ask for {'less' if asked.median() < 16 else 'more'} than {asked.median():.10g} MiB: see the column's unit"
    )


def _negative(jobs: pd.DataFrame, sample: _Sample) -> str:
    reasons = Counter(reject.reason for reject in sample.rejects)
    odd = {name: reasons[name] for name in ("runtime_negative", "end_before_start", "start_before_submit") if reasons[name]}
    if sum(odd.values()) <= 0.002 * sample.records:  # a clock that was set back, which any log has
        return ""
    return "times in the wrong order: " + ", ".join(f"{name} {count}" for name, count in odd.items())


def _skipped_hour(jobs: pd.DataFrame, sample: _Sample) -> str:
    odd = sum(reject.reason.endswith("_nonexistent") for reject in sample.rejects)
    return f"{odd} times in an hour that clocks skipped: is the log in UTC, or in another zone?" if odd else ""


def _durations(jobs: pd.DataFrame, sample: _Sample) -> str:
    share = _share(jobs["flags"].map(lambda flags: "duration_differs" in flags))
    return f"runtime and end minus start differ in {100 * share:.0f} % of the jobs: see the unit" if share > 0.1 else ""


def _notes(jobs: pd.DataFrame, sample: _Sample) -> str:
    odd = {n: c for n, c in sample.notes.items() if n.startswith(("time_zone_", "status_unusable"))}
    return ", ".join(f"{name} {count}" for name, count in odd.items())


def _future(jobs: pd.DataFrame, sample: _Sample, now: datetime) -> str:
    """Times after the moment the file was last written are of another zone; those after now are impossible."""
    if sample.cluster.clock != "calendar":
        return ""
    latest = jobs[["submit_time", "start_time", "end_time"]].max().max()
    written = pd.Timestamp(sample.path.stat().st_mtime, unit="s", tz="UTC")
    hours = (latest - written).total_seconds() / 3600
    if 1 / 12 < hours < LONGEST_OFFSET_H:
        return f"the latest time is {hours:.1f} h after the file was written: is time_zone that of the log?"
    if latest > pd.Timestamp(now):
        return f"the latest time, {latest:%Y-%m-%d %H:%M} UTC, is in the future: see how times are written (`time`, their unit)"
    return ""


_CHECKS: tuple[Callable[[pd.DataFrame, _Sample], str], ...] = (
    _states, _users, _gpus, _limits, _runtimes, _durations, _waits, _memory, _negative, _skipped_hour, _notes,
)  # fmt: skip
