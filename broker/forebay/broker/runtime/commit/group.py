"""Group: pending appends that become durable together, and their pages.

Under load, partitions with ``SHARE_BYTES`` or more put them into one file, taking turns of ``QUANTUM_BYTES`` until the
group is full. Partitions with less write it at once, through the log. Small appends of one partition are joined into
one page. Within a partition the order is that of the offsets.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from forebay.broker.core.partition.log import PartitionLog, Tail
from forebay.broker.core.partition.pages import TRACES_MAX, Body, Encoding, Entry, Incoming, PagePart
from forebay.broker.core.writes import PageWrite, PutEntry, PutSlot, PutTail, Write
from forebay.page.format import PAGE_BYTES_MAX

BULK_BYTES: Final = 4 << 20
"""Minimum of pending bytes for a bulk file; less is not worth its two syncs."""
SHARE_BYTES: Final = 1 << 16
"""Minimum of bytes of one partition in a bulk file: less would leave holes too small to reclaim."""
QUANTUM_BYTES: Final = 4 << 20
GROUP_BYTES: Final = 32 << 20
PARTS_MAX: Final = 4_096
"""Appends joined into one page: each keeps its own part in the entry."""


class Companion(Protocol):
    """Companion writes of a page, made on the loop when its group is cut."""

    def cut(self, first: int) -> Sequence[Write]:
        """Return the writes for a page that begins at offset ``first``; they follow all others of the batch."""

    def committed(self) -> None:
        """Apply the durable batch: the page is confirmed, and no waiter was notified yet."""


@dataclass(slots=True)
class Append:
    """Page that waits for its batch."""

    page: Incoming
    first: int
    """Its first offset, already assigned."""

    accepted_at_us: int
    age_us: int
    slot: PutSlot | None
    """Slot of the page in its writer's window."""

    page_records: int
    """Bound in records of a page made by joining."""

    done: asyncio.Future[None]
    companion: Companion | None = None
    """Writes that become durable exactly with the page."""
    fsync: bool = True
    """True if it is confirmed only when it survives a power loss."""


class Queue(Protocol):
    """Pending appends of one partition: records of its log, or staged pages."""

    waiting: deque[Append]
    size: int
    """Bytes of the pending bodies."""

    def fill(self, group: Group, share: Share, next_number: Callable[[], int]) -> None:
        """Number the pages of a share, and add them and their writes to the group."""

    def confirm(self, share: Share) -> PartitionLog | None:
        """Apply the durable group before any waiter is notified; returns the log that has grown."""

    def notify_readers(self, share: Share) -> None:
        """Notify the readers of the pages, after the waiters of the appends."""


@dataclass(slots=True)
class AppendQueue:
    """Pending appends of one partition, in the order of their offsets."""

    sink: int
    log: PartitionLog
    on_commit: Callable[[int, list[Entry]], None]
    """Called on the loop with the durable entries of the partition."""

    beside: Callable[[], list[Write]] = list
    """Return the writes beside the tail, as of the cut."""

    waiting: deque[Append] = field(default_factory=deque)
    size: int = 0

    def fill(self, group: Group, share: Share, next_number: Callable[[], int]) -> None:
        """Join small appends into pages after the tail; see ``Queue``."""
        tail = self.log.decided  # earlier groups may be open
        for run in _runs(share.appends):
            entry, body, tail = page_of(run, tail, number=next_number(), bulk=share.bulk)
            share.entries.append(entry)
            group.pages.append(PageWrite(self.sink, self.log.number, entry, body))
            group.writes.append(PutEntry(self.sink, self.log.number, entry))
        share.tail = self.log.decided = tail
        group.writes.append(PutTail(self.sink, self.log.number, tail))
        group.writes.extend(self.beside())
        group.writes.extend(append.slot for append in share.appends if append.slot is not None)
        for append in share.appends:
            if append.companion is not None:
                group.writes.extend(append.companion.cut(append.first))

    def confirm(self, share: Share) -> PartitionLog:
        """Add the pages to the log; see ``Queue``."""
        self.log.confirm(share.tail, share.entries, share.size)
        return self.log

    def notify_readers(self, share: Share) -> None:
        """Notify the readers of the pages; see ``Queue``."""
        self.on_commit(self.log.number, share.entries)


@dataclass(slots=True)
class Share:
    """Share of one partition in a group."""

    queue: Queue
    appends: list[Append] = field(default_factory=list)
    size: int = 0
    bulk: bool = False
    entries: list[Entry] = field(default_factory=list)
    tail: Tail = field(default_factory=Tail)


@dataclass(slots=True)
class Group:
    """Pages and writes that become durable together."""

    shares: list[Share]
    pages: list[PageWrite]
    writes: list[Write]
    size: int

    @property
    def is_bulk(self) -> bool:
        """True if pages of it are in a bulk file."""
        return any(share.bulk for share in self.shares)

    @property
    def fsync(self) -> bool:
        """True if an append requires a sync."""
        return any(append.fsync for share in self.shares for append in share.appends)


def cut(queues: Iterable[Queue], next_number: Callable[[], int], *, after_bulk: bool = False) -> Group:
    """Take a group from the queues and number its pages.

    ``after_bulk`` states that the group before had a bulk file. Then partitions with little have this one to
    themselves: an append of theirs has waited for one such group, and does not wait for a second one.
    """
    waiting = [queue for queue in queues if queue.waiting]
    large = [queue.size for queue in waiting if queue.size >= SHARE_BYTES]
    filed = sum(large) >= BULK_BYTES
    shares = {id(queue): Share(queue, bulk=filed and queue.size >= SHARE_BYTES) for queue in waiting}
    total = 0
    small = [share for share in shares.values() if not share.bulk]  # small shares never wait behind bulk
    turn = deque(small)
    if not (after_bulk and small):
        turn.extend(share for share in shares.values() if share.bulk)
    while turn and total < GROUP_BYTES:
        share = turn.popleft()
        given = 0
        while share.queue.waiting and given < QUANTUM_BYTES:
            append = share.queue.waiting.popleft()
            given += len(append.page.body)
            share.appends.append(append)
        share.size += given
        share.queue.size -= given
        total += given
        if share.queue.waiting:
            turn.append(share)
    total += sum(_take_companions(share) for share in shares.values() if share.queue.waiting)
    taken = [share for share in shares.values() if share.appends]
    group = Group(taken, [], [], total)
    for share in taken:
        share.queue.fill(group, share, next_number)
    return group


def _take_companions(share: Share) -> int:
    """Take everything up to the last append with a companion, even above the bound; returns its bytes.

    Writes without pages are in the next group. Those of a purge or seek after a dead letter would overtake it, and
    after a crash in between the account of its origin would count a dead letter that does not exist.
    """
    waiting = share.queue.waiting
    count = next((len(waiting) - at for at, each in enumerate(reversed(waiting)) if each.companion is not None), 0)
    appends = [waiting.popleft() for _ in range(count)]
    size = sum(len(append.page.body) for append in appends)
    share.appends += appends
    share.size += size
    share.queue.size -= size
    return size


def page_of(run: list[Append], tail: Tail, *, number: int, bulk: bool) -> tuple[Entry, Body, Tail]:
    """Return the page that appends form after ``tail``, and the tail after it."""
    first = run[0]
    if len(run) == 1:
        body = Body(first.page.crc32, first.page.body)
    else:
        data = b"".join(append.page.body for append in run)
        body = Body(zlib.crc32(data), data)
    entry = Entry(
        base=first.first,
        count=sum(append.page.record_count for append in run),
        number=number,
        bulk=bulk,
        size=len(body.data),
        encoding=first.page.encoding,
        accepted_at_us=first.accepted_at_us,
        age_us=first.age_us,
        bytes_before=tail.appended_bytes,
        pages_before=tail.appended_pages,
        parts=_parts(run),
    )
    after = replace(
        tail,
        next_offset=entry.end,
        appended_bytes=tail.appended_bytes + entry.size,
        appended_pages=tail.appended_pages + 1,
        accepted_at_us=run[-1].accepted_at_us,
        age_us=run[-1].age_us,
    )
    return entry, body, after


def _parts(run: list[Append]) -> tuple[PagePart, ...]:
    """Return a part per append; only the first ones keep their trace context, as in the store."""
    kept = [PagePart(a.first, a.accepted_at_us, a.page.traceparent) for a in run[:TRACES_MAX]]
    return (*kept, *(PagePart(a.first, a.accepted_at_us) for a in run[TRACES_MAX:]))


def _runs(appends: list[Append]) -> Iterable[list[Append]]:
    """Yield the appends of one page each: neighbours whose records and bytes fit together."""
    run: list[Append] = []
    records = size = 0
    for append in appends:
        page = append.page
        fits = (
            run
            and page.encoding == run[0].page.encoding == Encoding.RECORDS
            and len(run) < PARTS_MAX
            and records + page.record_count <= append.page_records
            and size + len(page.body) <= PAGE_BYTES_MAX
        )
        if not fits and run:
            yield run
            run, records, size = [], 0, 0
        run.append(append)
        records += page.record_count
        size += len(page.body)
    if run:
        yield run
