"""Slurm's job ids, array task sets and node lists.

A job id is `60`, a task of an array `12_3`, the tasks that still wait `12_[4-9%2]`, a part of a heterogeneous job `12+0`; a step
adds `.batch`, `.extern`, `.0`.
"""

import itertools
import re

from runcast.data.slurm_words import NO_NODES_WORDS

JOB_ID = r"^\d{1,18}(?:_(?:\d{1,18}|\[[^\]]*\]))?(?:\+\d{1,9})?$"
STEP_ID = r"^\d{1,18}(?:_(?:\d{1,18}|\[[^\]]*\]))?(?:\+\d{1,9})?\..+$"
HET_PART = r"\+(?P<part>\d{1,9})$"
ARRAY_TASK = r"^(?P<array>\d+)_(?P<task>\d{1,9})$"
ARRAY_REST = r"^(?P<array>\d+)_\[(?P<tasks>[^\]]*)\]$"

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
_NODE_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_NODE_PART = re.compile(r"([^\[\],]*)(?:\[([^\]]*)\])?")
_NAMES_AT_MOST = 1_000_000  # more nodes than any machine has: such a list is damaged
_NO_NODES = frozenset(word.lower() for word in NO_NODES_WORDS)


def array_task_count(tasks: str) -> int | None:
    """Count the tasks of the set inside `12_[...]`; None where it is cut (`...`) or not understood.

    >>> array_task_count("4-9%2"), array_task_count("1,3,5-7"), array_task_count("0-8:4")
    (6, 5, 3)
    """
    count = 0
    for part in tasks.partition("%")[0].split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match:
            return None
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or not step:
            return None
        count += (last - first) // step + 1
    return count


def node_names(text: str) -> tuple[str, ...] | None:
    """Expand a node list, zero padding kept; `None assigned` is no nodes; None where the list is not understood.

    >>> node_names("gpu[001-003,007],login1")
    ('gpu001', 'gpu002', 'gpu003', 'gpu007', 'login1')
    """
    if text.strip().lower() in _NO_NODES:
        return ()
    names: list[str] = []
    for piece in re.split(r",(?![^\[]*\])", text.strip()):
        expanded = _expand(piece, _NAMES_AT_MOST - len(names))
        if expanded is None:
            return None
        names += expanded
    return tuple(names)


def _expand(piece: str, at_most: int) -> list[str] | None:
    """Expand one name with any number of brackets; None where it is damaged or gives more than `at_most` names."""
    if re.fullmatch(r"(?:[^\[\]\s]|\[[^\[\]]+\])+", piece) is None:
        return None
    choices: list[list[str]] = []
    size = 1
    for literal, ranges in _NODE_PART.findall(piece):
        for options in ([literal] if literal else None, _numbers(ranges, at_most) if ranges else None):
            if options is None:
                continue
            size *= len(options)
            choices.append(options)
        if ranges and (not choices[-1] or size > at_most):
            return None
    return ["".join(parts) for parts in itertools.product(*choices)]


def _numbers(ranges: str, at_most: int) -> list[str]:
    """Expand `001-003,007`; empty where a part is no range or there are more than `at_most`."""
    found: list[str] = []
    for part in ranges.split(","):
        match = _NODE_RANGE.fullmatch(part.strip())
        if not match:
            return []
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= at_most:
            return []
        found += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    return found
