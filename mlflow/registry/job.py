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
from runcast.evaluation.gates import GateReport, GateResult
from runcast.evaluation.report import in_one_sentence
from runcast.evaluation.scores import best_of
from runcast.features.catalog import COLUMNS_READ
from runcast.registry import models
from runcast.registry.card import model_card
from runcast.registry.errors import GateNotPassed, NoChampion, RegistryError
from runcast.registry.models import ModelVersion
from runcast.registry.runs import Night, log_night
from runcast.registry.runs import log_live as log_live_day
from runcast.registry.runs import log_replay as log_replay_run
from runcast.registry.slug import metric_key
from runcast.registry.store import Store, open_store
from runcast.scheduler.bundle import Manifest, make_current, moment_of, read_manifest, resolve
from runcast.scheduler.errors import BundleError
from runcast.scheduler.export import check_parity, pack, state_of_night
from runcast.scheduler.predictor import MODEL
from runcast.training.job import folder_sha256, model_folder, train
from runcast.training.kinds import BASELINES, FALLBACK, MODELS
from runcast.training.scoring import ModelCard, load_scorer

Record = dict[str, Any]


def champions(cluster: Cluster, settings: Settings) -> dict[str, Path]:
    """Return the model folder of each kind's champion; kinds without one are left out."""
    store = open_store(settings)
    found = {}
    for kind in MODELS:
        try:
            found[kind] = model_files(store, settings, cluster, models.champion(store, cluster.name, kind))
        except NoChampion:
            continue
    return found


def register(cluster: Cluster, settings: Settings, day: dt.date, now: dt.datetime) -> Record:
    """Log one run for each model trained that night, with the night's report, and register its version as challenger."""
    store, document = open_store(settings), read_report(cluster, settings, day)
    versions, runs, left_out = {}, {}, {}
    for kind in MODELS:
        folder = model_folder(settings, cluster, day, kind)
        if not (folder / "model.json").exists():
            left_out[kind] = "no model of this kind was trained that night: too few jobs had ended; the baseline serves"
            continue
        card = load_scorer(folder).card
        night = _night(cluster, document, day, kind, folder)
        note = model_card(document, kind, card.training)
        runs[kind] = log_night(
            store,
            night,
            parameters=_parameters(card),
            metrics=_metrics(document, kind),
            tags=_tags(document, kind),
            note=note,
            report=report_folder(cluster, settings, day),
            logged_at=now,
            about=cluster.description,
        )
        version = models.find(store, night) or _register(store, night, runs[kind], note, cluster, settings, day)
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
        version = models.find(store, _night(cluster, document, day, kind, folder))
        if version is None:
            raise RegistryError(f"{cluster.name}: the {kind} model of {day} is not registered; run that stage first")
        try:
            done = models.promote(store, version, read_verdict(document, kind))
        except GateNotPassed as error:
            kept[kind] = str(error)
        else:
            promoted[kind] = done.reason
    return {
        "promoted": promoted,
        "kept": kept,
        "champions": {k: v.version for k, v in standing_champions(store, cluster).items()},
    }


def export(cluster: Cluster, settings: Settings, day: dt.date, now: dt.datetime) -> Record:
    """Write the bundle of the serving champion with the history as of the night, check it against the training side, make it current.

    A night before the one that the serving bundle knows does not take the history back in time. Where that past night made another
    champion than its bundle holds, the later night's bundle is written again: in any order, nights end with the same one serving.
    """
    store, before = open_store(settings), served_now(cluster, settings)
    if before is None or moment_of(before.data_cut) <= _cut(cluster, day):
        bundle, is_written = _serve(store, cluster, settings, day, before, now), True
    else:
        latest = night_of(cluster, before)
        is_written = _made_another_serve(store, cluster, settings, day, latest, before)
        bundle = _serve(store, cluster, settings, latest, before, now) if is_written else resolve(settings.bundles / cluster.name)
    manifest = read_manifest(bundle)
    return {
        "written": is_written,
        "bundle": str(bundle),
        "kind": manifest.kind,
        "model_version": manifest.model_version,
        "registered": manifest.registered,
        "valid_until": manifest.valid_until,
    }


def rollback(cluster: Cluster, settings: Settings, day: dt.date, now: dt.datetime) -> Record:
    """Go back to the version that served before this one, of whatever kind, and to its bundle; `day` is the latest night, for the history.

    The bundle is written before the version is left and made current after it. Whoever dies between leaves the old bundle serving;
    the next rollback finishes this one, and the next export does too.
    """
    store, served = open_store(settings), _served(cluster, settings)
    left = models.labelled(store, str(served.registered))
    back = models.served_before(store, cluster.name, MODELS, left)
    bundle = _pack(store, cluster, settings, day, back, now)
    models.roll_back(store, left, back, now)
    make_current(bundle.parent, bundle.name)
    models.mark_served(store, back, now, is_new=True)
    return {"champion": back.label, "night": back.night, "left": left.label, "bundle": str(bundle)}


def log_replay(cluster: Cluster, settings: Settings, document: Mapping[str, Any], report: Path, now: dt.datetime) -> Record:
    """Log the replay of a day as one run of the cluster's experiment, every predictor's numbers beside each other."""
    store, day = open_store(settings), str(document["day"])
    metrics = {
        metric_key(name, part, metric): value
        for name, slices in document["predictors"].items()
        for part, numbers in slices.items()
        for metric, value in numbers.items()
        if value is not None and metric != "jobs"
    }
    run_id = log_replay_run(
        store,
        cluster.name,
        day,
        document["data"]["fingerprint"],
        metrics=metrics,
        tags={"runcast.command": document["command"]},
        note=f"{in_one_sentence(document)} Judged again by: `{document['command']}`",
        report=report,
        cut=_cut(cluster, dt.date.fromisoformat(day)),
        logged_at=now,
    )
    return {"run": run_id}


def log_live(cluster: Cluster, settings: Settings, document: Mapping[str, Any], record: Path, now: dt.datetime) -> Record:
    """Log the live accuracy of a day as one step of the cluster's run `live accuracy`."""
    counts = ("jobs", "answered", "unanswered", "late", "before_log", "unanswered_share")
    numbers = {**{name: document[name] for name in counts}, "rejected_lines": document["served"]["rejected"]}
    numbers |= {name: value for name, value in document["all"].items() if name != "jobs"}
    metrics = {metric_key("live", name): float(value) for name, value in numbers.items() if value is not None}
    day = dt.date.fromisoformat(document["day"])
    return {"run": log_live_day(open_store(settings), cluster.name, day, metrics=metrics, record=record, logged_at=now)}


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


def read_verdict(document: Mapping[str, Any], kind: str) -> GateReport | None:
    """Return the report's verdict on a kind, None where it was not judged."""
    found = document["verdicts"].get(kind)
    if found is None:
        return None
    told = {name: found[name] for name in GateReport.__dataclass_fields__}
    return GateReport(**{**told, "results": tuple(GateResult(**result) for result in found["results"])})


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


def _register(
    store: Store, night: Night, run_id: str, description: str, cluster: Cluster, settings: Settings, day: dt.date
) -> ModelVersion:
    with tempfile.TemporaryDirectory(prefix="runcast-") as scratch:
        bundle = pack(
            Path(scratch),
            cluster=cluster,
            model=model_folder(settings, cluster, day, night.kind),
            state=state_of_night(cluster, settings, day),
            model_version=night.model_version,
            registered=None,  # its number is not known yet
            cut=night.cut,
            created=night.cut,  # not now: the same night gives the same bytes
        )
        return models.register(store, night, run_id=run_id, bundle=bundle, description=description)


def _parameters(card: ModelCard) -> dict[str, Any]:
    """Return what a person compares runs by: the model's parameters, what it learned from, and the libraries."""
    learned = ("jobs", "censored_jobs", "window_days", "first_submit", "last_end", "cut")
    libraries = {f"library_{name}": version for name, version in card.libraries.items()}
    return {**card.parameters, **{name: card.training.get(name) for name in learned}, **libraries}


def _tags(document: Mapping[str, Any], kind: str) -> dict[str, str]:
    verdict = document["verdicts"][kind]
    return {
        "runcast.verdict": "passed" if verdict["passed"] else "not passed",
        "runcast.verdict_text": str(verdict["text"])[:500],
        "runcast.best_baseline": str(verdict.get("best_baseline") or "none"),
    }


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
    for baseline in BASELINES:
        for metric, value in document["predictors"].get(baseline, {}).get("all", {}).items():
            if value is not None and metric != "jobs":
                found[metric_key("baseline", baseline, metric)] = value
    verdict = document["verdicts"][kind]
    if (best := verdict.get("best_baseline")) in document["predictors"]:
        factor = document["predictors"][best]["all"]["error_factor"]
        found |= {} if factor is None else {metric_key("best_baseline", "error_factor"): factor}
    if verdict.get("value") is not None and verdict.get("best_baseline_value"):
        found["share_of_best_baseline"] = verdict["value"] / verdict["best_baseline_value"]  # the first gate's metric
    return found


def standing_champions(store: Store, cluster: Cluster) -> dict[str, ModelVersion]:
    found = {}
    for kind in MODELS:
        try:
            found[kind] = models.champion(store, cluster.name, kind)
        except NoChampion:
            continue
    return found


def _serving(store: Store, cluster: Cluster, document: Mapping[str, Any]) -> ModelVersion | None:
    """Return the champion that serves: the best kind by the first gate's number tonight; None where no model has ever passed."""
    standing = standing_champions(store, cluster)
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
        folder = model_files(store, settings, cluster, serving)
        name, registered = serving.model_version, serving.label
    bundle = pack(
        settings.bundles / cluster.name,
        cluster=cluster,
        model=folder,
        state=state_of_night(cluster, settings, day),
        model_version=name,
        registered=registered,
        cut=_cut(cluster, day),
        created=now,
    )
    columns = list(dict.fromkeys([*COLUMNS_READ, "job_key"]))
    jobs = Lake(settings.lake).read_jobs(cluster.name, before=cut_us(day, cluster.zone), columns=columns)
    check_parity(bundle, folder, jobs, cluster)
    return bundle


def model_files(store: Store, settings: Settings, cluster: Cluster, version: ModelVersion) -> Path:
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


def _serve(store: Store, cluster: Cluster, settings: Settings, day: dt.date, before: Manifest | None, now: dt.datetime) -> Path:
    """Write the bundle of the night's serving champion, make it current, and keep in the registry from when it serves."""
    serving = _serving(store, cluster, read_report(cluster, settings, day))
    bundle = _pack(store, cluster, settings, day, serving, now)
    make_current(bundle.parent, bundle.name)
    if serving is not None:
        models.mark_served(store, serving, now, is_new=before is None or before.registered != serving.label)
    return bundle


def served_now(cluster: Cluster, settings: Settings) -> Manifest | None:
    """Return the manifest of the bundle that serves; None where none does, or it cannot be read."""
    try:
        return read_manifest(resolve(settings.bundles / cluster.name))
    except BundleError:
        return None


def night_of(cluster: Cluster, manifest: Manifest) -> dt.date:
    """Return the night that a bundle knows the history of: the local day whose end is its cut."""
    return (moment_of(manifest.data_cut) - dt.timedelta(microseconds=1)).astimezone(cluster.zone).date()


def _made_another_serve(
    store: Store, cluster: Cluster, settings: Settings, day: dt.date, latest: dt.date, bundle: Manifest
) -> bool:
    """Say whether the past night `day` made the champion that the latest night would serve, and its bundle holds another."""
    if not (report_folder(cluster, settings, latest) / "report.json").exists():
        return False
    serving = _serving(store, cluster, read_report(cluster, settings, latest))
    return serving is not None and serving.night == day.isoformat() and serving.label != bundle.registered


def _served(cluster: Cluster, settings: Settings) -> Manifest:
    """Return the manifest of the bundle that serves; raises NoChampion where none does, or a baseline."""
    try:
        manifest = read_manifest(resolve(settings.bundles / cluster.name))
    except BundleError as error:
        raise NoChampion(f"{cluster.name}: nothing serves yet: {error}") from error
    if manifest.kind not in MODELS:
        raise NoChampion(f"{cluster.name}: the baseline {manifest.kind} serves; there is no champion to roll back")
    return manifest


def _cut(cluster: Cluster, day: dt.date) -> dt.datetime:
    return dt.datetime.fromtimestamp(cut_us(day, cluster.zone) / 1e6, dt.UTC)
