"""Job states: one list of canonical names, what each says about the runtime, and how logs spell them.

The names are Slurm's (the job states of its 23.11 to 24.11 manuals, "JOB STATE CODES" of sacct and squeue). Other schedulers'
words are mapped to them by their adapters; only words that mean one thing everywhere stand here. A word nobody knows becomes
OTHER and is counted, never an error: new Slurm versions add states. pyarrow is loaded only by what works on columns: a scheduler
host does not have it.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

Role = Literal["event", "censored", "excluded"]

OTHER = "OTHER"
UNKNOWN_STATE = "unknown_state:"  # begins a note of how often a load met a word that is none

#: What a job in this state says about its runtime, provided that it started: `event` it ended by itself; `censored` it was cut
#: from outside or is still going, so it would have run at least that long; `excluded` it holds no resources or says nothing.
STATES: dict[str, Role] = {
    "COMPLETED": "event",
    "FAILED": "event",
    "OUT_OF_MEMORY": "event",
    "TIMEOUT": "censored",
    "CANCELLED": "censored",
    "PREEMPTED": "censored",
    "NODE_FAIL": "censored",
    "DEADLINE": "censored",
    "BOOT_FAIL": "censored",
    "LAUNCH_FAILED": "censored",
    "RECONFIG_FAIL": "censored",
    "RUNNING": "censored",
    "COMPLETING": "censored",
    "RESIZING": "censored",
    "SIGNALING": "censored",
    "STAGE_OUT": "censored",
    "STOPPED": "censored",
    "SUSPENDED": "censored",
    "CONFIGURING": "excluded",
    "EXPEDITING": "excluded",
    "PENDING": "excluded",
    "POWER_UP_NODE": "excluded",
    "REQUEUED": "excluded",
    "REQUEUE_FED": "excluded",
    "REQUEUE_HOLD": "excluded",
    "RESV_DEL_HOLD": "excluded",
    "REVOKED": "excluded",
    "SPECIAL_EXIT": "excluded",
    "UPDATE_DB": "excluded",
    OTHER: "censored",
}

#: States of a job that has not ended: an end time beside one of them is a forecast (Slurm writes start + limit), not a fact.
OPEN_STATES: frozenset[str] = frozenset(
    {
        "RUNNING",
        "COMPLETING",
        "RESIZING",
        "SIGNALING",
        "STAGE_OUT",
        "STOPPED",
        "SUSPENDED",
        "CONFIGURING",
        "EXPEDITING",
        "PENDING",
        "POWER_UP_NODE",
        "REQUEUED",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "RESV_DEL_HOLD",
        "SPECIAL_EXIT",
    }
)

#: Open states in which a job holds no resources: a start time beside one of them is a forecast too.
WAITING_STATES: frozenset[str] = frozenset(state for state in OPEN_STATES if STATES[state] == "excluded")

#: Slurm's short codes, and words of other schedulers that mean the same wherever they are met.
ALIASES: dict[str, str] = {
    "BF": "BOOT_FAIL",
    "CA": "CANCELLED",
    "CD": "COMPLETED",
    "CF": "CONFIGURING",
    "CG": "COMPLETING",
    "DL": "DEADLINE",
    "F": "FAILED",
    "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY",
    "PD": "PENDING",
    "PR": "PREEMPTED",
    "R": "RUNNING",
    "RQ": "REQUEUED",
    "RS": "RESIZING",
    "RV": "REVOKED",
    "S": "SUSPENDED",
    "TO": "TIMEOUT",
    "CANCELED": "CANCELLED",
    "DEADLINEEXCEEDED": "DEADLINE",  # this, Evicted, NodeLost, OOMKilled: Kubernetes' reasons
    "DONE": "COMPLETED",
    "EVICTED": "PREEMPTED",
    "EXIT": "FAILED",
    "KILLED": "CANCELLED",
    "NODELOST": "NODE_FAIL",
    "OUTOFMEMORY": "OUT_OF_MEMORY",
    "OOMKILLED": "OUT_OF_MEMORY",
    "PASS": "COMPLETED",
    "PEND": "PENDING",
    "QUEUED": "PENDING",
    "REQUEUE": "REQUEUED",
    "RUN": "RUNNING",
    "SUCCEEDED": "COMPLETED",
    "SUCCESS": "COMPLETED",
    "TIMEDOUT": "TIMEOUT",
    "WAITING": "PENDING",
}

#: Marks that Slurm adds to a base state, in the order in which its own text output prefers them to it.
_MARKS = (
    "COMPLETING",
    "STAGE_OUT",
    "CONFIGURING",
    "RESIZING",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "SPECIAL_EXIT",
    "STOPPED",
    "REVOKED",
    "RESV_DEL_HOLD",
    "SIGNALING",
)


def canonical_state(text: str | Iterable[str] | None) -> str:
    """Return the canonical name of a state as a log writes it; OTHER where nobody knows the word.

    Takes `CANCELLED by 54321` (first word), `OUT_OF_ME+` (cut to a column's width), short codes, any case, and the lists of
    `sacct --json`, as a list or as its text: there a mark such as COMPLETING or REQUEUED wins over the base state.

    >>> canonical_state("CANCELLED by 54321"), canonical_state("OUT_OF_ME+"), canonical_state(["COMPLETED"])
    ('CANCELLED', 'OUT_OF_MEMORY', 'COMPLETED')
    """
    if text is None:
        return OTHER
    if not isinstance(text, str):
        return _joined([canonical_state(part) for part in text if isinstance(part, str)])
    word = text.strip().upper()
    if word.startswith("["):
        return _of_list_text(word)
    for candidate in (word, word.replace(" ", "_").replace("-", "_"), word.split(maxsplit=1)[0] if word else ""):
        if candidate in STATES:
            return candidate
        if candidate in ALIASES:
            return ALIASES[candidate]
    return _of_cut(word)


def canonical_states(texts: "pa.Array | pa.ChunkedArray") -> "pa.Array":
    """Map a string column to canonical names; a null becomes OTHER. One look-up for each distinct text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    encoded = column.dictionary_encode()
    names = pa.array([canonical_state(text) for text in encoded.dictionary.to_pylist()] or [OTHER], pa.string())
    return pc.fill_null(names.take(encoded.indices), OTHER)


def unknown_states(texts: "pa.Array | pa.ChunkedArray", most: int = 5) -> dict[str, int]:
    """Count the words that nobody knows, as notes `unknown_state:WORD`, the most frequent of a column; a null is no word."""
    import pyarrow as pa

    column = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    counts = {one["values"]: one["counts"] for one in column.drop_null().value_counts().to_pylist()}
    unknown = {word: count for word, count in counts.items() if word.strip() and word != OTHER and canonical_state(word) == OTHER}
    first = sorted(unknown, key=lambda word: (-unknown[word], word))[:most]
    return {f"{UNKNOWN_STATE}{word[:40]}": unknown[word] for word in first}


def _of_list_text(word: str) -> str:
    try:
        parts = json.loads(word.replace("'", '"'))
    except (ValueError, RecursionError):
        return OTHER
    return canonical_state(parts) if isinstance(parts, list) else OTHER


def _joined(names: list[str]) -> str:
    for mark in _MARKS:
        if mark in names:
            return mark
    return next((name for name in names if name != OTHER), OTHER)


def _of_cut(word: str) -> str:
    """Find the one state that begins with `word`, which a column's width cut and marked with `+`."""
    cut = word.removesuffix("+")
    if cut == word or not cut:
        return OTHER
    if cut in STATES:
        return cut
    found = [name for name in STATES if name.startswith(cut) and name != OTHER]
    return found[0] if len(found) == 1 else OTHER
