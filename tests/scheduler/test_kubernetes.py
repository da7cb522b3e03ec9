"""The admission webhook on AdmissionReview JSON as the Kubernetes manual shows it, over HTTPS."""

import base64
import copy
import json
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from runcast.scheduler.client import Client, ServiceError
from runcast.scheduler.kubernetes.webhook import ReviewError, Webhook, answer, job_of, main, quantity

sys.path.insert(0, str(Path(__file__).parent / "slurm"))

from answering import FORECAST, answering

MANIFEST = Path(__file__).parents[2] / "scheduler" / "kubernetes" / "webhook.yaml"
NOW_S = 1796009438.0

#: The manual's example of a request ("Dynamic Admission Control", Webhook request and response): an update of a scale.
SCALE: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "subResource": "scale",
        "requestKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "requestResource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "requestSubResource": "scale",
        "name": "my-deployment",
        "namespace": "my-namespace",
        "operation": "UPDATE",
        "userInfo": {
            "username": "admin",
            "uid": "014fbff9a07c",
            "groups": ["system:authenticated", "my-admin-group"],
            "extra": {"some-key": ["some-value1", "some-value2"]},
        },
        "object": {"apiVersion": "autoscaling/v1", "kind": "Scale"},
        "oldObject": {"apiVersion": "autoscaling/v1", "kind": "Scale"},
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "UpdateOptions"},
        "dryRun": False,
    },
}

POD: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "0df28fbd-5f5f-11e8-bc74-36e6bb280816",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "vision",
        "operation": "CREATE",
        "userInfo": {"username": "ada", "uid": "7", "groups": ["system:authenticated"]},
        "object": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "train-", "labels": {"kueue.x-k8s.io/queue-name": "team-a"}},
            "spec": {
                "priorityClassName": "high",
                "activeDeadlineSeconds": 7200,
                "initContainers": [{"name": "fetch", "resources": {"requests": {"cpu": "4", "memory": "1Gi"}}}],
                "containers": [
                    {
                        "name": "main",
                        "resources": {
                            "requests": {"cpu": "1500m", "memory": "4Gi"},
                            "limits": {"memory": "8Gi", "nvidia.com/gpu": "2"},
                        },
                    },
                    {"name": "side", "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}}},
                ],
            },
        },
        "oldObject": None,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    },
}


def with_(review: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return the review with one place changed; a value of None takes it out."""
    changed = copy.deepcopy(review)
    *steps, last = path.split("/")
    place: Any = changed
    for step in steps:
        place = place[step]
    if value is None:
        place.pop(last, None)
    else:
        place[last] = value
    return changed


def patch_of(review: dict[str, Any]) -> list[dict[str, Any]] | None:
    response = answer(review, lambda job: dict(FORECAST), NOW_S)["response"]
    assert response["allowed"] is True
    if "patch" not in response:
        return None
    assert response["patchType"] == "JSONPatch"
    return list(json.loads(base64.b64decode(response["patch"])))


ANNOTATIONS = {
    "runcast.io/p50-seconds": "90",
    "runcast.io/p90-seconds": "401",
    "runcast.io/confidence": "0.75",
    "runcast.io/source": "nearest_median",
    "runcast.io/model-version": "demo/7",
}


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", 1), (2, 2), (0.5, 0.5), ("500m", 0.5), ("100u", 1e-4), ("4Gi", 4 * 2**30), ("4G", 4e9), ("128974848", 128974848),
     ("129e6", 129e6), ("1.5k", 1500), ("12E", 12e18), ("1E3", 1000), (".5", 0.5)],
)  # fmt: skip
def test_quantities(text: Any, expected: float) -> None:
    assert quantity(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "lots", "1 Gi", "Gi", True, "1e", "0x10", "1mi"])
def test_what_is_no_quantity_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        quantity(text)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    make_certificate(folder)
    return folder / "tls.crt", folder / "tls.key"


def make_certificate(folder: Path) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
               "-subj", "/CN=runcast", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(folder / "tls.key"),
               "-out", str(folder / "tls.crt")]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=60)


@contextmanager
def webhook(service: Path, tls: tuple[Path, Path]) -> Iterator[str]:
    """Serve on a free port of loopback; yield the address."""
    with Webhook(("127.0.0.1", 0), Client(service, 0.2).predict, tls, time.time) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def post(url: str, body: bytes, certificate: Path) -> tuple[int, Any]:
    context = ssl.create_default_context(cafile=str(certificate))
    request = urllib.request.Request(f"{url}/annotate?timeout=1s", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=5, context=context) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_the_api_server_is_answered_over_tls(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    with answering(tmp_path / "s") as service, webhook(tmp_path / "s", certificate) as url:
        status, reply = post(url, json.dumps(POD).encode(), certificate[0])
        assert status == 200
        assert json.loads(base64.b64decode(reply["response"]["patch"]))[0]["value"] == ANNOTATIONS
        assert service.asked[0]["job_name"] == "train"
        service.mode, service.forget_s = "hang", 1.0
        start = time.monotonic()
        status, reply = post(url, json.dumps(POD).encode(), certificate[0])
        assert time.monotonic() - start < 0.9  # within timeoutSeconds of the manifest
        assert reply["response"]["auditAnnotations"]["forecast"].startswith("none: timeout")
        service.mode = "not_json"
        assert post(url, json.dumps(POD).encode(), certificate[0])[1]["response"]["allowed"] is True
    with webhook(tmp_path / "s", certificate) as url:
        status, reply = post(url, json.dumps(POD).encode(), certificate[0])
        assert reply["response"]["auditAnnotations"]["forecast"].startswith("none: refused")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[" * 100_000, b"\xff"])
def test_a_body_that_is_no_review_is_a_400_that_the_api_server_ignores(
    tmp_path: Path, certificate: tuple[Path, Path], body: bytes
) -> None:
    with webhook(tmp_path / "s", certificate) as url:
        assert post(url, body, certificate[0])[0] == 400


def test_a_client_that_says_nothing_holds_up_nobody(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    with answering(tmp_path / "s"), webhook(tmp_path / "s", certificate) as url, closing(socket.socket()) as silent:
        silent.connect(("127.0.0.1", int(url.rsplit(":", 1)[1])))
        start = time.monotonic()
        assert post(url, json.dumps(POD).encode(), certificate[0])[0] == 200
        assert time.monotonic() - start < 2


def test_a_replaced_certificate_is_taken_up(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    folder = tmp_path / "tls"
    folder.mkdir()
    make_certificate(folder)
    with answering(tmp_path / "s"), webhook(tmp_path / "s", (folder / "tls.crt", folder / "tls.key")) as url:
        assert post(url, json.dumps(POD).encode(), folder / "tls.crt")[0] == 200
        for path in certificate:
            shutil.copy(path, folder / path.name)
        assert post(url, json.dumps(POD).encode(), certificate[0])[0] == 200


def test_without_tls_it_listens_on_loopback_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--address", "0.0.0.0"])
    assert "without --cert and --key it listens on loopback only" in capsys.readouterr().err


def test_the_manifest_fails_open_and_cannot_hold_up_the_cluster() -> None:
    documents = {document["kind"]: document for document in yaml.safe_load_all(MANIFEST.read_text())}
    (hook,) = documents["MutatingWebhookConfiguration"]["webhooks"]
    assert hook["failurePolicy"] == "Ignore"
    assert hook["timeoutSeconds"] == 1
    assert hook["sideEffects"] == "None"
    assert hook["admissionReviewVersions"] == ["v1"]
    assert {operation for rule in hook["rules"] for operation in rule["operations"]} == {"CREATE"}
    assert hook["namespaceSelector"]["matchLabels"] == {"runcast.io/forecast": "enabled"}
    service = documents["Service"]
    assert hook["clientConfig"]["service"]["name"] == service["metadata"]["name"]
    assert hook["clientConfig"]["service"]["port"] == service["spec"]["ports"][0]["port"]
    containers = documents["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert containers[1]["ports"][0]["containerPort"] == service["spec"]["ports"][0]["targetPort"]
