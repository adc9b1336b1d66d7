"""Random histories of dead letters: rejected, redriven, purged, dropped by kills in the middle of any of these.

What must hold after every step, on either side of a crash: every record that was published is in exactly one place,
pending in its sink, pending among the dead letters, or done; and both accounts balance.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.broker.core.dead_letters.letters import Filter
from forebay.broker.core.delivery.lane import SettleOutcome
from forebay.broker.core.errors import BrokerError
from forebay.broker.core.partition.position import At, Position
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import Ordering, SinkSettings
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.dead_letters.operations import DeadLetterOperations
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.running import Mortal, begin
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page, values

PLACES: Final = st.integers(0, 7)
STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 4), PLACES),
        st.tuples(st.just("ack"), PLACES, st.integers(1, 4)),
        st.tuples(st.just("reject"), PLACES, st.integers(1, 6)),
        st.tuples(st.just("fail"), PLACES, PLACES),
        st.tuples(st.just("redrive"), st.integers(1, 9), PLACES),
        st.tuples(st.just("purge"), st.integers(1, 3), PLACES),
        st.tuples(st.just("leave"), PLACES, PLACES),
        st.tuples(st.just("kill"), st.integers(0, 30), st.sampled_from([0, 1, 2])),
    ),
    min_size=8,
    max_size=40,
)
SETTINGS: Final = SinkSettings(buffer_page_size=3, max_attempts=2, dlq_ratio_max=1.0, dlq_consecutive_max=0)
RELAXED: Final = replace(SETTINGS, ordering=Ordering.RELAXED)


class History:
    """One broker after the other on one store, and what a user knows of it."""

    def __init__(self, store: MemoryStore, chosen: SinkSettings) -> None:
        self.store = store
        self.settings = chosen
        self.clock = FakeClock()
        self.published = 0
        self.done: Counter[bytes] = Counter()
        """Acked or purged, and confirmed."""
        self.audited = 0

    async def start(self) -> None:
        """Begin on what the store holds."""
        self.mortal = Mortal(self.store)
        self.broker = begin(self.mortal, self.clock)
        self.buffer, created = await self.broker.create("orders", self.settings)
        if created:
            await self.buffer.subscribing.create("audit", Position(At.EARLIEST), or_earliest=False)
        self.taker = Taker(self.buffer.subscription(""))

    async def die(self, calls: Sequence[asyncio.Future[None]], *, kept_batches: int) -> None:
        """Lose the process with the calls that it serves, and of what was not synced all but some batches."""
        self.mortal.cut()
        for call in calls:
            call.cancel()
        for ended in await asyncio.gather(*calls, return_exceptions=True):
            assert ended is None or isinstance(ended, BrokerError | asyncio.CancelledError), ended
        await self.broker.close()
        self.store = self.store.crash(kept_batches=kept_batches)
        await self.start()

    # -- steps

    async def publish(self, count: int, _: int) -> None:
        made = [b"%d" % (self.published + number) for number in range(count)]
        self.published += count
        await (await self.buffer.append(page(*made))).done

    async def ack(self, place: int, count: int) -> None:
        chosen = (await self.in_flight())[place : place + count]
        for offset in chosen:
            value = (await stored(self.broker, self.buffer))[offset]
            if await self.taker.ack(offset, offset + 1) == [SettleOutcome.OK]:
                self.done[value] += 1

    async def reject(self, place: int, count: int) -> None:
        chosen = (await self.in_flight())[place : place + count]
        if chosen:
            part = Range(chosen[0], chosen[-1] + 1)
            await self.taker.subscription.reject(0, self.taker.answer(), [part], reason="never")

    async def fail(self, place: int, _: int) -> None:
        chosen = (await self.in_flight())[place : place + 1]
        if chosen:
            await self.taker.nack(chosen[0], chosen[0] + 1, reason="HTTP 500")
            self.clock.advance(60.0)

    async def redrive(self, size: int, _: int) -> None:
        await DeadLetterOperations(self.broker, "orders").redrive(Filter(), size, None)

    async def purge(self, size: int, _: int) -> None:
        letters, _at = await DeadLetterOperations(self.broker, "orders").list(Filter(), size, None)
        done = await DeadLetterOperations(self.broker, "orders").purge(Filter(), size, None)
        self.done.update([letter.record.value for _, letter in letters][: done.records])

    async def leave(self, _: int, __: int) -> None:
        self.taker.subscription.leave(self.taker.consumer)
        self.clock.advance(60.0)
        self.taker = Taker(self.buffer.subscription(""))

    async def kill(self, turns: int, kept: int) -> None:
        """Kill it while dead letters move in both directions."""
        await self.in_flight()
        moving = [asyncio.ensure_future(self.reject(0, 3)), asyncio.ensure_future(self.redrive(5, 0))]
        for _ in range(turns):
            await asyncio.sleep(0)
        await self.die(moving, kept_batches=kept)

    async def in_flight(self) -> list[int]:
        await self.taker.all_offsets()
        lane = self.taker.lane()
        left = [o for r in lane.view.unsettled(Range(0, lane.sender.position)) for o in range(r.first, r.end)]
        return [offset for offset in left if lane.flights.at(offset) is not None]

    # -- what must hold

    async def check(self) -> None:
        """Every record is in one place, and everything is counted."""
        await self.quiet()
        waiting = await pending(self.broker, self.buffer)
        dead = self.broker.sinks.get("orders.dlq")
        kept = await pending(self.broker, dead) if dead is not None else []
        assert Counter(waiting) + Counter(kept) + self.done == Counter(b"%d" % n for n in range(self.published))
        cursor = self.buffer.subscription("").lanes[0].cursor
        assert cursor.dead_lettered == (dead.logs[0].tail.next_offset if dead is not None else 0)
        audit = self.buffer.subscription("audit").lanes[0].cursor
        redriven = dead.subscription("").lanes[0].cursor.acked if dead is not None else 0
        assert audit.skipped == redriven == self.buffer.logs[0].tail.next_offset - self.published
        lane = self.taker.lane()
        for idle in lane.sender.idle_in(Range(0, lane.sender.position)):
            assert sum(one.size for one in lane.retry.queue.within(idle)) == idle.size, f"{idle} is forgotten"

    async def finish(self) -> None:
        """Take and ack until nothing comes any more: nothing was forgotten."""
        while flying := await self.in_flight():
            await self.ack(0, len(flying))
            self.clock.advance(60.0)
            await self.check()
        assert await pending(self.broker, self.buffer) == []

    async def quiet(self) -> None:
        """Return when nothing is on its way."""
        while True:
            moment = self.broker.committer.committed.next()
            buffers = list(self.broker.sinks.values())
            if not any(lane.transfers for b in buffers for s in b.subscriptions.values() for lane in s.lanes):
                return
            await moment.wait()


async def stored(broker: Broker, buffer: Buffer) -> dict[int, bytes]:
    """Every record that is stored, by offset."""
    pages = broker.pages
    entries = pages.journal.entries(buffer.record.id, 0, 0, buffer.logs[0].tail.next_offset, 1_000)
    bodies, _ = await pages.bodies(buffer.record.id, 0, entries)
    return {
        entry.base + index: value
        for entry, body in zip(entries, bodies, strict=True)
        if body is not None
        for index, value in enumerate(values(body.data))
    }


async def pending(broker: Broker, buffer: Buffer) -> list[bytes]:
    """Values that `default` has not settled, and that the accounts balance."""
    end = buffer.logs[0].tail.next_offset
    for subscription in buffer.subscriptions.values():
        assert subscription.lanes[0].cursor.balances(end)
    lane = buffer.subscription("").lanes[0]
    found = await stored(broker, buffer)
    return [found[offset] for r in lane.cursor.unsettled(Range(0, end)) for offset in range(r.first, r.end)]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([SETTINGS, RELAXED]), STEPS)
def test_every_record_is_in_one_place_whatever_is_rejected_redriven_purged_and_killed(
    chosen: SinkSettings,
    steps: list[tuple[str, int, int]],
) -> None:
    async def live() -> None:
        history = History(MemoryStore(), chosen)
        await history.start()
        for name, first, second in steps:
            await getattr(history, name)(first, second)
            await history.check()
        await history.finish()
        await history.broker.close()

    asyncio.run(live())
