"""Registry of a sink's subscriptions: create, list, seek, settle and delete.

Index reads come first. Then everything is checked and decided at once on the loop, and written in one batch: a request
changes all its partitions or none. It is answered when that batch is durable.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.broker.core.delivery.lane import Lane
from forebay.broker.core.errors import (
    BrokerError,
    InvalidPartition,
    InvalidValue,
    OffsetAhead,
    SubscriptionNotFound,
    quoted,
    shown,
)
from forebay.broker.core.names import ID_FORM, checked_request_id, is_id
from forebay.broker.core.partition.account import Totals, opened
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.position import EARLIEST, At, Position, StartOffset, place
from forebay.broker.core.writes import DropGap, DropSubscription, PutSubscription, SubscriptionRecord, Write
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.delivery.lanes import DEFAULT_SUBSCRIPTION
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.broker.runtime.instruments import Instruments
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.read.replay import Replay
from forebay.broker.runtime.sink.retention.removal import Removal
from forebay.broker.runtime.sink.state import Sink
from forebay.errors.reasons import Reason

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


MakeSubscription = Callable[[SubscriptionRecord, Sequence[Lane]], Subscription]


class Subscriptions:
    """Subscriptions of one sink, stored and running. Used on the loop."""

    def __init__(
        self,
        sink: Sink,
        running: dict[str, Subscription],
        records: Iterable[SubscriptionRecord],
        removal: Removal,
        *,
        committer: Committer,
        pages: Pages,
        instruments: Instruments,
        make: MakeSubscription,
    ) -> None:
        """``running`` holds the subscriptions by name; ``make`` builds one."""
        self._sink = sink
        self._running = running
        self._removal = removal
        self._committer = committer
        self._pages = pages
        self._instruments = instruments
        self._make = make
        made_at_us, incarnation = sink.record.created_at_us, sink.record.incarnation
        default = SubscriptionRecord(DEFAULT_SUBSCRIPTION, made_at_us, EARLIEST, incarnation)  # it ends with its sink
        self._records = {default.name: default, **{record.name: record for record in records}}
        for record in self._records.values():
            if not record.start.is_shown_exactly:
                _log.warning(
                    "stored start time is outside of the years 1 to 9999, the nearest is shown sink=%s subscription=%s",
                    *(sink.name, record.name),
                )
        self._waiting: dict[str, asyncio.Future[None]] = {}
        """Creations that are not durable yet."""

    def restore(self, cursors: Mapping[tuple[str, int], Cursor], totals: Mapping[tuple[str, int], Totals]) -> None:
        """Start all stored subscriptions, with the cursors and the totals that a start found."""
        for name in self.names:
            lanes = [Lane(cursors.get((name, log.number), Cursor()), self._sink.settings) for log in self._sink.logs]
            self._start(self._records[name], lanes)
        for (name, partition), closed in totals.items():
            if name in self._running:
                self._running[name].accounts.load(partition, closed)

    def _start(self, record: SubscriptionRecord, lanes: Sequence[Lane]) -> Subscription:
        subscription = self._running[record.name] = self._make(record, lanes)
        if self._sink.record.paused is not None:
            subscription.pause(self._sink.record.paused)
        return subscription

    def get(self, name: str, incarnation: str = "") -> Subscription:
        """Return the subscription with that name, and that incarnation if one is given.

        An empty name is `default`. Every request for a subscription looks it up here, so no request for a former one
        reaches its successor. Raises ``SubscriptionNotFound``, ``SUBSCRIPTION_REPLACED``.
        """
        found = self._running.get(name or DEFAULT_SUBSCRIPTION)
        if found is None:
            raise SubscriptionNotFound(self._sink.name, name)
        if incarnation and incarnation != found.record.incarnation:
            raise BrokerError(
                Reason.SUBSCRIPTION_REPLACED,
                sink=self._sink.name,
                subscription=found.name,
                named=shown(incarnation),
                current=found.record.incarnation,
            )
        return found

    @property
    def names(self) -> list[str]:
        """Names of all subscriptions that are stored, or about to be."""
        return sorted(self._records)

    def all(self) -> list[SubscriptionRecord]:
        """Return all subscriptions whose creation is durable, by name."""
        return [self._records[name] for name in self.names if name not in self._waiting]

    async def create(
        self, name: str, start: Position, *, or_earliest: bool, request_id: str = ""
    ) -> tuple[SubscriptionRecord, Sequence[StartOffset], bool]:
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
            raise InvalidValue(Reason.INVALID_SUBSCRIPTION_NAME, "name", quoted(name), ID_FORM)
        self._check(start)
        since = await self._look_up(self._sink.logs, start) if name not in self._records else {}
        self._sink.check_alive()
        existing = self._records.get(name)
        if existing is not None:
            if existing.start != start:
                raise BrokerError(Reason.SUBSCRIPTION_EXISTS, sink=self._sink.name, subscription=name)
            await asyncio.shield(self._waiting.get(name, self._sink.created))
            return existing, (), bool(request_id) and existing.request_id == request_id
        if len(self._records) >= SUBSCRIPTIONS_MAX:
            raise BrokerError(Reason.TOO_MANY_SUBSCRIPTIONS, sink=self._sink.name, bound=SUBSCRIPTIONS_MAX)
        places = [place(start, log, since, or_earliest=or_earliest) for log in self._sink.logs]
        made_at_us, incarnation = self._sink.clock.wall_us(), secrets.token_hex(8)
        record = SubscriptionRecord(name, made_at_us, start, incarnation, checked_request_id(request_id))
        created = self._waiting[name] = self._committer.write(self._begin(record, places))
        created.add_done_callback(lambda _: self._waiting.pop(name, None))
        await asyncio.shield(created)
        _log.info("subscription was created sink=%s subscription=%s start=%s", self._sink.name, name, start.at.name)
        return record, places, True

    def _begin(self, record: SubscriptionRecord, places: Sequence[StartOffset]) -> list[Write]:
        sink = self._sink
        lanes = [Lane(opened(where.start, sink.logs[where.partition].gaps), sink.settings) for where in places]
        self._records[record.name] = record
        subscription = self._start(record, lanes)  # from now on its records are not trimmed
        cursors = [subscription.cursor_write(where.partition) for where in places]
        return [PutSubscription(sink.id, record), *cursors]

    async def delete(self, name: str, *, made_at_us: int | None = None, incarnation: str = "") -> None:
        """Delete a subscription and its accounts; pages that only it needed may then be trimmed.

        With ``made_at_us`` only the one that was created then, not a later one with its name. Raises
        ``SubscriptionNotFound``, ``DEFAULT_SUBSCRIPTION``.
        """
        self._sink.check_alive()
        if name in {"", DEFAULT_SUBSCRIPTION}:
            raise BrokerError(Reason.DEFAULT_SUBSCRIPTION, sink=self._sink.name)
        sink = self._sink
        subscription = self.get(name, incarnation)
        if made_at_us is not None and self._records[name].created_at_us != made_at_us:
            raise SubscriptionNotFound(sink.name, name, "that was created at that time; it was recreated since")
        del self._running[name]
        del sink.lanes[name]
        del self._records[name]
        subscription.end(SubscriptionNotFound(sink.name, name))
        own_gaps: list[Write] = [
            DropGap(sink.id, log.number, gap.first, name)
            for log in sink.logs
            for gap in log.rejections.remove_subscription(name)
        ]
        dropped = DropSubscription(sink.id, name, len(sink.logs))
        deleted = self._committer.write([dropped, *own_gaps])

        def durable(over: asyncio.Future[None]) -> None:
            if over.exception() is None:  # until then a crash restores the subscription
                subscription.accounts.remove_marks()

        deleted.add_done_callback(durable)
        for log in sink.logs:  # their batches are written after this one
            self._removal.trim_soon(log.number)
        self._instruments.forgotten(sink.name, name)
        await asyncio.shield(deleted)
        _log.info("subscription was deleted sink=%s subscription=%s", sink.name, name)

    async def seek(
        self, name: str, to: Position, *, partition: int | None, or_earliest: bool, incarnation: str = ""
    ) -> Sequence[StartOffset]:
        """Move a subscription in one partition, those that ``to`` names, or all; returns its new places.

        Raises:
            SubscriptionNotFound: there is none with that name.
            INVALID_POSITION, InvalidPartition: no position is named, or a partition that does not exist.
            OffsetAhead, OffsetTrimmed: see ``place``; nothing was moved.
        """
        all_logs = self._sink.logs
        self.get(name, incarnation)
        self._check(to)
        if partition is not None and to.at is At.OFFSETS:
            raise BrokerError(
                Reason.INVALID_POSITION,
                "`partition` and `to.offsets` both select partitions: use one of them",
                field="partition",
            )
        if partition is not None and partition >= len(all_logs):
            raise InvalidPartition(partition, len(all_logs))
        logs = [log for log in all_logs if partition in {None, log.number} and to.names(log.number)]
        since = await self._look_up(logs, to)
        self._sink.check_alive()
        subscription = self.get(name, incarnation)
        places = [place(to, log, since, or_earliest=or_earliest) for log in logs]
        writes = [write for where in places for write in subscription.move(where.partition, where.start)]
        partitions = [where.partition for where in places]
        moved = subscription.accounts.note_saved(partitions, self._committer.write(writes))
        for number in partitions:
            self._removal.trim_soon(number)
        await asyncio.shield(moved)
        _log.info(
            "subscription was moved sink=%s subscription=%s to=%s", self._sink.name, subscription.name, to.at.name
        )
        return places

    async def settle(self, name: str, offsets: Mapping[int, int], *, incarnation: str = "") -> Sequence[Settled]:
        """Settle all below an offset in each named partition; returns the results by partition.

        Raises:
            SubscriptionNotFound: there is none with that name.
            INVALID_POSITION, InvalidPartition: no offset is named, or a partition that does not exist.
            OffsetAhead: an offset is beyond the end; nothing was settled.
            SUBSCRIPTION_IN_USE: a consumer owns a partition, or a holder has a leased part; nothing was settled.
        """
        sink = self._sink
        sink.check_alive()
        subscription = self.get(name, incarnation)
        subscription.pullers.sweep()  # an expired lease owns nothing
        subscription.leasing.sweep()
        if not offsets:
            raise BrokerError(Reason.INVALID_POSITION, "no offset is named", field="offsets")
        for partition, offset in offsets.items():
            lane = subscription.lane(partition)
            log = sink.logs[partition]
            if offset > log.tail.next_offset:
                raise OffsetAhead(offset, log.earliest, log.tail.next_offset)
            place = {"sink": sink.name, "subscription": subscription.name, "partition": partition}
            if lane.owner is not None:
                user = f"consumer {lane.owner!r} owns"
                raise BrokerError(Reason.SUBSCRIPTION_IN_USE, user, **place, consumer_id=lane.owner)
            holder = lane.lease_manager.leased_below(offset)
            if holder is not None:
                user = f"holder {holder!r} has a leased set of"
                raise BrokerError(Reason.SUBSCRIPTION_IN_USE, user, **place, holder=holder)
        acked = {partition: subscription.settle_below(partition, offsets[partition]) for partition in sorted(offsets)}
        found = [
            Settled(partition, acked[partition], subscription.lanes[partition].cursor.watermark) for partition in acked
        ]
        written = subscription.accounts.save_all(list(acked))
        for partition in acked:
            self._removal.trim_soon(partition)
        await asyncio.shield(written)
        return found

    def _check(self, position: Position) -> None:
        for partition, _ in position.offsets:
            if partition >= len(self._sink.logs):
                raise InvalidPartition(partition, len(self._sink.logs))

    async def _look_up(self, logs: Sequence[PartitionLog], position: Position) -> Mapping[int, int]:
        """Load the first entries; returns the first offsets since a time, by partition."""
        logs = list(logs)  # partitions may be added meanwhile
        if position.at is At.LATEST:
            return {}
        if position.at is not At.TIME:
            await asyncio.gather(*(self._pages.load_oldest(self._sink.id, log) for log in logs))
            return {}
        readings = [Replay(self._sink, log.number, self._pages, self._removal) for log in logs]
        found = await asyncio.gather(*(one.start_at(offset=None, time_us=position.number) for one in readings))
        return {log.number: offset for log, offset in zip(logs, found, strict=True)}
