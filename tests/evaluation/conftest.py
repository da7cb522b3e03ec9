"""A small made-up log as canonical jobs, its real feature matrix, and hand-made forecasts."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from runcast.data.columns import COLUMNS
from runcast.features.matrix import Matrix
from runcast.features.table import build
from runcast.training.forecast import Forecast

ORIGIN = pd.Timestamp("2024-03-04", tz="UTC")  # a Monday
DAY_S = 86_400.0

_EMPTY: dict[str, Any] = {"string": "str", "float64": "float64", "int32": "float64"}


def canonical(**given: Any) -> pd.DataFrame:
    """Return jobs with every canonical column: those given, the others null; times in seconds after ORIGIN, NaN for null."""
    count = len(given["submit_s"])
    jobs = pd.DataFrame(index=range(count))
    for column in COLUMNS:
        if column.type == "timestamp":
            seconds = np.asarray(given.get(column.name.removesuffix("_time") + "_s", np.full(count, np.nan)), float)
            jobs[column.name] = (ORIGIN + pd.to_timedelta(pd.Series(seconds), unit="s")).astype("datetime64[us, UTC]")
        elif column.name in given:
            jobs[column.name] = given[column.name]
        elif column.type == "list<string>":
            jobs[column.name] = [[] for _ in range(count)]
        else:
            jobs[column.name] = pd.Series([None] * count, dtype=_EMPTY[column.type])
    return jobs


def _log(jobs: int, days: float, seed: int, users: int) -> pd.DataFrame:
    """Jobs whose runtime follows the user and the name, with a tenth cut at a day's limit's eighth, some open at the end."""
    rng = np.random.default_rng(seed)
    submit_s = np.sort(rng.uniform(0, days * DAY_S, jobs)).round()
    user, name = rng.integers(0, users, jobs), rng.integers(0, 3, jobs)
    runtime_s = np.maximum(1, 60 * 2.0 ** (user % 7) * (1 + name) * np.exp(rng.normal(0, 0.2, jobs))).round()
    state = rng.choice(["COMPLETED", "FAILED", "TIMEOUT"], jobs, p=[0.8, 0.1, 0.1])
    start_s = submit_s + rng.exponential(300, jobs).round()
    end_s = start_s + runtime_s
    is_open = end_s >= days * DAY_S
    return canonical(
        cluster="made_up",
        job_id=[str(one) for one in range(jobs)],
        job_key=[f"made_up:{one}" for one in range(jobs)],
        user=[f"u{one}" for one in user],
        group=[f"g{one % 2}" for one in user],
        job_name=[f"train_{one}" for one in name],
        submit_s=submit_s,
        start_s=start_s,
        end_s=np.where(is_open, np.nan, end_s),
        gpu_count=np.where(user % 2, 1.0, 8.0),
        node_count=np.where(user % 2, 1.0, 2.0),
        time_limit_s=DAY_S,
        time_limit_kind="hard",
        state=np.where(is_open, "RUNNING", state),
        label=np.where(is_open | (state == "TIMEOUT"), "censored", "event"),
        runtime_s=np.where(is_open, np.nan, runtime_s),
        attempts=1,
    )


@pytest.fixture(scope="session")
def make_log() -> Callable[..., pd.DataFrame]:
    def make(jobs: int = 1200, days: float = 40, seed: int = 5, users: int = 8) -> pd.DataFrame:
        return _log(jobs, days, seed, users)

    return make


@pytest.fixture(scope="session")
def make_canonical() -> Callable[..., pd.DataFrame]:
    return canonical


@pytest.fixture(scope="session")
def log(make_log: Callable[..., pd.DataFrame]) -> pd.DataFrame:
    return make_log()


@pytest.fixture(scope="session")
def matrix(log: pd.DataFrame) -> Matrix:
    return build(log, "calendar", "UTC")


@pytest.fixture
def make_forecast() -> Callable[..., Forecast]:
    """Return a maker of forecasts from p50; p90 twice that, confidence 0.5 unless given."""

    def make(p50_s: Any, p90_s: Any = None, confidence: Any = 0.5) -> Forecast:
        p50 = np.asarray(p50_s, float)
        p90 = 2 * p50 if p90_s is None else np.asarray(p90_s, float)
        return Forecast(p50, p90, p50, np.broadcast_to(np.asarray(confidence, float), p50.shape), np.full(len(p50), "made"))

    return make
