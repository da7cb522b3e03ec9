"""A real one-node Slurm with accounting, on loopback, for as long as a `with` block: munge, MariaDB, slurmdbd, slurmctld, slurmd.

Everything lives below one new folder and on free ports, so that two of them run side by side and nothing of the machine's own
Slurm is read or changed. Needs root and Debian's packages (see PACKAGES). Every process is a child in the foreground, stopped
by its own handle.
"""

import os
import pwd
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = (
    "munged",
    "mariadbd",
    "mariadb-install-db",
    "mariadb",
    "slurmdbd",
    "slurmctld",
    "slurmd",
    "sbatch",
    "sacct",
    "sacctmgr",
)
PACKAGES = "munge mariadb-server slurmdbd slurmctld slurmd slurm-client slurm-wlm-basic-plugins lua-socket"
SCRIPTS = Path(__file__).parents[3] / "scheduler" / "slurm"
_SBIN = "/usr/sbin:/sbin"


def why_not() -> str | None:
    """Return why a one-node Slurm cannot be started here, or None where it can."""
    if os.geteuid() != 0:
        return "starting slurmctld and slurmd takes root"
    path = f"{os.environ.get('PATH', '')}:{_SBIN}"
    missing = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (Debian: apt-get install {PACKAGES})"
    return None


@dataclass(frozen=True)
class OneNode:
    """A running Slurm; `run` calls a client command of it."""

    folder: Path
    environment: Mapping[str, str]
    cpus: int
    ports: Mapping[str, int] = field(default_factory=dict)

    @property
    def slurmctld_log(self) -> Path:
        return self.folder / "log" / "slurmctld.log"

    def run(
        self, *command: str, user: str | None = None, check: bool = True, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a client command, as `user` where one is named; raises CalledProcessError with its text where it fails."""
        who = {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": ()}
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",  # names of jobs may hold any bytes
            env=dict(self.environment),
            cwd="/tmp",
            timeout=60,
            check=False,
            **who,
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.returncode}: {done.stderr.strip()}")
        return done

    def submit(self, *options: str, user: str, script: str) -> int:
        """Submit one batch job and return its id."""
        text = f"#!/bin/sh\n{script}\n"
        return int(self.run("sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp", *options, user=user, stdin=text).stdout)

    def wait_until_idle(self, timeout_s: float) -> None:
        """Wait until no job is queued or running."""
        _wait(lambda: not self.run("squeue", "--noheader").stdout.strip(), "an empty queue", timeout_s, step_s=0.5)

    def log_since(self, offset: int) -> str:
        """Return slurmctld's log from byte `offset` on."""
        with self.slurmctld_log.open("rb") as log:
            log.seek(offset)
            return log.read().decode("utf-8", "replace")


def plugin_files(**settings: str) -> dict[str, str]:
    """Return job_submit.lua with some settings changed (as Lua text; `slurm_folder` is where slurm.conf is) and its code."""
    text = (SCRIPTS / "job_submit.lua").read_text()
    for name, value in {"code": "slurm_folder .. '/runcast.lua'", **settings}.items():
        text, found = re.subn(
            rf"^(    |local ){name} = [^,\n]*?(,? --.*|,)?$", rf"\g<1>{name} = {value}\g<2>", text, flags=re.MULTILINE
        )
        if found != 1:
            raise ValueError(f"job_submit.lua has no line for {name}")
    folder = 'local slurm_folder = os.getenv("SLURM_CONF"):match("(.*)/")\n'
    return {"job_submit.lua": folder + text, "runcast.lua": (SCRIPTS / "runcast.lua").read_text()}


@contextmanager
def one_node(
    *, job_submit: Mapping[str, str] | None = None, slurm_conf: str = "", cpus: int = 8, gpus: int = 8
) -> Iterator[OneNode]:
    """Start a one-node Slurm and yield it; `job_submit`: files beside slurm.conf (job_submit.lua turns the plugin on)."""
    folder = Path(tempfile.mkdtemp(prefix="runcast-slurm-", dir="/tmp"))
    folder.chmod(0o755)
    environment = {
        "PATH": f"{os.environ.get('PATH', '/usr/bin:/bin')}:{_SBIN}",
        "SLURM_CONF": str(folder / "slurm.conf"),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }
    ports = dict(zip(("database", "slurmdbd", "slurmctld", "slurmd"), _free_ports(4), strict=True))
    node = OneNode(folder, environment, cpus, ports)
    try:
        with ExitStack() as running:
            _write_files(node, job_submit or {}, slurm_conf, gpus)
            _start_munge(node, running)
            _start_database(node, running)
            _start_slurm(node, running)
            yield node
            node.run("scancel", "--full", "--state=PENDING", check=False)
            node.run("scancel", "--full", "--state=RUNNING", check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_files(node: OneNode, job_submit: Mapping[str, str], slurm_conf: str, gpus: int) -> None:
    folder, host = node.folder, socket.gethostname().split(".")[0]
    for name in ("log", "state", "spool", "gpu", "run"):
        (folder / name).mkdir()
    for number in range(gpus):
        (folder / "gpu" / f"gpu{number}").touch()
    for name, text in job_submit.items():
        (folder / name).write_text(text)
    munge = f"socket={folder}/run/munge.socket"
    dbd = folder / "slurmdbd.conf"
    dbd.write_text(f"""\
AuthType=auth/munge
AuthInfo={munge}
DbdHost=localhost
DbdPort={node.ports["slurmdbd"]}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={node.ports["database"]}
StorageUser=slurm
StoragePass=loopback
StorageLoc=slurm_acct
PidFile={folder}/run/slurmdbd.pid
LogFile={folder}/log/slurmdbd.log
""")
    dbd.chmod(0o600)
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu/gpu[0-{gpus - 1}]\n")
    plugin = "JobSubmitPlugins=lua\n" if "job_submit.lua" in job_submit else ""
    (folder / "slurm.conf").write_text(f"""\
ClusterName=onenode
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo={munge}
SlurmctldPort={node.ports["slurmctld"]}
SlurmdPort={node.ports["slurmd"]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={node.ports["slurmdbd"]}
AccountingStoragePass={munge}
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment
GresTypes=gpu
ReturnToService=2
{plugin}{slurm_conf}
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 CPUs={node.cpus} RealMemory=4000 Gres=gpu:{gpus} State=UNKNOWN
PartitionName=short Nodes=ALL MaxTime=60 State=UP
PartitionName=gpu Nodes=ALL Default=YES MaxTime=7-0 State=UP
""")


def _start_munge(node: OneNode, running: ExitStack) -> None:
    folder = node.folder
    key = folder / "run" / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    files = [
        f"--{name}={folder}/run/munge.{ending}"
        for name, ending in (("socket", "socket"), ("pid-file", "pid"), ("seed-file", "seed"))
    ]
    _start(node, running, "munged", "--foreground", "--force", f"--key-file={key}", f"--log-file={folder}/log/munge", *files)
    _wait(lambda: (folder / "run" / "munge.socket").exists(), "munged's socket", 10)


def _start_database(node: OneNode, running: ExitStack) -> None:
    data = node.folder / "mysql"
    data.mkdir()
    shutil.chown(data, "mysql", "mysql")
    node.run(
        "mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={data}", "--auth-root-authentication-method=normal"
    )
    local = data / "sql.socket"
    _start(
        node,
        running,
        "mariadbd",
        "--no-defaults",
        "--user=mysql",
        f"--datadir={data}",
        f"--socket={local}",
        f"--port={node.ports['database']}",
        "--bind-address=127.0.0.1",
        "--innodb-buffer-pool-size=64M",
        "--innodb-flush-log-at-trx-commit=0",  # what is lost with the machine is a test's
    )
    client = ("mariadb", "--no-defaults", f"--socket={local}", "--user=root")
    _wait(lambda: node.run(*client, "--execute=select 1", check=False).returncode == 0, "the database", 60)
    node.run(*client, "--execute=create database slurm_acct; create user slurm@'127.0.0.1' identified by 'loopback'; "
             "create user slurm@localhost identified by 'loopback'; grant all on slurm_acct.* to slurm@'127.0.0.1'; "
             "grant all on slurm_acct.* to slurm@localhost;")  # fmt: skip


def _start_slurm(node: OneNode, running: ExitStack) -> None:
    _start(node, running, "slurmdbd", "-D")
    _wait(lambda: node.run("sacctmgr", "--noheader", "show", "cluster", check=False).returncode == 0, "slurmdbd", 60)
    node.run("sacctmgr", "--immediate", "add", "cluster", "onenode")
    _start(node, running, "slurmctld", "-D")
    _wait(lambda: node.run("scontrol", "ping", check=False).stdout.count("UP"), "slurmctld", 30)
    _start(node, running, "slurmd", "-D", "-N", "n1")
    _wait(lambda: "idle" in node.run("sinfo", "--noheader", "--format=%T", check=False).stdout, "an idle node", 60)


def _start(node: OneNode, running: ExitStack, *command: str) -> None:
    out = (node.folder / "log" / f"{command[0]}.out").open("wb")
    running.callback(out.close)
    process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=dict(node.environment))
    running.callback(_stop, process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(holds: Callable[[], object], what: str, timeout_s: float, step_s: float = 0.1) -> None:
    end = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {timeout_s:g} s for {what}")
        time.sleep(step_s)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
