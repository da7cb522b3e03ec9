"""The public logs: every count as their notes give it, and what is special about each."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from runcast.data.cluster import find_cluster
from runcast.data.settings import EXAMPLES, read_settings
from runcast.data.sources.batch import Batch
from runcast.data.sources.registry import read_source

pytestmark = pytest.mark.traces


@dataclass(frozen=True)
class Counts:
    """What a log must give: rows in, rejects by reason, labels, and how many rows can be learnt from."""

    rows_in: int
    event: int
    censored: int
    excluded: int
    usable: int
    rejects: dict[str, int] = field(default_factory=dict)


#: rows_in is the number of rows in the log's NOTE.md; sums of labels are those of its status counts.
EXPECTED = {
    "coare": Counts(19_760, 17_810, 1_950, 0, 19_760),
    "ctc": Counts(77_222, 77_222, 0, 0, 77_205),
    "curie": Counts(312_826, 295_340, 7_700, 9_786, 295_540),
    "eagle": Counts(1_000, 985, 15, 0, 1_000),
    "gaia": Counts(51_987, 51_860, 127, 0, 51_859),
    "hpc2n": Counts(202_871, 202_871, 0, 0, 202_871),
    "kth": Counts(28_476, 28_476, 0, 0, 28_468),
    "lsf": Counts(31_953, 29_176, 946, 1_824, 30_117, {"end_before_start": 7}),
    "openb": Counts(8_152, 7_221, 34, 897, 7_221),
    "pai": Counts(60_105, 60_015, 90, 0, 60_105),
    "pegasus": Counts(580_663, 552_138, 13_411, 15_077, 541_687, {"start_before_submit": 37}),
    "philly": Counts(82_247, 82_247, 0, 0, 82_247),
    "philly_retries": Counts(3_034, 3_034, 0, 0, 3_034),
    "sdsc_sp2": Counts(59_715, 43_117, 10_927, 5_671, 54_034),
    "theta": Counts(23_911, 23_911, 0, 0, 23_911),
    "venus": Counts(125_303, 122_924, 2_379, 0, 125_303),
    "venus_2vc": Counts(1_867, 1_277, 590, 0, 1_867),
}


@cache
def batches(name: str, traces: Path) -> list[Batch]:
    return list(read_source(find_cluster(EXAMPLES, name), read_settings({"RUNCAST_TRACES": str(traces)})))


def jobs(name: str, traces: Path) -> pa.Table:
    return pa.concat_tables([batch.jobs for batch in batches(name, traces)])


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_counts_are_those_of_the_note(name: str, traces: Path) -> None:
    table, expected = jobs(name, traces), EXPECTED[name]
    rejects = Counter(reject.reason for batch in batches(name, traces) for reject in batch.rejects)
    labels = Counter(table["label"].to_pylist())
    usable = pc.sum(pc.greater(pc.fill_null(table["runtime_s"], 0), 0)).as_py()
    found = Counts(
        sum(b.rows_in for b in batches(name, traces)),
        labels["event"],
        labels["censored"],
        labels["excluded"],
        usable,
        dict(rejects),
    )
    assert found == expected
    table.validate(full=True)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_keys_are_unique_and_times_in_order(name: str, traces: Path) -> None:
    table = jobs(name, traces)
    assert pc.count_distinct(table["job_key"]).as_py() == table.num_rows
    for earlier, later in (("submit_time", "start_time"), ("start_time", "end_time"), ("submit_time", "end_time")):
        assert pc.all(pc.less_equal(table[earlier], table[later])).as_py() is True
    for name_ in ("runtime_s", "queue_s", "time_limit_s", "cpu_count", "gpu_count", "mem_mib", "node_count"):
        assert (pc.min(table[name_]).as_py() or 0) >= 0


def test_venus_is_anchored_where_its_dated_slice_says(traces: Path) -> None:
    whole = {
        key.split("#")[0]: (when, run)
        for key, when, run in zip(
            *(jobs("venus", traces)[c].to_pylist() for c in ("job_id", "submit_time", "runtime_s")), strict=True
        )
    }
    slice_ = jobs("venus_2vc", traces)
    for key, when, run in zip(*(slice_[c].to_pylist() for c in ("job_id", "submit_time", "runtime_s")), strict=True):
        assert whole[key] == (when, min(run, 172_800.0))


@pytest.mark.parametrize(
    ("name", "first"),
    [
        pytest.param("kth", datetime(1996, 9, 30, 10, 38, 1, tzinfo=UTC), id="kth"),
        pytest.param("theta", datetime(2022, 1, 1, 7, 14, 14, tzinfo=UTC), id="theta"),
        pytest.param("pegasus", datetime(2019, 3, 5, 16, 13, 38, tzinfo=UTC), id="pegasus"),
        pytest.param("philly_retries", datetime(2017, 9, 4, 17, 30, 41, tzinfo=UTC), id="philly_retries"),
        pytest.param("philly", datetime(2017, 9, 4, 17, 30, 41, tzinfo=UTC), id="philly"),
        pytest.param("lsf", datetime(2019, 3, 8, 6, 40, 34, tzinfo=UTC), id="lsf"),
        pytest.param("venus", datetime(2020, 3, 17, 20, 1, 39, tzinfo=UTC), id="venus"),
    ],
)
def test_first_submission(name: str, first: datetime, traces: Path) -> None:
    assert pc.min(jobs(name, traces)["submit_time"]).as_py() == first


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_zone_of_the_log_is_the_clusters(name: str, traces: Path) -> None:
    notes = {note for batch in batches(name, traces) for note in batch.notes}
    assert not notes & {"time_zone_differs_from_header", "time_zone_of_header_unknown"}


def test_columns_that_leak_or_say_nothing_are_left_out(traces: Path) -> None:
    assert jobs("venus_2vc", traces)["time_limit_s"].null_count == 1_867  # the slice fills it with the duration
    assert jobs("sdsc_sp2", traces)["job_name"].null_count == 59_715  # nearly one number a job
    assert jobs("pegasus", traces)["priority"].null_count == 580_626  # written at the start, with the age in it


def test_pegasus_array_tasks_are_split(traces: Path) -> None:
    table = jobs("pegasus", traces)
    share = 1 - table["array_id"].null_count / table.num_rows
    assert share == pytest.approx(0.6017, abs=1e-4)
    row = table.filter(pc.equal(table["job_id"], "65454_29")).to_pylist()[0]
    assert (row["array_id"], row["array_task"], row["time_limit_kind"]) == ("65454", 29, "hard")


def test_pai_roles_come_from_the_id(traces: Path) -> None:
    roles = Counter(jobs("pai", traces)["task_role"].to_pylist())
    assert (roles["tensorflow"], roles["worker"], roles["PyTorchWorker"], roles["ps"], roles[None]) == (
        33_427,
        17_429,
        5_718,
        420,
        0,
    )


def test_philly_logs_agree_but_for_the_hour_the_clock_was_set_back(traces: Path) -> None:
    """The reduced log subtracts local times: a job over 5 November 2017 lost an hour there, and has its true length here."""
    reduced = Counter(
        zip(*(jobs("philly", traces)[c].to_pylist() for c in ("submit_time", "gpu_count", "runtime_s")), strict=True)
    )
    kept = jobs("philly_retries", traces)
    single = kept.filter(pc.equal(kept["attempts"], 1))
    rows = list(zip(*(single[c].to_pylist() for c in ("submit_time", "gpu_count", "runtime_s", "end_time")), strict=True))
    others = [row for row in rows if (row[0], row[1], row[2]) not in reduced]
    assert (len(rows), len(others)) == (2218, 36)
    set_back = datetime(2017, 11, 5, 9, tzinfo=UTC)
    assert all((submit, gpus, run - 3600) in reduced and submit < set_back < end for submit, gpus, run, end in others)
