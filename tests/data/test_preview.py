"""What a log's first records come to, and what looks wrong about them: logs that are right but for one thing."""

import gzip
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.preview import RECORDS, Preview, preview
from runcast.data.settings import read_settings

NOW = datetime(2024, 3, 1, 12, tzinfo=UTC)
COLUMNS = {
    "job_id": "id", "user": "user", "submit_time": "sub", "start_time": "beg", "end_time": "end", "time_limit_s": "limit",
    "mem_mib": "mem", "gpu_count": "gpus", "state": "state",
}  # fmt: skip


def moment(minutes: float) -> str:
    return (NOW.replace(tzinfo=None) + timedelta(minutes=minutes)).isoformat(timespec="seconds")


def row(n: int, **other: Any) -> str:
    """One job of a sound log: waited a minute, ran an hour, ended before noon."""
    values = {
        "id": n, "user": f"u{n % 5}", "sub": moment(-200 - n), "beg": moment(-199 - n), "end": moment(-139 - n), "limit": 7200,
        "mem": 4096, "gpus": n % 2, "state": "COMPLETED",
    } | other  # fmt: skip
    return ",".join(map(str, values.values())) + "\n"


HEAD = "id,user,sub,beg,end,limit,mem,gpus,state\n"


def look(folder: Path, content: str | bytes, more: dict[str, Any] | None = None, **cluster: Any) -> Preview:
    path = folder / "log.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(path, (NOW.timestamp(), NOW.timestamp()))
    options = {"columns": {**COLUMNS, **(more or {})}}
    source = {"format": "table", "paths": [str(path)], "options": options}
    described = {"name": "c", "source": source, "time_zone": "UTC", "gpus_tracked": True} | cluster
    return preview(Cluster.model_validate(described), read_settings({"RUNCAST_HOME": str(folder)}), NOW)


def test_sound_log_is_shown_as_three_jobs_with_times_of_the_clusters_zone_and_nothing_wrong(tmp_path: Path) -> None:
    found = look(tmp_path, HEAD + "".join(row(n) for n in range(100)))
    assert (found.records, found.jobs, found.rejects, found.looks_wrong, found.problem) == (100, 100, {}, (), None)
    assert [job["job_id"] for job in found.shown] == ["0", "50", "99"]
    first = found.shown[0]
    assert (first["submit_time"], first["queue_s"], first["runtime_s"]) == ("2024-03-01 08:40:00+00:00", 60.0, 3600.0)
    assert (first["time_limit_s"], first["mem_mib"], first["source"]) == (7200.0, 4096.0, "log.csv:2")
    assert "queue" not in first
    assert "queue" in found.always_null


@pytest.mark.parametrize(
    ("other", "text"),
    [
        pytest.param({"limit": 10}, "ran past 1.5 times their limit (median limit 10 s), as if it were in minutes", id="minutes"),
        pytest.param({"limit": 10**8}, "half the limits are above 1157 days", id="limit in milliseconds"),
        pytest.param({"state": "KO"}, "the states of 100 % of the jobs are words that mean nothing", id="unknown states"),
        pytest.param({"state": ""}, "no state says how jobs ended", id="no states"),
        pytest.param({"user": ""}, "no job has a user", id="no users"),
        pytest.param({"gpus": 0}, "no job asks for a GPU", id="no GPU"),
        pytest.param({"mem": 4}, "half the jobs ask for less than 4 MiB", id="memory in GiB"),
        pytest.param({"mem": 4 * 2**30}, "half the jobs ask for more than 4294967296 MiB", id="memory in bytes"),
        pytest.param({"sub": moment(-400), "beg": moment(-400)}, "no job ever waited", id="submission is the start"),
        pytest.param({"end": moment(300)}, "the latest time is 5.0 h after the file was written: is time_zone", id="zone"),
        pytest.param({"end": moment(60 * 24 * 400)}, "is in the future", id="future"),
        pytest.param({"end": moment(60 * 24 * 40)}, "half the runtimes are above 40 days", id="long runtimes"),
        pytest.param({"limit": 9 * 10**6}, "hardly a job ran a fiftieth of its limit (median limit 104 days)", id="a long limit"),
        pytest.param(
            {"mem": "4G"},
            "mem_mib cannot be read in 100 of 100 jobs, and counts there as not given: '4G' 100. Try `unit: suffix`",
            id="suffix",
        ),
        pytest.param({"limit": "1-00:00:00"}, "'1-00:00:00' 100. Try `unit: hh:mm:ss`", id="clock"),
        pytest.param({"limit": "24:00"}, "'24:00' 100. Try `unit: hh:mm` (hours and minutes)", id="clock without seconds"),
        pytest.param({"gpus": "2 x A100"}, "'2 x A100' 100. Try `pattern: '^(?P<value>[0-9]+)'`", id="count before a name"),
        pytest.param({"gpus": "a100:2"}, "'a100:2' 100. Try `pattern: '(?P<value>[0-9]+)$'`", id="count after a name"),
        pytest.param(
            {"gpus": "1e300"},
            "gpu_count cannot be read in 100 of 100 jobs, and counts there as not given: '1e300' 100",
            id="absurd count",
        ),
    ],
)
def test_what_looks_wrong(tmp_path: Path, other: dict[str, Any], text: str) -> None:
    found = look(tmp_path, HEAD + "".join(row(n, **other) for n in range(100)))
    assert any(text in one for one in found.looks_wrong), found.looks_wrong
    assert found.problem is None


def test_durations_that_contradict_the_times_look_wrong(tmp_path: Path) -> None:
    found = look(tmp_path, HEAD + "".join(row(n) for n in range(100)), {"runtime_s": "limit"})
    assert "runtime and end minus start differ in 100 % of the jobs: see the unit" in found.looks_wrong


def test_times_in_the_wrong_order_are_counted(tmp_path: Path) -> None:
    found = look(tmp_path, HEAD + "".join(row(n) for n in range(99)) + row(99, end=moment(-5000)))
    assert found.looks_wrong == ("times in the wrong order: end_before_start 1",)
    assert (found.rejects, found.problem) == ({"end_before_start": 1}, None)


def test_hour_that_the_clusters_clock_skipped_hints_at_the_zone(tmp_path: Path) -> None:
    skipped = row(1, sub="2024-02-01T00:00:00", beg="2024-02-01T00:00:00", end="2023-03-12T02:30:00")
    found = look(tmp_path, HEAD + "".join(row(n) for n in range(99)) + skipped, time_zone="America/New_York")
    assert any("in an hour that clocks skipped" in one for one in found.looks_wrong)


@pytest.mark.parametrize(
    ("written", "advice"),
    [
        pytest.param("24.03.2024 10:00:00", "`time: {format: '%d.%m.%Y %H:%M:%S'}`", id="day first, with dots"),
        pytest.param("24/03/2024 10:00", "`time: {format: '%d/%m/%Y %H:%M'}`", id="day first"),
        pytest.param("03/24/2024 10:00", "`time: {format: '%m/%d/%Y %H:%M'}`", id="month first"),
        pytest.param("03/04/2024 10:00", "(or %m/%d, if the month comes first)", id="day or month first"),
        pytest.param("1709287200000", "`time: epoch_ms`", id="milliseconds"),
        pytest.param("Mar  1 10:00:00 2024", "`time: {format: '%b %d %H:%M:%S %Y'}`", id="as LSF writes it"),
        pytest.param("yesterday", "`time:` says how a column writes times", id="nothing that is read"),
    ],
)
def test_times_that_cannot_be_read_are_a_problem_with_what_time_takes(tmp_path: Path, written: str, advice: str) -> None:
    found = look(tmp_path, HEAD + "".join(row(n, sub=written) for n in range(100)))
    assert found.problem is not None
    assert (
        "100 of its first 100 records are refused (submit_time_unreadable 100); a load stops above 2 %. Line 2: " in found.problem
    )
    assert advice in found.problem
    assert found.shown == ()


def test_share_of_rejects_above_the_clusters_is_a_problem(tmp_path: Path) -> None:
    text = HEAD + "".join(row(n) for n in range(95)) + "short\n" * 5
    assert "5 of its first 100 records are refused (wrong_field_count 5)" in str(look(tmp_path, text).problem)
    source = {
        "format": "table",
        "paths": [str(tmp_path / "log.csv")],
        "options": {"columns": COLUMNS},
        "reject_share_at_most": 0.1,
    }
    assert look(tmp_path, text, source=source).problem is None


def test_log_without_a_record_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="holds no record yet"):
        look(tmp_path, HEAD)


def test_latest_file_that_holds_only_open_jobs_is_read_with_those_before_it(tmp_path: Path) -> None:
    for name, content in (("a.csv", HEAD + row(1)), ("open.csv", HEAD + row(2, end="", state="RUNNING")), ("z.csv", HEAD)):
        (tmp_path / name).write_text(content)
    source = {"format": "table", "paths": [str(tmp_path / "*.csv")], "options": {"columns": COLUMNS}}
    described = {"name": "c", "source": source, "time_zone": "UTC"}
    found = preview(Cluster.model_validate(described), read_settings({"RUNCAST_HOME": str(tmp_path)}), NOW)
    assert (Path(found.file).name, found.more_files, found.records) == ("open.csv", 1, 2)
    assert [job.get("runtime_s") is None for job in found.shown] == [True, False]
    assert not [text for text in found.looks_wrong if "runtime" in text]


def test_latest_file_by_name_is_read_and_an_empty_one_passed_over(tmp_path: Path) -> None:
    for name, content in (("a.csv", HEAD + row(1)), ("b.csv", HEAD + row(2)), ("c.csv", HEAD)):
        (tmp_path / name).write_text(content)
    (tmp_path / "d.csv").write_bytes(b"")
    source = {"format": "table", "paths": [str(tmp_path / "*.csv")], "options": {"columns": COLUMNS}}
    described = {"name": "c", "source": source, "time_zone": "UTC"}
    found = preview(Cluster.model_validate(described), read_settings({"RUNCAST_HOME": str(tmp_path)}), NOW)
    assert (Path(found.file).name, found.shown[0]["job_id"]) == ("b.csv", "2")


def test_no_more_than_the_first_block_of_a_large_compressed_log_is_read(tmp_path: Path) -> None:
    text = HEAD + "".join(row(n) for n in range(400)) * 500
    found = look(tmp_path, gzip.compress(text.encode(), 1))
    assert RECORDS <= found.records < 70_000 < 200_000


def test_names_are_shown_as_the_pseudonyms_that_a_load_would_keep(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("k" * 64)
    key.chmod(0o600)
    found = look(tmp_path, HEAD + row(3), pseudonymise={"key_file": str(key)})
    assert found.shown[0]["user"] not in ("u3", None)
