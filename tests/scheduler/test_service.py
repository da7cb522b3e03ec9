"""The service over its real socket: answers, refusals, events that outlive kill -9 and a full disk, bundles that change under load."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket
from typing import Any

import pytest
from running import Running

from runcast.data.errors import Exit
from runcast.scheduler.bundle import make_current
from runcast.scheduler.journal import Journal
from runcast.scheduler.predictor import Predictor
from runcast.scheduler.served import ServedLog
from runcast.scheduler.service import Service

MakeBundle = Callable[..., Path]
JOB = {
    "submit_time": "2026-04-01T00:00:00+02:00",
    "user": "u3",
    "job_name": "train_1_0.sh",
    "gpu_count": 4,
    "cpu_count": 32,
    "queue": "gpu",
}
DAY_S = 86_400


@pytest.fixture
def write(tmp_path: Path, make_bundle: MakeBundle) -> Callable[..., Path]:
    """Write a bundle that is valid now and make it current."""

    def run(kind: str = "gbdt", **changed: Any) -> Path:
        created = changed.pop("created", datetime.now(UTC))
        bundle = make_bundle(tmp_path / "bundles", kind, created=created, **changed)
        make_current(tmp_path / "bundles", bundle.name)
        return bundle

    return run


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def run(*options: str, **changed: Any) -> Running:
        started.append(Running(tmp_path, *options, **changed))
        return started[-1]

    yield run
    for service in started:
        service.close()


def test_answers_are_the_predictors(write: Callable[..., Path], serve: Callable[..., Running]) -> None:
    bundle = write()
    service, predictor = serve(), Predictor.load(bundle)
    assert service.post("/v1/predict", JOB) == (200, predictor.predict(JOB))
    others = [{**JOB, "user": f"u{n}", "time_limit_s": 60 * n} for n in range(40)]
    assert service.post("/v1/predict", others) == (200, [predictor.predict(job) for job in others])
    assert service.post("/v1/predict", []) == (200, [])


def test_describes_itself(write: Callable[..., Path], serve: Callable[..., Running]) -> None:
    write()
    service = serve()
    service.post("/v1/predict", JOB)
    status, health = service.get("/healthz")
    assert (status, health["status"], health["cluster"], health["model_version"]) == (
        200,
        "ok",
        "demo",
        "gbdt-2026-03-31-0123abcd",
    )
    status, document = service.get("/openapi.json")
    assert set(document["paths"]) == {"/v1/predict", "/v1/events", "/healthz", "/metrics"}
    assert document["components"]["schemas"]["Job"]["properties"]["gpu_count"]["type"] == ["number", "null"]
    assert "gpu_count" in service.get("/")[1]
    metrics = service.get("/metrics")[1]
    assert 'runcast_requests_total{route="/v1/predict",status="200"} 1\n' in metrics
    assert 'runcast_forecasts_total{source="gbdt"} 1\n' in metrics
    assert "runcast_serving 1\n" in metrics


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field"),
    [
        ("GET", "/v1/predict", b"", 405, None),
        ("POST", "/healthz", b"{}", 405, None),
        ("POST", "/v2/predict", b"{}", 404, None),
        ("POST", "/v1/predict", b"", 400, None),
        ("POST", "/v1/predict", b"{", 400, None),
        ("POST", "/v1/predict", b"\xff\xfe", 400, None),
        ("POST", "/v1/predict", b"[" * 100_000, 400, None),
        ("POST", "/v1/predict", b'{"submit_time": NaN}', 400, None),
        ("POST", "/v1/predict", b'{"submit_time": ' + b"9" * 5000 + b"}", 400, None),
        ("POST", "/v1/predict", b'"job"', 422, "job"),
        ("POST", "/v1/predict", b"[3]", 422, "[0].job"),
        ("POST", "/v1/predict", b"{}", 422, "submit_time"),
        ("POST", "/v1/predict", b'{"submit_time": 1, "gpu_count": "8"}', 422, "gpu_count"),
        ("POST", "/v1/predict", b'{"submit_time": 1, "gpu_count": 1e999}', 422, "gpu_count"),
        ("POST", "/v1/predict", b'[{"submit_time": 1}, {"submit_time": 1, "gpus": 8}]', 422, "[1].gpus"),
        ("POST", "/v1/predict", b'{"submit_time": 1, "end_time": 5}', 422, "end_time"),
        ("POST", "/v1/predict", b" " * 1_048_577, 413, None),
        ("POST", "/v1/predict", b"[" + b",".join([b"{}"] * 1001) + b"]", 413, None),
        ("POST", "/v1/events", b'{"event": "ended", "job_id": "1", "submit_time": 1, "end_time": 2}', 422, "state"),
        ("POST", "/v1/events", b'[{"event": "submitted", "job_id": "1", "submit_time": 1}, {"event": "x"}]', 422, "[1].event"),
        ("POST", "/v1/events", b'{"event": "submitted", "job_id": "1", "submit_time": 4102444799}', 422, "submit_time"),
        ("POST", "/v1/events", b'{"event": "p90_told", "bundle": "x", "job_key": "1", "submit_us": 1}', 422, "event"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_name(
    one_service: Running, method: str, path: str, body: bytes, status: int, field: str | None
) -> None:
    found, content = one_service.request(method, path, body)
    assert (found, content["error"].get("field")) == (status, field)
    assert one_service.post("/v1/predict", JOB)[0] == 200


@pytest.fixture(scope="module")
def one_service(tmp_path_factory: pytest.TempPathFactory, make_bundle: MakeBundle) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("service")
    make_current(folder / "bundles", make_bundle(folder / "bundles", created=datetime.now(UTC)).name)
    service = Running(folder)
    yield service
    service.close()


def _events(number: int, submit_s: float, runtime_s: float = 1000.0) -> list[dict[str, Any]]:
    """A job of a user nobody knows, from its submission to its end."""
    job = {"job_id": str(number), "submit_time": submit_s}
    about = {"user": "newcomer", "job_name": "new.sh", "gpu_count": 2, "cpu_count": 16, "queue": "gpu"}
    end = {"start_time": submit_s + 1, "end_time": submit_s + 1 + runtime_s, "state": "COMPLETED"}
    return [
        {"event": "submitted", **job, **about},
        {"event": "started", **job, "start_time": submit_s + 1},
        {"event": "ended", **job, **end},
    ]


CUT_S = 1_774_994_400.0
NEWCOMER = {
    "submit_time": CUT_S + 5 * DAY_S,
    "user": "newcomer",
    "job_name": "new.sh",
    "gpu_count": 2,
    "cpu_count": 16,
    "queue": "gpu",
}


def test_events_keep_the_history_current(write: Callable[..., Path], serve: Callable[..., Running]) -> None:
    write("nearest_median")
    service = serve()
    assert service.post("/v1/predict", NEWCOMER)[1]["p50_s"] != 1000
    for number in range(3):
        assert service.post("/v1/events", _events(number, CUT_S + 10_000 * number)) == (200, {"accepted": 3})
    answer = service.post("/v1/predict", NEWCOMER)[1]
    assert (answer["p50_s"], answer["n_history"]) == (1000, 3)
    assert service.post("/v1/events", _events(9, CUT_S)[0]) == (200, {"accepted": 1})


@pytest.mark.parametrize("options", [(), ("--flush-every", "0")], ids=["flushed later", "flushed first"])
def test_kill_9_loses_no_acknowledged_event(
    write: Callable[..., Path], serve: Callable[..., Running], options: tuple[str, ...]
) -> None:
    write("nearest_median")
    service = serve(*options)
    for number in range(3):
        service.post("/v1/events", _events(number, CUT_S + 10_000 * number))
    before = service.post("/v1/predict", NEWCOMER)
    service.kill()
    assert serve().post("/v1/predict", NEWCOMER) == before


def _long_runs(first: int, count: int, day: float) -> list[dict[str, Any]]:
    """Jobs of one user that all run far longer than any before, from a day after the cut on."""
    runs = [_events(first + n, CUT_S + day * DAY_S + 60 * n, 400_000.0) for n in range(count)]
    return [event for events in runs for event in events]


def test_margin_of_p90_moves_with_what_ends_and_outlives_kill_9(
    write: Callable[..., Path], serve: Callable[..., Running]
) -> None:
    """Told on their submission, some asked for by id before; the state after kill -9 is that of a service that was not killed."""
    predictor = Predictor.load(write("runcast"))
    service = serve()
    asked = {**JOB, "submit_time": CUT_S + 6.5 * DAY_S}
    before = service.post("/v1/predict", asked)[1]
    early = [{**JOB, "job_id": str(900 + n), "submit_time": CUT_S + 3600 + n} for n in range(40)]
    for job in early:
        assert service.post("/v1/predict", job)[1] == predictor.predict(job)
    ends = [
        {
            **job,
            "event": "ended",
            "start_time": job["submit_time"],
            "end_time": job["submit_time"] + 300_000,
            "state": "COMPLETED",
        }
        for job in early
    ]
    for events in (*(_long_runs(30 * n, 30, 0.5) for n in range(3)), ends):
        assert service.post("/v1/events", events)[0] == 200
        for event in events:
            predictor.tell(event)
    after = service.post("/v1/predict", asked)[1]
    assert after == predictor.predict(asked)
    assert after["p90_s"] > before["p90_s"]
    service.kill()
    again = serve()
    assert again.post("/v1/predict", asked)[1] == after
    told = again.get("/healthz")[1]["journal_events"]
    again.kill()
    assert serve().get("/healthz")[1]["journal_events"] == told, "what jobs were told is not worked out anew"


def test_new_bundle_has_the_margin_of_its_night_and_of_the_jobs_since_its_cut(
    write: Callable[..., Path], serve: Callable[..., Running]
) -> None:
    """As if it had served since its cut: jobs submitted since are told by it and count, jobs from before do not; after kill -9 too."""
    write("runcast", model_version="first")
    service = serve()
    before, since = _long_runs(0, 60, 0.1), _long_runs(100, 60, 1.1)
    assert service.post("/v1/events", [*before, *since])[0] == 200
    second = write("runcast", model_version="second", cut=datetime.fromtimestamp(CUT_S + DAY_S, UTC))
    _until(lambda: service.get("/healthz")[1]["model_version"] == "second")
    expected = Predictor.load(second)
    for event in [*before, *since]:
        if event.get("end_time", event.get("start_time", event["submit_time"])) >= CUT_S + DAY_S:
            expected.tell(event)
    asked = {**JOB, "submit_time": CUT_S + 6.5 * DAY_S}
    answer = service.post("/v1/predict", asked)[1]
    assert answer == expected.predict(asked)
    assert answer["p90_s"] > Predictor.load(second).predict(asked)["p90_s"]
    service.kill()
    assert serve().post("/v1/predict", asked)[1] == answer


def test_full_disk_refuses_events_and_still_forecasts(
    tmp_path: Path, write: Callable[..., Path], serve: Callable[..., Running]
) -> None:
    write("nearest_median")
    service = serve(limit_file_bytes=1500)
    told = [service.post("/v1/events", _events(number, CUT_S + 10_000 * number)) for number in range(6)]
    kept = sum(status == 200 for status, _ in told)
    assert 0 < kept < 6
    assert {status for status, _ in told} == {200, 507}
    assert "could not be kept" in told[-1][1]["error"]["message"]
    answer = service.post("/v1/predict", NEWCOMER)
    assert (answer[0], answer[1]["n_history"]) == (200, kept), "what was refused is not in the history"
    assert (tmp_path / "log").read_text().count("could not be kept") == 1, "said once, not for each event"
    service.kill()
    assert serve().post("/v1/predict", NEWCOMER) == answer


def test_what_identified_jobs_were_told_is_kept_beside_the_journal(
    tmp_path: Path, write: Callable[..., Path], serve: Callable[..., Running]
) -> None:
    predictor, service = Predictor.load(write()), serve()
    now = datetime.now(UTC).replace(microsecond=0)
    about = {**JOB, "submit_time": now.timestamp()}
    expected = predictor.predict(about)
    assert service.post("/v1/predict", about)[0] == 200
    assert service.post("/v1/predict", {**about, "job_id": "1"})[0] == 200
    assert service.post("/v1/events", [{**about, "job_id": n, "event": "submitted"} for n in "12"])[0] == 200
    path = tmp_path / "bundles" / "served" / f"{now:%Y-%m-%d}.jsonl"
    _until(lambda: path.exists() and path.read_text().count("\n") == 2)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["job_key"] for line in lines] == [f"demo:{n}:{round(now.timestamp() * 1e6)}" for n in "12"]
    for line in lines:
        assert line["submit_time"] == f"{now:%Y-%m-%dT%H:%M:%SZ}"
        assert {name: line[name] for name in expected if name in line} == {
            name: value for name, value in expected.items() if name != "n_history"
        }
    assert 'runcast_served_lines_total{outcome="written"} 2\n' in service.get("/metrics")[1]


def test_disk_that_takes_no_served_forecast_costs_no_answer(
    tmp_path: Path, write: Callable[..., Path], serve: Callable[..., Running]
) -> None:
    write()
    (tmp_path / "bundles" / "served").write_text("in the folder's place")
    service = serve()
    about = {**JOB, "submit_time": datetime.now(UTC).timestamp()}
    assert service.post("/v1/predict", [{**about, "job_id": str(n)} for n in range(40)])[0] == 200
    _until(lambda: 'runcast_served_lines_total{outcome="disk"} 40\n' in service.get("/metrics")[1])


def test_without_a_bundle_it_waits_for_one(tmp_path: Path, write: Callable[..., Path], serve: Callable[..., Running]) -> None:
    (tmp_path / "bundles").mkdir()
    service = serve()
    assert service.post("/v1/predict", JOB)[0] == 503
    assert "no bundle here" in service.get("/healthz")[1]["problem"]
    assert "no bundle here" in (tmp_path / "log").read_text()
    assert service.post("/v1/events", _events(1, CUT_S))[0] == 503
    write()
    _until(lambda: service.post("/v1/predict", JOB)[0] == 200)


def test_expired_bundle_is_not_served(write: Callable[..., Path], serve: Callable[..., Running]) -> None:
    write(created=datetime(2026, 4, 1, tzinfo=UTC))
    service = serve()
    status, content = service.post("/v1/predict", JOB)
    assert status == 503
    assert "valid until 2026-04-08T00:00:00Z" in content["error"]["message"]


def test_broken_bundle_leaves_the_old_one_serving(
    tmp_path: Path, write: Callable[..., Path], serve: Callable[..., Running]
) -> None:
    old = write()
    service = serve()
    broken = write("cart", model_version="broken")
    (broken / "model" / "model.json").write_text("{}")
    (tmp_path / "bundles" / "current").unlink()
    (tmp_path / "bundles" / "current").symlink_to(broken.name)
    _until(lambda: "problem" in service.get("/healthz")[1])
    assert "broken" in service.get("/healthz")[1]["problem"]
    assert service.post("/v1/predict", JOB) == (200, Predictor.load(old).predict(JOB))


@pytest.mark.parametrize("has_old", [False, True], ids=["alone", "beside_the_old_one"])
def test_bundle_that_was_copied_in_pieces_is_served_once_it_is_whole(
    tmp_path: Path, write: Callable[..., Path], has_old: bool
) -> None:
    """rsync brings `current` and the manifest first, the folder of the model last; nothing about the manifest changes then."""
    if has_old:
        write("cart", model_version="old", created=datetime.now(UTC) - timedelta(hours=1))
    bundle = write("cart", model_version="new")
    (bundle / "model").rename(tmp_path / "on_its_way")
    journal = Journal(tmp_path / "events.journal")
    service = Service(tmp_path / "bundles", journal, ServedLog(tmp_path / "served"), look_every_s=0.005)

    async def health() -> dict[str, Any]:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await service({"type": "http", "method": "GET", "path": "/healthz", "headers": []}, receive, send)
        found: dict[str, Any] = json.loads(sent[1]["body"])
        return found

    async def scenario() -> None:
        await service.start()
        assert "model" in (await health())["problem"]
        (tmp_path / "on_its_way").rename(bundle / "model")
        for _ in range(2000):
            if (found := await health()).get("model_version") == "new":
                break
            await asyncio.sleep(0.01)
        assert (found["status"], found["model_version"], found.get("problem")) == ("ok", "new", None)
        (tmp_path / "bundles" / "current").rename(tmp_path / "elsewhere")
        while "problem" not in await health():
            await asyncio.sleep(0.005)
        (tmp_path / "elsewhere").rename(tmp_path / "bundles" / "current")
        while "problem" in await health():
            await asyncio.sleep(0.005)
        await service.stop()

    asyncio.run(asyncio.wait_for(scenario(), 60))
    journal.close()


def test_new_bundle_takes_over_without_a_dropped_request(write: Callable[..., Path], serve: Callable[..., Running]) -> None:
    """While clients ask without pause, bundles change; every request is answered, and the events told meanwhile are known."""
    write("nearest_median", model_version="first")
    service = serve()

    async def ask(seen: list[str], stop: asyncio.Event) -> None:
        reader, writer = await asyncio.open_unix_connection(str(service.socket))
        body = json.dumps(NEWCOMER).encode()
        while not stop.is_set():
            writer.write(b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(next(line for line in head.split("\r\n") if line.startswith("content-length")).split(":")[1])
            answer = json.loads(await reader.readexactly(length))
            assert head.startswith("HTTP/1.1 200"), answer
            seen.append(answer["model_version"])
        writer.close()

    async def scenario() -> list[str]:
        seen: list[str] = []
        stop = asyncio.Event()
        asking = [asyncio.create_task(ask(seen, stop)) for _ in range(4)]
        for turn, name in enumerate(("second", "third", "fourth")):
            await asyncio.to_thread(service.post, "/v1/events", _events(turn, CUT_S + 10_000 * turn))
            await asyncio.to_thread(write, "nearest_median", model_version=name)
            for _ in range(200):
                await asyncio.sleep(0.05)
                if seen and seen[-1] == name:
                    break
        stop.set()
        await asyncio.gather(*asking)
        return seen

    seen = asyncio.run(scenario())
    assert list(dict.fromkeys(seen)) == ["first", "second", "third", "fourth"]
    assert service.post("/v1/predict", NEWCOMER)[1]["n_history"] == 3


def test_events_that_the_new_bundle_holds_are_forgotten(write: Callable[..., Path], serve: Callable[..., Running]) -> None:
    write("nearest_median", model_version="first")
    service = serve()
    service.post("/v1/events", [*_events(1, CUT_S), *_events(2, CUT_S + 3 * DAY_S)])
    assert service.get("/healthz")[1]["journal_events"] == 6
    write("nearest_median", model_version="second", cut=datetime.fromtimestamp(CUT_S + DAY_S, UTC))
    _until(lambda: service.get("/healthz")[1]["model_version"] == "second")
    _until(lambda: service.get("/healthz")[1]["journal_events"] == 3)


def test_socket_has_its_permissions_and_goes_with_the_service(write: Callable[..., Path], serve: Callable[..., Running]) -> None:
    write()
    service = serve("--socket-mode", "600")
    assert service.socket.stat().st_mode & 0o777 == 0o600
    service.close()
    assert not service.socket.exists()


def test_dead_services_socket_is_replaced_and_a_living_ones_is_not(
    tmp_path: Path, write: Callable[..., Path], serve: Callable[..., Running]
) -> None:
    write()
    serve().kill()
    service = serve()
    assert service.post("/v1/predict", JOB)[0] == 200
    second = serve("--journal", str(tmp_path / "other.journal"))
    assert second.process.wait(20) == Exit.REFUSED
    assert "another service answers there" in (tmp_path / "log").read_text()
    assert service.post("/v1/predict", JOB)[0] == 200


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--port", "0", "--host", "0.0.0.0"), "give --token-file"),
        (("--port", "0", "--host", "0.0.0.0", "--token-file", "{folder}/good"), "would cross the network in clear"),
        (("--port", "0", "--tls-cert", "{folder}/good"), "--tls-cert and --tls-key go together"),
        (("--port", "0", "--tls-cert", "{folder}/good", "--tls-key", "{folder}/good"), "are no certificate and its key"),
        (("--tls-cert", "{folder}/good", "--tls-key", "{folder}/good"), "are no certificate and its key"),
        (("--port", "0", "--token-file", "{folder}/good", "--report-token-file", "{folder}/good"), "who may ask could report"),
        (("--port", "0", "--own-only"), "over a port nobody can tell who asks"),
        (("--port", "0", "--reporter", "root"), "over a port nobody can tell who asks"),
        (("--asker", "root"), "--asker goes with --own-only"),
        (("--reporter", "no-such-account"), "no such account on this machine"),
        (("--reporter", "²"), "no such account on this machine"),
        (("--port", "0", "--token-file", "{folder}/short"), "has 5 characters"),
        (("--port", "0", "--token-file", "{folder}/open"), "others may read"),
        (("--port", "0", "--token-file", "{folder}/none"), "cannot be read"),
        (("--port", "0", "--token-file", "/dev/zero"), "is no file of a token"),
        (("--port", "0", "--token-file", "{folder}/lines"), "holds a line end"),
        (("--port", "99999"), "cannot listen there"),
        (("--port", "-1"), "cannot listen there"),
        (("--journal", "{folder}"), "cannot be opened (Is a directory)"),
        (("--journal", "{folder}/open/j"), "cannot be opened (File exists)"),
        (("--journal", "{folder}/bundles/current/j"), "which must not be changed"),
        (("--socket", "{folder}/open"), "is no socket; it is left as it is"),
    ],
)
def test_unsafe_beginning_is_refused(
    tmp_path: Path, write: Callable[..., Path], serve: Callable[..., Running], options: tuple[str, ...], why: str
) -> None:
    write()
    for name, token, mode in (
        ("short", "abcde", 0o600),
        ("lines", "c" * 16 + "\n" + "d" * 16, 0o600),
        ("open", "a" * 32, 0o644),
        ("good", "b" * 32, 0o600),
    ):
        (tmp_path / name).write_text(token)
        (tmp_path / name).chmod(mode)
    service = serve(*(option.format(folder=tmp_path) for option in options))
    assert service.process.wait(20) in (Exit.REFUSED, Exit.DISK)
    found = (tmp_path / "log").read_text()
    assert why in found
    assert "Traceback" not in found
    assert (tmp_path / "open").read_text() == "a" * 32


@pytest.mark.parametrize(
    "options", [(), ("--journal", "{folder}/kept/j"), ("--served-days", "0")], ids=["plain", "journal", "none served"]
)
def test_a_folder_of_bundles_that_is_not_there_is_refused_and_nothing_is_made(
    tmp_path: Path, serve: Callable[..., Running], options: tuple[str, ...]
) -> None:
    service = serve(*(option.format(folder=tmp_path) for option in options))
    assert service.process.wait(20) in (Exit.REFUSED, Exit.DISK)
    assert f"--bundle {tmp_path / 'bundles'}: no such folder" in (tmp_path / "log").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize("through", ["link", "bundle"])
def test_one_bundle_is_served_without_a_file_left_in_it(
    tmp_path: Path, write: Callable[..., Path], serve: Callable[..., Running], through: str
) -> None:
    bundle = write()
    before = sorted(bundle.rglob("*"))
    service = serve("--bundle", str(tmp_path / "bundles" / "current" if through == "link" else bundle))
    assert service.post("/v1/predict", JOB)[0] == 200
    assert service.post("/v1/events", _events(1, CUT_S))[0] == 200
    assert sorted(bundle.rglob("*")) == before
    assert (tmp_path / "bundles" / "events.journal").stat().st_size > 0


def test_connections_that_say_nothing_shut_nobody_out(write: Callable[..., Path], serve: Callable[..., Running]) -> None:
    write()
    service = serve()
    held = []
    for at in range(520):
        held.append(socket(AF_UNIX, SOCK_STREAM))
        held[-1].connect(str(service.socket))
        if at % 2:
            with contextlib.suppress(OSError):
                held[-1].sendall(b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        if at % 40 == 0:
            assert service.post("/v1/predict", JOB)[0] == 200, f"beside {at} silent connections"
    for one in held:
        one.close()


def test_removed_journal_neither_loses_events_nor_holds_up_the_next_bundle(
    tmp_path: Path, write: Callable[..., Path], serve: Callable[..., Running]
) -> None:
    write()
    service = serve()
    assert service.post("/v1/events", _events(1, CUT_S))[0] == 200
    (tmp_path / "bundles" / "events.journal").unlink()
    write("cart")
    _until(lambda: service.get("/healthz")[1]["kind"] == "cart")
    assert service.post("/v1/events", _events(2, CUT_S))[0] == 200
    service.kill()
    assert serve().get("/healthz")[1]["journal_events"] == 6


def test_port_with_a_token_answers_only_those_who_carry_it(
    tmp_path: Path, write: Callable[..., Path], serve: Callable[..., Running]
) -> None:
    write()
    (tmp_path / "token").write_text("0123456789abcdef\n")
    (tmp_path / "token").chmod(0o600)
    serve("--port", "0", "--token-file", str(tmp_path / "token"))
    _until(lambda: "listening on" in (tmp_path / "log").read_text())
    port = int((tmp_path / "log").read_text().split(" port ")[1].split()[0])
    for headers, expected in (
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Bearer 0123456789abcdef"}, 200),
    ):
        connection = HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("POST", "/v1/predict", json.dumps(JOB), headers)
        reply = connection.getresponse()
        reply.read()
        assert reply.status == expected
        connection.close()


def _until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail("did not happen in time")
        time.sleep(0.05)
