"""Example cluster files of logs that `table` reads: right values by hand from records as the scheduler's code writes them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runcast.data.cluster import read_cluster
from runcast.data.settings import EXAMPLES
from runcast.data.sources.batch import Batch
from runcast.data.sources.table import read

T0 = 1_648_800_000  # 2022-04-01 08:00:00 UTC


def cobalt(job: int, status: int = 0, args: str = "", end: float = T0 + 1860.5) -> str:
    return (
        f"04/01/2022 08:31:00;E;{job};Exit_status={status} Resource_List.ncpus=256 Resource_List.nodect=4 Resource_List.walltime=01:00:00 "
        f'account=Climate approx_total_etime=0 args={args} ctime={T0}.0 cwd="/home/ada/my runs" end={end} etime={T0}.0 exe=/bin/run '
        f"exec_host=12-15 group=unknown jobname=N/A mode=script priority_core_hours=0 qtime={T0}.0 queue=default resource=theta "
        f"resources_used.location=12-15 resources_used.nodect=4 resources_used.walltime=0:31:00 session=unknown start={T0 + 60}.5 user=ada"
    )


def load(path: Path) -> tuple[list[dict[str, Any]], list[Batch]]:
    batches = list(read(path, read_cluster(EXAMPLES.parent / "formats" / "cobalt.yaml")))
    return pa.concat_tables([batch.jobs for batch in batches]).to_pylist(), batches


def test_record_of_cobalt_is_a_job_and_the_other_kinds_are_passed_over(tmp_path: Path) -> None:
    queued = "04/01/2022 08:00:00;Q;7;Resource_List.nodect=4 queue=default resource=theta user=ada"
    (tmp_path / "log").write_text("\n".join([queued, cobalt(7), queued.replace(";Q;", ";D;")]) + "\n")
    (job,), batches = load(tmp_path / "log")
    expected = {
        "job_id": "7", "user": "ada", "group": None, "account": "Climate", "queue": "default", "job_name": None, "state": "COMPLETED",
        "label": "event", "runtime_s": 1800.0, "queue_s": 60.5, "cpu_count": 256.0, "node_count": 4.0, "time_limit_s": 3600.0,
        "node_list": "12-15", "work_dir": '"/home/ada/my runs"', "source": "log:2",
    }  # fmt: skip
    assert {name: job[name] for name in expected} == expected
    assert [(batch.rows_in, dict(batch.skipped)) for batch in batches] == [(3, {"other_record": 2})]


@pytest.mark.parametrize(
    ("status", "state"), [(1, "FAILED"), (255, "FAILED"), (-1, "FAILED"), (137, "CANCELLED"), (143, "CANCELLED")]
)
def test_exit_status_of_cobalt(tmp_path: Path, status: int, state: str) -> None:
    (tmp_path / "log").write_text(cobalt(7, status) + "\n")
    (job,), _ = load(tmp_path / "log")
    assert job["state"] == state


@pytest.mark.parametrize(
    "args", [r'"x user=eve ctime=5.0 end=9.0"', r'"say \" user=eve ctime=5.0 \""', '"a b","user=eve ctime=5.0 c"']
)
def test_arguments_of_a_job_are_no_fields(tmp_path: Path, args: str) -> None:
    (tmp_path / "log").write_text(cobalt(7, args=args) + "\n")
    (job,), _ = load(tmp_path / "log")
    assert (job["user"], job["runtime_s"], job["queue_s"]) == ("ada", 1800.0, 60.5)


@pytest.mark.traces
def test_cobalts_own_expected_lines(traces: Path) -> None:
    """One line of each kind; the only E record has the times -1 and -2."""
    path = traces / "raw_samples" / "cobalt" / "cobalt_accounting_expected.log"
    jobs, batches = load(path)
    lines = path.read_text().splitlines()
    assert jobs == []
    assert sum(batch.rows_in for batch in batches) == len(lines)
    assert [(one.line, one.reason) for batch in batches for one in batch.rejects] == [(8, "start_time_unreadable")]
    assert sum(batch.skipped["other_record"] for batch in batches) == len(lines) - 1
