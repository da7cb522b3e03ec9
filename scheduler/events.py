"""What happens to a job after it was told of, as the outside world says it: submitted, started, ended.

    {"event": "submitted", "job_id": "17", "submit_time": "2020-09-01T08:00:00+08:00", "user": "u1", …}
    {"event": "started", "job_id": "17", "submit_time": …, "start_time": …}
    {"event": "ended", "job_id": "17", "submit_time": …, "start_time": …, "end_time": …, "state": "COMPLETED"}

A job is known by its id together with its submission time: schedulers use ids again. Any event may carry the fields of the
submission too; then it stands by itself, also where the submission was never told.
"""

from collections.abc import Mapping
from typing import Any, Literal

from runcast.data.states import OPEN_STATES, STATES, canonical_state
from runcast.scheduler.errors import JobFieldError
from runcast.scheduler.jobs import read_job, read_time_us, refuse_future

LONGEST_STATE = 100  # characters; the longest word of a scheduler's, with who cancelled the job, is far shorter

Kind = Literal["submitted", "started", "ended"]
KINDS: tuple[Kind, ...] = ("submitted", "started", "ended")

_OWN_FIELDS = ("event", "start_time", "end_time", "state")


def read_event(
    told: Mapping[str, Any], cluster: str, time_limit: str = "hard", now_us: int | None = None
) -> tuple[Kind, dict[str, Any]]:
    """Return the kind of event and the job as far as it is told, with its key; raises JobFieldError.

    Times are microseconds since 1970; where `now_us` is given, none may lie more than AHEAD_US ahead. Of an ended job, `label` and
    `runtime_s` follow from its state and times as they do in the log: null where it never started.
    """
    if not isinstance(told, Mapping):
        raise JobFieldError("event", f"expected an object of fields, found {type(told).__name__}")
    kind = told.get("event")
    if kind not in KINDS:
        raise JobFieldError("event", f"expected one of {', '.join(KINDS)}, found {str(kind)[:40]!r}")
    job = read_job({name: value for name, value in told.items() if name not in _OWN_FIELDS}, time_limit, now_us)
    if job["job_id"] is None:
        raise JobFieldError("job_id", "is required")
    job["cluster"] = cluster
    job["job_key"] = job_key(cluster, job)
    for name in ("start_time", "end_time"):
        job[name] = _time(told, name, job["submit_time"])
        refuse_future(name, job[name], now_us)
    return kind, _READERS[kind](told, job)


def job_key(cluster: str, job: Mapping[str, Any]) -> str:
    """Return the key of a job that was read and has an id; the lake keeps it under the same one."""
    return f"{cluster}:{job['job_id']}:{job['submit_time']}"


def event_time_us(told: Mapping[str, Any]) -> int:
    """Return when an event that was read without error happened, in microseconds since 1970."""
    name = {"submitted": "submit_time", "started": "start_time", "ended": "end_time"}[told["event"]]
    return read_time_us(name, told[name])


def _submitted(told: Mapping[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    for name in ("start_time", "end_time", "state"):
        if told.get(name) is not None:
            raise JobFieldError(name, "does not belong to a submitted event; send a started or ended one")
    return job


def _started(told: Mapping[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    if job["start_time"] is None:
        raise JobFieldError("start_time", "is required")
    for name in ("end_time", "state"):
        if told.get(name) is not None:
            raise JobFieldError(name, "does not belong to a started event; send an ended one")
    return job


def _ended(told: Mapping[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    start, end, state = job["start_time"], job["end_time"], told.get("state")
    if end is None:
        raise JobFieldError("end_time", "is required")
    if not isinstance(state, str) or not state:
        raise JobFieldError("state", "is required: how it ended, in the scheduler's word, e.g. COMPLETED or TIMEOUT")
    if len(state) > LONGEST_STATE:
        raise JobFieldError("state", f"is {len(state)} characters long, at most {LONGEST_STATE} are taken")
    if start is not None and end < start:
        raise JobFieldError("end_time", "is before start_time")
    job["state"] = canonical_state(state)
    if job["state"] in OPEN_STATES:
        raise JobFieldError("state", f"{state[:40]!r} is the state of a job that has not ended")
    job["label"] = "excluded" if start is None else STATES[job["state"]]
    job["runtime_s"] = None if start is None or job["label"] == "excluded" else (end - start) / 1e6
    return job


_READERS = {"submitted": _submitted, "started": _started, "ended": _ended}


def _time(told: Mapping[str, Any], name: str, submit_us: int) -> int | None:
    value = told.get(name)
    if value is None or value == "":
        return None
    moment = read_time_us(name, value)
    if moment < submit_us:
        raise JobFieldError(name, "is before submit_time")
    return moment
