"""Forecasts told to identified jobs, kept for the daily look at what came of them: one JSON line each, a file for each day.

`<folder>/<YYYY-MM-DD>.jsonl`, the day of the submission in UTC; FIELDS are the keys of each line. The first forecast told to a job
stands; one that asks again gets no second line (after a restart it may: of several lines of one job_key the first counts). Lines are
gathered in memory and written by a thread, so no answer waits for the disk and a full one fails none; what is lost is counted.
"""

import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from runcast.scheduler.metrics import Counter

DAYS_KEPT = 35
MOST_WAITING = 50_000  # lines, some 15 MiB: where the disk stands still, later ones are left out
REMEMBERED = 100_000  # jobs, so that one that asks again gets no second line

#: Keys of a line, in their order. Times are RFC 3339 in UTC; the rest is as in an answer.
FIELDS: tuple[str, ...] = (
    "cluster", "job_key", "submit_time", "p50_s", "p90_s", "point_s", "confidence", "source", "model_version", "answered_at",
)  # fmt: skip

DatedLine = tuple[date, str]  # the day of its file, and the line

_WRITTEN, _REFUSED, _TOO_MANY, _OUTSIDE = ((("outcome", name),) for name in ("written", "disk", "waiting", "outside"))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAME = re.compile(r"\d{4}-\d\d-\d\d\.jsonl")


class ServedLog:
    """The folder, for one writer; `days` are kept, today included, and 0 keeps nothing.

    `lines` counts what became of them: written; disk (it refused); waiting (it is too slow); outside (of a job submitted on a day that
    is not kept, or later than tomorrow).
    """

    def __init__(self, folder: Path, days: int = DAYS_KEPT) -> None:
        self.folder, self._days = folder, days
        self.lines = Counter("runcast_served_lines_total", "Forecasts told to identified jobs, by whether they could be kept.")
        self.problem = ""  # why the latest writing failed; empty after one that did not
        self._known: dict[str, None] = {}
        self._waiting: list[DatedLine] = []
        self._pruned: date | None = None

    def __contains__(self, job_key: str) -> bool:
        """Whether a job needs no line: it has one, or none are kept."""
        return not self._days or job_key in self._known

    def add(self, cluster: str, job: Mapping[str, Any], answer: Mapping[str, Any], now: datetime) -> None:
        """Keep what a job was told at `now`: a job that was read (its key and its submission in microseconds), and its answer."""
        key = job["job_key"]
        if key in self:
            return
        submit = _EPOCH + timedelta(microseconds=job["submit_time"])
        if not self._first_day(now) <= submit.date() <= now.date() + timedelta(days=1):
            self.lines.add(_OUTSIDE)
            return
        if len(self._waiting) >= MOST_WAITING:
            self.lines.add(_TOO_MANY)
            return
        self._known[key] = None
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        known = {"cluster": cluster, "job_key": key, "submit_time": _text(submit), "answered_at": _text(now)}
        line = {name: known[name] if name in known else answer[name] for name in FIELDS}
        self._waiting.append((submit.date(), json.dumps(line, separators=(",", ":")) + "\n"))

    def take(self) -> list[DatedLine]:
        """Return the lines that wait, to be given to `write`, which may run in another thread; they wait no more."""
        taken, self._waiting = self._waiting, []
        return taken

    def write(self, lines: list[DatedLine], now: datetime) -> None:
        """Append the lines to their days' files, and once a day remove the files that are too old."""
        by_day: dict[date, list[str]] = {}
        for day, line in lines:
            by_day.setdefault(day, []).append(line)
        self.problem = ""
        for day, some in by_day.items():
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                _append(self.folder / f"{day}.jsonl", "".join(some).encode())
                self.lines.add(_WRITTEN, len(some))
            except OSError as error:
                self.lines.add(_REFUSED, len(some))
                self.problem = f"{self.folder}: {len(some)} served forecasts could not be kept ({error.strerror})"
        if self._pruned != now.date() and by_day:
            self._pruned = now.date()
            self._prune(now)

    def _prune(self, now: datetime) -> None:
        first = f"{self._first_day(now)}.jsonl"
        try:
            for path in sorted(self.folder.iterdir()):
                if _NAME.fullmatch(path.name) and path.name < first:
                    path.unlink()
        except OSError as error:
            self.problem = self.problem or f"{self.folder}: old days could not be removed ({error.strerror})"

    def _first_day(self, now: datetime) -> date:
        return now.date() - timedelta(days=self._days - 1)


def _append(path: Path, data: bytes) -> None:
    """Append all of `data` or none of it, beginning on a line of its own where an earlier writer died within one."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
    try:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            data = b"\n" + data
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(file, data[written:], size + written)
        except OSError:
            os.ftruncate(file, size)
            raise
    finally:
        os.close(file)


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
