"""Which page of a publisher may be sent next, and what an answer means.

The state machine of one writer: no gRPC, no thread, no clock. It lives by two rules: within an epoch a number never
stands for two different pages, and a page is never sent under a new epoch while it may be stored under the old one.

    queued ──numbered and sent──▶ unanswered ──receipt──▶ settled
                                   │  ▲
                                   │  └─ refused for now: sent again from there, in order, when the broker asks for it
                                   └─ refused for good, or given up: its number is a hole

A hole (a number that the broker expects and will never get) ends the epoch. So does a broker that has forgotten what
it had confirmed. Then nothing new is sent until the fate of everything on the way is known: its answers come, or,
after a broken stream, the next sequences that the broker states tell stored pages (sent once more, for their
receipts) from the others. Only then the writer takes a new epoch, in which all that is left gets new numbers.

A page that was given up while its fate is unknown stays as a placeholder until the broker tells.
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
"""Times that a page may reach the broker damaged until it fails: then it is damaged where it comes from."""


@dataclass(slots=True, eq=False)
class Outgoing(Generic[T]):
    """A page on its way."""

    partition: int
    content: T
    """What is sent; the window does not look at it."""

    deadline: float
    """When it is given up, on the caller's clock. Rises within a partition."""

    sequence: int | None = None
    """Its number in this epoch, once it was sent."""

    on_wire: int = 0
    """How often it was sent on this stream and not answered yet."""

    unsure: bool = False
    """A stream broke while it was on the way: it may be stored."""

    given_up: bool = False
    """Its owner was told that it failed; it is never sent again."""

    damaged: int = 0
    """How often it reached the broker with a wrong checksum."""


@dataclass(frozen=True, slots=True)
class Failed(Generic[T]):
    """A page that will not be sent again."""

    page: Outgoing[T]
    error: ForebayError


@dataclass(slots=True)
class _Lane(Generic[T]):
    """The pages of one partition."""

    queued: deque[Outgoing[T]] = field(default_factory=deque)
    """Not numbered in this epoch."""

    unanswered: deque[Outgoing[T]] = field(default_factory=deque)
    """Numbered, by rising sequence."""

    position: int = 0
    """Index in ``unanswered`` of what is sent next on this stream."""

    wire: deque[tuple[Outgoing[T], int]] = field(default_factory=deque)
    """What was sent on this stream and not answered, with the round it was sent in."""

    round: int = 0
    """Rises with every refusal: refusals of what was sent before it are its consequence."""

    next_sequence: int = 0
    """Never reused, not even in another epoch."""

    confirmed_below: int = 0
    """One more than the highest sequence with a receipt in this epoch; 0 without."""

    held_until: float = 0.0
    """The broker asked to wait."""

    refusal: ForebayError | None = None
    """Why, until a page is taken again."""

    broker_next: int = 0
    """What the broker expected next when this stream was opened: all below is stored."""


class Window(Generic[T]):
    """The pages of a writer that are not durable yet. Not safe for threads: one owner."""

    def __init__(self, pages_max: int) -> None:
        self.pages_max = pages_max
        """Most numbers of a partition that may be unanswered."""
        self.must_renew = False
        """This epoch is over: nothing new is sent in it."""
        self._lanes: dict[int, _Lane[T]] = {}
        self._turn: deque[int] = deque()
        self._open = False

    def __iter__(self) -> Iterator[Outgoing[T]]:
        """Iterate over the pages that are neither settled nor given up."""
        for lane in self._lanes.values():
            for page in chain(lane.unanswered, lane.queued):
                if not page.given_up:
                    yield page

    def add(self, page: Outgoing[T]) -> None:
        """Put a page behind the others of its partition."""
        lane = self._lanes.get(page.partition)
        if lane is None:
            lane = self._lanes[page.partition] = _Lane()
            self._turn.append(page.partition)
        lane.queued.append(page)

    def may_renew(self) -> bool:
        """Return whether the fate of every page is known, so that a new epoch can double nothing."""
        return self.must_renew and not any(
            lane.wire or any(self._perhaps_stored(lane, page) for page in lane.unanswered)
            for lane in self._lanes.values()
        )

    def opened_new(self) -> None:
        """A stream was opened with a new epoch: all that is left gets new numbers."""
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
        """A stream was opened with the old epoch; the broker states its next sequence per partition."""
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
        """The stream ended; what was on the way may be stored or not."""
        self._open = False
        for lane in self._lanes.values():
            for page, _ in lane.wire:
                page.unsure, page.on_wire = True, 0
            lane.wire.clear()
            lane.position = lane.round = 0
            lane.broker_next = 0

    def next_to_send(self, now: float) -> Outgoing[T] | None:
        """Return the page to send now, with its sequence, or ``None``. Partitions take turns."""
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
        """Take the answer's page off the wire; tell whether it was sent since the last refusal."""
        lane = self._lanes.get(partition)
        if lane is None or not lane.wire or lane.wire[0][0].sequence != sequence:
            raise ProtocolViolation(f"an answer to page {sequence} of partition {partition}, which is not due")
        page, sent_in = lane.wire.popleft()
        page.on_wire -= 1
        return lane, page, sent_in == lane.round

    def stored(self, partition: int, sequence: int) -> Outgoing[T] | None:
        """A receipt came; return the page unless it was given up or settled before."""
        lane, page, _ = self._answered(partition, sequence)
        lane.refusal = None
        if not _remove(lane, page):
            return None
        lane.confirmed_below = max(lane.confirmed_below, sequence + 1)
        return None if page.given_up else page

    def refused_for_now(self, partition: int, sequence: int, until: float, refusal: ForebayError | None = None) -> None:
        """The broker has no room: go back to this page, and not before ``until``."""
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
        """The page was damaged on its way: it is sent again, and fails once that has happened too often."""
        lane = self._lanes.get(partition)
        if lane is None or not lane.wire or lane.wire[0][0].damaged + 1 >= DAMAGED_MAX:
            return self.refused_for_good(partition, sequence, error)
        lane.wire[0][0].damaged += 1
        self.refused_for_now(partition, sequence, now, error)
        return None

    def refused_for_good(self, partition: int, sequence: int, error: ForebayError) -> Failed[T] | None:
        """The broker will never take this page: it fails, and its number is a hole."""
        lane, page, _ = self._answered(partition, sequence)
        if not _remove(lane, page):
            return None
        self.must_renew = True
        return None if page.given_up else Failed(page, error)

    def refused_as_gap(self, partition: int, sequence: int) -> None:
        """An earlier page is missing: the consequence of a refusal, or else the end of this epoch."""
        lane, page, current = self._answered(partition, sequence)
        page.unsure = False
        lane.broker_next = min(lane.broker_next, sequence)
        if page.given_up and _remove(lane, page):
            self.must_renew = True
        self.must_renew = self.must_renew or current

    def expire(self, now: float) -> list[Failed[T]]:
        """Give up the pages whose time is over; return those that fail by it."""
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
                    _remove(lane, page)  # its fate is known
                    self.must_renew = self.must_renew or _number(page) >= lane.broker_next
            while lane.queued and lane.queued[0].deadline <= now:
                failed.append(_timed_out(lane.queued.popleft(), lane.refusal))
        return failed

    def wakes_at(self, now: float) -> float | None:
        """Return when the next pause that the broker asked for is over, ``None`` without one."""
        lanes = self._lanes.values()
        return min((lane.held_until for lane in lanes if lane.held_until > now), default=None)

    def give_up_all(self) -> list[Outgoing[T]]:
        """Give up every page; return those that were not given up before."""
        left = list(self)
        for lane in self._lanes.values():
            for page in lane.unanswered:
                page.given_up = True
            lane.queued.clear()
        return left

    def is_free(self, partition: int, now: float) -> bool:
        """Return whether a page added now could be sent at once."""
        if not self._open or self.must_renew:
            return False
        lane = self._lanes.get(partition)
        if lane is None:
            return True
        if lane.queued or now < lane.held_until or lane.position < len(lane.unanswered):
            return False
        return not self._is_full(lane)

    def expires_at(self) -> float | None:
        """Return when the next page is given up, ``None`` without one."""
        heads = [
            next((page for page in chain(lane.unanswered, lane.queued) if not page.given_up), None)
            for lane in self._lanes.values()
        ]
        return min((page.deadline for page in heads if page is not None), default=None)


def _number(page: Outgoing[T]) -> int:
    return -1 if page.sequence is None else page.sequence


def _timed_out(page: Outgoing[T], refusal: ForebayError | None) -> Failed[T]:
    text = f"a page of partition {page.partition} was not durable in time"
    if refusal is None:
        return Failed(page, DeliveryTimeout(text))
    facts = {**refusal.facts, "refusal": refusal.reason}
    return Failed(page, DeliveryTimeout(f"{text}; the broker refused it last: {refusal}", facts=facts))


def _remove(lane: _Lane[T], page: Outgoing[T]) -> bool:
    """Take a page out of ``unanswered``; ``False`` when it is not there."""
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
