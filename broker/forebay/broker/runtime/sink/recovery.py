"""Recovery of sinks that may have lost records: at a start, before the first call, and durable.

Partitions continue where no reader can have been, missing records become a gap, and volatile sinks are wiped. All of it
is written before the first call is served, so a crash in between repeats it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from forebay.broker.core.epochs.values import StoredEpochs
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import Gap
from forebay.broker.core.partition.reservation import Held, Reserve, highest, restart
from forebay.broker.core.partition.retention import Marks
from forebay.broker.core.settings import BufferMode, SinkSettings
from forebay.broker.core.writes import (
    DropEntry,
    Due,
    PutCursor,
    PutDue,
    PutGap,
    PutHead,
    PutHeld,
    PutReserve,
    PutTail,
    SchemaRecord,
    SinkRecord,
    SubscriptionRecord,
    Write,
)
from forebay.broker.runtime.commit.runs import due_runs
from forebay.broker.runtime.commit.store import Journal
from forebay.broker.runtime.delivery.marks import DeliveryMarks, lane_name

_log: Final = logging.getLogger(__name__)
WIPED_PAGES: Final = 1_000
"""Index entries removed in one batch."""


class RepairableSink(Protocol):
    """State of a sink that a start may have to repair."""

    @property
    def record(self) -> SinkRecord: ...
    @property
    def tails(self) -> Mapping[int, Tail]: ...
    @property
    def heads(self) -> Mapping[int, Head]: ...
    @property
    def gaps(self) -> Mapping[int, Sequence[Gap]]: ...
    @property
    def cursors(self) -> Mapping[tuple[str, int], Cursor]: ...
    @property
    def reserves(self) -> Mapping[int, Reserve]: ...
    @property
    def held(self) -> Mapping[int, tuple[Held, ...]]: ...


@dataclass(slots=True)
class RecoveredSink:
    """State of a sink after recovery, and the writes for it."""

    tails: dict[int, Tail]
    heads: dict[int, Head]
    gaps: dict[int, list[Gap]]
    cursors: dict[tuple[str, int], Cursor]
    reserves: dict[int, Reserve]
    writes: list[Write] = field(default_factory=list)
    due: list[Due] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """State of a sink that a start found, beside its record and its logs; empty for a new sink."""

    cursors: Mapping[tuple[str, int], Cursor] = field(default_factory=dict)
    subscriptions: Sequence[SubscriptionRecord] = ()
    totals: Mapping[tuple[str, int], Totals] = field(default_factory=dict)
    marks: Mapping[int, Marks] = field(default_factory=dict)
    reserves: Mapping[int, Reserve] = field(default_factory=dict)
    epochs: StoredEpochs = field(default_factory=lambda: StoredEpochs((), (), {}))
    schemas: Sequence[SchemaRecord] = ()


class SinkRecovery:
    """Recovery of one start: the state that the last process left, as far as its counts show."""

    def __init__(self, journal: Journal, accepted: tuple[int, ...] | None, marks: DeliveryMarks, *, at_us: int) -> None:
        """``accepted`` holds the counts by slot after a kill, None otherwise."""
        self._marks = marks
        self._journal = journal
        self._accepted = accepted
        self._at_us = at_us

    def recover(
        self, stored: RepairableSink, settings: SinkSettings, subscriptions: Mapping[str, int]
    ) -> RecoveredSink:
        """Return the recovered state of a sink, and write it. Blocks. Raises ``StoreFenced``.

        ``subscriptions`` holds the creation times by name.
        """
        standing = RecoveredSink(
            dict(stored.tails),
            dict(stored.heads),
            {partition: list(gaps) for partition, gaps in stored.gaps.items()},
            dict(stored.cursors),
            dict(stored.reserves),
        )
        names = list(subscriptions)
        for partition in range(settings.partitions):
            self._recover(stored, settings, names, partition, standing)
        if not self._marks.none_found:
            for partition in range(settings.partitions):
                self._mark_delivered(stored, subscriptions, partition, standing)
        if standing.writes:
            self._journal.commit([], standing.writes)
        return standing

    def _recover(
        self, stored: RepairableSink, settings: SinkSettings, names: list[str], partition: int, standing: RecoveredSink
    ) -> None:
        sink = stored.record.id
        tail, head = stored.tails.get(partition, Tail()), stored.heads.get(partition, Head())
        held = stored.held.get(partition, ())
        cursors = {name: stored.cursors.get((name, partition), Cursor()) for name in names}
        reserve = stored.reserves.get(partition, Reserve(tail.next_offset))
        wiped = settings.volatile and (head.earliest < tail.next_offset or reserve.end > tail.next_offset)
        if reserve.end <= tail.next_offset >= highest(cursors.values()) and not held and not wiped:
            return
        if wiped:
            self._wipe(sink, partition, head.earliest, tail.next_offset, standing)
        found = restart(
            tail,
            head,
            stored.gaps.get(partition, ()),
            cursors,
            reserve=reserve,
            held=held,
            accepted=self._accepted_of(settings, tail, reserve),
            wiped=wiped,
            at_us=self._at_us,
        )
        standing.tails[partition], standing.heads[partition] = found.tail, found.head
        standing.gaps.setdefault(partition, []).extend(found.gaps)
        standing.gaps[partition].sort(key=lambda gap: gap.first)
        writes: list[Write] = [PutTail(sink, partition, found.tail), PutHead(sink, partition, found.head)]
        writes += [PutGap(sink, partition, gap) for gap in found.gaps]
        for name, cursor in found.cursors.items():
            if cursor != cursors[name]:
                standing.cursors[name, partition] = cursor
                writes.append(PutCursor(sink, name, partition, cursor))
        writes.append(PutHeld(sink, partition, ()))
        if partition in stored.reserves:
            standing.reserves[partition] = Reserve(found.tail.next_offset, reserve.slot)
            writes.append(PutReserve(sink, partition, standing.reserves[partition]))
        standing.writes += writes
        if found.gaps:
            last = found.gaps[-1]
            about = "at most" if last.at_most else "exactly"
            place = (stored.record.name, partition, last.reason.name, about, found.lost, found.gaps[0].first, last.end)
            _log.warning("records are lost sink=%s partition=%d reason=%s %s=%d first=%d end=%d", *place)

    def _mark_delivered(
        self, stored: RepairableSink, subscriptions: Mapping[str, int], partition: int, standing: RecoveredSink
    ) -> None:
        """Mark records as possibly delivered before; with unknown marks, all unsettled ones."""
        sink, end = stored.record.id, standing.tails.get(partition, Tail()).next_offset
        for name, made_at_us in subscriptions.items():
            cursor = standing.cursors.get((name, partition), Cursor())
            if cursor.sent >= end or (cursor.watermark >= end and not self._marks.known):
                continue
            sent = self._marks.delivered(lane_name(sink, name, made_at_us, partition), end)
            if sent > cursor.sent:
                standing.cursors[name, partition] = moved = replace(cursor, sent=sent)
                standing.writes.append(PutCursor(sink, name, partition, moved))

    def _accepted_of(self, settings: SinkSettings, tail: Tail, reserve: Reserve) -> int | None:
        """Return the offset after the last accepted record; None if unknown."""
        if self._accepted is None:
            return None
        if reserve.slot is not None:
            return self._accepted[reserve.slot] if reserve.slot < len(self._accepted) else None
        return tail.next_offset if settings.buffer_mode == BufferMode.DISK else None

    def _wipe(self, sink: int, partition: int, first: int, end: int, standing: RecoveredSink) -> None:
        """Delete all index entries, so that none names a page; the counters follow last."""
        while entries := self._journal.entries(sink, partition, first, end, WIPED_PAGES):
            due = due_runs(sink, partition, entries)
            writes: list[Write] = [DropEntry(sink, partition, entry.base) for entry in entries]
            self._journal.commit([], [*writes, *(PutDue(item) for item in due)])
            standing.due += due
            first = entries[-1].end
