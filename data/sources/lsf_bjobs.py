"""Jobs as `bjobs -o "…"` prints them, with a delimiter or as JSON (-json): a field a column, named as in its header.

An array's element is `123[4]` in JOBID, or in JOBINDEX, or in the name (`train[4]`). Times are of the minute and have no year
(LSB_DISPLAY_YEAR is for -l only); RUN_TIME has the seconds. A finish time beside a job that has not ended is a forecast.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from runcast.data.cluster import Cluster
from runcast.data.errors import Quoted, SourceError
from runcast.data.sources.batch import Batch, Reject
from runcast.data.sources.blocks import read_blocks, text_of
from runcast.data.sources.json_items import array_items
from runcast.data.sources.lsf_jobs import Job, Unreadable, bare_name, jobs_of, state_of_exit
from runcast.data.sources.lsf_requests import Request, read_request
from runcast.data.sources.lsf_times import Moments, moments_of, read_moment
from runcast.data.sources.record import in_order
from runcast.data.states import OPEN_STATES, OTHER

COMMAND = (
    'bjobs -u all -a -hms -json -o "jobid stat user queue proj_name job_name submit_time start_time finish_time run_time exit_reason \
min_req_proc exec_host runtimelimit effective_resreq sub_cwd"'
)
NEEDED = ("JOBID", "STAT", "SUBMIT_TIME", "START_TIME", "FINISH_TIME")
#: Names that -o takes beside those of the header.
_ALIASES = {"ID": "JOBID", "NAME": "JOB_NAME", "PROJ": "PROJ_NAME", "PROJECT": "PROJ_NAME", "UGROUP": "USER_GROUP"}
_ID = re.compile(r"(\d{1,18})(?:\[(\d{1,9})\])?", re.ASCII)
_ELEMENT = re.compile(r".*\[(\d{1,9})\]", re.ASCII | re.DOTALL)
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,6}):)?(\d{1,6}):(\d{1,2})", re.ASCII)
_MINUTES = re.compile(r"(\d{1,9}(?:\.\d+)?)(?: min\b.*|/.*)?", re.ASCII)
_RUN_TIME = re.compile(r"(\d{1,9})(?:\.\d+)? second\(s\)", re.ASCII)
_MINUTE_S = 60
_STATES = {
    "PEND": "PENDING", "PSUSP": "PENDING", "WAIT": "PENDING", "RUN": "RUNNING", "UNKWN": "RUNNING", "ZOMBI": "RUNNING",
    "USUSP": "SUSPENDED", "SSUSP": "SUSPENDED", "DONE": "COMPLETED",
}  # fmt: skip
_ITEMS = 16_384


def canonical_field(name: str) -> str:
    upper = name.strip().upper()
    return _ALIASES.get(upper, upper)


def read_json(path: Path, cluster: Cluster, limit_unit: str, up_to: datetime | None) -> Iterator[Batch]:
    """Yield the jobs of one `bjobs -json`; a job that bjobs no longer knows is passed over."""
    numbered = enumerate(array_items(path, "RECORDS", {}), 1)
    while chunk := list(itertools.islice(numbered, _ITEMS)):
        rows, rejects, unknown = [], [], 0
        for number, item in chunk:
            raw = json.dumps(item).encode("utf-8", "replace").decode()
            if not isinstance(item, dict):
                rejects.append(Reject(path.name, number, "not_an_object", type(item).__name__, raw))
                continue
            fields = {canonical_field(name): _text(value) for name, value in item.items()}
            if "ERROR" in fields and "STAT" not in fields:
                unknown += 1
                continue
            rows.append((number, raw, fields))
        whole = [row for row in rows if _lacks(row[2]) == ""]
        if rows and not whole:
            raise _refused(path, rows[0][2])
        rejects += [
            Reject(path.name, number, "field_missing", _lacks(fields), raw) for number, raw, fields in rows if _lacks(fields)
        ]
        yield _batch(path, cluster, whole, rejects, limit_unit, up_to, {"no_matching_job": unknown} if unknown else {})


def _text(value: object) -> str:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    return text.encode("utf-8", "replace").decode()


def read_delimited_fields(
    path: Path, cluster: Cluster, limit_unit: str, up_to: datetime | None, fields: Sequence[str] | None, delimiter: str
) -> Iterator[Batch]:
    """Yield the jobs of one `bjobs -o "… delimiter='|'"`; `fields` are those of -o where the file has no header (-noheader)."""
    names = [canonical_field(name) for name in fields] if fields else []
    for block in read_blocks(path):
        rows, rejects = [], []
        for line, raw in enumerate(text_of(block.data).split("\n")[:-1], block.first_line):
            if not raw.strip():
                continue
            values = raw.split(delimiter)
            if not names:
                names = [canonical_field(name) for name in values]
                continue
            if len(values) < len(names):
                rejects.append(Reject(path.name, line, "too_few_fields", f"{len(values)} of {len(names)}", raw))
                continue
            if len(values) > len(names):
                rejects.append(Reject(path.name, line, "too_many_fields", f"{len(values)} of {len(names)}", raw))
                continue
            rows.append((line, raw, dict(zip(names, values, strict=True))))
        if _lacks(dict.fromkeys(names, "")):
            raise _refused(path, dict.fromkeys(names, ""))
        yield _batch(path, cluster, rows, rejects, limit_unit, up_to, {})


def _lacks(fields: Mapping[str, str]) -> str:
    return ", ".join(name.lower() for name in NEEDED if name not in fields)


def _refused(path: Path, fields: Mapping[str, str]) -> SourceError:
    return SourceError(
        f"{path}: bjobs was asked for no {_lacks(fields)}; export with {COMMAND}. It has ", Quoted(", ".join(fields))
    )


def _batch(
    path: Path,
    cluster: Cluster,
    records: list[tuple[int, str, dict[str, str]]],
    rejects: list[Reject],
    limit_unit: str,
    up_to: datetime | None,
    skipped: Mapping[str, int],
) -> Batch:
    rows: list[Job] = []
    for number, raw, fields in records:
        try:
            rows.append(_job(number, raw, fields, cluster, limit_unit, up_to))
        except Unreadable as fault:
            rejects.append(Reject(path.name, number, str(fault), "", raw))
    jobs, refused, notes = jobs_of(cluster, path.name, rows)
    return Batch(jobs, in_order(rejects, refused), skipped, notes)


def _job(number: int, raw: str, fields: Mapping[str, str], cluster: Cluster, limit_unit: str, up_to: datetime | None) -> Job:
    said = {name: "" if value.strip() == "-" else value.strip() for name, value in fields.items()}
    job_id = _ID.fullmatch(said["JOBID"])
    if job_id is None:
        raise Unreadable("job_id_unreadable")
    name = said.get("JOB_NAME", "")
    index, in_name = said.get("JOBINDEX", ""), _ELEMENT.fullmatch(name)
    element = job_id[2] or (index if _NUMBER.fullmatch(index) else "") or (in_name[1] if in_name else "") or "0"
    word = said["STAT"]
    start = read_moment(said["START_TIME"], up_to) if word not in ("PEND", "PSUSP", "WAIT") else None
    term = said.get("EXIT_REASON", "").partition(":")[0].strip()
    state = state_of_exit(term, start is not None) if word == "EXIT" else _STATES.get(word, OTHER)
    end = None if state in OPEN_STATES else read_moment(said["FINISH_TIME"], up_to)
    moments = moments_of(read_moment(said["SUBMIT_TIME"], up_to), start, end, cluster.zone)
    end_s = _end_s(moments, said["FINISH_TIME"], said.get("RUN_TIME", ""))
    hosts = [host for host in said.get("EXEC_HOST", "").split(":") if host]
    return Job(
        number, raw, job_id[1], int(element), said.get("USER", ""), said.get("QUEUE", ""), said.get("PROJ_NAME", ""),
        said.get("USER_GROUP", ""), said.get("SERVICE_CLASS", ""), bare_name(name or said.get("COMMAND", "")), said.get("SUB_CWD", ""),
        state, moments.submit_s, 0, moments.start_s, end_s, 1 if start else 0, _limit_s(said.get("RUNTIMELIMIT", "")),
        _request(said, hosts, limit_unit), " ".join(hosts), moments.ambiguous,
    )  # fmt: skip


def _request(said: Mapping[str, str], hosts: list[str], limit_unit: str) -> Request:
    counts = (said.get(name, "") for name in ("MIN_REQ_PROC", "MAX_REQ_PROC", "NREQ_SLOT", "SLOTS", "NALLOC_SLOT"))
    slots = next((int(text) for text in counts if _NUMBER.fullmatch(text) and int(text)), 0)
    resources = f"{said.get('COMBINED_RESREQ', '')} {said.get('EFFECTIVE_RESREQ', '')}"
    gpus = said.get("GPU_NUM", "")
    if "ngpus" not in resources and _NUMBER.fullmatch(gpus):
        resources += f" rusage[ngpus_physical={gpus}/job]"
    names = {host.rpartition("*")[2] for host in hosts}
    return read_request(slots, resources, None, len(names), limit_unit)


def _end_s(moments: Moments, finish: str, run_time: str) -> int:
    """Return the end, to the second by the run time where the finish time has none; a suspended job's run time is shorter."""
    seconds = _clock_s(run_time)
    if seconds is None and (match := _RUN_TIME.fullmatch(run_time)):
        seconds = int(match[1])
    if seconds is None or not moments.start_s or not moments.end_s or finish.count(":") > 1:
        return moments.end_s
    end_s = moments.start_s + seconds
    return end_s if abs(end_s - moments.end_s) < _MINUTE_S else moments.end_s


def _clock_s(text: str) -> int | None:
    match = _CLOCK.fullmatch(text)
    return int(match[1] or 0) * 3600 + int(match[2]) * 60 + int(match[3]) if match else None


def _limit_s(text: str) -> float | None:
    """Return a run limit in seconds: `00:10:00` (-hms), or minutes as `10.0`, `10.0/host` or `10.0 min of host`; None for none."""
    if seconds := _clock_s(text):
        return float(seconds)
    minutes = _MINUTES.fullmatch(text)
    return (float(minutes[1]) * 60 or None) if minutes else None
