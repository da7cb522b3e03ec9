"""A bundle that was just loaded catches up with the events kept since its cut: the same state as if it had been told them as they came.

Beside the events the journal holds what the margin of p90 needs and cannot work out again: what jobs were told, by which bundle. A job
that was predicted before its submission was told of has its line where that took effect. A job that is told on its submission gets its
line after the submission is on disk, so it is looked for ahead. What another bundle told is left out: its quantile model was another
one. A submission without a line of this bundle is answered again, by this bundle and with the history at that place.
"""

import contextlib
import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from runcast.scheduler.errors import JobFieldError
from runcast.scheduler.events import event_time_us, read_event
from runcast.scheduler.journal import Event
from runcast.scheduler.predictor import Predictor
from runcast.training.running_margin import P90Told

P90_TOLD = "p90_told"  # of a line of ours among the events; no client may send one

log = logging.getLogger("runcast.service")


@dataclass(frozen=True)
class Line:
    """A line of the journal that says what one job was told, and whether on its submission."""

    bundle: str
    submit_us: int
    on_submission: bool
    p90: P90Told

    def to_event(self) -> Event:
        limit_s = self.p90.hard_limit_s
        return {
            "event": P90_TOLD, "bundle": self.bundle, "submit_us": self.submit_us, "on_submission": self.on_submission,
            "job_key": self.p90.job_key, "p90_log": self.p90.p90_log, "hard_limit_s": None if math.isnan(limit_s) else limit_s,
            "owner": self.p90.owner,
        }  # fmt: skip

    @classmethod
    def of(cls, event: Event) -> "Line":
        limit_s = event["hard_limit_s"]
        owner = None if event["owner"] is None else str(event["owner"])
        p90 = P90Told(event["job_key"], float(event["p90_log"]), math.nan if limit_s is None else float(limit_s), owner)
        return cls(event["bundle"], event["submit_us"], event["on_submission"], p90)


def catch_up(predictor: Predictor, events: Iterable[Event]) -> list[Event]:
    """Tell a predictor the events that its bundle's log lacks; return the lines of what it told jobs on their submission anew.

    Events are gone through twice. One that cannot be taken, from before an update, stops neither the others nor the service.
    """
    cut_us, bundle = predictor.cut_us, predictor.manifest.name
    lines = _lines((event for event in events if is_since(event, cut_us)), bundle)
    on_submission = {line.p90.job_key: line.p90 for line in lines if line.on_submission}
    anew: list[Event] = []
    for event in events:
        if not is_since(event, cut_us):
            continue
        try:
            anew += _take(predictor, event, on_submission)
        except Exception:
            log.exception("a kept %s event could not be taken into the history", event.get("event"))
    return anew


def is_since(event: Event, cut_us: int) -> bool:
    """Whether an event is not in a log that was cut then; one that cannot be read, from before an update, is of no use any more."""
    try:
        return (event["submit_us"] if event["event"] == P90_TOLD else event_time_us(event)) >= cut_us
    except (JobFieldError, KeyError, TypeError):
        return False


def is_of_use(event: Event, cut_us: int, bundle: str) -> bool:
    """Whether the journal needs an event while this bundle serves: not in its log, and no forecast of another bundle's."""
    return is_since(event, cut_us) and (event["event"] != P90_TOLD or event.get("bundle") == bundle)


def _take(predictor: Predictor, event: Event, on_submission: dict[str, P90Told]) -> list[Event]:
    manifest = predictor.manifest
    if event["event"] == P90_TOLD:
        for line in _lines([event], manifest.name):
            predictor.remember(line.p90)  # where it came with the submission, it has been: the first counts
        return []
    kind, job = read_event(event, manifest.cluster, manifest.time_limit)
    predictor.take(kind, job)
    if kind != "submitted" or not predictor.awaits(job):
        return []
    if job["job_key"] in on_submission:
        predictor.remember(on_submission[job["job_key"]])
        return []
    return tell_on_submission(predictor, job)[1]


def tell_on_submission(predictor: Predictor, job: dict[str, Any]) -> tuple[dict[str, Any], list[Event]]:
    """Return the forecast of a job whose submission was just taken in, remembered where the margin awaits it, and its line if so."""
    answer, p90 = predictor.ask(job)
    if p90 is None:
        return answer, []
    predictor.remember(p90)
    return answer, [Line(predictor.manifest.name, job["submit_time"], True, p90).to_event()]


def _lines(events: Iterable[Event], bundle: str) -> list[Line]:
    """Return what this bundle told; a line that another version wrote otherwise is left out."""
    found = []
    for event in events:
        if event["event"] == P90_TOLD and event.get("bundle") == bundle:
            with contextlib.suppress(KeyError, TypeError, ValueError):
                found.append(Line.of(event))
    return found
