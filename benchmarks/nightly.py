"""A whole night of a large real log: wall seconds of each stage and the peak memory of the process.

    RUNCAST_TRACES=<folder> python benchmarks/nightly.py [--cluster pegasus]

The night is that of the log's last day, in a fresh home: everything is loaded, three models are trained and judged beside the
baselines and the comparisons, registered, and the bundle written.
"""

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from runcast import night
from runcast.data.cluster import find_cluster
from runcast.data.job import ingest
from runcast.data.lake import Lake
from runcast.data.settings import read_settings


def main() -> int:
    """Run the night and print its figures."""
    options = argparse.ArgumentParser()
    options.add_argument("--cluster", default="pegasus")
    cluster_name = options.parse_args().cluster
    if "RUNCAST_TRACES" not in os.environ:
        print("RUNCAST_TRACES is not set: no real log to run a night on")
        return 0
    with tempfile.TemporaryDirectory(prefix="runcast-") as home:
        os.environ["RUNCAST_HOME"] = home
        os.environ.update(read_settings().with_examples().environment)  # each stage reads the settings again
        settings = read_settings()
        cluster = find_cluster(settings.clusters, cluster_name)
        begun = time.perf_counter()
        report = ingest(cluster, settings)
        loaded_s = time.perf_counter() - begun
        print(f"first load     {loaded_s:6.1f} s   {report.rows_in / loaded_s:,.0f} rows/s into {report.partitions} partitions")
        day = max(Lake(Path(home) / "lake").dates(cluster_name))
        begun = time.perf_counter()
        for stage in night.STAGES:
            started = time.perf_counter()
            record = night.run_stage(stage.name, cluster_name, day)
            took_s = time.perf_counter() - started
            note = f"{record['jobs'] / took_s:,.0f} jobs/s" if stage.name == "features" else ""
            print(f"{stage.name:14} {took_s:6.1f} s   {note}")
        peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"night of {day}: {time.perf_counter() - begun:.1f} s, peak memory {peak_gib:.2f} GiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
