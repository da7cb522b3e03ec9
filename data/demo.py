"""Three made-up clusters for a first look, their logs in three real formats; a README beside each says that they are made up.

demo_slurm: monthly `sacct` exports with steps, arrays, requeues and dirty rows; demo_helios: a cluster_log.csv as SenseTime
publishes; demo_pai: the tables of Alibaba PAI. About 60,000 jobs in 120 days. The cluster files refer to ${RUNCAST_HOME}/demo.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from runcast.data.demo_formats import Span, Written, helios, pai, sacct
from runcast.data.demo_jobs import Jobs, Profile, make_jobs

#: A fixed day, so that the numbers of a first run are those of the README.
LAST_DAY = date(2026, 6, 30)

_README = """\
These logs are made up. No person, job or machine in them exists.

Runcast wrote them (`runcast demo`) so that one can look at it without a log of one's own. They are in the format of {format}
and have what real logs have: recurring jobs, sweeps and arrays, failures, the rhythm of day and week, new users, a change in how long work
takes, and rows that are broken. Errors and coverages measured on them say nothing about any real cluster.

{first} to {last}, seed {seed}: {records} records, {jobs} jobs, {rejected} broken on purpose.
"""


@dataclass(frozen=True)
class DemoLog:
    """What was written for one cluster; records == accepted + rejected + skipped."""

    cluster: str
    folder: str
    format: str
    first_day: str
    last_day: str
    records: int
    accepted: int
    jobs: int
    rejected: int
    skipped: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class _Demo:
    cluster: str
    format: str
    zone: str
    profile: Profile
    write: Callable[[Jobs, Span, np.random.Generator], Written]


_DEMOS = (
    _Demo(
        "demo_slurm",
        "Slurm's sacct --parsable2",
        "Europe/Berlin",
        Profile(60, 260, 24_000, (0, 1, 2, 4, 8, 16), (30, 36, 10, 14, 8, 2), typical_run_s=1500, array_share=0.12),
        sacct,
    ),
    _Demo(
        "demo_helios",
        "SenseTime Helios' cluster_log.csv",
        "Asia/Shanghai",
        Profile(80, 320, 20_000, (0, 1, 2, 4, 8, 32), (12, 48, 8, 10, 18, 4), typical_run_s=900),
        helios,
    ),
    _Demo(
        "demo_pai",
        "Alibaba PAI's cluster-trace-gpu-v2020",
        "Asia/Shanghai",
        Profile(70, 300, 15_000, (0, 0.25, 0.5, 1, 2, 8), (8, 22, 22, 36, 8, 4), typical_run_s=1200),
        pai,
    ),
)


def write_demo(folder: Path, *, seed: int = 7, days: int = 120, last_day: date = LAST_DAY) -> tuple[DemoLog, ...]:
    """Write the logs of the demo clusters below `folder`, over what was there; same arguments, same bytes."""
    streams = np.random.default_rng(seed).spawn(2 * len(_DEMOS))
    return tuple(
        _write(folder / demo.cluster, demo, Span(last_day - timedelta(days=days - 1), last_day, ZoneInfo(demo.zone)), seed, *two)
        for demo, two in zip(_DEMOS, zip(streams[::2], streams[1::2], strict=True), strict=True)
    )


def _write(
    folder: Path, demo: _Demo, span: Span, seed: int, of_jobs: np.random.Generator, of_text: np.random.Generator
) -> DemoLog:
    days = (span.last - span.first).days + 1
    written = demo.write(make_jobs(of_jobs, demo.profile, days, span.first.weekday()), span, of_text)
    log = DemoLog(
        cluster=demo.cluster,
        folder=str(folder),
        format=demo.format,
        first_day=span.first.isoformat(),
        last_day=span.last.isoformat(),
        records=written.accepted + written.rejected.total() + written.skipped.total(),
        accepted=written.accepted,
        jobs=written.jobs,
        rejected=written.rejected.total(),
        skipped=written.skipped.total(),
    )
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, lines in written.files.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    readme = _README.format(
        format=demo.format, first=span.first, last=span.last, seed=seed, records=log.records, jobs=log.jobs, rejected=log.rejected
    )
    (folder / "README.txt").write_text(readme, encoding="utf-8")
    return log
