"""The lake: whole partitions, declared schema, one writer, nothing half done, equal bytes for equal jobs."""

import hashlib
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from runcast.data.errors import LakeError
from runcast.data.lake import Lake, conform
from runcast.data.schema import JOBS, REJECTS


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


def job(key: str, **given: object) -> dict[str, object]:
    blank: dict[str, object] = dict.fromkeys(JOBS.names)
    base = {
        "cluster": "venus",
        "job_id": key,
        "job_key": key,
        "submit_time": us("2024-03-01T10:00:00"),
        "time_limit_kind": "hard",
    }
    base |= {"start_time": us("2024-03-01T10:00:05"), "end_time": us("2024-03-01T11:00:05"), "runtime_s": 3600.0, "queue_s": 5.0}
    base |= {"state": "COMPLETED", "label": "event", "attempts": 1, "source": "f:1", "flags": []}
    return blank | base | given


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=JOBS)


def running(key: str) -> dict[str, object]:
    return job(key, end_time=None, runtime_s=None, state="RUNNING", label="censored")


def keys(jobs: pa.Table) -> list[str]:
    return jobs["job_key"].to_pylist()


def content(root: Path) -> dict[str, str]:
    """Hash of each data file below the lake."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and ".locks" not in path.parts]
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


CUT = us("2024-03-02T00:00:00")


def test_what_was_written_is_read_ended_first_then_open(lake: Lake) -> None:
    lake.write_ended("venus", "2024-03-02", table(job("b", end_time=us("2024-03-02T11:00:00"))))
    lake.write_ended("venus", "2024-03-01", table(job("a")))
    lake.write_open("venus", table(running("c")), CUT)
    read = lake.read_jobs("venus")
    assert read.schema.equals(JOBS)
    assert keys(read) == ["a", "b", "c"]
    assert read.to_pylist()[0] == table(job("a")).to_pylist()[0]
    assert lake.dates("venus") == ["2024-03-01", "2024-03-02"]
    assert lake.as_of_us("venus") == CUT
    assert lake.rows_by_date("venus") == {"2024-03-01": 1, "2024-03-02": 1}


def test_one_file_for_each_cluster_day(lake: Lake) -> None:
    for hour in range(24):
        lake.write_ended("venus", "2024-03-01", table(*(job(f"{i}") for i in range(hour + 1))))
    assert [str(path.relative_to(lake.root)) for path in lake.root.rglob("*.parquet")] == [
        "jobs/cluster=venus/end_date=2024-03-01/part.parquet"
    ]


@pytest.mark.parametrize("rows", [2, 0])
def test_a_rerun_leaves_only_its_own_rows(lake: Lake, rows: int) -> None:
    lake.write_ended("venus", "2024-03-01", table(*(job(f"old{i}") for i in range(40))))
    lake.write_ended("venus", "2024-03-02", table(job("other")))
    change = lake.write_ended("venus", "2024-03-01", table(*(job(f"new{i}") for i in range(rows))))
    assert keys(lake.read_ended("venus", ["2024-03-01"])) == [f"new{i}" for i in range(rows)]
    assert lake.dates("venus") == (["2024-03-01"] if rows else []) + ["2024-03-02"]
    assert len(change.removed) == (0 if rows else 1)


def test_order_of_arrival_and_number_of_threads_leave_no_trace(tmp_path: Path) -> None:
    rows = [job(f"k{i:02d}", end_time=us("2024-03-01T11:00:05") + (i % 3) * 1_000_000) for i in range(30)]
    one, two = Lake(tmp_path / "one"), Lake(tmp_path / "two")
    one.replace("venus", ended={"2024-03-01": table(*rows)})
    two.replace("venus", ended={"2024-03-01": pa.concat_tables([table(row) for row in reversed(rows)])})
    assert content(one.root) == content(two.root)
    assert one.fingerprint("venus") == two.fingerprint("venus")
    assert keys(one.read_jobs("venus"))[:3] == ["k00", "k03", "k06"]


def test_equal_bytes_are_not_written_again(lake: Lake) -> None:
    first = lake.write_ended("venus", "2024-03-01", table(job("a")))
    path = lake.root / first.written[0]
    before = path.stat()
    again = lake.write_ended("venus", "2024-03-01", table(job("a")))
    assert (again.written, again.unchanged, again.fingerprint) == ((), 1, first.fingerprint)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_partition_that_was_lost_or_cut_by_hand_is_written_again(lake: Lake) -> None:
    path = lake.root / lake.write_ended("venus", "2024-03-01", table(job("a"))).written[0]
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    with pytest.raises(LakeError, match="not a readable Parquet file"):
        lake.read_jobs("venus")
    lake.write_ended("venus", "2024-03-01", table(job("a")))
    assert path.read_bytes() == whole
    path.unlink()
    lake.write_ended("venus", "2024-03-01", table(job("a")))
    assert path.read_bytes() == whole


def test_the_manifest_can_be_rebuilt_from_the_files(lake: Lake) -> None:
    lake.replace(
        "venus", ended={"2024-03-01": table(job("a"))}, open_jobs=table(running("c")), as_of_us=CUT, rejects=REJECTS.empty_table()
    )
    path = lake.root / "manifest/cluster=venus.json"
    before = path.read_text()
    path.write_text("{broken")
    with pytest.raises(LakeError, match="Rebuild it"):
        lake.partitions("venus")
    lake.rebuild_manifest("venus")
    assert path.read_text() == before
    assert json.loads(before)["jobs/cluster=venus/end_date=2024-03-01/part.parquet"]["rows"] == 1


# -- schema


def test_days_of_other_writers_are_read_in_the_declared_schema(lake: Lake) -> None:
    """All-null columns, whole numbers for floats, nanoseconds, and a column that did not exist yet (CASES 29, 30)."""
    lake.write_ended("venus", "2024-03-02", table(job("b", qos="high", gpu_model="a100", time_limit_s=10.5)))
    old = table(job("a", time_limit_s=10.0)).drop_columns(["qos", "priority"])
    old = old.set_column(old.schema.get_field_index("time_limit_s"), "time_limit_s", pa.array([10], pa.int64()))
    old = old.set_column(old.schema.get_field_index("gpu_model"), "gpu_model", pa.nulls(1))
    for name in ("submit_time", "start_time", "end_time"):
        old = old.set_column(old.schema.get_field_index(name), name, old[name].cast(pa.timestamp("ns", "UTC")))
    place = lake.root / "jobs/cluster=venus/end_date=2024-03-01/part.parquet"
    place.parent.mkdir(parents=True)
    pq.write_table(old, place)
    read = lake.read_jobs("venus")
    assert read.schema.equals(JOBS)
    assert read["qos"].to_pylist() == [None, "high"]
    assert read["gpu_model"].to_pylist() == [None, "a100"]
    assert read["time_limit_s"].to_pylist() == [10.0, 10.5]
    assert read["end_time"].cast(pa.int64()).to_pylist() == [us("2024-03-01T11:00:05")] * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.append_column("partition_name", pa.array(["x"])), "unknown column 'partition_name'"),
        (lambda t: t.drop_columns(["job_key"]), "'job_key' is missing; it is required"),
        (lambda t: t.set_column(2, "job_key", pa.array([None], pa.string())), "'job_key' holds 1 nulls"),
        (
            lambda t: t.set_column(JOBS.names.index("time_limit_s"), "time_limit_s", pa.array(["1 day"])),
            "'time_limit_s': expected double, found string",
        ),
    ],
    ids=["unknown", "missing", "null", "type"],
)
def test_rows_out_of_schema_are_refused_and_nothing_is_written(lake: Lake, change: "object", message: str) -> None:
    lake.write_ended("venus", "2024-03-01", table(job("a")))
    before = content(lake.root)
    with pytest.raises(LakeError, match=message):
        lake.replace("venus", ended={"2024-02-29": table(job("z")), "2024-03-01": change(table(job("b")))})  # type: ignore[operator]
    assert content(lake.root) == before
    assert keys(lake.read_jobs("venus")) == ["a"]


def test_conform_adds_absent_columns_as_typed_nulls() -> None:
    given = table(job("a")).select([field.name for field in JOBS if not field.nullable])
    assert conform(given, JOBS, "here").schema.equals(JOBS)


def test_other_tools_find_one_dataset_and_no_temporaries(lake: Lake) -> None:
    lake.replace("venus", ended={"2024-03-01": table(job("a")), "2024-03-02": table(job("b"))})
    (lake.root / ".staging" / "cluster=venus").mkdir(parents=True)
    (lake.root / ".staging" / "cluster=venus" / "000001").write_bytes(b"PAR1 half a file")
    assert ds.dataset(lake.root / "jobs", format="parquet", partitioning="hive").count_rows() == 2


# -- views


def test_a_backfill_never_reads_later_facts(lake: Lake) -> None:
    lake.replace(
        "venus",
        ended={
            "2024-03-01": table(job("before")),
            "2024-03-02": table(job("after", end_time=us("2024-03-02T11:00:00"), node_list="n1")),
            "2024-03-09": table(job("unborn", submit_time=us("2024-03-08T00:00:00"), end_time=us("2024-03-09T11:00:00"))),
        },
        open_jobs=table(running("still")),
        as_of_us=us("2024-03-10T00:00:00"),
    )
    seen = lake.read_jobs("venus", before=CUT)
    assert keys(seen) == ["before", "after", "still"]
    assert seen["state"].to_pylist() == ["COMPLETED", "RUNNING", "RUNNING"]
    assert seen["runtime_s"].to_pylist() == [3600.0, None, None]
    narrow = lake.read_jobs("venus", before=CUT, columns=["runtime_s", "job_key"])
    assert narrow.equals(seen.select(["runtime_s", "job_key"]))


def test_a_cluster_that_was_never_loaded_says_so(lake: Lake) -> None:
    with pytest.raises(LakeError, match="holds no jobs of venus"):
        lake.read_jobs("venus")
    assert (lake.dates("venus"), lake.as_of_us("venus"), lake.partitions("venus")) == ([], None, {})
    assert lake.read_rejects("venus").schema.equals(REJECTS)
    assert not lake.root.exists()


def test_clusters_do_not_touch_each_other_whatever_they_are_called(lake: Lake) -> None:
    names = ["venus", "venus/2", "../venus", "ven us", "венера", ".", "a=b"]
    for name in names:
        lake.write_ended(name, "2024-03-01", table(job(name, cluster=name)))
    assert [keys(lake.read_jobs(name)) for name in names] == [[name] for name in names]
    assert all(path.is_relative_to(lake.root) for path in lake.root.parent.rglob("*.parquet"))


def test_features_and_rejects_are_replaced_whole(lake: Lake) -> None:
    lake.write_features("venus", pa.table({"job_key": ["a", "b"], "hour": pa.array([1, 2], pa.float32())}))
    lake.write_features("venus", pa.table({"job_key": ["a"], "hour": pa.array([1], pa.float32())}))
    assert lake.read_features("venus").to_pydict() == {"job_key": ["a"], "hour": [1.0]}
    reject = dict(zip(REJECTS.names, ("venus", "f", 3, "why", "d", "raw", "2024-03-01"), strict=True))
    lake.write_rejects("venus", pa.Table.from_pylist([reject], REJECTS))
    assert lake.read_rejects("venus")["line"].to_pylist() == [3]
    with pytest.raises(LakeError, match="no features yet"):
        lake.read_features("philly")


# -- one writer


def test_a_second_writer_is_told_who_writes(lake: Lake) -> None:
    with lake.lock("venus"), pytest.raises(LakeError, match=f"venus is being written by process {os.getpid()} on "):
        Lake(lake.root).write_ended("venus", "2024-03-01", table(job("a")))
    Lake(lake.root).write_ended("venus", "2024-03-01", table(job("a")))


def test_a_second_writer_may_wait(lake: Lake) -> None:
    entered, order = threading.Event(), []

    def night() -> None:
        with Lake(lake.root).lock("venus"):
            entered.set()
            time.sleep(0.3)
            order.append("first")

    thread = threading.Thread(target=night)
    thread.start()
    entered.wait()
    with lake.lock("venus", wait_s=30):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]


def test_another_cluster_is_not_kept_waiting(lake: Lake) -> None:
    with lake.lock("venus"):
        Lake(lake.root).write_ended("philly", "2024-03-01", table(job("a", cluster="philly")))


def test_two_attempts_at_once_leave_one_of_them_whole(lake: Lake) -> None:
    def attempt(name: str) -> None:
        own = Lake(lake.root)
        for _ in range(5):
            with own.lock("venus", wait_s=60):
                own.replace("venus", ended={f"2024-03-{d:02d}": table(job(name), job(name + "2")) for d in range(1, 6)})

    def read(until: threading.Event) -> None:
        while not until.is_set():
            if lake.dates("venus"):
                found.add(tuple(sorted(set(keys(lake.read_jobs("venus"))))))

    found: set[tuple[str, ...]] = set()
    until = threading.Event()
    threads = [threading.Thread(target=attempt, args=(name,)) for name in ("a", "b")]
    reader = threading.Thread(target=read, args=(until,))
    for thread in [*threads, reader]:
        thread.start()
    for thread in threads:
        thread.join()
    until.set()
    reader.join()
    assert found <= {("a", "a2"), ("b", "b2")}  # never a mixture, never nothing
    assert len(found) >= 1


KILLED = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    import pyarrow as pa
    from runcast.data.lake import Lake
    from runcast.data.schema import JOBS

    root = Path(sys.argv[1])
    rows = pa.Table.from_pylist(__import__("json").loads(sys.argv[2]), schema=JOBS)
    load = {"ended": {"2024-03-01": rows.slice(0, 0), "2024-03-02": rows.slice(0, 1), "2024-03-03": rows.slice(1)},
            "open_jobs": rows.slice(0, 0), "as_of_us": 99}
    operations = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree"}
    point = 0
    while True:
        point += 1
        child = os.fork()
        if child == 0:
            left = point

            def count(event, arguments):
                global left
                if event in operations and str(root) in str(arguments[0]):
                    left -= 1
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(count)
            Lake(root / f"{point:03d}").replace("venus", **load)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            break
    print(point - 1)
    """
)


def test_a_writer_killed_at_any_file_operation_leaves_the_old_or_the_new_lake(tmp_path: Path) -> None:
    """The rerun gives the very bytes of a load that was never killed, and no reader ever sees a mixture."""
    old, new = table(job("x"), job("y")), [job("a"), job("b")]

    def prepared(root: Path) -> Lake:
        lake = Lake(root)
        lake.replace("venus", ended={"2024-03-01": old, "2024-03-02": old}, open_jobs=table(running("r")), as_of_us=1)
        return lake

    for point in range(1, 80):
        prepared(tmp_path / f"{point:03d}")
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), json.dumps(new)],
        env={**os.environ, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=True,
    )
    points = int(run.stdout)
    assert 15 <= points < 79
    load = {"2024-03-01": table(), "2024-03-02": table(new[0]), "2024-03-03": table(new[1])}
    whole = prepared(tmp_path / "whole")
    whole.replace("venus", ended=load, open_jobs=table(), as_of_us=99)
    seen = set()
    for point in range(1, points + 1):
        lake = Lake(tmp_path / f"{point:03d}")
        seen.add(tuple(keys(lake.read_jobs("venus"))))
        lake.replace("venus", ended=load, open_jobs=table(), as_of_us=99)
        assert content(lake.root) == content(whole.root), f"killed at operation {point}"
    assert seen == {("x", "y", "x", "y", "r"), ("a", "b")}


def test_a_full_disk_is_said_and_leaves_the_lake_as_it_was(lake: Lake) -> None:
    """A limit on file size stands for the full disk: both are an OSError in the middle of a write."""
    lake.write_ended("venus", "2024-03-01", table(job("a")))
    before = content(lake.root)
    script = textwrap.dedent(
        """
        import resource, signal, sys, json
        from pathlib import Path
        import pyarrow as pa
        from runcast.data.lake import Lake
        from runcast.data.schema import JOBS
        from runcast.data.errors import LakeError
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        try:
            Lake(Path(sys.argv[1])).write_ended("venus", "2024-03-01", pa.Table.from_pylist(json.loads(sys.argv[2]), schema=JOBS))
        except LakeError as error:
            print(error)
        """
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(lake.root), json.dumps([job("b")])],
        env={**os.environ, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "could not be written (File too large)" in run.stdout
    assert content(lake.root) == before


def test_a_home_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file where the folder should be")
    with pytest.raises(LakeError, match=r"home/lake: cannot be written \(Not a directory\). Check RUNCAST_HOME"):
        Lake(tmp_path / "home" / "lake").write_ended("venus", "2024-03-01", table(job("a")))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into read-only folders")
def test_a_read_only_lake_is_said(lake: Lake) -> None:
    lake.write_ended("venus", "2024-03-01", table(job("a")))
    lake.root.chmod(0o555)
    try:
        assert keys(lake.read_jobs("venus")) == ["a"]
        with pytest.raises(LakeError, match="could not be written"):
            lake.write_ended("philly", "2024-03-02", table(job("b")))
    finally:
        lake.root.chmod(0o755)
