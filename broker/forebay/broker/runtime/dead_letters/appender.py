"""Appender of dead letters: reads pages of held records, cuts the records out and appends them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final

from forebay.broker.core.dead_letters.letters import RecordCodec
from forebay.broker.core.delivery.lane import Lane
from forebay.broker.core.errors import SinkNotFound
from forebay.broker.core.partition.pages import Body, Entry
from forebay.broker.core.partition.ranges import Range, common
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.group import Append
from forebay.broker.runtime.dead_letters.batch import (
    Holder,
    Page,
    PageMaker,
    Request,
    Target,
    TransferCompanion,
    Withdrawn,
    append_when_room,
    at_partition,
)
from forebay.broker.runtime.delivery.accounts import Accounts
from forebay.broker.runtime.delivery.lanes import Lanes
from forebay.broker.runtime.delivery.ownership import Ownership
from forebay.broker.runtime.delivery.source import Source
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.sink.retention.removal import Removal
from forebay.broker.runtime.sink.schemas import Schemas
from forebay.broker.runtime.sink.state import Sink
from forebay.page.format import PAGE_BYTES_MAX

ENTRIES_MAX: Final = 64
"""Pages read at once."""
KEPT_MAX: Final = 1_024
"""Pages per partition whose body holder is remembered; above it, all are forgotten."""
Appended = tuple[Page, Sink, Append]
"""Page of dead letters that was appended to a sink."""


class Appender:
    """Appends of the dead letters of one subscription."""

    def __init__(
        self,
        lanes: Lanes,
        source: Source,
        accounts: Accounts,
        owners: Ownership,
        *,
        removal: Removal,
        schemas: Schemas,
        committer: Committer,
        pages: Pages,
        codec: RecordCodec,
        target: Callable[[Sink], Target],
    ) -> None:
        """``target`` returns the dead-letter sink of a sink, created on first use."""
        self._lanes = lanes
        self._sink = lanes.sink
        self._source = source
        self._accounts = accounts
        self._owners = owners
        self._removal = removal
        self._schemas = schemas
        self._committer = committer
        self._pages = pages
        self._codec = codec
        self._target = target
        self._kept: dict[int, dict[int, Holder]] = {}
        """Dead letter that holds the body of an uncut page, by partition and first offset of the page."""

    async def append(self, partition: int, requests: Sequence[Request], appends: list[Appended]) -> bool:
        """Append everything that is waiting; returns True if some were withdrawn during it."""
        lane = self._lanes[partition]
        parts = sorted(w for request in requests for part in request.parts for w in lane.transfers.waiting_in(part))
        withdrawn = False
        while parts:
            places, parts = await self._places(partition, parts)
            if not places:
                continue
            lane.transfers.bases |= {entry.base for entry, _ in places}
            for page in await self._cut(partition, places, requests):
                try:
                    appends.append((page, *await self._append(partition, page, lane)))
                except Withdrawn:
                    withdrawn = True
        return withdrawn

    async def _places(self, partition: int, parts: list[Range]) -> tuple[list[tuple[Entry, list[Range]]], list[Range]]:
        """Return the next pages with their wanted records, and the wanted records after them."""
        entries = await self._source.entry_reader(partition).upcoming(parts[0].first)
        if not entries:
            return [], []
        places: list[tuple[Entry, list[Range]]] = []
        size, left = 0, list(parts)
        for entry in entries:
            if not left or len(places) >= ENTRIES_MAX or (places and size + entry.size > PAGE_BYTES_MAX):
                break
            here = list(common(left, Range(entry.base, entry.end)))
            begun = bisect_right(left, entry.end, key=attrgetter("end"))
            left = left[begun:]
            if left and left[0].first < entry.end:
                left[0] = Range(entry.end, left[0].end)
            if here:
                places.append((entry, here))
                size += entry.size
        return places, left

    async def _cut(
        self, partition: int, places: Sequence[tuple[Entry, list[Range]]], requests: Sequence[Request]
    ) -> list[Page]:
        entries = [entry for entry, _ in places]
        bodies = await self._source.all_bodies(partition, entries)
        found: list[tuple[Entry, Body, list[Range]]] = []
        for (entry, wanted), body in zip(places, bodies, strict=True):
            if body is None:
                self._source.damaged(partition, entry)
            else:
                found.append((entry, body, wanted))
        record = self._sink.record
        make = PageMaker(
            self._codec,
            self._schemas.stored,
            self._lanes.name,
            record.name,
            record.incarnation,
            partition,
            requests,
            kept=self._held(partition),
        )
        return await self._pages.decode(make.pages, found)

    async def _append(self, partition: int, page: Page, lane: Lane) -> tuple[Sink, Append]:
        def check() -> None:
            if any(lane.transfers.waiting_in(part) != [part] for part in page.ranges):
                raise Withdrawn
            if not page.relies_on <= self._held(partition):
                raise Withdrawn  # the holder of the body was just purged: one of these has to hold it
            lane.transfers.queue(page.ranges)

        transfer = TransferCompanion(
            self._lanes, self._accounts, self._owners, self._removal, partition=partition, ranges=page.ranges
        )
        while True:
            if self._sink.deleted:
                raise Withdrawn
            target, incoming = self._target(self._sink), page.incoming
            if incoming.partition >= len(target.state.logs):
                incoming = at_partition(incoming, incoming.partition % len(target.state.logs))
            try:
                return target.state, await append_when_room(target, self._committer, incoming, transfer, check)
            except SinkNotFound:
                continue  # the dead-letter sink was just deleted: it is recreated

    def keep_bodies(self, partition: int, page: Page, target: Sink, append: Append) -> None:
        """Remember the holders of page bodies in a durable page: no other dead letter needs these bodies."""
        bodies = {
            base: Holder(target, append.page.partition, append.first + index) for base, index in page.bodies.items()
        }
        kept = self._kept.setdefault(partition, {})
        if len(kept) + len(bodies) > KEPT_MAX:
            kept.clear()
        kept.update(bodies)

    def _held(self, partition: int) -> frozenset[int]:
        """Return the first offsets of pages whose body an existing dead letter holds."""
        kept = {base: holder for base, holder in self._kept.get(partition, {}).items() if holder.is_there}
        self._kept[partition] = kept
        return frozenset(kept)
