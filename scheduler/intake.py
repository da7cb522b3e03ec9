"""What is reported to the service: into the journal first, then into the history, and only then acknowledged.

Events that come while the disk writes wait together for the next write. The disk may refuse, or not answer at all: what waits is
bounded, whoever waits is answered within WAIT_S, and forecasts go on. Events whose sender was answered before the disk did may be in
the journal later; reporting an event twice is harmless.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from runcast.scheduler.background import Problems, in_thread, repeat
from runcast.scheduler.catching_up import Line, is_of_use, tell_on_submission
from runcast.scheduler.errors import JournalBusy, JournalError
from runcast.scheduler.events import Kind
from runcast.scheduler.journal import Event, Journal, Snapshot
from runcast.scheduler.metrics import Counter
from runcast.scheduler.served import ServedLog
from runcast.scheduler.turns import Turns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from runcast.scheduler.predictor import Predictor

WAIT_S = 10.0  # until whoever reported events is answered, whatever the disk does
SILENT_S = 5.0  # of the disk, from which on it is a problem
MOST_REQUESTS = 128  # with events that wait for the journal; more are refused at once
MOST_LINES = 10_000  # forecasts given that wait for the journal; more are left out
STOP_S = 10.0
EVENTS_A_STEP = 16  # counted into the history before others get their turn: about 2 ms

Read = tuple[Kind, dict[str, Any]]  # an event as read_event returns it

log = logging.getLogger("runcast.service")


@dataclass(frozen=True)
class Waiting:
    """What waits for the journal: the events of a request, as sent and as read, and who waits; or the forecast of a job."""

    events: list[Event]
    read: list[Read]
    done: "asyncio.Future[None] | None" = None
    line: Line | None = None


class Intake:
    """The way into journal and history; `serving` gives the predictor of the moment, None while there is none.

    The journal is flushed every `flush_every_s`, at 0 before each acknowledgement.
    """

    def __init__(
        self,
        journal: Journal,
        served: ServedLog,
        turns: Turns,
        problems: Problems,
        serving: "Callable[[], Predictor | None]",
        *,
        flush_every_s: float,
        clock: Callable[[], datetime],
    ) -> None:
        self.journal = journal
        self.events = Counter("runcast_events_total", "Events kept, by kind.")
        self.failed_flushes = Counter("runcast_journal_flushes_failed_total", "Flushes of the journal that the disk refused.")
        self.left_out = Counter("runcast_journal_left_out_total", "Forecasts given that could not be kept for p90's margin.")
        self._served, self._turns, self._problems, self._serving = served, turns, problems, serving
        self._flush_every_s, self._clock = flush_every_s, clock
        self._lock = asyncio.Lock()
        self._meanwhile: list[Event] | None = None  # events kept while a bundle is being loaded
        self._waiting: list[Waiting] = []
        self._requests = 0
        self._has_waiting = asyncio.Event()
        self._writing_since_s: float | None = None

    def loops(self, stopping: asyncio.Event) -> list[Any]:
        """Return the background loops, to be made tasks."""
        loops = [self._keep_until(stopping), repeat("disk", self._watch_disk, 1.0, stopping, self._problems)]
        if self._flush_every_s:
            loops.append(repeat("flush", self._flush, self._flush_every_s, stopping, self._problems))
        return loops

    def wake(self) -> None:
        """Let the loop look whether it is to stop."""
        self._has_waiting.set()

    async def take(self, events: list[Event], read: list[Read]) -> None:
        """Keep events and take them into the history; raises JournalError, JournalBusy where that cannot be done in time."""
        if self._requests >= MOST_REQUESTS:
            raise JournalBusy(f"{self._requests} requests wait for the journal; send the events again later")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests += 1
        try:
            self._waiting.append(Waiting(events, read, done))
            self._has_waiting.set()
            async with asyncio.timeout(WAIT_S):
                await done
        except TimeoutError:
            raise JournalBusy(f"the disk has not taken the events within {WAIT_S:g} s; send them again later") from None
        finally:
            self._requests -= 1

    def note(self, line: Line) -> None:
        """Remember the forecast of a job, once it is in the journal."""
        if len(self._waiting) >= MOST_LINES:
            self.left_out.add()
            return
        self._waiting.append(Waiting([line.to_event()], [], line=line))
        self._has_waiting.set()

    @asynccontextmanager
    async def loading(self) -> "AsyncIterator[tuple[Snapshot, list[Event]]]":
        """Yield all events of the journal, and a list to which those are added that are kept meanwhile."""
        async with self._lock:
            events = await in_thread(self.journal.snapshot)
            meanwhile = self._meanwhile = []
        try:
            yield events, meanwhile
        finally:
            self._meanwhile = None
            events.close()

    async def write_lines(self, lines: list[Event]) -> None:
        """Write lines of ours: not flushed, since what they say can be worked out again, nearly; kill -9 does not lose them."""
        try:
            async with self._lock:
                await in_thread(self.journal.append, lines, False)
        except JournalError as error:
            self.left_out.add(amount=len(lines))
            self._problems.set("journal", str(error))

    async def forget(self, cut_us: int, bundle: str) -> None:
        """Drop from the journal what is of no use to a bundle: events that it knows, and forecasts of others."""
        try:
            async with self._lock:
                await in_thread(self.journal.keep, lambda event: is_of_use(event, cut_us, bundle))
        except JournalError as error:
            log.warning("%s", error)

    async def finish(self) -> None:
        """Keep what still waits, and flush it."""
        await self._keep()
        await in_thread(self.journal.flush)

    async def _keep_until(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            await self._has_waiting.wait()
            await self._keep()

    async def _keep(self) -> None:
        """Keep all that waits, together; then take it into the history and acknowledge it. Never raises."""
        self._has_waiting.clear()
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        error: Exception | None = None
        try:
            await self._write([event for one in waiting for event in one.events])
            self._problems.clear("journal")
            if lines := await self._take_in(waiting):
                await self.write_lines(lines)
        except JournalError as refused:
            error = refused
            self._problems.set("journal", str(refused))
            self.left_out.add(amount=sum(one.line is not None for one in waiting))
        except Exception as unforeseen:
            log.exception("events could not be kept")
            error = JournalError(f"events could not be kept: {unforeseen!r}")
            self._problems.set("journal", str(error))
        for one in waiting:
            if one.done is not None and not one.done.done():  # else the sender has gone, or was answered
                one.done.set_result(None) if error is None else one.done.set_exception(error)

    async def _write(self, events: list[Event]) -> None:
        async with self._lock:
            self._writing_since_s = asyncio.get_running_loop().time()
            try:
                await in_thread(self.journal.append, events, self._flush_every_s == 0)
            finally:
                self._writing_since_s = None
            if self._meanwhile is not None:
                self._meanwhile += events

    async def _take_in(self, waiting: list[Waiting]) -> list[Event]:
        """Take what is kept into the history; return the lines of forecasts made on submission."""
        lines: list[Event] = []
        await self._turns.run("events", self._steps(waiting, lines), is_first_free=True)
        return lines

    def _steps(self, waiting: list[Waiting], lines: list[Event]) -> Iterator[None]:
        predictor = self._serving()  # one that takes over meanwhile gets it all from `loading`
        for one in waiting:
            if one.line is not None and predictor is not None and one.line.bundle == predictor.manifest.name:
                predictor.remember(one.line.p90)
            for kind, job in one.read:
                self.events.add((("kind", kind),))
                if predictor is None:
                    continue
                try:
                    predictor.take(kind, job)
                    if kind == "submitted" and (predictor.awaits(job) or job["job_key"] not in self._served):
                        while not predictor.advance(job["submit_time"], EVENTS_A_STEP):
                            yield
                        answer, line = tell_on_submission(predictor, job)
                        self._served.add(predictor.manifest.cluster, job, answer, self._clock())
                        lines += line
                except Exception:
                    log.exception("a %s event could not be taken into the history", kind)
                yield

    async def _flush(self) -> None:
        try:
            await in_thread(self.journal.flush)
        except Exception:
            self.failed_flushes.add()
            raise

    async def _watch_disk(self) -> None:
        if self._writing_since_s is not None:
            silent_s = asyncio.get_running_loop().time() - self._writing_since_s
            if silent_s > SILENT_S:
                raise JournalError(f"{self.journal.path}: the disk has not answered for more than {SILENT_S:g} s")
