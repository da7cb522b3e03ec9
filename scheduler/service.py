"""The service beside the scheduler: an ASGI application that answers from the current bundle and keeps the history current.

Forecasts are computed in the event loop, one after the other: each takes a fraction of a millisecond, and a thread would cost
more. Events wait together to be written to the journal, are then taken into the history, and only then acknowledged; the journal is
flushed every second, or before each acknowledgement. The bundle's link is looked at every second; a new bundle is loaded in a
thread, told the events since its cut, and takes over between two requests. A bundle that cannot be served leaves the old one in
place until that one expires, and is tried again every half minute; without any, requests are answered 503 and the scheduler goes
on as if Runcast did not exist.
"""

import asyncio
import contextlib
import gc
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from runcast.data.errors import RuncastError
from runcast.scheduler import openapi
from runcast.scheduler.bundle import MANIFEST, is_expired, moment_of, resolve
from runcast.scheduler.catching_up import Line, catch_up, is_since, tell_on_submission
from runcast.scheduler.errors import BundleMismatch, JobFieldError, JournalError
from runcast.scheduler.events import Kind, job_key, read_event
from runcast.scheduler.jobs import parse, read_job
from runcast.scheduler.journal import Event, Journal
from runcast.scheduler.metrics import Counter, Histogram, Labels, exposition
from runcast.scheduler.predictor import Predictor
from runcast.scheduler.served import DatedLine, ServedLog

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]

LARGEST_BODY = 1_048_576  # bytes; a thousand jobs with long names fit
MOST_AT_ONCE = 1000  # jobs or events in one request
TURN = 16  # jobs answered before other requests get their turn: about 2 ms
LOOK_EVERY_S = 1.0  # at the bundle's link
LOOKS_TO_A_TRY = (
    30  # a refused bundle is tried again: half of it may have been copied so far, or the key was not the right one yet
)
WRITE_EVERY_S = 1.0  # what was told to jobs
FLUSH_EVERY_S = 1.0  # the journal
MOST_WAITING = (
    10_000  # requests with events, and predicted jobs, that wait for the journal: where the disk stands still, jobs are left out
)

_JSON, _TEXT, _HTML = b"application/json", b"text/plain; version=0.0.4; charset=utf-8", b"text/html; charset=utf-8"

_ENCODER = json.JSONEncoder(separators=(",", ":"))

Result = TypeVar("Result")
Read = tuple[Kind, dict[str, Any]]  # an event as read_event returns it

log = logging.getLogger("runcast.service")


@dataclass(frozen=True)
class Waiting:
    """What waits to be kept: the events of a request, as told and as read, and who waits; or what a predicted job was told."""

    events: list[Event]
    read: list[Read]
    kept: "asyncio.Future[None] | None"
    told: Line | None = None


@dataclass(frozen=True)
class Reply:
    """What a request is answered."""

    status: int
    body: bytes
    content_type: bytes = _JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Refusal(Exception):
    """A request that is answered with an error."""

    def __init__(
        self, status: int, message: str, field: str | None = None, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        super().__init__(message)
        error = {"message": message} if field is None else {"message": message, "field": field}
        self.reply = Reply(status, _dump({"error": error}), headers=headers)


class Service:
    """The application; `bundles` is a bundle or a folder with a `current` link, `token` what requests must carry, if anything.

    The journal is flushed every `flush_every_s`, at 0 before each acknowledgement of events.
    """

    def __init__(
        self,
        bundles: Path,
        journal: Journal,
        served: ServedLog,
        *,
        token: str | None = None,
        pseudonym_key: Path | None = None,
        flush_every_s: float = FLUSH_EVERY_S,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._bundles, self._journal, self._served = bundles, journal, served
        self._token, self._clock, self._look_every_s, self._flush_every_s = token, clock, look_every_s, flush_every_s
        self._pseudonym_key = pseudonym_key
        self._predictor: Predictor | None = None
        self._looked_at: tuple[Path, int] | None = None  # the latest that was tried, good or bad, and when it was written
        self._looks_left = 0  # until the latest one, which was refused, is tried again; below 0: it serves
        self._problem = "no bundle has been loaded yet"
        self._journal_lock = asyncio.Lock()
        self._meanwhile: list[Event] | None = None  # events kept while a bundle is being loaded
        self._waiting: list[Waiting] = []
        self._is_refused = False  # whether the disk refused the latest events
        self._has_waiting = asyncio.Event()
        self._tasks: list[asyncio.Task[NoReturn]] = []
        self._requests = Counter("runcast_requests_total", "Requests by route and status.")
        self._latency = Histogram("runcast_request_seconds", "Time from the whole request to the answer, by route.")
        self._answers = Counter("runcast_forecasts_total", "Forecasts given, by what answered.")
        self._told = Counter("runcast_events_total", "Events kept, by kind.")
        self._loads = Counter("runcast_bundle_loads_total", "Bundles tried, by outcome.")
        self._unflushed = Counter("runcast_journal_flushes_failed_total", "Flushes of the journal that the disk refused.")
        self._routes: dict[str, dict[str, Callable[[bytes], Awaitable[Reply]]]] = {
            "/v1/predict": {"POST": self._predict},
            "/v1/events": {"POST": self._keep_events},
            "/healthz": {"GET": self._health},
            "/metrics": {"GET": self._metrics},
            "/openapi.json": {"GET": self._openapi},
            "/": {"GET": self._page},
        }

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._respond(scope, receive, send)
        else:
            raise RuntimeError(f"cannot speak {scope['type']}")

    async def start(self) -> None:
        """Load the bundle and begin to look after events and bundles."""
        await self._look()
        forever = [self._keep_forever(), self._look_forever(), self._write_forever()]
        if self._flush_every_s:
            forever.append(self._flush_forever())
        self._tasks = [asyncio.create_task(task) for task in forever]

    async def stop(self) -> None:
        """Keep what still waits, then stop."""
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._keep()
        self._journal.flush()
        self._write_served(self._served.take())

    # requests

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.start()
            else:
                await self.stop()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def _respond(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        route = scope["path"] if scope["path"] in self._routes else "other"
        try:
            handler = self._find(scope)
            body = await _read_body(scope, receive)
            began = time.perf_counter()
            reply = await handler(body)
        except Refusal as refusal:
            reply = refusal.reply
        length = str(len(reply.body)).encode()
        headers = [(b"content-type", reply.content_type), (b"content-length", length), *reply.headers]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else reply.body})
        self._requests.add((("route", route), ("status", str(reply.status))))
        self._latency.observe(time.perf_counter() - began, (("route", route),))

    def _find(self, scope: Mapping[str, Any]) -> Callable[[bytes], Awaitable[Reply]]:
        methods = self._routes.get(scope["path"])
        if methods is None:
            raise Refusal(404, f"no such path; known are {', '.join(self._routes)}")
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        if method not in methods:
            raise Refusal(405, f"takes {', '.join(methods)}", headers=((b"allow", ", ".join(methods).encode()),))
        if self._token is not None and not _carries(scope, self._token):
            raise Refusal(401, "give the token: Authorization: Bearer …", headers=((b"www-authenticate", b"Bearer"),))
        return methods[method]

    async def _predict(self, body: bytes) -> Reply:
        predictor = self._serving()
        asked, is_many = _one_or_many(body)
        answers = []
        for at, job in enumerate(asked):
            if at and at % TURN == 0:
                await asyncio.sleep(0)
            try:
                read = read_job(predictor.with_pseudonyms(job), predictor.manifest.time_limit)
            except JobFieldError as error:
                raise _refused_field(error, at if is_many else None) from None
            answers.append(self._answer(predictor, read))
            self._answers.add((("source", answers[-1]["source"]),))
        return Reply(200, _dump(answers if is_many else answers[0]))

    def _answer(self, predictor: Predictor, job: dict[str, Any]) -> dict[str, Any]:
        """Return the forecast of a job that was read; that of an identified one is kept for the daily look and for the margin."""
        answer, p90 = predictor.ask(job)
        if job["job_id"] is not None:
            cluster = predictor.manifest.cluster
            self._served.add(cluster, {**job, "job_key": job_key(cluster, job)}, answer, self._clock())
        if p90 is not None and len(self._waiting) < MOST_WAITING:
            line = Line(predictor.manifest.name, job["submit_time"], False, p90)
            self._waiting.append(Waiting([line.to_event()], [], None, line))
            self._has_waiting.set()
        return answer

    async def _keep_events(self, body: bytes) -> Reply:
        predictor = self._serving()
        asked, is_many = _one_or_many(body)
        told = [predictor.with_pseudonyms(event) for event in asked]  # names in clear are neither kept nor logged
        read: list[Read] = []
        now_us = round(self._clock().timestamp() * 1e6)
        for at, event in enumerate(told):
            try:
                read.append(read_event(event, predictor.manifest.cluster, predictor.manifest.time_limit, now_us))
            except JobFieldError as error:
                raise _refused_field(error, at if is_many else None) from None
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(told, read, kept))
        self._has_waiting.set()
        try:
            await kept
        except JournalError as error:
            raise Refusal(507, str(error)) from None
        return Reply(200, _dump({"accepted": len(told)}))

    async def _health(self, _body: bytes) -> Reply:
        found: dict[str, Any] = {"status": "ok", "journal_bytes": self._journal.size_bytes, "journal_events": self._journal.count}
        if self._predictor is not None:
            manifest = self._predictor.manifest
            names = ("cluster", "kind", "model_version", "registered", "data_cut", "created", "valid_until")
            found |= {name: getattr(manifest, name) for name in names}
        try:
            self._serving()
        except Refusal:
            return Reply(503, _dump({**found, "status": "not serving", "problem": self._problem_now()}))
        if self._problem:
            found["problem"] = self._problem
        return Reply(200, _dump(found))

    async def _metrics(self, _body: bytes) -> Reply:
        now = self._clock()
        is_serving = self._predictor is not None and not is_expired(self._predictor.manifest, now)
        gauges: dict[str, tuple[str, Mapping[Labels, float]]] = {
            "runcast_serving": ("1 while forecasts are served.", {(): float(is_serving)}),
            "runcast_journal_bytes": ("Size of the event journal.", {(): self._journal.size_bytes}),
        }
        if self._predictor is not None:
            manifest = self._predictor.manifest
            age_s = (now - moment_of(manifest.data_cut)).total_seconds()
            gauges["runcast_history_age_seconds"] = ("Time since the bundle's cut.", {(): age_s})
            about = (("cluster", manifest.cluster), ("kind", manifest.kind), ("model_version", manifest.model_version))
            gauges["runcast_bundle"] = ("The bundle that serves.", {about: 1})
        metrics = (self._requests, self._latency, self._answers, self._told, self._loads, self._unflushed, self._served.lines)
        return Reply(200, exposition(metrics, gauges).encode(), _TEXT)

    async def _openapi(self, _body: bytes) -> Reply:
        return Reply(200, _dump(openapi.document(_version())))

    async def _page(self, _body: bytes) -> Reply:
        return Reply(200, openapi.page(_version()).encode(), _HTML)

    def _serving(self) -> Predictor:
        if self._predictor is None or is_expired(self._predictor.manifest, self._clock()):
            raise Refusal(503, self._problem_now())
        return self._predictor

    def _problem_now(self) -> str:
        if self._predictor is not None and is_expired(self._predictor.manifest, self._clock()):
            return f"the bundle expired at {self._predictor.manifest.valid_until}" + (
                f"; {self._problem}" if self._problem else ""
            )
        return self._problem

    # events

    async def _keep_forever(self) -> NoReturn:
        while True:
            await self._has_waiting.wait()
            await self._keep()

    async def _keep(self) -> None:
        """Keep all events that wait, together; then take them into the history and acknowledge them."""
        self._has_waiting.clear()
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        events = [event for one in waiting for event in one.events]
        try:
            async with self._journal_lock:
                await _in_thread(self._journal.append, events, self._flush_every_s == 0)
                if self._meanwhile is not None:
                    self._meanwhile += events
        except JournalError as error:
            self._say_once(error)
            for one in waiting:
                _settle(one.kept, error)
            return
        self._is_refused = False
        lines = await self._take_in(waiting)
        if lines:
            await self._note(lines)
        for one in waiting:
            _settle(one.kept, None)

    async def _take_in(self, waiting: list[Waiting]) -> list[Event]:
        """Take what is kept into the history; return the lines of what jobs were told on their submission."""
        predictor = self._predictor  # one that takes over meanwhile is told of it all by `_look`
        lines: list[Event] = []
        done = 0
        for one in waiting:
            if one.told is not None and predictor is not None and one.told.bundle == predictor.manifest.name:
                predictor.remember(one.told.p90)
            for kind, job in one.read:
                done += 1
                if done % TURN == 0:
                    await asyncio.sleep(0)
                self._told.add((("kind", kind),))
                if predictor is None:
                    continue
                try:
                    predictor.take(kind, job)
                    if kind == "submitted" and (predictor.awaits(job) or job["job_key"] not in self._served):
                        answer, line = tell_on_submission(predictor, job)
                        self._served.add(predictor.manifest.cluster, job, answer, self._clock())
                        lines += line
                except Exception:
                    log.exception("a %s event could not be taken into the history", kind)
        return lines

    async def _note(self, lines: list[Event]) -> None:
        """Write lines of ours: not flushed, since what they say can be worked out again, nearly; kill -9 does not lose them."""
        try:
            async with self._journal_lock:
                await _in_thread(self._journal.append, lines, False)
        except JournalError as error:
            self._say_once(error)

    def _say_once(self, error: JournalError) -> None:
        """Log that the disk does not take events, not for each of them."""
        if not self._is_refused:
            log.error("%s", error)
        self._is_refused = True

    async def _flush_forever(self) -> NoReturn:
        while True:
            await asyncio.sleep(self._flush_every_s)
            try:
                await _in_thread(self._journal.flush)
            except JournalError as error:
                self._unflushed.add()
                log.error("%s", error)

    async def _write_forever(self) -> NoReturn:
        while True:
            await asyncio.sleep(WRITE_EVERY_S)
            if lines := self._served.take():
                await _in_thread(self._write_served, lines)

    def _write_served(self, lines: list[DatedLine]) -> None:
        """Write what was told to jobs; a disk that refuses is said once, counted, and costs no answer."""
        had_problem = bool(self._served.problem)
        self._served.write(lines, self._clock())
        if self._served.problem and not had_problem:
            log.warning("%s", self._served.problem)

    # bundles

    async def _look_forever(self) -> NoReturn:
        while True:
            await asyncio.sleep(self._look_every_s)
            try:
                await self._look()
            except Exception as error:  # whatever it is: the old bundle serves on, and the next one is looked for
                self._problem, self._looked_at = f"looking for a new bundle failed: {error!r}", None
                log.exception("looking for a new bundle failed")

    async def _look(self) -> None:
        """Load the bundle that the link points to, where it is another one than the latest tried."""
        try:
            bundle = resolve(self._bundles)
            found = (bundle, (bundle / MANIFEST).stat().st_mtime_ns)
        except (RuncastError, OSError) as error:
            self._say_problem(str(error))
            return
        if found == self._looked_at:
            if self._looks_left < 0:
                self._problem = ""  # the link may have led nowhere for a moment
                return
            self._looks_left -= 1
            if self._looks_left > 0:
                return
        self._looked_at, self._looks_left = found, LOOKS_TO_A_TRY
        try:
            async with self._journal_lock:
                events = await _in_thread(self._journal.read)
                self._meanwhile = []
        except JournalError as error:
            self._say_problem(f"{bundle.name} is not served: {error}")
            self._looked_at = None  # tried again at the next look
            return
        try:
            predictor, lines = await _in_thread(_load, bundle, self._clock(), self._pseudonym_key, events)
        except Exception as error:  # noqa: BLE001 - RuncastError says it well; anything else is one more reason not to serve that bundle
            self._loads.add((("outcome", "refused"),))
            self._say_problem(
                f"{bundle.name} is not served: {error if isinstance(error, RuncastError | OSError) else repr(error)}"
            )
            return
        finally:
            meanwhile, self._meanwhile = self._meanwhile, None
        lines += catch_up(predictor, meanwhile)
        self._predictor, self._problem, self._looks_left = predictor, "", -1
        gc.freeze()  # no collection walks the history: it stays until the next bundle
        self._loads.add((("outcome", "served"),))
        log.info("serving %s, history up to %s and events since", bundle.name, predictor.manifest.data_cut)
        if lines:
            await self._note(lines)
        await self._forget(predictor.cut_us)

    def _say_problem(self, problem: str) -> None:
        """Say why there is no new bundle, where that was not the reason before."""
        if problem != self._problem:
            log.error("%s", problem)
        self._problem = problem

    async def _forget(self, cut_us: int) -> None:
        """Drop the events that the new bundle knows from the log."""
        try:
            async with self._journal_lock:
                await _in_thread(self._journal.keep, lambda event: is_since(event, cut_us))
        except JournalError as error:
            log.warning("%s", error)


def _load(bundle: Path, now: datetime, pseudonym_key: Path | None, events: list[Event]) -> tuple[Predictor, list[Event]]:
    predictor = Predictor.load(bundle, now=now, pseudonym_key=pseudonym_key)
    if pseudonym_key is not None and predictor.manifest.pseudonyms is None:  # clear names would be kept, against the wish
        raise BundleMismatch(
            f"{bundle}: holds names in clear, but a key for pseudonyms was given. Set `pseudonymise` in the cluster file of "
            f"{predictor.manifest.cluster}, or leave the key out."
        )
    return predictor, catch_up(predictor, events)


async def _in_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    return await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, function, *arguments))  # a kept event stays kept


async def _read_body(scope: Mapping[str, Any], receive: Receive) -> bytes:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > LARGEST_BODY:
            raise _too_large()
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "the request was not finished")
        body += bytes(message.get("body", b""))
        if len(body) > LARGEST_BODY:
            raise _too_large()
        if not message.get("more_body", False):
            return body


def _too_large() -> Refusal:
    return Refusal(
        413, f"the body may have {LARGEST_BODY} bytes at most; send fewer jobs at once", headers=((b"connection", b"close"),)
    )


def _one_or_many(body: bytes) -> tuple[list[Any], bool]:
    """Return the jobs or events of a request, and whether they were a list."""
    try:
        content = parse(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {error}") from None
    if not isinstance(content, list):
        return [content], False
    if len(content) > MOST_AT_ONCE:
        raise Refusal(413, f"{len(content)} at once, at most {MOST_AT_ONCE} are taken")
    return content, True


def _refused_field(error: JobFieldError, at: int | None) -> Refusal:
    where = "" if at is None else f"[{at}]."
    return Refusal(422, f"{where}{error}", f"{where}{error.field}")


def _carries(scope: Mapping[str, Any], token: str) -> bool:
    given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    return hmac.compare_digest(given, b"Bearer " + token.encode())


def _settle(kept: "asyncio.Future[None] | None", error: JournalError | None) -> None:
    if kept is None or kept.done():  # nobody waits, or the caller went away
        return
    if error is None:
        kept.set_result(None)
    else:
        kept.set_exception(error)


def _dump(value: Any) -> bytes:
    return _ENCODER.encode(value).encode()


def _version() -> str:
    try:
        return version("runcast")
    except PackageNotFoundError:  # run from a source tree
        return "0"
