"""From sacct's fields to canonical jobs: what the text and the JSON form of Slurm's accounting have in common."""

from dataclasses import dataclass
from dataclasses import fields as fields_of

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.cluster import Cluster
from runcast.data.sources.record import Instants, jobs_table, refuse, sources
from runcast.data.sources.slurm_fields import NO_NAME, NO_NODES, Fields, SlurmOptions, Tally, is_one_of, mask_of
from runcast.data.sources.slurm_ids import ARRAY_REST, ARRAY_TASK, HET_PART, JOB_ID, STEP_ID, array_task_count
from runcast.data.sources.slurm_moments import find_moments
from runcast.data.sources.slurm_requests import requests
from runcast.data.states import OTHER, canonical_states, unknown_states

#: Canonical text columns and sacct's fields for them.
_WORDS = {
    "user": "user",
    "group": "group",
    "account": "account",
    "queue": "partition",
    "qos": "qos",
}
_CHOSEN = {"job_name": "jobname", "work_dir": "workdir"}


@dataclass(frozen=True)
class Rows:
    """Canonical jobs, one for each accepted record, with what the joining of attempts needs beside them.

    `reached_us` is the latest moment the record knows of; `started_us` and `ended_us` bound its attempt, also a requeued one (0:
    not known); `restarts` are the starts before it that the record itself counts. Waiting counts from `queued_us`. `part` is the
    place in a heterogeneous job, -1 for any other.
    """

    jobs: pa.Table
    reached_us: np.ndarray
    started_us: np.ndarray
    ended_us: np.ndarray
    restarts: np.ndarray
    queued_us: np.ndarray
    part: np.ndarray

    def take(self, rows: np.ndarray) -> "Rows":
        return Rows(self.jobs.take(pa.array(rows)), *(getattr(self, name)[rows] for name in _BESIDE))


_BESIDE = tuple(field.name for field in fields_of(Rows))[1:]


def concat_rows(pieces: list[Rows]) -> Rows:
    """Put the rows of several pieces under one another."""
    if len(pieces) == 1:
        return pieces[0]
    jobs = pa.concat_tables([piece.jobs for piece in pieces]).combine_chunks()
    return Rows(jobs, *(np.concatenate([getattr(piece, name) for piece in pieces]) for name in _BESIDE))


def canonical_rows(fields: Fields, cluster: Cluster, options: SlurmOptions, tally: Tally) -> Rows:
    """Turn records into canonical rows; steps are skipped, and what cannot be a job is rejected, both into `tally`."""
    fields = _jobs_only(fields, options, tally)
    states = canonical_states(fields.columns["state"])
    moments, faults = find_moments(fields, states, cluster.time_zone)
    rejects, good = refuse(faults, fields.lines, fields.raw, fields.file)
    tally.rejects += rejects
    if len(good) < fields.rows:
        fields, states, moments = fields.take(good), states.take(pa.array(good)), moments.take(good)
    ids, part = _without_part(fields.ids)
    arrays, is_rest = _arrays(ids, tally)
    requested, request_flags = requests(fields, cluster, options, tally)
    unknown_state = is_one_of(states, {OTHER})
    flags = {**moments.flags, "unknown_state": unknown_state, "array_rest": is_rest, **request_flags}
    for name, mask in flags.items():
        tally.note(name, int(mask.sum()))
    for name, count in unknown_states(fields.columns["state"]).items() if unknown_state.any() else ():
        tally.note(name, count)
    restarts = np.minimum(np.nan_to_num(fields.counts("restarts")), 1_000_000).astype(np.int64)
    began, ended = moments.attempt_start, moments.attempt_end
    jobs = jobs_table(
        cluster,
        {
            "job_id": ids,
            "state": states,
            "source": sources(fields.file, fields.lines),
            "node_list": fields.words("nodelist", NO_NODES),
            **{column: fields.words(name) for column, name in _WORDS.items()},
            **{column: fields.words(name, NO_NAME) for column, name in _CHOSEN.items()},
            **arrays,
            **requested,
        },
        submit=moments.submit,
        queued=moments.queued,
        start=moments.start,
        end=moments.end,
        flags=flags,
        attempts=began.known + restarts,
        first_start=Instants(began.us, began.known & (restarts == 0)),
    )
    reached_us = np.maximum.reduce([moments.submit.us, began.us, ended.us])
    return Rows(jobs, reached_us, began.us, ended.us, restarts, moments.queued.us, part)


def _without_part(ids: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return the ids of whole jobs, `50` for `50+1`, and the number behind the sign, -1 where there is none."""
    if not mask_of(pc.match_substring(ids, "+")).any():
        return ids, np.full(len(ids), -1)
    part = pc.struct_field(pc.extract_regex(ids, HET_PART), "part").cast(pa.int64())
    return pc.replace_substring_regex(ids, r"\+\d+$", ""), pc.fill_null(part, -1).to_numpy(zero_copy_only=False)


def _jobs_only(fields: Fields, options: SlurmOptions, tally: Tally) -> Fields:
    """Leave out steps, repeated headers, ids that are none, and the jobs of other clusters."""
    ids = fields.ids
    is_job = mask_of(pc.ascii_is_decimal(ids))
    if not is_job.all():
        is_job |= mask_of(pc.match_substring_regex(ids, JOB_ID))
    if not is_job.all():
        is_step = mask_of(pc.match_substring_regex(ids, STEP_ID))
        is_header = is_one_of(pc.utf8_lower(ids), {"jobid", "jobidraw"})
        tally.skip("step", int(is_step.sum()))
        tally.skip("repeated_header", int(is_header.sum()))
        rejects, _ = refuse({"job_id_unreadable": ~is_job & ~is_step & ~is_header}, fields.lines, fields.raw, fields.file)
        tally.rejects += rejects
        fields = fields.take(np.flatnonzero(is_job))
    if "cluster" not in fields.columns or options.slurm_cluster is None:
        return fields
    is_ours = is_one_of(fields.text("cluster"), {options.slurm_cluster})
    tally.skip("other_cluster", int((~is_ours).sum()))
    return fields if is_ours.all() else fields.take(np.flatnonzero(is_ours))


def _arrays(ids: pa.Array, tally: Tally) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Read array id and task of each job, and which rows stand for all tasks of an array that have not started."""
    if not mask_of(pc.match_substring(ids, "_")).any():
        return {}, np.zeros(len(ids), bool)
    task, rest = pc.extract_regex(ids, ARRAY_TASK), pc.extract_regex(ids, ARRAY_REST)
    for tasks in pc.struct_field(rest, "tasks").drop_null().to_pylist():
        tally.note("array_rest_tasks", array_task_count(tasks) or 1)
    number = pc.struct_field(task, "task").cast(pa.int64())  # at most nine digits, which int32 holds
    columns = {
        "array_id": pc.coalesce(pc.struct_field(task, "array"), pc.struct_field(rest, "array")),
        "array_task": number.cast(pa.int32()),
    }
    return columns, mask_of(rest.is_valid())
