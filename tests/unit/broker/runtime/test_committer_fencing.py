from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.errors import StoreFenced
from forebay.broker.core.writes import PutAge
from forebay.broker.storage.store.memory import Action, MemoryStore
from tests.support.brokers.held_store import HeldStore
from tests.unit.broker.runtime.bench import bench

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("action", ["write", "sync"])
async def test_after_a_failure_every_waiting_caller_gets_it_and_nothing_is_retried(action: Action) -> None:
    store = HeldStore()
    async with bench(store) as at:
        moment = at.committer.committed.next()
        store.hold()
        first = at.append(b"a")
        await store.reached()
        after = at.append(b"b")
        written = at.committer.write([PutAge(1, 2)])
        store.fail_next(action)
        store.let_go()
        failures = await asyncio.gather(first.done, after.done, written, return_exceptions=True)

        assert [type(failure) for failure in failures][1:] == [StoreFenced, StoreFenced]
        assert at.fenced == [at.committer.fenced]
        assert moment.is_set()
        late = at.append(b"c")
        with pytest.raises(StoreFenced):
            await late.done
        with pytest.raises(StoreFenced):
            await at.committer.write([PutAge(1, 2)])
        with pytest.raises(StoreFenced):
            at.committer.admit(1)
        assert at.log.tail.next_offset == (1 if failures[0] is None else 0)


async def test_a_failed_ingest_fences_too() -> None:
    store = MemoryStore()
    async with bench(store) as at:
        store.fail_next("ingest")
        appends = [at.append(b"x" * (1 << 20)) for _ in range(5)]
        failures = await asyncio.gather(*(append.done for append in appends), return_exceptions=True)

        assert {type(failure) for failure in failures} == {StoreFenced}
        assert at.log.recent == []


class BrokenStore(MemoryStore):
    """A store with a mistake in it."""

    broken = False

    def sync(self) -> None:
        """Fail with an exception that is not a storage error."""
        if self.broken:
            raise RuntimeError("a mistake")
        super().sync()


async def test_a_mistake_of_our_own_fences_instead_of_hanging() -> None:
    store = BrokenStore()
    async with bench(store) as at:
        store.broken = True
        append = at.append(b"a")

        with pytest.raises(StoreFenced, match="a mistake"):
            await append.done

        assert len(at.fenced) == 1
