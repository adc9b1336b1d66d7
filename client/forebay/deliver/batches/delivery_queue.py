"""Queue of the deliveries of a partition, the first ones of which are the next batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from forebay.deliver.batches.joined_delivery import JoinedDelivery
from forebay.deliver.batches.limits import BatchLimits
from forebay.deliver.source import SourceDelivery


class DeliveryQueue:
    """Deliveries in order. Those that follow each other are joined up to the limits of a batch."""

    def __init__(self, limits_of: Callable[[SourceDelivery], BatchLimits]) -> None:
        """``limits_of`` returns the limits of the batches of a delivery."""
        self._limits_of = limits_of
        self._queue: deque[tuple[SourceDelivery, float]] = deque()
        """Deliveries and the times at which they came."""
        self._joined = self._records = self._bytes = 0
        """Deliveries of the next batch, their records and stored bytes."""
        self.is_full = False
        """True if no further delivery can be joined to the next batch."""

    def __len__(self) -> int:
        """Return the number of deliveries."""
        return len(self._queue)

    def __iter__(self) -> Iterator[SourceDelivery]:
        """Yield the deliveries."""
        return (delivery for delivery, _ in self._queue)

    @property
    def due_at_s(self) -> float:
        """Time from which the next batch does not wait for further deliveries, whether it is full or not.

        Redelivered records do not wait: after a failure the broker sends no more before they are settled.
        """
        first, came_at_s = self._queue[0]
        return came_at_s + (0.0 if first.resend else self._limits_of(first).wait_s or 0.0)

    def append(self, delivery: SourceDelivery, now_s: float) -> None:
        """Add a delivery."""
        self._queue.append((delivery, now_s))
        if not self.is_full:
            self._join(len(self._queue) - 1)

    def take(self) -> SourceDelivery:
        """Remove the deliveries of the next batch, and return them as one."""
        parts = [self._queue.popleft()[0] for _ in range(self._joined)]
        self._joined = self._records = self._bytes = 0
        self.is_full = False
        while not self.is_full and self._joined < len(self._queue):
            self._join(self._joined)
        return parts[0] if len(parts) == 1 else JoinedDelivery(parts)

    def _join(self, index: int) -> None:
        """Join a delivery to the next batch if it can be."""
        first, other = self._queue[0][0], self._queue[index][0]
        limits = self._limits_of(first)
        records, size = self._records + records_of(other), self._bytes + other.stored_bytes
        fits = records <= limits.records_max and size <= limits.bytes_max
        if index and not (fits and _continues(self._queue[index - 1][0], other)):
            self.is_full = True
            return
        self._joined, self._records, self._bytes = index + 1, records, size
        self.is_full = other.gap is not None or records >= limits.records_max or size >= limits.bytes_max


def records_of(delivery: SourceDelivery) -> int:
    """Return the number of records, including those that became void."""
    return delivery.last_offset - delivery.first_offset + 1 if delivery.gap is None else 0


def _continues(before: SourceDelivery, other: SourceDelivery) -> bool:
    return (
        other.gap is None
        and other.resend == before.resend
        and other.incarnation == before.incarnation
        and other.first_offset == before.last_offset + 1
    )
