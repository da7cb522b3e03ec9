"""Slurm's `sacct --json`, as versions 21.08 to 25.11 write it (OpenAPI plugin dbv0.0.37 to data_parser v0.0.44).

Oddities of the format, and what is made of them:
- A number is a number, null, or (from 23.02) an object {set, infinite, number}; 0 and null are no time, and in a request nothing.
- The state is one word, from 23.11 a list of a base state and marks.
- The end of a job that runs is 0, and its limit is in minutes. Times are epoch seconds: no zone is needed.
- The id is the raw one; the array's and the heterogeneous job's ids stand beside it and make the id that sacct's text shows.
- Steps stand inside their job and are not records here.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from runcast.data.cluster import Cluster
from runcast.data.errors import Quoted, SourceError
from runcast.data.sources.batch import Batch, Reject
from runcast.data.sources.json_items import array_items
from runcast.data.sources.slurm_attempts import batches, text_hashes
from runcast.data.sources.slurm_fields import Fields, SlurmOptions, Tally

_RECORDS_PER_BATCH = 10_000
_PER_CPU_BIT = 1 << 63
_NO_VALUE = 0xFFFF_FFFE  # Slurm's NO_VAL; INFINITE is one more. Plain numbers of old versions may be either.
_BITS = re.compile("0x[0-9A-Fa-f]{1,1000000}")


class Options(SlurmOptions):
    """`source.options` of a log of `sacct --json`."""


def read(path: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield the jobs of one JSON file in batches; the file is read twice, first for the ids that are met again."""
    options = Options.model_validate(cluster.source.options)
    return batches((text_hashes(f.ids) for f, _ in _pieces(path)), _pieces(path), path, cluster, options)


def _pieces(path: Path) -> Iterator[tuple[Fields, Tally]]:
    """Read the file's job records, some thousands at a time."""
    beside: dict[str, Any] = {}
    numbered = enumerate(array_items(path, "jobs", beside), 1)
    while some := list(islice(numbered, _RECORDS_PER_BATCH)):
        yield _piece(some, path)
    if beside.get("errors"):
        raise SourceError(f"{path}: sacct could not give everything: ", Quoted(json.dumps(beside["errors"])), ". Export again.")


def _piece(numbered: list[tuple[int, Any]], path: Path) -> tuple[Fields, Tally]:
    tally = Tally()
    lines, rows, records = [], [], []
    for number, record in numbered:
        if not isinstance(record, dict) or not isinstance(record.get("time"), dict):
            if number == 1:
                raise SourceError(
                    f"{path}: the first record of 'jobs' has no 'time' object, so this is not the output of sacct --json. "
                    "The output of squeue or scontrol lacks the jobs that have ended."
                )
            tally.rejects.append(Reject(path.name, number, "not_a_job", "no 'time' object", _raw(record)))
            continue
        lines.append(number)
        rows.append(_fields(record))
        records.append(record)
    names = _fields({"time": {}})
    columns = {name: pa.array([row[name] for row in rows], pa.string()) for name in names}
    return Fields(columns, np.array(lines, np.int64), path.name, lambda at: _raw(records[at])), tally


def _fields(job: Mapping[str, Any]) -> dict[str, str | None]:
    """Write one record's values as sacct's text would show them, by sacct's field name."""
    time, tres, required = _part(job, "time"), _part(job, "tres"), _part(job, "required")
    return {
        "jobid": _job_id(job),
        "cluster": _text(job.get("cluster")),
        "state": _state(_part(job, "state").get("current")),
        "submit": _epoch(time.get("submission")),
        "start": _epoch(time.get("start")),
        "end": _epoch(time.get("end")),
        "elapsedraw": _whole(time.get("elapsed")),
        "timelimitraw": _limit(time.get("limit")),
        "user": _text(job.get("user")) or _text(_part(job, "association").get("user")),
        "group": _text(job.get("group")),
        "account": _text(job.get("account")),
        "partition": _text(job.get("partition")),
        "qos": _text(job.get("qos")),
        "jobname": _text(job.get("name")),
        "workdir": _text(job.get("working_directory")),
        "reqtres": _tres(tres.get("requested")),
        "alloctres": _tres(tres.get("allocated")),
        "reqcpus": _whole(required.get("CPUs")),
        "reqmem": _memory(required),
        "nnodes": _whole(job.get("allocation_nodes")),
        "nodelist": _text(job.get("nodes")),
        "restarts": _whole(job.get("restart_cnt")),
        "eligible": _epoch(time.get("eligible")),
        "suspended": f"00:00:{_whole(time.get('suspended')) or 0}",
    }


def _job_id(job: Mapping[str, Any]) -> str | None:
    """Return the id that sacct's text shows: `12_3` for an array's task, `12_[4-9]` for those that wait, `12+1` for a part."""
    raw, array, het = _whole(job.get("job_id")), _part(job, "array"), _part(job, "het")
    of_array, of_het = _whole(array.get("job_id")), _whole(het.get("job_id"))
    if of_array not in (None, "0"):
        if (task := _whole(array.get("task_id"))) is not None:
            return f"{of_array}_{task}"
        if tasks := _text(array.get("task")):
            at_once = _whole(_part(_part(_part(array, "limits"), "max"), "running").get("tasks"))
            limit = f"%{at_once}" if at_once not in (None, "0") and "%" not in tasks else ""
            return f"{of_array}_[{_task_set(tasks)}{limit}]"
    if of_het not in (None, "0") and (offset := _whole(het.get("job_offset"))) is not None:
        return f"{of_het}+{offset}"
    return raw


def _task_set(text: str) -> str:
    """Write the tasks that wait as sacct's text does; the JSON form may show the database's bits, 0x3F0 for 4-9."""
    if not _BITS.fullmatch(text):
        return text.strip("[]")
    bits = bin(int(text, 16))[:1:-1]
    runs = [(match.start(), match.end() - 1) for match in re.finditer("1+", bits)]
    return ",".join(f"{first}-{last}" if first < last else f"{first}" for first, last in runs)


def _state(current: Any) -> str | None:
    return json.dumps(current) if isinstance(current, list) else _text(current)


def _tres(entries: Any) -> str:
    """Write a TRES list as text; a count below zero says that there is none."""
    written = []
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and (count := _whole(entry.get("count"))) is not None:
            kind, name = _text(entry.get("type")), _text(entry.get("name"))
            written.append(f"{kind}/{name}={count}" if name else f"{kind}={count}" + ("M" if kind == "mem" else ""))
    return ",".join(written)


def _memory(required: Mapping[str, Any]) -> str | None:
    """Write the memory asked for as ReqMem does: MiB for each CPU or each node.

    Before 23.02 there is one number for both. Where it lacks the bit that means "for each CPU" it may be either (22.05 gives 50
    for --mem-per-cpu=50M), so it is left out; the TRES list has the total.
    """
    for key, suffix in (("memory_per_cpu", "Mc"), ("memory_per_node", "Mn")):
        number = _whole(required.get(key))
        if number not in (None, "0"):
            return f"{number}{suffix}"
    both = _number(required.get("memory"))
    return f"{int(both) - _PER_CPU_BIT}Mc" if both is not None and both >= _PER_CPU_BIT else None


def _limit(value: Any) -> str | None:
    if value == _NO_VALUE + 1 or (isinstance(value, dict) and value.get("infinite") is True):
        return "UNLIMITED"
    if value == _NO_VALUE or (isinstance(value, dict) and value.get("set") is False):
        return "Partition_Limit"  # as sacct's text says it of NO_VAL
    return _whole(value)


def _epoch(value: Any) -> str | None:
    number = _number(value)
    return None if number is None or number <= 0 else f"{number:.6f}".rstrip("0").rstrip(".")


def _whole(value: Any) -> str | None:
    number = _number(value)
    return None if number is None or number < 0 or number != int(number) else str(int(number))


def _number(value: Any) -> float | int | None:
    """Return a number, plain or as {set, infinite, number}; None where it is not set."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") is True and value.get("infinite") is not True else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e30 < value < 1e30:
        return None
    return value


def _text(value: Any) -> str | None:
    """Return a text that UTF-8 can hold, or None."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and value else None


def _part(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = record.get(name)
    return part if isinstance(part, dict) else {}


def _raw(record: Any) -> str:
    shown = {name: value for name, value in record.items() if name != "steps"} if isinstance(record, dict) else record
    return json.dumps(shown, ensure_ascii=True)
