"""Which bundle serves: looks at the link, loads a new bundle in a thread, and lets it take over between two requests.

A bundle that cannot be served leaves the old one in place until that one expires, and is tried again every half minute.
"""

import gc
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from runcast.data.errors import RuncastError
from runcast.scheduler.background import Problems, in_thread
from runcast.scheduler.bundle import MANIFEST, is_expired, resolve
from runcast.scheduler.catching_up import catch_up
from runcast.scheduler.errors import BundleMismatch, JournalError
from runcast.scheduler.intake import Intake
from runcast.scheduler.journal import Event, Snapshot
from runcast.scheduler.metrics import Counter
from runcast.scheduler.predictor import Predictor

LOOKS_TO_A_TRY = (
    30  # a refused bundle is tried again: half of it may have been copied so far, or the key was not the right one yet
)
MOST_AT_TAKEOVER = (
    64  # events that a new bundle takes in while requests wait: some 10 ms; it takes in the others before, in its thread
)
BUNDLE = "bundle"  # the part of the problems

log = logging.getLogger("runcast.service")


@dataclass(frozen=True)
class Required:
    """What this host asks of a bundle, None for nothing: the key of its pseudonyms, its cluster, who must have signed it."""

    pseudonym_key: Path | None = None
    cluster: str | None = None
    signers: Path | None = None


class Rollover:
    """The bundle that serves, of `bundles`: a bundle, or a folder with a `current` link."""

    def __init__(
        self, bundles: Path, intake: Intake, problems: Problems, required: Required, clock: Callable[[], datetime]
    ) -> None:
        self.predictor: Predictor | None = None
        self.loads = Counter("runcast_bundle_loads_total", "Bundles tried, by outcome.")
        self._bundles, self._intake, self._problems = bundles, intake, problems
        self._required, self._clock = required, clock
        self._looked_at: tuple[Path, int] | None = None  # the latest that was tried, good or bad, and when it was written
        self._looks_left = 0  # until the latest one, which was refused, is tried again; below 0: it serves

    def serving(self) -> Predictor | None:
        """Return what serves, None where nothing does."""
        predictor = self.predictor
        return None if predictor is None or is_expired(predictor.manifest, self._clock()) else predictor

    def reason(self) -> str:
        """Return why nothing serves."""
        problem = self._problems.get(BUNDLE)
        if self.predictor is None:
            return problem or "no bundle has been loaded yet"
        return f"the bundle expired at {self.predictor.manifest.valid_until}" + (f"; {problem}" if problem else "")

    async def look(self) -> None:
        """Load the bundle that the link points to, where it is another one than the latest tried; says what is wrong with it."""
        try:
            bundle = resolve(self._bundles)
            found = (bundle, (bundle / MANIFEST).stat().st_mtime_ns)
        except (RuncastError, OSError) as error:
            self._problems.set(BUNDLE, str(error))
            return
        if found == self._looked_at:
            if self._looks_left < 0:
                self._problems.clear(BUNDLE)  # the link may have led nowhere for a moment
                return
            self._looks_left -= 1
            if self._looks_left > 0:
                return
        self._looked_at, self._looks_left = found, LOOKS_TO_A_TRY
        try:
            await self._take_over(bundle)
        except JournalError as error:
            self._problems.set(BUNDLE, f"{bundle.name} is not served: {error}")
            self._looked_at = None  # tried again at the next look
        except Exception as error:  # noqa: BLE001 - RuncastError says it well; anything else is one more reason not to serve that bundle
            self.loads.add((("outcome", "refused"),))
            reason = error if isinstance(error, RuncastError | OSError) else repr(error)
            self._problems.set(BUNDLE, f"{bundle.name} is not served: {reason}")

    async def _take_over(self, bundle: Path) -> None:
        async with self._intake.loading() as (events, meanwhile):
            predictor, lines = await in_thread(_load, bundle, self._clock(), self._required, events)
            while len(meanwhile) > MOST_AT_TAKEOVER:
                some = meanwhile[:]
                del meanwhile[:]
                lines += await in_thread(catch_up, predictor, some)
            lines += catch_up(predictor, meanwhile)
            self.predictor = predictor
        self._problems.clear(BUNDLE)
        self._looks_left = -1
        gc.freeze()  # no collection walks the history: it stays until the next bundle
        self.loads.add((("outcome", "served"),))
        log.info("serving %s, history up to %s and events since", bundle.name, predictor.manifest.data_cut)
        if lines:
            await self._intake.write_lines(lines)
        await self._intake.forget(predictor.cut_us, predictor.manifest.name)


def _load(bundle: Path, now: datetime, required: Required, events: Snapshot) -> tuple[Predictor, list[Event]]:
    key = required.pseudonym_key
    predictor = Predictor.load(bundle, now=now, pseudonym_key=key, cluster=required.cluster, signers=required.signers)
    if key is not None and predictor.manifest.pseudonyms is None:  # clear names would be kept, against the wish
        raise BundleMismatch(
            f"{bundle}: holds names in clear, but a key for pseudonyms was given. Set `pseudonymise` in the cluster file of "
            f"{predictor.manifest.cluster}, or leave the key out."
        )
    return predictor, catch_up(predictor, events)
