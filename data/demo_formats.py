"""Writes made-up workloads as three real formats write theirs, dirty rows included, and counts what it wrote.

The counts are the generator's own: tests hold what the sources read against them.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo

import numpy as np

from runcast.data.asof import cut_us, day_start_us
from runcast.data.demo_jobs import STATES, Ints, Jobs

Text = list[str]
Row = tuple[str, ...]

GPU_MODELS = ("a100", "v100")
_NODE_GPUS = 8


@dataclass(frozen=True)
class Written:
    """Lines of one log's files by name, and what they hold: records == accepted + rejected + skipped."""

    files: dict[str, Text]
    accepted: int  # records of jobs, a job once for each file that tells of it
    jobs: int  # different jobs
    rejected: Counter[str] = field(default_factory=Counter)  # by the kind of dirt
    skipped: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Span:
    """Local days `first` to `last` of a zone; turns seconds from the first midnight into what a log writes."""

    first: date
    last: date
    zone: tzinfo

    @property
    def start_s(self) -> int:
        return day_start_us(self.first, self.zone) // 1_000_000

    @property
    def end_s(self) -> int:
        """Seconds from the first midnight to the cut of the last day."""
        return cut_us(self.last, self.zone) // 1_000_000 - self.start_s

    def local(self, seconds: Ints, separator: str) -> Text:
        """Local wall-clock text of moments given in seconds from the first midnight."""
        utc_s = seconds + self.start_s
        hours = np.unique(utc_s // 3600)
        offset_s = np.array([self._offset_s(int(hour)) for hour in hours], dtype=np.int64)
        wall_s = utc_s + offset_s[np.searchsorted(hours, utc_s // 3600)]
        return [text.replace("T", separator) for text in np.datetime_as_string(wall_s.astype("datetime64[s]"))]

    def months(self) -> list[tuple[str, int, int]]:
        """Name, begin and end (seconds from the first midnight) of each calendar month, the last one cut at the span's end."""
        edges, day = [self.first], self.first
        while day <= self.last:
            day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
            edges.append(min(day, self.last + timedelta(days=1)))
        seconds = [day_start_us(edge, self.zone) // 1_000_000 - self.start_s for edge in edges]
        return [(f"{edge:%Y-%m}", begin, end) for edge, begin, end in zip(edges, seconds, seconds[1:], strict=False)]

    def _offset_s(self, hour: int) -> int:
        offset = datetime.fromtimestamp(hour * 3600, self.zone).utcoffset()
        return 0 if offset is None else int(offset.total_seconds())


SACCT_COLUMNS = (
    "JobID|User|Group|Account|Partition|QOS|Submit|Start|End|Elapsed|Timelimit|State|ExitCode|"
    "ReqCPUS|ReqMem|ReqNodes|ReqTRES|NodeList|WorkDir|JobName"
)


def sacct(jobs: Jobs, span: Span, random: np.random.Generator) -> Written:
    """Monthly exports of `sacct -P --duplicates --array`: all jobs that were there in the month, as they stood at its end."""
    names, ids = _names(jobs, random), _slurm_ids(jobs)
    fixed = _sacct_requests(jobs, names)
    texts = {name: span.local(at, "T") for name, at in (("submit", jobs.submit_s), ("start", jobs.start_s), ("end", jobs.end_s))}
    again = _requeued(jobs, span, random)
    files: dict[str, Text] = {}
    rejected: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    accepted = 0
    for month, begin, end in span.months():
        lines = [SACCT_COLUMNS]
        there = np.flatnonzero((jobs.submit_s < end) & (jobs.end_s >= begin))
        for at in there.tolist():
            before, after = fixed[at]
            running = bool(jobs.started[at] and jobs.start_s[at] < end <= jobs.end_s[at])
            waits = bool(jobs.start_s[at] >= end)
            state = STATES[jobs.state[at]]
            row: Row
            if waits:
                row = (
                    texts["submit"][at],
                    "Unknown",
                    "Unknown",
                    "00:00:00",
                    after[0],
                    "PENDING",
                    "0:0",
                    after[1],
                    "None assigned",
                )
            elif running:
                so_far = _duration(end - int(jobs.start_s[at]))
                row = (
                    texts["submit"][at],
                    texts["start"][at],
                    "Unknown",
                    so_far,
                    after[0],
                    "RUNNING",
                    "0:0",
                    after[1],
                    _nodes(jobs, at),
                )
            elif not jobs.started[at]:
                by = f"CANCELLED by {1000 + int(jobs.user[at])}"
                row = (texts["submit"][at], "None", texts["end"][at], "00:00:00", after[0], by, "0:0", after[1], "None assigned")
            else:
                said = f"CANCELLED by {1000 + int(jobs.user[at])}" if state == "CANCELLED" else state
                code = {"COMPLETED": "0:0", "FAILED": "1:0", "OUT_OF_MEMORY": "0:125"}.get(state, "0:15")
                run = _duration(int(jobs.run_s[at]))
                row = (
                    texts["submit"][at],
                    texts["start"][at],
                    texts["end"][at],
                    run,
                    after[0],
                    said,
                    code,
                    after[1],
                    _nodes(jobs, at),
                )
            if at in again and not (waits or running):
                first, row = _attempts(row, span, jobs, at)
                lines.append(f"{ids[at]}|{before}|{'|'.join(first)}|{after[2]}|{names[at]}")
                skipped["earlier_attempt"] += 1
            lines.append(f"{ids[at]}|{before}|{'|'.join(row)}|{after[2]}|{names[at]}")
            if jobs.started[at] and not waits:
                lines += _steps(ids[at], row)
                skipped["step"] += 2
        accepted += len(there)
        lines += _sacct_dirt(lines[1:], random, rejected)
        files[f"sacct-{month}.txt"] = lines
    return Written(files, accepted, int((jobs.submit_s < span.end_s).sum()), rejected, skipped)


def helios(jobs: Jobs, span: Span, random: np.random.Generator) -> Written:
    """One cluster_log.csv of all that had ended, in order of submission, as HeliosData publishes it."""
    done = np.flatnonzero(jobs.end_s < span.end_s).tolist()
    texts = {name: span.local(at, " ") for name, at in (("submit", jobs.submit_s), ("start", jobs.start_s), ("end", jobs.end_s))}
    lines = ["job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"]
    users, gpus = jobs.user, jobs.gpus.astype(int)
    for at in done:
        started = bool(jobs.started[at])
        nodes = max(1, -(-int(gpus[at]) // _NODE_GPUS))
        start, run, wait = (texts["start"][at], int(jobs.run_s[at]), int(jobs.wait_s[at])) if started else ("None", 0, 0)
        state = STATES[jobs.state[at]]
        lines.append(
            f"{700_000 + at},u{_hex(random_seed=int(users[at]))[:6]},vc{users[at] % 7},{gpus[at]},{max(4, gpus[at] * 6)},{nodes},"
            f"{'FAILED' if state == 'OUT_OF_MEMORY' else state},{texts['submit'][at]},{start},{texts['end'][at]},{run},{wait}"
        )
    rejected: Counter[str] = Counter()
    lines += _csv_dirt(lines[1:], random, rejected)
    return Written({"cluster_log.csv": lines}, len(done), len(done), rejected)


PAI_HEADERS = {
    "pai_job_table": "job_name,inst_id,user,status,start_time,end_time",
    "pai_task_table": "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
    "pai_group_tag_table": "inst_id,user,gpu_type_spec,group,workload",
}
_WORKLOADS = ("", "", "", "bert", "ctr", "graphlearn", "resnet", "rl", "inception", "nmt")
_ROLES = ("tensorflow", "worker", "PyTorchWorker", "xComputeWorker")


def pai(jobs: Jobs, span: Span, random: np.random.Generator) -> Written:
    """The job, task and group tag tables of PAI, headers in `.header` files; one submission in eight has a ps task too."""
    job_lines, task_lines, tag_lines = [], [], []
    seen = np.flatnonzero(jobs.submit_s < span.end_s).tolist()
    zero_s = span.start_s
    accepted = 0
    for at in seen:
        kind, user = int(jobs.kind[at]), _hex(int(jobs.user[at]))[:12]
        name, inst = _hex(10_000_000 + at)[:24], _hex(20_000_000 + at)[:24]
        submit, start, end = (int(x) + zero_s for x in (jobs.submit_s[at], jobs.start_s[at], jobs.end_s[at]))
        ended, running = jobs.end_s[at] < span.end_s, bool(jobs.started[at] and jobs.start_s[at] < span.end_s <= jobs.end_s[at])
        status = ("Terminated" if jobs.state[at] == 0 else "Failed") if ended else "Running" if running else "Waiting"
        start_text = f"{start}.0" if (ended and jobs.started[at]) or running else ""
        end_text = f"{end}.0" if ended and jobs.started[at] else ""
        job_lines.append(f"{name},{inst},{user},{status},{submit}.0,{end_text}")
        gpu = float(jobs.gpus[at])
        instances = 1 if gpu <= 1 else int(gpu)
        each = int(100 * gpu / instances)
        gpu_type = ("T4", "P100", "V100", "MISC")[kind % 4] if gpu else "CPU"
        role = _ROLES[kind % 4]
        plan_gpu = f"{each}.0" if gpu else ""
        task_lines.append(f"{name},{role},{instances}.0,{status},{start_text},{end_text},600.0,29.296875,{plan_gpu},{gpu_type}")
        if kind % 8 == 1:
            task_lines.append(f"{name},ps,1.0,{status},{start_text},{end_text},600.0,29.296875,,CPU")
        accepted += 1 + (kind % 8 == 1)
        wanted = "V100" if gpu_type == "V100" and kind % 3 == 0 else ""
        tag_lines.append(f"{inst},{user},{wanted},{_hex(30_000_000 + kind)[:24]},{_WORKLOADS[kind % len(_WORKLOADS)]}")
    rejected: Counter[str] = Counter()
    task_lines += _pai_dirt(task_lines, random, rejected)
    files = {"pai_job_table.csv": job_lines, "pai_task_table.csv": task_lines, "pai_group_tag_table.csv": tag_lines}
    headers = {f"{name}.header": [columns] for name, columns in PAI_HEADERS.items()}
    return Written(files | headers, accepted, accepted, rejected)


# -- Slurm, piece by piece


def _slurm_ids(jobs: Jobs) -> Text:
    """Plain numbers in order of submission; tasks of an array share the number of its first."""
    number = 4_100_000 + np.arange(len(jobs))
    first = np.zeros(jobs.session.max(initial=0) + 1, dtype=np.int64)
    first[jobs.session[::-1]] = number[::-1]
    numbers, tasks = np.where(jobs.task >= 0, first[jobs.session], number), jobs.task
    return [f"{n}_{t}" if t >= 0 else f"{n}" for n, t in zip(numbers.tolist(), tasks.tolist(), strict=True)]


def _names(jobs: Jobs, random: np.random.Generator) -> Text:
    """A third of the kinds keep one name, a third number their runs, the others name a setting; a few hold the delimiter."""
    stems = ("train", "eval", "sweep", "preproc", "bash", "md", "finetune", "relion", "vasp", "render")
    runs = random.integers(0, 4000, len(jobs)).tolist()
    rates = random.choice(["1e-3", "3e-4", "1e-4"], len(jobs)).tolist()
    out = []
    for kind, run, rate in zip(jobs.kind.tolist(), runs, rates, strict=True):
        stem = f"{stems[kind % len(stems)]}-{_hex(kind)[:4]}"
        out.append((stem, f"{stem}_{run:04d}", f"{stem}|lr={rate}" if kind % 30 == 2 else f"{stem}-lr{rate}")[kind % 3])
    return out


def _sacct_requests(jobs: Jobs, names: Text) -> list[tuple[str, tuple[str, str, str]]]:
    """Of each job: user to QOS; limit, ReqCPUS to ReqTRES, WorkDir."""
    kinds = []
    for kind in range(len(jobs.kinds.user)):
        user, gpus = int(jobs.kinds.user[kind]), int(jobs.kinds.gpus[kind])
        cpus, mem, nodes = (8 * gpus, 64 * gpus, max(1, -(-gpus // _NODE_GPUS))) if gpus else (4 + 4 * (kind % 8), 16, 1)
        model = GPU_MODELS[kind % 5 == 0]
        tres = (
            f"billing={cpus},cpu={cpus}"
            + (f",gres/gpu:{model}={gpus},gres/gpu={gpus}" if gpus else "")
            + f",mem={mem}G,node={nodes}"
        )
        partition = ("cpu" if not gpus else "gpu" if model == "a100" else "gpu-old") if kind % 11 else "debug"
        before = f"user{user:03d}|lab{user % 6}|lab{user % 6}|{partition}|{'high' if user % 13 == 0 else 'normal'}"
        limit = "UNLIMITED" if kind % 97 == 5 else _duration(int(jobs.kinds.limit_s[kind]))
        kinds.append((before, (limit, f"{cpus}|{mem}G|{nodes}|{tres}", f"/home/user{user:03d}/p{kind % 4}")))
    return [kinds[kind] for kind in jobs.kind.tolist()]


def _requeued(jobs: Jobs, span: Span, random: np.random.Generator) -> set[int]:
    """Jobs whose node failed once before: of those that began and ended within one month, so that one export tells all of it."""
    edges = np.array([begin for _, begin, _ in span.months()])
    within = np.searchsorted(edges, jobs.submit_s, side="right") == np.searchsorted(edges, jobs.end_s, side="right")
    able = within & jobs.started & (jobs.run_s > 60) & (jobs.wait_s > 3) & (jobs.end_s < span.end_s) & (jobs.task < 0)
    return set(np.flatnonzero(able & (random.random(len(jobs)) < 0.008)).tolist())


def _attempts(row: Row, span: Span, jobs: Jobs, at: int) -> tuple[Row, Row]:
    """The attempt that a failing node cut, and the one after it, submitted (as Slurm does) when the first ended."""
    submit, cut = int(jobs.submit_s[at]), int(jobs.submit_s[at] + jobs.wait_s[at] // 2 + 1)
    start_text, cut_text = span.local(np.array([submit + 1, cut]), "T")
    first = (row[0], start_text, cut_text, _duration(cut - submit - 1), row[4], "NODE_FAIL", "0:0", *row[7:])
    return first, (cut_text, *row[1:])


def _steps(job_id: str, row: Row) -> Text:
    """The batch script and the extern step: no user, no group, no limit; the first ends with its job, give or take."""
    times, state = f"{row[1]}|{row[1]}|{row[2]}|{row[3]}", row[5].split(" ")[0]
    return [f"{job_id}.{step}||||||{times}||{state}|{row[6]}|1||1||{row[8]}||{step}" for step in ("batch", "extern")]


def _nodes(jobs: Jobs, at: int) -> str:
    nodes = max(1, -(-int(jobs.gpus[at]) // _NODE_GPUS))
    first = 1 + at % 40
    return f"node[{first:03d}-{first + nodes - 1:03d}]" if nodes > 1 else f"node{first:03d}"


def _duration(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return f"{days}-{clock}" if days else clock


# -- dirt: copies of good rows with new ids, so that nothing good is lost


def _sacct_dirt(lines: Text, random: np.random.Generator, rejected: Counter[str]) -> Text:
    """A few rows as broken exports hold them: cut short, ended before they started, no end, a negative duration."""
    good = [line for line in lines if "|COMPLETED|0:0|" in line and ".batch" not in line and ".extern" not in line]
    out = []
    for number, line in enumerate(_picked(good, len(good) // 200, random)):
        fields = f"{9_000_000 + number}|{line.split('|', 1)[1]}".split("|", 19)
        kind = ("cut_short", "end_before_start", "end_missing", "elapsed_negative")[number % 4]
        if kind == "cut_short":
            fields = fields[:11]
        elif kind == "end_before_start":
            fields[8] = _a_year_before(fields[6])
        elif kind == "end_missing":
            fields[8] = "Unknown"
        else:
            fields[9] = "-00:00:16"
        rejected[kind] += 1
        out.append("|".join(fields))
    return out


def _csv_dirt(lines: Text, random: np.random.Generator, rejected: Counter[str]) -> Text:
    out = []
    good = [line for line in lines if ",COMPLETED," in line]
    for number, line in enumerate(_picked(good, len(good) // 300, random)):
        fields = [f"{8_000_000 + number}", *line.split(",")[1:]]
        kind = ("cut_short", "end_before_start", "time_unreadable")[number % 3]
        if kind == "cut_short":
            fields = fields[:8]
        elif kind == "end_before_start":
            fields[9], fields[10] = _a_year_before(fields[7]), ""
        else:
            fields[7] = "2026-13-45 99:00:00"
        rejected[kind] += 1
        out.append(",".join(fields))
    return out


def _pai_dirt(lines: Text, random: np.random.Generator, rejected: Counter[str]) -> Text:
    out = []
    good = [line for line in lines if ",Terminated," in line]
    for number, line in enumerate(_picked(good, len(good) // 300, random)):
        fields = line.split(",")
        kind = ("job_unknown", "end_before_start", "end_missing")[number % 3]
        fields[1] = f"{fields[1]}-{number}"
        if kind == "job_unknown":
            fields[0] = _hex(90_000_000 + number)[:24]
        elif kind == "end_before_start":
            fields[5] = f"{float(fields[4]) - 5:.1f}"
        else:
            fields[5] = ""
        rejected[kind] += 1
        out.append(",".join(fields))
    return out


def _a_year_before(time: str) -> str:
    return f"{int(time[:4]) - 1}{time[4:10].replace('-02-29', '-02-28')}{time[10:]}"


def _picked(lines: Text, count: int, random: np.random.Generator) -> Iterator[str]:
    return (lines[at] for at in sorted(random.choice(len(lines), count, replace=False).tolist()) if lines)


def _hex(random_seed: int) -> str:
    """A fixed name for a number, spread over all letters (a step of splitmix64, twice)."""
    text = ""
    for salt in (1, 2):
        x = (random_seed * 2 + salt) * 0x9E3779B97F4A7C15 & 0xFFFF_FFFF_FFFF_FFFF
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFF_FFFF_FFFF_FFFF
        x = (x ^ x >> 27) * 0x94D049BB133111EB & 0xFFFF_FFFF_FFFF_FFFF
        text += f"{x ^ x >> 31:016x}"
    return text
