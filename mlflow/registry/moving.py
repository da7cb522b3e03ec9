"""The champion aliases and the bundle that serves move together.

Aliases are kept by the tracking store and the link `current` by the disk: no single step changes both. A move is therefore decided
first and written down, whole and flushed, beside the bundles; then it is made, and the note goes last. Whoever dies between leaves
the note, and whoever opens the cluster's registry next finishes the move before anything else. A scheduler that reads the
bundles alone sees the old bundle until then, or the new one.
"""

import contextlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

from runcast.data.cluster import Cluster
from runcast.data.errors import StageBusy
from runcast.data.refusals import told_where_refused
from runcast.data.settings import Settings
from runcast.data.turns import take_turn
from runcast.evaluation.errors import ReportDamaged, ReportMissing
from runcast.evaluation.gates import GateReport
from runcast.registry import models
from runcast.registry.reports import read_report, read_verdict
from runcast.registry.slug import model_name
from runcast.registry.store import Store, open_store, told_when_unavailable
from runcast.scheduler.bundle import make_current, read_manifest, resolve
from runcast.scheduler.errors import BundleError
from runcast.training.kinds import MODELS

NOTE = ".moving.json"
TURN_S = 120.0  # another night's registry stage takes seconds

_told = logging.getLogger("runcast.registry")

P = ParamSpec("P")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Move:
    """What is to be, from `at` (UTC, as models.sortable writes it).

    `champions`: by registered model the version that its alias names, None for no version. `bundle`: the one that serves; None: it
    stays. `served`: the label of its version, where that has not served before it. `left`: the label of a version rolled back.
    """

    at: str
    champions: Mapping[str, str | None]
    bundle: str | None = None
    served: str | None = None
    left: str | None = None


def make(store: Store, root: Path, move: Move, keep: int) -> None:
    """Make a move of the bundles below `root`: all of it, whoever comes next. `keep` bundles stay, the one that serves among them."""
    root.mkdir(parents=True, exist_ok=True)
    beside = root / f"{NOTE}.part"
    with beside.open("w", encoding="utf-8") as file:
        json.dump(asdict(move), file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(root / NOTE)  # from here on the move has happened
    finish(store, root, keep)


def finish(store: Store, root: Path, keep: int) -> Move | None:
    """Finish the move that a killed process left, and return it; None where there is none.

    A move to a bundle that is no longer there, or damaged, is given up, and so is one whose note is damaged: nothing of it is made.
    """
    note = root / NOTE
    if not note.exists():
        return None
    try:
        move = Move(**json.loads(note.read_bytes()))
    except (ValueError, TypeError, RecursionError) as error:
        _told.warning("%s: damaged (%s); the move it told of is given up, the next export makes its own", note, error)
        note.unlink()
        return None
    if move.bundle is not None:
        try:
            read_manifest(root / move.bundle)
        except BundleError:
            note.unlink()
            return None
    if move.left is not None:
        models.mark_left(store, move.left, move.at)
    for name, version in move.champions.items():
        models.name_champion(store, name, version)
    if move.bundle is not None:
        make_current(root, move.bundle, keep)
    if move.served is not None:
        models.mark_served(store, move.served, move.at)
    note.unlink()
    return move


def in_turn(action: Callable[Concatenate[Cluster, Settings, P], Result]) -> Callable[Concatenate[Cluster, Settings, P], Result]:
    """Let one process at a time work on a cluster's registry and bundles, and say so where the tracking store cannot be had."""

    @wraps(action)
    def run(cluster: Cluster, settings: Settings, /, *more: P.args, **named: P.kwargs) -> Result:
        lock = settings.home / "locks" / f"{quote(cluster.name, safe='')}.registry"
        with (
            told_where_refused(f"{cluster.name}: the registry"),
            take_turn(lock, f"{cluster.name}: the registry is being changed", TURN_S, StageBusy),
            told_when_unavailable(settings.tracking_uri),
        ):
            return action(cluster, settings, *more, **named)

    return run


def opened(cluster: Cluster, settings: Settings, *, must_exist: bool = False) -> Store:
    """Open the tracking store, and finish the move that a killed process left; for those whose turn it is."""
    store = open_store(settings, must_exist=must_exist)
    adopt_approvals(store, cluster, settings)
    finish(store, bundles_of(cluster, settings), bundles_kept(cluster))
    return store


def adopt_approvals(store: Store, cluster: Cluster, settings: Settings) -> None:
    """Begin the record of approvals of a home from before there was one, from its own reports and the bundle that serves."""
    if store.approvals.has_begun(cluster.name):
        return

    def report_of(version: models.ModelVersion) -> GateReport | None:
        try:
            return read_verdict(read_report(cluster, settings, date.fromisoformat(version.night)), version.kind)
        except (ReportMissing, ReportDamaged, ValueError, KeyError, TypeError):
            return None

    serves = None
    with contextlib.suppress(BundleError):
        serves = read_manifest(resolve(bundles_of(cluster, settings))).registered
    for kind in MODELS:
        models.adopt(store, model_name(cluster.name, kind), report_of, serves)
    store.approvals.begin(cluster.name)


def bundles_kept(cluster: Cluster) -> int:
    """Return how many bundles stay, the one that serves among them."""
    return cluster.retention.bundles + 1


def bundles_of(cluster: Cluster, settings: Settings) -> Path:
    return settings.bundles / cluster.name
