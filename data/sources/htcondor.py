"""HTCondor: `condor_history` as JSON (-json, -jsonl) or ClassAds (-long), and the history files of the schedd; told apart by themselves.

The attributes are those of the manual's "Job ClassAd Attributes". Their names are read without regard to case; where one stands
twice the last counts; an expression in the place of a number is no number.
- JobStatus: 1 idle and 5 held wait, 2 and 6 run, 3 was removed, 4 has ended, with ExitCode or by a signal.
- A job that was restarted is its last run: JobCurrentStartDate; JobStartDate, its first start, ends the wait.
- A removed job ended at its removal if it ran then; else its only run is as long as RemoteWallClockTime, and of several nothing is
  known. One that went on hold for its allowed duration is a TIMEOUT.
- A cluster's jobs are an array: 3472942.81 is task 81, as condor_history prints it.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from runcast.data.cluster import Cluster
from runcast.data.errors import Quoted, SourceError
from runcast.data.sources import table
from runcast.data.sources.batch import Batch, Reject
from runcast.data.sources.blocks import read_blocks, text_of
from runcast.data.sources.table_rows import Objects, first_text, object_rows, read_objects

_IDLE, _RUNNING, _REMOVED, _COMPLETED, _HELD, _TRANSFERS, _SUSPENDED = range(1, 8)
_OPEN = {_IDLE: "PENDING", _HELD: "PENDING", _RUNNING: "RUNNING", _TRANSFERS: "COMPLETING", _SUSPENDED: "SUSPENDED"}
_PAST_ITS_DURATION = (46, 47)  # HoldReasonCode: the allowed duration of the job, of its execution
_PARALLEL = 11  # JobUniverse
_AD_CHARACTERS_AT_MOST = 4 << 20  # an ad has some thousands
#: The attributes that are read, beside those of `limit_attributes`, in lower case.
_ATTRIBUTES = (
    "clusterid", "procid", "jobstatus", "lastjobstatus", "qdate", "jobstartdate", "jobcurrentstartdate", "completiondate",
    "enteredcurrentstatus", "remotewallclocktime", "numjobstarts", "numshadowstarts", "exitcode", "exitbysignal", "holdreasoncode",
    "lastholdreasoncode", "owner", "user", "acctgroup", "projectname", "jobbatchname", "cmd", "iwd", "remotehost", "lastremotehost",
    "requestcpus", "requestgpus", "requestmemory", "jobuniverse", "maxhosts",
)  # fmt: skip
_END = re.compile(r"^(?:[^\S\n]*|\*\*\*.*|-- .*)\n", re.MULTILINE)
_LINE = re.compile(r"^[^\S\n]*([A-Za-z_][\w.]*)[^\S\n]*=[^\S\n]*(.*)$", re.ASCII | re.MULTILINE)
_FOREIGN = re.compile(r"^(?![^\S\n]*[A-Za-z_][\w.]*[^\S\n]*=).", re.ASCII | re.MULTILINE)
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{0,15})?(?:[eE][-+]?\d{1,3})?", re.ASCII)


class Options(BaseModel):
    """`source.options` of an HTCondor log."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Attributes that hold a limit in seconds; the first that an ad has. Sites name their own, such as MaxRuntime.
    limit_attributes: tuple[str, ...] = ("AllowedExecuteDuration", "AllowedJobDuration")


_NAMES = (
    "job_id", "user", "account", "job_name", "work_dir", "node_list", "cpu_count", "gpu_count", "mem_mib", "node_count",
    "time_limit_s", "state", "submit_time", "start_time", "end_time", "queue_s", "restarts",
)  # fmt: skip
_COLUMNS = table.Options(
    columns={name: table.Column(column=name) for name in _NAMES},
    time="epoch_s",
    array_pattern=r"^(?P<array>\d+)\.(?P<task>\d+)$",
)


def read(path: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield the jobs of one file in its order; raises SourceError where it holds neither JSON nor ClassAds."""
    limits = tuple(name.lower() for name in Options.model_validate(cluster.source.options).limit_attributes)
    wanted = frozenset({*_ATTRIBUTES, *limits})
    ads = read_objects(path, "ads") if first_text(path).startswith((b"[", b"{")) else _class_ads(path, wanted)
    pieces = (object_rows(path, _of_jobs(some, wanted, limits, cluster.gpus_tracked), _NAMES) for some in ads)
    return table.read_table(path, cluster, _COLUMNS, pieces)


def _of_jobs(some: Objects, wanted: frozenset[str], limits: tuple[str, ...], gpus_tracked: bool) -> Objects:
    jobs = []
    for ad in some.objects:
        read = {low: value for name, value in ad.items() if (low := name.lower()) in wanted}
        jobs.append(_job(read, limits, gpus_tracked))
    return Objects(jobs, some.lines, some.raw, some.rejects)


def _job(ad: dict[str, Any], limits: tuple[str, ...], gpus_tracked: bool) -> dict[str, Any]:
    """Return the canonical columns of one job ad, whose names are in lower case."""
    cluster_id, process, status = (_number(ad.get(name)) for name in ("clusterid", "procid", "jobstatus"))
    submit, first = _time(ad, "qdate"), _time(ad, "jobstartdate")
    start, end = _run(ad, status)
    starts = max(_number(ad.get(name)) or 0 for name in ("numjobstarts", "numshadowstarts"))
    command = ad.get("cmd")
    gpus = _number(ad.get("requestgpus"))
    return {
        "job_id": None if cluster_id is None or process is None else f"{int(cluster_id)}.{int(process)}",
        "user": ad.get("owner") or ad.get("user"),
        "account": ad.get("acctgroup") or ad.get("projectname"),
        "job_name": ad.get("jobbatchname") or (command.rsplit("/", 1)[-1] if isinstance(command, str) else None),
        "work_dir": ad.get("iwd"),
        "node_list": ad.get("remotehost") or ad.get("lastremotehost"),
        "cpu_count": _number(ad.get("requestcpus")),
        "gpu_count": (0 if gpus_tracked and "requestgpus" not in ad else None) if gpus is None else gpus,
        "mem_mib": _number(ad.get("requestmemory")),
        "node_count": _number(ad.get("maxhosts")) if _number(ad.get("jobuniverse")) == _PARALLEL else 1,
        "time_limit_s": next((limit for name in limits if (limit := _number(ad.get(name))) is not None), None),
        "state": _state(ad, status),
        "submit_time": ad.get("qdate"),
        "start_time": start,
        "end_time": end,
        "queue_s": first - submit if first is not None and submit is not None else None,
        "restarts": int(min(max(0, starts - 1), 999_999)),
    }


def _run(ad: dict[str, Any], status: float | None) -> tuple[float | None, float | None]:
    """Return when the last run began and ended, in seconds since 1970; null where not known or not yet."""
    start = _time(ad, "jobcurrentstartdate") or _time(ad, "jobstartdate")
    changed = _time(ad, "enteredcurrentstatus")
    if status == _COMPLETED:
        return start, _time(ad, "completiondate") or changed
    if status in _OPEN:
        return (None if _OPEN[int(status)] == "PENDING" else start), None
    if _number(ad.get("lastjobstatus")) in (_RUNNING, _TRANSFERS, _SUSPENDED):
        return start, changed
    wall_s = _number(ad.get("remotewallclocktime")) or 0
    if start is None or not wall_s or (_number(ad.get("numjobstarts")) or 0) > 1:
        return None, changed
    return start, start + wall_s


def _state(ad: dict[str, Any], status: float | None) -> str | None:
    if status == _REMOVED:
        reasons = (_number(ad.get(name)) for name in ("holdreasoncode", "lastholdreasoncode"))
        return "TIMEOUT" if any(reason in _PAST_ITS_DURATION for reason in reasons) else "CANCELLED"
    if status != _COMPLETED:
        return None if status is None else _OPEN.get(int(status), "OTHER")
    code = _number(ad.get("exitcode"))
    if ad.get("exitbysignal") is True:
        return "FAILED"
    return None if code is None else "COMPLETED" if code == 0 else "FAILED"


def _number(value: object) -> float | None:
    """Return a number of an ad; null for an expression, which JSON writes as text."""
    if type(value) is int or type(value) is float:
        return value if -1e15 < value < 1e15 else None
    return None


def _time(ad: dict[str, Any], name: str) -> float | None:
    return _number(ad.get(name)) or None


def _class_ads(path: Path, wanted: frozenset[str]) -> Iterator[Objects]:
    """Yield ads in the long form: `name = value` lines, a blank line or the banner of a history file (`***`) after each."""
    rest, line = "", 1
    has_ad = False
    for block in read_blocks(path):
        text = rest + text_of(block.data)
        ads, at = [], 0
        for end in _END.finditer(text):
            ads.append((line, text[at : end.start()]))
            line += text.count("\n", at, end.end())
            at = end.end()
        rest = text[at:]
        if len(rest) > _AD_CHARACTERS_AT_MOST:
            ads.append((line, rest))
            line += rest.count("\n")
            rest = ""
        some = _parsed(path, ads, wanted)
        has_ad |= bool(some.objects)
        yield some
    last = _parsed(path, [(line, rest)], wanted)
    if not has_ad and not last.objects:
        begins = last.rejects[0].raw[:80] if last.rejects else ""
        raise SourceError(f"{path}: neither JSON nor ClassAds of jobs (`ClusterId = 7` and more lines) but ", Quoted(begins))
    yield last


def _parsed(path: Path, ads: Iterable[tuple[int, str]], wanted: frozenset[str]) -> Objects:
    objects, lines, raw, rejects = [], [], [], []
    for first, text in ads:
        if not text:  # two ends in a row
            continue
        if _FOREIGN.search(text):
            rejects.append(Reject(path.name, first, "not_a_class_ad", "", text.rstrip("\n")))
            continue
        objects.append({low: _value(value.rstrip()) for name, value in _LINE.findall(text) if (low := name.lower()) in wanted})
        lines.append(first)
        raw.append(text.rstrip("\n"))
    return Objects(objects, lines, raw.__getitem__, rejects)


def _value(text: str) -> Any:
    """Read a literal of a ClassAd: text, number or truth; null for UNDEFINED and expressions."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        return re.sub(r"\\(.)", r"\1", text[1:-1]) if "\\" in text else text[1:-1]
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else {"true": True, "false": False}.get(text.lower())
