"""How right the served forecasts were, for the jobs that ended on one day: each job counts once, on the day it ends.

Judging the forecasts of a day by what has ended since would favour short jobs; the jobs of a day's end are of every length. What a
job was told counts where it was told before the job ended; one that was submitted before the service kept anything cannot have been
told, and is not held against it.
"""

from typing import Any

import numpy as np
import pandas as pd

from runcast.evaluation.metrics import BY_NAME, finite

#: What a day's record holds of each group of jobs.
MEASURED: tuple[str, ...] = ("error_factor", "mdape", "within_25", "off_by_2x", "under_share", "p90_coverage")


def join_served(jobs: pd.DataFrame, served: pd.DataFrame) -> pd.DataFrame:
    """Return the jobs that ran and ended, each with what it was told in time, null where nothing was; same order as `jobs`.

    `jobs`: job_key, submit_us, end_us, runtime_s (above 0), each key once. `served`: see served.COLUMNS, each key once.
    """
    joined = jobs.merge(served, on="job_key", how="left", validate="one_to_one")
    is_late = joined["answered_us"] >= joined["end_us"]  # null is not late
    told = [name for name in served.columns if name != "job_key"]
    joined[told] = joined[told].where(~is_late)
    return joined.assign(is_late=is_late)


def judge_live(joined: pd.DataFrame, log_begins_us: int | None) -> dict[str, Any]:
    """Return the numbers of a day from `join_served`; jobs submitted before the first answer that was kept count as before_log.

    `log_begins_us` is when that was, None where nothing was ever answered: then every job is from before.

    jobs == answered + unanswered + late + before_log. Shares of no jobs, and metrics of none, are null.
    """
    is_answered = joined["p50_s"].notna()
    is_late = joined["is_late"] & ~is_answered
    is_before = ~is_answered & ~is_late & (True if log_begins_us is None else joined["submit_us"] < log_begins_us)
    answered = joined[is_answered]
    askable = len(joined) - int(is_before.sum())
    unanswered = askable - len(answered) - int(is_late.sum())
    return {
        "jobs": len(joined),
        "answered": len(answered),
        "unanswered": unanswered,
        "late": int(is_late.sum()),
        "before_log": int(is_before.sum()),
        "unanswered_share": (unanswered + int(is_late.sum())) / askable if askable else None,
        "all": _numbers(answered),
        "by_model_version": _numbers_by(answered, "model_version"),
        "by_source": _numbers_by(answered, "source"),
    }


def _numbers_by(answered: pd.DataFrame, column: str) -> dict[str, dict[str, float | int | None]]:
    return {str(name): _numbers(rows) for name, rows in answered.groupby(column, sort=True)}


def _numbers(rows: pd.DataFrame) -> dict[str, float | int | None]:
    actual_s = rows["runtime_s"].to_numpy(np.float64)
    found: dict[str, float | int | None] = {"jobs": len(rows)}
    for metric in (BY_NAME[name] for name in MEASURED):
        found[metric.name] = finite(metric.compute(actual_s, rows[metric.of].to_numpy(np.float64)))
    return found
