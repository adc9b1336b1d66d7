"""Send window of a publisher: the next page to send, and the effect of an answer.

The state machine of one writer: no gRPC, no thread, no clock. Two rules hold: within an epoch a number never
identifies two different pages, and a page is never sent under a new epoch while it may be stored under the old one.

    queued ──numbered and sent──▶ unanswered ──receipt──▶ settled
                                   │  ▲
                                   │  └─ rejected temporarily: sent again from there, in order, after the retry delay
                                   └─ rejected permanently, or expired: its number is a hole

A hole (a number that the broker expects and never receives) ends the epoch. So does a broker that lost pages that it
had confirmed. Then no new page is sent until the outcome of all pages in transit is known: their answers arrive, or,
after a broken stream, the broker's next sequences separate stored pages (sent again, for their receipts) from the
others. Only then the writer takes a new epoch, in which all remaining pages get new numbers.

A page that expired while its outcome is unknown stays as a placeholder until the broker answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Generic, TypeVar

from forebay.client.errors import DeliveryTimeout, ForebayError, ProtocolViolation

T = TypeVar("T")

DAMAGED_MAX: Final = 5
"""Number of damaged arrivals after which a page fails, because it is damaged at its source."""


@dataclass(slots=True, eq=False)
class WindowPage(Generic[T]):
    """Page in the window."""

    partition: int
    content: T
    """Content to send, opaque to the window."""

    deadline: float
    """Time of expiry on the caller's clock. Increases within a partition."""

    sequence: int | None = None
    """Sequence in this epoch, once the page was sent."""

    on_wire: int = 0
    """Number of unanswered sends on this stream."""

    unsure: bool = False
    """A stream broke while the page was in transit: it may be stored."""

    expired: bool = False
    """The page failed for its owner; it is never sent again."""

    damaged: int = 0
    """Number of arrivals at the broker with a wrong checksum."""


@dataclass(frozen=True, slots=True)
class FailedPage(Generic[T]):
    """Page that will not be sent again, with its error."""

    page: WindowPage[T]
    error: ForebayError


@dataclass(slots=True)
class _PartitionWindow(Generic[T]):
    """Pages of one partition."""

    queued: deque[WindowPage[T]] = field(default_factory=deque)
    """Pages without a sequence in this epoch."""

    unanswered: deque[WindowPage[T]] = field(default_factory=deque)
    """Pages with a sequence, in ascending order."""

    position: int = 0
    """Index in ``unanswered`` of the next page to send on this stream."""

    wire: deque[tuple[WindowPage[T], int]] = field(default_factory=deque)
    """Pages sent on this stream and not answered, with the round of their send."""

    round: int = 0
    """Increases with every rejection; rejections of pages sent in an earlier round are consequences."""

    next_sequence: int = 0
    """Next sequence; never reused, not even in another epoch."""

    confirmed_below: int = 0
    """One more than the highest sequence with a receipt in this epoch; 0 without."""

    held_until: float = 0.0
    """End of the retry delay that the broker requested."""

    rejection: ForebayError | None = None
    """Cause of the delay, until a page is accepted again."""

    broker_next: int = 0
    """Sequence that the broker expected when this stream was opened; all pages below are stored."""


class Window(Generic[T]):
    """Pages of a writer that are not durable yet. Not thread-safe: one owner."""

    def __init__(self, pages_max: int) -> None:
        self.pages_max = pages_max
        """Maximum of unanswered sequences per partition."""
        self.must_renew = False
        """This epoch is over: no new page is sent in it."""
        self._partitions: dict[int, _PartitionWindow[T]] = {}
        self._turn: deque[int] = deque()
        self._open = False

    def __iter__(self) -> Iterator[WindowPage[T]]:
        """Iterate over the pages that are neither settled nor expired."""
        for queue in self._partitions.values():
            for page in chain(queue.unanswered, queue.queued):
                if not page.expired:
                    yield page

    def add(self, page: WindowPage[T]) -> None:
        """Add a page at the end of its partition."""
        queue = self._partitions.get(page.partition)
        if queue is None:
            queue = self._partitions[page.partition] = _PartitionWindow()
            self._turn.append(page.partition)
        queue.queued.append(page)

    def may_renew(self) -> bool:
        """Return True if the outcome of every page is known, so that a new epoch duplicates nothing."""
        return self.must_renew and not any(
            queue.wire or any(self._perhaps_stored(queue, page) for page in queue.unanswered)
            for queue in self._partitions.values()
        )

    def opened_with_new_epoch(self) -> None:
        """Apply the opening of a stream with a new epoch: all remaining pages get new numbers."""
        self._open = True
        self.must_renew = False
        for queue in self._partitions.values():
            for page in queue.unanswered:
                page.sequence, page.unsure, page.on_wire = None, False, 0
            queue.queued.extendleft(page for page in reversed(queue.unanswered) if not page.expired)
            queue.unanswered.clear()
            queue.wire.clear()
            queue.position = queue.round = queue.confirmed_below = queue.broker_next = 0

    def reopened(self, next_sequences: Mapping[int, int]) -> bool:
        """Apply the opening of a stream with the old epoch and the broker's next sequences by partition.

        Return True if the broker lost pages that have a receipt.
        """
        self._open = True
        is_behind = False
        for partition, queue in self._partitions.items():
            expected = next_sequences.get(partition, 0)
            queue.broker_next = expected
            is_behind = is_behind or expected < queue.confirmed_below
            if expected < queue.confirmed_below or expected > queue.next_sequence:
                self.must_renew = True
            for page in list(queue.unanswered):
                stored = _number(page) < expected
                page.unsure = stored and page.unsure
                if page.expired:
                    queue.unanswered.remove(page)
                    self.must_renew = self.must_renew or not stored
            if queue.unanswered and expected and expected < _number(queue.unanswered[0]):
                self.must_renew = True
        return is_behind

    def disconnected(self) -> None:
        """Apply the end of the stream; pages in transit may be stored or not."""
        self._open = False
        for queue in self._partitions.values():
            for page, _ in queue.wire:
                page.unsure, page.on_wire = True, 0
            queue.wire.clear()
            queue.position = queue.round = 0
            queue.broker_next = 0

    def next_to_send(self, now: float) -> WindowPage[T] | None:
        """Return the next page to send, with its sequence, or ``None``. Partitions take turns."""
        if not self._open:
            return None
        for _ in range(len(self._turn)):
            partition = self._turn[0]
            self._turn.rotate(-1)
            page = self._next_of(self._partitions[partition], now)
            if page is not None:
                return page
        return None

    def _next_of(self, queue: _PartitionWindow[T], now: float) -> WindowPage[T] | None:
        if queue.position < len(queue.unanswered):
            page = queue.unanswered[queue.position]
            if self.must_renew and not self._perhaps_stored(queue, page):
                return None
            if now < queue.held_until or page.expired:
                return None
        elif self.must_renew or not queue.queued or now < queue.held_until or self._is_full(queue):
            return None
        else:
            page = queue.queued.popleft()
            page.sequence = queue.next_sequence
            queue.next_sequence += 1
            queue.unanswered.append(page)
        queue.position += 1
        queue.wire.append((page, queue.round))
        page.on_wire += 1
        return page

    def _is_full(self, queue: _PartitionWindow[T]) -> bool:
        first = queue.unanswered[0] if queue.unanswered else None
        return first is not None and queue.next_sequence - _number(first) >= self.pages_max

    @staticmethod
    def _perhaps_stored(queue: _PartitionWindow[T], page: WindowPage[T]) -> bool:
        return not page.expired and (page.unsure or _number(page) < queue.broker_next)

    def _answered(self, partition: int, sequence: int) -> tuple[_PartitionWindow[T], WindowPage[T], bool]:
        """Remove the page of an answer from the wire; also return True if no rejection followed its send."""
        queue = self._partitions.get(partition)
        if queue is None or not queue.wire or queue.wire[0][0].sequence != sequence:
            raise ProtocolViolation(f"unexpected answer to page {sequence} of partition {partition}")
        page, sent_in = queue.wire.popleft()
        page.on_wire -= 1
        return queue, page, sent_in == queue.round

    def stored(self, partition: int, sequence: int) -> WindowPage[T] | None:
        """Apply a receipt; return the page unless it expired or was settled before."""
        queue, page, _ = self._answered(partition, sequence)
        queue.rejection = None
        if not _remove(queue, page):
            return None
        queue.confirmed_below = max(queue.confirmed_below, sequence + 1)
        return None if page.expired else page

    def rejected_temporarily(
        self, partition: int, sequence: int, until: float, rejection: ForebayError | None = None
    ) -> None:
        """Apply a temporary rejection: send again from this page, not before ``until``."""
        queue, page, current = self._answered(partition, sequence)
        page.unsure = False
        queue.rejection = rejection
        if page not in queue.unanswered:
            return
        if page.expired:
            _remove(queue, page)
            self.must_renew = True
        if current:
            queue.round += 1
            queue.held_until = until
            queue.position = sum(_number(other) < sequence for other in queue.unanswered)

    def rejected_as_damaged(
        self, partition: int, sequence: int, now: float, error: ForebayError
    ) -> FailedPage[T] | None:
        """Apply the rejection of a damaged page: send it again, or fail it after ``DAMAGED_MAX`` times."""
        queue = self._partitions.get(partition)
        if queue is None or not queue.wire or queue.wire[0][0].damaged + 1 >= DAMAGED_MAX:
            return self.rejected_permanently(partition, sequence, error)
        queue.wire[0][0].damaged += 1
        self.rejected_temporarily(partition, sequence, now, error)
        return None

    def rejected_permanently(self, partition: int, sequence: int, error: ForebayError) -> FailedPage[T] | None:
        """Apply a permanent rejection: the page fails, and its number is a hole."""
        queue, page, _ = self._answered(partition, sequence)
        if not _remove(queue, page):
            return None
        self.must_renew = True
        return None if page.expired else FailedPage(page, error)

    def rejected_as_gap(self, partition: int, sequence: int) -> None:
        """Apply a sequence gap: the consequence of an earlier rejection, or the end of this epoch."""
        queue, page, current = self._answered(partition, sequence)
        page.unsure = False
        queue.broker_next = min(queue.broker_next, sequence)
        if page.expired and _remove(queue, page):
            self.must_renew = True
        self.must_renew = self.must_renew or current

    def expire(self, now: float) -> list[FailedPage[T]]:
        """Expire the pages whose deadline has passed; return those that fail by it."""
        failed: list[FailedPage[T]] = []
        for queue in self._partitions.values():
            for page in list(queue.unanswered):
                if page.deadline > now:
                    break
                if page.expired:
                    continue
                failed.append(_timeout(page, queue.rejection))
                page.expired = True
                if not page.on_wire and (self._open or not page.unsure):
                    _remove(queue, page)  # its outcome is known
                    self.must_renew = self.must_renew or _number(page) >= queue.broker_next
            while queue.queued and queue.queued[0].deadline <= now:
                failed.append(_timeout(queue.queued.popleft(), queue.rejection))
        return failed

    def next_retry_at(self, now: float) -> float | None:
        """Return the end of the next retry delay, ``None`` without one."""
        partitions = self._partitions.values()
        return min((queue.held_until for queue in partitions if queue.held_until > now), default=None)

    def expire_all(self) -> list[WindowPage[T]]:
        """Expire every page; return those that were not expired before."""
        left = list(self)
        for queue in self._partitions.values():
            for page in queue.unanswered:
                page.expired = True
            queue.queued.clear()
        return left

    def is_free(self, partition: int, now: float) -> bool:
        """Return True if a page added now could be sent immediately."""
        if not self._open or self.must_renew:
            return False
        queue = self._partitions.get(partition)
        if queue is None:
            return True
        if queue.queued or now < queue.held_until or queue.position < len(queue.unanswered):
            return False
        return not self._is_full(queue)

    def is_idle(self, partition: int, now: float) -> bool:
        """Return True if a page added now could be sent immediately, and no other awaits its receipt."""
        if not self.is_free(partition, now):
            return False
        queue = self._partitions.get(partition)
        return queue is None or not queue.unanswered

    def expires_at(self) -> float | None:
        """Return the time of the next expiry, ``None`` without one."""
        heads = [
            next((page for page in chain(queue.unanswered, queue.queued) if not page.expired), None)
            for queue in self._partitions.values()
        ]
        return min((page.deadline for page in heads if page is not None), default=None)


def _number(page: WindowPage[T]) -> int:
    return -1 if page.sequence is None else page.sequence


def _timeout(page: WindowPage[T], rejection: ForebayError | None) -> FailedPage[T]:
    text = f"a page of partition {page.partition} was not durable within delivery_timeout_s"
    if rejection is None:
        return FailedPage(page, DeliveryTimeout(text))
    facts = {**rejection.facts, "refusal": rejection.reason}
    return FailedPage(page, DeliveryTimeout(f"{text}; the broker's last rejection: {rejection}", facts=facts))


def _remove(queue: _PartitionWindow[T], page: WindowPage[T]) -> bool:
    """Remove a page from ``unanswered``; return False if it is not there."""
    if queue.unanswered and queue.unanswered[0] is page:
        queue.unanswered.popleft()
        index = 0
    elif page in queue.unanswered:
        index = queue.unanswered.index(page)
        del queue.unanswered[index]
    else:
        return False
    if index < queue.position:
        queue.position -= 1
    return True
