"""The `resend` flag after a restart: what was delivered before, however the broker ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from forebay.broker.core.partition.position import EARLIEST
from forebay.broker.core.settings import SinkSettings
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.commit.accepted import AcceptedUnknown
from forebay.broker.runtime.delivery import marks as delivery_marks
from forebay.broker.runtime.delivery.consumer import Credit
from forebay.broker.runtime.delivery.events import Delivered
from forebay.broker.runtime.delivery.marks import DeliveryMarks, lane_name
from forebay.broker.storage.records.accepted import AcceptedInMemory
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.running import Hand, Mortal, begin
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio
SETTINGS = SinkSettings(buffer_page_size=1)
LANE, OTHER = lane_name(1, "default", 7, 0), lane_name(1, "default", 7, 1)


class Machine:
    """Runs of brokers on one store; pages of one record."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.counts = AcceptedInMemory()

    @asynccontextmanager
    async def killed(self, records: int = 0, *, taken: int = 0) -> AsyncIterator[Broker]:
        """A run that appends and delivers, does what the test does with it, and is killed."""
        mortal = Mortal(self.store)
        broker = begin(mortal, FakeClock(), delivered=self.counts)
        await self._append_and_take(broker, records, taken)
        yield broker
        mortal.cut()
        await broker.close()
        self.store, self.counts = self.store.reopen(), self.counts.killed()

    @asynccontextmanager
    async def stopped(self, records: int = 0, *, taken: int = 0) -> AsyncIterator[Broker]:
        """As ``killed``, but the run stops in order."""
        broker = begin(self.store, FakeClock(), delivered=self.counts)
        await self._append_and_take(broker, records, taken)
        yield broker
        await broker.close()
        self.store, self.counts = self.store.reopen(), AcceptedInMemory()

    async def _append_and_take(self, broker: Broker, records: int, taken: int) -> None:
        buffer, _ = await broker.create("orders", SETTINGS)
        for number in range(records):
            await (await buffer.append(page(b"%d" % number))).done
        if taken:
            await resent(broker, "default", taken)


async def resent(broker: Broker, subscription: str, records: int) -> list[tuple[int, bool]]:
    """(offset, `resend`) of the next records of a subscription, none of which is answered."""
    hand = Hand(broker.sink("orders").subscription(subscription), "one", Credit(1, 1 << 30))
    found: list[tuple[int, bool]] = []
    for number in range(records):
        hand.consumer.credit = Credit(number + 1, 1 << 30)
        event = await hand.take()
        assert isinstance(event, Delivered)
        found += [(part.first, event.resend) for part in event.ranges]
    hand.subscription.leave(hand.consumer, orderly=True)
    return found


async def test_after_a_kill_what_was_delivered_is_a_resend_and_the_rest_is_not() -> None:
    machine = Machine()
    async with machine.killed(4, taken=2):
        pass

    async with machine.killed() as broker:
        assert await resent(broker, "default", 4) == [(0, True), (1, True), (2, False), (3, False)]


async def test_records_delivered_by_any_earlier_run_are_resends_after_repeated_kills() -> None:
    machine = Machine()
    async with machine.killed(4, taken=2):
        pass
    async with machine.killed():
        pass

    async with machine.killed() as broker:
        assert await resent(broker, "default", 3) == [(0, True), (1, True), (2, False)]
    async with machine.killed() as broker:
        assert await resent(broker, "default", 4) == [(0, True), (1, True), (2, True), (3, False)]


async def test_after_an_orderly_stop_the_cursors_know_it_on_any_machine() -> None:
    machine = Machine()
    async with machine.stopped(3, taken=2):
        pass

    async with machine.stopped() as broker:
        assert await resent(broker, "default", 3) == [(0, True), (1, True), (2, False)]


async def test_after_a_power_loss_all_that_is_unsettled_counts_as_delivered_and_new_records_do_not() -> None:
    machine = Machine()
    async with machine.killed(2, taken=1):
        pass
    machine.counts = AcceptedInMemory()  # of another boot

    async with machine.killed() as broker:
        await (await broker.sink("orders").append(page(b"new"))).done
        assert await resent(broker, "default", 3) == [(0, True), (1, True), (2, False)]


async def test_a_stop_of_an_earlier_run_says_nothing_of_a_run_that_lost_power() -> None:
    machine = Machine()
    async with machine.stopped(2):
        pass
    async with machine.killed() as broker:
        await resent(broker, "default", 1)
    machine.counts = AcceptedInMemory()

    async with machine.killed() as broker:
        assert await resent(broker, "default", 2) == [(0, True), (1, True)]


async def test_each_subscription_has_marks_of_its_own() -> None:
    machine = Machine()
    async with machine.killed(2, taken=1) as broker:
        await broker.sink("orders").subscribing.create("audit", EARLIEST, or_earliest=False)
        await resent(broker, "audit", 2)

    async with machine.killed() as broker:
        assert await resent(broker, "default", 2) == [(0, True), (1, False)]
        assert await resent(broker, "audit", 2) == [(0, True), (1, True)]


async def test_a_subscription_recreated_under_a_name_has_no_marks_of_the_former() -> None:
    machine = Machine()
    clock_moved = 1
    async with machine.killed(2) as broker:
        subscribing = broker.sink("orders").subscribing
        await subscribing.create("audit", EARLIEST, or_earliest=False)
        await resent(broker, "audit", 2)
        await subscribing.delete("audit")
        assert isinstance(broker.clock, FakeClock)
        broker.clock.wall += clock_moved
        await subscribing.create("audit", EARLIEST, or_earliest=False)

    async with machine.killed() as broker:
        assert await resent(broker, "audit", 2) == [(0, False), (1, False)]


def counted(*notes: tuple[tuple[int, int], int]) -> AcceptedInMemory:
    """Marks as a killed run leaves them."""
    counts = AcceptedInMemory()
    marks = DeliveryMarks(counts, stopped=False, damaged=False)
    marks.begin()
    for lane, end in notes:
        marks.note(lane, end)
    return counts.killed()


def test_a_mark_never_says_more_than_is_stored() -> None:
    marks = DeliveryMarks(counted((LANE, 9)), stopped=False, damaged=False)

    assert (marks.delivered(LANE, 20), marks.delivered(LANE, 5), marks.delivered(OTHER, 20)) == (9, 5, 0)


def test_the_place_of_a_lane_that_is_gone_is_used_again() -> None:
    counts = AcceptedInMemory()
    marks = DeliveryMarks(counts, stopped=False, damaged=False)
    marks.begin()
    marks.note(LANE, 9)
    marks.remove([LANE])
    marks.note(OTHER, 3)

    found = DeliveryMarks(counts.killed(), stopped=False, damaged=False)
    assert max(counts.counts) == 3
    assert (found.delivered(LANE, 20), found.delivered(OTHER, 20)) == (0, 3)


def test_beyond_the_bound_of_lanes_nothing_is_known_rather_than_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_marks, "LANES_MAX", 1)

    marks = DeliveryMarks(counted((LANE, 9), (OTHER, 3)), stopped=False, damaged=False)

    assert not marks.known
    assert marks.delivered(OTHER, 20) == 20


@pytest.mark.parametrize("stopped", [True, False])
def test_damage_makes_marks_and_cursors_unknown(stopped: bool) -> None:
    assert not DeliveryMarks(counted((LANE, 9)), stopped=stopped, damaged=True).known


def test_without_a_file_nothing_is_known_after_anything_but_an_orderly_stop() -> None:
    assert not DeliveryMarks(AcceptedUnknown(), stopped=False, damaged=False).known
    assert DeliveryMarks(AcceptedUnknown(), stopped=True, damaged=False).none_found
