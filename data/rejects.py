"""The refused records of a cluster's log: what they are, and reading the log again once it, or its cluster file, was mended."""

from collections import Counter
from datetime import date, datetime
from typing import Any

import numpy as np

from runcast.data.asof import day_of, local_days
from runcast.data.cluster import Cluster
from runcast.data.errors import LakeError
from runcast.data.job import ingest
from runcast.data.lake import Lake
from runcast.data.refused_load import read_refused
from runcast.data.settings import Settings


def find_rejects(cluster: Cluster, settings: Settings, day: date | None = None) -> dict[str, Any]:
    """Return the records refused, by file and line, and their counts by reason; of a `day`, those whose place in the log is there.

    A record's place is the day of the job before it in its file, or after it where it is the first: a record that could not be
    read has no day of its own. Where the latest load was refused for them (`refused_load`), they are its own, the first of them.
    Raises LakeError where the cluster was never loaded.
    """
    lake, refused = Lake(settings.lake), read_refused(cluster.name, settings)
    shown: dict[str, Any] = {
        "cluster": cluster.name,
        "day": day.isoformat() if day else None,
        "refused_load": refused is not None,
    }
    if refused is not None and day is None:
        return shown | refused
    if refused is None:
        _last_day(cluster, lake)
    rows = refused["rejects"] if refused is not None else lake.read_rejects(cluster.name).drop(["cluster"]).to_pylist()
    rows = [row for row in rows if day is None or row["day"] == day.isoformat()]
    by_reason = dict(Counter(row["reason"] for row in rows).most_common())
    return {**shown, "count": len(rows), "by_reason": by_reason, "rejects": rows}


def replay_rejects(cluster: Cluster, settings: Settings, now: datetime | None = None, wait_s: float = 0.0) -> dict[str, Any]:
    """Read the whole log again up to the lake's cut: what can be read now becomes jobs, each once; the rest stays refused.

    Where the cluster's first load was refused there is no cut yet: all of the log is read, up to the day before `now` (aware).

    Raises what `ingest` raises; nothing is written then.
    """
    lake, refused_load = Lake(settings.lake), read_refused(cluster.name, settings)
    was_loaded = lake.as_of_us(cluster.name) is not None
    last = _last_day(cluster, lake) if was_loaded or refused_load is None else None
    before = _jobs(lake, cluster) if was_loaded else 0
    refused_before = lake.read_rejects(cluster.name).num_rows if refused_load is None else refused_load["count"]
    report = ingest(cluster, settings, last=last, now=now if last is None else None, wait_s=wait_s)
    refused = lake.read_rejects(cluster.name)
    return {
        "cluster": cluster.name,
        "through": report.last,
        "refused_before": refused_before,
        "refused": refused.num_rows,
        "by_reason": dict(Counter(refused["reason"].to_pylist()).most_common()),
        "jobs_before": before,
        "jobs": _jobs(lake, cluster),
        "files_written": report.written_count,
    }


def _last_day(cluster: Cluster, lake: Lake) -> date:
    """Last local day that the lake was brought to."""
    cut = lake.as_of_us(cluster.name)
    if cut is None:
        raise LakeError(
            f"{lake.root}: {cluster.name} was never loaded, so nothing was refused. Load it first: "
            f"runcast ingest --cluster {cluster.name} --all"
        )
    return day_of(int(local_days(np.array([cut - 1]), cluster.zone)[0]))


def _jobs(lake: Lake, cluster: Cluster) -> int:
    return sum(lake.rows_by_date(cluster.name).values()) + int(lake.read_open(cluster.name).num_rows)
