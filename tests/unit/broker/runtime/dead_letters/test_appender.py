"""Dead letters appended by the page: in order, over many pages, with the body of a page that cannot be cut once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from forebay.broker.core.dead_letters.letters import Filter
from forebay.broker.core.delivery.lane import SettleOutcome
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import SinkSettings
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.dead_letters.appender import ENTRIES_MAX
from forebay.broker.runtime.dead_letters.operations import DeadLetterOperations
from forebay.broker.runtime.sink.buffer import Buffer
from tests.support.brokers.dead_letters import letters
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import running
from tests.support.brokers.taker import Taker
from tests.support.pages import row_pages

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def orders(**settings: Any) -> AsyncIterator[tuple[Broker, Buffer]]:
    async with running() as broker:
        chosen = SinkSettings(**{"buffer_page_size": 1, "dlq_ratio_max": 1.0, **settings})
        buffer, _ = await broker.create("orders", chosen)
        yield broker, buffer


async def reject(taker: Taker, *parts: Range, partition: int = 0) -> None:
    answer = taker.answer(partition)
    results = await taker.subscription.reject(partition, answer, list(parts), reason="no such customer")
    assert {outcome for _, _, outcome in results} == {SettleOutcome.OK}


async def test_records_of_more_pages_than_are_read_at_once_keep_their_order() -> None:
    count = ENTRIES_MAX + 6
    async with orders() as (broker, buffer):
        await fill(buffer, count, records=2)
        taker = Taker(buffer.subscription(""))
        await taker.take_all()

        await reject(taker, Range(1, 5), Range(8, 2 * count - 1))

        found = await letters(broker)
        assert [one.origin.offset for one in found if one.origin] == [*range(1, 5), *range(8, 2 * count - 1)]
        assert not any(one.uncut for one in found)


async def test_partitions_that_the_dead_letter_sink_lacks_share_those_it_has() -> None:
    async with orders(partitions=1) as (broker, buffer):
        await fill(buffer, 1)
        taker = Taker(buffer.subscription(""))
        await taker.take_all()
        await reject(taker, Range(0, 1))
        await buffer.change(buffer.settings.changed({"partitions": 3}))
        await fill(buffer, 1, partition=2)
        await taker.take_all(2)

        await reject(taker, Range(0, 1), partition=2)

        assert len(broker.sink("orders.dlq").logs) == 1
        assert [one.origin.partition for one in await letters(broker) if one.origin] == [0, 2]


async def test_a_dead_letter_sink_that_was_deleted_is_created_again() -> None:
    async with orders() as (broker, buffer):
        await fill(buffer, 2)
        taker = Taker(buffer.subscription(""))
        await taker.take_all()
        await reject(taker, Range(0, 1))
        await broker.delete("orders.dlq", force=True)

        await reject(taker, Range(1, 2))

        assert [one.origin.offset for one in await letters(broker) if one.origin] == [1]


async def test_the_body_of_a_page_that_cannot_be_cut_is_in_one_dead_letter_as_long_as_that_exists() -> None:
    async with orders() as (broker, buffer):
        rows = row_pages.page(version=9)  # which is not registered
        await (await buffer.append(rows)).done
        taker = Taker(buffer.subscription(""))
        await taker.take_all()
        await reject(taker, Range(0, 1))
        await reject(taker, Range(1, 2))
        assert [one.record.value for one in await letters(broker)] == [rows.body, b""]

        await DeadLetterOperations(broker, "orders").purge(Filter(), 1_000, None)
        await reject(taker, Range(2, 3))

        last = (await letters(broker))[-1]
        assert last.origin is not None
        assert (last.origin.offset, last.record.value) == (2, rows.body)
