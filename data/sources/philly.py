"""Microsoft Philly: `cluster_job_log`, one JSON array of jobs with each attempt (README of msr-fiddle/philly-traces).

A job has jobid, status (Pass, Killed, Failed), vc, user, submitted_time and attempts, each with start_time, end_time and detail:
the GPUs it held by machine. Times are Pacific, without a zone. A second layout is taken as well, that of the reduced jobs.json of
marwage/philly-traces: id, submitted_time, num_gpus, and attempts without detail; its `runtime` is derived and not read.
- No attempts: never started. A last attempt without an end was running when the log was made. A time may be None, "" or "None".
- The runtime is the span from the first attempt's start to the last one's end: Philly retries a job at once and it goes on from
  its checkpoint, so this is how long it held its GPUs. The option `label: last_attempt` takes the last attempt alone.
- GPUs are those of the last attempt. Machines are placement, known at the start only: the number of nodes asked for is null.
"""

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from runcast.data.cluster import Cluster
from runcast.data.errors import Quoted, SourceError
from runcast.data.sources.batch import Batch, Reject
from runcast.data.sources.blocks import open_log, read_piece
from runcast.data.sources.record import Instants, counted, in_order, jobs_table, out_of_range, refuse, sources
from runcast.data.sources.times import MISSING_WORDS, microseconds, parse_times
from runcast.data.states import canonical_states

_BATCH_JOBS = 20_000
_PIECE_BYTES = 1 << 20
_ELEMENT_CHARACTERS_AT_MOST = 16 << 20  # no job has so many attempts: what is being read is no array of jobs


class Options(BaseModel):
    """`source.options` of a Philly log."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: Literal["span", "last_attempt"] = "span"  # the runtime: from the first start to the end, or of the last attempt


class _Job(NamedTuple):
    """One job with the texts of its times; None where the log has none."""

    record: int
    raw: str
    job_id: str
    user: str | None
    group: str | None
    status: str | None
    submitted: str | None
    first_start: str | None
    start: str | None
    end: str | None
    attempts: int
    gpu_count: float | None
    node_list: str | None


def read(path: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield the jobs of one log in the file's order; `line` of a reject is the number of the record."""
    options = Options.model_validate(cluster.source.options)
    jobs: list[_Job] = []
    rejects: list[Reject] = []
    for record, (element, raw) in enumerate(_elements(path), start=1):
        job = _job(element, record, raw, options)
        if isinstance(job, _Job):
            jobs.append(job)
        else:
            rejects.append(Reject(path.name, record, job, "", raw))
        if len(jobs) + len(rejects) >= _BATCH_JOBS:
            yield _batch(jobs, rejects, cluster, path.name)
            jobs, rejects = [], []
    yield _batch(jobs, rejects, cluster, path.name)


def _elements(path: Path) -> Iterator[tuple[Any, str]]:
    """Yield each element of the file's one JSON array with its raw text, holding one at a time."""
    decode = codecs.getincrementaldecoder("utf-8-sig")(errors="replace").decode
    decoder = json.JSONDecoder(strict=False)  # a control character in a name does not cost the file
    text, at, record, first = "", 0, 0, True
    with open_log(path) as file:
        while True:
            piece = read_piece(file, path, _PIECE_BYTES)
            text, at = text[at:] + decode(piece, not piece), 0
            if first:
                at = _skip(text, 0, "")
                if at == len(text) and piece:
                    continue
                if not text.startswith("[", at):
                    raise SourceError(f"{path}: expected a JSON array of jobs, found ", Quoted(text[at : at + 40]))
                at, first = at + 1, False
            while True:
                start = _skip(text, at, "," if record else "")
                if text.startswith("]", start):
                    return
                try:
                    element, after = decoder.raw_decode(text, start)
                except (ValueError, RecursionError) as error:
                    if not piece or len(text) - start > _ELEMENT_CHARACTERS_AT_MOST:
                        raise SourceError(
                            f"{path}: record {record + 1} is not valid JSON, or the file is cut short ({error})"
                        ) from error
                    break
                if after == len(text) and piece:
                    break  # a number may go on in the next piece
                record += 1
                yield element, text[start:after]
                at = after


def _skip(text: str, at: int, separator: str) -> int:
    """Return the place after blanks and, at most once, the separator."""
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return _skip(text, at + 1, "") if separator and text.startswith(separator, at) else at


def _job(element: Any, record: int, raw: str, options: Options) -> "_Job | str":
    """Take what is needed of one element; a reason where it is no job."""
    if not isinstance(element, dict):
        return "not_an_object"
    job_id = _word(element.get("jobid", element.get("id")))
    attempts = element.get("attempts")
    if job_id is None:
        return "job_id_missing"
    if attempts is None:
        attempts = []
    if not isinstance(attempts, list) or not all(isinstance(a, dict) for a in attempts):
        return "attempts_unreadable"
    last = attempts[-1] if attempts else {}
    starts = [_word(a.get("start_time")) for a in attempts]
    if attempts and starts[-1] is None:
        return "start_missing"
    if attempts and options.label == "span" and starts[0] is None:
        return "start_missing"
    gpus, machines = _placement(last.get("detail"))
    if gpus is None:
        gpus = _count(element.get("num_gpus"))
    return _Job(
        record=record,
        raw=raw,
        job_id=job_id,
        user=_word(element.get("user")),
        group=_word(element.get("vc")),
        status=_word(element.get("status")),
        submitted=_word(element.get("submitted_time")),
        first_start=starts[0] if starts else None,
        start=(starts[0] if options.label == "span" else starts[-1]) if starts else None,
        end=_word(last.get("end_time")),
        attempts=len(attempts),
        gpu_count=gpus,
        node_list=machines,
    )


def _placement(detail: Any) -> tuple[float | None, str | None]:
    """GPUs held and machines, of an attempt's detail."""
    if not isinstance(detail, list) or not detail or not all(isinstance(d, dict) for d in detail):
        return None, None
    gpus = [d.get("gpus") for d in detail]
    machines = [word for d in detail if (word := _word(d.get("ip")))]
    count = float(sum(map(len, gpus))) if all(isinstance(g, list) for g in gpus) else None
    return count, ",".join(machines) or None


def _count(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e6 else None


def _word(value: Any) -> str | None:
    """Return a value as text, None for the log's words for "none"."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    text = str(value).strip().encode("utf-8", "replace").decode()  # lone surrogates cannot be stored
    return None if text.lower() in MISSING_WORDS else text


def _batch(jobs: list[_Job], rejects: list[Reject], cluster: Cluster, file: str) -> Batch:
    def strings(name: str) -> pa.Array:
        return pa.array([getattr(job, name) for job in jobs], pa.string())

    when = {name: parse_times(strings(name), cluster.time_zone) for name in ("submitted", "first_start", "start", "end")}
    submit, first, start, end = (Instants(*microseconds(when[name].utc)) for name in when)
    later, _ = microseconds(when["end"].second)
    end = Instants(np.where(start.known & (end.us < start.us), later, end.us), end.known)
    never = np.array([job.attempts == 0 for job in jobs], bool)
    status = strings("status")
    state_known = np.array([job.status is not None for job in jobs], bool)
    is_open = ~never & when["end"].missing
    states = np.where(is_open, "RUNNING", np.array(canonical_states(status).to_pylist(), dtype=object))
    states = np.where(never & ~state_known, "CANCELLED", states)
    faults = {
        "submit_missing": when["submitted"].missing,
        **{f"{name}_unreadable": times.unreadable for name, times in when.items() if name != "first_start"},
        **{f"{name}_nonexistent": times.nonexistent for name, times in when.items() if name != "first_start"},
        "start_before_submit": start.known & (start.us < submit.us),
        "end_before_start": start.known & end.known & (end.us < start.us),
        "time_out_of_range": out_of_range(submit, first, start, end),
    }
    records = np.array([job.record for job in jobs], np.int64)
    refused, keep = refuse(faults, records, lambda i: jobs[i].raw, file)
    take = pa.array(keep)
    ended = Instants(np.where(never, submit.us, end.us), end.known | never)
    flags = {
        "never_started": never,
        "end_assumed": never,
        "requeued": np.array([job.attempts > 1 for job in jobs], bool),
        "open_at_log_end": is_open,
        "clock_ambiguous": np.logical_or.reduce([times.ambiguous for times in when.values()]),
        "state_unknown": ~state_known & ~is_open,
    }
    flags = {name: mask[keep] for name, mask in flags.items()}
    columns = {
        "job_id": strings("job_id"),
        "user": strings("user"),
        "group": strings("group"),
        "gpu_count": pa.array([job.gpu_count for job in jobs], pa.float64()),
        "node_list": strings("node_list"),
        "state": pa.array(states, pa.string()),
        "source": sources(file, records),
    }
    table = jobs_table(
        cluster,
        {name: column.take(take) for name, column in columns.items()},
        submit=submit.take(keep),
        start=start.take(keep),
        end=ended.take(keep),
        first_start=Instants(first.us, first.known & (first.us >= submit.us)).take(keep),
        flags=flags,
        state_known=(state_known | is_open)[keep],
        attempts=np.array([job.attempts for job in jobs], np.int64)[keep],
    )
    notes = counted(flags, unknown_state=int((state_known & (states == "OTHER"))[keep].sum()))
    return Batch(table, in_order(rejects, refused), {}, notes)
