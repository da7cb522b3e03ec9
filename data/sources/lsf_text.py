"""The long text of `bacct -l` and `bhist -l` (and `bjobs -l`): a paragraph a job, folded at 80 columns or not (-UF).

A paragraph begins with `Job <123>, …`; behind it stand dated lines, in the order in which things happened. A folded line goes on
behind 21 blanks, 26 where the dates have years, in the middle of a word as well.
- Submitted, dispatched (started, in bjobs), done or exited are read; a job dispatched again was requeued, and its last run counts.
- The year is in the dates, or in the period that the header of bacct -C names, or it is that of `written`.
- What users choose stands in angle brackets and may hold them; where that makes two readings possible, the job is refused.
"""

import itertools
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from runcast.data.cluster import Cluster
from runcast.data.sources.batch import Batch, Reject
from runcast.data.sources.blocks import read_blocks, text_of
from runcast.data.sources.lsf_jobs import Job, Requeues, Unreadable, bare_name, jobs_of, state_of_exit, waiting_batch
from runcast.data.sources.lsf_requests import Request, read_request
from runcast.data.sources.lsf_times import MOMENT, moments_of, read_moment
from runcast.data.sources.record import in_order

PARAGRAPH = re.compile(r"Job <(\d{1,18})(?:\[(\d{1,9})\])?>, ", re.ASCII)
_DATED = re.compile(rf"({MOMENT}): (.*)", re.ASCII | re.DOTALL)
_PERIOD_END = re.compile(rf"^ +and +({MOMENT})$", re.ASCII | re.MULTILINE)
_HEAD = re.compile(
    r"Job <[\d\[\]]+>, (?:Job Name <(?P<name>.*?)>, )?User <(?P<user>[^<>]*)>, Project <(?P<project>[^<>]*)>(?P<rest>.*)",
    re.DOTALL,
)
_ONCE = (", User <", ", Project <", ", Status <", ", Queue <")
_DISPATCHED = re.compile(
    r"(?:Dispatched|Started)(?: (?P<tasks>\d{1,6}) Task\(s\) on Host\(s\)| (?:to|on)(?: (?P<slots>\d{1,6}) Hosts/Processors)?) "
    r"(?P<hosts>(?:<[^<>]+> ?)+)",
    re.ASCII,
)
_TASKS = re.compile(r", (\d{1,6}) (?:Task\(s\)|Processors Requested)", re.ASCII)
_ENDED = re.compile(r"(?:Completed <(?P<word>done|exit)>|Done successfully|Exited\b)(?:[^;]*; (?P<term>TERM_[A-Z_]+))?", re.ASCII)
_LIMIT = re.compile(r" *(\d{1,9}(?:\.\d+)?) min\b", re.ASCII)
_BEHIND_COMMAND = (">, Share group charged <", ">, Esub <", ">, Job Description <")
_LINES_AT_MOST = 20_000  # of one job
_WIDTH = 80  # at which LSF folds


def read_text(path: Path, cluster: Cluster, limit_unit: str, written: datetime | None) -> Iterator[Batch]:
    """Yield the jobs of one file in its order."""
    up_to, requeues = written, Requeues()
    for first_line, lines in _pieces(path):
        rows: list[Job] = []
        rejects: list[Reject] = []
        begins = [at for at, text in enumerate(lines) if text.startswith("Job <") and PARAGRAPH.match(text)]
        if up_to is None and (period := _PERIOD_END.search("\n".join(lines[: begins[0] if begins else len(lines)]))):
            up_to = read_moment(period[1], None)
        for at, end in zip(begins, [*begins[1:], len(lines)], strict=False):
            line, paragraph = first_line + at, _without_end(lines[at:end])
            try:
                rows.append(_job(line, paragraph, cluster, limit_unit, up_to))
            except Unreadable as fault:
                rejects.append(Reject(path.name, line, str(fault), "", "\n".join(paragraph)))
        jobs, refused, notes = jobs_of(cluster, path.name, requeues.last_runs(rows))
        yield Batch(jobs, in_order(rejects, refused), {}, notes)
    yield waiting_batch(cluster, path.name, requeues)


def _pieces(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the file's lines in pieces that cut no paragraph."""
    held: list[str] = []
    first_line = 1
    for block in read_blocks(path):
        lines = [*held, *text_of(block.data).split("\n")[:-1]]
        last = next((at for at in range(len(lines) - 1, 0, -1) if PARAGRAPH.match(lines[at])), 0)
        cut = last if len(lines) - last < _LINES_AT_MOST else len(lines)
        if cut:
            yield first_line, lines[:cut]
        held, first_line = lines[cut:], first_line + cut
    if held:
        yield first_line, held


def _without_end(lines: list[str]) -> list[str]:
    """Leave out what stands behind a paragraph and is none of it: rulers, the next header, blank lines."""
    end = next(
        (at for at, text in enumerate(lines) if text.startswith(("-----", "SUMMARY:", "Accounting information about jobs "))),
        None,
    )
    lines = lines[:end]
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


def _job(line: int, lines: list[str], cluster: Cluster, limit_unit: str, up_to: datetime | None) -> Job:
    head, *dated = _unfolded(lines)
    parts, match = _HEAD.fullmatch(head), PARAGRAPH.match(head)
    if parts is None or match is None:
        raise Unreadable("head_unreadable")
    if any(head.count(word) > 1 for word in _ONCE):
        raise Unreadable("field_twice")
    before, _, command = parts["rest"].partition(", Command <")
    submission, dispatch, start, end, term, attempts = "", None, None, None, None, 0
    submitted = None
    for text in dated:
        said = _DATED.fullmatch(text)
        if said is None:
            continue
        message = text[said.end(1) + 2 :]
        if message.startswith("Submitted from host <") and submitted is None:
            submission, submitted = message, read_moment(said[1], up_to)
        elif found := _DISPATCHED.match(message):
            dispatch, start, end, attempts = (found, message), read_moment(said[1], up_to), None, attempts + 1
        elif over := _ENDED.match(message):
            end = end or (read_moment(said[1], up_to), over["word"] == "done" or message.startswith("Done"))
            term = over["term"] or term
    moments = moments_of(submitted, start, end[0] if end else None, cluster.zone)
    state = (
        ("RUNNING" if start else "PENDING") if end is None else "COMPLETED" if end[1] else state_of_exit(term or "", bool(start))
    )
    hosts = re.findall(r"<([^<>]+)>", dispatch[0]["hosts"]) if dispatch else []
    return Job(
        line, "\n".join(lines), match[1], int(match[2] or 0), parts["user"],
        _bracket(before, "Queue") or _bracket(submission, "to Queue"), parts["project"], _bracket(before, "User Group"),
        _bracket(before, "Service Class"), bare_name(parts["name"] or _command(command)), _bracket(submission, "CWD"), state,
        moments.submit_s, 0, moments.start_s, moments.end_s, attempts, _limit_s(lines),
        _request(submission, dispatch, hosts, limit_unit), " ".join(hosts), moments.ambiguous,
    )  # fmt: skip


def _unfolded(lines: list[str]) -> list[str]:
    """Return the head and the dated lines, each as one text; what else stands in a paragraph is left out."""
    has_year = any(said["year"] for said in map(_DATED.match, lines) if said)
    indent = " " * (26 if has_year else 21)
    texts: list[list[str]] = []
    before = ""
    for text in lines:
        if not texts or _DATED.match(text):
            texts.append([text])
        elif text.startswith(indent) and texts:
            if len(before) == _WIDTH - 1 and before.endswith(","):
                texts[-1].append(" ")  # an editor cut off the blank at the end of the line
            texts[-1].append(text[len(indent) :])
        elif not text.strip() and len(texts) > 1:
            break
        before = text
    return ["".join(parts) for parts in texts]


def _bracket(text: str, name: str) -> str:
    match = re.search(rf"(?:^|, ){name} <([^<>]*)>", text)
    return match[1] if match else ""


def _command(text: str) -> str:
    """Return the command from behind its opening bracket to the closing one."""
    end = next((at for word in _BEHIND_COMMAND if (at := text.rfind(word)) >= 0), -1)
    return text[:end] if end >= 0 else text.rstrip().removesuffix(">")


def _request(submission: str, dispatch: tuple[re.Match[str], str] | None, hosts: list[str], limit_unit: str) -> Request:
    asked = _TASKS.search(submission)
    slots = int(asked[1]) if asked else 0
    effective = ""
    if dispatch is not None:
        found, message = dispatch
        slots = slots or int(found["tasks"] or found["slots"] or 0) or len(hosts)
        effective = message.partition("Effective RES_REQ <")[2]
    resources = submission.partition("Requested Resources <")[2].partition(">, Requested GPU")[0]
    gpu = re.search(r", Requested GPU(?: <([^<>]*)>)?[,;]", submission)
    gpus = None if gpu is None else gpu[1] or ""
    names = {host.rpartition("*")[2] for host in hosts}
    return read_request(slots, f"{resources} {effective}", gpus, len(names), limit_unit)


def _limit_s(lines: list[str]) -> float | None:
    """Return the run limit, in a line of its own below its title."""
    for title, value in itertools.pairwise(lines):
        if title.strip() == "RUNLIMIT" and (match := _LIMIT.match(value)):
            return float(match[1]) * 60 or None
    return None
