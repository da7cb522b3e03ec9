"""Lines of what was served, as `runcast serve` keeps them: read one by one, kept or refused with a reason, never lost silently.

A line is one JSON object with the keys of KEYS and, some day, others. The service writes a job's first forecast; after a restart it
may write another, and a service that died within a line leaves a torn one. lines == kept + not asked for + other clusters' + refused.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd

_TEXTS = ("cluster", "job_key", "source", "model_version")
_SECONDS = ("p50_s", "p90_s", "point_s")
_TIMES = ("submit_time", "answered_at")
KEYS: tuple[str, ...] = (*_TEXTS, *_SECONDS, "confidence", *_TIMES)

#: Columns of the forecasts that are kept; times in microseconds since 1970 UTC.
COLUMNS: tuple[str, ...] = ("job_key", *_SECONDS, "confidence", "source", "model_version", "answered_us")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class ServedForecasts:
    """What was read so far: the first forecast of each job asked for, and counts of everything else."""

    lines: int = 0
    not_asked_for: int = 0  # of this cluster, of jobs that did not end on the day
    other_clusters: int = 0
    repeated: int = 0  # later lines of a job that has one
    rejects: Counter[str] = field(default_factory=Counter)
    first_reject: str | None = None  # file:line
    first_answer_us: int | None = None
    _kept: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def read(self, name: str, lines: Iterable[bytes], cluster: str, wanted: frozenset[str]) -> None:
        """Take in the lines of the file `name`, keeping the earliest forecast of each job of `wanted` (job keys of `cluster`)."""
        for number, line in enumerate(lines, start=1):
            self.lines += 1
            told, reason = read_line(line)
            if told is None:
                self.rejects[reason] += 1
                self.first_reject = self.first_reject or f"{name}:{number}"
            elif told["cluster"] != cluster:
                self.other_clusters += 1
            else:
                self._take(told, wanted)

    def _take(self, told: Mapping[str, Any], wanted: frozenset[str]) -> None:
        at_us, key = told["answered_us"], told["job_key"]
        self.first_answer_us = at_us if self.first_answer_us is None else min(self.first_answer_us, at_us)
        if key not in wanted:
            self.not_asked_for += 1
            return
        row, before = tuple(told[name] for name in COLUMNS), self._kept.get(key)
        if before is None:
            self._kept[key] = row
            return
        self.repeated += 1
        if at_us < before[-1]:
            self._kept[key] = row

    def frame(self) -> pd.DataFrame:
        """Return one row for each job that was told a forecast, in the order of its key."""
        rows = [self._kept[key] for key in sorted(self._kept)]
        kinds = dict.fromkeys((*_SECONDS, "confidence"), "float64") | {"answered_us": "int64"}
        return pd.DataFrame(rows, columns=list(COLUMNS)).astype(kinds)


def read_line(line: bytes) -> tuple[Mapping[str, Any] | None, str]:
    """Return what a line says, with its answering time as `answered_us`; else None and why it is refused."""
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):  # also what is not UTF-8
        return None, "not JSON"
    if not isinstance(told, dict):
        return None, "not an object"
    for name in KEYS:
        if name not in told:
            return None, f"no {name}"
    for name in _TEXTS:
        if not isinstance(told[name], str) or not told[name]:
            return None, f"{name} is not text"
    for name in (*_SECONDS, "confidence"):
        if not _is_number(told[name]):
            return None, f"{name} is not a number"
    for name in _SECONDS:
        if told[name] <= 0:
            return None, f"{name} is not above 0"
    if not 0 <= told["confidence"] <= 1:
        return None, "confidence is not a share"
    try:
        times = {name: _microseconds(told[name]) for name in _TIMES}
    except (TypeError, ValueError, OverflowError):
        return None, "a time is not one with its zone"
    return {**told, "answered_us": times["answered_at"]}, ""


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float holds
        return False


def _microseconds(text: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(text)
    return (moment - _EPOCH) // timedelta(microseconds=1)
