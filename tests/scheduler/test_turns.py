"""Long work goes in slices: one at a time, and each peer's as often as every other's."""

import asyncio
from collections.abc import Iterator

import pytest

from runcast.scheduler import turns
from runcast.scheduler.turns import Turns

pytestmark = pytest.mark.attack


def _run(*works: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> str:
    """Run works of so many steps, each a slice, all at once; return the peers in the order of their slices."""
    monkeypatch.setattr(turns, "SLICE_S", 0.0)
    done: list[str] = []

    def steps(peer: str, count: int) -> Iterator[None]:
        for _ in range(count):
            done.append(peer)
            yield

    async def scenario() -> None:
        line = Turns()
        await asyncio.gather(*(line.run(peer, steps(peer, count)) for peer, count in works))

    asyncio.run(asyncio.wait_for(scenario(), 20))
    return "".join(done)


def test_peer_with_many_requests_gets_no_more_slices_than_one_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    order = _run(*[("a", 10)] * 20, ("b", 10), monkeypatch=monkeypatch)
    assert order.count("a") == 200
    assert order.rindex("b") <= 2 * 10 + 2, "b is done after as many slices of a as of its own"


def test_short_work_is_done_at_once_where_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> list[str]:
        line, done = Turns(), list[str]()

        def steps(name: str, count: int) -> Iterator[None]:
            for _ in range(count):
                yield
            done.append(name)

        long = asyncio.create_task(line.run("a", steps("long", 10_000_000)))
        await asyncio.sleep(0)
        await line.run("a", steps("short", 1), is_first_free=True)
        long.cancel()
        return done

    assert asyncio.run(asyncio.wait_for(scenario(), 20)) == ["short"]


def test_what_a_step_raises_ends_its_work_and_nobody_elses() -> None:
    def bad() -> Iterator[None]:
        yield
        raise ValueError("bad")

    async def scenario() -> None:
        line = Turns()
        with pytest.raises(ValueError, match="bad"):
            await line.run("a", bad())
        await line.run("a", iter([None, None]))

    asyncio.run(asyncio.wait_for(scenario(), 20))
