"""The refused records of a cluster's log: what they are, and reading the log again once it, or its cluster file, was mended."""

from collections import Counter
from datetime import date
from typing import Any

import numpy as np
import pyarrow.compute as pc

from runcast.data.asof import day_of, local_days
from runcast.data.cluster import Cluster
from runcast.data.errors import LakeError
from runcast.data.job import ingest
from runcast.data.lake import Lake
from runcast.data.settings import Settings


def find_rejects(cluster: Cluster, settings: Settings, day: date | None = None) -> dict[str, Any]:
    """Return the records refused, by file and line, and their counts by reason; of a `day`, those whose place in the log is there.

    A record's place is the day of the job before it in its file, or after it where it is the first: a record that could not be
    read has no day of its own. Raises LakeError where the cluster was never loaded.
    """
    lake = Lake(settings.lake)
    _last_day(cluster, lake)
    table = lake.read_rejects(cluster.name)
    if day is not None:
        table = table.filter(pc.equal(table["day"], day.isoformat()))
    rows = table.drop(["cluster"]).to_pylist()
    by_reason = dict(Counter(row["reason"] for row in rows).most_common())
    return {
        "cluster": cluster.name,
        "day": day.isoformat() if day else None,
        "count": len(rows),
        "by_reason": by_reason,
        "rejects": rows,
    }


def replay_rejects(cluster: Cluster, settings: Settings, wait_s: float = 0.0) -> dict[str, Any]:
    """Read the whole log again up to the lake's cut: what can be read now becomes jobs, each once; the rest stays refused.

    Raises what `ingest` raises; nothing is written then.
    """
    lake = Lake(settings.lake)
    last = _last_day(cluster, lake)
    before, refused_before = _jobs(lake, cluster), lake.read_rejects(cluster.name).num_rows
    report = ingest(cluster, settings, last=last, wait_s=wait_s)
    refused = lake.read_rejects(cluster.name)
    return {
        "cluster": cluster.name,
        "through": last.isoformat(),
        "refused_before": refused_before,
        "refused": refused.num_rows,
        "by_reason": dict(Counter(refused["reason"].to_pylist()).most_common()),
        "jobs_before": before,
        "jobs": _jobs(lake, cluster),
        "days_written": report.written_count,
    }


def _last_day(cluster: Cluster, lake: Lake) -> date:
    """Last local day that the lake was brought to."""
    cut = lake.as_of_us(cluster.name)
    if cut is None:
        raise LakeError(f"{lake.root}: {cluster.name} was never loaded, so nothing was refused. Run `runcast ingest` first.")
    return day_of(int(local_days(np.array([cut - 1]), cluster.zone)[0]))


def _jobs(lake: Lake, cluster: Cluster) -> int:
    return sum(lake.rows_by_date(cluster.name).values()) + int(lake.read_open(cluster.name).num_rows)
