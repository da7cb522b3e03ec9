"""The registry stage: a night's models become versions, passed ones are approved, and the best champion becomes the bundle.

Which champion serves is decided by the reports' numbers (evaluation/choice.py). Where no model has passed yet, the bundle holds the
plain baseline. Clocks are arguments.
"""

import contextlib
import datetime as dt
import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runcast.data.asof import cut_us, day_start_us
from runcast.data.cluster import Cluster
from runcast.data.errors import MayPass, RuncastError
from runcast.data.lake import Lake
from runcast.data.settings import Settings
from runcast.evaluation.errors import ReportDamaged, ReportMissing
from runcast.evaluation.report import in_one_sentence
from runcast.evaluation.report_file import read_document
from runcast.evaluation.slices import is_of_somebody
from runcast.features.catalog import COLUMNS_READ
from runcast.registry import models, moving
from runcast.registry.card import model_card
from runcast.registry.errors import ClockBehind, GateNotPassed, ModelAltered, NoChampion, RegistryError, StoreUnavailable
from runcast.registry.models import ModelVersion
from runcast.registry.moving import Move, bundles_kept, bundles_of, in_turn, opened
from runcast.registry.reports import read_report, read_verdict, report_folder
from runcast.registry.runs import Night, log_night
from runcast.registry.runs import log_live as log_live_day
from runcast.registry.runs import log_replay as log_replay_run
from runcast.registry.serving import changes_later_bundle, choose_champion
from runcast.registry.slug import metric_key, model_name
from runcast.registry.store import Store, open_store
from runcast.scheduler.bundle import Manifest, moment_of, read_manifest, resolve
from runcast.scheduler.errors import BundleError
from runcast.scheduler.export import check_parity, pack, pseudonyms_used, state_of_night
from runcast.scheduler.predictor import MODEL
from runcast.training.errors import ModelFileError
from runcast.training.job import folder_sha256, model_folder, train
from runcast.training.kinds import BASELINES, FALLBACK, MODELS
from runcast.training.scoring import ModelCard, load_scorer

Record = dict[str, Any]

_told = logging.getLogger("runcast.registry")
_UNLOGGED = ".unlogged"
_NOT_TRAINED = "no model of this kind was trained that night"


def champions_before(cluster: Cluster, settings: Settings, day: dt.date) -> dict[str, Path]:
    """Return for each kind the model folder of the latest version of a night before `day` that passed; kinds without one are left out.

    That is the champion which the night of `day` finds, however far the aliases have moved since: a night that is run again is
    judged beside the same one. Where the tracking store cannot be had, it is the model of the bundle that serves, where that is of
    an earlier night, and a warning says so.
    """
    try:
        return _passed_before(cluster, settings, day)
    except StoreUnavailable as error:
        found = _served_before(cluster, settings, day)
        _told.warning("%s The night is compared with the champion that serves only: %s", error, ", ".join(found) or "none")
        return found


@in_turn
def _passed_before(cluster: Cluster, settings: Settings, day: dt.date) -> dict[str, Path]:
    store = opened(cluster, settings)
    latest = {kind: models.latest_approved(store, model_name(cluster.name, kind), before=day.isoformat()) for kind in MODELS}
    return {kind: model_files(store, settings, cluster, version) for kind, version in latest.items() if version is not None}


def _served_before(cluster: Cluster, settings: Settings, day: dt.date) -> dict[str, Path]:
    served = served_now(cluster, settings)
    if served is None or served.kind not in MODELS:
        return {}
    folder = resolve(bundles_of(cluster, settings)) / MODEL
    with contextlib.suppress(ModelFileError):  # the comparison says that it cannot be read
        if load_scorer(folder).card.training["cut_us"] >= cut_us(day, cluster.zone):
            return {}
    return {served.kind: folder}


@in_turn
def register(cluster: Cluster, settings: Settings, day: dt.date, now: dt.datetime) -> Record:
    """Log one run for each model trained that night, with the night's report, and register its version as challenger.

    Nights that could not be logged or approved, because the tracking store was down or they were killed, are caught up with in order;
    what stands in the way of one of them is told and does not keep the others back. A night is marked until `promote` has approved it.
    """
    document = read_report(cluster, settings, day)
    mark = _unlogged(cluster, settings, day)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()  # before the store is opened: a night that finds none is not forgotten
    store = opened(cluster, settings)
    caught_up = {}
    for night in unlogged_nights(cluster, settings):
        if night != day.isoformat():
            caught_up[night] = _catch_up(store, cluster, settings, dt.date.fromisoformat(night), now)
    return {**_log(store, cluster, settings, day, document, now), "caught_up": caught_up}


def _catch_up(store: Store, cluster: Cluster, settings: Settings, day: dt.date, now: dt.datetime) -> str:
    """Log and approve a past night; what came of it, in words."""
    try:
        document = read_report(cluster, settings, day)
        versions = _log(store, cluster, settings, day, document, now)["versions"]
        _approve(store, cluster, settings, day, document)
    except MayPass:
        raise
    except RuncastError as error:
        return f"not logged: {error}"
    _unlogged(cluster, settings, day).unlink()
    return "logged: " + ", ".join(f"{kind} {version}" for kind, version in versions.items())


def _log(
    store: Store, cluster: Cluster, settings: Settings, day: dt.date, document: Mapping[str, Any], now: dt.datetime
) -> Record:
    nights = _trained(cluster, settings, day, document)
    versions, runs = {}, {}
    for kind, night in nights.items():
        card = load_scorer(model_folder(settings, cluster, day, kind)).card
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
        models.name_challenger(store, version)  # whoever registered it may have been killed before
        versions[kind] = version.version
    return {
        "versions": versions,
        "runs": runs,
        "left_out": {kind: document["fallbacks"].get(kind, _NOT_TRAINED) for kind in MODELS if kind not in nights},
        "experiment_id": store.experiment_id(cluster.name),
    }


@in_turn
def promote(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
    """Approve each model of the night that passed its gates; the others stay challengers, with the reason.

    `champions` are those to be once the bundle is written: the aliases move together with it, in `export`.
    """
    store, document = opened(cluster, settings), read_report(cluster, settings, day)
    promoted, kept = _approve(store, cluster, settings, day, document)
    _unlogged(cluster, settings, day).unlink(missing_ok=True)
    champions_to_be = _champions_at(store, cluster, settings, day, document)
    return {"promoted": promoted, "kept": kept, "champions": {kind: v.version for kind, v in champions_to_be.items()}}


def _approve(
    store: Store, cluster: Cluster, settings: Settings, day: dt.date, document: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, str]]:
    """Approve what passed; (what each comes to, why the others stay challengers), by kind."""
    promoted, kept = {}, {}
    for kind, night in _trained(cluster, settings, day, document).items():
        version = models.find(store, night)
        if version is None:
            raise RegistryError(f"{cluster.name}: the {kind} model of {day} is not registered; run that stage first")
        try:
            models.approve(store, version, read_verdict(document, kind))
        except GateNotPassed as error:
            kept[kind] = str(error)
        else:
            promoted[kind] = models.promotion(store, version).reason
    return promoted, kept


@in_turn
def export(cluster: Cluster, settings: Settings, day: dt.date, now: dt.datetime) -> Record:
    """Write the bundle of the best champion with the history as of the night, check it against the training side, let it serve.

    The aliases of the champions move with it. A night before the one that the serving bundle knows does not take the history back
    in time. Where that past night made another champion than its bundle holds, the later night's bundle is written again: in any
    order, nights end with the same one serving. Raises ClockBehind where `now` is before the day began.
    """
    _refuse_clock_behind(cluster, day, now)
    store, before = opened(cluster, settings), served_now(cluster, settings)
    champions_to_be = _champions_at(store, cluster, settings, day, read_report(cluster, settings, day))
    night = day if before is None or moment_of(before.data_cut) <= _cut(cluster, day) else night_of(cluster, before)
    choice, serving = choose_champion(champions_to_be, cluster, settings, night, before)
    bundle = None
    if night == day or changes_later_bundle(day, choice, serving, before):
        bundle = _pack(store, cluster, settings, night, serving, now)
    _move(store, cluster, settings, champions_to_be, bundle, before, now)
    current = bundle or resolve(bundles_of(cluster, settings))
    manifest = read_manifest(current)
    stays = f"{manifest.model_version} serves: the bundle of the later night {night} stays"
    return {
        "written": bundle is not None,
        "choice": stays if bundle is None else choice.sentence,
        "bundle": str(current),
        "kind": manifest.kind,
        "model_version": manifest.model_version,
        "registered": manifest.registered,
        "valid_until": manifest.valid_until,
    }


@in_turn
def rollback(cluster: Cluster, settings: Settings, day: dt.date, now: dt.datetime, *, is_dry: bool = False) -> Record:
    """Go back to the version that served before this one, of whatever kind, and to its bundle; `day` is the latest night, for the history.

    `is_dry` says what it would go to and changes nothing. A rollback that was killed once its bundle was written is finished, not made
    twice. Raises ClockBehind as `export` does.
    """
    _refuse_clock_behind(cluster, day, now)
    store = open_store(settings, must_exist=True)
    root = bundles_of(cluster, settings)
    moving.adopt_approvals(store, cluster, settings)
    if is_dry:
        left = str(_served(cluster, settings).registered)
        back = models.served_before(store, cluster.name, MODELS, models.labelled(store, left))
        return {"champion": back.label, "night": back.night, "left": left, "bundle": str(resolve(root)), "is_dry": True}
    unfinished = moving.finish(store, root, bundles_kept(cluster))
    if unfinished is not None and unfinished.left is not None:
        left, back, bundle = unfinished.left, models.labelled(store, str(unfinished.served)), resolve(root)
    else:
        left = str(_served(cluster, settings).registered)
        leaving = models.labelled(store, left)
        back = models.served_before(store, cluster.name, MODELS, leaving)
        bundle = _pack(store, cluster, settings, day, back, now)
        champions_to_be = models.champions_after(store, leaving, back)
        move = Move(models.sortable(now), champions_to_be, bundle.name, served=back.label, left=left)
        moving.make(store, root, move, bundles_kept(cluster))
    return {"champion": back.label, "night": back.night, "left": left, "bundle": str(bundle), "is_dry": False}


@in_turn
def log_replay(cluster: Cluster, settings: Settings, document: Mapping[str, Any], report: Path, now: dt.datetime) -> Record:
    """Log the replay of a day as one run of the cluster's experiment, every predictor's numbers beside each other.

    Replays that could not be logged, because the tracking store was down, are logged first, from the folders beside `report`.
    """
    return _log_after_those_left(
        cluster,
        settings,
        report.with_name(f"{report.name}{_UNLOGGED}"),
        lambda store: _log_replay(store, cluster, document, report, now),
        lambda store, left: _catch_up_replay(store, cluster, left.with_suffix(""), now),
    )


def _log_after_those_left(
    cluster: Cluster, settings: Settings, mark: Path, log: Callable[[Store], str], catch_up: Callable[[Store, Path], str]
) -> Record:
    """Log one thing under its mark, after those whose marks still stand beside it; a mark goes when its thing is dealt with."""
    mark.touch()  # before the store is opened: what finds none is not forgotten
    store, caught_up = opened(cluster, settings), {}
    for left in sorted(mark.parent.glob(f"*{_UNLOGGED}")):
        if left != mark:
            caught_up[left.stem] = catch_up(store, left)
            left.unlink()
    run = log(store)
    mark.unlink()
    return {"run": run, "caught_up": caught_up}


def _catch_up_replay(store: Store, cluster: Cluster, report: Path, now: dt.datetime) -> str:
    try:
        _log_replay(store, cluster, read_document(report / "report.json"), report, now)
    except (ReportMissing, ReportDamaged) as error:
        return f"not logged: {error}"
    return "logged"


def _log_replay(store: Store, cluster: Cluster, document: Mapping[str, Any], report: Path, now: dt.datetime) -> str:
    day = str(document["day"])
    metrics = {
        metric_key(name, part, metric): value
        for name, slices in document["predictors"].items()
        for part, numbers in slices.items()
        if not is_of_somebody(part)
        for metric, value in numbers.items()
        if value is not None and metric != "jobs"
    }
    return log_replay_run(
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


@in_turn
def log_live(cluster: Cluster, settings: Settings, document: Mapping[str, Any], record: Path, now: dt.datetime) -> Record:
    """Log the live accuracy of a day as one step of the cluster's run `live accuracy`.

    Days that could not be logged, because the tracking store was down, are logged first, from the records beside `record`.
    """
    return _log_after_those_left(
        cluster,
        settings,
        record.with_suffix(_UNLOGGED),
        lambda store: _log_live(store, cluster, document, record, now),
        lambda store, left: _catch_up_live(store, cluster, left.with_suffix(record.suffix), now),
    )


def _catch_up_live(store: Store, cluster: Cluster, record: Path, now: dt.datetime) -> str:
    try:
        _log_live(store, cluster, json.loads(record.read_bytes()), record, now)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return f"not logged: {record} is gone or damaged ({error})"
    return "logged"


def _log_live(store: Store, cluster: Cluster, document: Mapping[str, Any], record: Path, now: dt.datetime) -> str:
    counts = ("jobs", "answered", "unanswered", "late", "before_log", "unanswered_share")
    numbers = {**{name: document[name] for name in counts}, "rejected_lines": document["served"]["rejected"]}
    numbers |= {name: value for name, value in document["all"].items() if name != "jobs"}
    metrics = {metric_key("live", name): float(value) for name, value in numbers.items() if value is not None}
    day = dt.date.fromisoformat(document["day"])
    return log_live_day(store, cluster.name, day, metrics=metrics, record=record, logged_at=now)


def _trained(cluster: Cluster, settings: Settings, day: dt.date, document: Mapping[str, Any]) -> dict[str, Night]:
    """Return what each model trained that night is, by kind, without those that were not: too few jobs had ended, or the fit failed."""
    folders = {kind: model_folder(settings, cluster, day, kind) for kind in MODELS}
    return {
        kind: _night(cluster, document, day, kind, folder) for kind, folder in folders.items() if (folder / "model.json").exists()
    }


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
            pseudonyms=pseudonyms_used(cluster, settings),
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
        if not is_of_somebody(part)
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
    found |= {
        metric_key("drift", one["kind"], one["name"]): one["value"] for one in document["drift"] if one["value"] is not None
    }
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


def _champions_at(
    store: Store, cluster: Cluster, settings: Settings, day: dt.date, document: Mapping[str, Any]
) -> dict[str, ModelVersion]:
    """Return the champion of each kind once what was approved up to the night has taken its place.

    That is the night's own version, or the latest of a night before it whose export never came.
    """
    found = standing_champions(store, cluster)
    trained = _trained(cluster, settings, day, document)
    for kind in MODELS:
        name = model_name(cluster.name, kind)
        own = models.find(store, trained[kind]) if kind in trained else None
        if own not in models.approved(store, name):
            waiting = models.latest_approved(store, name, before=day.isoformat())
            own = waiting if waiting is not None and (kind not in found or found[kind].night < waiting.night) else None
        if own is not None:
            found[kind] = models.promotion(store, own).champion
    return {kind: found[kind] for kind in MODELS if kind in found}


def _refuse_clock_behind(cluster: Cluster, day: dt.date, now: dt.datetime) -> None:
    """Raise ClockBehind where a true clock cannot say `now`: the bundle would be written as one that is no longer valid."""
    begins = dt.datetime.fromtimestamp(day_start_us(day, cluster.zone) / 1e6, dt.UTC)
    if cluster.clock == "calendar" and now < begins:
        raise ClockBehind(
            f"{cluster.name}: the clock says {now:%Y-%m-%d %H:%M} UTC, and the night of {day} cannot be before "
            f"{begins:%Y-%m-%d %H:%M} UTC. The bundle that serves was left as it is. Set this machine's clock, then export again."
        )


def _move(
    store: Store,
    cluster: Cluster,
    settings: Settings,
    champions_to_be: Mapping[str, ModelVersion],
    bundle: Path | None,
    before: Manifest | None,
    now: dt.datetime,
) -> None:
    """Let the aliases and, where there is a new one, the bundle be what was decided."""
    standing = standing_champions(store, cluster)
    champions: dict[str, str | None] = {v.name: v.version for kind, v in champions_to_be.items() if standing.get(kind) != v}
    without = [model_name(cluster.name, kind) for kind in MODELS if kind not in champions_to_be]
    champions |= {name: None for name in without if models.has_foreign_champion(store, name)}
    served = None
    if bundle is not None and (label := read_manifest(bundle).registered) is not None:
        is_new = before is None or before.registered != label or not models.is_serving(store, models.labelled(store, label))
        served = label if is_new else None
    if bundle is not None or champions:
        written = None if bundle is None else bundle.name
        move = Move(models.sortable(now), champions, written, served)
        moving.make(store, bundles_of(cluster, settings), move, bundles_kept(cluster))


def unlogged_nights(cluster: Cluster, settings: Settings) -> list[str]:
    """Return the nights whose models the registry has not been told of, or whose verdicts, oldest first."""
    return sorted(path.parent.name for path in (settings.models / cluster.name).glob(f"*/{_UNLOGGED}"))


def _unlogged(cluster: Cluster, settings: Settings, day: dt.date) -> Path:
    """Return the mark of a night whose models are not in the registry, or not approved, yet; it lies beside them."""
    return settings.models / cluster.name / day.isoformat() / _UNLOGGED


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
        bundles_of(cluster, settings),
        cluster=cluster,
        model=folder,
        state=state_of_night(cluster, settings, day),
        model_version=name,
        registered=registered,
        cut=_cut(cluster, day),
        created=now,
        pseudonyms=pseudonyms_used(cluster, settings),
        sign_key=None if cluster.export.sign_key is None else Path(settings.expand(cluster.export.sign_key)),
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
    for left in kept.parent.glob(".fetching-*"):  # of a process that was killed, whole or not: it is our turn
        shutil.rmtree(left)
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=kept.parent) as scratch:
            fetched = models.download(store, version, Path(scratch)) / MODEL
            _refuse_altered(version, fetched)
            fetched.rename(kept)
    _refuse_altered(version, kept)
    return kept


def _refuse_altered(version: ModelVersion, folder: Path) -> None:
    """Raise ModelAltered unless the folder holds the very files that were judged."""
    if not folder.is_dir() or (found := folder_sha256(folder)) != version.model_sha256:
        raise ModelAltered(
            f"{version.label}: the registry's copy is not the model that passed its gates (expected {version.model_sha256[:16]}, found "
            f"{found[:16] if folder.is_dir() else 'no model'}). Somebody altered it: what serves stays. See who can write the artifact "
            f"store, delete {folder} and the version, and train another night."
        )


def served_now(cluster: Cluster, settings: Settings) -> Manifest | None:
    """Return the manifest of the bundle that serves; None where none does, or it cannot be read."""
    try:
        return read_manifest(resolve(bundles_of(cluster, settings)))
    except BundleError:
        return None


def night_of(cluster: Cluster, manifest: Manifest) -> dt.date:
    """Return the night that a bundle knows the history of: the local day whose end is its cut."""
    return (moment_of(manifest.data_cut) - dt.timedelta(microseconds=1)).astimezone(cluster.zone).date()


def _served(cluster: Cluster, settings: Settings) -> Manifest:
    """Return the manifest of the bundle that serves; raises NoChampion where none does, or a baseline."""
    try:
        manifest = read_manifest(resolve(bundles_of(cluster, settings)))
    except BundleError as error:
        raise NoChampion(f"{cluster.name}: nothing serves yet: {error}") from error
    if manifest.kind not in MODELS:
        raise NoChampion(f"{cluster.name}: the baseline {manifest.kind} serves; there is no champion to roll back")
    return manifest


def _cut(cluster: Cluster, day: dt.date) -> dt.datetime:
    return dt.datetime.fromtimestamp(cut_us(day, cluster.zone) / 1e6, dt.UTC)
