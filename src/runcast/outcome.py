"""How a command ends: an exit code by kind, and with `--json` one JSON object on standard output, also where it fails.

Standard library only: a scheduler host has these too. The codes are those of `Exit` in data/errors.py; docs/exit-codes.md lists them.
"""

import contextlib
import json
import os
import sys
from typing import Any, TextIO

from runcast.data.errors import Exit, RuncastError

#: What to do, by exit code; the message itself says it in more words where more is known.
HINTS: dict[Exit, str] = {
    Exit.DONE: "",
    Exit.FAULT: "A fault of Runcast. Report it with the traceback on standard error.",
    Exit.USAGE: "Mend the command line; --help after the command lists its options.",
    Exit.REFUSED: "Mend what the message names (cluster file, log, key, bundle), then run the command again.",
    Exit.STOPPED: "Nothing was changed and the champion serves. Mend what the checks name, or accept the day if it is in order.",
    Exit.NOTHING_YET: "Nothing is wrong: run the earlier step that the message names, or come back when more jobs have ended.",
    Exit.DAMAGED: "A file is not what was written. Delete it or make it again, as the message says.",
    Exit.BUSY: "Somebody else is at it. Run the command again when the other has ended.",
    Exit.DISK: "Make room, or mend the folder or its permissions. What was there is untouched.",
    Exit.UNAVAILABLE: "Something this command needs does not answer. Run it again when it does.",
    Exit.NOT_INSTALLED: "Run it on the pipeline's host, or install the pipeline here (README).",
    Exit.INCOMPLETE: "The rest is done and stands. Mend the cause (memory, library version), then run the command again.",
    Exit.INTERRUPTED: "What had been written is whole. The same command again goes on from there.",
}

_answers: TextIO | None = None  # where JSON goes, once standard output is reserved for it


def _is_real(stdout: TextIO) -> bool:
    return stdout is sys.__stdout__


def reserve_stdout() -> None:
    """Keep standard output for one JSON object: whatever else is written there, by any library, goes to standard error."""
    global _answers
    if _is_real(sys.stdout):  # a real file: what is written to its descriptor from C or a child is redirected too
        sys.stdout.flush()
        _answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
    else:
        _answers = sys.stdout
        sys.stdout = sys.stderr


def release_stdout() -> None:
    """Give standard output back; nothing where it was not reserved."""
    global _answers
    answers, _answers = _answers, None
    if answers is None:
        return
    answers.flush()
    if _is_real(sys.stdout):
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os.dup2(answers.fileno(), 1)
        answers.close()
    else:
        sys.stdout = answers


def print_json(value: Any) -> None:
    """Print a command's result."""
    out = _answers or sys.stdout
    out.write(json.dumps(value, indent=1) + "\n")
    out.flush()


def exit_code(error: BaseException) -> Exit:
    """Return the exit code of a command that ended with `error`."""
    if isinstance(error, RuncastError):
        return error.exit_code
    return Exit.INTERRUPTED if isinstance(error, KeyboardInterrupt) else Exit.FAULT


def describe(error: BaseException) -> dict[str, Any]:
    """Return a failure as JSON values: the message, its kind (the name of the error), exit code, checks that stopped, what to do."""
    code = exit_code(error)
    return {
        "error": "interrupted" if code is Exit.INTERRUPTED else str(error) or type(error).__name__,
        "kind": "Interrupted" if code is Exit.INTERRUPTED else type(error).__name__,
        "exit_code": int(code),
        "stops": list(getattr(error, "stops", ())),
        "hint": HINTS[code],
    }


def report(error: BaseException) -> Exit:
    """Print a failure as JSON where standard output is reserved for it; returns the exit code."""
    if _answers is not None:
        print_json(describe(error))
    return exit_code(error)
