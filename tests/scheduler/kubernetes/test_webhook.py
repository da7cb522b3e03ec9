"""The webhook's server over HTTPS: who is answered, what a client can hold, and the manifest that runs it."""

import base64
import copy
import json
import os
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
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from answering import answering
from reviews import ANNOTATIONS, POD

from runcast.scheduler.client import Client
from runcast.scheduler.kubernetes import webhook as server_module
from runcast.scheduler.kubernetes.webhook import LARGEST_REVIEW_BYTES, MOST_OF_ONE_PEER, Tls, Webhook, main

pytestmark = pytest.mark.attack

MANIFEST = Path(__file__).parents[3] / "scheduler" / "kubernetes" / "webhook.yaml"
REVIEW = json.dumps(POD).encode()


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
def webhook(service: Path, tls: tuple[Path, Path], client_ca: Path | None = None, *names: str) -> Iterator[str]:
    """Serve on a free port of loopback; yield the address."""
    given = Tls(*tls, client_ca, frozenset(names))
    with Webhook(("127.0.0.1", 0), Client(service, 0.2).predict, given, time.time) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def post(url: str, body: bytes, certificate: Path, identity: Path | None = None) -> tuple[int, Any]:
    context = ssl.create_default_context(cafile=str(certificate))
    if identity is not None:
        context.load_cert_chain(identity.with_suffix(".crt"), identity.with_suffix(".key"))
    request = urllib.request.Request(f"{url}/annotate?timeout=1s", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=5, context=context) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_the_api_server_is_answered_over_tls(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    with answering(tmp_path / "s") as service, webhook(tmp_path / "s", certificate) as url:
        status, reply = post(url, REVIEW, certificate[0])
        assert status == 200
        assert json.loads(base64.b64decode(reply["response"]["patch"]))[0]["value"] == ANNOTATIONS
        assert service.asked[0]["job_name"] == "train"
        service.mode, service.forget_s = "hang", 1.0
        start = time.monotonic()
        status, reply = post(url, REVIEW, certificate[0])
        assert time.monotonic() - start < 0.9  # within timeoutSeconds of the manifest
        assert reply["response"]["auditAnnotations"]["forecast"].startswith("none: timeout")
        service.mode = "not_json"
        assert post(url, REVIEW, certificate[0])[1]["response"]["allowed"] is True
    with webhook(tmp_path / "s", certificate) as url:
        status, reply = post(url, REVIEW, certificate[0])
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
        assert post(url, REVIEW, certificate[0])[0] == 200
        assert time.monotonic() - start < 2


def test_a_replaced_certificate_is_taken_up(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    folder = tmp_path / "tls"
    folder.mkdir()
    make_certificate(folder)
    with answering(tmp_path / "s"), webhook(tmp_path / "s", (folder / "tls.crt", folder / "tls.key")) as url:
        assert post(url, REVIEW, folder / "tls.crt")[0] == 200
        for path in certificate:
            shutil.copy(path, folder / path.name)
        assert post(url, REVIEW, certificate[0])[0] == 200


def test_without_tls_it_listens_on_loopback_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--address", "0.0.0.0"])
    assert "without --cert and --key it listens on loopback only" in capsys.readouterr().err


@pytest.fixture(scope="module")
def client_ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a CA and certificates of it: kube-apiserver and somebody; and one of nobody's CA, stranger."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("clients")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60, cwd=folder)

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    for name in ("ca", "stranger"):
        openssl(*new, "-x509", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt")
    for name in ("kube-apiserver", "somebody"):
        openssl(*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-days", "2", "-out", f"{name}.crt")
    return folder


@pytest.mark.parametrize(
    ("identity", "names", "status"),
    [
        ("kube-apiserver", ["kube-apiserver"], 200),
        ("kube-apiserver", [], 200),
        ("somebody", [], 200),
        ("somebody", ["kube-apiserver"], 403),
        (None, [], 403),
        (None, ["kube-apiserver"], 403),
    ],
)
def test_only_the_api_server_is_answered(
    tmp_path: Path, certificate: tuple[Path, Path], client_ca: Path, identity: str | None, names: list[str], status: int
) -> None:
    with answering(tmp_path / "s") as service, webhook(tmp_path / "s", certificate, client_ca / "ca.crt", *names) as url:
        assert post(url, REVIEW, certificate[0], client_ca / identity if identity else None)[0] == status
        assert len(service.asked) == (status == 200)
        health = ssl.create_default_context(cafile=str(certificate[0]))  # the kubelet's probe shows no certificate
        with urllib.request.urlopen(f"{url}/healthz", timeout=5, context=health) as response:
            assert response.status == 200


def test_a_certificate_of_another_ca_ends_the_connection(tmp_path: Path, certificate: tuple[Path, Path], client_ca: Path) -> None:
    with answering(tmp_path / "s") as service, webhook(tmp_path / "s", certificate, client_ca / "ca.crt") as url:
        with pytest.raises(OSError):  # noqa: PT011 - TLS 1.3 says so at the handshake or at the first read
            post(url, REVIEW, certificate[0], client_ca / "stranger")
        assert service.asked == []


@contextmanager
def connection(url: str, certificate: Path) -> Iterator[ssl.SSLSocket]:
    context = ssl.create_default_context(cafile=str(certificate))
    plain = socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), timeout=10)
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
        yield secure


def test_unfinished_bodies_take_no_more_than_what_is_set_aside(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """Thirty clients send all but the last byte of the largest body: 120 MiB, were they kept."""
    with webhook_process(tmp_path / "s", certificate) as (url, pid), ExitStack() as clients:
        before_kib = peak_kib(pid)
        head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {LARGEST_REVIEW_BYTES}\r\n\r\n".encode()
        for _ in range(30):
            client = clients.enter_context(connection(url, certificate[0]))
            try:
                client.sendall(head + b" " * (LARGEST_REVIEW_BYTES - 1))
            except OSError:
                continue  # refused with 503 while it was sent
        assert peak_kib(pid) - before_kib < 64 * 1024
        time.sleep(server_module.REQUEST_S + 1)  # they are cut off, and what they held is free again
        assert post(url, REVIEW, certificate[0])[0] == 200


@pytest.mark.parametrize("piece", ["[]", '{"":0}', '{"":' * 50 + "0" + "}" * 50])
def test_a_review_of_very_many_small_values_takes_no_more_than_what_is_set_aside(
    tmp_path: Path, certificate: tuple[Path, Path], piece: str
) -> None:
    """Four MiB of JSON that become 90 to 150 MiB once parsed; the pod has 256."""
    many = ",".join([piece] * ((LARGEST_REVIEW_BYTES - 10_000) // (len(piece) + 1)))
    body = json.dumps(POD).removesuffix("}") + f', "x": [{many}]}}'
    with webhook_process(tmp_path / "s", certificate) as (url, pid):
        before_kib = peak_kib(pid)
        assert post(url, body.encode(), certificate[0])[0] == 503
        assert peak_kib(pid) - before_kib < 32 * 1024
        assert post(url, REVIEW, certificate[0])[0] == 200


def test_a_review_of_the_largest_object_that_a_cluster_holds_is_answered(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """1.5 MiB, an annotation for each 40 bytes: 40,000 values."""
    review = copy.deepcopy(POD)
    review["request"]["object"]["metadata"]["labels"] = {f"label-{n:012d}": "value-of-label" for n in range(39_000)}
    with answering(tmp_path / "s"), webhook(tmp_path / "s", certificate) as url:
        assert post(url, json.dumps(review).encode(), certificate[0])[0] == 200


@contextmanager
def webhook_process(service: Path, certificate: tuple[Path, Path]) -> Iterator[tuple[str, int]]:
    """Serve in a process of its own on a free port of loopback; yield the address and the process's number."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "runcast.scheduler.kubernetes.webhook", "--port", str(port), "--socket", str(service),
               "--cert", str(certificate[0]), "--key", str(certificate[1])]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet) as process:
        try:
            wait_for(f"https://127.0.0.1:{port}", certificate[0])
            yield f"https://127.0.0.1:{port}", process.pid
        finally:
            process.terminate()
            process.wait(10)


def wait_for(url: str, certificate: Path) -> None:
    end = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=2, context=ssl.create_default_context(cafile=str(certificate))):
                return
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.1)


def peak_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))


def test_a_client_that_trickles_is_cut_off(
    tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "REQUEST_S", 1.0)
    with webhook(tmp_path / "s", certificate) as url, connection(url, certificate[0]) as client:
        start = time.monotonic()
        try:
            while time.monotonic() - start < 8:
                client.sendall(b"P")  # each byte comes well within the time of one read
                time.sleep(0.3)
        except OSError:
            assert time.monotonic() - start < 4
        else:
            pytest.fail("still open after 8 s")


def test_many_connections_of_one_peer_are_refused_and_others_freed(
    tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "REQUEST_S", 1.0)
    with answering(tmp_path / "s"), webhook(tmp_path / "s", certificate) as url, ExitStack() as clients:
        for _ in range(MOST_OF_ONE_PEER * 3):
            silent = clients.enter_context(closing(socket.socket()))
            silent.connect(("127.0.0.1", int(url.rsplit(":", 1)[1])))
        time.sleep(0.3)
        assert sum(thread.name.startswith("Thread") for thread in threading.enumerate()) < MOST_OF_ONE_PEER + 10
        time.sleep(1.5)
        assert post(url, REVIEW, certificate[0])[0] == 200


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"POST / HTTP/1.1\r\n" + b"".join(b"x%d: %s\r\n" % (n, b"a" * 60_000) for n in range(90)), id="headers"),
        pytest.param(b"POST /" + b"a" * 60_000 + b" HTTP/1.1\r\n", id="path"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n", id="superscript_length"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", id="long_length"),
    ],
)
def test_a_head_that_is_too_large_or_odd_is_not_kept(tmp_path: Path, certificate: tuple[Path, Path], head: bytes) -> None:
    with answering(tmp_path / "s"), webhook(tmp_path / "s", certificate) as url:
        with connection(url, certificate[0]) as client:
            try:
                client.sendall(head)
                reply = client.recv(4096)
            except OSError:
                reply = b""
        assert reply[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 431", b"HTTP/1.1 413", b"HTTP/1.1 414")
        assert post(url, REVIEW, certificate[0])[0] == 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--client-ca", "ca.crt"], "--client-ca needs --cert and --key"),
        (["--client-name", "kube-apiserver"], "--client-name needs --client-ca"),
    ],
)
def test_options_of_clients_need_what_they_rest_on(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in capsys.readouterr().err


DOCUMENTS = {document["kind"]: document for document in yaml.safe_load_all(MANIFEST.read_text())}
POD_OF_MANIFEST = DOCUMENTS["Deployment"]["spec"]["template"]["spec"]


def test_the_manifest_meets_the_restricted_profile() -> None:
    """Rules of "Pod Security Standards", restricted; and a read-only root, which that profile leaves open."""
    labels = DOCUMENTS["Namespace"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers"} & set(POD_OF_MANIFEST)
    context = POD_OF_MANIFEST["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] != 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
    assert {kind for volume in POD_OF_MANIFEST["volumes"] for kind in volume if kind != "name"} <= allowed
    for container in POD_OF_MANIFEST["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in container["resources"]["limits"]
    assert all("sizeLimit" in volume["emptyDir"] for volume in POD_OF_MANIFEST["volumes"] if "emptyDir" in volume)


def test_the_manifest_lets_only_the_control_plane_in_and_nothing_out() -> None:
    policy = DOCUMENTS["NetworkPolicy"]["spec"]
    assert policy["podSelector"] == {}
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert policy["egress"] == []
    (rule,) = policy["ingress"]
    assert rule["from"] == [{"ipBlock": {"cidr": "CONTROL_PLANE"}}]
    assert rule["ports"] == [{"protocol": "TCP", "port": POD_OF_MANIFEST["containers"][1]["ports"][0]["containerPort"]}]


def test_the_manifest_fails_open_and_cannot_hold_up_the_cluster() -> None:
    (hook,) = DOCUMENTS["MutatingWebhookConfiguration"]["webhooks"]
    assert hook["failurePolicy"] == "Ignore"
    assert hook["timeoutSeconds"] == 1
    assert hook["sideEffects"] == "None"
    assert hook["admissionReviewVersions"] == ["v1"]
    assert {operation for rule in hook["rules"] for operation in rule["operations"]} == {"CREATE", "UPDATE"}
    assert hook["namespaceSelector"]["matchLabels"] == {"runcast.io/forecast": "enabled"}
    service = DOCUMENTS["Service"]
    assert hook["clientConfig"]["service"]["name"] == service["metadata"]["name"]
    assert hook["clientConfig"]["service"]["port"] == service["spec"]["ports"][0]["port"]
    containers = POD_OF_MANIFEST["containers"]
    assert containers[1]["ports"][0]["containerPort"] == service["spec"]["ports"][0]["targetPort"]
