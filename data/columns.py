"""What a job record is: the canonical columns, once.

Every source writes these columns and every later stage reads them; the Arrow schema, the quality suites and the docs are derived
from this list. Nulls are nulls: never -1, 0, "" or "None". Times are UTC. This module imports nothing beyond the standard
library, so that a scheduler host can use it.
"""

from dataclasses import dataclass
from typing import Literal

LARGEST_NUMBER = 1e15  # beyond any count, MiB or seconds of a real request; keeps float32 features finite
SMALLEST_NUMBER = 1e-6  # above 0: below any share of a GPU; keeps ratios of two numbers finite in float32

KnownAt = Literal["submit", "start", "end"]


@dataclass(frozen=True)
class Column:
    """One column of the canonical job record.

    `type` is an Arrow type in text form ("timestamp" stands for timestamp[us, tz=UTC]); `known_at` is the moment from which a
    scheduler could know the value: a feature may read only what is known at "submit".
    """

    name: str
    type: Literal["string", "timestamp", "float64", "int32", "list<string>"]
    unit: str
    nullable: bool
    known_at: KnownAt
    meaning: str


COLUMNS: tuple[Column, ...] = (
    Column("cluster", "string", "", False, "submit", "Name of the cluster file the job came through."),
    Column("job_id", "string", "", False, "submit", "The scheduler's own id, as written in the log."),
    Column("job_key", "string", "", False, "submit", "Unique key: cluster, raw id and submission time; ids are recycled."),
    Column("array_id", "string", "", True, "submit", "Id of the job array this task belongs to."),
    Column("array_task", "int32", "", True, "submit", "Index within the job array."),
    Column("user", "string", "", True, "submit", "Who submitted."),
    Column("group", "string", "", True, "submit", "Virtual cluster, unix group or PAI group tag."),
    Column("account", "string", "", True, "submit", "Account or project that pays."),
    Column("queue", "string", "", True, "submit", "Queue or partition asked for."),
    Column("qos", "string", "", True, "submit", "Quality of service asked for."),
    Column("job_name", "string", "", True, "submit", "Job name or executable."),
    Column("work_dir", "string", "", True, "submit", "Working directory at submission."),
    Column("submit_time", "timestamp", "", False, "submit", "When the job was submitted."),
    Column(
        "gpu_count",
        "float64",
        "GPUs",
        True,
        "submit",
        "GPUs asked for in total; fractions allowed; 0 only where GPUs are tracked.",
    ),
    Column("gpu_model", "string", "", True, "submit", "GPU model asked for; 'mixed' for several."),
    Column("cpu_count", "float64", "CPUs", True, "submit", "CPUs asked for in total."),
    Column("mem_mib", "float64", "MiB", True, "submit", "Memory asked for in total."),
    Column("node_count", "float64", "nodes", True, "submit", "Nodes asked for."),
    Column("time_limit_s", "float64", "s", True, "submit", "Walltime limit or estimate given at submission."),
    Column(
        "time_limit_kind",
        "string",
        "",
        False,
        "submit",
        "hard (killed at it), advisory, unlimited, partition (that of the queue, not known), or absent.",
    ),
    Column("priority", "float64", "", True, "submit", "Priority, where the log's value is that of the submission."),
    Column("task_role", "string", "", True, "submit", "Role of the task: worker, ps, chief, ..."),
    Column("framework", "string", "", True, "submit", "Framework or workload type named at submission."),
    Column("start_time", "timestamp", "", True, "start", "Start of the attempt that the label is taken from."),
    Column("node_list", "string", "", True, "start", "Where it ran, as written in the log."),
    Column("end_time", "timestamp", "", True, "end", "When the job ended; null while queued or running."),
    Column("state", "string", "", False, "end", "Canonical state; see states.py."),
    Column(
        "label",
        "string",
        "",
        False,
        "end",
        "event (ended by itself), censored (cut from outside), or excluded (no usable runtime).",
    ),
    Column(
        "runtime_s",
        "float64",
        "s",
        True,
        "end",
        "Seconds the attempt held its resources: end - start; null where excluded or open.",
    ),
    Column(
        "queue_s",
        "float64",
        "s",
        True,
        "end",
        "Seconds the job waited for its first start, since submission or, where the log says when, since it could start.",
    ),
    Column("attempts", "int32", "", False, "end", "Starts seen, requeues included; 0 if never started."),
    Column("source", "string", "", False, "submit", "Name of the log file and line or record number, as file:line."),
    Column("flags", "list<string>", "", False, "end", "What was repaired or is odd about the row, by name."),
)

BY_NAME: dict[str, Column] = {column.name: column for column in COLUMNS}
NAMES: tuple[str, ...] = tuple(BY_NAME)
LABELS: tuple[str, ...] = ("event", "censored", "excluded")
TIME_LIMIT_KINDS: tuple[str, ...] = ("hard", "advisory", "unlimited", "partition", "absent")
