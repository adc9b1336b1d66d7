"""Commits: staged pages become records of their sinks, atomically.

A commit holds back the appends of its sinks while its batch is written: so the ends of their partitions do not change,
and later records follow its own. Everything is checked before anything is changed, and again after each wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from forebay.broker.core.epochs.values import Content, EpochPart, EpochRecord, ProducerRecord, Wanted
from forebay.broker.core.errors import BrokerError, EpochNotFound
from forebay.broker.core.partition.log import Tail
from forebay.broker.core.partition.pages import Entry
from forebay.broker.core.writes import NUMBER_BITS, Due, PutEpoch, PutEpochStages, PutProducer, PutTail, Write
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.reclaimer import Reclaimer
from forebay.broker.runtime.epochs import placement
from forebay.broker.runtime.epochs.placement import EntriesAhead, EntriesInBatch, Placement
from forebay.broker.runtime.epochs.stage import Stage
from forebay.broker.runtime.epochs.staging import are_few
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.resources.slices import Slices
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.errors.reasons import Reason

_log: Final = logging.getLogger(__name__)
Target = tuple[Buffer, Wanted]
STAGES_PER_TURN: Final = 128
"""Stages whose pages of one partition are placed before the loop yields to other tasks."""


@dataclass(frozen=True, slots=True)
class CommitResult:
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


class Epochs:
    """Commits of one broker. Used on the loop only."""

    def __init__(self, committer: Committer, reclaimer: Reclaimer, pages: Pages, *, start_count: int) -> None:
        self._committer = committer
        self._reclaimer = reclaimer
        self._pages = pages
        self._ticket = start_count << NUMBER_BITS
        self._commits: set[asyncio.Task[CommitResult]] = set()

    def take_ticket(self) -> int:
        """Return a number above all earlier ones, over all starts."""
        self._ticket += 1
        return self._ticket

    async def commit(self, targets: Sequence[Target]) -> CommitResult:
        """Commit epochs together. Continues to the end if the caller leaves.

        Raises ``STAGED_INCOMPLETE``, ``EPOCH_FENCED``, ``EPOCH_CONFLICT``, ``EpochContentConflict``,
        ``PRODUCER_CHANGED``, ``SinkNotFound``, ``StoreFenced``: nothing became visible then.
        """
        task = asyncio.get_running_loop().create_task(self._commit(targets), name="forebay-commit-epoch")
        self._commits.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[CommitResult]) -> None:
        self._commits.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved: the caller may be gone

    async def close(self) -> None:
        """Wait for the commits in progress."""
        await asyncio.gather(*self._commits, return_exceptions=True)

    async def _commit(self, targets: Sequence[Target]) -> CommitResult:
        buffers = {buffer.record.id: buffer for buffer, _ in targets}
        async with AsyncExitStack() as held:
            for _, buffer in sorted(buffers.items()):
                await held.enter_async_context(buffer.state.admission)
            if not self._is_new(targets):
                return await self._already(targets)
            slices = Slices()
            found = [await buffer.staging.complete(wanted, slices) for buffer, wanted in targets]
            for step in (self._reserve, self._make_room):  # what drops records comes last
                await step(targets, found, slices)
                if not self._is_new(targets):  # there may have been a newer run or an abort
                    return await self._already(targets)
                for (buffer, _), stages in zip(targets, found, strict=True):
                    buffer.staging.check_there(stages)
            placed = await self._write(targets, found, slices)
            for each in placed:
                await self._wake_readers(each, slices)
        for each in placed:
            _log.debug("epoch was committed sink=%s epoch=%d", each.buffer.name, each.record.epoch)
        return CommitResult(tuple(each.record for each in placed), already=False)

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
                why = "it is committed already, and another epoch of this commit is not"
                raise BrokerError(Reason.EPOCH_CONFLICT, why, producer=wanted.claim.producer, epoch=wanted.claim.epoch)
        return True

    async def _already(self, targets: Sequence[Target]) -> CommitResult:
        await self._remember_repeats(targets)
        found = [await self._committed(buffer, wanted) for buffer, wanted in targets]
        for buffer, wanted in targets:  # stages of a later run for the same epoch
            buffer.staging.discard(buffer.staging.leftover(wanted.claim))
        return CommitResult(tuple(found), already=True)

    async def _remember_repeats(self, targets: Sequence[Target]) -> None:
        """Store the tokens of a repeated epoch, to detect a second write of the same run under its name."""
        repeats = [(buffer, buffer.staging.producers.repeated(wanted)) for buffer, wanted in targets]
        found = [(buffer, record) for buffer, record in repeats if record is not None]
        if not found:
            return
        with self._under_way(targets):
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

    async def _reserve(self, targets: Sequence[Target], found: Sequence[Sequence[Stage]], slices: Slices) -> None:
        """Reserve offsets, and wait until no write of the partitions is pending."""
        records: dict[int, dict[int, int]] = {}
        for (buffer, _), staged in zip(targets, found, strict=True):
            of_sink = records.setdefault(buffer.record.id, {})
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

    async def _make_room(self, targets: Sequence[Target], found: Sequence[Sequence[Stage]], slices: Slices) -> None:
        """Free room in sinks that drop their oldest records."""
        totals: dict[int, tuple[int, int]] = {}
        for (buffer, _), staged in zip(targets, found, strict=True):
            before = totals.get(buffer.record.id, (0, 0))  # of other producers of the same sink
            total = before[0] + sum(s.records for s in staged), before[1] + sum(s.size for s in staged)
            totals[buffer.record.id] = total
            await buffer.admission.make_room(*total)
            await slices.turn()

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
        ahead = EntriesAhead(self._committer) if pages > placement.AHEAD_FROM else None
        with self._under_way(targets) as under_way:
            placed: list[_Placed] = []
            for (buffer, wanted), stages in zip(targets, found, strict=True):
                placed.append(self._begin(buffer, wanted, stages, at_us, writes, under_way))
            if ahead is not None:
                await ahead.begin((each.buffer.record.id, each.record) for each in placed)
            for each, stages in zip(placed, found, strict=True):
                await self._place(each, stages, at_us, tails, slices, ahead or EntriesInBatch(writes))
                writes.append(PutEpoch(each.buffer.record.id, each.record))
            if ahead is not None:
                writes += await ahead.end(sinks)
            self._end(placed, writes, tails)
            await self._committer.write(writes)
            for each in placed:
                self._confirm(each)
        return placed

    @contextmanager
    def _under_way(self, targets: Sequence[Target]) -> Iterator[ExitStack]:
        """Count the commit as under way for its sinks and producers; yields what ends with it."""
        try:
            with ExitStack() as under_way:
                for buffer, wanted in targets:
                    under_way.enter_context(buffer.staging.commit_of(wanted.claim.producer))
                yield under_way
        finally:
            self._committer.committed.fire()  # also without a batch: a deletion waits for the end of commits

    def _begin(
        self,
        buffer: Buffer,
        wanted: Wanted,
        stages: Sequence[Stage],
        at_us: int,
        writes: list[Write],
        under_way: ExitStack,
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
        under_way.enter_context(staging.names_kept(stages))
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
        entries: EntriesAhead | EntriesInBatch,
    ) -> None:
        """Assign offsets to the pages of an epoch, after those of earlier epochs. Consumes the stages."""
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
            placing = Placement(sink, log, tail, accepted_at_us, buffer.state.age.now_us())
            here = of_partition.pop(partition)
            for at in range(0, len(here), STAGES_PER_TURN):
                for write, size in placing.place(here[at : at + STAGES_PER_TURN]):
                    await entries.put(write, size)
                await slices.turn()
            for write, size in placing.rest():
                await entries.put(write, size)
            record = placed.record
            ordered = PutEpochStages(sink, record.producer, record.epoch, partition, placing.stages)
            await entries.put(ordered, len(placing.stages) // 3)
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
