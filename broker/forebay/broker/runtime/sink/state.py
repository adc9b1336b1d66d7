"""State of one running sink, as its parts share it: data that knows no part.

All of it is changed on the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.broker.core.delivery.lane import Lane
from forebay.broker.core.errors import SinkNotFound
from forebay.broker.core.partition.log import LiveUsage, PartitionLog
from forebay.broker.core.partition.pages import Entry
from forebay.broker.core.partition.ranges import Range, RangeSet, union
from forebay.broker.core.publish.limits import demand
from forebay.broker.core.resources.rate import RecentRate
from forebay.broker.core.settings import SinkSettings
from forebay.broker.core.writes import SinkRecord
from forebay.broker.runtime.clock import AgeClock, Clock
from forebay.broker.runtime.commit.durable import Durable
from forebay.broker.runtime.commit.pulse import Pulse

FULL_S: Final = 10.0
"""Time for which a sink counts as full after the last append without room."""


@dataclass(slots=True)
class Staged:
    """Staged records and their bytes, including pending ones."""

    records: int = 0
    size: int = 0

    @property
    def usage(self) -> tuple[int, int]:
        """Records and bytes."""
        return self.records, self.size


class Sink:
    """Record, logs, lanes, flags and clocks of one sink."""

    def __init__(self, record: SinkRecord, logs: Iterable[PartitionLog], clock: Clock, age: AgeClock) -> None:
        self.record = record
        self.logs: list[PartitionLog] = []
        self.live = LiveUsage()
        """Records and bytes of all logs."""
        self.add_logs(logs)
        self.lanes: dict[str, Sequence[Lane]] = {}
        """Lanes of each subscription, one per partition."""
        self.staged = Staged()
        self.clock = clock
        self.age = age
        """The broker's own clock: ages of pages, and retention."""
        self.draining = False
        """True while the broker stops: nothing new is accepted."""
        self.deleted = False
        self.gone = asyncio.Event()
        """Set when the sink is deleted."""
        self.created: asyncio.Future[None] = Durable()
        """Done when the sink's creation is durable."""
        self.created.set_result(None)
        self.changed = Pulse()
        """Fires when pages are added or removed."""
        self.appended = RecentRate()
        """Records that became part of the sink lately."""
        self._limited_at: float | None = None
        """Last time that an append was rejected, or pages were dropped for it, because of a limit of the sink."""
        self._share_at_rejection: float | None = None
        """Used share of the limits at the last rejection; None without one, or if pages were dropped since."""
        self.admission = asyncio.Lock()
        """Held by the append that waits for room; the others queue behind it in order."""

    @property
    def id(self) -> int:
        return self.record.id

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def settings(self) -> SinkSettings:
        return self.record.settings

    @property
    def is_empty(self) -> bool:
        """True if it has no page, not even a staged one."""
        return not self.live.records and not self.staged.records

    def add_logs(self, logs: Iterable[PartitionLog]) -> None:
        """Add partitions."""
        for log in logs:
            log.count_for(self.live)
            self.logs.append(log)

    def now(self) -> float:
        """Return monotonic seconds."""
        return self.clock.monotonic()

    @property
    def limit_used(self) -> float:
        """Share of the limits that is used, of the one that is used most."""
        return demand(self.settings, self.live, self.staged.usage, 0, 0).share(self.settings)

    @property
    def full(self) -> bool:
        """True if there was no room for an append lately, or nothing has changed since one was rejected."""
        if self._limited_at is None:
            return False
        if self.now() - self._limited_at < FULL_S:
            return True
        return self.limit_used == self._share_at_rejection  # higher if a smaller append was accepted since

    def note_limit(self, *, rejected: bool) -> None:
        """Note that an append was rejected because of a limit of the sink, or that pages were dropped for it."""
        self._limited_at = self.now()
        self._share_at_rejection = self.limit_used if rejected else None

    def end(self) -> None:
        """Mark the sink as deleted."""
        self.deleted = True
        self.gone.set()

    def check_alive(self) -> None:
        """Raise ``SinkNotFound`` if the sink was deleted: nothing is queued for it any more."""
        if self.deleted:
            raise SinkNotFound(self.name)

    def settled(self, log: PartitionLog) -> int:
        """Return the offset below which every subscription has settled a partition."""
        return min(lanes[log.number].cursor.watermark for lanes in self.lanes.values())

    def is_settled(self, partition: int, entry: Entry) -> bool:
        """Return whether every subscription has settled all records of a page."""
        within = Range(entry.base, entry.end)
        cursors = (lanes[partition].cursor for lanes in self.lanes.values())
        return all(next(cursor.unsettled(within), None) is None for cursor in cursors)

    def unsettled(self, partition: int, within: RangeSet) -> RangeSet:
        """Return the records that a subscription has not settled."""
        cursors = [lanes[partition].cursor for lanes in self.lanes.values()]
        return union(*([part for each in within for part in cursor.unsettled(each)] for cursor in cursors))

    def in_flight(self, partition: int) -> set[int]:
        """Return the base offsets of the pages in flight."""
        found: set[int] = set()
        for lanes in self.lanes.values():
            found |= lanes[partition].pages_in_flight()
        return found

    @property
    def pending(self) -> int:
        """Unsettled records of the subscription that has most of them."""
        return max(
            sum(lane.cursor.pending(log.tail.next_offset) for lane, log in zip(lanes, self.logs, strict=True))
            for lanes in self.lanes.values()
        )
