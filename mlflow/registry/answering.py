"""Whether anybody answers at the tracking store's address, asked before the library is.

MLflow's client tries a server for four minutes and a database for two, without a word. Here the first try that fails says what is
waited for, and a few more follow: who runs a command by hand learns of it in seconds, and a night in Airflow is tried again later anyway.
"""

import logging
import socket
import time
from collections.abc import Callable
from http.client import HTTPException
from ssl import SSLError
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, urlsplit
from urllib.request import urlopen

from mlflow.environment_variables import MLFLOW_HTTP_REQUEST_MAX_RETRIES

from runcast.registry.errors import StoreUnavailable

ANSWER_S = 4.0  # a server that has not answered by then is tried again
KEPT = (
    "What the night made is kept, and the bundle serves on. See that it is up, then run this again; "
    "what a night could not tell it the next night does."
)
_ASKED = "/api/2.0/mlflow/registered-models/search?max_results=1"  # needs its database; who is not allowed it is answered too
_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}

_told = logging.getLogger("runcast.registry")


def wait_for_answer(uri: str, sleep: Callable[[float], None] = time.sleep) -> None:
    """Return once somebody answers at `uri`, at once for a store that is a file; raises StoreUnavailable.

    Tries as often again as MLFLOW_HTTP_REQUEST_MAX_RETRIES says (3 where it is not set), with doubling waits from a second.
    """
    tries = MLFLOW_HTTP_REQUEST_MAX_RETRIES.get()
    for number in range(tries + 1):
        why = _why_not(uri)
        if why is None:
            return
        if number == 0 and tries > 0:
            wait_s = 2**tries - 1
            _told.warning("waiting for the tracking store at %s, which %s; trying for another %d s", shown(uri), why, wait_s)
        if number < tries:
            sleep(2.0**number)
    raise StoreUnavailable(f"{shown(uri)}: {why}. {KEPT}")


def shown(uri: str) -> str:
    """Return an address as it may be told."""
    return without_password(uri, uri)


def without_password(text: str, uri: str) -> str:
    """Return `text` without the password of the address `uri`."""
    password = urlsplit(uri).password
    return text if not password else text.replace(f":{password}@", ":…@")


def _why_not(uri: str) -> str | None:
    """Say why nobody answers, None where somebody does or there is nobody to ask."""
    parts = urlsplit(uri)
    if parts.scheme in ("http", "https"):
        return _why_no_server(parts)
    port = parts.port or _PORTS.get(parts.scheme.partition("+")[0])
    return None if parts.hostname is None or port is None else _why_no_port(parts.hostname, port)


def _why_no_server(parts: SplitResult) -> str | None:
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
    try:
        urlopen(address + _ASKED, timeout=ANSWER_S).close()
    except HTTPError as error:
        error.close()
        return f"does not answer as it should ({error.code} {error.reason})" if error.code == 429 or error.code >= 500 else None
    except (OSError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        return (
            None if isinstance(reason, SSLError) else f"does not answer ({_said(reason)})"
        )  # the library's settings decide on TLS
    return None


def _why_no_port(host: str, port: int) -> str | None:
    try:
        socket.create_connection((host, port), timeout=ANSWER_S).close()
    except OSError as error:
        return f"does not answer ({_said(error)})"
    return None


def _said(reason: object) -> str:
    return str(getattr(reason, "strerror", None) or reason or type(reason).__name__)
