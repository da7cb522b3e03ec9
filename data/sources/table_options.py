"""`source.options` of a table: which column of the file is which canonical column, and how its values are written.

An option that would do nothing, or could mean two things, is refused where the cluster file is read.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

TEXTS = (
    "job_id", "user", "group", "account", "queue", "qos", "job_name", "work_dir",
    "gpu_model", "task_role", "framework", "node_list",
)  # fmt: skip
COUNTS = ("gpu_count", "cpu_count", "mem_mib", "node_count", "time_limit_s", "priority")
CONSTANT_COUNTS = ("node_count", "cpu_count", "gpu_count")
DURATIONS = ("runtime_s", "queue_s")
TIMES = ("submit_time", "start_time", "end_time")
RESTARTS, STARTS = "restarts", "starts"  # become the canonical `attempts`: one more, or as it is; 0 starts: it never ran
NUMBERS = (*COUNTS, *DURATIONS, RESTARTS, STARTS)
MAPPABLE = (*TEXTS, *NUMBERS, *TIMES, "state")

#: Factors to the canonical unit: seconds, MiB, one.
DURATION_UNITS: dict[str, float] = {
    "seconds": 1, "milliseconds": 1e-3, "microseconds": 1e-6, "minutes": 60, "hours": 3600, "days": 86400,
}  # fmt: skip
MEMORY_UNITS: dict[str, float] = {
    "mib": 1, "gib": 1024, "kib": 1 / 1024, "bytes": 1 / 2**20, "mb": 1e6 / 2**20, "gb": 1e9 / 2**20,
}  # fmt: skip
MEMORY_SUFFIX = "suffix"  # each value names its own unit: 4G, 512M, 1.5 TiB, 4096B; a number alone has none
COUNT_UNITS: dict[str, float] = {"one": 1, "percent": 1e-2, "thousandths": 1e-3}
UNITS = DURATION_UNITS | MEMORY_UNITS | COUNT_UNITS
CLOCK_UNITS = ("hh:mm:ss", "hh:mm")  # 26:00:00, 1-02:00:00, 1 day, 02:00:00; 2:30 as two and a half hours


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class SecondsFrom(_Part):
    """Times that count from an anchor."""

    seconds_from: datetime  # the instant of 0; without a zone it is the cluster's local time
    unit: Literal["seconds", "milliseconds", "microseconds"] = "seconds"  # what is counted


class Written(_Part):
    """Times in a form of the site's own."""

    format: str  # strptime directives, e.g. "%d.%m.%Y %H:%M:%S"; with %z the offset is read, without it the time is local

    @field_validator("format")
    @classmethod
    def _says_one_moment(cls, value: str) -> str:
        """Refuse a form from which day and minute cannot be read back, which strftime and strptime show."""
        if "%Z" in value:
            raise ValueError(
                "%Z: a zone's abbreviation names no zone; cut it off with `pattern`, or have the log write an offset (%z)"
            )
        moment = datetime(2022, 11, 23, 16, 57, tzinfo=UTC)  # no two of its parts are equal, and it is after noon
        try:
            again = datetime.strptime(moment.strftime(value), value)  # noqa: DTZ007  only compared
        except ValueError as error:
            raise ValueError(f"{value!r} is no form of a time for strptime: {error}") from None
        if again.year != moment.year:
            raise ValueError(
                f"{value!r} has no year (%Y), and none is guessed: have the log write it (what LSF prints: `format: lsf`)"
            )
        if again.replace(tzinfo=UTC) != moment:
            raise ValueError(f"{value!r} does not say day, hour and minute; of 2022-11-23 16:57 it leaves {again:%Y-%m-%d %H:%M}")
        return value


def _form_of(value: object) -> str:
    """Name the form that a value of `time` has, so that one message says what is wrong with it."""
    keys = set(value) if isinstance(value, Mapping) else set(getattr(value, "model_fields_set", ()))
    return "format" if "format" in keys else "seconds_from" if keys else "word"


TimeWord = Literal["naive", "aware", "epoch_s", "epoch_ms", "epoch_us"]
TimeFormat = Annotated[
    Annotated[TimeWord, Tag("word")] | Annotated[SecondsFrom, Tag("seconds_from")] | Annotated[Written, Tag("format")],
    Discriminator(_form_of),
]


class Words(_Part):
    """A column of text, and which part and which words of it count."""

    column: str  # name in the file; in JSON also a path: spec.nodes, containers.0.name
    pattern: str | None = None  # RE2 with a group named `value`: the part of the text that is read
    values: Mapping[str, str] = {}  # replaces the log's word (after `pattern`); others stay, "" is null
    null_words: tuple[str, ...] | None = (
        None  # words that mean null, without regard to case; default: `null_words` of the options
    )

    @field_validator("pattern")
    @classmethod
    def _usable_pattern(cls, value: str | None) -> str | None:
        return _checked_pattern(value, ("value",))


class Factor(_Part):
    """A column by which another is multiplied."""

    column: str  # name in the file
    unit: Literal["one", "percent", "thousandths"] = "one"  # of its numbers


class Column(Words):
    """Where a canonical column comes from, and how its values are written."""

    time: TimeFormat | None = None  # of a time: how it is written (below); default: `time` of the options
    unit: str | None = None  # of a number (below); default: seconds, MiB, one
    times: Literal["node_count", "cpu_count"] | Factor | None = (
        None  # the value is for each of these (gpu_count, cpu_count, mem_mib), or is multiplied by a column: a share of each GPU
    )
    zero_is_null: bool = False  # of a number: 0 says "not asked for", as of memory in many logs
    detail: Mapping[
        str, Words
    ] = {}  # of state: the column that says more of the jobs with this word (after `values`), where it says anything

    @property
    def is_rewritten(self) -> bool:
        """Whether the text of a number or a time is changed before it is read."""
        return self.pattern is not None or bool(self.values) or self.null_words is not None


def _as_column(value: object) -> object:
    return {"column": value} if isinstance(value, str) else value


class Options(_Part):
    """`source.options` of a table."""

    columns: Mapping[
        str, Annotated[Column, BeforeValidator(_as_column)]
    ]  # canonical column: the file's column, or how to read it
    kind: Literal["csv", "parquet", "jsonl", "json"] | None = None  # of the files; default: by their names and first characters
    delimiter: str = Field(default=",", min_length=1, max_length=1)  # of CSV: what stands between two fields
    comment: str | None = Field(default=None, min_length=1)  # of CSV: lines that begin so are no records
    header: tuple[str, ...] | None = None  # of CSV: the columns' names, for files without a header line
    #: Which records are jobs: a column of the file, and the words it has there; the others are passed over and counted.
    only_where: Mapping[str, tuple[str, ...]] = {}
    records: str | None = Field(default=None, min_length=1)  # of JSON: the key of the array of jobs inside one object
    time: TimeFormat = "naive"  # how times are written (below), unless a column says otherwise
    null_words: tuple[str, ...] | None = (
        None  # words that mean null, unless a column says otherwise; default: none, NA, null, - ...
    )
    start_time_is: Literal["last_start", "first_start"] = (
        "last_start"  # of a job started more than once; first_start: waits lie between start and end, so it has no runtime and is excluded
    )
    start_is_submit: bool = False  # the log has no start: take the submission for it, and flag each row
    zero_runtime: Literal["ran", "cancelled_never_started"] = "ran"  # what CANCELLED with 0 s means, in logs without a start time
    runtime_begins: Literal["start", "submission"] = "start"  # submission: runtime_s holds the wait, which is taken off
    log_end: datetime | None = (
        None  # jobs in an open state that end then are open; any that end before it ended by that: COMPLETED, if they ran
    )
    runtime_clamped_at_s: float | None = Field(default=None, gt=0)  # at it and above a runtime is a lower bound: censored
    array_pattern: str | None = None  # RE2 over job_id with groups `array` and, optional in the match, `task`
    repeated_ids: Literal["one_job", "array_tasks"] = "one_job"  # array_tasks: the log lost the task numbers; told apart by order
    constants: Mapping[str, str] = {}  # text columns, and counts of nodes, CPUs and GPUs, that are the same for every job

    @field_validator("columns", "constants")
    @classmethod
    def _known_columns(cls, value: Mapping[str, object]) -> Mapping[str, object]:
        unknown = sorted(set(value) - set(MAPPABLE))
        if unknown:
            raise ValueError(f"{', '.join(unknown)}: no such canonical column; known are {', '.join(MAPPABLE)}")
        return value

    @field_validator("columns")
    @classmethod
    def _columns_say_what_is_done(cls, value: Mapping[str, Column]) -> Mapping[str, Column]:
        for name, column in value.items():
            if fault := _fault(name, column, value):
                raise ValueError(f"{name}: {fault}")
        return value

    @field_validator("log_end")
    @classmethod
    def _is_a_moment(cls, value: datetime | None) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError(f"{value} has no timezone; write it with its offset, e.g. 2026-06-30T00:00:00Z")
        return value

    @field_validator("array_pattern")
    @classmethod
    def _usable_array_pattern(cls, value: str | None) -> str | None:
        return _checked_pattern(value, ("array", "task"))

    @model_validator(mode="after")
    def _constants_are_texts(self) -> Self:
        wrong = sorted(set(self.constants) - {*TEXTS, *CONSTANT_COUNTS, "state"} | set(self.constants) & set(self.columns))
        if wrong:
            raise ValueError(f"constants: {', '.join(wrong)}: only text columns, and counts, that `columns` does not name")
        no_count = [name for name in CONSTANT_COUNTS if not self.constants.get(name, "0").isdecimal()]
        if no_count:
            raise ValueError(f"constants: {', '.join(no_count)}: expected a whole number")
        return self

    @model_validator(mode="after")
    def _ids_are_there_to_be_read(self) -> Self:
        if "job_id" not in self.columns and (self.array_pattern or self.repeated_ids != "one_job"):
            raise ValueError("array_pattern and repeated_ids read job_id, which `columns` does not name")
        return self

    @model_validator(mode="after")
    def _moments_follow(self) -> Self:
        """Refuse a map from which no submission, start or end follows, or two starts."""
        has = self.columns.keys()
        if self.runtime_begins == "submission" and not {"runtime_s", "queue_s"} <= has:
            raise ValueError("runtime_begins: submission needs runtime_s and queue_s among the columns")
        if "submit_time" not in has:
            raise ValueError("no submission time: `columns` names no submit_time, and none can be made up")
        if not has & {"end_time", "runtime_s"}:
            raise ValueError("neither end_time nor runtime_s is mapped, so no job has a runtime to learn from")
        if {STARTS, RESTARTS} <= has:
            raise ValueError("starts and restarts say the same; leave one out")
        if self.start_time_is == "first_start" and not ("start_time" in has and has & {STARTS, RESTARTS}):
            raise ValueError("start_time_is: first_start needs start_time, and starts or restarts, among the columns")
        says_start = bool(has & {"start_time", "queue_s"}) or {"end_time", "runtime_s"} <= has
        if not says_start and not self.start_is_submit:
            raise ValueError(
                "nothing says when a job started. Map start_time or queue_s, or set start_is_submit "
                "where the log's durations begin at submission or its waits are lost."
            )
        if says_start and self.start_is_submit:
            raise ValueError("start_is_submit is for logs without a start, and `columns` says when jobs started; leave one out")
        return self


def _fault(name: str, column: Column, columns: Mapping[str, object]) -> str | None:
    """Return why an option of a canonical column would do nothing, or None."""
    units = units_of(name)
    if column.unit is not None and column.unit not in units:
        return (
            f"unit {column.unit!r} is none of its units: {', '.join(units)}" if units
            else "has no unit" + ("; say `time: epoch_ms` or the like" if name in TIMES else "")
        )  # fmt: skip
    if column.detail and name != "state":
        return "`detail` is for state"
    if column.time is not None and name not in TIMES:
        return "`time` is for submit_time, start_time and end_time"
    if column.zero_is_null and name not in NUMBERS:
        return "`zero_is_null` is for numbers; say `null_words: ['0']`"
    if column.times is None:
        return None
    if isinstance(column.times, Factor):
        return None if name in COUNTS else f"`times` is for {', '.join(COUNTS)}"
    if name not in ("gpu_count", "cpu_count", "mem_mib") or column.times == name:
        return f"`times: {column.times}` is for gpu_count, cpu_count and mem_mib"
    return None if column.times in columns else f"`times: {column.times}` needs {column.times} among the columns"


def units_of(name: str) -> tuple[str, ...]:
    if name in DURATIONS or name == "time_limit_s":
        return (*DURATION_UNITS, *CLOCK_UNITS)
    if name == "mem_mib":
        return (*MEMORY_UNITS, MEMORY_SUFFIX)
    return tuple(COUNT_UNITS) if name in NUMBERS else ()


def _checked_pattern(value: str | None, groups: tuple[str, ...]) -> str | None:
    if value is None:
        return None
    try:
        struct = pc.extract_regex(pa.array([""]), value).type
    except pa.ArrowInvalid as error:
        raise ValueError(f"{value!r} is no RE2 pattern with named groups: {error}") from error
    missing = [name for name in groups if struct.get_field_index(name) < 0]
    if missing:
        raise ValueError(f"{value!r} names no group {', '.join(missing)}")
    return value
