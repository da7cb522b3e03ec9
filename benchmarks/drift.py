"""How often drift would have been told of on the public logs, and whether changes made on purpose are found.

RUNCAST_TRACES=<folder> python benchmarks/drift.py [NAME …]

Each night of each log is judged by the default rule, with the plain baseline's errors; the bins are those of the whole log, which a
night does not know yet. Then ten nights of each log are changed in their latest seven days, each in one way, and judged again.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from runcast.data.cluster import Drift, read_clusters
from runcast.data.job import ingest
from runcast.data.lake import Lake
from runcast.data.settings import EXAMPLES, read_settings
from runcast.evaluation.drift import DAY_US, Errors, Series, findings, is_drift, is_watched, limits_of, watch
from runcast.features.catalog import COLUMNS_READ
from runcast.features.matrix import Categories, Matrix
from runcast.features.table import build

RULE = Drift()
CHANGED_NIGHTS = 10
Change = Callable[[Matrix, np.ndarray], Matrix]


def read(names: list[str]) -> Iterator[tuple[str, Matrix]]:
    """Yield the features of each log that has at least ten weeks and 5,000 jobs."""
    with tempfile.TemporaryDirectory() as home:
        settings = read_settings({**os.environ, "RUNCAST_HOME": home})
        for name, cluster in read_clusters(EXAMPLES).items():
            if cluster.refused or (names and name not in names):
                continue
            ingest(cluster, settings, first=None, last=None)
            jobs = Lake(settings.lake).read_jobs(cluster.name, columns=[*COLUMNS_READ]).to_pandas()
            matrix = watched(build(jobs, cluster.clock, cluster.time_zone))
            if len(matrix) >= 5000 and np.ptp(matrix.submit_us) >= 70 * DAY_US:
                yield name, matrix


def watched(matrix: Matrix) -> Matrix:
    """Return the matrix with the features that drift looks at, so that changing a night of it is cheap."""
    names = tuple(name for name in matrix.names if is_watched(name))
    return replace(matrix, names=names, values=np.column_stack([matrix.column(name) for name in names]))


def until(matrix: Matrix, cut_us: int) -> Matrix:
    """Return the jobs that had been submitted by then; a job that ends later still runs as far as the rule looks at it."""
    rows = np.flatnonzero(matrix.submit_us < cut_us)
    categories = {name: one.take(rows) for name, one in matrix.categories.items()}
    return Matrix(
        matrix.names, matrix.values[rows], categories, matrix.job_key[rows], matrix.submit_us[rows], matrix.ended.take(rows)
    )


def errors(matrix: Matrix, cut_us: int) -> dict[str, Errors]:
    predicted_s = matrix.column("nearest_median_s").astype(np.float64)
    known = matrix.ended.has_runtime & (predicted_s > 0) & (matrix.ended.end_us < cut_us)
    return {"nearest_median": Errors(matrix.ended.end_us[known], matrix.ended.runtime_s[known], predicted_s[known])}


def told(series: list[Series]) -> tuple[int, int]:
    """Return of how many nights something could be judged, and on how many something new was told."""
    if not series:
        return 0, 0
    judged, new = [], []
    for one in series:
        limits = limits_of(one, RULE)
        drifts = is_drift(one.values, limits)
        judged.append(np.isfinite(limits) & np.isfinite(one.values[: len(limits)]))
        new.append([bool(drifts[at]) and not drifts[at + 1 : at + RULE.days].any() for at in range(len(drifts))])
    return int(np.any(judged, axis=0).sum()), int(np.any(new, axis=0).sum())


def times(name: str, factor: float) -> Change:
    def change(matrix: Matrix, rows: np.ndarray) -> Matrix:
        values = matrix.values.copy()
        values[rows, matrix.names.index(name)] *= factor
        return replace(matrix, values=values)

    return change


def longer(factor: float) -> Change:
    def change(matrix: Matrix, rows: np.ndarray) -> Matrix:
        runtime_s = matrix.ended.runtime_s.copy()
        runtime_s[rows] *= factor
        return replace(matrix, ended=replace(matrix.ended, runtime_s=runtime_s))

    return change


def other_users(matrix: Matrix, rows: np.ndarray) -> Matrix:
    """Every second user of the week is somebody new."""
    users = matrix.categories["user"]
    codes, size = users.codes.copy(), len(users.vocabulary)
    moved = rows[codes[rows] % 2 == 0]
    codes[moved] += size
    return replace(matrix, categories={**matrix.categories, "user": Categories(codes, (*users.vocabulary, *users.vocabulary))})


CHANGES: dict[str, Change] = {
    "nothing": lambda matrix, rows: matrix,
    "limits × 4": times("time_limit_s", 4),
    "CPUs × 4": times("cpu_count", 4),
    "half of the users new": other_users,
    "runtimes × 3": longer(3),
    "runtimes × 10": longer(10),
}


def found(matrix: Matrix, change: Change, cuts: list[int], by_end: bool) -> str:
    hits = 0
    for cut_us in cuts:
        seen = until(matrix, cut_us)
        at_us = seen.ended.end_us if by_end else seen.submit_us
        latest = np.flatnonzero((at_us >= cut_us - 7 * DAY_US) & (at_us < cut_us))
        changed = change(seen, latest)
        hits += any(one.is_drift for one in findings(changed, cut_us, errors(changed, cut_us), RULE, None))
    return f"{hits}/{len(cuts)}"


def main() -> None:
    if "RUNCAST_TRACES" not in os.environ:
        print("RUNCAST_TRACES is not set: there are no real logs to measure drift on")
        return
    print("| log | nights judged | told of a change | told of errors | " + " | ".join(CHANGES) + " |")
    print("|---|--:|--:|--:|" + "--:|" * len(CHANGES))
    for name, matrix in read(sys.argv[1:]):
        cut_us = int(matrix.submit_us.max()) // DAY_US * DAY_US + DAY_US
        nights = int((cut_us - matrix.submit_us.min()) // DAY_US) + RULE.days * RULE.periods
        series = watch(matrix, cut_us, errors(matrix, cut_us), RULE, None, nights)
        judged, new = told([one for one in series if one.kind != "error"])
        _, wrong = told([one for one in series if one.kind == "error"])
        draw = np.random.default_rng(3)
        begin = int(matrix.submit_us.min())
        cuts = [int(at) // DAY_US * DAY_US for at in draw.uniform(begin + 70 * DAY_US, cut_us, CHANGED_NIGHTS)]
        can = {
            "limits × 4": np.isfinite(matrix.column("time_limit_s")).any(),
            "CPUs × 4": np.isfinite(matrix.column("cpu_count")).any(),
            "half of the users new": len(matrix.categories["user"].vocabulary) > 0,
        }
        shares = [found(matrix, do, cuts, "runtimes" in what) if can.get(what, True) else "–" for what, do in CHANGES.items()]
        print(f"| {name} | {judged} | {new} | {wrong} | " + " | ".join(shares) + " |", flush=True)


if __name__ == "__main__":
    main()
