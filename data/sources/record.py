"""From columns of a log to canonical rows: keys, labels, queueing times and flags, one way for every source."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.cluster import Cluster
from runcast.data.columns import BY_NAME, LARGEST_NUMBER, SMALLEST_NUMBER
from runcast.data.schema import JOBS
from runcast.data.sources.batch import Reject
from runcast.data.states import OPEN_STATES, STATES

UTC_US = pa.timestamp("us", tz="UTC")
LATEST_US = 4_102_444_800_000_000  # 2100-01-01: beyond it a number was read in the wrong unit
_LONGEST_S = 2 * LATEST_US / 1e6


class Instants:
    """Moments in int64 microseconds since 1970 UTC, with the mask of those that are known (0 elsewhere)."""

    def __init__(self, us: np.ndarray, known: np.ndarray) -> None:
        self.known = known
        self.us = np.where(known, us, 0).astype(np.int64)

    @classmethod
    def none(cls, rows: int) -> "Instants":
        return cls(np.zeros(rows, np.int64), np.zeros(rows, bool))

    def take(self, rows: np.ndarray) -> "Instants":
        return Instants(self.us[rows], self.known[rows])

    def to_arrow(self) -> pa.Array:
        return pa.array(self.us, mask=~self.known).cast(UTC_US)


def seconds_to_us(seconds: np.ndarray) -> np.ndarray:
    """Round seconds to int64 microseconds; NaN and what no log can hold become 0, for the caller's masks to sort out."""
    usable = np.isfinite(seconds) & (np.abs(seconds) < LATEST_US / 1e6)
    return np.round(np.where(usable, seconds, 0.0) * 1e6).astype(np.int64)


def spans_us(seconds: np.ndarray) -> np.ndarray:
    """Round durations to int64 microseconds, NaN to 0; one that no log can hold stays one: added to a moment it is out of range."""
    spans: np.ndarray = np.round(np.clip(np.nan_to_num(seconds, nan=0.0), -_LONGEST_S, _LONGEST_S) * 1e6).astype(np.int64)
    return spans


def out_of_range(*moments: Instants) -> np.ndarray:
    """Tell where one of a row's moments is beyond what any log can hold."""
    beyond: np.ndarray = np.logical_or.reduce([np.abs(moment.us) >= LATEST_US for moment in moments])
    return beyond


def floats(values: np.ndarray, known: np.ndarray) -> pa.Array:
    """Return a float64 column, null where not `known`."""
    return pa.array(np.where(known, values, 0.0), pa.float64(), mask=~known)


def whole_number_text(values: np.ndarray, known: np.ndarray) -> pa.Array:
    """Return whole numbers as text without a point, null where not `known`."""
    return pa.array(np.where(known, values, 0).astype(np.int64), mask=~known).cast(pa.string())


def flag_lists(rows: int, flags: Mapping[str, np.ndarray]) -> pa.Array:
    """Turn masks by flag name into one list of names per row, in the mapping's order."""
    names = [name for name, mask in flags.items() if mask.any()]
    if not names:
        return pa.ListArray.from_arrays(pa.array(np.zeros(rows + 1, np.int32)), pa.array([], pa.string()))
    raised = np.stack([flags[name] for name in names], axis=1)
    offsets = np.concatenate([[0], np.cumsum(raised.sum(axis=1))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(names, pa.string()).take(pa.array(np.nonzero(raised)[1])))


def sources(file: str, lines: np.ndarray) -> pa.Array:
    """Return `file:line` for each row."""
    return pc.binary_join_element_wise(pa.scalar(file), pa.array(lines).cast(pa.string()), ":")


def blank_to_null(values: pa.Array) -> pa.Array:
    """Return text without blanks around it, null where nothing is left."""
    tidy = pc.utf8_trim_whitespace(values)
    return pc.if_else(pc.equal(tidy, ""), pa.scalar(None, pa.string()), tidy)


def refuse(
    faults: Mapping[str, np.ndarray], lines: np.ndarray, raw: Callable[[int], str], file: str
) -> tuple[list[Reject], np.ndarray]:
    """Turn masks by reason into rejects, each row with the first reason that fits; also the positions that are left."""
    refused = np.zeros(len(lines), bool)
    rejects: list[Reject] = []
    for reason, mask in faults.items():
        rejects += [Reject(file, int(lines[i]), reason, "", raw(i)) for i in map(int, np.flatnonzero(mask & ~refused))]
        refused |= mask
    return rejects, np.flatnonzero(~refused)


def in_order(*rejects: Sequence[Reject]) -> tuple[Reject, ...]:
    """Return rejects of several steps in the order of their lines."""
    return tuple(sorted((r for some in rejects for r in some), key=lambda r: r.line))


def counted(flags: Mapping[str, np.ndarray], **more: int) -> dict[str, int]:
    """Count the rows that raise each flag, and what else is worth a note; nothing where nothing is."""
    counts = {**{name: int(mask.sum()) for name, mask in flags.items()}, **more}
    return {name: count for name, count in counts.items() if count}


def _sound(name: str, values: pa.Array) -> pa.Array:
    """Return a column without what says nothing: blank texts, and numbers below 0 or beyond what any request can be.

    The bounds are those of a submission that asks for a forecast: a model could not learn from, nor be asked, what lies outside.
    """
    if pa.types.is_floating(values.type):
        size = pc.abs(values) if name == "priority" else values
        within = pc.and_(pc.greater_equal(size, SMALLEST_NUMBER), pc.less_equal(size, LARGEST_NUMBER))
        unsound = pc.invert(pc.or_(within, pc.equal(values, 0.0)))
    elif pa.types.is_string(values.type) and BY_NAME[name].nullable:
        unsound = pc.equal(pc.utf8_trim_whitespace(values), "")
    else:
        return values
    if not pc.any(unsound).as_py():
        return values
    return pc.if_else(pc.fill_null(unsound, False), pa.scalar(None, values.type), values)


def labels(states: pa.Array, state_known: np.ndarray, started: np.ndarray, ended: np.ndarray, clamped: np.ndarray) -> pa.Array:
    """Label each row: the role of its state; `event` where the log has no state but an end; `censored` where clamped.

    Excluded is what never started, or has ended without a start.
    """
    encoded = states.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    at = encoded.indices.to_numpy(zero_copy_only=False)
    roles = np.array([STATES[name] for name in names] or ["excluded"], dtype=object)[at]
    is_open = np.array([name in OPEN_STATES for name in names] or [False])[at]
    roles = np.where(state_known, roles, "event")
    roles = np.where(clamped, "censored", roles)
    return pa.array(np.where(started & (ended | is_open), roles, "excluded"), pa.string())


def jobs_table(
    cluster: Cluster,
    columns: Mapping[str, pa.Array],
    *,
    submit: Instants,
    start: Instants,
    end: Instants,
    flags: Mapping[str, np.ndarray],
    state_known: np.ndarray | None = None,
    clamped: np.ndarray | None = None,
    first_start: Instants | None = None,
    queued: Instants | None = None,
    attempts: np.ndarray | None = None,
    runtime_lost: np.ndarray | None = None,
) -> pa.Table:
    """Build canonical rows from the columns a source has (job_id, state and source among them) and its instants.

    Missing columns become typed nulls. `first_start` (default: start) less `queued` (default: submit) gives queue_s, null where the
    first start is not known.
    `state_known` is False where the log says nothing about how the job ended; `runtime_lost` is True where start and end do not
    bound one run, so that the row is excluded.
    """
    rows = len(submit.us)
    no = np.zeros(rows, bool)
    first = start if first_start is None else first_start
    usable = ~no if runtime_lost is None else ~runtime_lost
    ran = start.known & end.known & usable
    ids, states = columns["job_id"], columns["state"]
    derived: dict[str, pa.Array] = {
        "cluster": pa.repeat(cluster.name, rows),
        "job_key": pc.binary_join_element_wise(cluster.name, ids, pa.array(submit.us).cast(pa.string()), ":"),
        "submit_time": submit.to_arrow(),
        "start_time": start.to_arrow(),
        "end_time": end.to_arrow(),
        "runtime_s": floats((end.us - start.us) / 1e6, ran),
        "queue_s": floats((first.us - (submit if queued is None else queued).us) / 1e6, first.known),
        "label": labels(
            states,
            ~no if state_known is None else state_known,
            start.known & usable,
            end.known,
            no if clamped is None else clamped,
        ),
        "attempts": pa.array((start.known if attempts is None else attempts).astype(np.int32)),
        "flags": flag_lists(rows, flags),
    }
    known = "time_limit_s" in columns and cluster.time_limit != "absent"
    derived["time_limit_s"] = _sound("time_limit_s", columns["time_limit_s"]) if known else pa.nulls(rows, pa.float64())
    derived["time_limit_kind"] = pc.if_else(pc.is_valid(derived["time_limit_s"]), cluster.time_limit, "absent")
    every = {**{name: _sound(name, values) for name, values in columns.items()}, **derived}
    if "time_limit_kind" in columns and known:
        every["time_limit_kind"] = columns["time_limit_kind"]
    if "runtime_s" in columns:  # a source whose label is not the span: a null there excludes
        every["runtime_s"] = columns["runtime_s"]
        lost = pc.and_(pc.is_null(columns["runtime_s"]), pa.array(end.known))
        every["label"] = pc.if_else(lost, "excluded", every["label"])
    arrays = [every[f.name].cast(f.type) if f.name in every else pa.nulls(rows, f.type) for f in JOBS]
    return pa.Table.from_arrays(arrays, schema=JOBS)
