"""Fixtures every folder shares."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from runcast.data.cluster import Cluster

CUT = datetime(2026, 3, 31, 22, tzinfo=UTC)  # of the made-up jobs: midnight in Berlin, the end of 31 March

# Machines are shared: an example that waits for its turn is not a fault. The same examples every time, everywhere; `make fuzz` looks wider.
settings.register_profile("runcast", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("runcast")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job; what the tests start must take an interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)

_UMASK = os.umask(0)
os.umask(_UMASK)


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    """A command that a test runs in this process sets the process's mask; other tests write for other accounts."""
    os.umask(_UMASK)
    yield
    os.umask(_UMASK)


@pytest.fixture(scope="session")
def swf_log() -> Callable[..., str]:
    """Make the text of a log from 2026-01-01 on: four users, each with runtimes of her own, a job every so many seconds."""
    import numpy as np

    def make(*, jobs: int, every_s: int, seed: int) -> str:
        draw = np.random.default_rng(seed)
        lines = ["; UnixStartTime: 1767225600"]  # 2026-01-01 00:00 UTC
        for number in range(jobs):
            user = int(draw.integers(1, 5))
            ran_s = 100 * user + int(draw.integers(0, 20))
            lines.append(f"{number + 1} {number * every_s} 3 {ran_s} 4 -1 -1 4 7200 -1 1 {user} 1 1 1 1 -1 -1")
        return "\n".join(lines) + "\n"

    return make


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of real logs, laid out as the cluster files expect; tests that ask for it are skipped where it is not named."""
    named = os.environ.get("RUNCAST_TRACES")
    if not named:
        pytest.skip("RUNCAST_TRACES is not set: no real logs to test on")
    folder = Path(named).resolve()
    if not folder.is_dir():
        pytest.fail(f"RUNCAST_TRACES={named}: no such folder")
    return folder


@pytest.fixture(scope="session")
def made_up_cluster() -> "Cluster":
    """A cluster file's content for the made-up jobs; its models are small."""
    from runcast.data.cluster import Cluster

    source = {"format": "table", "paths": ["unused"]}
    training = {"min_jobs": 200, "gbdt": {"trees": 40, "leaves": 15}, "runcast": {"trees": 40, "leaves": 15}}
    return Cluster.model_validate(
        {"name": "demo", "source": source, "time_zone": "Europe/Berlin", "gpus_tracked": True, "training": training}
    )


@pytest.fixture(scope="session")
def made_up_jobs() -> "pa.Table":
    """3,000 jobs of 30 days as they stood at the cut: users with habits, some unnamed, some jobs never started, some running."""
    import numpy as np
    import pyarrow as pa

    from runcast.data.schema import JOBS

    draw = np.random.default_rng(7)
    n, begin_us = 3000, round((CUT - timedelta(days=30)).timestamp() * 1e6)
    user, name = draw.integers(0, 25, n), draw.integers(0, 4, n)
    habit_s = np.exp(draw.normal(6.5, 1.8, (25, 4)))[user, name]
    submit = np.sort(draw.integers(0, 30 * 86_400 * 10**6, n))
    start = submit + draw.integers(0, 7200 * 10**6, n)
    end = start + (np.maximum(habit_s * np.exp(draw.normal(0, 0.3, n)), 1) * 1e6).astype(np.int64)
    never = draw.random(n) < 0.03
    gpus = 2.0 ** draw.integers(0, 4, n)
    cut_us = 30 * 86_400 * 10**6
    ran = ~never & (start < cut_us)
    ended = ran & (end < cut_us)
    gone = never & (start < cut_us)
    state = np.where(ended, draw.choice(["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"], n, p=[0.8, 0.1, 0.05, 0.05]), "RUNNING")
    state = np.where(gone, "CANCELLED", np.where(ran, state, "PENDING"))
    label = np.where(ran & ~np.isin(state, ["COMPLETED", "FAILED"]), "censored", np.where(ran, "event", "excluded"))
    missing = draw.random(n) < 0.05
    limit_s = np.where(draw.random(n) < 0.1, np.nan, draw.choice([3600.0, 14_400.0, 86_400.0], n))

    def moment(us: "np.ndarray", known: "np.ndarray") -> "pa.Array":
        return pa.array(begin_us + us, mask=~known).cast(pa.timestamp("us", tz="UTC"))

    def text(values: list[str], unknown: "np.ndarray | None" = None) -> "pa.Array":
        return pa.array(values, pa.string(), mask=unknown)

    columns: dict[str, Any] = {
        "cluster": text(["demo"] * n),
        "job_id": text([str(i) for i in range(n)]),
        "job_key": text([f"demo:{i}:{begin_us + at}" for i, at in enumerate(submit)]),
        "user": text([f"u{u}" for u in user], missing),
        "group": text([f"g{u % 5}" for u in user]),
        "queue": text(["gpu"] * n),
        "job_name": text([f"train_{m}_{i % 7}.sh" for i, m in enumerate(name)]),
        "submit_time": moment(submit, np.ones(n, bool)),
        "gpu_count": pa.array(gpus),
        "cpu_count": pa.array(gpus * 8),
        "mem_mib": pa.array(gpus * 65_536),
        "node_count": pa.array(np.ceil(gpus / 8)),
        "time_limit_s": pa.array(limit_s, mask=np.isnan(limit_s)),
        "time_limit_kind": text(np.where(np.isnan(limit_s), "absent", "hard").tolist()),
        "start_time": moment(start, ran),
        "end_time": moment(np.where(gone, start, end), ended | gone),
        "state": text(state.tolist()),
        "label": text(label.tolist()),
        "runtime_s": pa.array((end - start) / 1e6, mask=~ended),
        "attempts": pa.array(ran.astype(np.int32)),
        "source": text(["made up"] * n),
        "flags": pa.array([[]] * n, pa.list_(pa.string())),
    }
    return pa.table({field.name: columns.get(field.name, pa.nulls(n, field.type)) for field in JOBS}, schema=JOBS)


@pytest.fixture
def find_fit() -> Callable[[str, int], int]:
    """Return a function that waits for the worker process in which a descendant of a process fits a kind, and returns its pid."""

    def descendants(pid: int) -> list[int]:
        children = []
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):  # it has ended
                children += [int(child) for child in task.read_text().split()]
        return [*children, *(found for child in children for found in descendants(child))]

    def find(kind: str, ancestor: int) -> int:
        until = time.monotonic() + 120
        while time.monotonic() < until:
            for pid in descendants(ancestor):
                with suppress(OSError):
                    if Path(f"/proc/{pid}/comm").read_text() == f"fit {kind}\n":
                        return pid
            time.sleep(0.002)
        raise AssertionError(f"no process fitted {kind} within two minutes")

    return find


@pytest.fixture
def kill_fit(find_fit: Callable[[str, int], int]) -> Callable[..., Any]:
    """Return a context in which the first fit of a kind that this process asks for gets a signal (or is given to a function)."""

    @contextmanager
    def kill(kind: str, by: signal.Signals | Callable[[int], None]) -> Iterator[list[int]]:
        killed: list[int] = []

        def watch() -> None:
            pid = find_fit(kind, os.getpid())
            killed.append(pid)
            if callable(by):
                by(pid)
            else:
                os.kill(pid, by)

        watcher = Thread(target=watch)
        watcher.start()
        try:
            yield killed
        finally:
            watcher.join()

    return kill
