"""One run of a command whose output is a log: without a shell, bounded in time and size, judged by exit code and standard error."""

import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from runcast.data.errors import CollectFailed, Quoted

_PIECE_BYTES = 1 << 18
_ERRORS_BYTES = 1 << 16  # of standard error that are judged; the rest is read and dropped


@dataclass(frozen=True)
class Limits:
    """What a command may take, and which lines on its standard error are no fault (regular expressions)."""

    timeout_s: float
    output_bytes: float
    harmless_errors: tuple[str, ...] = ()


def run_command(command: Sequence[str], environment: Mapping[str, str], limits: Limits, write: Callable[[bytes], object]) -> None:
    """Run a command to its end and hand its standard output to `write`, piece by piece; `environment` is all that it gets.

    Raises CollectFailed where it cannot be started, takes longer or prints more than `limits` allow, ends with another code than 0,
    or writes to standard error what is not harmless. It and all processes of its group are gone when this returns.
    """
    name = " ".join(command)[:200]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            cwd="/",
            start_new_session=True,  # a group of its own, which can be ended as a whole
            bufsize=0,
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise CollectFailed(
            f"{name!r} cannot be started ({why}). PATH is {environment.get('PATH', '')!r}: "
            "name the program in full in source.collect.command, or install it."
        ) from None
    try:
        deadline = time.monotonic() + limits.timeout_s
        errors = _drain(process, name, limits, deadline, write)
        try:
            code = process.wait(max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            raise _too_slow(name, limits) from None
    finally:
        _end(process)
    said = [line for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    faults = [line for line in said if not any(re.search(pattern, line) for pattern in limits.harmless_errors)]
    if code or faults:
        ended = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
        wrote = f"; standard error: {Quoted(' / '.join(faults or said))}" if said else ", and said nothing on standard error"
        hint = "" if code else " Lines that are no fault can be named in source.collect.harmless_errors."
        raise CollectFailed(f"{name!r} {ended}{wrote}. What it printed is not read, what was fetched before stays.{hint}")


def _drain(
    process: subprocess.Popen[bytes], name: str, limits: Limits, deadline: float, write: Callable[[bytes], object]
) -> bytes:
    """Read both outputs to their ends; returns the beginning of standard error."""
    errors, size = b"", 0
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            left_s = deadline - time.monotonic()
            ready = selector.select(left_s) if left_s > 0 else []
            if not ready:
                raise _too_slow(name, limits)
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE_BYTES)
                if not piece:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stderr:
                    errors += piece[: _ERRORS_BYTES - len(errors)]
                else:
                    size += len(piece)
                    if size > limits.output_bytes:
                        raise CollectFailed(
                            f"{name!r} printed more than {limits.output_bytes / 2**20:g} MiB and was ended. What it printed is not read. "
                            "Raise source.collect.output_mib_at_most where a day's log is so large."
                        )
                    write(piece)
    return errors


def _too_slow(name: str, limits: Limits) -> CollectFailed:
    return CollectFailed(
        f"{name!r} took longer than {limits.timeout_s:g} s and was ended, with all that it had started. What it printed is not read. "
        "Does what it asks (slurmdbd, the API server) answer? Else raise source.collect.timeout_s."
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End whatever is left of the command's group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
