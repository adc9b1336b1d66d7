"""Registry of a sink's subscriptions: create, list, seek, settle and delete.

Index reads come first. Then everything is checked and decided at once on the loop, and written in one batch: a request
changes all its partitions or none. It is answered when that batch is durable.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from forebay.broker.core.delivery.lane import Lane
from forebay.broker.core.errors import (
    BrokerError,
    InvalidPartition,
    OffsetAhead,
    SinkNotFound,
    SubscriptionNotFound,
    shown,
)
from forebay.broker.core.names import checked_request_id, is_id
from forebay.broker.core.partition.account import opened
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.position import EARLIEST, At, Place, Position, place
from forebay.broker.core.writes import DropGap, DropSubscription, PutSubscription, SubscriptionRecord, Write
from forebay.broker.runtime.delivery.subscription import DEFAULT_SUBSCRIPTION, Subscription
from forebay.broker.runtime.read.replay import Replay
from forebay.errors.reasons import Reason

if TYPE_CHECKING:
    from forebay.broker.runtime.sink.buffer import Buffer, Services

_log: Final = logging.getLogger(__name__)
SUBSCRIPTIONS_MAX: Final = 100
"""Subscriptions per sink: every drop and every trim visits all of them."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Result of settling below an offset in one partition."""

    partition: int
    acked: int
    """Records settled by the request."""

    watermark: int
    """Lowest offset that is not settled."""


class Subscribing:
    """Stored subscriptions of one sink. Used on the loop."""

    def __init__(self, buffer: Buffer, services: Services, records: Iterable[SubscriptionRecord]) -> None:
        self._buffer = buffer
        self._services = services
        made_at_us, incarnation = buffer.record.created_at_us, buffer.record.incarnation
        default = SubscriptionRecord(DEFAULT_SUBSCRIPTION, made_at_us, EARLIEST, incarnation)  # it ends with its sink
        self._records = {default.name: default, **{record.name: record for record in records}}
        for record in self._records.values():
            if not record.start.is_shown_exactly:
                _log.warning(
                    "stored start time is outside of the years 1 to 9999, the nearest is shown sink=%s subscription=%s",
                    *(buffer.name, record.name),
                )
        self._waiting: dict[str, asyncio.Future[None]] = {}
        """Creations that are not durable yet."""

    def record(self, name: str) -> SubscriptionRecord:
        """Return the record of a subscription that is stored, or about to be."""
        return self._records[name]

    @property
    def names(self) -> list[str]:
        """Names of all subscriptions that are stored, or about to be."""
        return sorted(self._records)

    def all(self) -> list[SubscriptionRecord]:
        """Return all subscriptions whose creation is durable, by name."""
        return [self._records[name] for name in self.names if name not in self._waiting]

    async def create(
        self, name: str, start: Position, *, or_earliest: bool, request_id: str = ""
    ) -> tuple[SubscriptionRecord, Sequence[Place], bool]:
        """Create a subscription; returns the existing one, without places, if it has the same start.

        A subscription that the request of the same id created is returned as created.

        Raises:
            INVALID_SUBSCRIPTION_NAME: the name is not an id.
            INVALID_POSITION, InvalidPartition: the start names no position, or a partition that does not exist.
            SUBSCRIPTION_EXISTS: it was created with another start.
            TOO_MANY_SUBSCRIPTIONS: the sink has the maximum number.
            OffsetAhead, OffsetTrimmed: see ``place``.
        """
        if not is_id(name):
            raise BrokerError(
                Reason.INVALID_SUBSCRIPTION_NAME,
                f"{shown(name)!r} is not a subscription's name: use 1 to 64 of [A-Za-z0-9._-]",
                field="name",
            )
        self._check(start)
        since = await self._look_up(self._buffer.logs, start) if name not in self._records else {}
        self._check_alive()
        existing = self._records.get(name)
        if existing is not None:
            if existing.start != start:
                raise BrokerError(Reason.SUBSCRIPTION_EXISTS, sink=self._buffer.name, subscription=name)
            await asyncio.shield(self._waiting.get(name, self._buffer.created))
            return existing, (), bool(request_id) and existing.request_id == request_id
        if len(self._records) >= SUBSCRIPTIONS_MAX:
            raise BrokerError(Reason.TOO_MANY_SUBSCRIPTIONS, sink=self._buffer.name, bound=SUBSCRIPTIONS_MAX)
        places = [place(start, log, since, or_earliest=or_earliest) for log in self._buffer.logs]
        made_at_us, incarnation = self._services.clock.wall_us(), secrets.token_hex(8)
        record = SubscriptionRecord(name, made_at_us, start, incarnation, checked_request_id(request_id))
        created = self._waiting[name] = self._services.committer.write(self._begin(record, places))
        created.add_done_callback(lambda _: self._waiting.pop(name, None))
        await asyncio.shield(created)
        _log.info("subscription was created sink=%s subscription=%s start=%s", self._buffer.name, name, start.at.name)
        return record, places, True

    def _begin(self, record: SubscriptionRecord, places: Sequence[Place]) -> list[Write]:
        buffer = self._buffer
        lanes = [Lane(opened(where.start, buffer.logs[where.partition].gaps), buffer.settings) for where in places]
        subscription = Subscription(record, buffer, lanes, self._services)
        if buffer.record.paused is not None:
            subscription.pause(buffer.record.paused)
        self._records[record.name] = record
        buffer.subscriptions[record.name] = subscription  # from now on its records are not trimmed
        cursors = [subscription.cursor_write(where.partition) for where in places]
        return [PutSubscription(buffer.record.id, record), *cursors]

    async def delete(self, name: str, *, made_at_us: int | None = None, incarnation: str = "") -> None:
        """Delete a subscription and its accounts; pages that only it needed may then be trimmed.

        With ``made_at_us`` only the one that was created then, not a later one with its name. Raises
        ``SubscriptionNotFound``, ``DEFAULT_SUBSCRIPTION``.
        """
        self._check_alive()
        if name in {"", DEFAULT_SUBSCRIPTION}:
            raise BrokerError(Reason.DEFAULT_SUBSCRIPTION, sink=self._buffer.name)
        buffer = self._buffer
        subscription = buffer.subscription(name, incarnation)
        if made_at_us is not None and self._records[name].created_at_us != made_at_us:
            raise SubscriptionNotFound(buffer.name, name, "that was created at that time; it was recreated since")
        del buffer.subscriptions[name]
        del self._records[name]
        subscription.end(SubscriptionNotFound(buffer.name, name))
        own_gaps: list[Write] = [
            DropGap(buffer.record.id, log.number, gap.first, name)
            for log in buffer.logs
            for gap in log.rejections.forget(name)
        ]
        dropped = DropSubscription(buffer.record.id, name, len(buffer.logs))
        deleted = self._services.committer.write([dropped, *own_gaps])

        def durable(over: asyncio.Future[None]) -> None:
            if over.exception() is None:  # until then a crash restores the subscription
                subscription.forget_marks()

        deleted.add_done_callback(durable)
        for log in buffer.logs:  # their batches are written after this one
            buffer.trim_soon(log.number)
        self._services.instruments.forgotten(buffer.name, name)
        await asyncio.shield(deleted)
        _log.info("subscription was deleted sink=%s subscription=%s", buffer.name, name)

    async def seek(
        self, name: str, to: Position, *, partition: int | None, or_earliest: bool, incarnation: str = ""
    ) -> Sequence[Place]:
        """Move a subscription in one partition, those that ``to`` names, or all; returns its new places.

        Raises:
            SubscriptionNotFound: there is none with that name.
            INVALID_POSITION, InvalidPartition: no position is named, or a partition that does not exist.
            OffsetAhead, OffsetTrimmed: see ``place``; nothing was moved.
        """
        buffer = self._buffer
        buffer.subscription(name, incarnation)
        self._check(to)
        if partition is not None and to.at is At.OFFSETS:
            raise BrokerError(
                Reason.INVALID_POSITION,
                "`partition` and `to.offsets` both select partitions: use one of them",
                field="partition",
            )
        if partition is not None and partition >= len(buffer.logs):
            raise InvalidPartition(partition, len(buffer.logs))
        logs = [log for log in buffer.logs if partition in {None, log.number} and to.names(log.number)]
        since = await self._look_up(logs, to)
        self._check_alive()
        subscription = buffer.subscription(name, incarnation)
        places = [place(to, log, since, or_earliest=or_earliest) for log in logs]
        writes = [write for where in places for write in subscription.move(where.partition, where.start)]
        moved = self._services.committer.write(writes)
        for where in places:
            subscription.saving(where.partition, moved)
            buffer.trim_soon(where.partition)
        await asyncio.shield(moved)
        _log.info("subscription was moved sink=%s subscription=%s to=%s", buffer.name, subscription.name, to.at.name)
        return places

    async def settle(self, name: str, offsets: Mapping[int, int], *, incarnation: str = "") -> Sequence[Settled]:
        """Settle all below an offset in each named partition; returns the results by partition.

        Raises:
            SubscriptionNotFound: there is none with that name.
            INVALID_POSITION, InvalidPartition: no offset is named, or a partition that does not exist.
            OffsetAhead: an offset is beyond the end; nothing was settled.
            SUBSCRIPTION_IN_USE: a consumer owns a partition, or a holder has a leased part; nothing was settled.
        """
        buffer = self._buffer
        self._check_alive()
        subscription = buffer.subscription(name, incarnation)
        subscription.pullers.sweep()  # an expired lease owns nothing
        subscription.leasing.sweep()
        if not offsets:
            raise BrokerError(Reason.INVALID_POSITION, "no offset is named", field="offsets")
        for partition, offset in offsets.items():
            lane = subscription.lane(partition)
            log = buffer.logs[partition]
            if offset > log.tail.next_offset:
                raise OffsetAhead(offset, log.earliest, log.tail.next_offset)
            place = {"sink": buffer.name, "subscription": subscription.name, "partition": partition}
            if lane.owner is not None:
                user = f"consumer {lane.owner!r} owns"
                raise BrokerError(Reason.SUBSCRIPTION_IN_USE, user, **place, consumer_id=lane.owner)
            holder = lane.leased_below(offset)
            if holder is not None:
                user = f"holder {holder!r} has a leased set of"
                raise BrokerError(Reason.SUBSCRIPTION_IN_USE, user, **place, holder=holder)
        acked = {partition: subscription.settle_below(partition, offsets[partition]) for partition in sorted(offsets)}
        found = [
            Settled(partition, acked[partition], subscription.lanes[partition].cursor.watermark) for partition in acked
        ]
        writes = [subscription.cursor_write(partition) for partition in acked]
        written = self._services.committer.write(writes)
        for partition in acked:
            subscription.saving(partition, written)
            buffer.trim_soon(partition)
        await asyncio.shield(written)
        return found

    def _check(self, position: Position) -> None:
        for partition, _ in position.offsets:
            if partition >= len(self._buffer.logs):
                raise InvalidPartition(partition, len(self._buffer.logs))

    def _check_alive(self) -> None:
        if self._buffer.deleted:
            raise SinkNotFound(self._buffer.name)

    async def _look_up(self, logs: Sequence[PartitionLog], position: Position) -> Mapping[int, int]:
        """Load the first entries; returns the first offsets since a time, by partition."""
        logs = list(logs)  # partitions may be added meanwhile
        if position.at is At.LATEST:
            return {}
        pages, sink = self._services.pages, self._buffer.record.id
        if position.at is not At.TIME:
            await asyncio.gather(*(pages.load_oldest(sink, log) for log in logs))
            return {}
        readings = [Replay(self._buffer, log.number, pages) for log in logs]
        found = await asyncio.gather(*(one.start_at(offset=None, time_us=position.number) for one in readings))
        return {log.number: offset for log, offset in zip(logs, found, strict=True)}
