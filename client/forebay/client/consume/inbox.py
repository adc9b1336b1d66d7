"""What a subscriber was sent and its user has not settled.

Decides which records are void. Three things make records void: the broker's `revoked`, the user's own nack (at once,
without waiting for the broker to say so), and the loss of the partition or of the whole stream. What is void and
queued is never handed out; what is void and taken already ends early. Not safe for threads: the subscriber owns it.

In RELAXED order the broker revokes nothing when a deadline has passed: the same records come again, and take the place
of those that are queued still. Else a user who is slower than the deadline would only ever be given what is too old.
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
    """One partition that this consumer owns."""

    owner_epoch: int
    revision: int = 0
    given_back: tuple[int, int] | None = None
    """(revision, offset): the user nacked; what comes under this revision or an older one, from there on, is void.

    It ends with a revocation from this offset or below. One from above was on the way already, and does not end it.
    """

    taken: list[Delivery] = field(default_factory=list)
    """Handed out and not settled. Bounded by the credit, because it counts as in flight."""

    extended_at: float = 0.0
    """When more time was last asked for, or the first delivery came after a pause."""


class Inbox:
    """The queue of a subscriber."""

    def __init__(self) -> None:
        self._queue: deque[Delivery] = deque()
        self._lanes: dict[int, _Lane] = {}

    def __len__(self) -> int:
        """Return how many deliveries are queued."""
        return len(self._queue)

    def assigned(self, owners: dict[int, tuple[int, int]]) -> list[Delivery]:
        """Take over partition → (owner epoch, revision); return what was taken and is void now."""
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
        """Queue what came; ``False`` when all of it is void already."""
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
        """The broker takes back what it sent; return what was taken and is void now."""
        lane = self._lanes.get(partition)
        if lane is None:
            return []
        lane.revision = max(lane.revision, revision)
        if lane.given_back is not None:
            offset = lane.given_back[1]
            lane.given_back = None if from_offset <= offset else (lane.revision, offset)
        return self._void(partition, lane, from_offset)

    def gave_back(self, delivery: Delivery, from_offset: int) -> list[Delivery]:
        """The user nacked ``delivery`` from an offset on; return what was taken and is void now."""
        lane = self._lanes.get(delivery.partition)
        if lane is None or lane.owner_epoch != delivery.owner_epoch:
            return []
        lowest = from_offset if lane.given_back is None else min(from_offset, lane.given_back[1])
        lane.given_back = (lane.revision, lowest)
        return self._void(delivery.partition, lane, from_offset)

    def not_given_back(self, partition: int, owner_epoch: int, offset: int) -> None:
        """The broker did not take a nack from ``offset`` on: no revocation will come of it."""
        lane = self._lanes.get(partition)
        if lane is None or lane.owner_epoch != owner_epoch or lane.given_back is None:
            return
        if lane.given_back[1] == offset:
            lane.given_back = None

    def broke(self) -> list[Delivery]:
        """The stream has ended; return what was taken and is void now."""
        return self.assigned({})

    def take(self) -> Delivery | None:
        """Hand out the oldest delivery."""
        if not self._queue:
            return None
        delivery = self._queue.popleft()
        lane = self._lanes.get(delivery.partition)
        if lane is not None and delivery.gap is None:
            lane.taken.append(delivery)
        return delivery

    def settled(self, delivery: Delivery) -> None:
        """All of a delivery was answered."""
        lane = self._lanes.get(delivery.partition)
        if lane is not None and delivery in lane.taken:
            lane.taken.remove(delivery)

    def settled_until(self, partition: int, owner_epoch: int, last: int) -> list[Delivery]:
        """All up to an offset is settled, whichever delivery it is in; return what was taken and has nothing left."""
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
        """Whether a record at an offset or above it is at hand: the broker knows the offset."""
        lane = self._lanes.get(partition)
        found = [*(lane.taken if lane is not None else ()), *(one for one in self._queue if one.partition == partition)]
        return any(one.last_offset >= offset for one in found)

    def is_current(self, delivery: Delivery) -> bool:
        """Return whether answers to a delivery can still count."""
        lane = self._lanes.get(delivery.partition)
        return lane is not None and lane.owner_epoch == delivery.owner_epoch

    def to_extend(
        self, worked_on: Delivery | None, deadline_s: float, now: float
    ) -> Iterable[tuple[int, int, list[Range]]]:
        """Return (partition, owner epoch, ranges) for which more time is due, because the user is at work.

        In STRICT order that is the partition of the delivery ``worked_on``, and those whose records only wait in the
        queue; it has one deadline, so there are no ranges. A partition whose oldest records were taken and left lying
        is not among them, so that they expire. In RELAXED order it is ``worked_on`` itself, and each that is queued.
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
    """Whether all that is left of a queued delivery is in a later one, so that answers to the first are too old."""
    if queued.gap is not None or queued.partition != later.partition or queued.revision >= later.revision:
        return False
    return not without(queued.left, later.ranges)
