"""Statistics of a sink: counters, accounts and lag, from memory and few index reads per partition."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from forebay.broker.core.delivery.lane import Lane
from forebay.broker.core.delivery.redelivery import State
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import Durability, Entry
from forebay.broker.core.partition.ranges import Range, union
from forebay.broker.runtime.delivery.source import Mode
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.broker.runtime.instruments import Lag, PathLag
from forebay.broker.runtime.read.readers import Reader
from forebay.broker.runtime.resources.slices import Slices
from forebay.broker.runtime.sink.buffer import Buffer

LAGS_PER_SWEEP: Final = 8_000
"""Lanes of a broker whose lag is measured per sweep, on average: about a tenth of the loop's time."""
LOOKS_MAX: Final = 4
"""Index reads for a partition whose subscriptions move during the read; the rest get no size."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """State of one partition: stored and dropped records."""

    partition: int
    earliest: int
    next_offset: int
    records: int
    size: int
    pages: int
    dropped: tuple[tuple[int, int], ...]
    memory_records: int
    memory_bytes: int
    durability: Durability
    """Durability of the least safe record."""


@dataclass(frozen=True, slots=True)
class LaneState:
    """State of one subscription on one partition: its account, and its lag."""

    partition: int
    cursor: Cursor
    pending: int
    pending_bytes: int
    """Bytes of bodies from the lowest unsettled record on; partly settled pages count fully."""

    pending_pages: int
    oldest_age_us: int
    """Age of the lowest unsettled record; 0 without a lag."""

    in_flight: int
    redelivered: int
    state: State
    retry_at_us: int | None
    """Wall clock of the next attempt, while backing off."""

    reason: str
    """Reason why nothing is sent: the failure at the target, and the failure of reads."""

    realtime: bool | None
    """True if the reader is served from memory; None if nothing was read."""

    mode_s: float
    """Time that the connected consumer has read so."""

    mode_switches: int
    in_memory: PathLag
    """Part of the lag that memory serves, by whole pages."""

    in_store: PathLag
    """Part of the lag that is read from the store."""

    balances: bool
    lifetime: Totals
    """Totals of all accounts: those that seeks have closed, and this one."""

    holes: int = 0
    """Ranges settled beyond the watermark, queued for retry or leased: their sum is bounded."""

    parked_ranges: int = 0
    parked_records: int = 0
    leased_records: int = 0
    """Records in leased sets."""

    waits_for_holes: bool = False
    """True if new records wait because the bound of holes is reached."""

    live_stopped: bool = False
    """True if new records wait for a probe after too many failures in a row."""


@dataclass(frozen=True, slots=True)
class SubscriptionState:
    """State of a subscription."""

    name: str
    consumers: int
    """Number of connected consumers."""

    settled_per_s: float
    """Rate of records that consumers settled lately."""

    lanes: list[LaneState]


@dataclass(frozen=True, slots=True)
class ReaderState:
    """State of one open replay: its position, its mode, and its lag."""

    partition: int
    client_id: str
    position: int
    """Next offset to be sent."""

    realtime: bool | None
    """True if its last pages came from memory; None before the first page."""

    mode_s: float
    mode_switches: int
    pending: int
    """Stored records from ``position`` on."""

    pending_bytes: int
    oldest_age_us: int
    in_memory: PathLag
    in_store: PathLag


@dataclass(frozen=True, slots=True)
class SinkState:
    """State of a sink. The figures of one partition, for all subscriptions, are as of one moment."""

    partitions: list[PartitionState]
    subscriptions: list[SubscriptionState]
    readers: list[ReaderState]
    """Open replays, by partition."""

    realtime: bool
    """True if memory keeps new pages."""

    tail_bytes: int
    """Memory of the newest pages."""

    appended_per_s: float
    """Rate of records that were appended lately."""

    limit_used: float
    """Share of the sink's tightest limit that is in use."""

    full: bool
    """True if there was no room for an append lately."""


async def sink_state(buffer: Buffer) -> SinkState:
    """Return the state of a sink, partition by partition; yields to other tasks between them."""
    slices, sink = Slices(), buffer.state
    subscriptions = list(buffer.subscriptions.values())
    partitions: list[PartitionState] = []
    lanes: list[list[LaneState]] = [[] for _ in subscriptions]
    readers: list[ReaderState] = []
    while len(partitions) < len(buffer.logs):  # partitions may be added between two steps
        log = buffer.logs[len(partitions)]
        lags = await _lags(buffer, log, subscriptions)
        partitions.append(_partition_state(log))
        for subscription, found in zip(subscriptions, lanes, strict=True):
            found.append(_lane_state(buffer, subscription, log, lags))
        readers += [_reader_state(reader, position, log, lags) for reader, position in buffer.readers.of(log.number)]
        await slices.turn()
    states = zip(subscriptions, lanes, strict=True)
    return SinkState(
        partitions,
        [
            SubscriptionState(each.name, len(each.owners.consumers), each.accounts.settling.per_s(each.now()), found)
            for each, found in states
        ],
        readers,
        realtime=buffer.serves_from_memory,
        tail_bytes=buffer.tail_bytes,
        appended_per_s=sink.appended.per_s(sink.now()),
        limit_used=sink.limit_used,
        full=sink.full,
    )


def lag_is_due(sweep: int, sink: int, lanes: int) -> bool:
    """Return True if a sink is measured in this sweep: of many lanes each sweep measures a part."""
    return (sweep + sink) % max(1, -(-lanes // LAGS_PER_SWEEP)) == 0


async def sink_lags(buffer: Buffer) -> list[tuple[Subscription, list[Lag]]]:
    """Return the lag of every lane of every subscription.

    It is the part of ``sink_state`` that takes a fraction of its time.
    """
    subscriptions = list(buffer.subscriptions.values())
    slices = Slices()
    found: list[tuple[Subscription, list[Lag]]] = [(each, []) for each in subscriptions]
    for log in buffer.logs:
        lags = await _lags(buffer, log, subscriptions)
        for subscription, lanes in found:
            lanes.append(_lag(subscription, log, lags))
        await slices.turn()
    return found


async def replay_lags(buffer: Buffer) -> list[Lag]:
    """Return the lag of the replay that is furthest behind, of each partition with open replays."""
    subscriptions = list(buffer.subscriptions.values())
    slices = Slices()
    found: list[Lag] = []
    for log in buffer.logs if len(buffer.readers) else ():
        if not buffer.readers.of(log.number):
            continue
        lags = await _lags(buffer, log, subscriptions)
        states = [_reader_state(reader, position, log, lags) for reader, position in buffer.readers.of(log.number)]
        if states:  # all may have ended meanwhile
            found.append(_replay_lag(max(states, key=lambda each: each.pending), buffer.readers.switches(log.number)))
        await slices.turn()
    return found


def _replay_lag(state: ReaderState, switches: int) -> Lag:
    return Lag(
        state.partition,
        state.pending,
        state.pending_bytes,
        state.oldest_age_us,
        state.realtime,
        state.position,
        state.mode_s,
        switches,
        state.in_memory,
        state.in_store,
    )


def _lag(subscription: Subscription, log: PartitionLog, lags: _Lags) -> Lag:
    lane = subscription.lanes[log.number]
    pending = lane.cursor.pending(log.tail.next_offset)
    size, _, age_us = lags.at(lane.cursor.watermark) if pending else (0, 0, 0)
    mode = subscription.source.mode_of(log.number)
    realtime, mode_s = _mode(subscription, lane, mode)
    return Lag(
        log.number,
        pending,
        size,
        age_us,
        realtime,
        lane.cursor.watermark,
        mode_s,
        mode.switches if mode is not None else 0,
        *lags.by_path(lane.cursor.watermark, lane.cursor, pending),
    )


def _mode(subscription: Subscription, lane: Lane, mode: Mode | None) -> tuple[bool | None, float]:
    """Return whether the connected consumer is served from memory, and for how long; None without one."""
    if mode is None or lane.owner is None or mode.owner_epoch != lane.owner_epoch:
        return None, 0.0
    return mode.realtime, subscription.now() - mode.since


@dataclass(slots=True)
class _Lags:
    """Lag of a partition at each position of a subscription: bytes, pages and age."""

    log: PartitionLog
    fronts: dict[int, Entry]
    age_us: int
    is_in_memory: Callable[[Entry], bool]
    known: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def at(self, watermark: int) -> tuple[int, int, int]:
        found = self.known.get(watermark)
        if found is None:
            found = self.known[watermark] = self._measured(self.fronts.get(watermark))
        return found

    def by_path(self, position: int, cursor: Cursor, pending: int) -> tuple[PathLag, PathLag]:
        """Return the lag that memory serves, and that which is read from the store.

        ``position`` is that of the reader; ``cursor`` has settled what is not pending for it.
        """
        if not pending:
            return PathLag(), PathLag()
        size, _, age_us = self.at(position)
        front, runs = self.fronts.get(position), self._in_memory(position)
        if not runs:
            return PathLag(), PathLag(pending, size, age_us)
        if runs[0] == (front, None):
            return PathLag(pending, size, age_us), PathLag()
        records = kept = 0
        for first, last in runs:
            end = self.log.tail.next_offset if last is None else last.end
            records += sum(found.size for found in cursor.unsettled(Range(first.base, end)))
            kept += self._measured(first)[0] - (0 if last is None else self._bytes_after(last))
        rest = pending - records
        first, last = runs[0]
        if first == front and last is not None:  # the first page in the store is after those that are only in memory
            age_us = self._age_us(self.fronts.get(last.end) or last)
        in_store = PathLag(rest, max(0, size - kept), age_us) if rest else PathLag()
        return PathLag(records, kept, self._age_us(first)), in_store

    def _in_memory(self, position: int) -> list[tuple[Entry, Entry | None]]:
        """Return the runs of pages above a position that memory holds.

        A run is its first and its last page, or None for all newer ones. The pages that are only in memory are
        neighbours. The tail has the newest of those before and after them.
        """
        held = self._held(position)
        if held is None:
            newest = self._tail_from(position, None)
            return [(newest, None)] if newest is not None else []
        first, last = held
        first = self._tail_from(position, first.base) or first
        if last.end >= self.log.tail.next_offset:
            return [(first, None)]
        newest = self._tail_from(last.end, None)
        return [(first, last), (newest, None)] if newest is not None else [(first, last)]

    def _held(self, position: int) -> tuple[Entry, Entry] | None:
        """Return the first and the last page above a position that are only in memory."""
        held = self.log.held
        last = next(reversed(held.values()), None)
        if last is None or last.end <= position:
            return None
        front = self.fronts.get(position)
        if front is not None and front.base in held:
            return front, last
        return next(entry for entry in held.values() if entry.end > position), last

    def _tail_from(self, position: int, below: int | None) -> Entry | None:
        """Return the first page between two positions that memory holds, with all after it."""
        recent = self.log.recent
        low = bisect_right(recent, position, key=lambda entry: entry.end)
        high = len(recent) if below is None else bisect_left(recent, below, lo=low, key=lambda entry: entry.base)
        at = bisect_left(recent, True, lo=low, hi=high, key=self.is_in_memory)
        front = self.fronts.get(position)
        if at == low and front is not None and self.is_in_memory(front):  # the tail evicts in order
            return front
        return recent[at] if at < high else None

    def _age_us(self, entry: Entry) -> int:
        return max(0, self.age_us - entry.age_us)

    def _bytes_after(self, last: Entry) -> int:
        gone = sum(gap.size for gap in self.log.gaps if gap.first >= last.end)
        return max(0, self.log.tail.appended_bytes - last.bytes_before - last.size - gone)

    def _measured(self, front: Entry | None) -> tuple[int, int, int]:
        log = self.log
        if front is None:
            return 0, 0, 0
        gone = [gap for gap in log.gaps if gap.first >= front.base]
        return (
            max(0, log.tail.appended_bytes - front.bytes_before - sum(gap.size for gap in gone)),
            max(0, log.tail.appended_pages - front.pages_before - sum(gap.pages for gap in gone)),
            self._age_us(front),
        )


async def _lags(buffer: Buffer, log: PartitionLog, subscriptions: Sequence[Subscription]) -> _Lags:
    """Return the lags of a partition; positions that move while a front is read are looked up again."""
    read: dict[int, Entry] = {}
    looks = 0
    while True:
        standing: set[int] = {each.lanes[log.number].cursor.watermark for each in subscriptions}
        standing |= {position for _, position in buffer.readers.of(log.number)}
        if (held := next(reversed(log.held.values()), None)) is not None:
            standing.add(held.end)  # the first page on disk after those in memory: its age is that of a lag
        fronts: dict[int, Entry] = {}
        missing: list[int] = []
        for position in standing:
            known, front = buffer.fronts.known(log, position)
            front = front or read.get(position)
            if front is not None:
                fronts[position] = front
            elif not known and position < log.tail.next_offset:
                missing.append(position)
        if not missing or looks == LOOKS_MAX:
            buffer.fronts.keep_only(log.number, standing)
            return _Lags(log, fronts, buffer.state.age.now_us(), partial(buffer.is_in_memory, log))
        looks += 1
        read |= await buffer.fronts.read(log, missing)


def _reader_state(reader: Reader, position: int, log: PartitionLog, lags: _Lags) -> ReaderState:
    cursor = replay_cursor(log, position)
    pending = max(0, cursor.pending(log.tail.next_offset))
    size, _, age_us = lags.at(position) if pending else (0, 0, 0)
    return ReaderState(
        log.number,
        reader.client_id,
        position,
        reader.realtime,
        reader.mode_s,
        reader.switches,
        pending,
        size,
        age_us,
        *lags.by_path(position, cursor, pending),
    )


def replay_cursor(log: PartitionLog, position: int) -> Cursor:
    """Return a cursor at the position of a replay, for which trimmed and dropped records are settled."""
    start = max(position, log.reachable)
    gone = union([Range(gap.first, gap.end) for gap in log.gaps_from(start)])
    return Cursor(watermark=start).settle_all(gone, Settlement.DROPPED)[0]


def _lane_state(buffer: Buffer, subscription: Subscription, log: PartitionLog, lags: _Lags) -> LaneState:
    partition = log.number
    lane = subscription.lanes[partition]
    cursor, end = lane.cursor, log.tail.next_offset
    pending = cursor.pending(end)
    size, pages, age_us = lags.at(cursor.watermark) if pending else (0, 0, 0)
    now = subscription.now()
    backing_off = lane.resend.state is State.BACKING_OFF
    mode = subscription.source.mode_of(partition)
    realtime, mode_s = _mode(subscription, lane, mode)
    in_memory, in_store = lags.by_path(cursor.watermark, cursor, pending)
    hold = buffer.read_hold(partition)
    reasons = [lane.resend.reason, f"READ_FAILED: {hold.reason}" if hold is not None else ""]
    return LaneState(
        partition=partition,
        cursor=cursor,
        pending=pending,
        pending_bytes=size,
        pending_pages=pages,
        oldest_age_us=age_us,
        in_flight=lane.records_in_flight,
        redelivered=lane.progress.redelivered,
        state=lane.resend.state,
        retry_at_us=buffer.state.clock.wall_us() + int((lane.resend.until - now) * 1e6) if backing_off else None,
        reason="; ".join(reason for reason in reasons if reason),
        realtime=realtime,
        mode_s=mode_s,
        mode_switches=mode.switches if mode is not None else 0,
        in_memory=in_memory,
        in_store=in_store,
        balances=cursor.balances(end),
        lifetime=subscription.accounts.totals_of(partition).with_open(cursor),
        holes=lane.sender.holes,
        parked_ranges=len(lane.retry.queue),
        parked_records=lane.retry.queue.records(lane.view),
        leased_records=lane.leases.records,
        waits_for_holes=lane.sender.waits_for_holes,
        live_stopped=lane.retry.live_stopped,
    )


def _partition_state(log: PartitionLog) -> PartitionState:
    return PartitionState(
        log.number,
        log.earliest,
        log.tail.next_offset,
        log.records,
        log.size,
        log.pages,
        log.head.dropped,
        sum(entry.count for entry in log.held.values()),
        sum(entry.size for entry in log.held.values()),
        log.least,
    )
