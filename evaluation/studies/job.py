"""Runs a study over logs of the lake, keeps what each log gave below RUNCAST_HOME/studies, and writes its section of the page."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from runcast.data.cluster import Cluster
from runcast.data.job import ingest
from runcast.data.lake import Lake
from runcast.data.settings import Settings
from runcast.evaluation.errors import UnreadablePredictions
from runcast.evaluation.report import write_atomically
from runcast.evaluation.studies import cadence, censoring, page, retraining
from runcast.evaluation.studies.ablation import CODES, ablate
from runcast.evaluation.studies.figures import draw_ablation, draw_cadence, draw_censoring, draw_worth
from runcast.evaluation.studies.kept import Replays, find_or_keep
from runcast.evaluation.studies.outside import compare_outside
from runcast.evaluation.worth.job import worth
from runcast.features.catalog import COLUMNS_READ, FAMILY, feature_version
from runcast.features.matrix import Matrix
from runcast.features.table import build

TEST_SHARE = 0.2
#: The ablation looks at the latest so many jobs of each log, so that all are told by as much.
ABLATION_JOBS = 20_000
CENSORING_WINDOWS_DAYS: tuple[float | None, ...] = (None, 30)
#: Whose forecasts are weighed, and on how many processors: the machines of logs that hold real waits; others are given a load.
WEIGHED = ("last_two", "nearest_median", "gbdt", "runcast")
MACHINES: Mapping[str, int] = {"kth": 100, "sdsc_sp2": 128, "curie": 93_312}
LOAD = 0.9


@dataclass(frozen=True)
class Asked:
    """What a study is run with beside the logs: `python` is an interpreter that holds FLAML, for the outside check only."""

    settings: Settings
    python: Path | None = None
    seconds: float = 600.0


@dataclass(frozen=True)
class Study:
    """One study: the logs it looks at by itself (None: every public one), what its findings depend on, and what comes of them."""

    name: str
    page: str
    logs: tuple[str, ...] | None
    parameters: Callable[[str, Asked], dict[str, Any]]
    find: Callable[[Cluster, Asked], dict[str, Any]]
    section: Callable[[Mapping[str, Any]], str]
    figure: Callable[[Mapping[str, Any]], str] | None


def _ablation(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    return ablate(_features(cluster, asked.settings, ABLATION_JOBS), cluster.training, TEST_SHARE)


def _cadence(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    return cadence.compare_cadences(_features(cluster, asked.settings), cluster.training, TEST_SHARE, cluster.zone)


def _retraining(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    return retraining.compare_retraining(_features(cluster, asked.settings), cluster.training, TEST_SHARE, cluster.zone)


def _censoring(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    matrix = _features(cluster, asked.settings)
    return {"probes": [censoring.probe(matrix, cluster.training, cluster.zone, days) for days in CENSORING_WINDOWS_DAYS]}


def _outside(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    folder = asked.settings.home / "studies" / "outside" / cluster.name
    matrix = _features(cluster, asked.settings)
    return compare_outside(matrix, cluster.training, TEST_SHARE, asked.python, asked.seconds, folder)


def _families() -> list[str]:
    return [*dict.fromkeys(FAMILY.values()), CODES]


def _probes(found: Mapping[str, Any]) -> dict[str, Any]:
    return {log: one["probes"] for log, one in found.items()}


def _pool(log: str) -> dict[str, Any]:
    """Return the real machine's size where the log is of one machine and its waits are real, else the load to be made."""
    return {"capacity": MACHINES[log]} if log in MACHINES else {"load": LOAD}


def _replayed(log: str, asked: Asked) -> Path:
    path = Replays(asked.settings.home / "accuracy").predictions(log)
    if not path.exists():
        raise UnreadablePredictions(f"{path}: no predictions of {log}. Run `runcast accuracy {log}` (`make accuracy`) first.")
    return path


def _worth(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    return worth(cluster, asked.settings, _replayed(cluster.name, asked), predictors=WEIGHED, **_pool(cluster.name))


_IN_ORDER: tuple[Study, ...] = (
    Study(
        "ablation",
        "studies.md",
        None,
        lambda log, _: {"latest_jobs": ABLATION_JOBS, "test_share": TEST_SHARE},
        _ablation,
        page.ablation_section,
        lambda found: draw_ablation(found, _families()),
    ),
    Study(
        "cadence",
        "studies.md",
        ("pegasus", "hpc2n", "venus"),
        lambda log, _: {
            "windows_days": cadence.WINDOWS_DAYS,
            "weeks": cadence.WEEKS,
            "days_asked": cadence.DAYS_ASKED,
            "most_jobs": cadence.MOST_JOBS,
            "test_share": TEST_SHARE,
        },
        _cadence,
        page.cadence_section,
        draw_cadence,
    ),
    Study(
        "retraining",
        "studies.md",
        ("kth", "lsf", "philly", "venus", "sdsc_sp2", "hpc2n", "pegasus"),
        lambda log, _: {"weeks": retraining.WEEKS, "days_asked": cadence.DAYS_ASKED, "test_share": TEST_SHARE},
        _retraining,
        page.retraining_section,
        None,
    ),
    Study(
        "censoring",
        "studies.md",
        ("kth", "sdsc_sp2", "venus"),
        lambda log, _: {"windows_days": CENSORING_WINDOWS_DAYS, "days": censoring.ASKED_DAYS, "seeds": censoring.SEEDS},
        _censoring,
        lambda found: page.censoring_section(_probes(found)),
        lambda found: draw_censoring(_probes(found)),
    ),
    Study(
        "outside",
        "studies.md",
        ("kth", "sdsc_sp2", "lsf", "philly"),
        lambda log, asked: {"seconds": asked.seconds, "test_share": TEST_SHARE},
        _outside,
        page.outside_section,
        None,
    ),
    Study(
        "worth",
        "worth.md",
        ("kth", "sdsc_sp2", "curie", "philly", "venus"),
        lambda log, asked: {
            **_pool(log),
            "predictors": WEIGHED,
            "predictions": hashlib.sha256(_replayed(log, asked).read_bytes()).hexdigest(),
        },
        _worth,
        page.worth_section,
        draw_worth,
    ),
)
STUDIES: Mapping[str, Study] = {study.name: study for study in _IN_ORDER}


def run_study(
    study: Study,
    clusters: Sequence[Cluster],
    asked: Asked,
    page_path: Path,
    *,
    again: bool = False,
    progress: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Run the study on each cluster's log, write its section and figure, and return what was found, by log.

    A log's finding of the same data, features and parameters is taken as it is unless `again`. Raises PageWithoutMarks before
    anything is run where the page has no place for the section.
    """
    name = study.name
    page.replace_section(page_path.read_text(encoding="utf-8"), name, "")
    found, told = {}, {}
    for cluster in clusters:
        progress(cluster.name)
        ingest(cluster, asked.settings, first=None, last=None)
        told[cluster.name] = {
            "data": Lake(asked.settings.lake).fingerprint(cluster.name),
            "features": feature_version(),
            "training": cluster.training.model_dump(),
            "study": study.parameters(cluster.name, asked),
        }
        kept = asked.settings.home / "studies" / name / f"{cluster.name}.json"
        found[cluster.name] = find_or_keep(kept, told[cluster.name], partial(study.find, cluster, asked), again)
    body = study.section(found) + "\n\n" + page.measured_by(f"runcast study {name}", told)
    write_atomically(page_path, page.replace_section(page_path.read_text(encoding="utf-8"), name, body))
    if study.figure is not None:
        write_atomically(page_path.parent / "figures" / f"{name}.svg", study.figure(found))
    return found


def _features(cluster: Cluster, settings: Settings, latest: int | None = None) -> Matrix:
    """Return the features of the log's jobs, or of its latest by submission, as if the log began with them."""
    jobs = Lake(settings.lake).read_jobs(cluster.name, columns=COLUMNS_READ).to_pandas()
    if latest is not None:
        jobs = jobs.sort_values("submit_time", kind="stable").tail(latest).reset_index(drop=True)
    return build(jobs, cluster.clock, cluster.time_zone)
