"""After every step of a random history all accounts balance, and each record is reported correctly.

Two subscriptions share a sink; records are acked, nacked, dropped by a target, by overflow and by purges, also
while pages wait for their batch; subscriptions are moved; stored pages are damaged; the process stops or is killed, and
the wall clock jumps. Beside it stands a plain list of what became of each record. It is compared with the counters, the
gaps, and what an explanation says of every offset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from forebay.broker.core.delivery.lane import Answer, SettleOutcome
from forebay.broker.core.errors import SinkFull
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.explanation import RecordPlace, RecordState
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.partition.position import At, Position
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import Overflow, SinkSettings
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.read.explanation import explained
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.retention.purge import Until, purge
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.running import Hand, begin, move
from tests.support.pages.damaged_pages import stored_pages
from tests.support.pages.samples import page

NAMES: Final = ("default", "audit")
REJECTED: Final = int(DropReason.REJECTED_BY_TARGET)
OPEN: Final = {RecordState.PENDING, RecordState.IN_FLIGHT}
STORED: Final = {RecordPlace.RECENT, RecordPlace.DISK}
VERBS: Final = {
    **{"append": 5, "take": 6, "ack": 4, "drop": 3, "nack": 1, "purge": 1, "purge early": 1},
    **{"seek": 1, "leave": 1, "pause": 1, "resume": 2, "stop": 1, "kill": 1, "damage": 1, "clock": 1},
}
"""Weights of the choices."""
STEP: Final = st.tuples(
    st.sampled_from([verb for verb, times in VERBS.items() for _ in range(times)]),
    st.integers(0, 1),
    st.integers(0, 30),
    st.integers(1, 6),
)


class History:
    """A sink with one partition, and the truth about each of its records for both subscriptions."""

    def __init__(self, overflow: Overflow) -> None:
        self.overflow = overflow
        self.clock = FakeClock()
        self.store = MemoryStore()
        self.truth: dict[str, dict[int, RecordState]] = {name: {} for name in NAMES}
        """Outcome of each record in the open account."""
        self.rejected: dict[str, set[int]] = {name: set() for name in NAMES}
        """Records that consumers dropped and no seek made pending again."""
        self.rejections = 0
        """Number of drops by consumers."""

    async def play(self, steps: list[tuple[str, int, int, int]]) -> None:
        self.broker = begin(self.store, self.clock)
        chosen = SinkSettings(buffer_page_size=1, overflow=self.overflow, max_disk_cache=20, retry_backoff_min_us=1_000)
        buffer, _ = await self.broker.create("orders", chosen)
        await buffer.subscribing.create("audit", Position(At.EARLIEST), or_earliest=False)
        await self.reopen(self.broker.close(), self.store.reopen)
        for verb, who, at, count in steps:
            self.clock.advance(1.0)
            await self.step(verb, NAMES[who], at, count)
            await self.check()
        await self.broker.close()

    async def reopen(self, ending: Coroutine[Any, Any, None], found: Any) -> None:
        await ending
        self.store = found()
        self.broker = begin(self.store, self.clock)
        self.buffer: Buffer = self.broker.sink("orders")
        self.hands = {name: Hand(self.buffer.subscription(name)) for name in NAMES}

    async def step(self, verb: str, name: str, at: int, count: int) -> None:
        subscription = self.buffer.subscription(name)
        lane, log = subscription.lanes[0], self.buffer.logs[0]
        match verb:
            case "append":
                try:
                    await (await self.buffer.append(page(*[b"x"] * count))).done
                except SinkFull:
                    assert self.overflow is Overflow.REJECT
            case "take":
                await self.hands[name].take(records_max=count)
            case "ack" | "drop" | "nack":
                flying = [o for o in range(log.tail.next_offset) if self.flies(name, o)]
                if flying:
                    first = flying[at % len(flying)]
                    await self.answer(verb, name, [Range(first, min(first + count, flying[-1] + 1))])
            case "purge":
                until = Until() if count > 3 else Until(offset=min(at, log.next_offset))
                await purge(self.buffer, [0], until, committer=self.broker.committer, pages=self.broker.pages)
            case "purge early":
                append = await self.append_without_waiting(count)
                await purge(self.buffer, [0], Until(), committer=self.broker.committer, pages=self.broker.pages)
                assert append is None or append.done()
                assert log.records == 0
            case "seek":
                to = min(max(at, log.head.earliest), log.tail.next_offset)
                await move(subscription, 0, to)
                self.truth[name] = {}
                self.rejected[name] = {offset for offset in self.rejected[name] if offset < to}
            case "leave":
                subscription.leave(self.hands[name].consumer)
                self.hands[name] = Hand(subscription)
            case "pause":
                await self.buffer.stop("by hand")
            case "resume":
                await self.buffer.resume()
            case "clock":
                hour_us = 3_600_000_000
                self.clock.wall = max(1, self.clock.wall + (hour_us if at % 2 else -hour_us))
            case "damage":
                pages = stored_pages(self.store, self.buffer.record.id)
                if pages:
                    self.store.damage(Family.SMALL, pages[at % len(pages)].key)
            case "stop":
                await self.reopen(self.broker.close(), self.store.reopen)
            case "kill":
                await self.buffer.removal.confirmed()
                store = self.store
                store.fail_next("write")
                await self.reopen(self.broker.close(), store.crash)
        assert lane.cursor.start <= lane.cursor.watermark

    async def append_without_waiting(self, count: int) -> asyncio.Future[None] | None:
        try:
            return (await self.buffer.append(page(*[b"x"] * count))).done
        except SinkFull:
            return None

    def flies(self, name: str, offset: int) -> bool:
        lane = self.buffer.subscription(name).lanes[0]
        return not lane.cursor.is_settled(offset) and lane.flights.at(offset) is not None

    async def answer(self, verb: str, name: str, ranges: list[Range]) -> None:
        subscription = self.buffer.subscription(name)
        answer = Answer(subscription.lanes[0].owner_epoch, subscription.lanes[0].revision)
        if verb == "nack":
            await subscription.retry(0, answer, ranges, delay_s=0.0, reason="not now")
            return
        if verb == "ack":
            results, became = await subscription.ack(0, answer, ranges), RecordState.ACKED
        else:
            results, became = await subscription.discard(0, answer, ranges, reason="never"), RecordState.DROPPED
        for _, part, outcome in results:
            if outcome is SettleOutcome.OK:
                self.truth[name] |= dict.fromkeys(range(part.first, part.end), became)
                if verb == "drop":
                    self.rejected[name] |= set(range(part.first, part.end))
                    self.rejections += part.size

    async def check(self) -> None:
        await self.buffer.removal.confirmed()
        log = self.buffer.logs[0]
        end = log.tail.next_offset
        dropped = dict(log.head.dropped)
        assert dropped.pop(REJECTED, 0) == self.rejections
        assert sum(gap.records for gap in log.gaps) == sum(dropped.values())
        for name in NAMES:
            own = [offset for gap in log.rejections.of(name) for offset in range(gap.first, gap.end)]
            assert sorted(own) == sorted(self.rejected[name])
            cursor, truth = self.buffer.subscription(name).lanes[0].cursor, self.truth[name]
            assert cursor.balances(end), f"{name}: {cursor}, next is {end}"
            for gap in log.gaps:
                missing = range(max(gap.first, cursor.start), gap.end)
                truth.update((offset, RecordState.DROPPED) for offset in missing if offset not in truth)
            counted = {how: list(truth.values()).count(how) for how in set(truth.values())}
            assert cursor.acked == counted.get(RecordState.ACKED, 0)
            assert cursor.dropped == counted.get(RecordState.DROPPED, 0)
            await self.ask(name, cursor, end)

    async def ask(self, name: str, cursor: Cursor, end: int) -> None:
        log, subscription = self.buffer.logs[0], self.buffer.subscription(name)
        before = log.records
        found = [(await explained(self.buffer, subscription, 0, offset)).explanation for offset in range(end + 1)]
        assert found[-1].place is RecordPlace.NOT_ASSIGNED
        assert log.records <= sum(one.place in STORED for one in found) <= before, "pages are trimmed meanwhile"
        assert sum(one.state in OPEN for one in found) == cursor.pending(end)
        assert not any(one.place is RecordPlace.MISSING for one in found)
        for one in found[:-1]:
            true = self.truth[name].get(one.offset)
            if one.state in OPEN:
                assert true is None
            elif one.offset < cursor.start:
                assert one.state is RecordState.BEFORE_START
            else:
                assert one.state in {true, RecordState.SETTLED}, f"{one.offset} was {true}, told is {one.state}"


TAKEN = [("append", 0, 0, 6), ("take", 0, 0, 6), ("drop", 0, 1, 3), ("seek", 0, 2, 1), ("take", 0, 0, 6)]


DAMAGED = [("append", 0, 0, 2), ("append", 0, 0, 3), ("damage", 0, 0, 1), ("stop", 0, 0, 1), ("take", 0, 0, 6)]


@example(steps=[*TAKEN, ("ack", 0, 0, 2)], overflow=Overflow.REJECT)
@example(steps=[*DAMAGED, ("ack", 0, 0, 3), ("kill", 0, 0, 1), ("take", 1, 0, 6)], overflow=Overflow.REJECT)
@example(steps=[*TAKEN, ("drop", 0, 0, 1), ("stop", 0, 0, 1)], overflow=Overflow.REJECT)
@example(steps=[*TAKEN, ("kill", 0, 0, 1), ("seek", 0, 0, 1)], overflow=Overflow.REJECT)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(steps=st.lists(STEP, min_size=30, max_size=80), overflow=st.sampled_from(Overflow))
def test_every_account_balances_after_every_step_and_every_record_is_explained_truly(
    steps: list[tuple[str, int, int, int]], overflow: Overflow
) -> None:
    """At any moment the identity holds."""

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await History(overflow).play(steps)

    asyncio.run(bounded())
