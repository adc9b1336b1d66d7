"""Buffer modes while a broker runs: what goes where, in which order, and how safe it is said to be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from forebay.broker.core.errors import InvalidSetting, SinkFull
from forebay.broker.core.partition.pages import DropReason, Durability
from forebay.broker.core.publish.writer import Slot
from forebay.broker.core.settings import BufferMode, Overflow, SinkSettings
from forebay.broker.core.writes import PutSlot
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.delivery.events import Delivered
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.memory_tier import SLOTS_MIN
from forebay.broker.runtime.sink.statistics import sink_state
from forebay.broker.storage.records.accepted import AcceptedInMemory
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.running import begin
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio


class Machine:
    """A machine whose broker can be stopped, killed, or cut off from its power."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()
        self.accepted = AcceptedInMemory()

    @asynccontextmanager
    async def broker(self) -> AsyncIterator[Broker]:
        """A broker that is stopped in order at the end."""
        broker = self._broker = begin(self.store, FakeClock(), accepted=self.accepted)
        try:
            yield broker
        finally:
            await broker.close()
            self.store, self.accepted = self.store.reopen(), self.accepted.killed()

    def press(self) -> None:
        """The process uses too much memory from now on."""
        self._broker.memory.overloaded = True

    @asynccontextmanager
    async def sink(self, **settings: Any) -> AsyncIterator[Buffer]:
        """Its sink `orders`: made when settings are given, else as it was left."""
        async with self.broker() as broker:
            if settings:
                await broker.create("orders", SinkSettings(**settings))
            yield broker.sink("orders")


def spill(memory: int, page_size: int = 2, disk: int = 0, **settings: Any) -> dict[str, Any]:
    return {
        "buffer_mode": BufferMode.SPILL,
        "memory_cache_threshold": memory,
        "buffer_page_size": page_size,
        "max_disk_cache": disk,
        **settings,
    }


async def fill(buffer: Buffer, first: int, end: int, *, at_once: int = 1) -> list[Durability]:
    """Append the records ``first`` to ``end``, several in a page; how safe each page was said to be."""
    levels: list[Durability] = []
    for at in range(first, end, at_once):
        append = await buffer.append(page(*[b"%d" % n for n in range(at, min(at + at_once, end))]))
        await append.done
        levels.append(buffer.tier.level(0, append.first, append.first + append.page.record_count))
    return levels


def taker(buffer: Buffer) -> Taker:
    return Taker(buffer.subscription("default"))


async def settled(buffer: Buffer) -> None:
    """Wait until what is settled was trimmed."""
    async with asyncio.timeout(10):
        while any(log.pages and buffer.state.settled(log) >= log.tail.next_offset for log in buffer.logs):
            await asyncio.sleep(0.001)


COPIES = bytes(4)
"""Sink 0: no sink has that number."""


def entries_on_disk(store: MemoryStore) -> int:
    """The number of entries except the copies of the sinks' own records, which are in the same family."""
    return sum(not key.startswith(COPIES) for key, _ in store.scan(Family.INDEX, b"", b"\xff" * 20, 1_000))


async def test_below_the_threshold_nothing_is_on_the_disk() -> None:
    machine = Machine()
    async with machine.sink(**spill(4)) as buffer:
        assert await fill(buffer, 0, 4, at_once=2) == [Durability.MEMORY] * 2

        assert entries_on_disk(machine.store) == 0
        [state] = (await sink_state(buffer)).partitions
        assert (state.memory_records, state.records, state.durability) == (4, 4, Durability.MEMORY)


async def test_above_the_threshold_exactly_the_excess_is_on_the_disk_and_the_order_is_kept() -> None:
    machine = Machine()
    async with machine.sink(**spill(4)) as buffer:
        levels = await fill(buffer, 0, 10, at_once=2)

        assert levels == [Durability.MEMORY] * 2 + [Durability.DISK] * 3
        assert entries_on_disk(machine.store) == 3
        [state] = (await sink_state(buffer)).partitions
        assert (state.memory_records, state.records) == (4, 10)
        assert await taker(buffer).all_offsets() == list(range(10))


async def test_once_it_spills_it_continues_to_the_disk_until_readers_have_caught_up() -> None:
    machine = Machine()
    async with machine.sink(**spill(2)) as buffer:
        await fill(buffer, 0, 4, at_once=2)
        hand = taker(buffer)
        await hand.all_offsets()
        await hand.ack(0, 2)
        assert await fill(buffer, 4, 6, at_once=2) == [Durability.DISK]  # memory is empty, the disk is not
        await hand.all_offsets()
        await hand.ack(2, 6)
        assert await fill(buffer, 6, 8, at_once=2) == [Durability.MEMORY]


async def test_a_delivery_reports_the_least_safe_of_its_pages() -> None:
    machine = Machine()
    async with machine.sink(**spill(2)) as buffer:
        await fill(buffer, 0, 4, at_once=2)
        hand = taker(buffer)

        event = await hand.take()
        assert isinstance(event, Delivered)
        assert event.durability is Durability.MEMORY
        await hand.ack(0, 4)
        await fill(buffer, 4, 6)


async def test_overflow_drops_one_run_of_the_oldest_whole_pages() -> None:
    machine = Machine()
    async with machine.sink(**spill(2, disk=6, overflow=Overflow.DROP_OLDEST)) as buffer:
        hand = taker(buffer)
        for first, end, taken in ((0, 2, 0), (2, 4, 1), (4, 7, 2)):
            await fill(buffer, first, end)
            assert await hand.one() == [taken]
            await hand.ack(taken, taken + 1)
        assert buffer.state.pending == 4
        await fill(buffer, 7, 15)

        [gap] = buffer.logs[0].gaps if len(buffer.logs[0].gaps) == 1 else [None]
        dropped = sorted(o for g in buffer.logs[0].gaps for o in range(g.first, g.end))
        assert dropped == list(range(3, 3 + len(dropped)))
        assert dict(buffer.logs[0].head.dropped) == {DropReason.OVERFLOW: len(dropped)}
        assert (await hand.all_offsets())[-2:] == [13, 14]
        assert buffer.state.pending == 8
        assert gap is None or gap.reason is DropReason.OVERFLOW


async def test_a_stop_and_a_start_keep_what_was_pending() -> None:
    machine = Machine()
    async with machine.sink(**spill(2, disk=4, overflow=Overflow.DROP_OLDEST)) as buffer:
        await fill(buffer, 0, 10, at_once=2)
        assert buffer.state.pending == 6

    async with machine.sink() as buffer:
        assert buffer.state.pending == 6
        assert (await taker(buffer).all_offsets())[0] == 4


async def test_a_sink_that_is_never_written_is_empty_after_a_stop_and_counts_it() -> None:
    machine = Machine()
    async with machine.sink(buffer_mode=BufferMode.MEMORY, memory_cache_threshold=256) as buffer:
        assert await fill(buffer, 0, 5) == [Durability.MEMORY] * 5

    assert entries_on_disk(machine.store) == 0
    async with machine.sink() as buffer:
        assert buffer.state.pending == 0
        assert dict(buffer.logs[0].head.dropped) == {DropReason.CLEANED_AT_STOP: 5}
        assert (await fill(buffer, 5, 6), buffer.logs[0].tail.next_offset) == ([Durability.MEMORY], 6)


@pytest.mark.parametrize(("memory", "page_size", "disk"), [(4, 2, 12), (4, 2, 8), (1, 1, 8)])
async def test_five_records_and_a_restart_after_four(memory: int, page_size: int, disk: int) -> None:
    machine = Machine()
    seen: list[int] = []
    async with machine.sink(**spill(memory, page_size, disk)) as buffer:
        await fill(buffer, 0, 4)

    async with machine.sink() as buffer:
        hand = taker(buffer)
        seen += await hand.all_offsets()
        await hand.ack(0, 4)
        await fill(buffer, 4, 5)
        seen += await hand.all_offsets()
    assert seen == [0, 1, 2, 3, 4]


async def test_appended_records_survive_a_restart() -> None:
    machine = Machine()
    async with machine.sink(**spill(4)) as buffer:
        await fill(buffer, 0, 2)
        size = buffer.logs[0].size

    async with machine.sink() as buffer:
        [state] = (await sink_state(buffer)).partitions
        assert (state.records, state.size, state.pages) == (2, size, 2)


async def test_a_volatile_sink_is_empty_when_it_is_opened_again() -> None:
    machine = Machine()
    async with machine.sink(**spill(2, volatile=True)) as buffer:
        await fill(buffer, 0, 6, at_once=2)
        hand = taker(buffer)
        await hand.offsets(records_max=1)
        await hand.ack(0, 1)

    async with machine.sink() as buffer:
        assert (buffer.state.pending, buffer.logs[0].records, entries_on_disk(machine.store)) == (0, 0, 0)
        assert dict(buffer.logs[0].head.dropped) == {DropReason.WIPED_AT_START: 5}
        hand = taker(buffer)
        await hand.all_offsets()
        assert hand.told_gaps() == [(1, 6)]
        await fill(buffer, 6, 7)
        assert await hand.offsets() == [6]


async def test_records_that_were_not_acked_are_redelivered_after_a_restart_and_then_none() -> None:
    machine = Machine()
    async with machine.sink(**spill(4)) as buffer:
        await fill(buffer, 0, 2)
        assert await taker(buffer).one() == [0]

    async with machine.sink() as buffer:
        hand = taker(buffer)
        assert await hand.all_offsets() == [0, 1]
        await hand.ack(0, 2)

    async with machine.sink() as buffer:
        assert await taker(buffer).all_offsets() == []


async def test_three_pages_are_redelivered_and_acks_may_be_repeated() -> None:
    machine = Machine()
    async with machine.sink(**spill(2, page_size=1)) as buffer:
        await fill(buffer, 0, 3)
        assert await taker(buffer).all_offsets() == [0, 1, 2]

    async with machine.sink() as buffer:
        hand = taker(buffer)
        assert await hand.all_offsets() == [0, 1, 2]
        for _ in range(100):
            await hand.ack(0, 3)

    async with machine.sink() as buffer:
        assert await taker(buffer).all_offsets() == []


async def test_a_limit_in_bytes_holds_over_memory_and_disk() -> None:
    body = len(page(b"x" * 500).body)
    machine = Machine()
    bound = {"max_total_bytes": 2 * body, "overflow": Overflow.DROP_OLDEST}
    async with machine.sink(**spill(1, page_size=1, **bound)) as buffer:
        for _ in range(4):
            append = await buffer.append(page(b"x" * 500))
            await append.done
            assert buffer.logs[0].size <= 2 * body
        assert [(gap.first, gap.end) for gap in buffer.logs[0].gaps] == [(0, 1), (1, 2)]


async def test_after_an_ack_and_a_restart_the_second_is_next() -> None:
    machine = Machine()
    async with machine.sink(**spill(4)) as buffer:
        await fill(buffer, 0, 3)
        hand = taker(buffer)
        assert await hand.one() == [0]
        await hand.ack(0, 1)

    async with machine.sink() as buffer:
        assert await taker(buffer).one() == [1]


async def test_a_memory_sink_is_bounded_by_its_threshold() -> None:
    machine = Machine()
    chosen = {"buffer_mode": BufferMode.MEMORY, "memory_cache_threshold": 3, "buffer_page_size": 1}
    async with machine.sink(**chosen) as buffer:
        await fill(buffer, 0, 3)
        with pytest.raises(SinkFull, match="memory_cache_threshold"):
            await buffer.append(page(b"one too many"))


async def test_short_of_memory_a_spilling_sink_writes_at_once_and_nothing_is_lost() -> None:
    machine = Machine()
    async with machine.sink(**spill(100)) as buffer:
        await fill(buffer, 0, 6, at_once=2)
        machine.press()
        await buffer.tier.relieve()

        assert (buffer.tier.records, entries_on_disk(machine.store)) == (0, 3)
        assert await fill(buffer, 6, 8) == [Durability.DISK] * 2
        assert buffer.tier.level(0, 0, 2) is Durability.DISK  # it was answered MEMORY before
        assert await taker(buffer).all_offsets() == list(range(8))


async def test_short_of_memory_a_memory_sink_drops_as_much_as_comes() -> None:
    machine = Machine()
    async with machine.sink(buffer_mode=BufferMode.MEMORY, memory_cache_threshold=256) as buffer:
        await fill(buffer, 0, 4)
        machine.press()
        await fill(buffer, 4, 6)

        assert [(gap.first, gap.end, gap.reason) for gap in buffer.logs[0].gaps] == [
            (0, 1, DropReason.MEMORY_PRESSURE),
            (1, 2, DropReason.MEMORY_PRESSURE),
        ]
        assert buffer.tier.records == 4


async def test_without_fsync_the_receipt_comes_before_the_sync_and_says_so() -> None:
    store = HeldStore()
    machine = Machine(store)
    async with machine.sink(fsync=False) as buffer:
        await fill(buffer, 0, 1)  # reserves, with a sync
        store.hold()
        assert await fill(buffer, 1, 2) == [Durability.PROCESS]
        await store.reached()  # without any further input
        store.let_go()
        async with asyncio.timeout(10):
            while buffer.tier.level(0, 1, 2) is not Durability.DISK:
                await asyncio.sleep(0.001)


async def test_pages_in_memory_do_not_wait_for_the_disk() -> None:
    store = HeldStore()
    machine = Machine(store)
    async with machine.broker() as broker:
        quick, _ = await broker.create("orders", SinkSettings(**spill(100)))
        slow, _ = await broker.create("slow", SinkSettings())
        await fill(quick, 0, 1)
        store.hold()
        waiting = await slow.append(page(b"waits"))
        await store.reached()

        assert await fill(quick, 1, 2) == [Durability.MEMORY]
        assert not waiting.done.done()
        store.let_go()
        await waiting.done


async def test_the_mode_stays_as_it_was_made() -> None:
    with pytest.raises(InvalidSetting, match="buffer_mode"):
        SinkSettings().changed({"buffer_mode": int(BufferMode.SPILL)})


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"memory_cache_threshold": -1}, "memory_cache_threshold"),
        ({"memory_cache_threshold": 0}, "memory_cache_threshold"),
        ({"memory_cache_threshold": 255, "buffer_mode": BufferMode.SPILL}, "memory_cache_threshold"),
        ({"memory_cache_threshold": 255, "buffer_mode": BufferMode.MEMORY}, "memory_cache_threshold"),
        ({"volatile": True}, "volatile"),
        ({"volatile": True, "buffer_mode": BufferMode.MEMORY}, "volatile"),
        ({"buffer_mode": 9}, "buffer_mode"),
    ],
)
def test_wrong_combinations_are_refused_by_name(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSetting) as refusal:
        SinkSettings(**settings).checked()

    assert refusal.value.field == field
    corrected, _ = SinkSettings(**settings).corrected()
    assert list(corrected.problems()) == []


async def test_places_of_writers_that_are_gone_are_bounded() -> None:
    async with Machine().sink(**spill(4)) as buffer:
        for number in range(3 * SLOTS_MIN):
            slot = Slot(0, 0, number, 1)
            buffer.tier._note_slot(PutSlot(buffer.record.id, f"writer-{number}", 1, 0, slot))

        assert len(buffer.tier._last_slots) <= SLOTS_MIN


async def test_deleting_a_sink_gives_its_memory_back() -> None:
    machine = Machine()
    async with machine.broker() as broker:
        buffer, _ = await broker.create("orders", SinkSettings(**spill(100)))
        await fill(buffer, 0, 6)
        await broker.delete("orders", force=True)

        assert (buffer.tier.records, broker.pages.held) == (0, {})


@pytest.mark.slow
async def test_a_thousand_pages_in_memory_are_read_in_order_and_after_them_what_was_written() -> None:
    machine = Machine()
    async with machine.sink(**spill(1_000)) as buffer:
        await fill(buffer, 0, 1_600)
        hand = taker(buffer)
        seen: list[int] = []
        while found := await hand.all_offsets():
            seen += found
            await hand.ack(found[0], found[-1] + 1)
        assert seen == list(range(1_600))
        await settled(buffer)
        assert buffer.tier.records == 0


async def test_partial_acks_in_memory_and_a_restart() -> None:
    machine = Machine()
    async with machine.sink(**spill(8, page_size=4)) as buffer:
        await fill(buffer, 0, 12, at_once=4)
        hand = taker(buffer)
        await hand.all_offsets()
        await hand.ack(2, 3)
        await hand.ack(5, 7)
        await hand.ack(9, 10)

    async with machine.sink() as buffer:
        assert await taker(buffer).all_offsets() == [0, 1, 3, 4, 7, 8, 10, 11]
        assert buffer.subscription("default").lanes[0].cursor.balances(12)
