"""Permanently rejected records: where they are moved, when that is reported, and moves that fail."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from forebay.broker.core.dead_letters.letters import RejectionReason
from forebay.broker.core.delivery.lane import SettleOutcome
from forebay.broker.core.delivery.redelivery import State
from forebay.broker.core.errors import StoreFenced
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import Ordering, SinkSettings
from forebay.broker.rpc.pages.codec import PageCodec
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import Clock, FakeClock
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.store.memory import MemoryStore
from forebay.errors.reasons import Reason
from tests.support.brokers.dead_letters import letters
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import move, running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio
OK, SETTLED, STALE = SettleOutcome.OK, SettleOutcome.ALREADY_SETTLED, SettleOutcome.STALE
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@asynccontextmanager
async def orders(
    store: Any = None, clock: Clock | None = None, *, records: int = 10, **settings: Any
) -> AsyncIterator[tuple[Broker, Buffer]]:
    """The sink `orders` with pages of one record, and its broker."""
    async with running(store, clock) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(**{"buffer_page_size": 1, **settings}))
        await fill(buffer, records)
        yield broker, buffer


async def reject(taker: Taker, first: int, end: int, reason: str = "no such customer") -> list[SettleOutcome]:
    """Reject a range; what became of its parts."""
    results = await taker.subscription.reject(0, taker.answer(), [Range(first, end)], reason=reason)
    return [outcome for _, _, outcome in results]


def account(taker: Taker) -> tuple[int, int, int]:
    """(acked, dead-lettered, pending) of partition 0."""
    cursor = taker.lane().cursor
    log = taker.subscription.log(0)
    assert cursor.balances(log.tail.next_offset)
    return cursor.acked, cursor.dead_lettered, cursor.pending(log.tail.next_offset)


async def test_a_record_rejected_for_good_is_in_the_dead_letter_sink_and_the_next_continues() -> None:
    async with orders() as (broker, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.one()

        assert await reject(taker, 0, 1) == [OK]

        [letter] = await letters(broker)
        origin = letter.origin
        assert origin is not None
        assert (origin.reason, origin.error, origin.attempts) == (RejectionReason.REJECTED, "no such customer", 1)
        assert (origin.subscription, origin.sink, origin.partition, origin.offset) == ("default", "orders", 0, 0)
        assert origin.incarnation == buffer.record.incarnation
        assert letter.record.value == b"x" * 10
        assert account(taker) == (0, 1, 9)
        assert await taker.one() == [1]
        assert buffer.record.paused is None


async def test_many_records_of_one_range_go_out_of_their_pages_in_order() -> None:
    async with orders(records=0, dlq_ratio_max=1.0) as (broker, buffer):
        values = [f"value {number}".encode() for number in range(300)]
        await (await buffer.append(page(*values[:100], traceparent=TRACE))).done
        await (await buffer.append(page(*values[100:]))).done
        taker = Taker(buffer.subscription(""))
        await taker.take_all()

        assert await reject(taker, 50, 250) == [OK]

        found = await letters(broker)
        assert [letter.record.value for letter in found] == values[50:250]
        assert [letter.origin.offset for letter in found if letter.origin] == list(range(50, 250))
        assert [letter.origin.traceparent for letter in found if letter.origin] == [TRACE] * 50 + [""] * 150
        assert account(taker) == (0, 200, 100)


async def test_a_dead_letter_is_neither_reported_nor_counted_before_its_batch_is_durable() -> None:
    store = HeldStore()
    async with orders(store) as (broker, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.offsets(records_max=1)
        store.hold()

        rejected = asyncio.ensure_future(reject(taker, 0, 1))
        await store.reached()

        assert not rejected.done()
        assert account(taker) == (0, 0, 10)
        assert taker.lane().records_in_flight == 1
        store.let_go()
        assert await rejected == [OK]
        assert account(taker) == (0, 1, 9)
        assert len(await letters(broker)) == 1


@pytest.mark.parametrize(("most", "dead", "state"), [(1, 1, State.BACKING_OFF), (0, 0, State.BACKING_OFF)])
async def test_with_one_attempt_an_error_leads_to_the_dead_letters_and_without_a_bound_to_a_resend(
    most: int, dead: int, state: State
) -> None:
    clock = FakeClock()
    async with orders(clock=clock, max_attempts=most) as (broker, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.one()

        await taker.nack(0, 1, delay_s=1.0, reason="HTTP 500")
        await buffer.settled_in()
        await moved(broker, dead)

        assert account(taker) == (0, dead, 10 - dead)
        assert taker.lane().resend.state is state
        clock.advance(2.0)
        assert await taker.one() == [dead]
        reasons = [(o.reason, o.error, o.attempts) for letter in await letters(broker) if (o := letter.origin)]
        assert reasons == [(RejectionReason.MAX_ATTEMPTS, "HTTP 500", 1)] * dead


async def test_the_last_try_may_end_by_its_deadline_or_with_the_consumer() -> None:
    clock = FakeClock()
    async with orders(clock=clock, max_attempts=2) as (broker, buffer):
        subscription = buffer.subscription("")
        taker = Taker(subscription)
        await taker.one()
        clock.advance(31.0)
        subscription.process_timers()
        clock.advance(31.0)
        assert await taker.one() == [0]
        subscription.leave(taker.consumer)

        await moved(broker, 1)

        [letter] = await letters(broker)
        assert letter.origin is not None
        assert (letter.origin.error, letter.origin.attempts) == ("the consumer left without an answer", 2)


async def test_a_dead_letter_of_a_dead_letter_is_a_retry() -> None:
    clock = FakeClock()
    async with orders(clock=clock, max_attempts=1) as (broker, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.one()
        await reject(taker, 0, 1)
        again = Taker(broker.sinks["orders.dlq"].subscription(""))
        assert await again.one() == [0]

        assert await reject(again, 0, 1) == [OK]

        clock.advance(60.0)
        assert await again.one() == [0]
        assert again.lane().cursor.attempts == ((0, 1),)
        assert "orders.dlq.dlq" not in broker.sinks


async def test_without_dead_letters_the_sink_stops_and_the_record_stays() -> None:
    async with orders(dlq=False) as (broker, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.take_all()

        await reject(taker, 2, 3)

        assert buffer.record.paused == "REJECTED_BY_TARGET: partition 0, offset 2: no such customer"
        assert account(taker) == (0, 0, 10)
        assert "orders.dlq" not in broker.sinks


async def test_without_dead_letters_the_last_try_stops_the_sink() -> None:
    async with orders(dlq=False, max_attempts=1) as (_, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.one()

        await taker.nack(0, 1, reason="HTTP 500")

        assert buffer.record.paused is not None
        assert buffer.record.paused.startswith("REJECTED_BY_TARGET: partition 0, offset 0: it has failed 1 time: ")


async def test_a_full_dead_letter_sink_stops_the_sink_and_the_record_stays_pending() -> None:
    async with orders() as (broker, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.one()
        await reject(taker, 0, 1)
        dead = broker.sinks["orders.dlq"]
        await dead.change(dead.settings.changed({"max_total_bytes": 1024}))
        await taker.take_all()

        outcomes = await reject(taker, 1, 9)

        assert outcomes == [STALE]
        assert buffer.record.paused is not None
        assert buffer.record.paused.startswith("DLQ_FULL: ")
        assert account(taker) == (0, 1, 9)
        assert taker.lane().cursor.attempts == ((1, 1),)
        await dead.change(dead.settings.changed({"max_total_bytes": 10_000_000}))
        await buffer.resume()
        assert await taker.one() == [1]
        assert await reject(taker, 1, 2) == [OK]
        assert account(taker) == (0, 2, 8)


@pytest.mark.parametrize("ordering", Ordering)
async def test_a_failed_transfer_is_no_attempt_of_a_record_whose_attempts_have_failed(ordering: Ordering) -> None:
    async with orders(max_attempts=1, ordering=ordering) as (broker, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.one()
        await reject(taker, 0, 1)
        dead = broker.sinks["orders.dlq"]
        await dead.change(dead.settings.changed({"max_disk_cache": 1}))
        await taker.take_all()

        await taker.nack(1, 9, reason="HTTP 500")
        while buffer.record.paused is None:
            await broker.committer.committed.next().wait()

        assert buffer.record.paused.startswith("DLQ_FULL: ")
        assert taker.lane().cursor.attempts == ((1, 1),)


async def test_records_on_their_way_go_to_no_consumer_and_no_answer_counts_for_them() -> None:
    store, clock = HeldStore(), FakeClock()
    async with orders(store, clock) as (broker, buffer):
        subscription = buffer.subscription("")
        taker = Taker(subscription)
        await taker.take_all()
        store.hold()
        rejected = asyncio.ensure_future(reject(taker, 0, 2))
        await store.reached()

        late = asyncio.ensure_future(taker.ack(0, 3))
        await asyncio.sleep(0)
        clock.advance(31.0)
        subscription.process_timers()
        subscription.leave(taker.consumer)
        other = Taker(subscription, "other")
        clock.advance(60.0)
        offsets = await other.all_offsets()

        assert 0 not in offsets
        assert 1 not in offsets
        store.let_go()
        assert await rejected == [OK]
        assert SETTLED in await late
        assert [letter.origin.offset for letter in await letters(broker) if letter.origin] == [0, 1]


async def test_ack_until_passes_over_what_is_on_its_way() -> None:
    store = HeldStore()
    async with orders(store) as (broker, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.take_all()
        store.hold()
        rejected = asyncio.ensure_future(reject(taker, 2, 4))
        await store.reached()

        until = asyncio.ensure_future(_awaited(taker.subscription.ack(0, taker.answer(), [Range(0, 10)], until=True)))
        await asyncio.sleep(0)
        store.let_go()

        await rejected
        await until
        assert account(taker) == (8, 2, 0)
        assert len(await letters(broker)) == 2


async def test_a_store_that_fails_settles_nothing() -> None:
    store = MemoryStore()
    async with orders(store) as (_, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.one()
        store.fail_next("sync")

        with pytest.raises(StoreFenced):
            await reject(taker, 0, 1)

        assert account(taker) == (0, 0, 10)


async def test_a_restart_finds_the_dead_letter_and_its_account_together() -> None:
    store = MemoryStore()
    async with orders(store) as (_, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.take_all()
        await reject(taker, 3, 5)
        await taker.ack(0, 3)

    async with running(store.crash()) as broker:
        taker = Taker(broker.sink("orders").subscription(""))
        assert account(taker) == (3, 2, 5)
        assert [letter.origin.offset for letter in await letters(broker) if letter.origin] == [3, 4]
        assert await taker.all_offsets() == [5, 6, 7, 8, 9]


async def test_so_many_in_a_row_stop_the_sink_and_a_resume_lets_it_continue() -> None:
    async with orders(dlq_consecutive_max=3, dlq_ratio_max=1.0) as (broker, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.take_all()

        outcomes = await reject(taker, 0, 10)

        assert outcomes == [OK, STALE]
        assert buffer.record.paused == "DLQ_BREAKER: 3 records in a row went to the dead-letter sink"
        assert account(taker) == (0, 3, 7)
        assert len(await letters(broker)) == 3


async def test_after_a_resume_the_breaker_judges_again() -> None:
    async with orders(dlq_consecutive_max=3, dlq_ratio_max=1.0) as (_, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.take_all()
        await reject(taker, 0, 10)

        await buffer.resume()

        assert buffer.record.paused is None
        assert await taker.all_offsets() == [3, 4, 5, 6, 7, 8, 9]
        assert await reject(taker, 3, 5) == [OK]
        assert account(taker) == (0, 5, 5)


async def test_a_dead_letter_while_probing_counts_as_success_of_the_probe() -> None:
    clock = FakeClock()
    async with orders(clock=clock) as (_, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.one()
        await taker.nack(0, 1, delay_s=1.0)
        clock.advance(2.0)
        assert await taker.one() == [0]
        assert taker.lane().resend.state is State.PROBING

        await reject(taker, 0, 1)

        assert taker.lane().resend.state is State.RESENDING
        assert len(await taker.all_offsets()) == 9


async def test_a_record_dropped_before_it_could_be_moved_counts_as_dropped() -> None:
    store = HeldStore()
    async with orders(store, realtime=False) as (broker, buffer):
        subscription = buffer.subscription("")
        taker = Taker(subscription)
        await taker.take_all()
        store.reads.close()
        rejected = asyncio.ensure_future(reject(taker, 0, 2))
        await store.reads.reached()
        subscription.leave(taker.consumer)
        buffer.removal.drop(0, buffer.logs[0].first_entries()[:1], DropReason.OVERFLOW)
        store.reads.open()

        assert await rejected == [SETTLED, OK]
        assert account(taker) == (0, 1, 8)
        assert taker.lane().cursor.dropped == 1
        assert [letter.origin.offset for letter in await letters(broker) if letter.origin] == [1]


async def test_a_seek_closes_the_account_and_the_dead_letter_stays() -> None:
    store = HeldStore()
    async with orders(store) as (broker, buffer):
        subscription = buffer.subscription("")
        taker = Taker(subscription)
        await taker.take_all()
        store.hold()
        rejected = asyncio.ensure_future(reject(taker, 0, 2))
        await store.reached()

        sought = move(subscription, 0, 5)
        store.let_go()
        await rejected
        await sought

        assert account(taker) == (0, 0, 5)
        assert await taker.all_offsets() == [5, 6, 7, 8, 9]
        assert len(await letters(broker)) == 2


async def test_only_the_broker_writes_dead_letters() -> None:
    async with orders() as (broker, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.one()
        await reject(taker, 0, 1)

        with refusal(Reason.INVALID_SINK_NAME):
            await broker.sinks["orders.dlq"].append(page(b"forged"))
        with refusal(Reason.INVALID_SINK_NAME):
            await broker.create("other.dlq", SinkSettings())


async def test_a_deleted_sink_leaves_its_dead_letters_unless_they_are_to_go_too() -> None:
    async with orders() as (broker, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.one()
        await reject(taker, 0, 1)

        await broker.delete("orders", force=True)
        assert list(broker.sinks) == ["orders.dlq"]

        await broker.create("orders", SinkSettings())
        await broker.delete("orders", force=True, dead_letters=True)
        assert list(broker.sinks) == []


async def moved(broker: Broker, records: int) -> None:
    """Return when so many dead letters are durable."""
    while True:
        moment = broker.committer.committed.next()
        if len(await letters(broker)) >= records:
            return
        await moment.wait()


async def _awaited(results: Any) -> Any:
    return await results


async def test_a_rejection_that_has_no_waiter_any_more_ends_with_the_subscription_without_a_word() -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    store = HeldStore()
    async with orders(store) as (_, buffer):
        subscription = buffer.subscription("")
        taker = Taker(subscription)
        await taker.take_all()
        store.hold()
        subscription.reject(0, taker.answer(), [Range(0, 1)], reason="no such customer")
        await store.reached()

        subscription.close()
        for _ in range(20):
            await asyncio.sleep(0)
        gc.collect()
        store.let_go()

    assert reported == []


async def test_a_mistake_in_the_worker_gives_its_records_back_and_the_next_ones_are_moved(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = PageCodec.cut

    def fail_once(*args: Any) -> Any:
        monkeypatch.setattr(PageCodec, "cut", cut)
        raise ZeroDivisionError("a mistake of ours")

    clock = FakeClock()
    async with orders(clock=clock) as (broker, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.one()
        monkeypatch.setattr(PageCodec, "cut", fail_once)

        assert await reject(taker, 0, 1) == [STALE]

        assert "dead-letter worker failed sink=orders" in caplog.text
        assert account(taker) == (0, 0, 10)
        clock.advance(60)
        assert await taker.one() == [0]
        assert await reject(taker, 0, 1) == [OK]
        assert [letter.record.value for letter in await letters(broker)] == [b"x" * 10]
        assert account(taker) == (0, 1, 9)
