from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.errors import (
    InvalidPartition,
    SinkFull,
    StoreFenced,
)
from forebay.broker.core.publish.writer import WINDOW
from forebay.broker.runtime.publish.stored import Stored
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

        assert first == Stored(0, 2, duplicate=False)
        assert again == Stored(0, 2, duplicate=True)
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
    assert again == [Stored(offset, 1, duplicate=True) for offset in range(3)]
    assert new == Stored(3, 1, duplicate=False)


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
        assert await original == Stored(0, 1, duplicate=False)
        assert await again == Stored(0, 1, duplicate=True)


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

        assert await publish(session, 0, b"x") == Stored(None, 1, duplicate=True)
        assert await publish(session, 1, b"x") == Stored(1, 1, duplicate=True)


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

        assert await publish(session, 1, b"e") == Stored(1, 1, duplicate=False)


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
