"""The evaluation stage: replays a log, judges every predictor beside the baselines, and writes the report of a night.

A report is RUNCAST_HOME/report/<cluster>/<night>/: report.json, report.html (opens without a network) and figures/*.svg.
"""

import datetime as dt
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from runcast.data.asof import cut_us, day_start_us
from runcast.data.cluster import Cluster
from runcast.data.lake import Lake
from runcast.data.settings import Settings
from runcast.evaluation.champion import compare_with_champion
from runcast.evaluation.document import judge_replay, make_document, models_of, nothing_to_judge, verdicts
from runcast.evaluation.drift import Errors, Finding, findings
from runcast.evaluation.errors import NothingToJudge
from runcast.evaluation.figures import draw_all
from runcast.evaluation.gates import GateReport, not_judged
from runcast.evaluation.replay import CADENCES, Cadence, Progress, Replay, predictions_table, submitted_in, test_rows
from runcast.evaluation.replay import replay as answer_in_order
from runcast.evaluation.report import render_report, to_json, write_atomically
from runcast.features.catalog import COLUMNS_READ, feature_version
from runcast.features.matrix import Matrix
from runcast.features.table import build
from runcast.training.errors import NotEnoughJobs
from runcast.training.job import fingerprint, folder_sha256, model_folder, read_night
from runcast.training.kinds import PREDICTORS

#: The feature that is the plain baseline's answer: it has one for nearly every job, not for the test jobs only.
_BASELINE = "nearest_median_s"
_LIBRARIES = ("lightgbm", "numpy", "pandas", "scikit-learn")


@dataclass(frozen=True)
class EvaluationReport:
    """What a night's evaluation found: the verdict on each model, the document behind them, and where the report stands."""

    cluster: str
    day: str
    verdicts: Mapping[str, GateReport]
    document: Mapping[str, Any]
    folder: Path

    @property
    def html(self) -> Path:
        return self.folder / "report.html"

    def summary(self) -> dict[str, Any]:
        """The part that travels between stages: verdicts with their numbers, and paths; below 10 kB."""
        everything = {kind: slices["all"] for kind, slices in self.document["predictors"].items()}
        return {
            "cluster": self.cluster,
            "day": self.day,
            "jobs": self.document["jobs"],
            "all": everything,
            "coverage": self.document["coverage"],
            "verdicts": {kind: verdict.to_json() for kind, verdict in self.verdicts.items()},
            "fallbacks": self.document["fallbacks"],
            "failures": self.document["failures"],
            "limits": self.document["limits"],
            "data_fingerprint": self.document["data"]["fingerprint"],
            "report": str(self.html),
        }


def evaluate(
    cluster: Cluster,
    settings: Settings,
    day: dt.date,
    *,
    champions: Mapping[str, Path] | None = None,
    kinds: Sequence[str] = PREDICTORS,
    progress: Callable[[str], None] = lambda text: None,
) -> EvaluationReport:
    """Replay once over the latest jobs that had ended by the end of `day`, judge every model, and write the report.

    `champions` gives for a kind the model folder of the champion that the night found. Raises FeaturesStale where the features of that day
    were not built. A log with nothing to test on gets a report that says so, and verdicts that failed.
    """
    matrix = read_night(cluster, settings, day)
    night, seen = day.isoformat(), fingerprint(matrix)
    command = f"runcast evaluate --cluster {cluster.name} --date {night}"
    folder = settings.reports / cluster.name / night
    try:
        done = answer_in_order(
            matrix, test_rows(matrix, cluster.evaluation.test_share), kinds, cluster.training, "once", cluster.zone
        )
    except (NothingToJudge, NotEnoughJobs) as error:
        reason = f"too little history: {error}"
        document = nothing_to_judge(
            cluster,
            day=night,
            fingerprint=seen,
            kinds=models_of(kinds),
            reason=reason,
            command=command,
            drift=_drift(matrix, cluster, day, None),
        )
        failed = {kind: not_judged(cluster.name, kind, night, seen, reason) for kind in models_of(kinds)}
        _write(folder, document, {})
        return EvaluationReport(cluster.name, night, failed, document, folder)
    progress("judging")
    judged = judge_replay(matrix, done, cluster)
    compared = {
        kind: compare_with_champion(matrix, cluster, kind, champion)
        for kind, champion in sorted((champions or {}).items())
        if kind in models_of(kinds)
    }
    found = verdicts(judged, cluster, night, seen, _trained(cluster, settings, day, models_of(kinds)), compared)
    document = make_document(
        judged,
        cluster,
        day=night,
        every="once",
        fingerprint=seen,
        feature_version=feature_version(),
        verdicts=found,
        champions=compared,
        libraries={name: version(name) for name in _LIBRARIES},
        command=command,
        drift=_drift(matrix, cluster, day, done),
    )
    progress("drawing")
    _write(folder, document, draw_all(judged, cluster.evaluation.targets))
    return EvaluationReport(cluster.name, night, found, document, folder)


def replay(
    cluster: Cluster,
    settings: Settings,
    *,
    every: str = "once",
    test_share: float | None = None,
    first: dt.date | None = None,
    last: dt.date | None = None,
    as_of: dt.date | None = None,
    predictions: Path | None = None,
    report: Path | None = None,
    kinds: Sequence[str] = PREDICTORS,
    progress: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Replay what the lake holds and return the document; `predictions` names a Parquet for one row per job and predictor.

    The test jobs are the latest `test_share` (default: the cluster's), or those submitted from `first` to `last` (local, both
    included). `as_of` takes the jobs as they stood at the end of that day (local); `report` names a folder for the report.
    Raises NothingToJudge and NotEnoughJobs where there is nothing to test on or nothing to learn from, LakeBehind where the lake does
    not reach `as_of`.
    """
    cadence = _cadence(every)
    matrix, job_id = _read_whole(cluster, settings, as_of)
    if first is None and last is None:
        rows = test_rows(matrix, test_share or cluster.evaluation.test_share)
        asked = f"--test-share {test_share or cluster.evaluation.test_share:g}"
    else:
        rows = submitted_in(
            matrix,
            None if first is None else day_start_us(first, cluster.zone),
            None if last is None else cut_us(last, cluster.zone),
        )
        asked = " ".join(f"--{name} {one}" for name, one in (("from", first), ("to", last)) if one is not None)
    done = answer_in_order(matrix, rows, kinds, cluster.training, cadence, cluster.zone, _told(progress))
    if predictions is not None:
        table = predictions_table(cluster.name, matrix, job_id, done)
        predictions.parent.mkdir(parents=True, exist_ok=True)
        beside = predictions.with_name(f".{predictions.name}.new")
        pq.write_table(table, beside)
        beside.replace(predictions)
    progress("judging")
    judged = judge_replay(matrix, done, cluster)
    document = make_document(
        judged,
        cluster,
        day=None if as_of is None else as_of.isoformat(),
        every=cadence,
        fingerprint=fingerprint(matrix),
        feature_version=feature_version(),
        verdicts={},
        champions={},
        libraries={name: version(name) for name in _LIBRARIES},
        command=f"runcast replay --cluster {cluster.name} {asked} --every {cadence}" + (f" --as-of {as_of}" if as_of else ""),
    )
    if report is not None:
        progress("drawing")
        _write(report, document, draw_all(judged, cluster.evaluation.targets))
    return document


def _read_whole(cluster: Cluster, settings: Settings, as_of: dt.date | None) -> tuple[Matrix, NDArray[np.object_]]:
    """Return the features of every job in the lake, as it stands or as it stood at the end of a day, and their ids."""
    columns = list(dict.fromkeys([*COLUMNS_READ, "job_key", "job_id"]))
    lake, cut = Lake(settings.lake), None if as_of is None else cut_us(as_of, cluster.zone)
    if as_of is not None and cut is not None:
        lake.require(cluster.name, cut, as_of)
    jobs = lake.read_jobs(cluster.name, before=cut, columns=columns).to_pandas()
    return build(jobs, cluster.clock, cluster.time_zone), jobs["job_id"].to_numpy(object)


def _cadence(every: str) -> Cadence:
    for cadence in CADENCES:
        if cadence == every:
            return cadence
    raise NothingToJudge(f"unknown cadence {every!r}; models are trained {', '.join(CADENCES)}")


def _told(progress: Callable[[str], None]) -> Progress:
    return lambda done, of: progress(f"{done} of {of} trainings")


def _trained(cluster: Cluster, settings: Settings, day: dt.date, kinds: Sequence[str]) -> dict[str, str]:
    """Return the SHA-256 of each model folder that was trained for this night."""
    folders = {kind: model_folder(settings, cluster, day, kind) for kind in kinds}
    return {kind: folder_sha256(folder) for kind, folder in folders.items() if (folder / "model.json").exists()}


def _drift(matrix: Matrix, cluster: Cluster, day: dt.date, done: Replay | None) -> list[Finding]:
    """Return what the night says of drift: of all jobs, of the plain baseline's errors on them, and of the models' on the test jobs."""
    answered = matrix.ended.has_runtime & (matrix.column(_BASELINE) > 0)
    errors = {"nearest_median": _errors(matrix, np.flatnonzero(answered), matrix.column(_BASELINE)[answered].astype(np.float64))}
    if done is not None:
        errors |= {kind: _errors(matrix, done.rows, done.forecasts[kind].p50_s) for kind in models_of(done.forecasts)}
    return findings(matrix, cut_us(day, cluster.zone), errors, cluster.drift, cluster.training.window_days)


def _errors(matrix: Matrix, rows: NDArray[np.intp], predicted_s: NDArray[np.float64]) -> Errors:
    return Errors(matrix.ended.end_us[rows], matrix.ended.runtime_s[rows], predicted_s)


def _write(folder: Path, document: Mapping[str, Any], pictures: Mapping[str, str]) -> None:
    """Write figures, page and numbers; report.json last, since its presence says that the report is whole."""
    if not pictures and (folder / "figures").exists():
        shutil.rmtree(folder / "figures")
    for name, svg in pictures.items():
        write_atomically(folder / "figures" / f"{name}.svg", svg)
    write_atomically(folder / "report.html", render_report(document, pictures))
    write_atomically(folder / "report.json", to_json(document))
