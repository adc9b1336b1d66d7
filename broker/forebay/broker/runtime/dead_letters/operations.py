"""Operations on the dead letters of a sink: list, redrive and purge.

Pending dead letters are those that the subscription `default` of the dead-letter sink has not settled. A record that is
redriven is appended to its origin in the batch that settles it here, so it is never lost and never duplicated. Calls
are bounded; each returns the position of the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.broker.core.dead_letters.letters import (
    DeadLetter,
    Filter,
    PlainRecord,
    chunks,
    dead_letter_sink_name,
    from_dead_letter,
    ranges_of,
)
from forebay.broker.core.dead_letters.page_bodies import PageBodies
from forebay.broker.core.errors import (
    BrokerError,
    InvalidPartition,
    OffsetAhead,
    SinkNotFound,
    SubscriptionNotFound,
)
from forebay.broker.core.names import RESERVED_SUFFIX
from forebay.broker.core.partition.pages import Body, Entry
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.writes import SinkRecord
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.commit.group import Append
from forebay.broker.runtime.dead_letters.batch import Withdrawn, append_when_room, page_of
from forebay.broker.runtime.dead_letters.redrive import RedriveCompanion
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.errors.reasons import Reason
from forebay.page.format import PAGE_BYTES_MAX, PAGE_RECORDS_MAX

_log: Final = logging.getLogger(__name__)
LOOKED_AT_MAX: Final = 100_000
"""Records that one call examines; it returns what it found by then."""
ANSWER_BYTES: Final = 4 << 20
"""Bytes of records after which a list ends."""
ENTRIES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Position:
    """Position at which a call continues.

    Records from ``end`` on are not examined, so that redriven records that return are not met again.
    """

    partition: int
    offset: int
    end: int

    def text(self) -> str:
        """Return the text form in a page token."""
        return f"{self.partition}-{self.offset}-{self.end}"

    @classmethod
    def parse(cls, token: str) -> Position:
        """Parse a page token. Raises ``INVALID_PAGE_TOKEN``."""
        numbers = token.split("-")
        if len(numbers) != 3 or not all(n.isascii() and n.isdigit() and len(n) <= 18 for n in numbers):
            raise BrokerError(Reason.INVALID_PAGE_TOKEN, "page_token was not issued by this broker", field="page_token")
        return cls(*(int(number) for number in numbers))


@dataclass(frozen=True, slots=True)
class Step:
    """Dead letters found at one position."""

    letters: Sequence[DeadLetter]
    examined: int
    """Records that were examined."""

    next: Position | None
    """Position of the next step, or None at the end."""


@dataclass(frozen=True, slots=True)
class Done:
    """Result of a call."""

    records: int
    next: Position | None
    """Position of the next call; None at the end."""


class DeadLetterOperations:
    """Dead letters of one sink. Created for one call."""

    def __init__(
        self, broker: Broker, sink: str, incarnation: str = "", *, ends: Mapping[int, int] | None = None
    ) -> None:
        """``sink`` names the origin, or the dead-letter sink; ``incarnation`` is the dead-letter sink's.

        With ``ends`` only their partitions are examined, below these offsets. Raises ``SinkNotFound`` if neither sink
        exists, ``SINK_REPLACED``, ``InvalidPartition``, ``OffsetAhead``.
        """
        self._broker = broker
        self._name = sink.removesuffix(RESERVED_SUFFIX)
        dead = dead_letter_sink_name(self._name)
        self._dead = broker.sink(dead, incarnation) if dead in broker.sinks else None
        if self._dead is None and (incarnation or self._name not in broker.sinks):
            raise SinkNotFound(dead if incarnation else self._name)
        self._ends = dict(ends or {})
        for partition, end in self._ends.items():
            self._check_end(partition, end)

    # -- calls

    async def list(
        self, wanted: Filter, size: int, position: Position | None
    ) -> tuple[list[tuple[int, DeadLetter]], Position | None]:
        """Return up to ``size`` pending dead letters with their partitions, and the next position."""
        found: list[tuple[int, DeadLetter]] = []
        at, looked_at, room = self._begin(wanted, position), 0, ANSWER_BYTES
        while at is not None and looked_at < LOOKED_AT_MAX and len(found) < size and room > 0:
            step = await self._read(at, self._pending, shown=True)
            looked_at += step.examined
            for letter in step.letters:
                if len(found) >= size or room <= 0:
                    return found, Position(at.partition, letter.offset, at.end)
                if wanted.matches(letter):
                    found.append((at.partition, letter))
                    room -= letter.record.size
            at = step.next
        return found, at

    async def redrive(self, wanted: Filter, size: int, position: Position | None) -> Done:
        """Append up to ``size`` dead letters to their origin again, for their original subscription.

        Those that could not be cut out of their page stay: there is no record to append. Those that a consumer of the
        dead-letter sink has in flight stay too. Raises as an append, and ``SubscriptionNotFound``; earlier redriven
        records stay redriven.
        """
        origin = self._broker.sink(self._name)
        at, looked_at, records = self._begin(wanted, position), 0, 0
        while at is not None and looked_at < LOOKED_AT_MAX and records < size:
            step = await self._read(at, self._idle)
            looked_at += step.examined
            chosen = [letter for letter in step.letters if letter.redrivable and wanted.matches(letter)]
            after = step.next
            if len(chosen) > size - records:
                after = Position(at.partition, chosen[size - records].offset, at.end)
                chosen = chosen[: size - records]
            moved, whole = await self._send(origin, at.partition, chosen)
            records += moved
            at = after if whole else at
        if records:
            _log.info("dead letters were redriven sink=%s records=%d", self._name, records)
        return Done(records, at)

    async def purge(self, wanted: Filter, size: int, position: Position | None) -> Done:
        """Skip up to ``size`` dead letters, durably.

        One that holds the body of a page stays while others of that page stay: see ``PageBodies``.
        """
        at, looked_at, records = self._begin(wanted, position), 0, 0
        written: asyncio.Future[None] | None = None
        bodies = PageBodies()
        while at is not None and looked_at < LOOKED_AT_MAX and records + len(bodies) < size:
            step = await self._read(at, self._idle)
            looked_at += step.examined
            chosen: list[int] = []
            after = step.next
            for letter in step.letters:
                if not wanted.matches(letter):
                    bodies.stays(letter)
                elif records + len(bodies) + len(chosen) >= size:
                    after = Position(at.partition, letter.offset, at.end)
                    break
                elif wanted == Filter() or not bodies.hold_back(letter):
                    chosen.append(letter.offset)
            if after is None or after.partition != at.partition:
                chosen = sorted([*chosen, *bodies.free()])
                bodies = PageBodies()
            if chosen:
                skipped, written = self._skip(at.partition, ranges_of(chosen))
                records += skipped
            at = after
        if written is not None:
            await written
            _log.warning("dead letters were purged sink=%s records=%d", self._name, records)
        return Done(records, at)

    # -- reading

    @property
    def record(self) -> SinkRecord | None:
        """Record of the dead-letter sink; None if it does not exist."""
        return None if self._dead is None else self._dead.record

    @property
    def _sink(self) -> Buffer:
        if self._dead is None or self._dead.state.deleted:
            raise SinkNotFound(dead_letter_sink_name(self._name))
        return self._dead

    @property
    def _keeper(self) -> Subscription:
        return self._sink.subscription("")

    def _pending(self, partition: int, within: Range) -> Sequence[Range]:
        return list(self._keeper.lanes[partition].view.unsettled(within))

    def _idle(self, partition: int, within: Range) -> Sequence[Range]:
        return self._keeper.lanes[partition].sender.idle_in(within)

    def _begin(self, wanted: Filter, position: Position | None) -> Position | None:
        if self._dead is None:
            return None
        partitions = len(self._sink.logs)
        if position is None:
            return self._first(0)  # a partition's dead letters may be in several ones, if there were fewer before
        if position.partition >= partitions or position.end > self._sink.logs[position.partition].tail.next_offset:
            raise BrokerError(Reason.INVALID_PAGE_TOKEN, "page_token is of another sink", field="page_token")
        return position

    def _first(self, partition: int) -> Position:
        begin = self._keeper.lanes[partition].cursor.watermark
        end = self._sink.logs[partition].tail.next_offset
        return Position(partition, begin, min(end, self._ends.get(partition, begin)) if self._ends else end)

    def _check_end(self, partition: int, end: int) -> None:
        logs = self._sink.logs
        if partition >= len(logs):
            raise InvalidPartition(partition, len(logs))
        if end > logs[partition].tail.next_offset:
            raise OffsetAhead(end, logs[partition].earliest, logs[partition].tail.next_offset)

    async def _read(self, at: Position, which: Callable[[int, Range], Sequence[Range]], *, shown: bool = False) -> Step:
        """Read the dead letters at a position that ``which`` selects; ``shown`` if only displayed."""
        if at.offset >= at.end:
            return Step((), 0, self._first(at.partition + 1) if at.partition + 1 < len(self._sink.logs) else None)
        keeper, pages = self._keeper, self._broker.pages
        upcoming = await keeper.source.entry_reader(at.partition).upcoming(at.offset)
        entries: list[Entry] = []
        for entry in upcoming[:ENTRIES_MAX]:
            if entry.base >= at.end or (entries and sum(e.size for e in entries) + entry.size > PAGE_BYTES_MAX):
                break
            entries.append(entry)
        if not entries:
            return Step((), 0, Position(at.partition, at.end, at.end))
        bodies = await keeper.source.all_bodies(at.partition, entries)
        found: list[tuple[Entry, Body, Sequence[Range]]] = []
        for entry, body in zip(entries, bodies, strict=True):
            if body is None:
                keeper.source.damaged(at.partition, entry)
            else:
                within = Range(max(at.offset, entry.base), min(at.end, entry.end))
                found.append((entry, body, which(at.partition, within)))
        codec, schema_of = self._broker.codec, self._sink.schemas.stored
        take = pages.show if shown else pages.decode
        letters = await take(lambda: [from_dead_letter(cut) for each in found for cut in codec.cut(*each, schema_of)])
        after = Position(at.partition, entries[-1].end, at.end)
        return Step(letters, sum(entry.count for entry in entries), after)

    # -- settling

    def _skip(self, partition: int, parts: Sequence[Range]) -> tuple[int, asyncio.Future[None]]:
        keeper, lane = self._keeper, self._keeper.lanes[partition]
        records = 0
        for part in parts:
            for idle in lane.sender.idle_in(part):
                lane.skip(idle, keeper.now(), keeper.log(partition).tail.next_offset)
                records += idle.size
        keeper.accounts.settled(partition, "skipped", records)
        self._sink.removal.trim_soon(partition)
        keeper.wake(partition)
        return records, keeper.accounts.save(partition)

    async def _send(self, origin: Buffer, partition: int, letters: Sequence[DeadLetter]) -> tuple[int, bool]:
        """Append dead letters of one partition; returns their number, and False if some were withdrawn."""
        groups: dict[tuple[int, str], list[tuple[int, PlainRecord, str]]] = {}
        for letter in letters:
            assert letter.origin is not None, "a redriven record has an origin"
            place = letter.origin.partition % len(origin.logs), letter.origin.subscription
            groups.setdefault(place, []).append((letter.offset, letter.record, letter.origin.traceparent))
        for _, name in groups:
            if name not in origin.subscriptions:
                raise SubscriptionNotFound(origin.name, name)
        # A page larger than the origin's limits would always be rejected.
        _, origin_max = origin.settings.records_max
        records_max = min(PAGE_RECORDS_MAX, origin_max or PAGE_RECORDS_MAX)
        bytes_max = min(PAGE_BYTES_MAX, origin.settings.max_total_bytes)
        codec, moved, whole = self._broker.codec, 0, True
        appends: list[Append] = []
        try:
            for (target, name), chosen in groups.items():
                for chunk in chunks(chosen, records_max=records_max, bytes_max=bytes_max):
                    page = await self._broker.pages.decode(page_of, codec, chunk, target)
                    ranges = ranges_of(offset for offset, _, _ in chunk)
                    redriven = RedriveCompanion(self._sink, origin, name, partition, target, ranges, len(chunk))
                    try:
                        appends.append(
                            await append_when_room(origin, self._broker.committer, page, redriven, redriven.begin)
                        )
                    except Withdrawn:
                        whole = False
                    else:
                        moved += len(chunk)
        finally:
            for append in appends:
                await append.done
        return moved, whole
