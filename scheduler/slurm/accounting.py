"""Slurm's accounting as `sacct` tells it: records, what has happened to each job since, and lines of the nightly log.

Oddities of sacct, and what is made of them:
- Job names and folders may hold any character but NUL, control characters and line ends included. The fields are separated by a
  text that is drawn anew for each call, which no name can hold, and between two records stand only ids, which are Slurm's own.
- The tasks of an array that still wait share one record, `12_[4-9%2]`; each becomes a job of its own.
- A job that was requeued gets a new submission time: it stays the job of its first submission.
- A job cancelled while it waited has a start equal to its end and "None assigned" as its nodes: it never started.
- The parts of a heterogeneous job, `50+0` and `50+1`, are one job, `50`, which lasts until the last of them ends.
- A start some seconds before the submission is a clock that is off: start and end are moved by the difference.
What stands here is what the reader of the nightly log does (data/sources/slurm_moments.py, slurm_het.py), so that the history that
answers and the one that was learned from agree.
"""

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Literal

from runcast.data.slurm_words import NO_NAME_WORDS, NO_NODES_WORDS, NO_VALUE_WORDS
from runcast.data.sources.durations import CLOCKS_DIFFER_S, time_limit_of_minutes
from runcast.data.sources.slurm_ids import ARRAY_REST, ARRAY_TASK, JOB_ID
from runcast.data.states import OPEN_STATES, WAITING_STATES, canonical_state
from runcast.scheduler.jobs import LATEST_S, LONGEST_TEXT
from runcast.scheduler.slurm.het import merged_request
from runcast.scheduler.slurm.resources import requested

Phase = Literal["submitted", "started", "ended"]
Record = dict[str, str]
Event = dict[str, Any]

FIELDS = (
    "JobID", "User", "Group", "Account", "Partition", "QOS", "Submit", "Start", "End", "ElapsedRaw", "State", "ReqTRES",
    "TimelimitRaw", "NodeList", "WorkDir", "JobName", "JobIDRaw",
)  # fmt: skip
_BLANKED = str.maketrans(dict.fromkeys("\x1c\x1d\x1f", " "))  # in names: what the log's reader puts between fields itself

TASKS_AT_MOST = 10_000  # of one array record that are told one by one
_JOB_ID = re.compile(JOB_ID, re.ASCII)
_ARRAY_REST = re.compile(ARRAY_REST, re.ASCII)
_ARRAY_TASK = re.compile(ARRAY_TASK, re.ASCII)
_TASK_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
_EPOCH_S = re.compile(r"\d{1,12}", re.ASCII)


def new_delimiter() -> str:
    """Return a text of 96 random bits: no job can be named after it before sacct prints it."""
    return secrets.token_urlsafe(12)


def sacct_command(
    start_s: float, end_s: float, delimiter: str, job_ids: Sequence[str] = (), each_attempt: bool = False
) -> list[str]:
    """Return the sacct call for all jobs, or those of some ids, of all users, that waited, ran or ended between two epoch seconds.

    Of a requeued job sacct gives the latest attempt, or `each_attempt`.
    """
    return [
        "sacct", "--allusers", "--allocations", "--parsable2", "--noheader", f"--delimiter={delimiter}",
        f"--format={','.join(FIELDS)}", f"--starttime={_utc(start_s)}", f"--endtime={_utc(end_s)}",
        *([f"--jobs={','.join(job_ids)}"] if job_ids else []),
        *(["--duplicates"] if each_attempt else []),
    ]  # fmt: skip


def read_records(text: str, delimiter: str) -> tuple[list[Record], list[str]]:
    """Cut sacct's output into records by field name; also say of each piece that is none, or cannot be a job's, why.

    >>> fields = ["7", "ada", *[""] * 4, "1796009438", *[""] * 8, "two\\nlines", "7"]
    >>> [record["JobName"] for record in read_records("^".join(fields) + "\\n", "^")[0]]
    ['two\\nlines']
    """
    width = len(FIELDS) - 1
    parts = text.split(delimiter)
    whole = (len(parts) - 1) // width  # the last field of a record and the first of the next stand in one part, on two lines
    records: list[Record] = []
    refused = ["a record was cut short"] if (len(parts) - 1) % width else []
    for at in range(whole + 1):
        lines = parts[at * width].split("\n")
        between = lines[1 if at else 0 : -1 if at * width < len(parts) - 1 else None]
        refused += [f"not of a record: {line[:80]!r}" for line in between if line]
    for at in range(0, whole * width, width):
        values = parts[at : at + width + 1]
        values[0], values[-1] = values[0].rpartition("\n")[2], values[-1].partition("\n")[0]
        record = dict(zip(FIELDS, values, strict=True))
        if why := _why_no_job(record):
            refused.append(f"job {values[0][:40]!r}: {why}")
        else:
            records.append(record)
    return records, refused


def epoch_s(text: str) -> int | None:
    """Return the seconds since 1970 that a field holds: ASCII digits, before 2100; None for every other text and for 0."""
    seconds = int(text) if _EPOCH_S.fullmatch(text) else 0
    return seconds if 0 < seconds < LATEST_S else None


def phase_of(record: Record) -> Phase:
    """Return how far the job has come."""
    state = canonical_state(record["State"])
    if state not in OPEN_STATES and epoch_s(record["End"]) is not None:
        return "ended"
    return "submitted" if state in WAITING_STATES or epoch_s(record["Start"]) is None else "started"


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
    jobs = _jobs(records, limits, gpus_tracked)
    found = [news for job in jobs for news in _of_job(job, told.get(job.job_id))]
    order = {"submitted": 0, "started": 1, "ended": 2}
    return sorted(found, key=lambda news: (news.at_s, order[news.told.phase], news.job_id))


def log_text(records: Iterable[Record]) -> str:
    """Return records as a nightly log: every name as it is, between delimiters that none of them holds.

    The same records give the same text, in any order: the delimiter is a digest of them all, which no name can hold.
    """
    ordered = sorted(records, key=lambda record: (epoch_s(record["Submit"]) or 0, *record.values()))
    content = "\0".join(value for record in ordered for value in record.values())
    delimiter = f"|{hashlib.sha256(content.encode('utf-8', 'backslashreplace')).hexdigest()[:32]}|"
    return "".join(delimiter.join(values) + "\n" for values in (FIELDS, *([r[name] for name in FIELDS] for r in ordered)))


def jobs_in_log(text: str) -> int:
    """Count the records of a nightly log, of this form or of one with bars."""
    delimiter = re.match(r"JobID(\|[0-9a-f]{32}\|)", text)
    return text.count(delimiter[1]) // (len(FIELDS) - 1) - 1 if delimiter else text.count("\n") - 1


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
    for part in rest["tasks"].partition("%")[0].split(","):
        match = _TASK_RANGE.fullmatch(part.strip())
        if match is None:
            return  # a set that is cut ("..."): its other tasks are told when each has a record of its own
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        for task in range(first, last + 1, max(step, 1)):
            if not left:
                return
            left -= 1
            yield {**record, "JobID": f"{rest['array']}_{task}"}


@dataclass(frozen=True)
class _Job:
    """A job, a task of an array or a part of a heterogeneous job: what it asks for and its moments, as the log's reader has them."""

    job_id: str
    phase: Phase
    submit_s: int
    start_s: int | None
    end_s: int | None
    state: str
    request: dict[str, Any]


def jobs_named(records: Iterable[Record]) -> set[str]:
    """Return the ids of the jobs that the records tell of: of each waiting task, and of a heterogeneous job as a whole."""
    return {_whole_id(one["JobID"]) for record in records for one in _tasks(record)}


def het_ids(records: Iterable[Record]) -> list[str]:
    """Return the ids of the heterogeneous jobs that the records tell a part of."""
    return sorted({_whole_id(record["JobID"]) for record in records if "+" in record["JobID"]})


def by_id(records: Iterable[Record]) -> list[list[Record]]:
    """Return the records of each id: all attempts, of all parts of a heterogeneous job."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(_whole_id(record["JobID"]), []).append(record)
    return list(groups.values())


def latest_attempts(records: Iterable[Record]) -> list[Record]:
    """Return of each job's or part's records the one that was submitted last."""
    latest: dict[str, Record] = {}
    for record in sorted(records, key=lambda record: (epoch_s(record["Submit"]) or 0, epoch_s(record["Start"]) or 0)):
        latest[record["JobID"]] = record
    return list(latest.values())


def _by_job(records: Iterable[Record]) -> list[list[Record]]:
    """Return the records of each job: one, or those of all parts of a heterogeneous one, its leader's first."""
    parts, groups = [], []
    for record in records:
        if "+" in record["JobID"]:
            parts.append(record)
        else:
            groups.append([record])
    parts.sort(key=lambda record: (_whole_id(record["JobID"]), int(record["JobID"].rpartition("+")[2])))
    return groups + [list(group) for _, group in groupby(parts, lambda record: _whole_id(record["JobID"]))]


def _whole_id(job_id: str) -> str:
    return job_id.partition("+")[0]


def _jobs(records: Iterable[Record], limits: Mapping[str, float], gpus_tracked: bool) -> Iterator[_Job]:
    for group in _by_job(one for record in records for one in _tasks(record)):
        yield _merged([_job(record, limits, gpus_tracked) for record in group])


def _merged(parts: list[_Job]) -> _Job:
    """Make the parts of a heterogeneous job one: the leader's state and names, unless another part has not ended."""
    lead = parts[0]
    starts = [part.start_s for part in parts if part.start_s is not None]
    ends = [part.end_s for part in parts if part.end_s is not None]
    is_open = any(part.phase != "ended" for part in parts)
    phase: Phase = "ended" if not is_open else "started" if starts else "submitted"
    return _Job(
        lead.job_id,
        phase,
        lead.submit_s,
        min(starts, default=None),
        None if is_open else max(ends, default=None),
        lead.state,
        merged_request([part.request for part in parts]) if len(parts) > 1 else lead.request,
    )


def _of_job(job: _Job, told: Told | None) -> Iterator[News]:
    submit_s = job.submit_s
    if told is not None and (told.submit_s == submit_s or told.phase != "ended"):
        submit_s = min(told.submit_s, submit_s)  # known, or queued again: the job of its first submission
    else:
        told = None
    known = {**job.request, "submit_time": submit_s}
    if told is None:
        yield News(submit_s, job.job_id, {"event": "submitted", **known}, Told(submit_s, "submitted"))
    if job.start_s is not None and (told is None or told.phase == "submitted"):
        event = {"event": "started", **known, "start_time": job.start_s}
        yield News(job.start_s, job.job_id, event, Told(submit_s, "started"))
    if job.phase == "ended" and job.end_s is not None and (told is None or told.phase != "ended"):
        event = {"event": "ended", **known, "start_time": job.start_s, "end_time": job.end_s, "state": job.state}
        yield News(job.end_s, job.job_id, event, Told(submit_s, "ended", job.end_s))


def _job(record: Record, limits: Mapping[str, float], gpus_tracked: bool) -> _Job:
    submit_s, start_s, end_s = _moments(record)
    job_id = _whole_id(record["JobID"])
    request = {**_request(record, limits, gpus_tracked), "job_id": job_id, "submit_time": submit_s}
    return _Job(job_id, phase_of(record), submit_s, start_s, end_s, record["State"], request)


def _moments(record: Record) -> tuple[int, int | None, int | None]:
    """Return submission, start and end of a record that `_why_no_job` lets pass; None for what has not happened."""
    submit_s, start_s, end_s = (epoch_s(record[name]) for name in ("Submit", "Start", "End"))
    submit_s, phase = submit_s or 0, phase_of(record)
    early_s = max(submit_s - start_s, 0) if start_s is not None and phase != "submitted" else 0
    if start_s is not None and early_s <= CLOCKS_DIFFER_S:
        start_s, end_s = start_s + early_s, None if end_s is None else end_s + early_s
    if phase == "submitted" or (phase == "ended" and _never_started(record)):
        start_s = None
    return submit_s, start_s, end_s if phase == "ended" else None


def _request(record: Record, limits: Mapping[str, float], gpus_tracked: bool) -> dict[str, Any]:
    task = _ARRAY_TASK.fullmatch(record["JobID"])
    limit = time_limit_of_minutes(record["TimelimitRaw"])
    limit_s = limits.get(record["Partition"].partition(",")[0]) if record["TimelimitRaw"] == "Partition_Limit" else limit.seconds
    texts = {
        "user": "User", "group": "Group", "account": "Account", "queue": "Partition", "qos": "QOS", "job_name": "JobName",
        "work_dir": "WorkDir",
    }  # fmt: skip
    return {
        **({"array_id": task["array"], "array_task": int(task["task"])} if task else {}),
        **{name: value for name, field in texts.items() if (value := _first(name, record[field])) not in _none_words(name)},
        **requested(record["ReqTRES"], gpus_tracked),
        **({"time_limit_s": limit_s} if limit_s else {}),
        **({"time_limit_kind": "unlimited"} if limit.kind == "unlimited" else {}),
    }


def _first(name: str, value: str) -> str:
    """Return the value; of several partitions that a waiting job may go to, the first. What is blank says nothing."""
    value = value.replace("\r\n", "\n").replace("\r", "\n").translate(_BLANKED)  # line ends as the log's reader has them
    return value.partition(",")[0] if name == "queue" else value if value.strip() else ""


def _none_words(name: str) -> frozenset[str]:
    return NO_NAME_WORDS if name in ("job_name", "work_dir") else NO_VALUE_WORDS


def _never_started(record: Record) -> bool:
    start_s, end_s = epoch_s(record["Start"]), epoch_s(record["End"])
    if start_s is None or end_s is None:
        return True
    return record["NodeList"] in NO_NODES_WORDS and end_s <= start_s and record["ElapsedRaw"] in ("0", "")


def _why_no_job(record: Record) -> str | None:
    """Return why a record cannot be that of a job, or None."""
    if _JOB_ID.fullmatch(record["JobID"]) is None:
        return "JobID is no job's id"
    if longest := next((name for name, value in record.items() if len(value) > LONGEST_TEXT), None):
        return f"{longest} is longer than {LONGEST_TEXT} characters"
    if epoch_s(record["Submit"]) is None:
        return f"Submit is {record['Submit'][:40]!r}, no seconds since 1970"
    for name in ("Start", "End"):
        if record[name] not in NO_VALUE_WORDS | {"0"} and epoch_s(record[name]) is None:
            return f"{name} is {record[name][:40]!r}, neither seconds since 1970 nor a word for none"
    submit_s, start_s, end_s = _moments(record)
    if start_s is not None and start_s < submit_s:
        return f"Start is {submit_s - start_s} s before Submit; clocks of one cluster differ by at most {CLOCKS_DIFFER_S} s"
    first, name = (submit_s, "Submit") if start_s is None else (start_s, "Start")
    return f"End is {first - end_s} s before {name}" if end_s is not None and end_s < first else None


def _duration_s(text: str) -> float | None:
    """Read scontrol's `days-hours:minutes:seconds`; None for UNLIMITED and NONE."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(days * 86400 + hours * 3600 + minutes * 60 + seconds)


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%S")
