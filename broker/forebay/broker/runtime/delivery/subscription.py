"""Running subscription of one sink: requests of its consumers, and the effect of their answers.

Everything here runs on the loop. A lane decides; this module writes its cursor and wakes consumers. ``ownership``
assigns the partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forebay.broker.core.delivery.lane import Answer, Judged, Lane, Outcome, Revocation
from forebay.broker.core.errors import InvalidPartition
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.gaps import DETAIL_MAX
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import Body, DropReason, Entry
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import SECOND_US, SinkSettings
from forebay.broker.core.writes import DropGap, PutCursor, PutGap, PutHead, PutTotals, SubscriptionRecord, Write
from forebay.broker.runtime.dead_letters.mover import DeadLetters
from forebay.broker.runtime.delivery.consumer import Consumer, Credit
from forebay.broker.runtime.delivery.events import Delivered, Event, Revoked
from forebay.broker.runtime.delivery.lessor import LeasedSets
from forebay.broker.runtime.delivery.marks import LaneName, lane_name
from forebay.broker.runtime.delivery.ownership import Ownership
from forebay.broker.runtime.delivery.puller import Pullers
from forebay.broker.runtime.read.pages import EntryReader
from forebay.broker.runtime.resources.slices import Slices
from forebay.broker.runtime.sink.expiry import expire_upcoming

if TYPE_CHECKING:
    from forebay.broker.runtime.sink.buffer import Buffer, Services

_log: Final = logging.getLogger(__name__)
Results = tuple[tuple[int, Range, Outcome], ...]
DEFAULT_SUBSCRIPTION: Final = "default"
ACCOUNT_DIGITS: Final = 12
"""Hexadecimal digits of an incarnation from which its account numbers start."""


class Subscription:
    """Running state of one subscription."""

    def __init__(self, record: SubscriptionRecord, buffer: Buffer, lanes: Sequence[Lane], services: Services) -> None:
        self.record = record
        self.name = record.name
        self.lanes = list(lanes)
        self._buffer = buffer
        self._services = services
        self._partition = {id(lane): number for number, lane in enumerate(self.lanes)}
        self._modes: dict[int, tuple[bool, int]] = {}
        self._saves: dict[int, asyncio.Future[None]] = {}
        self._lane_names: dict[int, LaneName] = {}
        """Names of the lanes that delivered new records in this run."""
        self.owners = Ownership(self, buffer, services)
        self.pullers = Pullers(self)
        self.deleted = False
        """True after the deletion: it is not stored any more."""
        self._totals: dict[int, Totals] = {}
        """Totals of closed accounts, by partition."""
        self.dead_letters = DeadLetters(self, buffer, services)
        self.leasing = LeasedSets(self, buffer, services)

    # -- services for consumers and answers

    @property
    def settings(self) -> SinkSettings:
        return self._buffer.settings

    def now(self) -> float:
        return self._services.clock.monotonic()

    def log(self, partition: int) -> PartitionLog:
        return self._buffer.logs[partition]

    def unsynced_drop(self, partition: int) -> asyncio.Future[None] | None:
        """See ``Buffer.unsynced_drop``."""
        return self._buffer.unsynced_drop(partition)

    def expire(self, partition: int, entries: Sequence[Entry]) -> bool:
        """Drop expired pages among the next ones; returns True if there were any."""
        return expire_upcoming(self._buffer, partition, entries)

    def partition_of(self, lane: Lane) -> int:
        return self._partition[id(lane)]

    def entry_reader(self, partition: int) -> EntryReader:
        return EntryReader(self._services.pages, self._buffer.record.id, self.log(partition))

    async def bodies(
        self, partition: int, entries: Sequence[Entry], *, realtime: bool
    ) -> tuple[list[Body | None], bool]:
        """See ``Pages.bodies``."""
        return await self._services.pages.bodies(self._buffer.record.id, partition, entries, realtime=realtime)

    async def all_bodies(self, partition: int, entries: Sequence[Entry], *, realtime: bool) -> list[Body | None]:
        """See ``Pages.all_bodies``."""
        return await self._services.pages.all_bodies(self._buffer.record.id, partition, entries, realtime=realtime)

    def mode(self, partition: int, *, realtime: bool) -> None:
        """Note the source of the last delivery; a switch is logged and counted."""
        current = self._modes.get(partition)
        if current is None or current[0] != realtime:
            switches = 0 if current is None else current[1] + 1
            self._modes[partition] = (realtime, switches)
            if current is not None:
                _log.info(
                    "reader switched sink=%s subscription=%s partition=%d mode=%s",
                    *(self._buffer.name, self.name, partition, "REALTIME" if realtime else "CATCH_UP"),
                )

    def mode_of(self, partition: int) -> tuple[bool, int] | None:
        """Return True if a partition is read from memory, and the number of switches.

        None before the first delivery.
        """
        return self._modes.get(partition)

    def delivered(self, event: Delivered, redelivered: int) -> None:
        """Count an event put in flight; ``redelivered`` of its records were sent before."""
        now_us = self._services.clock.wall_us()
        self._services.instruments.delivered(self._buffer.name, self.name, event, redelivered, now_us)

    def mark_delivered(self, partition: int) -> None:
        """Note the end of a partition's deliveries before they are sent: the note survives a kill."""
        name = self._lane_names.get(partition)
        if name is None:
            name = lane_name(self._buffer.record.id, self.name, self.record.created_at_us, partition)
            self._lane_names[partition] = name
        self._services.marks.note(name, self.lanes[partition].cursor.sent)

    def forget_marks(self) -> None:
        """Remove the delivery marks after a durable deletion."""
        self._services.marks.forget(self._lane_names.values())
        self._lane_names = {}

    def delivered_cursors(self) -> list[PutCursor]:
        """Return the cursors of the partitions that delivered new records in this run, for an orderly stop."""
        return [self.cursor_write(partition) for partition in self._lane_names]

    async def mend(self, partition: int) -> None:
        """See ``Buffer.mend``."""
        await self._buffer.mend(self.log(partition))

    def reads_fail(self, partition: int) -> bool:
        """Return whether reads of a partition fail; see ``ReadHolds``."""
        return self._buffer.read_hold(partition) is not None

    def damaged(self, partition: int, entry: Entry) -> None:
        """Quarantine a page that is missing or corrupt, if it is still in the log."""
        log = self.log(partition)
        live = entry.base >= log.head.earliest and log.gap_at(entry.base) is None
        if live:
            _log.error(
                "page was quarantined sink=%s partition=%d first=%d end=%d; inspect it with `forebay quarantine list`",
                *(self._buffer.name, partition, entry.base, entry.end),
            )
            self._buffer.drop(partition, [entry], DropReason.CORRUPT)

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

    def let_time_pass(self) -> None:
        """Process what is due: deadlines, leases of sets and handovers."""
        now = self.now()
        self.leasing.sweep()
        self.owners.end_hung(now)
        for partition, lane in enumerate(self.lanes):
            consumer = self.owners.of(partition)
            if consumer is not None:
                consumer.spare(lane, now)
            if lane.owner is not None:
                revocation = lane.expire(now, self._services.clock.random())
                if revocation is not None:
                    self._revoked(partition, revocation)
                    self.failed_in(partition, "the deadline passed without an answer")
        self.owners.let_time_pass(now)

    def failed_in(self, partition: int, why: str) -> None:
        """Write the attempts that failed by a time-out, and look for exhausted records."""
        self.save(partition)
        self._services.instruments.failed(self._buffer.name, self.name, "deadline")
        self.dead_letters.look_for_exhausted(partition, why)
        self.wake(partition)

    # -- answers

    def lane(self, partition: int) -> Lane:
        """The lane of a partition; raises ``InvalidPartition``."""
        if not 0 <= partition < len(self.lanes):
            raise InvalidPartition(partition, len(self.lanes))
        return self.lanes[partition]

    def ack(
        self, partition: int, answer: Answer, ranges: Sequence[Range], *, until: bool = False
    ) -> Awaitable[Results]:
        """Settle ranges. The result is available when the batch that carries it is durable."""
        lane = self.lane(partition)
        self._heard(lane, answer.owner_epoch)
        now, end = self.now(), self.log(partition).tail.next_offset
        before = lane.cursor.acked
        if until:
            found = [result for asked in ranges for result in lane.settle_until(answer, asked, now, end)]
        else:
            found = lane.settle_all(answer, ranges, Settlement.ACKED, now, end)
        results = tuple((partition, part, outcome) for part, outcome in found)
        settled = lane.cursor.acked - before
        if settled:
            self.count_acked(partition, settled)
            self._buffer.trim_soon(partition)
        return self._answered(partition, results, changed=settled > 0)

    def retry(
        self,
        partition: int,
        answer: Answer,
        ranges: Sequence[Range],
        *,
        delay_s: float | None,
        reason: str,
        judged: Judged | None = None,
    ) -> Awaitable[Results]:
        """Reject records for redelivery. ``judged`` is an earlier judgement of the same answer and ranges."""
        return self._nack(partition, answer, ranges, delay_s=delay_s, reason=reason or "nack", judged=judged)

    async def judged(self, partition: int, answer: Answer, ranges: Sequence[Range], slices: Slices) -> Judged:
        """Judge an answer while other tasks run: for thousands of ranges that are applied at once."""
        lane = self.lane(partition)
        state, results = lane.answer_state, []
        for asked in ranges:
            results += lane.judged(answer, asked)
            await slices.turn()
        return Judged(state, results)

    def reject(self, partition: int, answer: Answer, ranges: Sequence[Range], *, reason: str) -> Awaitable[Results]:
        """Move records that the target will never accept to the dead-letter sink.

        Without one the sink is paused, and they stay pending; in a dead-letter sink they are redelivered.
        """
        lane = self.lane(partition)
        if self.dead_letters.at_the_end:
            return self._nack(partition, answer, ranges, delay_s=None, reason=reason)
        if self.dead_letters.enabled:
            self._heard(lane, answer.owner_epoch)
            return self.dead_letters.reject(partition, answer, ranges, reason)
        before = lane.revision
        done = self._nack(partition, answer, ranges, delay_s=0.0, reason=reason)
        if lane.revision != before:
            first = ranges[0].first
            self._buffer.stop(
                f"REJECTED_BY_TARGET: partition {partition}, offset {first}: {reason or 'no reason given'}"
            )
        return done

    def discard(self, partition: int, answer: Answer, ranges: Sequence[Range], *, reason: str) -> Awaitable[Results]:
        """Settle rejected records as dropped, with a gap of this subscription only."""
        lane, log = self.lane(partition), self.log(partition)
        self._heard(lane, answer.owner_epoch)
        now, end = self.now(), log.tail.next_offset
        found = lane.settle_all(answer, ranges, Settlement.DROPPED, now, end)
        results = tuple((partition, part, outcome) for part, outcome in found)
        dropped = [part for part, outcome in found if outcome is Outcome.OK]
        if not dropped:
            return self._answered(partition, results, changed=False)
        lane.take_settled_ages()
        at_us, sink = self._services.clock.wall_us(), self._buffer.record.id
        gone, made = log.reject(
            self.name, dropped, settled_to=lane.cursor.watermark, at_us=at_us, detail=reason[:DETAIL_MAX]
        )
        writes: list[Write] = [DropGap(sink, partition, gap.first, self.name) for gap in gone]
        writes += [PutGap(sink, partition, gap) for gap in made]
        answered = self._answered(
            partition,
            results,
            changed=True,
            writes=[*writes, PutHead(sink, partition, log.head), *self._buffer.tier.beside_head(log)],
        )
        self.count_settled(partition, "dropped", sum(part.size for part in dropped))
        self._buffer.told_when_durable(partition, DropReason.REJECTED_BY_TARGET, dropped, self._saves[partition])
        self._buffer.trim_soon(partition)
        return answered

    def _nack(
        self,
        partition: int,
        answer: Answer,
        ranges: Sequence[Range],
        *,
        delay_s: float | None,
        reason: str,
        judged: Judged | None = None,
    ) -> Awaitable[Results]:
        lane = self.lane(partition)
        self._heard(lane, answer.owner_epoch)
        found, revocation = lane.nack(
            *(answer, ranges, self.now()),
            delay_s=delay_s,
            random=self._services.clock.random(),
            reason=reason,
            judged=judged,
        )
        if revocation is not None:
            self._services.instruments.failed(self._buffer.name, self.name, "nack")
            first = min(asked.first for asked in ranges)
            settled = Range(first, revocation.first)
            if revocation.to_be_told and settled.size > 0 and next(lane.view.unsettled(settled), None) is None:
                # The consumer does not know that these are settled: it expects a revocation from its first nack.
                revocation = replace(revocation, first=first)
            self._revoked(partition, revocation)
        results = tuple((partition, part, outcome) for part, outcome in found)
        answered = self._answered(partition, results, changed=revocation is not None)
        if revocation is not None:
            self.dead_letters.look_for_exhausted(partition, reason)
        return answered

    async def _wait(self, partition: int, results: Results, written: asyncio.Future[None] | None) -> Results:
        if written is not None:
            await written
        return await self.dead_letters.join(partition, results)

    def _answered(
        self, partition: int, results: Results, *, changed: bool, writes: Sequence[Write] = ()
    ) -> Awaitable[Results]:
        self.owners.balance_if_idle(partition)
        if changed:
            self.wake(partition)
            return asyncio.ensure_future(self._wait(partition, results, self.save(partition, writes)))
        if self.lanes[partition].moving:
            return asyncio.ensure_future(self._wait(partition, results, None))
        done: asyncio.Future[Results] = asyncio.get_running_loop().create_future()
        done.set_result(results)
        return done

    def touched(self, partition: int) -> None:
        """Note that records left flight: there may be room for more, or a handover is possible."""
        self.owners.balance_if_idle(partition)
        self.wake(partition)

    def revoke(self, partition: int, revocation: Revocation) -> None:
        """Revoke records that were answered: they are redelivered."""
        self.save(partition)
        self._revoked(partition, revocation)
        self._services.instruments.failed(self._buffer.name, self.name, "nack")

    def extend(self, partition: int, owner_epoch: int, ranges: Sequence[Range] = ()) -> bool:
        """Restart the deadline of a partition; in RELAXED order those of ``ranges``, or all."""
        lane = self.lane(partition)
        self._heard(lane, owner_epoch)
        return lane.extend(owner_epoch, self.now(), ranges)

    def _heard(self, lane: Lane, owner_epoch: int) -> None:
        """Note that the owner is alive: one that pulls keeps its lease."""
        if lane.owner is not None and lane.owner_epoch == owner_epoch:
            self.pullers.heard_of(lane.owner)

    # -- changes of the sink

    def seek(self, partition: int, offset: int) -> asyncio.Future[None]:
        """Move one partition to ``offset``; done when it is durable."""
        moved = self._services.committer.write(self.move(partition, offset))
        self.saving(partition, moved)
        return moved

    def move(self, partition: int, offset: int) -> list[Write]:
        """Close the account and open a new one at ``offset``; returns the writes of one batch.

        Everything in flight is void, and late answers to it settle nothing.
        """
        lane, log = self.lanes[partition], self.log(partition)
        end, cursor = log.tail.next_offset, lane.cursor
        gone = Settlement.ACKED if self.dead_letters.at_the_end else Settlement.DEAD_LETTERED
        for part in lane.moving.fixed:  # these can no longer be stopped
            cursor, records = cursor.settle(part, gone)
            self.count_settled(partition, gone.value, records)
        self.count_settled(partition, "skipped", cursor.pending(end))
        totals = self._totals[partition] = self.totals_of(partition).closed(cursor, end)
        revocation = lane.seek(offset, end)
        missing = [Range(max(gap.first, offset), gap.end) for gap in log.gaps_from(offset)]
        self.drop(partition, missing, self.now())
        self._revoked(partition, revocation)
        self.wake(partition)
        if self.owners.moving(partition):
            self.owners.balance()
        sink = self._buffer.record.id
        vanished, made = log.rejections.take_back(self.name, offset)
        writes: list[Write] = [DropGap(sink, partition, gap.first, self.name) for gap in vanished]
        writes += [PutGap(sink, partition, gap) for gap in made]
        return [*writes, self.cursor_write(partition), PutTotals(sink, self.name, partition, totals)]

    def settle_below(self, partition: int, end: int) -> int:
        """Settle as acked every unsettled record below ``end``, while the partition has no owner.

        Returns the number of records.
        """
        lane = self.lanes[partition]
        acked = lane.settle_below(end, self.now(), self.log(partition).tail.next_offset)
        if acked:
            self.count_settled(partition, "acked", acked)
            self.dead_letters.breaker.acked(acked)
        return acked

    def totals_of(self, partition: int) -> Totals:
        """Return the totals of the accounts that were closed in a partition."""
        return self._totals.get(partition, Totals())

    def account(self, partition: int) -> int:
        """Return the number of the account in a partition; rises with each seek, unique to the incarnation."""
        begin = 0 if self.name == DEFAULT_SUBSCRIPTION else int(self.record.incarnation[:ACCOUNT_DIGITS], 16)
        return begin + self.totals_of(partition).seeks

    def recall(self, partition: int, totals: Totals) -> None:
        """Load the totals that a start found."""
        self._totals[partition] = totals

    def grow(self, lanes: Sequence[Lane]) -> None:
        """Add the lanes of new partitions, and balance them over the consumers."""
        for lane in lanes:
            self._partition[id(lane)] = len(self.lanes)
            self.lanes.append(lane)
        self.owners.balance()

    def end(self, why: Exception) -> None:
        """End the subscription after its deletion: its consumers end with ``why``, and no write follows."""
        self.deleted = True
        self.owners.end(why)
        self.dead_letters.close()

    def drop(self, partition: int, dropped: Sequence[Range], now: float) -> None:
        """Settle records that were dropped from the sink. The ranges are disjoint and sorted."""
        records = self.lanes[partition].drop(dropped, now, self.log(partition).tail.next_offset)
        self.count_settled(partition, "dropped", records)

    def count_acked(self, partition: int, records: int) -> None:
        """Count acked records, and the time that their pages were stored."""
        self.count_settled(partition, "acked", records)
        self.dead_letters.breaker.acked(records)
        age_now_us = self._services.age.now_us()
        seconds = [(age_now_us - age_us) / SECOND_US for age_us in self.lanes[partition].take_settled_ages()]
        self._services.instruments.resided(self._buffer.name, self.name, seconds)

    def count_settled(self, partition: int, outcome: str, records: int) -> None:
        if records:
            self._services.instruments.settled(self._buffer.name, self.name, partition, outcome, records)

    def bases_in_flight(self, partition: int) -> set[int]:
        """Return the base offsets of the pages in flight."""
        return self.lanes[partition].pages_in_flight()

    def hold(self, partition: int) -> None:
        """Void everything in flight for a purge, and send nothing until ``let_go``."""
        lane = self.lanes[partition]
        if not lane.held or not lane.idle:
            lane.held = True
            revocation = lane.purge()
            self._revoked(partition, revocation)

    def let_go(self, partition: int) -> None:
        """End the hold of a purge."""
        self.lanes[partition].held = False
        if self.owners.moving(partition):
            self.owners.balance()
        self.wake(partition)

    def pause(self, reason: str) -> None:
        """Stop sending; records in flight are redelivered after ``resume``."""
        for partition, lane in enumerate(self.lanes):
            revocation = lane.pause(reason)
            if revocation is not None:
                self._revoked(partition, revocation)

    def resume(self) -> None:
        """Resume sending."""
        self.dead_letters.breaker.close()
        for partition, lane in enumerate(self.lanes):
            lane.resend.resume()
            self.wake(partition)

    def change(self, settings: SinkSettings) -> None:
        """Apply new settings of the sink; another order revokes everything in flight."""
        for partition, lane in enumerate(self.lanes):
            revocation = lane.change(settings)
            if revocation is not None:
                self._revoked(partition, revocation)
            self.wake(partition)

    def wake(self, partition: int, *, new_page: bool = False) -> None:
        """Wake the owner of a partition after a change."""
        lane = self.lanes[partition]
        if new_page:
            lane.resend.new_page(self.now())
        consumer = self.owners.of(partition)
        if consumer is not None:
            consumer.wakeup.set()

    def save(self, partition: int, writes: Sequence[Write] = ()) -> asyncio.Future[None]:
        """Write the cursor, and the decisions that belong to it; done when it is durable."""
        if self.deleted:
            nothing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            nothing.set_result(None)
            return nothing
        saved = self._services.committer.write([self.cursor_write(partition), *writes])
        self.saving(partition, saved)
        return saved

    def saving(self, partition: int, saved: asyncio.Future[None]) -> None:
        """Note a pending write of a partition's cursor."""
        self._saves[partition] = saved

    def unsaved(self) -> list[asyncio.Future[None]]:
        """Return the last pending write of each partition: earlier ones become durable with it."""
        return [saved for saved in self._saves.values() if not saved.done()]

    def cursor_write(self, partition: int) -> PutCursor:
        """Return the write of the current cursor."""
        return PutCursor(self._buffer.record.id, self.name, partition, self._cursor(partition))

    def _cursor(self, partition: int) -> Cursor:
        return self.lanes[partition].stored

    def _revoked(self, partition: int, revocation: Revocation) -> None:
        consumer = self.owners.of(partition)
        if consumer is not None:
            if revocation.to_be_told:
                consumer.emit(Revoked(partition, revocation.first, revocation.revision))
            consumer.wakeup.set()
