"""From a Slurm with accounting, and nothing else, to a first night: `clusters new`, then `nightly`, no editor, no cron job.

The jobs are run by a real Slurm. A night ends at midnight and a test cannot wait for days, so accounting's own database is told
afterwards that they ran earlier, and holds each of them many times: what sacct prints is what it prints for such a history.
"""

import datetime as dt
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from tests.scheduler.slurm.one_node import OneNode, one_node, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

ROOT = Path(__file__).parents[3]
DAYS, COPIES = 6, 12  # of history, and of each job on each day
TABLE = "slurm_acct.onenode_job_table"
TIMES = ("time_submit", "time_eligible", "time_start", "time_end")


@pytest.fixture(scope="module")
def node() -> Iterator[OneNode]:
    with one_node() as node:
        yield node


def runcast(node: OneNode, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        **node.environment,
        "PYTHONPATH": str(ROOT / "src"),
        "RUNCAST_HOME": str(home / "var"),
        "RUNCAST_CLUSTERS": str(home / "clusters"),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "runcast", *words]
    return subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, timeout=300, check=False)


def answer(done: subprocess.CompletedProcess[str]) -> Mapping[str, object]:
    return dict(json.loads(done.stdout))


def test_a_slurm_with_accounting_has_its_first_night_without_an_editor(node: OneNode, tmp_path: Path) -> None:
    (tmp_path / "clusters").mkdir()
    for at in range(6):
        user = ("nobody", "daemon")[at % 2]
        node.submit(f"--gres=gpu:{1 + at % 2}", f"--job-name=train{at % 3}", "--time=10", user=user, script=f"sleep {1 + at % 3}")
    node.submit("--job-name=no_limit", "--partition=short", user="nobody", script="true")
    node.wait_until_idle(120)

    since = dt.datetime.now(dt.UTC).date() - dt.timedelta(days=DAYS)
    new = runcast(
        node, tmp_path, "clusters", "new", "onenode", "--from", "slurm", "--time-zone", "UTC", "--since", f"{since}", "--yes"
    )
    assert new.returncode == 0, new.stdout + new.stderr
    written = tmp_path / "clusters" / "onenode.yaml"
    content = yaml.safe_load(written.read_text())
    assert content["gpus_tracked"] is True  # AccountingStorageTRES=gres/gpu
    assert content["source"]["options"] == {"partition_limits": {"short": "01:00:00", "gpu": "7-00:00:00"}}
    assert content["source"]["collect"]["environment"]["SLURM_CONF"] == str(node.folder / "slurm.conf")
    assert content["description"] == "Slurm cluster onenode"
    for text in ("job train2", "2 GPUs", "ready", "Next: runcast nightly --cluster onenode"):
        assert text in new.stdout
    assert new.stdout.count("  job ") == 7
    assert not (tmp_path / "var" / "collected").exists()  # a look keeps nothing
    again = runcast(node, tmp_path, "clusters", "new", "onenode", "--from", "slurm", "--yes")
    assert (again.returncode, "is there already" in again.stderr) == (2, True)

    spread_over_days(node)
    night = runcast(node, tmp_path, "nightly", "--cluster", "onenode", "--json")
    assert night.returncode == 0, night.stdout + night.stderr
    stages = answer(night)
    ingest = stages["ingest"]
    assert isinstance(ingest, dict)
    assert (ingest["notes"]["collected_files"], ingest["rejected"]) == (DAYS, 0)
    assert ingest["ended"] == 7 * COPIES * DAYS
    files = sorted((tmp_path / "var" / "collected" / "onenode").iterdir())
    assert [path.name for path in files] == [f"{since + dt.timedelta(days=at)}.gz" for at in range(DAYS)]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o640}
    assert gzip.decompress(files[-1].read_bytes()).count(b"train") >= 6 * COPIES

    fetched = {path: path.stat().st_mtime_ns for path in files}
    rerun = answer(
        runcast(node, tmp_path, "ingest", "--cluster", "onenode", "--date", f"{since + dt.timedelta(days=DAYS - 1)}", "--json")
    )
    assert rerun["fingerprint"] == ingest["fingerprint"]  # the same night again is the same lake
    assert [path for path in files if path.stat().st_mtime_ns == fetched[path]] == files[:3]  # of others, a record may still come

    (node.folder / "slurm.conf").rename(node.folder / "away.conf")
    try:
        failed = runcast(node, tmp_path, "nightly", "--cluster", "onenode", "--json")
    finally:
        (node.folder / "away.conf").rename(node.folder / "slurm.conf")
    assert failed.returncode == 9, failed.stdout + failed.stderr
    assert answer(failed)["kind"] == "CollectFailed"
    assert sorted((tmp_path / "var" / "collected" / "onenode").iterdir()) == files


def spread_over_days(node: OneNode) -> None:
    """Let accounting know each job many times on each of the last days, by its own ids."""
    client = (
        "mariadb",
        "--no-defaults",
        f"--socket={node.folder}/mysql/sql.socket",
        "--user=root",
        "--batch",
        "--skip-column-names",
    )

    def sql(text: str) -> str:
        return node.run(*client, f"--execute={text}").stdout

    names = sql("select column_name from information_schema.columns where table_schema='slurm_acct' and "
                "table_name='onenode_job_table' and column_name <> 'job_db_inx' order by ordinal_position").split()  # fmt: skip
    quoted = [f"`{name}`" for name in names]
    count = 0
    for day in range(1, DAYS + 1):
        for copy in range(COPIES):
            count += 1
            moved = {
                f"`{name}`": f"`{name}` - {day * 86_400} - {copy * 60}"
                for name in ("time_submit", "time_eligible", "time_start", "time_end")
            }
            moved["`id_job`"] = f"id_job + {count * 1000}"
            values = ", ".join(moved.get(name, name) for name in quoted)
            sql(f"insert into {TABLE} ({', '.join(quoted)}) select {values} from {TABLE} where id_job < 1000")
    sql(f"delete from {TABLE} where id_job < 1000")
