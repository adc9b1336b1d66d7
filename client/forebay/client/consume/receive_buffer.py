"""Receive buffer of a subscriber: received deliveries that are not settled.

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

from forebay.client.consume.in_flight import InFlight
from forebay.client.values.ranges import Range, merge, without

EXTENDS_PER_DEADLINE: Final = 3


@dataclass(slots=True)
class _OwnedPartition:
    """Partition that this consumer owns."""

    owner_epoch: int
    revision: int = 0
    nacked_from: tuple[int, int] | None = None
    """Revision and offset of the user's nack.

    Deliveries of that revision or an older one are void from that offset on.

    It ends with a revocation from this offset or below. A revocation from above was already in transit and does not end
    it.
    """

    taken: list[InFlight] = field(default_factory=list)
    """Deliveries taken and not settled. Bounded by the credit, because they count as in flight."""

    extended_at: float = 0.0
    """Time of the last deadline extension, or of the first delivery after a pause."""


class ReceiveBuffer:
    """Queue of a subscriber."""

    def __init__(self) -> None:
        self._queue: deque[InFlight] = deque()
        self._partitions: dict[int, _OwnedPartition] = {}

    def __len__(self) -> int:
        """Return the number of queued deliveries."""
        return len(self._queue)

    def assigned(self, owners: dict[int, tuple[int, int]]) -> list[InFlight]:
        """Apply an assignment, as partition → (owner epoch, revision); return taken deliveries now void."""
        void: list[InFlight] = []
        for partition, owned in list(self._partitions.items()):
            if owners.get(partition, (-1, 0))[0] != owned.owner_epoch:
                void += self._void(partition, owned, 0)
                del self._partitions[partition]
        for partition, (owner_epoch, revision) in owners.items():
            owned = self._partitions.setdefault(partition, _OwnedPartition(owner_epoch))
            owned.revision = max(owned.revision, revision)
        return void

    def arrived(self, delivery: InFlight, now: float) -> bool:
        """Queue a delivery; return False if all of it is void already."""
        owned = self._partitions.get(delivery.partition)
        if delivery.gap is None and (owned is None or owned.owner_epoch < delivery.owner_epoch):
            owned = self._partitions[delivery.partition] = _OwnedPartition(delivery.owner_epoch)
        if owned is not None:
            if delivery.gap is None:
                if delivery.owner_epoch < owned.owner_epoch or delivery.revision < owned.revision:
                    return False
                owned.revision = delivery.revision
            nacked_from = owned.nacked_from
            if nacked_from is not None and (delivery.gap is not None or delivery.revision <= nacked_from[0]):
                kept = delivery.below(nacked_from[1])
                if kept is None:
                    return False
                delivery = kept
            delivery.extended_at = now
            if not owned.taken and not any(one.partition == delivery.partition for one in self._queue):
                owned.extended_at = now
        if delivery.relaxed and delivery.resend:
            self._queue = deque(one for one in self._queue if not _is_redelivered(one, delivery))
        self._queue.append(delivery)
        return True

    def revoked(self, partition: int, from_offset: int, revision: int) -> list[InFlight]:
        """Apply a revocation by the broker; return taken deliveries that became void."""
        owned = self._partitions.get(partition)
        if owned is None:
            return []
        owned.revision = max(owned.revision, revision)
        if owned.nacked_from is not None:
            offset = owned.nacked_from[1]
            owned.nacked_from = None if from_offset <= offset else (owned.revision, offset)
        return self._void(partition, owned, from_offset)

    def nacked(self, delivery: InFlight, from_offset: int) -> list[InFlight]:
        """Apply the user's nack of ``delivery`` from an offset on; return taken deliveries that became void."""
        owned = self._partitions.get(delivery.partition)
        if owned is None or owned.owner_epoch != delivery.owner_epoch:
            return []
        lowest = from_offset if owned.nacked_from is None else min(from_offset, owned.nacked_from[1])
        owned.nacked_from = (owned.revision, lowest)
        return self._void(delivery.partition, owned, from_offset)

    def nack_rejected(self, partition: int, owner_epoch: int, offset: int) -> None:
        """Undo the effect of a nack that the broker rejected: no revocation follows it."""
        owned = self._partitions.get(partition)
        if owned is None or owned.owner_epoch != owner_epoch or owned.nacked_from is None:
            return
        if owned.nacked_from[1] == offset:
            owned.nacked_from = None

    def disconnected(self) -> list[InFlight]:
        """Void everything after the end of the stream; return taken deliveries that became void."""
        return self.assigned({})

    @property
    def has_next(self) -> bool:
        """True if the oldest delivery can be taken: what it needs is not being fetched."""
        return bool(self._queue) and self._queue[0].loading.is_done

    def take(self) -> InFlight | None:
        """Return the oldest delivery, if it can be taken, and remember it as taken."""
        if not self.has_next:
            return None
        delivery = self._queue.popleft()
        owned = self._partitions.get(delivery.partition)
        if owned is not None and delivery.gap is None:
            owned.taken.append(delivery)
        return delivery

    def settled(self, delivery: InFlight) -> None:
        """Forget a delivery of which everything was answered."""
        owned = self._partitions.get(delivery.partition)
        if owned is not None and delivery in owned.taken:
            owned.taken.remove(delivery)

    def settled_until(self, partition: int, owner_epoch: int, last: int) -> list[InFlight]:
        """Settle all offsets up to ``last`` in all deliveries; return taken ones with nothing left."""
        owned = self._partitions.get(partition)
        if owned is None or owned.owner_epoch != owner_epoch:
            return []
        for delivery in owned.taken:
            delivery.settle([(0, last)])
        done = [delivery for delivery in owned.taken if not delivery.left]
        owned.taken = [delivery for delivery in owned.taken if delivery.left]
        for delivery in self._queue:
            if delivery.partition == partition and delivery.gap is None and delivery.owner_epoch == owner_epoch:
                delivery.settle([(0, last)])
        self._queue = deque(one for one in self._queue if one.gap is not None or one.left)
        return done

    def has_arrived(self, partition: int, offset: int) -> bool:
        """Return True if a record at or above an offset has arrived, so that the broker knows the offset."""
        owned = self._partitions.get(partition)
        found = [
            *(owned.taken if owned is not None else ()),
            *(one for one in self._queue if one.partition == partition),
        ]
        return any(one.last_offset >= offset for one in found)

    def is_current(self, delivery: InFlight) -> bool:
        """Return True if answers to a delivery can still have an effect."""
        owned = self._partitions.get(delivery.partition)
        return owned is not None and owned.owner_epoch == delivery.owner_epoch

    def extensions_due(
        self, in_process: InFlight | None, deadline_s: float, now: float
    ) -> Iterable[tuple[int, int, list[Range]]]:
        """Return (partition, owner epoch, ranges) whose deadline extension is due.

        In STRICT order these are the partition of the delivery ``in_process``, and partitions whose records only wait
        in the queue; a partition has one deadline, so there are no ranges. A partition whose oldest records were taken
        and not processed is not extended, so that they expire. In RELAXED order these are ``in_process`` itself, and
        each queued delivery.
        """
        due: list[tuple[int, int, list[Range]]] = []
        pause_s = deadline_s / EXTENDS_PER_DEADLINE
        strict: set[int] = set()
        late: dict[int, list[InFlight]] = {}
        for delivery in (*self._queue, *((in_process,) if in_process is not None else ())):
            if not delivery.relaxed:
                if delivery is in_process or not self._is_in_process(delivery.partition):
                    strict.add(delivery.partition)
            elif delivery.left and now - delivery.extended_at >= pause_s:
                delivery.extended_at = now
                late.setdefault(delivery.partition, []).append(delivery)
        for partition, owned in self._partitions.items():
            if partition in strict and now - owned.extended_at >= pause_s:
                owned.extended_at = now
                due.append((partition, owned.owner_epoch, []))
            if partition in late:
                left = merge(found for delivery in late[partition] for found in delivery.left)
                due.append((partition, owned.owner_epoch, left))
        return due

    def _is_in_process(self, partition: int) -> bool:
        owned = self._partitions.get(partition)
        return owned is not None and bool(owned.taken)

    def _void(self, partition: int, owned: _OwnedPartition, from_offset: int) -> list[InFlight]:
        kept: deque[InFlight] = deque()
        for delivery in self._queue:
            left = delivery.below(from_offset) if delivery.partition == partition else delivery
            if left is not None:
                kept.append(left)
        self._queue = kept
        void = [delivery for delivery in owned.taken if delivery.last_offset >= from_offset]
        for delivery in void:
            delivery.void(from_offset)
        owned.taken = [delivery for delivery in owned.taken if delivery.left]
        return [delivery for delivery in void if not delivery.left]


def _is_redelivered(queued: InFlight, later: InFlight) -> bool:
    """Return True if a later delivery replaces all that is left of a queued one."""
    if queued.gap is not None or queued.partition != later.partition or queued.revision >= later.revision:
        return False
    return not without(queued.left, later.ranges)
