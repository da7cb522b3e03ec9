"""SenseTime Helios: `cluster_log.csv` as published with HeliosData (README of S-Lab-System-Group/HeliosData).

Columns job_id, user, vc, gpu_num, cpu_num, node_num, state, submit_time, start_time, end_time, duration, queue: Slurm's words for
states, local times without a zone, seconds. `duration` is end - start and settles which instant a repeated hour means. There is
no job name. CPU jobs have gpu_num 0 and stay; a node_num of 0 says that the number of nodes is not known.
"""

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from runcast.data.cluster import Cluster
from runcast.data.sources import table
from runcast.data.sources.batch import Batch


class Options(BaseModel):
    """`source.options` of a Helios log: there are none."""

    model_config = ConfigDict(frozen=True, extra="forbid")


_COLUMNS = table.Options(
    columns={
        "job_id": "job_id",
        "user": "user",
        "group": "vc",
        "gpu_count": "gpu_num",
        "cpu_count": table.Column(column="cpu_num", zero_is_null=True),
        "node_count": table.Column(column="node_num", zero_is_null=True),
        "state": "state",
        "submit_time": "submit_time",
        "start_time": "start_time",
        "end_time": "end_time",
        "runtime_s": "duration",
    }
)


def read(path: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield the jobs of one cluster_log.csv in the file's order."""
    return table.read_table(path, cluster, _COLUMNS)
