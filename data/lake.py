"""The lake: the only code that reads or writes it.

    jobs/cluster=<name>/end_date=<YYYY-MM-DD>/part.parquet   ended jobs, by local date of their end, sorted by end and job_key
    open/cluster=<name>/part.parquet                         jobs queued or running at the cut of the latest load
    rejects/cluster=<name>/part.parquet                      refused records of the logs
    features/cluster=<name>/part.parquet                     one row for each job, written by the features stage
    manifest/cluster=<name>.json                             rows, bytes and SHA-256 of each file; can be rebuilt from the files

A load is one transaction. Its new files are encoded, compared with the manifest (equal bytes are not written again), written to
`.staging/`, read back and flushed; then a journal names every move, and only then are files renamed into place. A process that
dies before the journal leaves nothing that a reader could see; one that dies after it is finished by whoever comes next. Readers
hold a shared lock, so they see all of a load or none. One writer for each cluster: the second waits or stops with a clear
message. Dates without jobs have no partition. Names below `.staging` and `.locks` are not data.
"""

import fcntl
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runcast.data.asof import DAY_US, day_number, ended_at, microseconds, seen_at
from runcast.data.columns import COLUMNS
from runcast.data.errors import LakeBehind, LakeBusy, LakeError
from runcast.data.schema import JOBS, REJECTS
from runcast.data.turns import take_turn

_UNIQUE_STRINGS = frozenset({"job_id", "job_key", "source"})
#: Measured on 786 files of 740 rows x 33 columns: lz4 without statistics, with dictionaries only where values repeat, writes in
#: half the time of the library's defaults with zstd, at 1.5 times the size; statistics cost more than they could ever skip.
_WRITER = {
    "compression": "lz4",
    "write_statistics": False,
    "store_schema": False,
    "use_dictionary": [c.name for c in COLUMNS if c.type == "string" and c.name not in _UNIQUE_STRINGS],
}
_THREADS = min(8, (os.cpu_count() or 1) + 2)  # some wait for the disk while others encode
_AS_OF = b"runcast.as_of_us"


@dataclass(frozen=True)
class Partition:
    """One file of the lake as the manifest knows it."""

    rows: int
    bytes: int
    sha256: str
    first_submit_us: int | None = None  # of jobs; null for other tables and for none


@dataclass(frozen=True)
class Change:
    """What one transaction did to the files; `fingerprint` is that of the cluster's jobs (ended and open) after it."""

    written: tuple[str, ...]  # paths relative to the lake
    removed: tuple[str, ...]
    unchanged: int
    fingerprint: str


class Lake:
    """The lake below `root`; nothing is made there before the first write."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._held: set[tuple[str, int]] = set()  # cluster, thread

    # -- reading

    def dates(self, cluster: str) -> list[str]:
        """Local end dates that hold jobs, in order."""
        with self._reading(cluster):
            return self._dates(cluster)

    def as_of_us(self, cluster: str) -> int | None:
        """Cut of the latest load (microseconds UTC); None where nothing was loaded."""
        with self._reading(cluster):
            path = self.root / _open_path(cluster)
            if not path.exists():
                return None
            metadata = pq.read_schema(path).metadata or {}
            return int(metadata[_AS_OF]) if _AS_OF in metadata else None

    def require(self, cluster: str, cut: int, day: date) -> None:
        """Raise LakeBehind unless the cluster was loaded up to `cut`, the end of `day` (microseconds UTC)."""
        known = self.as_of_us(cluster)
        if known is None or known < cut:
            until = "no jobs are loaded" if known is None else f"jobs are loaded until {_utc(known)}"
            raise LakeBehind(
                f"{cluster}: {until}, and {day} ends at {_utc(cut)}. "
                f"Load it first: runcast ingest --cluster {cluster} --date {day}"
            )

    def verify(self, cluster: str) -> tuple[dict[str, Partition], list[str]]:
        """Read every file of the cluster; return what the manifest says of them, and a sentence for each that differs."""
        with self._reading(cluster):
            known = self._manifest(cluster)
            said = []
            for path in sorted({*known, *self._files(cluster)}):
                place = self.root / path
                if path not in known:
                    said.append(f"{path}: is not in the manifest")
                elif not place.exists():
                    said.append(f"{path}: is missing")
                elif hashlib.sha256(place.read_bytes()).hexdigest() != known[path].sha256:
                    said.append(f"{path}: was altered after it was written (its SHA-256 differs)")
            return known, said

    def read_jobs(self, cluster: str, *, before: int | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Every job once: the ended ones by end, then the open ones of the latest load.

        `before` (a cut, microseconds UTC) gives the jobs as they stood just before it, in the order of a lake that was loaded up to
        it: whatever was loaded later leaves no trace; see asof.seen_at. Raises LakeError where the cluster was never loaded.
        """
        wanted = list(JOBS.names if columns is None else columns)
        with self._reading(cluster):
            paths = [_jobs_path(cluster, day) for day in self._dates(cluster)]
            if (self.root / _open_path(cluster)).exists():
                paths.append(_open_path(cluster))
            if not paths:
                raise LakeError(
                    f"{self.root}: holds no jobs of {cluster}. Load its log first (`runcast ingest --cluster {cluster} --all`)."
                )
            settled = [path for path in paths if before is None or _ends_before(path, before)]
            tables = self._read(settled, JOBS, wanted)
            later = self._read(paths[len(settled) :], JOBS, [name for name in JOBS.names if name in {*wanted, *_SEEN_AT_READS}])
        if later and before is not None:
            seen = seen_at(pa.concat_tables(later), before)
            is_open = pc.is_null(ended_at(seen))
            tables += [seen.filter(pc.invert(is_open)).select(wanted), _sorted(seen.filter(is_open)).select(wanted)]
        return pa.concat_tables(tables)

    def read_ended(self, cluster: str, dates: Iterable[str], columns: Sequence[str] | None = None) -> pa.Table:
        """Jobs that ended on the given local dates; a date without a partition has none."""
        with self._reading(cluster):
            paths = [_jobs_path(cluster, day) for day in dates]
            paths = [path for path in paths if (self.root / path).exists()]
            names = list(JOBS.names if columns is None else columns)
            return pa.concat_tables([_empty(JOBS, names), *self._read(paths, JOBS, names)])

    def read_open(self, cluster: str) -> pa.Table:
        """Jobs queued or running at the cut of the latest load."""
        return self._read_one(cluster, _open_path(cluster), JOBS)

    def read_rejects(self, cluster: str) -> pa.Table:
        """Refused records of the cluster's logs, by file and line."""
        return self._read_one(cluster, _rejects_path(cluster), REJECTS)

    def read_features(self, cluster: str) -> pa.Table:
        """The features table as it was written; raises LakeError where there is none."""
        with self._reading(cluster):
            path = self.root / _features_path(cluster)
            if not path.exists():
                raise LakeError(f"{path}: no features yet. Build them first (`runcast features --cluster {cluster}`).")
            return _opened(path).read()

    def partitions(self, cluster: str) -> dict[str, Partition]:
        """What the manifest says of each file of the cluster, by path relative to the lake, in path order."""
        with self._reading(cluster):
            return self._manifest(cluster)

    def rows_by_date(self, cluster: str) -> dict[str, int]:
        """Ended jobs of each local date that has any, from the manifest."""
        start = _jobs_path(cluster, "")[: -len("/part.parquet")]
        return {
            path.removeprefix(start).split("/")[0]: part.rows
            for path, part in self.partitions(cluster).items()
            if path.startswith(start)
        }

    def dates_submitted_before(self, cluster: str, us: int) -> list[str]:
        """Local end dates that hold a job submitted before `us`, from the manifest."""
        parts = self.partitions(cluster)
        days = ((day, parts[_jobs_path(cluster, day)].first_submit_us) for day in self.rows_by_date(cluster))
        return [day for day, first in days if first is not None and first < us]

    def fingerprint(self, cluster: str) -> str:
        """SHA-256 over paths and hashes of the cluster's jobs: equal fingerprints are equal bytes."""
        return _fingerprint(self.partitions(cluster))

    # -- writing

    @contextmanager
    def lock(self, cluster: str, wait_s: float = 0.0) -> Iterator[None]:
        """Be the cluster's one writer; LakeError where another still is after `wait_s`. Clears up what a killed one left."""
        held = (cluster, threading.get_ident())
        if held in self._held:
            yield
            return
        with ExitStack() as turn:
            try:
                path = self._lock_path(cluster, "writer")
                turn.enter_context(take_turn(path, f"{self.root}: {cluster} is being written", wait_s, LakeBusy))
                self._recover(cluster)
            except OSError as error:
                raise LakeBusy(
                    f"{self.root}: cannot be written ({error.strerror}). Check RUNCAST_HOME and its rights."
                ) from error
            self._held.add(held)
            try:
                yield
            finally:
                self._held.discard(held)

    def replace(
        self,
        cluster: str,
        *,
        ended: Mapping[str, pa.Table] | None = None,
        open_jobs: pa.Table | None = None,
        as_of_us: int | None = None,
        rejects: pa.Table | None = None,
        features: pa.Table | None = None,
    ) -> Change:
        """Replace whole partitions in one transaction: all of it is seen, or nothing.

        `ended` maps local dates to all jobs of that date (none: the partition goes).
        `open_jobs` needs `as_of_us`, the cut it stands for. What is not given stays as it is. Rows are sorted here, so that their
        order of arrival does not matter.
        """
        with self.lock(cluster):
            staging = self._staging(cluster)
            staging.mkdir(parents=True, exist_ok=True)
            targets = [_Target(_jobs_path(cluster, day), table, JOBS) for day, table in sorted((ended or {}).items())]
            if open_jobs is not None:
                if as_of_us is None:
                    raise LakeError(f"{cluster}: open jobs were given without the cut they stand for (as_of_us)")
                targets.append(_Target(_open_path(cluster), open_jobs, JOBS.with_metadata({_AS_OF: str(as_of_us)})))
            if rejects is not None:
                targets.append(_Target(_rejects_path(cluster), rejects, REJECTS))
            if features is not None:
                targets.append(_Target(_features_path(cluster), features, features.schema.remove_metadata()))
            try:
                return self._commit(cluster, staging, targets)
            except OSError as error:
                raise LakeBusy(
                    f"{self.root}: the load of {cluster} could not be written ({error.strerror or error}). "
                    "What was there is untouched, or the change is completed by the next run."
                ) from error
            finally:
                if not (staging / "journal.json").exists():  # a full disk gets its space back at once
                    shutil.rmtree(staging, ignore_errors=True)

    def write_ended(self, cluster: str, end_date: str, jobs: pa.Table) -> Change:
        """Replace one date's jobs."""
        return self.replace(cluster, ended={end_date: jobs})

    def write_open(self, cluster: str, jobs: pa.Table, as_of_us: int) -> Change:
        """Replace the open jobs; `as_of_us` is the cut they stand for."""
        return self.replace(cluster, open_jobs=jobs, as_of_us=as_of_us)

    def write_rejects(self, cluster: str, rejects: pa.Table) -> Change:
        """Replace the cluster's rejects."""
        return self.replace(cluster, rejects=rejects)

    def write_features(self, cluster: str, features: pa.Table) -> Change:
        """Replace the cluster's features; their schema is the table's own."""
        return self.replace(cluster, features=features)

    def rebuild_manifest(self, cluster: str) -> dict[str, Partition]:
        """Make the manifest anew from the files, for a lake that was copied or repaired by hand; returns it."""
        with self.lock(cluster), self._committing(cluster):
            found = {}
            for path in self._files(cluster):
                content = (self.root / path).read_bytes()
                table = _opened(self.root / path).read()
                digest = hashlib.sha256(content).hexdigest()
                found[path] = Partition(table.num_rows, len(content), digest, _first_submit_us(table))
            target = self.root / _manifest_path(cluster)
            target.parent.mkdir(parents=True, exist_ok=True)
            beside = self._staging(cluster) / "manifest"
            beside.parent.mkdir(parents=True, exist_ok=True)
            _write_flushed(beside, _manifest_text(found))
            beside.replace(target)
            return found

    # -- the transaction

    def _commit(self, cluster: str, staging: Path, targets: "Sequence[_Target]") -> Change:
        before = self._manifest(cluster)
        with ThreadPoolExecutor(_THREADS) as pool:  # files are independent: their bytes do not depend on the threads
            staged = list(
                pool.map(
                    lambda at: _stage(self.root, staging / f"{at[0]:06d}", at[1], before.get(at[1].path)),
                    enumerate(targets),
                )
            )
        parts = {target.path: part for target, (part, _) in zip(targets, staged, strict=True) if part is not None}
        moves = {target.path: f"{i:06d}" for i, (target, (_, is_new)) in enumerate(zip(targets, staged, strict=True)) if is_new}
        gone = [target.path for target, (part, _) in zip(targets, staged, strict=True) if part is None]
        gone = [path for path in gone if path in before or (self.root / path).exists()]
        after = {path: part for path, part in sorted({**before, **parts}.items()) if path not in gone}
        if moves or gone or after != before:
            _write_flushed(staging / "manifest", _manifest_text(after))
            journal = {"moves": {**moves, _manifest_path(cluster): "manifest"}, "removals": gone}
            with self._committing(cluster):
                _write_flushed(staging / "journal.part", json.dumps(journal, indent=0).encode())
                (staging / "journal.part").replace(staging / "journal.json")  # from here on the load has happened
                _flush_folder(staging)
                self._roll_forward(staging)
        return Change(tuple(moves), tuple(gone), len(parts) - len(moves), _fingerprint(after))

    def _roll_forward(self, staging: Path) -> None:
        """Do what the journal says; every step may have been done before."""
        journal = json.loads((staging / "journal.json").read_text())
        for path, name in journal["moves"].items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if (staging / name).exists():
                (staging / name).replace(target)
        for path in journal["removals"]:
            (self.root / path).unlink(missing_ok=True)
            if (self.root / path).parent.exists():
                (self.root / path).parent.rmdir()
        (staging / "journal.json").unlink()

    def _recover(self, cluster: str) -> None:
        staging = self._staging(cluster)
        if (staging / "journal.json").exists():
            with self._committing(cluster):
                self._roll_forward(staging)
        if staging.exists():
            shutil.rmtree(staging)

    @contextmanager
    def _committing(self, cluster: str) -> Iterator[None]:
        """Keep readers out while files move: milliseconds."""
        path = self._lock_path(cluster, "commit")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as handle:
            fcntl.flock(handle.fileno(), fcntl.LOCK_EX)
            yield

    @contextmanager
    def _reading(self, cluster: str) -> Iterator[None]:
        """Keep commits out while files are read; a commit that its writer did not survive is finished first."""
        path = self._lock_path(cluster, "commit")
        if not path.exists():  # nothing was ever committed
            yield
            return
        with path.open() as handle:
            fcntl.flock(handle.fileno(), fcntl.LOCK_SH)
            if (self._staging(cluster) / "journal.json").exists():
                fcntl.flock(handle.fileno(), fcntl.LOCK_UN)
                self._finish_for_dead_writer(cluster)
                fcntl.flock(handle.fileno(), fcntl.LOCK_SH)
            yield

    def _finish_for_dead_writer(self, cluster: str) -> None:
        try:
            with self._committing(cluster):
                if (self._staging(cluster) / "journal.json").exists():
                    self._roll_forward(self._staging(cluster))
        except OSError as error:
            raise LakeError(
                f"{self.root}: a load of {cluster} was interrupted while its files moved, and cannot be finished from here "
                f"({error.strerror}). Run the ingest again, or read with an account that may write."
            ) from error

    # -- files

    def _read(self, paths: Sequence[str], schema: pa.Schema, columns: Sequence[str]) -> list[pa.Table]:
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(lambda path: _read_file(self.root / path, schema, columns), paths))

    def _read_one(self, cluster: str, path: str, schema: pa.Schema) -> pa.Table:
        with self._reading(cluster):
            if not (self.root / path).exists():
                return _empty(schema, schema.names)
            return _read_file(self.root / path, schema, schema.names)

    def _dates(self, cluster: str) -> list[str]:
        folder = (self.root / _jobs_path(cluster, "")).parent.parent
        return sorted(path.parent.name.removeprefix("end_date=") for path in folder.glob("end_date=*/part.parquet"))

    def _files(self, cluster: str) -> list[str]:
        dated = [_jobs_path(cluster, day) for day in self._dates(cluster)]
        single = [_open_path(cluster), _rejects_path(cluster), _features_path(cluster)]
        return sorted(dated + [path for path in single if (self.root / path).exists()])

    def _manifest(self, cluster: str) -> dict[str, Partition]:
        path = self.root / _manifest_path(cluster)
        if not path.exists():
            return {}
        try:
            return {name: Partition(**part) for name, part in json.loads(path.read_text()).items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise LakeError(f"{path}: not a manifest ({error}). Rebuild it from the files with Lake.rebuild_manifest.") from error

    def _staging(self, cluster: str) -> Path:
        return self.root / ".staging" / _folder(cluster)

    def _lock_path(self, cluster: str, kind: str) -> Path:
        return self.root / ".locks" / f"{_folder(cluster)}.{kind}"


def conform(table: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """`table` in the declared schema: columns in its order, absent nullable ones as typed nulls, safe casts.

    Raises LakeError naming `where` for a column that is not declared, a required one that is absent or holds nulls, or values
    that do not fit their type.
    """
    if table.schema.equals(schema) and not any(table[f.name].null_count for f in schema if not f.nullable):
        return table.replace_schema_metadata(schema.metadata)
    if unknown := [name for name in table.column_names if name not in schema.names]:
        raise LakeError(f"{where}: unknown column {unknown[0]!r}; the declared columns are {', '.join(schema.names)}")
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            if not field.nullable:
                raise LakeError(f"{where}: column {field.name!r} is missing; it is required")
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
            continue
        column = table[field.name]
        if column.type != field.type:
            try:
                column = column.cast(field.type)
            except pa.ArrowException as error:
                raise LakeError(f"{where}: column {field.name!r}: expected {field.type}, found {column.type}: {error}") from error
        if not field.nullable and column.null_count:
            raise LakeError(f"{where}: column {field.name!r} holds {column.null_count} nulls; it is required")
        columns.append(column)
    return pa.table(columns, schema=schema)


#: What seen_at and the order of open jobs read beside the columns that are asked for.
_SEEN_AT_READS = frozenset(
    {
        "job_key",
        "submit_time",
        "start_time",
        "end_time",
        "state",
        "node_list",
        "queue_s",
        "runtime_s",
        "label",
        "attempts",
        "flags",
    }
)


@dataclass(frozen=True)
class _Target:
    """One file to be replaced: its path relative to the lake, what to put there, and the declared schema."""

    path: str
    table: pa.Table
    schema: pa.Schema


def _stage(root: Path, beside: Path, target: _Target, known: Partition | None) -> tuple[Partition | None, bool]:
    """Encode one file and, unless the lake holds these very bytes, write it beside; (what it is, whether it is new).

    A date without jobs is None: its partition goes.
    """
    table = conform(target.table, target.schema, target.path)
    if table.num_rows == 0 and _is_dated(target.path):
        return None, False
    if target.schema.equals(JOBS):
        table = _sorted(table)
    content = _encoded(table)
    part = Partition(table.num_rows, content.size, hashlib.sha256(content).hexdigest(), _first_submit_us(table))
    place = root / target.path
    if part == known and place.exists() and place.stat().st_size == part.bytes:
        return part, False
    _write_flushed(beside, content)
    if beside.stat().st_size != part.bytes:
        raise LakeError(f"{beside}: {part.bytes} bytes were written, {beside.stat().st_size} are there")
    return part, True


def _first_submit_us(table: pa.Table) -> int | None:
    if "submit_time" not in table.column_names or table.num_rows == 0:
        return None
    return int(microseconds(table["submit_time"]).min())


def _encoded(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    names = set(table.column_names)
    strings = [name for name in _WRITER["use_dictionary"] if name in names]  # type: ignore[attr-defined]
    with pq.ParquetWriter(sink, table.schema, **{**_WRITER, "use_dictionary": strings or False}) as writer:
        if table.schema.metadata:
            writer.add_key_value_metadata(table.schema.metadata)
        writer.write_table(table)
    return sink.getvalue()


def sort_order(jobs: pa.Table) -> npt.NDArray[np.int64]:
    """Positions that put jobs by end (without one: by submission), then job_key: the order of arrival leaves no trace."""
    times = microseconds(pc.coalesce(jobs["end_time"], jobs["submit_time"]))
    order = np.argsort(times, kind="stable")
    ordered = times[order]
    if bool((ordered[1:] > ordered[:-1]).all()):
        return order
    keyed = pa.table({"time": times, "job_key": jobs["job_key"]})
    return pc.sort_indices(keyed, [("time", "ascending"), ("job_key", "ascending")]).to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _sorted(jobs: pa.Table) -> pa.Table:
    return jobs if _is_sorted(jobs) else jobs.take(pa.array(sort_order(jobs)))


def _is_sorted(jobs: pa.Table) -> bool:
    ends = jobs["end_time"]
    times = microseconds(pc.coalesce(ends, jobs["submit_time"]) if ends.null_count else ends)
    if bool((times[1:] < times[:-1]).any()):
        return False
    ties, keys = np.flatnonzero(times[1:] == times[:-1]), jobs["job_key"]
    return bool(pc.all(pc.less_equal(keys.take(pa.array(ties)), keys.take(pa.array(ties + 1))), min_count=0).as_py())


def _read_file(path: Path, schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    file = _opened(path)
    wanted = pa.schema([schema.field(name) for name in columns])
    if file.schema_arrow.equals(schema):
        return file.read(list(columns), use_threads=False).select(list(columns)).replace_schema_metadata(None)
    return conform(file.read(), schema, str(path)).select(wanted.names)


def _opened(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, memory_map=True)
    except (pa.ArrowException, OSError) as error:
        raise LakeError(f"{path}: not a readable Parquet file ({error}). Delete it and load its date again.") from error


def _empty(schema: pa.Schema, names: Sequence[str]) -> pa.Table:
    return pa.schema([schema.field(name) for name in names]).empty_table()


def _write_flushed(path: Path, content: bytes | pa.Buffer) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fdatasync(file.fileno())


def _flush_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _utc(us: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).isoformat()


def _ends_before(path: str, cut: int) -> bool:
    """Whether all of a dated partition ended before `cut`, whatever the zone: a local date ends within 36 h of its UTC start."""
    if not _is_dated(path):
        return False
    day = date.fromisoformat(path.split("end_date=")[1].split("/")[0])
    return (day_number(day) + 2) * DAY_US <= cut


def _fingerprint(partitions: Mapping[str, Partition]) -> str:
    lines = [f"{path} {part.sha256}\n" for path, part in sorted(partitions.items()) if path.startswith(("jobs/", "open/"))]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _manifest_text(partitions: Mapping[str, Partition]) -> bytes:
    lines = [f"{json.dumps(path)}: {json.dumps(vars(part))}" for path, part in sorted(partitions.items())]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _folder(cluster: str) -> str:
    return f"cluster={quote(cluster, safe='')}"


def _jobs_path(cluster: str, end_date: str) -> str:
    return f"jobs/{_folder(cluster)}/end_date={end_date}/part.parquet"


def _open_path(cluster: str) -> str:
    return f"open/{_folder(cluster)}/part.parquet"


def _rejects_path(cluster: str) -> str:
    return f"rejects/{_folder(cluster)}/part.parquet"


def _features_path(cluster: str) -> str:
    return f"features/{_folder(cluster)}/part.parquet"


def _manifest_path(cluster: str) -> str:
    return f"manifest/{_folder(cluster)}.json"


def _is_dated(path: str) -> bool:
    return path.startswith("jobs/")
