"""The registry stage: a night's models become versions, passed ones become champions, and the best champion becomes the bundle.

Which champion serves is decided by the night's report: of the kinds that have one, the kind with the best number of the cluster's
first gate. Where no model has passed yet, the bundle holds the plain baseline. Clocks are arguments.
"""

import datetime as dt
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runcast.data.asof import cut_us
from runcast.data.cluster import Cluster
from runcast.data.lake import Lake
from runcast.data.settings import Settings
from runcast.evaluation.gates import GateReport
from runcast.evaluation.scores import best_of
from runcast.features.catalog import COLUMNS_READ
from runcast.features.job import build_state
from runcast.registry import models
from runcast.registry.card import model_card
from runcast.registry.errors import GateNotPassed, NoChampion
from runcast.registry.models import ModelVersion
from runcast.registry.runs import Night, log_night
from runcast.registry.slug import metric_key
from runcast.registry.store import Store, open_store
from runcast.scheduler.bundle import make_current, read_manifest, resolve
from runcast.scheduler.errors import BundleError
from runcast.scheduler.export import check_parity, pack
from runcast.scheduler.predictor import MODEL
from runcast.training.job import folder_sha256, model_folder, train
from runcast.training.kinds import FALLBACK, MODELS
from runcast.training.scoring import load_scorer

Record = dict[str, Any]


def champions(cluster: Cluster, settings: Settings) -> dict[str, Path]:
    """Return the model folder of each kind's champion; kinds without one are left out."""
    store = open_store(settings)
    found = {}
    for kind in MODELS:
        try:
            found[kind] = _model_files(store, settings, cluster, models.champion(store, cluster.name, kind))
        except NoChampion:
            continue
    return found


def register(cluster: Cluster, settings: Settings, day: dt.date, now: dt.datetime) -> Record:
    """Log one run for each model trained that night, with the night's report, and register its version as challenger."""
    store, document = open_store(settings), read_report(cluster, settings, day)
    state = build_state(cluster, settings, day)
    versions, runs, left_out = {}, {}, {}
    for kind in MODELS:
        folder = model_folder(settings, cluster, day, kind)
        if not (folder / "model.json").exists():
            left_out[kind] = "no model of this kind was trained that night: too few jobs had ended; the baseline serves"
            continue
        card = load_scorer(folder).card
        night = _night(cluster, document, day, kind, folder)
        note = model_card(document, kind, int(card.training["jobs"]))
        with tempfile.TemporaryDirectory(prefix="runcast-") as scratch:
            bundle = pack(
                Path(scratch),
                cluster=cluster,
                model=folder,
                state=state,
                model_version=night.model_version,
                registered=None,
                cut=night.cut,
                created=now,
            )
            runs[kind] = log_night(
                store,
                night,
                parameters={**card.parameters, "jobs": card.training["jobs"], "window_days": cluster.training.window_days},
                metrics=_metrics(document, kind),
                note=note,
                report=report_folder(cluster, settings, day),
                logged_at=now,
            )
            version = models.register(store, night, run_id=runs[kind], bundle=bundle, description=note)
        versions[kind] = version.version
    return {"versions": versions, "runs": runs, "left_out": left_out}


def promote(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
    """Make each model of the night that passed its gates the champion of its kind; the others stay challengers, with the reason."""
    store, document = open_store(settings), read_report(cluster, settings, day)
    promoted, kept = {}, {}
    for kind in MODELS:
        folder = model_folder(settings, cluster, day, kind)
        if not (folder / "model.json").exists():
            continue
        version = models.version_of(store, _night(cluster, document, day, kind, folder))
        try:
            done = models.promote(store, version, GateReport.from_json(document["verdicts"][kind]))
        except GateNotPassed as error:
            kept[kind] = str(error)
        else:
            promoted[kind] = done.reason
    return {"promoted": promoted, "kept": kept, "champions": {k: v.version for k, v in _champions(store, cluster).items()}}


def export(cluster: Cluster, settings: Settings, day: dt.date, now: dt.datetime) -> Record:
    """Write the bundle of the serving champion with the history as of the night, check it against the training side, make it current."""
    store = open_store(settings)
    serving = _serving(store, cluster, read_report(cluster, settings, day))
    bundle = _pack(store, cluster, settings, day, serving, now)
    make_current(bundle.parent, bundle.name)
    manifest = read_manifest(bundle)
    return {
        "bundle": str(bundle),
        "kind": manifest.kind,
        "model_version": manifest.model_version,
        "registered": manifest.registered,
    }


def rollback(cluster: Cluster, settings: Settings, day: dt.date, now: dt.datetime) -> Record:
    """Go back to the champion before the one that serves, and to its bundle; `day` is the latest night, for the history.

    The bundle is written before the alias moves and made current after it: whoever dies between leaves the old bundle serving.
    """
    store = open_store(settings)
    kind = _served_kind(cluster, settings)
    back = models.earlier_champion(store, cluster.name, kind)
    bundle = _pack(store, cluster, settings, day, back, now)
    models.rollback(store, cluster.name, kind, now)
    make_current(bundle.parent, bundle.name)
    return {"champion": back.label, "night": back.night, "bundle": str(bundle)}


def report_folder(cluster: Cluster, settings: Settings, day: dt.date) -> Path:
    return settings.reports / cluster.name / day.isoformat()


def read_report(cluster: Cluster, settings: Settings, day: dt.date) -> Mapping[str, Any]:
    """Return the night's report; raises GateNotPassed where the night was not evaluated."""
    path = report_folder(cluster, settings, day) / "report.json"
    if not path.exists():
        raise GateNotPassed(
            f"{cluster.name}, {day}: no report at {path}. Evaluate the night first: runcast evaluate --cluster {cluster.name} --date {day}"
        )
    document: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _night(cluster: Cluster, document: Mapping[str, Any], day: dt.date, kind: str, folder: Path) -> Night:
    return Night(
        cluster=cluster.name,
        kind=kind,
        night=day.isoformat(),
        cut=_cut(cluster, day),
        data_fingerprint=document["data"]["fingerprint"],
        feature_version=load_scorer(folder).card.feature_version,
        model_sha256=folder_sha256(folder),
    )


def _metrics(document: Mapping[str, Any], kind: str) -> dict[str, float]:
    """Return what MLflow shows of a kind: every metric by slice, coverage at the targets, and the best baseline beside it."""
    found = {
        metric_key(part, metric): value
        for part, numbers in document["predictors"].get(kind, {}).items()
        for metric, value in numbers.items()
        if value is not None and metric != "jobs"
    }
    found |= {
        metric_key("coverage", target): share for target, share in document["coverage"].get(kind, {}).items() if share is not None
    }
    best = document["verdicts"][kind].get("best_baseline_value")
    return found if best is None else {**found, metric_key("best_baseline", document["verdicts"][kind]["metric"]): best}


def _champions(store: Store, cluster: Cluster) -> dict[str, ModelVersion]:
    found = {}
    for kind in MODELS:
        try:
            found[kind] = models.champion(store, cluster.name, kind)
        except NoChampion:
            continue
    return found


def _serving(store: Store, cluster: Cluster, document: Mapping[str, Any]) -> ModelVersion | None:
    """Return the champion that serves: the best kind by the first gate's number tonight; None where no model has ever passed."""
    standing = _champions(store, cluster)
    judged = [kind for kind in standing if kind in document["predictors"]]
    if not judged:
        return next(iter(standing.values()), None)
    gate = cluster.evaluation.gates[0] if cluster.evaluation.gates else None
    metric, rows = (
        (gate.metric, gate.rows) if gate and gate.metric in document["predictors"][judged[0]]["all"] else ("error_factor", "all")
    )
    return standing[best_of(document["predictors"], judged, metric, rows)]


def _pack(
    store: Store, cluster: Cluster, settings: Settings, day: dt.date, serving: ModelVersion | None, now: dt.datetime
) -> Path:
    """Write the bundle of `serving` (None: the baseline) as of the night and check its answers; `current` is not moved."""
    if serving is None:
        baseline = train(cluster, settings, day, FALLBACK)
        folder, name, registered = Path(baseline.path), f"{FALLBACK}-{day}-{baseline.model_sha256[:8]}", None
    else:
        folder = _model_files(store, settings, cluster, serving)
        name, registered = f"{serving.kind}-{serving.night}-{serving.model_sha256[:8]}", serving.label
    bundle = pack(
        settings.bundles / cluster.name,
        cluster=cluster,
        model=folder,
        state=build_state(cluster, settings, day),
        model_version=name,
        registered=registered,
        cut=_cut(cluster, day),
        created=now,
    )
    columns = list(dict.fromkeys([*COLUMNS_READ, "job_key"]))
    jobs = Lake(settings.lake).read_jobs(cluster.name, before=cut_us(day, cluster.zone), columns=columns)
    check_parity(bundle, folder, jobs, cluster)
    return bundle


def _model_files(store: Store, settings: Settings, cluster: Cluster, version: ModelVersion) -> Path:
    """Return the version's model folder: the one of its night while it is there and unchanged, else the registry's copy."""
    trained = model_folder(settings, cluster, dt.date.fromisoformat(version.night), version.kind)
    if (trained / "model.json").exists() and folder_sha256(trained) == version.model_sha256:
        return trained
    kept = settings.models / cluster.name / "registered" / version.model_sha256[:16]
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=kept.parent) as scratch:
            (models.download(store, version, Path(scratch)) / MODEL).rename(kept)
    return kept


def _served_kind(cluster: Cluster, settings: Settings) -> str:
    try:
        kind = read_manifest(resolve(settings.bundles / cluster.name)).kind
    except BundleError as error:
        raise NoChampion(f"{cluster.name}: nothing serves yet: {error}") from error
    if kind not in MODELS:
        raise NoChampion(f"{cluster.name}: the baseline {kind} serves; there is no champion to roll back")
    return kind


def _cut(cluster: Cluster, day: dt.date) -> dt.datetime:
    return dt.datetime.fromtimestamp(cut_us(day, cluster.zone) / 1e6, dt.UTC)
