"""The features stage on a real lake: what a night sees, what it writes, and that what is read back is what was built."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster
from runcast.data.lake import Lake
from runcast.data.schema import JOBS
from runcast.data.settings import Settings, read_settings
from runcast.features.catalog import NAMES
from runcast.features.errors import FeaturesStale, MissingColumns
from runcast.features.job import build_features, build_state, read_matrix
from runcast.features.table import build

DAY = dt.date(2024, 3, 1)
CLUSTER = Cluster.model_validate(
    {"name": "lab", "source": {"format": "swf", "paths": ["log.swf"]}, "time_zone": "Europe/Berlin", "gpus_tracked": True}
)


def row(key: str, hour: float, run_h: float | None, **more: Any) -> dict[str, Any]:
    """A job submitted and started at an hour of the day (UTC) that runs for so many hours, still running if None."""
    submit = int(dt.datetime(2024, 3, 1, tzinfo=dt.UTC).timestamp() * 1e6 + hour * 3_600_000_000)
    job: dict[str, Any] = dict.fromkeys(JOBS.names) | {"cluster": "lab", "job_id": key, "job_key": key, "user": "ann"}
    job |= {"submit_time": submit, "start_time": submit, "gpu_count": 2.0, "time_limit_kind": "hard", "source": "log.swf:1"}
    job |= {"flags": [], "attempts": 1, "state": "RUNNING", "label": "censored"}
    if run_h is not None:
        job |= {
            "end_time": submit + int(run_h * 3_600_000_000),
            "runtime_s": run_h * 3600,
            "state": "COMPLETED",
            "label": "event",
        }
    return job | more


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    lake = Lake(tmp_path / "lake")
    ended = {
        "2024-03-01": [row("a", 1, 1), row("b", 3, 0.5, user=None, job_name="run_7"), row("c", 5, 2)],
        "2024-03-02": [row("d", 22, 3), row("e", 23.5, 0.25)],  # 23:00 UTC is midnight in Berlin: e is submitted a day later
    }
    for day, rows in ended.items():
        lake.write_ended("lab", day, pa.Table.from_pylist(rows, schema=JOBS))
    lake.write_open("lab", pa.Table.from_pylist([row("f", 20, None)], schema=JOBS), as_of_us=2 * 10**15)
    return read_settings({"RUNCAST_HOME": str(tmp_path), "RUNCAST_CLUSTERS": str(tmp_path)})


def test_a_night_sees_what_had_happened_by_its_end(settings: Settings) -> None:
    report = build_features(CLUSTER, settings, DAY)
    assert (report.jobs, report.open_jobs, report.catalog) == (5, 2, len(NAMES))
    assert len(str(report.to_json())) < 1000
    matrix = read_matrix(CLUSTER, settings, DAY)
    assert dict(zip(matrix.job_key, matrix.ended.is_over.tolist(), strict=True)) == dict.fromkeys("abc", True) | dict.fromkeys(
        "df", False
    )


def test_a_job_that_has_long_outlived_its_limit_is_counted_and_no_running_sibling(settings: Settings) -> None:
    runs = {"time_limit_s": 86_400.0, "start_time": None}
    old = {key: row(key, hour, None, **runs) for key, hour in (("dead", -24 * 1096), ("late", -48))}
    for job in old.values():
        job["start_time"] = job["submit_time"]
    waits = row("waits", -24 * 1096, None, state="PENDING", label="excluded", start_time=None, attempts=0)
    jobs = pa.Table.from_pylist([*old.values(), waits, row("f", 20, None)], schema=JOBS)
    Lake(settings.lake).write_open("lab", jobs, as_of_us=2 * 10**15)
    report = build_features(CLUSTER, settings, DAY)
    assert (report.open_jobs, report.runaways) == (5, 1)
    matrix = read_matrix(CLUSTER, settings, DAY)
    at = matrix.job_key.tolist().index("f")
    seen = {name: matrix.column(name)[at] for name in ("running_gpus", "running_n_by_user", "running_mean_s_by_user")}
    assert seen == {"running_gpus": 2, "running_n_by_user": 1, "running_mean_s_by_user": 68 * 3600}, "late, and not dead"


def test_what_is_read_is_what_was_built(settings: Settings) -> None:
    build_features(CLUSTER, settings, DAY)
    read = read_matrix(CLUSTER, settings, DAY)
    jobs = (
        Lake(settings.lake)
        .read_jobs("lab", before=int(dt.datetime(2024, 3, 1, 23, tzinfo=dt.UTC).timestamp()) * 10**6)
        .to_pandas()
    )
    built = build(jobs, "calendar", "Europe/Berlin")
    assert read.names == built.names
    np.testing.assert_array_equal(read.values, built.values)
    for name, category in built.categories.items():
        assert [None if c < 0 else category.vocabulary[c] for c in category.codes] == [
            None if c < 0 else read.categories[name].vocabulary[c] for c in read.categories[name].codes
        ]
    np.testing.assert_array_equal(read.ended.end_us, built.ended.end_us)
    np.testing.assert_array_equal(read.ended.runtime_s, built.ended.runtime_s)
    assert read.ended.label.tolist() == built.ended.label.tolist()


def test_building_twice_writes_the_same_bytes(settings: Settings) -> None:
    assert build_features(CLUSTER, settings, DAY) == build_features(CLUSTER, settings, DAY)


def test_features_of_another_day_are_refused(settings: Settings) -> None:
    build_features(CLUSTER, settings, DAY)
    with pytest.raises(FeaturesStale, match="runcast features --cluster lab --date 2024-03-02"):
        read_matrix(CLUSTER, settings, DAY + dt.timedelta(days=1))


def test_the_state_of_a_night_answers_like_its_table(settings: Settings) -> None:
    asked = row("new", 30, None)
    state = build_state(CLUSTER, settings, DAY)
    values = dict(zip(NAMES, state.row(asked)[0].tolist(), strict=True))
    assert (values["runs_by_user"], values["running_n_by_user"], values["last_1_s_by_user"]) == (2, 2, 7200)


def test_a_table_without_a_column_is_refused(settings: Settings) -> None:
    jobs = Lake(settings.lake).read_jobs("lab").to_pandas().drop(columns=["queue", "label"])
    with pytest.raises(MissingColumns, match="lacks queue, label"):
        build(jobs, "calendar", "UTC")
