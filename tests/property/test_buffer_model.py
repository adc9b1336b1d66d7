"""Random histories of one sink against a simple model, on both stores: see ``buffer_model`` for what must hold.

The broker is the real one without gRPC. Time is a fake clock; a kill takes the store away between two of its calls,
and the memory store then forgets what was not synced.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
import zlib
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.broker.core.errors import OffsetTrimmed, SequenceConflict, SequenceGap, SinkFull, StoreFenced
from holdfast.broker.core.lane import Answer, Outcome
from holdfast.broker.core.limits import usage
from holdfast.broker.core.pages import Gap
from holdfast.broker.core.ranges import Range
from holdfast.broker.core.settings import DEFAULTS, Overflow, SinkSettings
from holdfast.broker.runtime.broker import Broker
from holdfast.broker.runtime.buffer import Buffer
from holdfast.broker.runtime.clock import FakeClock
from holdfast.broker.runtime.events import Delivered, GapMet, Revoked
from holdfast.broker.runtime.group import Append
from holdfast.broker.runtime.publishing import Session
from holdfast.broker.runtime.replay import Replay
from holdfast.broker.storage.contract import Store
from holdfast.broker.storage.memory import MemoryStore
from holdfast.broker.storage.rocks import RocksStore
from tests.property.buffer_model import DROPPED, PENDING, Partition
from tests.property.damaged_pages import StoredPage, stored_pages
from tests.unit.broker.running import Hand, Mortal, begin
from tests.unit.broker.samples import page, values

T = TypeVar("T")
PLACES: Final = st.integers(0, 7)
COUNTS: Final = st.integers(1, 5)
SETTINGS: Final = st.builds(
    lambda partitions, overflow, records, joined, realtime, age_s: replace(
        DEFAULTS,
        partitions=partitions,
        overflow=overflow,
        max_disk_cache=records,
        buffer_page_size=joined,
        realtime=realtime,
        max_age_us=age_s * 1_000_000,
    ),
    st.integers(1, 2),
    st.sampled_from(Overflow),
    st.sampled_from([0, 8, 20]),
    st.sampled_from([1, 4, 256]),
    st.booleans(),
    st.sampled_from([0, 0, 40]),
)


class BufferMachine(RuleBasedStateMachine):
    """Does the same to a sink and to its model."""

    fresh_store: ClassVar[Any]

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

    @initialize(chosen=SETTINGS)
    def create(self, chosen: SinkSettings) -> None:
        self.bytes_store: Store = self.new_store()
        self.model = [Partition() for _ in range(chosen.partitions)]
        self.run(self.open(chosen))

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
        self.mortal = Mortal(self.bytes_store)
        self.broker: Broker = begin(self.mortal, self.clock)
        if chosen is not None:
            await self.broker.create("orders", chosen)
        self.buffer: Buffer = self.broker.sink("orders")
        await self.join()
        self.session: Session | None = None

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
        """What is settled counts no longer."""
        for log in self.buffer.logs:
            await self.buffer.trim(log)

    async def settled_goes(self) -> None:
        """What is settled at the front goes by itself."""
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
        flying = [self.hand.subscription.bases_in_flight(log.number) for log in self.buffer.logs]
        loose = [e for log in self.buffer.logs for e in log.first_entries() if e.base not in flying[log.number]]
        assert not over or not loose

    @rule(at=PLACES, count=COUNTS)
    def append(self, at: int, count: int) -> None:
        async def work() -> None:
            partition, found = at % len(self.model), self.some(count)
            append = await self.appended(partition, found, self.buffer.append(page(*found, partition=partition)))
            if append is not None:
                self.queued.append((partition, found, append, None))
            await self.confirm()

        self.run(work())

    @rule(at=PLACES, counts=st.lists(COUNTS, min_size=2, max_size=4))
    def append_several_and_do_not_wait(self, at: int, counts: list[int]) -> None:
        async def work() -> None:
            for index, count in enumerate(counts):
                partition, found = (at + index) % len(self.model), self.some(count)
                append = await self.appended(partition, found, self.buffer.append(page(*found, partition=partition)))
                if append is not None:
                    self.queued.append((partition, found, append, None))

        self.run(work())

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

    async def writer(self) -> Session:
        if self.session is None:
            epoch = getattr(self, "epoch", None)
            self.session = await self.broker.writers["orders"].open("w", epoch)
            self.epoch = self.session.epoch
            expected = {p: pages[-1][0] + 1 for p, pages in self.sequences.items() if pages}
            assert self.session.next_sequences() == expected
        return self.session

    @rule(at=PLACES, count=COUNTS)
    def publish(self, at: int, count: int) -> None:
        async def work() -> None:
            await self.confirm()
            session, partition, found = await self.writer(), at % len(self.model), self.some(count)
            pages = self.sequences.setdefault(partition, [])
            data = page(*found, partition=partition)
            sequence = pages[-1][0] + 1 if pages else 5
            await self.trimmed()
            used, _ = usage(self.buffer.logs)
            bound = self.buffer.settings.max_disk_cache
            try:
                stored = await (await session.publish(data, sequence))
            except SinkFull:
                assert used + count > bound
                return
            assert not stored.duplicate
            assert stored.first is not None
            self.model[partition].append(stored.first, found)
            self.notice()
            pages.append((sequence, bytes(data.body), stored.first))

        self.run(work())

    @rule(at=PLACES, back=PLACES)
    def publish_again(self, at: int, back: int) -> None:
        async def work() -> None:
            await self.confirm()
            session, partition = await self.writer(), at % len(self.model)
            pages = self.sequences.get(partition, [])
            if pages:
                sequence, data, first = pages[-1 - back % len(pages)]
                again = page(*values(data), partition=partition)
                stored = await (await session.publish(again, sequence))
                assert (stored.first, stored.duplicate) == (first, True)
                with pytest.raises(SequenceConflict):
                    await session.publish(replace(again, crc32=zlib.crc32(b"other")), sequence)
                with pytest.raises(SequenceGap):
                    await session.publish(again, pages[-1][0] + 2)

        self.run(work())

    @rule()
    def reconnect_the_writer(self) -> None:
        if self.session is not None:
            self.session.end()
            self.session = None

    # -- deliveries

    def notice(self) -> None:
        """Take in what the broker has told since the last look."""
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
        oldest_us, flying = self.buffer.age_now_us() - self.buffer.settings.max_age_us, self.model[event.partition]
        old = [range(entry.base, entry.end) for entry, _ in event.pages if entry.age_us < oldest_us]
        assert not self.buffer.settings.max_age_us or all(flying.in_flight.keys() & set(page) for page in old)

    @rule(at=PLACES, records=st.sampled_from([None, None, 1, 3]))
    def deliver(self, at: int, records: int | None) -> None:
        async def work() -> None:
            await self.confirm()
            await self.hand.take(at % len(self.model), records_max=records)
            self.notice()

        self.run(work())

    async def take_everything(self) -> None:
        """The consumer takes until nothing is left: what is pending is in flight then, and each gap was told."""
        for number in range(len(self.model)):
            for _ in range(2):  # a damaged page ends what it takes at once
                await self.hand.take_all(number)
        self.notice()
        if not self.paused and not self.buffer.settings.resend_interval_us:
            for partition in self.model:
                assert set(partition.offsets(PENDING)) == set(partition.in_flight), "not everything came"
                assert partition.told.issuperset(partition.offsets(DROPPED)), "a gap was not told"

    def answer(self, at: int) -> Answer:
        lane = self.hand.subscription.lanes[at]
        return Answer(lane.owner_epoch, lane.revision)

    async def acked(self, at: int, offsets: list[int]) -> None:
        ranges = [Range(offset, offset + 1) for offset in offsets]
        results = await self.hand.subscription.ack(at, self.answer(at), ranges)
        assert {outcome for _, _, outcome in results} <= {Outcome.OK}
        for offset in offsets:
            self.model[at].acked(offset)
        self.notice()

    @rule(at=PLACES, skip=PLACES, count=st.integers(1, 20))
    def ack(self, at: int, skip: int, count: int) -> None:
        partition = at % len(self.model)
        flying = sorted(self.model[partition].in_flight)
        offsets = flying[skip % len(flying) :][:count] if flying else []
        if offsets:
            self.run(self.acked(partition, offsets))

    @rule(at=PLACES, beyond=PLACES)
    def ack_until(self, at: int, beyond: int) -> None:
        async def work() -> None:
            await self.confirm()
            partition = at % len(self.model)
            model = self.model[partition]
            end = min(model.position + beyond, len(model.values))
            first = next((o for o, s in enumerate(model.states) if s == PENDING), end)
            if first < end:
                whole = [Range(first, end)]
                results = await self.hand.subscription.ack(partition, self.answer(partition), whole, until=True)
                settled = model.states[end - 1] != PENDING
                assert results[-1][2] is (Outcome.ALREADY_SETTLED if settled else Outcome.OK)
                for offset in range(end):
                    if model.states[offset] == PENDING:
                        model.acked(offset)
                    else:
                        model.told.add(offset)  # whoever settles them all by number has heard of them
                model.position = max(model.position, end)
                self.notice()

        self.run(work())

    @rule(at=PLACES, which=PLACES)
    def answer_late(self, at: int, which: int) -> None:
        async def work() -> None:
            partition = at % len(self.model)
            void = self.model[partition].void
            if void:
                epoch, revision, offset = void[which % len(void)]
                asked = [Range(offset, offset + 1)]
                results = await self.hand.subscription.ack(partition, Answer(epoch, revision), asked)
                assert [outcome for _, _, outcome in results] == [Outcome.STALE]

        self.run(work())

    @rule(at=PLACES, which=PLACES, delay=st.sampled_from([None, 0.0, 5.0]))
    def nack(self, at: int, which: int, delay: float | None) -> None:
        async def work() -> None:
            partition = at % len(self.model)
            flying = sorted(self.model[partition].in_flight)
            if flying:
                offset = flying[which % len(flying)]
                await self.hand.subscription.retry(
                    partition, self.answer(partition), [Range(offset, offset + 1)], delay_s=delay, reason=""
                )
                self.model[partition].failed(offset, waited_for=True)
                self.notice()

        self.run(work())

    @rule(seconds=st.sampled_from([0.1, 5.0, 31.0]))
    def let_time_pass(self, seconds: float) -> None:
        async def work() -> None:
            lanes = self.hand.subscription.lanes
            self.clock.advance(seconds)
            for partition, lane in zip(self.model, lanes, strict=True):
                deadline = lane.deadline()
                if deadline is not None and self.clock.now >= deadline:
                    partition.failed(min(partition.in_flight), waited_for=False)
            self.hand.subscription.let_time_pass()
            self.notice()
            assert all(lane.deadline() is None or self.clock.now < (lane.deadline() or 0.0) for lane in lanes)

        self.run(work())

    @rule()
    def sweep_what_is_too_old(self) -> None:
        async def work() -> None:
            await self.confirm()
            before = sum(log.head.removed_records for log in self.buffer.logs)
            await self.broker.expirer.sweep(self.buffer)
            self.notice()
            if sum(log.head.removed_records for log in self.buffer.logs) > before:  # it waits for its drops
                for model in self.model:
                    model.durable()
            for log in self.buffer.logs:
                oldest_us = self.buffer.age_now_us() - self.buffer.settings.max_age_us
                flying = self.buffer.in_flight(log.number)
                old = [e for e in log.first_entries() if e.age_us < oldest_us and e.base not in flying]
                assert not old or not self.buffer.settings.max_age_us

        self.run(work())

    @rule(hours=st.sampled_from([-1, 1, 24 * 365]))
    def jump_the_wall_clock(self, hours: int) -> None:
        age_us = self.buffer.age_now_us()
        self.clock.wall = max(1, self.clock.wall + hours * 3_600_000_000)
        assert self.buffer.age_now_us() == age_us

    @rule()
    def lose_the_consumer(self) -> None:
        async def work() -> None:
            self.leave()
            await self.join()

        self.run(work())

    def leave(self) -> None:
        self.notice()
        for partition, lane in zip(self.model, self.hand.subscription.lanes, strict=True):
            partition.gone(lane.owner_epoch, failed=True)
        self.hand.subscription.leave(self.hand.consumer)

    @rule()
    def pause_or_resume(self) -> None:
        async def work() -> None:
            await (self.buffer.resume() if self.paused else self.buffer.stop("maintenance"))
            self.paused = not self.paused
            self.notice()

        self.run(work())

    # -- ends and begins

    @rule()
    def stop_and_start(self) -> None:
        async def work() -> None:
            await self.stop()
            await self.open()

        self.run(work())

    async def stop(self) -> None:
        await self.confirm()
        self.leave()
        await self.broker.close()
        self.bytes_store = self.found_again(killed=False, kept=0)

    @rule(at=PLACES, consumer_first=st.booleans())
    def damage_while_stopped(self, at: int, consumer_first: bool) -> None:
        async def work() -> None:
            await self.stop()
            damaged = self.damage_a_page(at)
            await self.open()
            await self.expire_all()
            if damaged is not None and self.needs(*damaged):
                self.model[damaged[0]].damage(damaged[1])
            left = [partition.offsets(PENDING) for partition in self.model]
            if consumer_first:
                await self.take_everything()
            for number in range(len(self.model)):
                await asyncio.gather(self.read(number), self.read(number))
            await self.buffer.confirmed()
            self.notice()
            assert [partition.offsets(PENDING) for partition in self.model] == left, "more was lost than the page"
            await self.settled_goes()

        self.run(work())

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
        """What is too old is gone, and what is settled: nothing else goes until time passes."""
        await self.broker.expirer.sweep(self.buffer)
        await self.trimmed()
        for model, log in zip(self.model, self.buffer.logs, strict=True):
            assert not model.learn_drops(log) or self.buffer.settings.max_age_us, "a start lost something"
            model.durable()

    @rule(yields=st.integers(0, 6), kept=st.integers(0, 1))
    def kill_and_start(self, yields: int, kept: int) -> None:
        async def work() -> None:
            for _ in range(yields):
                await asyncio.sleep(0)
            self.notice()
            self.mortal.cut()
            await self.broker.close()
            for partition, lane in zip(self.model, self.hand.subscription.lanes, strict=True):
                partition.gone(lane.owner_epoch, failed=False)
            self.bytes_store = self.found_again(killed=True, kept=kept)
            await self.open_after_kill()

        self.run(work())

    async def open_after_kill(self) -> None:
        """What was answered is there; of what was not, the first ones may be."""
        under_way, self.queued = self.queued, []
        for _, _, append, _ in under_way:
            if append.done.done():
                append.done.exception()
        hand, self.mortal = None, Mortal(self.bytes_store)
        del hand
        self.broker = begin(self.mortal, self.clock)
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

    # -- at any moment

    @invariant()
    @precondition(lambda self: hasattr(self, "hand"))
    def the_account_is_the_model_s(self) -> None:
        if not self.queued:
            for partition, log, lane in zip(self.model, self.buffer.logs, self.hand.subscription.lanes, strict=True):
                partition.check(log, lane)

    @rule(at=PLACES)
    def replay(self, at: int) -> None:
        async def work() -> None:
            await self.confirm()
            await self.read(at % len(self.model))

        self.run(work())

    async def read(self, number: int) -> None:
        """Read a partition from its beginning: each record comes as it is, or stands in a gap."""
        reading = Replay(self.buffer, number, self.broker.services.pages)
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
        except OffsetTrimmed:  # a damaged page was the last that held back what is settled behind it
            assert model.watermark > position
            await self.read(number)
        else:
            assert position == len(model.values), "the replay ended early"

    async def everything_comes_in_the_end(self) -> None:
        """Whatever happened: each record that was not dropped is delivered, settled, and its place given back."""
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
            self.hand.subscription.let_time_pass()
            self.notice()
        assert [partition.count(PENDING) for partition in self.model] == [0] * len(self.model)
        for number in range(len(self.model)):
            await self.hand.take_all(number)
        self.notice()
        for partition in self.model:
            assert partition.told.issuperset(partition.offsets(DROPPED)), "a gap was never told"
        for _ in range(100):
            if all(log.pages == 0 for log in self.buffer.logs):
                break
            await asyncio.sleep(0.001)
        assert [log.pages for log in self.buffer.logs] == [0] * len(self.buffer.logs)


class BufferInMemory(BufferMachine):
    """Over a store that forgets, at a kill, what was not synced."""

    @rule(kept=st.integers(0, 1), at=PLACES)
    def fail_to_sync(self, kept: int, at: int) -> None:
        async def work() -> None:
            await self.confirm()
            assert isinstance(self.bytes_store, MemoryStore)
            self.bytes_store.fail_next("sync")
            partition, found = at % len(self.model), self.some(1)
            try:
                append = await self.buffer.append(page(*found, partition=partition))
            except SinkFull:
                append = None
            self.notice()
            if append is None:
                with pytest.raises(StoreFenced):
                    await self.broker.committer.write([])
            else:
                with pytest.raises(StoreFenced):
                    await append.done
                self.queued.append((partition, found, append, None))
            self.mortal.cut()
            await self.broker.close()
            for model, lane in zip(self.model, self.hand.subscription.lanes, strict=True):
                model.gone(lane.owner_epoch, failed=False)
            self.bytes_store = self.found_again(killed=True, kept=kept)
            await self.open_after_kill()

        self.run(work())


class BufferOnDisk(BufferMachine):
    """Over RocksDB in a temporary folder."""

    def new_store(self) -> Store:
        self.directory = Path(tempfile.mkdtemp())
        return RocksStore(self.directory / "store")

    def found_again(self, *, killed: bool, kept: int) -> Store:
        self.bytes_store.close()
        return RocksStore(self.directory / "store")

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "directory"):
            shutil.rmtree(self.directory)


QUIET: Final = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
BufferInMemory.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=QUIET
)
BufferOnDisk.TestCase.settings = settings(
    max_examples=8, stateful_step_count=25, deadline=None, suppress_health_check=QUIET
)
TestBufferInMemory = BufferInMemory.TestCase
TestBufferOnDisk = BufferOnDisk.TestCase


def test_a_failure_that_came_after_the_appends_is_not_made_durable_by_their_answers() -> None:
    """The model once took it for durable, which a long campaign found."""
    machine = BufferInMemory()
    machine.create(replace(DEFAULTS, partitions=2, buffer_page_size=1))
    machine.append(at=1, count=1)
    machine.deliver(at=1, records=None)
    machine.append_several_and_do_not_wait(at=0, counts=[1, 1])
    machine.lose_the_consumer()
    machine.fail_to_sync(kept=0, at=0)
    machine.the_account_is_the_model_s()
    machine.teardown()


def test_the_rest_of_a_page_in_flight_may_be_sent_when_it_is_too_old() -> None:
    """A page goes as a whole, and not while it is in flight; a long campaign found that the model forbade it."""
    machine = BufferInMemory()
    machine.create(replace(DEFAULTS, max_age_us=40_000_000))
    machine.append(at=0, count=2)
    machine.let_time_pass(seconds=31.0)
    machine.deliver(at=0, records=1)
    machine.let_time_pass(seconds=5.0)
    machine.let_time_pass(seconds=5.0)
    machine.deliver(at=0, records=1)
    assert list(machine.model[0].in_flight) == [0, 1]
    machine.teardown()


@pytest.mark.parametrize("page", [0, 1])
def test_of_two_pages_one_acked_and_behind_the_other_either_may_be_damaged(page: int) -> None:
    """Rare in a random history."""
    machine = BufferInMemory()
    machine.create(replace(DEFAULTS, buffer_page_size=1))
    machine.append(at=0, count=2)
    machine.append(at=0, count=2)
    machine.deliver(at=0, records=None)
    machine.ack(at=0, skip=2, count=2)
    machine.damage_while_stopped(at=page, consumer_first=False)
    machine.the_account_is_the_model_s()
    machine.kill_and_start(yields=0, kept=0)
    machine.the_account_is_the_model_s()
    machine.teardown()
