"""Random histories of several subscriptions on one sink against a simple model, with restarts and kills as steps.

What must hold after every step: each account and each life counts what the model counts; nothing that a reader still
needs is gone; what is retained is there for its time. Every step waits for its answer, so a kill may undo none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from forebay.broker.core.errors import BrokerError, OffsetAhead, OffsetTrimmed, SinkFull
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.position import EARLIEST, At, Position
from forebay.broker.core.settings import DEFAULTS, Overflow, SinkSettings
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.store.memory import MemoryStore
from forebay.errors.reasons import Reason
from tests.support.brokers.running import Mortal, begin
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

T = TypeVar("T")
NAMES: Final = ("default", "a", "b")
OFFSETS: Final = st.integers(0, 40)
POSITIONS: Final = st.one_of(
    st.just(EARLIEST), st.just(Position(At.LATEST)), st.builds(Position, st.just(At.OFFSET), OFFSETS)
)
SETTINGS: Final = st.builds(
    lambda overflow, records, retain_s, retain_bytes: replace(
        DEFAULTS,
        overflow=overflow,
        max_disk_cache=records,
        buffer_page_size=1,
        retain_acked_time_us=retain_s * 1_000_000,
        retain_acked_bytes=retain_bytes,
    ),
    st.sampled_from(Overflow),
    st.sampled_from([0, 6, 12]),
    st.sampled_from([0, 0, 10, 100]),
    st.sampled_from([0, 0, 60]),
)


@dataclass(slots=True)
class Account:
    """One subscription on one partition, as it should be."""

    start: int = 0
    states: dict[int, str] = field(default_factory=dict)
    """Outcomes of the offsets from ``start`` on."""

    closed: Totals = field(default_factory=Totals)

    def count(self, how: str) -> int:
        return sum(state == how for state in self.states.values())

    def lifetime(self) -> Totals:
        closed = self.closed
        return replace(closed, acked=closed.acked + self.count("acked"), dropped=closed.dropped + self.count("dropped"))


class SubscriptionMachine(RuleBasedStateMachine):
    """Does the same to a sink and to its model."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.ends = [0]
        """Offset that the next record will get, by partition."""
        self.accounts: dict[str, list[Account]] = {"default": [Account()]}
        self.settled_at: list[dict[int, float]] = [{}]
        """Time at which every subscription had settled an offset and all below it."""
        self.earliest = [0]
        """Lowest offset stored after the last step, by partition."""

    @initialize(chosen=SETTINGS)
    def create_sink(self, chosen: SinkSettings) -> None:
        self.chosen = chosen
        self.store = MemoryStore()
        self.run(self.open(chosen))

    def teardown(self) -> None:
        try:
            if hasattr(self, "broker"):
                self.run(self.broker.close())
        finally:
            self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(20):
                return await work

        return self.loop.run_until_complete(bounded())

    async def open(self, chosen: SinkSettings | None = None) -> None:
        self.mortal = Mortal(self.store)
        self.broker = begin(self.mortal, self.clock)
        if chosen is not None:
            await self.broker.create("orders", chosen)
        self.buffer: Buffer = self.broker.sink("orders")

    async def idle(self) -> None:
        """Let the trim and its batches come to their end."""
        for _ in range(30):
            await asyncio.sleep(0)
        await self.broker.committer.drained()

    # -- steps

    @rule(place=OFFSETS, count=st.integers(1, 3))
    def append(self, place: int, count: int) -> None:
        partition = place % len(self.ends)

        async def publish() -> bool:
            try:
                await (await self.buffer.append(page(*[b"x"] * count, partition=partition))).done
            except SinkFull:
                return False
            return True

        if self.run(publish()):
            self.ends[partition] += count

    @rule(name=st.sampled_from(NAMES), place=OFFSETS, limit=st.integers(1, 6))
    def take_and_ack(self, name: str, place: int, limit: int) -> None:
        if name not in self.accounts:
            return
        partition = place % len(self.ends)

        async def take() -> list[int]:
            taker = Taker(self.buffer.subscription(name))
            offsets: list[int] = []
            while not offsets and (event := await taker.take(partition, records_max=limit)) is not None:
                offsets = [o for found in getattr(event, "ranges", ()) for o in range(found.first, found.end)]
            if offsets:
                await taker.ack(offsets[0], offsets[-1] + 1, partition)
            self.buffer.subscription(name).leave(taker.consumer)
            return offsets

        offsets = self.run(take())
        account = self.accounts[name][partition]
        pending = [o for o in range(account.start, self.ends[partition]) if o not in account.states]
        assert offsets == pending[: len(offsets)], "the lowest that are pending come first"
        assert bool(offsets) == bool(pending)
        account.states |= dict.fromkeys(offsets, "acked")

    @rule(name=st.sampled_from(NAMES), place=OFFSETS, offset=OFFSETS)
    def settle_below(self, name: str, place: int, offset: int) -> None:
        if name not in self.accounts:
            return
        partition = place % len(self.ends)
        account, beyond = self.accounts[name][partition], offset > self.ends[partition]
        pending = [o for o in range(account.start, offset) if o not in account.states]
        try:
            [settled] = self.run(self.buffer.subscribing.settle(name, {partition: offset}))
        except OffsetAhead:
            assert beyond
            return
        assert not beyond
        assert settled.acked == len(pending)
        account.states |= dict.fromkeys(pending, "acked")

    @rule(name=st.sampled_from(NAMES[1:]), start=POSITIONS, or_earliest=st.booleans())
    def create(self, name: str, start: Position, *, or_earliest: bool) -> None:
        try:
            _, places, created = self.run(self.buffer.subscribing.create(name, start, or_earliest=or_earliest))
        except (OffsetAhead, OffsetTrimmed) as refused:
            self.was_right(refused, start.number)
        except BrokerError as refused:
            if refused.reason is not Reason.SUBSCRIPTION_EXISTS:
                raise
            assert name in self.accounts
        else:
            assert created == (name not in self.accounts)
            if created:
                self.accounts[name] = [self.opened(where.partition, where.start) for where in places]

    @rule(name=st.sampled_from(NAMES[1:]))
    def delete(self, name: str) -> None:
        if name in self.accounts:
            self.run(self.buffer.subscribing.delete(name))
            del self.accounts[name]

    @rule(name=st.sampled_from(NAMES), to=POSITIONS, place=OFFSETS, or_earliest=st.booleans())
    def seek(self, name: str, to: Position, place: int, *, or_earliest: bool) -> None:
        if name not in self.accounts:
            return
        partition = place % len(self.ends) if place % 2 else None
        work = self.buffer.subscribing.seek(name, to, partition=partition, or_earliest=or_earliest)
        try:
            places = self.run(work)
        except (OffsetAhead, OffsetTrimmed) as refused:
            self.was_right(refused, to.number)
            return
        for where in places:
            account = self.accounts[name][where.partition]
            life, pending = account.lifetime(), self.ends[where.partition] - account.start - len(account.states)
            opened = self.opened(where.partition, where.start)
            opened.closed = replace(life, skipped=life.skipped + pending, seeks=life.seeks + 1)
            self.accounts[name][where.partition] = opened

    @rule()
    def grow(self) -> None:
        if len(self.ends) < 3:
            self.run(self.broker.update("orders", {"partitions": len(self.ends) + 1}))
            self.ends.append(0)
            self.settled_at.append({})
            self.earliest.append(0)
            for accounts in self.accounts.values():
                accounts.append(Account())

    @rule(seconds=st.sampled_from([1, 5, 60]))
    def time_passes(self, seconds: int) -> None:
        async def passing() -> None:
            self.buffer.sweep()
            self.clock.advance(seconds)
            self.buffer.sweep()

        self.run(passing())

    @rule(kill=st.booleans())
    def start_again(self, *, kill: bool) -> None:
        async def again() -> None:
            if kill:
                self.mortal.cut()
            await self.broker.close()
            self.store = self.store.crash() if kill else self.store.reopen()
            await self.open()

        self.run(again())

    # -- the model

    def opened(self, partition: int, start: int) -> Account:
        return Account(start, {o: "dropped" for o in self.dropped(partition) if o >= start})

    def dropped(self, partition: int) -> set[int]:
        return {o for gap in self.buffer.logs[partition].gaps for o in range(gap.first, gap.end)}

    def was_right(self, refused: OffsetAhead | OffsetTrimmed, offset: int) -> None:
        """A refusal was right for some partition."""
        if isinstance(refused, OffsetAhead):
            assert offset > min(self.ends)
            return
        gone = [set(range(offset, log.earliest)) - self.dropped(log.number) for log in self.buffer.logs]
        assert any(gone)

    # -- what must hold

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "broker"):
            return
        self.run(self.idle())
        for partition, end in enumerate(self.ends):
            log, dropped = self.buffer.logs[partition], self.dropped(partition)
            assert log.tail.next_offset == end
            low = end
            for name, accounts in self.accounts.items():
                account = accounts[partition]
                for offset in dropped:
                    if offset >= account.start:
                        account.states.setdefault(offset, "dropped")
                self.counts(name, partition, account)
                pending = (o for o in range(account.start, end) if o not in account.states)
                low = min(low, next(pending, end))
            assert log.earliest <= low, "something is gone that somebody needs"
            self.retained(partition, low, dropped)

    def counts(self, name: str, partition: int, account: Account) -> None:
        subscription = self.buffer.subscription(name)
        cursor, end = subscription.lanes[partition].cursor, self.ends[partition]
        assert cursor.balances(end)
        assert (cursor.start, cursor.acked, cursor.dropped) == (
            account.start,
            account.count("acked"),
            account.count("dropped"),
        )
        assert cursor.pending(end) == end - account.start - len(account.states)
        assert subscription.accounts.totals_of(partition).with_open(cursor) == account.lifetime()

    def retained(self, partition: int, low: int, dropped: set[int]) -> None:
        """Records that all subscriptions settled recently are retained, unless a limit required their space."""
        now, since = self.clock.now, self.settled_at[partition]
        for offset in [o for o in since if o >= low]:
            del since[offset]
        for offset in range(low):
            since.setdefault(offset, now)
        before, self.earliest[partition] = self.earliest[partition], self.buffer.logs[partition].earliest
        chosen = self.chosen
        if chosen.retain_acked_time_us and not chosen.retain_acked_bytes and not chosen.max_disk_cache:
            gone = [offset for offset in range(before, self.earliest[partition]) if offset not in dropped]
            early = [offset for offset in gone if now - since[offset] < chosen.retain_acked_time_us / 1e6]
            assert early == [], "it was to be kept longer"


TestSubscriptions = SubscriptionMachine.TestCase
TestSubscriptions.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
