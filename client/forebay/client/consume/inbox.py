"""Inbox of a subscriber: received deliveries that are not settled.

Decides which records are void. Records become void by a `revoked` of the broker, by the user's own nack (immediately,
before the broker confirms it), and by the loss of the partition or of the stream. Void records in the queue are never
returned; a taken delivery with void records ends early. Not thread-safe: the subscriber owns it.

In RELAXED order the broker revokes nothing when a deadline has passed: the redelivered records replace those that are
still queued. Otherwise a consumer that is slower than the deadline would only receive outdated deliveries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from forebay.client.consume.delivery import Delivery
from forebay.client.values.ranges import Range, merge, without

EXTENDS_PER_DEADLINE: Final = 3


@dataclass(slots=True)
class _Lane:
    """Partition that this consumer owns."""

    owner_epoch: int
    revision: int = 0
    given_back: tuple[int, int] | None = None
    """Revision and offset of the user's nack.

    Deliveries of that revision or an older one are void from that offset on.

    It ends with a revocation from this offset or below. A revocation from above was already in transit and does not end
    it.
    """

    taken: list[Delivery] = field(default_factory=list)
    """Deliveries taken and not settled. Bounded by the credit, because they count as in flight."""

    extended_at: float = 0.0
    """Time of the last deadline extension, or of the first delivery after a pause."""


class Inbox:
    """Queue of a subscriber."""

    def __init__(self) -> None:
        self._queue: deque[Delivery] = deque()
        self._lanes: dict[int, _Lane] = {}

    def __len__(self) -> int:
        """Return the number of queued deliveries."""
        return len(self._queue)

    def assigned(self, owners: dict[int, tuple[int, int]]) -> list[Delivery]:
        """Apply an assignment, as partition → (owner epoch, revision); return taken deliveries now void."""
        void: list[Delivery] = []
        for partition, lane in list(self._lanes.items()):
            if owners.get(partition, (-1, 0))[0] != lane.owner_epoch:
                void += self._void(partition, lane, 0)
                del self._lanes[partition]
        for partition, (owner_epoch, revision) in owners.items():
            lane = self._lanes.setdefault(partition, _Lane(owner_epoch))
            lane.revision = max(lane.revision, revision)
        return void

    def arrived(self, delivery: Delivery, now: float) -> bool:
        """Queue a delivery; return False if all of it is void already."""
        lane = self._lanes.get(delivery.partition)
        if delivery.gap is None and (lane is None or lane.owner_epoch < delivery.owner_epoch):
            lane = self._lanes[delivery.partition] = _Lane(delivery.owner_epoch)
        if lane is not None:
            if delivery.gap is None:
                if delivery.owner_epoch < lane.owner_epoch or delivery.revision < lane.revision:
                    return False
                lane.revision = delivery.revision
            given_back = lane.given_back
            if given_back is not None and (delivery.gap is not None or delivery.revision <= given_back[0]):
                kept = delivery.cut(given_back[1])
                if kept is None:
                    return False
                delivery = kept
            delivery.extended_at = now
            if not lane.taken and not any(one.partition == delivery.partition for one in self._queue):
                lane.extended_at = now
        if delivery.relaxed and delivery.resend:
            self._queue = deque(one for one in self._queue if not _comes_again(one, delivery))
        self._queue.append(delivery)
        return True

    def revoked(self, partition: int, from_offset: int, revision: int) -> list[Delivery]:
        """Apply a revocation by the broker; return taken deliveries that became void."""
        lane = self._lanes.get(partition)
        if lane is None:
            return []
        lane.revision = max(lane.revision, revision)
        if lane.given_back is not None:
            offset = lane.given_back[1]
            lane.given_back = None if from_offset <= offset else (lane.revision, offset)
        return self._void(partition, lane, from_offset)

    def gave_back(self, delivery: Delivery, from_offset: int) -> list[Delivery]:
        """Apply the user's nack of ``delivery`` from an offset on; return taken deliveries that became void."""
        lane = self._lanes.get(delivery.partition)
        if lane is None or lane.owner_epoch != delivery.owner_epoch:
            return []
        lowest = from_offset if lane.given_back is None else min(from_offset, lane.given_back[1])
        lane.given_back = (lane.revision, lowest)
        return self._void(delivery.partition, lane, from_offset)

    def not_given_back(self, partition: int, owner_epoch: int, offset: int) -> None:
        """Undo the effect of a nack that the broker rejected: no revocation follows it."""
        lane = self._lanes.get(partition)
        if lane is None or lane.owner_epoch != owner_epoch or lane.given_back is None:
            return
        if lane.given_back[1] == offset:
            lane.given_back = None

    def broke(self) -> list[Delivery]:
        """Void everything after the end of the stream; return taken deliveries that became void."""
        return self.assigned({})

    def take(self) -> Delivery | None:
        """Return the oldest delivery and remember it as taken."""
        if not self._queue:
            return None
        delivery = self._queue.popleft()
        lane = self._lanes.get(delivery.partition)
        if lane is not None and delivery.gap is None:
            lane.taken.append(delivery)
        return delivery

    def settled(self, delivery: Delivery) -> None:
        """Forget a delivery of which everything was answered."""
        lane = self._lanes.get(delivery.partition)
        if lane is not None and delivery in lane.taken:
            lane.taken.remove(delivery)

    def settled_until(self, partition: int, owner_epoch: int, last: int) -> list[Delivery]:
        """Settle all offsets up to ``last`` in all deliveries; return taken ones with nothing left."""
        lane = self._lanes.get(partition)
        if lane is None or lane.owner_epoch != owner_epoch:
            return []
        for delivery in lane.taken:
            delivery.answer([(0, last)])
        done = [delivery for delivery in lane.taken if not delivery.left]
        lane.taken = [delivery for delivery in lane.taken if delivery.left]
        for delivery in self._queue:
            if delivery.partition == partition and delivery.gap is None and delivery.owner_epoch == owner_epoch:
                delivery.answer([(0, last)])
        self._queue = deque(one for one in self._queue if one.gap is not None or one.left)
        return done

    def has_come(self, partition: int, offset: int) -> bool:
        """Return True if a record at or above an offset has arrived, so that the broker knows the offset."""
        lane = self._lanes.get(partition)
        found = [*(lane.taken if lane is not None else ()), *(one for one in self._queue if one.partition == partition)]
        return any(one.last_offset >= offset for one in found)

    def is_current(self, delivery: Delivery) -> bool:
        """Return True if answers to a delivery can still have an effect."""
        lane = self._lanes.get(delivery.partition)
        return lane is not None and lane.owner_epoch == delivery.owner_epoch

    def to_extend(
        self, worked_on: Delivery | None, deadline_s: float, now: float
    ) -> Iterable[tuple[int, int, list[Range]]]:
        """Return (partition, owner epoch, ranges) whose deadline extension is due.

        In STRICT order these are the partition of the delivery ``worked_on``, and partitions whose records only wait in
        the queue; a partition has one deadline, so there are no ranges. A partition whose oldest records were taken and
        not processed is not extended, so that they expire. In RELAXED order it is ``worked_on`` itself, and each queued
        delivery.
        """
        due: list[tuple[int, int, list[Range]]] = []
        pause_s = deadline_s / EXTENDS_PER_DEADLINE
        strict: set[int] = set()
        late: dict[int, list[Delivery]] = {}
        for delivery in (*self._queue, *((worked_on,) if worked_on is not None else ())):
            if not delivery.relaxed:
                if delivery is worked_on or not self._in_hand(delivery.partition):
                    strict.add(delivery.partition)
            elif delivery.left and now - delivery.extended_at >= pause_s:
                delivery.extended_at = now
                late.setdefault(delivery.partition, []).append(delivery)
        for partition, lane in self._lanes.items():
            if partition in strict and now - lane.extended_at >= pause_s:
                lane.extended_at = now
                due.append((partition, lane.owner_epoch, []))
            if partition in late:
                left = merge(found for delivery in late[partition] for found in delivery.left)
                due.append((partition, lane.owner_epoch, left))
        return due

    def _in_hand(self, partition: int) -> bool:
        lane = self._lanes.get(partition)
        return lane is not None and bool(lane.taken)

    def _void(self, partition: int, lane: _Lane, from_offset: int) -> list[Delivery]:
        kept: deque[Delivery] = deque()
        for delivery in self._queue:
            left = delivery.cut(from_offset) if delivery.partition == partition else delivery
            if left is not None:
                kept.append(left)
        self._queue = kept
        void = [delivery for delivery in lane.taken if delivery.last_offset >= from_offset]
        for delivery in void:
            delivery.void(from_offset)
        lane.taken = [delivery for delivery in lane.taken if delivery.left]
        return [delivery for delivery in void if not delivery.left]


def _comes_again(queued: Delivery, later: Delivery) -> bool:
    """Return True if a later delivery replaces all that is left of a queued one."""
    if queued.gap is not None or queued.partition != later.partition or queued.revision >= later.revision:
        return False
    return not without(queued.left, later.ranges)
