"""What a night reads of the log: what is new, and only of a log that stands still; whatever the order and overlap of its files."""

import gzip
import hashlib
import os
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from runcast.data import job as ingest_job
from runcast.data.cluster import Cluster, Source
from runcast.data.errors import LakeError, LogChanged, NoSuchNight, SourceError, TooManyRejects
from runcast.data.job import IngestReport, ingest
from runcast.data.lake import Lake
from runcast.data.settings import Settings, read_settings

HEADER = "id,submit,start,end,state"
COLUMNS = {"job_id": "id", "submit_time": "submit", "start_time": "start", "end_time": "end", "state": "state"}
FIRST = date(2024, 3, 1)


def cluster(folder: Path, **given: object) -> Cluster:
    source = Source(format="table", paths=(f"{folder}/log/*.csv",), options={"columns": COLUMNS}, reject_share_at_most=0.4)
    return Cluster.model_validate({"name": "venus", "source": source, "time_zone": "UTC", "lookback_days": 2, **given})


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    (tmp_path / "log").mkdir()
    return read_settings({"RUNCAST_HOME": str(tmp_path / "home")})


def write(folder: Path, name: str, *lines: str) -> Path:
    (folder / "log").mkdir(parents=True, exist_ok=True)
    path = folder / "log" / name
    path.write_text("\n".join((HEADER, *lines)) + "\n")
    return path


def line(job: int, day: int, *, ran_days: int = 0, state: str = "COMPLETED") -> str:
    """A job of March that was submitted at 10:00, began an hour later and ended at noon, the same day or later."""
    begin = f"2024-03-{day:02d} "
    end = f"2024-03-{day + ran_days:02d} 12:00:00" if state == "COMPLETED" else ""
    return f"{job},{begin}10:00:00,{begin}11:00:00,{end},{state}"


def night(folder: Path, home: Settings, day: int, **given: object) -> IngestReport:
    """What the night of a day in March does, see runcast.night."""
    first = None if Lake(home.lake).as_of_us("venus") is None else date(2024, 3, day)
    return ingest(cluster(folder, **given), home, first=first, last=date(2024, 3, day))


def content(home: Settings) -> dict[str, str]:
    paths = sorted(home.lake.rglob("part.parquet"))
    return {str(path.relative_to(home.lake)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


# -- only what is new


def test_a_file_that_can_tell_nothing_new_is_passed_over(tmp_path: Path, home: Settings) -> None:
    """Files of single days, a look-back of two: the night of the 6th looks at the 4th and later."""
    for day in range(1, 7):
        write(tmp_path, f"2024-03-{day:02d}.csv", *(line(10 * day + i, day) for i in range(3)))
        report = night(tmp_path, home, day)
        assert (report.files_passed_over, report.rows_in) == (max(0, day - 3), 3 * min(day, 3))
    assert sum(Lake(home.lake).rows_by_date("venus").values()) == 18


@pytest.mark.parametrize(
    ("change", "read_again"),
    [
        pytest.param(lambda log, home: None, 0, id="nothing"),
        pytest.param(lambda log, home: os.utime(log, ns=(1, 1)), 1, id="another time"),
        pytest.param(lambda log, home: log.write_text(log.read_text() + line(99, 1) + "\n"), 1, id="a new line"),
        *(
            pytest.param(
                lambda log, home, text=text: (home.home / "log_files" / "venus.json").write_text(text), 2, id=f"memory {text}"
            )
            for text in ("", "{", "[]", "{}", "null", '{"fingerprint": 1, "cluster": 2, "files": 3}')
        ),
        pytest.param(lambda log, home: _spoil_memory(home), 2, id="a number of the memory is a word"),
        pytest.param(lambda log, home: Lake(home.lake).write_ended("venus", "2024-03-01", _none(home)), 2, id="another lake"),
    ],
)
def test_what_is_not_as_it_was_is_read_again(tmp_path: Path, home: Settings, change: object, read_again: int) -> None:
    first = write(tmp_path, "a.csv", line(1, 1))
    write(tmp_path, "b.csv", line(2, 1))
    for day in (1, 8):
        write(tmp_path, f"day{day}.csv", line(10 * day, day))
        night(tmp_path, home, day)
    change(first, home)  # type: ignore[operator]
    write(tmp_path, "day9.csv", line(90, 9))
    report = night(tmp_path, home, 9)
    assert 3 - report.files_passed_over == read_again + (1 if read_again == 2 else 0)


def _spoil_memory(home: Settings) -> None:
    path = home.home / "log_files" / "venus.json"
    path.write_text(re.sub(r'"latest_us": -?\d+', '"latest_us": "x"', path.read_text()))


def _none(home: Settings) -> object:
    return Lake(home.lake).read_ended("venus", [])


@pytest.mark.parametrize("given", [{"time_limit": "absent"}, {"gpus_tracked": True}], ids=["limit", "GPUs"])
def test_a_cluster_file_that_reads_otherwise_reads_everything(tmp_path: Path, home: Settings, given: dict[str, object]) -> None:
    for day in (1, 8):
        write(tmp_path, f"day{day}.csv", line(day, day))
        night(tmp_path, home, day)
    assert night(tmp_path, home, 9).files_passed_over == 1
    assert night(tmp_path, home, 10, **given).files_passed_over == 0


def test_a_file_passed_over_counts_in_the_share_of_rejects(tmp_path: Path, home: Settings) -> None:
    write(tmp_path, "whole.csv", *(line(i, 1) for i in range(10)))
    night(tmp_path, home, 1)
    write(tmp_path, "new.csv", line(20, 8), "21,never,,,COMPLETED")
    assert night(tmp_path, home, 8).rejected == 1, "1 of 12, of 2 it would be too many"
    write(tmp_path, "newer.csv", *(f"{i},never,,,COMPLETED" for i in range(30, 50)))
    with pytest.raises(TooManyRejects, match="21 of 32 records"):
        night(tmp_path, home, 9)


# -- whatever the order and overlap


class Line(NamedTuple):
    text: str
    known: int  # day of March from which a log can hold it


class Log(NamedTuple):
    """Lines by the night at which a file with them appears; `gone` are nights after which all files before are taken away."""

    files: dict[int, list[list[str]]]
    nights: list[int]
    gone: frozenset[int]
    lines: list[str]


DAYS = 8


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Any split, order and overlap of a log's lines over files and nights; late lines stay within the look-back of two days."""
    lines: list[Line] = []
    for job in range(draw(st.integers(1, 8))):
        begun, ran_days = draw(st.integers(1, DAYS)), draw(st.integers(0, 4))
        if draw(st.booleans()):
            lines.append(Line(line(job, begun, state="RUNNING"), begun))
        lines.append(Line(line(job, begun, ran_days=ran_days), begun + ran_days))
    arrivals = [(text, min(known + draw(st.integers(0, 2)), DAYS + 5)) for text, known in lines]
    nights = sorted({*draw(st.sets(st.integers(1, DAYS + 5))), DAYS + 5})
    files: dict[int, list[list[str]]] = {}
    for at in range(1, DAYS + 6):
        new = [text for text, when in arrivals if when == at]
        old = [text for text, when in arrivals if when < at]
        again = draw(st.lists(st.sampled_from(old), max_size=3)) if old else []
        shuffled = draw(st.permutations([*new, *again]))
        cut = draw(st.integers(0, len(shuffled)))
        files[at] = [part for part in (shuffled[:cut], shuffled[cut:]) if part]
    return Log(files, nights, frozenset(draw(st.sets(st.integers(1, DAYS + 4), max_size=2))), [text for text, _ in lines])


@given(logs())
@examples(max_examples=40)
def test_any_split_order_and_overlap_over_files_and_nights_is_the_lake_of_one_load(
    tmp_path_factory: pytest.TempPathFactory, log: Log
) -> None:
    root = tmp_path_factory.mktemp("log")
    home = read_settings({"RUNCAST_HOME": str(root / "home")})
    read_at, began_anew = 0, []
    for at in range(1, DAYS + 6):
        for number, lines in enumerate(log.files[at]):
            write(root, f"{(at * 7) % 10}-{at:02d}-{number}.csv", *lines)
        if at in log.nights and (root / "log").exists():
            night(root, home, at)
            read_at = at
        if at in log.gone and read_at == at:
            for path in (root / "log").iterdir():
                path.unlink()
            write(root, "new.csv", line(900 + at, at))
            began_anew.append(line(900 + at, at))
    whole = root / "whole"
    write(whole, "all.csv", *log.lines, *began_anew)
    once = read_settings({"RUNCAST_HOME": str(whole / "home")})
    night(whole, once, DAYS + 5)
    jobs = [Lake(one.lake).read_jobs("venus").drop_columns(["source"]).to_pylist() for one in (home, once)]
    assert jobs[0] == jobs[1]
    assert Lake(home.lake).rows_by_date("venus") == Lake(once.lake).rows_by_date("venus")


# -- a log that does not stand still


@pytest.fixture
def while_reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Do what the list holds, one each time that the log is read, between its first rows and its end."""
    todo: list[object] = []
    refuse = ingest_job._refuse_future

    def meanwhile(batch: object, latest_us: int) -> object:
        if todo:
            todo.pop(0)()  # type: ignore[operator]
        return refuse(batch, latest_us)  # type: ignore[arg-type]

    monkeypatch.setattr(ingest_job, "_refuse_future", meanwhile)
    return todo


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda log: log.write_text(HEADER + "\n"), id="cut"),
        pytest.param(lambda log: log.write_text(log.read_text().replace("10:00", "10:30")), id="written over"),
        pytest.param(lambda log: log.rename(log.with_name("venus.csv.1")), id="taken away"),
        pytest.param(lambda log: (log.rename(log.with_name("c.csv")), write(log.parents[1], "b.csv")), id="rotated"),
    ],
)
def test_a_log_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, home: Settings, while_reading: list[object], change: object
) -> None:
    write(tmp_path, "a.csv", line(1, 1))
    log = write(tmp_path, "b.csv", line(2, 1), line(3, 1))
    while_reading.append(lambda: change(log))  # type: ignore[operator]
    report = night(tmp_path, home, 1)
    assert (
        report.ended
        == Lake(home.lake).read_jobs("venus").num_rows
        == 1 + sum(path.read_text().count("COMPLETED") for path in (tmp_path / "log").glob("[bc].csv"))
    )


def test_a_log_that_was_just_rotated_begins_empty(tmp_path: Path, home: Settings) -> None:
    write(tmp_path, "venus.1.csv", line(1, 1))
    (tmp_path / "log" / "venus.csv").touch()
    report = night(tmp_path, home, 1)
    assert (report.ended, report.notes) == (1, {"empty_files": 1})
    (tmp_path / "log" / "venus.1.csv").unlink()
    with pytest.raises(SourceError, match="is empty"):
        night(tmp_path, home, 2)


def test_a_log_that_was_compressed_while_empty_is_an_empty_log(tmp_path: Path, home: Settings) -> None:
    write(tmp_path, "venus.2.csv", line(1, 1))
    (tmp_path / "log" / "venus.1.csv").write_bytes(gzip.compress(b""))
    report = night(tmp_path, home, 1)
    assert (report.ended, report.notes) == (1, {"empty_files": 1})
    (tmp_path / "log" / "venus.2.csv").unlink()
    with pytest.raises(SourceError, match="is empty"):
        night(tmp_path, home, 2)


@pytest.mark.parametrize("name", ["slurm_sacct", "slurm_json"])
def test_an_empty_export_of_slurm_beside_others_is_passed_over(tmp_path: Path, home: Settings, name: str) -> None:
    (tmp_path / "log" / "a.csv").write_bytes(gzip.compress(b""))
    (tmp_path / "log" / "b.csv").write_text('{"jobs": []}' if name == "slurm_json" else "JobID|Submit|Start|End|State\n")
    source = Source(format=name, paths=(f"{tmp_path}/log/*.csv",))
    report = ingest(cluster(tmp_path, source=source), home, last=date(2024, 3, 1))
    assert (report.rows_in, report.notes) == (0, {"empty_files": 1})


def test_an_export_of_nothing_is_a_night_without_jobs_and_empty_files_are_a_dead_export(tmp_path: Path, home: Settings) -> None:
    write(tmp_path, "a.csv")
    report = night(tmp_path, home, 1)
    assert (report.rows_in, report.ended, report.open, report.last) == (0, 0, 0, "2024-03-01")
    write(tmp_path, "b.csv", line(1, 2))
    assert night(tmp_path, home, 2).ended == 1
    for name in ("a.csv", "b.csv"):
        (tmp_path / "log" / name).write_bytes(b"")
    with pytest.raises(SourceError, match=r"every file of .* is empty"):
        night(tmp_path, home, 3)


def test_a_log_that_never_stands_still_is_told_and_nothing_is_written(
    tmp_path: Path, home: Settings, while_reading: list[object]
) -> None:
    log = write(tmp_path, "a.csv", line(1, 1), line(2, 1))
    while_reading += [lambda n=n: write(tmp_path, "a.csv", line(n, 1)) for n in (3, 4, 5)]
    with pytest.raises(LogChanged, match=r"a\.csv: was cut, replaced or written over while it was read\. Nothing was written"):
        night(tmp_path, home, 1)
    assert content(home) == {}
    assert log.exists()
    assert night(tmp_path, home, 1).ended == 1


def test_a_log_that_grows_while_it_is_read_is_loaded(tmp_path: Path, home: Settings, while_reading: list[object]) -> None:
    log = write(tmp_path, "a.csv", line(1, 1))

    def grow() -> None:
        with log.open("a") as file:
            file.write(line(2, 1) + "\n3,2024-03-01 10")  # the last line is being written

    while_reading.append(grow)
    night(tmp_path, home, 1)
    with log.open("a") as file:
        file.write(":00:00,2024-03-01 11:00:00,2024-03-01 12:00:00,COMPLETED\n")
    night(tmp_path, home, 1)
    assert Lake(home.lake).read_jobs("venus")["job_id"].to_pylist() == ["1", "2", "3"]


# -- dates that cannot be


NOW = datetime(2024, 3, 5, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("row", "detail"),
    [
        ("9,2099-01-01 00:00:00,,,PENDING", "submit_time 2099-01-01T00:00:00Z is later than 2024-03-06T02:00:00Z"),
        ("9,2024-03-04 00:00:00,2099-01-01 00:00:00,,RUNNING", "start_time 2099"),
        ("9,2024-03-04 00:00:00,2024-03-04 01:00:00,2099-01-01 00:00:00,COMPLETED", "end_time 2099"),
        ("9,2024-03-04 00:00:00,2024-03-04 01:00:00,2024-03-06 02:00:01,COMPLETED", "end_time 2024-03-06T02:00:01Z"),
    ],
    ids=["submission", "start", "end", "a second too late"],
)
def test_a_wrong_date_does_not_move_the_cut(tmp_path: Path, home: Settings, row: str, detail: str) -> None:
    log = write(tmp_path, "a.csv", *(line(i, 4) for i in range(5)), row)
    report = ingest(cluster(tmp_path), home, now=NOW)
    assert (report.last, report.ended, report.rejected_by_reason) == ("2024-03-04", 5, {"in_the_future": 1})
    (reject,) = Lake(home.lake).read_rejects("venus").to_pylist()
    assert (reject["file"], reject["line"], reject["reason"]) == ("a.csv", 7, "in_the_future")
    assert reject["detail"].startswith(detail)
    log.write_text("\n".join([*log.read_text().splitlines()[:-1], line(9, 5)]) + "\n")
    again = ingest(cluster(tmp_path), home, now=NOW + timedelta(days=1))
    assert (again.last, again.ended, again.rejected) == ("2024-03-05", 6, 0), "mended: the next load goes on"


@pytest.mark.parametrize(
    ("given", "row"),
    [
        pytest.param({}, "9,2024-03-04 00:00:00,2024-03-04 01:00:00,2024-03-06 01:00:00,COMPLETED", id="within a day"),
        pytest.param({}, "9,2024-03-04 00:00:00,2024-03-04 01:00:00,2099-01-01 00:00:00,RUNNING", id="an end foretold"),
        pytest.param({"clock": "relative"}, "9,2099-01-01 00:00:00,,,PENDING", id="a clock without dates"),
    ],
)
def test_what_may_be_is_not_refused(tmp_path: Path, home: Settings, given: dict[str, object], row: str) -> None:
    write(tmp_path, "a.csv", *(line(i, 4) for i in range(5)), row)
    assert ingest(cluster(tmp_path, **given), home, now=NOW).rejected == 0


def test_a_clock_that_is_far_ahead_changes_no_night(tmp_path: Path, home: Settings) -> None:
    write(tmp_path, "a.csv", *(line(i, 4) for i in range(5)))
    report = ingest(cluster(tmp_path), home, last=date(2024, 3, 4), now=datetime(2099, 1, 1, tzinfo=UTC))
    assert (report.last, report.ended, report.rejected) == ("2024-03-04", 5, 0)


@pytest.mark.parametrize("span", [("first", "last"), ("last",), ("first",)], ids=" ".join)
def test_a_load_up_to_a_day_that_is_not_over_writes_nothing(tmp_path: Path, home: Settings, span: tuple[str, ...]) -> None:
    write(tmp_path, "a.csv", *(line(i, 4) for i in range(5)))
    with pytest.raises(NoSuchNight, match=r"venus: 2024-03-05 is not over in UTC"):
        ingest(cluster(tmp_path), home, **dict.fromkeys(span, date(2024, 3, 5)), now=datetime(2024, 3, 5, 12, tzinfo=UTC))  # type: ignore[arg-type]
    assert Lake(home.lake).as_of_us("venus") is None


RUNS_ON = [
    "1,2024-03-01 10:00:00,2024-03-01 10:00:00,2024-03-01 11:00:00,COMPLETED",
    "2,2024-03-02 20:00:00,2024-03-02 20:00:00,,RUNNING",
    "3,2024-03-03 20:00:00,2024-03-03 20:00:00,,RUNNING",
]
ENDED_SINCE = [*RUNS_ON[:2], RUNS_ON[2].replace(",,RUNNING", ",2024-03-04 12:00:00,COMPLETED")]
MISTYPED = date(2062, 3, 4)


def places(home: Settings) -> dict[str, list[str]]:
    lake = Lake(home.lake)
    ended = {day: lake.read_ended("venus", [day])["job_id"].to_pylist() for day in lake.dates("venus")}
    return ended | {"open": lake.read_open("venus")["job_id"].to_pylist()}


@pytest.mark.parametrize(
    "again",
    [{"first": date(2024, 3, 4), "last": date(2024, 3, 4)}, {}, {"last": date(2024, 3, 4)}],
    ids=["the next night", "--all", "--to"],
)
def test_a_lake_with_a_cut_in_the_future_is_mended_by_the_next_night_or_by_all(
    tmp_path: Path, home: Settings, again: dict[str, date]
) -> None:
    now = datetime(2024, 3, 5, 12, tzinfo=UTC)
    write(tmp_path, "a.csv", *RUNS_ON, "4,2024-03-05 06:00:00,2024-03-05 06:00:00,2024-03-05 07:00:00,COMPLETED")
    ingest(cluster(tmp_path), home, last=MISTYPED)  # as before a load asked for its clock
    assert places(home) == {"2024-03-01": ["1"], "2024-03-05": ["4"], "open": ["2", "3"]}
    write(
        tmp_path, "a.csv", *ENDED_SINCE, "4,2024-03-05 06:00:00,2024-03-05 06:00:00,2024-03-05 07:00:00,COMPLETED",
        "5,2024-03-04 21:00:00,2024-03-04 21:00:00,,RUNNING",
    )  # fmt: skip
    report = ingest(cluster(tmp_path), home, **again, now=now)  # type: ignore[arg-type]
    assert (report.last, report.notes["cut_wound_back"]) == ("2024-03-04", 1)
    assert places(home) == {"2024-03-01": ["1"], "2024-03-04": ["3"], "open": ["2", "5"]}
    day = date(2024, 3, 5)
    later = ingest(cluster(tmp_path), home, first=day, last=day, now=now + timedelta(days=1))
    assert places(home) == {"2024-03-01": ["1"], "2024-03-04": ["3"], "2024-03-05": ["4"], "open": ["2", "5"]}
    assert (later.left_out, later.notes) == ({"ended_before": 1}, {}), "nothing is in the past any more"


def test_a_night_before_the_latest_leaves_a_cut_in_the_future_to_the_latest(tmp_path: Path, home: Settings) -> None:
    write(tmp_path, "a.csv", *RUNS_ON)
    ingest(cluster(tmp_path), home, last=MISTYPED)
    day = date(2024, 3, 3)
    report = ingest(cluster(tmp_path), home, first=day, last=day, now=datetime(2024, 3, 5, 12, tzinfo=UTC))
    assert (report.left_out["open_in_the_past"], places(home)["open"]) == (2, ["2", "3"])


def test_loading_all_of_a_log_without_dates_winds_back_a_cut_beyond_its_end(tmp_path: Path, home: Settings) -> None:
    write(tmp_path, "a.csv", *RUNS_ON)
    ingest(cluster(tmp_path, clock="relative"), home, last=MISTYPED)
    write(tmp_path, "a.csv", *ENDED_SINCE)
    report = ingest(cluster(tmp_path, clock="relative"), home, now=datetime(2001, 1, 1, tzinfo=UTC))
    assert report.last == "2024-03-04"
    assert places(home) == {"2024-03-01": ["1"], "2024-03-04": ["3"], "open": ["2"]}


def test_all_of_a_log_is_loaded_up_to_the_latest_day_that_is_over(tmp_path: Path, home: Settings) -> None:
    write(tmp_path, "a.csv", *RUNS_ON, "4,2024-03-05 06:00:00,2024-03-05 06:00:00,2024-03-05 07:00:00,COMPLETED")
    report = ingest(cluster(tmp_path), home, now=datetime(2024, 3, 5, 12, tzinfo=UTC))
    assert (report.last, report.left_out) == ("2024-03-03", {"submitted_later": 1}), "nothing of the 4th stands in the log"
    assert places(home) == {"2024-03-01": ["1"], "open": ["2", "3"]}


@pytest.mark.parametrize("content", ["", "{", "3", "[1]"], ids=["empty", "cut", "number", "list"])
def test_a_damaged_note_of_how_a_history_was_read_is_a_named_error(tmp_path: Path, home: Settings, content: str) -> None:
    write(tmp_path, "a.csv", line(1, 1))
    night(tmp_path, home, 1)
    note = home.home / "made_with" / "venus.json"
    note.write_text(content)
    with pytest.raises(LakeError, match=r"made_with/venus\.json: damaged.*delete this"):
        night(tmp_path, home, 2)
    note.unlink()
    night(tmp_path, home, 2)
