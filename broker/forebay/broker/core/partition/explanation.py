"""Explanation of one record: its place, its state for a subscription, and the reason why it waits.

It is derived from the state of the partition and the lane at one moment. Only the account is left of a settled record.
The way in which it was settled is therefore given where the account allows one answer only, and else as unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from forebay.broker.core.delivery.in_flight import Flight
from forebay.broker.core.delivery.lane import Lane
from forebay.broker.core.delivery.leases import Lease
from forebay.broker.core.delivery.redelivery import State
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import DropReason, Durability, Entry, Gap
from forebay.broker.core.partition.ranges import Range
from forebay.state.numbers import plural


class RecordPlace(IntEnum):
    """Place of a record; the numbers are those of the wire."""

    NOT_ASSIGNED = 1
    AWAITING_COMMIT = 2
    RECENT = 3
    DISK = 4
    DROPPED = 5
    TRIMMED = 6
    MISSING = 7
    MEMORY = 8


class RecordState(IntEnum):
    """State of a record for a subscription; the numbers are those of the wire."""

    PENDING = 1
    IN_FLIGHT = 2
    ACKED = 3
    DEAD_LETTERED = 4
    DROPPED = 5
    SKIPPED = 6
    SETTLED = 7
    BEFORE_START = 8
    LEASED = 9


class Wait(IntEnum):
    """Reason why a delivery waits; the numbers are those of the wire."""

    NOTHING = 1
    RECORD = 2
    COMMIT = 3
    PAUSED = 4
    PURGE = 5
    NO_CONSUMER = 6
    PULL = 7
    MOVING = 8
    BACKING_OFF = 9
    PROBING = 10
    RESEND_INTERVAL = 11
    ACK_HOLES_FULL = 12
    IN_FLIGHT_LIMIT = 13
    NO_CREDIT = 14
    ANSWER = 15
    BEHIND = 16
    PARKED = 17
    DEAD_LETTER = 18
    DEAD_LETTERS_FULL = 19
    LEASE = 20
    READ_FAILED = 21


@dataclass(frozen=True, slots=True)
class Owner:
    """Consumer that owns the partition."""

    id: str
    credit_records: int
    credit_size: int
    used_records: int
    """Records in flight in all its partitions, or buffered until it reads."""

    used_size: int
    accepts: bool
    """True if it accepts deliveries. False: it pulls, and none of its calls is active."""


@dataclass(frozen=True, slots=True)
class Moment:
    """State around the lane at one moment. Times are monotonic seconds."""

    now: float
    owner: Owner | None
    moving_until: float | None
    """Latest time at which the partition is revoked from its owner, if it is being reassigned."""

    entry: Entry | None
    """Stored page that holds the record."""

    recent: bool
    """True if that page is among the recent ones in memory."""

    unreadable: str = ""
    """Reason why reads of the partition fail, if they do."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Reason why a delivery waits, and until when."""

    reason: Wait
    until: float | None = None
    """Monotonic seconds, where the time is known."""

    detail: str = ""
    """Further details for people."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explanation of one record for one subscription."""

    offset: int
    next_offset: int
    """Offset that the next record will get."""

    place: RecordPlace
    entry: Entry | None
    """Its page, while it is stored."""

    durability: Durability | None
    """Durability of that page."""

    gap: Gap | None
    """Gap that holds the record."""

    rejection: Gap | None
    """The subscription's own gap that holds the record."""

    state: RecordState | None
    """None for an offset that is not assigned."""

    owner: str | None
    """Consumer that has it in flight."""

    owner_epoch: int
    revision: int
    sent_at: float | None
    """Monotonic seconds; only in flight or leased."""

    lease: Lease | None
    """Lease that holds it in a set."""

    attempts: int
    delivered_before: bool
    delivery: State
    waiting: Waiting
    before: int
    """Unsettled records that are delivered before it."""

    watermark: int
    restored_at_us: int | None = None
    """Time of the restore whose backup holds the record; None for a record accepted since."""


def explain(log: PartitionLog, lane: Lane, subscription: str, offset: int, moment: Moment) -> Explanation:
    """Return the explanation of the record at ``offset`` for the subscription of this lane."""
    cursor = lane.cursor
    place = _place(log, offset, moment)
    flight = lane.flights.at(offset) if not lane.view.is_settled(offset) else None
    lease, leased = _lease(lane, offset) or (None, None)
    sent = flight or leased
    state = None if place is RecordPlace.NOT_ASSIGNED else _state(log, lane, subscription, offset)
    before = sum(part.size for part in lane.view.unsettled(Range(0, min(offset, log.next_offset))))
    entry = moment.entry if place in {RecordPlace.RECENT, RecordPlace.DISK, RecordPlace.MEMORY} else None
    return Explanation(
        offset=offset,
        next_offset=log.next_offset,
        place=place,
        entry=entry,
        durability=log.level(entry.base, entry.end) if entry is not None else None,
        gap=log.gap_at(offset),
        rejection=log.rejections.at(subscription, offset),
        state=state,
        owner=lane.owner if flight is not None else None,
        owner_epoch=lane.owner_epoch,
        revision=lane.revision,
        sent_at=sent.sent_at if sent is not None else None,
        lease=replace(lease) if lease is not None else None,
        attempts=cursor.attempts_of(offset),
        delivered_before=offset < cursor.sent and place is not RecordPlace.NOT_ASSIGNED,
        delivery=lane.resend.state,
        waiting=_waiting(lane, offset, place, state, before, moment),
        before=before,
        watermark=cursor.watermark,
        restored_at_us=_restored_at_us(log, offset) if place in {RecordPlace.RECENT, RecordPlace.DISK} else None,
    )


def _restored_at_us(log: PartitionLog, offset: int) -> int | None:
    """Return the time of the last restore whose gap lies above the offset."""
    times = (gap.at_us for gap in log.gaps if gap.first > offset and gap.reason is DropReason.RESTORED)
    return max(times, default=None)


def _lease(lane: Lane, offset: int) -> tuple[Lease, Flight] | None:
    return None if lane.view.is_settled(offset) else lane.leases.at(offset)


def _place(log: PartitionLog, offset: int, moment: Moment) -> RecordPlace:
    if offset >= log.next_offset:
        return RecordPlace.NOT_ASSIGNED
    if offset >= log.tail.next_offset:
        return RecordPlace.AWAITING_COMMIT
    if log.gap_at(offset) is not None:
        return RecordPlace.DROPPED
    if moment.entry is not None:
        if moment.entry.base in log.held:
            return RecordPlace.MEMORY
        return RecordPlace.RECENT if moment.recent else RecordPlace.DISK
    if offset < log.head.earliest or log.pages == 0:
        return RecordPlace.TRIMMED
    return RecordPlace.DISK if moment.unreadable else RecordPlace.MISSING


# -- state for the subscription


def _state(log: PartitionLog, lane: Lane, subscription: str, offset: int) -> RecordState:
    cursor = lane.cursor
    if offset < cursor.start:
        return RecordState.BEFORE_START
    if not cursor.is_settled(offset):
        if _lease(lane, offset) is not None:
            return RecordState.LEASED
        flies = lane.flights.at(offset) is not None and not lane.view.is_settled(offset)
        return RecordState.IN_FLIGHT if flies else RecordState.PENDING
    gap, rejection = log.gap_at(offset), log.rejections.at(subscription, offset)
    if rejection is not None and rejection.whole:
        return RecordState.DROPPED
    if not cursor.dropped or (gap is None and rejection is None):
        return _not_dropped(cursor)
    if gap is not None and gap.whole and cursor.dropped == _missing(log, subscription, cursor.start):
        return RecordState.DROPPED
    return RecordState.SETTLED


def _missing(log: PartitionLog, subscription: str, start: int) -> int | None:
    """Return the number of records dropped since ``start``, if all of them were unsettled.

    None if that is unknown: a gap over settled records begins before ``start``.
    """
    found = 0
    for gap in (*log.gaps, *log.rejections.of(subscription)):
        if gap.first >= start:
            found += gap.records
        elif gap.end > start:
            if not gap.whole:
                return None
            found += gap.end - start
    return found


def _not_dropped(cursor: Cursor) -> RecordState:
    """Return the only way in which the account allows the record to have been settled."""
    ways = [
        way
        for way, records in (
            (RecordState.ACKED, cursor.acked),
            (RecordState.DEAD_LETTERED, cursor.dead_lettered),
            (RecordState.SKIPPED, cursor.skipped),
        )
        if records
    ]
    return ways[0] if len(ways) == 1 else RecordState.SETTLED


# -- reason why its delivery waits


def _waiting(
    lane: Lane, offset: int, place: RecordPlace, state: RecordState | None, before: int, moment: Moment
) -> Waiting:
    if place is RecordPlace.NOT_ASSIGNED:
        return Waiting(Wait.RECORD)
    if state is RecordState.IN_FLIGHT:
        return Waiting(Wait.ANSWER, lane.deadline(offset))
    leased = _lease(lane, offset)
    if leased is not None:
        return Waiting(Wait.LEASE, leased[0].until, leased[0].holder)
    if state is not RecordState.PENDING:
        return Waiting(Wait.NOTHING)
    if lane.view.is_settled(offset):
        return Waiting(Wait.DEAD_LETTER)
    if place is RecordPlace.AWAITING_COMMIT:
        return Waiting(Wait.COMMIT)
    return (
        _stopped(lane, moment)
        or _unreadable(moment)
        or _parked(lane, offset, moment)
        or _held_back(lane, offset, moment)
        or _at_a_bound(lane)
        or _without_credit(lane, moment)
        or Waiting(Wait.BEHIND if before else Wait.NOTHING)
    )


def _stopped(lane: Lane, moment: Moment) -> Waiting | None:
    """Return the wait for a consumer, or for the end of a pause, a purge or a reassignment."""
    if lane.resend.state is State.PAUSED:
        return Waiting(Wait.PAUSED, detail=lane.resend.reason)
    if lane.sender.held:
        return Waiting(Wait.PURGE)
    if moment.owner is None:
        return Waiting(Wait.NO_CONSUMER)
    if moment.moving_until is not None:
        return Waiting(Wait.MOVING, moment.moving_until)
    return None


def _unreadable(moment: Moment) -> Waiting | None:
    """Return the wait for the disk. A page in memory may be sent all the same."""
    if not moment.unreadable or moment.recent:
        return None
    return Waiting(Wait.READ_FAILED, detail=moment.unreadable)


def _held_back(lane: Lane, offset: int, moment: Moment) -> Waiting | None:
    """Return the wait that the resend state machine imposes.

    In RELAXED order it applies to the retry queue only, or to all records while new ones are stopped.
    """
    resend, now = lane.resend, moment.now
    if lane.relaxed and not lane.retry.live_stopped and lane.retry.queue.at(offset) is None:
        return None
    if resend.state is State.BACKING_OFF and now < resend.until:
        return Waiting(Wait.BACKING_OFF, resend.until, resend.reason)
    if resend.state in {State.PROBING, State.BACKING_OFF} and lane.sender.sent_since_failure:
        return Waiting(Wait.PROBING, lane.deadline(), resend.reason)
    if resend.state is State.RESENDING and lane.settings.resend_interval_us:
        if lane.sender.sent_since_failure:
            return Waiting(Wait.RESEND_INTERVAL)
        if now < resend.not_before:
            return Waiting(Wait.RESEND_INTERVAL, resend.not_before)
    return None


def _at_a_bound(lane: Lane) -> Waiting | None:
    """Return the wait at the bound of out-of-order acks, or of moves to another sink."""
    if lane.sender.waits_for_transfers:
        return Waiting(Wait.DEAD_LETTERS_FULL)
    return Waiting(Wait.ACK_HOLES_FULL) if lane.sender.waits_for_holes else None


def _parked(lane: Lane, offset: int, moment: Moment) -> Waiting | None:
    """Return the wait of a queued range that is not due yet."""
    queued = lane.retry.queue.at(offset)
    if queued is None or moment.now >= queued.not_before:
        return None
    return Waiting(Wait.PARKED, queued.not_before, lane.resend.reason)


def _without_credit(lane: Lane, moment: Moment) -> Waiting | None:
    """Return the wait for credit of the consumer."""
    owner = moment.owner
    if owner is None:
        return None
    limit = lane.settings.in_flight_bytes_max
    if owner.used_records and owner.used_size >= limit and limit < owner.credit_size:
        return Waiting(Wait.IN_FLIGHT_LIMIT, detail=f"{owner.used_size} of {limit} bytes")
    spent = owner.used_records and owner.used_size >= owner.credit_size
    if spent or owner.used_records >= owner.credit_records:
        records = f"{owner.used_records} of {owner.credit_records} {plural(owner.credit_records, 'record')}"
        used = f"{records}, {owner.used_size} of {owner.credit_size} {plural(owner.credit_size, 'byte')}"
        return Waiting(Wait.NO_CREDIT, detail=used)
    return None if owner.accepts else Waiting(Wait.PULL)
