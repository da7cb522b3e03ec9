"""A mutating admission webhook: writes the forecast into the annotations of a new pod or job, and always lets it pass.

    runcast kubernetes-webhook --socket /run/runcast/predict.sock --cert tls.crt --key tls.key

Annotations are what schedulers and queues of Kubernetes may read without harm: a time limit (`activeDeadlineSeconds`, Kueue's
max-exec-time label) ends the workload and is never touched. No forecast in time, or none at all: allowed, without a patch, with
the reason in the audit annotation. How to install and to take out: docs/kubernetes.md.
"""

import argparse
import base64
import json
import logging
import math
import re
import socket
import ssl
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from runcast.data.errors import RuncastError
from runcast.outcome import report
from runcast.scheduler.client import Client, Forecast
from runcast.scheduler.errors import ServeError
from runcast.scheduler.options import Parser, seconds, whole

PREFIX = "runcast.io"
LARGEST_REVIEW_BYTES = 8 << 20  # etcd's objects end at 1.5 MiB; a review holds the object once on CREATE
CONNECTION_TIMEOUT_S = 5.0  # for a client that connects and says nothing
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
QUEUE_LABELS = ("kueue.x-k8s.io/queue-name", "volcano.sh/queue-name")

#: Where the pod's specification stands in each kind.
_POD_SPEC: dict[str, tuple[str, ...]] = {
    "Pod": ("spec",),
    "Job": ("spec", "template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
_SUFFIXES = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_QUANTITY = re.compile(r"([+-]?\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d{1,3})|([KMGTPE]i|[numkMGTPE]))?")

_log = logging.getLogger("runcast.kubernetes")

Object = Mapping[str, Any]
Ask = Callable[[dict[str, Any]], Forecast]


class ReviewError(RuncastError):
    """The request's body is no AdmissionReview that could be answered."""


def answer(review: Any, ask: Ask, now_s: float) -> dict[str, Any]:
    """Return the AdmissionReview that answers `review`: allowed always, with a patch where there is a forecast.

    Raises ReviewError where there is no uid to answer to.
    """
    request = review.get("request") if isinstance(review, dict) else None
    uid = request.get("uid") if isinstance(request, dict) else None
    if request is None or not isinstance(uid, str) or not uid:
        raise ReviewError(f"expected an AdmissionReview with request.uid, found {str(review)[:80]!r}")
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    try:
        patch = _patch(request, ask, now_s)
    except RuncastError as error:
        response["auditAnnotations"] = {"forecast": f"none: {str(error)[:200]}"}
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        # An object of a shape that nobody foresaw must still be admitted: what is wrong with it is the API server's to say.
        _log.warning("no forecast for %s: %r", request.get("kind"), error)
        response["auditAnnotations"] = {"forecast": f"none: the object could not be read ({type(error).__name__})"}
    else:
        if patch:
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
    return {"apiVersion": review.get("apiVersion") or "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def job_of(request: Object, now_s: float) -> dict[str, Any] | None:
    """Return the new object as a job in the service's words, or None where it is no workload that is being created."""
    kind = (request.get("kind") or {}).get("kind")
    created = request.get("object")
    if (
        request.get("operation") != "CREATE"
        or kind not in _POD_SPEC
        or not isinstance(created, dict)
        or request.get("subResource")
    ):
        return None
    spec: Any = created
    for step in _POD_SPEC[kind]:
        spec = spec.get(step) or {}
    above = created.get("spec") or {}
    if kind == "CronJob":
        above = (above.get("jobTemplate") or {}).get("spec") or {}
    pods = above.get("parallelism", 1) if kind != "Pod" else 1
    metadata = created.get("metadata") or {}
    labels = metadata.get("labels") or {}
    deadline_s = spec.get("activeDeadlineSeconds") or above.get("activeDeadlineSeconds")
    job = {
        "submit_time": now_s,
        "user": (request.get("userInfo") or {}).get("username"),
        "group": request.get("namespace") or metadata.get("namespace"),
        "queue": next((labels[name] for name in QUEUE_LABELS if labels.get(name)), None),
        "qos": spec.get("priorityClassName"),
        "job_name": metadata.get("name") or (metadata.get("generateName") or "").rstrip("-"),
        "node_count": pods,
        **{name: value * pods for name, value in _requested(spec).items()},
        "time_limit_s": deadline_s,
        "time_limit_kind": "hard" if deadline_s else None,
    }
    return {name: value for name, value in job.items() if value not in (None, "")}


def annotations_of(forecast: Forecast) -> dict[str, str]:
    """Return the annotations for a forecast; whole seconds, rounded up."""
    found = {
        f"{PREFIX}/p50-seconds": str(math.ceil(forecast["p50_s"])),
        f"{PREFIX}/p90-seconds": str(math.ceil(forecast["p90_s"])),
    }
    if isinstance(forecast.get("confidence"), int | float):
        found[f"{PREFIX}/confidence"] = f"{forecast['confidence']:.2f}"
    for name, key in (("source", "source"), ("model-version", "model_version")):
        if isinstance(forecast.get(key), str):
            found[f"{PREFIX}/{name}"] = forecast[key][:200]
    return found


def quantity(text: Any) -> float:
    """Return a resource quantity of Kubernetes as a number; raises ValueError.

    >>> quantity("500m"), quantity("1.5Gi"), quantity(2), quantity("1e3")
    (0.5, 1610612736.0, 2.0, 1000.0)
    """
    match = _QUANTITY.fullmatch(str(text).strip())
    if match is None or isinstance(text, bool):
        raise ValueError(f"no quantity: {text!r}")
    number, exponent, suffix = match.groups()
    return float(f"{number}e{exponent}") if exponent else float(number) * _SUFFIXES[suffix or ""]


def _patch(request: Object, ask: Ask, now_s: float) -> list[dict[str, Any]]:
    """Return the JSON patch (RFC 6902) that adds the annotations; empty where the request is none of ours."""
    job = job_of(request, now_s)
    if job is None:
        return []
    annotations = annotations_of(ask(job))
    metadata = request["object"].get("metadata")
    if metadata is None:
        return [{"op": "add", "path": "/metadata", "value": {"annotations": annotations}}]
    if not metadata.get("annotations"):
        return [{"op": "add", "path": "/metadata/annotations", "value": annotations}]
    # In a JSON pointer (RFC 6901) the slash of a key is written ~1.
    return [
        {"op": "add", "path": "/metadata/annotations/" + name.replace("~", "~0").replace("/", "~1"), "value": value}
        for name, value in annotations.items()
    ]


def _requested(spec: Object) -> dict[str, float]:
    """Return the CPUs, MiB and GPUs of one pod: what its containers ask for together, or its largest init container."""
    together = [_container(container) for container in spec.get("containers") or []]
    before = [_container(container) for container in spec.get("initContainers") or []]
    found = {}
    for name in ("cpu_count", "mem_mib", "gpu_count"):
        asked = [container[name] for container in together if name in container]
        first = [container[name] for container in before if name in container]
        if asked or first:
            found[name] = max([sum(asked), *first])
    found.setdefault("gpu_count", 0.0)  # a pod gets no GPU that it does not ask for
    return found


def _container(container: Object) -> dict[str, float]:
    resources = container.get("resources") or {}
    # Where only a limit is given, Kubernetes takes it as the request.
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    found = {}
    if "cpu" in asked:
        found["cpu_count"] = quantity(asked["cpu"])
    if "memory" in asked:
        found["mem_mib"] = quantity(asked["memory"]) / 2**20
    gpus = [quantity(asked[name]) for name in asked if name in GPU_RESOURCES or name.startswith("nvidia.com/mig-")]
    if gpus:
        found["gpu_count"] = sum(gpus)
    return found


class Webhook(ThreadingHTTPServer):
    """The HTTP server; with `tls` (certificate and key), it reads them anew when they are replaced, as cert-manager does."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], ask: Ask, tls: tuple[Path, Path] | None, clock: Callable[[], float]) -> None:
        super().__init__(address, _Handler)
        self.ask, self.clock = ask, clock
        self._tls = tls
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._loaded: tuple[float, float] | None = None
        self._load_certificate()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        connection.settimeout(CONNECTION_TIMEOUT_S)
        if self._tls is None:
            return connection, address
        self._load_certificate()
        # The handshake is left to the connection's own thread, so that a silent client holds up nobody else.
        return self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.info("connection from %s ended: %r", client_address, sys.exc_info()[1])

    def _load_certificate(self) -> None:
        if self._tls is None:
            return
        certificate, key = self._tls
        try:
            written = (certificate.stat().st_mtime, key.stat().st_mtime)
            if written != self._loaded:
                self._context.load_cert_chain(certificate, key)
                self._loaded = written
        except OSError:  # ssl.SSLError is one: half replaced; the one that is loaded goes on
            if self._loaded is None:
                raise
            _log.warning("%s: cannot be read anew; the certificate before stays", certificate)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Webhook

    def do_GET(self) -> None:
        self._send(200, {"status": "ok"}) if self.path == "/healthz" else self._send(404, {"error": "no such path"})

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > LARGEST_REVIEW_BYTES:
            self.close_connection = True
            return self._send(413, {"error": f"expected a Content-Length up to {LARGEST_REVIEW_BYTES}"})
        body = self.rfile.read(int(length))
        try:
            content = answer(json.loads(body), self.server.ask, self.server.clock())
        except (ValueError, RecursionError, ReviewError) as error:
            return self._send(400, {"error": str(error)[:200]})
        self._send(200, content)

    def _send(self, status: int, content: Any) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        _log.debug(format, *args)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog="runcast kubernetes-webhook", description="Annotates new pods and jobs with a forecast.")
    parser.add_argument("--socket", type=Path, default=Path("/run/runcast/predict.sock"), help="of `runcast serve`")
    parser.add_argument("--address", default="127.0.0.1", help="to listen on; another than loopback needs --cert (%(default)s)")
    parser.add_argument("--port", type=whole(0, 65_535), default=8443, help="(%(default)s)")
    parser.add_argument("--cert", type=Path, help="certificate, PEM; the API server speaks only TLS")
    parser.add_argument("--key", type=Path, help="its key, PEM")
    parser.add_argument("--timeout", type=seconds(), default=0.2, metavar="S", help="for the service's answer (%(default)s)")
    arguments = parser.parse_args(argv)
    if (arguments.cert is None) != (arguments.key is None):
        parser.error("--cert and --key go together")
    if arguments.cert is None and arguments.address not in ("127.0.0.1", "::1", "localhost"):
        parser.error("without --cert and --key it listens on loopback only")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until stopped."""
    arguments = _arguments(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    client = Client(arguments.socket, arguments.timeout)
    tls = (arguments.cert, arguments.key) if arguments.cert else None
    try:
        server = Webhook((arguments.address, arguments.port), client.predict, tls, time.time)
    except OSError as error:
        refused = ServeError(f"{arguments.address} port {arguments.port}: cannot serve ({error})")
        _log.error("%s", refused)
        return report(refused)
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
