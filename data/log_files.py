"""Which files of a log must be read: those that are new or changed, and those that may still hold something for the night.

A file is passed over where it has been read before, is the same still (size, time of change, first and last bytes), and all that
it tells had happened before the days that a load looks at: reading it again could change nothing. What is known of the files is
kept below home/log_files, and only believed while the lake holds what it held then. A log must also hold still while it is read:
lines may be added at the end, but a file that was cut, replaced or taken away meanwhile could hide jobs, so nothing is loaded then.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from runcast.data.asof import ended_at, microseconds
from runcast.data.cluster import Cluster
from runcast.data.errors import EmptyLog, LogChanged, SourceError
from runcast.data.schema import JOBS
from runcast.data.settings import Settings
from runcast.data.sources.batch import Batch

_ENDS_BYTES = 1 << 16  # of a file's beginning and end
_JOINED = ("pai",)  # formats that read more than the file that is named
_NEVER, _ALWAYS = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Look:
    """What a file looks like from outside, without reading it whole."""

    size: int
    changed_ns: int
    ends_sha256: str  # of its first and last bytes; nothing for what is no file

    @property
    def is_empty(self) -> bool:
        return self.size == 0 and self.ends_sha256 != ""


@dataclass(frozen=True)
class Told:
    """What a file told when it was read: counts, its first submission and the latest of all its times (µs UTC)."""

    look: Look
    accepted: int = 0
    rejected: int = 0
    first_submit_us: int = _ALWAYS
    latest_us: int = _NEVER

    def after(self, batch: Batch) -> "Told":
        jobs = batch.jobs
        latest = [self.latest_us, *(int(microseconds(jobs[name]).max(initial=_NEVER)) for name in ("submit_time", "start_time"))]
        return Told(
            self.look,
            self.accepted + jobs.num_rows,
            self.rejected + len(batch.rejects),
            min(self.first_submit_us, int(microseconds(jobs["submit_time"]).min(initial=_ALWAYS))),
            max(*latest, int(microseconds(ended_at(jobs)).max(initial=_NEVER))),
        )


@dataclass
class LogFiles:
    """The files of a log for one load; `settled` are passed over, and count as if they had been read."""

    files: Sequence[Path]
    settled: dict[str, Told] = field(default_factory=dict)
    told: dict[str, Told] = field(default_factory=dict)
    looks: dict[str, Look] = field(init=False)

    def __post_init__(self) -> None:
        self.looks = {str(path): look_at(path) for path in self.files if str(path) not in self.settled}

    @property
    def accepted(self) -> int:
        return sum(one.accepted for one in self.settled.values())

    @property
    def rejected(self) -> int:
        return sum(one.rejected for one in self.settled.values())

    @property
    def first_submit_us(self) -> int:
        return min((one.first_submit_us for one in self.settled.values()), default=_ALWAYS)

    def read(self, path: Path, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches of one file; raises LogChanged where it cannot be read because it did not hold still.

        A file that is empty beside others, as after a rotation or an export that died, is one batch with the note `empty_files`.
        """
        told = Told(self.looks[str(path)])
        is_passed_over = told.look.is_empty and len(self.files) > 1
        try:
            for batch in () if is_passed_over else batches:
                told = told.after(batch)
                yield batch
        except SourceError as error:
            if look_at(path, told.look.size) != told.look:
                raise LogChanged(f"{error.without_quotes()} It changed while it was read. {_AGAIN}") from None
            is_passed_over = isinstance(error, EmptyLog) and len(self.files) > 1
            if not is_passed_over:
                raise
        if is_passed_over:  # and not remembered: alone it is a fault
            yield Batch(JOBS.empty_table(), notes={"empty_files": 1})
            return
        self.told[str(path)] = told

    def unread(self) -> list[Path]:
        """Return the files that are to be read."""
        return [path for path in self.files if str(path) in self.looks]

    def refuse_changed(self, files_now: Sequence[Path]) -> None:
        """Raise LogChanged where the log's files are not those that were read, or one of them is not what it was but for new lines."""
        if list(files_now) != list(self.files):
            other = sorted({str(path) for path in files_now} ^ {str(path) for path in self.files})
            raise LogChanged(f"{', '.join(other)}: came or went while the log was read. {_AGAIN}")
        for path, told in self.told.items():
            now = look_at(Path(path), size=told.look.size)
            if now.size < told.look.size or (now.ends_sha256 != told.look.ends_sha256):
                raise LogChanged(f"{path}: was cut, replaced or written over while it was read. {_AGAIN}")


_AGAIN = "Nothing was written. Run the load again when the log stands still."


def look_at(path: Path, size: int | None = None) -> Look:
    """Look at a file from outside; with `size`, at its first so many bytes. A folder, or nothing, has no bytes."""
    if not path.is_file():
        return Look(0, 0, "")
    with path.open("rb") as file:
        found = path.stat()
        end = found.st_size if size is None else size
        ends = hashlib.sha256(file.read(min(_ENDS_BYTES, end)))
        if end > _ENDS_BYTES:
            file.seek(max(end - _ENDS_BYTES, _ENDS_BYTES))
            ends.update(file.read(min(_ENDS_BYTES, end - _ENDS_BYTES)))
    return Look(found.st_size, found.st_mtime_ns, ends.hexdigest())


def known_files(cluster: Cluster, settings: Settings, files: Sequence[Path], fingerprint: str, before_us: int) -> LogFiles:
    """Return the log's files with what need not be read again by a load that looks at nothing before `before_us` (µs UTC).

    `fingerprint` is that of the lake as it is.
    """
    if cluster.source.format in _JOINED:
        return LogFiles(files)
    path = _memory(cluster, settings)
    try:
        kept = json.loads(path.read_bytes())
        if (kept["fingerprint"], kept["cluster"]) != (fingerprint, _said(cluster)):
            return LogFiles(files)
        told_of = {name: Told(**{**one, "look": Look(**one["look"])}) for name, one in kept["files"].items()}
        before_us = min(before_us, int(kept["as_of_us"]))
        early = {name: told for name, told in told_of.items() if told.latest_us < before_us}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):  # none yet, or damaged: every file is read
        return LogFiles(files)
    settled = {name: told for name, told in early.items() if Path(name) in files and look_at(Path(name)) == told.look}
    return LogFiles(files, settled)


def remember(cluster: Cluster, settings: Settings, log: LogFiles, fingerprint: str, as_of_us: int) -> None:
    """Keep what is known of the log's files after a load up to `as_of_us` that left the lake with `fingerprint`."""
    files = {name: asdict(told) for name, told in sorted({**log.settled, **log.told}.items())}
    content: dict[str, Any] = {"fingerprint": fingerprint, "cluster": _said(cluster), "as_of_us": as_of_us, "files": files}
    path = _memory(cluster, settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(json.dumps(content, indent=0) + "\n", encoding="utf-8")
    beside.replace(path)


def _memory(cluster: Cluster, settings: Settings) -> Path:
    return settings.home / "log_files" / f"{quote(cluster.name, safe='')}.json"


def _said(cluster: Cluster) -> str:
    """Return what the cluster file says of reading the log, as a hash: said otherwise, every file is read again."""
    said = cluster.model_dump_json(exclude={"path", "training", "evaluation", "quality", "export", "schedule", "description"})
    return hashlib.sha256(said.encode()).hexdigest()
