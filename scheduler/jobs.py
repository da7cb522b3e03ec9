"""A job or an event as the outside world tells it, checked field by field.

Names are those of the canonical columns known at submission. A field may be missing or null; an empty text is null. Times are
ISO 8601 with an offset, or seconds since 1970. Whatever is wrong is a JobFieldError that names the field.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from runcast.data.columns import BY_NAME, COLUMNS, LARGEST_NUMBER, SMALLEST_NUMBER, TIME_LIMIT_KINDS
from runcast.scheduler.errors import JobFieldError

LONGEST_TEXT = 4096  # PATH_MAX of Linux: the longest working directory there can be
LARGEST_WHOLE = 2**31 - 1  # of the lake's whole numbers
LATEST_S = 4102444800.0  # 2100-01-01: what lies beyond is milliseconds taken for seconds
AHEAD_US = 300_000_000  # what another clock may be ahead of ours: what lies later has not happened, and ages everybody's history

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_TOLD = ("cluster", "job_key", "source")  # the service's own business


@dataclass(frozen=True)
class Field:
    """One field of a job at submission."""

    name: str
    is_number: bool
    is_required: bool
    meaning: str


SUBMISSION_FIELDS: tuple[Field, ...] = tuple(
    Field(c.name, c.type in ("float64", "int32"), c.name == "submit_time", c.meaning)
    for c in COLUMNS
    if c.known_at == "submit" and c.name not in _NOT_TOLD
)
WHOLE_NUMBERS = frozenset(c.name for c in COLUMNS if c.type == "int32" and c.known_at == "submit")
_BY_NAME = {field.name: field for field in SUBMISSION_FIELDS}
_BLANK: dict[str, Any] = {c.name: None for c in COLUMNS if c.known_at == "submit"}


def parse(text: str | bytes) -> Any:
    """Return what JSON says; raises ValueError (or RecursionError) where it is none, and at NaN and infinities, which JSON has not."""
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    return _DECODER.decode(text)


def read_job(told: Mapping[str, Any], time_limit: str = "hard", now_us: int | None = None) -> dict[str, Any]:
    """Return the job with every column known at submission, None where unknown, `submit_time` in microseconds since 1970.

    `time_limit` is what the cluster's limits mean (hard, advisory, absent): of a job that does not say so itself. Where `now_us` is
    given, the submission may lie at most AHEAD_US after it.
    """
    if not isinstance(told, Mapping):
        raise JobFieldError("job", f"expected an object of fields, found {type(told).__name__}")
    job = dict(_BLANK)
    for name, value in told.items():
        field = _BY_NAME.get(name)
        if field is None:
            raise JobFieldError(str(name)[:100], _why_unknown(name))
        if value is None or value == "":
            continue
        if name == "submit_time":
            job[name] = read_time_us(name, value)
        elif field.is_number:
            job[name] = _number(name, value)
        else:
            job[name] = _text(name, value)
    if job["submit_time"] is None:
        raise JobFieldError("submit_time", "is required: ISO 8601 with an offset, or seconds since 1970")
    refuse_future("submit_time", job["submit_time"], now_us)
    if time_limit == "absent":
        job["time_limit_s"] = None
    kind = job["time_limit_kind"]
    if kind is None:
        job["time_limit_kind"] = "absent" if job["time_limit_s"] is None else time_limit
    elif kind not in TIME_LIMIT_KINDS:
        raise JobFieldError("time_limit_kind", f"expected one of {', '.join(TIME_LIMIT_KINDS)}, found {kind!r}")
    return job


def read_time_us(name: str, value: Any) -> int:
    """Return a time as microseconds since 1970 UTC; `value` is ISO 8601 with an offset, or seconds since 1970."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise JobFieldError(name, f"expected ISO 8601 with an offset or seconds since 1970, found {value[:60]!r}") from None
        if moment.tzinfo is None:
            raise JobFieldError(name, f"{value!r} has no offset; write e.g. {value}Z where it is UTC")
        if moment < _EPOCH or moment.year >= 2100:
            raise JobFieldError(name, f"{value!r} is outside 1970 to 2100")
        return (moment - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise JobFieldError(name, f"expected ISO 8601 with an offset or seconds since 1970, found {type(value).__name__}")
    if not 0 <= value < LATEST_S:  # also refuses NaN
        raise JobFieldError(name, f"{value!r} is outside 1970 to 2100; is it in seconds?")
    return round(value * 1_000_000)


def refuse_future(name: str, moment_us: int | None, now_us: int | None) -> None:
    """Raise JobFieldError where a time lies further ahead of now than clocks differ."""
    if moment_us is not None and now_us is not None and moment_us > now_us + AHEAD_US:
        ahead_s = (moment_us - now_us) // 1_000_000
        raise JobFieldError(
            name, f"is {ahead_s} s ahead of this machine's clock, at most {AHEAD_US // 1_000_000} s are taken; check both clocks"
        )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number; write null for an unknown value")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)  # made once: making one takes longer than reading a job


def _number(name: str, value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise JobFieldError(name, f"expected a number, found {_shown(value)}")
    if value != value:  # NaN; math.isnan overflows on a huge whole number
        return None
    if name in WHOLE_NUMBERS:
        if value % 1 or not -LARGEST_WHOLE - 1 <= value <= LARGEST_WHOLE:
            raise JobFieldError(
                name, f"expected a whole number from {-LARGEST_WHOLE - 1} to {LARGEST_WHOLE}, found {_shown(value)}"
            )
    elif name == "priority":
        if not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
            raise JobFieldError(name, f"{_shown(value)} is out of range")
    elif not (SMALLEST_NUMBER <= value <= LARGEST_NUMBER or value == 0):
        raise JobFieldError(name, f"expected 0 or {SMALLEST_NUMBER:g} to {LARGEST_NUMBER:g}{_unit(name)}, found {_shown(value)}")
    return float(value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise JobFieldError(name, f"expected text, found {_shown(value)}")
    if len(value) > LONGEST_TEXT:
        raise JobFieldError(name, f"is {len(value)} characters long, at most {LONGEST_TEXT} are taken")
    return value


def _unit(name: str) -> str:
    unit = BY_NAME[name].unit
    return f" {unit}" if unit else ""


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:40]!r}"


def _why_unknown(name: Any) -> str:
    column = BY_NAME.get(name) if isinstance(name, str) else None
    if column is not None and column.known_at != "submit":
        return f"is known only at the job's {column.known_at}, not at its submission"
    return f"unknown field; known are {', '.join(_BY_NAME)}"
