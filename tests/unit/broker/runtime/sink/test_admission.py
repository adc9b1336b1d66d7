"""Admission: live and staged records pass the same gates, in one order, until none of them has to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from forebay.broker.core.errors import BrokerError, ReadFailed, SinkFull, SinkNotFound
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.settings import BufferMode, Overflow
from forebay.broker.runtime.broker import Bounds
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.one_sink import fill, sink
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio


async def refusals(records: int, size: int, **settings: Any) -> list[type[BrokerError] | None]:
    """The answers to a live and to a staged page of that size in a sink with three records of 10 bytes."""
    bounds = Bounds(stored_bytes=1_000)
    async with sink(MemoryStore(), bounds=bounds, **settings) as buffer:
        await fill(buffer, 3)
        found: list[type[BrokerError] | None] = []
        body = page(*[b"x" * size] * records)
        for asking in (buffer.admission.admit([body]), buffer.admission.admit_staged(records, len(body.body))):
            try:
                await asking
            except BrokerError as error:
                found.append(type(error))
            else:
                found.append(None)
        return found


@pytest.mark.parametrize(
    ("records", "size", "limits"),
    [
        (1, 10, {}),
        (3, 10, {"max_disk_cache": 5}),
        (6, 10, {"max_disk_cache": 5}),
        (1, 2_000, {}),
    ],
)
async def test_live_and_staged_records_are_refused_for_the_same_reason(
    records: int, size: int, limits: dict[str, int]
) -> None:
    live, staged = await refusals(records, size, overflow=Overflow.REJECT, **limits)

    assert live is staged


async def test_no_live_record_is_dropped_for_one_that_is_staged() -> None:
    async with sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=3) as buffer:
        await fill(buffer, 3)
        await buffer.admission.admit_staged(3, 30)
        buffer.state.staged.records = 3

        with pytest.raises(SinkFull):
            await buffer.admission.admit_staged(1, 10)

        assert buffer.logs[0].records == 3
        buffer.state.staged.records = 0


def make_unreadable(buffer: Buffer, partitions: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let index reads of partitions fail, of which nothing is in memory, as after a start."""
    pages = buffer.admission._pages

    def failing(load: Callable[[int, PartitionLog], Awaitable[None]]) -> Callable[[int, PartitionLog], Awaitable[None]]:
        async def wrapped(sink_id: int, log: PartitionLog) -> None:
            if log.number in partitions:
                raise ReadFailed("Input/output error")
            await load(sink_id, log)

        return wrapped

    for name in ("load_oldest", "load_more"):
        monkeypatch.setattr(pages, name, failing(getattr(pages, name)))
    for number in partitions:
        buffer.logs[number].recent.clear()


async def test_a_partition_whose_index_cannot_be_read_leaves_it_to_the_others_to_drop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=4, partitions=2) as buffer:
        for partition in (0, 1):
            await fill(buffer, 2, partition=partition)
        make_unreadable(buffer, {0}, monkeypatch)

        await fill(buffer, 1, partition=1)

        assert [log.records for log in buffer.logs] == [2, 2]
        assert buffer.logs[1].earliest == 1


async def test_an_append_is_refused_when_no_partition_can_tell_what_to_drop(monkeypatch: pytest.MonkeyPatch) -> None:
    async with sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=4, partitions=2) as buffer:
        for partition in (0, 1):
            await fill(buffer, 2, partition=partition)
        make_unreadable(buffer, {0, 1}, monkeypatch)

        with pytest.raises(ReadFailed):
            await fill(buffer, 1)

        assert [log.records for log in buffer.logs] == [2, 2]


async def test_a_request_that_waited_is_asked_at_every_gate_again() -> None:
    async with sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=1) as buffer:
        queued = await buffer.append(page(b"first"))  # it waits for its batch, so it cannot be dropped yet
        asking = asyncio.ensure_future(buffer.admission.admit([page(b"second")]))
        await asyncio.sleep(0)
        assert not asking.done()
        buffer.state.end()
        await queued.done

        with pytest.raises(SinkNotFound):
            await asking
        buffer.state.deleted = False


async def test_no_live_page_is_evicted_for_a_staged_one_while_memory_is_short() -> None:
    async with sink(buffer_mode=BufferMode.MEMORY) as buffer:
        await fill(buffer, 3)
        buffer.admission._memory.overloaded = True

        await buffer.admission.admit_staged(1, 10)
        assert buffer.logs[0].records == 3
        await buffer.admission.admit([page(b"x")])

        assert buffer.logs[0].records == 2
        buffer.admission._memory.overloaded = False
