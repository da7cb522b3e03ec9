"""Loads: each job once, as of the end of a day, whatever the order and overlap of logs and nights; and what they report."""

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster, Source
from runcast.data.errors import LakeError, SourceError, TooManyRejects
from runcast.data.job import IngestReport, latest_rows, load
from runcast.data.lake import Lake
from runcast.data.schema import JOBS
from runcast.data.sources.batch import Batch, Reject

CLUSTER = Cluster(
    name="venus",
    source=Source(format="table", paths=("log.csv",), reject_share_at_most=0.02),
    time_zone="America/New_York",
    lookback_days=2,
)


def us(text: str) -> int:
    """Microseconds of a UTC time in March 2024, written `day hh:mm`."""
    return int(datetime.fromisoformat(f"2024-03-{text}").replace(tzinfo=UTC).timestamp()) * 1_000_000


def job(
    key: str, submit: str, start: str | None, end: str | None, state: str = "COMPLETED", **given: object
) -> dict[str, object]:
    times = {"submit_time": us(submit), "start_time": start and us(start), "end_time": end and us(end)}
    runtime_s = (times["end_time"] - times["start_time"]) / 1e6 if start and end else None  # type: ignore[operator]
    label = "excluded" if not start else "censored" if state in ("RUNNING", "CANCELLED", "TIMEOUT") else "event"
    blank: dict[str, object] = dict.fromkeys(JOBS.names)
    base = {
        "cluster": "venus",
        "job_id": key,
        "job_key": f"{key}@{submit}",
        "time_limit_kind": "hard",
        "source": "f:1",
        "flags": [],
    }
    return blank | base | times | {"state": state, "label": label, "runtime_s": runtime_s, "attempts": 1 if start else 0} | given


def batch(*rows: dict[str, object], rejects: int = 0, skipped: int = 0) -> Batch:
    refused = tuple(Reject("f", line, "end_missing", "", f"raw {line}") for line in range(1, rejects + 1))
    return Batch(pa.Table.from_pylist(list(rows), schema=JOBS), refused, {"step": skipped} if skipped else {})


def ids(jobs: pa.Table) -> list[str]:
    return jobs["job_id"].to_pylist()


def by_place(lake: Lake) -> dict[str, list[str]]:
    """Job ids of each date, and of the open jobs."""
    places = {day: ids(lake.read_ended("venus", [day])) for day in lake.dates("venus")}
    return places | {"open": ids(lake.read_open("venus"))}


def content(root: Path) -> dict[str, str]:
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and ".locks" not in path.parts]
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def check_sums(report: IngestReport) -> None:
    assert report.rows_in == report.accepted + report.rejected + sum(report.skipped.values())
    assert report.accepted == report.ended + report.open + report.duplicates + sum(report.left_out.values())


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


LOG = (
    job("1", "01 10:00", "01 10:05", "01 11:00"),
    job("2", "01 10:00", "01 10:05", "02 04:59"),  # 23:59 on the 1st in New York
    job("3", "01 10:00", "01 10:05", "02 05:00"),  # midnight: the 2nd
    job("4", "01 10:00", None, "03 12:00", "CANCELLED"),
    job("5", "03 10:00", "03 11:00", "07 12:00"),
    job("6", "06 10:00", None, None, "PENDING"),
    job("7", "06 10:00", "06 11:00", None, "RUNNING"),
    job("8", "06 10:00", None, None, "CANCELLED"),
)


def test_jobs_are_filed_under_the_local_date_of_their_end(lake: Lake) -> None:
    report = load(CLUSTER, lake, [batch(*LOG[:4]), batch(*LOG[4:], rejects=0, skipped=3)])
    assert by_place(lake) == {
        "2024-03-01": ["1", "2"],
        "2024-03-02": ["3"],
        "2024-03-03": ["4"],
        "2024-03-06": ["8"],  # over, but nobody wrote when: filed under its submission
        "2024-03-07": ["5"],
        "open": ["6", "7"],
    }
    check_sums(report)
    assert (report.rows_in, report.accepted, report.skipped, report.ended, report.open) == (11, 8, {"step": 3}, 6, 2)
    assert (report.first, report.last, report.partitions, report.written_count) == ("2024-03-01", "2024-03-07", 5, 7)
    assert report.as_of_us == us("08 05:00")


def test_a_load_sees_the_log_as_of_the_end_of_its_day(lake: Lake) -> None:
    report = load(CLUSTER, lake, [batch(*LOG)], last=date(2024, 3, 3))
    check_sums(report)
    assert by_place(lake) == {"2024-03-01": ["1", "2"], "2024-03-02": ["3"], "2024-03-03": ["4"], "open": ["5"]}
    assert report.left_out == {"submitted_later": 3}
    open_job = lake.read_open("venus").to_pylist()[0]
    assert (open_job["state"], open_job["label"], open_job["runtime_s"], open_job["end_time"]) == (
        "RUNNING",
        "censored",
        None,
        None,
    )


def test_loading_twice_gives_the_same_bytes(lake: Lake) -> None:
    first = load(CLUSTER, lake, [batch(*LOG, rejects=0)])
    before = content(lake.root)
    second = load(CLUSTER, lake, [batch(*reversed(LOG))])
    assert content(lake.root) == before
    assert (second.written_count, second.fingerprint) == (0, first.fingerprint)


def random_log(seed: int, jobs: int = 300) -> list[dict[str, object]]:
    """Jobs of March 1 to 9 that wait and run for hours to days; some never start, some never end."""
    random = np.random.default_rng(seed)
    rows = []
    for i in range(jobs):
        submit = datetime(2024, 3, 1, tzinfo=UTC) + timedelta(minutes=int(random.integers(0, 9 * 1440)))
        start = submit + timedelta(minutes=int(random.exponential(600))) if random.random() < 0.9 else None
        end = (start or submit) + timedelta(minutes=1 + int(random.exponential(1500)))
        text = [when and f"{when:%d %H:%M}" for when in (submit, start, end)]
        if end.month > 3 or end.day > 28:
            continue
        rows.append(job(f"{i}", *text, state="COMPLETED" if start else "CANCELLED"))  # type: ignore[arg-type]
    return rows


DAYS = [date(2024, 3, d) for d in range(1, 13)]


@pytest.mark.parametrize("seed", range(4))
def test_every_night_in_order_gives_the_lake_of_one_load(tmp_path: Path, seed: int) -> None:
    log = random_log(seed)
    nightly, once = Lake(tmp_path / "nightly"), Lake(tmp_path / "once")
    for day in DAYS:
        load(CLUSTER, nightly, [batch(*log)], first=day, last=day)
    load(CLUSTER, once, [batch(*log)], last=DAYS[-1])
    assert content(nightly.root) == content(once.root)


@pytest.mark.parametrize("seed", range(4))
def test_nights_that_were_missed_are_caught_up(tmp_path: Path, seed: int) -> None:
    log = random_log(seed)
    nightly, once = Lake(tmp_path / "nightly"), Lake(tmp_path / "once")
    for day in (DAYS[0], DAYS[1], DAYS[9], DAYS[11]):
        load(CLUSTER, nightly, [batch(*log)], first=day, last=day)
    load(CLUSTER, once, [batch(*log)], last=DAYS[-1])
    assert content(nightly.root) == content(once.root)


@pytest.mark.parametrize("order", [(5, 3, 4), (11, 0, 7), (11, 11, 2)])
def test_a_night_in_the_past_changes_nothing_that_was_loaded_later(tmp_path: Path, order: Sequence[int]) -> None:
    log = random_log(9)
    lake, once = Lake(tmp_path / "any"), Lake(tmp_path / "once")
    load(CLUSTER, lake, [batch(*log)], last=DAYS[max(order)])
    for at in order:
        check_sums(load(CLUSTER, lake, [batch(*log)], first=DAYS[at], last=DAYS[at]))
    load(CLUSTER, once, [batch(*log)], last=DAYS[max(order)])
    assert content(lake.root) == content(once.root)


@pytest.mark.parametrize("seed", range(3))
def test_the_lake_as_of_a_day_equals_a_lake_loaded_that_day(tmp_path: Path, seed: int) -> None:
    log = random_log(seed)
    late, then = Lake(tmp_path / "late"), Lake(tmp_path / "then")
    load(CLUSTER, late, [batch(*log)])
    cut = load(CLUSTER, then, [batch(*log)], last=date(2024, 3, 5)).as_of_us
    as_of, loaded = late.read_jobs("venus", before=cut), then.read_jobs("venus")
    assert as_of.equals(loaded), "the order too: a night that is run again has the same fingerprint"
    assert loaded.equals(then.read_jobs("venus", before=cut))


# -- each job once


def test_a_running_job_is_upgraded_when_it_ends(lake: Lake) -> None:
    load(CLUSTER, lake, [batch(job("1", "01 10:00", "01 10:05", None, "RUNNING"))], last=date(2024, 3, 1))
    assert by_place(lake) == {"open": ["1"]}
    load(CLUSTER, lake, [batch(job("1", "01 10:00", "01 10:05", "02 12:00"))], first=date(2024, 3, 2), last=date(2024, 3, 2))
    assert by_place(lake) == {"2024-03-02": ["1"], "open": []}


def test_an_open_job_is_upgraded_however_late_the_log_tells_of_it(lake: Lake) -> None:
    running = job("1", "01 10:00", "01 10:05", None, "RUNNING")
    load(CLUSTER, lake, [batch(running)], last=date(2024, 3, 1))
    load(CLUSTER, lake, [batch(running)], first=date(2024, 3, 19), last=date(2024, 3, 19))
    late = [batch(job("1", "01 10:00", "01 10:05", "02 12:00"))]
    load(CLUSTER, lake, late, first=date(2024, 3, 20), last=date(2024, 3, 20))
    assert by_place(lake) == {"2024-03-02": ["1"], "open": []}


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        pytest.param(("01 10:05", None, "RUNNING"), ("01 10:05", "01 11:00", "COMPLETED"), 1, id="an end over none"),
        pytest.param((None, None, "PENDING"), ("01 10:05", "01 11:00", "COMPLETED"), 1, id="a start over none"),
        pytest.param((None, None, "PENDING"), (None, "01 11:00", "CANCELLED"), 1, id="cancelled while waiting"),
        pytest.param(("01 10:05", "01 11:00", "NODE_FAIL"), ("01 12:00", "01 13:00", "COMPLETED"), 1, id="the later attempt"),
        pytest.param(("01 10:05", "01 11:00", "NODE_FAIL"), ("01 12:00", None, "RUNNING"), 1, id="a later attempt that runs"),
        pytest.param(("01 10:05", "01 11:00", "FAILED"), ("01 10:05", "01 11:30", "COMPLETED"), 1, id="the later end"),
    ],
)
def test_of_two_rows_of_one_job_the_one_that_tells_more_is_kept(
    lake: Lake, first: tuple[str, str, str], second: tuple[str, str, str], kept: int, flip: bool
) -> None:
    rows = [job("1", "01 10:00", *first), job("1", "01 10:00", *second)]
    report = load(CLUSTER, lake, [batch(row) for row in (reversed(rows) if flip else rows)])
    check_sums(report)
    assert report.duplicates == 1
    read = lake.read_jobs("venus").to_pylist()
    assert [(row["start_time"], row["end_time"], row["state"]) for row in read] == [
        (
            second[0] and datetime.fromisoformat(f"2024-03-{second[0]}+00:00"),
            second[1] and datetime.fromisoformat(f"2024-03-{second[1]}+00:00"),
            second[2],
        )
    ]


def test_recycled_ids_are_two_jobs(lake: Lake) -> None:
    load(CLUSTER, lake, [batch(job("908", "01 10:00", "01 10:05", "01 11:00"), job("908", "05 10:00", "05 10:05", "05 11:00"))])
    assert lake.read_jobs("venus").num_rows == 2


def test_a_requeued_job_leaves_the_day_its_first_attempt_was_filed_under(lake: Lake) -> None:
    load(
        CLUSTER,
        lake,
        [batch(job("907", "01 10:00", "01 10:05", "01 11:00", "NODE_FAIL"), job("x", "01 10:00", "01 10:05", "01 12:00"))],
    )
    again = [batch(job("907", "01 10:00", "10 09:00", "10 12:00"))]
    report = load(CLUSTER, lake, again, first=date(2024, 3, 10), last=date(2024, 3, 10))
    check_sums(report)
    assert by_place(lake) == {"2024-03-01": ["x"], "2024-03-10": ["907"], "open": []}


def test_a_requeued_job_that_runs_again_is_open_and_nowhere_else(lake: Lake) -> None:
    load(CLUSTER, lake, [batch(job("907", "01 10:00", "01 10:05", "01 11:00", "NODE_FAIL"))])
    load(
        CLUSTER,
        lake,
        [batch(job("907", "01 10:00", "10 09:00", None, "RUNNING"))],
        first=date(2024, 3, 10),
        last=date(2024, 3, 10),
    )
    assert by_place(lake) == {"open": ["907"]}


def test_an_old_export_that_overlaps_does_not_reopen_a_job(lake: Lake) -> None:
    load(CLUSTER, lake, [batch(job("1", "01 10:00", "01 10:05", "02 12:00"))])
    stale = [batch(job("1", "01 10:00", "01 10:05", None, "RUNNING"))]
    report = load(CLUSTER, lake, stale, first=date(2024, 3, 5), last=date(2024, 3, 5))
    check_sums(report)
    assert by_place(lake) == {"2024-03-02": ["1"], "open": []}


def test_an_old_export_with_both_rows_of_a_job_does_not_lose_it(lake: Lake) -> None:
    """Its running row is newer than the look-back, its end is not: the lake's own row of the job stays."""
    rows = job("1", "01 10:00", "01 10:05", None, "RUNNING"), job("1", "01 10:00", "01 10:05", "02 12:00")
    load(CLUSTER, lake, [batch(*rows)], last=date(2024, 3, 2))
    report = load(CLUSTER, lake, [batch(*rows)], first=date(2024, 3, 9), last=date(2024, 3, 9))
    check_sums(report)
    assert by_place(lake) == {"2024-03-02": ["1"], "open": []}


def test_late_accounting_is_taken_in_within_the_look_back(lake: Lake) -> None:
    load(CLUSTER, lake, [batch(job("1", "04 10:00", "04 10:05", "04 11:00"))], last=date(2024, 3, 5))
    log = [batch(*(job(f"{d}", f"{d:02d} 10:00", f"{d:02d} 10:05", f"{d:02d} 11:00") for d in (2, 4, 6)))]
    report = load(CLUSTER, lake, log, first=date(2024, 3, 6), last=date(2024, 3, 6))
    assert by_place(lake) == {"2024-03-04": ["1", "4"], "2024-03-06": ["6"], "open": []}  # the 2nd is out of reach
    assert report.left_out == {"ended_before": 1}


ROTATED = [
    job("early", "01 10:00", "01 10:05", "03 11:00"),
    job("first", "03 10:00", "03 10:05", "03 12:00"),
    job("long", "02 10:00", "02 10:05", "06 12:00"),
    job("wrong", "05 10:00", "05 10:05", "05 12:00"),
    job("good", "05 10:00", "05 10:05", "05 12:00"),
    job("waits", "01 10:00", None, None, "PENDING"),
]


@pytest.mark.parametrize("first", [None, date(2024, 3, 4)])
def test_what_a_rotated_log_no_longer_reaches_stays(lake: Lake, first: date | None) -> None:
    """The log now begins with a job of the 3rd: of what it reaches only `wrong` is gone; nothing else was ever said to be."""
    load(CLUSTER, lake, [batch(*ROTATED)], last=date(2024, 3, 6))
    now = [job("later", "03 13:00", "03 13:05", "03 14:00"), ROTATED[4]]
    check_sums(load(CLUSTER, lake, [batch(*now)], first=first, last=date(2024, 3, 6)))
    assert by_place(lake) == {
        "2024-03-03": ["early", "first", "later"],
        "2024-03-05": ["good"],
        "2024-03-06": ["long"],
        "open": ["waits"],
    }


def test_the_days_asked_for_are_what_a_log_that_reaches_them_says_now(lake: Lake) -> None:
    load(CLUSTER, lake, [batch(*ROTATED)], last=date(2024, 3, 6))
    now = [batch(*ROTATED[:3], job("later", "05 10:00", "05 10:05", "05 13:00"))]
    load(CLUSTER, lake, now, first=date(2024, 3, 5), last=date(2024, 3, 6))
    assert by_place(lake) == {
        "2024-03-03": ["early", "first"],
        "2024-03-05": ["later"],
        "2024-03-06": ["long"],
        "open": [],
    }
    load(CLUSTER, lake, [batch(*ROTATED[:3])])
    assert by_place(lake) == {"2024-03-03": ["early", "first"], "2024-03-06": ["long"], "open": []}


NIGHT_2 = {"first": date(2024, 3, 2), "last": date(2024, 3, 2)}
RUNS = job("2", "01 20:00", "01 20:05", None, "RUNNING")
OTHERS = (job("1", "01 10:00", "01 10:05", "01 11:00"), job("3", "02 20:00", "02 20:05", "02 23:00"))
REFUSED = Batch(JOBS.empty_table(), (Reject("f", 9, "end_unreadable", "", "2|ada|2024-03-01T20:00:00|yesterday"),))
WITHOUT_NAMES = Batch(JOBS.empty_table(), (Reject("f", 9, "end_unreadable", "", "(withheld: 38 characters)"),))


@pytest.mark.parametrize(
    ("log", "still_open"),
    [
        pytest.param([batch(*OTHERS)], [], id="not named"),
        pytest.param([batch(*OTHERS, RUNS)], ["2"], id="named"),
        pytest.param([batch(OTHERS[1])], ["2"], id="submitted before all that the log tells of"),
        pytest.param([batch(*OTHERS), REFUSED], ["2"], id="its record cannot be read"),
        pytest.param([batch(*OTHERS), WITHOUT_NAMES], ["2"], id="a record whose text is withheld cannot be read"),
    ],
)
def test_an_open_job_that_the_log_no_longer_names_is_left_out_and_counted(
    lake: Lake, log: list[Batch], still_open: list[str]
) -> None:
    cluster = CLUSTER.model_copy(update={"source": CLUSTER.source.model_copy(update={"reject_share_at_most": 0.5})})
    load(cluster, lake, [batch(OTHERS[0], RUNS)], last=date(2024, 3, 1))
    report = load(cluster, lake, log, **NIGHT_2)
    assert by_place(lake)["open"] == still_open
    assert report.notes == ({} if still_open else {"no_longer_named": 1})
    load(cluster, lake, [batch(*OTHERS, RUNS)], first=date(2024, 3, 3), last=date(2024, 3, 3))
    assert by_place(lake)["open"] == ["2"], "named again, it is an open job again"


def test_equal_rows_in_two_files_count_as_duplicates(lake: Lake) -> None:
    report = load(CLUSTER, lake, [batch(*LOG), batch(*LOG)])
    check_sums(report)
    assert (report.duplicates, report.ended, report.open) == (8, 6, 2)


def test_latest_rows_keeps_order_and_every_key_once() -> None:
    random = np.random.default_rng(5)
    rows = [job(f"{random.integers(40)}", "01 10:00", "01 10:05", f"01 11:{random.integers(60):02d}") for _ in range(200)]
    keys = pa.Table.from_pylist(rows, schema=JOBS)
    best: dict[object, int] = {}
    for at, row in enumerate(rows):
        if row["job_key"] not in best or row["end_time"] >= rows[best[row["job_key"]]]["end_time"]:  # type: ignore[operator]
            best[row["job_key"]] = at
    assert latest_rows(keys).tolist() == sorted(best.values())


# -- refusals and reports


def test_a_load_whose_times_cannot_be_read_says_what_time_takes(lake: Lake) -> None:
    other = CLUSTER.model_copy(update={"source": Source(format="lsf", paths=("x",))})
    unread = (Reject("log", 2, "submit_time_unreadable", "", "1,24.03.2024 10:00:05,7"),)
    with pytest.raises(TooManyRejects, match=r"Try, if the time is .*: `time: \{format: '%d.%m.%Y %H:%M:%S'\}`$"):
        load(CLUSTER, lake, [Batch(batch(*LOG).jobs, unread)])
    with pytest.raises(
        TooManyRejects, match=r"Else raise source.reject_share_at_most. See what was refused: [^`]*$"
    ):  # another format has no `time`
        load(other, lake, [Batch(batch(*LOG).jobs, unread)])


@pytest.mark.parametrize(
    ("batches", "error", "message"),
    [
        ([], SourceError, "holds no job"),
        ([batch()], SourceError, "holds no job"),
        (
            [batch(*LOG, rejects=1)],
            TooManyRejects,
            r"1 of 9 records were refused \(11.1%\), 2.0% are allowed: end_missing 1. .*'raw 1'",
        ),
        ([batch(skipped=5)], SourceError, "holds no job"),
        (
            [Batch(JOBS.empty_table(), (), {"other_cluster": 5})],
            SourceError,
            "no job of the Slurm cluster .*; 5 records are of others",
        ),
    ],
    ids=["no batch", "no record", "too many rejects", "only steps", "other Slurm clusters"],
)
def test_a_load_that_is_refused_writes_nothing(lake: Lake, batches: list[Batch], error: type[Exception], message: str) -> None:
    load(CLUSTER, lake, [batch(*LOG)])
    before = content(lake.root)
    with pytest.raises(error, match=message):
        load(CLUSTER, lake, batches)
    assert content(lake.root) == before


def records(users: str, rejects: dict[int, int]) -> Batch:
    """One job a line for each letter of `users`, at lines 1, 1001, 2001, ..., and so many rejects behind each of some of them."""
    rows = [
        job(f"{i}", "01 10:00", "01 10:05", "01 11:00", user=user, source=f"f:{i * 1000 + 1}") for i, user in enumerate(users)
    ]
    refused = tuple(
        Reject("f", at * 1000 + 2 + i, "wrong_field_count", "", f"raw {i}") for at, n in rejects.items() for i in range(n)
    )
    return Batch(pa.Table.from_pylist(rows, schema=JOBS), refused)


@pytest.mark.parametrize(
    ("users", "rejects", "of_one_user"),
    [
        pytest.param("gm" * 50, {0: 30, 2: 4}, 34, id="of one user"),
        pytest.param("gm" * 50, {0: 30, 1: 1}, 30, id="one of another"),
        pytest.param("gm" * 50, {0: 30, 1: 2}, None, id="too many of others"),
        pytest.param("gm" * 50, {0: 400}, None, id="too far behind to be of a name"),
        pytest.param("g" * 100, {0: 30}, None, id="only one user"),
        pytest.param("g" * 60 + "m" * 40, {0: 30}, None, id="too few of others to tell"),
        pytest.param("-" * 50 + "m" * 50, {0: 30}, None, id="nobody's"),
    ],
)
def test_one_user_cannot_refuse_a_load(lake: Lake, users: str, rejects: dict[int, int], of_one_user: int | None) -> None:
    """2 % are allowed, so that 50 records of others must be left, of which one may be refused."""
    read = records(users, rejects)
    if "-" in users:
        read = Batch(pa.Table.from_pylist([{**r, "user": None if r["user"] == "-" else r["user"]} for r in read.jobs.to_pylist()],
                                          schema=JOBS), read.rejects)  # fmt: skip
    if of_one_user is None:
        with pytest.raises(TooManyRejects):
            load(CLUSTER, lake, [read])
        return
    report = load(CLUSTER, lake, [read])
    assert (report.notes["rejects_of_one_user"], report.rejected) == (of_one_user, sum(rejects.values()))


def test_the_span_asked_for_must_be_one(lake: Lake) -> None:
    with pytest.raises(LakeError, match="2024-03-02 to 2024-03-01; the first day must not be after the last"):
        load(CLUSTER, lake, [batch(*LOG)], first=date(2024, 3, 2), last=date(2024, 3, 1))


def test_rejects_are_kept_with_file_line_and_raw_text(lake: Lake) -> None:
    tolerant = CLUSTER.model_copy(update={"source": CLUSTER.source.model_copy(update={"reject_share_at_most": 0.5})})
    load(tolerant, lake, [batch(*LOG, rejects=2)])
    assert lake.read_rejects("venus").to_pylist()[1] == {
        "cluster": "venus", "file": "f", "line": 2, "reason": "end_missing", "detail": "", "raw": "raw 2",
        "day": "2024-03-06",
    }  # fmt: skip
    load(tolerant, lake, [batch(*LOG, rejects=3)], first=date(2024, 3, 7), last=date(2024, 3, 7))
    assert lake.read_rejects("venus").num_rows == 3  # each once
    load(tolerant, lake, [batch(*LOG, rejects=1)])
    assert lake.read_rejects("venus").num_rows == 1  # the whole log again: what it says now


def test_a_report_is_small_whatever_the_load(lake: Lake) -> None:
    rows = []
    for day in range(800):
        when = datetime(2022, 1, 1, 12, tzinfo=UTC) + timedelta(days=day)
        at = int(when.timestamp()) * 1_000_000
        rows.append(
            job(f"{day}", "01 10:00", "01 10:05", "01 11:00", job_key=f"{day}", submit_time=at, start_time=at, end_time=at + 1)
        )
    odd = Batch(pa.Table.from_pylist(rows, schema=JOBS), (), {}, {f"state_nobody_knows_{i}": 1 for i in range(500)})
    report = load(CLUSTER, lake, [odd])
    text = json.dumps(report.to_json())
    assert (report.partitions, report.written_count) == (800, 802)
    assert report.notes["other"] == 480
    assert len(text) < 10_000
