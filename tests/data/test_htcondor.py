"""HTCondor's history: right values by hand from the attributes and the manual; real samples where they are."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.sources.batch import Batch
from runcast.data.sources.htcondor import read

T0 = 1_709_287_200  # 2024-03-01 10:00:00 UTC
ENDED = {
    "ClusterId": 42, "ProcId": 3, "Owner": "ada", "User": "ada@chtc", "AcctGroup": "physics", "Cmd": "/home/ada/fit.sh", "Iwd": "/home/ada",
    "QDate": T0, "JobStartDate": T0 + 30, "JobCurrentStartDate": T0 + 30, "CompletionDate": T0 + 630, "EnteredCurrentStatus": T0 + 630,
    "JobStatus": 4, "LastJobStatus": 2, "ExitCode": 0, "ExitBySignal": False, "NumJobStarts": 1, "RemoteWallClockTime": 600.0,
    "RequestCpus": 4, "RequestGPUs": 1, "RequestMemory": 8192, "JobUniverse": 5, "LastRemoteHost": "slot1@n1",
    "AllowedExecuteDuration": 7200,
}  # fmt: skip


def cluster(gpus_tracked: bool = False, **options: object) -> Cluster:
    source = {"format": "htcondor", "paths": ["unused"], "options": options}
    return Cluster.model_validate({"name": "c", "source": source, "time_zone": "UTC", "gpus_tracked": gpus_tracked})


def class_ad(ad: dict[str, Any]) -> str:
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in ad.items())


def load(tmp_path: Path, text: str, of: Cluster | None = None) -> tuple[list[dict[str, Any]], list[Batch]]:
    (tmp_path / "history").write_text(text)
    batches = list(read(tmp_path / "history", of or cluster()))
    return pa.concat_tables([batch.jobs for batch in batches]).to_pylist(), batches


@pytest.mark.parametrize(
    "written",
    [
        lambda ads: json.dumps(ads, indent=1),
        lambda ads: "".join(json.dumps(ad) + "\n" for ad in ads),
        lambda ads: "\n".join(map(class_ad, ads)),
        lambda ads: "".join(class_ad(ad) + f'*** Offset = 0 ClusterId = {ad["ClusterId"]} Owner = "ada"\n' for ad in ads),
        lambda ads: "\n".join(class_ad({name.upper(): value for name, value in ad.items()}) for ad in ads),
    ],
    ids=["-json", "-jsonl", "-long", "history file", "names in capitals"],
)
def test_each_form_of_the_history_gives_the_same_jobs(tmp_path: Path, written: Any) -> None:
    jobs, _ = load(tmp_path, written([ENDED, {**ENDED, "ProcId": 4, "ExitCode": 1}]))
    assert [(job["job_id"], job["state"]) for job in jobs] == [("42.3", "COMPLETED"), ("42.4", "FAILED")]
    expected = {
        "user": "ada", "account": "physics", "job_name": "fit.sh", "work_dir": "/home/ada", "array_id": "42", "array_task": 3,
        "runtime_s": 600.0, "queue_s": 30.0, "attempts": 1, "cpu_count": 4.0, "gpu_count": 1.0, "mem_mib": 8192.0, "node_count": 1.0,
        "time_limit_s": 7200.0, "node_list": "slot1@n1", "label": "event", "flags": [],
    }  # fmt: skip
    assert {name: jobs[0][name] for name in expected} == expected


NEVER = {"LastJobStatus": 1, "JobStartDate": None, "JobCurrentStartDate": None, "NumJobStarts": 0}
REMOVED = {"JobStatus": 3, "CompletionDate": 0, "EnteredCurrentStatus": T0 + 900}


@pytest.mark.parametrize(
    ("changes", "state", "label", "runtime_s", "attempts"),
    [
        ({"ExitBySignal": True, "ExitCode": None, "ExitSignal": 11}, "FAILED", "event", 600.0, 1),
        ({**REMOVED, "LastJobStatus": 2}, "CANCELLED", "censored", 870.0, 1),
        ({**REMOVED, "LastJobStatus": 5}, "CANCELLED", "censored", 600.0, 1),
        ({**REMOVED, "LastJobStatus": 5, "LastHoldReasonCode": 47}, "TIMEOUT", "censored", 600.0, 1),
        ({**REMOVED, "LastJobStatus": 5, "NumJobStarts": 3}, "CANCELLED", "excluded", None, 0),
        ({**REMOVED, **NEVER}, "CANCELLED", "excluded", None, 0),
        ({"JobStatus": 2, "CompletionDate": 0}, "RUNNING", "censored", None, 1),
        ({"JobStatus": 1, "CompletionDate": 0}, "PENDING", "excluded", None, 0),
        ({"JobStatus": 5, "CompletionDate": 0}, "PENDING", "excluded", None, 0),
        ({"JobStatus": 7, "CompletionDate": 0}, "SUSPENDED", "censored", None, 1),
    ],
    ids=[
        "signal", "removed while it ran", "removed from hold", "went on hold at its duration", "removed from hold after several runs",
        "removed while idle", "runs", "idle again", "held", "suspended",
    ],
)  # fmt: skip
def test_how_far_a_job_came(
    tmp_path: Path, changes: dict[str, Any], state: str, label: str, runtime_s: float | None, attempts: int
) -> None:
    (job,), _ = load(tmp_path, json.dumps([{**ENDED, **changes}]))
    assert (job["state"], job["label"], job["runtime_s"], job["attempts"]) == (state, label, runtime_s, attempts)


def test_restarted_job_is_its_last_run_and_waited_until_the_first(tmp_path: Path) -> None:
    (job,), _ = load(tmp_path, json.dumps([{**ENDED, "NumJobStarts": 3, "JobCurrentStartDate": T0 + 500}]))
    assert (job["runtime_s"], job["queue_s"], job["attempts"]) == (130.0, 30.0, 3)


@pytest.mark.parametrize(
    ("changes", "of", "column", "value"),
    [
        ({"RequestMemory": "/Expr(ifThenElse(JobVMMemory =!= UNDEFINED, 1, 2))/"}, cluster(), "mem_mib", None),
        ({"JobBatchName": "sweep"}, cluster(), "job_name", "sweep"),
        ({"JobUniverse": 11, "MaxHosts": 8}, cluster(), "node_count", 8.0),
        ({"MaxRuntime": 600}, cluster(limit_attributes=["MaxRuntime"]), "time_limit_s", 600.0),
        ({"AcctGroup": None, "ProjectName": "CLAS12"}, cluster(), "account", "CLAS12"),
    ],
)
def test_attributes(tmp_path: Path, changes: dict[str, Any], of: Cluster, column: str, value: object) -> None:
    (job,), _ = load(tmp_path, json.dumps([{**ENDED, **changes}]), of)
    assert job[column] == value


@pytest.mark.parametrize(("tracked", "gpus"), [(True, 0.0), (False, None)])
def test_request_without_gpus(tmp_path: Path, tracked: bool, gpus: float | None) -> None:
    (job,), _ = load(
        tmp_path, json.dumps([{name: value for name, value in ENDED.items() if name != "RequestGPUs"}]), cluster(tracked)
    )
    assert job["gpu_count"] == gpus


def test_expressions_and_attributes_twice_in_class_ads(tmp_path: Path) -> None:
    text = class_ad(ENDED) + 'RequestMemory = ceiling(ImageSize / 1024.0)\nJobBatchName = "say \\"a = b\\""\nExitCode = 3\n'
    (job,), _ = load(tmp_path, text)
    assert (job["mem_mib"], job["job_name"], job["state"]) == (None, 'say "a = b"', "FAILED")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (class_ad(ENDED) + "what is this\n", "not_a_class_ad"),
        (class_ad({**ENDED, "ProcId": None}), "job_id_missing"),
        (class_ad({**ENDED, "QDate": None}), "submit_missing"),
        (class_ad({**ENDED, "CompletionDate": T0 + 5}), "end_before_start"),
    ],
)
def test_wrong_ad_is_kept_as_a_reject_and_hurts_no_other(tmp_path: Path, text: str, reason: str) -> None:
    jobs, batches = load(tmp_path, "\n".join([class_ad(ENDED), text, class_ad(ENDED)]))
    assert len(jobs) == 2
    (reject,) = [one for batch in batches for one in batch.rejects]
    assert (reject.reason, reject.line, reject.raw) == (reason, len(ENDED) + 2, text.rstrip("\n"))


def test_file_of_something_else_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"neither JSON nor ClassAds of jobs .*JobID"):
        load(tmp_path, "JobID|User\n1|ada\n")


@pytest.mark.traces
def test_real_samples_load_with_the_values_that_stand_in_them(traces: Path) -> None:
    """Read off the ads by eye; the second job was removed while it ran, 376 s after its start; the last runs for the fourth time."""
    folder = traces / "raw_samples" / "htcondor"
    names = ("job_id", "user", "runtime_s", "queue_s", "state", "attempts", "mem_mib")
    found = {}
    for path in sorted([*folder.glob("gratia*"), *folder.glob("*.json")]):
        (job,) = [row for batch in read(path, cluster()) for row in batch.jobs.to_pylist()]
        found[path.name] = tuple(job[name] for name in names)
    assert found == {
        "gratia_history.377260.0": ("377260.0", "vdtuser03", 910, 23, "COMPLETED", 1, None),
        "gratia_history.377277.0": ("377277.0", "vdtuser03", 376, 49, "CANCELLED", 1, None),
        "gratia_history.377283.0": ("377283.0", "vdtuser03", 910, 18, "COMPLETED", 1, None),
        "condor_q_json_subset_2021.json": ("3472942.81", "gemc", None, 171, "RUNNING", 4, 1741),
    }
