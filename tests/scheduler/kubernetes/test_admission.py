"""The admission webhook on AdmissionReview JSON as the Kubernetes manual shows it, over HTTPS."""

import base64
import json
from typing import Any

import pytest
from answering import FORECAST
from reviews import ANNOTATIONS, NOW_S, POD, SCALE, with_

from runcast.scheduler.client import ServiceError
from runcast.scheduler.kubernetes.admission import ReviewError, answer, job_of

pytestmark = pytest.mark.attack


def patch_of(review: dict[str, Any]) -> list[dict[str, Any]] | None:
    response = answer(review, lambda job: dict(FORECAST), NOW_S)["response"]
    assert response["allowed"] is True
    if "patch" not in response:
        return None
    assert response["patchType"] == "JSONPatch"
    return list(json.loads(base64.b64decode(response["patch"])))


def test_a_new_pod_gets_annotations() -> None:
    reply = answer(POD, lambda job: dict(FORECAST), NOW_S)
    assert (reply["apiVersion"], reply["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert reply["response"]["uid"] == "0df28fbd-5f5f-11e8-bc74-36e6bb280816"
    assert patch_of(POD) == [{"op": "add", "path": "/metadata/annotations", "value": ANNOTATIONS}]


def test_annotations_that_are_there_stay() -> None:
    patch = patch_of(with_(POD, "request/object/metadata/annotations", {"own": "1"}))
    assert patch is not None
    assert patch[0] == {"op": "add", "path": "/metadata/annotations/runcast.io~1p50-seconds", "value": "90"}
    assert len(patch) == len(ANNOTATIONS)


def test_only_annotations_are_ever_patched() -> None:
    reviews = [POD, with_(POD, "request/object/metadata", None), with_(POD, "request/object/metadata/annotations", {"own": "1"})]
    patches = [patch for review in reviews for patch in patch_of(review) or []]
    assert all(one["op"] == "add" and one["path"].startswith("/metadata") for one in patches)
    assert patches


def test_the_pod_is_told_as_a_job() -> None:
    assert job_of(POD["request"], NOW_S) == {
        "submit_time": NOW_S,
        "user": "ada",
        "group": "vision",
        "queue": "team-a",
        "qos": "high",
        "job_name": "train",
        "node_count": 1,
        "cpu_count": 4.0,  # the init container asks for more than the others together
        "mem_mib": 4608.0,
        "gpu_count": 2.0,
        "time_limit_s": 7200,
        "time_limit_kind": "hard",
    }


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Job", {"parallelism": 4, "activeDeadlineSeconds": 600, "template": {"spec": POD["request"]["object"]["spec"]}}),
        ("CronJob", {"jobTemplate": {"spec": {"parallelism": 4, "template": {"spec": POD["request"]["object"]["spec"]}}}}),
    ],
)
def test_a_job_counts_its_pods(kind: str, spec: dict[str, Any]) -> None:
    review = with_(with_(POD, "request/object/spec", spec), "request/kind/kind", kind)
    job = job_of(review["request"], NOW_S)
    assert job is not None
    assert (job["node_count"], job["gpu_count"], job["mem_mib"]) == (4, 8.0, 18432.0)


def test_a_pod_that_asks_for_nothing_has_no_gpu() -> None:
    review = with_(POD, "request/object/spec", {"containers": [{"name": "main"}]})
    job = job_of(review["request"], NOW_S)
    assert job is not None
    assert (job.get("cpu_count"), job.get("mem_mib"), job["gpu_count"], "time_limit_s" in job) == (None, None, 0.0, False)


@pytest.mark.parametrize(
    "review",
    [
        pytest.param(SCALE, id="the_manuals_scale"),
        pytest.param(with_(POD, "request/operation", "UPDATE"), id="update"),
        pytest.param(with_(POD, "request/operation", "DELETE"), id="delete"),
        pytest.param(with_(POD, "request/kind/kind", "Deployment"), id="another_kind"),
        pytest.param(with_(POD, "request/object", None), id="no_object"),
        pytest.param(with_(POD, "request/subResource", "binding"), id="subresource"),
    ],
)
def test_what_is_no_new_workload_passes_unasked(review: dict[str, Any]) -> None:
    def ask(job: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("asked")

    response = answer(review, ask, NOW_S)["response"]
    assert response == {"uid": review["request"]["uid"], "allowed": True}


@pytest.mark.parametrize(
    "review",
    [
        pytest.param(
            with_(POD, "request/object/spec/containers", [{"resources": {"limits": {"cpu": "lots"}}}]), id="no_quantity"
        ),
        pytest.param(with_(POD, "request/object/spec/containers", "none"), id="no_list"),
        pytest.param(with_(POD, "request/object/metadata/labels", ["x"]), id="no_labels"),
        pytest.param(with_(POD, "request/object/spec", [1]), id="no_spec"),
        pytest.param(
            with_(
                with_(POD, "request/kind/kind", "Job"), "request/object/spec", {"parallelism": 10**400, "template": {"spec": {}}}
            ),
            id="no_float_holds_it",
        ),
    ],
)
def test_an_object_nobody_foresaw_is_admitted_with_the_reason(review: dict[str, Any]) -> None:
    response = answer(review, lambda job: dict(FORECAST), NOW_S)["response"]
    assert (response["allowed"], "patch" in response) == (True, False)
    assert response["auditAnnotations"]["forecast"].startswith("none: the object could not be read")


def test_no_forecast_is_admitted_with_the_reason() -> None:
    def ask(job: dict[str, Any]) -> dict[str, Any]:
        raise ServiceError("timeout", "no answer within 0.2 s")

    response = answer(POD, ask, NOW_S)["response"]
    assert (response["allowed"], "patch" in response) == (True, False)
    assert response["auditAnnotations"] == {"forecast": "none: timeout: no answer within 0.2 s"}


@pytest.mark.parametrize("review", [None, [], {}, {"request": None}, {"request": {}}, {"request": {"uid": ""}}])
def test_without_a_uid_there_is_nothing_to_answer(review: Any) -> None:
    with pytest.raises(ReviewError, match=r"expected an AdmissionReview with request\.uid"):
        answer(review, lambda job: dict(FORECAST), NOW_S)


FORGED = {"runcast.io/p50-seconds": "1", "runcast.io/made-up": "x", "own": "1"}


def patched(review: dict[str, Any], ask: Any) -> dict[str, Any]:
    """Return the object's annotations after the patch of the answer (RFC 6902, as far as it is used)."""
    response = answer(review, ask, NOW_S)["response"]
    assert response["allowed"] is True
    annotations = dict(review["request"]["object"]["metadata"].get("annotations") or {})
    for step in json.loads(base64.b64decode(response.get("patch", base64.b64encode(b"[]")))):
        if step["path"] == "/metadata/annotations":
            annotations = step["value"]
            continue
        name = step["path"].removeprefix("/metadata/annotations/").replace("~1", "/")
        if step["op"] == "remove":
            del annotations[name]  # a name that is not there is an error, as RFC 6902 has it
        else:
            annotations[name] = step["value"]
    return annotations


def no_answer(_job: dict[str, Any]) -> dict[str, Any]:
    raise ServiceError("timeout", "no answer within 0.2 s")


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        pytest.param(lambda _job: dict(FORECAST), {"own": "1", **ANNOTATIONS}, id="forecast"),
        pytest.param(no_answer, {"own": "1"}, id="no_forecast"),
    ],
)
def test_annotations_of_ours_that_a_user_wrote_do_not_stay(ask: Any, expected: dict[str, str]) -> None:
    assert patched(with_(POD, "request/object/metadata/annotations", FORGED), ask) == expected


def test_annotations_of_ours_do_not_stay_on_an_object_that_cannot_be_read() -> None:
    review = with_(POD, "request/object/metadata/annotations", FORGED)
    assert patched(with_(review, "request/object/spec/containers", "none"), no_answer) == {"own": "1"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (ANNOTATIONS, {**ANNOTATIONS, "runcast.io/p50-seconds": "1", "own": "2"}, {**ANNOTATIONS, "own": "2"}),
        (ANNOTATIONS, {}, ANNOTATIONS),
        ({}, FORGED, {"own": "1"}),
        ({"own": "1"}, {"own": "2"}, {"own": "2"}),
    ],
    ids=["changed", "removed", "added", "not_ours"],
)
def test_a_change_of_our_annotations_is_taken_back_and_nothing_is_asked(
    before: dict[str, str], after: dict[str, str], expected: dict[str, str]
) -> None:
    def ask(job: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("asked")

    review = with_(with_(POD, "request/operation", "UPDATE"), "request/object/metadata/annotations", after)
    old = {"metadata": {"annotations": before}}
    assert patched(with_(review, "request/oldObject", old), ask) == expected


def workload(kind: str, spec: dict[str, Any], group: str = "batch") -> dict[str, Any]:
    review = with_(POD, "request/kind", {"group": group, "version": "v1", "kind": kind})
    job = job_of(with_(review, "request/object", {"metadata": {"generateName": "x-"}, "spec": spec})["request"], NOW_S)
    assert job is not None
    return {name: job.get(name) for name in ("node_count", "cpu_count", "gpu_count", "time_limit_s", "queue")}


def pod(limits: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "resources": {"limits": limits}}], **more}}


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        pytest.param("Job", {"parallelism": None, "completions": 3, "template": pod({"nvidia.com/gpu": "1"})}, (1, None, 1.0, None, None),
                     id="parallelism_null"),
        pytest.param("Job", {"parallelism": 8, "completions": 2, "template": pod({"nvidia.com/gpu": "1"})}, (2, None, 2.0, None, None),
                     id="fewer_completions"),
        pytest.param("Job", {"parallelism": 2, "template": pod({"habana.ai/gaudi": "8"})}, (2, None, None, None, None), id="gaudi"),
        pytest.param("Job", {"activeDeadlineSeconds": 3600, "template": pod({}, activeDeadlineSeconds=600)}, (1, None, 0.0, 600, None),
                     id="shorter_deadline"),
        pytest.param("Job", {"activeDeadlineSeconds": 3600, "template": pod({})}, (1, None, 0.0, 3600, None), id="deadline_of_the_job"),
        pytest.param("CronJob", {"jobTemplate": {"spec": {"parallelism": 4, "completions": 3, "template": pod({"cpu": "2"})}}},
                     (3, 6.0, 0.0, None, None), id="cron_job"),
    ],
)  # fmt: skip
def test_a_job_asks_for_what_its_pods_ask_at_once(kind: str, spec: dict[str, Any], expected: tuple[Any, ...]) -> None:
    assert tuple(workload(kind, spec).values()) == expected


def test_a_volcano_job_is_the_sum_of_its_tasks() -> None:
    tasks = [
        {"replicas": 1, "template": pod({"cpu": "1"})},
        {"replicas": 2, "template": pod({"cpu": "3", "nvidia.com/gpu": "2"})},
    ]
    assert tuple(workload("Job", {"queue": "train", "tasks": tasks}, "batch.volcano.sh").values()) == (3, 7.0, 4.0, None, "train")
