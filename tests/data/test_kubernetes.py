"""Kubernetes' objects: right values by hand from the API references of Kubernetes, Kueue, JobSet, Kubeflow and Volcano."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from runcast.data.cluster import Cluster
from runcast.data.errors import SourceError
from runcast.data.sources.batch import Batch
from runcast.data.sources.kubernetes import read

Object = dict[str, Any]
GPU = {"nvidia.com/gpu": "2", "cpu": "4", "memory": "8Gi"}
SPEC: Object = {"containers": [{"name": "c", "resources": {"limits": GPU}}]}


def cluster(**options: str) -> Cluster:
    source = {"format": "kubernetes", "paths": ["x"], "options": options}
    return Cluster.model_validate({"name": "k", "source": source, "time_zone": "Europe/Berlin"})


def at(second: int) -> str:
    return f"2024-03-01T{10 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


def meta(name: str, created: int = 0, owner: Object | None = None, **more: Any) -> Object:
    given: Object = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "creationTimestamp": at(created), **more}
    if owner is not None:
        of = {name: owner[name] for name in ("apiVersion", "kind")}
        given["ownerReferences"] = [
            {**of, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}
        ]
    return given


def condition(kind: str, second: int, reason: str = "", status: str = "True") -> Object:
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": at(second)}


def job(name: str = "train", *conditions: Object, spec: Object | None = None, owner: Object | None = None, labels: Object | None = None,
        **status: Any) -> Object:  # fmt: skip
    body = {"parallelism": 1, "completions": 1, "template": {"spec": SPEC}, **(spec or {})}
    known = {"startTime": at(0), **status, "conditions": list(conditions)}
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": meta(name, owner=owner, labels=labels or {}), "spec": body, "status": known,
    }  # fmt: skip


def pod(name: str, start: int | None = 10, end: int | None = None, *, phase: str | None = None, owner: Object | None = None,
        code: int = 0, why: str = "", reason: str = "", created: int = 0, conditions: list[Object] | None = None,
        restarts: int = 0, **metadata: Any) -> Object:  # fmt: skip
    running = {"running": {"startedAt": at(start or 0)}}
    ended = {"terminated": {"exitCode": code, "reason": why, "startedAt": at(start or 0), "finishedAt": at(end or 0)}}
    status: Object = {
        "phase": phase or ("Pending" if start is None else "Running" if end is None else "Failed" if code else "Succeeded")
    }
    if start is not None:
        containers = [{"name": "c", "restartCount": restarts, "state": running if end is None else ended}]
        status |= {"startTime": at(start), "containerStatuses": containers}
    status |= {"reason": reason, "conditions": conditions or []}
    spec = {**SPEC, "nodeName": f"node-{name}"}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": meta(name, created, owner, **metadata), "spec": spec, "status": status,
    }  # fmt: skip


def kueue(owner: Object, *conditions: Object, spec: Object | None = None, **status: Any) -> Object:
    body = {"queueName": "lq", "priority": 7, "podSets": [{"count": 3, "template": {"spec": SPEC}}], **(spec or {})}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "metadata": meta(f"w-{owner['metadata']['name']}", owner=owner),
        "spec": body, "status": {**status, "conditions": list(conditions)},
    }  # fmt: skip


def load_text(folder: Path, text: str, **options: str) -> tuple[list[Object], Batch]:
    path = folder / "objects"
    path.write_text(text)
    (batch,) = read(path, cluster(**options))
    rows: list[Object] = batch.jobs.to_pylist()
    return rows, batch


def load(folder: Path, *objects: Object, **options: str) -> tuple[list[Object], Batch]:
    rows, batch = load_text(folder, json.dumps({"apiVersion": "v1", "items": objects, "kind": "List"}), **options)
    assert batch.rows_in == len(objects)
    return rows, batch


def test_job_and_its_pod_are_one_row(tmp_path: Path) -> None:
    owner = job("train", condition("Complete", 612), completionTime=at(612), spec={"activeDeadlineSeconds": 7200})
    (row,), batch = load(tmp_path, pod("train-x", 12, 611, owner=owner, created=1), owner)
    expected = {
        "job_id": "ns/train", "job_key": "k:ns/train:1709287200000000", "group": "ns", "user": None, "job_name": "train",
        "state": "COMPLETED", "label": "event", "queue_s": 12.0, "runtime_s": 600.0, "attempts": 1, "cpu_count": 4.0,
        "gpu_count": 2.0, "mem_mib": 8192.0, "node_count": 1.0, "node_list": "node-train-x", "time_limit_s": 7200.0,
        "time_limit_kind": "hard", "source": "objects:1", "flags": [],
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert batch.skipped == {"part_of_a_workload": 1}


DONE = condition("Complete", 612)


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([pod("p", 10, 70)], ("COMPLETED", "event", 60.0, 10.0, 1), id="bare pod"),
        pytest.param([pod("p")], ("RUNNING", "censored", None, 10.0, 1), id="running pod"),
        pytest.param([pod("p", None)], ("PENDING", "excluded", None, None, 0), id="waiting pod"),
        pytest.param([pod("p", 10, 70, code=1, why="Error")], ("FAILED", "event", 60.0, 10.0, 1), id="failed"),
        pytest.param([pod("p", 10, 70, code=137, why="OOMKilled")], ("OUT_OF_MEMORY", "event", 60.0, 10.0, 1), id="out of memory"),
        pytest.param([pod("p", 10, 70, code=143, why="Error")], ("CANCELLED", "censored", 60.0, 10.0, 1), id="terminated from outside"),
        pytest.param([pod("p", 10, 70, code=1, reason="Evicted")], ("PREEMPTED", "censored", 60.0, 10.0, 1), id="evicted"),
        pytest.param([pod("p", 10, 70, code=1, reason="DeadlineExceeded")], ("TIMEOUT", "censored", 60.0, 10.0, 1), id="deadline"),
        pytest.param([pod("p", 10, 70, code=1, conditions=[condition("DisruptionTarget", 69, "PreemptionByScheduler")])],
                     ("PREEMPTED", "censored", 60.0, 10.0, 1), id="preempted by the scheduler"),
        pytest.param([pod("p", 10, 70, code=1, conditions=[condition("DisruptionTarget", 69, "DeletionByTaintManager")])],
                     ("NODE_FAIL", "censored", 60.0, 10.0, 1), id="node lost"),
        pytest.param([pod("p", None, phase="Failed", reason="OutOfcpu")],
                     ("LAUNCH_FAILED", "excluded", None, None, 0), id="refused by the node"),
        # The time stamp of a deletion lies ahead by the grace period.
        pytest.param([pod("p", 10, deletionTimestamp=at(100), deletionGracePeriodSeconds=30)],
                     ("CANCELLED", "censored", 60.0, 10.0, 1), id="being deleted"),
        pytest.param([pod("p", 50, 70, restarts=3)], ("COMPLETED", "event", 20.0, 50.0, 4), id="container restarted three times"),
        pytest.param([job("train", DONE, completionTime=at(612))], ("COMPLETED", "event", 612.0, None, 1), id="job whose pods are gone"),
        pytest.param([job("train", condition("Failed", 612, "DeadlineExceeded"))],
                     ("TIMEOUT", "censored", 612.0, None, 1), id="past its deadline"),
        pytest.param([job("train", condition("Failed", 612, "BackoffLimitExceeded"), failed=4)],
                     ("FAILED", "event", 612.0, None, 4), id="backoff limit"),
        pytest.param([job("train", active=1)], ("RUNNING", "censored", None, None, 1), id="active job"),
        pytest.param([job("train", condition("Suspended", 0), spec={"suspend": True}, startTime=None)],
                     ("PENDING", "excluded", None, None, 0), id="suspended job"),
    ],
)  # fmt: skip
def test_how_a_workload_stands(tmp_path: Path, objects: list[Object], expected: tuple[Any, ...]) -> None:
    (row,), _ = load(tmp_path, *objects)
    assert (row["state"], row["label"], row["runtime_s"], row["queue_s"], row["attempts"]) == expected


def test_pods_of_a_job_that_failed_before_are_its_attempts_and_the_run_is_the_last(tmp_path: Path) -> None:
    owner = job("train", condition("Complete", 500), completionTime=at(500), failed=2, succeeded=1)
    tries = [pod("a", 10, 100, owner=owner, code=1), pod("b", 120, 200, owner=owner, code=1), pod("c", 230, 500, owner=owner)]
    (row,), _ = load(tmp_path, owner, *tries)
    assert (row["state"], row["runtime_s"], row["queue_s"], row["attempts"]) == ("COMPLETED", 270.0, 10.0, 3)
    assert (row["node_list"], row["flags"]) == ("node-c", ["requeued"])


def test_failed_job_has_the_reason_of_its_last_pod(tmp_path: Path) -> None:
    owner = job("train", condition("Failed", 300, "BackoffLimitExceeded"), failed=1)
    (row,), _ = load(tmp_path, owner, pod("a", 10, 299, owner=owner, code=137, why="OOMKilled"))
    assert (row["state"], row["label"]) == ("OUT_OF_MEMORY", "event")


def test_tasks_of_a_job_one_after_the_other_are_one_run(tmp_path: Path) -> None:
    owner = job(
        "sweep", condition("Complete", 300), completionTime=at(300), spec={"parallelism": 2, "completions": 4}, succeeded=4
    )
    tasks = [
        pod("a", 10, 100, owner=owner),
        pod("b", 10, 150, owner=owner),
        pod("c", 110, 250, owner=owner),
        pod("d", 160, 300, owner=owner),
    ]
    (row,), _ = load(tmp_path, owner, *tasks)
    assert (row["runtime_s"], row["attempts"], row["node_count"], row["gpu_count"]) == (290.0, 1, 2.0, 4.0)


def jobset(name: str, owner: Object | None = None, *conditions: Object) -> Object:
    roles = [
        {"name": "leader", "replicas": 1, "template": {"spec": {"template": {"spec": SPEC}}}},
        {"name": "node", "replicas": 2, "template": {"spec": {"parallelism": 3, "completions": 3, "template": {"spec": SPEC}}}},
    ]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta(name, owner=owner),
        "spec": {"replicatedJobs": roles}, "status": {"restarts": 1, "conditions": list(conditions)},
    }  # fmt: skip


def test_train_job_jobset_jobs_pods_and_workload_are_one(tmp_path: Path) -> None:
    """One leader and two times three nodes, of two GPUs each; restarted once, as the JobSet says."""
    train: Object = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": meta("llm", uid="uid-of-train"), "spec": {},
        "status": {"conditions": [condition("Complete", 1000)]},
    }  # fmt: skip
    sets = jobset("llm", train, condition("Completed", 999))
    child = job("llm-node-0", owner=sets)
    (row,), batch = load(
        tmp_path, pod("llm-node-0-0", 100, 998, owner=child), child, sets, train, kueue(train, condition("Admitted", 40))
    )
    assert (row["job_id"], row["state"], row["runtime_s"], row["attempts"]) == ("ns/llm", "COMPLETED", 900.0, 2)
    assert (row["queue"], row["priority"], row["gpu_count"], row["node_count"], row["queue_s"]) == ("lq", 7.0, 6.0, 3.0, None)
    assert batch.skipped == {"part_of_a_workload": 4}


def test_request_of_a_jobset_is_replicas_times_parallelism(tmp_path: Path) -> None:
    (row,), _ = load(tmp_path, jobset("s"))
    assert (row["node_count"], row["gpu_count"], row["cpu_count"], row["state"]) == (7.0, 14.0, 28.0, "PENDING")


def test_pods_find_their_jobset_by_its_label_where_the_job_is_not_in_the_file(tmp_path: Path) -> None:
    sets = jobset("s", None, condition("Completed", 500))
    absent = job("s-node-0", owner=sets)
    (row,), _ = load(tmp_path, sets, pod("a", 10, 500, owner=absent, labels={"jobset.sigs.k8s.io/jobset-name": "s"}))
    assert (row["job_id"], row["runtime_s"]) == ("ns/s", 490.0)


def test_pods_whose_owner_is_not_in_the_file_are_one_job_of_its_name(tmp_path: Path) -> None:
    owner = job("train")
    (row,), batch = load(tmp_path, pod("a", 10, 300, owner=owner), pod("b", 10, 310, owner=owner, created=1))
    assert (row["job_id"], row["runtime_s"], row["node_count"], row["gpu_count"], row["flags"]) == (
        "ns/train", 300.0, 2.0, 4.0, ["owner_absent"],
    )  # fmt: skip
    assert batch.notes == {"owner_absent": 1}


@pytest.mark.parametrize(
    ("conditions", "more", "expected"),
    [
        pytest.param([condition("QuotaReserved", 0, "Pending", "False")], {}, ("PENDING", "excluded", None, None), id="never admitted"),
        pytest.param([condition("Admitted", 90)], {}, ("RUNNING", "censored", None, 90.0), id="admitted"),
        pytest.param([condition("Admitted", 90), condition("Finished", 390, "Succeeded")], {},
                     ("COMPLETED", "event", 300.0, 90.0), id="finished"),
        pytest.param([condition("Admitted", 90), condition("Finished", 390, "Failed")], {}, ("FAILED", "event", 300.0, 90.0), id="failed"),
        pytest.param([condition("Admitted", 200, status="False"), condition("Evicted", 200, "Preempted")], {},
                     ("PENDING", "excluded", None, None), id="preempted and waits again"),
        pytest.param([condition("Admitted", 90), condition("Evicted", 390, "Deactivated")], {"spec": {"active": False}},
                     ("PREEMPTED", "censored", 300.0, None), id="deactivated"),
    ],
)  # fmt: skip
def test_workload_of_kueue_alone(tmp_path: Path, conditions: list[Object], more: Object, expected: tuple[Any, ...]) -> None:
    (row,), _ = load(tmp_path, kueue(job("train"), *conditions, **more))
    assert (row["state"], row["label"], row["runtime_s"], row["queue_s"]) == expected
    assert (row["job_id"], row["queue"], row["priority"], row["gpu_count"], row["node_count"]) == (
        "ns/train",
        "lq",
        7.0,
        6.0,
        3.0,
    )


def test_volcano_job_by_its_phases(tmp_path: Path) -> None:
    phases = [{"status": "Pending", "lastTransitionTime": at(1)}, {"status": "Running", "lastTransitionTime": at(20)}]
    ended = {"state": {"phase": "Completed", "lastTransitionTime": at(120)}, "conditions": phases}
    spec = {"queue": "vq", "priorityClassName": "high", "tasks": [{"replicas": 3, "template": {"spec": SPEC}}]}
    volcano = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta("v"), "spec": spec, "status": ended}
    shorter = {**volcano, "metadata": meta("d"), "status": {"state": ended["state"], "runningDuration": "1m49s"}}
    rows, _ = load(tmp_path, volcano, shorter)
    assert [(row["state"], row["runtime_s"], row["queue_s"], row["queue"], row["qos"], row["gpu_count"]) for row in rows] == [
        ("COMPLETED", 100.0, 20.0, "vq", "high", 6.0),
        ("COMPLETED", 109.0, 11.0, "vq", "high", 6.0),
    ]


def test_kubeflow_job_runs_since_its_condition_says_so(tmp_path: Path) -> None:
    roles = {"Launcher": {"template": {"spec": {"containers": []}}}, "Worker": {"replicas": 4, "template": {"spec": SPEC}}}
    status = {
        "startTime": at(5),
        "completionTime": at(305),
        "conditions": [condition("Running", 5, status="False"), condition("Succeeded", 305)],
    }
    spec = {"mpiReplicaSpecs": roles, "runPolicy": {"activeDeadlineSeconds": 600}}
    (row,), _ = load(
        tmp_path, {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": meta("m"), "spec": spec, "status": status}
    )
    assert (row["runtime_s"], row["queue_s"], row["node_count"], row["gpu_count"], row["time_limit_s"]) == (
        300.0,
        5.0,
        5.0,
        8.0,
        600.0,
    )


def test_what_is_no_workload_is_skipped_by_reason(tmp_path: Path) -> None:
    replicas = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta("web"), "spec": {}}
    mirror = pod("apiserver", annotations={"kubernetes.io/config.mirror": "x"})
    rows, batch = load(tmp_path, replicas, pod("web-1", owner=replicas), mirror, pod("own", 10, 20))
    assert [row["job_id"] for row in rows] == ["ns/own"]
    assert batch.skipped == {"other_kind": 1, "of_a_service": 2}


def test_later_state_of_a_watch_wins_and_a_name_used_again_is_another_job(tmp_path: Path) -> None:
    again = {**pod("p", 3010, 3020), "metadata": {**meta("p", 3000), "uid": "other"}}
    stream = [pod("p", None), pod("p"), pod("p", 10, 70), again]
    rows, batch = load_text(tmp_path, "\n".join(json.dumps(one, indent=4) for one in stream))
    assert [(row["state"], row["runtime_s"]) for row in rows] == [("COMPLETED", 60.0), ("COMPLETED", 10.0)]
    assert len({row["job_key"] for row in rows}) == 2
    assert (batch.skipped, batch.rows_in) == ({"earlier_state": 2}, 4)


def test_events_of_a_watch_are_taken_out_of_their_envelope(tmp_path: Path) -> None:
    events: list[Object] = [
        {"type": "ADDED", "object": pod("p", None)},
        {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "1"}}},
        {"type": "DELETED", "object": pod("p", None)},
    ]
    (row,), batch = load_text(tmp_path, "".join(map(json.dumps, events)))
    assert (row["state"], row["flags"], batch.rows_in) == ("CANCELLED", ["never_started"], 3)


def test_yaml_says_the_same_as_json_list_or_documents(tmp_path: Path) -> None:
    owner = job("train", condition("Complete", 612), completionTime=at(612))
    objects = json.loads(
        json.dumps([owner, pod("train-x", 12, 611, owner=owner)])
    )  # nothing twice, of which YAML would make an alias
    texts = [
        json.dumps({"items": objects}),
        yaml.safe_dump({"items": objects}),
        yaml.safe_dump_all(objects),
        yaml.safe_dump(objects),
    ]
    texts.append(yaml.safe_dump_all(objects).replace("'", ""))  # times that YAML takes for dates
    rows = [load_text(tmp_path, text)[0] for text in texts]
    assert all(one == rows[0] for one in rows)
    assert rows[0][0]["runtime_s"] == 600.0


@pytest.mark.parametrize(
    ("text", "match"),
    [
        pytest.param("a: &a [x, x]\nb: [*a, *a]\n", "anchor, alias or tag", id="alias bomb"),
        pytest.param("a: !!python/object:os.system x\n", "anchor, alias or tag", id="tag"),
        pytest.param("a: [1,\n", "neither JSON nor YAML", id="cut YAML"),
        pytest.param('{"items": [{"a": 1}', "Is the file cut short", id="cut JSON"),
        pytest.param("[" * 300, "nested|JSON", id="deep JSON"),
        pytest.param("- " * 300, "nested", id="deep YAML"),
        pytest.param("NAME READY STATUS\n", "no object of Kubernetes", id="table"),
        pytest.param('{"status": {}}', "no object of Kubernetes", id="fragment"),
    ],
)
def test_file_that_holds_no_objects_is_an_error(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(SourceError, match=match):
        load_text(tmp_path, text)


def test_bad_object_is_a_reject_without_its_secrets(tmp_path: Path) -> None:
    wrong = pod("wrong", creationTimestamp="yesterday", annotations={"last": "s3cret"})
    wrong["spec"] = {"containers": [{"env": [{"name": "TOKEN", "value": "s3cret"}]}]}
    early = pod("early", 10, 5)
    rows, batch = load(tmp_path, wrong, pod("own", 10, 20), early, {"kind": "Pod"})
    assert [row["job_id"] for row in rows] == ["ns/own"]
    assert [(one.line, one.reason) for one in batch.rejects] == [
        (1, "time_unreadable"),
        (3, "end_before_start"),
        (4, "not_an_object"),
    ]
    assert not any("s3cret" in one.raw for one in batch.rejects)


def test_request_that_cannot_be_read_is_counted_and_not_known(tmp_path: Path) -> None:
    wrong = pod("p", 10, 20)
    wrong["spec"] = {"containers": [{"resources": {"requests": {"cpu": "many"}}}]}
    (row,), batch = load(tmp_path, wrong)
    assert (row["cpu_count"], row["gpu_count"], batch.notes) == (None, None, {"unreadable_request": 1})


@pytest.mark.parametrize("option", ["user_label", "user_annotation"])
def test_user_is_who_the_chosen_label_or_annotation_names(tmp_path: Path, option: str) -> None:
    owner = job("train")
    named = pod("a", 10, 20, owner=owner, **{option.removeprefix("user_") + "s": {"acme.org/user": "ada"}})
    (row,), _ = load(tmp_path, owner, named, **{option: "acme.org/user"})
    assert (row["user"], row["group"]) == ("ada", "ns")


def test_ray_job_asks_for_its_head_and_workers_and_ends_with_its_status(tmp_path: Path) -> None:
    workers = [{"replicas": 3, "template": {"spec": SPEC}}]
    ray = {"headGroupSpec": {"template": {"spec": {"containers": []}}}, "workerGroupSpecs": workers}
    status = {"jobStatus": "SUCCEEDED", "startTime": at(30), "endTime": at(630)}
    owner: Object = {
        "apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": meta("r"), "spec": {"rayClusterSpec": ray}, "status": status,
    }  # fmt: skip
    (row,), _ = load(tmp_path, owner)
    assert (row["state"], row["runtime_s"], row["gpu_count"], row["node_count"], row["flags"]) == (
        "COMPLETED", 600.0, 6.0, 4.0, ["start_assumed"],
    )  # fmt: skip


def test_job_whose_pods_still_terminate_is_not_over(tmp_path: Path) -> None:
    (row,), _ = load(tmp_path, job("train", condition("SuccessCriteriaMet", 600), active=1))
    assert (row["state"], row["end_time"]) == ("RUNNING", None)
