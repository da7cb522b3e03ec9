"""Quality checks on real Great Expectations runs: what stops a night, what only warns, what is broken and not bad."""

import json
import logging
import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster, Quality, Source
from runcast.data.errors import HomeRefuses, QualityStop
from runcast.data.job import check
from runcast.data.lake import Lake
from runcast.data.quality import QualityReport, check_jobs
from runcast.data.quality_suites import Check, jobs_frame
from runcast.data.refusals import told_where_refused
from runcast.data.schema import JOBS
from runcast.data.settings import Settings, read_settings

CLUSTER = Cluster(name="venus", source=Source(format="table", paths=("log.csv",)), time_zone="UTC", schedule="0 3 * * *")
DAY = date(2024, 3, 20)
ROWS_A_DAY = 60


def day_rows(day: date, rows: int = ROWS_A_DAY) -> list[dict[str, object]]:
    """A plain day: `rows` jobs of five users on two queues that ran between one and ten minutes."""
    random = np.random.default_rng(day.toordinal())
    noon = int(datetime(day.year, day.month, day.day, 12, tzinfo=UTC).timestamp()) * 1_000_000
    out = []
    for i in range(rows):
        submit = noon + i * 1_000_000
        runtime_s = int(random.integers(60, 600))
        row: dict[str, object] = dict.fromkeys(JOBS.names)
        row |= {
            "cluster": "venus",
            "job_id": f"{day:%m%d}{i}",
            "job_key": f"venus:{day:%m%d}{i}",
            "source": f"log:{i}",
            "flags": [],
        }
        row |= {
            "user": f"alice{i % 5}",
            "job_name": "=cmd|' /C calc'!A0",
            "queue": ("gpu", "cpu")[i % 2],
            "gpu_count": float(i % 3),
        }
        row |= {"cpu_count": 8.0, "node_count": 1.0, "mem_mib": 1024.0, "time_limit_s": 3600.0, "time_limit_kind": "hard"}
        row |= {"submit_time": submit, "start_time": submit + 5_000_000, "end_time": submit + (5 + runtime_s) * 1_000_000}
        row |= {"state": "COMPLETED", "label": "event", "runtime_s": float(runtime_s), "queue_s": 5.0, "attempts": 1}
        out.append(row)
    return out


def table(rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=JOBS)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Five weeks of plain days."""
    settings = read_settings({"RUNCAST_HOME": str(tmp_path_factory.mktemp("home"))})
    days = [DAY - timedelta(days=back) for back in range(35)]
    Lake(settings.lake).replace("venus", ended={f"{day}": table(day_rows(day)) for day in days}, open_jobs=table([]), as_of_us=1)
    return settings


def checked(settings: Settings, rows: list[dict[str, object]], cluster: Cluster = CLUSTER) -> QualityReport:
    Lake(settings.lake).write_ended("venus", f"{DAY}", table(rows))
    return check(cluster, settings, DAY)


def changed(**values: object) -> Callable[[list[dict[str, object]]], list[dict[str, object]]]:
    return lambda rows: [row | values for row in rows]


def names(findings: tuple[object, ...]) -> set[str]:
    return {finding.check for finding in findings}  # type: ignore[attr-defined]


def test_a_plain_day_passes_and_its_pages_stand(history: Settings) -> None:
    report = checked(history, day_rows(DAY))
    assert (report.stops, report.warns, report.broken, report.passed) == ((), (), (), True)
    assert report.checks > 50
    report.require_passed()
    index = Path(report.data_docs)
    assert index.is_relative_to(history.home / "quality" / "venus")
    assert DAY.isoformat() in index.read_text()
    assert json.loads((history.home / "quality/venus/reports/2024-03-20.json").read_text())["passed"]


def test_the_same_night_again_takes_the_place_of_the_former(history: Settings) -> None:
    checked(history, day_rows(DAY))
    files = sorted((history.home / "quality").rglob("*.json"))
    checked(history, day_rows(DAY))
    assert sorted((history.home / "quality").rglob("*.json")) == files


BAD_DAYS = [
    pytest.param(lambda rows: [], {"cut_short", "row_count_minimum"}, id="no rows at all"),
    pytest.param(lambda rows: rows[:10], {"row_count_low"}, id="a sixth of the rows"),
    pytest.param(lambda rows: rows[::2], {"id_gaps", "row_count_low"}, id="every second row"),
    pytest.param(
        changed(state="", runtime_s=None, start_time=None, label="excluded"),
        {"state_set", "runtime_s_null_rise_stop"},
        id="all null",
    ),
    pytest.param(changed(user=None), {"user_null_rise_stop"}, id="no users"),
    pytest.param(changed(user=""), {"user_null_rise_stop"}, id="empty strings are nulls"),
    pytest.param(
        lambda rows: [row | {"mem_mib": None} if at % 2 else row for at, row in enumerate(rows)],
        {"mem_mib_null_rise_stop"},
        id="a half-empty column",
    ),
    pytest.param(changed(queue="renamed"), {"known_queues", "queue_renamed"}, id="renamed partition"),
    pytest.param(changed(state="OTHER", label="censored"), {"new_state"}, id="a new state"),
    pytest.param(
        changed(label="censored", runtime_s=None), {"label_role", "runtime_s_null_rise_stop"}, id="label without a runtime"
    ),
    pytest.param(changed(state="TIMEOUT"), {"label_role"}, id="a timeout is no event"),
    pytest.param(changed(cpu_count=-1.0), {"cpu_count_range"}, id="minus one for unknown"),
    pytest.param(
        changed(time_limit_s=60.0, runtime_s=600.0),
        {"limit_respected", "limit_unit", "runtime_is_end_less_start"},
        id="minutes for seconds",
    ),
    pytest.param(
        lambda rows: [row | {"start_time": row["submit_time"] - 1} for row in rows],
        {"start_not_before_submit", "runtime_is_end_less_start"},
        id="start first",
    ),
    pytest.param(
        lambda rows: [row | {"runtime_s": row["runtime_s"] + 5.0} for row in rows],
        {"runtime_is_end_less_start"},
        id="duration from submission",
    ),
    pytest.param(lambda rows: rows + rows[:1], {"job_key_unique", "job_once"}, id="one job twice"),
    pytest.param(
        lambda rows: rows + [row | {"job_key": f"{row['job_key']}+8h"} for row in rows],
        {"doubled_ids", "doubled_jobs"},
        id="every job twice",
    ),
    pytest.param(lambda rows: [*rows[1:], day_rows(DAY - timedelta(days=3))[0]], {"job_once"}, id="a job of another day"),
]


@pytest.mark.parametrize(("spoil", "stops"), BAD_DAYS)
def test_a_bad_day_stops_and_says_why(
    history: Settings, spoil: Callable[[list[dict[str, object]]], list[dict[str, object]]], stops: set[str]
) -> None:
    report = checked(history, spoil(day_rows(DAY)))
    assert names(report.stops) == stops
    assert report.broken == ()
    with pytest.raises(QualityStop, match="venus, 2024-03-20: nothing is trained, the champion stays") as stop:
        report.require_passed()
    assert all(f"{name}: expected " in str(stop.value) for name in stops)
    assert len(json.dumps(report.to_json())) < 10_000


def test_few_odd_rows_warn_with_their_keys(history: Settings) -> None:
    rows = day_rows(DAY)
    rows[3] |= {"time_limit_s": -5.0}
    report = checked(history, rows)
    assert report.passed
    assert [(f.check, f.found, f.job_keys) for f in report.warns] == [
        ("time_limit_s_range_all", "1 of 60 otherwise, e.g. -5", ("venus:03203",))
    ]


def test_a_quiet_day_whose_ids_are_in_a_row_warns(history: Settings) -> None:
    report = checked(history, day_rows(DAY)[:30])
    assert report.passed
    assert names(report.warns) == {"row_count_low"}


def test_a_burst_of_one_user_who_asks_for_no_memory_is_no_lost_column(history: Settings) -> None:
    """160 jobs, 100 of them hers without memory: by users 4.1 of 5 know it."""
    more = [row | {"user": "alice0", "mem_mib": None} for row in day_rows(DAY, 160)[60:]]
    report = checked(history, day_rows(DAY) + more)
    assert (names(report.stops), names(report.warns)) == (set(), set())


def test_jobs_cancelled_before_they_start_are_no_lost_runtimes(history: Settings) -> None:
    cancelled = {"state": "CANCELLED", "label": "excluded", "runtime_s": None, "start_time": None, "queue_s": None, "attempts": 0}
    report = checked(history, [row | cancelled for row in day_rows(DAY)[:50]] + day_rows(DAY)[50:])
    assert (names(report.stops), names(report.warns)) == (set(), set())


def over_midnight(day: date, hours: float) -> list[dict[str, object]]:
    """Five jobs of the evening of `day` that end so many hours after midnight."""
    midnight = round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1e6) + 86_400_000_000
    end, start = midnight + round(hours * 3.6e9), midnight - 14_400_000_000
    times = {"submit_time": start, "start_time": start, "end_time": end, "runtime_s": (end - start) / 1e6, "queue_s": 0.0}
    long = {"time_limit_s": 86_400.0}
    return [row | times | long | {"job_id": f"1{row['job_id']}", "job_key": f"{row['job_key']}+"} for row in day_rows(day, 5)]


RUNNING = {"end_time": None, "runtime_s": None, "state": "RUNNING", "label": "censored"}
WAITING = RUNNING | {"start_time": None, "queue_s": None, "state": "PENDING", "label": "excluded", "attempts": 0}
STILL = [
    pytest.param(0.5, WAITING, set(), {"cut_short", "silence"}, id="drained: jobs end, others wait, none runs"),
    pytest.param(None, RUNNING, {"cut_short", "row_count_minimum"}, {"silence"}, id="jobs run, and nothing is heard of them"),
]


@pytest.mark.parametrize(("ended_h", "left", "stops", "warns"), STILL)
def test_machines_that_stand_still_warn_and_those_that_work_unheard_stop(
    tmp_path: Path, ended_h: float | None, left: dict[str, object], stops: set[str], warns: set[str]
) -> None:
    """Each evening five jobs run past midnight; then a day on which nothing else comes."""
    settings = read_settings({"RUNCAST_HOME": str(tmp_path)})
    days = [DAY - timedelta(days=back) for back in range(28, 0, -1)]
    ended = {f"{day}": table(day_rows(day) + over_midnight(day - timedelta(days=1), 13)) for day in days}
    last = over_midnight(days[-1], ended_h or 13)
    if ended_h:
        ended[f"{DAY}"] = table(last)
    Lake(settings.lake).replace("venus", ended=ended, open_jobs=table([last[0] | left | {"job_key": "venus:left"}]), as_of_us=1)
    report = check(CLUSTER, settings, DAY)
    assert (names(report.stops), names(report.warns)) == (stops, warns)


def test_jobs_that_never_started_are_in_order(history: Settings) -> None:
    """Pairs with a null are not compared; by default they would count as wrong (CASES 60)."""
    rows = day_rows(DAY)
    for row in rows[:9]:
        row |= {"start_time": None, "runtime_s": None, "queue_s": None, "state": "CANCELLED", "label": "excluded", "attempts": 0}
    report = checked(history, rows)
    assert (report.stops, report.warns) == ((), ())


def test_a_finished_log_only_warns_of_few_rows(history: Settings) -> None:
    report = checked(history, day_rows(DAY)[:10], CLUSTER.model_copy(update={"schedule": None}))
    assert report.passed
    assert names(report.warns) == {"row_count_low"}


def test_the_cluster_file_can_ask_for_values(history: Settings) -> None:
    strict = CLUSTER.model_copy(update={"quality": Quality(null_share_at_most={"gpu_model": 0.1, "submit_time": 0})})
    assert names(checked(history, day_rows(DAY), strict).stops) == {"gpu_model_null_share"}


def test_the_first_night_is_judged_without_norms(tmp_path: Path) -> None:
    settings = read_settings({"RUNCAST_HOME": str(tmp_path)})
    assert checked(settings, day_rows(DAY)).passed
    assert names(checked(settings, changed(runtime_s=None, label="excluded")(day_rows(DAY))).stops) == {"runtime_s_some"}
    assert names(checked(settings, []).stops) == {"row_count_minimum"}


@pytest.mark.parametrize(
    ("schedule", "stops", "warns"),
    [("0 2 * * *", {"row_count_minimum"}, set()), (None, set(), {"row_count_minimum"})],
    ids=["of a running cluster", "of a finished one"],
)
def test_a_log_that_ended_months_ago_is_no_quiet_cluster(
    schedule: str | None, stops: set[str], warns: set[str], tmp_path: Path
) -> None:
    settings = read_settings({"RUNCAST_HOME": str(tmp_path)})
    long_ago = [DAY - timedelta(days=back) for back in range(90, 120)]
    Lake(settings.lake).replace(
        "venus", ended={f"{day}": table(day_rows(day)) for day in long_ago}, open_jobs=table([]), as_of_us=1
    )
    report = checked(settings, [], CLUSTER.model_copy(update={"schedule": schedule}))
    assert (names(report.stops), names(report.warns)) == (stops, warns)


def test_no_user_name_no_job_name_and_no_markup_reaches_the_pages(history: Settings) -> None:
    rows = day_rows(DAY)
    for row in rows[:30]:
        row |= {
            "user": "mallory",
            "job_key": f"{row['job_key']}<script>alert(7)</script>",
            "cpu_count": -1.0,
            "state": "<b>odd</b>",
        }
    report = checked(history, rows)
    assert not report.passed
    written = [path.read_text() for path in (history.home / "quality").rglob("*") if path.suffix in {".html", ".json"}]
    assert len(written) >= 5
    for text in written:
        assert "mallory" not in text
        assert "alice" not in text
        assert "calc" not in text
        assert "<script>alert(7)" not in text
        assert "<b>odd" not in text
    assert any("?script?alert?7?" in text for text in written)


def test_a_check_that_raises_is_broken_and_the_data_not_called_bad(tmp_path: Path) -> None:
    """A text bound on numbers, a column that is not there (CASES 57): exceptions inside a check, not findings about the data."""
    frame = jobs_frame(table(day_rows(DAY)))
    checks = [
        Check(
            "text_bound", "warn", "ExpectColumnValuesToBeBetween", {"column": "cpu_count", "min_value": "2023-01-01"}, "numbers"
        ),
        Check("no_such_column", "stop", "ExpectColumnValuesToNotBeNull", {"column": "nowhere"}, "a column"),
        Check("fine", "stop", "ExpectColumnValuesToNotBeNull", {"column": "cpu_count"}, "CPUs"),
    ]
    report = check_jobs("venus", DAY, tmp_path, jobs=(frame, checks), night=(pd.DataFrame({"x": [1.0]}), []))
    assert (report.stops, report.warns) == ((), ())
    assert [(finding.check, finding.found[:12]) for finding in report.broken] == [
        ("no_such_column", "an exception"),
        ("text_bound", "an exception"),
    ]
    with pytest.raises(QualityStop, match="check broken, data not judged: no_such_column"):
        report.require_passed()


@pytest.mark.parametrize(
    "page",
    ["expectations/jobs.html", "validations/jobs/2024-03-20/20240320T000000.000000Z/jobs-jobs.html", "index.html"],
    ids=["suite", "result", "index"],
)
def test_a_page_that_the_disk_does_not_take_is_one_error_and_whole_at_the_next_run(
    tmp_path: Path, page: str, caplog: pytest.LogCaptureFixture
) -> None:
    """/dev/full in the place of a page. Great Expectations alone would log a trace for it and go on without."""
    frame = pd.DataFrame({"job_key": ["a"], "x": [1.0]})
    known = Check("known", "stop", "ExpectColumnValuesToNotBeNull", {"column": "x"}, "a number")
    path = tmp_path / "docs" / page
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/full")
    with pytest.raises(HomeRefuses, match="No space left on device"), told_where_refused("venus, 2024-03-20: quality"):
        check_jobs("venus", DAY, tmp_path, jobs=(frame, [known]), night=(frame, [known]))
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    path.unlink()
    assert check_jobs("venus", DAY, tmp_path, jobs=(frame, [known]), night=(frame, [known])).passed
    assert path.read_text().rstrip().endswith("</html>")


def test_times_are_compared_as_epoch_seconds_of_utc() -> None:
    """Not as datetimes, whose bounds break on zones and take seconds per million rows (CASES 57, 59)."""
    frame = jobs_frame(table(day_rows(DAY)))
    assert frame["submit_s"].iloc[0] == datetime(2024, 3, 20, 12, tzinfo=UTC).timestamp()
    assert not any(pd.api.types.is_datetime64_any_dtype(kind) for kind in frame.dtypes)
    assert frame["limit_overrun"].iloc[0] == frame["runtime_s"].iloc[0] / 3600


def test_checking_reads_the_window_and_not_the_history(tmp_path: Path) -> None:
    """A damaged file outside the 28 days is never opened."""
    settings = read_settings({"RUNCAST_HOME": str(tmp_path)})
    lake = Lake(settings.lake)
    days = [DAY - timedelta(days=back) for back in range(29)]
    lake.replace(
        "venus", ended={f"{day}": table(day_rows(day, 5)) for day in [*days, date(2020, 1, 1)]}, open_jobs=table([]), as_of_us=1
    )
    (lake.root / "jobs/cluster=venus/end_date=2020-01-01/part.parquet").write_bytes(b"damaged")
    assert check(CLUSTER, settings, DAY).stops == ()


@pytest.mark.parametrize(
    ("spoil", "check_name", "said"),
    [
        pytest.param(changed(mem_mib=1.0), "columns_alike", "mem_mib: 1024 before, 1 today (in GiB since?)", id="an amount"),
        pytest.param(changed(queue="new"), "known_queues", "queue cpu and gpu gone, new new", id="a queue"),
        pytest.param(
            lambda rows: [row | {"user": f"eve{at}"} if at < 40 else row for at, row in enumerate(rows)],
            "few_new_users",
            "40 of 45 users new, with 40 jobs",
            id="users are counted, not named",
        ),
        pytest.param(changed(gpu_count=None), "gpu_count_null_rise_stop", "known for 0% of a user's jobs, 100% or more before", id="nulls"),
    ],
)  # fmt: skip
def test_a_finding_says_what_was_before_and_what_is_today(
    history: Settings, spoil: Callable[[list[dict[str, object]]], list[dict[str, object]]], check_name: str, said: str
) -> None:
    report = checked(history, spoil(day_rows(DAY)))
    (finding,) = [one for one in (*report.stops, *report.warns) if one.check == check_name]
    assert finding.found.endswith(said)
    pages = [path.read_text() for path in (history.home / "quality").rglob("*.html")]
    assert not any(said in page or "eve1" in page for page in pages)


def test_values_of_a_log_cannot_act_where_they_are_shown(history: Settings) -> None:
    report = checked(history, changed(queue="\x1b[2J<script>alert(1)</script>" + "x" * 200)(day_rows(DAY)))
    (finding,) = [one for one in report.stops if one.check == "known_queues"]
    assert not set(finding.found) & set("\x1b<>[]()")
    assert len(finding.found) < 100


def test_results_and_pages_of_the_latest_sixty_nights_stay(tmp_path: Path) -> None:
    settings = read_settings({"RUNCAST_HOME": str(tmp_path)})
    checked(settings, day_rows(DAY))
    folder = tmp_path / "quality" / "venus"
    suites = [folder / kind / name for kind in ("results", "docs/validations") for name in ("jobs", "night")]
    for suite in suites:
        for back in range(1, 101):
            shutil.copytree(suite / f"{DAY}", suite / f"{DAY - timedelta(days=back)}")
    checked(settings, day_rows(DAY))
    oldest = f"{DAY - timedelta(days=59)}"
    for suite in suites:
        nights = sorted(path.name for path in suite.iterdir())
        assert (len(nights), nights[0], nights[-1]) == (60, oldest, f"{DAY}")
    assert (folder / "reports" / f"{DAY}.json").exists()
