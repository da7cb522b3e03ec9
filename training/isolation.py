"""Fits in a worker process, so that a crash or the out-of-memory killer ends one fit and not the night.

The worker (fit_worker.py) is started at a process's first fit, serves its fits one after the other, and is started again after one that
died. It gets the inputs in shared memory and returns the rule as the files a model is stored as: what is judged is what is stored.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

import numpy as np

from runcast.data.cluster import Training
from runcast.training.errors import ConstantPredictor, FitFailed, NotEnoughJobs
from runcast.training.forecast import Floats, Inputs
from runcast.training.messages import receive, send
from runcast.training.scoring import RULES, Rule

#: What a fitter raises on purpose; any other error in the worker is a failed fit.
_REFUSALS = {error.__name__: error for error in (ConstantPredictor, NotEnoughJobs)}


def fit_isolated(name: str, inputs: Inputs, runtime_s: Floats, training: Training) -> Rule:
    """Return what the fitter `name` (fitters.py) makes of ended jobs ordered by end time, the same to the byte as in this process.

    Raises what the fitter refuses by (ConstantPredictor, NotEnoughJobs), and FitFailed where the fit was killed by a signal, ended in any
    other error, or took longer than `training.fit_timeout_s`.
    """
    with _lock:
        try:
            reply = _running().ask(name, inputs, runtime_s, training)
        except BaseException:  # an interrupt too: what the worker says next would be of this fit
            _end()
            raise
    if "error" in reply:
        if reply["error"] in _REFUSALS:
            raise _REFUSALS[reply["error"]](reply["message"])
        raise FitFailed(f"{name}: the fit failed: {reply['error']}: {reply['message']}")
    rule: Rule = RULES[reply["kind"]].read(reply["kind"], tuple(reply["columns"]), reply["content"], reply["files"])
    return rule


class _Worker:
    """A started worker process and the socket to it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "runcast.training.fit_worker", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what a library prints must not stand in the JSON of a command
                pass_fds=[theirs.fileno()],
            )

    def ask(self, name: str, inputs: Inputs, runtime_s: Floats, training: Training) -> dict[str, Any]:
        """Return the worker's reply; raises FitFailed where it dies or does not reply in time."""
        request = {"fitter": name, "names": inputs.names, "jobs": len(inputs), "training": training.model_dump(mode="json")}
        request["owners"] = None if inputs.owner is None else inputs.owner.tolist()
        self._socket.settimeout(training.fit_timeout_s)
        memory = os.memfd_create("runcast-fit")
        try:
            with open(memory, "wb", closefd=False) as file:
                for array in (inputs.values.T, inputs.hard_limit_s, runtime_s):  # by column, as the worker reads them
                    file.write(np.ascontiguousarray(array).data)
            send(self._socket, request, memory)
            reply: dict[str, Any] = json.loads(receive(self._socket)[0])
        except TimeoutError:
            raise FitFailed(
                f"{name}: the fit had not ended after {training.fit_timeout_s:g} s (training.fit_timeout_s) and was stopped"
            ) from None
        except (EOFError, ConnectionError):
            raise FitFailed(f"{name}: the fit {_ended(self.process.wait())}") from None
        finally:
            os.close(memory)
        return reply

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._socket.close()


def _ended(code: int) -> str:
    """Say how a process ended, by its return code."""
    if code >= 0:
        return f"ended its process with exit code {code}; its messages stand in the log"
    if code == -signal.SIGKILL:
        return "was killed by signal 9 (SIGKILL): by the kernel for want of memory, or by hand"
    with suppress(ValueError):
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"was killed by signal {-code}"


_lock = threading.Lock()
_worker: _Worker | None = None


def _running() -> _Worker:
    """Return the worker of this process, a new one where there is none or it has ended."""
    global _worker
    if _worker is not None and _worker.process.poll() is not None:
        _end()
    if _worker is None:
        _worker = _Worker()
    return _worker


def _end() -> None:
    global _worker
    if _worker is not None:
        _worker.end()
        _worker = None


def _forget() -> None:
    """Leave the parent's worker to the parent: a forked process starts its own."""
    global _worker, _lock
    _worker, _lock = None, threading.Lock()


atexit.register(_end)
os.register_at_fork(after_in_child=_forget)
