"""What the terminal shows of cluster files: which can be used, three jobs of a log as they are understood, what looks wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text

from runcast.data.settings import Settings
from runcast.show import folders, hanging, plain, plain_table

Record = Mapping[str, Any]

_COUNTS = (("node_count", "nodes"), ("cpu_count", "CPUs"), ("gpu_count", "GPUs"), ("mem_mib", "MiB"))
_NAMES = ("user", "group", "account", "queue", "qos", "job_name")
JOBS_OF_AT_MOST = 3  # clusters: of more, only what is wrong is shown


def clusters_table(rows: Sequence[Record], settings: Settings) -> Group:
    """One line per cluster file, no wider than a terminal of 80 columns; below it what is wrong, and jobs as they are understood."""
    table = plain_table("cluster", "format", "zone", "schedule", "state")
    for row in rows:
        cells = (row["name"], row["format"], row["time_zone"], row["schedule"] or "by hand")
        table.add_row(*[Text(one) for one in cells], _state(row))
    below: list[Any] = [Text(f"\n{len(rows)} cluster files in {folders(settings)}")]
    for row in rows:
        if row["problem"]:
            below.append(hanging(row["name"], plain(row["problem"], keep="\n")))
        below += [
            hanging(row["name"], f"looks wrong: {plain(text)}") for text in (row.get("preview") or {}).get("looks_wrong", ())
        ]
    read = [row for row in rows if row.get("preview")]
    if len(read) <= JOBS_OF_AT_MOST:
        below += [Text("\n" + "\n".join(map(plain, preview_lines(row["name"], row["preview"])))) for row in read]
    else:
        below.append(Text("Three jobs of a log as they are understood: runcast clusters check NAME"))
    return Group(table, *below)


def _state(row: Record) -> Text:
    if row["problem"]:
        return Text("refused" if row["refused"] else "problem", "yellow")
    if "preview" not in row:
        return Text("log not read")
    doubts = len((row["preview"] or {}).get("looks_wrong", ()))
    return Text(f"ready, {doubts} to look at", "yellow") if doubts else Text("ready", "green")


def preview_lines(name: str, preview: Record) -> list[str]:
    """The jobs that a log's first records come to, in words, with units."""
    refused = sum(preview["rejects"].values())
    lines = [
        f"{name}: {preview['jobs']} jobs and {refused} refused records among the first {preview['records']} of {preview['file']}"
        + (f" and {preview['more_files']} more files" if preview["more_files"] else "")
    ]
    for job in preview["shown"]:
        lines += [f"  job {job['job_id']} ({job['source']})", *(f"    {line}" for line in _job_lines(job))]
    if preview["always_null"]:
        lines.append("  null in every job: " + ", ".join(preview["always_null"]))
    if preview["rejects"]:
        lines.append("  refused: " + ", ".join(f"{reason} {count}" for reason, count in preview["rejects"].items()))
    return lines


def _job_lines(job: Record) -> list[str]:
    names = [f"{name.removesuffix('_name')} {job[name]}" for name in _NAMES if name in job]
    model = f" ({job['gpu_model']})" if "gpu_model" in job else ""
    asked = [f"{job[name]:g} {unit}" + (model if name == "gpu_count" else "") for name, unit in _COUNTS if name in job]
    limit = (
        f"limit {span(job['time_limit_s'])} ({job['time_limit_kind']})"
        if "time_limit_s" in job
        else f"limit {job['time_limit_kind']}"
    )
    times = [f"submitted {job['submit_time']}"]
    if "start_time" in job:
        times.append(f"started {job['start_time']}" + (f" (waited {span(job['queue_s'])})" if "queue_s" in job else ""))
    if "end_time" in job:
        times.append(f"ended {job['end_time']}")
    ran = f"ran {span(job['runtime_s'])}, " if "runtime_s" in job else ""
    return [
        ", ".join(names) or "no user, group, account, queue or name",
        ", ".join(times),
        "asked for " + ", ".join([*asked, limit]),
        f"{ran}{job['state']}: {_LABELS[job['label']]}",
    ]


_LABELS = {
    "event": "learnt from as it ran",
    "censored": "learnt from as one that ran at least so long",
    "excluded": "not learnt from",
}


def span(seconds: float) -> str:
    """Format a length of time in its own seconds and in a unit that a person reads.

    >>> span(45.0), span(5400.0), span(2 * 86400.0)
    ('45 s', '5400 s = 1.5 h', '172800 s = 2 d')
    """
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= size:
            return f"{seconds:.10g} s = {seconds / size:.3g} {unit}"
    return f"{seconds:.10g} s"
