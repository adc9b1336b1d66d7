from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.errors import (
    InvalidSetting,
    SinkNotFound,
    TooManySinks,
)
from forebay.broker.core.settings import SinkSettings
from forebay.broker.runtime.broker import Bounds
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.store.memory import MemoryStore
from forebay.errors.reasons import Reason
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio


# -- making


async def test_a_sink_is_made_once_and_the_same_wish_finds_it() -> None:
    async with running() as broker:
        first, created = await broker.create("orders", SinkSettings(partitions=2))
        second, again = await broker.create("orders", SinkSettings(partitions=2))

        assert (created, again) == (True, False)
        assert second is first


async def test_a_sink_with_other_settings_is_rejected_with_the_differences() -> None:
    async with running() as broker:
        await broker.create("orders", SinkSettings())

        with refusal(Reason.SINK_EXISTS, match="partitions is 1, asked is 2"):
            await broker.create("orders", SinkSettings(partitions=2))


async def test_two_wishes_at_once_are_both_answered_when_the_sink_is_durable() -> None:
    store = HeldStore()
    async with running(store) as broker:
        store.hold()
        wishes = [asyncio.ensure_future(broker.create("orders", SinkSettings())) for _ in range(2)]
        await store.reached()
        waiting = [wish.done() for wish in wishes]
        store.let_go()
        answers = await asyncio.gather(*wishes)

        assert waiting == [False, False]
        assert [created for _, created in answers] == [True, False]


async def test_a_wish_that_has_no_waiter_any_more_is_fulfilled_all_the_same() -> None:
    store = HeldStore()
    async with running(store) as broker:
        store.hold()
        wish = asyncio.ensure_future(broker.create("orders", SinkSettings()))
        await store.reached()
        wish.cancel()
        await asyncio.gather(wish, return_exceptions=True)
        store.let_go()
        _, created = await broker.create("orders", SinkSettings())

        assert not created
    async with running(store.reopen()) as broker:
        assert set(broker.sinks) == {"orders"}


@pytest.mark.parametrize("name", ["", "Orders", "-x", "a" * 124, "a/b", "orders.dlq", "ordérs", "a\n"])
async def test_a_wrong_name_is_refused(name: str) -> None:
    async with running() as broker:
        with refusal(Reason.INVALID_SINK_NAME):
            await broker.create(name, SinkSettings())


async def test_wrong_settings_are_refused() -> None:
    async with running() as broker:
        with pytest.raises(InvalidSetting):
            await broker.create("orders", SinkSettings(partitions=0))

        assert not broker.sinks


async def test_there_are_no_more_sinks_and_partitions_than_the_bounds() -> None:
    async with running(bounds=Bounds(sinks=3, partitions=5)) as broker:
        await broker.create("a", SinkSettings(partitions=3))
        with pytest.raises(TooManySinks) as partitions:
            await broker.create("b", SinkSettings(partitions=3))
        await broker.create("b", SinkSettings(partitions=1))
        await broker.create("c", SinkSettings(partitions=1))
        with pytest.raises(TooManySinks) as sinks:
            await broker.create("d", SinkSettings())

        assert partitions.value.facts == {"what": "partitions", "bound": "5"}
        assert sinks.value.facts == {"what": "sinks", "bound": "3"}


# -- deleting


async def test_a_sink_that_holds_unsettled_records_is_deleted_by_force_only() -> None:
    async with running() as broker:
        await broker.create("orders", SinkSettings())
        await fill(broker.sink("orders"), 3)

        with refusal(Reason.SINK_NOT_EMPTY) as refused:
            await broker.delete("orders", force=False)
        await broker.delete("orders", force=True)

        assert refused.value.facts == {"sink": "orders", "pending": "3"}
        with pytest.raises(SinkNotFound):
            broker.sink("orders")


async def test_a_sink_whose_records_are_all_settled_needs_no_force() -> None:
    async with running() as broker:
        await broker.create("orders", SinkSettings())
        await fill(broker.sink("orders"), 3)
        taker = Taker(broker.sink("orders").subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 3)

        await broker.delete("orders", force=False)


async def test_a_sink_made_again_is_another_one() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        first, _ = await broker.create("orders", SinkSettings())
        await fill(broker.sink("orders"), 3)
        await broker.delete("orders", force=True)
        second, _ = await broker.create("orders", SinkSettings(partitions=2))

        assert second.record.incarnation != first.record.incarnation
        assert second.record.id != first.record.id
        assert second.logs[0].next_offset == 0
    async with running(store.reopen()) as broker:
        assert broker.sink("orders").record.incarnation == second.record.incarnation
        assert broker.sink("orders").state.pending == 0


async def test_a_sink_is_found_by_its_incarnation_and_another_one_of_its_name_is_refused() -> None:
    async with running() as broker:
        first, _ = await broker.create("orders", SinkSettings())
        assert broker.sink("orders", first.record.incarnation) is first
        await broker.delete("orders", force=True)
        second, _ = await broker.create("orders", SinkSettings())

        with refusal(Reason.SINK_REPLACED) as refused:
            broker.sink("orders", first.record.incarnation)
        with refusal(Reason.SINK_REPLACED):
            await broker.delete("orders", force=True, incarnation=first.record.incarnation)
        with refusal(Reason.SINK_REPLACED):
            await broker.update("orders", {"partitions": 2}, incarnation=first.record.incarnation)

        facts = {"sink": "orders", "named": first.record.incarnation, "current": second.record.incarnation}
        assert refused.value.facts == facts
        assert broker.sink("orders") is second


async def test_a_start_finds_the_sink_recreated_and_ends_the_deletion_that_a_crash_kept_from_the_store() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        first, _ = await broker.create("orders", SinkSettings())
        await fill(first, 3)
        del broker.sinks["orders"], broker.writers["orders"]  # a deletion has begun, and is not in the store yet
        second, _ = await broker.create("orders", SinkSettings())
        await fill(second, 1)

    again = store.reopen()
    async with running(again) as broker:
        assert broker.sink("orders").record.incarnation == second.record.incarnation
        assert broker.sink("orders").state.pending == 1
    assert [found.record.id for found in recover(again.reopen()).sinks] == [second.record.id]


async def test_a_deletion_that_has_no_waiter_any_more_is_done_all_the_same() -> None:
    store = HeldStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        store.hold()
        append = await buffer.append(page(b"a"))
        await store.reached()
        deleting = asyncio.ensure_future(broker.delete("orders", force=True))
        await asyncio.sleep(0)
        deleting.cancel()
        await asyncio.gather(deleting, return_exceptions=True)
        store.let_go()
        await append.done
    async with running(store.reopen()) as broker:
        assert not broker.sinks
