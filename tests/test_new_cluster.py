"""`clusters new`: what it finds out from a scheduler's commands, what it asks, and what it writes; the commands are small programs here.

The commands of a real Slurm are asked in tests/scheduler/slurm/test_first_night.py.
"""

import datetime as dt
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from runcast import cli, new_cluster
from runcast.data.cluster import read_cluster
from runcast.data.errors import ClusterFileError, CollectFailed, RuncastError, UsageError
from runcast.data.job import ingest
from runcast.data.lake import Lake
from runcast.data.presets import machine_zone
from runcast.data.preview import preview_fetched
from runcast.data.settings import Settings, read_settings

ROOT = Path(__file__).parents[1]
NOW = dt.datetime(2026, 3, 5, 3, tzinfo=dt.UTC)
CONFIG = """\
Configuration data as of 2026-03-05T03:00:00
AccountingStorageTRES   = cpu,mem,energy,node,billing,fs/disk,vmem,pages,gres/gpu,gres/gpu:a100
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = lab
"""
PARTITIONS = """\
PartitionName=short AllowGroups=ALL Default=YES DefaultTime=00:10:00 MaxTime=01:00:00 State=UP
PartitionName=gpu AllowGroups=ALL DefaultTime=NONE MaxTime=7-00:00:00 State=UP
PartitionName=free DefaultTime=NONE MaxTime=UNLIMITED State=UP
"""
SACCT = """\
JobID|User|Submit|Start|End|State|Timelimit|Partition
7|ada|1772600000|1772600010|1772603610|COMPLETED|02:00:00|gpu
"""


class Host:
    """A machine with some of a scheduler's commands on its PATH, and a folder of cluster files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("bin", "clusters"):
            (folder / name).mkdir()
        self.variables = {"TZ": "Europe/Stockholm"}

    def has(self, name: str, output: str | Callable[[str], str], code: int = 0) -> None:
        """Put a program on the PATH that prints a text: the same always, or by its arguments."""
        program = self.folder / "bin" / name
        text = self.folder / f"{name}.txt"
        if isinstance(output, str):
            text.write_text(output)
            program.write_text(f"#!/bin/sh\ncat {text}\nexit {code}\n")
        else:
            program.write_text(f"#!/bin/sh\n{output(str(self.folder))}\nexit {code}\n")
        program.chmod(0o755)

    @property
    def settings(self) -> Settings:
        return read_settings(
            {
                "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
                "RUNCAST_HOME": str(self.folder / "var"),
                "RUNCAST_CLUSTERS": str(self.folder / "clusters"),
                **self.variables,
            }
        )

    def new(self, scheduler: str, ask: new_cluster.Ask | None = None, **answers: Any) -> dict[str, Any]:
        path = new_cluster.write("lab", scheduler, new_cluster.Answers(**answers), self.settings, NOW, ask)
        read_cluster(path)
        return dict(yaml.safe_load(path.read_text()))

    def has_slurm(self, config: str = CONFIG) -> None:
        (self.folder / "config.txt").write_text(config)
        (self.folder / "partitions.txt").write_text(PARTITIONS)
        self.has("scontrol", lambda at: f'case "$*" in *partition*) cat {at}/partitions.txt;; *) cat {at}/config.txt;; esac')
        self.has("sacct", SACCT)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_slurm_says_its_name_whether_gpus_are_tracked_and_the_limits_of_jobs_that_name_none(host: Host) -> None:
    host.has_slurm()
    host.variables["SLURM_CONF"] = "/etc/slurm/lab.conf"
    content = host.new("slurm")
    collect = content["source"].pop("collect")
    assert content == {
        "description": "Slurm cluster lab",
        "source": {
            "format": "slurm_sacct",
            "options": {"partition_limits": {"short": "00:10:00", "gpu": "7-00:00:00", "free": "UNLIMITED"}},
        },
        "time_zone": "Europe/Stockholm",
        "gpus_tracked": True,
        "schedule": "30 2 * * *",
    }
    assert collect["since"] == dt.date(2025, 3, 5)  # a year ago
    assert collect["environment"] == {"SLURM_CONF": "/etc/slurm/lab.conf", "SLURM_TIME_FORMAT": "%s"}
    assert collect["command"][:5] == [
        f"{host.folder}/bin/sacct", "--allusers", "--duplicates", "--parsable2", "--delimiter={delimiter}",
    ]  # fmt: skip
    text = (host.folder / "clusters" / "lab.yaml").read_text()
    assert "gpus_tracked: true  # AccountingStorageTRES of scontrol show config" in text
    assert "time_zone: Europe/Stockholm  # of the machine that wrote this file" in text
    assert (host.folder / "clusters" / "lab.yaml").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("tracked", "is_tracked"),
    [
        pytest.param("cpu,mem,node,billing", False, id="no GPUs"),
        pytest.param("cpu,gres/gpumem", False, id="another resource"),
        pytest.param("cpu,gres/gpu", True, id="GPUs"),
        pytest.param("cpu,gres/gpu:h100", True, id="a kind of GPU"),
    ],
)
def test_gpus_are_tracked_where_accounting_counts_them(host: Host, tracked: str, is_tracked: bool) -> None:
    host.has_slurm(f"AccountingStorageTRES = {tracked}\nAccountingStorageType = accounting_storage/slurmdbd\n")
    assert host.new("slurm")["gpus_tracked"] is is_tracked


def test_what_the_command_line_says_wins_over_what_was_found(host: Host) -> None:
    host.has_slurm()
    content = host.new("slurm", time_zone="Asia/Tokyo", gpus_tracked=False, since="2026-02-01")
    assert (content["time_zone"], content["gpus_tracked"]) == ("Asia/Tokyo", False)
    assert content["source"]["collect"]["since"] == dt.date(2026, 2, 1)


def test_person_is_asked_only_what_nothing_says(host: Host) -> None:
    asked: list[tuple[str, Any]] = []

    def ask(question: str, default: Any) -> str:
        asked.append((question.split()[0], default))
        return {"Time": "Europe/Oslo", "First": "2026-01-01", "Does": "y"}[question.split()[0]]

    host.has_slurm("ClusterName = lab\nAccountingStorageType = accounting_storage/slurmdbd\n")
    content = host.new("slurm", ask)
    assert asked == [("Time", "Europe/Stockholm"), ("Does", "n"), ("First", "2025-03-05")]
    assert (content["time_zone"], content["gpus_tracked"]) == ("Europe/Oslo", True)
    (host.folder / "clusters" / "lab.yaml").unlink()
    asked.clear()
    host.new("slurm", ask, time_zone="UTC", gpus_tracked=True, since="2026-01-01")
    assert asked == []


@pytest.mark.parametrize(
    ("scheduler", "answers", "kind", "error"),
    [
        pytest.param("cobalt", {}, UsageError, "--from cobalt: known are slurm, lsf, pbs, kubernetes", id="scheduler"),
        pytest.param("slurm", {"since": "2026-02-30"}, UsageError, "'2026-02-30' is no day", id="day"),
        pytest.param("slurm", {"time_zone": "Europe/Atlantis"}, ClusterFileError, r"lab\.yaml.*unknown time zone", id="zone"),
        pytest.param("lsf", {}, UsageError, "bacct is not on the PATH.*--logs", id="no program"),
        pytest.param("pbs", {"logs": "/x/20*", "since": "2026-01-01"}, UsageError, "not fetched by days", id="no days"),
    ],
)
def test_answer_that_cannot_be_is_refused_and_nothing_is_written(
    host: Host, scheduler: str, answers: dict[str, Any], kind: type[RuncastError], error: str
) -> None:
    host.has_slurm()
    with pytest.raises(kind, match=error):
        host.new(scheduler, **answers)
    assert list((host.folder / "clusters").iterdir()) == []


def test_slurm_that_keeps_no_accounting_or_does_not_answer_is_named(host: Host) -> None:
    host.has_slurm("AccountingStorageType = accounting_storage/none\n")
    with pytest.raises(CollectFailed, match="keeps no accounting"):
        host.new("slurm")
    host.has("scontrol", "", code=1)
    with pytest.raises(CollectFailed, match=r"scontrol show config' ended with exit code 1"):
        host.new("slurm")


def test_file_that_is_there_is_not_written_over_and_no_name_leads_out_of_the_folder(host: Host) -> None:
    host.has_slurm()
    path = host.folder / "clusters" / "lab.yaml"
    path.write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        host.new("slurm")
    assert path.read_text() == "mine"
    with pytest.raises(UsageError, match="cannot name a cluster"):
        new_cluster.write("../lab", "slurm", new_cluster.Answers(), host.settings, NOW, None)


def test_lsf_is_fetched_by_days_with_years_in_its_dates(host: Host) -> None:
    host.has("bacct", "")
    host.has("lsid", "IBM Spectrum LSF Standard 10.1.0.8\n\nMy cluster name is hpc7\nMy master name is m1\n")
    host.variables |= {"LSF_ENVDIR": "/opt/lsf/conf"}
    content = host.new("lsf")
    assert (content["description"], content["gpus_tracked"]) == ("LSF cluster hpc7", False)
    collect = content["source"]["collect"]
    assert collect["command"][1:] == ["-l", "-UF", "-u", "all", "-C", "{first:%Y/%m/%d}/00:00,{next:%Y/%m/%d}/00:00"]
    assert collect["environment"] == {"LSF_ENVDIR": "/opt/lsf/conf", "LSB_DISPLAY_YEAR": "Y"}


BACCT = """
Accounting information about jobs that are:
  - submitted by all users.
  - completed normally or exited
------------------------------------------------------------------------------
"""
BACCT_JOB = """
Job <101>, Job Name <train>, User <ada>, Project <default>, Status <DONE>, Queue <gpu>, Command <python train.py>
Tue Mar  3 10:00:00 2026: Submitted from host <login1>, CWD </home/ada>;
Tue Mar  3 10:01:00 2026: Dispatched 2 Task(s) on Host(s) <n1> <n1>, Allocated 2 Slot(s) on Host(s) <n1> <n1>;
Tue Mar  3 11:01:30 2026: Completed <done>.
"""
BACCT_END = """
SUMMARY:      ( time unit: second )
 Total number of done jobs:       0      Total number of exited jobs:     0
"""


def ended_jobs(host: Host, names: Sequence[str]) -> list[list[Any]]:
    """Load what the new cluster's log holds up to the 3rd, and return its ended jobs."""
    cluster = read_cluster(host.folder / "clusters" / "lab.yaml")
    report = ingest(cluster, host.settings, last=dt.date(2026, 3, 3), now=NOW)
    assert report.rejected == 0
    lake = Lake(host.settings.lake)
    return [[row[name] for name in names] for row in lake.read_ended("lab", lake.dates("lab")).to_pylist()]


def test_lsf_is_fetched_by_days_of_which_some_are_quiet(host: Host) -> None:
    (host.folder / "busy").write_text(BACCT + BACCT_JOB + BACCT_END)
    (host.folder / "quiet").write_text(BACCT + BACCT_END)
    host.has("bacct", lambda at: f'case "$6" in 2026/03/03/00:00,2026/03/04/00:00) cat {at}/busy;; *) cat {at}/quiet;; esac')
    host.has("lsid", "My cluster name is hpc7\n")
    host.new("lsf", since="2026-03-02", time_zone="UTC")
    assert ended_jobs(host, ("job_id", "user", "job_name", "runtime_s", "cpu_count", "state")) == [
        ["101", "ada", "train", 3630.0, 2.0, "COMPLETED"]
    ]


def test_accounting_logs_of_pbs_that_are_named_lead_to_jobs(host: Host) -> None:
    (host.folder / "20260303").write_text(
        "03/03/2026 11:01:00;E;7.srv;user=ada group=g jobname=train queue=gpu ctime=1772532000 qtime=1772532000 etime=1772532000 "
        "start=1772532060 exec_host=n1/0*8 Resource_List.ncpus=8 Resource_List.ngpus=2 Resource_List.walltime=02:00:00 "
        "session=1 end=1772535660 Exit_status=0\n"
    )
    host.new("pbs", logs=f"{host.folder}/20*", time_zone="America/Denver", gpus_tracked=True)
    assert ended_jobs(host, ("job_id", "user", "runtime_s", "gpu_count", "time_limit_s")) == [
        ["7.srv", "ada", 3600.0, 2.0, 7200.0]
    ]


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "vision", "uid": "u1", "creationTimestamp": "2026-03-03T10:00:00Z"},
    "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "4"}, "limits": {"nvidia.com/gpu": "2"}}}]},
    "status": {
        "phase": "Succeeded",
        "startTime": "2026-03-03T10:01:00Z",
        "containerStatuses": [
            {
                "name": "main",
                "restartCount": 0,
                "state": {
                    "terminated": {"exitCode": 0, "startedAt": "2026-03-03T10:01:05Z", "finishedAt": "2026-03-03T11:01:00Z"}
                },
            }
        ],
    },
}


def has_kubernetes(host: Host, objects: str) -> None:
    (host.folder / "objects").write_text(objects)
    kinds = "pods\njobs.batch\njobsets.jobset.x-k8s.io\nworkloads.kueue.x-k8s.io\nsecrets\n"
    (host.folder / "kinds").write_text(kinds)
    host.has("kubectl", lambda at: f"case $1 in get) cat {at}/objects;; config) echo lab-a;; *) cat {at}/kinds;; esac")


def test_kubernetes_is_fetched_as_it_stands_with_the_kinds_of_workloads_that_it_knows(host: Host) -> None:
    has_kubernetes(host, json.dumps({"apiVersion": "v1", "kind": "List", "items": [POD]}))
    host.variables["KUBECONFIG"] = "/etc/runcast/kubeconfig"
    content = host.new("kubernetes", time_zone="UTC")
    assert (content["description"], content["gpus_tracked"]) == ("Kubernetes cluster lab-a", True)
    assert content["source"]["collect"] == {
        "command": [
            f"{host.folder}/bin/kubectl", "get", "pods,jobs.batch,jobsets.jobset.x-k8s.io,workloads.kueue.x-k8s.io",
            "--all-namespaces", "--output=json",
        ],
        "environment": {"KUBECONFIG": "/etc/runcast/kubeconfig"},
    }  # fmt: skip
    assert ended_jobs(host, ("job_id", "group", "runtime_s", "gpu_count", "cpu_count", "state")) == [
        ["vision/train", "vision", 3600.0, 2.0, 4.0, "COMPLETED"]
    ]
    (host.folder / "objects").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": []}))
    cluster = read_cluster(host.folder / "clusters" / "lab.yaml")
    later = ingest(cluster, host.settings, first=dt.date(2026, 3, 4), last=dt.date(2026, 3, 4), now=NOW + dt.timedelta(hours=1))
    assert (later.rejected, Lake(host.settings.lake).rows_by_date("lab")) == (
        0,
        {"2026-03-03": 1},
    )  # deleted since, and still there


@pytest.mark.traces
def test_real_objects_of_kubectl_are_read_through_a_new_cluster_file(host: Host, traces: Path) -> None:
    sample = (traces / "raw_samples" / "kubernetes" / "ood_pod_several.json").read_text()
    has_kubernetes(host, sample)
    host.new("kubernetes", time_zone="UTC")
    found = preview_fetched(read_cluster(host.folder / "clusters" / "lab.yaml"), host.settings, NOW, new_cluster.SHOWN)
    assert (found.jobs, found.problem) == (len(json.loads(sample)["items"]), None)


@pytest.mark.traces
@pytest.mark.parametrize(
    ("sample", "jobs"), [("hcs_bacct_l_unfolded.txt", 15), ("ceems_bacct_l_gpu_2026.txt", 1)]
)  # paragraphs that begin with "Job <", counted by grep
def test_real_text_of_bacct_is_read_through_a_new_cluster_file(host: Host, traces: Path, sample: str, jobs: int) -> None:
    host.has("bacct", (traces / "raw_samples" / "lsf" / sample).read_text())
    host.has("lsid", "")
    host.new("lsf", time_zone="UTC")
    cluster = read_cluster(host.folder / "clusters" / "lab.yaml")
    found = preview_fetched(cluster, host.settings, NOW, new_cluster.SHOWN)
    assert (found.jobs, found.problem) == (jobs, None)
    assert len(found.shown) == min(jobs, 10)


def test_logs_that_lie_there_are_read_and_nothing_is_fetched(host: Host) -> None:
    content = host.new("pbs", logs="/srv/pbs/20*")
    assert content["source"] == {"format": "pbs", "paths": ["/srv/pbs/20*"]}


def test_command_shows_ten_jobs_as_they_are_understood_and_what_comes_next(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host.has_slurm()
    head, job = SACCT.splitlines()
    host.has("sacct", "\n".join([head, *(job.replace("7|", f"{n}|", 1) for n in range(30)), ""]))
    for name, value in host.settings.environment.items():
        monkeypatch.setenv(name, value)
    words = ["clusters", "new", "lab", "--from", "slurm", "--yes"]
    assert run(monkeypatch, *words) == 0
    shown = capsys.readouterr().out
    assert shown.count("  job ") == 10
    assert "started 2026-03-04 05:53:30" in shown  # 1772600010 in Stockholm
    assert "Next: runcast nightly --cluster lab" in shown
    assert run(monkeypatch, *words, "--json") == 2
    assert json.loads(capsys.readouterr().out)["kind"] == "UsageError"
    (host.folder / "clusters" / "lab.yaml").unlink()
    host.has("sacct", "", code=1)
    assert run(monkeypatch, *words, "--json") == 3
    failed = json.loads(capsys.readouterr().out)
    assert "exit code 1" in failed["problem"]
    assert os.listdir(host.folder / "clusters") == ["lab.yaml"]  # noqa: PTH208  what is written stays, to be mended


@pytest.mark.parametrize(
    ("typed", "code", "said", "files"),
    [
        pytest.param("Europe/Oslo\ny\n2026-01-01\n", 0, "time_zone: Europe/Oslo", ["lab.yaml"], id="answered"),
        pytest.param("Europe/Oslo\n\x04", 130, "interrupted", [], id="Ctrl-D at the second question"),
        pytest.param("Europe/Oslo\nperhaps\n", 2, "'perhaps': answer y or n", [], id="no answer"),
    ],
)
def test_terminal_is_asked_and_a_question_left_open_writes_nothing(
    host: Host, typed: str, code: int, said: str, files: list[str]
) -> None:
    host.has("bacct", BACCT + BACCT_JOB)
    host.has("lsid", "")
    ours, theirs = pty.openpty()
    os.write(ours, typed.encode())
    command = [sys.executable, "-m", "runcast", "clusters", "new", "lab", "--from", "lsf"]
    environment = {**host.settings.environment, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        command, stdin=theirs, capture_output=True, text=True, env=environment, cwd=host.folder, timeout=60, check=False
    )
    os.close(ours)
    os.close(theirs)
    assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert os.listdir(host.folder / "clusters") == files  # noqa: PTH208


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["runcast", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("variables", "link", "written", "zone"),
    [
        ({"TZ": "Europe/Rome"}, "/usr/share/zoneinfo/UTC", "UTC", "Europe/Rome"),
        ({"TZ": ":Europe/Rome"}, None, None, "Europe/Rome"),
        ({}, "/usr/share/zoneinfo/America/Denver", "UTC", "America/Denver"),
        ({}, "../usr/share/zoneinfo/Etc/UTC", None, "Etc/UTC"),
        ({"TZ": "/etc/localtime"}, "/usr/share/zoneinfo/posix/Asia/Tokyo", None, "Asia/Tokyo"),
        ({}, None, "Asia/Tokyo\n", "Asia/Tokyo"),
        ({}, None, None, None),
    ],
)
def test_zone_of_the_machine_is_that_of_tz_of_localtime_or_of_timezone(
    tmp_path: Path, variables: dict[str, str], link: str | None, written: str | None, zone: str | None
) -> None:
    if link:
        (tmp_path / "localtime").symlink_to(link)
    if written:
        (tmp_path / "timezone").write_text(written)
    assert machine_zone(variables, tmp_path) == zone
