"""What a PBS or Torque job asks for: chunks of `select`, terms of `nodes`, `-L` tasks, sizes and walltimes.

PBS Professional's manual ("Requesting Resources"): `select=2:ncpus=4:ngpus=1+1:ncpus=8` is chunks, each with a count before it and
an ncpus of 1 where it names none. Torque's (qsub, "Requesting resources"): `nodes=4:ppn=8:gpus=2+node7:ppn=2` is terms, each a count
or a host name; gpus is of each node. Sizes are numbers with b, kb, mb, gb, tb, or w for words of 8 bytes.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kmgtp]?)(b|w|)", re.ASCII | re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_WORD_BYTES = 8
_COUNT = re.compile(r"\d{1,9}", re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,4}):)?(\d{1,6}):(\d{1,2}):(\d{1,2})(?:\.\d+)?", re.ASCII)
_SECONDS = re.compile(r"\d{1,10}(?:\.\d+)?", re.ASCII)
_TASKS = re.compile(r"tasks=(\d{1,9})((?::[^\s:]+)*)", re.ASCII)
_ASKED = (
    *(f"Resource_List.{name}" for name in ("select", "nodes", "ncpus", "nodect", "mem", "pmem", "mppwidth", "mppnppn")),
    *(f"Resource_List.{name}" for name in ("ngpus", "gpus", "gpu")),
    "Resource_Request_2.0",
)
_NO_PROJECT = "_pbs_project_default"


class Request(NamedTuple):
    """Counts over the whole job and memory in MiB; None where the record does not say."""

    cpu_count: float | None
    gpu_count: float | None
    node_count: float | None
    mem_mib: float | None


class _Terms(NamedTuple):
    nodes: float
    cpus: float
    gpus: float | None
    mem_mib: float | None


def read_request(fields: Mapping[str, str]) -> Request:
    """Return what the record's Resource_List asks for; of several ways to say it, the most exact one.

    >>> read_request({"Resource_List.select": "2:ncpus=4:ngpus=1:mem=8gb", "Resource_List.nodect": "2"})
    Request(cpu_count=8.0, gpu_count=2.0, node_count=2.0, mem_mib=16384.0)
    >>> read_request({"Resource_List.nodes": "1:ppn=28:gpus=1:default", "Resource_List.ncpus": "1"})
    Request(cpu_count=28.0, gpu_count=1.0, node_count=1.0, mem_mib=None)
    """
    return _request(tuple([fields.get(name, "") for name in _ASKED]))


@lru_cache(maxsize=1 << 14)
def _request(asked: tuple[str, ...]) -> Request:
    select, nodes_text, ncpus, nodect, mem_text, pmem, width_text, per_node_text, *gpu_texts, tasks = asked
    width, per_node = _whole(width_text), _whole(per_node_text)
    nodes, cpus, mem = _whole(nodect), _whole(ncpus), size_mib(mem_text)
    gpus = next((count for text in gpu_texts if (count := _whole(text)) is not None), None)
    if width is not None:  # Cray: ncpus and select are of the login node
        return Request(width, gpus, None if not per_node else float(-(-width // per_node)), mem)
    if select and (chunks := _terms(select, "ncpus", "ngpus")) is not None:
        cpus = chunks.cpus if cpus is None else cpus
        nodes, gpus = chunks.nodes if nodes is None else nodes, chunks.gpus if gpus is None else gpus
        mem = chunks.mem_mib if mem is None else mem
    elif nodes_text and (terms := _terms(nodes_text.removeprefix("nodes="), "ppn", "gpus")) is not None:
        cpus, nodes, gpus = terms.cpus, terms.nodes if nodes is None else nodes, terms.gpus if gpus is None else gpus
        per_process = size_mib(pmem)
        mem = per_process * cpus if mem is None and per_process is not None else mem
    elif tasks:
        cpus, mem = _of_tasks(tasks)
    return Request(cpus, gpus, nodes, mem)


@lru_cache(maxsize=1 << 14)
def _terms(text: str, cpus_word: str, gpus_word: str) -> _Terms | None:
    """Add up the terms of a specification; None where one cannot be read."""
    nodes = cpus = 0.0
    gpus: float | None = None
    mem: float | None = None
    for term in text.split("+"):
        first, *rest = term.split(":")
        if not first:
            return None
        count = 1.0 if (number := _whole(first)) is None else number
        named = dict(part.split("=", 1) for part in ([*rest] if "=" not in first else [first, *rest]) if "=" in part)
        each = _whole(named.get(cpus_word, "1"))
        if each is None:
            return None
        nodes, cpus = nodes + count, cpus + count * each
        of_gpus = next((named[word] for word in (gpus_word, "ngpus", "gpus", "gpu") if word in named), None)
        if of_gpus is not None:
            if (each_gpus := _whole(of_gpus)) is None:
                return None
            gpus = (gpus or 0.0) + count * each_gpus
        if (each_mem := size_mib(named.get("mem", ""))) is not None:
            mem = (mem or 0.0) + count * each_mem
    return _Terms(nodes, cpus, gpus, mem)


def _of_tasks(text: str) -> tuple[float | None, float | None]:
    """Read Torque 6's `-L tasks=2:lprocs=8:memory=4GB`, as often as it stands there: processors and MiB of all tasks."""
    cpus: float | None = None
    mem: float | None = None
    for count, rest in _TASKS.findall(text):
        named = dict(part.split("=", 1) for part in rest.split(":") if "=" in part)
        each, each_mem = _whole(named.get("lprocs", "1")), size_mib(named.get("memory", ""))
        if each is not None:
            cpus = (cpus or 0.0) + int(count) * each
        if each_mem is not None:
            mem = (mem or 0.0) + int(count) * each_mem
    return cpus, mem


@lru_cache(maxsize=1 << 14)
def size_mib(text: str) -> float | None:
    """Return a size in MiB; None where it is none. A bare number is bytes, `1993mb` and `1993M` are MiB."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    number, prefix, unit = match.groups()
    words = _WORD_BYTES if unit.lower() == "w" else 1
    return float(number) * words * 1024.0 ** (_POWER[prefix.lower()] - 2)


@lru_cache(maxsize=1 << 14)
def walltime_s(text: str) -> float | None:
    """Return a walltime in seconds: `24:00:00`, `2:00:00:00` (days first) or seconds; None where it is none, or 0."""
    if match := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return float(days * 86_400 + hours * 3600 + minutes * 60 + seconds) or None
    return (float(text) or None) if _SECONDS.fullmatch(text) else None


def account_of(fields: Mapping[str, str]) -> str:
    """Return the account, else the project a user chose, else nothing; PBS Professional writes accounts in quotes."""
    account, project = fields.get("account", "").strip('"'), fields.get("project", "")
    return account or ("" if project == _NO_PROJECT else project)


def _whole(text: str) -> float | None:
    return float(text) if _COUNT.fullmatch(text) else None
