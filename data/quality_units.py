"""Quantities that a log may give in another unit than was read, where the log itself shows it: limits, memory, GPUs, runtimes.

Jobs that timed out ran as long as their limit, and few outlive one by much; a node has no 30 TiB of memory and no 32 GPUs. What the typical
value is off by names the unit: 60 are minutes read as seconds, 1/60 seconds read as minutes, 1024 is a step of memory.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]

MUCH = 4.0  # times its limit
LITTLE = 1 / 30  # of it: a timeout that is not of the limit is seldom so far below
LARGE_SHARE = 0.25  # of all jobs; of the public logs' days with 20 such jobs none has more than 0.17
LEAST_ROWS, LEAST_TIMEOUTS = 20, 5
MOST_MIB_BY_NODE = float(2**25)
MOST_GPUS_BY_NODE = 32.0

#: By what a value is off, and what it was taken for: of times, of memory.
_TIMES = {
    60.0: "minutes",
    3600.0: "hours",
    86_400.0: "days",
    1e-3: "milliseconds",
    1e-6: "microseconds",
    1 / 60: "seconds, not minutes",
}
_MEMORY = {2.0**-10: "KiB", 2.0**-20: "bytes", 2.0**10: "GiB"}


@dataclass(frozen=True)
class Units:
    """Typical values of a day that a wrong unit moves; NaN where there are too few jobs to tell.

    `limit_use` is runtime over hard limit where jobs end by it; `runtime_ratio` is runtime over end less start.
    """

    limit_use: float = np.nan
    mib_by_node: float = np.nan
    gpus_by_node: float = np.nan
    runtime_ratio: float = np.nan


def units_of(jobs: pa.Table, before: pa.Table) -> Units:
    """Measure the jobs that ended on a day; `before` are those of the days before, whose timeouts tell as well."""
    mib, gpus, nodes = (_numbers(jobs, name) for name in ("mem_mib", "gpu_count", "node_count"))
    nodes = np.where(nodes > 0, nodes, np.nan)
    took_s = (_numbers(jobs, "end_time") - _numbers(jobs, "start_time")) / 1e6
    return Units(
        limit_use=_limit_use(jobs, before),
        mib_by_node=_typical(mib / np.where(np.isnan(nodes), 1.0, nodes)),
        gpus_by_node=_typical(np.where(gpus > 0, gpus, np.nan) / nodes),
        runtime_ratio=_typical(
            np.divide(_numbers(jobs, "runtime_s"), took_s, out=np.full(len(took_s), np.nan), where=took_s > 0)
        ),
    )


def time_unit(off_by: float) -> str:
    """Return in words what a time that is off by this factor may be; empty where it is near none."""
    return _nearest(off_by, _TIMES)


def memory_unit(off_by: float) -> str:
    """Return in words what an amount of memory that is off by this factor may be; empty where it is near none."""
    return _nearest(off_by, _MEMORY)


def _limit_use(jobs: pa.Table, before: pa.Table) -> float:
    """Return how many times their limit jobs run that end by it.

    That is the long ones where many outlive theirs by much, else those that timed out.
    """
    use = _use(jobs)
    if np.count_nonzero(~np.isnan(use)) >= LEAST_ROWS and np.mean(use > MUCH) >= LARGE_SHARE:
        return float(np.nanquantile(use, 0.95))
    for some in (jobs, pa.concat_tables([before, jobs])):
        timed_out = _use(some)[some["state"].to_numpy() == "TIMEOUT"]
        timed_out = timed_out[~np.isnan(timed_out)]
        if len(timed_out) >= LEAST_TIMEOUTS:
            return float(np.median(timed_out))
    return np.nan


def _use(jobs: pa.Table) -> Floats:
    """Return runtime over hard limit, NaN where there is none of either."""
    limit_s, is_hard = _numbers(jobs, "time_limit_s"), jobs["time_limit_kind"].to_numpy() == "hard"
    ran_s = _numbers(jobs, "runtime_s")
    use: Floats = np.divide(ran_s, limit_s, out=np.full(len(limit_s), np.nan), where=is_hard & (limit_s > 0))
    return use


def _typical(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) >= LEAST_ROWS else np.nan


def _nearest(off_by: float, units: dict[float, str]) -> str:
    """Return the unit whose factor is within a factor of two of `off_by`."""
    if not off_by > 0:
        return ""
    factor = min(units, key=lambda one: abs(np.log(one / off_by)))
    return units[factor] if 0.5 <= factor / off_by <= 2 else ""


def _numbers(jobs: pa.Table, name: str) -> Floats:
    column = jobs[name]
    column = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    values: Floats = column.cast(pa.float64(), safe=False).to_numpy()  # null is NaN
    return values
