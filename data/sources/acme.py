"""Shanghai AI Lab's Acme: `trace_seren.csv` and `trace_kalos.csv` as published with AcmeTrace (its README describes both).

Columns job_id, user, node_num, gpu_num, cpu_num, type, state, submit_time, start_time, end_time, duration, queue, gpu_time, and
in Kalos mem_per_pod_GB, shared_mem_per_pod, fail_time, stop_time. The same in JSON lines under longer names is taken as well.
- Times carry their offset: +08:00 in Seren, +00:00 in Kalos. Kalos works from nine to two in Shanghai only if that is meant, so
  it is: both clusters' zone is Asia/Shanghai.
- The README says that `duration` is end - start. In Kalos it is end - submit (the README's own rows: 11:01:08 to 11:01:16 lasts
  18 s), and gpu_time is made of it. The runtime is therefore taken from the times, always, and each row whose `duration` says
  something else is marked and counted as `duration_differs`.
- CPU jobs have gpu_num 0 and stay; a node_num of 0 says that the number of nodes is not known. There is no job name.
"""

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from runcast.data.cluster import Cluster
from runcast.data.errors import Quoted, SourceError
from runcast.data.sources import table
from runcast.data.sources.batch import Batch
from runcast.data.sources.blocks import read_blocks, text_of


class Options(BaseModel):
    """`source.options` of an Acme log: there are none."""

    model_config = ConfigDict(frozen=True, extra="forbid")


_CSV: dict[str, str | table.Column] = {
    "job_id": "job_id",
    "user": "user",
    "gpu_count": "gpu_num",
    "cpu_count": table.Column(column="cpu_num", zero_is_null=True),
    "node_count": table.Column(column="node_num", zero_is_null=True),
    "framework": "type",
    "state": "state",
    "submit_time": "submit_time",
    "start_time": "start_time",
    "end_time": "end_time",
    "runtime_s": "duration",
}
_JSON: dict[str, str | table.Column] = _CSV | {
    "user": "user_hash",
    "gpu_count": "gpu_count",
    "cpu_count": table.Column(column="cpu_count", zero_is_null=True),
    "node_count": table.Column(column="node_count", zero_is_null=True),
    "framework": "workload_type",
    "state": "termination_state",
    "runtime_s": "duration_s",
}


def read(path: Path, cluster: Cluster) -> Iterator[Batch]:
    """Yield the jobs of one trace file in its order."""
    return table.read_table(path, cluster, _layout(path))


def _layout(path: Path) -> table.Options:
    """Tell which of the layouts a file has by its first line."""
    first = text_of(next(read_blocks(path, 1 << 16)).data.split(b"\n", 1)[0])
    is_json = first.lstrip("\ufeff").startswith("{")
    columns, memory = (_JSON, "mem_per_pod_gb") if is_json else (_CSV, "mem_per_pod_GB")
    has_memory = memory in first
    duration = columns["runtime_s"]
    if f"{duration}" not in first:
        raise SourceError(
            f"{path}: no column {duration!r} in the first line ",
            Quoted(first),
            "; expected AcmeTrace's trace_seren.csv or trace_kalos.csv, or the same in JSON lines",
        )
    if has_memory:
        columns = columns | {"mem_mib": table.Column(column=memory, unit="gib", times="node_count", zero_is_null=True)}
    return table.Options(columns=columns, time="aware", kind="jsonl" if is_json else "csv")
