"""The service beside the scheduler: an ASGI application that answers from the current bundle and keeps the history current.

Forecasts are computed in the event loop: each takes a fraction of a millisecond, and a thread would cost more. What takes longer,
many jobs in a request or many events before one, is done in slices (turns.py). Events go through the journal (intake.py), bundles
change between two requests (rollover.py), and rights.py says who may do what. Without a bundle requests are answered 503 and the
scheduler goes on as if Runcast did not exist.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from runcast.data.errors import RuncastError
from runcast.scheduler import openapi
from runcast.scheduler.background import Problems, in_thread, repeat
from runcast.scheduler.bundle import moment_of
from runcast.scheduler.catching_up import Line
from runcast.scheduler.errors import JobFieldError, JournalBusy, JournalError
from runcast.scheduler.events import job_key, read_event
from runcast.scheduler.intake import EVENTS_A_STEP, STOP_S, Intake, Read
from runcast.scheduler.jobs import read_job
from runcast.scheduler.journal import Journal
from runcast.scheduler.metrics import Counter, Histogram, Labels, exposition
from runcast.scheduler.predictor import Predictor
from runcast.scheduler.request import (
    HTML,
    TEXT,
    Bodies,
    Body,
    Receive,
    Refusal,
    Reply,
    Send,
    check_sender,
    dump,
    one_or_many,
    wrong_field,
)
from runcast.scheduler.rights import Grant, Peer, Rights, check_own, check_report
from runcast.scheduler.rollover import Required, Rollover
from runcast.scheduler.served import ServedLog
from runcast.scheduler.turns import Turns

LOOK_EVERY_S = 1.0  # at the bundle's link
WRITE_EVERY_S = 1.0  # forecasts of identified jobs
FLUSH_EVERY_S = 1.0  # the journal
OWN_PROCESS = Peer(os.getuid(), "own process")  # of a request that came over no connection
PEER = "runcast.peer"  # of a scope: who is at the other end

log = logging.getLogger("runcast.service")


@dataclass(frozen=True)
class Request:
    """What a handler gets: the body, who sent it, and what that sender may do."""

    body: bytes
    peer: Peer
    grant: Grant


Handler = Callable[[Request], Awaitable[Reply]]


class Service:
    """The application; `bundles` is a bundle or a folder with a `current` link, `hosts` the names that its port goes by, if not all.

    The journal is flushed every `flush_every_s`, at 0 before each acknowledgement of events.
    """

    def __init__(
        self,
        bundles: Path,
        journal: Journal,
        served: ServedLog,
        *,
        rights: Rights = Rights(),  # noqa: B008 - frozen
        hosts: frozenset[str] | None = None,
        required: Required = Required(),  # noqa: B008 - frozen
        flush_every_s: float = FLUSH_EVERY_S,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self.problems = Problems()
        self._served, self._rights, self._hosts, self._clock, self._look_every_s = served, rights, hosts, clock, look_every_s
        self._bodies, self._turns = Bodies(), Turns()
        self._intake = Intake(
            journal, served, self._turns, self.problems, self._current, flush_every_s=flush_every_s, clock=clock
        )
        self._rollover = Rollover(bundles, self._intake, self.problems, required, clock)
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._requests = Counter("runcast_requests_total", "Requests by route and status.")
        self._latency = Histogram("runcast_request_seconds", "Time from the whole request to the answer, by route.")
        self._answers = Counter("runcast_forecasts_total", "Forecasts given, by what answered.")
        self._routes: dict[str, dict[str, Handler]] = {
            "/v1/predict": {"POST": self._predict},
            "/v1/events": {"POST": self._take_events},
            "/healthz": {"GET": self._health},
            "/metrics": {"GET": self._metrics},
            "/openapi.json": {"GET": self._openapi},
            "/": {"GET": self._page},
        }

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        began = time.perf_counter()
        route = scope["path"] if scope["path"] in self._routes else "other"
        peer = scope.get(PEER, OWN_PROCESS)
        headers, body = dict(scope["headers"]), Body(self._bodies, peer.name)
        try:
            handler = self._find(scope)
            check_sender(scope["method"], headers, self._hosts)
            grant = await self._rights.grant(peer, headers)
            content = await body.read(headers, receive)
            began = time.perf_counter()
            reply = await handler(Request(content, peer, grant))
        except Refusal as refusal:
            reply = refusal.reply
        finally:
            body.close()
        length = str(len(reply.body)).encode()
        about = [(b"content-type", reply.content_type), (b"content-length", length), *reply.headers]
        await send({"type": "http.response.start", "status": reply.status, "headers": about})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else reply.body})
        self._requests.add((("route", route), ("status", str(reply.status))))
        self._latency.observe(time.perf_counter() - began, (("route", route),))

    async def start(self) -> None:
        """Load the bundle and begin to look after events and bundles."""
        journal = self._intake.journal
        if journal.damaged_lines or journal.cut_off_bytes:
            log.warning(
                "%s: %d damaged lines were left out, %d bytes of an unfinished line cut off",
                journal.path, journal.damaged_lines, journal.cut_off_bytes,
            )  # fmt: skip
        await self._rollover.look()
        loops = [
            *self._intake.loops(self._stopping),
            repeat("looking for a new bundle", self._rollover.look, self._look_every_s, self._stopping, self.problems),
            repeat("forecasts of identified jobs", self._write_waiting, WRITE_EVERY_S, self._stopping, self.problems),
        ]
        self._tasks = [asyncio.create_task(loop) for loop in loops]

    async def stop(self) -> bool:
        """Keep what still waits, then stop; returns whether the disk let it, within STOP_S."""
        self._stopping.set()
        self._intake.wake()
        try:
            async with asyncio.timeout(STOP_S):
                await asyncio.gather(*self._tasks)
                await self._intake.finish()
                await self._write_waiting()
        except TimeoutError:
            log.error("the disk has not answered within %g s; what waited is lost", STOP_S)
            return False
        except RuncastError as error:
            log.error("%s", error)
        return True

    def _find(self, scope: Mapping[str, Any]) -> Handler:
        methods = self._routes.get(scope["path"])
        if methods is None:
            raise Refusal(404, f"no such path; known are {', '.join(self._routes)}")
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        if method not in methods:
            raise Refusal(405, f"takes {', '.join(methods)}", headers=((b"allow", ", ".join(methods).encode()),))
        return methods[method]

    async def _predict(self, request: Request) -> Reply:
        predictor = self._serving()
        jobs, is_many = one_or_many(request.body)
        check_own(request.grant, jobs)
        answers: list[dict[str, Any]] = []
        steps = self._answer(predictor, jobs, is_many, request.grant.may_report, answers)
        await self._turns.run(request.peer.name, steps, is_first_free=not is_many)
        return Reply(200, dump(answers if is_many else answers[0]))

    def _answer(
        self, predictor: Predictor, jobs: list[Any], is_many: bool, is_kept: bool, answers: list[dict[str, Any]]
    ) -> Iterator[None]:
        """Forecast jobs into `answers`, one a step; those of identified jobs are kept where the sender may report."""
        now_us = self._now_us()
        for at, sent in enumerate(jobs):
            try:
                job = read_job(predictor.with_pseudonyms(sent), predictor.manifest.time_limit, now_us)
            except JobFieldError as error:
                raise wrong_field(error, at if is_many else None) from None
            while not predictor.advance(job["submit_time"], EVENTS_A_STEP):
                yield
            answer, p90 = predictor.ask(job)
            answers.append(answer)
            self._answers.add((("source", answer["source"]),))
            if is_kept and job["job_id"] is not None:
                cluster = predictor.manifest.cluster
                self._served.add(cluster, {**job, "job_key": job_key(cluster, job)}, answer, self._clock())
                if p90 is not None:
                    self._intake.note(Line(predictor.manifest.name, job["submit_time"], False, p90))
            yield

    async def _take_events(self, request: Request) -> Reply:
        check_report(request.grant, request.peer)
        predictor = self._serving()
        events, is_many = one_or_many(request.body)
        events = [predictor.with_pseudonyms(event) for event in events]  # names in clear are neither kept nor logged
        read: list[Read] = []
        await self._turns.run(request.peer.name, self._read_events(predictor, events, is_many, read), is_first_free=not is_many)
        try:
            await self._intake.take(events, read)
        except JournalError as error:
            raise Refusal(507, str(error)) from None
        except JournalBusy as error:
            raise Refusal(503, str(error), headers=((b"retry-after", b"10"),)) from None
        return Reply(200, dump({"accepted": len(events)}))

    def _read_events(self, predictor: Predictor, events: list[Any], is_many: bool, read: list[Read]) -> Iterator[None]:
        now_us = self._now_us()
        for at, event in enumerate(events):
            try:
                read.append(read_event(event, predictor.manifest.cluster, predictor.manifest.time_limit, now_us))
            except JobFieldError as error:
                raise wrong_field(error, at if is_many else None) from None
            yield

    async def _health(self, _request: Request) -> Reply:
        journal = self._intake.journal
        found: dict[str, Any] = {
            "status": "degraded" if self.problems else "ok",
            "journal_bytes": journal.size_bytes,
            "journal_events": journal.count,
            "journal_damaged_lines": journal.damaged_lines,
        }
        if self._rollover.predictor is not None:
            manifest = self._rollover.predictor.manifest
            names = ("cluster", "kind", "model_version", "registered", "data_cut", "created", "valid_until")
            found |= {name: getattr(manifest, name) for name in names}
        if self._current() is None:
            return Reply(503, dump({**found, "status": "not serving", "problem": self._rollover.reason()}))
        if self.problems:
            found["problem"] = str(self.problems)
        return Reply(200, dump(found))

    async def _metrics(self, _request: Request) -> Reply:
        journal, intake = self._intake.journal, self._intake
        gauges: dict[str, tuple[str, Mapping[Labels, float]]] = {
            "runcast_serving": ("1 while forecasts are served.", {(): float(self._current() is not None)}),
            "runcast_problem": ("1 for each part that does not work.", {(("part", p),): 1.0 for p in self.problems.parts()}),
            "runcast_journal_bytes": ("Size of the event journal.", {(): journal.size_bytes}),
            "runcast_journal_damaged_lines": ("Lines that could not be read at the start.", {(): journal.damaged_lines}),
        }
        if self._rollover.predictor is not None:
            manifest = self._rollover.predictor.manifest
            age_s = (self._clock() - moment_of(manifest.data_cut)).total_seconds()
            gauges["runcast_history_age_seconds"] = ("Time since the bundle's cut.", {(): age_s})
            about = (("cluster", manifest.cluster), ("kind", manifest.kind), ("model_version", manifest.model_version))
            gauges["runcast_bundle"] = ("The bundle that serves.", {about: 1})
        metrics = (
            self._requests, self._latency, self._answers, intake.events, self._rollover.loads, intake.failed_flushes,
            intake.left_out, self._served.lines,
        )  # fmt: skip
        return Reply(200, exposition(metrics, gauges).encode(), TEXT)

    async def _openapi(self, _request: Request) -> Reply:
        return Reply(200, dump(openapi.document(_version())))

    async def _page(self, _request: Request) -> Reply:
        return Reply(200, openapi.page(_version()).encode(), HTML)

    def _current(self) -> Predictor | None:
        return self._rollover.serving()

    def _serving(self) -> Predictor:
        predictor = self._current()
        if predictor is None:
            raise Refusal(503, self._rollover.reason())
        return predictor

    def _now_us(self) -> int:
        return round(self._clock().timestamp() * 1e6)

    async def _write_waiting(self) -> None:
        """Write forecasts of identified jobs; a disk that refuses is said once, counted, and costs no answer."""
        if not (lines := self._served.take()):
            return
        await in_thread(self._served.write, lines, self._clock())
        if not self._served.problem:
            self.problems.clear("served")
        elif not self.problems.get("served"):
            self.problems.set("served", self._served.problem)


def _version() -> str:
    try:
        return version("runcast")
    except PackageNotFoundError:  # run from a source tree
        return "0"
