"""Progress of one subscription on one partition: the only owner of its cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forebay.broker.core.dead_letters.transfers import Transfers
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.ranges import Range


class Progress:
    """Cursor of a lane, and the records that are being moved to another sink."""

    __slots__ = ("cursor", "redelivered", "transfers")

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.transfers = Transfers()
        """Records that are being moved to another sink."""
        self.redelivered = 0
        """Records redelivered since this process started."""

    @property
    def view(self) -> Cursor:
        """Cursor for deliveries: records that are being moved to another sink count as settled."""
        return self.transfers.view_of(self.cursor) if self.transfers else self.cursor

    @property
    def stored(self) -> Cursor:
        """Cursor as it is written to the store now."""
        return self.transfers.cursor_to_store(self.cursor) if self.transfers else self.cursor

    @property
    def begin(self) -> int:
        """Offset from which a new owner is sent records and gap notices."""
        return min(self.cursor.watermark, self.cursor.notified)

    def fail(self, *offsets: int) -> None:
        """Count a failed attempt of each record."""
        self.cursor = self.cursor.failed(*offsets)

    def sent(self, ranges: Sequence[Range]) -> None:
        """Record ranges, in order and at least one, that are sent."""
        sent = self.cursor.sent
        self.redelivered += sum(min(part.end, sent) - part.first for part in ranges if part.first < sent)
        if ranges[-1].end > sent:
            self.cursor = replace(self.cursor, sent=ranges[-1].end)

    def note_notified(self, offset: int) -> None:
        """Record that the gap notices below ``offset`` were confirmed."""
        if offset > self.cursor.notified:
            self.cursor = replace(self.cursor, notified=offset)

    def settle(self, parts: Sequence[Range], how: Settlement | None) -> int:
        """Update the account, or hold records for another sink; returns how many of them are new to it."""
        if how is None:
            self.transfers.begin(parts)
            return sum(part.size for part in parts)
        before = self.cursor
        self.cursor, fresh = before.settle_all(parts, how)
        self.transfers.settled(before, self.cursor, parts)
        return fresh

    def settle_confirmed(self, parts: Sequence[Range], how: Settlement) -> int:
        """Settle records whose transfer was confirmed; returns their number."""
        self.cursor, records = self.cursor.settle_all(parts, how)
        return records

    def reopen(self, offset: int, next_offset: int) -> None:
        """Close the account and open a new one at ``offset``."""
        self.transfers.close()
        self.cursor = Cursor(start=offset, watermark=offset, notified=offset, sent=min(self.cursor.sent, next_offset))
