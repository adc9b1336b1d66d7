"""Concurrent operations while an epoch is being committed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from forebay.broker.core.epochs.values import Claim
from forebay.broker.core.errors import SinkNotFound, StoreFenced, WriterFenced
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.settings import Overflow, SinkSettings
from forebay.broker.core.writes import DropStages
from forebay.broker.runtime import housekeeping
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.epochs import placement
from forebay.broker.runtime.epochs.commits import CommitResult
from forebay.broker.runtime.epochs.staging import RUNS_FROM
from forebay.broker.runtime.resources import slices
from forebay.broker.runtime.sink.statistics import sink_state
from forebay.broker.storage.records.epochs.epoch import EPOCH, STAGE_ORDER
from forebay.broker.storage.records.epochs.large_commit import LARGE_COMMIT
from forebay.broker.storage.records.pages.entry import ENTRY
from forebay.broker.storage.store.contract import Family, Operation, Put, PutAll
from forebay.broker.storage.store.memory import MemoryStore
from forebay.errors.reasons import Reason
from tests.support.brokers.epochs import claim, commit, stage, stored, wanted
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import CutAfter, Mortal, begin, running
from tests.support.brokers.taker import Taker
from tests.support.pages.named_pages import wrong_names
from tests.support.pages.samples import page, values
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio
ENDS_S = 20.0
NEWER = claim(run="run-2", ticket=2)
ASKED = wanted(claim(), ("a", [(0, 1, 1)]))


async def stored_from(broker: Broker, first: int, end: int) -> list[bytes]:
    """The values of pages of one record."""
    buffer, pages = broker.sink("orders"), broker.pages
    entries = await pages.call(pages.journal.entries, buffer.record.id, 0, first, end, 1_000)
    bodies = await pages.call(pages.journal.read_pages, buffer.record.id, 0, entries)
    return [value for body in bodies if body is not None for value in values(body.data)]


def elsewhere(found: Claim) -> Claim:
    return replace(found, sink="others", write_name="others")


async def on_its_way(broker: Broker, store: HeldStore) -> asyncio.Task[CommitResult]:
    """A commit of the token `a` whose batch waits for its sync."""
    buffer, _ = await broker.create("orders", SinkSettings())
    await stage(buffer, claim(), "a", [b"1"])
    store.hold()
    committing = asyncio.ensure_future(commit(broker, ASKED))
    await store.reached()
    return committing


async def test_a_newer_run_that_begins_meanwhile_gets_the_answer_that_the_epoch_is_committed() -> None:
    store = HeldStore()
    async with running(store) as broker:
        committing = await on_its_way(broker, store)
        buffer = broker.sink("orders")
        session = buffer.staging.open(NEWER, "b", None)
        later = buffer.staging.open(replace(NEWER, epoch=1), "c", None)
        store.let_go()
        await committing

        assert session.on_fenced.is_set()
        with refusal(Reason.ALREADY_COMMITTED):
            buffer.staging.open(NEWER, "b", None)
        await (await later.publish(page(b"2"), 0))
        assert (await commit(broker, wanted(NEWER, ("b", [])))).already
        assert [each.record.token for each in buffer.staging.stages] == ["c"]
    assert wrong_names(store.reopen()) == []


async def test_a_commit_of_many_pages_gives_others_their_turn_and_what_they_do_meanwhile_changes_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    store, turns = MemoryStore(), 0
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(partitions=8))
        for token in ("a", "b"):
            opened = [await stage(buffer, claim(), token, [b"%d" % at], partition=at) for at in range(8)]
            opened[-1].end()
        parts = [(partition, 1, 1) for partition in range(8)]
        committing = asyncio.ensure_future(commit(broker, wanted(claim(), ("a", parts), ("b", parts))))
        while buffer.staging.stages and not committing.done():
            await asyncio.sleep(0)
            turns += 1
        assert not committing.done(), "its stages are taken before the batch is written"
        aborted = await buffer.staging.abort("query", 0, ["a", "b"])
        outcome = await committing

        assert (turns > 2, aborted) == (True, 0)
        assert [part.base for part in outcome.epochs[0].parts] == [0] * 8
        assert [await stored(broker, partition=partition) for partition in (0, 7)] == [[b"0"] * 2, [b"7"] * 2]
    assert wrong_names(store.reopen()) == []


@pytest.mark.parametrize("writes", range(12))
async def test_a_large_commit_that_is_cut_off_at_any_batch_is_all_there_or_is_made_again(
    monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    monkeypatch.setattr(placement, "AHEAD_FROM", 0)
    monkeypatch.setattr(placement, "AHEAD_BATCH", 1)
    parts = [(partition, 2, 3) for partition in range(3)]
    asked = wanted(claim(), ("a", parts))
    memory = MemoryStore()
    store = CutAfter(memory)
    broker = begin(store, FakeClock())
    buffer, _ = await broker.create("orders", SinkSettings(partitions=3))
    await fill(buffer, 2)
    for partition in range(3):
        (await stage(buffer, claim(), "a", [b"1", b"2"], [b"3"], partition=partition)).end()
    store.left = writes
    committing = asyncio.ensure_future(commit(broker, asked))
    [outcome] = await asyncio.gather(committing, return_exceptions=True)
    store.left = 0
    await asyncio.gather(broker.close(), return_exceptions=True)

    again = memory.reopen()
    async with running(again) as other:
        before = [len(await stored(other, partition=partition)) for partition in range(3)]
        ordered = again.scan(Family.META, *STAGE_ORDER.under(), 10)
        assert len(ordered) == (0 if before == [2, 0, 0] else 3), "nothing of a commit that was cut off is left"
        assert before in ([2, 0, 0], [5, 3, 3]), "all of it or nothing"
        assert isinstance(outcome, StoreFenced) or before == [5, 3, 3]
        await fill(other.sink("orders"), 1)  # nothing that was cut off stands beyond the end
        assert (await commit(other, asked)).already == (before == [5, 3, 3])
        found = [await stored(other, partition=partition) for partition in range(3)]
        assert [len(values) for values in found] == [6, 3, 3]
        assert found[1] == found[2] == [b"1", b"2", b"3"]
        assert again.scan(Family.META, *LARGE_COMMIT.under(), 10) == []
    assert wrong_names(again.reopen()) == []


class Weighed(MemoryStore):
    """A store that notes the keys and bytes of its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[tuple[int, int]] = []

    def write(self, operations: Sequence[Operation]) -> None:
        put = [each for each in operations if isinstance(each, Put)]
        many = [each for each in operations if isinstance(each, PutAll)]
        size = sum(len(each.value) for each in put) + sum(len(value) for each in many for value in each.values)
        self.weights.append((len(operations) - len(many) + sum(len(each.keys) for each in many), size))
        super().write(operations)


async def weights_of_a_commit(tasks: int) -> list[tuple[int, int]]:
    """Keys and bytes of the batches of a commit of so many tasks in two partitions."""
    store = Weighed()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(partitions=2))
        tokens = [f"t{number}" for number in range(tasks)]
        for token in tokens:
            for partition in range(2):
                (await stage(buffer, claim(), token, [b"1"], partition=partition)).end()
        await broker.committer.drained()
        store.weights.clear()
        await commit(broker, wanted(claim(), *((token, [(0, 1, 1), (1, 1, 1)]) for token in tokens)))
        return list(store.weights)


async def test_no_batch_of_a_large_commit_grows_with_its_tasks_but_that_of_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placement, "AHEAD_FROM", 0)
    monkeypatch.setattr(placement, "AHEAD_BATCH", 32)

    few, many = await weights_of_a_commit(40), await weights_of_a_commit(400)

    assert len(many) > len(few)
    assert few[-1][0] == many[-1][0]
    assert many[-1][1] < few[-1][1] + 16, "numbers of more digits"
    assert max(keys for keys, _ in many) <= 2 * 32 + 2
    assert max(size for _, size in many) < 400 * 20 + 4_096


async def test_of_a_large_commit_memory_keeps_the_newest_entries_and_all_of_it_is_read_and_trimmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placement, "AHEAD_FROM", 100)
    monkeypatch.setattr(placement, "AHEAD_BATCH", 64)
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1))
        await fill(buffer, 3)
        for token in ("a", "b"):
            (await stage(buffer, claim(), token, *([b"%d" % n] for n in range(400)))).end()
        asked = wanted(claim(), ("a", [(0, 400, 400)]), ("b", [(0, 400, 400)]))
        [record] = (await commit(broker, asked)).epochs
        await fill(buffer, 3)
        [log] = buffer.logs

        assert len(log.recent) < 600
        assert [part.base for part in record.parts] == [3]
        found = [value for start in (0, 400) for value in await stored_from(broker, start, start + 400)]
        assert found[3:800] == [b"%d" % (n % 400) for n in range(797)]
        taker = Taker(buffer.subscription(""))
        assert await taker.all_offsets() == list(range(806))
        await taker.ack(0, 806)
        await buffer.removal.confirmed()
        assert [each.lanes[0].pending for each in (await sink_state(buffer)).subscriptions] == [0]


@pytest.mark.slow
@pytest.mark.parametrize("turns", range(40))
async def test_a_sink_that_is_deleted_at_any_turn_of_a_commit_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    monkeypatch.setattr(housekeeping, "SWEEP_S", 3_600.0)  # no batch of its comes and wakes the deletion
    store = MemoryStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(partitions=4))
        opened = [await stage(buffer, claim(), "a", [b"1"], partition=partition) for partition in range(4)]
        opened[-1].end()
        asked = wanted(claim(), ("a", [(partition, 1, 1) for partition in range(4)]))
        committing = asyncio.ensure_future(commit(broker, asked))
        for _ in range(turns):
            await asyncio.sleep(0)
        async with asyncio.timeout(ENDS_S):
            await broker.delete("orders", force=True)
        await asyncio.gather(committing, return_exceptions=True)

        assert store.scan(Family.INDEX, *ENTRY.between(1, 0, first=0, end=1 << 62), 10) == []
        assert store.scan(Family.META, *EPOCH.under(1), 10) == []
    assert wrong_names(store.reopen()) == []


async def test_a_stage_that_is_discarded_while_its_commit_examines_the_others_makes_it_incomplete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        for token in ("a", "b", "c", "d"):
            session = await stage(buffer, claim(), token, [b"1"])
            session.end()
        asked = wanted(claim(), *((token, [(0, 1, 1)]) for token in ("a", "b", "c", "d")))
        committing = asyncio.ensure_future(commit(broker, asked))
        for _ in range(3):
            await asyncio.sleep(0)
        assert await buffer.staging.abort("query", 0, ["a"]) == 1

        with refusal(Reason.STAGED_INCOMPLETE):
            await committing
        assert await stored(broker) == []


async def test_names_of_a_commit_that_is_not_durable_are_in_no_range_that_others_delete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placement, "AHEAD_FROM", 0)
    store = HeldStore()
    other = claim(producer="other", name="")
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        for number in range(RUNS_FROM):
            (await stage(buffer, other, f"t{number}", [b"other"])).end()
            if number == 3:
                await stage(buffer, claim(), "a", [b"1"])
        others = [each for each in buffer.staging.stages if each.record.producer == "other"]
        [own] = [each.record.number for each in buffer.staging.stages if each.record.producer == "query"]
        store.hold()
        committing = asyncio.ensure_future(commit(broker, ASKED))
        await store.reached()

        writes = [write for write in buffer.staging.release(others) if isinstance(write, DropStages)]

        assert len(writes) == 2
        assert not any(write.first <= own <= write.last for write in writes)
        store.let_go()
        await committing


async def test_a_producer_that_commits_for_the_first_time_in_days_is_not_forgotten_meanwhile() -> None:
    clock, held = FakeClock(), HeldStore()
    batch = claim(producer="batch", name="")
    async with running(held, clock) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        await stage(buffer, batch, "a", [b"1"])
        await commit(broker, wanted(batch, ("a", [(0, 1, 1)])))
        broker.sink("orders").removal.drop(0, buffer.logs[0].first_entries(), DropReason.PURGED)
        await stage(buffer, replace(batch, epoch=1), "b", [b"2"])
        clock.advance(2 * 24 * 3600)
        await broker.epoch_sweep.sweep()
        held.hold()
        committing = asyncio.ensure_future(commit(broker, wanted(replace(batch, epoch=1), ("b", [(0, 1, 1)]))))
        await held.reached()
        buffer.staging.sweep()
        held.let_go()
        await committing

    async with running(held.reopen(), clock) as broker:
        assert broker.sink("orders").staging.producers.known["batch"].epoch == 1


async def test_an_abort_that_comes_meanwhile_changes_nothing() -> None:
    store = HeldStore()
    async with running(store) as broker:
        committing = await on_its_way(broker, store)
        assert await broker.sink("orders").staging.abort("query", 0, ["a"]) == 0
        store.let_go()
        await committing

        assert await stored(broker) == [b"1"]


async def test_a_commit_continues_when_its_caller_leaves_and_a_second_one_finds_it_there() -> None:
    store = HeldStore()
    async with running(store) as broker:
        committing = await on_its_way(broker, store)
        committing.cancel()
        await asyncio.gather(committing, return_exceptions=True)
        again = asyncio.ensure_future(commit(broker, ASKED))
        await asyncio.sleep(0)
        store.let_go()

        assert (await again).already
        assert await stored(broker) == [b"1"]


async def test_a_clean_stop_waits_for_it() -> None:
    store = HeldStore()
    broker = begin(store, FakeClock())
    committing = await on_its_way(broker, store)
    committing.cancel()
    closing = asyncio.ensure_future(broker.close())
    await asyncio.sleep(0)
    assert not closing.done()
    store.let_go()
    await closing

    async with running(store.reopen()) as again:
        assert await stored(again) == [b"1"]
        assert again.sink("orders").staging.stages == []


async def test_a_sink_that_is_deleted_meanwhile_is_gone_with_its_records() -> None:
    store = HeldStore()
    async with running(store) as broker:
        committing = await on_its_way(broker, store)
        deleting = asyncio.ensure_future(broker.delete("orders", force=True))
        await asyncio.sleep(0)
        store.let_go()
        await asyncio.gather(committing, deleting)

        assert broker.quota.used == 0
        assert wrong_names(store) == []


async def test_a_commit_over_a_sink_that_was_deleted_changes_nothing_in_the_others() -> None:
    async with running() as broker:
        orders, _ = await broker.create("orders", SinkSettings())
        others, _ = await broker.create("others", SinkSettings())
        await stage(orders, claim(), "a", [b"1"])
        await stage(others, elsewhere(claim()), "a", [b"1"])
        async with others.state.admission:
            asked = (ASKED, wanted(elsewhere(claim()), ("a", [(0, 1, 1)])))
            committing = asyncio.ensure_future(commit(broker, *asked))
            await asyncio.sleep(0)
            await broker.delete("others", force=True)

        with pytest.raises(SinkNotFound):
            await committing
        assert await stored(broker) == []
        assert (await commit(broker, ASKED)).epochs[0].parts


async def test_commits_over_the_same_sinks_in_another_order_do_not_wait_for_each_other_for_ever() -> None:
    async with running() as broker:
        for name in ("orders", "others"):
            await broker.create(name, SinkSettings())
        for epoch in range(4):
            for buffer, found in (
                (broker.sink("orders"), claim(epoch, producer=f"q{epoch}", name="")),
                (broker.sink("others"), replace(claim(epoch, producer=f"q{epoch}", name=""), sink="others")),
            ):
                await stage(buffer, found, "a", [b"%d" % epoch])
        commits = []
        for epoch in range(4):
            here = claim(epoch, producer=f"q{epoch}", name="")
            pair = [wanted(each, ("a", [(0, 1, 1)])) for each in (here, replace(here, sink="others"))]
            commits.append(commit(broker, *(pair if epoch % 2 else pair[::-1])))

        async with asyncio.timeout(10):
            await asyncio.gather(*commits)

        assert sorted(await stored(broker)) == sorted(await stored(broker, "others")) == [b"0", b"1", b"2", b"3"]


async def test_two_epochs_of_one_sink_get_room_for_both() -> None:
    async with running() as broker:
        settings = SinkSettings(max_disk_cache=4, overflow=Overflow.DROP_OLDEST, buffer_page_size=1)
        buffer, _ = await broker.create("orders", settings)
        await fill(buffer, 4)
        one, two = claim(producer="one", name="one"), claim(producer="two", name="two")
        await stage(buffer, one, "a", [b"1"], [b"2"])
        await stage(buffer, two, "b", [b"3"], [b"4"])

        await commit(broker, wanted(one, ("a", [(0, 2, 2)])), wanted(two, ("b", [(0, 2, 2)])))

        assert await stored(broker) == [b"1", b"2", b"3", b"4"]


async def test_a_sink_that_is_deleted_while_a_commit_waits_for_its_appends_refuses_the_commit() -> None:
    store = HeldStore()
    async with running(store) as broker:
        settings = SinkSettings(max_disk_cache=4, overflow=Overflow.DROP_OLDEST, buffer_page_size=1)
        buffer, _ = await broker.create("orders", settings)
        await fill(buffer, 2)
        await stage(buffer, claim(), "a", *([b"%d" % n] for n in range(4)))
        store.hold()
        under_way = [await buffer.append(page(b"x")) for _ in range(2)]
        await store.reached()
        flying = buffer.subscription("").lanes[0]
        assert flying.cursor.watermark == 0
        committing = asyncio.ensure_future(commit(broker, wanted(claim(), ("a", [(0, 4, 4)]))))
        while not buffer.state.admission.locked():
            await asyncio.sleep(0)
        deleting = asyncio.ensure_future(broker.delete("orders", force=True))
        await asyncio.sleep(0)
        store.let_go()

        async with asyncio.timeout(10):
            with pytest.raises(SinkNotFound):
                await committing
            await deleting
            await asyncio.gather(*(append.done for append in under_way))


async def test_a_commit_that_is_refused_after_a_wait_has_dropped_no_record() -> None:
    store = HeldStore()
    async with running(store) as broker:
        settings = SinkSettings(max_disk_cache=4, overflow=Overflow.DROP_OLDEST, buffer_page_size=1)
        buffer, _ = await broker.create("orders", settings)
        await fill(buffer, 3)
        await stage(buffer, claim(), "a", *([b"%d" % n] for n in range(4)))
        store.hold()
        append = await buffer.append(page(b"x"))
        await store.reached()
        committing = asyncio.ensure_future(commit(broker, wanted(claim(), ("a", [(0, 4, 4)]))))
        while not buffer.state.admission.locked():
            await asyncio.sleep(0)
        aborting = asyncio.ensure_future(buffer.staging.abort("query", 0, ["a"]))
        await asyncio.sleep(0)
        store.let_go()

        with refusal(Reason.STAGED_INCOMPLETE):
            await committing
        await asyncio.gather(append.done, aborting)
        assert (buffer.logs[0].head.earliest, buffer.logs[0].records) == (0, 4)


async def test_a_store_that_fails_while_room_is_made_ends_the_commit() -> None:
    held = HeldStore()
    mortal = Mortal(held)
    async with running(mortal) as broker:
        settings = SinkSettings(max_disk_cache=4, overflow=Overflow.DROP_OLDEST, buffer_page_size=1)
        buffer, _ = await broker.create("orders", settings)
        await stage(buffer, claim(), "a", *([b"%d" % n] for n in range(4)))
        held.hold()
        waiting = [await buffer.append(page(b"x")) for _ in range(4)]
        await held.reached()
        committing = asyncio.ensure_future(commit(broker, wanted(claim(), ("a", [(0, 4, 4)]))))
        while not buffer.state.admission.locked():
            await asyncio.sleep(0)
        held.fail_next("sync")
        held.let_go()

        async with asyncio.timeout(10):
            with pytest.raises(StoreFenced):
                await committing
            await asyncio.gather(*(append.done for append in waiting), return_exceptions=True)


async def test_a_commit_without_a_stage_discards_all_that_older_runs_have_staged() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        old = await stage(buffer, claim(5), "a", [b"1"])

        await commit(broker, wanted(NEWER))

        assert old.on_fenced.is_set()
        assert buffer.state.staged.usage == (0, 0)


async def test_a_stream_that_is_open_when_its_token_is_committed_ends() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        session = await stage(buffer, claim(), "a", [b"1"])
        await commit(broker, ASKED)

        with pytest.raises(WriterFenced):
            await session.publish(page(b"2"), 1)


async def test_an_epoch_whose_record_is_damaged_is_still_committed_when_it_is_asked_for_again() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        await stage(buffer, claim(), "a", [b"1"])
        first = await commit(broker, ASKED)
    store = store.reopen()
    store.write([Put(Family.META, EPOCH.key(buffer.record.id, "query", 0), b"noise")])
    async with running(store) as broker:
        again = await commit(broker, ASKED)

        assert again.already
        assert replace(again.epochs[0], parts=first.epochs[0].parts) == first.epochs[0]
        assert await stored(broker) == [b"1"]
