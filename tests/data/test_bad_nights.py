"""What a night may bring, as a table: fault in the log -> what is said, and whether the night stops.

Real sacct text (the made-up cluster's, its last weeks), read into a real lake and judged by the real Great Expectations suites.
A fault is put into what the log gained in the last night, nothing else; the night before had loaded all until then.
"""

import random
import re
import shutil
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from runcast.data.cluster import Cluster, read_cluster
from runcast.data.demo import LAST_DAY, write_demo
from runcast.data.errors import HistoryMismatch, QualityStop, TooManyRejects
from runcast.data.job import check, ingest
from runcast.data.lake import Lake
from runcast.data.quality import QualityReport
from runcast.data.settings import Settings, read_settings

DAY = LAST_DAY - timedelta(days=1)
FIRST = DAY - timedelta(days=40)
FORM = "%Y-%m-%dT%H:%M:%S"
TIMES = ("Submit", "Start", "End")
Row = dict[str, str]
Fault = Callable[[list[Row]], list[Row]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[Row]]:
    """Names of the columns, and the records of the last weeks without steps: as `sacct -X` gives them."""
    folder = tmp_path_factory.mktemp("demo")
    write_demo(folder)
    rows: list[Row] = []
    for path in sorted((folder / "demo_slurm").glob("sacct-*.txt")):
        names, *lines = path.read_text().splitlines()
        header = names.split("|")
        rows += [dict(zip(header, line.split("|"), strict=True)) for line in lines if line.count("|") == len(header) - 1]
    kept = [
        r for r in rows if "." not in r["JobID"] and r["JobID"][0].isdigit() and FIRST.isoformat() <= r["Submit"][:10] <= f"{DAY}"
    ]
    return header, kept


def write(folder: Path, header: list[str], rows: list[Row]) -> Cluster:
    (folder / "log.txt").write_text(
        "\n".join("|".join(line) for line in (header, *([r[n] for n in header] for r in rows))) + "\n"
    )
    file = folder / "hpc.yaml"
    file.write_text(
        f"source: {{format: slurm_sacct, paths: ['{folder}/log.txt']}}\ntime_zone: Europe/Berlin\ngpus_tracked: true\n"
        "schedule: '30 2 * * *'\n"
    )
    return read_cluster(file)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory, log: tuple[list[str], list[Row]]) -> Path:
    """A home with all loaded until the day before."""
    folder = tmp_path_factory.mktemp("before")
    ingest(write(folder, *log), read_settings({"RUNCAST_HOME": str(folder / "home")}), last=DAY - timedelta(days=1))
    return folder / "home"


def is_of_the_day(row: Row) -> bool:
    """Whether the log gained the record, or its end, on the day."""
    return row["Submit"][:10] == f"{DAY}" or row["End"][:10] >= f"{DAY}"


def night(before: Path, log: tuple[list[str], list[Row]], folder: Path, fault: Fault) -> tuple[QualityReport, Settings]:
    """Load the log with the fault in what the day brought, and judge it."""
    header, rows = log
    shutil.copytree(before, folder / "home")
    settings = read_settings({"RUNCAST_HOME": str(folder / "home")})
    cluster = write(
        folder, header, [r for r in rows if not is_of_the_day(r)] + fault([dict(r) for r in rows if is_of_the_day(r)])
    )
    ingest(cluster, settings, last=DAY)
    return check(cluster, settings, DAY), settings


def half(rows: list[Row]) -> list[Row]:
    return random.Random(1).sample(rows, len(rows) // 2)


def cut_at_noon(rows: list[Row]) -> list[Row]:
    return [r for r in rows if max(r["Submit"], r["End"] if r["End"][:1].isdigit() else "") < f"{DAY}T12:00:00"]


def moved(*names: str) -> Fault:
    """Let each column hold what belongs into the next."""
    return lambda rows: [r | {n: r[names[(i + 1) % len(names)]] for i, n in enumerate(names)} for r in rows]


def told_twice(rows: list[Row]) -> list[Row]:
    return rows + [r | {"JobID": f"9{r['JobID']}"} for r in rows]


def hours(by: int) -> Fault:
    def move(text: str) -> str:
        return (datetime.strptime(text, FORM) + timedelta(hours=by)).strftime(FORM) if text[:1].isdigit() else text  # noqa: DTZ007

    return lambda rows: [r | {name: move(r[name]) for name in TIMES} for r in rows]


def some(share: float, **values: str) -> Fault:
    """Give a share of the rows, evenly spread, these values."""
    return lambda rows: [r | values if int((at + 1) * share) > int(at * share) else r for at, r in enumerate(rows)]


def other_cpus(rows: list[Row]) -> list[Row]:
    return [r | {"ReqTRES": re.sub(r"cpu=\d+", "cpu=4096", r["ReqTRES"]), "ReqCPUS": "4096"} for r in rows]


def renamed(column: str, word: str) -> Fault:
    return lambda rows: [r | {column: f"{r[column]}-new"} if r[column] == word else r for r in rows]


STOPS = [
    pytest.param(lambda rows: [], "row_count_minimum", r"at least 1 jobs that ended on the day; found 0", id="nothing came"),
    pytest.param(half, "id_gaps", r"job ids in a row as before .*; found 0\.\d+", id="half the rows, any of them"),
    pytest.param(cut_at_noon, "cut_short", r"at most \d.* h at .* while \d+ jobs run.*; found 1[1-9]\.", id="the file ends at noon"),
    pytest.param(
        moved("User", "Group", "Account", "Partition", "QOS"), "columns_in_place",
        r"values like those .*now foreign: user, account, queue, qos\); found 4", id="names moved by a column",
    ),
    pytest.param(
        some(0.5, Submit="high"), "refused_rows", r"at most \d+ records refused .*runcast rejects", id="times moved by a column"
    ),
    pytest.param(told_twice, "doubled_jobs", r"jobs that come once, or differ .*; found 1\n", id="doubled jobs"),
    pytest.param(
        some(0.3, State="DISSOLVED"), "new_state", r"states that states.py knows, .*; found \d+ of \d+ otherwise", id="a new state"
    ),
    pytest.param(
        some(1, Partition="alpha"), "known_queues", r"queues that were seen in the days before; found 1", id="all queues renamed"
    ),
    pytest.param(
        renamed("Partition", "gpu"), "queue_renamed", r"no queue that goes as another comes .*; found 0\.", id="one queue renamed"
    ),
    pytest.param(renamed("Account", "lab0"), "account_renamed", r"no account that goes as another comes", id="one account renamed"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "check_name", "said"), STOPS)
def test_fault_stops_the_night_and_is_named(
    before: Path, log: tuple[list[str], list[Row]], tmp_path: Path, fault: Fault, check_name: str, said: str
) -> None:
    report, _ = night(before, log, tmp_path, fault)
    assert check_name in {finding.check for finding in report.stops}
    with pytest.raises(
        QualityStop, match=rf"(?s)hpc, {DAY}: nothing is trained, the champion stays.*{check_name}: expected {said}"
    ):
        report.require_passed()


WARNS = [
    pytest.param(lambda rows: rows, set(), id="a plain day"),
    pytest.param(some(0.02, State="DISSOLVED"), {"new_state_seen"}, id="a few of a new state"),
    pytest.param(some(0.15, Partition="alpha"), {"few_new_queues"}, id="a new queue beside the others"),
    pytest.param(other_cpus, {"columns_alike"}, id="one column of other numbers"),
]


@pytest.mark.parametrize(("fault", "warned"), WARNS)
def test_what_may_well_be_so_warns(
    before: Path, log: tuple[list[str], list[Row]], tmp_path: Path, fault: Fault, warned: set[str]
) -> None:
    report, _ = night(before, log, tmp_path, fault)
    assert (report.stops, report.broken, report.passed) == ((), (), True)
    assert {finding.check for finding in report.warns} == warned


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        pytest.param(hours(-2), HistoryMismatch, r"\d+ of \d+ jobs .* are now submitted -2 h", id="the day in UTC"),
        pytest.param(hours(7), HistoryMismatch, r"submitted \+7 h from what they were", id="seven hours on"),
        pytest.param(
            lambda rows: rows + [r | {"Start": "high"} for r in rows * 4], TooManyRejects, r"start_unreadable", id="much of all"
        ),
    ],
)  # fmt: skip
def test_fault_that_ends_the_load_leaves_the_lake(
    before: Path, log: tuple[list[str], list[Row]], tmp_path: Path, fault: Fault, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=rf"(?s){said}.*Nothing was written"):
        night(before, log, tmp_path, fault)
    lakes = [Lake(home / "lake").fingerprint("hpc") for home in (before, tmp_path / "home")]
    assert lakes[0] == lakes[1]


def test_fault_is_gone_once_the_log_is_whole(before: Path, log: tuple[list[str], list[Row]], tmp_path: Path) -> None:
    """The night that was stopped is run again on the mended log; nothing of the fault is left."""
    report, settings = night(before, log, tmp_path, some(1, Partition="alpha"))
    assert not report.passed
    cluster = write(tmp_path, *log)
    ingest(cluster, settings, last=DAY)
    assert check(cluster, settings, DAY).passed


def test_zone_of_the_cluster_file_is_that_of_its_history(before: Path, log: tuple[list[str], list[Row]], tmp_path: Path) -> None:
    shutil.copytree(before, tmp_path / "home")
    elsewhere = write(tmp_path, *log).model_copy(update={"time_zone": "UTC"})
    with pytest.raises(HistoryMismatch, match=r"time_zone is UTC, the jobs of hpc in .* were read as Europe/Berlin"):
        ingest(elsewhere, read_settings({"RUNCAST_HOME": str(tmp_path / "home")}), last=date(2026, 6, 29))
