"""Replay: jobs arrive in the order of their submission, and each is answered by models that knew only what had ended by then.

The features of a job look only at jobs that had ended before its submission (a contract of runcast.features), so they are
computed once for the whole log; what the cadence decides is how old the models are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from runcast.data.cluster import Training
from runcast.evaluation.errors import NothingToJudge
from runcast.features.matrix import Matrix
from runcast.training.fitting import Fit, answer, fit_at
from runcast.training.forecast import Forecast, joined

Cadence = Literal["once", "weekly", "nightly"]
CADENCES: tuple[Cadence, ...] = get_args(Cadence)

#: Columns of the predictions table, one row per test job and predictor.
PREDICTION_COLUMNS: tuple[str, ...] = (
    "cluster", "job_key", "job_id", "submit_time", "runtime_s", "predictor", "p50_s", "p90_s", "point_s", "confidence",
)  # fmt: skip

#: Told after each cut: cuts done, cuts in all.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Replay:
    """What was answered: `rows` are the test jobs in submission order, each forecast has one entry per test job.

    `fallbacks` says for each predictor why a baseline answered in its place (of the latest such cut), `failures` which fit was killed or
    failed (of these the latest too). `last` is the latest fit.
    """

    rows: NDArray[np.intp]
    forecasts: Mapping[str, Forecast]
    cuts: tuple[tuple[int, int, int], ...]  # (cut_us, jobs learned from, jobs answered)
    fallbacks: Mapping[str, str]
    failures: Mapping[str, str]
    last: Fit


def test_rows(matrix: Matrix, test_share: float) -> NDArray[np.intp]:
    """Return the latest `test_share` of the ended jobs with a runtime above 0, by submission, ties in table order."""
    rows = submitted_in(matrix, None, None)
    return rows[len(rows) - int(np.ceil(len(rows) * test_share)) :]


def submitted_in(matrix: Matrix, first_us: int | None, before_us: int | None) -> NDArray[np.intp]:
    """Return the ended jobs with a runtime above 0 submitted in [first, before), by submission, ties in table order."""
    rows = np.flatnonzero(matrix.ended.has_runtime)
    submit_us = matrix.submit_us[rows]
    rows = rows[(submit_us >= (first_us if first_us is not None else submit_us.min(initial=0)))]
    if before_us is not None:
        rows = rows[matrix.submit_us[rows] < before_us]
    return rows[np.argsort(matrix.submit_us[rows], kind="stable")]


def cuts(first_us: int, last_us: int, every: Cadence, zone: tzinfo) -> list[int]:
    """Return the moments of training for submissions from `first_us` to `last_us`, rising; the first is not after the first.

    once: at the first submission itself. nightly, weekly: at local midnights, every one or every seventh.
    """
    if every == "once":
        return [first_us]
    step = timedelta(days=1 if every == "nightly" else 7)
    midnight = datetime.fromtimestamp(first_us / 1e6, UTC).astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    found = []
    while (at_us := round(midnight.timestamp() * 1e6)) <= last_us:
        found.append(at_us)
        midnight = (midnight.replace(tzinfo=None) + step).replace(tzinfo=zone)  # wall clock: days of 23 and 25 hours too
    return found


def replay(
    matrix: Matrix,
    rows: NDArray[np.intp],
    kinds: Sequence[str],
    training: Training,
    every: Cadence,
    zone: tzinfo,
    progress: Progress = lambda done, of: None,
) -> Replay:
    """Answer the test jobs `rows` (in submission order) by `kinds`, retrained at the cadence `every`.

    Raises NothingToJudge where there are no test jobs and NotEnoughJobs where nothing had ended before the first.
    """
    if not len(rows):
        raise NothingToJudge(
            "no ended job with a runtime above 0 to test on. Come back when more jobs have ended, load more of the log, or widen the dates"
        )
    submit_us = matrix.submit_us[rows]
    moments = cuts(int(submit_us[0]), int(submit_us[-1]), every, zone)
    starts = np.searchsorted(submit_us, moments, side="left")
    pieces: dict[str, list[Forecast]] = {kind: [] for kind in kinds}
    told: list[tuple[int, int, int]] = []
    fallbacks: dict[str, str] = {}
    failures: dict[str, str] = {}
    last: Fit | None = None
    for done, (cut_us, start, stop) in enumerate(zip(moments, starts, [*starts[1:], len(rows)], strict=True), 1):
        if start < stop:
            last = fit_at(matrix, cut_us, kinds, training)
            for kind, forecast in answer(last, matrix.take(rows[start:stop])).items():
                pieces[kind].append(forecast)
            fallbacks |= {kind: one.fallback_reason for kind, one in last.fitted.items() if one.fallback_reason}
            failures |= {kind: one.failure for kind, one in last.fitted.items() if one.failure}
            told.append((cut_us, len(last.rows), int(stop - start)))
        progress(done, len(moments))
    if last is None:
        raise NothingToJudge("no job was submitted in the test days. Widen the dates")
    return Replay(rows, {kind: joined(parts) for kind, parts in pieces.items()}, tuple(told), fallbacks, failures, last)


def predictions_table(cluster: str, matrix: Matrix, job_id: NDArray[np.object_], done: Replay) -> pa.Table:
    """Return one row per test job and predictor, predictors in order, jobs in submission order; `job_id` is per matrix row."""
    rows, jobs = done.rows, len(done.rows)
    shared = {
        "cluster": pa.array([cluster] * jobs, pa.string()),
        "job_key": pa.array(matrix.job_key[rows], pa.string()),
        "job_id": pa.array(job_id[rows], pa.string()),
        "submit_time": pa.array(matrix.submit_us[rows]).cast(pa.timestamp("us", tz="UTC")),
        "runtime_s": pa.array(matrix.ended.runtime_s[rows]),
    }
    tables = [
        pa.table(
            shared
            | {"predictor": pa.array([kind] * jobs, pa.string())}
            | {name: pa.array(getattr(forecast, name)) for name in PREDICTION_COLUMNS[6:]}
        )
        for kind, forecast in done.forecasts.items()
    ]
    return pa.concat_tables(tables).select(PREDICTION_COLUMNS)
