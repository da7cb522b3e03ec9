"""Slurm's accounting as `sacct` tells it: records, what has happened to each job since, and lines of the nightly log.

Oddities of sacct, and what is made of them:
- Job names and folders may hold any character. The fields are asked for with a control character between them and an id as the
  last one, so that a record is whole when all its fields are there and the last is a number.
- The tasks of an array that still wait share one record, `12_[4-9%2]`; each becomes a job of its own.
- A job that was requeued gets a new submission time: it stays the job of its first submission.
- A job cancelled while it waited has a start equal to its end and "None assigned" as its nodes: it never started.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from runcast.data.slurm_words import NO_NODES_WORDS, NO_VALUE_WORDS
from runcast.data.states import OPEN_STATES, WAITING_STATES, canonical_state
from runcast.scheduler.slurm.resources import requested

Phase = Literal["submitted", "started", "ended"]
Record = dict[str, str]
Event = dict[str, Any]

DELIMITER = "\x1f"
FIELDS = (
    "JobID", "User", "Group", "Account", "Partition", "QOS", "Submit", "Start", "End", "ElapsedRaw", "State", "ReqTRES",
    "TimelimitRaw", "NodeList", "WorkDir", "JobName", "JobIDRaw",
)  # fmt: skip
#: Columns of the nightly log, free text last, as data/sources/slurm_sacct.py reads them.
LOG_FIELDS = (*(name for name in FIELDS if name not in ("WorkDir", "JobName")), "WorkDir", "JobName")

TASKS_AT_MOST = 10_000  # of one array record that are told one by one
_ARRAY_REST = re.compile(r"(\d+)_\[([^\]]*)\]")
_ARRAY_TASK = re.compile(r"(\d+)_(\d+)")
_TASK_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


def sacct_command(start_s: float, end_s: float) -> list[str]:
    """Return the sacct call for all jobs, of all users, that waited, ran or ended between two epoch seconds."""
    return [
        "sacct", "--allusers", "--allocations", "--parsable2", "--noheader", f"--delimiter={DELIMITER}",
        f"--format={','.join(FIELDS)}", f"--starttime={_utc(start_s)}", f"--endtime={_utc(end_s)}",
    ]  # fmt: skip


def read_records(text: str) -> tuple[list[Record], int]:
    """Cut sacct's output into records by field name; the second value counts lines that belong to none.

    >>> fields = ["7", "ada", *[""] * 13, "two\\nlines", "7"]
    >>> [record["JobName"] for record in read_records(DELIMITER.join(fields) + "\\n")[0]]
    ['two\\nlines']
    """
    records: list[Record] = []
    lost, waiting = 0, ""
    for line in text.split("\n"):
        waiting = f"{waiting}\n{line}" if waiting else line
        parts = waiting.split(DELIMITER)
        if len(parts) == len(FIELDS) and parts[-1].isdigit():
            before, _, parts[0] = parts[0].rpartition("\n")  # an id holds no line end: what stands before it is of no record
            lost += before.count("\n") + 1 if before else 0
            records.append(dict(zip(FIELDS, parts, strict=True)))
            waiting = ""
        elif len(parts) >= len(FIELDS):
            lost += waiting.count("\n") + 1
            waiting = ""
    rest = waiting.strip("\n")
    return records, lost + (rest.count("\n") + 1 if rest else 0)


def phase_of(record: Record) -> Phase:
    """Return how far the job has come."""
    state = canonical_state(record["State"])
    if state not in OPEN_STATES and _seconds(record["End"]) is not None:
        return "ended"
    return "submitted" if state in WAITING_STATES or _seconds(record["Start"]) is None else "started"


@dataclass(frozen=True)
class Told:
    """What the service has been told of one job: its first submission and how far it had come."""

    submit_s: int
    phase: Phase
    end_s: int | None = None


@dataclass(frozen=True)
class News:
    """One event for the service, when it happened, and what will have been told once it is kept."""

    at_s: int
    job_id: str
    event: Event
    told: Told


def news_of(records: Iterable[Record], told: Mapping[str, Told], limits: Mapping[str, float], gpus_tracked: bool) -> list[News]:
    """Return what the service does not know yet, in order of time. `told` is by job id; `limits` seconds by partition.

    Each event stands by itself: it carries all that was known at submission.
    """
    found = [
        news
        for record in records
        for one in _tasks(record)
        for news in _of_job(one, told.get(one["JobID"]), limits, gpus_tracked)
    ]
    order = {"submitted": 0, "started": 1, "ended": 2}
    return sorted(found, key=lambda news: (news.at_s, order[news.told.phase], news.job_id))


def log_line(record: Record) -> str:
    """Return the record as a line of the nightly log; a bar in the folder and line ends would cut it wrongly and are replaced."""
    values = {name: re.sub(r"[\r\n]", " ", value) for name, value in record.items()}
    return "|".join(
        value if name == "JobName" else value.replace("|", "_") for name, value in ((n, values[n]) for n in LOG_FIELDS)
    )


def limits_of_partitions(scontrol_text: str) -> dict[str, float]:
    """Return the limit in seconds of a job that names none, by partition, from `scontrol show partition --oneliner`.

    sacct writes Partition_Limit for such a job until it starts.

    >>> limits_of_partitions("PartitionName=a DefaultTime=NONE MaxTime=7-00:00:00 State=UP")
    {'a': 604800.0}
    """
    limits = {}
    for line in scontrol_text.splitlines():
        fields = dict(item.split("=", 1) for item in line.split() if "=" in item)
        seconds = _duration_s(fields.get("DefaultTime", "")) or _duration_s(fields.get("MaxTime", ""))
        if "PartitionName" in fields and seconds:
            limits[fields["PartitionName"]] = seconds
    return limits


def _tasks(record: Record) -> Iterator[Record]:
    """Yield the record itself, or one for each task that still waits."""
    rest = _ARRAY_REST.fullmatch(record["JobID"])
    if rest is None:
        yield record
        return
    left = TASKS_AT_MOST
    for part in rest[2].partition("%")[0].split(","):
        match = _TASK_RANGE.fullmatch(part.strip())
        if match is None:
            return  # a set that is cut ("..."): its other tasks are told when each has a record of its own
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        for task in range(first, last + 1, max(step, 1)):
            if not left:
                return
            left -= 1
            yield {**record, "JobID": f"{rest[1]}_{task}"}


def _of_job(record: Record, told: Told | None, limits: Mapping[str, float], gpus_tracked: bool) -> Iterator[News]:
    submit_s = _seconds(record["Submit"])
    if submit_s is None:
        return
    if told is not None and (told.submit_s == submit_s or told.phase != "ended"):
        submit_s = min(told.submit_s, submit_s)  # known, or queued again: the job of its first submission
    else:
        told = None
    start_s, end_s = _seconds(record["Start"]), _seconds(record["End"])
    phase = phase_of(record)
    if phase == "submitted" or (phase == "ended" and _never_started(record)):
        start_s = None
    job = _job(record, submit_s, limits, gpus_tracked)
    if told is None:
        yield News(submit_s, record["JobID"], {"event": "submitted", **job}, Told(submit_s, "submitted"))
    if start_s is not None and (told is None or told.phase == "submitted"):
        yield News(start_s, record["JobID"], {"event": "started", **job, "start_time": start_s}, Told(submit_s, "started"))
    if phase == "ended" and end_s is not None and (told is None or told.phase != "ended"):
        event = {"event": "ended", **job, "start_time": start_s, "end_time": end_s, "state": record["State"]}
        yield News(end_s, record["JobID"], event, Told(submit_s, "ended", end_s))


def _job(record: Record, submit_s: int, limits: Mapping[str, float], gpus_tracked: bool) -> dict[str, Any]:
    task = _ARRAY_TASK.fullmatch(record["JobID"])
    limit = record["TimelimitRaw"]
    limit_s = (
        float(limit) * 60
        if limit.isdigit()
        else limits.get(record["Partition"].partition(",")[0])
        if limit == "Partition_Limit"
        else None
    )
    texts = {
        "user": "User", "group": "Group", "account": "Account", "queue": "Partition", "qos": "QOS", "job_name": "JobName",
        "work_dir": "WorkDir",
    }  # fmt: skip
    return {
        "job_id": record["JobID"],
        "submit_time": submit_s,
        **({"array_id": task[1], "array_task": int(task[2])} if task else {}),
        **{name: value for name, field in texts.items() if (value := _first(name, record[field])) not in NO_VALUE_WORDS},
        **requested(record["ReqTRES"], gpus_tracked),
        **({"time_limit_s": limit_s} if limit_s else {}),
        **({"time_limit_kind": "unlimited"} if limit == "UNLIMITED" else {}),
    }


def _first(name: str, value: str) -> str:
    """Return the value; of several partitions that a waiting job may go to, the first."""
    return value.partition(",")[0] if name == "queue" else value


def _never_started(record: Record) -> bool:
    start_s, end_s = _seconds(record["Start"]), _seconds(record["End"])
    if start_s is None or end_s is None:
        return True
    return record["NodeList"] in NO_NODES_WORDS and end_s <= start_s and record["ElapsedRaw"] in ("0", "")


def _seconds(text: str) -> int | None:
    return int(text) if text.isdigit() and int(text) > 0 else None


def _duration_s(text: str) -> float | None:
    """Read scontrol's `days-hours:minutes:seconds`; None for UNLIMITED and NONE."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(days * 86400 + hours * 3600 + minutes * 60 + seconds)


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%S")
