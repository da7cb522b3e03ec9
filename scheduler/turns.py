"""Long work in slices, so that nobody waits for long: one slice at a time, and each peer's as often as every other's."""

import asyncio
import time
from collections.abc import Iterator
from weakref import WeakValueDictionary

SLICE_S = 0.002


class Turns:
    """Who works next. Peers are names; what one does never delays another by more than a slice for each peer that works."""

    def __init__(self) -> None:
        self._slice = asyncio.Lock()
        self._of_peer: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, peer: str, steps: Iterator[None], is_first_free: bool = False) -> None:
        """Exhaust `steps` in slices of about SLICE_S; with `is_first_free` the first one is taken at once, outside the line."""
        if is_first_free and _slice(steps):
            return
        lock = self._of_peer.setdefault(peer, asyncio.Lock())
        while True:
            async with lock, self._slice:
                if _slice(steps):
                    return
                await asyncio.sleep(0)  # whoever is not in the line gets a turn before the next slice, of whoever has it


def _slice(steps: Iterator[None]) -> bool:
    """Take steps for a slice; return whether they are exhausted."""
    until_s = time.perf_counter() + SLICE_S
    return all(time.perf_counter() < until_s for _ in steps)
