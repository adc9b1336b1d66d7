"""Random histories of two sinks into which epochs are staged and committed, against a simple model.

Two queries write: one into both sinks at once, one into the first. Others append, take and acknowledge meanwhile;
kills, power losses and clean stops are steps like others. After each step what is visible, what is counted and what
names the stored pages must be what the model says.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.broker.core.delivery.lane import Answer, SettleOutcome
from forebay.broker.core.epochs.values import Claim, Content, Wanted
from forebay.broker.core.errors import (
    EpochContentConflict,
    EpochNotFound,
    SinkFull,
    StoreFenced,
)
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import DropReason, Durability, Entry
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import BufferMode, Overflow, SinkSettings
from forebay.broker.runtime.broker import Bounds, Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.commit import group
from forebay.broker.runtime.delivery.events import Delivered
from forebay.broker.runtime.epochs import placement
from forebay.broker.runtime.epochs.commits import CommitResult as Committed
from forebay.broker.storage.records.accepted import AcceptedInMemory
from forebay.broker.storage.store.contract import Store
from forebay.broker.storage.store.memory import MemoryStore
from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.errors.reasons import Reason
from tests.support.brokers.running import Hand, Mortal, begin, delivered_values
from tests.support.models.epoch_model import Named, Staged, Token
from tests.support.models.tier_model import Partition
from tests.support.models.usage import usage
from tests.support.pages.named_pages import wrong_names
from tests.support.pages.samples import page
from tests.support.refusals import refusal
from tests.support.storage.memory_folder import memory_folder

Step = tuple[str, int, int, int]
SINKS: Final = {"orders": 2, "others": 1}
WRITES: Final = {"one": ["orders", "others"], "two": ["orders"]}
"""Sinks that each query writes to."""
STEPS: Final = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *["stage"] * 5,
                *["whole"] * 5,
                *["commit"] * 2,
                *["append"] * 3,
                *["settle"] * 2,
                *("ahead", "lacking", "again", "other", "replanned", "below", "late", "abort", "newer", "older"),
                *("kill", "power", "stop", "cut"),
            ]
        ),
        st.integers(0, 7),
        st.integers(0, 2),
        st.integers(1, 4),
    ),
    min_size=5,
    max_size=30,
)
CHOSEN: Final = st.builds(
    lambda mode, overflow, fsync, bound: SinkSettings(
        buffer_page_size=2,
        buffer_mode=mode,
        overflow=overflow,
        fsync=fsync,
        memory_cache_threshold=6,
        max_disk_cache=bound,
    ),
    st.sampled_from([BufferMode.DISK, BufferMode.DISK, BufferMode.SPILL]),
    st.sampled_from(Overflow),
    st.booleans(),
    st.sampled_from([0, 12]),
)


class Dying(Mortal):
    """A store whose process dies when it is about to do something."""

    dies_at = ""

    def _alive(self, action: str) -> None:
        self._cut = self._cut or action == self.dies_at
        super()._alive(action)


class History:
    """Does the same to two sinks and to their models."""

    def __init__(
        self,
        chosen: SinkSettings,
        store: Store,
        again: Callable[[Store, bool, int], Store],
        *,
        is_windowed: bool = False,
    ) -> None:
        self.settings = chosen
        self.is_windowed = is_windowed
        self.store = store
        self.again_on = again
        self.accepted = AcceptedInMemory()
        self.clock = FakeClock()
        self.numbers = itertools.count()
        self.model = {name: [Partition() for _ in range(partitions)] for name, partitions in SINKS.items()}
        self.staged = {name: Staged() for name in SINKS}
        self.run_number = dict.fromkeys(WRITES, 1)
        self.epoch = dict.fromkeys(WRITES, 0)
        """The one that is being written."""
        self.repeated: dict[str, tuple[int, str]] = {}
        """Of each query the last run that repeated its last epoch with other tokens, and by which step."""
        self.last: dict[str, tuple[int, int, list[list[Named]]]] = {}
        """Of each query the last epoch that was committed, by which run, and with which tokens."""

    async def run(self, steps: list[Step]) -> None:
        await self.open(create=True)
        for name, at, token, count in steps:
            query = list(WRITES)[at % 2]
            await getattr(self, name)(query, at, f"token-{token}", count)
            await self.check()
        for name in SINKS:
            await self.all_comes(name)
        await self.broker.close()

    async def open(self, *, create: bool = False) -> None:
        self.mortal = Dying(self.store, is_windowed=self.is_windowed)
        bounds = Bounds(journal_batch_bytes=1)
        self.broker: Broker = begin(self.mortal, self.clock, bounds=bounds, accepted=self.accepted)
        for name, partitions in SINKS.items() if create else ():
            await self.broker.create(name, self.settings.changed({"partitions": partitions}))
        self.hands = {name: Hand(self.broker.sink(name).subscription("default")) for name in SINKS}

    def claim(self, query: str, sink: str, epoch: int | None = None, *, run: int | None = None) -> Claim:
        number = self.run_number[query] if run is None else run
        epoch = self.epoch[query] if epoch is None else epoch
        return Claim(sink, query, query, epoch, f"run-{number}", number)

    # -- staging

    async def stage(self, query: str, at: int, token: str, count: int, *, ahead: int = 0) -> None:
        sink = WRITES[query][at // 2 % len(WRITES[query])]
        buffer, staged = self.broker.sink(sink), self.staged[sink]
        run, epoch = self.run_number[query], self.epoch[query] + ahead
        session = buffer.staging.open(self.claim(query, sink, epoch), token, None)
        staged.throw_away(lambda each: each.producer == query and each.run != run)
        found = [each for each in staged.of(query, epoch) if each.token == token]
        chosen = found[0] if found else Token(query, epoch, token, run, session.epoch)
        if not found:
            staged.tokens.append(chosen)
        assert session.epoch == chosen.number
        assert session.next_sequences() == {p: len(pages) for p, pages in chosen.pages.items()}
        partition = at % SINKS[sink]
        values = [b"%d" % next(self.numbers) for _ in range(count)]
        try:
            stored = await session.publish(page(*values, partition=partition), len(chosen.pages.get(partition, ())))
        except SinkFull:
            used = usage(buffer.logs)[0] if self.settings.overflow == Overflow.REJECT else 0
            assert 0 < self.bound() < used + staged.usage[0] + count
        else:
            assert (await stored).staged
            chosen.pages.setdefault(partition, []).append(values)
        if at % 3:
            session.end()

    async def whole(self, query: str, at: int, token: str, count: int) -> None:
        """An epoch as it is without trouble: two attempts, all partitions, a commit."""
        for number in range(2):
            for place in range(4):
                await self.stage(query, place, f"token-{number}", count)
        await self.commit(query, at, token, count)

    async def ahead(self, query: str, at: int, token: str, count: int) -> None:
        await self.stage(query, at, token, count, ahead=1)

    async def abort(self, query: str, at: int, token: str, count: int) -> None:
        for sink in WRITES[query]:
            gone = [each for each in self.staged[sink].of(query, self.epoch[query]) if each.token == token]
            aborted = await self.broker.sink(sink).staging.abort(query, self.epoch[query], [token])
            assert aborted == len(gone)
            self.staged[sink].throw_away(gone.__contains__)

    async def newer(self, query: str, at: int, token: str, count: int) -> None:
        self.run_number[query] += 1

    async def older(self, query: str, at: int, token: str, count: int) -> None:
        run = self.run_number[query]
        for sink in WRITES[query]:
            if any(each.producer == query and each.run == run and each.pages for each in self.staged[sink].tokens):
                with refusal(Reason.EPOCH_FENCED):
                    self.broker.sink(sink).staging.open(self.claim(query, sink, run=run - 1), token, None)
                with refusal(Reason.EPOCH_FENCED):
                    await self.broker.epochs.commit(
                        [(self.broker.sink(sink), Wanted(self.claim(query, sink, run=run - 1), ()))]
                    )

    async def late(self, query: str, at: int, token: str, count: int) -> None:
        if query in self.last:
            for sink in WRITES[query]:
                with refusal(Reason.ALREADY_COMMITTED):
                    self.broker.sink(sink).staging.open(self.claim(query, sink, self.last[query][0]), token, None)

    # -- committing

    def chosen(self, query: str, left_out: int) -> list[list[Token]]:
        """Of each sink the tokens that a commit is to name: not all, perhaps, and in some order."""
        run = self.run_number[query]
        found = [self.staged[sink].of(query, self.epoch[query], run) for sink in WRITES[query]]
        return [
            [t for n, t in enumerate(tokens) if n != left_out - 1][:: -1 if left_out % 2 else 1] for tokens in found
        ]

    async def ask(
        self, query: str, epoch: int, named: list[list[Named]], contents: list[Content] | None = None
    ) -> Committed:
        told: list[Content | None] = [*contents] if contents is not None else [None] * len(named)
        wanted = zip(WRITES[query], named, told, strict=True)
        return await self.broker.epochs.commit(
            [
                (self.broker.sink(sink), Wanted(self.claim(query, sink, epoch), tuple(tokens), content))
                for sink, tokens, content in wanted
            ]
        )

    async def commit(self, query: str, at: int, token: str, count: int) -> None:
        chosen = self.chosen(query, count - 1)
        outcome = await self.ask(query, self.epoch[query], [[t.named() for t in tokens] for tokens in chosen])
        assert not outcome.already
        self.is_committed(query, outcome, chosen)
        await self.durable()

    def is_committed(self, query: str, outcome: Committed, chosen: list[list[Token]]) -> None:
        epoch, run = self.epoch[query], self.run_number[query]
        for sink, tokens, record in zip(WRITES[query], chosen, outcome.epochs, strict=True):
            placed = [(p, token) for p in range(SINKS[sink]) for token in tokens if p in token.pages]
            named: dict[int, list[list[bytes]]] = {}
            for partition, token in placed:
                named.setdefault(partition, []).extend(token.pages[partition])
            assert [part.partition for part in record.parts] == list(named)
            for part in record.parts:
                pages = named[part.partition]
                values = [value for found in pages for value in found]
                assert (part.pages, part.records) == (len(pages), len(values))
                self.model[sink][part.partition].append(part.base, values)
            self.staged[sink].throw_away(
                lambda each: each.producer == query and (each.epoch <= epoch or each.run < run)
            )
        self.last[query] = (epoch, run, [[token.named() for token in tokens] for tokens in chosen])
        self.repeated.pop(query, None)
        self.epoch[query] = epoch + 1

    async def lacking(self, query: str, at: int, token: str, count: int) -> None:
        named = [[each.named() for each in tokens] for tokens in self.chosen(query, 0)]
        found = [each for tokens in self.chosen(query, 0) for each in tokens]
        if found and at % 2:
            wrong = found[at % len(found)]
            named = [[(t.named(more=count) if t is wrong else t.named()) for t in ts] for ts in self.chosen(query, 0)]
        else:
            named[-1].append(Token(query, 0, "nobody", 0, 0).named(more=1))
        with refusal(Reason.STAGED_INCOMPLETE):
            await self.ask(query, self.epoch[query], named)

    async def again(self, query: str, at: int, token: str, count: int) -> None:
        if query in self.last:
            epoch, _, named = self.last[query]
            outcome = await self.ask(query, epoch, named)
            assert outcome.already
            assert [record.epoch for record in outcome.epochs] == [epoch] * len(WRITES[query])
            self.older_runs_go(query)

    async def other(self, query: str, at: int, token: str, count: int) -> None:
        if query in self.last:
            epoch, run, named = self.last[query]
            changed = [[*tokens, Token(query, 0, "other", 0, 0).named()] for tokens in named]
            if run == self.run_number[query] or self.repeated.get(query) == (self.run_number[query], "replanned"):
                with refusal(Reason.EPOCH_CONFLICT):
                    await self.ask(query, epoch, changed)
            else:
                assert (await self.ask(query, epoch, changed)).already
                self.repeated[query] = (self.run_number[query], "other")
                self.older_runs_go(query)

    async def replanned(self, query: str, at: int, token: str, count: int) -> None:
        """The epoch again by other attempts that count their records: as many, or more."""
        if query not in self.last:
            return
        epoch, run, named = self.last[query]
        more = count - 1
        contents = [Content(sum(part.records for _, parts in tokens for part in parts) + more) for tokens in named]
        tokens: list[list[Named]] = [[("counted", ())] for _ in named]
        if run == self.run_number[query] or self.repeated.get(query) == (self.run_number[query], "other"):
            with refusal(Reason.EPOCH_CONFLICT):
                await self.ask(query, epoch, tokens, contents)
        elif more:
            with pytest.raises(EpochContentConflict):
                await self.ask(query, epoch, tokens, contents)
        else:
            assert (await self.ask(query, epoch, tokens, contents)).already
            self.repeated[query] = (self.run_number[query], "replanned")
            self.older_runs_go(query)

    def older_runs_go(self, query: str) -> None:
        for sink in WRITES[query]:
            self.staged[sink].throw_away(lambda each: each.producer == query and each.run < self.run_number[query])

    async def below(self, query: str, at: int, token: str, count: int) -> None:
        if query in self.last and self.last[query][0]:
            with refusal(Reason.EPOCH_FENCED):
                await self.ask(query, self.last[query][0] - 1, [[] for _ in WRITES[query]])

    # -- everything else

    async def append(self, query: str, at: int, token: str, count: int) -> None:
        sink = list(SINKS)[at // 2 % 2]
        values = [b"%d" % next(self.numbers) for _ in range(min(count, 2))]
        buffer, partition = self.broker.sink(sink), at % SINKS[sink]
        try:
            append = await buffer.append(page(*values, partition=partition))
        except SinkFull:
            assert self.settings.overflow == Overflow.REJECT
            assert usage(buffer.logs)[0] + self.staged[sink].usage[0] + len(values) > self.bound() > 0
            return
        await append.done
        self.model[sink][partition].append(append.first, values)
        await self.durable()

    async def settle(self, query: str, at: int, token: str, count: int) -> None:
        sink = list(SINKS)[at // 2 % 2]
        await self.take(sink, at % SINKS[sink], count * 2)

    async def take(self, sink: str, partition: int, count: int) -> None:
        """Take what is next, see that it is right, and acknowledge it."""
        hand, model = self.hands[sink], self.model[sink][partition]
        event = await hand.take(partition, records_max=count)
        if not isinstance(event, Delivered):
            return
        found = delivered_values(event)
        assert [offset for offset, _ in found] == model.live()[: len(found)], "not in order, or not what is left"
        assert all(model.records[offset].value == value for offset, value in found)
        lane = hand.subscription.lanes[partition]
        ranges = [Range(offset, offset + 1) for offset, _ in found]
        results = await hand.subscription.ack(partition, Answer(lane.owner_epoch, lane.revision), ranges)
        assert {outcome for _, _, outcome in results} == {SettleOutcome.OK}
        for offset, _ in found:
            model.records[offset].acked = True

    # -- the end of a process

    async def kill(self, query: str, at: int, token: str, count: int) -> None:
        await self.end(cut=True)
        await self.begin_again(power=False, kept=0)
        self.compare(Durability.PROCESS, exact=True)

    async def power(self, query: str, at: int, token: str, count: int) -> None:
        await self.end(cut=True)
        self.accepted = AcceptedInMemory()
        await self.begin_again(power=True, kept=count - 1)
        self.compare(Durability.DISK, exact=False)

    async def stop(self, query: str, at: int, token: str, count: int) -> None:
        await self.end(cut=False)
        await self.begin_again(power=False, kept=0)
        self.compare(Durability.MEMORY, exact=False)

    async def cut(self, query: str, at: int, token: str, count: int) -> None:
        """A kill somewhere in a commit: after the restart it is there as a whole, or not at all."""
        await self.durable()
        epoch, chosen = self.epoch[query], self.chosen(query, 0)
        named = [[each.named() for each in tokens] for tokens in chosen]
        await self.broker.committer.drained()
        self.mortal.dies_at = ("ingest", "write", "sync", "compact")[at % 4]
        answered = False
        with suppress(StoreFenced):
            answered = not (await self.ask(query, epoch, named)).already
        self.mortal.cut()
        await self.broker.close()
        await self.begin_again(power=False, kept=0)
        found = [await self.committed(query, sink, epoch) for sink in WRITES[query]]
        assert len(set(found)) == 1, "the epoch is in one sink, and not in the other"
        assert found[0] or not answered, "the commit was answered, and is gone"
        if found[0]:
            outcome = await self.ask(query, epoch, named)
            assert outcome.already
            self.is_committed(query, outcome, chosen)
        self.made_room()
        self.compare(Durability.PROCESS, exact=True)

    def made_room(self) -> None:
        """Learn what a commit has dropped for its own, which is durable before it is, and stays when it is not."""
        for sink, partitions in self.model.items():
            for partition, log in zip(partitions, self.broker.sink(sink).logs, strict=True):
                for offset in partition.live():
                    gap = log.gap_at(offset)
                    if gap is not None and gap.reason is DropReason.OVERFLOW:
                        partition.records[offset].gone = True

    async def committed(self, query: str, sink: str, epoch: int) -> bool:
        try:
            return (await self.broker.epochs.get(self.broker.sink(sink), query, epoch)).epoch == epoch
        except EpochNotFound:
            return False

    async def end(self, *, cut: bool) -> None:
        await self.durable()
        if cut:
            self.mortal.cut()
        await self.broker.close()

    async def begin_again(self, *, power: bool, kept: int) -> None:
        if not power:
            self.accepted = self.accepted.killed()
        self.store = self.again_on(self.store, power, kept)
        for staged in self.staged.values():
            staged.throw_away(lambda each: not each.pages)  # no caller was notified of it
        await self.open()

    forgot = False
    """A power loss has counted more than there was."""

    def compare(self, survives: Durability, *, exact: bool) -> None:
        for sink, partitions in self.model.items():
            for partition, log in zip(partitions, self.broker.sink(sink).logs, strict=True):
                if survives is Durability.MEMORY:
                    before = partition.live()
                    partition.look(log)
                    assert partition.live() == before, "a clean stop lost something"
                else:
                    partition.crashed(log, survives=survives, exact=exact and not self.forgot)
        self.forgot = self.forgot or survives is Durability.DISK

    # -- at any moment

    def bound(self) -> int:
        return self.settings.records_max[1]

    async def durable(self) -> None:
        """Wait for drops: a crash may undo a drop that no caller awaited."""
        for sink, partitions in self.model.items():
            for partition, log in zip(partitions, self.broker.sink(sink).logs, strict=True):
                drop = self.broker.sink(sink).removal.unsynced_drop(log.number)
                if drop is not None:
                    await drop
                partition.look(log)

    async def check(self) -> None:
        await self.durable()
        total = 0
        for sink, partitions in self.model.items():
            buffer = self.broker.sink(sink)
            await self.trimmed(sink)
            lanes = self.hands[sink].subscription.lanes
            for partition, log, lane in zip(partitions, buffer.logs, lanes, strict=True):
                partition.check(log, lane.cursor, await self.entries(sink, log))
            staged = self.staged[sink]
            assert buffer.state.staged.usage == staged.usage
            assert sorted((s.record.producer, s.record.epoch, s.record.token) for s in buffer.staging.stages) == sorted(
                (each.producer, each.epoch, each.token) for each in staged.tokens
            )
            assert buffer.staging.waiting == 0
            total += staged.usage[1] + sum(log.size + log.queued_bytes for log in buffer.logs)
            if self.bound() and self.settings.overflow == Overflow.REJECT:
                assert usage(buffer.logs)[0] + staged.usage[0] <= self.bound()
        assert self.broker.quota.used == total
        await self.broker.committer.drained()
        assert wrong_names(self.store) == []

    async def entries(self, sink: str, log: PartitionLog) -> list[Entry]:
        reader = self.hands[sink].subscription.source.entry_reader(log.number)
        found: list[Entry] = []
        position = 0
        while more := await reader.upcoming(position):
            found += [e for e in more if e.base >= log.head.earliest and log.gap_at(e.base) is None]
            position = more[-1].end
        return found

    async def trimmed(self, sink: str) -> None:
        """Wait until what is settled by all is gone."""
        buffer = self.broker.sink(sink)
        for _ in range(200):
            settled = [buffer.state.settled(log) for log in buffer.logs]
            first = [log.first_entry() for log in buffer.logs]
            if all(e is None or e.end > s for e, s in zip(first, settled, strict=True)):
                return
            await asyncio.sleep(0.001)
        raise AssertionError("what is settled was not trimmed")

    async def all_comes(self, sink: str) -> None:
        for partition in range(SINKS[sink]):
            for _ in range(200):
                if not self.model[sink][partition].live():
                    break
                await self.take(sink, partition, 8)
            assert self.model[sink][partition].live() == []
        await self.check()


def _run(work: Awaitable[None], *, in_files: bool) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await work

    with pytest.MonkeyPatch.context() as patch:
        if in_files:  # as pages are when much is waiting
            patch.setattr(group, "BULK_BYTES", 1)
            patch.setattr(group, "SHARE_BYTES", 1)
        asyncio.run(bounded())


def _memory_again(store: Store, power: bool, kept: int) -> Store:
    assert isinstance(store, MemoryStore)
    return store.crash(kept_batches=kept) if power else store.reopen()


QUIET: Final = [HealthCheck.too_slow, HealthCheck.data_too_large]


@given(chosen=CHOSEN, steps=STEPS, in_files=st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=QUIET)
def test_epochs_are_whole_or_absent_and_there_once_in_any_history(
    chosen: SinkSettings, steps: list[Step], in_files: bool
) -> None:
    _run(History(chosen, MemoryStore(), _memory_again).run(steps), in_files=in_files)


@given(chosen=CHOSEN, steps=STEPS, in_files=st.booleans())
@settings(max_examples=30, deadline=None, suppress_health_check=QUIET)
def test_the_same_over_a_store_with_several_open_commits(
    chosen: SinkSettings, steps: list[Step], in_files: bool
) -> None:
    _run(History(chosen, MemoryStore(), _memory_again, is_windowed=True).run(steps), in_files=in_files)


@given(chosen=CHOSEN, steps=STEPS, in_files=st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=QUIET)
def test_the_same_where_commits_write_their_entries_ahead_in_many_batches(
    chosen: SinkSettings, steps: list[Step], in_files: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placement, "AHEAD_FROM", 0)
        patch.setattr(placement, "AHEAD_BATCH", 1)
        _run(History(chosen, MemoryStore(), _memory_again).run(steps), in_files=in_files)


@pytest.mark.slow
@given(chosen=CHOSEN, steps=STEPS, in_files=st.booleans())
@settings(max_examples=12, deadline=None, suppress_health_check=QUIET)
def test_the_same_on_a_disk(chosen: SinkSettings, steps: list[Step], in_files: bool) -> None:
    directory = Path(tempfile.mkdtemp(dir=memory_folder()))

    def again(store: Store, power: bool, kept: int) -> Store:
        store.close()
        return RocksStore(directory / "store")

    kills = [step for step in steps if step[0] != "power"]  # a directory cannot lose power
    try:
        history = History(chosen, RocksStore(directory / "store"), again)
        _run(history.run(kills), in_files=in_files)
        history.store.close()
    finally:
        shutil.rmtree(directory)
