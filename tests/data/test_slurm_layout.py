"""A sacct log with a random delimiter: no name, whatever it holds, makes or breaks a record."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.sources import slurm_sacct
from runcast.data.sources.batch import Batch

pytestmark = pytest.mark.attack

DELIMITER = "|00c0ffee00c0ffee|"  # as README.md draws one
HEADER = DELIMITER.join(("JobID", "JobName", "WorkDir", "User", "Submit", "Start", "End", "State"))
CLUSTER = Cluster.model_validate({"name": "c", "time_zone": "UTC", "source": {"format": "slurm_sacct", "paths": ["*"]}})
Read = Callable[..., list[Batch]]


def record(job_id: int, name: str = "n", work_dir: str = "/w", user: str = "games") -> str:
    times = (f"2024-03-01T10:{at}" for at in ("00:00", "00:05", "01:05"))
    return DELIMITER.join((f"{job_id}", name, work_dir, user, *times, "COMPLETED"))


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def batches(*records: str, header: str = HEADER) -> list[Batch]:
        path = tmp_path / "sacct.txt"
        path.write_bytes("".join(f"{line}\n" for line in (header, *records)).encode("utf-8", "surrogateescape"))
        return list(slurm_sacct.read(path, CLUSTER))

    return batches


def jobs(batches: list[Batch]) -> dict[str, tuple[str, str, str]]:
    rows = (row for batch in batches for row in batch.jobs.to_pylist())
    return {row["job_id"]: (row["user"], row["job_name"], row["work_dir"]) for row in rows}


def rejects(batches: list[Batch]) -> list[tuple[int, str]]:
    return [(reject.line, reject.reason) for batch in batches for reject in batch.rejects]


HOSTILE = {
    "a record": "x\n999|x|/w|mail|2024-03-01T10:00:00|2024-03-01T10:00:05|2024-03-01T10:01:05|COMPLETED\ny",
    "a record of a guess": "x\n" + record(999, user="mail").replace("c0ffee", "c0ffef"),
    "an error": "x\nsacct: error: Connection refused",
    "many short lines": "\n".join("1|2" for _ in range(60)),
    "line ends only": "a\n\n\nb",
    "a header": "x\n" + HEADER.replace(DELIMITER, "|"),
}


@pytest.mark.parametrize("block_bytes", [64, 8 << 20])
@pytest.mark.parametrize("name", HOSTILE.values(), ids=list(HOSTILE))
def test_a_hostile_name_is_a_name(read: Read, monkeypatch: pytest.MonkeyPatch, name: str, block_bytes: int) -> None:
    monkeypatch.setattr(slurm_sacct, "BLOCK_BYTES", block_bytes)
    batches = read(record(1, user="ada"), record(2, name), record(3, work_dir=f"/{name}"), record(4, user="ada"))
    assert jobs(batches) == {
        "1": ("ada", "n", "/w"), "2": ("games", name, "/w"), "3": ("games", "n", f"/{name}"), "4": ("ada", "n", "/w")
    }  # fmt: skip
    assert rejects(batches) == []


NAME = st.text(st.characters(blacklist_characters="\x1c\x1d\x1f\r", blacklist_categories=("Cs",)), max_size=30).map(
    lambda text: f"<{text}>"
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(NAME, NAME), min_size=1, max_size=6), st.sampled_from([32, 200, 8 << 20]))
def test_any_names_are_read_as_they_are(read: Read, names: list[tuple[str, str]], block_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slurm_sacct, "BLOCK_BYTES", block_bytes)
        batches = read(*(record(at, *some) for at, some in enumerate(names, 1)))
    assert jobs(batches) == {f"{at}": ("games", *some) for at, some in enumerate(names, 1)}
    assert rejects(batches) == []


def test_a_record_that_was_cut_off_costs_only_itself(read: Read) -> None:
    batches = read(record(1), record(2)[:60], record(3), "a stray line", record(4), record(5)[:40])
    assert set(jobs(batches)) == {"1", "3", "4"}
    assert rejects(batches) == [(3, "wrong_field_count"), (5, "wrong_field_count"), (7, "wrong_field_count")]


@pytest.mark.parametrize(
    "lines",
    [
        (record(1), "sacct: error: slurm_persist_conn_open: failed to open persistent connection: Connection refused", record(2)),
        (record(1), "slurmdbd: fatal: out of memory"),
    ],
)
def test_an_error_between_records_refuses_the_log(read: Read, lines: tuple[str, ...]) -> None:
    with pytest.raises(SourceError, match=r"line 3 is an error message of Slurm's.*export again"):
        read(*lines)


PLAIN = HEADER.replace(DELIMITER, "|")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        pytest.param("sacct: error: Problem talking to the database: Connection refused", "begins with an error", id="first"),
        pytest.param("JobID|Submit|Start|End|State|JobName\nsacct: error: lost", "line 2 is an error", id="free text last"),
        pytest.param(f"{PLAIN}\nsacct: fatal: lost", "line 2 is an error", id="state last"),
    ],
)
def test_an_error_refuses_a_log_with_a_plain_delimiter_too(read: Read, header: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read(header=header)


def test_delimiter_is_taken_from_the_header_of_each_file(read: Read) -> None:
    plain = record(1).replace(DELIMITER, "|")
    assert jobs(read(plain, header=PLAIN)) == jobs(read(record(1)))
