"""Talks to the service over its Unix socket: what every scheduler's side of Runcast uses. Standard library only."""

import http.client
import json
import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from runcast.data.errors import Exit, RuncastError

Job = Mapping[str, Any]
Forecast = dict[str, Any]

REFUSED = (400, 413, 422)  # what was sent is at fault; every other status says nothing of it
LARGEST_ANSWER_BYTES = 64 << 20  # of a batch; one forecast takes about 200 bytes
JOBS_AT_ONCE = 500  # in one request; the service bounds a body's size
_WORD = re.compile(r"[A-Za-z0-9_.:/@+-]{1,64}")  # as in runcast.lua: it is written into comments and annotations


class ServiceError(RuncastError):
    """The service gave no usable answer; `reason` is one of refused, timeout, rubbish, status."""

    exit_code = Exit.UNAVAILABLE

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


class RefusedError(ServiceError):
    """The service understood the request and refused it: a field of it is wrong."""

    exit_code = Exit.REFUSED


class Client:
    """Asks and tells the service behind one Unix socket; `timeout_s` bounds a request from connecting to the last byte of its answer."""

    def __init__(self, socket_path: Path, timeout_s: float) -> None:
        self._socket_path = socket_path
        self._timeout_s = timeout_s

    def predict(self, job: Job) -> Forecast:
        """Return the forecast for one job; raises ServiceError."""
        return read_forecast(self._post("/v1/predict", dict(job)))

    def predict_many(self, jobs: Sequence[Job]) -> list[Forecast | None]:
        """Return a forecast for each job, None where the service refuses that job; raises ServiceError."""
        forecasts: list[Forecast | None] = []
        for first in range(0, len(jobs), JOBS_AT_ONCE):
            forecasts += self._some(jobs[first : first + JOBS_AT_ONCE])
        return forecasts

    def tell(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Hand over events; on return the service has kept them. Raises ServiceError."""
        self._post("/v1/events", [dict(event) for event in events])

    def _some(self, jobs: Sequence[Job]) -> list[Forecast | None]:
        try:
            answer = self._post("/v1/predict", [dict(job) for job in jobs])
        except RefusedError:
            # One bad job fails the list: ask for halves, so that the others get their forecast.
            if len(jobs) == 1:
                return [None]
            half = len(jobs) // 2
            return self._some(jobs[:half]) + self._some(jobs[half:])
        if not isinstance(answer, list) or len(answer) != len(jobs):
            raise ServiceError("rubbish", f"expected {len(jobs)} forecasts")
        return [read_forecast(one) for one in answer]

    def _post(self, path: str, content: Any) -> Any:
        connection = _UnixConnection(self._socket_path, self._timeout_s)
        try:
            connection.request("POST", path, json.dumps(content).encode(), {"Content-Type": "application/json"})
            response = connection.getresponse()
            body = response.read(LARGEST_ANSWER_BYTES)
        except TimeoutError as error:
            raise ServiceError("timeout", f"{self._socket_path}: no answer within {self._timeout_s:g} s") from error
        except http.client.HTTPException as error:
            raise ServiceError("rubbish", f"{self._socket_path}: {error!r}") from error
        except OSError as error:
            raise ServiceError("refused", f"{self._socket_path}: {error.strerror or error}") from error
        finally:
            connection.close()
        return _read_answer(response.status, body)


class _BoundedSocket(socket.socket):
    """A Unix socket on which everything together ends at a deadline: an answer that trickles in resets no timeout."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self._deadline_s = time.monotonic() + timeout_s
        self.settimeout(timeout_s)

    def sendall(self, *arguments: Any) -> None:
        self._use_what_is_left()
        super().sendall(*arguments)

    def recv_into(self, *arguments: Any) -> int:
        self._use_what_is_left()
        return super().recv_into(*arguments)

    def _use_what_is_left(self) -> None:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self.settimeout(left_s)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("runcast")
        self._path, self._timeout_s = path, timeout_s

    def connect(self) -> None:
        self.sock = _BoundedSocket(self._timeout_s)
        self.sock.connect(str(self._path))


def _read_answer(status: int, body: bytes) -> Any:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ServiceError("rubbish", f"status {status}, not JSON: {body[:60]!r}") from error
    if status == 200:
        return answer
    problem = answer.get("error") if isinstance(answer, dict) else None
    text = problem.get("message") if isinstance(problem, dict) else problem
    shown = str(text)[:200].encode("unicode_escape").decode()  # in one line of a log, whatever it holds
    kind = RefusedError if status in REFUSED else ServiceError
    raise kind("status", f"{status}: {shown}")


def read_forecast(answer: Any) -> Forecast:
    """Return the answer if it is a forecast: p50_s and p90_s finite, in order, at least 0; raises ServiceError.

    Of what else it says, only what is as the service would say it is left in it: the caller writes it into comments and annotations.
    """
    if not isinstance(answer, dict):
        raise ServiceError("rubbish", f"expected a forecast, found {str(answer)[:60]!r}")
    p50_s, p90_s = answer.get("p50_s"), answer.get("p90_s")
    if not _is_seconds(p50_s) or not _is_seconds(p90_s) or p90_s < p50_s:
        raise ServiceError("rubbish", f"p50_s and p90_s are not seconds in order: {p50_s!r}, {p90_s!r}")
    return {name: value for name, value in answer.items() if name not in _IS_SENSIBLE or _IS_SENSIBLE[name](value)}


def _is_seconds(value: Any) -> TypeGuard[float]:
    return _is_number(value) and 0 <= value < 1e10


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and _WORD.fullmatch(value) is not None


_IS_SENSIBLE: Mapping[str, Callable[[Any], bool]] = {
    "point_s": _is_seconds,
    "confidence": lambda value: _is_number(value) and 0 <= value <= 1,
    "n_history": lambda value: isinstance(value, int) and _is_number(value) and 0 <= value < 1e9,
    "source": _is_word,
    "model_version": _is_word,
}
