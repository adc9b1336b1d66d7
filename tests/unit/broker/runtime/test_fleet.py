"""Fleet of a broker over a directory in memory, with a clock of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from forebay.broker.core.errors import InvalidSetting, NotOwner, ReadFailed, SinkNotFound
from forebay.broker.core.settings import SinkSettings
from forebay.broker.core.shards import DirectoryAway, ShardHint
from forebay.broker.runtime.fleet import CACHE_S, CHECK_S, JOIN_S, Fleet
from forebay.broker.storage.store.memory import MemoryStore
from forebay.shards.rendezvous import ranked
from tests.support.brokers.running import running

SINKS = [f"topic-{number}" for number in range(20)]
OF_A = next(name for name in SINKS if ranked(name, "ab")[0] == "a")
OF_B = next(name for name in SINKS if ranked(name, "ab")[0] == "b")


class Hints:
    """Directory in memory."""

    def __init__(self, *hints: ShardHint) -> None:
        self.hints = {hint.shard: hint for hint in hints}
        self.reads = 0
        self.away = False
        self.puts: list[ShardHint] = []

    def read(self) -> list[ShardHint]:
        self.reads += 1
        if self.away:
            raise DirectoryAway("it is switched off")
        return [hint for _, hint in sorted(self.hints.items())]

    def put(self, hint: ShardHint) -> None:
        if self.away:
            raise DirectoryAway("it is switched off")
        self.puts.append(hint)
        self.hints[hint.shard] = hint


class Pauses:
    """Pauses of the fleet: a test waits for one of a length, and ends it."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[float] = asyncio.Queue()
        self._ends: list[asyncio.Event] = []

    async def sleep(self, seconds: float) -> None:
        ended = asyncio.Event()
        self._ends.append(ended)
        self.begun.put_nowait(seconds)
        await ended.wait()

    async def next(self) -> float:
        """Return the length of the next pause, once it has begun."""
        async with asyncio.timeout(30):
            return await self.begun.get()

    def end(self) -> None:
        """End the pause that began last."""
        self._ends.pop().set()


A, B = ShardHint("a", "a:1", 3), ShardHint("b", "b:1", 5)
JOINED = replace(A, is_joined=True)


class Member:
    """Owner of shard `a` with epoch 3, at `a:1`."""

    def __init__(
        self,
        hints: Hints,
        shard: str = "a",
        pauses: Pauses | None = None,
        *,
        journal: str = "",
        has_journal: Callable[[], bool] = lambda: True,
    ) -> None:
        self.now = 100.0
        sleep = (pauses or Pauses()).sleep
        self.fleet = Fleet(
            shard, 3, hints, journal=journal, has_journal=has_journal, monotonic=lambda: self.now, sleep=sleep
        )
        self.fleet.endpoint = "a:1"


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_the_own_shard_is_listed_as_it_is_and_others_as_the_directory_says() -> None:
    async def scenario() -> None:
        stale = ShardHint("a", "former:1", 2)
        assert await Member(Hints(stale, B)).fleet.shards() == [A, B]
        later = ShardHint("a", "later:1", 4)
        assert await Member(Hints(later, B)).fleet.shards() == [later, B]

    run(scenario())


def test_a_shard_without_a_name_is_alone_and_a_broker_without_a_journal_has_none() -> None:
    async def scenario() -> None:
        hints = Hints(B)
        assert await Member(hints, shard="").fleet.shards() == [ShardHint("", "a:1", 3)]
        assert await Fleet().shards() == ()
        assert hints.reads == 0

    run(scenario())


def test_the_directory_is_read_once_for_many_that_ask_and_again_when_it_is_old() -> None:
    async def scenario() -> None:
        hints = Hints(B)
        member = Member(hints)
        await asyncio.gather(*(member.fleet.shards() for _ in range(5)))
        member.now += CACHE_S
        await member.fleet.shards()
        assert hints.reads == 1

        member.now += 0.1
        await member.fleet.shards()
        assert hints.reads == 2

    run(scenario())


def test_a_directory_that_does_not_answer_leaves_what_was_read_and_is_an_error_before_the_first_read() -> None:
    async def scenario() -> None:
        hints = Hints(B)
        member = Member(hints)
        await member.fleet.shards()
        hints.away = True
        member.now += 60
        assert await member.fleet.shards() == [A, B]

        with pytest.raises(ReadFailed):
            await Member(hints).fleet.shards()

    run(scenario())


def test_a_sink_that_is_missing_belongs_to_its_home() -> None:
    async def scenario() -> None:
        member = Member(Hints(B))
        assert isinstance(member.fleet.missing(OF_B), SinkNotFound)  # it knows no other shard yet
        await member.fleet.shards()

        assert isinstance(member.fleet.missing(OF_A), SinkNotFound)
        elsewhere = member.fleet.missing(OF_B)
        assert isinstance(elsewhere, NotOwner)
        assert (elsewhere.facts["shard"], elsewhere.facts["endpoint"]) == ("b", "b:1")

    run(scenario())


def test_dead_letters_are_in_the_shard_of_their_origin_before_there_are_any() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        async with running(store) as broker:
            await broker.create(OF_B, SinkSettings())
        fleet = Member(Hints(A, B)).fleet
        await fleet.shards()
        async with running(store.reopen(), fleet=fleet) as broker:
            with pytest.raises(SinkNotFound):
                broker.registry.get(f"{OF_B}.dlq")
            with pytest.raises(NotOwner):
                broker.registry.get(next(name for name in SINKS if name != OF_B and ranked(name, "ab")[0] == "b"))

    run(scenario())


def test_a_shard_creates_sinks_of_its_own_once_the_others_know_it() -> None:
    async def scenario() -> None:
        pauses, hints = Pauses(), Hints(B)
        member = Member(hints, pauses=pauses)
        running = asyncio.ensure_future(member.fleet.run())
        creation = asyncio.ensure_future(member.fleet.check_creation(OF_A, ""))
        assert await pauses.next() == JOIN_S
        assert hints.hints == {"a": A, "b": B}
        assert not creation.done()

        pauses.end()
        await creation
        assert await pauses.next() == CHECK_S
        assert hints.hints == {"a": JOINED, "b": B}
        with pytest.raises(NotOwner):
            await member.fleet.check_creation(OF_B, "")
        await member.fleet.check_creation(OF_B, "a")
        with pytest.raises(NotOwner):
            await member.fleet.check_creation(OF_A, "b")
        with pytest.raises(InvalidSetting, match="one of a, b"):
            await member.fleet.check_creation(OF_A, "c")
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    run(scenario())


def test_an_owner_that_was_killed_before_the_others_knew_its_shard_waits_again() -> None:
    async def scenario() -> None:
        pauses, hints = Pauses(), Hints(A, B)
        member = Member(hints, pauses=pauses)
        running = asyncio.ensure_future(member.fleet.run())
        creation = asyncio.ensure_future(member.fleet.check_creation(OF_A, ""))
        assert await pauses.next() == JOIN_S
        assert not creation.done()

        pauses.end()
        await creation
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    run(scenario())


def test_a_shard_whose_hint_was_deleted_creates_nothing_before_the_others_know_it_again() -> None:
    async def scenario() -> None:
        pauses, hints = Pauses(), Hints(JOINED, B)
        member = Member(hints, pauses=pauses)
        running = asyncio.ensure_future(member.fleet.run())
        assert await pauses.next() == CHECK_S
        await member.fleet.check_creation(OF_A, "")
        del hints.hints["a"]
        member.now += CACHE_S + 0.1
        with pytest.raises(ReadFailed, match="does not have this one"):
            await member.fleet.check_creation(OF_A, "")

        pauses.end()
        assert await pauses.next() == JOIN_S
        assert hints.hints["a"] == A
        creation = asyncio.ensure_future(member.fleet.check_creation(OF_A, ""))
        pauses.end()
        await creation
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    run(scenario())


def test_a_creation_needs_a_directory_that_was_read_now() -> None:
    async def scenario() -> None:
        pauses, hints = Pauses(), Hints(JOINED, B)
        member = Member(hints, pauses=pauses)
        running = asyncio.ensure_future(member.fleet.run())
        assert await pauses.next() == CHECK_S
        hints.away = True
        await member.fleet.check_creation(OF_A, "")

        member.now += CACHE_S + 0.1
        with pytest.raises(ReadFailed, match="switched off"):
            await member.fleet.check_creation(OF_A, "")
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    run(scenario())


def test_an_answer_of_the_directory_that_took_too_long_permits_no_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        pauses, hints = Pauses(), Hints(JOINED, B)
        member = Member(hints, pauses=pauses)
        running = asyncio.ensure_future(member.fleet.run())
        assert await pauses.next() == CHECK_S
        member.now += CACHE_S + 0.1
        read = hints.read

        def late() -> list[ShardHint]:
            found = read()
            member.now += CACHE_S + 0.1
            return found

        monkeypatch.setattr(hints, "read", late)
        with pytest.raises(ReadFailed, match="too late"):
            await member.fleet.check_creation(OF_A, "")
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    run(scenario())


def test_a_hint_that_a_former_owner_has_written_is_corrected_and_that_of_a_later_one_stays() -> None:
    async def scenario() -> None:
        pauses, hints = Pauses(), Hints(ShardHint("a", "former:1", 2, is_joined=True), B)
        running = asyncio.ensure_future(Member(hints, pauses=pauses).fleet.run())
        assert await pauses.next() == CHECK_S
        assert hints.puts == [JOINED]

        hints.hints["a"] = ShardHint("a", "later:1", 4)
        pauses.end()
        assert await pauses.next() == CHECK_S
        assert hints.puts == [JOINED]
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    run(scenario())


def test_a_hint_of_a_former_shard_of_the_name_is_replaced_whatever_its_epoch_is() -> None:
    async def scenario() -> None:
        pauses, hints = Pauses(), Hints(ShardHint("a", "former:1", 9, "gone"), B)
        member = Member(hints, pauses=pauses, journal="new")
        own = ShardHint("a", "a:1", 3, "new")
        assert await member.fleet.shards() == [own, B]
        running = asyncio.ensure_future(member.fleet.run())
        await pauses.next()

        assert hints.puts == [own]
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    run(scenario())


def test_an_owner_whose_journal_was_replaced_leaves_the_hint_of_the_shard_that_has_its_name() -> None:
    async def scenario() -> None:
        new = ShardHint("a", "new:1", 1, "new")
        pauses, hints = Pauses(), Hints(new, B)
        member = Member(hints, pauses=pauses, journal="gone", has_journal=lambda: False)
        running = asyncio.ensure_future(member.fleet.run())
        await pauses.next()

        assert not hints.puts
        assert hints.hints["a"] == new
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    run(scenario())


def test_without_names_of_shards_no_shard_may_be_demanded() -> None:
    async def scenario() -> None:
        await Fleet().check_creation("any", "")
        with pytest.raises(InvalidSetting):
            await Fleet().check_creation("any", "a")

    run(scenario())
