"""Random histories of sinks of every buffer mode against a simple model: see ``tier_model`` for what must hold.

Kills, power losses and clean stops are steps like others. The broker is the real one without gRPC.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.broker.core.delivery.lane import Answer, SettleOutcome
from forebay.broker.core.errors import OffsetTrimmed, SinkFull
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import DropReason, Durability, Entry
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import BufferMode, Overflow, SinkSettings
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.delivery.events import Delivered
from forebay.broker.storage.records.accepted import AcceptedInMemory
from forebay.broker.storage.store.contract import Store
from forebay.broker.storage.store.memory import MemoryStore
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.brokers.running import Hand, Mortal, begin, delivered_values
from tests.support.models.tier_model import Partition
from tests.support.models.usage import usage
from tests.support.pages.damaged_pages import StoredPage, stored_pages
from tests.support.pages.samples import page
from tests.support.storage.memory_folder import memory_folder

LOST_IN_CRASH: Final = int(DropReason.LOST_IN_CRASH)
Step = tuple[str, int, int]
STEPS: Final = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *["append"] * 5,
                *["take"] * 3,
                *["ack"] * 3,
                *["burst", "kill", "power", "stop", "damage", "damage", "pressure", "leave"],
            ]
        ),
        st.integers(0, 7),
        st.integers(1, 6),
    ),
    max_size=40,
)
SINKS: Final = st.builds(
    lambda mode, overflow, fsync, volatile, partitions, bound: SinkSettings(
        partitions=partitions,
        buffer_page_size=2,
        buffer_mode=mode,
        overflow=overflow,
        fsync=fsync,
        volatile=volatile and mode == BufferMode.SPILL,
        memory_cache_threshold=6,
        max_disk_cache=bound,
    ),
    st.sampled_from(BufferMode),
    st.sampled_from(Overflow),
    st.booleans(),
    st.sampled_from([False, False, False, True]),
    st.integers(1, 2),
    st.sampled_from([0, 10]),
)


class History:
    """Does the same to a sink and to its model."""

    def __init__(self, chosen: SinkSettings, store: Store, again: Callable[[Store, bool, int], Store]) -> None:
        self.settings = chosen
        self.store = store
        self.again = again
        self.accepted = AcceptedInMemory()
        self.pressed = False
        self.clock = FakeClock()
        self.model = [Partition() for _ in range(chosen.partitions)]
        self.numbers = itertools.count()
        self.cut: set[bytes] = set()
        """Keys of the pages that were damaged."""

    async def run(self, steps: list[Step]) -> None:
        await self.open(create=True)
        for name, at, count in steps:
            await getattr(self, name)(at % len(self.model), count)
            await self.check()
        self.pressed = self.broker.memory.overloaded = False
        await self.all_comes()
        await self.broker.close()

    async def open(self, *, create: bool = False) -> None:
        self.mortal = Mortal(self.store)
        self.broker: Broker = begin(self.mortal, self.clock, accepted=self.accepted)
        self.broker.memory.overloaded = self.pressed
        if create:
            await self.broker.create("orders", self.settings)
        self.buffer = self.broker.sink("orders")
        self.flying: list[set[int]] = [set() for _ in self.model]
        self.hand = Hand(self.buffer.subscription("default"))

    # -- steps

    async def append(self, at: int, count: int) -> None:
        values = [b"%d" % next(self.numbers) for _ in range(min(count, 4))]
        before = {entry.base for log in self.buffer.logs for entry in log.held.values()}
        unsettled = self.disk_is_unsettled()
        try:
            append = await self.buffer.append(page(*values, partition=at))
        except SinkFull:
            assert self.settings.overflow == Overflow.REJECT
            assert self.bound()
            used, _ = usage(self.buffer.logs)
            assert used + len(values) > self.bound()
            return
        await append.done
        log = self.buffer.logs[at]
        if append.first in log.held and append.first not in before:
            assert self.settings.buffer_mode != BufferMode.DISK
            assert self.settings.buffer_mode == BufferMode.MEMORY or not unsettled, "it overtook what is on the disk"
        self.model[at].append(append.first, values)
        await self.durable()

    async def burst(self, at: int, count: int) -> None:
        values = [[b"%d" % next(self.numbers)] for _ in range(count)]
        appends = []
        for each in values:
            try:
                appends.append((each, await self.buffer.append(page(*each, partition=at))))
            except SinkFull:
                assert self.settings.overflow == Overflow.REJECT
        for each, append in appends:
            await append.done
            self.model[at].append(append.first, each)
        await self.durable()

    async def take(self, at: int, count: int) -> None:
        event = await self.hand.take(at, records_max=count)
        if isinstance(event, Delivered):
            found = delivered_values(event)
            live = [offset for offset in self.model[at].live() if offset not in self.flying[at]]
            assert [offset for offset, _ in found] == live[: len(found)], "not in order, or not what is left"
            assert all(self.model[at].records[offset].value == value for offset, value in found)
            self.flying[at] |= {offset for offset, _ in found}

    async def ack(self, at: int, count: int) -> None:
        chosen = sorted(self.flying[at])[:: 2 if count == 6 else 1][:count]
        if not chosen:
            return
        lane = self.hand.subscription.lanes[at]
        ranges = [Range(offset, offset + 1) for offset in chosen]
        results = await self.hand.subscription.ack(at, Answer(lane.owner_epoch, lane.revision), ranges)
        assert {outcome for _, _, outcome in results} == {SettleOutcome.OK}
        for offset in chosen:
            self.model[at].records[offset].acked = True
        self.flying[at] -= set(chosen)

    async def leave(self, at: int, count: int) -> None:
        self.hand.subscription.leave(self.hand.consumer)
        self.flying = [set() for _ in self.model]
        self.hand = Hand(self.buffer.subscription("default"))

    async def pressure(self, at: int, count: int) -> None:
        self.pressed = self.broker.memory.overloaded = not self.pressed
        await self.buffer.tier.relieve()
        if self.pressed and self.settings.buffer_mode == BufferMode.SPILL:
            assert self.buffer.tier.records == 0

    async def kill(self, at: int, count: int) -> None:
        await self.end(cut=True)
        self.accepted = self.accepted.killed()
        self.store = self.again(self.store, False, 0)
        await self.open()
        self.compare(Durability.PROCESS, exact=True)

    async def power(self, at: int, count: int) -> None:
        await self.end(cut=True)
        self.accepted = AcceptedInMemory()
        self.store = self.again(self.store, True, count - 1)
        await self.open()
        self.compare(Durability.DISK, exact=False)

    async def stop(self, at: int, count: int) -> None:
        await self.restart(lambda: None)

    async def damage(self, at: int, count: int) -> None:
        """A page is damaged while the broker is stopped, and met by a reader."""
        chosen: list[StoredPage] = []

        def cut() -> None:
            pages = [one for one in stored_pages(self.store, self.buffer.record.id) if one.key not in self.cut]
            chosen.extend(pages[-1 - count % len(pages) :][:1] if pages else [])
            for one in chosen:
                one.cut_short(self.store)
                self.cut.add(one.key)

        await self.restart(cut)
        await self.trimmed()
        for one in chosen:
            self.model[one.partition].damage(one.records, self.buffer.logs[one.partition])
        left = [partition.live() for partition in self.model]
        for log in self.buffer.logs:
            reading = self.buffer.replay(log.number)
            with suppress(OffsetTrimmed):  # what was settled after the page went with it
                async for _ in reading.read(log.earliest, None, follow=False):
                    pass
        await self.durable()
        assert [partition.live() for partition in self.model] == left, "not what the page held was lost"

    async def restart(self, between: Callable[[], None]) -> None:
        lost = [dict(log.head.dropped).get(LOST_IN_CRASH, 0) for log in self.buffer.logs]
        await self.end(cut=False)
        self.accepted = self.accepted.killed()
        self.store = self.again(self.store, False, 0)
        between()
        await self.open()
        keeps = self.settings.buffer_mode != BufferMode.MEMORY
        for partition, log in zip(self.model, self.buffer.logs, strict=True):
            before = partition.live()
            partition.look(log)
            if keeps and not self.settings.volatile:
                assert partition.live() == before, "a clean stop lost something"
        assert [dict(log.head.dropped).get(LOST_IN_CRASH, 0) for log in self.buffer.logs] == lost

    async def end(self, *, cut: bool) -> None:
        await self.durable()
        if cut:
            self.mortal.cut()
        await self.broker.close()

    def compare(self, survives: Durability, *, exact: bool) -> None:
        for partition, log in zip(self.model, self.buffer.logs, strict=True):
            if self.settings.volatile:
                partition.look(log)
                assert partition.live() == [], "a volatile sink was not wiped"
            else:
                partition.crashed(log, survives=survives, exact=exact and not self.forgot)
        self.forgot = self.forgot or not exact

    forgot = False
    """A power loss has counted more than there was."""

    # -- at any moment

    async def durable(self) -> None:
        """Wait for drops: a crash may undo a drop that no caller awaited."""
        for log in self.buffer.logs:
            drop = self.buffer.removal.unsynced_drop(log.number)
            if drop is not None:
                await drop
        for partition, log in zip(self.model, self.buffer.logs, strict=True):
            partition.look(log)

    def bound(self) -> int:
        return self.settings.records_max[1]

    def disk_is_unsettled(self) -> bool:
        return any(
            record.level is not Durability.MEMORY and not record.acked and not record.gone
            for partition in self.model
            for record in partition.records.values()
        )

    async def entries(self, log: PartitionLog) -> list[Entry]:
        reader = self.hand.subscription.source.entry_reader(log.number)
        found: list[Entry] = []
        position = 0
        while more := await reader.upcoming(position):
            found += [e for e in more if e.base >= log.head.earliest and log.gap_at(e.base) is None]
            position = more[-1].end
        return found

    async def check(self) -> None:
        await self.durable()
        await self.trimmed()
        for partition, log, lane in zip(self.model, self.buffer.logs, self.hand.subscription.lanes, strict=True):
            partition.check(log, lane.cursor, await self.entries(log))
        held = [entry for log in self.buffer.logs for entry in log.held.values()]
        assert self.buffer.tier.records == sum(entry.count for entry in held)
        assert self.buffer.tier.size == sum(entry.size for entry in held)
        assert len(self.broker.pages.held) == len(held)
        if self.settings.buffer_mode == BufferMode.SPILL:
            assert self.buffer.tier.records <= self.settings.memory_cache_threshold
        if self.settings.overflow == Overflow.REJECT and self.bound():
            assert usage(self.buffer.logs)[0] <= self.bound()

    async def trimmed(self) -> None:
        """Wait until what is settled by all is gone."""
        for _ in range(200):
            settled = [self.buffer.state.settled(log) for log in self.buffer.logs]
            first = [log.first_entry() for log in self.buffer.logs]
            if all(e is None or e.end > s for e, s in zip(first, settled, strict=True)):
                return
            await asyncio.sleep(0.001)
        raise AssertionError("what is settled was not trimmed")

    async def all_comes(self) -> None:
        for at in range(len(self.model)):
            await self.leave(at, 0)
            for _ in range(200):
                await self.take(at, 5)
                await self.ack(at, 5)
                if not self.model[at].live():
                    break
            assert self.model[at].live() == []
        await self.check()


def _run(work: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await work

    asyncio.run(bounded())


def _memory_again(store: Store, power: bool, kept: int) -> Store:
    assert isinstance(store, MemoryStore)
    return store.crash(kept_batches=kept) if power else store.reopen()


QUIET: Final = [HealthCheck.too_slow, HealthCheck.data_too_large]


@given(chosen=SINKS, steps=STEPS)
@settings(max_examples=100, deadline=None, suppress_health_check=QUIET)
def test_any_history_of_any_mode_keeps_its_promises(chosen: SinkSettings, steps: list[Step]) -> None:
    """A random history for every buffer mode, both overflow policies, kills, power losses and clean stops."""
    _run(History(chosen, MemoryStore(), _memory_again).run(steps))


@pytest.mark.slow
@given(chosen=SINKS, steps=STEPS)
@settings(max_examples=15, deadline=None, suppress_health_check=QUIET)
def test_the_same_on_a_disk(chosen: SinkSettings, steps: list[Step]) -> None:
    directory = Path(tempfile.mkdtemp(dir=memory_folder()))

    def again(store: Store, power: bool, kept: int) -> Store:
        store.close()
        return RocksStore(directory / "store")

    kills = [step for step in steps if step[0] != "power"]  # a directory cannot lose power
    try:
        history = History(chosen, RocksStore(directory / "store"), again)
        _run(history.run(kills))
        history.store.close()
    finally:
        shutil.rmtree(directory)
