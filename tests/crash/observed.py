"""What is to be seen in a home: all of it, with the names that differ from run to run made one; and what a reader sees at once."""

import hashlib
import json
import re
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nights import ASKED, CLUSTER

from runcast.data.lake import Lake
from runcast.data.settings import Settings, read_settings
from runcast.scheduler.bundle import read_manifest, resolve
from runcast.scheduler.predictor import Predictor

Seen = dict[str, Any]

#: Names by chance or by the clock. A run and a logged model are told by their artifacts, which lie below the name.
_RUN_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
_MOMENT = re.compile(r"\d{8}T\d{6}Z|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00")
#: Files whose bytes hold a clock or a drawn id; what they mean is compared another way, or they mean nothing.
_BY_MEANING = re.compile(
    r"^mlflow\.db|^report/index\.html$|^quality/.*\.html$|^quality/.*results/|^nights/|^log_files/|/MLmodel$|\.lock$|^locks/|/\.locks/"
)


def everything(settings: Settings) -> Seen:
    """Return every file below the home with its hash, and what the registry and the serving bundle hold."""
    return {"files": files(settings.home), "registry": registry(settings), "bundle": serving(settings)}


def files(home: Path) -> Seen:
    """Return how often each file is there, by its name and hash, and each folder that is empty.

    Of the bundles only what is no bundle is told: the one that serves is looked at by itself, and which older ones are kept
    depends on how many were written.
    """
    found: Seen = {}
    for path in sorted(home.rglob("*")):
        name = path.relative_to(home).as_posix()
        if re.match(r"mlflow\.db-|bundles/[^/]+/(current|\d)", name) or (path.is_dir() and any(path.iterdir())):
            continue
        content = "empty folder" if path.is_dir() else ""
        if path.is_file() and name.startswith("approvals/"):
            content = _plain(path.read_text())  # the moment of a rollback
        elif path.is_file() and not _BY_MEANING.search(name):
            content = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        key = f"{_plain(name)} {content}"
        found[key] = found.get(key, 0) + 1
    return found


def registry(settings: Settings) -> Seen:
    """Return what the tracking store holds, as its tables say; ids are replaced by what they stand for."""
    with sqlite3.connect(f"file:{settings.home / 'mlflow.db'}?mode=ro", uri=True) as database:
        rows = {
            "aliases": database.execute("select name, alias, version from registered_model_aliases").fetchall(),
            "models": database.execute("select name, description from registered_models").fetchall(),
            "versions": database.execute(
                "select v.name, v.version, v.status, v.current_stage, v.description, r.name from model_versions v "
                "left join runs r on r.run_uuid = v.run_id"
            ).fetchall(),
            "version_tags": database.execute("select name, version, key, value from model_version_tags").fetchall(),
            "runs": database.execute("select name, status, lifecycle_stage from runs").fetchall(),
            "params": database.execute("select r.name, p.key, p.value from params p join runs r using (run_uuid)").fetchall(),
            "metrics": database.execute(
                "select r.name, m.key, m.value, m.step, m.timestamp from metrics m join runs r using (run_uuid)"
            ).fetchall(),
            "tags": database.execute("select r.name, t.key, t.value from tags t join runs r using (run_uuid)").fetchall(),
            "inputs": database.execute(
                "select d.name, d.digest from inputs i join datasets d on d.dataset_uuid = i.source_id"
            ).fetchall(),
            "logged_models": database.execute("select name, status, lifecycle_stage from logged_models").fetchall(),
        }
        whole = database.execute("pragma integrity_check").fetchone()[0]
    database.close()
    return {"integrity": whole} | {
        table: sorted(_plain(json.dumps(row)) for row in found if "runcast.rolled_back" not in row)
        for table, found in rows.items()
    }


def serving(settings: Settings) -> Seen:
    """Return what the serving bundle is and answers, read as a scheduler's host reads it."""
    bundle = resolve(settings.bundles / CLUSTER)
    manifest = read_manifest(bundle)
    predictor = Predictor.load(settings.bundles / CLUSTER, may_be_expired=False)
    told = {name: getattr(manifest, name) for name in ("kind", "model_version", "registered", "data_cut")}
    return told | {
        "files": sorted(f"{file.path} {file.sha256}" for file in manifest.files),
        "answers": [predictor.predict(job) for job in ASKED],
    }


def jobs(settings: Settings) -> str:
    """Return a hash of every job that a reader of the lake gets."""
    table = Lake(settings.lake).read_jobs(CLUSTER)
    return hashlib.sha256(repr(table.to_pydict()).encode()).hexdigest()


def faults_at_once(settings: Settings, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Say what a reader may not see at any moment: half a bundle, half a load, or an alias and a bundle that do not belong together."""
    faults = []
    now = serving(settings)
    if now not in (before["bundle"], after["bundle"]):
        faults.append(f"the bundle that serves is neither the old nor the new one: {now}")
    if jobs(settings) not in (before["jobs"], after["jobs"]):
        faults.append("the lake's jobs are neither the old nor the new ones")
    found = registry(settings)
    if found["integrity"] != "ok":
        faults.append(f"the tracking store is damaged: {found['integrity']}")
    faults += pair_faults(settings, found, now)
    for folder in sorted((settings.models / CLUSTER).glob("*/[!.]*")):
        if not (folder / "model.json").exists():
            faults.append(f"{folder.relative_to(settings.home)} is half a model")
    return faults


def pair_faults(settings: Settings, found: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Say where the champion of the kind that serves is another version than the bundle's, and nothing says that it is being moved."""
    aliases = {tuple(json.loads(row)[:2]): json.loads(row)[2] for row in found["aliases"]}
    if now["registered"] is None:
        return []
    name, _, version = now["registered"].rpartition("/")
    champion = aliases.get((name, "champion"))
    if str(champion) != version and not (settings.bundles / CLUSTER / ".moving.json").exists():
        return [f"{now['registered']} serves, the alias names {name}/{champion}"]
    return []


def differences(expected: Mapping[str, Any], found: Mapping[str, Any], at: str = "") -> list[str]:
    """Say where two observations differ, each place once."""
    said: list[str] = []
    for key in sorted({*expected, *found}):
        one, other, place = expected.get(key), found.get(key), f"{at}{key}"
        if one == other:
            continue
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            said += differences(one, other, f"{place}: ")
        elif isinstance(one, list) and isinstance(other, list):
            said += [f"{place}: missing {row}" for row in one if one.count(row) > other.count(row)]
            said += [f"{place}: too many {row}" for row in other if other.count(row) > one.count(row)]
        else:
            said.append(f"{place}: expected {one!r}, found {other!r}")
    return sorted(set(said))


def observed() -> Seen:
    settings = read_settings()
    return everything(settings) | {"jobs": jobs(settings)}


def _plain(text: str) -> str:
    return _MOMENT.sub("MOMENT", _RUN_ID.sub("ID", text))
