from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from forebay.broker.core.delivery.redelivery import State
from forebay.broker.core.errors import SinkFull
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.partition.position import At, Position
from forebay.broker.core.settings import BufferMode, Overflow, SinkSettings
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.instruments import PathLag
from forebay.broker.runtime.read.page_cache import PAGE_BYTES
from forebay.broker.runtime.resources import slices
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.state import FULL_S
from forebay.broker.runtime.sink.statistics import (
    LAGS_PER_SWEEP,
    LaneState,
    lag_is_due,
    sink_lags,
    sink_state,
)
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio
SIZE = len(page(b"x" * 10).body)


@asynccontextmanager
async def sink(
    store: MemoryStore | None = None, clock: FakeClock | None = None, *, pages: int = 6, **settings: Any
) -> AsyncIterator[Buffer]:
    """A sink with pages of one record each."""
    async with running(store, clock) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1, **settings))
        for _ in range(pages):
            append = await buffer.append(page(b"x" * 10))
            await append.done
        yield buffer


async def lane(buffer: Buffer) -> LaneState:
    [subscription] = (await sink_state(buffer)).subscriptions
    [state] = subscription.lanes
    assert subscription.name == "default"
    return state


async def test_an_untouched_sink_lags_by_all_that_it_holds() -> None:
    clock = FakeClock()
    async with sink(clock=clock) as buffer:
        clock.advance(3.0)

        state = await lane(buffer)
        [partition] = (await sink_state(buffer)).partitions

        assert (state.pending, state.pending_bytes, state.pending_pages) == (6, 6 * SIZE, 6)
        assert (state.oldest_age_us, state.state, state.realtime) == (3_000_000, State.FLOWING, None)
        assert (partition.earliest, partition.next_offset, partition.records) == (0, 6, 6)
        assert (partition.size, partition.pages, partition.dropped) == (6 * SIZE, 6, ())


async def test_the_lag_shrinks_with_what_is_settled() -> None:
    clock = FakeClock()
    async with sink(clock=clock) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 4)
        clock.advance(1.0)

        state = await lane(buffer)

        assert (state.pending, state.pending_bytes, state.pending_pages, state.in_flight) == (2, 2 * SIZE, 2, 2)
        assert (state.cursor.acked, state.balances, state.realtime) == (4, True, True)


async def test_nothing_pending_is_no_lag_at_all() -> None:
    clock = FakeClock()
    async with sink(clock=clock) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 6)
        clock.advance(60.0)

        state = await lane(buffer)

        assert (state.pending, state.pending_bytes, state.pending_pages, state.oldest_age_us) == (0, 0, 0, 0)


async def test_dropped_records_are_no_part_of_the_lag() -> None:
    async with sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=4) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.one()
        for _ in range(2):
            append = await buffer.append(page(b"x" * 10))
            await append.done

        state = await lane(buffer)
        [partition] = (await sink_state(buffer)).partitions

        assert (state.pending, state.pending_bytes, state.pending_pages) == (4, 4 * SIZE, 4)
        assert (state.cursor.dropped, state.balances) == (4, True)
        assert partition.dropped == ((DropReason.OVERFLOW, 4),)


async def test_a_back_off_is_shown_with_its_end_and_reason() -> None:
    clock = FakeClock()
    async with sink(clock=clock) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.one()
        await taker.nack(0, 1, delay_s=8.0, reason="it said 503")

        state = await lane(buffer)

        assert (state.state, state.reason) == (State.BACKING_OFF, "it said 503")
        assert state.retry_at_us == clock.wall + 8_000_000


async def test_a_pause_is_shown_with_its_reason() -> None:
    async with sink() as buffer:
        await buffer.stop("at night")

        state = await lane(buffer)

        assert (state.state, state.reason, state.retry_at_us) == (State.PAUSED, "at night", None)


async def test_redelivered_records_are_counted() -> None:
    async with sink(retry_backoff_min_us=1_000, retry_backoff_max_us=1_000) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.nack(4, 5)
        await taker.one()

        assert (await lane(buffer)).redelivered == 1


async def test_consumers_are_counted_and_without_one_there_is_no_mode() -> None:
    async with sink() as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        [connected] = (await sink_state(buffer)).subscriptions
        buffer.subscription("").leave(taker.consumer)
        [left] = (await sink_state(buffer)).subscriptions

        [state] = left.lanes
        assert (connected.consumers, left.consumers, state.realtime, state.mode_switches) == (1, 0, None, 0)


async def test_the_rates_are_those_of_the_last_ten_seconds() -> None:
    clock = FakeClock()
    async with sink(clock=clock, pages=6) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        clock.advance(2.0)
        await taker.ack(0, 4)

        state = await sink_state(buffer)
        clock.advance(10.0)
        later = await sink_state(buffer)

        assert (state.appended_per_s, state.subscriptions[0].settled_per_s) == (3.0, 4.0)
        assert (later.appended_per_s, later.subscriptions[0].settled_per_s) == (0.0, 0.0)


async def test_records_that_are_dropped_or_skipped_are_no_output() -> None:
    async with sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=3) as buffer:
        await buffer.subscribing.seek("", Position(At.LATEST), partition=None, or_earliest=False)

        state = await sink_state(buffer)

        assert state.subscriptions[0].settled_per_s == 0.0


async def test_a_sink_is_full_for_a_while_after_pages_were_dropped_for_an_append() -> None:
    clock = FakeClock()
    async with sink(clock=clock, pages=3, overflow=Overflow.DROP_OLDEST, max_disk_cache=3) as buffer:
        before = await sink_state(buffer)
        await (await buffer.append(page(b"x" * 10))).done
        after = await sink_state(buffer)
        clock.advance(FULL_S)
        later = await sink_state(buffer)

        assert (before.limit_used, before.full, after.full, later.full) == (1.0, False, True, False)


async def test_a_sink_that_rejected_an_append_is_full_until_there_is_more_room() -> None:
    clock = FakeClock()
    async with sink(clock=clock, pages=3, overflow=Overflow.REJECT, max_disk_cache=3) as buffer:
        with pytest.raises(SinkFull):
            await (await buffer.append(page(b"x" * 10))).done
        clock.advance(FULL_S)
        unchanged = await sink_state(buffer)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 1)
        settled = await sink_state(buffer)

        assert (unchanged.full, settled.full) == (True, False)


async def test_a_sink_that_accepts_smaller_appends_than_it_rejected_is_not_full() -> None:
    clock = FakeClock()
    async with sink(clock=clock, pages=2, overflow=Overflow.REJECT, max_disk_cache=4) as buffer:
        with pytest.raises(SinkFull):
            await (await buffer.append(page(*[b"x"] * 3))).done
        await (await buffer.append(page(b"x"))).done
        clock.advance(FULL_S)

        assert not (await sink_state(buffer)).full


async def test_settled_records_that_are_retained_make_room_and_fill_no_sink() -> None:
    async with sink(pages=3, max_disk_cache=3, retain_acked_bytes=1_000_000) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 3)
        await (await buffer.append(page(b"x" * 10))).done

        state = await sink_state(buffer)

        assert (state.limit_used, state.full) == (1.0, False)


async def test_a_reader_within_memory_has_no_lag_in_the_store() -> None:
    clock = FakeClock()
    async with sink(clock=clock) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 2)
        clock.advance(5.0)

        state = await lane(buffer)

        assert (state.in_memory, state.in_store) == (PathLag(4, 4 * SIZE, 5_000_000), PathLag())
        assert (state.realtime, state.mode_s) == (True, 5.0)


async def test_the_lag_of_a_reader_behind_memory_is_split_at_the_oldest_page_in_memory() -> None:
    clock = FakeClock()
    async with sink(clock=clock, tail_bytes_max=2 * (PAGE_BYTES + SIZE), pages=4) as buffer:
        clock.advance(2.0)
        append = await buffer.append(page(b"x" * 10))
        await append.done
        clock.advance(1.0)

        state = await lane(buffer)

        assert state.in_memory == PathLag(2, 2 * SIZE, 3_000_000)
        assert state.in_store == PathLag(3, 3 * SIZE, 3_000_000)
        assert state.pending == 5


async def test_the_lag_of_a_sink_that_spilled_is_split_between_memory_and_the_pages_after_it() -> None:
    clock = FakeClock()
    limits: dict[str, Any] = {"memory_cache_threshold": 3, "tail_bytes_max": 2 * (PAGE_BYTES + SIZE)}
    async with sink(clock=clock, pages=3, buffer_mode=BufferMode.SPILL, **limits) as buffer:
        clock.advance(1.0)
        await fill(buffer, 10)
        clock.advance(1.0)

        state = await lane(buffer)

        assert (state.pending, len(buffer.logs[0].held)) == (13, 3)
        assert state.in_memory == PathLag(5, 5 * SIZE, 2_000_000)
        assert state.in_store == PathLag(8, 8 * SIZE, 1_000_000)


async def test_a_replay_lags_by_the_records_that_are_stored() -> None:
    async with sink(pages=10, overflow=Overflow.DROP_OLDEST, max_disk_cache=10) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 4)
        await buffer.removal.trim(buffer.logs[0])
        buffer.removal.drop(0, buffer.logs[0].first_entries()[2:4], DropReason.OVERFLOW)
        with buffer.readers.opened(0, "audit") as reader:
            reader.position = 1
            [state] = (await sink_state(buffer)).readers

        assert (state.position, state.pending, state.pending_bytes) == (1, 4, 4 * SIZE)
        assert (state.in_memory, state.in_store) == (PathLag(4, 4 * SIZE, 0), PathLag())


async def test_the_lag_of_a_sink_that_is_switched_off_is_in_the_store() -> None:
    async with sink() as buffer:
        await buffer.change(replace(buffer.settings, realtime=False))

        state, off = await lane(buffer), await sink_state(buffer)
        await buffer.change(replace(buffer.settings, realtime=True))

        assert (state.in_memory, state.in_store) == (PathLag(), PathLag(6, 6 * SIZE, 0))
        assert (off.realtime, off.tail_bytes, (await sink_state(buffer)).realtime) == (False, 0, True)


async def test_the_time_in_a_mode_begins_with_each_consumer() -> None:
    clock = FakeClock()
    async with sink(clock=clock) as buffer:
        first = Taker(buffer.subscription(""))
        await first.all_offsets()
        clock.advance(9.0)
        buffer.subscription("").leave(first.consumer)
        second = Taker(buffer.subscription(""))
        before = await lane(buffer)
        await second.one()
        clock.advance(1.0)
        after = await lane(buffer)

        assert (before.realtime, before.mode_s) == (None, 0.0)
        assert (after.realtime, after.mode_s) == (True, 1.0)


async def test_the_lag_is_the_same_after_a_restart() -> None:
    store, clock = MemoryStore(), FakeClock()
    async with sink(store, clock) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 2)
    clock.advance(2.0)
    async with running(store.reopen(), clock) as broker:
        state = await lane(broker.sink("orders"))

    assert (state.pending, state.pending_bytes, state.pending_pages) == (4, 4 * SIZE, 4)
    assert state.oldest_age_us >= 2_000_000


async def test_statistics_of_many_partitions_give_others_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings(partitions=64))
        task = asyncio.ensure_future(other())
        state = await sink_state(buffer)
        task.cancel()

    assert turns >= 64
    assert [partition.partition for partition in state.partitions] == list(range(64))
    assert [[lane.partition for lane in found.lanes] for found in state.subscriptions] == [list(range(64))]


async def test_subscriptions_at_different_places_far_behind_each_report_their_lag() -> None:
    async with sink(pages=0) as buffer:
        appends = [await buffer.append(page(b"x" * 10)) for _ in range(1_000)]
        await asyncio.gather(*(append.done for append in appends))
        for at in (0, 3, 3, 7):
            name = f"at-{at}-{len(buffer.subscriptions)}"
            await buffer.subscribing.create(name, Position(At.OFFSET, at), or_earliest=False)

        found = {each.name: each.lanes[0].pending_bytes for each in (await sink_state(buffer)).subscriptions}

        left = {"default": 1_000, "at-0-1": 1_000, "at-3-2": 997, "at-3-3": 997, "at-7-4": 993}
        assert found == {name: records * SIZE for name, records in left.items()}


async def test_the_lag_is_known_far_behind_what_is_in_memory() -> None:
    async with sink(pages=0) as buffer:
        appends = [await buffer.append(page(b"x" * 10)) for _ in range(1_000)]
        await asyncio.gather(*(append.done for append in appends))

        state = await lane(buffer)

        assert (state.pending, state.pending_bytes, state.pending_pages) == (1_000, 1_000 * SIZE, 1_000)


@pytest.mark.parametrize("lanes", [0, 1, LAGS_PER_SWEEP, LAGS_PER_SWEEP + 1, 10 * LAGS_PER_SWEEP])
def test_of_many_lanes_each_sweep_measures_a_part_and_each_sink_has_its_turn(lanes: int) -> None:
    period = max(1, -(-lanes // LAGS_PER_SWEEP))

    for sink in range(20):
        turns = [sweep for sweep in range(3 * period) if lag_is_due(sweep, sink, lanes)]
        assert len(turns) == 3
    each_sweep = [sum(lag_is_due(sweep, sink, lanes) for sink in range(10 * period)) for sweep in range(period)]
    assert set(each_sweep) == {10}, "as many as in any other sweep"


async def test_lags_are_those_of_the_statistics() -> None:
    clock = FakeClock()
    async with sink(clock=clock, partitions=2) as buffer:
        await buffer.subscribing.create("audit", Position(At.LATEST), or_earliest=False)
        clock.advance(3.0)
        taker = Taker(buffer.subscription(""))
        await taker.offsets()
        await taker.ack(0, 2)
        states = {each.name: each.lanes for each in (await sink_state(buffer)).subscriptions}
        lags = {subscription.name: lanes for subscription, lanes in await sink_lags(buffer)}

    facts = (
        *("partition", "pending", "pending_bytes", "oldest_age_us", "realtime"),
        *("mode_s", "mode_switches", "in_memory", "in_store"),
    )
    assert {name: [[getattr(lane, fact) for fact in facts] for lane in lanes] for name, lanes in lags.items()} == {
        name: [[getattr(lane, fact) for fact in facts] for lane in lanes] for name, lanes in states.items()
    }
    assert [lane.pending for lane in lags["default"]] == [4, 0]
