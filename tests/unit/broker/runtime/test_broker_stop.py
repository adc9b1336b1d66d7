"""A stop writes what memory holds whatever else fails, and background work that fails is seen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import BufferMode, SinkSettings
from forebay.broker.runtime import housekeeping
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.resources import supervision
from forebay.broker.runtime.resources.stop_steps import StopFailed
from forebay.broker.storage.errors import StoreUnreadable
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import begin
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio
SPILL = SinkSettings(buffer_mode=BufferMode.SPILL)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


async def pending(store: MemoryStore, *names: str) -> list[int]:
    """Return the contents of these sinks after the next start."""
    broker = begin(store, FakeClock())
    found = [broker.sink(name).state.pending for name in names]
    await broker.close()
    return found


async def test_a_first_dead_letter_during_a_stop_does_not_keep_memory_from_being_written() -> None:
    store = HeldStore()
    broker = begin(store, FakeClock())
    await broker.create("rejecting", SinkSettings())
    await broker.create("spilled", SPILL)
    await broker.create("slow", SinkSettings())
    await fill(broker.sink("rejecting"), 1)
    await fill(broker.sink("spilled"), 3)
    taker = Taker(broker.sink("rejecting").subscription(""))
    await taker.one()
    store.hold()
    append = await broker.sink("slow").append(page(b"x"))
    await store.reached()

    closing = asyncio.ensure_future(broker.close())
    await asyncio.sleep(0)
    answer = taker.subscription.reject(0, taker.answer(), [Range(0, 1)], reason="no")
    await until(lambda: "rejecting.dlq" in broker.sinks)
    store.let_go()
    await closing

    assert append.done.done()
    await asyncio.gather(answer, return_exceptions=True)
    assert await pending(store.reopen(), "spilled", "slow") == [3, 1]


async def test_a_sink_whose_end_fails_does_not_keep_the_memory_of_another_from_being_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    broker = begin(store, FakeClock())
    for name in ("a", "b", "c"):
        await broker.create(name, SPILL)
        await fill(broker.sink(name), 2)

    async def failing() -> None:
        raise OSError("a surprise")

    monkeypatch.setattr(broker.sink("b").tier, "close", failing)

    with pytest.raises(StopFailed, match="memory of b: a surprise"):
        await broker.close()

    assert await pending(store.reopen(), "a", "c") == [2, 2]


async def test_a_device_that_does_not_say_what_is_free_stops_no_sweep_and_no_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(housekeeping, "SWEEP_S", 0.001)
    store = MemoryStore()
    broker = begin(store, FakeClock())
    buffer, _ = await broker.create("spilled", SPILL)
    await fill(buffer, 3)
    store.room = -1
    swept = await _sweeps(broker, monkeypatch)
    await fill(buffer, 1)

    await broker.close()

    assert swept >= 3
    assert broker.supervisor.failures == {}
    assert await pending(store.reopen(), "spilled") == [4]


async def _sweeps(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> int:
    """Wait for some sweeps of the only sink."""
    [buffer] = broker.sinks.values()
    count = 0
    real = buffer.sweep

    def counted() -> None:
        nonlocal count
        count += 1
        real()

    monkeypatch.setattr(buffer, "sweep", counted)
    await until(lambda: count >= 3)
    return count


async def test_a_sink_whose_sweep_fails_is_reported_and_the_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(housekeeping, "SWEEP_S", 0.001)
    broker = begin(MemoryStore(), FakeClock())
    swept: set[str] = set()

    def sweep(name: str) -> Callable[[], None]:
        def swept_or_failed() -> None:
            swept.add(name)
            if name == "b":
                raise ZeroDivisionError("of b")

        return swept_or_failed

    for name in ("a", "b", "c"):
        buffer, _ = await broker.create(name, SinkSettings())
        monkeypatch.setattr(buffer, "sweep", sweep(name))

    await until(lambda: swept == {"a", "b", "c"} and bool(broker.supervisor.failures))

    assert "sinks failed 1 time, " in broker.background_failures()[0]
    assert "ZeroDivisionError: of b" in broker.background_failures()[0]
    await broker.close()


async def test_a_sink_that_is_deleted_during_a_sweep_is_left_out_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "SWEEP_S", 0.001)
    broker = begin(MemoryStore(), FakeClock())
    for name in ("early", "late"):
        await broker.create(name, SinkSettings())
    early, late = broker.sink("early"), broker.sink("late")
    for buffer in (early, late):
        await fill(buffer, 1)  # an empty sink is not swept each time
    deletion = broker.delete("early", force=True)
    swept: list[str] = []

    def delete_the_next() -> None:
        if not swept:
            deletion.send(None)  # until it waits for its end
        swept.append("late")

    monkeypatch.setattr(late, "sweep", delete_the_next)  # the newest sink is the first of a sweep
    monkeypatch.setattr(early, "sweep", lambda: swept.append("early"))
    await until(lambda: len(swept) >= 3 or bool(broker.supervisor.failures))
    deletion.close()  # the caller leaves; the deletion is completed anyway

    assert broker.supervisor.failures == {}
    assert set(swept) == {"late"}
    await broker.close()


async def test_reclaiming_continues_after_a_failure_and_forgets_nothing_that_was_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervision, "RESTART_DELAYS_S", (0.001,))
    store = FailingToList()
    broker = begin(store, FakeClock())
    await broker.create("orders", SinkSettings())
    await fill(broker.sink("orders"), 2)
    store.failures_left = 2

    await broker.delete("orders", force=True)

    async with asyncio.timeout(30):
        await until(lambda: store.failures_left == 0)
    await broker.close()
    assert broker.supervisor.failures["reclaimer"].count == 2
    again = begin(store.reopen(), FakeClock())
    assert again.supervisor.failures == {}
    await again.close()


class FailingToList(MemoryStore):
    """A store whose bulk cannot be listed for a while."""

    failures_left = 0

    def bulk_keys(self, first: bytes, end: bytes, limit: int, *, here: bool = False) -> list[bytes]:
        if self.failures_left:
            self.failures_left -= 1
            raise StoreUnreadable("Input/output error")
        return super().bulk_keys(first, end, limit, here=here)
