"""Drives one sink beside its model: what the rules of ``test_buffer_model`` and its directed histories are made of.

The broker is the real one without gRPC. Time is a fake clock; a kill takes the store away between two of its calls,
and the memory store then forgets what was not synced.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any, ClassVar, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from forebay.broker.core.delivery.lane import Answer, SettleOutcome
from forebay.broker.core.errors import OffsetTrimmed, SinkFull
from forebay.broker.core.partition.pages import Gap
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import Overflow, SinkSettings
from forebay.broker.runtime.broker import Bounds, Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.commit.group import Append
from forebay.broker.runtime.delivery.events import Delivered, GapMet, Revoked
from forebay.broker.runtime.publish.writers import WriterSession
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.records.accepted import AcceptedInMemory
from forebay.broker.storage.store.contract import Store
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.running import Hand, Mortal, begin
from tests.support.models.buffer_model import DROPPED, PENDING, Partition
from tests.support.models.usage import usage
from tests.support.pages.damaged_pages import StoredPage, stored_pages
from tests.support.pages.samples import values

T = TypeVar("T")


class BufferDriver(RuleBasedStateMachine):
    """A sink, its model, a consumer and an idempotent writer."""

    bytes_store: Store
    model: list[Partition]
    is_windowed: ClassVar[bool] = False
    """True for a store with several open commits."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.numbers = itertools.count()
        self.sequences: dict[int, list[tuple[int, bytes, int]]] = {}
        """Per partition: the data and first offset of each page that the writer got a receipt for."""
        self.queued: list[tuple[int, list[bytes], Append, asyncio.Task[Any] | None]] = []
        self.paused = False
        self.cut: set[bytes] = set()
        """Keys of the pages that were damaged."""

    def teardown(self) -> None:
        try:
            if hasattr(self, "broker"):
                self.run(self.everything_comes_in_the_end())
                self.run(self.broker.close())
                self.bytes_store.close()
        finally:
            self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(20):
                return await work

        return self.loop.run_until_complete(bounded())

    def new_store(self) -> Store:
        return MemoryStore()

    def found_again(self, *, killed: bool, kept: int) -> Store:
        """The store as the next process finds it."""
        assert isinstance(self.bytes_store, MemoryStore)
        return self.bytes_store.crash(kept_batches=kept) if killed else self.bytes_store.reopen()

    async def open(self, chosen: SinkSettings | None = None) -> None:
        self.mortal = Mortal(self.bytes_store, is_windowed=self.is_windowed)
        self.delivered = AcceptedInMemory()
        bounds = Bounds(journal_batch_bytes=1)
        self.broker: Broker = begin(self.mortal, self.clock, bounds=bounds, delivered=self.delivered)
        if chosen is not None:
            await self.broker.create("orders", chosen)
        self.buffer: Buffer = self.broker.sink("orders")
        await self.join()
        self.session: WriterSession | None = None

    async def join(self) -> None:
        self.hand = Hand(self.buffer.subscription("default"))
        self.hand.events.clear()
        for partition, lane in zip(self.model, self.hand.subscription.lanes, strict=True):
            partition.taken(lane)

    # -- appends

    def some(self, count: int) -> list[bytes]:
        return [b"%d" % next(self.numbers) for _ in range(count)]

    async def appended(self, at: int, found: list[bytes], make: Coroutine[Any, Any, Append]) -> Append | None:
        """An append by any way, compared with the bound; None when it was refused."""
        chosen = self.buffer.settings
        await self.trimmed()
        used, _ = usage(self.buffer.logs)
        fits = not chosen.max_disk_cache or used + len(found) <= chosen.max_disk_cache
        try:
            append = await make
        except SinkFull:
            assert chosen.overflow == Overflow.REJECT
            assert not fits, "it was refused although it fits"
            return None
        assert fits or chosen.overflow == Overflow.DROP_OLDEST, "it was taken although it does not fit"
        for each in self.model:
            each.behind = False
        self.notice()
        if chosen.overflow == Overflow.DROP_OLDEST and not fits:
            self.check_drops()
        return append

    async def trimmed(self) -> None:
        """Settled records are not counted."""
        for log in self.buffer.logs:
            await self.buffer.removal.trim(log)

    async def settled_goes(self) -> None:
        """Settled records at the head are trimmed automatically."""
        for _ in range(1_000):
            first = [log.first_entry() for log in self.buffer.logs]
            if all(entry is None or entry.end > m.watermark for entry, m in zip(first, self.model, strict=True)):
                return
            await asyncio.sleep(0.001)
        raise AssertionError("what is settled was not trimmed")

    def check_drops(self) -> None:
        """Nothing that could be dropped is left above the bound, but the newest page."""
        used, _ = usage(self.buffer.logs)
        over = used > self.buffer.settings.max_disk_cache
        flying = [self.hand.subscription.lanes[log.number].pages_in_flight() for log in self.buffer.logs]
        loose = [e for log in self.buffer.logs for e in log.first_entries() if e.base not in flying[log.number]]
        assert not over or not loose

    async def confirm(self) -> None:
        """Wait for every append that is under way."""
        waited = list(self.queued)
        for _, _, append, _ in waited:
            await append.done
        self.notice()
        for each in self.model:
            if waited and not each.behind:
                each.durable()

    # -- the idempotent writer

    async def writer(self) -> WriterSession:
        if self.session is None:
            epoch = getattr(self, "epoch", None)
            self.session = await self.broker.writers["orders"].open("w", epoch)
            self.epoch = self.session.epoch
            expected = {p: pages[-1][0] + 1 for p, pages in self.sequences.items() if pages}
            assert self.session.next_sequences() == expected
        return self.session

    # -- deliveries

    def notice(self) -> None:
        """Apply the results and events that the broker has reported since the last call."""
        under_way, self.queued = self.queued, []
        for one in under_way:
            number, found, append, _ = one
            if append.done.done() and append.done.exception() is None:
                self.model[number].append(append.first, found)
            else:
                self.queued.append(one)
        for partition, log in zip(self.model, self.buffer.logs, strict=True):
            partition.learn_drops(log)
        lanes = self.hand.subscription.lanes
        for event in self.hand.events:
            if isinstance(event, Delivered):
                self.check_age(event)
                self.model[event.partition].delivered(event)
            elif isinstance(event, GapMet):
                self.model[event.partition].gap_met(event)
            elif isinstance(event, Revoked):
                self.model[event.partition].revoked(event, lanes[event.partition].owner_epoch)
        self.hand.events.clear()

    def check_age(self, event: Delivered) -> None:
        """Nothing is sent that is too old, but the rest of a page in flight: it was noticed right when it was sent."""
        oldest_us, flying = (
            self.buffer.state.age.now_us() - self.buffer.settings.max_age_us,
            self.model[event.partition],
        )
        old = [range(entry.base, entry.end) for entry, _ in event.pages if entry.age_us < oldest_us]
        assert not self.buffer.settings.max_age_us or all(flying.in_flight.keys() & set(page) for page in old)

    async def take_everything(self) -> None:
        """Take until nothing is left: all pending records are in flight then, and each gap was reported."""
        for number in range(len(self.model)):
            for _ in range(2):  # a damaged page ends what it takes at once
                await self.hand.take_all(number)
        self.notice()
        if not self.paused and not self.buffer.settings.resend_interval_us:
            for partition in self.model:
                assert set(partition.offsets(PENDING)) == set(partition.in_flight), "not everything came"
                assert partition.notified.issuperset(partition.offsets(DROPPED)), "a consumer was not notified of a gap"

    def answer(self, at: int) -> Answer:
        lane = self.hand.subscription.lanes[at]
        return Answer(lane.owner_epoch, lane.revision)

    async def acked(self, at: int, offsets: list[int]) -> None:
        ranges = [Range(offset, offset + 1) for offset in offsets]
        results = await self.hand.subscription.ack(at, self.answer(at), ranges)
        assert {outcome for _, _, outcome in results} <= {SettleOutcome.OK}
        for offset in offsets:
            self.model[at].acked(offset)
        self.notice()

    def leave(self) -> None:
        self.notice()
        for partition, lane in zip(self.model, self.hand.subscription.lanes, strict=True):
            partition.gone(lane.owner_epoch, failed=True)
        self.hand.subscription.leave(self.hand.consumer)

    # -- ends and begins

    async def stop(self) -> None:
        await self.confirm()
        self.leave()
        await self.broker.close()
        self.bytes_store = self.found_again(killed=False, kept=0)

    def damage_a_page(self, at: int) -> tuple[int, range] | None:
        """Cut a stored page short, one that was needed where there is one; returns its partition and offsets."""
        whole = [each for each in stored_pages(self.bytes_store, self.buffer.record.id) if each.key not in self.cut]
        if not whole:
            return None
        found = [(each, each.partition, self.page_of(each)) for each in whole]
        found.sort(key=lambda one: not self.needs(one[1], one[2]))
        stored, partition, page = found[at % len(found)]
        stored.cut_short(self.bytes_store)
        self.cut.add(stored.key)
        return partition, page

    def page_of(self, stored: StoredPage) -> range:
        return self.model[stored.partition].page_of(stored.records)

    def needs(self, partition: int, page: range) -> bool:
        return self.model[partition].needs(page, self.buffer.logs[partition])

    async def expire_all(self) -> None:
        """Expired and settled records are removed; no others until time passes."""
        await self.broker.expirer.sweep(self.buffer)
        await self.trimmed()
        for model, log in zip(self.model, self.buffer.logs, strict=True):
            assert not model.learn_drops(log) or self.buffer.settings.max_age_us, "a start lost something"
            model.durable()

    async def open_after_kill(self) -> None:
        """Confirmed records are stored; of the others, a prefix may be."""
        under_way, self.queued = self.queued, []
        for _, _, append, _ in under_way:
            if append.done.done():
                append.done.exception()
        hand, self.mortal = None, Mortal(self.bytes_store)
        del hand
        self.delivered = self.delivered.killed()
        self.broker = begin(self.mortal, self.clock, delivered=self.delivered)
        self.buffer = self.broker.sink("orders")
        for number, found, append, _ in under_way:
            tail = self.buffer.logs[number].tail.next_offset
            answered = append.done.done() and append.done.exception() is None
            assert append.first + len(found) <= tail or not answered, "what was answered is lost"
            if append.first + len(found) <= tail:
                self.model[number].append(append.first, found)
        for partition, log in zip(self.model, self.buffer.logs, strict=True):
            partition.killed(log, self.buffer.subscription("default").lanes[log.number])
            partition.learn_drops(log)
        self.session = None
        await self.join()

    # -- all of it

    async def read(self, number: int) -> None:
        """Read a partition from its beginning: each record is returned unchanged, or is within a gap."""
        reading = self.buffer.replay(number)
        position = start = await reading.start_at(offset=None, time_us=None)
        model = self.model[number]
        try:
            async for step in reading.read(start, None, follow=False):
                if isinstance(step, Gap):
                    assert step.first == position
                    model.gap_read(step)
                    position = step.end
                    continue
                for entry, body in step.pages:
                    assert entry.base == position
                    assert values(body.data) == model.values[entry.base : entry.end]
                    assert DROPPED not in model.states[entry.base : entry.end], "what was lost was read"
                    position = entry.end
        except OffsetTrimmed:  # a damaged page was the last that held back what is settled after it
            assert model.watermark > position
            await self.read(number)
        else:
            assert position == len(model.values), "the replay ended early"

    async def everything_comes_in_the_end(self) -> None:
        """Whatever happened: each record that was not dropped is delivered, settled, and its space freed."""
        await self.confirm()
        if self.paused:
            await self.buffer.resume()
        for _ in range(200):
            for number, partition in enumerate(self.model):
                await self.hand.take_all(number)
                self.notice()
                if partition.in_flight:
                    await self.acked(number, sorted(partition.in_flight))
            if all(partition.count(PENDING) == 0 for partition in self.model):
                break
            self.clock.advance(1.0)
            self.hand.subscription.process_timers()
            self.notice()
        assert [partition.count(PENDING) for partition in self.model] == [0] * len(self.model)
        for number in range(len(self.model)):
            await self.hand.take_all(number)
        self.notice()
        for partition in self.model:
            assert partition.notified.issuperset(partition.offsets(DROPPED)), "no consumer was notified of a gap"
        for _ in range(100):
            if all(log.pages == 0 for log in self.buffer.logs):
                break
            await asyncio.sleep(0.001)
        assert [log.pages for log in self.buffer.logs] == [0] * len(self.buffer.logs)
