"""Kubernetes pods as in Alibaba's openb (cluster-trace-gpu-v2023): one line a pod, seconds on a clock without a date.

Columns name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, qos, pod_phase, creation_time, deletion_time, scheduled_time.
- `gpu_milli` is the share of each GPU. A pod runs on one node.
- Every pod has a deletion time, also those that were still running when the trace ended: these carry the trace's last second,
  and are open. A Running pod deleted before that ended then, which is how services end: COMPLETED, with a flag.
- A Pending pod was deleted without having been scheduled: it never started.
- Two columns more are read where a log has them: `reason` (of pods, or their containers, that failed: Evicted, OOMKilled,
  DeadlineExceeded ...) says more than the phase Failed, and `restarts` makes attempts. An evicted pod is censored.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.sources.batch import Batch
from runcast.data.sources.delimited import Piece, read_delimited
from runcast.data.sources.numbers import Numbers, read_numbers
from runcast.data.sources.record import (
    LATEST_US,
    Instants,
    blank_to_null,
    counted,
    floats,
    in_order,
    jobs_table,
    refuse,
    seconds_to_us,
    sources,
)
from runcast.data.states import canonical_states

COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase",
    "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip

_STATES = {
    "Succeeded": "COMPLETED", "Failed": "FAILED", "Running": "RUNNING", "Pending": "PENDING", "Evicted": "PREEMPTED",
}  # fmt: skip


class Options(BaseModel):
    """`source.options` of a pod list."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    trace_end_s: float | None = None  # the trace's last second, at which pods are open; default: the latest deletion in the file


def read(path: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield the pods of one list in the file's order; the file is read twice where its end is not given."""
    options = Options.model_validate(cluster.source.options)
    trace_end_s = options.trace_end_s if options.trace_end_s is not None else _latest_deletion(path)
    for piece in _pieces(path):
        yield _batch(piece, trace_end_s, cluster, path.name)


def _pieces(path: Path) -> Iterator[Piece]:
    for piece in read_delimited(path):
        missing = [name for name in COLUMNS if name not in piece.columns]
        if piece.columns and missing:
            raise SourceError(f"{path}: has no column {', '.join(missing)}; expected a pod list with {', '.join(COLUMNS)}")
        if piece.columns:
            yield piece


def _latest_deletion(path: Path) -> float:
    return max(
        (float(read_numbers(piece.columns["deletion_time"]).values.max(initial=0.0)) for piece in _pieces(path)), default=0.0
    )


def _batch(piece: Piece, trace_end_s: float, cluster: Cluster, file: str) -> Batch:
    rows = len(piece.lines)
    numbers = {
        name: read_numbers(piece.columns[name]) for name in COLUMNS if name not in ("name", "gpu_spec", "qos", "pod_phase")
    }
    created, deleted, scheduled = (numbers[f"{word}_time"] for word in ("creation", "deletion", "scheduled"))
    texts = {name: blank_to_null(piece.columns[name]) for name in ("name", "gpu_spec", "qos", "pod_phase")}
    phases = np.array(texts["pod_phase"].to_pylist(), dtype=object)
    at_end = ~deleted.known | (deleted.values >= trace_end_s)
    is_open = at_end & np.isin(phases, ("Running", "Pending"))
    withdrawn = (phases == "Pending") & ~is_open
    unscheduled = np.isin(phases, ("Running", "Succeeded")) & ~scheduled.known
    start = Instants(seconds_to_us(np.where(unscheduled, created.values, scheduled.values)), scheduled.known | unscheduled)
    submit = Instants(seconds_to_us(created.values), created.known)
    end = Instants(seconds_to_us(deleted.values), deleted.known & ~is_open)
    faults = _faults(numbers, texts["name"], submit, start, end, is_open)
    rejects, keep = refuse(faults, piece.lines, piece.raw_text, file)
    by_deletion = (phases == "Running") & ~is_open
    states = np.array([_STATES.get(phase, "OTHER") for phase in phases], dtype=object)
    states[by_deletion], states[withdrawn] = "COMPLETED", "CANCELLED"
    if "reason" in piece.columns:
        why = np.array(canonical_states(piece.columns["reason"]).to_pylist(), dtype=object)
        states = np.where((phases == "Failed") & (why != "OTHER"), why, states)
    flags = {
        "never_started": ~start.known & ~is_open,
        "start_assumed": unscheduled,
        "ended_by_deletion": by_deletion,
        "open_at_log_end": is_open,
    }
    flags = {name: mask[keep] for name, mask in flags.items()}
    take = pa.array(keep)
    gpus, share = numbers["num_gpu"], numbers["gpu_milli"]
    gpus_known = gpus.known & (share.known | (gpus.values == 0))
    columns = {
        "job_id": texts["name"],
        "qos": texts["qos"],
        "gpu_model": _one_model(texts["gpu_spec"]),
        "gpu_count": floats(gpus.values * share.values / 1000, gpus_known),
        "cpu_count": numbers["cpu_milli"].scaled(1e-3).to_arrow(),
        "mem_mib": numbers["memory_mib"].to_arrow(),
        "node_count": pa.array(np.ones(rows)),
        "state": pa.array(states, pa.string()),
        "source": sources(file, piece.lines),
    }
    jobs = jobs_table(
        cluster,
        {name: column.take(take) for name, column in columns.items()},
        submit=submit.take(keep),
        start=start.take(keep),
        end=end.take(keep),
        first_start=Instants(start.us, start.known & ~unscheduled).take(keep),
        flags=flags,
        attempts=_attempts(piece, start.known)[keep],
    )
    notes = counted(flags, unknown_state=int((states[keep] == "OTHER").sum()))
    return Batch(jobs, in_order(piece.rejects, rejects), piece.skipped, notes)


def _attempts(piece: Piece, started: np.ndarray) -> np.ndarray:
    """Return how often a pod was started: once more than it was restarted; what is no count is none."""
    if "restarts" not in piece.columns:
        return started
    restarts = read_numbers(piece.columns["restarts"]).values
    counts: np.ndarray = started + np.where(started & (restarts > 0) & (restarts < 1e6), np.floor(restarts), 0)
    return counts


def _faults(
    numbers: dict[str, Numbers], names: pa.Array, submit: Instants, start: Instants, end: Instants, is_open: np.ndarray
) -> dict[str, np.ndarray]:
    times = ("creation_time", "deletion_time", "scheduled_time")
    both = start.known & end.known
    return {
        **{f"{name}_unreadable": numbers[name].unreadable for name in times},
        "job_id_missing": pc.is_null(names).to_numpy(zero_copy_only=False),
        "submit_missing": ~submit.known,
        "end_missing": ~end.known & ~is_open,
        "start_before_submit": start.known & (start.us < submit.us),
        "end_before_start": both & (end.us < start.us),
        "end_before_submit": end.known & (end.us < submit.us),
        "time_out_of_range": np.logical_or.reduce([np.abs(numbers[name].values) >= LATEST_US / 1e6 for name in times]),
    }


def _one_model(specs: pa.Array) -> pa.Array:
    """A pod may name several models to choose from, as `V100M16|V100M32`."""
    return pc.if_else(pc.match_substring(specs, "|"), "mixed", specs)
