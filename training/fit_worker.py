"""The worker process of isolation.py: fits what it is sent, one fit after the other, until the other end of its socket is closed.

    python -m runcast.training.fit_worker DESCRIPTOR PARENT

`ps` and the kernel's messages call it "fit gbdt" while it fits gbdt. It ends with its parent, however that ends.
"""

import ctypes
import faulthandler
import json
import mmap
import os
import signal
import socket
import sys
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from runcast.data.cluster import Training
from runcast.data.errors import RuncastError
from runcast.training.fitters import FITTERS
from runcast.training.forecast import Floats, Inputs
from runcast.training.messages import receive, send

_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15  # of prctl(2)
#: Of -1000 to 1000: when memory runs out, the kernel ends the fit and not the night, nor what else runs on the machine.
_OOM_SCORE = "500"


def main(descriptor: int, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal's ctrl-C: the parent decides, and ends this process
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    faulthandler.enable()
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
    with socket.socket(fileno=descriptor) as channel, suppress(EOFError, ConnectionError):
        while True:
            content, (memory,) = receive(channel)
            send(channel, _reply(json.loads(content), memory))
            _libc.malloc_trim(0)  # an idle worker holds no more than its libraries


def _reply(request: dict[str, Any], memory: int) -> dict[str, Any]:
    """Return the fitted rule as its files, or the error that the fit ended in."""
    _name(f"fit {request['fitter']}")
    try:
        inputs, runtime_s = _read(memory, tuple(request["names"]), request["jobs"])
        if request["owners"] is not None:
            inputs = replace(inputs, owner=np.array(request["owners"], object))
        rule = FITTERS[request["fitter"]](inputs, runtime_s, Training.model_validate(request["training"]))
        return {"kind": rule.kind, "columns": rule.columns, "content": rule.content(), "files": rule.files()}
    except Exception as error:  # noqa: BLE001 whatever it is, it is this fit's: the reply names it, the log has its traceback
        if not isinstance(error, RuncastError):
            traceback.print_exc()
        return {"error": type(error).__name__, "message": str(error)}
    finally:
        _name("fit idle")


def _read(memory: int, names: tuple[str, ...], jobs: int) -> tuple[Inputs, Floats]:
    """Return the inputs and runtimes (s) that lie in shared memory, without a copy, and close its descriptor."""
    size = os.fstat(memory).st_size
    shared = mmap.mmap(memory, size, access=mmap.ACCESS_COPY) if size else b""
    os.close(memory)
    values = np.frombuffer(shared, np.float32, jobs * len(names)).reshape(len(names), jobs).T
    limits = np.frombuffer(shared, np.float64, 2 * jobs, 4 * jobs * len(names))
    return Inputs(names, values, limits[:jobs]), limits[jobs:]


def _name(text: str) -> None:
    _libc.prctl(_PR_SET_NAME, text.encode()[:15])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
