"""Fits in a process of their own: the same bytes, and whatever ends that process ends one fit only. Fits are really killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from runcast.data.cluster import GbdtParameters, RuncastParameters, Training
from runcast.training import isolation
from runcast.training.errors import ConstantPredictor, FitFailed
from runcast.training.fitters import FITTERS
from runcast.training.forecast import Inputs
from runcast.training.isolation import fit_isolated
from runcast.training.kinds import fit

TRAINING = Training(
    min_jobs=500, gbdt=GbdtParameters(trees=20, leaves=15), runcast=RuncastParameters(trees=12, leaves=7, scored_rows=2000)
)
LONG = Training(min_jobs=500, gbdt=GbdtParameters(trees=20_000, leaves=63))  # a minute: killed long before


def users(jobs: int) -> np.ndarray:
    return np.array([None if n % 9 == 0 else f"user u{n % 9}" for n in range(jobs)], object)


def worker_pid() -> int:
    assert isolation._worker is not None
    return isolation._worker.process.pid


@pytest.mark.parametrize("name", FITTERS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_fit_is_the_one_of_this_process_to_the_byte(name: str, order: str, make_jobs: Callable) -> None:
    inputs, runtime_s = make_jobs(900)
    inputs = Inputs(inputs.names, np.asarray(inputs.values, order=order), np.where(runtime_s > 600, 7200.0, np.nan), users(900))
    ours, here = fit_isolated(name, inputs, runtime_s, TRAINING), FITTERS[name](inputs, runtime_s, TRAINING)
    assert (ours.kind, ours.columns, ours.content(), ours.files()) == (here.kind, here.columns, here.content(), here.files())


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGSEGV, r"^gbdt: the fit was killed by signal 11 \(SIGSEGV\)$"),
        (signal.SIGABRT, r"^gbdt: the fit was killed by signal 6 \(SIGABRT\)$"),  # how glibc ends a corrupted heap
        (signal.SIGKILL, r"^gbdt: the fit was killed by signal 9 \(SIGKILL\): by the kernel for want of memory, or by hand$"),
    ],
    ids=["crash", "corrupted heap", "out of memory"],
)
def test_killed_fit_is_a_named_error_and_the_next_fit_lives(
    number: signal.Signals, said: str, make_jobs: Callable, kill_fit: Callable
) -> None:
    with kill_fit("gbdt", number) as killed, pytest.raises(FitFailed, match=said):
        fit_isolated("gbdt", *make_jobs(900), LONG)
    assert len(killed) == 1
    assert fit_isolated("cart", *make_jobs(900), TRAINING).kind == "cart"


def test_killed_fit_is_answered_by_the_baseline_with_the_reason(make_jobs: Callable, kill_fit: Callable) -> None:
    with kill_fit("gbdt", signal.SIGSEGV):
        fitted = fit("gbdt", *make_jobs(900), LONG)
    assert fitted.rule.kind == "nearest_median"
    assert fitted.failure == "gbdt: the fit was killed by signal 11 (SIGSEGV)"
    assert fitted.fallback_reason == f"{fitted.failure}; nearest_median answers instead"


def test_refusal_of_a_fitter_stays_what_it_is(make_jobs: Callable) -> None:
    inputs, runtime_s = make_jobs(600)
    alike = Inputs(inputs.names, np.ones_like(inputs.values), inputs.hard_limit_s)
    with pytest.raises(ConstantPredictor, match="no feature splits the 525 training jobs"):
        fit_isolated("cart", alike, runtime_s, TRAINING)


def test_any_other_error_of_a_fit_is_named_with_its_kind(make_jobs: Callable) -> None:
    """ln of a runtime below 0 is NaN, which scikit-learn refuses."""
    inputs, runtime_s = make_jobs(600)
    with pytest.raises(FitFailed, match=r"^cart: the fit failed: ValueError: Input y contains NaN"):
        fit_isolated("cart", inputs, -runtime_s, TRAINING)
    pid = worker_pid()
    assert fit_isolated("cart", inputs, runtime_s, TRAINING).kind == "cart"
    assert worker_pid() == pid, "an error in Python ends no process"


def test_fit_that_takes_too_long_is_stopped(make_jobs: Callable) -> None:
    fit_isolated("cart", *make_jobs(600), TRAINING)
    pid = worker_pid()
    with pytest.raises(FitFailed, match=r"gbdt: the fit had not ended after 0\.5 s \(training\.fit_timeout_s\) and was stopped"):
        fit_isolated("gbdt", *make_jobs(900), LONG.model_copy(update={"fit_timeout_s": 0.5}))
    assert not Path(f"/proc/{pid}").exists()


def test_an_idle_worker_that_was_killed_is_started_again(make_jobs: Callable) -> None:
    fit_isolated("cart", *make_jobs(600), TRAINING)
    pid = worker_pid()
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert fit_isolated("cart", *make_jobs(600), TRAINING).kind == "cart"
    assert worker_pid() != pid


def test_interrupt_ends_the_fit_and_stays_an_interrupt(make_jobs: Callable, kill_fit: Callable) -> None:
    """As of ctrl-C in a terminal: both processes get it, the worker leaves it to this one."""
    both: list[int] = []

    def interrupt(pid: int) -> None:
        os.kill(pid, signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        both.append(pid)

    with pytest.raises(KeyboardInterrupt), kill_fit("gbdt", interrupt):
        fit_isolated("gbdt", *make_jobs(900), LONG)
    assert not Path(f"/proc/{both[0]}").exists()
    assert fit_isolated("cart", *make_jobs(600), TRAINING).kind == "cart"


CODE = """
import numpy as np
from runcast.data.cluster import Training
from runcast.training.forecast import Inputs
from runcast.training.isolation import fit_isolated
draw = np.random.default_rng(1)
inputs = Inputs(("a", "b"), draw.random((900, 2), np.float32), np.full(900, np.nan))
fit_isolated("gbdt", inputs, draw.random(900) * 1000 + 1, Training(gbdt={"trees": 10_000, "leaves": 63}))
"""


def test_fit_ends_with_the_process_that_asked_for_it(find_fit: Callable) -> None:
    """Also where that was killed: nobody is left to end the fit then."""
    asks = subprocess.Popen([sys.executable, "-c", CODE])
    try:
        pid = find_fit("gbdt", asks.pid)
        assert int(Path(f"/proc/{pid}/oom_score_adj").read_text()) >= 500, "the kernel takes the fit before the night"
    finally:
        asks.kill()
        asks.wait()
    until = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()
