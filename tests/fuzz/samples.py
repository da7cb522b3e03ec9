"""Made-up records of every format, as near to real ones as a small generator comes: what the mutator starts from.

A layout is one way a format is met (a header or none, another delimiter, JSON lines, typed times ...). A line layout makes lines,
a document layout makes records of one JSON document.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

START = datetime(2024, 2, 20, tzinfo=UTC)  # a leap day and both changes of the clock are within reach
STATES = (
    "COMPLETED",
    "COMPLETED",
    "COMPLETED",
    "FAILED",
    "CANCELLED by 1003",
    "TIMEOUT",
    "RUNNING",
    "PENDING",
    "NODE_FAIL",
    "REQUEUED",
)
NAMES = ("train_017_lr0.001.sh", "bash", "wrap", "a b c", "müller-fit", "x" * 60, "run.py --n=3", "=1+1", "<b>bold</b>", "7")


@dataclass(frozen=True)
class Job:
    """One made-up job; times are whole seconds since 1970."""

    number: int
    user: str
    name: str
    state: str
    submit_s: int
    start_s: int
    end_s: int
    gpus: int
    cpus: int
    nodes: int
    limit_s: int


def make_job(draw: Random, number: int) -> Job:
    """Return a job; some ids come twice, as requeued jobs' do."""
    submit = int(START.timestamp()) + number * 37 + draw.randrange(30)
    start = submit + draw.choice((0, 1, 60, 7200))
    return Job(
        number=max(1, number - draw.choice((0, 0, 0, 0, 0, 0, 0, 0, 0, 1))),
        user=f"u{draw.randrange(40)}",
        name=draw.choice(NAMES),
        state=draw.choice(STATES),
        submit_s=submit,
        start_s=start,
        end_s=start + draw.choice((0, 1, 59, 3600, 90_061, 400_000)),
        gpus=draw.choice((0, 0, 1, 2, 8)),
        cpus=draw.choice((1, 2, 8, 64)),
        nodes=draw.choice((1, 1, 1, 2, 16)),
        limit_s=draw.choice((60, 3600, 86_400, 604_800)),
    )


@dataclass(frozen=True)
class Layout:
    """How a format is written: `row` makes one line or one record of a job; `count` tells the records of a file by itself.

    `count` takes the file's lines after its header and the notes of the reading, and returns how many records there are; None
    where quotes make that a matter of the reading.
    """

    name: str
    format: str
    row: Callable[[Job], str] | Callable[[Job], dict[str, Any]]
    count: Callable[[list[bytes], Mapping[str, int]], int | None] = lambda lines, notes: sum(map(bool, lines))
    head: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    clock: str = "calendar"
    zone: str = "Europe/Berlin"
    file: str = "log.csv"
    beside: Mapping[str, str] = field(default_factory=dict)  # other files of the folder
    document: Callable[[list[str]], str] | None = None  # of a document layout: its text, from the records'


def text(seconds: int, form: str = "%Y-%m-%dT%H:%M:%S") -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(form)


def clock_text(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    return (f"{days}-" if days else "") + str(timedelta(seconds=rest)).zfill(8)


def is_open(job: Job) -> bool:
    return job.state in ("RUNNING", "PENDING")


def _sacct_values(job: Job) -> dict[str, str]:
    tres = f"cpu={job.cpus},mem={job.cpus * 4}G,node={job.nodes},billing={job.cpus}" + (
        f",gres/gpu={job.gpus}" if job.gpus else ""
    )
    start = "Unknown" if job.state == "PENDING" else text(job.start_s)
    return {
        "JobID": f"{job.number}" if job.number % 11 else f"{job.number}_{job.number % 5}",
        "User": job.user,
        "Account": "lab",
        "Partition": "gpu" if job.gpus else "cpu",
        "Submit": text(job.submit_s),
        "Start": start,
        "End": "Unknown" if is_open(job) else text(job.end_s),
        "Elapsed": clock_text(job.end_s - job.start_s),
        "State": job.state,
        "Timelimit": clock_text(job.limit_s),
        "ReqMem": f"{job.cpus * 4}Gn",
        "ReqTRES": tres,
        "AllocTRES": tres if job.state != "PENDING" else "",
        "NNodes": str(job.nodes),
        "NodeList": "None assigned" if job.state == "PENDING" else f"cn[001-{job.nodes:03d}]",
        "WorkDir": f"/home/{job.user}/exp{job.number % 7}",
        "JobName": job.name,
    }


_SACCT = tuple(_sacct_values(make_job(Random(0), 1)))


def _sacct(job: Job, delimiter: str = "|", end: str = "", names: tuple[str, ...] = _SACCT) -> str:
    values = _sacct_values(job)
    return delimiter.join(values[name] for name in names) + end


_BLANKS = b" \t\x0b\x0c\x1c\x1d\x1f"  # the control characters that the sacct source reads as blanks, too


_DRAWN = "|0123456789abcdef|"  # a delimiter as README.md draws one
_DRAWN_NAMES = (_SACCT[0], *_SACCT[-2:], *_SACCT[1:-2])  # free text neither first nor last


def _stripped(lines: list[bytes]) -> int:
    return sum(bool(line.strip(_BLANKS)) for line in lines)


def _json_lines(lines: list[bytes], _notes: Mapping[str, int]) -> int:
    return sum(bool(line.strip()) for line in lines)


def _with_continuations(lines: list[bytes], notes: Mapping[str, int]) -> int:
    return _stripped(lines) - notes.get("continuation_lines", 0)


def _with_marks(lines: list[bytes], _notes: Mapping[str, int]) -> int:
    return sum(bool(piece.strip()) for piece in b"\n".join(lines).split(b"~#~"))


def _unquoted(lines: list[bytes], _notes: Mapping[str, int]) -> int | None:
    return None if any(b'"' in line for line in lines) else sum(map(bool, lines))


def _even_quotes(lines: list[bytes], _notes: Mapping[str, int]) -> int | None:
    """A text with a line end makes a record of several lines."""
    texts = [line.decode(errors="backslashreplace") for line in lines]
    return None if any(text.count('"') % 2 for text in texts) else sum(bool(t.strip()) and not t.startswith("#") for t in texts)


def _swf_count(lines: list[bytes], _notes: Mapping[str, int]) -> int:
    return sum(bool(line.strip()) and not line.strip().startswith(b";") for line in lines)


def _json_line(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False)


def _swf(job: Job) -> str:
    status = {"COMPLETED": 1, "FAILED": 0, "PENDING": 5}.get(job.state, 5)
    at = job.submit_s - int(START.timestamp())
    run = job.end_s - job.start_s
    return f"{job.number} {at} {job.start_s - job.submit_s} {run} {job.cpus} -1 -1 {job.cpus} {job.limit_s} -1 {status} 3 1 7 1 -1 -1 -1"


def _helios(job: Job) -> str:
    moments = [text(s, "%Y-%m-%d %H:%M:%S") for s in (job.submit_s, job.start_s, job.end_s)]
    state = job.state.split()[0]
    return ",".join(
        map(
            str,
            (
                job.number,
                job.user,
                "vc1",
                job.gpus,
                job.cpus,
                job.nodes,
                state,
                *moments,
                job.end_s - job.start_s,
                job.start_s - job.submit_s,
            ),
        )
    )


def _quoted(*values: str) -> str:
    return " ".join('"' + value.replace('"', '""') + '"' for value in values)


def _lsf(job: Job) -> str:
    start = 0 if job.state == "PENDING" else job.start_s
    hosts = [f"h{number}" for number in range(job.nodes)] if start else []
    status = 64 if job.state == "COMPLETED" else 32
    effective = f"rusage[ngpus_physical={job.gpus}.00]" if job.gpus else ""
    return " ".join(
        [
            f'"JOB_FINISH" "10.108" {job.end_s} {job.number} 9 33554434 {job.cpus} {job.submit_s} 0 0 {start}',
            _quoted(job.user, "gpu", "", "", "", "login", "/w", "", "", "", "1.1"),
            f"0 {len(hosts)} {_quoted(*hosts)} {status} 60.0",
            _quoted(job.name, "run"),
            "0.5 0.2 3748 0 -1 0 0 436 4 0 928 0 -1 0 0 0 19 2 -1",
            f'"" "lab" 0 1 "" "" {job.number % 3} 0 0 "" "" "" "" 0 "" {0 if status == 64 else 14}',
            '"" -1 "/u" "" "" "" -1 "" "" 80 "" 0 "" ""',
            f'1 1041 "jfincache" 0 {job.limit_s} 64 9 {_quoted(effective)} "" -1 "" -1 0 "" 0 0 "" 7 "/w" 0 "" 0.0 0.0 0.0 0.0 0.0',
            f"{len(hosts)} {_quoted(*hosts)} -1 0 0 0 0 0",
        ]
    )


_LSF_TIME = "%b %d %H:%M:%S %Y"


def _bjobs(job: Job) -> dict[str, Any]:
    state = {"COMPLETED": "DONE", "RUNNING": "RUN", "PENDING": "PEND"}.get(job.state, "EXIT")
    return {
        "JOBID": f"{job.number}[{job.number % 5}]" if job.number % 5 else f"{job.number}",
        "STAT": state,
        "USER": job.user,
        "JOB_NAME": job.name,
        "SUBMIT_TIME": text(job.submit_s, _LSF_TIME),
        "START_TIME": "-" if state == "PEND" else text(job.start_s, _LSF_TIME),
        "FINISH_TIME": text(job.end_s, _LSF_TIME) + " L",
        "EXIT_REASON": "TERM_OWNER: job killed by owner" if job.state.startswith("CANCELLED") else "-",
        "MIN_REQ_PROC": str(job.cpus),
        "EXEC_HOST": ":".join(f"4*h{number}" for number in range(job.nodes)),
        "RUNTIMELIMIT": clock_of(job.limit_s),
        "EFFECTIVE_RESREQ": f"rusage[ngpus_physical={job.gpus}.00]",
    }


def _bacct(job: Job) -> str:
    lines = [
        f"Job <{job.number}>, Job Name <{job.name}>, User <{job.user}>, Project <lab>, Status <DONE>, Queue <gpu>, Command <run>",
        f"{text(job.submit_s, '%a ' + _LSF_TIME)}: Submitted from host <login>, CWD </w>;",
        f"{text(job.start_s, '%a ' + _LSF_TIME)}: Dispatched {job.cpus} Task(s) on Host(s) <h1> <h2>;",
        f"{text(job.end_s, '%a ' + _LSF_TIME)}: Completed <done>.",
    ]
    return "\n".join(lines)


def _pbs(job: Job) -> str:
    state = {"PENDING": "Q", "RUNNING": "S"}.get(job.state, "E")
    name = job.name.replace(" ", "_")
    fields = [
        f"user={job.user}",
        "group=g",
        'account="P 1"',
        f"jobname={name}",
        "queue=gpu",
        f"ctime={job.submit_s}",
        f"etime={job.submit_s}",
    ]
    if state != "Q":
        fields += [f"start={job.start_s}", "exec_host=n1/0*4+n2/0*4"]
    fields += [
        f"Resource_List.select={job.nodes}:ncpus={job.cpus}:ngpus={job.gpus}",
        f"Resource_List.walltime={clock_of(job.limit_s)}",
    ]
    if state == "E":
        fields += [f"end={job.end_s}", f"Exit_status={0 if job.state == 'COMPLETED' else 271}", "run_count=1"]
    return f"{text(job.end_s, '%m/%d/%Y %H:%M:%S')};{state};{job.number}.srv;{' '.join(fields)}"


def _sge(job: Job) -> str:
    is_early = job.state == "PENDING"
    failed = {"COMPLETED": 0, "RUNNING": 0, "FAILED": 0, "TIMEOUT": 37, "NODE_FAIL": 19, "REQUEUED": 25}.get(job.state, 100)
    times = [0, 0, 0] if is_early else [job.submit_s, job.start_s, job.end_s]
    unit = 1000 if job.number % 3 else 1
    numbers = [
        "0",
        *(str(time * unit) for time in times),
        "1" if is_early else str(failed),
        "137" if failed else "0",
        *["0.5"] * 18,
    ]
    category = f"-u {job.user} -l h_rt={clock_of(job.limit_s)},h_vmem=4G,gpu={job.gpus} -pe smp {job.cpus}"
    fields = [
        "all.q", "n1", "g", job.user, job.name, str(job.number), "sge", *numbers, "NONE", "defaultdepartment", "smp", str(job.cpus),
        str(job.number % 4), "0.1", "0.2", "0.3", category, "0.000000", "1.n1" if job.number % 19 == 0 else "NONE", "1024.0", "0", "0",
    ]  # fmt: skip
    return ":".join(fields)


def _sge_count(lines: list[bytes], notes: Mapping[str, int]) -> int:
    return sum(len(text) > 1 and text[0] != "#" for text in (line.decode(errors="backslashreplace") for line in lines))


def _condor(job: Job) -> dict[str, Any]:
    status = {"PENDING": 1, "RUNNING": 2, "REQUEUED": 5, "CANCELLED by 1003": 3}.get(job.state, 4)
    return {
        "ClusterId": job.number, "ProcId": job.number % 5, "Owner": job.user, "JobBatchName": job.name, "Cmd": "/bin/run", "Iwd": "/home",
        "QDate": job.submit_s, "JobStartDate": job.start_s, "JobCurrentStartDate": job.start_s, "EnteredCurrentStatus": job.end_s,
        "CompletionDate": job.end_s if status == 4 else 0, "JobStatus": status, "LastJobStatus": 2, "NumJobStarts": 1 + job.number % 3,
        "RemoteWallClockTime": float(job.end_s - job.start_s), "ExitCode": int(job.state != "COMPLETED"), "ExitBySignal": False,
        "RequestCpus": job.cpus, "RequestGPUs": job.gpus, "RequestMemory": 4096, "AllowedExecuteDuration": job.limit_s,
    }  # fmt: skip


def _class_ads(records: list[str]) -> str:
    ads = [json.loads(record) for record in records]
    lines = [[f"{name} = {json.dumps(value)}" for name, value in ad.items()] if isinstance(ad, dict) else [str(ad)] for ad in ads]
    return "\n\n".join("\n".join(some) for some in lines).encode(errors="replace").decode()  # lone surrogates


def _flux(job: Job) -> dict[str, Any]:
    said: dict[str, Any] = {
        "id": job.number * 4096, "userid": 1000, "username": job.user, "name": job.name, "t_submit": job.submit_s + 0.25, "cwd": "/home",
        "bank": "b", "queue": "q", "ncores": job.cpus, "nnodes": job.nodes, "duration": float(job.limit_s), "state": "RUN",
        "annotations": {"sched": {"resource_summary": f"rank[0-{job.nodes}]/core0,gpu[0-{job.gpus}]"}},
    }  # fmt: skip
    if job.state != "PENDING":
        said["t_run"] = job.start_s + 0.5
    if not is_open(job):
        said |= {"t_cleanup": job.end_s + 0.75, "t_inactive": job.end_s + 1, "result": job.state.split()[0], "success": True}
    return said


def _kubernetes(job: Job) -> dict[str, Any]:
    """A Job, the pod of one that is not in the file, or Kueue's Workload of that, by its number."""
    form, name = "%Y-%m-%dT%H:%M:%SZ", f"j{job.number // 3}"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}", "controller": True}
    resources = {"requests": {"cpu": f"{job.cpus}", "memory": f"{job.cpus}Gi", "nvidia.com/gpu": str(job.gpus)}}
    spec = {"containers": [{"name": "c", "resources": resources}], "activeDeadlineSeconds": job.limit_s}
    kind = ("Job", "Pod", "Workload")[job.number % 3]
    metadata = {
        "name": f"{name}-{kind}",
        "namespace": job.user,
        "uid": f"{kind}-{job.number}",
        "creationTimestamp": text(job.submit_s, form),
    }
    ended = {"terminated": {"exitCode": 0 if job.state == "COMPLETED" else 1, "finishedAt": text(job.end_s, form)}}
    phase = {"COMPLETED": "Succeeded", "RUNNING": "Running", "PENDING": "Pending"}.get(job.state, "Failed")
    if kind == "Job":
        done = {
            "type": "Complete" if phase == "Succeeded" else "Failed",
            "status": "True",
            "lastTransitionTime": text(job.end_s, form),
        }
        status: dict[str, Any] = {"startTime": text(job.start_s, form), "conditions": [] if is_open(job) else [done]}
        return {
            "apiVersion": "batch/v1",
            "kind": kind,
            "metadata": metadata,
            "spec": {"template": {"spec": spec}},
            "status": status,
        }
    metadata["ownerReferences"] = [owner]
    if kind == "Pod":
        status = {"phase": phase, "containerStatuses": [{"name": "c", "restartCount": 0, "state": {} if is_open(job) else ended}]}
        status |= {} if phase == "Pending" else {"startTime": text(job.start_s, form)}
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec, "status": status}
    admitted = {"type": "Admitted", "status": "True", "lastTransitionTime": text(job.start_s, form)}
    sets = {"queueName": "q", "podSets": [{"count": job.nodes, "template": {"spec": spec}}]}
    return {"kind": kind, "metadata": metadata, "spec": sets, "status": {"conditions": [admitted]}}


def clock_of(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _pod(job: Job) -> str:
    zero = int(START.timestamp())
    phase = {"COMPLETED": "Succeeded", "FAILED": "Failed", "PENDING": "Pending"}.get(job.state, "Running")
    scheduled = "" if phase == "Pending" else job.start_s - zero
    return ",".join(
        map(
            str,
            (
                f"pod-{job.number}",
                job.cpus * 1000,
                1024,
                job.gpus,
                500 if job.gpus else 0,
                "",
                "LS",
                phase,
                job.submit_s - zero,
                job.end_s - zero,
                scheduled,
            ),
        )
    )


def _pai(job: Job) -> str:
    zero = int(START.timestamp())
    status = {"COMPLETED": "Terminated", "RUNNING": "Running", "PENDING": "Waiting"}.get(job.state, "Failed")
    return f"j{job.number % 50},worker,{job.nodes}.0,{status},{job.start_s - zero}.0,{job.end_s - zero}.0,600.0,29.3,{job.gpus * 50}.0,T4"


def _acme(job: Job) -> dict[str, Any]:
    moments = {
        name: text(s, "%Y-%m-%d %H:%M:%S+08:00")
        for name, s in (("submit_time", job.submit_s), ("start_time", job.start_s), ("end_time", job.end_s))
    }
    return {
        "job_id": f"d{job.number}",
        "user": job.user,
        "node_num": job.nodes,
        "gpu_num": job.gpus,
        "cpu_num": job.cpus,
        "type": "Pretrain",
        "state": job.state.split()[0],
        **moments,
        "duration": job.end_s - job.start_s,
        "queue": 1,
        "gpu_time": 3,
    }


def _acme_json(job: Job) -> str:
    values = _acme(job)
    renamed = {
        "user": "user_hash",
        "gpu_num": "gpu_count",
        "cpu_num": "cpu_count",
        "node_num": "node_count",
        "type": "workload_type",
        "state": "termination_state",
        "duration": "duration_s",
    }
    return _json_line({renamed.get(name, name): value for name, value in values.items()})


_ACME = tuple(_acme(make_job(Random(0), 1)))


def _table(job: Job) -> dict[str, Any]:
    return {
        "id": f"{job.number}_{job.number % 3}",
        "who": job.user,
        "when": job.submit_s,
        "wait": job.start_s - job.submit_s,
        "ran": job.end_s - job.start_s,
        "limit": job.limit_s // 60,
        "how": job.state,
        "mem": f"{job.cpus}G",
        "gpus": job.gpus,
    }


_TABLE = tuple(_table(make_job(Random(0), 1)))
_COLUMNS = {
    "job_id": "id",
    "user": "who",
    "submit_time": "when",
    "queue_s": "wait",
    "runtime_s": "ran",
    "time_limit_s": {"column": "limit", "unit": "minutes"},
    "state": "how",
    "gpu_count": "gpus",
    "mem_mib": {"column": "mem", "pattern": r"(?P<value>\d+)G", "unit": "gib"},
}


def _naive(job: Job) -> str:
    return ";".join((text(job.submit_s), text(job.start_s), text(job.end_s), job.user, job.name.replace(";", ","), str(job.cpus)))


def _written(job: Job) -> str:
    """As a site's own script writes it: days first, clocks for lengths of time."""
    waited, ran, hours = clock_text(job.start_s - job.submit_s), clock_text(job.end_s - job.start_s), job.limit_s // 3600
    limit = f"{hours}:{job.limit_s % 3600 // 60:02}" if hours else "UNLIMITED"
    submitted = text(job.submit_s, "%d.%m.%Y %H:%M:%S+0000")
    fields = (f"job {job.number}", job.user, f"{submitted} L", waited, "" if is_open(job) else ran, limit, f"{job.cpus}G")
    return ";".join((*fields, str(job.number % 3), job.state))


def _philly(job: Job) -> dict[str, Any]:
    form = "%Y-%m-%d %H:%M:%S"
    attempt = {
        "start_time": text(job.start_s, form),
        "end_time": None if is_open(job) else text(job.end_s, form),
        "detail": [{"ip": "m1", "gpus": ["gpu0"] * job.gpus}],
    }
    return {
        "status": {"COMPLETED": "Pass", "FAILED": "Failed"}.get(job.state, "Killed"),
        "vc": "vc7",
        "jobid": f"application_{job.number}",
        "attempts": [attempt] if job.state != "PENDING" else [],
        "submitted_time": text(job.submit_s, form),
        "user": job.user,
    }


def _slurm_json(job: Job) -> dict[str, Any]:
    def number(value: int | None) -> dict[str, Any]:
        return {"set": value is not None, "infinite": False, "number": value or 0}

    tres = [{"type": "cpu", "name": "", "count": job.cpus}, {"type": "gres", "name": "gpu", "count": job.gpus}]
    ends = 0 if is_open(job) else job.end_s
    return {
        "job_id": job.number,
        "name": job.name,
        "user": job.user,
        "account": "lab",
        "partition": "gpu",
        "group": "g",
        "qos": "normal",
        "cluster": "hpc",
        "state": {"current": [job.state.split()[0]]},
        "working_directory": f"/home/{job.user}",
        "nodes": "cn[1-2]",
        "allocation_nodes": job.nodes,
        "array": {"job_id": 0, "task_id": number(None), "task": ""},
        "het": {"job_id": 0, "job_offset": number(None)},
        "restart_cnt": 0,
        "time": {
            "submission": job.submit_s,
            "start": job.start_s,
            "end": ends,
            "elapsed": job.end_s - job.start_s,
            "limit": number(job.limit_s // 60),
        },
        "required": {"CPUs": job.cpus, "memory_per_cpu": number(None), "memory_per_node": number(4000)},
        "tres": {"requested": tres, "allocated": tres},
        "steps": [{"time": {"end": number(0)}}],
    }


_SWF_HEAD = f"; Version: 2.2\n; UnixStartTime: {int(START.timestamp())}\n; MaxProcs: 512\n; Queue: 1 batch\n"
_PAI_BESIDE = {
    "pai_task_table.header": "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
    "pai_job_table.header": "job_name,inst_id,user,status,start_time,end_time",
    "pai_job_table.csv": "".join(f"j{n},i{n},u{n % 9},Terminated,{n + 1}.0,9999.0\n" for n in range(50)),
    "pai_group_tag_table.header": "inst_id,user,gpu_type_spec,group,workload",
    "pai_group_tag_table.csv": "".join(f"i{n},u{n % 9},T4,g{n % 5},bert\n" for n in range(40)),
}

LAYOUTS: tuple[Layout, ...] = (
    Layout("sacct", "slurm_sacct", _sacct, _with_continuations, "|".join(_SACCT) + "\n", file="log.txt"),
    Layout(
        "sacct_parsable",
        "slurm_sacct",
        lambda j: _sacct(j, end="|"),
        _with_continuations,
        "|".join(_SACCT) + "|\n",
        file="log.txt",
    ),
    Layout(
        "sacct_drawn",
        "slurm_sacct",
        lambda j: _sacct(j, _DRAWN, names=_DRAWN_NAMES),
        _with_continuations,
        _DRAWN.join(_DRAWN_NAMES) + "\n",
        file="log.txt",
    ),
    Layout(
        "sacct_name_inside",
        "slurm_sacct",
        lambda j: _sacct(j, names=_SACCT[::-1]),
        lambda lines, notes: _stripped(lines),
        "|".join(_SACCT[::-1]) + "\n",
        file="log.txt",
    ),
    Layout(
        "sacct_headless",
        "slurm_sacct",
        lambda j: _sacct(j, "\x02"),
        _with_continuations,
        options={"columns": _SACCT, "delimiter": "\x02"},
        file="log.txt",
    ),
    Layout(
        "sacct_marked",
        "slurm_sacct",
        lambda j: _sacct(j, "^^|", "^^|~#~", _SACCT),
        _with_marks,
        "^^|".join(_SACCT) + "^^|~#~\n",
        {"delimiter": "^^|", "record_end": "~#~"},
        file="log.txt",
    ),
    Layout(
        "slurm_json",
        "slurm_json",
        _slurm_json,
        options={"slurm_cluster": "hpc"},
        file="log.json",
        document=lambda records: '{"meta": {}, "jobs": [' + ",\n".join(records) + '], "errors": []}',
    ),
    Layout(
        "pbs",
        "pbs",
        _pbs,
        lambda lines, notes: sum(bool(line.decode(errors="backslashreplace").strip()) for line in lines),
        file="log.acct",
    ),
    Layout("sge", "sge", _sge, _sge_count, file="accounting"),
    Layout(
        "htcondor",
        "htcondor",
        _condor,
        file="history.json",
        document=lambda records: "[" + ",\n".join(records) + "]",
    ),
    Layout("htcondor_ads", "htcondor", _condor, file="history", document=_class_ads),
    Layout("flux", "flux", _flux, file="jobs.json", document=lambda records: '{"jobs": [' + ",\n".join(records) + "]}"),
    Layout("flux_lines", "flux", lambda j: json.dumps(_flux(j)), _json_lines, file="jobs.jsonl"),
    Layout(
        "kubernetes",
        "kubernetes",
        _kubernetes,
        file="pods.json",
        document=lambda records: '{"apiVersion": "v1", "items": [' + ",\n".join(records) + '], "kind": "List"}',
    ),
    Layout("kubernetes_watch", "kubernetes", _kubernetes, file="watch.json", document="\n".join),
    Layout("swf", "swf", _swf, _swf_count, _SWF_HEAD, file="log.swf"),
    Layout(
        "helios",
        "helios",
        _helios,
        _unquoted,
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n",
        zone="Asia/Shanghai",
    ),
    Layout("pai", "pai", _pai, _unquoted, clock="week", zone="Asia/Shanghai", file="pai_task_table.csv", beside=_PAI_BESIDE),
    Layout(
        "philly",
        "philly",
        _philly,
        file="log.json",
        zone="America/Los_Angeles",
        document=lambda records: "[" + ",\n".join(records) + "]",
    ),
    Layout("acme", "acme", lambda j: ",".join(map(str, _acme(j).values())), _unquoted, ",".join(_ACME) + "\n"),
    Layout("acme_lines", "acme", _acme_json, _json_lines, file="log.jsonl"),
    Layout("lsf", "lsf", _lsf, _even_quotes, file="lsb.acct"),
    Layout(
        "lsf_bjobs",
        "lsf",
        _bjobs,
        file="bjobs.json",
        document=lambda records: '{"COMMAND": "bjobs", "JOBS": 1, "RECORDS": [' + ",\n".join(records) + "]}",
    ),
    Layout(
        "lsf_delimited",
        "lsf",
        lambda j: "|".join(map(str, _bjobs(j).values())),
        lambda lines, notes: sum(bool(line.decode(errors="backslashreplace").strip()) for line in lines),
        "|".join(_bjobs(make_job(Random(0), 1))) + "\n",
        file="bjobs.txt",
    ),
    Layout("lsf_text", "lsf", _bacct, lambda lines, notes: None, file="bacct.txt"),
    Layout(
        "table_pods",
        "table",
        _pod,
        _unquoted,
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n",
        {
            "columns": {
                "job_id": "name",
                "submit_time": "creation_time",
                "start_time": "scheduled_time",
                "end_time": "deletion_time",
                "state": "pod_phase",
                "gpu_count": {"column": "num_gpu", "times": {"column": "gpu_milli", "unit": "thousandths"}},
            },
            "constants": {"node_count": "1"},
            "time": {"seconds_from": "1970-01-01T00:00:00Z"},
            "log_end": "1970-03-01T00:00:00Z",
        },
        clock="relative",
    ),
    Layout(
        "table",
        "table",
        lambda j: ",".join(map(str, _table(j).values())),
        _unquoted,
        ",".join(_TABLE) + "\n",
        {
            "columns": _COLUMNS,
            "time": "epoch_s",
            "array_pattern": r"^(?P<array>\d+)_(?P<task>\d+)$",
            "repeated_ids": "array_tasks",
        },
    ),
    Layout(
        "table_lines",
        "table",
        lambda j: _json_line(_table(j)),
        _json_lines,
        options={"columns": _COLUMNS, "time": "epoch_s"},
        file="log.jsonl",
    ),
    Layout(
        "table_headless",
        "table",
        _naive,
        lambda lines, notes: (
            None if any(b'"' in li for li in lines) else sum(bool(li) and not li.startswith(b"#") for li in lines)
        ),
        options={
            "columns": {"submit_time": "s", "start_time": "b", "end_time": "e", "user": "u", "job_name": "n", "cpu_count": "c"},
            "header": ["s", "b", "e", "u", "n", "c"],
            "delimiter": ";",
            "comment": "#",
        },
    ),
    Layout(
        "table_written",
        "table",
        _written,
        _unquoted,
        "id;who;sub;wait;run;limit;mem;again;state\n",
        {
            "delimiter": ";",
            "columns": {
                "job_id": {"column": "id", "pattern": r"^job (?P<value>\d+)$"},
                "user": {"column": "who", "null_words": ["?"], "values": {"u1": "root"}},
                "submit_time": {
                    "column": "sub",
                    "pattern": r"^(?P<value>.+?)(?: [LE])?$",
                    "time": {"format": "%d.%m.%Y %H:%M:%S%z"},
                },
                "queue_s": {"column": "wait", "unit": "hh:mm:ss"},
                "runtime_s": {"column": "run", "unit": "hh:mm:ss"},
                "time_limit_s": {"column": "limit", "unit": "hh:mm"},
                "mem_mib": {"column": "mem", "pattern": "(?P<value>.*)G", "unit": "gib"},
                "restarts": "again",
                "state": "state",
            },
        },
    ),
    Layout(
        "table_items",
        "table",
        lambda j: {**_table(j), "how": {"state": j.state, "where": [j.gpus]}},
        options={
            "columns": {**_COLUMNS, "state": "how.state", "node_count": "how.where.0"},
            "time": "epoch_s",
            "records": "jobs",
        },
        file="log.json",
        document=lambda records: '{"jobs": [' + ",\n".join(records) + "]}",
    ),
)
BY_NAME = {layout.name: layout for layout in LAYOUTS}
