"""Ownership of a subscription's partitions, and their handover to another consumer.

A partition is handed over when nothing of it is in flight, or when its owner has not answered for a deadline. Used on
the loop only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

from forebay.broker.core.delivery.assignment import assign
from forebay.broker.core.delivery.lane import Revocation
from forebay.broker.core.errors import BrokerError, SubscriptionNotFound
from forebay.broker.core.settings import SECOND_US
from forebay.broker.runtime.delivery.consumer import Consumer, Credit
from forebay.broker.runtime.delivery.events import Assigned, Event, Revoked
from forebay.broker.runtime.delivery.lanes import Lanes
from forebay.errors.reasons import Reason

_log: Final = logging.getLogger(__name__)
EPOCH_BITS: Final = 40
"""Bits below the start count in an owner epoch, so that no owner epoch is reused."""


def owner_epochs(start_count: int) -> Iterator[int]:
    """Return the owner epochs of one run of the broker."""
    return count((start_count << EPOCH_BITS) + 1)


Connect = Callable[[str, Credit, Callable[[Event], None]], Consumer]


class Ownership:
    """Consumers of one subscription, and their partitions."""

    def __init__(
        self, lanes: Lanes, owner_epochs: Iterator[int], connect: Connect, on_failed: Callable[[int], None]
    ) -> None:
        """``connect`` makes a consumer; ``on_failed``: an owner vanished with records in flight."""
        self.consumers: dict[str, Consumer] = {}
        self._lanes = lanes
        self._owner_epochs = owner_epochs
        self._connect = connect
        self._on_failed = on_failed

    def of(self, partition: int) -> Consumer | None:
        """Return the consumer that owns a partition."""
        owner = self._lanes[partition].owner
        return self.consumers.get(owner) if owner is not None else None

    def wake(self, partition: int) -> None:
        """Wake the owner of a partition after a change."""
        consumer = self.of(partition)
        if consumer is not None:
            consumer.wakeup.set()

    def notify(self, partition: int, revocation: Revocation) -> None:
        """Notify the owner of a partition that records in flight were revoked, and wake it."""
        consumer = self.of(partition)
        if consumer is not None:
            if revocation.notify:
                consumer.emit(Revoked(partition, revocation.first, revocation.revision))
            consumer.wakeup.set()

    def join(self, consumer_id: str, credit: Credit, emit: Callable[[Event], None]) -> Consumer:
        """Add a consumer, in place of one with the same id. Raises ``SubscriptionNotFound`` after deletion."""
        if self._lanes.deleted:
            raise SubscriptionNotFound(self._lanes.sink.name, self._lanes.name)
        old = self.consumers.pop(consumer_id, None)
        if old is not None:
            replaced = BrokerError(Reason.CONSUMER_REPLACED, consumer_id=consumer_id)
            self._end(old, replaced, failed=True)  # it did not end its stream
        consumer = self._connect(consumer_id, credit, emit)
        self.consumers[consumer_id] = consumer
        self.balance()
        return consumer

    def leave(self, consumer: Consumer, *, orderly: bool) -> None:
        """Remove a consumer; its records in flight are redelivered to others at once.

        ``orderly``: it ended its stream, or the broker ends it. Otherwise it vanished, which is a failed attempt.
        """
        if self.consumers.get(consumer.id) is consumer:
            del self.consumers[consumer.id]
            self._release(consumer, failed=not orderly)
            self.balance()

    def end_hung(self, now: float) -> None:
        """End the consumers that left a ping unanswered; their records did not fail."""
        for consumer in [each for each in self.consumers.values() if each.is_hung(now)]:
            assert consumer.session is not None, "only a consumer with a session can hang"
            _log.warning("consumer hangs sink=%s consumer=%s", self._lanes.sink.name, consumer.id)
            del self.consumers[consumer.id]
            self._end(
                consumer,
                BrokerError(Reason.SESSION_TIMED_OUT, f"{consumer.session.timeout_s:g} s", consumer_id=consumer.id),
                failed=False,
            )
            self.balance()

    def end(self, why: Exception) -> None:
        """End all consumers with ``why``."""
        for consumer in list(self.consumers.values()):
            del self.consumers[consumer.id]
            self._end(consumer, why, failed=False)

    # -- handing over

    def balance(self) -> None:
        """Balance the partitions over the consumers; those with records in flight follow later."""
        owners = {number: lane.owner for number, lane in enumerate(self._lanes) if lane.owner is not None}
        plan = assign(len(self._lanes), list(self.consumers), owners)
        touched: set[str] = set()
        for partition, owner in plan.items():
            lane = self._lanes[partition]
            if lane.owner == owner:
                self._lanes.handovers.pop(partition, None)
            elif lane.owner is None or lane.idle:
                touched |= {owner} | ({lane.owner} if lane.owner else set())
                self._give(partition, owner)
            elif partition not in self._lanes.handovers:
                self._lanes.handovers[partition] = self._handover_until()
        for consumer_id in touched:
            self._notify_assignment(consumer_id)

    def _handover_until(self) -> float:
        return self._lanes.now() + self._lanes.settings.ack_deadline_us / SECOND_US

    def answered(self, partition: int) -> None:
        """Let an owner that has answered keep its records in flight for another deadline."""
        if partition in self._lanes.handovers:
            self._lanes.handovers[partition] = self._handover_until()

    def balance_if_idle(self, partition: int) -> None:
        """Hand over a partition that has nothing in flight any more."""
        if partition in self._lanes.handovers and self._lanes[partition].idle:
            self.balance()

    def process_timers(self, now: float) -> None:
        """Revoke partitions from owners that did not finish in time; their records did not fail."""
        overdue = [partition for partition, until in self._lanes.handovers.items() if now >= until]
        for partition in overdue:
            lane = self._lanes[partition]
            previous = lane.owner
            lane.release(failed=False)
            if previous is not None:
                self._notify_assignment(previous)
        if overdue or any(self._lanes[p].idle for p in self._lanes.handovers):
            self.balance()

    # -- inside

    def _end(self, consumer: Consumer, why: Exception, *, failed: bool) -> None:
        consumer.closed = why
        consumer.wakeup.set()
        self._release(consumer, failed=failed)

    def _release(self, consumer: Consumer, *, failed: bool) -> None:
        for partition, lane in enumerate(self._lanes):
            if lane.owner == consumer.id:
                tried = failed and not lane.idle
                lane.release(failed=tried)
                if tried:
                    self._on_failed(partition)
                self._lanes.handovers.pop(partition, None)

    def _give(self, partition: int, owner: str) -> None:
        lane = self._lanes[partition]
        if lane.owner is not None:
            lane.release(failed=False)
        lane.assign(owner, next(self._owner_epochs), self.consumers[owner].usage)
        self._lanes.handovers.pop(partition, None)
        self.consumers[owner].wakeup.set()

    def _notify_assignment(self, consumer_id: str) -> None:
        consumer = self.consumers.get(consumer_id)
        if consumer is not None:
            owned = [
                (p, lane.owner_epoch, lane.revision) for p, lane in enumerate(self._lanes) if lane.owner == consumer_id
            ]
            consumer.emit(Assigned(tuple(owned)))
