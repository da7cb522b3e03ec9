"""The data stage's job: read a cluster's log, bring the lake up to the end of a day, and check what came in.

A load reads the log and keeps each job once. The days asked for are replaced by what the log says now; days before them that late
accounting may still touch (`lookback_days`, and any nights that were missed) are merged. What the log no longer reaches, because it
was rotated, stays: jobs submitted before its first submission, and its first day. A night in the past leaves later days and the
open jobs alone.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.acceptance import quality_folder
from runcast.data.asof import DAY_US, cut_us, day_number, day_of, day_start_us, ended_at, local_days, microseconds, seen_at
from runcast.data.cluster import Cluster
from runcast.data.collect import collect
from runcast.data.days import latest_complete_day, require_over
from runcast.data.errors import HistoryMismatch, LakeError, LogChanged, Quoted, SourceError, TooManyRejects, UnknownStates
from runcast.data.lake import Lake, conform, sort_order
from runcast.data.log_files import LogFiles, known_files, remember
from runcast.data.refused_load import forget_refused, keep_refused
from runcast.data.reject_share import RejectShare, job_before
from runcast.data.schema import JOBS, REJECTS
from runcast.data.settings import Settings
from runcast.data.sources.batch import WITHHELD, Batch, Reject
from runcast.data.sources.hints import hint
from runcast.data.states import UNKNOWN_STATE
from runcast.data.unreadable import refuse_lost_columns

if TYPE_CHECKING:
    from runcast.data.quality import QualityReport

Integers = npt.NDArray[np.int64]

_KEY_COLUMNS = ("job_key", "submit_time", "start_time", "end_time", "state")
_NEVER = np.iinfo(np.int64).min  # day of a job that has not ended
_NO_CUT = np.iinfo(np.int64).max
_READS = 3  # of a log that changes while it is read
_ZONE_STEP_US, _ZONES_US = 900_000_000, 26 * 3_600_000_000  # zones differ by quarters of an hour, by 26 h at most
_MOVED_AT_LEAST, _MOVED_SHARE = 5, 0.2  # by chance one submission in 900 differs so from another of its id
_STATES_TELL, _UNKNOWN_SHARE = 20, 0.9  # of so many jobs
_SHOWN = 20  # dates and reasons named in a report, which must stay small


@dataclass(frozen=True)
class IngestReport:
    """What one load did.

    rows_in == accepted + rejected + skipped; accepted == ended + open + duplicates + left out.
    """

    cluster: str
    first: str | None  # first local date that was made anew; null where there was none
    last: str
    as_of_us: int  # cut, microseconds UTC
    rows_in: int
    accepted: int
    rejected: int
    skipped: dict[str, int]
    rejected_by_reason: dict[str, int]
    notes: dict[str, int]
    ended: int
    open: int
    duplicates: int  # rows of a job that another row, of this load or of the lake, tells more of
    left_out: dict[str, int]  # submitted_later, ended_before (what may still change), open_in_the_past
    files_passed_over: int  # files of the log that had been read before and can tell nothing new
    partitions: int  # dates with jobs in the lake, after the load
    written: tuple[str, ...]  # files of the lake that changed; the latest of them
    written_count: int
    removed_count: int
    fingerprint: str  # of the cluster's jobs: equal means equal bytes

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON values, below 10 kB whatever the load."""
        return asdict(self)


@dataclass
class _Seen:
    """What a load has read of the log: counts, and the rows that matter."""

    rows_in: int = 0
    accepted: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    rejects: list[Reject] = field(default_factory=list)
    reject_days: list[str | None] = field(default_factory=list)  # of each, where in the log it stands
    by_user: RejectShare = field(default_factory=RejectShare)
    files: set[str] = field(default_factory=set)
    first_submit_us: int = _NO_CUT  # of all jobs read
    jobs: pa.Table = field(default_factory=JOBS.empty_table)
    ended_before: pa.Table = field(default_factory=lambda: JOBS.empty_table().select(_KEY_COLUMNS))  # keys only


def ingest(
    cluster: Cluster,
    settings: Settings,
    *,
    first: date | None = None,
    last: date | None = None,
    now: datetime | None = None,
    wait_s: float = 0.0,
    progress: Callable[[int], None] = lambda rows_in: None,
) -> IngestReport:
    """Bring the cluster's lake to the end of `last` (null: of the log), replacing the days from `first` (null: all in the log).

    `now` (aware; null: no clock) bounds the load: a day that is not over then is refused, and the end of the log is at most that of
    the latest day that is over. A lake whose cut is later, as after a mistyped day, is mended by a load up to that day or of all.
    What `source.collect` names is fetched first, where there is a clock: the days that are missing, and anew those asked for.
    Files that tell nothing of these days, nor of the look-back, and have not changed since the last load are passed over. Rows of
    a calendar clock that are a day or more after `now` are refused. Raises NoSuchNight for a day that is not over, SourceError for a
    log that cannot be read, LogChanged for one that changes while it is read, three times in a row, TooManyRejects above the
    cluster's limit, CollectFailed where the log cannot be fetched, LakeBusy where another load still runs after `wait_s`; the lake
    stays as it was then.
    """
    from runcast.data.sources.registry import find_files, pseudonyms_of, read_source

    lake, pseudonyms = Lake(settings.lake), pseudonyms_of(cluster, settings)

    def read_and_load() -> IngestReport:
        loaded, latest = lake.as_of_us(cluster.name), _latest_cut_us(cluster, now)
        is_ahead = latest is not None and loaded is not None and loaded > latest
        mends = is_ahead and (last is None or cut_us(last, cluster.zone) == latest)
        from_day = None if mends else first
        merge_from = _merge_from(cluster, from_day, loaded)
        before_us = _NEVER if merge_from is None else day_start_us(day_of(merge_from), cluster.zone)
        log = known_files(cluster, settings, find_files(cluster, settings), lake.fingerprint(cluster.name), before_us)
        batches = read_source(cluster, settings, log=log)
        try:
            report = load(cluster, lake, batches, first=from_day, last=last, now=now, log=log, progress=progress)
        except TooManyRejects as error:
            keep_refused(cluster.name, settings, error.rejects, error.days)
            raise
        forget_refused(cluster.name, settings)
        remember(cluster, settings, log, report.fingerprint, report.as_of_us)
        return report

    with lake.lock(cluster.name, wait_s):
        _keep_what_it_is_made_with(cluster, settings, lake, None if pseudonyms is None else pseudonyms.to_json())
        fetched = {} if now is None else collect(cluster, settings, first, last, now).to_notes()
        for _ in range(_READS - 1):
            with suppress(LogChanged):
                return _noting(read_and_load(), fetched)
        return _noting(read_and_load(), fetched)


def _noting(report: IngestReport, fetched: dict[str, int]) -> IngestReport:
    return replace(report, notes={**report.notes, **fetched})


def load(
    cluster: Cluster,
    lake: Lake,
    batches: Iterable[Batch],
    *,
    first: date | None = None,
    last: date | None = None,
    now: datetime | None = None,
    log: LogFiles | None = None,
    progress: Callable[[int], None] = lambda rows_in: None,
) -> IngestReport:
    """`ingest` of batches that are at hand; `log` tells of files that need not be read."""
    log = LogFiles(()) if log is None else log
    for day in (first, last):
        if day is not None and now is not None:
            require_over(cluster, day, now)
    if first and last and first > last:
        raise LakeError(f"{cluster.name}: asked for {first} to {last}; the first day must not be after the last")
    loaded, latest = lake.as_of_us(cluster.name), _latest_cut_us(cluster, now)
    batches = (_refuse_future(batch, _latest_us(cluster, now)) for batch in batches)
    up_to = cut_us(last, cluster.zone) if last else _NO_CUT if latest is None else latest
    seen = _read_log(cluster, lake, batches, _merge_from(cluster, first, loaded), up_to, progress)
    _refuse(cluster, seen, log)
    _refuse_unknown_states(cluster, seen)
    refuse_lost_columns(cluster, seen.notes, seen.accepted)
    _refuse_moved_clock(cluster, lake, seen.jobs)
    reach_us, seen.first_submit_us = seen.first_submit_us, min(seen.first_submit_us, log.first_submit_us)
    if up_to != _NO_CUT and seen.accepted:
        _refuse_before_the_log(cluster, lake, seen, up_to)

    cut = cut_us(last or _last_day(seen.jobs, cluster), cluster.zone)
    is_wound_back = _winds_back(cluster, lake, first, last, cut, latest)
    is_past = loaded is not None and cut < loaded and not is_wound_back
    jobs = _without_open(seen) if is_past else seen.jobs
    asked = _asked_days(jobs, cluster, first, cut)
    still_open = lake.read_open(cluster.name)
    existing, touched = _related(cluster, lake, jobs, asked, seen.first_submit_us)
    if not is_past:
        still_open = _still_named(still_open, seen, reach_us)
    existing = pa.concat_tables([existing, still_open])
    if is_wound_back:
        existing, touched = seen_at(existing, cut), touched | set(_days_since(cut, cluster, lake))
        seen.notes["cut_wound_back"] += 1

    # A row from before the look-back only says that a row of the load is stale; what the lake holds of its job stays.
    among = latest_rows(pa.concat_tables([jobs.select(_KEY_COLUMNS), seen.ended_before]))
    seen.left_out["ended_before"] += int((among >= jobs.num_rows).sum())
    rows = pa.concat_tables([existing, jobs.take(pa.array(among[among < jobs.num_rows]))])
    winners = latest_rows(rows.select(_KEY_COLUMNS))
    is_new, is_open = winners >= existing.num_rows, _end_days(rows, cluster)[winners] == _NEVER
    kept = _gathered(rows, np.concatenate([_in_order(rows, winners[~is_open]), winners[is_open]]))
    ended_count = int((~is_open).sum())

    change = lake.replace(
        cluster.name,
        ended=_by_day(kept.slice(0, ended_count), cluster, touched),
        open_jobs=kept.slice(ended_count),
        as_of_us=loaded if is_past else cut,
        rejects=_all_rejects(cluster, lake, seen, keep_all=first is not None or is_past),
    )
    left_out = {name: count for name, count in sorted(seen.left_out.items()) if count}
    return IngestReport(
        cluster=cluster.name,
        first=day_of(min(touched)).isoformat() if touched else None,
        last=day_of(int(local_days(np.array([cut - 1]), cluster.zone)[0])).isoformat(),
        as_of_us=cut,
        rows_in=seen.rows_in,
        accepted=seen.accepted,
        rejected=len(seen.rejects),
        skipped=_largest(seen.skipped),
        rejected_by_reason=_largest(Counter(reject.reason for reject in seen.rejects)),
        notes=_largest(seen.notes),
        ended=int((is_new & ~is_open).sum()),
        open=int((is_new & is_open).sum()),
        duplicates=seen.accepted - int(is_new.sum()) - sum(left_out.values()),
        left_out=left_out,
        files_passed_over=len(log.settled),
        partitions=len(lake.dates(cluster.name)),
        written=change.written[-_SHOWN:],
        written_count=len(change.written),
        removed_count=len(change.removed),
        fingerprint=change.fingerprint,
    )


def pseudonyms_kept(cluster_name: str, settings: Settings) -> dict[str, Any] | None:
    """Return which columns of the cluster's lake are pseudonyms and the fingerprint of their key; None where names are in clear."""
    found: dict[str, Any] | None = _made_with(cluster_name, settings).get("pseudonyms")
    return found


def _keep_what_it_is_made_with(cluster: Cluster, settings: Settings, lake: Lake, pseudonyms: dict[str, Any] | None) -> None:
    """Keep the zone and how names are replaced, once for the life of a history: what is read in two ways would not meet."""
    wanted = {"time_zone": cluster.time_zone, "pseudonyms": pseudonyms}
    kept = _made_with(cluster.name, settings)
    if kept == wanted:
        return
    if lake.as_of_us(cluster.name) is not None:
        if kept.get("pseudonyms") != pseudonyms:
            raise HistoryMismatch(
                f"{cluster.path}: the names of {cluster.name} in {lake.root} are {_said(kept.get('pseudonyms'))}, the cluster file now "
                f"asks for {_said(pseudonyms)}. One history cannot mix the two: put the cluster file back, or begin anew with another "
                f"RUNCAST_HOME and `runcast ingest --cluster {cluster.name} --all`, and delete the old one where its clear names must go."
            )
        if kept.get("time_zone", cluster.time_zone) != cluster.time_zone:
            raise HistoryMismatch(
                f"{cluster.path}: time_zone is {cluster.time_zone}, the jobs of {cluster.name} in {lake.root} were read as "
                f"{kept['time_zone']}: each job would be there twice. Put the zone back; or, if it was wrong, delete "
                f"{lake.root}/*/cluster={quote(cluster.name, safe='')} and load all of the log again "
                f"(`runcast ingest --cluster {cluster.name} --all`)."
            )
    path = _made_with_path(cluster.name, settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(json.dumps(wanted) + "\n", encoding="utf-8")
    beside.replace(path)


def _said(names: dict[str, Any] | None) -> str:
    return f"pseudonyms in {', '.join(names['columns'])} by key {names['key_fingerprint']}" if names else "in clear"


def _made_with(cluster_name: str, settings: Settings) -> dict[str, Any]:
    """What the cluster's history was made with; empty where nothing was kept, as of a home from before."""
    path = _made_with_path(cluster_name, settings)
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_bytes()))
    except (ValueError, TypeError, RecursionError) as error:
        raise LakeError(
            f"{path}: damaged ({error}). It says in which zone, and by which key, the jobs of {cluster_name} were read. Where its cluster "
            "file is as it was, delete this; where it names pseudonyms, take it from a backup."
        ) from error


def _made_with_path(cluster_name: str, settings: Settings) -> Path:
    return settings.home / "made_with" / f"{quote(cluster_name, safe='')}.json"


def latest_rows(keys: pa.Table) -> Integers:
    """Positions, ascending, of the row that tells most of each job: job_key, submit_time, start_time, end_time, state are read.

    The later start wins (a requeued job goes on), then a row that has ended over one that has not, then the later end, then the
    later row. Equal keys have equal submission times, by what a key is: only rows that share one are compared.
    """
    submitted = microseconds(keys["submit_time"])
    order = np.argsort(submitted, kind="stable")
    same = np.flatnonzero(submitted[order][1:] == submitted[order][:-1])
    shares = np.zeros(keys.num_rows, dtype=bool)
    shares[order[same]] = shares[order[same + 1]] = True
    suspects = np.flatnonzero(shares)
    if not len(suspects):
        return np.arange(keys.num_rows)
    some = keys.take(pa.array(suspects))
    codes = some["job_key"].combine_chunks().dictionary_encode().indices.to_numpy()
    end = microseconds(ended_at(some))
    ranked = np.lexsort((np.arange(len(suspects)), end, end != _NEVER, microseconds(some["start_time"]), codes))
    loses = np.append(codes[ranked][1:] == codes[ranked][:-1], False)
    return np.delete(np.arange(keys.num_rows), suspects[ranked[loses]])


def _read_log(
    cluster: Cluster,
    lake: Lake,
    batches: Iterable[Batch],
    merge_from: int | None,
    cut: int,
    progress: Callable[[int], None],
) -> _Seen:
    """Go through the log once, keeping the jobs as they stood at `cut` and, of those that ended before `merge_from`, the keys.

    A job that the lake holds as open is kept whenever it ended: it is upgraded, however late the log tells of it.
    """
    seen = _Seen()
    open_keys = lake.read_open(cluster.name)["job_key"].combine_chunks()
    kept, before = [seen.jobs], [seen.ended_before]
    for batch in batches:
        seen.rows_in += batch.rows_in
        seen.accepted += batch.jobs.num_rows
        seen.skipped.update(batch.skipped)
        seen.notes.update(batch.notes)
        seen.rejects.extend(batch.rejects)
        seen.reject_days.extend(_days_beside(batch, cluster, seen))
        seen.by_user.add(batch)
        seen.files |= {reject.file for reject in batch.rejects}
        if batch.jobs.num_rows:
            seen.files.add(batch.jobs["source"][0].as_py().rpartition(":")[0])
            seen.first_submit_us = min(seen.first_submit_us, int(microseconds(batch.jobs["submit_time"]).min()))
        jobs = conform(batch.jobs, JOBS, f"{cluster.name}: the source's batch")
        visible = seen_at(jobs, cut)
        seen.left_out["submitted_later"] += jobs.num_rows - visible.num_rows
        jobs = visible
        if merge_from is not None:
            days = _end_days(jobs, cluster)
            is_before = (days != _NEVER) & (days < merge_from) & ~pc.is_in(jobs["job_key"], open_keys).to_numpy()
            before.append(jobs.select(_KEY_COLUMNS).filter(pa.array(is_before)))
            jobs = jobs.filter(pa.array(~is_before))
        kept.append(jobs)
        progress(seen.rows_in)
    seen.jobs, seen.ended_before = pa.concat_tables(kept), pa.concat_tables(before)
    return seen


def _latest_us(cluster: Cluster, now: datetime | None) -> int:
    """Return the latest time that a row may have (µs UTC); a day over, for clocks and zones that are a little off."""
    if now is None or cluster.clock != "calendar":
        return _NO_CUT
    return round(now.timestamp() * 1_000_000) + DAY_US


def _latest_cut_us(cluster: Cluster, now: datetime | None) -> int | None:
    """Return the latest cut (µs UTC) that can be at `now`; null without a clock that tells it, or where the log's is another."""
    return None if now is None or cluster.clock != "calendar" else cut_us(latest_complete_day(cluster, now), cluster.zone)


def _refuse_future(batch: Batch, latest_us: int) -> Batch:
    """Return the batch with its rows that are later than `latest_us` among the rejects: one wrong date would move the lake's cut."""
    times = {name: microseconds(batch.jobs[name]) for name in ("submit_time", "start_time")}
    times["end_time"] = microseconds(ended_at(batch.jobs))
    late = {name: us > latest_us for name, us in times.items()}
    refused = np.logical_or.reduce(list(late.values()))
    if not refused.any():
        return batch
    rejects = list(batch.rejects)
    for row in map(int, np.flatnonzero(refused)):
        file, _, line = batch.jobs["source"][row].as_py().rpartition(":")
        name = next(name for name in times if late[name][row])
        said = f"{name} {batch.jobs[name][row].as_py():%Y-%m-%dT%H:%M:%SZ} is later than {_utc(latest_us)}"
        rejects.append(Reject(file, int(line), "in_the_future", said, batch.jobs["job_id"][row].as_py()))
    rejects.sort(key=lambda reject: reject.line)
    return Batch(batch.jobs.filter(pa.array(~refused)), tuple(rejects), batch.skipped, batch.notes)


def _utc(us: int) -> str:
    return f"{datetime.fromtimestamp(us / 1e6, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _days_beside(batch: Batch, cluster: Cluster, seen: _Seen) -> list[str | None]:
    """Local day of the end (of an open job: of the submission) of the job before each reject in its file; else of the one after.

    Where a batch has no job, the day found last in the same file.
    """
    if not batch.rejects:
        return []
    if not batch.jobs.num_rows:
        same_file = seen.rejects[: -len(batch.rejects)][-1:]
        known = seen.reject_days[-1] if same_file and same_file[0].file == batch.rejects[0].file else None
        return [known] * len(batch.rejects)
    jobs = batch.jobs.select(["submit_time", "end_time"]).take(pa.array(job_before(batch)[1]))
    moments = microseconds(pc.coalesce(jobs["end_time"], jobs["submit_time"]))
    return [day_of(int(day)).isoformat() for day in local_days(moments, cluster.zone)]


def _refuse(cluster: Cluster, seen: _Seen, log: LogFiles) -> None:
    if 0 < seen.notes["empty_files"] == len(log.files):
        raise SourceError(
            f"{cluster.name}: every file of {', '.join(cluster.source.paths) or 'what was collected'} is empty. Nothing was written."
        )
    others = seen.skipped["other_cluster"]
    if others and not seen.accepted + log.accepted:
        raise SourceError(
            f"{cluster.name}: the log has no job of the Slurm cluster {cluster.source.options.get('slurm_cluster')!r}; {others} records "
            "are of others. Nothing was written. Name one of the column Cluster in source.options.slurm_cluster."
        )
    rejected = len(seen.rejects) + log.rejected
    records = rejected + seen.accepted + log.accepted
    at_most = cluster.source.reject_share_at_most
    if seen.rejects and rejected / records > at_most:
        if of_one_user := seen.by_user.of_one_user(rejected, records, at_most):
            seen.notes["rejects_of_one_user"] = of_one_user
            return
        reasons = ", ".join(f"{reason} {count}" for reason, count in Counter(r.reason for r in seen.rejects).most_common(3))
        sample = seen.rejects[0]
        error = TooManyRejects(
            f"{cluster.name}: {rejected} of {records} records were refused ({rejected / records:.1%}), "
            f"{at_most:.1%} are allowed: {reasons}. The first is {sample.file}:{sample.line}: "
            f"{sample.raw[:200]!r}. Nothing was written. Is source.format right ({cluster.source.format})? "
            f"Else raise source.reject_share_at_most. See what was refused: runcast rejects --cluster {cluster.name}."
            f"{hint(sample, cluster.source)}"
        )
        error.rejects, error.days = tuple(seen.rejects), tuple(seen.reject_days)
        raise error


def _refuse_unknown_states(cluster: Cluster, seen: _Seen) -> None:
    """Raise UnknownStates where nearly all that a load read is in states that nobody knows: every job would be cut from outside."""
    words = {name.removeprefix(UNKNOWN_STATE): n for name, n in seen.notes.items() if name.startswith(UNKNOWN_STATE)}
    if seen.accepted < _STATES_TELL or seen.notes["unknown_state"] < _UNKNOWN_SHARE * seen.accepted or not words:
        return
    first = sorted(words, key=lambda word: (-words[word], word))[:5]
    found = ", ".join(f"{Quoted(word)} {words[word]}" for word in first)
    means = f"{first[0]}: COMPLETED" + (f", {first[1]}: FAILED" if first[1:] else "")
    raise UnknownStates(
        f"{cluster.name}: the states of {seen.notes['unknown_state']} of {seen.accepted} jobs are words that nobody knows: {found}. "
        f"Nothing was written. Known are COMPLETED, FAILED, CANCELLED, TIMEOUT and the other states of Slurm. Format `table` says in the "
        f"cluster file what a site's own words mean, for example source.options.columns.state: {{column: State, values: {{{means}}}}}; "
        f"else ask whether source.format ({cluster.source.format}) and the columns are right."
    )


def _refuse_before_the_log(cluster: Cluster, lake: Lake, seen: _Seen, cut: int) -> None:
    """Raise SourceError where neither the log nor the lake knows a job before `cut`: there is no night to run."""
    last = day_of(int(local_days(np.array([cut - 1]), cluster.zone)[0]))
    if seen.first_submit_us < cut or any(day <= last.isoformat() for day in lake.dates(cluster.name)):
        return
    begins = day_of(int(local_days(np.array([seen.first_submit_us]), cluster.zone)[0]))
    raise SourceError(
        f"{cluster.name}: no job had been submitted by the end of {last}: the log begins on {begins}. Nothing was written. "
        "Name a day that it covers."
    )


def _refuse_moved_clock(cluster: Cluster, lake: Lake, jobs: pa.Table) -> None:
    """Raise HistoryMismatch where jobs that the lake knows are told again, submitted some quarters of an hour before or after.

    That is what a log written in another zone looks like; nothing else moves many jobs by so even an amount. Compared are the open
    jobs, which a log tells of anew as they end, and those of the lake's last day.
    """
    last = lake.dates(cluster.name)[-1:]
    for known in (lake.read_open(cluster.name), lake.read_ended(cluster.name, last)):
        if (moved := moved_clock(jobs, known)) is not None:
            by_h, count, both = moved
            raise HistoryMismatch(
                f"{cluster.name}: {count} of {both} jobs that were loaded before are now submitted "
                f"{by_h:+g} h from what they were: the log is written in another zone than before, or its "
                f"zone in {cluster.path} ({cluster.time_zone}) was wrong. Nothing was written. Have the log written in one zone, or "
                "begin its history anew."
            )


def moved_clock(jobs: pa.Table, known: pa.Table) -> tuple[float, int, int] | None:
    """Return by how many hours submissions moved from what is known (median), of how many jobs, and how many are in both tables.

    Null where too few moved by some quarters of an hour to blame the clock.
    """
    again = jobs.select(["job_id", "submit_time"]).filter(pc.is_in(jobs["job_id"], known["job_id"].combine_chunks()))
    before = dict(zip(known["job_id"].to_pylist(), microseconds(known["submit_time"]).tolist(), strict=True))
    ids = again["job_id"].to_pylist()
    moved_us = microseconds(again["submit_time"]) - np.array([before[job] for job in ids], np.int64)
    moved_us = moved_us[(moved_us != 0) & (np.abs(moved_us) <= _ZONES_US) & (moved_us % _ZONE_STEP_US == 0)]
    both = len(set(ids))
    if len(moved_us) < max(_MOVED_AT_LEAST, _MOVED_SHARE * both):
        return None
    return float(np.median(moved_us)) / 3.6e9, len(moved_us), both


def _merge_from(cluster: Cluster, first: date | None, loaded: int | None) -> int | None:
    """First day whose jobs are taken in: look-back before `first`, or before the first night that was missed; null: every day."""
    if first is None:
        return None
    days = day_number(first)
    if loaded is not None:
        days = min(days, int(local_days(np.array([loaded]), cluster.zone)[0]))
    return days - int(np.ceil(cluster.lookback_days))


def _last_day(jobs: pa.Table, cluster: Cluster) -> date:
    """Local day of the latest thing that the log tells of."""
    latest = max(int(microseconds(jobs[name]).max(initial=_NEVER)) for name in ("submit_time", "start_time", "end_time"))
    if latest == _NEVER:
        raise SourceError(f"{cluster.name}: the log holds no job, so it has no last day. Nothing was written.")
    return day_of(int(local_days(np.array([latest]), cluster.zone)[0]))


def _without_open(seen: _Seen) -> pa.Table:
    """The ended jobs: those that are open at a cut in the past were settled by a later load."""
    has_ended = pc.is_valid(ended_at(seen.jobs))
    ended = seen.jobs.filter(has_ended)
    seen.left_out["open_in_the_past"] += seen.jobs.num_rows - ended.num_rows
    return ended


def _asked_days(jobs: pa.Table, cluster: Cluster, first: date | None, cut: int) -> range:
    """Days that are replaced: from `first`, or from the day after the first on which a job of the log ended, to the cut."""
    stop = int(local_days(np.array([cut - 1]), cluster.zone)[0]) + 1
    if first is not None:
        return range(day_number(first), stop)
    days = _end_days(jobs, cluster)
    days = days[days != _NEVER]
    return range(int(days.min()) + 1, stop) if len(days) else range(0)


def _winds_back(cluster: Cluster, lake: Lake, first: date | None, last: date | None, cut: int, latest: int | None) -> bool:
    """Whether a load of the whole log mends a lake whose cut is later than anything can have been known.

    That is: later than `latest`, which the load reaches, or, where no last day is named, later than the log and every ended job.
    """
    loaded = lake.as_of_us(cluster.name)
    if first is not None or loaded is None or cut >= loaded:
        return False
    return (latest is not None and loaded > latest == cut) or (last is None and not _days_since(cut, cluster, lake))


def _days_since(cut: int, cluster: Cluster, lake: Lake) -> list[int]:
    """Days of the lake that begin at `cut` or later."""
    first = int(local_days(np.array([cut]), cluster.zone)[0])
    return [day for day in map(day_number, map(date.fromisoformat, lake.dates(cluster.name))) if day >= first]


def _still_named(still_open: pa.Table, seen: _Seen, reach_us: int) -> pa.Table:
    """The lake's open jobs without those that the log no longer names, which are counted.

    What was read of the log must reach back before a job's submission (`reach_us`), and none of its refused records may be the job's.
    Such a job was deleted, or is a runaway that somebody cleared; named again, it is an open job again.
    """
    is_named = pc.is_in(still_open["job_key"], seen.jobs["job_key"].combine_chunks()).to_numpy()
    refused = "\n".join(reject.raw for reject in seen.rejects)
    is_refused = np.array([WITHHELD in refused or job_id in refused for job_id in still_open["job_id"].to_pylist()], bool)
    stays = is_named | is_refused | (microseconds(still_open["submit_time"]) < reach_us)
    if not stays.all():
        seen.notes["no_longer_named"] += int((~stays).sum())
    return still_open.filter(pa.array(stays, pa.bool_()))


def _related(cluster: Cluster, lake: Lake, jobs: pa.Table, asked: range, reach_us: int) -> tuple[pa.Table, set[int]]:
    """The lake's ended rows that this load may settle or that may outdo its rows, and the days whose partitions are made anew.

    Those are the days asked for (whose present rows do not count, but for those submitted before the log's reach), days on which
    a late job ended, and any other day since the first submission of the load that holds one of its jobs: a requeued job may have
    ended there before.
    """
    present = {day_number(date.fromisoformat(day)) for day in lake.dates(cluster.name)}
    days = _end_days(jobs, cluster)
    touched = {int(day) for day in np.unique(days) if day != _NEVER}
    merged = (touched - set(asked)) & present
    if others := sorted(day for day in present - touched - set(asked) if day >= _first_submitted(jobs, cluster)):
        keys = jobs["job_key"].combine_chunks()
        for day in others:
            theirs = lake.read_ended(cluster.name, [day_of(day).isoformat()], ["job_key"])["job_key"]
            if pc.any(pc.is_in(theirs, keys), min_count=0).as_py():
                merged.add(day)
    existing = lake.read_ended(cluster.name, [day_of(day).isoformat() for day in sorted(merged)])
    older_days = lake.dates_submitted_before(cluster.name, reach_us)
    older = lake.read_ended(cluster.name, [day for day in older_days if day_number(date.fromisoformat(day)) in asked])
    return pa.concat_tables([existing, _submitted_before(older, reach_us)]), touched | merged | (present & set(asked))


def _submitted_before(jobs: pa.Table, us: int) -> pa.Table:
    return jobs.filter(pa.array(microseconds(jobs["submit_time"]) < us))


def _first_submitted(jobs: pa.Table, cluster: Cluster) -> float:
    submitted = microseconds(jobs["submit_time"])
    return int(local_days(submitted.min(keepdims=True), cluster.zone)[0]) if len(submitted) else float("inf")


def _end_days(jobs: pa.Table, cluster: Cluster) -> Integers:
    """Local day number of each job's end, _NEVER where it has not ended."""
    ended = microseconds(ended_at(jobs))
    days = np.full(len(ended), _NEVER)
    days[ended != _NEVER] = local_days(ended[ended != _NEVER], cluster.zone)
    return days


def _in_order(rows: pa.Table, positions: Integers) -> Integers:
    """`positions` in the lake's order: a partition is then a slice, which costs nothing."""
    return positions[sort_order(rows.select(["job_key", "submit_time", "end_time"]).take(pa.array(positions)))]


def _gathered(rows: pa.Table, positions: Integers) -> pa.Table:
    """The rows at `positions`, each column in one piece; one column at a time is held twice."""
    schema, at, columns = rows.schema, pa.array(positions), []
    while rows.num_columns:
        columns.append(rows.column(0).take(at).combine_chunks())
        rows = rows.remove_column(0)
    return pa.table(columns, schema=schema)


def _by_day(ended: pa.Table, cluster: Cluster, touched: set[int]) -> dict[str, pa.Table]:
    """The jobs of each touched day; `ended` is in the order of its ends."""
    days, wanted = _end_days(ended, cluster), sorted(touched)
    starts, ends = np.searchsorted(days, wanted, side="left"), np.searchsorted(days, wanted, side="right")
    return {day_of(day).isoformat(): ended.slice(a, b - a) for day, a, b in zip(wanted, starts, ends, strict=True)}


def _all_rejects(cluster: Cluster, lake: Lake, seen: _Seen, *, keep_all: bool) -> pa.Table:
    """The load's rejects by file and line, each once, beside those of files that were not read (or, `keep_all`, of any)."""
    before = (tuple(row.values()) for row in lake.read_rejects(cluster.name).to_pylist())
    found = {row[:-1]: row[-1] for row in before if keep_all or row[1] not in seen.files}
    found |= {(cluster.name, *reject): day for reject, day in zip(seen.rejects, seen.reject_days, strict=True)}
    rows = sorted(((*row, day) for row, day in found.items()), key=lambda row: (row[1], row[2], row[3], row[5], row[4] or ""))
    return pa.table([list(column) for column in zip(*rows, strict=True)] or [[] for _ in REJECTS], schema=REJECTS)


def _largest(counts: Counter[str]) -> dict[str, int]:
    """The most frequent names, and the sum of the others as `other`, so that totals stay what they are."""
    shown = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN])
    rest = counts.total() - sum(shown.values())
    return shown | ({"other": shown.get("other", 0) + rest} if rest else {})


def check(cluster: Cluster, settings: Settings, day: date) -> "QualityReport":
    """Check the jobs that ended on `day` against the weeks before; Data Docs are built below home/quality/<cluster>/docs.

    Reads the day's partition, the window and the open jobs, whatever the length of the history. Raises nothing for bad data:
    ask the report (`require_passed`).
    """
    from runcast.data import quality, quality_suites
    from runcast.data.quality_norms import WINDOW_DAYS, measure, norms_of
    from runcast.data.quality_units import units_of
    from runcast.data.quality_values import values_found

    lake = Lake(settings.lake)
    first = min(lake.dates(cluster.name), default=day.isoformat())
    days = [before for back in range(WINDOW_DAYS, 0, -1) if (before := day - timedelta(days=back)).isoformat() >= first]
    window, jobs = (lake.read_ended(cluster.name, [d.isoformat() for d in some]) for some in (days, [day]))
    refused = Counter(lake.read_rejects(cluster.name)["day"].to_pylist())
    # a day all of whose records were refused has no job: they stand beside the last of the day before
    of_tonight = refused[day.isoformat()] + refused[(day - timedelta(days=1)).isoformat()]
    still_open, cut = lake.read_open(cluster.name), cut_us(day, cluster.zone)
    later = lake.read_ended(cluster.name, [d for d in lake.dates_submitted_before(cluster.name, cut) if d > day.isoformat()])
    waiting = seen_at(pa.concat_tables([later, still_open]), cut)
    known, tells_open = pa.concat_tables([window, jobs, waiting]), waiting.num_rows > 0
    today = measure(known, cluster, day, tells_open=tells_open)
    norms = norms_of(known, cluster, days, refused, tells_open=tells_open)
    keys = pa.concat_tables([table.select(["job_key"]) for table in (window, jobs, still_open)])
    doubled = keys.num_rows - pc.count_distinct(keys["job_key"]).as_py()
    units, frame = units_of(jobs, window), quality_suites.jobs_frame(jobs)
    return quality.check_jobs(
        cluster.name,
        day,
        quality_folder(cluster.name, settings),
        jobs=(frame, quality_suites.jobs_suite(cluster, today, norms, frame)),
        night=(
            quality_suites.night_frame(today, norms, doubled, of_tonight, units),
            quality_suites.night_suite(cluster, today, norms),
        ),
        values=values_found(today, norms, units),
    )
