"""Attacks on the service, and faults of its machine: each function is one, and raises AssertionError where it succeeds.

    python tests/attack/service_attacks.py          # all of them, in their long form, each against a fresh service
    python tests/attack/service_attacks.py heads    # those with that in their name

Bounded in count and time, against a service that is started for them, over its Unix socket or a port of loopback.
"""

import contextlib
import json
import pwd
import resource
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from socket import create_connection, socket
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "tests" / "scheduler"), str(ROOT / "benchmarks")]

from running import Running, connected

Bundle = Callable[..., Path]
CUT_S = 1_775_001_600.0  # no bundle that an attack is given has a later cut
NOBODY = 65_534
JOB: dict[str, Any] = {"submit_time": CUT_S + 86_400, "user": "u3", "job_name": "train_1_0.sh", "gpu_count": 4, "queue": "gpu"}
MOST_MIB = 48  # that an attack may cost in memory


@dataclass
class World:
    """Where an attack takes place: `bundle` writes one and makes it current, `start` begins a service; `size` is 1 or more."""

    folder: Path
    bundle: Bundle
    start: Callable[..., Running]
    size: int = 1


def events_of(number: int, **about: Any) -> list[dict[str, Any]]:
    """Return a whole job of one second, as events."""
    job = {
        "job_id": str(number),
        "submit_time": CUT_S + number,
        "user": "u3",
        "job_name": "train_1_0.sh",
        "gpu_count": 4,
        **about,
    }
    start = job["submit_time"] + 1
    return [
        {"event": "submitted", **job},
        {"event": "started", **job, "start_time": start},
        {"event": "ended", **job, "start_time": start, "end_time": start + 1, "state": "COMPLETED"},
    ]


def attack_with_endless_heads(world: World) -> None:
    """Headers without end, before anybody has shown a token: small ones, one long one, a long URL, trailers."""
    world.bundle()
    service = world.start()
    service.post("/v1/predict", JOB)
    before_mib = service.resident_mib()
    small = b"".join(b"x-%d: 1\r\n" % n for n in range(20_000))
    chunked = b"POST /v1/predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    for head, more in (
        (b"GET / HTTP/1.1\r\n", small),
        (b"GET / HTTP/1.1\r\nx: ", b"a" * 262_144),
        (b"GET /", b"a" * 262_144),
        (chunked + b"1\r\n{\r\n0\r\n", small),
        (chunked + b"1\r\n{\r\n0\r\nx: ", b"a" * 262_144),
        (chunked + b"1;", b"a" * 262_144),
    ):
        open_, taken = [], 0
        for _ in range(30 * world.size):
            connection = connected(service.socket)
            connection.setblocking(False)
            open_.append(connection)
            with contextlib.suppress(OSError):
                taken += connection.send(head)
        for _ in range(40):
            for connection in open_:
                with contextlib.suppress(OSError):
                    taken += connection.send(more)
            time.sleep(0.005)
        grown_mib = service.resident_mib() - before_mib
        assert grown_mib < MOST_MIB, f"{head[:40]!r} and {taken >> 20} MiB: {grown_mib:.0f} MiB of memory"
        for connection in open_:
            connection.close()
    assert service.post("/v1/predict", JOB)[0] == 200


def attack_with_requests_in_advance(world: World) -> None:
    """Thousands of small requests in one piece, on every connection, before the first is answered."""
    world.bundle()
    service = world.start()
    service.post("/v1/predict", JOB)
    before_mib = service.resident_mib()
    for request in (b"GET / HTTP/1.1\r\n\r\n", b"GET /x HTTP/1.1\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n1"):
        open_ = [connected(service.socket) for _ in range(20 * world.size)]
        for connection in open_:
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.send(request * (200_000 // len(request)))
        assert seconds_of(lambda: service.post("/v1/predict", JOB)) < 2
        grown_mib = service.resident_mib() - before_mib
        assert grown_mib < MOST_MIB, f"{request!r}: {grown_mib:.0f} MiB of memory"
        for connection in open_:
            connection.close()


def attack_with_bodies_that_grow_when_read(world: World) -> None:
    """Lists of jobs that wait for their turn, the last of them of empty values: in memory many times their bytes."""
    world.bundle()
    service = world.start("--socket-mode", "666")
    service.post("/v1/predict", JOB)
    before_mib, peak_mib = service.resident_mib(), 0.0
    jobs = ",".join([json.dumps({"submit_time": CUT_S})] * 900)
    last = {
        "lists": '{"user":[' + ",".join(["[]"] * 300_000) + "]}",
        "objects": "{" + ",".join(f'"{number}":{{}}' for number in range(80_000)) + "}",
        "fields": "{" + ",".join(f'"{number}":1' for number in range(80_000)) + "}",
        "no job": "[" + ",".join(["[]"] * 300_000) + "]",
    }
    for what, one in last.items():
        body = f"[{jobs},{one}]".encode()
        assert len(body) < 1_048_576
        request = b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        open_ = [connected(service.socket, NOBODY - at % 4) for at in range(20 * world.size)]
        with ThreadPoolExecutor(len(open_)) as threads:
            sent = [threads.submit(sent_quietly, connection, request) for connection in open_]
            while not all(one.done() for one in sent):
                peak_mib = max(peak_mib, service.resident_mib())
                time.sleep(0.02)
        assert service.post("/v1/predict", JOB)[0] == 200
        grown_mib = max(peak_mib, service.resident_mib()) - before_mib
        assert grown_mib < 2 * MOST_MIB, f"{what}: {grown_mib:.0f} MiB of memory"
        for connection in open_:
            connection.close()


def sent_quietly(connection: socket, request: bytes) -> None:
    """Send a request and wait for the first of its answer, or for the end of the connection."""
    with contextlib.suppress(OSError):
        connection.sendall(request)
        connection.recv(1)


def attack_with_answers_that_nobody_reads(world: World) -> None:
    """Every connection asks for batches, in advance, and reads none of the answers."""
    world.bundle()
    service = world.start("--socket-mode", "666")
    service.post("/v1/predict", JOB)
    before_mib = service.resident_mib()
    body = json.dumps([{"submit_time": CUT_S}] * 1000).encode()
    request = b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    open_ = [connected(service.socket, NOBODY - at % 9) for at in range(60 * world.size)]
    for connection in open_:
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.send(request * 3)
    peak_mib, until_s = 0.0, time.monotonic() + 4
    while time.monotonic() < until_s:
        assert seconds_of(lambda: service.post("/v1/predict", JOB)) < 2
        peak_mib = max(peak_mib, service.resident_mib())
        time.sleep(0.1)
    grown_mib = peak_mib - before_mib
    print(f"{grown_mib:.0f} MiB of memory")
    assert grown_mib < 2 * MOST_MIB, f"{grown_mib:.0f} MiB of memory"
    for connection in open_:
        connection.close()


def attack_with_large_bodies(world: World) -> None:
    """Many unfinished bodies of the largest size, of one account, leave memory and other accounts alone."""
    world.bundle()
    service = world.start("--socket-mode", "666")
    service.post("/v1/predict", JOB)
    before_mib = service.resident_mib()
    open_ = [connected(service.socket, NOBODY) for _ in range(60)]
    for connection in open_:
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.send(b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n")
    for _ in range(200):
        for connection in open_:
            with contextlib.suppress(OSError):
                connection.send(b" " * 16_384)
    assert service.resident_mib() - before_mib < MOST_MIB
    assert service.post("/v1/predict", JOB)[0] == 200
    for connection in open_:
        connection.close()


def attack_while_the_disk_is_full(world: World) -> None:
    """Events that no disk takes: each is answered, forecasts go on, health says so, and it recovers."""
    world.bundle()
    service = world.start()
    full = resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    found = [service.post("/v1/events", events_of(number))[0] for number in range(60 * world.size)]
    assert set(found) == {507}
    assert service.post("/v1/predict", JOB)[0] == 200
    status, health = service.get("/healthz")
    assert (status, health["status"]) == (200, "degraded")
    assert "could not be kept" in health["problem"]
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, full)
    assert service.post("/v1/events", events_of(1))[0] == 200
    assert service.get("/healthz")[1]["status"] == "ok"


def attack_without_descriptors(world: World) -> None:
    """No descriptor left: the loops go on, the journal is flushed, and the service ends when it is told to."""
    world.bundle()
    service = world.start()
    pid = service.process.pid
    keep = connected(service.socket)
    assert report(keep).startswith(b"HTTP/1.1 200 ")
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = {int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()}
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(set(range(len(used) + 1)) - used), before[1]))
    for _ in range(8):  # the flush comes each second, and finds no descriptor
        assert report(keep).startswith(b"HTTP/1.1 200 ")
        time.sleep(0.4)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    time.sleep(1.2)
    assert service.get("/healthz")[1]["status"] == "ok"
    keep.close()
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(20) == 0
    said = (world.folder / "log").read_text()
    assert "Traceback" not in said, said[-2000:]


def report(connection: socket) -> bytes:
    """Report a job on a connection that is open already; return the whole answer."""
    body, answer = json.dumps(events_of(1)).encode(), b""
    connection.sendall(b"POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    while not answer.endswith(b"}"):
        part = connection.recv(4096)
        if not part:
            break
        answer += part
    return answer


def attack_by_reporting_as_another_account(world: World) -> None:
    """An account that may ask reports events of others, or asks with a job's id: neither is kept."""
    world.bundle("runcast")
    service = world.start("--socket-mode", "666")
    for event in events_of(1):
        status, answer = service.post("/v1/events", event, uid=NOBODY)
        assert (status, "--reporter 65534" in answer["error"]["message"]) == (403, True)
    before = service.get("/healthz")[1]["journal_events"]
    assert service.post("/v1/predict", {**JOB, "job_id": "7"}, uid=NOBODY)[0] == 200
    assert service.post("/v1/events", events_of(2))[0] == 200
    assert service.get("/healthz")[1]["journal_events"] == before + 3 + 1, "the events, and the forecast on submission"


def attack_by_asking_about_others(world: World) -> None:
    """Where the site wants it, an account asks about another's jobs."""
    world.bundle()
    service = world.start("--socket-mode", "666", "--own-only", "--asker", str(NOBODY - 1))
    own = pwd.getpwuid(NOBODY).pw_name
    assert service.post("/v1/predict", {**JOB, "user": own}, uid=NOBODY)[0] == 200
    for job in (JOB, {"submit_time": JOB["submit_time"]}, [{**JOB, "user": own}, JOB]):
        assert service.post("/v1/predict", job, uid=NOBODY)[0] == 403
    assert service.post("/v1/predict", JOB, uid=NOBODY - 1)[0] == 200


def attack_with_unlike_jobs(world: World) -> None:
    """Jobs that share nothing, with names as long as they may be: nothing of them is kept."""
    world.bundle()
    service = world.start()
    service.post("/v1/predict", JOB)
    before_mib = service.resident_mib()
    for first in range(0, 6000 * world.size, 120):
        some = [
            {**JOB, "job_name": f"a{n}".ljust(4096, "x"), "work_dir": f"/{n}".ljust(4096, "y")} for n in range(first, first + 120)
        ]
        assert service.post("/v1/predict", some)[0] == 200
    grown_mib = service.resident_mib() - before_mib
    assert grown_mib < MOST_MIB, f"{grown_mib:.0f} MiB of memory"


def attack_from_a_web_page(world: World) -> None:
    """What a page in a user's browser can send to a port of her machine."""
    world.bundle()
    port = world.start("--port", "0").port()
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
        {"Host": f"evil.example:{port}"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {},
    ):
        for path, content in (("/v1/events", events_of(1)), ("/v1/predict", JOB)):
            connection = HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("POST", path, json.dumps(content), headers)
            reply = connection.getresponse()
            reply.read()
            expected = (403, 415) if headers or path == "/v1/events" else (200,)
            assert reply.status in expected, (headers, path, reply.status)
            connection.close()


def attack_with_many_connections(world: World) -> None:
    """Silent and half-sent connections of three accounts keep a fourth out."""
    world.bundle()
    service = world.start("--socket-mode", "666")
    open_: list[socket] = []
    for at in range(600 * world.size):
        open_.append(connected(service.socket, NOBODY - at % 9))
        if at % 2:
            with contextlib.suppress(OSError):
                open_[-1].sendall(b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        if at % 20 == 0:
            assert service.post("/v1/predict", JOB)[0] == 200, f"beside {at} connections"
    for connection in open_:
        connection.close()


def attack_with_batches(world: World) -> None:
    """Accounts that ask about a thousand jobs at once, again and again on many connections, while another asks about a few."""
    world.bundle()
    service = world.start("--socket-mode", "666")
    open_ = [connected(service.socket, NOBODY - at % 2, 60) for at in range(24 * world.size)]
    words = [sys.executable, __file__, "flood", *(str(connection.fileno()) for connection in open_)]
    flood = subprocess.Popen(words, pass_fds=[connection.fileno() for connection in open_], stdout=subprocess.PIPE)
    try:
        assert flood.stdout is not None
        flood.stdout.readline()  # the first of them has its answers
        one_s = median([seconds_of(lambda: service.post("/v1/predict", JOB)) for _ in range(15)])
        many_s = seconds_of(lambda: service.post("/v1/predict", [JOB] * 200))
    finally:
        flood.kill()
        flood.communicate()
        for connection in open_:
            connection.close()
    alone_s = median([seconds_of(lambda: service.post("/v1/predict", [JOB] * 200)) for _ in range(3)])
    assert one_s < 1.5 * alone_s, f"one job takes {one_s:.3f} s, two hundred of an idle service {alone_s:.3f} s"
    assert many_s < 12 * alone_s, f"two hundred jobs take {many_s:.3f} s beside two accounts, {alone_s:.3f} s alone"


def flood(numbers: list[int]) -> None:
    """Send batches on connections that were handed over, each as soon as the one before is answered."""
    body = json.dumps([JOB] * 1000).encode()
    request = b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    def send(number: int) -> None:
        with socket(fileno=number) as connection, contextlib.suppress(OSError):
            while True:
                connection.sendall(request)
                received = b""
                while b'"}]' not in received:
                    part = connection.recv(1 << 20)
                    if not part:
                        return
                    received = received[-3:] + part
                print("answered", flush=True)

    for number in numbers:
        threading.Thread(target=send, args=(number,)).start()


def seconds_of(action: Callable[[], tuple[int, Any]]) -> float:
    began = time.perf_counter()
    assert action()[0] == 200
    return time.perf_counter() - began


def attack_with_events_before_a_forecast(world: World) -> None:
    """Twenty thousand ends are counted when the next job is asked about: the others must not wait for that."""
    world.bundle()
    service = world.start()
    for first in range(0, 20_000, 1000):
        some = [events_of(number, job_name=f"n{number}")[2] for number in range(first, first + 1000)]
        assert service.post("/v1/events", some)[0] == 200
    early = {**JOB, "submit_time": CUT_S - 10}
    early_s = []
    with ThreadPoolExecutor(1) as thread:
        late = thread.submit(seconds_of, lambda: service.post("/v1/predict", JOB, timeout_s=120))
        time.sleep(0.1)
        while not late.done():
            early_s.append(seconds_of(lambda: service.post("/v1/predict", early, timeout_s=120)))
            time.sleep(0.005)  # they are to wait for the late one, not to take its processor
        late_s = late.result()
    assert len(early_s) > 5, f"{len(early_s)} others were answered within {late_s:.2f} s"
    assert max(early_s) < late_s / 2, f"others wait {max(early_s):.2f} of {late_s:.2f} s"


def attack_with_the_future(world: World) -> None:
    """Submissions and events of a time that has not come change what others are told."""
    world.bundle("nearest_median")
    service = world.start()
    now_s = datetime.now(UTC).timestamp()
    asked = {**JOB, "submit_time": now_s}
    before = service.post("/v1/predict", asked)
    for ahead_s in (23 * 3600, 310, 73 * 365 * 86_400):
        job = {**JOB, "job_id": "1", "submit_time": now_s + ahead_s}
        assert service.post("/v1/predict", job)[0] == 422
        for event in events_of(1, submit_time=now_s + ahead_s):
            assert service.post("/v1/events", event)[0] == 422
    assert service.post("/v1/predict", asked) == before


def attack_on_the_sockets_file(world: World) -> None:
    """The socket's file is removed, then its folder replaced: it is made again; something else in its place ends the process."""
    world.bundle()
    service = world.start()
    for _ in range(world.size):
        service.socket.unlink()
        until(service.socket.exists)
        assert service.post("/v1/predict", JOB)[0] == 200
    service.socket.unlink()
    service.socket.write_text("something else")
    assert service.process.wait(20) == 3
    assert service.socket.read_text() == "something else"


def attack_with_exports(world: World) -> None:
    """Exports of one cut again and again: the journal does not grow with them."""
    world.bundle("runcast", model_version="v0")
    service = world.start()
    for number in range(30):
        assert service.post("/v1/events", events_of(number))[0] == 200
    sizes = []
    for number in range(1, 4 + world.size):
        world.bundle("runcast", model_version=f"v{number}")
        until(lambda number=number: service.get("/healthz")[1]["model_version"] == f"v{number}")
        time.sleep(0.3)
        sizes.append(service.get("/healthz")[1]["journal_events"])
    assert len(set(sizes)) == 1, f"events in the journal after each export: {sizes}"


def attack_on_content_length(world: World) -> None:
    """Lengths that are no number are answered 400, and the connection closed."""
    world.bundle()
    service = world.start()
    for length in ("²".encode(), "²".encode("latin-1"), b"-1", b"+1", b"1e3", b"0x10", b"9" * 400, b"1, 1"):
        connection = connected(service.socket)
        connection.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\n\r\n{}" % length)
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 "), length
        connection.close()
    assert service.post("/v1/predict", JOB)[0] == 200


def attack_on_the_handshake(world: World) -> None:
    """Connections that never finish TLS, and plain words on a TLS port, keep nobody out."""
    world.bundle()
    certificate, key = world.folder / "tls.crt", world.folder / "tls.key"
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
        "-days",
        "2",
    ]
    subprocess.run([*words, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    key.chmod(0o600)
    port = world.start("--port", "0", "--tls-cert", str(certificate), "--tls-key", str(key)).port()
    context = ssl.create_default_context(cafile=str(certificate))
    open_ = []
    for at in range(200 * world.size):
        open_.append(create_connection(("127.0.0.1", port)))
        if at % 2:
            open_[-1].sendall(b"POST /v1/predict HTTP/1.1\r\n\r\n")
        if at % 50 == 49:
            plain = create_connection(("127.0.0.1", port), timeout=20)
            with context.wrap_socket(plain, server_hostname="localhost") as connection:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                assert connection.recv(4096).startswith(b"HTTP/1.1 200"), f"beside {at} half handshakes"
    for one in open_:
        one.close()


def until(condition: Callable[[], Any], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)


ATTACKS: tuple[Callable[[World], None], ...] = tuple(
    value for name, value in list(globals().items()) if name.startswith("attack_")
)


def main(part: str = "") -> int:
    """Run every attack with `part` in its name in its long form, with a bundle of made-up jobs; return how many succeeded."""
    from predictor import made_up, write

    from runcast.scheduler.bundle import make_current

    succeeded = 0
    jobs = made_up(5000)
    for attack in (one for one in ATTACKS if part in one.__name__):
        with tempfile.TemporaryDirectory() as name:
            folder, running = Path(name), list[Running]()

            def bundle(kind: str = "gbdt", model_version: str | None = None, *, folder: Path = folder) -> Path:
                written = write(jobs, folder / "bundles", kind, created=None, model_version=model_version)
                make_current(written.parent, written.name)
                return written

            def start(*options: str, folder: Path = folder, running: list[Running] = running) -> Running:
                running.append(Running(folder, *options))
                return running[-1]

            try:
                attack(World(folder, bundle, start, size=3))
                print(f"{attack.__name__}: held", flush=True)
            except Exception as error:  # noqa: BLE001 - one that could not be tried to its end has not been held
                succeeded += 1
                what = "SUCCEEDED" if isinstance(error, AssertionError) else "could not be tried"
                print(f"{attack.__name__}: {what}: {error!r}", flush=True)
            finally:
                for service in running:
                    service.close()
    return succeeded


if __name__ == "__main__":
    if sys.argv[1:2] == ["flood"]:
        flood([int(number) for number in sys.argv[2:]])
    else:
        sys.exit(min(main(*sys.argv[1:2]), 1))
