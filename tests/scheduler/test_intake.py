"""The way of events into journal and history, on a disk that refuses, that does not answer, and that works again."""

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runcast.scheduler import background, intake, service
from runcast.scheduler.background import Problems, repeat
from runcast.scheduler.bundle import make_current
from runcast.scheduler.journal import Journal
from runcast.scheduler.served import ServedLog
from runcast.scheduler.service import Service

JOB = {"submit_time": "2026-04-01T00:00:00+02:00", "user": "u3", "gpu_count": 4}
EVENT = {"event": "submitted", "job_id": "1", **JOB}


class Asked:
    """A service in this process, its journal, and what asks it without a connection."""

    def __init__(self, folder: Path, make_bundle: Callable[..., Path], now: datetime) -> None:
        make_current(folder / "bundles", make_bundle(folder / "bundles").name)
        self.journal = Journal(folder / "j")
        self.service = Service(
            folder / "bundles", self.journal, ServedLog(folder / "served"), clock=lambda: now, flush_every_s=0.05
        )

    async def post(self, path: str, content: Any) -> int:
        return (await self._request("POST", path, json.dumps(content).encode()))[0]

    async def health(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((await self._request("GET", "/healthz", b""))[1])
        return found

    async def _request(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.service({"type": "http", "method": method, "path": path, "headers": []}, receive, send)
        return sent[0]["status"], sent[1]["body"]


@pytest.fixture
def asked(tmp_path: Path, make_bundle: Callable[..., Path], now: datetime) -> Iterator[Asked]:
    found = Asked(tmp_path, make_bundle, now)
    yield found
    found.journal.close()


def _run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


@contextlib.contextmanager
def read_only(journal: Journal) -> Iterator[None]:
    """A file system that went read-only: the file can neither be written nor cut."""
    writable, unwritable = os.dup(journal._file), os.open(journal.path, os.O_RDONLY)
    os.dup2(unwritable, journal._file)
    try:
        yield
    finally:
        os.dup2(writable, journal._file)
        os.close(writable)
        os.close(unwritable)


def test_read_only_disk_refuses_events_at_once_and_is_over_when_it_is_writable_again(asked: Asked) -> None:
    async def scenario() -> None:
        await asked.service.start()
        assert await asked.post("/v1/events", EVENT) == 200
        with read_only(asked.journal):
            found = await asyncio.gather(*(asked.post("/v1/events", {**EVENT, "job_id": str(n)}) for n in range(100)))
            assert set(found) == {507}
            assert await asked.post("/v1/predict", JOB) == 200
            health = await asked.health()
            assert (health["status"], "could not be kept" in health["problem"]) == ("degraded", True)
        assert await asked.post("/v1/events", EVENT) == 200
        assert (await asked.health())["status"] == "ok"
        assert await asked.service.stop()

    _run(scenario())


def test_disk_that_does_not_answer_holds_up_no_forecast_and_nobody_for_long(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "WAIT_S", 0.2)
    monkeypatch.setattr(intake, "SILENT_S", 0.1)
    monkeypatch.setattr(intake, "MOST_REQUESTS", 5)
    monkeypatch.setattr(service, "STOP_S", 0.2)
    answers, real = threading.Event(), os.pwrite

    def silent(file: int, data: bytes, offset: int) -> int:
        answers.wait(30)
        return real(file, data, offset)

    async def scenario() -> None:
        await asked.service.start()
        before = asked.journal.count
        with monkeypatch.context() as hung:
            hung.setattr(os, "pwrite", silent)
            began = asyncio.get_running_loop().time()
            found = await asyncio.gather(*(asked.post("/v1/events", {**EVENT, "job_id": str(n)}) for n in range(20)))
            assert set(found) == {503}
            assert asyncio.get_running_loop().time() - began < 5
            assert await asked.post("/v1/predict", JOB) == 200
            while "has not answered" not in (await asked.health()).get("problem", ""):
                await asyncio.sleep(0.05)
            answers.set()
            while (await asked.health())["status"] != "ok":
                await asyncio.sleep(0.05)
        assert await asked.post("/v1/events", {**EVENT, "job_id": "99"}) == 200
        assert asked.journal.count > before
        answers.clear()
        monkeypatch.setattr(os, "pwrite", silent)
        waiting = asyncio.create_task(asked.post("/v1/events", {**EVENT, "job_id": "100"}))
        await asyncio.sleep(0.05)
        assert not await asked.service.stop(), "it says that the disk did not let it"
        answers.set()
        assert await waiting in (200, 503)

    _run(scenario())


def test_events_that_wait_when_the_service_stops_are_kept(asked: Asked) -> None:
    async def scenario() -> None:
        await asked.service.start()
        waiting = [asyncio.create_task(asked.post("/v1/events", {**EVENT, "job_id": str(n)})) for n in range(20)]
        await asyncio.sleep(0)
        assert await asked.service.stop()
        assert {await one for one in waiting} == {200}
        assert sum(event["event"] == "submitted" for event in asked.journal.read()) == 20

    _run(scenario())


@pytest.mark.parametrize(
    ("path", "content", "status"),
    [
        ("/v1/predict", {**JOB, "submit_time": "2099-01-01T00:00:00Z"}, 422),
        ("/v1/predict", {**JOB, "ahead_s": 301}, 422),
        ("/v1/predict", {**JOB, "ahead_s": 300}, 200),
        ("/v1/events", {**EVENT, "ahead_s": 301}, 422),
        ("/v1/events", {**EVENT, "ahead_s": 300}, 200),
    ],
    ids=["asked about 2099", "asked beyond clocks", "asked within clocks", "event beyond clocks", "event within clocks"],
)
def test_question_has_the_bounds_of_an_event(
    asked: Asked, now: datetime, path: str, content: dict[str, Any], status: int
) -> None:
    content = dict(content)
    if (ahead_s := content.pop("ahead_s", None)) is not None:
        content["submit_time"] = (now + timedelta(seconds=ahead_s)).isoformat()

    async def scenario() -> None:
        await asked.service.start()
        assert await asked.post(path, content) == status
        assert await asked.service.stop()

    _run(scenario())


@pytest.mark.parametrize(
    "error", [OSError(24, "Too many open files"), MemoryError(), KeyError("x")], ids=lambda e: type(e).__name__
)
def test_loop_survives_whatever_a_step_raises_and_says_so_until_it_works_again(error: Exception) -> None:
    problems, stopping, found = Problems(), asyncio.Event(), list[str]()

    async def step() -> None:
        found.append(str(problems))
        if len(found) < 4:
            raise error
        if len(found) == 6:
            stopping.set()

    _run(repeat("part", step, 0.001, stopping, problems))
    said = f"part: {error!r}"
    assert found == ["", said, said, said, "", ""]


def test_problem_is_logged_when_it_comes_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    problems = Problems()
    with caplog.at_level("INFO", logger=background.log.name):
        for _ in range(3):
            problems.set("journal", "the disk is full")
        problems.clear("journal")
        problems.clear("journal")
    assert [record.message for record in caplog.records] == ["the disk is full", "journal: works again"]
    assert not problems
