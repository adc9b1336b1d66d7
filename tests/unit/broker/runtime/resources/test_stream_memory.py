"""Streams wait for room in their order, and the one that takes nothing is ended for them."""

from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.resources.stream_budget import STALLED_S
from forebay.broker.runtime.resources.stream_memory import CALM_S, COPIES, Share, StreamMemory

pytestmark = pytest.mark.anyio
PAGES = 1_000


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def memory(*, pages: int = PAGES, clock: Clock | None = None, shed: list[int] | None = None) -> StreamMemory:
    return StreamMemory(pages * COPIES, clock or Clock(), on_shed=(shed if shed is not None else []).append)


async def test_a_share_without_a_budget_has_room_for_everything() -> None:
    share = Share()

    assert share.reserve(1 << 40)
    assert share.step_bytes is None
    await share.settled()


async def test_pages_are_counted_with_the_copy_of_the_transport() -> None:
    of_all = memory()

    assert of_all.share().reserve(PAGES)

    assert of_all.budget.used == PAGES * COPIES


async def test_a_stream_waits_until_another_one_has_given_room() -> None:
    of_all = memory()
    first, second = of_all.share(), of_all.share()
    await first.room(PAGES)
    waiting = asyncio.ensure_future(second.room(PAGES))
    await asyncio.sleep(0)
    assert not waiting.done()

    first.release_pages(PAGES)
    async with asyncio.timeout(5):
        await waiting

    assert (first.held, second.held) == (0, PAGES * COPIES)


async def test_a_share_that_was_refused_is_woken_when_there_is_room() -> None:
    woken: list[str] = []
    of_all = memory()
    first = of_all.share()
    first.reserve(PAGES)
    second = of_all.share(lambda: woken.append("second"))
    assert not second.reserve(PAGES)

    first.release_pages(PAGES)

    assert woken == ["second"]
    assert second.reserve(PAGES)


async def test_a_beginner_goes_before_a_stream_that_wants_more() -> None:
    woken: list[str] = []
    of_all = memory()
    first, full = of_all.share(lambda: woken.append("more")), of_all.share()
    assert first.reserve(PAGES // 4)
    assert full.reserve(PAGES * 3 // 4)
    assert not first.reserve(PAGES // 4)
    beginner = of_all.share(lambda: woken.append("beginner"))
    assert not beginner.reserve(PAGES // 4)

    full.release_pages(PAGES * 3 // 4)

    assert woken[0] == "beginner"


async def test_one_that_was_woken_and_wants_nothing_keeps_no_stream_waiting() -> None:
    woken: list[str] = []
    of_all = memory()
    full = of_all.share()
    full.reserve(PAGES)
    of_all.share(lambda: woken.append("gone")).reserve(PAGES)
    of_all.share(lambda: woken.append("next")).reserve(PAGES)
    full.release_pages(PAGES)
    assert woken == ["gone"]

    of_all.check()

    assert woken == ["gone", "next"]


async def test_the_end_of_a_stream_gives_everything_back() -> None:
    of_all = memory()
    with of_all.share() as share:
        share.reserve(10)
        share.acquire(7)

    assert of_all.budget.used == 0


async def test_a_stream_whose_peer_takes_nothing_is_ended_when_others_wait() -> None:
    clock, shed = Clock(), list[int]()
    of_all = memory(clock=clock, shed=shed)
    stalled, waiting = of_all.share(), of_all.share()
    stalled.reserve(PAGES)
    clock.now += STALLED_S
    of_all.check()
    assert not stalled.shed.is_set()

    assert not waiting.reserve(1)
    of_all.check()
    of_all.check()

    assert stalled.shed.is_set()
    assert not waiting.shed.is_set()
    assert shed == [PAGES * COPIES]


async def test_one_look_does_not_end_all_slow_streams() -> None:
    clock, shed = Clock(), list[int]()
    of_all = memory(clock=clock, shed=shed)
    slow = [of_all.share() for _ in range(10)]
    for share in slow:
        share.reserve(PAGES // 10)
    for _ in range(10):
        of_all.share().reserve(PAGES // 10)
    clock.now += STALLED_S

    of_all.check()

    assert sum(share.shed.is_set() for share in slow) == 3


async def test_a_stream_with_results_that_the_peer_does_not_read_continues_only_while_others_have_room() -> None:
    of_all = memory()
    share, other = of_all.share(), of_all.share()
    share.acquire(PAGES)
    async with asyncio.timeout(5):
        await share.settled()
    other.reserve(PAGES * 3 // 4)
    waiting = asyncio.ensure_future(share.settled())
    await asyncio.sleep(0)
    assert not waiting.done()

    share.release(PAGES)
    async with asyncio.timeout(5):
        await waiting


async def test_streams_are_ended_until_the_first_in_the_line_has_room_however_much_it_wants() -> None:
    clock, shed = Clock(), list[int]()
    of_all = memory(clock=clock, shed=shed)
    for _ in range(4):
        of_all.share().reserve(PAGES // 5)
    assert not of_all.share().reserve(PAGES * 3 // 4)
    clock.now += STALLED_S

    of_all.check()

    assert len(shed) == 3


async def test_no_stream_is_ended_for_a_stream_that_holds_something_and_wants_more() -> None:
    clock, shed = Clock(), list[int]()
    of_all = memory(clock=clock, shed=shed)
    slow = [of_all.share() for _ in range(3)]
    for share in slow:
        share.reserve(PAGES // 4)
        share.reserve(PAGES // 4)
    clock.now += STALLED_S

    of_all.check()

    assert shed == []


async def test_whose_turn_it_is_takes_room_though_others_wait_behind() -> None:
    of_all = memory()
    full = of_all.share()
    full.reserve(PAGES)
    waiting = [of_all.share() for _ in range(3)]
    for share in waiting:
        share.reserve(PAGES * 2 // 3)

    full.release_pages(PAGES)

    assert [share.reserve(PAGES * 2 // 3) for share in waiting] == [True, False, False]


async def test_memory_is_released_once_after_a_peak() -> None:
    clock = Clock()
    of_all = memory(clock=clock)
    with of_all.share() as share:
        share.reserve(PAGES)
        clock.now += CALM_S
        during = of_all.calmed()

    assert not during
    assert of_all.calmed()
    assert not of_all.calmed()


async def test_a_stream_that_asks_again_and_again_keeps_its_place_in_the_queue() -> None:
    of_all = memory()
    holding = of_all.share()
    holding.reserve(PAGES)
    woken: list[str] = []
    asking, others = of_all.share(lambda: woken.append("asking")), of_all.share(lambda: woken.append("others"))
    assert not asking.reserve(PAGES)
    assert not others.reserve(PAGES)
    assert not asking.reserve(PAGES)

    holding.release_pages(PAGES)

    assert woken == ["asking"]
    assert asking.reserve(PAGES)


async def test_a_stream_that_was_woken_and_finds_no_room_is_the_next_one() -> None:
    of_all = memory()
    holding = of_all.share()
    holding.reserve(PAGES)
    woken: list[str] = []
    first, second = of_all.share(lambda: woken.append("first")), of_all.share(lambda: woken.append("second"))
    assert not first.reserve(PAGES // 2)
    assert not second.reserve(PAGES)
    holding.release_pages(PAGES // 2)
    assert not first.reserve(PAGES)  # it was woken for less

    holding.release_pages(PAGES // 2)

    assert woken == ["first", "first"]


async def test_a_stream_that_is_first_and_fits_takes_room_before_it_is_woken() -> None:
    of_all = memory()
    holding, first = of_all.share(), of_all.share()
    holding.reserve(PAGES)
    assert not first.reserve(PAGES)

    of_all.budget.remove(holding._account, holding.held, 0.0)

    assert first.reserve(PAGES)
