from __future__ import annotations

import pytest

from forebay.broker.runtime.delivery.consumer import UNSENT_BYTES, Credit, Unsent
from forebay.broker.runtime.resources.stream_memory import StreamMemory
from forebay.broker.runtime.sink.buffer import Buffer
from tests.support.brokers.one_sink import fill, sink
from tests.support.brokers.running import PLENTY
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio
MIB = 1 << 20


def join(buffer: Buffer, *, records: int = PLENTY.records, size: int = PLENTY.size) -> Taker:
    return Taker(buffer.subscription(""), "a", Credit(records, size))


async def test_credit_in_records_is_passed_by_at_most_one_page() -> None:
    async with sink() as buffer:
        await fill(buffer, 10, records=4)
        taker = join(buffer, records=10)

        assert await taker.all_offsets() == list(range(12))
        await taker.ack(0, 1)
        assert await taker.all_offsets() == []
        await taker.ack(1, 3)
        assert await taker.all_offsets() == [12, 13, 14, 15]


async def test_credit_in_bytes_is_passed_by_at_most_one_page() -> None:
    async with sink() as buffer:
        await fill(buffer, 10, size=1_000)
        taker = join(buffer, size=2_500)

        assert await taker.all_offsets() == [0, 1, 2]
        await taker.ack(0, 1)
        assert await taker.all_offsets() == [3]


async def test_a_page_larger_than_the_credit_is_sent_when_nothing_is_in_flight() -> None:
    async with sink() as buffer:
        await fill(buffer, 3, size=1_000)
        taker = join(buffer, size=1)

        assert await taker.all_offsets() == [0]
        await taker.ack(0, 1)
        assert await taker.all_offsets() == [1]


@pytest.mark.parametrize("unsent", [Unsent(4, 1), Unsent(1, 4_000)], ids=["records", "bytes"])
async def test_records_that_wait_to_be_sent_use_credit_even_if_they_were_revoked(unsent: Unsent) -> None:
    async with sink() as buffer:
        await fill(buffer, 3, size=1_000)
        taker = join(buffer, records=4, size=4_000)
        taker.consumer.unsent = unsent
        nothing = await taker.all_offsets()

        taker.consumer.unsent = Unsent(1, 1_000)

        assert nothing == []
        assert await taker.all_offsets() == [0, 1, 2]


async def test_no_credit_no_records() -> None:
    async with sink() as buffer:
        await fill(buffer, 3)
        taker = join(buffer, records=0)
        nothing = await taker.all_offsets()

        taker.consumer.credit = Credit(2, MIB)

        assert nothing == []
        assert await taker.all_offsets() == [0, 1]


async def test_the_sink_bounds_what_is_in_flight_whatever_the_consumer_offers() -> None:
    async with sink(in_flight_bytes_max=64 << 10) as buffer:
        await fill(buffer, 5, size=30 << 10)
        taker = join(buffer)

        assert await taker.all_offsets() == [0, 1, 2]


async def test_one_credit_counts_over_all_partitions() -> None:
    async with sink(partitions=2) as buffer:
        for partition in (0, 1):
            append = await buffer.append(page(b"a", b"b", partition=partition))
            await append.done
        taker = join(buffer, records=2)

        assert await taker.all_offsets(0) == [0, 1]
        assert await taker.all_offsets(1) == []


async def test_revoked_records_release_their_credit() -> None:
    async with sink(retry_backoff_min_us=1_000, retry_backoff_max_us=1_000) as buffer:
        await fill(buffer, 10)
        taker = join(buffer, records=10)
        await taker.all_offsets()

        await taker.nack(2, 3)

        assert taker.consumer.usage.records == 2


async def test_of_a_large_credit_only_what_the_next_sends_need_waits_in_memory() -> None:
    async with sink() as buffer:
        await fill(buffer, 3, size=1_000)
        taker = join(buffer)
        taker.consumer.unsent = Unsent(1, UNSENT_BYTES)
        nothing = await taker.all_offsets()

        taker.consumer.unsent = Unsent(1, UNSENT_BYTES - 1)

        assert nothing == []
        assert await taker.all_offsets() == [0, 1, 2]


async def test_a_consumer_without_room_in_memory_is_sent_nothing_until_there_is_some() -> None:
    memory = StreamMemory(1 << 20, lambda: 0.0)
    async with sink() as buffer:
        await fill(buffer, 1, size=1_000)
        taker = join(buffer)
        taker.consumer.memory = memory.share()
        with memory.share() as other:
            other.acquire(1 << 20)
            nothing = await taker.all_offsets()

        assert nothing == []
        assert await taker.all_offsets() == [0]
        assert memory.budget.used == taker.consumer.memory.held > 0
