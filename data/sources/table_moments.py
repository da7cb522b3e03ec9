"""When each row of a table was submitted, started and ended, what state follows, and which rows cannot be jobs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.sources.numbers import Numbers
from runcast.data.sources.record import Instants, out_of_range, spans_us
from runcast.data.sources.table_options import DURATIONS, RESTARTS, STARTS, TIMES, Options
from runcast.data.sources.times import Times, microseconds
from runcast.data.states import OPEN_STATES, WAITING_STATES


@dataclass(frozen=True)
class Moments:
    """When each row was submitted, ran and ended, what state follows, and what was assumed for it."""

    submit: Instants
    start: Instants
    end: Instants
    states: pa.Array
    clamped: np.ndarray
    is_open: np.ndarray
    flags: dict[str, np.ndarray]


def _instants(times: Times | None, rows: int) -> Instants:
    return Instants.none(rows) if times is None else Instants(*microseconds(times.utc))


def derive_moments(
    when: Mapping[str, Times], numbers: Mapping[str, Numbers], states: pa.Array, state_known: np.ndarray, options: Options
) -> Moments:
    """Derive what a row does not say itself from what it says, and flag it."""
    rows = len(states)
    no = np.zeros(rows, bool)
    submit, start, end = (_instants(when.get(name), rows) for name in TIMES)
    runtime = numbers.get("runtime_s")
    run_us = spans_us(runtime.values if runtime else np.zeros(rows))
    run_known = runtime.known if runtime else no
    if "start_time" in when and "end_time" in when and runtime:
        start, end = _settle_clock(when, start, end, run_us, run_known)
    elif "start_time" in when and "end_time" in when:
        later = microseconds(when["end_time"].second)[0]
        end = Instants(np.where(start.known & (end.us < start.us), later, end.us), end.known)
    elif "start_time" not in when:
        start = _derived_start(submit, end, numbers, run_us, run_known, options)
    names = np.array(states.to_pylist(), dtype=object)
    zero = run_known & (run_us == 0) if options.zero_runtime == "cancelled_never_started" else no
    start = Instants(start.us, start.known & ~(zero & (names == "CANCELLED")))
    if STARTS in numbers:
        start = Instants(start.us, start.known & ~(numbers[STARTS].known & (numbers[STARTS].values == 0)))
    if "end_time" not in when:
        waited = numbers.get("queue_s")
        withdrawn = submit.us + (spans_us(waited.values) if waited else 0)
        never = submit.known & ~start.known & (names == "CANCELLED")
        ends = np.where(never, withdrawn, start.us + run_us)
        end = Instants(ends, (start.known & run_known) | never)
    names = np.where(~state_known & ~end.known, np.where(start.known, "RUNNING", "PENDING"), names)
    by_deletion, at_log_end = _before_log_end(names, end, options)
    names = np.where(by_deletion, np.where(np.isin(names, list(WAITING_STATES)), "CANCELLED", "COMPLETED"), names)
    is_open = np.isin(names, list(OPEN_STATES))
    forecast = is_open & end.known
    end = Instants(end.us, end.known & ~is_open)
    never = ~start.known & ~is_open
    assumed = never & ~end.known
    end = Instants(np.where(assumed, submit.us, end.us), end.known | assumed)
    ran_us = end.us - start.us
    clamp = options.runtime_clamped_at_s
    clamped = start.known & end.known & (ran_us >= clamp * 1e6) if clamp else no
    clock = np.logical_or.reduce([t.ambiguous for t in when.values()])
    flags = {
        "never_started": never,
        "requeued": starts_of(numbers, start.known) > 1 if options.start_time_is == "first_start" else no,
        "end_assumed": assumed,
        "start_assumed": start.known if options.start_is_submit else no,
        "ended_by_deletion": by_deletion & start.known,
        "open_at_log_end": is_open & at_log_end,
        "end_is_forecast": forecast & ~at_log_end,
        "runtime_clamped": clamped,
        "clock_ambiguous": clock,
        "duration_differs": start.known & end.known & run_known & (np.abs(ran_us - run_us) > 1e6),
        "state_unknown": ~state_known & end.known,
    }
    return Moments(submit, start, end, pa.array(names, pa.string()), clamped, is_open, flags)


def _before_log_end(names: np.ndarray, end: Instants, options: Options) -> tuple[np.ndarray, np.ndarray]:
    """Return where the end of a job in an open state is true, and where it is that of the log; nowhere if the log's end is not given."""
    if options.log_end is None:
        return np.zeros(len(names), bool), np.zeros(len(names), bool)
    at_log_end = ~end.known | (end.us >= round(options.log_end.timestamp() * 1e6))
    return np.isin(names, list(OPEN_STATES)) & ~at_log_end, at_log_end


def starts_of(numbers: Mapping[str, Numbers], started: np.ndarray) -> np.ndarray:
    """Return how often each job was started, as the log counts it, once more than it was restarted, or once; 0 if it never was."""
    if STARTS in numbers:
        return np.where(started, np.maximum(numbers[STARTS].values, 1), 0)
    return started + (np.where(started, numbers[RESTARTS].values, 0) if RESTARTS in numbers else 0)


def _derived_start(
    submit: Instants, end: Instants, numbers: Mapping[str, Numbers], run_us: np.ndarray, run_known: np.ndarray, options: Options
) -> Instants:
    if "queue_s" in numbers:
        waited = numbers["queue_s"]
        return Instants(submit.us + spans_us(waited.values), submit.known & waited.known)
    if end.known.any() and run_known.any():
        return Instants(end.us - run_us, end.known & run_known)
    return (
        Instants(submit.us, submit.known & (run_known | end.known)) if options.start_is_submit else Instants.none(len(submit.us))
    )


def _settle_clock(
    when: Mapping[str, Times], start: Instants, end: Instants, run_us: np.ndarray, run_known: np.ndarray
) -> tuple[Instants, Instants]:
    """Choose, where the clock showed an hour twice, the instants that agree with the recorded duration."""
    starts, ends = when["start_time"], when["end_time"]
    doubtful = (starts.ambiguous | ends.ambiguous) & run_known & start.known & end.known
    if not doubtful.any():
        return start, end
    later_start, later_end = microseconds(starts.second)[0], microseconds(ends.second)[0]
    start_us, end_us = start.us.copy(), end.us.copy()
    settled = ~doubtful
    for a, b in ((start.us, end.us), (start.us, later_end), (later_start, end.us), (later_start, later_end)):
        fits = ~settled & (np.abs(b - a - run_us) <= 1e6)
        start_us[fits], end_us[fits] = a[fits], b[fits]
        settled |= fits
    return Instants(start_us, start.known), Instants(end_us, end.known)


def find_faults(
    when: Mapping[str, Times], numbers: Mapping[str, Numbers], ran: Moments, ids: pa.Array | None
) -> dict[str, np.ndarray]:
    """Masks by reason of rows that cannot be jobs; the first reason that fits a row is its."""
    faults: dict[str, np.ndarray] = {}
    for name, times in when.items():
        faults[f"{name}_unreadable"] = times.unreadable
        faults[f"{name}_nonexistent"] = times.nonexistent
    for name in DURATIONS:
        if name in numbers:
            faults[f"{name}_unreadable"] = numbers[name].unreadable
    if "runtime_s" in numbers:
        faults["runtime_negative"] = numbers["runtime_s"].values < 0
    if ids is not None:
        faults["job_id_missing"] = pc.is_null(ids).to_numpy(zero_copy_only=False)
    faults["submit_missing"] = ~ran.submit.known
    faults["end_missing"] = ran.start.known & ~ran.end.known & ~ran.is_open
    both = ran.start.known & ran.end.known
    faults["start_before_submit"] = ran.start.known & (ran.start.us < ran.submit.us)
    faults["end_before_start"] = both & (ran.end.us < ran.start.us)
    faults["end_before_submit"] = ran.end.known & (ran.end.us < ran.submit.us)
    faults["time_out_of_range"] = out_of_range(ran.submit, ran.start, ran.end)
    return faults


def without_wait(runtime: Numbers, waited: Numbers) -> Numbers:
    """Take the wait off durations that begin at the submission; unknown where the wait is, negative where it is longer."""
    known = runtime.known & waited.known
    return runtime._replace(values=np.where(known, runtime.values - waited.values, 0.0), known=known)
