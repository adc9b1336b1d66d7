from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.epochs.values import Claim
from forebay.broker.core.errors import (
    BrokerFull,
    Draining,
    InvalidPartition,
    RecordTooLarge,
    SinkFull,
    SinkNotFound,
    StoreFenced,
    WriterFenced,
)
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.settings import BufferMode, Overflow, SinkSettings
from forebay.broker.core.writes import Due, PutDue
from forebay.broker.runtime.broker import Bounds
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.commit.runs import due_runs
from forebay.broker.runtime.epochs import staging
from forebay.broker.runtime.epochs.stage import Stage
from forebay.broker.runtime.epochs.staging import START_BITS
from forebay.broker.runtime.publish.result import PublishResult
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from forebay.errors.reasons import Reason
from tests.support.brokers.epochs import claim, commit, stage, stored, wanted
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill, sink
from tests.support.brokers.running import CutAfter, Mortal, begin, running
from tests.support.pages.named_pages import wrong_names
from tests.support.pages.samples import body, page
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio
NEWER = claim(run="run-2", ticket=2)
TTL_S = 24 * 3600


# -- one stream after the other


async def test_a_stage_continues_after_a_restart_where_its_pages_end() -> None:
    store = MemoryStore()
    async with sink(store, partitions=2) as buffer:
        first = await stage(buffer, claim(), "a", [b"1"], [b"2"])
        await stage(buffer, claim(), "a", [b"3"], partition=1)
        usage = buffer.state.staged.usage

    async with running(store.reopen()) as broker:
        buffer = broker.sink("orders")
        assert buffer.state.staged.usage == usage
        assert broker.quota.used == usage[1]
        resumed = buffer.staging.open(claim(), "a", first.epoch)

        assert resumed.next_sequences() == {0: 2, 1: 1}
        again = await (await resumed.publish(page(b"2"), 1))
        new = await (await resumed.publish(page(b"4"), 2))
        assert (again, new) == (PublishResult(None, 1, True, staged=True), PublishResult(None, 1, False, staged=True))
        await commit(broker, wanted(claim(), ("a", [(0, 3, 3), (1, 1, 1)])))
        assert await stored(broker) == [b"1", b"2", b"4"]
    assert wrong_names(store.reopen()) == []


async def test_a_repeated_page_counts_once() -> None:
    async with sink() as buffer:
        session = await stage(buffer, claim(), "a", [b"1"])
        usage = buffer.state.staged.usage

        assert (await (await session.publish(page(b"1"), 0))).duplicate

        assert buffer.state.staged.usage == usage


async def test_a_duplicate_of_a_page_that_waits_is_answered_together_with_it() -> None:
    store = HeldStore()
    async with sink(store) as buffer:
        store.hold()
        session = buffer.staging.open(claim(), "a", None)
        first = await session.publish(page(b"1"), 0)
        again = await session.publish(page(b"1"), 0)
        await store.reached()
        assert not first.done()
        assert not again.done()
        with refusal(Reason.SEQUENCE_CONFLICT):
            await session.publish(page(b"2"), 0)

        store.let_go()
        assert not (await first).duplicate
        assert (await again).duplicate


async def test_other_data_under_a_known_sequence_is_a_conflict_and_a_later_one_is_a_gap() -> None:
    async with sink() as buffer:
        session = await stage(buffer, claim(), "a", [b"1"])

        with refusal(Reason.SEQUENCE_CONFLICT):
            await session.publish(page(b"2"), 0)
        with refusal(Reason.SEQUENCE_GAP):
            await session.publish(page(b"3"), 2)
        with pytest.raises(InvalidPartition):
            await session.publish(page(b"1", partition=1), 0)
        assert buffer.state.staged.records == 1


async def test_a_second_stream_of_a_token_ends_the_first_and_continues() -> None:
    async with sink() as buffer:
        first = await stage(buffer, claim(), "a", [b"1"])
        second = await stage(buffer, claim(), "a", [b"2"])
        first.end()

        assert first.on_fenced.is_set()
        with pytest.raises(WriterFenced):
            await first.publish(page(b"3"), 2)
        await (await second.publish(page(b"3"), 2))
        assert buffer.state.staged.records == 3


async def test_a_writer_that_resumes_a_discarded_stage_is_fenced() -> None:
    async with sink() as buffer:
        session = await stage(buffer, claim(), "a", [b"1"])
        assert await buffer.staging.abort("query", 0, ["a", "a", "unknown"]) == 1

        with pytest.raises(WriterFenced):
            await session.publish(page(b"2"), 1)
        with pytest.raises(WriterFenced):
            buffer.staging.open(claim(), "a", session.epoch)
        anew = buffer.staging.open(claim(), "a", None)
        assert anew.next_sequences() == {}


async def test_a_writer_from_before_a_restart_that_finds_no_stage_is_fenced_at_its_next_page() -> None:
    async with sink() as buffer:
        earlier = 1 << START_BITS
        assert buffer.staging.open(claim(), "b", earlier >> 1).next_sequences() == {}
        session = buffer.staging.open(claim(), "a", earlier >> 1)

        with pytest.raises(WriterFenced):
            await session.publish(page(b"2"), 1)


async def test_staging_is_durable_when_it_is_answered_whatever_the_sink_promises() -> None:
    store = MemoryStore()
    async with sink(store, fsync=False) as buffer:
        await stage(buffer, claim(), "a", [b"1"])
        left = store.crash()
    async with running(left) as broker:
        assert broker.sink("orders").state.staged.records == 1


# -- runs


async def test_a_newer_run_discards_what_older_ones_have_staged_and_their_streams_end() -> None:
    store = MemoryStore()
    async with sink(store) as buffer:
        old = await stage(buffer, claim(), "a", [b"1"])
        await stage(buffer, claim(producer="another", name="another"), "c", [b"3"])
        await stage(buffer, NEWER, "b", [b"2"])

        assert old.on_fenced.is_set()
        with refusal(Reason.EPOCH_FENCED):
            buffer.staging.open(claim(), "a", None)
        assert sorted(found.record.token for found in buffer.staging.stages) == ["b", "c"]
    assert wrong_names(store.reopen()) == []


async def test_a_page_staged_late_by_a_killed_run_is_fenced_and_does_not_become_visible() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        late = buffer.staging.open(claim(), "late", None)
        await stage(buffer, NEWER, "b", [b"2"])

        with pytest.raises(WriterFenced):
            await late.publish(page(b"1"), 0)
        await commit(broker, wanted(NEWER, ("b", [(0, 1, 1)])))

        assert await stored(broker) == [b"2"]
        assert buffer.state.staged.usage == (0, 0)


async def test_a_page_that_waits_when_its_stage_is_discarded_is_not_written() -> None:
    store = HeldStore()
    async with sink(store) as buffer:
        store.hold()
        buffer.resume()
        await store.reached()
        session = buffer.staging.open(claim(), "a", None)
        waiting = await session.publish(page(b"1"), 0)
        assert buffer.staging.waiting == 1

        buffer.staging.open(NEWER, "b", None)

        store.let_go()
        with pytest.raises(WriterFenced):
            await waiting
        assert (buffer.state.staged.usage, buffer.staging.waiting) == ((0, 0), 0)
    assert wrong_names(store.reopen()) == []
    assert store.reopen().scan(Family.SMALL, b"", b"\xff" * 20, 10) == []


async def test_a_page_that_is_being_written_when_its_stage_is_discarded_is_reclaimed() -> None:
    store = HeldStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        store.hold()
        session = buffer.staging.open(claim(), "a", None)
        await session.publish(page(b"1"), 0)
        await store.reached()

        aborting = asyncio.ensure_future(buffer.staging.abort("query", 0, ["a"]))
        await asyncio.sleep(0)
        store.let_go()

        assert await aborting == 1
        assert (buffer.state.staged.usage, broker.quota.used) == ((0, 0), 0)
        await broker.committer.drained()
        assert wrong_names(store) == []


async def test_an_abort_fences_no_stream_and_leaves_other_tokens_alone() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        await stage(buffer, claim(), "a", [b"1"])
        kept = await stage(buffer, claim(), "b", [b"2"])

        await buffer.staging.abort("query", 0, ["a"])

        await (await kept.publish(page(b"3"), 1))
        await stage(buffer, claim(), "a", [b"4"])
        await commit(broker, wanted(claim(), ("a", [(0, 1, 1)]), ("b", [(0, 2, 2)])))
        assert await stored(broker) == [b"4", b"2", b"3"]
        assert await buffer.staging.abort("query", 0, ["a", "b"]) == 0


async def test_an_abort_continues_when_its_caller_leaves() -> None:
    store = HeldStore()
    async with sink(store) as buffer:
        await stage(buffer, claim(), "a", [b"1"])
        store.hold()
        asking = asyncio.ensure_future(buffer.staging.abort("query", 0, ["a"]))
        await store.reached()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        store.let_go()
    async with running(store.reopen()) as broker:
        assert broker.sink("orders").staging.stages == []


# -- time


async def test_an_unused_stage_goes_when_its_time_is_over_and_its_room_is_released() -> None:
    clock, store = FakeClock(), MemoryStore()
    async with sink(store, clock) as buffer:
        for token in ("a", "b"):
            (await stage(buffer, claim(), token, [b"1"])).end()
        clock.advance(TTL_S - 1)
        (await stage(buffer, claim(), "b", [b"2"])).end()
        clock.advance(2)
        buffer.staging.sweep()
        assert len(buffer.staging.stages) == 2, "somebody was there for the epoch"

        clock.advance(TTL_S)
        buffer.staging.sweep()

        assert buffer.state.staged.usage == (0, 0)
        buffer.staging.sweep()
        assert buffer.staging.producers.known == {}
    assert wrong_names(store.reopen()) == []


@pytest.mark.parametrize("others", [(), (0,), (7, 8), (39,)], ids=str)
async def test_names_of_many_stages_are_deleted_as_a_few_ranges_between_which_others_stay(
    others: tuple[int, ...],
) -> None:
    store, tokens = MemoryStore(), [f"t{number}" for number in range(40)]
    other = claim(producer="other", name="")
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        for number, token in enumerate(tokens):
            (await stage(buffer, claim(), token, [b"%d" % number])).end()
            if number in others:
                (await stage(buffer, other, token, [b"other"])).end()
        found = [each for each in buffer.staging.stages if each.record.producer == "query"]
        left = [each.record for each in buffer.staging.stages if each.record.producer == "other"]

        writes = buffer.staging.release(found)
        await broker.committer.write([*writes, *(PutDue(due) for due in dues(buffer, found))])

    assert len(writes) == 1 + len({number for number in others if number != 39})
    async with running(store.reopen()) as again:
        assert [each.record for each in again.sink("orders").staging.stages] == left
    assert wrong_names(store.reopen()) == []


def dues(buffer: Buffer, stages: list[Stage]) -> list[Due]:
    return [due for each in stages for at, pages in each.pages.items() for due in due_runs(buffer.record.id, at, pages)]


@pytest.mark.parametrize("writes", range(9))
async def test_many_pages_that_are_discarded_go_in_batches_and_a_crash_between_two_leaves_nothing_for_good(
    monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    monkeypatch.setattr(staging, "FEW_PAGES", 3)
    memory = MemoryStore()
    store = CutAfter(memory)
    broker = begin(store, FakeClock())
    buffer, _ = await broker.create("orders", SinkSettings())
    for token in ("a", "b", "c", "d", "e"):
        (await stage(buffer, claim(), token, [b"1"], [b"2"])).end()
    (await stage(buffer, claim(1), "later", [b"3"])).end()
    store.left = writes
    await asyncio.gather(commit(broker, wanted(claim(), ("c", [(0, 2, 2)]))), return_exceptions=True)
    assert [each.record.token for each in buffer.staging.stages] == ["later"] or writes == 0
    await buffer.staging.close()
    store.left = 0
    await asyncio.gather(broker.close(), return_exceptions=True)

    again = memory.reopen()
    async with running(again) as other:
        found = other.sink("orders")
        found.staging.sweep()
        await found.staging.close()
        await other.committer.drained()

        there = await stored(other) == [b"1", b"2"]
        assert there or writes == 0
        assert {each.record.token for each in found.staging.stages} == ({"later"} if there else {*"abcde", "later"})
        assert found.state.staged.usage[0] == (1 if there else 11)
    assert wrong_names(again.reopen()) == []


async def test_a_sink_that_is_deleted_while_many_pages_are_discarded_releases_all_its_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(staging, "FEW_PAGES", 1)
    store = HeldStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        for token in ("a", "b", "c"):
            (await stage(buffer, claim(), token, [b"1"])).end()
        store.hold()
        aborting = asyncio.ensure_future(buffer.staging.abort("query", 0, ["a", "b", "c"]))
        await store.reached()
        deleting = asyncio.ensure_future(broker.delete("orders", force=True))
        await asyncio.sleep(0)
        store.let_go()
        await asyncio.gather(aborting, deleting)

        assert broker.quota.used == 0
        assert wrong_names(store) == []


async def test_a_stream_that_is_open_keeps_what_it_has_staged() -> None:
    clock = FakeClock()
    async with sink(clock=clock) as buffer:
        session = await stage(buffer, claim(), "a", [b"1"])
        clock.advance(2 * TTL_S)
        buffer.staging.sweep()
        assert buffer.state.staged.records == 1

        session.end()
        clock.advance(TTL_S + 1)
        buffer.staging.sweep()

        assert buffer.state.staged.records == 0


async def test_a_producer_of_batches_is_forgotten_after_its_time_but_not_before_its_pages_are_gone() -> None:
    clock, store = FakeClock(), MemoryStore()
    batch = claim(producer="batch", name="")
    async with running(store, clock) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        await stage(buffer, batch, "a", [b"1"])
        await commit(broker, wanted(batch, ("a", [(0, 1, 1)])))
        await stage(buffer, claim(), "a", [b"2"])
        await commit(broker, wanted(claim(), ("a", [(0, 1, 1)])))
        clock.advance(2 * TTL_S)
        await broker.epoch_sweep.sweep()
        buffer.staging.sweep()
        assert set(buffer.staging.producers.known) == {"batch", "query"}

        broker.sink("orders").removal.drop(0, buffer.logs[0].first_entries(), DropReason.PURGED)
        await broker.epoch_sweep.sweep()
        buffer.staging.sweep()

        assert set(buffer.staging.producers.known) == {"query"}, "a name is kept"
    async with running(store.reopen(), clock) as broker:
        assert set(broker.sink("orders").staging.producers.known) == {"query"}


# -- room


async def test_live_and_staged_records_together_stay_within_the_limit_of_a_sink_that_refuses() -> None:
    async with sink(max_disk_cache=4) as buffer:
        await fill(buffer, 2)
        session = await stage(buffer, claim(), "a", [b"1"])
        await fill(buffer, 1)

        with pytest.raises(SinkFull) as refused:
            await session.publish(page(b"2"), 1)
        with pytest.raises(SinkFull):
            await buffer.append(page(b"x"))
        assert refused.value.facts["staged"] == "1"
        assert buffer.state.staged.records == 1

        await buffer.staging.abort("query", 0, ["a"])
        await fill(buffer, 1)


async def test_the_page_that_was_refused_is_the_next_one_when_there_is_room() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings(max_disk_cache=2, buffer_page_size=1))
        await fill(buffer, 1)
        session = await stage(buffer, claim(), "a", [b"1"])
        with pytest.raises(SinkFull):
            await session.publish(page(b"2"), 1)
        with refusal(Reason.SEQUENCE_GAP):
            await session.publish(page(b"3"), 2)
        buffer.removal.drop(0, buffer.logs[0].first_entries(), DropReason.PURGED)

        await (await session.publish(page(b"2"), 1))
        await commit(broker, wanted(claim(), ("a", [(0, 2, 2)])))

        assert await stored(broker) == [b"1", b"2"]


async def test_live_and_staged_records_each_have_the_limit_in_a_sink_that_drops_the_oldest() -> None:
    async with sink(max_disk_cache=2, overflow=Overflow.DROP_OLDEST) as buffer:
        await fill(buffer, 3)
        session = await stage(buffer, claim(), "a", [b"1"], [b"2"])

        assert buffer.logs[0].records == 2
        with pytest.raises(SinkFull):
            await session.publish(page(b"3"), 2)
        await fill(buffer, 1)
        assert buffer.logs[0].records == 2


async def test_a_staged_page_that_alone_exceeds_the_limit_is_refused_as_too_large() -> None:
    async with sink(max_disk_cache=2) as buffer:
        session = buffer.staging.open(claim(), "a", None)

        with pytest.raises(RecordTooLarge):
            await session.publish(page(b"1", b"2", b"3"), 0)


async def test_staged_bytes_count_for_the_bound_of_the_broker() -> None:
    size = len(body([b"1"]))
    async with running(bounds=Bounds(stored_bytes=2 * size)) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        session = await stage(buffer, claim(), "a", [b"1"], [b"2"])
        with pytest.raises(BrokerFull):
            await session.publish(page(b"3"), 2)
        assert broker.quota.used == 2 * size

        await buffer.staging.abort("query", 0, ["a"])

        assert broker.quota.used == 0


async def test_the_bytes_of_a_deleted_sink_are_released_staged_ones_too() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        session = await stage(buffer, claim(), "a", [b"1"])
        await fill(buffer, 1)

        await broker.delete("orders", force=True)

        assert (broker.quota.used, buffer.state.staged.usage) == (0, (0, 0))
        assert session.on_fenced.is_set()
        with pytest.raises(WriterFenced):
            await session.publish(page(b"2"), 1)
        assert wrong_names(store) == []


async def test_a_page_that_waits_for_its_turn_while_its_sink_is_deleted_is_refused() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        session = buffer.staging.open(claim(), "a", None)
        async with buffer.state.admission:
            waiting = asyncio.ensure_future(session.publish(page(b"1"), 0))
            await asyncio.sleep(0)
            await broker.delete("orders", force=True)

        with pytest.raises((SinkNotFound, WriterFenced)):
            await waiting
        assert broker.quota.used == 0


# -- sinks that cannot, and the end


async def test_a_sink_that_stores_nothing_stages_nothing() -> None:
    async with sink(buffer_mode=BufferMode.MEMORY) as buffer:
        with refusal(Reason.STAGING_UNSUPPORTED):
            buffer.staging.open(claim(), "a", None)


async def test_dead_letters_cannot_be_staged_or_committed() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        letters = broker.registry.dead_letter_sink(buffer.state)
        dead = Claim("orders.dlq", "query", "orders", 0, "run-1", 1)

        with refusal(Reason.STAGING_UNSUPPORTED):
            letters.staging.open(dead, "a", None)
        with refusal(Reason.STAGING_UNSUPPORTED):
            await commit(broker, wanted(dead))


async def test_a_broker_that_drains_stages_nothing_more_and_answers_what_waits() -> None:
    store = HeldStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        store.hold()
        session = buffer.staging.open(claim(), "a", None)
        waiting = await session.publish(page(b"1"), 0)
        await store.reached()
        draining = asyncio.ensure_future(broker.drain())
        await asyncio.sleep(0)

        with pytest.raises(Draining):
            await session.publish(page(b"2"), 1)
        with pytest.raises(Draining):
            buffer.staging.open(claim(), "b", None)
        assert not draining.done()
        store.let_go()
        await draining
        assert (await waiting).staged


async def test_a_duplicate_of_a_page_that_the_store_has_refused_fails_as_its_original_did() -> None:
    mortal = Mortal(MemoryStore())
    async with running(mortal) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        session = buffer.staging.open(claim(), "a", None)
        mortal.cut()
        first = await session.publish(page(b"1"), 0)
        with pytest.raises(StoreFenced):
            await first

        with pytest.raises(StoreFenced):
            await (await session.publish(page(b"1"), 0))


async def test_nothing_is_staged_for_an_epoch_that_is_committed() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        session = await stage(buffer, claim(), "a", [b"1"])
        await commit(broker, wanted(claim(), ("a", [(0, 1, 1)])))

        assert session.on_fenced.is_set()
        with refusal(Reason.ALREADY_COMMITTED):
            buffer.staging.open(claim(), "a", session.epoch)


async def test_a_commit_that_waits_behind_an_abort_finds_nothing() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        await stage(buffer, claim(), "a", [b"1"])
        async with buffer.state.admission:
            committing = asyncio.ensure_future(commit(broker, wanted(claim(), ("a", [(0, 1, 1)]))))
            await asyncio.sleep(0)
            await buffer.staging.abort("query", 0, ["a"])

        with refusal(Reason.STAGED_INCOMPLETE):
            await committing
