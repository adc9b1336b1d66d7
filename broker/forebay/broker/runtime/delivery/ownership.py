"""Who owns which partition of a subscription, and how it comes to another consumer.

A partition is handed over when nothing of it is in flight, or when its owner has not answered for a deadline. Used on
the loop only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Final

from forebay.broker.core.delivery.assignment import assign
from forebay.broker.core.delivery.lane import Lane
from forebay.broker.core.errors import ConsumerReplaced, SessionTimedOut, SubscriptionNotFound
from forebay.broker.core.settings import SECOND_US
from forebay.broker.runtime.delivery.consumer import Consumer, Credit
from forebay.broker.runtime.delivery.events import Assigned, Event

if TYPE_CHECKING:
    from forebay.broker.runtime.delivery.subscription import Subscription
    from forebay.broker.runtime.sink.buffer import Buffer, Services

_log: Final = logging.getLogger(__name__)
EPOCH_BITS: Final = 40
"""The start count stands above them: an owner epoch is never given twice."""


def owner_epochs(start_count: int) -> Iterator[int]:
    """The owner epochs of one run of the broker."""
    return count((start_count << EPOCH_BITS) + 1)


class Ownership:
    """The consumers of one subscription, and the partitions that each of them has."""

    def __init__(self, subscription: Subscription, buffer: Buffer, services: Services) -> None:
        self.consumers: dict[str, Consumer] = {}
        self._subscription = subscription
        self._buffer = buffer
        self._services = services
        self._moving: dict[int, float] = {}
        """Partitions to be handed over when nothing is in flight, and until when they may keep their owner."""

    def of(self, partition: int) -> Consumer | None:
        """The consumer that owns a partition."""
        owner = self._lanes[partition].owner
        return self.consumers.get(owner) if owner is not None else None

    def lanes_of(self, consumer_id: str) -> list[Lane]:
        """The lanes that a consumer owns."""
        return [lane for lane in self._lanes if lane.owner == consumer_id]

    def join(self, consumer_id: str, credit: Credit, emit: Callable[[Event], None]) -> Consumer:
        """Add a consumer; one with the same id is replaced. Raises ``SubscriptionNotFound`` once it was deleted."""
        if self._subscription.deleted:
            raise SubscriptionNotFound(self._buffer.name, self._subscription.name)
        old = self.consumers.pop(consumer_id, None)
        if old is not None:
            self._end(old, ConsumerReplaced(consumer_id), failed=True)  # it has not said goodbye
        consumer = Consumer(consumer_id, self._subscription, credit, emit)
        self.consumers[consumer_id] = consumer
        self.balance()
        return consumer

    def leave(self, consumer: Consumer, *, orderly: bool) -> None:
        """The consumer is gone; what it had in flight goes to others at once.

        ``orderly``: it has said goodbye, or the broker ends it. Else it vanished, which is a failed try.
        """
        if self.consumers.get(consumer.id) is consumer:
            del self.consumers[consumer.id]
            self._release(consumer, failed=not orderly)
            self.balance()

    def end_hung(self, now: float) -> None:
        """End the consumers that left a ping without an answer: their partitions go to others, and nothing failed."""
        for consumer in [each for each in self.consumers.values() if each.is_hung(now)]:
            assert consumer.session is not None, "it was asked"
            _log.warning("consumer hangs sink=%s consumer=%s", self._buffer.name, consumer.id)
            del self.consumers[consumer.id]
            self._end(consumer, SessionTimedOut(consumer.id, consumer.session.timeout_s), failed=False)
            self.balance()

    def end(self, why: Exception) -> None:
        """All consumers end with ``why``."""
        for consumer in list(self.consumers.values()):
            del self.consumers[consumer.id]
            self._end(consumer, why, failed=False)

    # -- handing over

    def moving(self, partition: int) -> bool:
        """The partition is to be handed over: nothing new is sent to its owner."""
        return partition in self._moving

    def moving_until(self, partition: int) -> float | None:
        """Until when a partition that is to be handed over may keep its owner; None when it is not."""
        return self._moving.get(partition)

    def timers(self) -> list[float]:
        """When partitions are taken from an owner that does not finish."""
        return list(self._moving.values())

    def balance(self) -> None:
        """Spread the partitions over the consumers, as far as nothing in flight stands against it."""
        owners = {number: lane.owner for number, lane in enumerate(self._lanes) if lane.owner is not None}
        plan = assign(len(self._lanes), list(self.consumers), owners)
        touched: set[str] = set()
        for partition, owner in plan.items():
            lane = self._lanes[partition]
            if lane.owner == owner:
                self._moving.pop(partition, None)
            elif lane.owner is None or lane.idle:
                touched |= {owner} | ({lane.owner} if lane.owner else set())
                self._give(partition, owner)
            elif partition not in self._moving:
                deadline_s = self._subscription.settings.ack_deadline_us / SECOND_US
                self._moving[partition] = self._subscription.now() + deadline_s
        for consumer_id in touched:
            self._tell_assignment(consumer_id)

    def balance_if_idle(self, partition: int) -> None:
        """Something is no longer in flight: a partition that is to be handed over may go now."""
        if self.moving(partition) and self._lanes[partition].idle:
            self.balance()

    def let_time_pass(self, now: float) -> None:
        """Take partitions from owners that were asked for them and did not finish in time; nothing failed by that."""
        overdue = [partition for partition, until in self._moving.items() if now >= until]
        for partition in overdue:
            lane = self._lanes[partition]
            previous = lane.owner
            lane.release(failed=False)
            if previous is not None:
                self._tell_assignment(previous)
        if overdue or any(self._lanes[p].idle for p in self._moving):
            self.balance()

    # -- inside

    @property
    def _lanes(self) -> list[Lane]:
        return self._subscription.lanes

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
                    self._subscription.save(partition)
                    self._services.instruments.failed(self._buffer.name, self._subscription.name, "disconnect")
                    why = "the consumer left without an answer"
                    self._subscription.dead_letters.look_for_exhausted(partition, why)
                self._moving.pop(partition, None)

    def _give(self, partition: int, owner: str) -> None:
        lane = self._lanes[partition]
        if lane.owner is not None:
            lane.release(failed=False)
        lane.take(owner, next(self._services.owner_epochs), self.consumers[owner].usage)
        self._moving.pop(partition, None)
        self.consumers[owner].wakeup.set()

    def _tell_assignment(self, consumer_id: str) -> None:
        consumer = self.consumers.get(consumer_id)
        if consumer is not None:
            owned = [
                (p, lane.owner_epoch, lane.revision) for p, lane in enumerate(self._lanes) if lane.owner == consumer_id
            ]
            consumer.emit(Assigned(tuple(owned)))
