"""Cluster files for schedulers whose logs Runcast can fetch or find by itself: Slurm, LSF, PBS and Kubernetes.

What the scheduler's own commands say (name, whether GPUs are tracked, limits of partitions) is read from them; the rest is the
caller's. Programs are written with their full paths, since a night's PATH may be another.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from runcast.data.collect_command import Limits, run_command
from runcast.data.errors import CollectFailed, UsageError
from runcast.data.files import flush_folder

_LIMITS = Limits(timeout_s=60, output_bytes=64 << 20)
_SACCT_FIELDS = (
    "JobID,JobName,WorkDir,User,Group,Account,Partition,QOS,Submit,Eligible,Start,End,Elapsed,Suspended,State,Timelimit,ReqNodes,"
    "ReqCPUS,ReqMem,ReqTRES,AllocTRES,NNodes,NodeList"
)
#: Kinds of workloads beside pods and jobs; those that a Kubernetes cluster knows are fetched too.
_WORKLOADS = (
    "jobsets.jobset.x-k8s.io",
    "trainjobs.trainer.kubeflow.org",
    "pytorchjobs.kubeflow.org",
    "tfjobs.kubeflow.org",
    "trainjobs.trainer.kubeflow.org",
    "rayclusters.ray.io",
    "rayjobs.ray.io",
    "mpijobs.kubeflow.org",
    "tfjobs.kubeflow.org",
    "rayjobs.ray.io",
    "jobs.batch.volcano.sh",
    "workloads.kueue.x-k8s.io",
)
_PBS_HOMES = ("/var/spool/pbs", "/var/spool/torque", "/var/spool/PBS")

Run = Callable[..., str]


@dataclass(frozen=True)
class Found:
    """What is to stand in a cluster file: null where nothing says it. `origin` says where each answer is from."""

    format: str
    description: str
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    gpus_tracked: bool | None = None
    time_zone: str | None = None
    since: date | None = None
    origin: Mapping[str, str] = field(default_factory=dict)

    @property
    def names_days(self) -> bool:
        return any("{first" in word for word in self.command)


def find_out(scheduler: str, environment: Mapping[str, str], logs: str | None = None) -> Found:
    """Ask a scheduler's commands what its cluster file needs; `logs` names the files of a log that is not fetched.

    Raises CollectFailed where a command fails, UsageError where it is not there.
    """
    preset, variables = PRESETS[scheduler]
    named = {name: environment[name] for name in variables if environment.get(name)}
    passed = {name: environment[name] for name in ("PATH", "HOME") if name in environment}

    def run(*command: str) -> str:
        pieces: list[bytes] = []
        run_command(command, {**passed, **named, "LC_ALL": "C.UTF-8"}, _LIMITS, pieces.append)
        return b"".join(pieces).decode("utf-8", "replace")

    def program(name: str) -> str:
        path = shutil.which(name, path=passed.get("PATH"))
        if path is None:
            raise UsageError(
                f"{name} is not on the PATH: run this where {scheduler}'s commands are installed"
                + (", or name the log's files with --logs." if scheduler in ("lsf", "pbs") else ".")
            )
        return os.path.abspath(path)  # noqa: PTH100  a link such as /usr/bin/sacct stays one

    found = preset(run, program, logs)
    found = replace(found, time_zone=machine_zone(environment))
    return replace(found, environment={**named, **found.environment} if found.command else {})


def _slurm(run: Run, program: Callable[[str], str], logs: str | None) -> Found:
    if logs is not None:
        return Found("slurm_sacct", "A Slurm cluster", paths=(logs,))
    sacct, scontrol = program("sacct"), program("scontrol")
    config = dict(re.findall(r"^(\w+)\s*= (.*?)\s*$", run(scontrol, "show", "config"), re.MULTILINE))
    if config.get("AccountingStorageType", "").endswith("none"):
        raise CollectFailed("AccountingStorageType is none: this Slurm keeps no accounting, so there is no log to learn from.")
    limits = dict(_partition_limits(run(scontrol, "--oneliner", "show", "partition")))
    tracked = config.get("AccountingStorageTRES", "").lower().split(",")
    command = (
        sacct, "--allusers", "--duplicates", "--parsable2", "--delimiter={delimiter}", "--starttime", "{first}", "--endtime", "{next}",
        "--format", _SACCT_FIELDS,
    )  # fmt: skip
    return Found(
        "slurm_sacct",
        f"Slurm cluster {config.get('ClusterName', '')}".strip(),
        command,
        {"SLURM_TIME_FORMAT": "%s"},  # seconds since 1970: no clock change makes a time ambiguous
        options={"partition_limits": limits} if limits else {},
        gpus_tracked=any(re.fullmatch(r"gres/gpu(:.*)?", name) for name in tracked) if tracked != [""] else None,
        origin={
            "gpus_tracked": "AccountingStorageTRES of scontrol show config",
            "partition_limits": "DefaultTime, else MaxTime, of scontrol show partition",
        },
    )


def _partition_limits(text: str) -> Iterator[tuple[str, str]]:
    """Yield what limit a job has that names none, by partition: DefaultTime where there is one, else MaxTime (slurm.conf(5))."""
    for line in text.splitlines():
        values = dict(word.partition("=")[::2] for word in line.split())
        given = [values.get(name, "NONE") for name in ("DefaultTime", "MaxTime")]
        limit = next((one for one in given if one not in ("NONE", "")), None)
        if "PartitionName" in values and limit is not None:
            yield values["PartitionName"], limit


def _lsf(run: Run, program: Callable[[str], str], logs: str | None) -> Found:
    if logs is not None:
        return Found("lsf", "An LSF cluster", paths=(logs,))
    bacct = program("bacct")
    name = re.search(r"^My cluster name is (\S+)", run(program("lsid")), re.MULTILINE)
    period = "{first:%Y/%m/%d}/00:00,{next:%Y/%m/%d}/00:00"
    return Found(
        "lsf",
        f"LSF cluster {name[1]}" if name else "An LSF cluster",
        (bacct, "-l", "-UF", "-u", "all", "-C", period),
        {"LSB_DISPLAY_YEAR": "Y"},  # else its dates have no year
    )


def _pbs(run: Run, program: Callable[[str], str], logs: str | None) -> Found:
    if logs is not None:
        return Found("pbs", "A PBS cluster", paths=(logs,))
    tried = [Path(home, "server_priv", "accounting") for home in _pbs_homes()]
    for folder in tried:
        if os.access(folder, os.R_OK | os.X_OK):
            return Found("pbs", "A PBS cluster", paths=(f"{folder}/[12]*",), origin={"paths": "PBS_HOME"})
    raise UsageError(
        f"the accounting logs cannot be read here ({', '.join(map(str, tried))}): they belong to root on the server. "
        "Copy them (docs/pbs.md), then name the copies: --logs '/srv/runcast/pbs/20*'"
    )


def _pbs_homes() -> list[str]:
    configured = Path("/etc/pbs.conf")
    text = configured.read_text(encoding="utf-8", errors="replace") if configured.is_file() else ""
    return list(dict.fromkeys([*re.findall(r"^PBS_HOME=(\S+)", text, re.MULTILINE), *_PBS_HOMES]))


def _kubernetes(run: Run, program: Callable[[str], str], logs: str | None) -> Found:
    if logs is not None:
        return Found("kubernetes", "A Kubernetes cluster", paths=(logs,), gpus_tracked=True)
    kubectl = program("kubectl")
    known = set(run(kubectl, "api-resources", "--output=name").split())
    kinds = ",".join(["pods", "jobs.batch", *(kind for kind in _WORKLOADS if kind in known)])
    return Found(
        "kubernetes",
        f"Kubernetes cluster {run(kubectl, 'config', 'current-context').strip()}".strip(),
        (kubectl, "get", kinds, "--all-namespaces", "--output=json"),
        gpus_tracked=True,
        origin={"gpus_tracked": "a pod that asks for no GPU gets none"},
    )


#: By scheduler: what finds it out, and the variables that its commands may need beside PATH and HOME.
PRESETS: Mapping[str, tuple[Callable[[Run, Callable[[str], str], str | None], Found], tuple[str, ...]]] = {
    "slurm": (_slurm, ("SLURM_CONF",)),
    "lsf": (_lsf, ("LSF_ENVDIR", "LSF_SERVERDIR", "LSF_LIBDIR", "LSF_BINDIR", "LD_LIBRARY_PATH")),
    "pbs": (_pbs, ()),
    "kubernetes": (_kubernetes, ("KUBECONFIG",)),
}


def machine_zone(environment: Mapping[str, str], etc: Path = Path("/etc")) -> str | None:
    """Return the name of the machine's time zone, null where it has none: TZ, /etc/localtime's target, /etc/timezone."""
    named = environment.get("TZ", "").removeprefix(":")
    if named and not named.startswith("/"):
        return named
    link = etc / "localtime"
    if link.is_symlink() and (match := re.search(r"zoneinfo/(?:posix/|right/)?(.+)$", os.fspath(link.readlink()))):
        return match[1]
    written = etc / "timezone"
    return (written.read_text(encoding="utf-8").strip() or None) if written.is_file() else None


def cluster_text(found: Found) -> str:
    """Return the text of a cluster file; a comment says from where each answer is."""
    source: dict[str, Any] = {"format": found.format}
    if found.paths:
        source["paths"] = list(found.paths)
    if found.command:
        source["collect"] = {
            "command": list(found.command),
            **({"since": found.since} if found.names_days else {}),
            **({"environment": dict(found.environment)} if found.environment else {}),
        }
    if found.options:
        source["options"] = dict(found.options)
    content = {
        "description": found.description,
        "source": source,
        "time_zone": found.time_zone,
        "gpus_tracked": bool(found.gpus_tracked),
        "schedule": "30 2 * * *",
    }
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=10_000)
    lines = text.splitlines()
    for key, origin in found.origin.items():
        at = next(at for at, line in enumerate(lines) if line.lstrip().startswith(f"{key}:"))
        lines[at] += f"  # {origin}"
    return "\n".join([*lines, ""])


def write_new(path: Path, text: str) -> None:
    """Write a cluster file that is not there yet; raises UsageError where it is, and leaves nothing half-written."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
    except FileExistsError:
        raise UsageError(f"{path} is there already; it is not written over. Choose another name, or move it away.") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)
