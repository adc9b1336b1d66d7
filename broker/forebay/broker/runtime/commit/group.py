"""Cutting a group: which waiting appends become durable together, and as what pages.

Where much is waiting, the partitions that have ``SHARE_BYTES`` or more give it to one file, taking turns of
``QUANTUM_BYTES`` until the group is full. Who has less gives it at once, through the log. Small appends of one
partition are joined into one page. Within a partition the order is that of the offsets.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from forebay.broker.core.partition.log import PartitionLog, Tail
from forebay.broker.core.partition.pages import TRACES_MAX, Body, Encoding, Entry, Incoming, Part
from forebay.broker.core.writes import PageWrite, PutEntry, PutSlot, PutTail, Write
from forebay.page.format import PAGE_BYTES_MAX

BULK_BYTES: Final = 4 << 20
"""Waiting in all the shares that could go into a file: less is not worth its two syncs."""
SHARE_BYTES: Final = 1 << 16
"""Of one partition: less would leave holes in the file that are too small to be given back."""
QUANTUM_BYTES: Final = 4 << 20
GROUP_BYTES: Final = 32 << 20
PARTS_MAX: Final = 4_096
"""Appends that are joined into one page: each keeps its own place in the entry."""


class Companion(Protocol):
    """Writes that belong to a page and are made when its group is cut, as everything stands then. On the loop."""

    def cut(self, first: int) -> Sequence[Write]:
        """The page goes with this group, from offset ``first`` on; its writes come after all others of the batch."""

    def committed(self) -> None:
        """The batch is durable, and the page is confirmed; nobody was told yet."""


@dataclass(slots=True)
class Append:
    """One page that waits for its batch."""

    page: Incoming
    first: int
    """Its first offset, given out already."""

    accepted_at_us: int
    age_us: int
    slot: PutSlot | None
    """What its writer will be remembered by."""

    page_records: int
    """Bound in records for a page that is made by joining."""

    done: asyncio.Future[None]
    companion: Companion | None = None
    """What else becomes durable with the page, and not before or without it."""
    fsync: bool = True
    """It is confirmed only when it survives a power loss."""


class Queue(Protocol):
    """What waits for one partition, and what becomes of it: appends to its log, or pages that are only staged."""

    waiting: deque[Append]
    size: int
    """Bytes of the bodies that wait."""

    def fill(self, group: Group, share: Share, next_number: Callable[[], int]) -> None:
        """Give the pages of a share their numbers, and put them and what is written with them into the group."""

    def confirm(self, share: Share) -> PartitionLog | None:
        """The group is durable, and nobody was told yet; returns the log that has grown."""

    def told(self, share: Share) -> None:
        """Those who waited for their appends were told."""


@dataclass(slots=True)
class Lineup:
    """The appends of one partition that wait, in the order of their offsets."""

    sink: int
    log: PartitionLog
    on_commit: Callable[[int, list[Entry]], None]
    """Told, on the loop, which entries of the partition became durable."""

    beside: Callable[[], list[Write]] = list
    """What has to be written with the tail, as of the cut."""

    waiting: deque[Append] = field(default_factory=deque)
    size: int = 0

    def fill(self, group: Group, share: Share, next_number: Callable[[], int]) -> None:
        """Join small appends into pages behind the tail; see ``Queue``."""
        tail = self.log.tail
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
        """The pages stand in the log; see ``Queue``."""
        self.log.confirm(share.tail, share.entries, share.size)
        return self.log

    def told(self, share: Share) -> None:
        """Readers may have the pages; see ``Queue``."""
        self.on_commit(self.log.number, share.entries)


@dataclass(slots=True)
class Share:
    """What one partition gives to a group."""

    lineup: Queue
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
    def fsync(self) -> bool:
        """Somebody waits for more than the operating system."""
        return any(append.fsync for share in self.shares for append in share.appends)


def cut(lineups: Iterable[Queue], next_number: Callable[[], int]) -> Group:
    """Take a group off the lineups and number its pages."""
    waiting = [lineup for lineup in lineups if lineup.waiting]
    large = [lineup.size for lineup in waiting if lineup.size >= SHARE_BYTES]
    filed = sum(large) >= BULK_BYTES
    shares = {id(lineup): Share(lineup, bulk=filed and lineup.size >= SHARE_BYTES) for lineup in waiting}
    total = 0
    small = [share for share in shares.values() if not share.bulk]  # they never wait behind bulk
    turn = deque([*small, *(share for share in shares.values() if share.bulk)])
    while turn and total < GROUP_BYTES:
        share = turn.popleft()
        given = 0
        while share.lineup.waiting and given < QUANTUM_BYTES:
            append = share.lineup.waiting.popleft()
            given += len(append.page.body)
            share.appends.append(append)
        share.size += given
        share.lineup.size -= given
        total += given
        if share.lineup.waiting:
            turn.append(share)
    total += sum(_take_companions(share) for share in shares.values() if share.lineup.waiting)
    taken = [share for share in shares.values() if share.appends]
    group = Group(taken, [], [], total)
    for share in taken:
        share.lineup.fill(group, share, next_number)
    return group


def _take_companions(share: Share) -> int:
    """Take all up to the last append with a companion, however full the group is; returns their bytes.

    Writes without pages go with the next group. Those of a purge or seek after a dead letter would overtake it, and
    after a crash in between the account of its origin would tell of a dead letter that is nowhere.
    """
    waiting = share.lineup.waiting
    count = next((len(waiting) - at for at, each in enumerate(reversed(waiting)) if each.companion is not None), 0)
    appends = [waiting.popleft() for _ in range(count)]
    size = sum(len(append.page.body) for append in appends)
    share.appends += appends
    share.size += size
    share.lineup.size -= size
    return size


def page_of(run: list[Append], tail: Tail, *, number: int, bulk: bool) -> tuple[Entry, Body, Tail]:
    """The page that appends become together behind ``tail``, and the tail behind it."""
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


def _parts(run: list[Append]) -> tuple[Part, ...]:
    """Every append's place; only the first ones keep who published them, as the store does."""
    kept = [Part(a.first, a.accepted_at_us, a.page.traceparent) for a in run[:TRACES_MAX]]
    return (*kept, *(Part(a.first, a.accepted_at_us) for a in run[TRACES_MAX:]))


def _runs(appends: list[Append]) -> Iterable[list[Append]]:
    """Appends that become one page each: neighbours whose records and bytes fit together."""
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
