"""Reads the predictions of a replay and the jobs of the lake, and returns what the predictions are worth."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from runcast.data.cluster import Cluster
from runcast.data.lake import Lake
from runcast.data.settings import Settings
from runcast.evaluation.errors import NothingToJudge, UnreadablePredictions
from runcast.evaluation.worth.policies import Plans, weigh
from runcast.evaluation.worth.pool import Jobs, peak_use

#: What takes up a pool, by preference: the first that the log counts.
UNITS = {"gpu_count": "GPUs", "cpu_count": "processors", "node_count": "nodes"}
#: Sizes are counted in thousandths: logs hold half GPUs, and sums of whole numbers do not drift.
PARTS = 1000

_PREDICTIONS = ("job_key", "submit_time", "runtime_s", "predictor", "p50_s", "p90_s")
_JOBS = ("job_key", "user", "group", *UNITS, "time_limit_s", "time_limit_kind", "start_time", "end_time")


def worth(
    cluster: Cluster,
    settings: Settings,
    predictions: Path,
    capacity: int | None = None,
    predictors: Sequence[str] = (),
    load: float | None = None,
) -> dict[str, Any]:
    """Schedule the predicted jobs again by every policy; `capacity` defaults to the most that the log used at once.

    `load` asks instead for the smallest pool on which the jobs offer no more than that. `predictors` picks some of the file's.
    Raises UnreadablePredictions where the file is not what `replay --predictions`
    writes or is of other jobs than the lake's, and NothingToJudge where no job is left to schedule.
    """
    told = read_predictions(predictions, cluster.name, predictors)
    known = Lake(settings.lake).read_jobs(cluster.name, columns=_JOBS).to_pandas()
    return {"cluster": cluster.name} | weigh_frames(told, known, capacity, load)


def read_predictions(path: Path, cluster_name: str, predictors: Sequence[str] = ()) -> pd.DataFrame:
    """Return the file's rows of the cluster and the predictors (all where none is named)."""
    what_to_do = "Write it with `runcast replay --predictions FILE`."
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise UnreadablePredictions(f"{path}: cannot be read as Parquet ({error}). {what_to_do}") from error
    missing = sorted({"cluster", *_PREDICTIONS} - set(table.column_names))
    if missing:
        raise UnreadablePredictions(
            f"{path}: expected the columns of a replay, but {', '.join(missing)} are missing. {what_to_do}"
        )
    told: pd.DataFrame = table.to_pandas()
    others = sorted(set(told["cluster"]) - {cluster_name})
    if others:
        raise UnreadablePredictions(f"{path}: holds predictions for {', '.join(others)}, asked was {cluster_name}. {what_to_do}")
    unknown = sorted(set(predictors) - set(told["predictor"]))
    if unknown:
        raise UnreadablePredictions(
            f"{path}: no predictor {', '.join(unknown)}; the file holds {', '.join(sorted(set(told['predictor'])))}."
        )
    return told[told["predictor"].isin(predictors)] if predictors else told


def weigh_frames(
    told: pd.DataFrame, known: pd.DataFrame, capacity: int | None = None, load: float | None = None
) -> dict[str, Any]:
    """Return the pool, what was dropped and the rows of `weigh`; the order of either frame's rows does not matter.

    `told`: one row per job and predictor, as a replay writes them. `known`: the cluster's jobs by `job_key`. Jobs of one
    instant queue by their keys. Dropped and counted: jobs without a size (or of size 0), jobs larger than the pool.
    """
    known = known.set_index("job_key")
    names = list(dict.fromkeys(sorted(told["predictor"])))
    by_name = {name: rows.set_index("job_key") for name, rows in told.groupby("predictor")}
    keys = told["job_key"].drop_duplicates()
    strangers = keys[~keys.isin(known.index)]
    if len(strangers):
        raise UnreadablePredictions(
            f"{len(strangers)} of {len(keys)} predicted jobs are not in the lake, the first is {strangers.iloc[0]}. "
            "Predictions and lake must be of one log: replay it again."
        )
    uneven = [name for name in names if len(by_name[name]) != len(keys) or not by_name[name].index.is_unique]
    if uneven:
        raise UnreadablePredictions(
            f"expected one row per job and predictor, but {uneven[0]} has {len(by_name[uneven[0]])} rows for {len(keys)} jobs."
        )
    if not names:
        raise NothingToJudge("no predictions to weigh: the file holds no rows")

    unit = next((name for name in UNITS if (known[name] > 0).any()), None)
    if unit is None:
        raise NothingToJudge("no job of the log says how many GPUs, processors or nodes it takes, so nothing can be scheduled")
    parts = _parts(known[unit])
    jobs = by_name[names[0]][["submit_time", "runtime_s"]].join(known.drop(columns=["start_time", "end_time"]))
    jobs = jobs.assign(parts=parts).sort_index().sort_values("submit_time", kind="stable")
    asked = _log_peak(known, parts) if load is None else _steady_use(jobs) / load
    pool = capacity * PARTS if capacity is not None else _whole(asked)
    no_size, oversize = jobs["parts"] == 0, jobs["parts"] > pool
    kept = jobs[~no_size & ~oversize]
    if kept.empty:
        raise NothingToJudge(
            f"none of {len(jobs)} predicted jobs fits a pool of {pool // PARTS} {UNITS[unit]}. Give a larger capacity."
        )
    scheduled = _jobs(kept)
    payer_column = next((name for name in ("user", "group") if kept[name].notna().any()), None)
    payer = _payers(kept[payer_column]) if payer_column else np.full(len(kept), None, dtype=object)
    plans = {name: _plans(by_name[name].loc[kept.index]) for name in names}
    offered = _steady_use(kept) / pool
    return {
        "unit": UNITS[unit],
        "capacity": pool // PARTS,
        "jobs": len(kept),
        "dropped": {"without a size": int(no_size.sum()), "larger than the pool": int(oversize.sum())},
        "offered_load": offered if np.isfinite(offered) else None,
        "payer": payer_column,
        "policies": weigh(scheduled, pool, payer, plans),
    }


def _parts(size: pd.Series) -> pd.Series:
    """Sizes in whole parts, 0 where unknown; more than nothing is at least one part."""
    counted = size.astype("float64").fillna(0.0).clip(lower=0.0) * PARTS
    return counted.round().clip(lower=1.0).where(counted > 0, 0.0).astype("int64")


def _whole(parts: float) -> int:
    """Return the parts of as many whole units as hold so many."""
    if not np.isfinite(parts):
        raise NothingToJudge("the jobs came at one instant, so no pool makes a load of them. Give a capacity.")
    return math.ceil(round(parts / PARTS, 9)) * PARTS


def _steady_use(jobs: pd.DataFrame) -> float:
    """Return the parts that would be in use all the time if the jobs' work came evenly over their submissions; NaN for one instant."""
    submit_s = _seconds(jobs["submit_time"])
    span_s = float(np.ptp(submit_s)) or np.nan
    return float((jobs["parts"] * jobs["runtime_s"]).sum() / span_s)


def _log_peak(known: pd.DataFrame, parts: pd.Series) -> int:
    ran = known[["start_time", "end_time"]].notna().all(axis=1).to_numpy()
    start_s, end_s = (_seconds(known.loc[ran, name]) for name in ("start_time", "end_time"))
    return peak_use(start_s, np.maximum(start_s, end_s), parts[ran].to_numpy())


def _jobs(kept: pd.DataFrame) -> Jobs:
    submit_s = _seconds(kept["submit_time"])
    kills = (kept["time_limit_kind"] == "hard") & (kept["time_limit_s"] > 0)
    return Jobs(
        submit_s=submit_s - submit_s[0],
        runtime_s=kept["runtime_s"].to_numpy(dtype="float64"),
        size=kept["parts"].to_numpy(dtype="int64"),
        limit_s=kept["time_limit_s"].where(kills, np.inf).to_numpy(dtype="float64"),
    )


def _plans(told: pd.DataFrame) -> Plans:
    return Plans(told["p50_s"].to_numpy(dtype="float64"), told["p90_s"].to_numpy(dtype="float64"))


def _payers(names: pd.Series) -> NDArray[np.object_]:
    return np.array([None if pd.isna(name) else str(name) for name in names], dtype=object)


def _seconds(times: pd.Series) -> NDArray[np.float64]:
    return times.astype("datetime64[us, UTC]").astype("int64").to_numpy() / 1e6
