"""Standard Workload Format, version 2.2 (Parallel Workloads Archive, swf.html): 18 numbers a line, `;` before comments.

Oddities of the format, and what is made of them:
- -1 says that a value does not apply: it is null here. A run time of 0 is under half a second and stays.
- Times are seconds since `UnixStartTime` of the header, which may be UNKNOWN, 0 (also unknown) or a date. A cluster file with
  `clock: relative` counts from 1970-01-01 instead; otherwise an unknown start must be given as the option `unix_start_time`,
  unless the times are Unix seconds by their size (with a note).
- A job that was swapped out has a summary line (status 0 or 1) and, right after it, a line for each burst (status 2, 3, 4) with
  the same number: the manual says to study jobs by the summary, so bursts are skipped. Status 2 without a run time is a job
  that was still going when the log was made. A job's only line is the job, whatever its status: that of 2, 3 or 4 says nothing.
- Statuses outside -1 to 5 are a converter's exit codes; a log with many has no usable status, and a note says so.
- Simulators put fields of their own after the 18: a log whose first record has them is read without them, with a note.
- Processors are those requested; where that is not given, those allocated (rigid jobs get what they ask for), with a flag.
- Requested memory is KiB for each processor.
- A cancelled job, or one without processors, with no run time never started; its wait is the time until it was withdrawn.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.sources.batch import Batch, Reject
from runcast.data.sources.blocks import Block, read_blocks, text_of
from runcast.data.sources.record import (
    LATEST_US,
    Instants,
    floats,
    jobs_table,
    seconds_to_us,
    sources,
    whole_number_text,
)
from runcast.data.sources.swf_lines import FIELDS, Parsed, Statuses, is_longer, parse_lines, read_statuses

__all__ = ["FIELDS", "Options", "read"]

_HEADER = re.compile(r";\s*(\w+)\s*:\s*(.*?)\s*$")
_NUMBERED = re.compile(r"(-?\d+)\s+(.+)")
_NAMELESS = frozenset({"-1", "unknown", "none", "null", "n/a"})
_EXACT = 2.0**53  # ids beyond it are no longer whole in a float

_UNIX_SECONDS = 500_000_000  # of 1985: no log counts so far from its own start
_STATES = {0: "FAILED", 1: "COMPLETED", 2: "RUNNING", 5: "CANCELLED"}


class Options(BaseModel):
    """`source.options` of an SWF log."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unix_start_time: int | datetime | None = None  # overrides the header's; a date without zone is the cluster's local time
    executable: Literal["job_name", "unusable"] = "job_name"  # unusable: nearly one number per job, so no name to learn from
    status: Literal["recorded", "unusable"] = "recorded"  # unusable: the converter wrote one number for every job
    processors: Literal["cpus", "nodes"] = "cpus"  # nodes: the log counts whole nodes only


@dataclass(frozen=True)
class _Header:
    """What the comments before the first job say."""

    values: Mapping[str, str] = field(default_factory=dict)
    queues: Mapping[int, str] = field(default_factory=dict)
    partitions: Mapping[int, str] = field(default_factory=dict)


def read(path: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield the jobs of one SWF file, a batch per block of lines, in the file's order."""
    options = Options.model_validate(cluster.source.options)
    statuses = read_statuses(path) if options.status == "recorded" else Statuses(are_usable=False)
    header: _Header | None = None
    longer = False
    summary_id = np.nan  # number of the last summary line, so that bursts are known across blocks
    for block in read_blocks(path):
        longer = longer or (header is None and is_longer(block))
        parsed = parse_lines(block, path.name, longer=longer)
        if header is None:
            header = _read_header(block)
            anchor_us, notes = _anchor_us(header, parsed.numbers["submit"], options, cluster, path)
            notes |= _zone_notes(header, cluster, anchor_us)
            if not statuses.are_usable and options.status == "recorded":
                notes["status_unusable"] = 1
        batch, summary_id = _batch(parsed, block, summary_id, header, anchor_us, statuses, options, cluster, path.name)
        if parsed.longer:
            notes["fields_beyond_the_standard"] = parsed.longer
        yield Batch(batch.jobs, batch.rejects, batch.skipped, {**batch.notes, **notes})
        notes = {}


def _read_header(block: Block) -> _Header:
    values: dict[str, str] = {}
    names: dict[str, list[tuple[int, str]]] = {"Queue": [], "Partition": []}
    for line in block.data.split(b"\n"):
        text = text_of(line).strip()
        if text and not text.startswith(";"):
            break
        match = _HEADER.match(text)
        if not match:
            continue
        key, value = match.groups()
        if key not in names:
            values.setdefault(key, value)
        elif numbered := _NUMBERED.match(value):
            names[key].append((int(numbered.group(1)), numbered.group(2).strip()))
    return _Header(values, _usable(names["Queue"]), _usable(names["Partition"]))


def _usable(numbered: list[tuple[int, str]]) -> dict[int, str]:
    """Keep the names that are one word, not a number or a word for none, and given to one number only."""
    counts: dict[str, int] = {}
    for _, name in numbered:
        counts[name] = counts.get(name, 0) + 1
    return {
        number: name
        for number, name in numbered
        if counts[name] == 1 and name.lower() not in _NAMELESS and not name.isdigit() and not re.search(r"\s", name)
    }


def _anchor_us(
    header: _Header, submits: np.ndarray, options: Options, cluster: Cluster, path: Path
) -> tuple[int, dict[str, int]]:
    """Return the instant of second 0 in microseconds since 1970, and a note where the times themselves say that it is 1970.

    A start of 0 is what converters write that do not know it. Raises SourceError where nothing tells the start.
    """
    if cluster.clock == "relative":
        return 0, {}
    written = header.values.get("UnixStartTime", "")
    start = options.unix_start_time if options.unix_start_time is not None else _start_time(written) or None
    if start is None and (submits >= _UNIX_SECONDS).any() and (submits[submits >= 0] >= _UNIX_SECONDS).all():
        return 0, {"times_are_unix_seconds": 1}
    if start is None:
        raise SourceError(
            f"{path}: UnixStartTime is {written or 'absent'!r}, so no time of day is known. "
            "Set `clock: relative` in the cluster file, or give source.options.unix_start_time."
        )
    if isinstance(start, datetime):
        return round((start if start.tzinfo else start.replace(tzinfo=cluster.zone)).timestamp() * 1_000_000), {}
    return start * 1_000_000, {}


def _start_time(text: str) -> int | datetime | None:
    """Read UnixStartTime: seconds, or a date in ISO form or as `date` prints it; None where it is none of these."""
    if re.fullmatch(r"\d{1,10}(?:\.0*)?", text):
        return int(float(text))
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    words = text.split()
    if len(words) == 6:
        del words[4]  # an abbreviation names no zone; the cluster file does
    try:
        return datetime.strptime(" ".join(words), "%a %b %d %H:%M:%S %Y")  # noqa: DTZ007  local to the cluster, as the ISO form
    except ValueError:
        return None


def _zone_notes(header: _Header, cluster: Cluster, anchor_us: int) -> dict[str, int]:
    """Count a note where the header's zone shows another clock than the cluster's at the log's start or half a year later."""
    named = header.values.get("TimeZoneString")
    if not named or named.lower() in _NAMELESS or cluster.clock == "relative":
        return {}
    at = pa.array([anchor_us, anchor_us + 15_778_800_000_000]).cast(pa.timestamp("us", tz="UTC"))
    try:
        theirs = pc.local_timestamp(at.cast(pa.timestamp("us", tz=named)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return {"time_zone_of_header_unknown": 1}
    ours = pc.local_timestamp(at.cast(pa.timestamp("us", tz=cluster.time_zone)))
    return {} if theirs.equals(ours) else {"time_zone_differs_from_header": 1}


def _batch(
    parsed: Parsed,
    block: Block,
    summary_id: float,
    header: _Header,
    anchor_us: int,
    statuses: Statuses,
    options: Options,
    cluster: Cluster,
    file: str,
) -> tuple[Batch, float]:
    numbers, lines = dict(parsed.numbers), parsed.lines
    if not statuses.are_usable:
        numbers["status"] = np.full(len(lines), -1.0)
    burst, summary_id = _bursts(numbers, summary_id)
    faults = _faults(numbers, anchor_us, burst, statuses)
    bad = np.logical_or.reduce(list(faults.values()), initial=False, axis=0) if faults else np.zeros(len(lines), bool)
    keep = np.flatnonzero(~burst & ~bad)
    rejects = parsed.rejects + _fault_rejects(faults, lines, block, file)
    jobs, notes = _jobs({k: v[keep] for k, v in numbers.items()}, lines[keep], header, anchor_us, options, cluster, file)
    skipped = {"partial_execution": int(burst.sum())} if burst.any() else {}
    return Batch(jobs, tuple(sorted(rejects, key=lambda r: r.line)), skipped, notes), summary_id


def _bursts(numbers: Mapping[str, np.ndarray], summary_id: float) -> tuple[np.ndarray, float]:
    """Find the lines of partial executions that follow their job's summary line."""
    ids, status = numbers["job"], numbers["status"]
    partial = np.isin(status, (2, 3, 4))
    if not len(ids):
        return partial, summary_id
    latest = np.maximum.accumulate(np.where(partial, -1, np.arange(len(ids))))
    summaries = np.where(latest < 0, summary_id, ids[np.maximum(latest, 0)])
    return partial & (summaries == ids), float(summaries[-1])


def _faults(numbers: Mapping[str, np.ndarray], anchor_us: int, burst: np.ndarray, statuses: Statuses) -> dict[str, np.ndarray]:
    """Masks by reason of the lines that cannot be jobs; a line has the first reason that fits."""
    run, status = numbers["run"], numbers["status"]
    ids = [numbers[name] for name in ("job", "user", "group", "executable", "queue", "partition", "status")]
    unfinished = (status == 2) | (status == 5) | (np.maximum(numbers["allocated"], 0) == 0)
    latest_s = (LATEST_US - anchor_us) / 1e6
    ends = numbers["submit"] + np.maximum(numbers["wait"], 0) + np.maximum(run, 0)
    faults = {
        "id_not_whole": np.logical_or.reduce([(v != np.floor(v)) | (np.abs(v) > _EXACT) for v in ids]),
        "submit_missing": numbers["submit"] < 0,
        "runtime_negative": (run < 0) & (run != -1),
        "runtime_missing": (run == -1) & ~unfinished,
        "partial_without_summary": _is_partial(status, run) & np.isin(numbers["job"], statuses.several_lines),
        "time_out_of_range": ends >= latest_s,
    }
    taken = burst.copy()
    for reason, mask in faults.items():
        faults[reason] = mask & ~taken
        taken |= mask
    return faults


def _is_partial(status: np.ndarray, run: np.ndarray) -> np.ndarray:
    partial: np.ndarray = np.isin(status, (3, 4)) | ((status == 2) & (run >= 0))
    return partial


def _fault_rejects(faults: Mapping[str, np.ndarray], lines: np.ndarray, block: Block, file: str) -> list[Reject]:
    if not any(mask.any() for mask in faults.values()):
        return []
    raw = block.data.split(b"\n")
    return [
        Reject(file, int(line), reason, "", text_of(raw[int(line) - block.first_line]))
        for reason, mask in faults.items()
        for line in lines[mask]
    ]


def _jobs(
    numbers: Mapping[str, np.ndarray],
    lines: np.ndarray,
    header: _Header,
    anchor_us: int,
    options: Options,
    cluster: Cluster,
    file: str,
) -> tuple[pa.Table, dict[str, int]]:
    status, run, wait = numbers["status"], numbers["run"], numbers["wait"]
    allocated, requested = numbers["allocated"], numbers["requested"]
    never = ((run == -1) & (status != 2)) | ((run == 0) & (status == 5) & (allocated <= 0))
    open_ = (status == 2) & (run < 0)
    submit_us = anchor_us + seconds_to_us(numbers["submit"])
    waited_us = submit_us + seconds_to_us(np.maximum(wait, 0))
    start = Instants(waited_us, ~never)
    end = Instants(np.where(never, waited_us, waited_us + seconds_to_us(np.maximum(run, 0))), ~open_)
    state_known = (status != -1) & ~_is_partial(status, run)
    processors = np.where(requested > 0, requested, allocated)
    nodes_too = options.processors == "nodes" or _one_processor_a_node(header)
    limit = numbers["requested_time"]
    flags = {
        "never_started": never,
        "wait_missing": ~never & (wait < 0),
        "end_assumed": never & (wait < 0),
        "cpus_from_allocation": (requested <= 0) & (allocated > 0),
        "state_unknown": ~state_known & ~never,
        "open_at_log_end": open_,
    }
    columns = {
        "job_id": whole_number_text(numbers["job"], np.ones(len(lines), bool)),
        "user": _ids(numbers["user"]),
        "group": _ids(numbers["group"]),
        "job_name": _ids(numbers["executable"]) if options.executable == "job_name" else pa.nulls(len(lines), pa.string()),
        "queue": pc.coalesce(_names(numbers["queue"], header.queues), _names(numbers["partition"], header.partitions)),
        "cpu_count": floats(processors, processors > 0),
        "node_count": floats(processors, (processors > 0) & nodes_too),
        "mem_mib": floats(numbers["requested_memory"] * processors / 1024, (numbers["requested_memory"] > 0) & (processors > 0)),
        "time_limit_s": floats(limit, limit > 0),
        "state": _states(status, never, state_known),
        "source": sources(file, lines),
    }
    table = jobs_table(
        cluster,
        columns,
        submit=Instants(submit_us, np.ones(len(lines), bool)),
        start=start,
        end=end,
        first_start=Instants(start.us, start.known & (wait >= 0)),
        flags=flags,
        state_known=state_known,
    )
    unknown = state_known & ~np.isin(status, list(_STATES))
    notes = {"unknown_state": int(unknown.sum())} if unknown.any() else {}
    return table, {**notes, **{name: int(mask.sum()) for name, mask in flags.items() if mask.any()}}


def _states(status: np.ndarray, never: np.ndarray, known: np.ndarray) -> pa.Array:
    names = np.full(len(status), "OTHER", dtype=object)
    for number, name in _STATES.items():
        names[known & (status == number)] = name
    names[never & ~known] = "CANCELLED"
    return pa.array(names, pa.string())


def _ids(numbers: np.ndarray) -> pa.Array:
    return whole_number_text(numbers, numbers >= 0)


def _names(numbers: np.ndarray, names: Mapping[int, str]) -> pa.Array:
    """Name each number where the header does so usably, else give the number as text."""
    distinct, at = np.unique(numbers, return_inverse=True)
    texts = [None if n < 0 else names.get(int(n), str(int(n))) for n in distinct]
    return pa.array(texts, pa.string()).take(pa.array(at))


def _one_processor_a_node(header: _Header) -> bool:
    """Whether the header counts as many nodes as processors, as of an SP2."""
    counts = [re.match(r"\d+", header.values.get(key, "")) for key in ("MaxNodes", "MaxProcs")]
    return all(counts) and counts[0].group() == counts[1].group()  # type: ignore[union-attr]
