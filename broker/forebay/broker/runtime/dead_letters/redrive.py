"""Companion of redriven records: settles the dead letters, and skips them for other subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from forebay.broker.core.errors import SubscriptionNotFound
from forebay.broker.core.partition.cursor import Settlement
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.writes import Write
from forebay.broker.runtime.dead_letters.batch import Withdrawn
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.broker.runtime.sink.buffer import Buffer


class RedriveCompanion:
    """Companion of a page that returns to its origin.

    It settles the dead letters, and skips the records for the other subscriptions of the origin.
    """

    def __init__(
        self,
        dead: Buffer,
        origin: Buffer,
        subscription: str,
        partition: int,
        target: int,
        ranges: Sequence[Range],
        records: int,
    ) -> None:
        self._dead = dead
        self._origin = origin
        self._subscription = subscription
        self._partition = partition
        self._target = target
        self._ranges = ranges
        self._records = records
        self._ahead: list[tuple[Subscription, Range]] = []

    def begin(self) -> None:
        """Take the dead letters.

        Raises ``Withdrawn`` if another operation has them, and ``SubscriptionNotFound``: all other subscriptions skip
        the records, so that they would be settled at once.
        """
        if self._subscription not in self._origin.subscriptions:
            raise SubscriptionNotFound(self._origin.name, self._subscription)
        keeper = self._dead.subscription("")
        lane, now = keeper.lanes[self._partition], keeper.now()
        if self._dead.state.deleted or any(lane.sender.idle_in(part) != [part] for part in self._ranges):
            raise Withdrawn
        for part in self._ranges:
            lane.begin_transfer([part], now, keeper.log(self._partition).tail.next_offset, answered=False)
        lane.transfers.queue(self._ranges)

    def cut(self, first: int) -> Sequence[Write]:
        writes: list[Write] = []
        if not self._dead.state.deleted:
            keeper = self._dead.subscription("")
            keeper.lanes[self._partition].transfers.seal(self._ranges, Settlement.ACKED)
            writes.append(keeper.cursor_write(self._partition))
        brought = Range(first, first + self._records)
        for name, subscription in self._origin.subscriptions.items():
            if name != self._subscription:
                subscription.lanes[self._target].transfers.seal_ahead(brought)
                writes.append(subscription.cursor_write(self._target))
                self._ahead.append((subscription, brought))
        return writes

    def committed(self) -> None:
        keeper = self._dead.subscription("")
        lane = keeper.lanes[self._partition]
        keeper.accounts.settled(self._partition, "acked", lane.confirm_transfer(self._ranges, Settlement.ACKED))
        self._dead.removal.trim_soon(self._partition)
        keeper.wake(self._partition)
        for subscription, brought in self._ahead:
            skipped = subscription.lanes[self._target].skip_new(brought)
            subscription.accounts.settled(self._target, "skipped", skipped)
        self._origin.removal.trim_soon(self._target)
