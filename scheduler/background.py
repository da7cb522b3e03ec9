"""Background loops that nothing ends, and what is wrong at the moment: for the log, the health page and the metrics."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from runcast.data.errors import RuncastError

Result = TypeVar("Result")

log = logging.getLogger("runcast.service")


class Problems:
    """What is wrong, by the part that has it; each is logged when it comes, when it changes and when it is over."""

    def __init__(self) -> None:
        self._by_part: dict[str, str] = {}

    def __str__(self) -> str:
        return "; ".join(self._by_part.values())

    def __bool__(self) -> bool:
        return bool(self._by_part)

    def parts(self) -> list[str]:
        return list(self._by_part)

    def get(self, part: str) -> str:
        """Return what is wrong with a part, empty where nothing is."""
        return self._by_part.get(part, "")

    def set(self, part: str, problem: str) -> None:
        if self._by_part.get(part) != problem:
            log.error("%s", problem)
        self._by_part[part] = problem

    def clear(self, part: str) -> None:
        if self._by_part.pop(part, None) is not None:
            log.info("%s: works again", part)


async def repeat(
    part: str, step: Callable[[], Awaitable[None]], every_s: float, stopping: asyncio.Event, problems: Problems
) -> None:
    """Run `step` every `every_s` until `stopping` is set, whatever it raises: that is a problem of `part` until it succeeds."""
    while not stopping.is_set():
        try:
            async with asyncio.timeout(every_s):
                await stopping.wait()
                return
        except TimeoutError:
            pass
        try:
            await step()
            problems.clear(part)
        except RuncastError as error:
            problems.set(part, str(error))
        except Exception as error:
            if not problems.get(part):
                log.exception("%s failed", part)
            problems.set(part, f"{part}: {error!r}")


async def in_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """Run a function in a thread; a caller that is cancelled does not stop it."""
    return await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, function, *arguments))
