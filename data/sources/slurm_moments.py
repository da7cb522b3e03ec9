"""When a Slurm job was submitted, started and ended, as far as its record can be believed.

- A job that has not ended has no end, and one that waits has no start, whatever the log writes there: they are forecasts.
- A job cancelled while it waited shows its cancellation as start and end, and "None assigned" as its nodes: it never started. In a
  log without nodes a cancelled job of no length counts as one that never started.
- A start some seconds before the submission is a clock that is off: start and end are moved by the difference. Submission and runtime
  stay, so that the job keeps its key and the feeder beside the scheduler, which tells of the submission first, can do the same.
- Waiting counts from Eligible, where the log has it: a job that is held, or depends on another, does not queue.
- A requeued job waits; the start and end of its record are those of the attempt before.
- Of the two instants of a repeated hour Elapsed decides, where the log has it, and in any case the order of the moments.
- Elapsed leaves out the time that Suspended counts; the runtime is end - start, the time the job held its nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.slurm_words import NO_VALUE_WORDS
from runcast.data.sources.durations import CLOCKS_DIFFER_S, duration_s
from runcast.data.sources.record import Instants, out_of_range, spans_us
from runcast.data.sources.slurm_fields import NO_NODES, Fields, is_one_of, mask_of
from runcast.data.sources.slurm_resources import tres
from runcast.data.sources.times import Times, microseconds, parse_times
from runcast.data.states import OPEN_STATES, OTHER, WAITING_STATES

#: States of a job that was started before and is queued again.
WAITS_AGAIN = frozenset({"REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})
_CLOCKS_DIFFER_US = CLOCKS_DIFFER_S * 1_000_000
_ENDED_IN_THE_QUEUE = frozenset({"CANCELLED", "DEADLINE"})
#: Ended states in which a job may never have started; in the others a missing start is a fault of the log.
_MAY_NEVER_START = frozenset(
    {"CANCELLED", "FAILED", "DEADLINE", "NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED", "UPDATE_DB", OTHER}
)


@dataclass(frozen=True)
class Moments:
    """The moments of each record; `attempt_start` and `attempt_end` are those of a requeued job's last attempt too.

    Waiting counts from `queued`.
    """

    submit: Instants
    queued: Instants
    start: Instants
    end: Instants
    attempt_start: Instants
    attempt_end: Instants
    flags: Mapping[str, np.ndarray]

    def take(self, rows: np.ndarray) -> "Moments":
        return Moments(
            self.submit.take(rows),
            self.queued.take(rows),
            self.start.take(rows),
            self.end.take(rows),
            self.attempt_start.take(rows),
            self.attempt_end.take(rows),
            {name: mask[rows] for name, mask in self.flags.items()},
        )


@dataclass(frozen=True)
class _Elapsed:
    us: np.ndarray  # 0 where not known
    known: np.ndarray
    unreadable: np.ndarray  # what is there but is no duration, such as a negative one


def find_moments(fields: Fields, states: pa.Array, time_zone: str) -> tuple[Moments, dict[str, np.ndarray]]:
    """Return the moments of each record, and masks by reason of the records that contradict themselves."""
    is_open, waits, waits_again = (is_one_of(states, names) for names in (OPEN_STATES, WAITING_STATES, WAITS_AGAIN))
    times = {n: parse_times(fields.text(n), time_zone) for n in ("submit", "start", "end") if n in fields.columns}
    elapsed, suspended = _elapsed(fields), fields.read("suspended", duration_s).numbers(lambda seconds: seconds)
    held = _Elapsed(elapsed.us + spans_us(suspended), elapsed.known, elapsed.unreadable)
    submit = _instants(times, "submit", fields.rows)
    start, end = _span(times, submit, held, fields.rows)
    early_us = np.where(start.known & ~waits, submit.us - start.us, 0)
    is_early = (early_us > 0) & (early_us <= _CLOCKS_DIFFER_US)
    start, end = (Instants(moment.us + np.where(is_early, early_us, 0), moment.known) for moment in (start, end))
    no_length = ~is_open & start.known & end.known & (end.us <= start.us) & (elapsed.us == 0)
    unstarted = no_length & _without_nodes(fields, states)
    had_start, had_end = start, end
    start = _only(start, ~waits & ~unstarted)
    end = _only(end, ~is_open)
    attempt_start = _only(had_start, (start.known | waits_again) & (had_start.us >= submit.us))
    attempt_end = _only(had_end, ~is_open | waits_again)
    read = {"submit": np.ones(fields.rows, bool), "start": ~waits, "end": ~is_open}
    ran = start.known & end.known
    span_us = end.us - start.us
    flags = {
        "clock_ambiguous": np.logical_or.reduce([times[name].ambiguous & read[name] for name in times]),
        "never_started": ~start.known & ~is_open,
        "requeued": waits_again,
        "duration_differs": ran & held.known & (np.abs(span_us - held.us) > 1_000_000),
        "suspended": suspended > 0,
        "start_before_submit": is_early,
    }
    faults: dict[str, np.ndarray] = {"submit_missing": times["submit"].missing}
    for name, parsed in times.items():
        faults[f"{name}_unreadable"] = parsed.unreadable & read[name]
        faults[f"{name}_nonexistent"] = parsed.nonexistent & read[name]
    faults |= {
        "elapsed_unreadable": elapsed.unreadable,
        "end_missing": ~is_open & ~end.known,
        "start_missing": ~start.known & ~waits & ~unstarted & ~is_one_of(states, _MAY_NEVER_START),
        "start_before_submit": start.known & (start.us < submit.us),
        "end_before_start": ran & (end.us < start.us),
        "end_before_submit": ~start.known & end.known & (end.us < submit.us),
        "time_out_of_range": out_of_range(submit, start, end),
    }
    queued = _queued(fields, time_zone, submit, attempt_start)
    return Moments(submit, queued, start, end, attempt_start, attempt_end, flags), faults


def _queued(fields: Fields, time_zone: str, submit: Instants, start: Instants) -> Instants:
    """Return from when a job waited for resources: Eligible, where it lies between submission and start.

    Of an array's task it is no such moment: Slurm 22.05 writes that of its start there (tests/data/slurm_22_05).
    """
    if "eligible" not in fields.columns:
        return submit
    eligible = Instants(*microseconds(parse_times(fields.text("eligible"), time_zone).utc))
    is_held = eligible.known & start.known & (submit.us < eligible.us) & (eligible.us <= start.us)
    is_held &= ~mask_of(pc.match_substring(fields.ids, "_"))
    return Instants(np.where(is_held, eligible.us, submit.us), submit.known)


def _span(times: Mapping[str, Times], submit: Instants, elapsed: _Elapsed, rows: int) -> tuple[Instants, Instants]:
    """Find start and end: as written, or by Elapsed where the log has a column for only one of them."""
    start, end = _instants(times, "start", rows), _instants(times, "end", rows)
    if "end" not in times:
        return start, Instants(start.us + elapsed.us, start.known & elapsed.known)
    if "start" not in times:
        return Instants(end.us - elapsed.us, end.known & elapsed.known), end
    if not (times["start"].ambiguous | times["end"].ambiguous).any():
        return start, end
    later_start, later_end = (Instants(*microseconds(times[name].second)) for name in ("start", "end"))
    best_start, best_end = start.us, end.us
    best = _strain(submit, start, end, elapsed)
    for s, e in ((start, later_end), (later_start, later_end), (later_start, end)):
        strain = _strain(submit, s, e, elapsed)
        better = strain < best
        best_start, best_end = np.where(better, s.us, best_start), np.where(better, e.us, best_end)
        best = np.minimum(best, strain)
    return Instants(best_start, start.known), Instants(best_end, end.known)


def _strain(submit: Instants, start: Instants, end: Instants, elapsed: _Elapsed) -> np.ndarray:
    """Say by how many microseconds moments contradict each other and Elapsed."""
    waited = np.where(submit.known & start.known, np.maximum(submit.us - start.us, 0), 0)
    span = np.where(start.known & end.known, end.us - start.us, 0)
    strain: np.ndarray = waited + np.where(elapsed.known & end.known, np.abs(span - elapsed.us), np.maximum(-span, 0))
    return strain


def _elapsed(fields: Fields) -> _Elapsed:
    name, read = ("elapsedraw", _whole_seconds) if "elapsedraw" in fields.columns else ("elapsed", duration_s)
    looked = fields.read(name, lambda text: None if text in NO_VALUE_WORDS else (read(text),))
    seconds = looked.numbers(lambda value: None if value is None else value[0])
    known = ~np.isnan(seconds)
    unreadable = looked.mask(lambda value: value is not None and value[0] is None)
    return _Elapsed(spans_us(seconds), known, unreadable)


def _whole_seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


def _without_nodes(fields: Fields, states: pa.Array) -> np.ndarray:
    """Return which records were given no nodes; where the log does not say, those that can end in the queue."""
    if "nodelist" in fields.columns:
        return mask_of(fields.words("nodelist", NO_NODES).is_null())
    if "alloctres" in fields.columns:
        return fields.read("alloctres", tres).mask(lambda allocated: allocated.cpus is None)
    no_nodes: np.ndarray = fields.read("nnodes", str.strip).mask(lambda text: text == "0")
    no_nodes |= is_one_of(states, _ENDED_IN_THE_QUEUE)
    return no_nodes


def _instants(times: Mapping[str, Times], name: str, rows: int) -> Instants:
    return Instants(*microseconds(times[name].utc)) if name in times else Instants.none(rows)


def _only(instants: Instants, mask: np.ndarray) -> Instants:
    return Instants(instants.us, instants.known & mask)
