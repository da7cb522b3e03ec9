"""Units that are wrong from the first night on, and shares that are counted over all rows: on real Great Expectations runs."""

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster, Source
from runcast.data.job import check
from runcast.data.lake import Lake
from runcast.data.quality import QualityReport
from runcast.data.schema import JOBS
from runcast.data.settings import read_settings

CLUSTER = Cluster(name="venus", source=Source(format="table", paths=("log.csv",)), time_zone="UTC", schedule="0 3 * * *")
DAY = date(2024, 3, 20)
NOON_US = round(datetime(2024, 3, 20, 12, tzinfo=UTC).timestamp()) * 1_000_000


def day_rows(count: int = 60) -> list[dict[str, object]]:
    """A day of jobs that ran for a minute, on 8 CPUs and one node, with a limit of an hour."""
    jobs = []
    for at in range(count):
        job = dict.fromkeys(JOBS.names) | {"cluster": "venus", "job_id": f"{at}", "job_key": f"venus:{at}", "source": f"log:{at}"}
        job |= {"user": f"u{at % 5}", "state": "COMPLETED", "label": "event", "flags": [], "attempts": 1}
        job |= {"cpu_count": 8.0, "node_count": 1.0, "mem_mib": 1024.0, "time_limit_s": 3600.0, "time_limit_kind": "hard"}
        start = NOON_US + at * 1_000_000
        job |= {"submit_time": start, "start_time": start, "end_time": start + 60_000_000, "runtime_s": 60.0, "queue_s": 0.0}
        jobs.append(job)
    return jobs


def names(findings: tuple[object, ...]) -> set[str]:
    return {finding.check for finding in findings}  # type: ignore[attr-defined]


def first_night(folder: Path, rows: list[dict[str, object]]) -> QualityReport:
    settings = read_settings({"RUNCAST_HOME": str(folder)})
    table = pa.Table.from_pylist(rows, schema=JOBS)
    Lake(settings.lake).replace("venus", ended={f"{DAY}": table}, open_jobs=table.slice(0, 0), as_of_us=1)
    return check(CLUSTER, settings, DAY)


def enforced(limit_unit_s: float = 1.0, **values: object) -> list[dict[str, object]]:
    """A first day of 60 jobs: a third ran their limit of an hour, the others a tenth; the limit column is in another unit."""
    rows = day_rows()
    for at, row in enumerate(rows):
        runtime_s = 3600.0 if at % 3 == 0 else 360.0
        row |= {"time_limit_s": 3600.0 / limit_unit_s, "runtime_s": runtime_s, **values}
        row["end_time"] = row["start_time"] + round(runtime_s * 1e6)  # type: ignore[operator]
    return rows


def timed_out(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """The third that ran their limit, timed out."""
    return [row | ({"state": "TIMEOUT", "label": "censored"} if at % 3 == 0 else {}) for at, row in enumerate(rows)]


WRONG_UNITS = [
    pytest.param(enforced(), set(), "", id="seconds"),
    pytest.param(
        enforced(60), {"limit_unit", "limit_respected"}, "ran 60 times as long: is time_limit_s in minutes?", id="minutes"
    ),
    pytest.param(enforced(3600), {"limit_unit", "limit_respected"}, "is time_limit_s in hours?", id="hours"),
    pytest.param(enforced(1 / 60), set(), "", id="too large a limit that no job reaches: nothing shows it"),
    pytest.param(timed_out(enforced()), set(), "", id="seconds, and jobs that timed out"),
    pytest.param(
        timed_out(enforced(1 / 60)),
        {"limit_unit"},
        "ran 0.0167 times as long: is time_limit_s in seconds, not minutes?",
        id="seconds read as minutes, and jobs that timed out",
    ),
    pytest.param(timed_out(enforced(1e-3)), {"limit_unit"}, "is time_limit_s in milliseconds?", id="milliseconds"),
    pytest.param(enforced(mem_mib=8192.0 * 2**10), set(), "", id="8 TiB: a large node"),
    pytest.param(enforced(mem_mib=8192.0 * 2**20), {"memory_unit"}, "is mem_mib in bytes?", id="bytes"),
    pytest.param(enforced(mem_mib=65536.0 * 2**10), {"memory_unit"}, "is mem_mib in KiB?", id="64 GiB in KiB"),
    pytest.param(enforced(gpu_count=100.0), {"gpu_unit"}, "100 GPUs a node in the median", id="percent of a GPU"),
    pytest.param(enforced(gpu_count=800.0, node_count=100.0), set(), "", id="800 GPUs on 100 nodes"),
]


@pytest.mark.parametrize(("rows", "stops", "said"), WRONG_UNITS)
def test_a_unit_that_is_wrong_from_the_first_day_on_stops_and_is_named(
    tmp_path: Path, rows: list[dict[str, object]], stops: set[str], said: str
) -> None:
    report = first_night(tmp_path, rows)
    assert names(report.stops) == stops
    assert said in report.explain()


def test_runtimes_that_are_not_end_less_start_name_their_unit(tmp_path: Path) -> None:
    report = first_night(tmp_path, [row | {"runtime_s": row["runtime_s"] / 60} for row in enforced()])  # type: ignore[operator]
    assert names(report.stops) == {"runtime_is_end_less_start"}
    assert "is runtime_s in minutes?" in report.explain()


def mostly_nulls(known: int) -> list[dict[str, object]]:
    """A hundred jobs: so many have memory, of which one 5 EiB; two have a limit, and outlive it."""
    rows = day_rows(100)
    for at, row in enumerate(rows):
        row |= {"mem_mib": None if at >= known else 5e12 if at == 0 else 1024.0}
        row |= {"time_limit_s": None, "time_limit_kind": "absent"} if at >= 2 else {"time_limit_s": 20.0}
    return rows


@pytest.mark.parametrize("known", [6, 100], ids=["94 nulls", "no nulls"])
def test_what_most_jobs_must_be_is_counted_over_all_of_them(tmp_path: Path, known: int) -> None:
    report = first_night(tmp_path, mostly_nulls(known))
    assert report.stops == ()
    assert {one.check: one.found for one in report.warns} == {"mem_mib_range_all": "1 of 100 otherwise, e.g. 5e+12"}


def test_a_tenth_of_all_jobs_beyond_the_range_stops_however_many_are_null(tmp_path: Path) -> None:
    rows = [row | {"mem_mib": 5e12 if at < 11 else None} for at, row in enumerate(mostly_nulls(0))]
    assert names(first_night(tmp_path, rows).stops) == {"mem_mib_range"}
