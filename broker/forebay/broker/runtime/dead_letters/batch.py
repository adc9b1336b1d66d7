"""Pages of dead letters, and their companion: the cursor of their origin."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from forebay.broker.core.dead_letters.letters import (
    Cut,
    Origin,
    PlainRecord,
    RecordCodec,
    RejectionReason,
    chunks,
    ranges_of,
    to_dead_letter,
    whole_page,
)
from forebay.broker.core.errors import CommitsBehind, InvalidPage, SchemaNotFound
from forebay.broker.core.partition.cursor import Settlement
from forebay.broker.core.partition.pages import Body, Entry, Incoming
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.writes import SchemaRecord, Write
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.group import Append, Companion
from forebay.broker.runtime.delivery.accounts import Accounts
from forebay.broker.runtime.delivery.lanes import DEFAULT_SUBSCRIPTION, Lanes
from forebay.broker.runtime.delivery.ownership import Ownership
from forebay.broker.runtime.sink.retention.removal import Removal
from forebay.broker.runtime.sink.state import Sink


@dataclass(frozen=True, slots=True)
class Page:
    """Page of dead letters."""

    incoming: Incoming
    ranges: list[Range]
    """Records of the origin that it contains."""

    bodies: Mapping[int, int]
    """First offset of each uncut page whose body it holds, and the index of the record that holds it."""

    relies_on: frozenset[int]
    """First offsets of the uncut pages whose body an earlier dead letter holds."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The dead letter that holds the body of an uncut page."""

    sink: Sink
    partition: int
    offset: int

    @property
    def is_there(self) -> bool:
        """True if it was neither purged nor settled, so that other dead letters of the page may need it."""
        lanes = self.sink.lanes[DEFAULT_SUBSCRIPTION]
        return not self.sink.deleted and not lanes[self.partition].view.is_settled(self.offset)


class Withdrawn(Exception):
    """Some of these records were withdrawn from the transfer: determine the records again."""


@dataclass(slots=True)
class Request:
    """Records that were rejected together."""

    parts: Sequence[Range]
    reason: RejectionReason
    error: str
    attempts: dict[int, int]
    """Failed attempts of those records that had failed before."""

    tried: int
    """Attempts that this rejection adds."""

    at_us: int
    done: asyncio.Future[None]
    """Done when all are durably moved, or returned."""

    moved: list[Range] = field(default_factory=list)
    """Moved records, of this request and of those processed with it."""


@dataclass(frozen=True, slots=True)
class PageMaker:
    """Builder of pages of dead letters; used in a read thread."""

    codec: RecordCodec
    schema_of: Callable[[int], SchemaRecord]
    """Returns a version of the schema of the origin."""
    subscription: str
    sink: str
    incarnation: str
    partition: int
    requests: Sequence[Request]
    kept: Collection[int] = ()
    """First offsets of uncut pages whose body an earlier dead letter holds."""

    def pages(self, found: Sequence[tuple[Entry, Body, list[Range]]]) -> list[Page]:
        """Return pages of the records that are wanted of each stored page."""
        spans = sorted(
            ((part, request) for request in self.requests for part in request.parts), key=lambda span: span[0]
        )
        firsts = [part.first for part, _ in spans]
        letters: list[tuple[int, PlainRecord, str]] = []
        bodies: dict[int, int] = {}
        """First offset of an uncut page, by the offset of the record that holds its body."""
        without: dict[int, int] = {}
        """First offset of an uncut page whose body an earlier dead letter holds, by the offset of the record."""
        for entry, body, wanted in found:
            cuts, uncut = self._cuts(entry, body, wanted)
            if uncut and entry.base not in self.kept:
                bodies[cuts[0].offset] = entry.base
            elif uncut:
                without |= {cut.offset: entry.base for cut in cuts}
            for cut in cuts:
                request = spans[bisect_right(firsts, cut.offset) - 1][1]
                origin = Origin(
                    reason=request.reason,
                    error=request.error,
                    attempts=request.attempts.get(cut.offset, 0) + request.tried,
                    subscription=self.subscription,
                    sink=self.sink,
                    incarnation=self.incarnation,
                    partition=self.partition,
                    offset=cut.offset,
                    at_us=request.at_us,
                    traceparent=cut.traceparent,
                )
                letters.append((cut.offset, to_dead_letter(cut.record, origin, uncut or cut.uncut), cut.traceparent))
        return [
            Page(
                page_of(self.codec, chunk, self.partition),
                ranges_of(offset for offset, _, _ in chunk),
                {bodies[offset]: index for index, (offset, _, _) in enumerate(chunk) if offset in bodies},
                frozenset(without[offset] for offset, _, _ in chunk if offset in without),
            )
            for chunk in chunks(letters)
        ]

    def _cuts(self, entry: Entry, body: Body, wanted: Sequence[Range]) -> tuple[list[Cut], str]:
        """Return the wanted records of a page, and the reason if they could not be cut."""
        try:
            return self.codec.cut(entry, body, wanted, self.schema_of), ""
        except (InvalidPage, SchemaNotFound) as cause:
            return whole_page(entry, body, wanted, with_body=entry.base not in self.kept), str(cause)


class TransferCompanion:
    """Companion of a page of dead letters: the cursor of their origin."""

    def __init__(
        self,
        lanes: Lanes,
        accounts: Accounts,
        owners: Ownership,
        removal: Removal,
        *,
        partition: int,
        ranges: Sequence[Range],
    ) -> None:
        self._lanes = lanes
        self._accounts = accounts
        self._owners = owners
        self._removal = removal
        self._partition = partition
        self._ranges = ranges

    def cut(self, first: int) -> Sequence[Write]:
        if self._lanes.sink.deleted or self._lanes.deleted:
            return ()
        self._lanes[self._partition].transfers.seal(self._ranges, Settlement.DEAD_LETTERED)
        return [self._lanes.cursor_write(self._partition)]

    def committed(self) -> None:
        records = self._lanes[self._partition].confirm_transfer(self._ranges, Settlement.DEAD_LETTERED)
        self._accounts.settled(self._partition, "dead_lettered", records)
        self._removal.trim_soon(self._partition)
        self._owners.wake(self._partition)


class Target(Protocol):
    """Sink that pages of the broker are appended to."""

    @property
    def state(self) -> Sink: ...

    async def append_with(self, page: Incoming, companion: Companion, check: Callable[[], None]) -> Append:
        """Admit a page of the broker and queue it with its companion writes, after a last ``check``."""


async def append_when_room(
    target: Target, committer: Committer, page: Incoming, companion: Companion, check: Callable[[], None]
) -> Append:
    """Queue a page of the broker, after a wait while too much waits for its sync. Raises as an append.

    ``check`` is called last, when the page can no longer be rejected.
    """
    while True:
        moment = committer.committed.next()
        try:
            return await target.append_with(page, companion, check)
        except CommitsBehind:
            await moment.wait()


def page_of(codec: RecordCodec, chunk: Sequence[tuple[int, PlainRecord, str]], partition: int) -> Incoming:
    """Return a page of records; it keeps the trace context if all records share it."""
    traces = {trace for _, _, trace in chunk}
    return codec.page([record for _, record, _ in chunk], partition, traces.pop() if len(traces) == 1 else "")


def at_partition(page: Incoming, partition: int) -> Incoming:
    return Incoming(partition, page.encoding, page.record_count, page.crc32, page.body, page.traceparent)
