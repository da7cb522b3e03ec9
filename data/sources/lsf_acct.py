"""lsb.acct, LSF's accounting file, as mbatchd writes it: JOB_FINISH records of LSF 5.1 to 10.1 (manual: lsb.acct(5)).

A record is fields apart by blanks, texts in double quotes with a quote inside doubled, one record a line unless a text holds a line
end. Counts within it say how long its lists are: hosts asked for, hosts used, extensions, usage by host, networks, slots. Which
fields stand at its end depends on the version; a record is read as far as it goes.
- The end is the record's event time (termTime is a deadline), the start 0 where the job never ran.
- `16*host` are 16 slots on a host (LSF_HPC_EXTENSIONS=SHORT_EVENTFILE), `host@cluster` a host of another cluster.
- Usage by host is five numbers where the manual of 10.1 names four, and the run limit stands before options3: so the samples of 9.11,
  9.13 and 10.1 have it.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.sources.batch import Batch, Reject
from runcast.data.sources.blocks import read_blocks, text_of
from runcast.data.sources.lsf_jobs import Job, Requeues, Unreadable, bare_name, jobs_of, state_of_exit, waiting_batch
from runcast.data.sources.lsf_requests import read_request
from runcast.data.sources.record import in_order

RECORD = re.compile(r'"([A-Z_]{3,40})" "[\d.]{1,12}" ', re.ASCII)
_NUMBER = re.compile(r"-?\d{1,19}(?:\.\d{0,9})?", re.ASCII)
_TEXT = re.compile(r'"((?:[^"]|"")*)"')

#: Below, a record's skeleton: its numbers, with one quote for each text. T is a text, N a whole number, F any number, L a counted list
#: of texts. Nothing gives back what it has taken, so that no record takes long.
_END = r'(?![^\s"])'
_T, _N, _F = r'\s*+"', rf"\s*+-?\d{{1,19}}+{_END}", rf"\s*+[-+.\deE]++{_END}"
_G, _C = rf"\s*+(-?\d{{1,12}}+){_END}", rf"\s*+(\d{{1,12}}+){_END}"  # a number that is read, and one not below 0
_L = rf"{_C}((?:{_T})*+)"
_RECORD_FORM = re.compile(
    # type, version; event time, job id, user id, options, processors, submission, begin, termination, start; user to job file
    rf"{_T * 2}{_G}{_C}{_N * 2}{_G * 3}{_N}{_G}{_T * 11}"
    # hosts asked for and used; status, factor; name, command; usage; mail user, project; exit status, processors; shell, time event
    rf"{_L * 2}{_G}{_F}{_T * 2}{_F * 19}{_T * 2}{_N * 2}{_T * 2}"
    # element, memory, swap; spools, reservation; service class, exceptions, placement; exit information
    rf"{_G}{_N * 2}{_T * 3}(?:{_T}{_N}{_T}(?:{_G}"
    # warning; share, licence project, application, post-execution; estimate; group, requeue values
    rf"(?:{_T}{_N}{_T * 4}{_N}{_T * 2}"
    # options2, resize, its time, reservation, description; extensions and the rest
    rf"(?:{_N}{_T}{_N}{_T * 2}{_C}(.*+))?+)?+)?+)?+\s*+",
    re.ASCII | re.DOTALL,
)
_END_FORM = re.compile(
    # run limit, options3, memory; effective requirement, clusters, flow, provision, directories, run time; networks; affinity
    rf"{_G}{_N * 2}{_T * 2}{_N}{_T}{_N * 2}{_T}{_N * 2}{_T}{_N}{_T}{_C}((?:{_T}{_N})*+)(?:{_T}"
    # energy and rates; slots; ineligible time, index ranges, requeue time, GPUs ...
    rf"(?:{_F * 5}{_L}((?:{_N})*+).*+)?+)?+\s*+",
    re.ASCII | re.DOTALL,
)
_DONE, _EXIT = 64, 32  # bits of jStatus
_LINES_AT_MOST = 1000  # of one record: beyond it a quote is missing
_TERM_NAMES = (
    "UNKNOWN", "PREEMPT", "WINDOW", "LOAD", "OTHER", "RUNLIMIT", "DEADLINE", "PROCESSLIMIT", "FORCE_OWNER", "FORCE_ADMIN",
    "REQUEUE_OWNER", "REQUEUE_ADMIN", "CPULIMIT", "CHKPNT", "OWNER", "ADMIN", "MEMLIMIT", "EXTERNAL_SIGNAL", "RMS", "ZOMBIE", "SWAP",
    "THREADLIMIT", "SLURM", "BUCKET_KILL", "CTRL_PID", "CWD_NOTEXIST", "REMOVE_HUNG_JOB", "ORPHAN_SYSTEM", "PRE_EXEC_FAIL", "DATA",
    "MC_RECALL", "RC_RECLAIM", "CSM_ALLOC", "KUBE", "RC",
)  # fmt: skip


def read_acct(path: Path, cluster: Cluster, limit_unit: str) -> Iterator[Batch]:
    """Yield the jobs of one lsb.acct in the file's order; raises SourceError for an lsb.events, which holds no ends of jobs."""
    requeues = Requeues()
    for first_line, text in _whole_records(path):
        yield _batch(path, cluster, first_line, text, limit_unit, requeues)
    yield waiting_batch(cluster, path.name, requeues)


def _whole_records(path: Path) -> Iterator[tuple[int, str]]:
    """Yield pieces of the file that cut no record: the last one of a block waits for the lines of the next."""
    held, held_line = "", 1
    for block in read_blocks(path):
        text = held + text_of(block.data)
        first_line = held_line if held else block.first_line
        at = max(text.rfind('\n"JOB_FINISH" "') + 1, 0)
        held, held_line = text[at:], first_line + text.count("\n", 0, at)
        if held.count("\n") > _LINES_AT_MOST:
            at, held = len(text), ""
        if at:
            yield first_line, text[:at]
    if held:
        yield held_line, held


def _batch(path: Path, cluster: Cluster, first_line: int, text: str, limit_unit: str, requeues: Requeues) -> Batch:
    rows: list[Job] = []
    rejects: list[Reject] = []
    skipped: Counter[str] = Counter()
    for line, raw in _records(first_line, text.split("\n")[:-1]):
        if not raw.startswith('"JOB_FINISH" '):
            kind = RECORD.match(raw)
            if kind is None:
                rejects.append(Reject(path.name, line, "unreadable_line", "", raw))
            elif kind[1] == "JOB_NEW":
                raise SourceError(
                    f"{path}: holds {kind[1]} records, so it is an lsb.events; give LSF's lsb.acct, which lies beside it"
                )
            else:
                skipped[f"record_{kind[1]}"] += 1
            continue
        try:
            rows.append(_job(line, raw, limit_unit))
        except Unreadable as damage:
            rejects.append(Reject(path.name, line, str(damage), "", raw))
    jobs, refused, notes = jobs_of(cluster, path.name, requeues.last_runs(rows))
    return Batch(jobs, in_order(rejects, refused), skipped, notes)


def _records(first_line: int, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield each record with its line's number; a text with a line end goes on in the next lines, unless these begin a record."""
    at = 0
    while at < len(lines):
        raw, number = lines[at], first_line + at
        at += 1
        if not raw or raw.isspace() or raw[0] == "#":
            continue
        if raw.count('"') % 2 and RECORD.match(raw):
            end, quotes = at, raw.count('"')
            while end < len(lines) and quotes % 2 and end - at < _LINES_AT_MOST and not RECORD.match(lines[end]):
                quotes += lines[end].count('"')
                end += 1
            if not quotes % 2:
                raw, at = "\n".join([raw, *lines[at:end]]), end
        yield number, raw


def _parts(raw: str) -> list[str]:
    """Return what stands outside (even places) and inside quotes (odd places), by turns."""
    parts = raw.split('"')
    if len(parts) % 2 == 0:
        raise Unreadable("quotes_damaged")
    if "" in parts[2:-1:2]:  # a doubled quote
        parts = _TEXT.split(raw)
        if any('"' in outside for outside in parts[0::2]):
            raise Unreadable("quotes_damaged")
        parts[1::2] = [text.replace('""', '"') for text in parts[1::2]]
    return parts


def _job(line: int, raw: str, limit_unit: str) -> Job:
    parts = _parts(raw)
    texts, skeleton = parts[1::2], '"'.join(parts[0::2])
    form = _RECORD_FORM.fullmatch(skeleton)
    if form is None:
        raise Unreadable("fields_damaged")
    (
        end, number, slots, submit, begin, start, asked, asked_list, used, used_list, status, element, exit_info, extended, rest,
    ) = form.groups()  # fmt: skip
    first = 13 + int(asked)
    hosts = texts[first : first + int(used)]
    at = first + int(used)  # the job's name
    if asked_list.count('"') != int(asked) or used_list.count('"') != int(used):
        raise Unreadable("counts_damaged")
    tail = _NO_TAIL
    if extended is not None:
        extensions = texts[at + 21 : at + 21 + int(extended)]
        gpus = _gpu_request(extensions) if '"num=' in raw else None
        tail = _read_tail(texts, at + 21, int(extended), gpus, rest)
    end_s, submit_s, start_s, bits = int(end), int(submit), int(start), int(status)
    task = int(element)
    if not bits & (_DONE | _EXIT) or not 0 <= task < 2**31:
        raise Unreadable("status_unreadable" if task >= 0 else "element_unreadable")
    state = "COMPLETED" if bits & _DONE else state_of_exit(_term(int(exit_info or 0)), start_s > 0)
    host_count = len({host.rpartition("*")[2] for host in hosts}) if len(hosts) > 1 else len(hosts)
    return Job(
        line, raw, number, task, texts[2], texts[3], texts[at + 3], "",
        texts[at + 9] if len(texts) > at + 9 else "",
        bare_name(texts[at] or texts[at + 1]), texts[8], state, submit_s,
        submit_s + tail.ineligible_s if tail.ineligible_s > 0 else int(begin),
        start_s, end_s, 2 if tail.requeue_s > 0 else 1, tail.limit_s,
        read_request(max(int(slots), 0), f"{texts[4]} {tail.resources}", tail.gpus, host_count, limit_unit),
        " ".join(hosts),
    )  # fmt: skip


class _Tail(NamedTuple):
    """What the later fields say; the record of an older version lacks them."""

    gpus: str | None = None
    limit_s: float | None = None
    resources: str = ""
    ineligible_s: int = 0
    requeue_s: int = 0


_NO_TAIL = _Tail()
#: The value of the extension that holds a -gpu request; the keys of extensions are internal to LSF.
_GPU_REQUEST = re.compile(r"num=\d+(?:/(?:host|task))?:(?:mode|mps|j_exclusive|gmodel|gmem|aff|nvlink|gvendor|block)\b")


def _gpu_request(extensions: list[str]) -> str | None:
    return next((text for text in extensions if _GPU_REQUEST.match(text)), None)


@lru_cache(maxsize=1 << 10)
def _extensions_form(count: int) -> re.Pattern[str]:
    return re.compile(rf"(?:{_N}{_T}){{{count}}}+(?:{_C}(.*+))?+\s*+", re.ASCII | re.DOTALL)


def _read_tail(texts: list[str], at: int, extensions: int, gpus: str | None, rest: str) -> _Tail:
    """Read the extensions, whose values begin at text `at`, and what follows; `rest` is the skeleton behind their count."""
    if extensions > len(texts):
        raise Unreadable("counts_damaged")
    extended = _extensions_form(extensions).fullmatch(rest)
    if extended is None:
        raise Unreadable("counts_damaged")
    usage, rest = extended.groups()
    if usage is None:
        return _Tail(gpus)
    at += extensions
    if usage != "0":
        rest, quoted = _without_usage(int(usage), rest)
        at += quoted
    form = _END_FORM.fullmatch(rest)
    if form is None:
        raise Unreadable("fields_damaged")
    limit, networks, network_list, slots, slot_list, numbers = form.groups()
    if network_list.count('"') != int(networks) or (slots is not None and slot_list.count('"') != int(slots)):
        raise Unreadable("counts_damaged")
    times = numbers.split() if numbers else []
    ranges = 3 * int(times[1]) if len(times) > 1 else 0
    requeue_s = int(times[2 + ranges]) if 0 <= ranges < len(times) - 2 else 0
    return _Tail(gpus, float(limit) if int(limit) > 0 else None, texts[at], int(times[0]) if times else 0, requeue_s)


def _without_usage(count: int, rest: str) -> tuple[str, int]:
    """Cut the usage by host off, whose names stand in quotes or bare; return what is left, and how many texts it had."""
    at, quoted = 0, count if not rest.partition('"')[0].strip() else 0
    if quoted:
        for _ in range(count):
            at = rest.find('"', at) + 1
            if not at:
                raise Unreadable("counts_damaged")
    next_text = rest.find('"', at)
    words = rest[at:next_text].split()
    bare = sum(not _NUMBER.fullmatch(word) for word in words)
    if next_text < 0 or len(words) < 3 or (not quoted and bare != count) or (quoted and bare):
        raise Unreadable("counts_damaged")
    return f" {' '.join(words[-3:])}{rest[next_text:]}", quoted


def _term(info: int) -> str:
    return f"TERM_{_TERM_NAMES[info]}" if 0 < info < len(_TERM_NAMES) else ""
