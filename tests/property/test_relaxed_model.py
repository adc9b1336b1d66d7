"""Random histories of a sink in RELAXED order against its model, on both stores: see ``relaxed_model``.

The histories are those of ``test_buffer_model``, with what differs in this order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from forebay.broker.core.delivery.lane import Answer, SettleOutcome
from forebay.broker.core.delivery.leased_sets import LeasedPart, Wanted
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import SECOND_US, Ordering, SinkSettings
from tests.property.test_buffer_model import PLACES, QUIET, SETTINGS, BufferInMemory, BufferMachine, BufferOnDisk
from tests.support.models.buffer_model import PENDING
from tests.support.models.relaxed_model import RelaxedPartition

RELAXED: Final = st.builds(
    lambda chosen, priority, failures, interval: replace(
        chosen,
        ordering=Ordering.RELAXED,
        resend_priority=priority,
        relaxed_failures_max=failures,
        resend_interval_us=interval,
    ),
    SETTINGS,
    st.sampled_from([-1, 0, 1]),
    st.sampled_from([1, 3, 10]),
    st.sampled_from([0, SECOND_US]),
)


HOLDERS: Final = st.sampled_from(["x", "y"])
LEASE_S: Final = 20.0


class Relaxed(BufferMachine):
    """Differences from STRICT order."""

    model: Any

    def __init__(self) -> None:
        super().__init__()
        self.until: dict[str, float] = {}
        """Expiry of a holder's lease."""

    @initialize(chosen=RELAXED)
    def create(self, chosen: SinkSettings) -> None:
        self.bytes_store = self.new_store()
        self.model = [RelaxedPartition() for _ in range(chosen.partitions)]
        self.run(self.open(chosen))

    async def open(self, chosen: SinkSettings | None = None) -> None:
        for partition in self.model:
            partition.seen.clear()  # how far it was sent is written with the next answer
            partition.leased.clear()
        await super().open(chosen)

    def notice(self) -> None:
        for partition in self.model:
            partition.now = self.clock.now
        super().notice()

    @rule(at=PLACES, which=PLACES, count=st.integers(1, 4), delay=st.sampled_from([None, 0.0, 5.0]))
    def nack(self, at: int, which: int, count: int, delay: float | None) -> None:
        async def work() -> None:
            number = at % len(self.model)
            partition, subscription = self.model[number], self.hand.subscription
            flying = sorted(partition.in_flight)
            offsets = flying[which % len(flying) :][:: 1 + which % 2][:count] if flying else []
            if offsets:
                failed = [offset for offset in offsets if offset - 1 not in offsets]
                ranges = [Range(offset, offset + 1) for offset in offsets]
                await subscription.retry(number, self.answer(number), ranges, delay_s=delay, reason="")
                for offset in offsets:
                    if offset in failed:
                        partition.failed(offset, waited_for=True)
                    else:
                        partition.stepped_aside(offset)
                self.notice()

        self.run(work())

    @rule(at=PLACES, which=PLACES)
    def answer_late(self, at: int, which: int) -> None:
        async def work() -> None:
            number = at % len(self.model)
            partition = self.model[number]
            if partition.void:
                epoch, revision, offset = partition.void[which % len(partition.void)]
                asked, answer = [Range(offset, offset + 1)], Answer(epoch, revision)
                [(_, _, outcome)] = await self.hand.subscription.ack(number, answer, asked)
                settled = partition.states[offset] != PENDING
                assert outcome in {
                    SettleOutcome.STALE,
                    SettleOutcome.ALREADY_SETTLED if settled else SettleOutcome.STALE,
                }

        self.run(work())

    @rule(seconds=st.sampled_from([0.1, 5.0, 31.0]))
    def let_time_pass(self, seconds: float) -> None:
        async def work() -> None:
            self.clock.advance(seconds)
            self.hand.subscription.process_timers()
            self.notice()
            late = {holder for holder, until in self.until.items() if self.clock.now >= until}
            for partition, lane in zip(self.model, self.hand.subscription.lanes, strict=True):
                partition.leases_ran_out(lane, late)
            for partition, lane in zip(self.model, self.hand.subscription.lanes, strict=True):
                partition.expired(lane, self.buffer.settings.ack_deadline_us / SECOND_US)
                assert self.clock.now < (lane.deadline() or self.clock.now + 1)

        self.run(work())

    @rule()
    def change_the_order_and_back(self) -> None:
        async def work() -> None:
            relaxed = self.buffer.settings
            await self.buffer.change(replace(relaxed, ordering=Ordering.STRICT))
            await self.buffer.change(relaxed)
            for partition in self.model:
                partition.leased.clear()
            self.notice()

        self.run(work())

    # -- sets

    def taken(self, holder: str, found: list[LeasedPart]) -> set[tuple[int, int]]:
        """Set of a holder according to the broker's answer, from which the model learns."""
        self.until[holder] = self.clock.now + LEASE_S
        has = {(part.partition, offset) for part in found for each in part.ranges for offset in range(*each)}
        for number, partition in enumerate(self.model):
            partition.taken_by(holder, {offset for at, offset in has if at == number})
        return has

    def held(self, holder: str) -> set[tuple[int, int]]:
        return {(number, offset) for number, one in enumerate(self.model) for offset in one.held(holder)}

    @rule(holder=HOLDERS, count=st.sampled_from([1, 3, 100]), before_due=st.booleans())
    def lease_a_set(self, holder: str, count: int, before_due: bool) -> None:
        async def work() -> None:
            await self.confirm()
            before = self.held(holder)
            found = await self.hand.subscription.leasing.lease(holder, Wanted(count, before_due=before_due), LEASE_S)
            self.notice()
            has = self.taken(holder, found)
            assert has == before or not before, "a holder that has a set got another one"
            assert before or len(has) <= count

        self.run(work())

    @rule(holder=HOLDERS, at=PLACES, first=PLACES, count=st.integers(1, 6))
    def lease_again_by_ranges(self, holder: str, at: int, first: int, count: int) -> None:
        async def work() -> None:
            await self.confirm()
            number = at % len(self.model)
            partition, lane = self.model[number], self.hand.subscription.lanes[number]
            before = self.held(holder)
            found = await self.hand.subscription.leasing.lease_again(
                holder, [LeasedPart(number, 0, (Range(first, first + count),))], LEASE_S
            )
            self.notice()
            asked = range(first, min(first + count, lane.cursor.sent))
            free = {(number, offset) for offset in asked if partition.free(offset)}
            assert self.taken(holder, found) == before | (set() if self.paused else free)

        self.run(work())

    @rule(holder=HOLDERS, at=PLACES, first=PLACES, count=st.integers(1, 6))
    def settle_as_a_holder(self, holder: str, at: int, first: int, count: int) -> None:
        async def work() -> None:
            await self.confirm()
            number = at % len(self.model)
            partition, lane = self.model[number], self.hand.subscription.lanes[number]
            end = min(first + count, len(partition.states))
            if first < end:
                sent = lane.cursor.sent
                part = LeasedPart(number, 0, (Range(first, end),))
                results = await self.hand.subscription.leasing.settle(holder, [part])
                assert [offset for _, each, _ in results for offset in range(*each)] == list(range(first, end))
                for _, each, outcome in results:
                    for offset in range(*each):
                        partition.settled_by(holder, offset, outcome, sent)
                self.notice()

        self.run(work())

    @rule(holder=HOLDERS)
    def give_a_set_back(self, holder: str) -> None:
        async def work() -> None:
            await self.give_back(holder)

        self.run(work())

    async def give_back(self, holder: str) -> None:
        held = self.held(holder)
        assert self.hand.subscription.leasing.release(holder) == len(held)
        for number, offset in held:
            del self.model[number].leased[offset]
        self.notice()

    async def everything_comes_in_the_end(self) -> None:
        for holder in ("x", "y"):
            await self.give_back(holder)
        await super().everything_comes_in_the_end()


class RelaxedInMemory(Relaxed, BufferInMemory):
    """Over a store that forgets, at a kill, what was not synced."""


class RelaxedOnDisk(Relaxed, BufferOnDisk):
    """Over RocksDB in a temporary folder."""


RelaxedInMemory.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=QUIET
)
RelaxedOnDisk.TestCase.settings = settings(
    max_examples=8, stateful_step_count=25, deadline=None, suppress_health_check=QUIET
)
TestRelaxedInMemory = RelaxedInMemory.TestCase
TestRelaxedOnDisk = RelaxedOnDisk.TestCase
