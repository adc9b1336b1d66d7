"""Accounts of one subscription: what was settled in each partition, and the writes of its cursors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from forebay.broker.core.dead_letters.breaker import Breaker
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.resources.latency import RecentLatency
from forebay.broker.core.resources.rate import RecentRate
from forebay.broker.core.settings import SECOND_US
from forebay.broker.core.writes import PutCursor, PutTotals, Write
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.delivery.events import Delivered
from forebay.broker.runtime.delivery.lanes import DEFAULT_SUBSCRIPTION, Lanes
from forebay.broker.runtime.delivery.marks import DeliveryMarks, LaneName, lane_name
from forebay.broker.runtime.instruments import Instruments

ACCOUNT_DIGITS: Final = 12
"""Hexadecimal digits of an incarnation from which its account numbers start."""
_BY_CONSUMERS: Final = frozenset({"acked", "dead_lettered"})
"""Outcomes that consumers decide."""


class Accounts:
    """Accounts, cursor writes and delivery marks of one subscription. Used on the loop."""

    def __init__(
        self, lanes: Lanes, breaker: Breaker, *, committer: Committer, instruments: Instruments, marks: DeliveryMarks
    ) -> None:
        self._lanes = lanes
        self._breaker = breaker
        self._committer = committer
        self._instruments = instruments
        self._marks = marks
        self.settling = RecentRate()
        """Records that consumers settled lately."""
        self.settled_records = 0
        """Records that consumers settled since the subscription was loaded."""
        self.latency = RecentLatency()
        """Times from sending a page to its last answer."""
        self._saves: dict[int, asyncio.Future[None]] = {}
        self._totals: dict[int, Totals] = {}
        """Totals of closed accounts, by partition."""
        self._lane_names: dict[int, LaneName] = {}
        """Names of the lanes that delivered new records in this run."""

    # -- cursors

    def save(self, partition: int, writes: Sequence[Write] = ()) -> asyncio.Future[None]:
        """Write the cursor, and the decisions that belong to it; done when it is durable."""
        if self._lanes.deleted:
            nothing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            nothing.set_result(None)
            return nothing
        return self.save_all([partition], writes)

    def save_all(self, partitions: Sequence[int], writes: Sequence[Write] = ()) -> asyncio.Future[None]:
        """Write the cursors of partitions in one batch; done when it is durable."""
        cursors = [self._lanes.cursor_write(partition) for partition in partitions]
        return self.note_saved(partitions, self._committer.write([*cursors, *writes]))

    def note_saved(self, partitions: Sequence[int], saved: asyncio.Future[None]) -> asyncio.Future[None]:
        """Note a pending write of the cursors of partitions; returns it."""
        for partition in partitions:
            self._saves[partition] = saved
        return saved

    def unsaved(self) -> list[asyncio.Future[None]]:
        """Return the last pending write of each partition: earlier ones become durable with it."""
        return [saved for saved in self._saves.values() if not saved.done()]

    # -- counts

    def acked(self, partition: int, records: int) -> None:
        """Count acked records, and the times since their pages were stored and sent."""
        self.settled(partition, "acked", records)
        self._breaker.acked(records)
        sink, age_now_us = self._lanes.sink, self._lanes.sink.age.now_us()
        now, settled = self._lanes.now(), self._lanes[partition].pop_settled()
        for page in settled:
            self.latency.add(now - page.sent_at, now)
        pages = [((age_now_us - page.age_us) / SECOND_US, page.traceparent) for page in settled]
        self._instruments.resided(sink.name, self._lanes.name, pages)

    def settled(self, partition: int, outcome: str, records: int) -> None:
        """Count settled records by their outcome."""
        if records:
            if outcome in _BY_CONSUMERS:
                self.settling.add(records, self._lanes.now())
                self.settled_records += records
            self._instruments.settled(self._lanes.sink.name, self._lanes.name, partition, outcome, records)

    def failed(self, why: str) -> None:
        """Count a failed delivery that will be retried: ``nack``, ``deadline`` or ``disconnect``."""
        self._instruments.failed(self._lanes.sink.name, self._lanes.name, why)

    def delivered(self, event: Delivered, redelivered: int, *, is_new: bool) -> None:
        """Count an event put in flight, before it is sent.

        ``redelivered`` of its records were sent before. ``is_new``: the end of the partition's deliveries has moved,
        which is noted where it survives a kill.
        """
        lanes, partition = self._lanes, event.partition
        if is_new:
            name = self._lane_names.get(partition)
            if name is None:
                name = lane_name(lanes.sink.id, lanes.name, lanes.record.created_at_us, partition)
                self._lane_names[partition] = name
            self._marks.note(name, lanes[partition].cursor.sent)
        self._instruments.delivered(lanes.sink.name, lanes.name, event, redelivered, lanes.sink.clock.wall_us())

    # -- totals

    def totals_of(self, partition: int) -> Totals:
        """Return the totals of the accounts that were closed in a partition."""
        return self._totals.get(partition, Totals())

    def load(self, partition: int, totals: Totals) -> None:
        """Load the totals that a start found."""
        self._totals[partition] = totals

    def close(self, partition: int, cursor: Cursor, end: int) -> PutTotals:
        """Close the account of a partition with its last cursor; returns the write of the totals."""
        totals = self._totals[partition] = self.totals_of(partition).closed(cursor, end)
        return PutTotals(self._lanes.sink.id, self._lanes.name, partition, totals)

    def number(self, partition: int) -> int:
        """Return the number of the account in a partition; rises with each seek, unique to the incarnation."""
        record = self._lanes.record
        begin = 0 if record.name == DEFAULT_SUBSCRIPTION else int(record.incarnation[:ACCOUNT_DIGITS], 16)
        return begin + self.totals_of(partition).seeks

    # -- delivery marks

    def remove_marks(self) -> None:
        """Remove the delivery marks after a durable deletion."""
        self._marks.remove(self._lane_names.values())
        self._lane_names = {}

    def delivered_cursors(self) -> list[PutCursor]:
        """Return the cursors of the partitions that delivered new records in this run, for an orderly stop."""
        return [self._lanes.cursor_write(partition) for partition in self._lane_names]
