"""The demo's made-up logs: the sources read exactly what the generator says it wrote, and it has what real logs have."""

import hashlib
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from runcast.data.cluster import Cluster, read_cluster
from runcast.data.demo import DemoLog, write_demo
from runcast.data.job import IngestReport, check, ingest
from runcast.data.lake import Lake
from runcast.data.settings import Settings, read_settings

#: What the sources call each kind of dirt that the generator makes.
REASONS = {
    "demo_slurm": {"wrong_field_count", "end_before_start", "end_missing", "elapsed_unreadable"},
    "demo_helios": {"wrong_field_count", "end_before_start", "submit_time_unreadable"},
    "demo_pai": {"job_not_in_job_table", "end_before_start", "end_missing"},
}


def hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return read_settings({"RUNCAST_HOME": str(tmp_path_factory.mktemp("home"))})


@pytest.fixture(scope="module")
def logs(home: Settings) -> dict[str, DemoLog]:
    return {log.cluster: log for log in write_demo(home.home / "demo")}


@pytest.fixture(scope="module")
def clusters(home: Settings) -> dict[str, Cluster]:
    return {name: read_cluster(home.clusters[0] / f"{name}.yaml") for name in REASONS}


@pytest.fixture(scope="module")
def loaded(home: Settings, logs: dict[str, DemoLog], clusters: dict[str, Cluster]) -> dict[str, IngestReport]:
    return {name: ingest(clusters[name], home) for name in logs}


@pytest.fixture(scope="module")
def jobs(home: Settings, loaded: dict[str, IngestReport]) -> dict[str, pd.DataFrame]:
    return {name: Lake(home.lake).read_jobs(name).to_pandas() for name in loaded}


@pytest.mark.parametrize("name", REASONS)
def test_the_sources_read_what_the_generator_says_it_wrote(
    name: str, logs: dict[str, DemoLog], loaded: dict[str, IngestReport], jobs: dict[str, pd.DataFrame]
) -> None:
    log, report = logs[name], loaded[name]
    assert (report.rows_in, report.accepted, report.rejected, sum(report.skipped.values())) == (
        log.records,
        log.accepted,
        log.rejected,
        log.skipped,
    )
    assert log.records == log.accepted + log.rejected + log.skipped
    assert report.duplicates == log.accepted - log.jobs
    assert len(jobs[name]) == jobs[name]["job_key"].nunique() == log.jobs
    assert set(report.rejected_by_reason) == REASONS[name]
    assert (report.first, report.last) == (log.first_day, log.last_day)


@pytest.mark.parametrize("name", REASONS)
def test_the_last_day_passes_the_quality_checks(
    name: str, home: Settings, clusters: dict[str, Cluster], loaded: dict[str, IngestReport]
) -> None:
    report = check(clusters[name], home, date(2026, 6, 30))
    assert (report.stops, report.broken) == ((), ())


def test_about_sixty_thousand_jobs_in_120_days(logs: dict[str, DemoLog]) -> None:
    assert sum(log.jobs for log in logs.values()) == pytest.approx(60_000, rel=0.05)
    assert {(log.first_day, log.last_day) for log in logs.values()} == {("2026-03-03", "2026-06-30")}


def test_every_folder_says_that_its_log_is_made_up(home: Settings, logs: dict[str, DemoLog]) -> None:
    for log in logs.values():
        assert "These logs are made up." in (Path(log.folder) / "README.txt").read_text()
    for path in home.clusters[0].glob("demo_*.yaml"):
        assert path.read_text().startswith("# Made up:")


def test_same_arguments_same_bytes_and_other_seeds_other_bytes(tmp_path: Path) -> None:
    for name, seed in (("one", 3), ("two", 3), ("three", 4)):
        write_demo(tmp_path / name, seed=seed, days=20, last_day=date(2025, 11, 9))  # over an hour that comes twice in Berlin
    assert hashes(tmp_path / "one") == hashes(tmp_path / "two")
    logs = [name for name in hashes(tmp_path / "one") if not name.endswith(".header")]
    assert all(hashes(tmp_path / "one")[name] != hashes(tmp_path / "three")[name] for name in logs)


def test_writing_again_leaves_nothing_of_a_longer_span(tmp_path: Path) -> None:
    write_demo(tmp_path, days=70)
    write_demo(tmp_path, days=5)
    assert [path.name for path in sorted((tmp_path / "demo_slurm").glob("sacct-*"))] == ["sacct-2026-06.txt"]


@pytest.mark.parametrize("last_day", [date(2025, 11, 9), date(2024, 3, 1)], ids=["repeated hour", "leap day"])
def test_counts_agree_at_other_dates(tmp_path: Path, clusters: dict[str, Cluster], last_day: date) -> None:
    settings = read_settings({"RUNCAST_HOME": str(tmp_path)})
    for log in write_demo(tmp_path / "demo", seed=11, days=40, last_day=last_day):
        report = ingest(clusters[log.cluster], settings)
        assert (report.accepted, report.rejected, report.ended + report.open) == (log.accepted, log.rejected, log.jobs)


# -- what real logs have


def test_work_recurs_by_user_and_name(jobs: dict[str, pd.DataFrame]) -> None:
    slurm = jobs["demo_slurm"]
    shape = slurm["job_name"].str.replace(r"\d+", "#", regex=True)
    runs = slurm.groupby([slurm["user"], shape])["job_key"].transform("size")
    assert (runs >= 5).mean() > 0.9
    assert slurm["job_name"].str.contains("|", regex=False).any()  # the delimiter, inside the last column


def test_runtimes_have_two_modes(jobs: dict[str, pd.DataFrame]) -> None:
    """Jobs that fail do so early: in the median ten times sooner than those that complete."""
    slurm = jobs["demo_slurm"]
    median = slurm.groupby("state")["runtime_s"].median()
    assert median["FAILED"] * 10 < median["COMPLETED"]
    assert {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "RUNNING"} <= set(slurm["state"])


def test_days_and_weeks_have_their_rhythm(jobs: dict[str, pd.DataFrame]) -> None:
    for name, zone in (("demo_slurm", "Europe/Berlin"), ("demo_helios", "Asia/Shanghai"), ("demo_pai", "Asia/Shanghai")):
        submitted = jobs[name]["submit_time"].dt.tz_convert(zone)
        by_weekday = np.bincount(submitted.dt.day_of_week, minlength=7)
        assert by_weekday[5:].mean() < 0.6 * by_weekday[:5].mean()
        assert submitted.dt.hour.between(8, 19).mean() > 0.6


def test_there_are_arrays_requeues_and_jobs_that_never_started(jobs: dict[str, pd.DataFrame]) -> None:
    slurm = jobs["demo_slurm"]
    assert slurm["array_id"].notna().mean() > 0.05
    assert (slurm["attempts"] == 2).sum() > 50
    assert (slurm["attempts"] == 0).sum() > 100


def test_new_users_appear_and_work_changes_its_length(jobs: dict[str, pd.DataFrame]) -> None:
    slurm = jobs["demo_slurm"]
    first_seen = slurm.groupby("user")["submit_time"].min()
    span = slurm["submit_time"].max() - slurm["submit_time"].min()
    assert (first_seen > slurm["submit_time"].min() + span / 2).sum() >= 3
    done = slurm[slurm["state"] == "COMPLETED"]
    is_late = done["submit_time"] > done["submit_time"].min() + 0.62 * span
    kind = [done["user"], done["job_name"].str.replace(r"\d+", "#", regex=True)]
    early, late = (np.log(done[rows].groupby([key[rows] for key in kind])["runtime_s"].median()) for rows in (~is_late, is_late))
    changed = (late - early).dropna().abs() > 0.7
    assert 0.1 < changed.mean() < 0.6
