"""Fetching a cluster's log: the output of `source.collect.command`, compressed, below RUNCAST_HOME/collected/<cluster>.

A command that names days is run once for each day, and its output is the file of that day: `2026-03-01.gz`. A day is fetched again
until it was fetched `lookback_days` after its end, since records arrive late; when each file was fetched stands in its own header
(RFC 1952, MTIME), where no copy changes it. A command that names no day prints what there is: each output is a file of its moment,
and none replaces another. A file is written whole or not at all. One with fewer lines than the day's file before it does not replace
it: accounting that was purged, or that answers with nothing, takes no job away.
"""

import gzip
import os
import secrets
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from runcast.data.asof import cut_us
from runcast.data.cluster import Cluster, Collect
from runcast.data.collect_command import Limits, run_command
from runcast.data.days import latest_complete_day
from runcast.data.errors import CollectFailed
from runcast.data.files import flush_folder
from runcast.data.settings import Settings

_DAY = timedelta(days=1)
_MTIME_AT = 4  # where a gzip header has the time, little-endian, in seconds (RFC 1952)


@dataclass(frozen=True)
class Collected:
    """What was fetched: files that are new or replaced, and days whose file has more lines than what was fetched now."""

    written: int = 0
    had_more: int = 0

    def to_notes(self) -> dict[str, int]:
        """Return what is not 0, by the names of an ingest's notes."""
        counts = {"collected_files": self.written, "collected_had_more": self.had_more}
        return {name: count for name, count in counts.items() if count}


def collected_folder(cluster: Cluster, settings: Settings) -> Path:
    return settings.home / "collected" / quote(cluster.name, safe="")


def collected_files(cluster: Cluster, settings: Settings) -> list[Path]:
    """Return what was fetched of a cluster's log, by day."""
    return sorted(collected_folder(cluster, settings).glob("[0-9]*.gz"))


def collect(cluster: Cluster, settings: Settings, first: date | None, last: date | None, now: datetime) -> Collected:
    """Fetch what is missing of the log up to `last` (null: the latest day that is over), and anew the days from `first` to `last`.

    `now` is aware. Nothing where the cluster file names no command. Raises CollectFailed; the days that were fetched before it stay.
    """
    asked = cluster.source.collect
    if asked is None:
        return Collected()
    folder = collected_folder(cluster, settings)
    if not asked.names_days:
        _fetch(cluster, settings, None, folder / f"{now.astimezone(UTC):%Y-%m-%dT%H-%M-%SZ}.gz", now)
        return Collected(written=1)
    up_to = latest_complete_day(cluster, now)
    up_to = up_to if last is None else min(last, up_to)
    written = had_more = 0
    for day in _days_from(asked.since or up_to, up_to):
        path = folder / f"{day}.gz"
        if _is_settled(path, day, cluster, now) and (first is None or day < first):
            continue
        is_new = _fetch(cluster, settings, day, path, now)
        written, had_more = written + is_new, had_more + (not is_new)
    return Collected(written, had_more)


def collect_sample(cluster: Cluster, settings: Settings, day: date, folder: Path, now: datetime) -> Path:
    """Fetch one day, or what there is, into a file of `folder`: to look at it. The day need not be over."""
    path = folder / f"{day}.gz"
    _fetch(cluster, settings, day, path, now)
    return path


def _days_from(first: date, last: date) -> Iterator[date]:
    day = first
    while day <= last:
        yield day
        day += _DAY


def _is_settled(path: Path, day: date, cluster: Cluster, now: datetime) -> bool:
    """Return whether a day's file was fetched so late that no record of it can have come since; not from a clock that was ahead."""
    fetched_s = _fetched_s(path)
    settles_s = cut_us(day, cluster.zone) / 1e6 + cluster.lookback_days * _DAY.total_seconds()
    return fetched_s is not None and settles_s <= fetched_s <= now.timestamp()


def _fetched_s(path: Path) -> int | None:
    """Return when a file was fetched (s UTC); None where there is none, or what is there is no output of ours."""
    try:
        with path.open("rb") as file:
            header = file.read(_MTIME_AT + 4)
    except FileNotFoundError:
        return None
    return int(struct.unpack_from("<I", header, _MTIME_AT)[0]) if header[:2] == b"\x1f\x8b" and len(header) == 8 else None


def _fetch(cluster: Cluster, settings: Settings, day: date | None, path: Path, now: datetime) -> bool:
    """Run the command for a day and put its output in place; returns whether it was, or the file before it has more lines."""
    asked = cluster.source.collect
    if asked is None:
        raise CollectFailed(f"{cluster.name}: {cluster.path} names no source.collect")
    limits = Limits(asked.timeout_s, asked.output_mib_at_most * 2**20, asked.harmless_errors)
    with _written_whole(path, now) as out:
        try:
            run_command(command_of(asked, day), environment_of(cluster, settings), limits, out.write)
        except CollectFailed as error:
            of_day = f", {day}" if asked.names_days and day else ""
            raise CollectFailed(f"{cluster.name}{of_day}: {error}") from None
        if _lines(path) <= out.lines:
            out.is_wanted = True
            return True
    with path.open("r+b") as file:  # fetched now as well
        os.pwrite(file.fileno(), struct.pack("<I", int(now.timestamp())), _MTIME_AT)
    return False


def command_of(asked: Collect, day: date | None) -> list[str]:
    """Return the command for a day, with a delimiter that nobody can know."""
    after = None if day is None else day + _DAY
    values = {"first": day, "last": day, "next": after, "delimiter": f"|{secrets.token_hex(8)}|"}
    return [word.format_map(values) for word in asked.command]


def environment_of(cluster: Cluster, settings: Settings) -> dict[str, str]:
    """Return all that the command gets of an environment: where programs are, the cluster's zone, and what its file names."""
    asked = cluster.source.collect
    named: Mapping[str, str] = asked.environment if asked else {}
    passed = {name: settings.environment[name] for name in ("PATH", "HOME") if name in settings.environment}
    expanded = {name: settings.expand(text) for name, text in named.items()}
    return {"PATH": os.defpath, **passed, "LC_ALL": "C.UTF-8", "TZ": cluster.time_zone, **expanded}


class _Output:
    """A compressed file that is being written; `is_wanted` puts it in place."""

    def __init__(self, file: BinaryIO, now: datetime) -> None:
        self._zipped = gzip.GzipFile("", "wb", 6, file, int(now.timestamp()))
        self.lines = 0
        self.is_wanted = False

    def write(self, piece: bytes) -> None:
        self.lines += piece.count(b"\n")
        self._zipped.write(piece)

    def close(self) -> None:
        self._zipped.close()


@contextmanager
def _written_whole(path: Path, now: datetime) -> Iterator[_Output]:
    """Write a compressed file beside `path` and put it there where it is wanted; else nothing is left of it."""
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    beside.unlink(missing_ok=True)  # of a process that was killed
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640), "wb") as file:
            os.fchmod(file.fileno(), 0o640)
            out = _Output(file, now)
            try:
                yield out
            finally:
                out.close()
            file.flush()
            os.fsync(file.fileno())
        if out.is_wanted:
            beside.replace(path)
            flush_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def _lines(path: Path) -> int:
    """Return how many lines a fetched file has; 0 where there is none, or it is damaged."""
    try:
        with gzip.open(path, "rb") as file:
            return sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b""))
    except (OSError, EOFError):
        return 0
