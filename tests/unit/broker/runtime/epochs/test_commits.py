from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from forebay.broker.core.epochs.values import Claim, Content, EpochCheck
from forebay.broker.core.errors import (
    EpochContentConflict,
    EpochNotFound,
    SinkFull,
)
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.settings import BufferMode, Overflow, SinkSettings
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.storage.store.memory import MemoryStore
from forebay.errors.reasons import Reason
from tests.support.brokers.epochs import claim, commit, stage, stored, wanted
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import running
from tests.support.pages.samples import page
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio


async def test_staged_records_are_invisible_until_their_epoch_is_committed() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        await stage(buffer, claim(), "a", [b"1", b"2"], [b"3"])
        assert buffer.logs[0].tail.next_offset == 0
        assert buffer.state.staged.usage == (3, buffer.state.staged.size)

        outcome = await commit(broker, wanted(claim(), ("a", [(0, 2, 3)])))

        assert not outcome.already
        assert [(part.partition, part.base, part.records, part.pages) for part in outcome.epochs[0].parts] == [
            (0, 0, 3, 2)
        ]
        assert await stored(broker) == [b"1", b"2", b"3"]
        assert buffer.state.staged.usage == (0, 0)


async def test_all_partitions_of_an_epoch_become_visible_at_one_instant() -> None:
    store = HeldStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(partitions=4))
        for partition in range(4):
            await stage(buffer, claim(), f"t{partition}", [b"x"], partition=partition)
        store.hold()
        committing = asyncio.ensure_future(commit(broker, wanted(claim(), *((f"t{p}", [(p, 1, 1)]) for p in range(4)))))
        await store.reached()
        assert [log.tail.next_offset for log in buffer.logs] == [0, 0, 0, 0]
        seen: list[list[int]] = []
        store.let_go()
        while not committing.done():
            seen.append([log.tail.next_offset for log in buffer.logs])
            await asyncio.sleep(0)

        assert all(ends in ([0, 0, 0, 0], [1, 1, 1, 1]) for ends in seen)
        assert [log.tail.next_offset for log in buffer.logs] == [1, 1, 1, 1]


async def test_offsets_follow_the_tokens_of_the_commit_and_a_later_append_follows_them() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings(partitions=2, buffer_page_size=1))
        await fill(buffer, 2)
        await stage(buffer, claim(), "a", [b"a1"], [b"a2"])
        await stage(buffer, claim(), "b", [b"b1", b"b2"])

        committing = asyncio.ensure_future(commit(broker, wanted(claim(), ("b", [(0, 1, 2)]), ("a", [(0, 2, 2)]))))
        while not buffer.state.admission.locked():
            await asyncio.sleep(0)
        later = await buffer.append(page(b"later"))
        await later.done
        await committing

        assert (await stored(broker))[2:] == [b"b1", b"b2", b"a1", b"a2", b"later"]
        assert later.first == 6


async def test_an_attempt_that_is_not_named_never_becomes_visible() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        await stage(buffer, claim(), "failed", [b"half"])
        await stage(buffer, claim(), "second", [b"whole"])

        await commit(broker, wanted(claim(), ("second", [(0, 1, 1)])))

        assert await stored(broker) == [b"whole"]
        assert buffer.staging.stages == []


async def test_a_commit_that_is_made_again_adds_nothing_also_after_a_restart() -> None:
    store = MemoryStore()
    asked = wanted(claim(3), ("a", [(0, 1, 1)]))
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        await stage(buffer, claim(3), "a", [b"1"])
        first = await commit(broker, asked)
        assert (await commit(broker, asked)).already

    async with running(store.reopen()) as broker:
        again = await commit(broker, asked)

        assert again.already
        assert again.epochs == first.epochs
        assert await stored(broker) == [b"1"]


async def test_a_newer_run_that_wrote_the_epoch_again_gets_the_answer_that_it_is_there_and_its_pages_go() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        await stage(buffer, claim(), "a", [b"1"])
        await commit(broker, wanted(claim(), ("a", [(0, 1, 1)])))
        newer = claim(run="run-2", ticket=2)

        with refusal(Reason.ALREADY_COMMITTED):
            buffer.staging.open(newer, "b", None)
        outcome = await commit(broker, wanted(newer, ("b", [])))

        assert outcome.already
        assert await stored(broker) == [b"1"]


async def test_the_same_run_cannot_commit_an_epoch_with_other_tokens() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        await stage(buffer, claim(), "a", [b"1"])
        await commit(broker, wanted(claim(), ("a", [(0, 1, 1)])))

        with refusal(Reason.EPOCH_CONFLICT):
            await commit(broker, wanted(claim(), ("b", [])))


async def test_a_batch_planned_again_with_more_rows_is_refused_also_after_a_restart() -> None:
    store = MemoryStore()
    newer = claim(run="run-2", ticket=2)
    anew = wanted(newer, ("b", []), content=Content(2, "kind:bb"))
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        await stage(buffer, claim(), "a", [b"1"])
        await commit(broker, wanted(claim(), ("a", [(0, 1, 1)]), content=Content(1, "kind:aa")))
        with pytest.raises(EpochContentConflict):
            await commit(broker, anew)

    async with running(store.reopen()) as broker:
        with pytest.raises(EpochContentConflict) as error:
            await commit(broker, anew)
        kept = await commit(broker, replace(anew, check=EpochCheck.NONE))

        assert error.value.facts["stored_records"] == "1"
        assert (kept.already, kept.epochs[0].content) == (True, Content(1, "kind:aa"))
        assert await stored(broker) == [b"1"]


async def test_a_second_write_under_one_name_is_refused_after_a_restart_of_the_query_and_of_the_broker() -> None:
    store = MemoryStore()
    newer = claim(run="run-2", ticket=2)
    repeat, second = wanted(newer, ("b", []), content=Content(1)), wanted(newer, ("c", []), content=Content(1))
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        await stage(buffer, claim(), "a", [b"1"])
        await commit(broker, wanted(claim(), ("a", [(0, 1, 1)])))
        assert (await commit(broker, repeat)).already

    async with running(store.reopen()) as broker:
        assert (await commit(broker, repeat)).already
        with refusal(Reason.EPOCH_CONFLICT, match="second write"):
            await commit(broker, second)


async def test_a_commit_that_says_more_records_than_it_names_is_incomplete() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        await stage(buffer, claim(), "a", [b"1"])

        with refusal(Reason.STAGED_INCOMPLETE, match="states 2 records"):
            await commit(broker, wanted(claim(), ("a", [(0, 1, 1)]), content=Content(2)))
        assert not (await commit(broker, wanted(claim(), ("a", [(0, 1, 1)]), content=Content(1)))).already


async def test_a_lower_epoch_than_the_last_is_fenced() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        for epoch in (4, 5):
            await stage(buffer, claim(epoch), "a", [b"1"])
            await commit(broker, wanted(claim(epoch), ("a", [(0, 1, 1)])))
        behind = claim(4, run="run-2", ticket=2)

        with refusal(Reason.EPOCH_FENCED, match="behind"):
            buffer.staging.open(behind, "b", None)
        with refusal(Reason.EPOCH_FENCED):
            await commit(broker, wanted(behind))


async def test_another_producer_under_a_known_name_is_refused_unless_it_takes_the_name_over() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        await stage(buffer, claim(7), "a", [b"1"])
        await commit(broker, wanted(claim(7), ("a", [(0, 1, 1)])))
        other = claim(0, producer="other", run="run-9", ticket=9)

        with refusal(Reason.PRODUCER_CHANGED):
            buffer.staging.open(other, "b", None)
        taking = claim(0, producer="other", run="run-9", ticket=9, takeover=True)
        await stage(buffer, taking, "b", [b"2"])
        await commit(broker, wanted(taking, ("b", [(0, 1, 1)])))

        assert await stored(broker) == [b"1", b"2"]
        with refusal(Reason.PRODUCER_CHANGED):
            buffer.staging.open(claim(8), "c", None)


async def test_two_writes_of_one_micro_batch_under_two_names_are_both_there() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        one = claim(producer="query:one", name="one")
        two = claim(producer="query:two", name="two")
        await stage(buffer, one, "a", [b"1"])
        await stage(buffer, two, "b", [b"2"])

        await commit(broker, wanted(one, ("a", [(0, 1, 1)])), wanted(two, ("b", [(0, 1, 1)])))

        assert await stored(broker) == [b"1", b"2"]


async def test_a_commit_over_several_sinks_is_all_there_or_refused_as_a_whole() -> None:
    async with running() as broker:
        orders, _ = await broker.create("orders", SinkSettings())
        await broker.create("others", SinkSettings())
        await stage(orders, claim(), "a", [b"1"])
        here = wanted(claim(), ("a", [(0, 1, 1)]))
        there = wanted(_elsewhere(), ("b", [(0, 1, 1)]))

        with refusal(Reason.STAGED_INCOMPLETE):
            await commit(broker, here, there)
        assert await stored(broker) == []
        await stage(broker.sink("others"), _elsewhere(), "b", [b"2"])
        await commit(broker, here, there)

        assert await stored(broker) == [b"1"]
        assert await stored(broker, "others") == [b"2"]
        assert (await commit(broker, here, there)).already


def _elsewhere() -> Claim:
    return replace(claim(), sink="others", write_name="others")


async def test_an_incomplete_epoch_is_refused_and_stays_invisible() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings(partitions=2))
        await stage(buffer, claim(), "a", [b"1"], [b"2"])

        for parts in ([(0, 1, 1)], [(0, 2, 3)], [(0, 2, 2), (1, 1, 1)], [(0, 3, 3)]):
            with refusal(Reason.STAGED_INCOMPLETE):
                await commit(broker, wanted(claim(), ("a", parts)))
        with refusal(Reason.STAGED_INCOMPLETE, match="nothing of it is staged"):
            await commit(broker, wanted(claim(), ("a", [(0, 2, 2)]), ("b", [(0, 1, 1)])))

        assert await stored(broker) == []


async def test_an_epoch_without_a_row_is_remembered() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        await broker.create("orders", SinkSettings())
        await commit(broker, wanted(claim(2)))

    async with running(store.reopen()) as broker:
        found = await broker.epochs.get(broker.sink("orders"), "query", None)
        assert (found.epoch, found.parts) == (2, ())
        with pytest.raises(EpochNotFound):
            await broker.epochs.get(broker.sink("orders"), "query", 3)


async def test_a_page_staged_before_a_restart_is_whole_after_later_pages_came_and_went() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1))
        await stage(buffer, claim(), "a", [b"staged-1"], [b"staged-2"])
        await fill(buffer, 3)
        lane = buffer.subscription("").lanes[0]
        assert lane.cursor.watermark == 0

    async with running(store.reopen()) as broker:
        buffer = broker.sink("orders")
        assert buffer.state.staged.records == 2
        await commit(broker, wanted(claim(), ("a", [(0, 2, 2)])))

        assert (await stored(broker))[3:] == [b"staged-1", b"staged-2"]


async def test_under_drop_oldest_a_commit_drops_the_oldest_live_records_for_its_own() -> None:
    async with running() as broker:
        settings = SinkSettings(max_disk_cache=4, overflow=Overflow.DROP_OLDEST, buffer_page_size=1)
        buffer, _ = await broker.create("orders", settings)
        await fill(buffer, 4)
        await stage(buffer, claim(), "a", [b"1", b"2"], [b"3"])
        assert buffer.logs[0].records == 4

        await commit(broker, wanted(claim(), ("a", [(0, 2, 3)])))

        assert buffer.logs[0].records == 4
        assert (await stored(broker))[1:] == [b"1", b"2", b"3"]
        assert dict(buffer.logs[0].head.dropped) == {1: 3}


async def test_an_epoch_in_a_sink_that_spills_is_after_what_memory_holds() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        settings = SinkSettings(buffer_mode=BufferMode.SPILL, memory_cache_threshold=10, buffer_page_size=1)
        buffer, _ = await broker.create("orders", settings)
        await fill(buffer, 3)
        await stage(buffer, claim(), "a", [b"1"])
        await commit(broker, wanted(claim(), ("a", [(0, 1, 1)])))
        await fill(buffer, 1)
        assert buffer.logs[0].tail.next_offset == 5

    async with running(store.reopen()) as broker:
        assert await stored(broker) == [b"x" * 10] * 3 + [b"1"] + [b"x" * 10]


async def test_the_records_of_epochs_are_forgotten_with_their_pages_but_for_the_last_one() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        for epoch in range(3):
            await stage(buffer, claim(epoch), "a", [b"1"])
            await commit(broker, wanted(claim(epoch), ("a", [(0, 1, 1)])))
        await broker.epoch_sweep.sweep()
        assert (await broker.epochs.get(buffer, "query", 0)).parts

        buffer.removal.drop(0, buffer.logs[0].first_entries(), DropReason.PURGED)
        await buffer.removal.drops_durable(0)
        await broker.epoch_sweep.sweep()
        await broker.committer.drained()

        with pytest.raises(EpochNotFound):
            await broker.epochs.get(buffer, "query", 1)
        assert (await broker.epochs.get(buffer, "query", None)).epoch == 2


async def test_tickets_rise_over_restarts() -> None:
    store = MemoryStore()
    taken: list[int] = []
    for _ in range(3):
        async with running(store) as broker:
            taken += [broker.epochs.take_ticket(), broker.epochs.take_ticket()]
        store = store.reopen()

    assert taken == sorted(set(taken))


async def test_a_page_after_the_first_one_that_found_no_room_waits_for_it() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings(max_disk_cache=3, buffer_page_size=1))
        await stage(buffer, claim(), "b", [b"x", b"y"])
        session = buffer.staging.open(claim(), "a", None)
        with pytest.raises(SinkFull):
            await session.publish(page(b"1", b"2"), 0)

        with refusal(Reason.SEQUENCE_GAP):
            await session.publish(page(b"3"), 1)

        assert await buffer.staging.abort("query", 0, ["b"]) == 1
        assert (await (await session.publish(page(b"1", b"2"), 0))).staged
        assert (await (await session.publish(page(b"3"), 1))).staged
