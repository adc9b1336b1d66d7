from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.backups.values import Restored
from forebay.broker.core.errors import (
    InvalidPartition,
    SinkFull,
    StoreFenced,
    WriterFenced,
)
from forebay.broker.core.publish.writer import WINDOW
from forebay.broker.runtime.publish.result import PublishResult
from forebay.broker.runtime.publish.writers import EPOCH_BITS, lost_epochs
from forebay.broker.storage.records.store import RESTORED, START
from forebay.broker.storage.store.memory import MemoryStore
from forebay.errors.reasons import Reason
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.writing import publish, writers
from tests.support.pages.samples import page
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio


# -- duplicates


async def test_a_repeated_page_is_answered_and_not_stored_again() -> None:
    async with writers() as at:
        session = await at.open("w", None)
        first = await publish(session, 0, b"a", b"b")

        again = await publish(session, 0, b"a", b"b")

        assert first == PublishResult(0, 2, duplicate=False)
        assert again == PublishResult(0, 2, duplicate=True)
        assert at.buffer.logs[0].next_offset == 2


async def test_it_is_so_after_a_restart_too() -> None:
    store = MemoryStore()
    async with writers(store) as at:
        session = await at.open("w", None)
        for sequence in range(3):
            await publish(session, sequence, b"%d" % sequence)

    async with writers(store.reopen()) as at:
        resumed = await at.open("w", session.epoch)
        again = [await publish(resumed, sequence, b"%d" % sequence) for sequence in range(3)]
        new = await publish(resumed, 3, b"3")

    assert resumed.next_sequences() == {0: 4}
    assert again == [PublishResult(offset, 1, duplicate=True) for offset in range(3)]
    assert new == PublishResult(3, 1, duplicate=False)


async def test_a_duplicate_of_a_page_that_waits_is_answered_together_with_it() -> None:
    store = HeldStore()
    async with writers(store) as at:
        session = await at.open("w", None)
        store.hold()
        original = await session.publish(page(b"a"), 0)
        await store.reached()
        again = await session.publish(page(b"a"), 0)

        assert not again.done()
        store.let_go()
        assert await original == PublishResult(0, 1, duplicate=False)
        assert await again == PublishResult(0, 1, duplicate=True)


async def test_a_duplicate_fails_as_its_original_did() -> None:
    store = HeldStore()
    async with writers(store) as at:
        session = await at.open("w", None)
        store.hold()
        original = await session.publish(page(b"a"), 0)
        await store.reached()
        again = await session.publish(page(b"a"), 0)
        store.fail_next("sync")
        store.let_go()
        failures = await asyncio.gather(original, again, return_exceptions=True)
        late = await session.publish(page(b"a"), 0)

        assert [type(failure) for failure in failures] == [StoreFenced, StoreFenced]
        with pytest.raises(StoreFenced):
            await late


async def test_a_known_sequence_with_other_data_is_a_conflict() -> None:
    async with writers() as at:
        session = await at.open("w", None)
        await publish(session, 0, b"a")

        with refusal(Reason.SEQUENCE_CONFLICT):
            await publish(session, 0, b"b")


async def test_a_duplicate_older_than_the_window_counts_as_success_without_offsets() -> None:
    async with writers() as at:
        session = await at.open("w", None)
        results = [await session.publish(page(b"x"), sequence) for sequence in range(WINDOW + 1)]
        await asyncio.gather(*results)

        assert await publish(session, 0, b"x") == PublishResult(None, 1, duplicate=True)
        assert await publish(session, 1, b"x") == PublishResult(1, 1, duplicate=True)


# -- gaps


async def test_a_writer_may_not_skip() -> None:
    async with writers() as at:
        session = await at.open("w", None)
        await publish(session, 7, b"a")

        with refusal(Reason.SEQUENCE_GAP) as refused:
            await publish(session, 9, b"c")

        assert refused.value.facts == {"partition": "0", "sequence": "9", "expected": "8"}


async def test_after_a_refusal_later_pages_wait_for_the_refused_one() -> None:
    async with writers(max_disk_cache=2) as at:
        session = await at.open("w", None)
        await publish(session, 0, b"a")
        with pytest.raises(SinkFull):
            await publish(session, 1, b"b", b"c")

        with refusal(Reason.SEQUENCE_GAP):
            await publish(session, 2, b"d")

        assert await publish(session, 1, b"e") == PublishResult(1, 1, duplicate=False)


async def test_the_first_page_of_a_writer_stays_the_expected_one_when_it_is_refused() -> None:
    async with writers(max_disk_cache=2) as at:
        session = await at.open("w", None)
        await publish(await at.open("other", None), 0, b"a")
        with pytest.raises(SinkFull):
            await publish(session, 5, b"b", b"c")

        with refusal(Reason.SEQUENCE_GAP):
            await publish(session, 6, b"d")


async def test_partitions_are_numbered_each_on_its_own() -> None:
    async with writers(partitions=2) as at:
        session = await at.open("w", None)
        await publish(session, 3, b"a", partition=0)
        await publish(session, 40, b"b", partition=1)

        assert session.next_sequences() == {0: 4, 1: 41}
        with pytest.raises(InvalidPartition):
            await publish(session, 0, b"c", partition=2)


# -- epochs that were lost with what came after a backup


def restored_store() -> MemoryStore:
    """A store that was restored: its broker was at start 3, and starts up to 1,000 are left out."""
    store = MemoryStore()
    restored = Restored("5" * 32, "b", 1, 2, first_start=3, last_start=1_000)
    store.write([RESTORED.put(RESTORED.key(), restored), START.put(START.key(), 1_000)])
    return store


async def test_an_epoch_from_after_the_backup_is_resumed_with_an_empty_window_also_after_a_restart() -> None:
    epoch = (4 << EPOCH_BITS) + 7
    store = restored_store()
    async with writers(store) as at:
        session = await at.open("w", epoch)
        assert (session.epoch, session.next_sequences()) == (epoch, {})
        await publish(session, 9, b"a")

    async with writers(store.reopen()) as at:
        again = await at.open("w", epoch)
        assert again.next_sequences() == {0: 10}
        assert (await publish(again, 9, b"a")).duplicate
        assert (await at.open("w", None)).epoch > epoch


async def test_of_two_epochs_from_after_the_backup_the_later_one_fences_the_other() -> None:
    async with writers(restored_store()) as at:
        older = await at.open("w", (4 << EPOCH_BITS) + 7)
        await at.open("w", (5 << EPOCH_BITS) + 1)

        assert older.fenced is not None
        with pytest.raises(WriterFenced):
            await at.open("w", (4 << EPOCH_BITS) + 7)


async def test_an_epoch_from_before_the_backup_or_after_the_restore_is_fenced_when_it_is_not_known() -> None:
    async with writers(restored_store()) as at:
        for start in (2, 1_001, 1_002):
            with pytest.raises(WriterFenced):
                await at.open("w", (start << EPOCH_BITS) + 7)


async def test_a_store_that_was_not_restored_has_no_lost_epochs() -> None:
    assert list(lost_epochs(None)) == []
