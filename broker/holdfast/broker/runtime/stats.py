"""What can be said of a sink now: counters, accounts and lag, from memory and at most one look into the index."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.broker.core.account import Totals
from holdfast.broker.core.cursor import Cursor
from holdfast.broker.core.errors import ReadFailed
from holdfast.broker.core.log import PartitionLog
from holdfast.broker.core.pages import Durability, Entry
from holdfast.broker.core.resend import State
from holdfast.broker.runtime.buffer import Buffer
from holdfast.broker.runtime.subscription import Subscription


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition: what is stored, and what was dropped."""

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
    """Of the least safe record."""


@dataclass(frozen=True, slots=True)
class LaneState:
    """One subscription on one partition: its account, and its lag."""

    partition: int
    cursor: Cursor
    pending: int
    pending_bytes: int
    """Bytes of bodies from the lowest unsettled record on; pages settled in part count whole."""

    pending_pages: int
    oldest_age_us: int
    """Age of the lowest unsettled record; 0 without a lag."""

    in_flight: int
    redelivered: int
    state: State
    retry_at_us: int | None
    """Wall clock of the next try, while backing off."""

    reason: str
    """Why nothing is sent now: what failed at the target, and why the partition cannot be read."""

    realtime: bool | None
    """Whether the reader is served from memory; None when nothing was read."""

    mode_switches: int
    balances: bool
    lifetime: Totals
    """All accounts together: those that seeks have closed, and this one."""

    holes: int = 0
    """Ranges settled beyond the watermark, parked or leased: their sum is bounded."""

    parked_ranges: int = 0
    parked_records: int = 0
    leased_records: int = 0
    """Records that holders have in sets."""

    waits_for_holes: bool = False
    """New records wait, because the budget of holes is used up."""

    live_stopped: bool = False
    """New records wait for a probe, because too many deliveries failed in a row."""


SubscriptionState = tuple[str, int, list[LaneState]]
"""Name, consumers connected now, and lanes."""


async def sink_states(buffer: Buffer) -> list[SubscriptionState]:
    """The state of every subscription, all as of one moment: what has to be looked up is looked up before."""
    subscriptions = list(buffer.subscriptions.values())
    fronts = [await _fronts(buffer, subscription) for subscription in subscriptions]
    return [
        (subscription.name, len(subscription.owners.consumers), _lane_states(buffer, subscription, found))
        for subscription, found in zip(subscriptions, fronts, strict=True)
    ]


async def lane_states(buffer: Buffer, subscription: Subscription) -> list[LaneState]:
    """The state of every lane of a subscription, all as of one moment."""
    return _lane_states(buffer, subscription, await _fronts(buffer, subscription))


async def _fronts(buffer: Buffer, subscription: Subscription) -> list[list[Entry]]:
    """The entries from the lowest unsettled record on, per partition, as far as they are at hand."""
    return [await _front(subscription, log.number) for log in buffer.logs]


async def _front(subscription: Subscription, partition: int) -> list[Entry]:
    try:
        return await subscription.entry_reader(partition).upcoming(subscription.lanes[partition].cursor.watermark)
    except ReadFailed:
        return []  # all but its size and age is known, and why is told


def _lane_states(buffer: Buffer, subscription: Subscription, fronts: list[list[Entry]]) -> list[LaneState]:
    # A partition that was added while the others were looked up has nothing to look up yet.
    return [
        _lane_state(buffer, subscription, log.number, fronts[log.number] if log.number < len(fronts) else [])
        for log in buffer.logs
    ]


def _lane_state(buffer: Buffer, subscription: Subscription, partition: int, entries: list[Entry]) -> LaneState:
    lane, log = subscription.lanes[partition], buffer.logs[partition]
    cursor, end = lane.cursor, log.tail.next_offset
    pending = cursor.pending(end)
    size = pages = age_us = 0
    front = next((entry for entry in entries if entry.end > cursor.watermark), None)
    if pending and front is not None:
        gone = [gap for gap in log.gaps if gap.first >= front.base]
        size = max(0, log.tail.appended_bytes - front.bytes_before - sum(gap.size for gap in gone))
        pages = max(0, log.tail.appended_pages - front.pages_before - sum(gap.pages for gap in gone))
        age_us = max(0, buffer.age_now_us() - front.age_us)
    now = subscription.now()
    backing_off = lane.resend.state is State.BACKING_OFF
    mode = subscription.mode_of(partition)
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
        redelivered=lane.redelivered,
        state=lane.resend.state,
        retry_at_us=buffer.wall_now_us() + int((lane.resend.until - now) * 1e6) if backing_off else None,
        reason="; ".join(reason for reason in reasons if reason),
        realtime=mode[0] if mode is not None and lane.owner is not None else None,
        mode_switches=mode[1] if mode is not None else 0,
        balances=cursor.balances(end),
        lifetime=subscription.totals_of(partition).with_open(cursor),
        holes=lane.holes,
        parked_ranges=len(lane.side.parked),
        parked_records=lane.side.parked.records(lane.view),
        leased_records=lane.leases.records,
        waits_for_holes=lane.waits_for_holes,
        live_stopped=lane.side.live_stopped,
    )


def partition_states(buffer: Buffer) -> list[PartitionState]:
    """The state of every partition."""
    return [
        PartitionState(
            log.number,
            log.earliest,
            log.tail.next_offset,
            log.records,
            log.size,
            log.pages,
            log.head.dropped,
            sum(entry.count for entry in log.held.values()),
            sum(entry.size for entry in log.held.values()),
            _least(log),
        )
        for log in buffer.logs
    ]


def _least(log: PartitionLog) -> Durability:
    if log.held:
        return Durability.MEMORY
    return Durability.DISK if log.pages == 0 or log.synced >= log.tail.next_offset else Durability.PROCESS
