"""Speed of a first load, of a load that changes nothing, of one night, and of reading the lake.

    OMP_NUM_THREADS=1 python benchmarks/ingest.py [--jobs 580000] [--days 786]

Reads the Pegasus log where RUNCAST_TRACES names the real logs, else a made-up CSV of as many jobs and days in the same columns.
Aims on two cores: 200,000 rows a second from the file to the last renamed partition, a night in 3 s, the whole lake read in 2 s.
Times are wall clock, with the processor time of all threads beside them where the machine may be busy.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from runcast.data.cluster import Cluster, Source, read_cluster
from runcast.data.job import check, ingest
from runcast.data.lake import Lake
from runcast.data.settings import EXAMPLES, Settings, read_settings
from runcast.data.sources.registry import read_source

_COLUMNS = {
    "job_id": "JobID",
    "submit_time": {"column": "SubmitTime", "time": "epoch_s"},
    "queue_s": "WaitTime",
    "runtime_s": "RunTime",
    "cpu_count": "ReqCPUS",
    "node_count": "NNodes",
    "queue": "Partition",
    "time_limit_s": {"column": "Timelimit", "unit": "minutes"},
    "state": "State",
}


def make_log(path: Path, jobs: int, days: int, seed: int = 7) -> None:
    """Write a made-up log: `jobs` in order of submission over `days` days, some of them waiting and running for long."""
    random = np.random.default_rng(seed)
    submit = 1_551_802_418 + np.sort(random.integers(0, days * 86_400, jobs))
    wait = random.exponential(2_000, jobs).astype(np.int64)
    run = np.minimum(random.lognormal(5, 2.2, jobs), 14 * 86_400).astype(np.int64)
    queue, limit = random.choice(["defq", "tiny", "short"], jobs), random.choice([60, 240, 1440, 20160], jobs)
    state, cpus = random.choice(["COMPLETED", "COMPLETED", "COMPLETED", "FAILED", "TIMEOUT"], jobs), random.integers(1, 41, jobs)
    rows = zip(*(column.tolist() for column in (submit, wait, run, cpus, state, queue, limit)), strict=True)
    lines = (f"{n},{s},{w},{r},{c},{st},{q},{li},1\n" for n, (s, w, r, c, st, q, li) in enumerate(rows))
    with path.open("w", encoding="utf-8") as file:
        file.write("JobID,SubmitTime,WaitTime,RunTime,ReqCPUS,State,Partition,Timelimit,NNodes\n")
        file.writelines(lines)


def timed(what: str, work: Callable[[], Any], rows: int | None = None) -> Any:
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    speed = f", {(rows or result.rows_in) / wall:,.0f} rows/s" if rows or hasattr(result, "rows_in") else ""
    print(f"{what}: {wall:.2f} s ({processor:.2f} s of processor){speed}")
    return result


def measure(cluster: Cluster, settings: Settings) -> None:
    next(iter(read_source(cluster, settings)))  # imports are not what is measured
    lake = Lake(settings.lake)
    report = timed("first load", lambda: ingest(cluster, settings))
    print(f"  {report.rows_in:,} rows into {report.partitions} partitions, {report.rejected} rejected")
    again = timed("the same load again", lambda: ingest(cluster, settings))
    assert again.written_count == 0
    last = date.fromisoformat(lake.dates(cluster.name)[-1])
    day = last - timedelta(days=1)
    timed("one night", lambda: ingest(cluster, settings, first=day, last=day))
    jobs = timed("reading the lake", lambda: lake.read_jobs(cluster.name), rows=report.ended)
    timed(
        "reading five columns",
        lambda: lake.read_jobs(cluster.name, columns=["job_key", "user", "submit_time", "end_time", "runtime_s"]),
    )
    cut = lake.as_of_us(cluster.name) or 0
    timed("reading it as of two weeks before", lambda: lake.read_jobs(cluster.name, before=cut - 14 * 86_400_000_000))
    size = sum(part.bytes for part in lake.partitions(cluster.name).values())
    print(f"  {size / 1e6:.1f} MB, {size / jobs.num_rows:.0f} bytes a job")
    timed("importing Great Expectations, and a day's checks", lambda: check(cluster, settings, day))
    timed("a day's checks", lambda: check(cluster, settings, day))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=580_000)
    parser.add_argument("--days", type=int, default=786)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = read_settings({**os.environ, "RUNCAST_HOME": folder})
        if os.environ.get("RUNCAST_TRACES"):
            cluster = read_cluster(EXAMPLES / "pegasus.yaml")
        else:
            make_log(Path(folder) / "log.csv", arguments.jobs, arguments.days)
            source = Source(format="table", paths=(f"{folder}/log.csv",), options={"columns": _COLUMNS})
            cluster = Cluster(name="made_up", source=source, time_zone="America/New_York")
        measure(cluster, settings)


if __name__ == "__main__":
    main()
