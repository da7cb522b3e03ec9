"""Speed of the two faces of the features, on a made-up log with every column filled.

    OMP_NUM_THREADS=1 python benchmarks/features.py [--jobs 300000] [--state-jobs 1000000]

Prints jobs a second of the table face (aim: 150,000), microseconds of one row and of one event of the state face (aim: 60 for a
row), and size and load time of the state of a million jobs (aims: 500 MiB, 2 s). Times are wall clock, with the processor time
beside them where the machine may be busy.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from runcast.features.state import State
from runcast.features.table import build

ORIGIN_US = 1_600_000_000_000_000


def make_log(count: int, seed: int = 7) -> pd.DataFrame:
    """Return a log of recurring jobs: names that repeat with numbers in them, bursts, arrays, failures, nulls, a busy queue."""
    random = np.random.default_rng(seed)
    user = (random.zipf(1.4, count) - 1) % 400
    name = user * 50 + random.integers(0, 50, count)
    gap = random.exponential(60, count) * (random.random(count) < 0.3)
    submit = ORIGIN_US + np.cumsum(gap * 1e6).astype(np.int64)
    usual = np.random.default_rng(seed + 1).normal(6.5, 1.8, int(name.max()) + 1)
    runtime = np.maximum(np.round(np.exp(usual[name] + random.normal(0, 0.4, count))), 1)
    start = submit + (random.exponential(900, count) * (random.random(count) < 0.5) * 1e6).astype(np.int64)
    end = start + (runtime * 1e6).astype(np.int64)
    gpus = np.array([0.0, 1.0, 2.0, 4.0, 8.0])[(name * 7) % 5]
    is_open = end >= submit[-1]
    state = random.choice(["COMPLETED", "COMPLETED", "COMPLETED", "FAILED", "TIMEOUT"], count)

    def times(values: np.ndarray, known: np.ndarray | None = None) -> pd.Series:
        series = pd.Series(pd.to_datetime(values, unit="us", utc=True)).dt.as_unit("us")
        return series if known is None else series.where(known)

    def texts(prefix: str, values: np.ndarray, null_share: float = 0.0) -> pd.Series:
        return (prefix + pd.Series(values).astype("str")).where(random.random(count) >= null_share)

    return pd.DataFrame(
        {
            "cluster": "bench",
            "job_key": texts("bench/", np.arange(count)),
            "array_id": texts("", np.arange(count) // 40, 0.7),
            "array_task": np.arange(count) % 40.0,
            "user": texts("user", user, 0.01),
            "group": texts("group", user % 40),
            "account": texts("acc", user % 60),
            "queue": texts("queue", gpus.astype(int)),
            "qos": texts("qos", user % 3),
            "job_name": texts("train_", name) + "_" + pd.Series(random.integers(0, 5, count)).astype("str"),
            "work_dir": texts("/home/project", name // 5, 0.05),
            "submit_time": times(submit),
            "gpu_count": gpus,
            "gpu_model": texts("model", name % 3, 0.2),
            "cpu_count": 8 * gpus + 4,
            "mem_mib": 16_384 * (gpus + 1),
            "node_count": np.maximum(gpus // 4, 1),
            "time_limit_s": np.array([3600.0, 7200.0, 86_400.0, np.nan])[name % 4],
            "time_limit_kind": np.where(name % 4 == 3, "absent", "hard"),
            "priority": random.integers(0, 1000, count) * 1.0,
            "task_role": texts("role", name % 2),
            "framework": texts("framework", name % 4, 0.3),
            "start_time": times(start, start < submit[-1]),
            "end_time": times(end, ~is_open),
            "state": np.where(is_open, "RUNNING", state),
            "label": np.where(is_open | (state == "TIMEOUT"), "censored", "event"),
            "runtime_s": pd.Series(runtime).where(~is_open),
        }
    )


def as_mappings(jobs: pd.DataFrame) -> list[dict[str, object]]:
    """Return the rows as a scheduler gives them: null is None, times are microseconds."""
    columns = {}
    for name in jobs.columns:
        column = jobs[name].astype("int64") if isinstance(jobs[name].dtype, pd.DatetimeTZDtype) else jobs[name]
        columns[name] = column.astype(object).where(jobs[name].notna(), None).tolist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def bench_table(count: int) -> None:
    jobs = make_log(count)
    build(jobs.head(1000), "calendar", "Europe/Berlin")
    for _ in range(3):
        wall, cpu = time.perf_counter(), time.process_time()
        matrix = build(jobs, "calendar", "Europe/Berlin")
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        speed = f"{count / wall:,.0f} jobs/s ({count / cpu:,.0f} a processor second)"
        print(f"table: {count:,} jobs, {len(matrix.names)} features: {speed}")


def bench_row(count: int) -> None:
    jobs = as_mappings(make_log(count))
    events = [(job["submit_time"], 0, at) for at, job in enumerate(jobs)]
    events += [(job["start_time"], 1, at) for at, job in enumerate(jobs) if job["start_time"] is not None]
    events += [(job["end_time"], 2, at) for at, job in enumerate(jobs) if job["end_time"] is not None]
    state = State("calendar", "Europe/Berlin")
    spent: dict[str, list[float]] = {"row": [], "tell": [], "advance": []}
    clock = time.perf_counter
    for moment, kind, at in sorted(events):  # type: ignore[type-var]
        job = jobs[at]
        begin = clock()
        if kind == 0:
            state.advance(moment)  # type: ignore[arg-type]
            ready = clock()
            state.row(job)
            asked = clock()
            state.submitted(job)
            spent["advance"].append(ready - begin)
            spent["row"].append(asked - ready)
            spent["tell"].append(clock() - asked)
        elif kind == 1:
            state.started(job)
        else:
            state.ended(job)
    for name, seconds in spent.items():
        p50, p99 = np.percentile(np.array(seconds) * 1e6, [50, 99])
        print(f"state: {name}: p50 {p50:.0f} us, p99 {p99:.0f} us")


def bench_size(count: int) -> None:
    from runcast.features.bulk import state_of

    jobs = make_log(count)
    begin = time.perf_counter()
    state = state_of(jobs, "calendar", "Europe/Berlin", as_of_us=ORIGIN_US * 2)
    built = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.npz"
        state.save(path)
        size = path.stat().st_size
        saved = time.perf_counter()
        State.load(path)
        loaded = time.perf_counter()
    print(f"state: {count:,} jobs, {len(state):,} keys: built in {built - begin:.1f} s, saved in {saved - built:.1f} s, ", end="")
    print(f"{size / 2**20:.0f} MiB, loaded in {loaded - saved:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=300_000, help="of the table face")
    parser.add_argument("--rows", type=int, default=20_000, help="of the state face, event by event")
    parser.add_argument("--state-jobs", type=int, default=1_000_000, help="of the state that is saved and loaded")
    options = parser.parse_args()
    for run, count in ((bench_table, options.jobs), (bench_row, options.rows), (bench_size, options.state_jobs)):
        if count:
            run(count)


if __name__ == "__main__":
    main()
