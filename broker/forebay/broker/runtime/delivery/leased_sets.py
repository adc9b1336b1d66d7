"""Leased sets: the retry queue of one subscription, leased as sets that a holder keeps by name.

The pages of a set are looked up first, slice by slice. The ranges leased from a slice are decided on the loop, by the
current state of the lane. One call at a time leases, so that a repeated call finds the set of the first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from forebay.broker.core.delivery.lane import SettleOutcome
from forebay.broker.core.delivery.leased_sets import HOLDERS_MAX, LeasedPart, Room, Wanted
from forebay.broker.core.errors import BrokerError, SubscriptionNotFound
from forebay.broker.core.partition.pages import Entry
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import Ordering
from forebay.broker.runtime.dead_letters.mover import DeadLetterMover
from forebay.broker.runtime.delivery.accounts import Accounts
from forebay.broker.runtime.delivery.lanes import Lanes
from forebay.broker.runtime.delivery.ownership import Ownership
from forebay.broker.runtime.delivery.source import Source
from forebay.broker.runtime.instruments import Instruments
from forebay.broker.runtime.sink.retention.removal import Removal
from forebay.errors.reasons import Reason

_log: Final = logging.getLogger(__name__)
Results = tuple[tuple[int, Range, SettleOutcome], ...]


class LeasedSets:
    """Leased sets of one subscription, in all its partitions. Used on the loop."""

    def __init__(
        self,
        lanes: Lanes,
        source: Source,
        accounts: Accounts,
        owners: Ownership,
        dead_letters: DeadLetterMover,
        *,
        removal: Removal,
        instruments: Instruments,
    ) -> None:
        self._lanes = lanes
        self._source = source
        self._accounts = accounts
        self._owners = owners
        self._dead_letters = dead_letters
        self._removal = removal
        self._instruments = instruments
        self._taking = asyncio.Lock()
        """Held by the call that leases; another one waits behind it."""
        self._turn = 0
        """Partition to begin with: another one for each set, so that none starves."""
        self._leased: set[int] = set()
        """Partitions with a lease: a sweep checks only these, out of perhaps a thousand."""

    async def lease(self, holder: str, wanted: Wanted, duration_s: float) -> list[LeasedPart]:
        """Extend the set of a holder, or lease one for it; returns its set.

        Raises ``ORDERING_STRICT``, ``TOO_MANY_STREAMS``, ``SinkNotFound``, ``SubscriptionNotFound``, ``StoreFenced``.
        """
        async with self._taking:
            until = self._begin(holder, duration_s)
            if not self._held(holder):
                await self._take(holder, until, wanted)
            return await self._answer(holder)

    async def lease_again(self, holder: str, named: Sequence[LeasedPart], duration_s: float) -> list[LeasedPart]:
        """Extend the set of a holder, and lease the named ranges that are idle; returns its set.

        Ranges that were leased before a seek are not leased again. Raises as ``lease``, and ``InvalidPartition``.
        """
        for part in named:
            self._lanes.checked(part.partition)
        async with self._taking:
            until = self._begin(holder, duration_s)
            for part in named:
                for requested in part.ranges:
                    await self._take_named(holder, until, part, requested)
            return await self._answer(holder)

    async def settle(self, holder: str, parts: Sequence[LeasedPart]) -> Results:
        """Settle the records of a holder in one batch; returns the outcomes when it is durable.

        Raises ``InvalidPartition``, and then nothing was settled, and ``StoreFenced``.
        """
        lanes = [self._lanes.checked(part.partition) for part in parts]
        self.sweep()
        now = self._lanes.now()
        found: list[Results] = []
        touched: list[int] = []
        for part, lane in zip(parts, lanes, strict=True):
            if part.account != self._accounts.number(part.partition):
                found.append(tuple((part.partition, requested, SettleOutcome.STALE) for requested in part.ranges))
                continue
            end, before = self._lanes.log(part.partition).tail.next_offset, lane.cursor.acked
            became = [one for requested in part.ranges for one in lane.settle_leased(holder, requested, now, end)]
            found.append(tuple((part.partition, each, outcome) for each, outcome in became))
            if lane.cursor.acked > before:
                touched.append(part.partition)
                self._accounts.acked(part.partition, lane.cursor.acked - before)
        await self._write(touched)
        joined: list[tuple[int, Range, SettleOutcome]] = []
        for part, results in zip(parts, found, strict=True):
            joined += await self._dead_letters.join(part.partition, results)
        return tuple(joined)

    def release(self, holder: str) -> int:
        """Release the set of a holder without a failed attempt; returns the number of records."""
        records = 0
        for partition, lane in enumerate(self._lanes):
            given = lane.lease_manager.release(holder)
            if given:
                records += sum(part.size for part in given)
                self._owners.wake(partition)
        return records

    def sweep(self) -> None:
        """End the expired leases: their ranges have failed."""
        now = self._lanes.now()
        for partition in sorted(self._leased):
            lane = self._lanes[partition]
            failed = lane.lease_manager.expire_leases(now)
            if not lane.leases.held:
                self._leased.discard(partition)
            if failed:
                records = sum(part.size for part in failed)
                _log.warning(
                    "lease expired sink=%s subscription=%s partition=%d records=%d",
                    *(self._lanes.sink.name, self._lanes.name, partition, records),
                )
                self._dead_letters.failed(partition, "deadline", "the lease expired without an answer")

    # -- inside

    def _begin(self, holder: str, duration_s: float) -> float:
        """Check that a holder may have a set, and extend its set; returns the new expiry."""
        self._check_alive()
        if self._lanes.settings.ordering != Ordering.RELAXED:
            raise BrokerError(Reason.ORDERING_STRICT, sink=self._lanes.sink.name)
        self.sweep()
        holders = {name for lane in self._lanes for name in lane.leases.holders()}
        if holder not in holders and len(holders) >= HOLDERS_MAX:
            raise BrokerError(Reason.TOO_MANY_STREAMS, "holders of sets of one subscription", bound=HOLDERS_MAX)
        until = self._lanes.now() + duration_s
        for lane in self._lanes:
            lane.leases.extend(holder, until)
        return until

    def _check_alive(self) -> None:
        self._lanes.sink.check_alive()
        if self._lanes.deleted:
            raise SubscriptionNotFound(self._lanes.sink.name, self._lanes.name)

    def _held(self, holder: str) -> list[LeasedPart]:
        found: list[LeasedPart] = []
        for partition, lane in enumerate(self._lanes):
            ranges = lane.lease_manager.leased_to(holder)
            if ranges:
                attempts = lane.cursor.attempts_within(ranges)
                found.append(LeasedPart(partition, self._accounts.number(partition), tuple(ranges), attempts))
        return found

    async def _answer(self, holder: str) -> list[LeasedPart]:
        """Return the set of a holder once the failures that it depends on are durable."""
        await self._removal.confirmed()
        self._check_alive()
        return self._held(holder)

    async def _take(self, holder: str, until: float, wanted: Wanted) -> None:
        self._turn += 1
        room, partitions = Room(wanted), len(self._lanes)
        for step in range(partitions):
            if not room.full:
                await self._take_from(holder, until, (step + self._turn) % partitions, room, wanted)

    async def _take_from(self, holder: str, until: float, partition: int, room: Room, wanted: Wanted) -> None:
        lane, reader, at = self._lanes[partition], self._source.entry_reader(partition), 0
        while True:
            now = self._lanes.now()
            first = lane.retry.queue.next_from(at, None if wanted.before_due else now)
            if first is None:
                return
            entries = await reader.upcoming(first)
            queued = [entry for entry in entries if lane.retry.queue.within(_page(entry))]
            if self._source.drop_expired(partition, queued):
                continue
            for entry in queued:
                if not lane.lease_manager.may_lease or not room.fits(entry):
                    return
                self._leased.add(partition)
                taken = lane.lease_manager.lease_due(
                    *(holder, until, _page(entry), now),
                    records_max=room.records,
                    ranges_max=room.ranges,
                    before_due=wanted.before_due,
                    age_us=entry.age_us,
                    traceparent=entry.traceparent,
                )
                room.add(entry, taken)
                self._count(partition, taken)
            if not entries:
                return
            at = entries[-1].end

    async def _take_named(self, holder: str, until: float, part: LeasedPart, requested: Range) -> None:
        partition = part.partition
        lane, reader, at = self._lanes[partition], self._source.entry_reader(partition), requested.first
        while at < requested.end and lane.sender.idle_in(Range(at, requested.end)):
            entries = await reader.upcoming(at)
            wanted = [entry for entry in entries if entry.base < requested.end and lane.sender.idle_in(_page(entry))]
            if self._source.drop_expired(partition, wanted):
                continue
            for entry in wanted:
                if lane.lease_manager.may_lease and part.account == self._accounts.number(partition):
                    self._leased.add(partition)
                    page, now = _page(entry), self._lanes.now()
                    taken = lane.lease_manager.lease_again(
                        *(holder, until, page, requested, now), age_us=entry.age_us, traceparent=entry.traceparent
                    )
                    self._count(partition, taken)
            if not entries:
                return
            at = entries[-1].end

    def _count(self, partition: int, taken: Sequence[Range]) -> None:
        if taken:
            records = sum(part.size for part in taken)
            self._instruments.leased(self._lanes.sink.name, self._lanes.name, partition, records)

    async def _write(self, touched: Sequence[int]) -> None:
        """Write the changed cursors together, and return when they are durable."""
        if not touched:
            return
        written = self._accounts.save_all(touched)
        for partition in touched:
            self._removal.trim_soon(partition)
            self._owners.wake(partition)
        await asyncio.shield(written)


def _page(entry: Entry) -> Range:
    return Range(entry.base, entry.end)
