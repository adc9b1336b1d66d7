"""Random histories of one sink against a simple model, on both stores: see ``buffer_model`` for what must hold.

How a sink is driven beside its model is in ``buffer_driver``.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from forebay.broker.core.delivery.lane import Answer, SettleOutcome
from forebay.broker.core.errors import SinkFull, StoreFenced
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import DEFAULTS, Overflow, SinkSettings
from forebay.broker.storage.store.contract import Store
from forebay.broker.storage.store.memory import MemoryStore
from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.errors.reasons import Reason
from tests.support.models.buffer_driver import BufferDriver
from tests.support.models.buffer_model import PENDING, Partition
from tests.support.models.usage import usage
from tests.support.pages.samples import page, values
from tests.support.refusals import refusal
from tests.support.storage.memory_folder import memory_folder

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


class BufferMachine(BufferDriver):
    """Does the same to a sink and to its model."""

    @initialize(chosen=SETTINGS)
    def create(self, chosen: SinkSettings) -> None:
        self.bytes_store = self.new_store()
        self.model = [Partition() for _ in range(chosen.partitions)]
        self.run(self.open(chosen))

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
                with refusal(Reason.SEQUENCE_CONFLICT):
                    await session.publish(replace(again, crc32=zlib.crc32(b"other")), sequence)
                with refusal(Reason.SEQUENCE_GAP):
                    await session.publish(again, pages[-1][0] + 2)

        self.run(work())

    @rule()
    def reconnect_the_writer(self) -> None:
        if self.session is not None:
            self.session.end()
            self.session = None

    @rule(at=PLACES, records=st.sampled_from([None, None, 1, 3]))
    def deliver(self, at: int, records: int | None) -> None:
        async def work() -> None:
            await self.confirm()
            await self.hand.take(at % len(self.model), records_max=records)
            self.notice()

        self.run(work())

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
                assert results[-1][2] is (SettleOutcome.ALREADY_SETTLED if settled else SettleOutcome.OK)
                for offset in range(end):
                    if model.states[offset] == PENDING:
                        model.acked(offset)
                    else:
                        model.notified.add(offset)  # a consumer that acks them all by offset counts as notified
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
                assert [outcome for _, _, outcome in results] == [SettleOutcome.STALE]

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
            self.hand.subscription.process_timers()
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
                oldest_us = self.buffer.state.age.now_us() - self.buffer.settings.max_age_us
                flying = self.buffer.state.in_flight(log.number)
                old = [e for e in log.first_entries() if e.age_us < oldest_us and e.base not in flying]
                assert not old or not self.buffer.settings.max_age_us

        self.run(work())

    @rule(hours=st.sampled_from([-1, 1, 24 * 365]))
    def jump_the_wall_clock(self, hours: int) -> None:
        age_us = self.buffer.state.age.now_us()
        self.clock.wall = max(1, self.clock.wall + hours * 3_600_000_000)
        assert self.buffer.state.age.now_us() == age_us

    @rule()
    def lose_the_consumer(self) -> None:
        async def work() -> None:
            self.leave()
            await self.join()

        self.run(work())

    @rule()
    def pause_or_resume(self) -> None:
        async def work() -> None:
            await (self.buffer.resume() if self.paused else self.buffer.stop("maintenance"))
            self.paused = not self.paused
            self.notice()

        self.run(work())

    @rule()
    def stop_and_start(self) -> None:
        async def work() -> None:
            await self.stop()
            await self.open()

        self.run(work())

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
            await self.buffer.removal.confirmed()
            self.notice()
            assert [partition.offsets(PENDING) for partition in self.model] == left, "more was lost than the page"
            await self.settled_goes()

        self.run(work())

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


class BufferInWindow(BufferMachine):
    """Over a store whose commits begin before those before them have ended."""

    is_windowed = True


class BufferOnDisk(BufferMachine):
    """Over RocksDB in a temporary folder."""

    def new_store(self) -> Store:
        self.directory = Path(tempfile.mkdtemp(dir=memory_folder()))
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
BufferInWindow.TestCase.settings = settings(
    max_examples=20, stateful_step_count=40, deadline=None, suppress_health_check=QUIET
)
BufferOnDisk.TestCase.settings = settings(
    max_examples=8, stateful_step_count=25, deadline=None, suppress_health_check=QUIET
)
TestBufferInMemory = BufferInMemory.TestCase
TestBufferInWindow = BufferInWindow.TestCase
TestBufferOnDisk = BufferOnDisk.TestCase
