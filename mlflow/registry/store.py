"""The connection to the tracking store.

The address is always set explicitly: the library's own default is an SQLite file in whatever the working directory is. Artifacts lie
below the home, as the default database does; only where the address names a server, they go where that one puts them.
SQLite takes one writer at a time: the journal is set to WAL, so that readers do not block it, and whatever logs waits and tries
again when the database is locked. More than a few clusters at once need PostgreSQL (see DECISIONS.md).
"""

import fcntl
import logging
import re
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import mlflow
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import SADeprecationWarning, SQLAlchemyError

from runcast.data.settings import Settings
from runcast.registry.answering import KEPT, shown, wait_for_answer, without_password
from runcast.registry.approvals import Approvals
from runcast.registry.errors import RegistryError, StoreUnavailable
from runcast.registry.slug import slug

LOCK_TRIES = 6  # with doubling waits from 0.5 s: about 15 s on top of the library's own 20 s busy timeout for each try

Result = TypeVar("Result")


@dataclass(frozen=True)
class Store:
    """An open tracking store, and what the home approved of it; `artifacts` is the folder of files, None where a server decides."""

    client: MlflowClient
    tracking_uri: str
    artifacts: Path | None
    approvals: Approvals

    def experiment_id(self, cluster: str) -> str:
        """Return the id of the cluster's experiment, made at the first call; safe when two processes make it at once."""
        name = f"runcast-{slug(cluster)}"
        found = self.client.get_experiment_by_name(name)
        if found is None:
            place = None if self.artifacts is None else (self.artifacts / slug(cluster)).as_uri()
            tags = {
                "runcast.cluster": cluster,
                "mlflow.note.content": f"Nightly runtime models of cluster `{cluster}`, one run per night and kind.",
            }
            try:
                return str(while_locked(lambda: self.client.create_experiment(name, artifact_location=place, tags=tags)))
            except MlflowException as error:
                found = self.client.get_experiment_by_name(name)
                if found is None:
                    raise StoreUnavailable(f"{self.tracking_uri}: the experiment {name} cannot be made: {error}") from error
        if found.lifecycle_stage == "deleted":
            self.client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)


def open_store(settings: Settings, *, must_exist: bool = False) -> Store:
    """Open the tracking store that the settings name, making the database where it is SQLite and absent, unless it `must_exist`.

    Also makes it the process's tracking store: the library looks logged models up through that one. Raises StoreUnavailable where
    trying again may help, RegistryError where it is no store, or not ours to use.
    """
    uri = settings.tracking_uri
    with told_when_unavailable(uri):
        try:
            return _open(uri, settings, must_exist)
        except (MlflowException, SQLAlchemyError, sqlite3.Error, ImportError, ValueError) as error:
            if _why_unavailable(error) is not None:
                raise
            raise RegistryError(
                f"the tracking store {shown(uri)} cannot be used ({_first_line(error, uri)}). Check MLFLOW_TRACKING_URI: unset for "
                "SQLite below the home, or sqlite:///FILE, postgresql://… or http://…; and a server's user, password or token."
            ) from None


def _open(uri: str, settings: Settings, must_exist: bool) -> Store:
    parts = urlsplit(uri)
    if parts.scheme in ("http", "https") and (not parts.hostname or parts.port == 0):  # `port` raises ValueError for what is none
        raise ValueError("names no server")
    if parts.scheme in ("", "file"):
        raise RegistryError(
            f"tracking store {uri!r}: MLflow 3 no longer keeps runs in plain folders. "
            f"Unset MLFLOW_TRACKING_URI for SQLite below the home, or give sqlite:///FILE, postgresql://… or http://…"
        )
    wait_for_answer(uri)
    mlflow.set_tracking_uri(uri)
    mlflow.set_registry_uri(uri)
    for chatty in ("alembic", "mlflow.utils.environment"):  # schema steps at the first use; no pip in a uv venv
        logging.getLogger(chatty).setLevel(logging.ERROR)
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # prints the trace of what it raises
    artifacts = None if urlsplit(uri).scheme in ("http", "https") else settings.home / "mlartifacts"
    approvals = Approvals(settings.home / "approvals")
    if not uri.startswith("sqlite:"):
        return Store(_connect(uri), uri, artifacts, approvals)
    database = _database(uri)
    if must_exist and not database.exists():
        raise RegistryError(f"{database}: no tracking store is there, so nothing was ever registered. Check MLFLOW_TRACKING_URI.")
    database.parent.mkdir(parents=True, exist_ok=True)
    with database.with_name(database.name + ".lock").open("w") as lock:  # two processes must not make the tables at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        client = _connect(uri)
        with sqlite3.connect(database, timeout=60) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        connection.close()
    return Store(client, uri, artifacts, approvals)


def _database(uri: str) -> Path:
    """Return the file of an SQLite address; raises ValueError where it names none."""
    name = unquote(uri.partition(":///")[2].partition("?")[0])
    if not name or name == ":memory:":
        raise ValueError("names no file")
    return Path(name)


def _connect(uri: str) -> MlflowClient:
    with warnings.catch_warnings():  # MLflow 3.17 declares its tables in a way that SQLAlchemy 2.1 calls deprecated
        warnings.simplefilter("ignore", SADeprecationWarning)
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        client.search_registered_models(max_results=1)  # opens the registry's tables too, or says that there is no server
    return client


@contextmanager
def told_when_unavailable(uri: str) -> Iterator[None]:
    """Raise StoreUnavailable for what the library, SQLAlchemy or SQLite say where the store does not answer or cannot be written.

    Other errors pass as they are.
    """
    try:
        yield
    except (MlflowException, SQLAlchemyError, sqlite3.Error) as error:
        why = _why_unavailable(error)
        if why is None:
            raise
        message = f"{shown(uri)}: {why} ({_first_line(error, uri)}). {KEPT}"
        raise StoreUnavailable(message) from None  # the cause would show the password in a task's log


def _why_unavailable(error: Exception) -> str | None:
    return next((why for pattern, why in _UNAVAILABLE if re.search(pattern, str(error), re.IGNORECASE)), None)


def _first_line(error: Exception, uri: str) -> str:
    return without_password(next(iter(str(error).strip().splitlines()), type(error).__name__), uri)[:300]


#: What is said where trying again later may help, by SQLite, PostgreSQL's driver and MLflow's client, and in our words.
_UNAVAILABLE = (
    (r"database is locked", "the tracking database stays locked by another process"),
    (r"database or disk is full|No space left", "its disk is full"),
    (r"readonly database|read-only", "it cannot be written"),
    (r"disk I/O error|unable to open database file", "its disk refuses"),
    (
        r"failed with exception|Max retries exceeded|Connection refused|could not connect|connection to server|server closed",
        "does not answer",
    ),
    (r"failed with error code (429|5\d\d)", "does not answer as it should"),
)


def while_locked(action: Callable[[], Result], sleep: Callable[[float], None] = time.sleep) -> Result:
    """Return `action()`, tried again with doubling waits while SQLite says that the database is locked.

    Only for logging: each action must be safe to repeat. Raises StoreUnavailable where it stays locked.
    """
    tries = 0
    while True:
        try:
            return action()
        except MlflowException as error:
            tries += 1
            if "database is locked" not in str(error):
                raise
            if tries == LOCK_TRIES:
                raise StoreUnavailable(f"the tracking database stays locked ({error}). {KEPT}") from error
        sleep(0.5 * 2 ** (tries - 1))
