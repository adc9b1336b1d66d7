"""Commits: staged pages become records of their sinks, atomically.

A commit holds back the appends of its sinks while its batch is written: so the ends of their partitions do not change,
and later records follow its own. Everything is checked before anything is changed, and again after each wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Final

from forebay.broker.core.epochs.values import (
    Content,
    EpochPart,
    EpochRecord,
    ProducerRecord,
    StagedPage,
    Wanted,
)
from forebay.broker.core.errors import BrokerError, EpochNotFound
from forebay.broker.core.partition.log import RECENT_MAX, PartitionLog, Tail
from forebay.broker.core.partition.pages import Entry, Part
from forebay.broker.core.writes import (
    NUMBER_BITS,
    DropPlacing,
    Due,
    PutEpoch,
    PutEpochStages,
    PutPlaced,
    PutPlacing,
    PutProducer,
    PutTail,
    Write,
)
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.reclaimer import Reclaimer
from forebay.broker.runtime.epochs.stage import Stage
from forebay.broker.runtime.epochs.staging import are_few
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.resources.slices import Slices
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.errors.reasons import Reason

_log: Final = logging.getLogger(__name__)
Target = tuple[Buffer, Wanted]
OFFSET_MAX: Final = (1 << 64) - 1
AHEAD_FROM: Final = 20_000
"""Pages above which a commit writes its entries ahead, in batches.

Below, its single batch takes at most a tenth of a second.
"""
SYNC_EVERY: Final = 8
"""Batches written ahead per sync, which keeps the last sync short."""
STAGES_TOGETHER: Final = 128
"""Stages whose pages of one partition are placed before other tasks get a turn."""
AHEAD_BATCH: Final = 4_000
"""Entries per batch: other writes wait for it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a commit."""

    epochs: tuple[EpochRecord, ...]
    """Epochs in the order of the request."""

    already: bool


@dataclass(slots=True)
class _Placed:
    """Epoch with assigned offsets, whose batch is pending."""

    buffer: Buffer
    wanted: Wanted
    producer: ProducerRecord
    record: EpochRecord
    entries: dict[int, list[Entry]] = field(default_factory=dict)
    """Newest entries of each partition: only those that memory keeps."""
    tails: dict[int, Tail] = field(default_factory=dict)
    due: list[Due] = field(default_factory=list)


class _Ahead:
    """Entries of a large commit, written ahead in batches between those of other tasks.

    They are behind the ends of their partitions, where no reader looks, until the last batch moves the ends. A start
    that finds them without that batch removes them.
    """

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._waiting: list[Write] = []
        self._size = 0
        self._batches = 0
        self._under_way: asyncio.Future[None] | None = None

    async def begin(self, placed: Sequence[_Placed]) -> None:
        """Record the epochs durably before any entry, for the next start."""
        epochs: dict[int, list[tuple[str, int]]] = {}
        for each in placed:
            epochs.setdefault(each.buffer.record.id, []).append((each.record.producer, each.record.epoch))
        await self._committer.write([PutPlacing(sink, tuple(found)) for sink, found in sorted(epochs.items())])

    async def put(self, write: Write, size: int) -> None:
        """Add a write of ``size`` entries to the next batch."""
        self._waiting.append(write)
        self._size += size
        if self._size >= AHEAD_BATCH:
            await self._flush()

    async def _flush(self) -> None:
        batch, self._waiting, self._size = self._waiting, [], 0
        if self._under_way is not None:
            await self._under_way
        if batch:
            self._batches += 1
            self._under_way = self._committer.write(batch, sync=self._batches % SYNC_EVERY == 0)
        else:
            self._under_way = None

    async def end(self, sinks: Sequence[int]) -> list[Write]:
        """Return the writes of the last batch, which makes the others durable, when all are written."""
        await self._flush()
        await self._flush()
        return [DropPlacing(sink) for sink in sinks]


class _Together:
    """Entries of a small commit, which are written in its single batch."""

    def __init__(self, writes: list[Write]) -> None:
        self._writes = writes

    async def put(self, write: Write, size: int) -> None:
        """Add a write to the batch."""
        self._writes.append(write)


class _Placing:
    """Placement of the pages of one epoch in one partition, in the order of their tokens."""

    def __init__(self, sink: int, log: PartitionLog, tail: Tail, accepted_at_us: int, age_us: int) -> None:
        self.tail = tail
        """End of the partition behind them."""
        self.stages: list[int] = []
        """Number, records and pages of each stage, flat: integers cost no garbage collection."""
        self._before = tail
        self._sink = sink
        self._log = log
        self._accepted_at_us = accepted_at_us
        self._age_us = age_us
        self._pages: list[StagedPage] = []
        """Pages that are not in a write yet."""
        self._newest: list[StagedPage] = []
        """Last placed pages: at least as many as memory keeps."""
        self._first, self._last = OFFSET_MAX, 0

    def place(self, stages: Iterable[Stage]) -> Iterator[tuple[Write, int]]:
        """Place the staged pages of the partition; yields writes with the number of their entries."""
        partition, waiting, parts = self._log.number, self._pages, self.stages
        for stage in stages:
            pages = stage.pages.pop(partition)
            parts += (stage.record.number, stage.counts[partition], len(pages))
            waiting += pages
        while len(self._pages) >= AHEAD_BATCH:
            yield self._placed(self._pages[:AHEAD_BATCH])
            del self._pages[:AHEAD_BATCH]

    def rest(self) -> Iterator[tuple[Write, int]]:
        """Yield the last write."""
        if self._pages:
            yield self._placed(self._pages)
            self._pages = []

    def _placed(self, pages: list[StagedPage]) -> tuple[Write, int]:
        before = self.tail
        records, size = sum([page.count for page in pages]), sum([page.size for page in pages])
        numbers = [page.number for page in pages]
        self._first, self._last = min(self._first, *numbers), max(self._last, *numbers)
        base = self._log.reserve(records, size)
        assert base == before.next_offset, "nothing of the partition is on its way"
        times = (self._accepted_at_us, self._age_us)
        self.tail = Tail(base + records, before.appended_bytes + size, before.appended_pages + len(pages), *times)
        self._newest = [*self._newest[-RECENT_MAX:], *pages[-2 * RECENT_MAX :]]
        return PutPlaced(self._sink, self._log.number, before, *times, pages), len(pages)

    def part(self) -> EpochPart:
        """Return the part of the epoch in this partition."""
        before, tail = self._before, self.tail
        return EpochPart(
            self._log.number,
            before.next_offset,
            tail.next_offset - before.next_offset,
            tail.appended_pages - before.appended_pages,
            tail.appended_bytes - before.appended_bytes,
            self._first,
            self._last,
        )

    def newest(self) -> list[Entry]:
        """Return the last entries, as many as memory keeps."""
        pages = self._newest if len(self._newest) <= 2 * RECENT_MAX else self._newest[-RECENT_MAX:]
        end = self.tail.next_offset - sum(page.count for page in pages)
        bytes_before = self.tail.appended_bytes - sum(page.size for page in pages)
        pages_before = self.tail.appended_pages - len(pages)
        found: list[Entry] = []
        for page in pages:
            parts = (Part(end, self._accepted_at_us, page.traceparent),)
            facts = (page.number, page.bulk, page.size, page.encoding, self._accepted_at_us, self._age_us)
            found.append(Entry(end, page.count, *facts, bytes_before, pages_before, parts))
            end += page.count
            bytes_before += page.size
            pages_before += 1
        return found


class Epochs:
    """Commits of one broker. Used on the loop only."""

    def __init__(self, committer: Committer, reclaimer: Reclaimer, pages: Pages, *, start_count: int) -> None:
        self._committer = committer
        self._reclaimer = reclaimer
        self._pages = pages
        self._ticket = start_count << NUMBER_BITS
        self._commits: set[asyncio.Task[Outcome]] = set()

    def take_ticket(self) -> int:
        """Return a number above all earlier ones, over all starts."""
        self._ticket += 1
        return self._ticket

    async def commit(self, targets: Sequence[Target]) -> Outcome:
        """Commit epochs together. Continues to the end if the caller leaves.

        Raises ``STAGED_INCOMPLETE``, ``EPOCH_FENCED``, ``EPOCH_CONFLICT``, ``EpochContentConflict``,
        ``PRODUCER_CHANGED``, ``SinkNotFound``, ``StoreFenced``: nothing became visible then.
        """
        task = asyncio.get_running_loop().create_task(self._commit(targets), name="forebay-commit-epoch")
        self._commits.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    def _over(self, task: asyncio.Task[Outcome]) -> None:
        self._commits.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved: the caller may be gone

    async def close(self) -> None:
        """Wait for the commits in progress."""
        await asyncio.gather(*self._commits, return_exceptions=True)

    async def _commit(self, targets: Sequence[Target]) -> Outcome:
        buffers = {buffer.record.id: buffer for buffer, _ in targets}
        async with AsyncExitStack() as held:
            for _, buffer in sorted(buffers.items()):
                await held.enter_async_context(buffer.state.admission)
            if not self._is_new(targets):
                return await self._already(targets)
            slices = Slices()
            found = [await buffer.staging.complete(wanted, slices) for buffer, wanted in targets]
            await self._prepare(targets, found, slices)
            if not self._is_new(targets):  # a newer run or an abort may have happened meanwhile
                return await self._already(targets)
            for (buffer, _), stages in zip(targets, found, strict=True):
                buffer.staging.check_there(stages)
            placed = await self._write(targets, found, slices)
            for each in placed:
                await self._wake_readers(each, slices)
        for each in placed:
            _log.debug("epoch was committed sink=%s epoch=%d", each.buffer.name, each.record.epoch)
        return Outcome(tuple(each.record for each in placed), already=False)

    def _is_new(self, targets: Sequence[Target]) -> bool:
        """Return True if all epochs are to be committed, False if all are committed already."""
        new: list[bool] = []
        for buffer, wanted in targets:
            buffer.state.check_alive()
            buffer.staging.check_writable()
            new.append(buffer.staging.producers.commit(wanted))
        if not any(new):
            return False
        for (_, wanted), is_new in zip(targets, new, strict=True):
            if not is_new:
                why = "it is committed, and what is to be committed with it is not"
                raise BrokerError(Reason.EPOCH_CONFLICT, why, producer=wanted.claim.producer, epoch=wanted.claim.epoch)
        return True

    async def _already(self, targets: Sequence[Target]) -> Outcome:
        await self._remember_repeats(targets)
        found = [await self._committed(buffer, wanted) for buffer, wanted in targets]
        for buffer, wanted in targets:  # stages of a later run for the same epoch
            buffer.staging.discard(buffer.staging.leftover(wanted.claim))
        return Outcome(tuple(found), already=True)

    async def _remember_repeats(self, targets: Sequence[Target]) -> None:
        """Store the tokens of a repeated epoch, to detect a second write of the same run under its name."""
        repeats = [(buffer, buffer.staging.producers.repeated(wanted)) for buffer, wanted in targets]
        found = [(buffer, record) for buffer, record in repeats if record is not None]
        if not found:
            return
        await self._committer.write([PutProducer(buffer.record.id, record) for buffer, record in found])
        for buffer, record in found:
            buffer.staging.producers.keep(record, buffer.state.age.now_us())

    async def _committed(self, buffer: Buffer, wanted: Wanted) -> EpochRecord:
        """Return a committed epoch, from its producer where its own record is damaged."""
        claim = wanted.claim
        known = buffer.staging.producers.known[claim.producer]
        try:
            return await self.get(buffer, claim.producer, claim.epoch)
        except EpochNotFound:
            facts = (known.committed_by, known.committed_at_us, len(wanted.tokens), known.tokens)
            return EpochRecord(claim.producer, known.write_name, claim.epoch, *facts, (), known.content_digest)

    async def _prepare(self, targets: Sequence[Target], found: Sequence[Sequence[Stage]], slices: Slices) -> None:
        """Free room, reserve offsets, and wait until no write of the partitions is pending."""
        records: dict[int, dict[int, int]] = {}
        totals: dict[int, tuple[int, int]] = {}
        for (buffer, _), staged in zip(targets, found, strict=True):
            of_sink = records.setdefault(buffer.record.id, {})
            before = totals.get(buffer.record.id, (0, 0))  # of other producers of the same sink
            total = before[0] + sum(s.records for s in staged), before[1] + sum(s.size for s in staged)
            totals[buffer.record.id] = total
            await buffer.admission.make_room(*total)
            for stage in staged:
                for partition, count in stage.counts.items():
                    of_sink[partition] = of_sink.get(partition, 0) + count
                await slices.turn()
            for partition, count in of_sink.items():
                await buffer.offsets.reserve(partition, count)
        committer = self._committer
        for log in [buffer.logs[partition] for buffer, _ in targets for partition in records[buffer.record.id]]:
            while log.next_offset != log.tail.next_offset:
                if committer.fenced is not None:
                    raise committer.fenced
                await committer.committed.next().wait()
        if committer.fenced is not None:
            raise committer.fenced

    async def _write(self, targets: Sequence[Target], found: Sequence[list[Stage]], slices: Slices) -> list[_Placed]:
        """Assign offsets to all pages, write them in one batch, and confirm them when it is durable.

        From the first step on the stages cannot be discarded. The ends of the partitions are moved in the last step, so
        that no other batch includes an end that is not written yet.
        """
        at_us = targets[0][0].state.clock.wall_us()
        writes: list[Write] = []
        tails: dict[tuple[int, int], Tail] = {}
        sinks = sorted({buffer.record.id for buffer, _ in targets})
        pages = sum(stage.page_count for stages in found for stage in stages)
        ahead = _Ahead(self._committer) if pages > AHEAD_FROM else None
        for buffer, _ in targets:
            buffer.staging.committing += 1
        try:
            placed = [
                self._begin(buffer, wanted, stages, at_us, writes)
                for (buffer, wanted), stages in zip(targets, found, strict=True)
            ]
            if ahead is not None:
                await ahead.begin(placed)
            for each, stages in zip(placed, found, strict=True):
                await self._place(each, stages, at_us, tails, slices, ahead or _Together(writes))
                writes.append(PutEpoch(each.buffer.record.id, each.record))
            if ahead is not None:
                writes += await ahead.end(sinks)
            self._end(placed, writes, tails)
            await self._committer.write(writes)
            for each in placed:
                self._confirm(each)
        finally:
            for buffer, _ in targets:
                buffer.staging.committing -= 1
            self._committer.committed.fire()  # also without a batch: a deletion waits for the end of commits
        return placed

    def _begin(
        self, buffer: Buffer, wanted: Wanted, stages: Sequence[Stage], at_us: int, writes: list[Write]
    ) -> _Placed:
        """Release the stages; a small leftover of the epoch is discarded in the same batch."""
        claim, staging = wanted.claim, buffer.staging
        content = Content(sum(stage.records for stage in stages), wanted.content.digest if wanted.content else "")
        producer = staging.producers.committed(claim, wanted.names, at_us, content)
        record = EpochRecord(
            claim.producer,
            claim.write_name,
            claim.epoch,
            claim.run,
            producer.committed_at_us,
            tokens=len(wanted.tokens),
            digest=producer.tokens,
            parts=(),
            content_digest=content.digest,
        )
        writes += [PutProducer(buffer.record.id, producer), *staging.release(stages)]
        leftover, due = staging.leftover(claim), list[Due]()
        if are_few(leftover):  # otherwise they are discarded when the commit is durable
            thrown, due = staging.discarding(leftover)
            writes += thrown
        return _Placed(buffer, wanted, producer, record, due=due)

    async def _place(
        self,
        placed: _Placed,
        stages: list[Stage],
        at_us: int,
        tails: dict[tuple[int, int], Tail],
        slices: Slices,
        store: _Ahead | _Together,
    ) -> None:
        """Assign offsets to the pages of an epoch, behind those of earlier epochs. Consumes the stages."""
        buffer, sink = placed.buffer, placed.buffer.record.id
        of_partition: dict[int, list[Stage]] = defaultdict(list)
        for stage in stages:
            for partition in stage.pages:
                of_partition[partition].append(stage)
            await slices.turn()
        parts: list[EpochPart] = []
        for partition in sorted(of_partition):
            log = buffer.logs[partition]
            tail, accepted_at_us = tails.get((sink, partition), log.decided), log.accept_time(at_us)
            placing = _Placing(sink, log, tail, accepted_at_us, buffer.state.age.now_us())
            here = of_partition.pop(partition)
            for at in range(0, len(here), STAGES_TOGETHER):
                for write, size in placing.place(here[at : at + STAGES_TOGETHER]):
                    await store.put(write, size)
                await slices.turn()
            for write, size in placing.rest():
                await store.put(write, size)
            record = placed.record
            ordered = PutEpochStages(sink, record.producer, record.epoch, partition, placing.stages)
            await store.put(ordered, len(placing.stages) // 3)
            parts.append(placing.part())
            placed.entries[partition] = placing.newest()
            tails[sink, partition] = placed.tails[partition] = placing.tail
        placed.record = replace(placed.record, parts=tuple(parts))
        while stages:  # freeing a million pages at once would block the loop
            stages.pop()
            await slices.turn()

    def _end(self, placed: Sequence[_Placed], writes: list[Write], tails: Mapping[tuple[int, int], Tail]) -> None:
        """Move the ends of the partitions, in the step that queues the batch."""
        buffers = {each.buffer.record.id: each.buffer for each in placed}
        for (sink, partition), tail in tails.items():
            buffer = buffers[sink]
            log = buffer.logs[partition]
            log.decided = tail
            buffer.tier.sent_to_disk(log)
            writes.append(PutTail(sink, partition, tail))
            writes += buffer.tier.beside(log)

    def _confirm(self, placed: _Placed) -> None:
        """Confirm the records of a durable batch, without a turn for other tasks."""
        buffer, claim = placed.buffer, placed.wanted.claim
        buffer.staging.producers.keep(placed.producer, buffer.state.age.now_us())
        for part in placed.record.parts:
            log, entries = buffer.logs[part.partition], placed.entries[part.partition]
            log.confirm(placed.tails[part.partition], entries, part.size, left_out=part.pages - len(entries))
            log.synced = max(log.synced, part.end)
        self._reclaimer.add(placed.due)
        buffer.staging.discard(buffer.staging.leftover(claim))  # stages begun while the batch was pending
        buffer.staging.spent.discard(claim.producer)

    async def _wake_readers(self, placed: _Placed, slices: Slices) -> None:
        """Wake the readers of the partitions."""
        for part in placed.record.parts:
            entries = placed.entries[part.partition]
            records, size = sum(entry.count for entry in entries), sum(entry.size for entry in entries)
            placed.buffer.appends.committed(part.partition, entries, beside=(part.records - records, part.size - size))
            await slices.turn()

    # -- queries

    async def get(self, buffer: Buffer, producer: str, epoch: int | None) -> EpochRecord:
        """Return an epoch, the last one for None; raises ``EpochNotFound``."""
        known = buffer.staging.producers.known.get(producer)
        last = known.epoch if known is not None else None
        if known is None or last is None or (epoch is not None and epoch > last):
            raise EpochNotFound(producer, epoch, last)
        number = last if epoch is None else epoch
        pages = self._pages
        found = await pages.call(pages.journal.epochs, buffer.record.id, producer, number, 1)
        if found and found[0].epoch == number:
            return found[0]
        raise EpochNotFound(producer, epoch, last)
