"""The parts of a heterogeneous Slurm job made one job: `50+0` and `50+1` are accounted apart, but one submission that runs as one.

Parts share the submission, to a few seconds, and are started together. The job asks for the sum of what its parts ask for and lasts
until the last of them ends; names, partition and state are those of its leader, the first part, unless another part still runs.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.schema import JOBS
from runcast.data.sources.record import Instants, floats
from runcast.data.sources.slurm_fields import Tally, is_one_of
from runcast.data.sources.slurm_jobs import Rows, concat_rows
from runcast.data.sources.times import microseconds
from runcast.data.states import OPEN_STATES

_SUMS = ("cpu_count", "mem_mib", "node_count")  # not known of the job where it is not known of one part
_SUBMITTED_WITHIN_US = 5_000_000  # slurmctld notes the moment of each part as it makes it: a second may end in between
_NEVER = np.iinfo(np.int64).max


def merge_parts(rows: Rows, tally: Tally) -> Rows:
    """Return the rows with the parts of each heterogeneous job merged; skipped are `het_part` and `duplicate` records of a part."""
    is_part = rows.part >= 0
    if not is_part.any():
        return rows
    parts = rows.take(np.flatnonzero(is_part))
    codes = _codes(parts.jobs)
    order = np.lexsort((parts.ended_us > 0, parts.reached_us, parts.part, codes))
    parts, codes = parts.take(order), codes[order]
    is_latest = np.append((codes[1:] != codes[:-1]) | (parts.part[1:] != parts.part[:-1]), True)
    parts, codes = parts.take(np.flatnonzero(is_latest)), codes[is_latest]
    leads = np.flatnonzero(np.diff(codes, prepend=-1))
    tally.skip("duplicate", int((~is_latest).sum()))
    tally.skip("het_part", len(codes) - len(leads))
    merged = Rows(
        _merged_jobs(parts, leads),
        reached_us=np.maximum.reduceat(parts.reached_us, leads),
        started_us=_first(parts.started_us, leads),
        ended_us=np.maximum.reduceat(parts.ended_us, leads),
        restarts=np.maximum.reduceat(parts.restarts, leads),
        queued_us=parts.queued_us[leads],
        part=np.full(len(leads), -1),
    )
    return concat_rows([rows.take(np.flatnonzero(~is_part)), merged])


def _merged_jobs(parts: Rows, leads: np.ndarray) -> pa.Table:
    jobs = parts.jobs
    is_open = is_one_of(jobs["state"].combine_chunks(), OPEN_STATES)
    first_open = np.minimum.reduceat(np.where(is_open, np.arange(len(is_open)), len(is_open)), leads)
    all_ended = first_open == len(is_open)
    chosen = np.where(all_ended, leads, first_open)
    starts, started = microseconds(jobs["start_time"].combine_chunks())
    ends, ended = microseconds(jobs["end_time"].combine_chunks())
    start_us = _first(np.where(started, starts, 0), leads)
    start = Instants(start_us, start_us > 0)
    end = Instants(np.maximum.reduceat(np.where(ended, ends, 0), leads), all_ended & np.logical_or.reduceat(ended, leads))
    ran = start.known & end.known & pc.is_valid(jobs["runtime_s"]).to_numpy()[leads]
    limits_s = np.maximum.reduceat(np.nan_to_num(_numbers(jobs, "time_limit_s"), nan=-1.0), leads)
    gpus = _numbers(jobs, "gpu_count")
    has_gpus = np.logical_or.reduceat(~np.isnan(gpus), leads)
    texts = [_texts(group) for group in _groups(jobs, leads)]
    is_limited = np.array([text["time_limit_kind"] != "unlimited" for text in texts])
    changed: dict[str, Any] = {
        **{name: _sum(_numbers(jobs, name), leads) for name in _SUMS},
        "gpu_count": floats(np.add.reduceat(np.nan_to_num(gpus), leads), has_gpus),
        "time_limit_s": floats(limits_s, is_limited & (limits_s >= 0)),
        "start_time": start.to_arrow(),
        "end_time": end.to_arrow(),
        "runtime_s": floats((end.us - start.us) / 1e6, ran),
        "queue_s": floats(
            (start.us - parts.queued_us[leads]) / 1e6, start.known & pc.is_valid(jobs["queue_s"]).to_numpy()[leads]
        ),
        "attempts": pa.array(np.maximum.reduceat(jobs["attempts"].to_numpy(), leads)),
        **{name: pa.array([text[name] for text in texts], JOBS.field(name).type) for name in texts[0]},
    }
    lead, state = jobs.take(pa.array(leads)), jobs.take(pa.array(chosen))
    changed |= {name: state[name] for name in ("state", "label")}
    return pa.Table.from_arrays([changed.get(f.name, lead[f.name]) for f in JOBS], schema=JOBS)


def _groups(jobs: pa.Table, leads: np.ndarray) -> list[list[dict[str, Any]]]:
    rows = jobs.select(["gpu_model", "node_list", "time_limit_s", "time_limit_kind", "flags"]).to_pylist()
    return [rows[a:b] for a, b in zip(leads, [*leads[1:], len(rows)], strict=True)]


def _texts(group: list[dict[str, Any]]) -> dict[str, Any]:
    models = sorted({part["gpu_model"] for part in group} - {None})
    kinds = [part["time_limit_kind"] for part in sorted(group, key=lambda part: part["time_limit_s"] is None)]
    return {
        "gpu_model": "mixed" if len(models) > 1 else next(iter(models), None),
        "node_list": ",".join(part["node_list"] for part in group if part["node_list"]) or None,
        "time_limit_kind": "unlimited" if "unlimited" in kinds else kinds[0],
        "flags": [*dict.fromkeys(flag for part in group for flag in part["flags"]), "heterogeneous"],
    }


def _first(moments_us: np.ndarray, leads: np.ndarray) -> np.ndarray:
    """Return the first moment of each group, 0 where there is none."""
    first = np.minimum.reduceat(np.where(moments_us > 0, moments_us, _NEVER), leads)
    return np.where(first < _NEVER, first, 0)


def _sum(values: np.ndarray, leads: np.ndarray) -> pa.Array:
    total = np.add.reduceat(values, leads)
    return floats(total, ~np.isnan(total))


def _numbers(jobs: pa.Table, name: str) -> np.ndarray:
    numbers: np.ndarray = pc.fill_null(jobs[name], np.nan).to_numpy()
    return numbers


def _codes(jobs: pa.Table) -> np.ndarray:
    """Number the submissions that the parts belong to: of one id, and within seconds of the one before."""
    ids = jobs["job_id"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    submit_us, _ = microseconds(jobs["submit_time"].combine_chunks())
    order = np.lexsort((submit_us, ids))
    is_next = (np.diff(ids[order]) != 0) | (np.diff(submit_us[order]) > _SUBMITTED_WITHIN_US)
    codes = np.empty(len(ids), np.int64)
    codes[order] = np.concatenate([[0], np.cumsum(is_next)])
    return codes
