"""Send window of a publisher: the next page to send, and the effect of an answer.

The state machine of one writer: no gRPC, no thread, no clock. Two rules hold: within an epoch a number never
stands for two different pages, and a page is never sent under a new epoch while it may be stored under the old one.

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
class Outgoing(Generic[T]):
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

    given_up: bool = False
    """The page failed for its owner; it is never sent again."""

    damaged: int = 0
    """Number of arrivals at the broker with a wrong checksum."""


@dataclass(frozen=True, slots=True)
class Failed(Generic[T]):
    """Page that will not be sent again, with its error."""

    page: Outgoing[T]
    error: ForebayError


@dataclass(slots=True)
class _Lane(Generic[T]):
    """Pages of one partition."""

    queued: deque[Outgoing[T]] = field(default_factory=deque)
    """Pages without a sequence in this epoch."""

    unanswered: deque[Outgoing[T]] = field(default_factory=deque)
    """Pages with a sequence, in ascending order."""

    position: int = 0
    """Index in ``unanswered`` of the next page to send on this stream."""

    wire: deque[tuple[Outgoing[T], int]] = field(default_factory=deque)
    """Pages sent on this stream and not answered, with the round of their send."""

    round: int = 0
    """Increases with every rejection; rejections of pages sent in an earlier round are consequences."""

    next_sequence: int = 0
    """Next sequence; never reused, not even in another epoch."""

    confirmed_below: int = 0
    """One more than the highest sequence with a receipt in this epoch; 0 without."""

    held_until: float = 0.0
    """End of the retry delay that the broker requested."""

    refusal: ForebayError | None = None
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
        self._lanes: dict[int, _Lane[T]] = {}
        self._turn: deque[int] = deque()
        self._open = False

    def __iter__(self) -> Iterator[Outgoing[T]]:
        """Iterate over the pages that are neither settled nor expired."""
        for lane in self._lanes.values():
            for page in chain(lane.unanswered, lane.queued):
                if not page.given_up:
                    yield page

    def add(self, page: Outgoing[T]) -> None:
        """Add a page at the end of its partition."""
        lane = self._lanes.get(page.partition)
        if lane is None:
            lane = self._lanes[page.partition] = _Lane()
            self._turn.append(page.partition)
        lane.queued.append(page)

    def may_renew(self) -> bool:
        """Return True if the outcome of every page is known, so that a new epoch duplicates nothing."""
        return self.must_renew and not any(
            lane.wire or any(self._perhaps_stored(lane, page) for page in lane.unanswered)
            for lane in self._lanes.values()
        )

    def opened_new(self) -> None:
        """Apply the opening of a stream with a new epoch: all remaining pages get new numbers."""
        self._open = True
        self.must_renew = False
        for lane in self._lanes.values():
            for page in lane.unanswered:
                page.sequence, page.unsure, page.on_wire = None, False, 0
            lane.queued.extendleft(page for page in reversed(lane.unanswered) if not page.given_up)
            lane.unanswered.clear()
            lane.wire.clear()
            lane.position = lane.round = lane.confirmed_below = lane.broker_next = 0

    def opened_again(self, next_sequences: Mapping[int, int]) -> None:
        """Apply the opening of a stream with the old epoch and the broker's next sequences by partition."""
        self._open = True
        for partition, lane in self._lanes.items():
            expected = next_sequences.get(partition, 0)
            lane.broker_next = expected
            if expected < lane.confirmed_below or expected > lane.next_sequence:
                self.must_renew = True
            for page in list(lane.unanswered):
                stored = _number(page) < expected
                page.unsure = stored and page.unsure
                if page.given_up:
                    lane.unanswered.remove(page)
                    self.must_renew = self.must_renew or not stored
            if lane.unanswered and expected and expected < _number(lane.unanswered[0]):
                self.must_renew = True

    def broke(self) -> None:
        """Apply the end of the stream; pages in transit may be stored or not."""
        self._open = False
        for lane in self._lanes.values():
            for page, _ in lane.wire:
                page.unsure, page.on_wire = True, 0
            lane.wire.clear()
            lane.position = lane.round = 0
            lane.broker_next = 0

    def next_to_send(self, now: float) -> Outgoing[T] | None:
        """Return the next page to send, with its sequence, or ``None``. Partitions take turns."""
        if not self._open:
            return None
        for _ in range(len(self._turn)):
            partition = self._turn[0]
            self._turn.rotate(-1)
            page = self._next_of(self._lanes[partition], now)
            if page is not None:
                return page
        return None

    def _next_of(self, lane: _Lane[T], now: float) -> Outgoing[T] | None:
        if lane.position < len(lane.unanswered):
            page = lane.unanswered[lane.position]
            if self.must_renew and not self._perhaps_stored(lane, page):
                return None
            if now < lane.held_until or page.given_up:
                return None
        elif self.must_renew or not lane.queued or now < lane.held_until or self._is_full(lane):
            return None
        else:
            page = lane.queued.popleft()
            page.sequence = lane.next_sequence
            lane.next_sequence += 1
            lane.unanswered.append(page)
        lane.position += 1
        lane.wire.append((page, lane.round))
        page.on_wire += 1
        return page

    def _is_full(self, lane: _Lane[T]) -> bool:
        first = lane.unanswered[0] if lane.unanswered else None
        return first is not None and lane.next_sequence - _number(first) >= self.pages_max

    @staticmethod
    def _perhaps_stored(lane: _Lane[T], page: Outgoing[T]) -> bool:
        return not page.given_up and (page.unsure or _number(page) < lane.broker_next)

    def _answered(self, partition: int, sequence: int) -> tuple[_Lane[T], Outgoing[T], bool]:
        """Remove the page of an answer from the wire; also return True if no rejection followed its send."""
        lane = self._lanes.get(partition)
        if lane is None or not lane.wire or lane.wire[0][0].sequence != sequence:
            raise ProtocolViolation(f"unexpected answer to page {sequence} of partition {partition}")
        page, sent_in = lane.wire.popleft()
        page.on_wire -= 1
        return lane, page, sent_in == lane.round

    def stored(self, partition: int, sequence: int) -> Outgoing[T] | None:
        """Apply a receipt; return the page unless it expired or was settled before."""
        lane, page, _ = self._answered(partition, sequence)
        lane.refusal = None
        if not _remove(lane, page):
            return None
        lane.confirmed_below = max(lane.confirmed_below, sequence + 1)
        return None if page.given_up else page

    def refused_for_now(self, partition: int, sequence: int, until: float, refusal: ForebayError | None = None) -> None:
        """Apply a temporary rejection: send again from this page, not before ``until``."""
        lane, page, current = self._answered(partition, sequence)
        page.unsure = False
        lane.refusal = refusal
        if page not in lane.unanswered:
            return
        if page.given_up:
            _remove(lane, page)
            self.must_renew = True
        if current:
            lane.round += 1
            lane.held_until = until
            lane.position = sum(_number(other) < sequence for other in lane.unanswered)

    def refused_as_damaged(self, partition: int, sequence: int, now: float, error: ForebayError) -> Failed[T] | None:
        """Apply the rejection of a damaged page: send it again, or fail it after ``DAMAGED_MAX`` times."""
        lane = self._lanes.get(partition)
        if lane is None or not lane.wire or lane.wire[0][0].damaged + 1 >= DAMAGED_MAX:
            return self.refused_for_good(partition, sequence, error)
        lane.wire[0][0].damaged += 1
        self.refused_for_now(partition, sequence, now, error)
        return None

    def refused_for_good(self, partition: int, sequence: int, error: ForebayError) -> Failed[T] | None:
        """Apply a permanent rejection: the page fails, and its number is a hole."""
        lane, page, _ = self._answered(partition, sequence)
        if not _remove(lane, page):
            return None
        self.must_renew = True
        return None if page.given_up else Failed(page, error)

    def refused_as_gap(self, partition: int, sequence: int) -> None:
        """Apply a sequence gap: the consequence of an earlier rejection, or the end of this epoch."""
        lane, page, current = self._answered(partition, sequence)
        page.unsure = False
        lane.broker_next = min(lane.broker_next, sequence)
        if page.given_up and _remove(lane, page):
            self.must_renew = True
        self.must_renew = self.must_renew or current

    def expire(self, now: float) -> list[Failed[T]]:
        """Expire the pages whose deadline has passed; return those that fail by it."""
        failed: list[Failed[T]] = []
        for lane in self._lanes.values():
            for page in list(lane.unanswered):
                if page.deadline > now:
                    break
                if page.given_up:
                    continue
                failed.append(_timed_out(page, lane.refusal))
                page.given_up = True
                if not page.on_wire and (self._open or not page.unsure):
                    _remove(lane, page)  # its outcome is known
                    self.must_renew = self.must_renew or _number(page) >= lane.broker_next
            while lane.queued and lane.queued[0].deadline <= now:
                failed.append(_timed_out(lane.queued.popleft(), lane.refusal))
        return failed

    def wakes_at(self, now: float) -> float | None:
        """Return the end of the next retry delay, ``None`` without one."""
        lanes = self._lanes.values()
        return min((lane.held_until for lane in lanes if lane.held_until > now), default=None)

    def give_up_all(self) -> list[Outgoing[T]]:
        """Expire every page; return those that were not expired before."""
        left = list(self)
        for lane in self._lanes.values():
            for page in lane.unanswered:
                page.given_up = True
            lane.queued.clear()
        return left

    def is_free(self, partition: int, now: float) -> bool:
        """Return True if a page added now could be sent immediately."""
        if not self._open or self.must_renew:
            return False
        lane = self._lanes.get(partition)
        if lane is None:
            return True
        if lane.queued or now < lane.held_until or lane.position < len(lane.unanswered):
            return False
        return not self._is_full(lane)

    def expires_at(self) -> float | None:
        """Return the time of the next expiry, ``None`` without one."""
        heads = [
            next((page for page in chain(lane.unanswered, lane.queued) if not page.given_up), None)
            for lane in self._lanes.values()
        ]
        return min((page.deadline for page in heads if page is not None), default=None)


def _number(page: Outgoing[T]) -> int:
    return -1 if page.sequence is None else page.sequence


def _timed_out(page: Outgoing[T], refusal: ForebayError | None) -> Failed[T]:
    text = f"a page of partition {page.partition} was not durable within delivery_timeout_s"
    if refusal is None:
        return Failed(page, DeliveryTimeout(text))
    facts = {**refusal.facts, "refusal": refusal.reason}
    return Failed(page, DeliveryTimeout(f"{text}; the broker's last rejection: {refusal}", facts=facts))


def _remove(lane: _Lane[T], page: Outgoing[T]) -> bool:
    """Remove a page from ``unanswered``; return False if it is not there."""
    if lane.unanswered and lane.unanswered[0] is page:
        lane.unanswered.popleft()
        index = 0
    elif page in lane.unanswered:
        index = lane.unanswered.index(page)
        del lane.unanswered[index]
    else:
        return False
    if index < lane.position:
        lane.position -= 1
    return True
