"""The daily look: what the jobs that ended on a day had been told, and how right that was.

A day's record is RUNCAST_HOME/live/<cluster>/<day>.json with its numbers and <day>.parquet with one row for each job. The same lake
and the same files of served forecasts give the same bytes; accounting that comes late is taken in when the day is looked at again.
"""

import datetime as dt
import glob
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from runcast.data.asof import cut_us
from runcast.data.cluster import Cluster
from runcast.data.lake import Lake
from runcast.data.settings import Settings
from runcast.evaluation.errors import NothingServed, ServedFilesMissing
from runcast.evaluation.live.judge import join_served, judge_live
from runcast.evaluation.live.served import ServedForecasts
from runcast.evaluation.report import to_json, write_atomically
from runcast.training.job import iso

#: Of a day's record. A reader refuses another one.
FORMAT = 1

_DATED = re.compile(r"(\d{4}-\d\d-\d\d)\.jsonl")
_ROW = pa.schema(
    [
        ("job_key", pa.string()), ("submit_time", pa.timestamp("us", tz="UTC")), ("end_time", pa.timestamp("us", tz="UTC")),
        ("runtime_s", pa.float64()), ("p50_s", pa.float64()), ("p90_s", pa.float64()), ("point_s", pa.float64()),
        ("confidence", pa.float64()), ("source", pa.string()), ("model_version", pa.string()),
        ("answered_at", pa.timestamp("us", tz="UTC")), ("is_late", pa.bool_()),
    ]
)  # fmt: skip


def look_at(cluster: Cluster, settings: Settings, day: dt.date) -> dict[str, Any]:
    """Judge what the jobs that ended on `day` (local) had been told, keep the record, and return it.

    Raises NothingServed where the cluster file names no served forecasts, ServedFilesMissing where no file is there, LakeBehind
    where the lake does not reach the end of the day.
    """
    paths = served_files(cluster, settings)
    jobs = _ended(cluster, settings, day)
    served = ServedForecasts()
    begins_us = _first_answer_us(paths, cluster.name)
    read = _of_submissions(paths, jobs)
    wanted = frozenset(jobs["job_key"])
    for path in read:
        with path.open("rb") as lines:
            served.read(path.name, lines, cluster.name, wanted)
    joined = join_served(jobs, served.frame())
    document = {
        "format": FORMAT,
        "cluster": cluster.name,
        "day": day.isoformat(),
        **judge_live(joined, begins_us),
        "served": {
            "files": len(read),
            "lines": served.lines,
            "repeated": served.repeated,
            "not_ended_on_the_day": served.not_asked_for,
            "other_clusters": served.other_clusters,
            "rejected": served.rejects.total(),
            "rejected_by_reason": dict(sorted(served.rejects.items())),
            "first_reject": served.first_reject,
            "first_answer": None if begins_us is None else iso(begins_us),
        },
        "command": f"runcast live --cluster {cluster.name} --date {day}",
    }
    _write(record_path(settings, cluster.name, day.isoformat()), document, joined)
    return document


def served_files(cluster: Cluster, settings: Settings) -> list[Path]:
    """Expand `export.served` into files, in name order; raises NothingServed without it, ServedFilesMissing where it names none."""
    if cluster.export.served is None:
        raise NothingServed(
            f"{cluster.name}: {cluster.path} does not say where served forecasts are kept, so there is no live accuracy. Name the "
            "files of `runcast serve` as export.served, e.g. ['/var/lib/runcast/served/*.jsonl']."
        )
    found: dict[Path, None] = {}
    for written in cluster.export.served:
        names = sorted(glob.glob(settings.expand(written), recursive=True))  # noqa: PTH207  Path.glob takes no absolute pattern
        found |= dict.fromkeys(Path(name) for name in names)
    if not found:
        raise ServedFilesMissing(
            f"{cluster.name}: no file at {', '.join(map(settings.expand, cluster.export.served))}. Does `runcast serve` run with its "
            f"state there, and does a scheduler tell it the jobs' ids? Else mend export.served in {cluster.path}."
        )
    return list(found)


def record_path(settings: Settings, cluster_name: str, day: str) -> Path:
    return settings.home / "live" / cluster_name / f"{day}.json"


def _ended(cluster: Cluster, settings: Settings, day: dt.date) -> pd.DataFrame:
    """Return the jobs that ran and ended on `day`: job_key, submit_us, end_us, runtime_s."""
    lake = Lake(settings.lake)
    lake.require(cluster.name, cut_us(day, cluster.zone), day)
    table = lake.read_ended(cluster.name, [day.isoformat()], ["job_key", "submit_time", "end_time", "runtime_s"])
    jobs = pd.DataFrame(
        {
            "job_key": table["job_key"].to_pandas(),
            "submit_us": table["submit_time"].cast(pa.int64()).to_numpy(),
            "end_us": table["end_time"].cast(pa.int64()).fill_null(-1).to_numpy(),
            "runtime_s": table["runtime_s"].to_numpy(),
        }
    )
    return jobs[jobs["runtime_s"] > 0].reset_index(drop=True)  # null, too, is not above 0


def _of_submissions(paths: Sequence[Path], jobs: pd.DataFrame) -> list[Path]:
    """Return the files that may hold the jobs' forecasts: those of the days of their submissions, and all without a day."""
    dates = _dates(paths)
    if not len(jobs):
        return [path for path in paths if path not in dates]
    first, last = (iso(int(us))[:10] for us in (jobs["submit_us"].min(), jobs["submit_us"].max()))
    return [path for path in paths if path not in dates or first <= dates[path] <= last]


def _first_answer_us(paths: Sequence[Path], cluster: str) -> int | None:
    """Return when the first forecast that is still there was answered for this cluster; None where none was.

    It stands in the oldest file that holds one, whatever days the files read for a day's jobs are of; several clusters may share files.
    """
    dates, first = _dates(paths), ServedForecasts()
    for path in sorted(paths, key=lambda path: dates.get(path, "")):  # files without a day come first, and all of them are read
        if path not in dates or first.first_answer_us is None:
            with path.open("rb") as lines:
                first.read(path.name, lines, cluster, frozenset())
    return first.first_answer_us


def _dates(paths: Sequence[Path]) -> dict[Path, str]:
    """Return the UTC day of submission for which the service named each file that has such a name."""
    return {path: found.group(1) for path in paths if (found := _DATED.fullmatch(path.name))}


def _write(path: Path, document: dict[str, Any], joined: pd.DataFrame) -> None:
    """Write the rows, then the numbers: a record that is there has its rows."""
    moments = {"submit_time": "submit_us", "end_time": "end_us", "answered_at": "answered_us"}
    columns = [
        pa.array(joined[moments[field.name]].astype("Int64")).cast(field.type)
        if field.name in moments
        else pa.array(joined[field.name], field.type, from_pandas=True)
        for field in _ROW
    ]
    sink = io.BytesIO()
    pq.write_table(pa.table(columns, schema=_ROW), sink)
    write_atomically(path.with_suffix(".parquet"), sink.getvalue())
    write_atomically(path, to_json(document))
