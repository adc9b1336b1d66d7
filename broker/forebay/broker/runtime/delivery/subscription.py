"""Running subscription of one sink: answers of its consumers, and changes of the sink.

Everything here runs on the loop. A lane decides; this module writes its cursor and wakes consumers. ``ownership``
assigns the partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace

from forebay.broker.core.dead_letters.breaker import Breaker
from forebay.broker.core.dead_letters.letters import RecordCodec
from forebay.broker.core.delivery.judgement import Judgement
from forebay.broker.core.delivery.lane import Answer, Lane, SettleOutcome
from forebay.broker.core.partition.cursor import Settlement
from forebay.broker.core.partition.gaps import DETAIL_MAX
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import SinkSettings
from forebay.broker.core.writes import DropGap, PutCursor, PutGap, PutHead, SubscriptionRecord, Write
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.dead_letters.appender import Appender
from forebay.broker.runtime.dead_letters.batch import Target
from forebay.broker.runtime.dead_letters.mover import DeadLetterMover
from forebay.broker.runtime.delivery.accounts import Accounts
from forebay.broker.runtime.delivery.consumer import Consumer, Credit
from forebay.broker.runtime.delivery.events import Event
from forebay.broker.runtime.delivery.lanes import Lanes
from forebay.broker.runtime.delivery.leased_sets import LeasedSets
from forebay.broker.runtime.delivery.marks import DeliveryMarks
from forebay.broker.runtime.delivery.ownership import Ownership
from forebay.broker.runtime.delivery.puller import Pullers
from forebay.broker.runtime.delivery.source import Source
from forebay.broker.runtime.instruments import Instruments
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.resources.slices import Slices
from forebay.broker.runtime.resources.supervision import Supervisor, detached
from forebay.broker.runtime.sink.memory_tier import MemoryTier
from forebay.broker.runtime.sink.retention.removal import Removal
from forebay.broker.runtime.sink.schemas import Schemas
from forebay.broker.runtime.sink.state import Sink

Results = tuple[tuple[int, Range, SettleOutcome], ...]


class Subscription:
    """Running state of one subscription."""

    def __init__(
        self,
        record: SubscriptionRecord,
        lanes: Sequence[Lane],
        sink: Sink,
        tier: MemoryTier,
        removal: Removal,
        schemas: Schemas,
        *,
        committer: Committer,
        pages: Pages,
        instruments: Instruments,
        marks: DeliveryMarks,
        owner_epochs: Iterator[int],
        supervisor: Supervisor,
        codec: RecordCodec,
        dead_letter_sink: Callable[[Sink], Target],
        pause: Callable[[str], object],
    ) -> None:
        """``dead_letter_sink`` returns that of a sink, created on first use; ``pause`` pauses the whole sink."""
        self.record = record
        self.name = record.name
        self.lanes = Lanes(sink, record, lanes)
        self._sink = sink
        self._tier = tier
        self._removal = removal
        self._pause_sink = pause
        breaker = Breaker()
        self.accounts = Accounts(self.lanes, breaker, committer=committer, instruments=instruments, marks=marks)
        self.source = Source(self.lanes, pages, removal)
        self.owners = Ownership(self.lanes, owner_epochs, self._connect, self._owner_failed)
        self.pullers = Pullers(self.lanes, self.owners, self.process_timers)
        appender = Appender(
            self.lanes,
            self.source,
            self.accounts,
            self.owners,
            removal=removal,
            schemas=schemas,
            committer=committer,
            pages=pages,
            codec=codec,
            target=dead_letter_sink,
        )
        self.dead_letters = DeadLetterMover(
            *(self.lanes, self.accounts, self.owners, breaker, appender),
            committer=committer,
            supervisor=supervisor,
            pause=pause,
        )
        self.leasing = LeasedSets(
            self.lanes,
            self.source,
            self.accounts,
            self.owners,
            self.dead_letters,
            removal=removal,
            instruments=instruments,
        )

    def _connect(self, consumer_id: str, credit: Credit, emit: Callable[[Event], None]) -> Consumer:
        on_timer = self.process_timers
        return Consumer(
            consumer_id, self.lanes, self.source, self.accounts, credit=credit, emit=emit, on_timer=on_timer
        )

    def _owner_failed(self, partition: int) -> None:
        self.dead_letters.failed(partition, "disconnect", "the consumer left without an answer")

    @property
    def settings(self) -> SinkSettings:
        return self._sink.settings

    @property
    def deleted(self) -> bool:
        """True after the deletion: it is not stored any more."""
        return self.lanes.deleted

    def now(self) -> float:
        """Return monotonic seconds."""
        return self.lanes.now()

    def log(self, partition: int) -> PartitionLog:
        return self.lanes.log(partition)

    def lane(self, partition: int) -> Lane:
        """Return the lane of a partition; raises ``InvalidPartition``."""
        return self.lanes.checked(partition)

    # -- consumers

    def join(self, consumer_id: str, credit: Credit, emit: Callable[[Event], None]) -> Consumer:
        """See ``Ownership.join``."""
        return self.owners.join(consumer_id, credit, emit)

    def leave(self, consumer: Consumer, *, orderly: bool = False) -> None:
        """See ``Ownership.leave``."""
        self.owners.leave(consumer, orderly=orderly)

    def close(self) -> None:
        """Remove all consumers silently; the servers of their streams end these."""
        for consumer in list(self.owners.consumers.values()):
            self.owners.leave(consumer, orderly=True)
        self.dead_letters.close()

    def process_timers(self) -> None:
        """Process what is due: deadlines, leases of sets and handovers."""
        now = self.now()
        self.leasing.sweep()
        self.owners.end_hung(now)
        for partition, lane in enumerate(self.lanes):
            consumer = self.owners.of(partition)
            if consumer is not None:
                consumer.defer_deadlines(lane, now)
            if lane.owner is not None:
                revocation = lane.expire(now, self._sink.clock.random())
                if revocation is not None:
                    self.owners.notify(partition, revocation)
                    self.dead_letters.failed(partition, "deadline", "the deadline passed without an answer")
        self.owners.process_timers(now)

    # -- answers

    def ack(
        self, partition: int, answer: Answer, ranges: Sequence[Range], *, until: bool = False
    ) -> Awaitable[Results]:
        """Settle ranges. The result is available when the batch that carries it is durable."""
        lane = self.lane(partition)
        self._note_alive(lane, answer.owner_epoch)
        now, end = self.now(), self.log(partition).tail.next_offset
        before = lane.cursor.acked
        if until:
            found = [result for requested in ranges for result in lane.settle_until(answer, requested, now, end)]
        else:
            found = lane.settle_all(answer, ranges, Settlement.ACKED, now, end)
        results = tuple((partition, part, outcome) for part, outcome in found)
        settled = lane.cursor.acked - before
        if settled:
            self.accounts.acked(partition, settled)
            self._removal.trim_soon(partition)
        return self._answered(partition, results, changed=settled > 0)

    def retry(
        self,
        partition: int,
        answer: Answer,
        ranges: Sequence[Range],
        *,
        delay_s: float | None,
        reason: str,
        judged: Judgement | None = None,
    ) -> Awaitable[Results]:
        """Reject records for redelivery. ``judged`` is an earlier judgement of the same answer and ranges."""
        return self._nack(partition, answer, ranges, delay_s=delay_s, reason=reason or "nack", judged=judged)

    async def judged(self, partition: int, answer: Answer, ranges: Sequence[Range], slices: Slices) -> Judgement:
        """Judge an answer while other tasks run: for thousands of ranges that are applied at once."""
        lane = self.lane(partition)
        state, results = lane.answer_state, []
        for requested in ranges:
            results += lane.judge(answer, requested)
            await slices.turn()
        return Judgement(state, results)

    def reject(self, partition: int, answer: Answer, ranges: Sequence[Range], *, reason: str) -> Awaitable[Results]:
        """Move records that the target will never accept to the dead-letter sink.

        Without one the sink is paused, and they stay pending; in a dead-letter sink they are redelivered.
        """
        lane = self.lane(partition)
        if self.dead_letters.is_last:
            return self._nack(partition, answer, ranges, delay_s=None, reason=reason)
        if self.dead_letters.enabled:
            self._note_alive(lane, answer.owner_epoch)
            return self.dead_letters.reject(partition, answer, ranges, reason)
        before = lane.revision
        done = self._nack(partition, answer, ranges, delay_s=0.0, reason=reason)
        if lane.revision != before:
            first = ranges[0].first
            self._pause_sink(
                f"REJECTED_BY_TARGET: partition {partition}, offset {first}: {reason or 'no reason given'}"
            )
        return done

    def discard(self, partition: int, answer: Answer, ranges: Sequence[Range], *, reason: str) -> Awaitable[Results]:
        """Settle rejected records as dropped, with a gap of this subscription only."""
        lane, log = self.lane(partition), self.log(partition)
        self._note_alive(lane, answer.owner_epoch)
        now, end = self.now(), log.tail.next_offset
        found = lane.settle_all(answer, ranges, Settlement.DROPPED, now, end)
        results = tuple((partition, part, outcome) for part, outcome in found)
        dropped = [part for part, outcome in found if outcome is SettleOutcome.OK]
        if not dropped:
            return self._answered(partition, results, changed=False)
        lane.pop_settled()
        at_us, sink = self._sink.clock.wall_us(), self._sink.id
        gone, made = log.reject(
            self.name, dropped, settled_to=lane.cursor.watermark, at_us=at_us, detail=reason[:DETAIL_MAX]
        )
        writes: list[Write] = [DropGap(sink, partition, gap.first, self.name) for gap in gone]
        writes += [PutGap(sink, partition, gap) for gap in made]
        writes += [PutHead(sink, partition, log.head), *self._tier.beside_head(log)]
        self.owners.balance_if_idle(partition)
        self.owners.wake(partition)
        saved = self.accounts.save(partition, writes)
        answered = detached(self._wait(partition, results, saved))
        self.accounts.settled(partition, "dropped", sum(part.size for part in dropped))
        self._removal.report_when_durable(partition, DropReason.REJECTED_BY_TARGET, dropped, saved)
        self._removal.trim_soon(partition)
        return answered

    def _nack(
        self,
        partition: int,
        answer: Answer,
        ranges: Sequence[Range],
        *,
        delay_s: float | None,
        reason: str,
        judged: Judgement | None = None,
    ) -> Awaitable[Results]:
        lane = self.lane(partition)
        self._note_alive(lane, answer.owner_epoch)
        found, revocation = lane.nack(
            *(answer, ranges, self.now()),
            delay_s=delay_s,
            random=self._sink.clock.random(),
            reason=reason,
            judged=judged,
        )
        if revocation is not None:
            self.accounts.failed("nack")
            first = min(requested.first for requested in ranges)
            settled = Range(first, revocation.first)
            if revocation.notify and settled.size > 0 and next(lane.view.unsettled(settled), None) is None:
                # The consumer does not know that these are settled: it expects a revocation from its first nack.
                revocation = replace(revocation, first=first)
            self.owners.notify(partition, revocation)
        results = tuple((partition, part, outcome) for part, outcome in found)
        answered = self._answered(partition, results, changed=revocation is not None)
        if revocation is not None:
            self.dead_letters.move_exhausted(partition, reason)
        return answered

    async def _wait(self, partition: int, results: Results, written: asyncio.Future[None] | None) -> Results:
        if written is not None:
            await written
        return await self.dead_letters.join(partition, results)

    def _answered(self, partition: int, results: Results, *, changed: bool) -> Awaitable[Results]:
        self.owners.balance_if_idle(partition)
        if changed:
            self.owners.wake(partition)
            return detached(self._wait(partition, results, self.accounts.save(partition)))
        if self.lanes[partition].transfers:
            return detached(self._wait(partition, results, None))
        done: asyncio.Future[Results] = asyncio.get_running_loop().create_future()
        done.set_result(results)
        return done

    def extend(self, partition: int, owner_epoch: int, ranges: Sequence[Range] = ()) -> bool:
        """Restart the deadline of a partition; in RELAXED order those of ``ranges``, or all."""
        lane = self.lane(partition)
        self._note_alive(lane, owner_epoch)
        return lane.extend(owner_epoch, self.now(), ranges)

    def _note_alive(self, lane: Lane, owner_epoch: int) -> None:
        """Note that the owner is alive: its lease and what it has to hand over last longer."""
        if lane.owner is not None and lane.owner_epoch == owner_epoch:
            self.pullers.renew(lane.owner)
            self.owners.answered(self.lanes.partition_of(lane))

    # -- changes of the sink

    def move(self, partition: int, offset: int) -> list[Write]:
        """Close the account and open a new one at ``offset``; returns the writes of one batch.

        Everything in flight is void, and late answers to it settle nothing.
        """
        lane, log = self.lanes[partition], self.log(partition)
        end, cursor = log.tail.next_offset, lane.cursor
        gone = Settlement.ACKED if self.dead_letters.is_last else Settlement.DEAD_LETTERED
        for part in lane.transfers.fixed:  # these can no longer be stopped
            cursor, records = cursor.settle(part, gone)
            self.accounts.settled(partition, gone.value, records)
        self.accounts.settled(partition, "skipped", cursor.pending(end))
        totals = self.accounts.close(partition, cursor, end)
        revocation = lane.seek(offset, end)
        self.drop(partition, [Range(max(gap.first, offset), gap.end) for gap in log.gaps_from(offset)])
        self.owners.notify(partition, revocation)
        if partition in self.lanes.handovers:
            self.owners.balance()
        sink = self._sink.id
        vanished, made = log.rejections.take_back(self.name, offset)
        writes: list[Write] = [DropGap(sink, partition, gap.first, self.name) for gap in vanished]
        writes += [PutGap(sink, partition, gap) for gap in made]
        return [*writes, self.cursor_write(partition), totals]

    def settle_below(self, partition: int, end: int) -> int:
        """Settle as acked every unsettled record below ``end``, while the partition has no owner.

        Returns the number of records.
        """
        lane = self.lanes[partition]
        acked = lane.settle_below(end, self.now(), self.log(partition).tail.next_offset)
        if acked:
            self.accounts.settled(partition, "acked", acked)
            self.dead_letters.breaker.acked(acked)
        return acked

    def grow(self, lanes: Sequence[Lane]) -> None:
        """Add the lanes of new partitions, and balance them over the consumers."""
        self.lanes.add(lanes)
        self.owners.balance()

    def end(self, why: Exception) -> None:
        """End the subscription after its deletion: its consumers end with ``why``, and no write follows."""
        self.lanes.deleted = True
        self.owners.end(why)
        self.dead_letters.close()

    def drop(self, partition: int, dropped: Sequence[Range]) -> None:
        """Settle records that were dropped from the sink. The ranges are disjoint and sorted."""
        records = self.lanes[partition].drop(dropped, self.now(), self.log(partition).tail.next_offset)
        self.accounts.settled(partition, "dropped", records)

    def begin_purge(self, partition: int) -> None:
        """Void everything in flight for a purge, and send nothing until ``end_purge``."""
        lane = self.lanes[partition]
        if not lane.sender.held or not lane.idle:
            lane.sender.held = True
            self.owners.notify(partition, lane.purge())

    def end_purge(self, partition: int) -> None:
        """End the hold of a purge."""
        self.lanes[partition].sender.held = False
        if partition in self.lanes.handovers:
            self.owners.balance()
        self.owners.wake(partition)

    def pause(self, reason: str) -> None:
        """Stop sending; records in flight are redelivered after ``resume``."""
        for partition, lane in enumerate(self.lanes):
            revocation = lane.pause(reason)
            if revocation is not None:
                self.owners.notify(partition, revocation)

    def resume(self) -> None:
        """Resume sending."""
        self.dead_letters.breaker.close()
        for partition, lane in enumerate(self.lanes):
            lane.resend.resume()
            self.owners.wake(partition)

    def change(self, settings: SinkSettings) -> None:
        """Apply new settings of the sink; another order revokes everything in flight."""
        for partition, lane in enumerate(self.lanes):
            revocation = lane.change(settings)
            if revocation is not None:
                self.owners.notify(partition, revocation)
            self.owners.wake(partition)

    def wake(self, partition: int, *, new_page: bool = False) -> None:
        """Wake the owner of a partition after a change."""
        if new_page:
            self.lanes[partition].resend.new_page(self.now())
        self.owners.wake(partition)

    def cursor_write(self, partition: int) -> PutCursor:
        """Return the write of the current cursor."""
        return self.lanes.cursor_write(partition)

    def unsaved(self) -> list[asyncio.Future[None]]:
        """Return the last pending write of each partition: earlier ones become durable with it."""
        return self.accounts.unsaved()
