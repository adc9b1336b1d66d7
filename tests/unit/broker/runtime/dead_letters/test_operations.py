"""Dead letters listed, redriven and purged: what moves, for whom, and that a crash neither loses nor doubles it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from forebay.broker.core.dead_letters.letters import Filter, RejectionReason
from forebay.broker.core.delivery.lane import Lane
from forebay.broker.core.errors import (
    InvalidPartition,
    OffsetAhead,
    SinkFull,
    SinkNotFound,
    SubscriptionNotFound,
)
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.position import EARLIEST
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import BufferMode, Overflow, SinkSettings
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.dead_letters.batch import append_when_room
from forebay.broker.runtime.dead_letters.operations import DeadLetterOperations, Position
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.store.memory import MemoryStore
from forebay.errors.reasons import Reason
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page, values
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio
ALL = Filter()


@asynccontextmanager
async def dead_orders(
    store: MemoryStore | None = None,
    *,
    dead: int = 10,
    partitions: int = 1,
    others: Sequence[str] = (),
    **more: Any,
) -> AsyncIterator[tuple[Broker, Buffer]]:
    """The sink `orders`, all of whose records were rejected."""
    async with running(store) as broker:
        settings = SinkSettings(buffer_page_size=4, partitions=partitions, dlq_ratio_max=1.0, max_attempts=1, **more)
        buffer, _ = await broker.create("orders", settings)
        for name in others:
            await buffer.subscribing.create(name, EARLIEST, or_earliest=False)
        for partition in range(partitions):
            published = [f"{partition}/{number}".encode() for number in range(dead)]
            await (await buffer.append(page(*published, partition=partition))).done
        taker = Taker(buffer.subscription(""))
        for partition in range(partitions):
            await taker.take_all(partition)
            for first in range(0, dead, 2):
                answer, part = taker.answer(partition), [Range(first, first + 1)]
                await buffer.subscription("").reject(partition, answer, part, reason=f"no customer {first}")
                await taker.nack(first + 1, first + 2, partition, reason="HTTP 500")
                await all_moved(taker.lane(partition), broker)
                await taker.take_all(partition)
        buffer.subscription("").leave(taker.consumer)
        yield broker, buffer


async def all_moved(lane: Lane, broker: Broker) -> None:
    """Return when nothing of a lane is on its way."""
    while True:
        moment = broker.committer.committed.next()
        if not lane.transfers:
            return
        await moment.wait()


async def stored(broker: Broker, buffer: Buffer, partition: int = 0) -> list[bytes]:
    """Values of a partition, from the first that is still stored on."""
    log, pages = buffer.logs[partition], broker.pages
    entries = pages.journal.entries(buffer.record.id, partition, 0, log.tail.next_offset, 1_000)
    bodies, _ = await pages.bodies(buffer.record.id, partition, entries)
    return [value for body in bodies if body is not None for value in values(body.data)]


async def listed(broker: Broker, wanted: Filter = ALL, *, size: int = 1_000) -> list[bytes]:
    """Values of the dead letters that a list tells, page by page."""
    found: list[bytes] = []
    at: Position | None = None
    while True:
        letters, at = await DeadLetterOperations(broker, "orders").list(wanted, size, at)
        found += [letter.record.value for _, letter in letters]
        if at is None:
            return found


def accounts(buffer: Buffer, name: str = "") -> list[Cursor]:
    """Every account of a subscription, checked."""
    subscription = buffer.subscription(name)
    for lane, log in zip(subscription.lanes, buffer.logs, strict=True):
        assert lane.cursor.balances(log.tail.next_offset)
        assert lane.cursor.pending(log.tail.next_offset) >= 0
    return [lane.cursor for lane in subscription.lanes]


def numbers(*which: int, partition: int = 0) -> list[bytes]:
    return [f"{partition}/{number}".encode() for number in which]


async def test_a_list_reports_all_in_pages_of_any_size() -> None:
    async with dead_orders(partitions=2) as (broker, _):
        every = [*numbers(*range(10)), *numbers(*range(10), partition=1)]

        assert await listed(broker) == every
        assert await listed(broker, size=3) == every


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Filter(reason=RejectionReason.REJECTED), [0, 2, 4, 6, 8]),
        (Filter(reason=RejectionReason.MAX_ATTEMPTS), [1, 3, 5, 7, 9]),
        (Filter(error_contains="customer 4"), [4]),
        (Filter(offsets=Range(3, 6)), [3, 4, 5]),
        (Filter(partition=1), []),
        (Filter(subscription="other"), []),
        (Filter(until_us=0), []),
        (Filter(from_us=0), list(range(10))),
    ],
)
async def test_a_filter_selects(wanted: Filter, expected: Sequence[int]) -> None:
    async with dead_orders() as (broker, _):
        assert await listed(broker, wanted) == numbers(*expected)


async def test_redriven_records_are_at_the_end_of_their_origin_as_they_were() -> None:
    async with dead_orders() as (broker, buffer):
        done = await DeadLetterOperations(broker, "orders").redrive(
            Filter(reason=RejectionReason.REJECTED), 1_000, None
        )

        assert (done.records, done.next) == (5, None)
        assert (await stored(broker, buffer))[-5:] == numbers(0, 2, 4, 6, 8)
        assert await listed(broker) == numbers(1, 3, 5, 7, 9)
        [account] = accounts(buffer)
        assert (account.dead_lettered, account.pending(15)) == (10, 5)
        [dead] = accounts(broker.sinks["orders.dlq"])
        assert dead.acked == 5


async def test_more_dead_letters_than_a_sink_in_memory_may_hold_are_redriven_in_parts() -> None:
    limits: dict[str, Any] = {"memory_cache_threshold": 10, "overflow": Overflow.REJECT}
    async with dead_orders(dead=10, buffer_mode=BufferMode.MEMORY, **limits) as (broker, buffer):
        await broker.update("orders", {"memory_cache_threshold": 4})
        while await listed(broker):
            with suppress(SinkFull):
                await DeadLetterOperations(broker, "orders").redrive(ALL, 1_000, None)
            taker = Taker(buffer.subscription(""))
            await taker.all_offsets()
            await taker.ack(0, buffer.logs[0].tail.next_offset)
            buffer.subscription("").leave(taker.consumer)

        assert buffer.logs[0].tail.next_offset == 20


async def test_a_redrive_in_small_calls_meets_nothing_twice_even_when_it_fails_again_at_once() -> None:
    async with dead_orders() as (broker, buffer):
        at: Position | None = None
        calls: list[int] = []
        while True:
            done = await DeadLetterOperations(broker, "orders.dlq").redrive(ALL, 3, at)
            calls.append(done.records)
            taker = Taker(buffer.subscription(""))
            for offset in await taker.all_offsets():
                answer = taker.answer()
                await taker.subscription.reject(0, answer, [Range(offset, offset + 1)], reason="again")
            at = done.next
            if at is None:
                break

        assert calls == [3, 3, 3, 1]
        assert sorted(await listed(broker)) == sorted(numbers(*range(10)))


async def test_other_subscriptions_have_nothing_to_do_with_what_is_redriven() -> None:
    store = HeldStore()
    async with dead_orders(store, others=["audit"]) as (broker, _):
        await DeadLetterOperations(broker, "orders").redrive(ALL, 1_000, None)
    async with running(store.crash()) as broker:
        buffer = broker.sink("orders")
        audit = Taker(buffer.subscription("audit"))

        [account] = accounts(buffer, "audit")
        assert (account.skipped, account.pending(20)) == (10, 10)
        assert await audit.all_offsets() == list(range(10))
        await audit.ack(0, 10)
        assert audit.lane().cursor.watermark == 20
        assert len(await Taker(buffer.subscription("")).all_offsets()) == 10


async def test_until_the_batch_is_durable_no_account_shows_a_redrive() -> None:
    store = HeldStore()
    async with dead_orders(store, others=["audit"]) as (broker, buffer):
        box = broker.sinks["orders.dlq"]
        store.hold()
        redriving = asyncio.ensure_future(DeadLetterOperations(broker, "orders").redrive(ALL, 1_000, None))
        await store.reached()
        while not buffer.subscription("audit").lanes[0].transfers:  # the batch of a trim came before
            store.let_one_go()
            await store.reached()

        [account], [audit], [dead] = accounts(buffer), accounts(buffer, "audit"), accounts(box)

        assert (account.pending(10), audit.skipped, audit.pending(10), dead.acked) == (0, 0, 10, 0)
        assert await listed(broker) == []  # no other caller may take them
        store.let_go()
        assert (await redriving).records == 10
        accounts(buffer)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_redrive_cut_off_by_a_crash_has_happened_or_not_happened(fails: bool) -> None:
    store = MemoryStore()
    async with dead_orders(store) as (broker, _):
        if fails:
            store.fail_next("sync")
            with pytest.raises(Exception, match="fenced"):
                await DeadLetterOperations(broker, "orders").redrive(ALL, 1_000, None)
        else:
            await DeadLetterOperations(broker, "orders").redrive(ALL, 1_000, None)
    async with running(store.crash()) as broker:
        buffer = broker.sink("orders")
        pending = await Taker(buffer.subscription("")).all_offsets()

        assert len(pending) + len(await listed(broker)) == 10
        assert bool(pending) is not fails
        accounts(buffer)
        accounts(broker.sink("orders.dlq"))


async def test_dead_letters_in_flight_to_a_consumer_are_not_redriven() -> None:
    async with dead_orders() as (broker, buffer):
        reader = Taker(broker.sinks["orders.dlq"].subscription(""))
        taken = await reader.offsets(records_max=3)

        done = await DeadLetterOperations(broker, "orders").redrive(ALL, 1_000, None)

        assert done.records == 10 - len(taken)
        await reader.ack(0, len(taken))
        assert await listed(broker) == []
        accounts(buffer)


async def test_an_origin_that_is_full_refuses_and_what_was_not_redriven_stays() -> None:
    async with dead_orders() as (broker, buffer):
        await buffer.change(buffer.settings.changed({"max_disk_cache": 12}))
        await fill(buffer, 5)

        with pytest.raises(SinkFull):
            await DeadLetterOperations(broker, "orders").redrive(ALL, 10, None)

        assert len(await listed(broker)) == 10
        assert (await DeadLetterOperations(broker, "orders").redrive(ALL, 7, None)).records == 7
        accounts(buffer)


async def test_a_subscription_that_is_gone_is_named_and_nothing_moves() -> None:
    async with dead_orders() as (broker, buffer):
        del buffer.subscriptions["default"]

        with pytest.raises(SubscriptionNotFound):
            await DeadLetterOperations(broker, "orders").redrive(ALL, 10, None)

        assert len(await listed(broker)) == 10


async def test_a_subscription_that_is_deleted_during_a_redrive_loses_no_dead_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with dead_orders(others=("billing",)) as (broker, buffer):
        real = append_when_room

        async def deleted_first(*given: Any) -> Any:
            buffer.subscriptions.pop("default", None)
            return await real(*given)

        monkeypatch.setattr(f"{DeadLetterOperations.__module__}.append_when_room", deleted_first)
        with pytest.raises(SubscriptionNotFound):
            await DeadLetterOperations(broker, "orders").redrive(ALL, 10, None)

        assert len(await listed(broker)) == 10


async def test_purged_dead_letters_are_gone_and_counted_as_skipped() -> None:
    async with dead_orders() as (broker, buffer):
        done = await DeadLetterOperations(broker, "orders").purge(Filter(reason=RejectionReason.REJECTED), 3, None)
        assert done.records == 3
        assert done.next is not None
        done = await DeadLetterOperations(broker, "orders").purge(Filter(reason=RejectionReason.REJECTED), 3, done.next)

        assert (done.records, done.next) == (2, None)
        assert await listed(broker) == numbers(1, 3, 5, 7, 9)
        [dead] = accounts(broker.sinks["orders.dlq"])
        assert (dead.skipped, dead.acked) == (5, 0)
        [account] = accounts(buffer)
        assert account.dead_lettered == 10


async def test_a_purge_up_to_an_end_leaves_what_became_a_dead_letter_since() -> None:
    async with dead_orders() as (broker, _):
        done = await DeadLetterOperations(broker, "orders", ends={0: 6}).purge(ALL, 100, None)

        assert (done.records, done.next) == (6, None)
        assert await listed(broker) == numbers(6, 7, 8, 9)
        assert (await DeadLetterOperations(broker, "orders", ends={0: 6}).purge(ALL, 100, None)).records == 0


async def test_a_redrive_up_to_an_end_leaves_later_dead_letters() -> None:
    async with dead_orders() as (broker, _):
        done = await DeadLetterOperations(broker, "orders", ends={0: 6}).redrive(ALL, 100, None)

        assert (done.records, done.next) == (6, None)
        assert (await DeadLetterOperations(broker, "orders", ends={0: 6}).redrive(ALL, 100, None)).records == 0
        assert await listed(broker) == numbers(6, 7, 8, 9)


async def test_an_end_that_is_no_place_of_the_dead_letter_sink_is_refused() -> None:
    async with dead_orders() as (broker, _):
        with pytest.raises(InvalidPartition):
            DeadLetterOperations(broker, "orders", ends={7: 0})
        with pytest.raises(OffsetAhead):
            DeadLetterOperations(broker, "orders", ends={0: 11})


async def test_a_dead_letter_sink_of_another_incarnation_is_refused() -> None:
    async with dead_orders() as (broker, _):
        with refusal(Reason.SINK_REPLACED):
            DeadLetterOperations(broker, "orders", "0123456789abcdef")
        await broker.delete("orders.dlq", force=True)

        with pytest.raises(SinkNotFound):
            DeadLetterOperations(broker, "orders", "0123456789abcdef")


async def test_a_sink_without_dead_letters_has_none_and_no_sink_is_an_error() -> None:
    async with running() as broker:
        await broker.create("orders", SinkSettings())

        assert await listed(broker) == []
        assert (await DeadLetterOperations(broker, "orders").redrive(ALL, 10, None)).records == 0
        assert (await DeadLetterOperations(broker, "orders").purge(ALL, 10, None)).records == 0
        with pytest.raises(SinkNotFound):
            DeadLetterOperations(broker, "other")


@pytest.mark.parametrize("token", ["", "1", "0-0", "a-b-c", "0-0-99", "7-0-0", "-1-0-0"])
async def test_a_token_that_was_never_given_is_refused(token: str) -> None:
    async with dead_orders() as (broker, _):
        with refusal(Reason.INVALID_PAGE_TOKEN):
            await DeadLetterOperations(broker, "orders").list(ALL, 10, Position.parse(token))


async def test_all_that_was_rejected_is_a_dead_letter_and_the_other_way_round() -> None:
    async with dead_orders(partitions=2) as (broker, buffer):
        dead = broker.sinks["orders.dlq"]

        counted = sum(cursor.dead_lettered for cursor in accounts(buffer))

        assert counted == sum(log.tail.next_offset for log in dead.logs) == 20
