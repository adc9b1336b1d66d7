"""Start with sinks that may have lost records, on a store as a crash left it."""

from __future__ import annotations

import pytest

from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.settings import BufferMode, SinkSettings
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.storage.records.accepted import AcceptedInMemory
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.running import Mortal, begin
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio
SPILL = SinkSettings(buffer_mode=BufferMode.SPILL, memory_cache_threshold=4, buffer_page_size=1)
UNSYNCED = SinkSettings(fsync=False, buffer_page_size=1)


class Crash:
    """A broker with one sink, which ends without a word."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.accepted = AcceptedInMemory()

    async def run(self, settings: SinkSettings, records: int, *, acked: int = 0) -> None:
        """Append so many records, ack the first of them, and crash."""
        mortal = Mortal(self.store)
        broker = begin(mortal, FakeClock(), accepted=self.accepted)
        buffer, _ = await broker.create("orders", settings)
        for number in range(records):
            append = await buffer.append(page(b"%d" % number))
            await append.done
        if acked:
            hand = Taker(buffer.subscription("default"))
            await hand.all_offsets()
            await hand.ack(0, acked)
        mortal.cut()
        await broker.close()


async def test_a_kill_loses_what_memory_held_exactly() -> None:
    crash = Crash()
    await crash.run(SPILL, 6, acked=1)

    broker = begin(crash.store.reopen(), FakeClock(), accepted=crash.accepted.killed())
    log = broker.sink("orders").logs[0]
    [gap] = log.gaps
    assert (gap.first, gap.end, gap.reason, gap.at_most) == (1, 4, DropReason.LOST_IN_CRASH, False)
    assert dict(log.head.dropped) == {DropReason.LOST_IN_CRASH: 3}
    assert (log.tail.next_offset, log.records) == (6, 2)
    assert await Taker(broker.sink("orders").subscription("default")).all_offsets() == [4, 5]
    await broker.close()


@pytest.mark.parametrize("mode", [BufferMode.SPILL, BufferMode.MEMORY])
@pytest.mark.parametrize("acked", [2, 4])
async def test_acks_of_what_only_memory_held_are_no_damage_after_a_kill(mode: BufferMode, acked: int) -> None:
    """The cursor stands ahead of a tail that was never stored: what is lost is lost in a crash, and exactly that."""
    crash = Crash()
    settings = SinkSettings(buffer_mode=mode, memory_cache_threshold=8, buffer_page_size=4)
    await crash.run(settings, 8, acked=acked)
    store = crash.store.reopen()

    found = recover(store)
    broker = begin(store.reopen(), FakeClock(), accepted=crash.accepted.killed())
    log = broker.sink("orders").logs[0]
    cursor = broker.sink("orders").subscription("default").lanes[0].cursor
    assert found.repairs == ()
    assert [(gap.end, gap.reason, gap.at_most) for gap in log.gaps] == [(8, DropReason.LOST_IN_CRASH, False)]
    assert dict(log.head.dropped) == {DropReason.LOST_IN_CRASH: 8 - acked}
    assert (cursor.acked, cursor.dropped, cursor.pending(8)) == (acked, 8 - acked, 0)
    assert (log.tail.next_offset, log.records) == (8, 0)
    await broker.close()


async def test_a_power_loss_continues_at_the_reservation_and_says_at_most() -> None:
    crash = Crash()
    await crash.run(SPILL, 3)

    broker = begin(crash.store.crash(), FakeClock(), accepted=AcceptedInMemory())
    log = broker.sink("orders").logs[0]
    [gap] = log.gaps
    assert (gap.first, gap.at_most) == (0, True)
    assert log.tail.next_offset == gap.end >= 65_536
    assert broker.sink("orders").subscription("default").lanes[0].cursor.balances(gap.end)
    await broker.close()


async def test_a_start_after_a_start_after_a_crash_changes_nothing_more() -> None:
    crash = Crash()
    await crash.run(SPILL, 3)
    store, accepted = crash.store.reopen(), crash.accepted.killed()

    tails = []
    for _ in range(3):
        mortal = Mortal(store)
        broker = begin(mortal, FakeClock(), accepted=accepted)
        tails.append((broker.sink("orders").logs[0].tail, broker.sink("orders").logs[0].gaps))
        mortal.cut()
        await broker.close()
        store, accepted = store.reopen(), accepted.killed()

    assert tails[0] == tails[1] == tails[2]
    assert tails[0][0].next_offset == 3


async def test_a_start_begins_to_count_when_it_has_taken_over_what_was_left() -> None:
    crash = Crash()
    await crash.run(SPILL, 3)

    store = crash.store.reopen()
    broker = begin(store, FakeClock(), accepted=crash.accepted.killed())
    counted = broker.start_count
    await broker.close()

    assert recover(store.reopen()).counting == counted


async def test_without_fsync_a_kill_continues_at_the_tail() -> None:
    crash = Crash()
    await crash.run(UNSYNCED, 3)

    broker = begin(crash.store.reopen(), FakeClock(), accepted=crash.accepted.killed())
    assert broker.sink("orders").logs[0].tail.next_offset == 3
    assert broker.sink("orders").logs[0].gaps == ()
    await broker.close()


async def test_without_fsync_a_power_loss_keeps_what_was_synced_and_gives_no_offset_twice() -> None:
    crash = Crash()
    await crash.run(UNSYNCED, 3)

    broker = begin(crash.store.crash(), FakeClock(), accepted=AcceptedInMemory())
    buffer = broker.sink("orders")
    append = await buffer.append(page(b"after"))
    await append.done
    assert append.first >= 65_536
    assert buffer.subscription("default").lanes[0].cursor.balances(append.first + 1)
    await broker.close()


async def test_a_volatile_sink_is_wiped_after_a_crash_too() -> None:
    crash = Crash()
    chosen = SinkSettings(buffer_mode=BufferMode.SPILL, memory_cache_threshold=2, buffer_page_size=1, volatile=True)
    await crash.run(chosen, 5)

    broker = begin(crash.store.reopen(), FakeClock(), accepted=crash.accepted.killed())
    log = broker.sink("orders").logs[0]
    assert (log.records, log.pages, log.tail.next_offset) == (0, 0, 5)
    assert dict(log.head.dropped) == {DropReason.WIPED_AT_START: 5}
    await broker.close()
