from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from forebay.broker.core.delivery.lane import Answer, SettleOutcome
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import Overflow, SinkSettings
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.delivery import puller
from forebay.broker.runtime.delivery.events import Delivered, GapMet
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.broker.runtime.resources.stream_memory import COPIES, StreamMemory
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.errors.reasons import Reason
from tests.support.brokers.running import delivered_values, running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def sink(clock: FakeClock | None = None, *, records: int = 5, **settings: Any) -> AsyncIterator[Buffer]:
    async with running(clock=clock) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(ack_deadline_us=10_000_000, **settings))
        await fill(buffer, records)
        yield buffer


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0)


async def fill(buffer: Buffer, records: int) -> None:
    for _ in range(records):
        append = await buffer.append(page(b"x"))
        await append.done


async def pull(at: Subscription, records_max: int = 100, consumer_id: str = "p", wait_s: float = 0.0) -> list[int]:
    """Offsets pulled."""
    taken = await at.pullers.get(consumer_id).pull(records_max, wait_s)
    return [offset for event in taken if isinstance(event, Delivered) for offset, _ in delivered_values(event)]


async def ack(at: Subscription, first: int, end: int) -> list[SettleOutcome]:
    lane = at.lanes[0]
    results = await at.ack(0, Answer(lane.owner_epoch, lane.revision), [Range(first, end)])
    return [outcome for _, _, outcome in results]


async def test_a_pull_takes_as_many_records_as_it_asked_for_also_in_the_middle_of_a_page() -> None:
    async with sink(records=0) as buffer:
        append = await buffer.append(page(*[b"x"] * 5))
        await append.done
        at = buffer.subscription("")

        assert [await pull(at, 2), await pull(at, 2), await pull(at, 2), await pull(at, 2)] == [[0, 1], [2, 3], [4], []]


async def test_pulled_records_are_in_flight_until_they_are_answered() -> None:
    async with sink() as buffer:
        at = buffer.subscription("")
        await pull(at, 3)

        assert await ack(at, 0, 3) == [SettleOutcome.OK] * 3
        assert at.lanes[0].cursor.watermark == 3


async def test_records_that_were_taken_and_not_answered_are_released_and_it_counts_as_no_attempt() -> None:
    async with sink(max_attempts=1) as buffer:
        at = buffer.subscription("")
        taking = at.pullers.get("p")
        with suppress(ZeroDivisionError), taking.answering() as call:
            assert await taking.pull(3, 0.0, call=call)
            raise ZeroDivisionError

        assert at.lanes[0].owner is None
        assert await pull(at, 3) == [0, 1, 2]
        assert at.lanes[0].cursor.dead_lettered == 0


async def test_a_call_that_waits_while_another_one_fails_leaves_the_records_to_the_next() -> None:
    async with sink(records=3) as buffer:
        at = buffer.subscription("")
        taking = at.pullers.get("p")
        with suppress(ZeroDivisionError), taking.answering() as call:
            assert await taking.pull(3, 0.0, call=call)
            waiting = asyncio.ensure_future(taking.pull(3, 5.0))
            await until(lambda: taking.is_pulling)
            raise ZeroDivisionError
        found = await waiting

        assert found == []
        assert await pull(at, 3) == [0, 1, 2]


async def test_the_notice_of_a_gap_that_was_taken_and_not_answered_is_sent_again() -> None:
    async with sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=2, buffer_page_size=1) as buffer:
        at = buffer.subscription("")
        for _ in range(2):
            taking = at.pullers.get("p")
            with suppress(ZeroDivisionError), taking.answering() as call:
                first = (await taking.pull(1, 0.0, call=call))[0]
                assert isinstance(first, GapMet)
                raise ZeroDivisionError


async def test_pulls_of_few_records_come_to_all_partitions() -> None:
    async with sink(records=0, partitions=2) as buffer:
        for _ in range(6):
            for partition in range(2):
                await (await buffer.append(page(b"x", partition=partition))).done
        taking = buffer.subscription("").pullers.get("p")

        found = [await taking.pull(2, 0.0) for _ in range(4)]

        assert {event.partition for taken in found[:2] for event in taken if isinstance(event, Delivered)} == {0, 1}


async def test_a_call_that_took_nothing_releases_nothing() -> None:
    async with sink() as buffer:
        at = buffer.subscription("")
        before = await pull(at, 5)
        taking = at.pullers.get("p")
        with suppress(ZeroDivisionError), taking.answering() as call:
            assert await taking.pull(3, 0.0, call=call) == []
            raise ZeroDivisionError

        assert await ack(at, 0, 5) == [SettleOutcome.OK] * 5
        assert before == [0, 1, 2, 3, 4]


async def test_a_pull_takes_from_all_partitions() -> None:
    async with sink(records=0, partitions=3) as buffer:
        for partition in range(3):
            append = await buffer.append(page(b"a", b"b", partition=partition))
            await append.done

        taken = await buffer.subscription("").pullers.get("p").pull(5, 0.0)

        assert [
            (event.partition, sum(r.size for r in event.ranges)) for event in taken if isinstance(event, Delivered)
        ] == [
            (0, 2),
            (1, 2),
            (2, 1),
        ]


async def test_a_pull_reports_gaps_on_its_way() -> None:
    async with sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=2, buffer_page_size=1) as buffer:
        taken = await buffer.subscription("").pullers.get("p").pull(100, 0.0)

        assert [(e.gap.first, e.gap.end) for e in taken if isinstance(e, GapMet)] == [(0, 1), (1, 2), (2, 3)]


async def test_a_lease_lasts_from_call_to_call_and_no_longer() -> None:
    clock = FakeClock()
    async with sink(clock) as buffer:
        at = buffer.subscription("")
        for _ in range(3):
            await pull(at, 1)
            await ack(at, 0, 5)
            clock.advance(9.9)
        epoch = at.lanes[0].owner_epoch
        kept = at.lanes[0].owner
        clock.advance(10.0)
        buffer.sweep()

        assert kept == "p"
        assert at.lanes[0].owner is None
        await pull(at)
        assert at.lanes[0].owner_epoch > epoch


async def test_an_answer_extends_the_lease() -> None:
    clock = FakeClock()
    async with sink(clock) as buffer:
        at = buffer.subscription("")
        await pull(at, 2)
        clock.advance(9.0)
        await ack(at, 0, 1)
        clock.advance(9.0)
        at.extend(0, at.lanes[0].owner_epoch)
        clock.advance(9.0)
        buffer.sweep()

        assert at.lanes[0].owner == "p"


async def test_another_consumer_gets_the_records_in_flight_after_the_lease_expires() -> None:
    clock = FakeClock()
    async with sink(clock) as buffer:
        at = buffer.subscription("")
        await pull(at, 2, "first")
        waiting = await pull(at, 2, "second")
        clock.advance(5.0)
        await pull(at, 2, "second")
        clock.advance(5.0)

        assert waiting == []
        assert await pull(at, 5, "second") == [0, 1, 2, 3, 4]
        assert at.lanes[0].cursor.attempts == ((0, 1),)


async def test_a_pull_waits_for_the_first_record() -> None:
    async with sink(records=0) as buffer:
        at = buffer.subscription("")
        waiting = asyncio.ensure_future(pull(at, wait_s=30.0))
        await asyncio.sleep(0)

        await fill(buffer, 1)

        async with asyncio.timeout(10):
            assert await waiting == [0]


async def test_two_calls_of_one_consumer_continuee_after_the_other() -> None:
    async with sink() as buffer:
        at = buffer.subscription("")

        first, second = await asyncio.gather(pull(at, 3), pull(at, 3))

        assert (first, second) == ([0, 1, 2], [3, 4])


async def test_there_are_so_many_leases_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(puller, "PULLERS_MAX", 2)
    clock = FakeClock()
    async with sink(clock) as buffer:
        at = buffer.subscription("")
        for consumer_id in ("a", "b"):
            await pull(at, 0, consumer_id)

        with refusal(Reason.TOO_MANY_STREAMS):
            await pull(at, 0, "c")
        await pull(at, 0, "a")
        clock.advance(10.0)

        assert await pull(at, 2, "c") == [0, 1]


async def test_a_waiting_call_keeps_its_lease_however_short_that_is() -> None:
    clock = FakeClock()
    async with sink(clock, records=0) as buffer:
        at = buffer.subscription("")
        waiting = asyncio.ensure_future(pull(at, wait_s=1_000.0))
        await asyncio.sleep(0)
        clock.advance(20.0)
        buffer.sweep()

        await fill(buffer, 1)

        async with asyncio.timeout(10):
            assert await waiting == [0]


async def test_one_call_takes_no_more_bytes_than_can_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(puller, "ANSWER_BYTES", 2 << 20)
    async with sink(records=0) as buffer:
        for _ in range(5):
            append = await buffer.append(page(b"x" * (1 << 20)))
            await append.done
        at = buffer.subscription("")

        assert [await pull(at), await pull(at), await pull(at)] == [[0, 1], [2, 3], [4]]


async def test_a_stream_of_the_same_id_takes_the_partitions_over() -> None:
    async with sink() as buffer:
        at = buffer.subscription("")
        await pull(at, 2)

        taker = Taker(at, "p")

        assert await taker.all_offsets() == [0, 1, 2, 3, 4]
        assert await pull(at) == [0, 1, 2, 3, 4], "and a later pull takes them back"
        assert taker.consumer.closed is not None


async def test_a_pull_without_room_in_memory_waits_for_it_and_what_it_took_stays_counted() -> None:
    async with sink(records=2) as buffer:
        at, size = buffer.subscription(""), len(page(b"x").body)
        of_all = StreamMemory(size * COPIES, lambda: 0.0)
        other = of_all.share()
        await other.room(size)
        puller = at.pullers.get("p")
        memory = of_all.share(puller.consumer.wakeup.set)
        pulling_ = asyncio.ensure_future(puller.pull(1, 0.0, memory))
        await until(lambda: memory.is_short)
        early = pulling_.done()

        other.close()
        taken = await pulling_

        assert not early
        assert len(taken) == 1
        assert memory.held == size * COPIES == of_all.budget.used


async def test_a_pull_that_takes_a_part_leaves_the_line_for_more_room() -> None:
    async with sink(records=2) as buffer:
        at, size = buffer.subscription(""), len(page(b"x").body)
        of_all = StreamMemory(size * COPIES, lambda: 0.0)
        puller = at.pullers.get("p")
        memory = of_all.share(puller.consumer.wakeup.set)

        taken = await puller.pull(2, 0.0, memory)
        memory.close()

        assert len(taken) == 1
        assert of_all.share().reserve(size)
