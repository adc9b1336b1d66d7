"""Consumer of one subscription: its credit, its partitions, and the selection of its next delivery.

The pump visits each of its lanes in turn and sends what may be sent. If there is nothing, it sleeps until a new page,
an answer, credit, or the next timer of its lanes wakes it. In RELAXED order a lane has two sources, the log and the
retry queue; the lane decides which is first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.broker.core.delivery.in_flight import InFlight
from forebay.broker.core.delivery.lane import Lane
from forebay.broker.core.delivery.message_builder import MessageBuilder
from forebay.broker.core.delivery.retry_scheduler import DeliverySource
from forebay.broker.core.errors import ReadFailed
from forebay.broker.core.partition.pages import Body, Entry
from forebay.broker.core.partition.ranges import Range
from forebay.broker.runtime.delivery.accounts import Accounts
from forebay.broker.runtime.delivery.events import Delivered, Event, GapMet, Pinged
from forebay.broker.runtime.delivery.lanes import Lanes
from forebay.broker.runtime.delivery.liveness import PINGS_PER_TIMEOUT, StreamLiveness
from forebay.broker.runtime.delivery.source import Source
from forebay.broker.runtime.read.pages import EntryReader
from forebay.broker.runtime.resources.stream_memory import Share

READ_AGAIN_S: Final = (0.5, 1.0, 2.0, 5.0)
"""Delay after each consecutive failed read of a partition; the last one repeats."""
TIMERS_S: Final = 0.1
"""Interval between checks of the timers of a busy consumer."""
UNSENT_BYTES: Final = 8 << 20
"""Bytes that wait for the peer before the next delivery is prepared: eight full pages."""


@dataclass(slots=True)
class Credit:
    """Records and bytes that a consumer accepts in flight."""

    records: int
    size: int


@dataclass(slots=True)
class Unsent:
    """Deliveries buffered until the consumer reads, including revoked ones."""

    records: int = 0
    size: int = 0


class _Room:
    """Memory for the pages of one delivery, released except for the pages that are kept."""

    def __init__(self, memory: Share, entries: Sequence[Entry]) -> None:
        self._memory = memory
        size = sum(entry.size for entry in entries)
        self._taken = memory.reserve(size)
        self._size = size if self._taken else 0

    def __bool__(self) -> bool:
        return self._taken

    def kept(self, event: Event | None) -> Event | None:
        """Keep the memory of a delivery's pages: the sender of the event releases it."""
        if isinstance(event, Delivered):
            self._size -= event.size
        return event

    def __enter__(self) -> _Room:
        return self

    def __exit__(self, *_: object) -> None:
        if self._size:
            self._memory.release_pages(self._size)


class Consumer:
    """One connected consumer. Used on the loop only."""

    def __init__(
        self,
        consumer_id: str,
        lanes: Lanes,
        source: Source,
        accounts: Accounts,
        *,
        credit: Credit,
        emit: Callable[[Event], None],
        on_timer: Callable[[], None],
    ) -> None:
        """``on_timer`` is called when a timer of its lanes has passed."""
        self.id = consumer_id
        self.credit = credit
        self.emit = emit
        self.usage = InFlight()
        self.unsent = Unsent()
        """Maintained by the sender of the events, where that may have to wait."""
        self.memory = Share()
        """Memory of the stream; the sender of the events releases it."""
        self.wakeup = asyncio.Event()
        self.session: StreamLiveness | None = None
        """Session of a consumer that answers pings."""
        self.closed: Exception | None = None
        """Error with which the broker ended it, if it did."""
        self._lanes = lanes
        self._source = source
        self._accounts = accounts
        self._on_timer = on_timer
        self.sent_last = -1
        """Partition of the last event: the one after it has the next turn."""
        self._readers: dict[tuple[int, DeliverySource], EntryReader] = {}
        self._failed_reads: dict[int, tuple[int, float]] = {}
        """Consecutive failed reads and time of the next read, by partition."""

    def reader(self, partition: int, kind: DeliverySource = DeliverySource.LIVE) -> EntryReader:
        """Return the reader of a partition, created on first use; the retry queue has its own."""
        found = self._readers.get((partition, kind))
        if found is None:
            found = self._readers[partition, kind] = self._source.entry_reader(partition)
        return found

    def has_credit(self, size_max: int) -> bool:
        """Return whether another page may be sent: credit is a level, exceeded by at most one page.

        Revoked records are not in flight any more, but take memory until they are sent: otherwise a consumer that reads
        nothing would be sent the same records at every deadline. Records in flight can be read again, so only
        ``UNSENT_BYTES`` of the credit wait in memory.
        """
        size_max = min(self.credit.size, size_max)
        return all(
            taken.records < self.credit.records and (taken.size < bound or taken.records == 0)
            for taken, bound in ((self.usage, size_max), (self.unsent, min(size_max, UNSENT_BYTES)))
        )

    # -- the session

    def note_message(self) -> None:
        """Note a message of the consumer: deadlines that waited for a sign of life may pass now."""
        if self.session is not None:
            self.session.note_message(self._lanes.now())
            for lane in self._lanes.of(self.id):
                lane.deadline_not_before = 0.0

    def is_hung(self, now: float) -> bool:
        """Return whether a ping was left unanswered; sends one where it is due."""
        if self.session is None or not self._busy:
            return False
        if self.session.ping_is_due(now):
            self.emit(Pinged())
        ends_at = self.session.ends_at
        return ends_at is not None and now >= ends_at

    def defer_deadlines(self, lane: Lane, now: float) -> None:
        """Defer the deadlines of a lane while it is unknown if the consumer was alive at them."""
        deadline = lane.deadline()
        if self.session is None or deadline is None or now < deadline or self.session.heard_at >= deadline:
            return
        if self.session.ping_is_due(now, since=deadline):
            self.emit(Pinged())
        lane.deadline_not_before = max(now + self.session.timeout_s / PINGS_PER_TIMEOUT, self.session.ends_at or 0.0)

    @property
    def _busy(self) -> bool:
        return self.usage.records > 0 or self.unsent.records > 0

    async def pump(self) -> None:
        """Send until the consumer is closed."""
        looked_at = self._lanes.now()
        while self.closed is None:
            self.wakeup.clear()
            began = self._lanes.now()
            if self._lanes.now() - looked_at > TIMERS_S:
                self._on_timer()
                looked_at = self._lanes.now()
            sent = False
            for lane in self._lanes.of(self.id, after=self.sent_last):
                if await self._step(lane):
                    self.sent_last, sent = self._lanes.partition_of(lane), True
            if sent:
                await asyncio.sleep(0)  # every read may have been served from memory: yield
            else:
                await self._sleep(began)
        raise self.closed

    def next_timer(self, looked_at: float) -> float | None:
        """Return the next timer of its lanes, or of a handover, that is after ``looked_at``."""
        timers = [at for lane in self._lanes.of(self.id) if (at := lane.next_timer(looked_at)) is not None]
        reads = [at for _, at in self._failed_reads.values() if at > looked_at]
        session = [self.session.next_timer()] if self.session is not None and self._busy else []
        return min([*timers, *reads, *session, *self._lanes.handovers.values()], default=None)

    async def _sleep(self, looked_at: float) -> None:
        """Wait for a change, or for the next timer after the lanes were checked."""
        timer = self.next_timer(looked_at)
        try:
            async with asyncio.timeout(max(0.0, timer - self._lanes.now()) if timer is not None else None):
                await self.wakeup.wait()
        except TimeoutError:
            self._on_timer()

    async def _step(self, lane: Lane) -> bool:
        partition = self._lanes.partition_of(lane)
        if partition in self._lanes.handovers:
            return False
        taken = await self.next_event(partition, lane, records_max=None)
        return taken is not None

    async def next_event(self, partition: int, lane: Lane, *, records_max: int | None) -> Event | None:
        """Return the next event of a lane, in flight and emitted; None if nothing may be sent now.

        A failed read drops nothing: the lane waits, and a timer retries the read.
        """
        tries, again_at = self._failed_reads.get(partition, (0, 0.0))
        if tries and self._lanes.now() < again_at and self._source.reads_fail(partition):
            return None
        try:
            event = await self._next_event(partition, lane, records_max)
        except ReadFailed:
            delay_s = READ_AGAIN_S[min(tries, len(READ_AGAIN_S) - 1)]
            self._failed_reads[partition] = (tries + 1, self._lanes.now() + delay_s)
            return None
        self._failed_reads.pop(partition, None)
        return event

    async def _next_event(self, partition: int, lane: Lane, records_max: int | None) -> Event | None:
        for kind in lane.sender.order(self._lanes.now()):
            if kind is DeliverySource.LIVE:
                event = await self._next_live(partition, lane, records_max)
            else:
                event = await self._next_retry(partition, lane, records_max)
            if event is not None:
                return event
        return None

    async def _next_retry(self, partition: int, lane: Lane, records_max: int | None) -> Event | None:
        """Send due ranges of the retry queue, of as many pages as one delivery holds."""
        source = self._source
        first = lane.retry.next_due(self._lanes.now())
        if first is None or not self._may_resend(lane):
            return None
        entries = await self.reader(partition, DeliverySource.RETRY).upcoming(first)
        now = self._lanes.now()
        allowed = lane.retry.resends_allowed(now)
        filling = self._filling(allowed)
        for entry in entries:
            due = lane.retry.queue.due_within(Range(entry.base, entry.end), now)
            if not due:
                continue
            if not filling.fits(entry):
                break
            filling.add(entry, sum(part.size for part in due))
        chosen = filling.entries
        if not chosen:
            return None
        if source.drop_expired(partition, chosen):
            self.wakeup.set()  # the next turn for new records sends the gap notice
            return None
        with _Room(self.memory, chosen) as room:
            if not room:
                return None
            bodies, _ = await source.bodies(partition, chosen)
            if not self._may_resend(lane):
                self.wakeup.set()
                return None
            return room.kept(self._send(partition, lane, DeliverySource.RETRY, chosen, bodies, records_max))

    def _may_resend(self, lane: Lane) -> bool:
        """Return whether the retry queue may send, as ``_may_send``."""
        now = self._lanes.now()
        if self.closed is not None or lane.owner != self.id or lane.sender.held or lane.retry.resends_allowed(now) == 0:
            return False
        return self.has_credit(self._lanes.settings.in_flight_bytes_max)

    async def _next_live(self, partition: int, lane: Lane, records_max: int | None) -> Event | None:
        source, log = self._source, self._lanes.log(partition)
        chosen: list[Entry] = []
        while not chosen:
            if not self._may_send(lane):
                return None
            allowed = lane.sender.pages_allowed(self._lanes.now())
            place = lane.send_state
            entries = await self.reader(partition).upcoming(lane.sender.position)
            if place != lane.send_state:
                self.wakeup.set()
                return None
            if log.hole_at(lane.sender.position, entries[0] if entries else None):
                await source.repair(partition)
                self.wakeup.set()
                return None
            gap = log.next_gap(lane.sender.position)
            if gap is not None and (not entries or gap.first <= max(entries[0].base, lane.sender.position)):
                drop = source.unsynced_drop(partition)
                if drop is None:
                    return self._emit_gap(partition, lane, gap.end)
                if drop.done():
                    return None  # the write failed: the store is fenced
                await asyncio.wait([drop])
                continue
            if source.drop_expired(partition, entries):
                continue
            chosen = self._choose(lane, entries, allowed, gap.first if gap is not None else None)
            if not chosen and place == lane.send_state:
                return None
        place = lane.send_state
        with _Room(self.memory, chosen) as room:
            if not room:
                return None
            bodies, from_memory = await source.bodies(partition, chosen)
            dropped = any(log.gap_at(entry.base) is not None for entry in chosen)  # its gap notice has to be sent first
            if dropped or place != lane.send_state or not self._may_send(lane):
                self.wakeup.set()
                return None
            source.read_from(partition, realtime=from_memory)
            return room.kept(self._send(partition, lane, DeliverySource.LIVE, chosen, bodies, records_max))

    def _may_send(self, lane: Lane) -> bool:
        """Return whether the lane may send to this consumer. Valid until the next await.

        The lane must be owned by it and not held back, and there must be credit.
        """
        if self.closed is not None or lane.owner != self.id or lane.sender.pages_allowed(self._lanes.now()) == 0:
            return False
        return self.has_credit(self._lanes.settings.in_flight_bytes_max)

    def _emit_gap(self, partition: int, lane: Lane, end: int) -> Event | None:
        gap = self._lanes.log(partition).next_gap(lane.sender.position)
        if gap is None:
            return None
        event = GapMet(partition, gap.cut(lane.sender.position))
        lane.sender.note_gap_sent(end)
        self.emit(event)
        return event

    def _choose(self, lane: Lane, entries: list[Entry], allowed: int | None, stop: int | None) -> list[Entry]:
        """Return the pages of one delivery, up to the next gap. Settled ones are skipped."""
        filling = self._filling(allowed)
        at = max(lane.sender.position, *(entry.base for entry in entries[:1]), 0)
        for entry in entries:
            if entry.base > at or (stop is not None and entry.base >= stop):
                break  # missing records are handled when the position reaches them
            at = max(at, entry.end)
            first = max(entry.base, lane.sender.position)
            if next(lane.sender.wanted(Range(first, entry.end)), None) is None:
                if not filling.entries:
                    lane.sender.note_gap_sent(entry.end)
                continue
            if filling.entries and entry.base >= lane.cursor.sent > filling.entries[0].base:
                break  # redelivered and new records are sent separately
            if not filling.fits(entry):
                break
            filling.add(entry, entry.count)
        return filling.entries

    def _filling(self, pages_max: int | None) -> MessageBuilder:
        """Return an empty delivery with the remaining credit."""
        size_max = min(self.credit.size, self._lanes.settings.in_flight_bytes_max)
        records_left, bytes_left = self.credit.records - self.usage.records, size_max - self.usage.size
        if (step := self.memory.step_bytes) is not None:
            bytes_left = min(bytes_left, step)
        return MessageBuilder(records_left=records_left, bytes_left=bytes_left, pages_max=pages_max)

    def _send(
        self,
        partition: int,
        lane: Lane,
        kind: DeliverySource,
        entries: list[Entry],
        bodies: list[Body | None],
        records_max: int | None,
    ) -> Event | None:
        now = self._lanes.now()
        pages: list[tuple[Entry, Body]] = []
        ranges: list[Range] = []
        sent_before, redelivered_before = lane.cursor.sent, lane.progress.redelivered
        send = lane.sender.send if kind is DeliverySource.LIVE else lane.sender.send_retry
        for entry, body in zip(entries, bodies, strict=False):  # the bodies end at a failed read
            if body is None:
                if not pages:
                    self._source.damaged(partition, entry)
                break
            left = None if records_max is None else records_max - sum(r.size for r in ranges)
            if left is not None and left <= 0:
                break
            found = send(
                *(entry.base, entry.end, entry.size, now),
                records_max=left,
                age_us=entry.age_us,
                traceparent=entry.traceparent,
                more=bool(ranges),
            )
            if found:
                ranges += found
                pages.append((entry, body))
        if not ranges:
            self.wakeup.set()
            return None
        event = Delivered(
            partition=partition,
            owner_epoch=lane.owner_epoch,
            revision=lane.revision,
            pages=tuple(pages),
            ranges=tuple(ranges),
            attempts=lane.cursor.attempts_within(ranges),
            resend=kind is DeliverySource.RETRY or ranges[0].first < sent_before,
            relaxed=lane.relaxed,
            durability=min(self._lanes.log(partition).level(entry.base, entry.end) for entry, _ in pages),
        )
        is_new = lane.cursor.sent > sent_before
        self._accounts.delivered(event, lane.progress.redelivered - redelivered_before, is_new=is_new)
        self.emit(event)
        return event
