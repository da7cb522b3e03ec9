"""How long one answer takes, in process, with all its features: gbdt (two models of 300 trees and 63 leaves) and runcast (three models).

    python benchmarks/predictor.py [--jobs 20000] [--answers 20000]

Made-up jobs of made-up users with habits, each asked once. Prints percentiles of `Predictor.predict` (checks included) and of its parts
alone, by the clock and by the processor's time for the thread: what lies between them are other programs. One thread. The last
line asks each job four times and takes its quickest answer: what is left without the machine's interruptions.
"""

import argparse
import gc
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from runcast.data.cluster import Cluster
from runcast.data.schema import JOBS
from runcast.features.catalog import feature_version
from runcast.features.table import build
from runcast.scheduler.export import history, pack
from runcast.scheduler.jobs import read_job
from runcast.scheduler.predictor import Predictor
from runcast.training.fitting import fit_at
from runcast.training.scoring import ModelCard, Scorer, save_scorer

CUT = datetime(2026, 4, 1, tzinfo=UTC)
CLUSTER = Cluster.model_validate({"name": "bench", "source": {"format": "table", "paths": ["-"]}, "time_zone": "UTC"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--answers", type=int, default=20_000)
    options = parser.parse_args()
    jobs = made_up(options.jobs)
    for kind in ("gbdt", "runcast"):
        with tempfile.TemporaryDirectory() as folder:
            predictor = Predictor.load(write(jobs, Path(folder), kind), may_be_expired=True)
        measure(kind, predictor, questions(jobs, options.answers))


def measure(kind: str, predictor: Predictor, asked: list[dict[str, Any]]) -> None:
    gc.collect()
    gc.freeze()
    for job in asked[:500]:
        predictor.predict(job)
    report(f"{kind}: predict", asked, predictor.predict)
    report("  of it: checks", asked, read_job)
    read = [read_job(job) for job in asked]
    report("  of it: features", read, lambda job: predictor._state.read(job, predictor._plan))
    rows = [predictor._state.read(job, predictor._plan)[0] for job in read]
    report("  of it: models", rows, lambda row: predictor._ask(row, np.nan))
    some = asked[:2000]
    quickest = np.min([timed(some, predictor.predict)[0] for _ in range(4)], axis=0)
    show("  quickest of four", quickest)


def report(name: str, items: Sequence[Any], call: Callable[[Any], Any]) -> None:
    """Print the percentiles of one call in microseconds."""
    wall, processor = timed(items, call)
    show(name, wall)
    show("    processor time", processor)


def timed(items: Sequence[Any], call: Callable[[Any], Any]) -> NDArray[np.int64]:
    """Return nanoseconds by the clock and of this thread's processor time, (2, n)."""
    took = np.empty((2, len(items)), np.int64)
    for at, item in enumerate(items):
        used, began = time.thread_time_ns(), time.perf_counter_ns()
        call(item)
        took[:, at] = time.perf_counter_ns() - began, time.thread_time_ns() - used
    return took


def show(name: str, took_ns: NDArray[np.int64]) -> None:
    p50, p90, p99, p999 = np.percentile(took_ns / 1000, [50, 90, 99, 99.9])
    print(f"{name:24} p50 {p50:7.1f}  p90 {p90:7.1f}  p99 {p99:7.1f}  p99.9 {p999:7.1f} µs  n {len(took_ns)}")


def write(jobs: pa.Table, folder: Path, kind: str, created: datetime | None = CUT, model_version: str | None = None) -> Path:
    """Train and pack one kind; `created` is when the bundle claims to be of, None for now."""
    matrix = build(jobs.to_pandas(), CLUSTER.clock, CLUSTER.time_zone)
    fit = fit_at(matrix, round(CUT.timestamp() * 1e6), [kind], CLUSTER.training)
    card = ModelCard("bench", feature_version(), json.loads(fit.encoder.to_json()) if fit.encoder else {}, {}, {}, {})
    save_scorer(Scorer(fit.fitted[kind].rule, card), folder / "model")
    state = history(jobs, CLUSTER.clock, CLUSTER.time_zone, CUT)
    return pack(
        folder,
        cluster=CLUSTER,
        model=folder / "model",
        state=state,
        model_version=model_version or f"{kind}-bench",
        registered=None,
        cut=CUT,
        created=created or datetime.now(UTC),
    )


def questions(jobs: pa.Table, count: int) -> list[dict[str, Any]]:
    names = ("user", "group", "queue", "job_name", "gpu_count", "cpu_count", "mem_mib", "node_count", "time_limit_s")
    rows = jobs.select(list(names)).to_pylist()
    return [{**rows[-1 - at % len(rows)], "submit_time": CUT.timestamp() + 0.5 * at} for at in range(count)]


def made_up(count: int, users: int = 200) -> pa.Table:
    """Return `count` ended jobs of the 60 days before CUT."""
    draw = np.random.default_rng(1)
    user, name = draw.integers(0, users, count), draw.integers(0, 8, count)
    habit_s = np.exp(draw.normal(6.5, 1.8, (users, 8)))[user, name]
    begin = round(CUT.timestamp() * 1e6) - 60 * 86_400 * 10**6
    submit = begin + np.sort(draw.integers(0, 58 * 86_400 * 10**6, count))
    start = submit + draw.integers(0, 7200 * 10**6, count)
    end = np.minimum(
        start + (habit_s * np.exp(draw.normal(0, 0.4, count)) * 1e6).astype(np.int64) + 10**6, round(CUT.timestamp() * 1e6) - 1
    )
    gpus = 2.0 ** draw.integers(0, 4, count)
    state = draw.choice(["COMPLETED", "FAILED", "CANCELLED"], count, p=[0.8, 0.12, 0.08])
    moments = {"submit_time": submit, "start_time": start, "end_time": end}
    columns = {
        **{k: pa.array(v).cast(pa.timestamp("us", tz="UTC")) for k, v in moments.items()},
        "cluster": ["bench"] * count,
        "job_id": [str(i) for i in range(count)],
        "job_key": [f"bench:{i}:{at}" for i, at in enumerate(submit)],
        "user": [f"u{u}" for u in user],
        "group": [f"g{u % 9}" for u in user],
        "queue": draw.choice(["gpu", "long"], count).tolist(),
        "job_name": [f"train_{m}_{i % 11}.sh" for i, m in enumerate(name)],
        "gpu_count": gpus,
        "cpu_count": gpus * 8,
        "mem_mib": gpus * 65_536,
        "node_count": np.ceil(gpus / 8),
        "time_limit_s": draw.choice([3600.0, 14_400.0, 86_400.0], count),
        "time_limit_kind": ["hard"] * count,
        "state": state.tolist(),
        "label": np.where(state == "CANCELLED", "censored", "event").tolist(),
        "runtime_s": (end - start) / 1e6,
        "attempts": np.ones(count, np.int32),
        "source": ["made up"] * count,
        "flags": pa.array([[]] * count, pa.list_(pa.string())),
    }
    return pa.table({f.name: columns.get(f.name, pa.nulls(count, f.type)) for f in JOBS}, schema=JOBS)


if __name__ == "__main__":
    main()
