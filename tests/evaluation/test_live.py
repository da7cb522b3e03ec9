"""The daily look at served forecasts: lines counted whatever they are, jobs judged on the day they end, records that repeat."""

import datetime as dt
import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runcast.data.asof import cut_us
from runcast.data.cluster import Cluster
from runcast.data.errors import LakeBehind
from runcast.data.lake import Lake
from runcast.data.schema import JOBS
from runcast.data.settings import Settings, read_settings
from runcast.evaluation.errors import NothingServed, ServedFilesMissing
from runcast.evaluation.live.job import look_at
from runcast.evaluation.live.judge import join_served, judge_live
from runcast.evaluation.live.served import KEYS, ServedForecasts, read_line
from runcast.scheduler import served as service

LINE: dict[str, Any] = {
    "cluster": "demo", "job_key": "demo:1:0", "submit_time": "2026-03-30T10:00:00Z", "p50_s": 60.0, "p90_s": 120, "point_s": 60.0,
    "confidence": 0.5, "source": "runcast", "model_version": "runcast-2026-03-29-abcdef01", "answered_at": "2026-03-30T10:00:01Z",
}  # fmt: skip
DAY = dt.date(2026, 3, 30)
HOUR_US = 3_600_000_000


def line(**changed: Any) -> bytes:
    return json.dumps({**LINE, **changed}).encode()


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in LINE.items() if key != name}).encode()


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (line(), ""),
        (line(more="keys of a later version"), ""),
        (line(answered_at="2026-03-30T12:00:01+02:00"), ""),
        (b"", "not JSON"),
        (line()[:40], "not JSON"),  # a writer died within it
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1, 2]", "not an object"),
        (without("p90_s"), "no p90_s"),
        (line(cluster=7), "cluster is not text"),
        (line(job_key=""), "job_key is not text"),
        (line(p50_s=None), "p50_s is not a number"),
        (line(p50_s=True), "p50_s is not a number"),
        (line(p50_s="60"), "p50_s is not a number"),
        (line(p90_s=math.nan), "p90_s is not a number"),
        (line(p90_s=math.inf), "p90_s is not a number"),
        (line(point_s=10**400), "point_s is not a number"),
        (line(p50_s=0), "p50_s is not above 0"),
        (line(confidence=1.01), "confidence is not a share"),
        (line(answered_at="2026-03-30T10:00:01"), "a time is not one with its zone"),
        (line(submit_time="yesterday"), "a time is not one with its zone"),
        (line(submit_time=0), "a time is not one with its zone"),
    ],
    ids=lambda value: (value[:30].decode(errors="replace") if isinstance(value, bytes) else value) or "good",
)
def test_each_line_is_kept_or_refused_with_its_reason(raw: bytes, reason: str) -> None:
    told, why = read_line(raw)
    assert (told is None, why) == (bool(reason), reason)


@given(st.lists(st.one_of(st.binary(max_size=60), st.sampled_from([line(), line(cluster="b"), line(job_key="x"), line()[:-1]]))))
def test_no_line_is_lost(lines: list[bytes]) -> None:
    served = ServedForecasts()
    served.read("some.jsonl", lines, "demo", frozenset({LINE["job_key"]}))
    kept = len(served.frame())
    assert served.lines == len(lines)
    assert served.lines == kept + served.repeated + served.not_asked_for + served.other_clusters + served.rejects.total()


def test_the_first_forecast_of_a_job_counts() -> None:
    served = ServedForecasts()
    lines = [line(answered_at="2026-03-30T11:00:00Z", p50_s=2.0), line(answered_at="2026-03-30T10:00:00Z", p50_s=1.0), line()]
    served.read("a.jsonl", lines, "demo", frozenset({LINE["job_key"]}))
    assert served.frame()["p50_s"].tolist() == [1.0]
    assert served.repeated == 2


def frame_of_jobs(*rows: tuple[str, int, int, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["job_key", "submit_us", "end_us", "runtime_s"])


def frame_of_served(*rows: tuple[str, float, float, str, int]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["job_key", "p50_s", "p90_s", "model_version", "answered_us"])
    return frame.assign(point_s=frame["p50_s"], confidence=0.5, source="runcast")


def test_a_day_by_hand() -> None:
    """a is exact, b is told a quarter of its runtime and outlives its p90, c was told as it ended, d before the log, e never."""
    jobs = frame_of_jobs(("a", 10, 90, 100.0), ("b", 10, 91, 400.0), ("c", 10, 92, 50.0), ("d", 1, 93, 50.0), ("e", 10, 94, 50.0))
    served = frame_of_served(("a", 100.0, 150.0, "v1", 11), ("b", 100.0, 399.0, "v2", 11), ("c", 50.0, 60.0, "v2", 92))
    found = judge_live(join_served(jobs, served), log_begins_us=10)
    assert {name: found[name] for name in ("jobs", "answered", "unanswered", "late", "before_log")} == {
        "jobs": 5, "answered": 2, "unanswered": 1, "late": 1, "before_log": 1,
    }  # fmt: skip
    assert found["unanswered_share"] == 0.5  # c and e, of the four that could be told
    assert found["all"]["error_factor"] == pytest.approx(2.0)  # sqrt(1 * 4)
    assert (found["all"]["within_25"], found["all"]["p90_coverage"]) == (0.5, 0.5)
    assert found["by_model_version"]["v1"] == {
        "jobs": 1, "error_factor": 1.0, "mdape": 0.0, "within_25": 1.0, "off_by_2x": 0.0, "under_share": 0.0, "p90_coverage": 1.0,
    }  # fmt: skip
    assert found["by_model_version"]["v2"]["error_factor"] == pytest.approx(4.0)


@pytest.mark.parametrize("begins_us", [None, 0, 10**18])
def test_a_day_without_jobs_has_nulls_not_errors(begins_us: int | None) -> None:
    found = judge_live(join_served(frame_of_jobs(), frame_of_served()), begins_us)
    assert (found["jobs"], found["unanswered_share"], found["all"]["error_factor"]) == (0, None, None)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(51, 99), st.booleans(), st.integers(0, 120)), max_size=30),
    st.integers(0, 60),
)
def test_every_job_is_counted_once(rows: list[tuple[int, int, bool, int]], begins_us: int) -> None:
    jobs = frame_of_jobs(*((str(n), submit, end, 5.0) for n, (submit, end, _, _) in enumerate(rows)))
    served = frame_of_served(*((str(n), 5.0, 6.0, "v", at) for n, (_, _, told, at) in enumerate(rows) if told))
    found = judge_live(join_served(jobs, served), begins_us)
    assert found["jobs"] == found["answered"] + found["unanswered"] + found["late"] + found["before_log"] == len(rows)
    assert found["answered"] == sum(told and at < end for _, end, told, at in rows)


# -- the job, on a real lake and the service's own files


@pytest.fixture
def cluster(made_up_cluster: Cluster, tmp_path: Path) -> Cluster:
    served = {**made_up_cluster.export.model_dump(), "served": ("${RUNCAST_HOME}/served/*.jsonl",)}
    return made_up_cluster.model_copy(update={"export": type(made_up_cluster.export)(**served)})


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings({"RUNCAST_HOME": str(tmp_path)})


@pytest.fixture
def jobs(cluster: Cluster, settings: Settings, made_up_jobs: pa.Table) -> list[dict[str, Any]]:
    """A lake that knows the jobs that ended by the end of DAY; those of that day that ran, as rows."""
    cut = cut_us(DAY, cluster.zone)
    begin = cut_us(DAY - dt.timedelta(days=1), cluster.zone)
    ends = made_up_jobs["end_time"].cast(pa.int64()).fill_null(-1).to_numpy()
    of_day = made_up_jobs.filter(pa.array((begin <= ends) & (ends < cut)))
    lake = Lake(settings.lake)
    lake.replace(cluster.name, ended={DAY.isoformat(): of_day}, open_jobs=JOBS.empty_table(), as_of_us=cut_us(DAY, cluster.zone))
    return [row for row in of_day.to_pylist() if (row["runtime_s"] or 0) > 0]


def serve(settings: Settings, jobs: list[dict[str, Any]], **answer: Any) -> None:
    """Let the service's own writer keep a forecast for each job, a second after its submission."""
    log = service.ServedLog(settings.home / "served", days=3650)
    for job in jobs:
        now = job["submit_time"] + dt.timedelta(seconds=1)
        told = {"job_key": job["job_key"], "submit_time": round(job["submit_time"].timestamp() * 1e6)}
        log.add(job["cluster"], told, {**LINE, "p50_s": job["runtime_s"], "p90_s": job["runtime_s"] * 2, **answer}, now)
        log.write(log.take(), now)


def test_the_service_writes_what_is_read_here() -> None:
    assert set(service.FIELDS) == set(KEYS)


def test_a_day_is_judged_from_the_services_own_files(cluster: Cluster, settings: Settings, jobs: list[dict[str, Any]]) -> None:
    serve(settings, jobs[:-3])
    with (settings.home / "served" / "2026-03-30.jsonl").open("a") as file:
        file.write('{"cluster": "de\n')
    found = look_at(cluster, settings, DAY)
    assert (found["jobs"], found["answered"]) == (len(jobs), len(jobs) - 3)
    assert found["all"]["error_factor"] == found["all"]["p90_coverage"] == 1.0
    assert (found["served"]["rejected_by_reason"], found["served"]["rejected"]) == ({"not JSON": 1}, 1)
    kept = json.loads((settings.home / "live" / "demo" / "2026-03-30.json").read_text())
    assert kept == found
    rows = pq.read_table(settings.home / "live" / "demo" / "2026-03-30.parquet")
    assert rows.num_rows == len(jobs)
    assert rows["p50_s"].null_count == 3
    assert sorted(rows["job_key"].to_pylist()) == sorted(job["job_key"] for job in jobs)


def test_looking_again_gives_the_same_bytes(cluster: Cluster, settings: Settings, jobs: list[dict[str, Any]]) -> None:
    serve(settings, jobs)
    folder = settings.home / "live" / "demo"
    look_at(cluster, settings, DAY)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    look_at(cluster, settings, DAY)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_jobs_from_before_the_first_answer_are_not_held_against_the_service(
    cluster: Cluster, settings: Settings, jobs: list[dict[str, Any]]
) -> None:
    """The service began in the middle; an answer of an older day says that it had been there all along, one to another cluster not."""
    ordered = sorted(jobs, key=lambda job: job["submit_time"])
    serve(settings, ordered[len(ordered) // 2 :])
    found = look_at(cluster, settings, DAY)
    assert (found["before_log"], found["unanswered"]) == (len(ordered) // 2, 0)
    old = settings.home / "served" / "2025-01-01.jsonl"
    old.write_bytes(line(cluster="another", answered_at="2025-01-01T10:00:00Z") + b"\n")
    assert look_at(cluster, settings, DAY)["before_log"] == len(ordered) // 2
    old.write_bytes(line(cluster="demo", answered_at="2025-01-01T10:00:00Z") + b"\n")
    found = look_at(cluster, settings, DAY)
    assert (found["before_log"], found["unanswered"]) == (0, len(ordered) // 2)


def test_a_service_that_began_after_every_submission_of_the_day_left_none_of_them_unanswered(
    cluster: Cluster, settings: Settings, jobs: list[dict[str, Any]]
) -> None:
    """Its files are of later days than those that are read for the jobs; without any answer at all it is the same."""
    later = settings.home / "served" / "2026-04-20.jsonl"
    later.parent.mkdir(parents=True)
    for content in (line(cluster="demo", answered_at="2026-04-20T10:00:00Z") + b"\n", b""):
        later.write_bytes(content)
        found = look_at(cluster, settings, DAY)
        assert (found["before_log"], found["unanswered"], found["unanswered_share"]) == (len(jobs), 0, None)


def test_a_cluster_file_that_names_no_files_says_what_to_write(
    made_up_cluster: Cluster, settings: Settings, jobs: list[dict[str, Any]]
) -> None:
    with pytest.raises(NothingServed, match=r"Name the files of `runcast serve` as export\.served"):
        look_at(made_up_cluster, settings, DAY)


def test_paths_that_name_no_file_are_an_error(cluster: Cluster, settings: Settings, jobs: list[dict[str, Any]]) -> None:
    with pytest.raises(ServedFilesMissing, match=r"no file at .*served/\*\.jsonl"):
        look_at(cluster, settings, DAY)


def test_a_day_that_the_lake_does_not_hold_yet_is_an_error(
    cluster: Cluster, settings: Settings, jobs: list[dict[str, Any]]
) -> None:
    serve(settings, jobs)
    with pytest.raises(LakeBehind, match="runcast ingest --cluster demo --date 2026-03-31"):
        look_at(cluster, settings, DAY + dt.timedelta(days=1))
