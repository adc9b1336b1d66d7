"""Pages, their index entries in a partition, and the gaps between them.

A page is one blob of records that the broker does not decode. An entry says where it is stored; a gap says that records
are missing, and why.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from forebay.broker.core.errors import BrokerError, InvalidPage, RecordTooLarge
from forebay.errors.reasons import Reason
from forebay.page.format import PAGE_BYTES_MAX, PAGE_FRAMING_BYTES, PAGE_RECORDS_MAX, Bytes
from forebay.state.numbers import plural

TRACEPARENT_MAX: Final = 128
TRACES_MAX: Final = 16
"""Trace contexts of publishers kept per page; further parts keep offset and time only."""


class Encoding(IntEnum):
    """Encoding of a body; the numbers are those of the wire."""

    RECORDS = 1
    ARROW = 2


class Durability(IntEnum):
    """Durability of a record; the numbers are those of the wire."""

    MEMORY = 1
    PROCESS = 2
    DISK = 3
    REPLICATED = 4


class DropReason(IntEnum):
    """Reason why records were dropped before a consumer settled them; the numbers are those of the wire."""

    OVERFLOW = 1
    CORRUPT = 2
    EXPIRED = 3
    PURGED = 4
    MEMORY_PRESSURE = 5
    CLEANED_AT_STOP = 6
    WIPED_AT_START = 7
    LOST_IN_CRASH = 8
    REJECTED_BY_TARGET = 9
    RESTORED = 10


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes of a page and their CRC-32."""

    crc32: int
    data: Bytes


@dataclass(frozen=True, slots=True)
class PagePart:
    """Part of a page that one publish call brought."""

    first: int
    """Offset of its first record; it ends where the next part begins."""

    accepted_at_us: int
    """Wall clock, microseconds since 1970-01-01 UTC."""

    traceparent: str = ""
    """W3C trace context of the publisher, or empty; set on the first 16 parts of a page only."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """Page as a publisher sends it."""

    partition: int
    encoding: int
    record_count: int
    crc32: int
    body: Bytes
    traceparent: str = ""

    def checked(
        self,
        *,
        record_bytes_max: int,
        count_records: Callable[[Bytes], int],
        count_rows: Callable[[Bytes], int] | None = None,
        crc32: Callable[[Bytes], int] = zlib.crc32,
    ) -> Incoming:
        """Return the page, or raise the first error found in it.

        ``count_records`` raises ValueError for a bad body. ``count_rows`` does the same for ``Encoding.ARROW``; without
        it such pages are rejected. ``crc32`` may be a faster implementation.
        """
        size = len(self.body)
        counts: dict[int, Callable[[Bytes], int] | None] = {
            Encoding.RECORDS: count_records,
            Encoding.ARROW: count_rows,
        }
        count = counts.get(self.encoding)
        if count is None:
            raise InvalidPage(f"encoding {self.encoding} is not known; use 1 (RECORDS) or 2 (ARROW)", field="encoding")
        if not 1 <= self.record_count <= PAGE_RECORDS_MAX:
            raise InvalidPage(
                f"a page holds 1 to {PAGE_RECORDS_MAX} records, not {self.record_count}", field="record_count"
            )
        if self.record_count == 1 and size > record_bytes_max + PAGE_FRAMING_BYTES:
            raise RecordTooLarge(size, record_bytes_max, "a record")
        if self.record_count > 1 and size > PAGE_BYTES_MAX + PAGE_FRAMING_BYTES:
            raise RecordTooLarge(size, PAGE_BYTES_MAX, "a page of more than one record")
        if len(self.traceparent) > TRACEPARENT_MAX or not self.traceparent.isascii():
            raise InvalidPage(f"a traceparent has at most {TRACEPARENT_MAX} ASCII characters", field="traceparent")
        found = crc32(self.body)
        if found != self.crc32:
            raise BrokerError(Reason.PAGE_CORRUPT, stated=f"{self.crc32:08x}", found=f"{found:08x}")
        try:
            counted = count(self.body)
        except ValueError as broken:
            raise InvalidPage(
                f"the body is not a page of {Encoding(self.encoding).name}: {broken}", field="body"
            ) from broken
        if counted != self.record_count:
            held = f"{counted} {plural(counted, 'record')}"
            raise InvalidPage(f"the body holds {held}, stated are {self.record_count}", field="record_count")
        return self


@dataclass(frozen=True, slots=True)
class Entry:
    """Index entry of a stored page: offsets ``[base, end)`` of one partition."""

    base: int
    """Offset of its first record."""

    count: int
    """Number of records."""

    number: int
    """Page number: names the bytes in the store; page numbers do not follow the order of offsets."""

    bulk: bool
    """True if the bytes came in as an ingested file, not through the write-ahead log."""

    size: int
    """Bytes of the body."""

    encoding: int
    """Encoding, as in ``Encoding``."""

    accepted_at_us: int
    """Wall clock when its first record was accepted."""

    age_us: int
    """Accept time on the broker's own clock, which no change of the wall clock moves."""

    bytes_before: int
    """Bytes of bodies appended to the partition before it."""

    pages_before: int
    """Pages appended to the partition before it."""

    parts: tuple[PagePart, ...] = ()
    """Parts that its publishers brought, by offset."""

    @property
    def end(self) -> int:
        return self.base + self.count

    @property
    def traceparent(self) -> str:
        """Trace context of its first publisher; empty without one."""
        return self.parts[0].traceparent if self.parts else ""

    def part_of(self, offset: int) -> PagePart:
        """Return the part that a record came with; of an entry without parts, one that is the whole page."""
        found = bisect_right(self.parts, offset, key=lambda each: each.first) - 1
        return self.parts[found] if found >= 0 else PagePart(self.base, self.accepted_at_us)


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets ``[first, end)`` of one partition that were dropped."""

    first: int
    end: int
    reason: DropReason
    """Newest reason of a merged gap."""

    at_us: int
    """Wall clock of the (last) drop."""

    size: int
    """Bytes of the bodies dropped."""

    pages: int
    """Number of pages dropped."""

    since_us: int | None = None
    """Wall clock of the first drop; None if there was only one."""

    merged: tuple[tuple[int, int], ...] = ()
    """(reason, records) by reason, of a merged gap or of one over settled records.

    Empty if all its offsets have the one ``reason``.
    """

    subscription: str = ""
    """Subscription that dropped the records, which others may still read. Empty: the gap of all."""

    detail: str = ""
    """Error text of the target for the (last) record that it rejected."""

    at_most: bool = False
    """True if it is unknown how many of the offsets had records, perhaps none."""

    @property
    def first_at_us(self) -> int:
        """Wall clock of the first drop."""
        return self.at_us if self.since_us is None else self.since_us

    @property
    def counts(self) -> tuple[tuple[int, int], ...]:
        """(reason, records) dropped, by reason.

        The sum is below the gap's size if records of it had been settled.
        """
        return self.merged or ((int(self.reason), self.end - self.first),)

    @property
    def records(self) -> int:
        """Records dropped."""
        return sum(records for _, records in self.counts)

    @property
    def whole(self) -> bool:
        """True if all its offsets were dropped: no record of it had been settled."""
        return self.records == self.end - self.first

    def counting(self, records: int) -> Gap:
        """Return a gap of one drop with this number of dropped records; the others had been settled."""
        if records == self.end - self.first:
            return self
        return replace(self, since_us=self.at_us, merged=((int(self.reason), records),))

    def cut(self, position: int) -> Gap:
        """Return the gap as seen from ``position``.

        The counts of several reasons stay those of the whole gap; that of one is capped at the size of the part.
        """
        if position <= self.first:
            return self
        if len(self.merged) != 1:
            return replace(self, first=position)
        [(reason, records)] = self.merged
        return replace(self, first=position, merged=((reason, min(records, self.end - position)),))

    def below(self, offset: int) -> Gap:
        """Return the part below ``offset`` of a gap with one reason; its count is capped at its size."""
        [(reason, records)] = self.counts
        room = offset - self.first
        return replace(self, end=offset, merged=((reason, records),) if records < room else ())

    def joined(self, later: Gap) -> Gap:
        """Return one gap in place of this one and the next, between which no record is left."""
        newest = later if later.at_us >= self.at_us else self
        counts = dict(self.counts)
        for reason, records in later.counts:
            counts[reason] = counts.get(reason, 0) + records
        return Gap(
            self.first,
            later.end,
            newest.reason,
            newest.at_us,
            self.size + later.size,
            self.pages + later.pages,
            min(self.first_at_us, later.first_at_us),
            tuple(sorted(counts.items())),
            self.subscription,
            newest.detail,
            self.at_most or later.at_most,
        )
