"""Random histories of a lane and of consumers that die: of every dropped record some consumer receives a notice.

Deliveries and notices are sent in a stream; a consumer receives a part of it, answers some of that, and dies at any
moment. Then the next one begins where the lane believes that all notices before were received. The histories are drawn
from fixed seeds: few of them are of the rare kind that matters, and so they are the same ones in every run.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from forebay.broker.core.delivery.in_flight import InFlight
from forebay.broker.core.delivery.lane import Answer, Lane
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import DEFAULTS, Ordering

RECORDS = 6
STEPS = 60
HISTORIES = 2_500
WEIGHTS = {"send_live": 4, "send_parked": 3, "receive": 4, "ack": 3, "nack": 3, "drop": 1, "die": 1}


class History:
    """Pages of one record each, of which any may be dropped unless it is in flight."""

    def __init__(self, ordering: Ordering, chance: random.Random) -> None:
        chosen: dict[str, Any] = {"ordering": ordering, "retry_backoff_min_us": 0, "retry_backoff_max_us": 0}
        self.lane = Lane(Cursor(), replace(DEFAULTS, **chosen))
        self.chance = chance
        self.now = 1_000.0
        self.epoch = 0
        self.dropped: set[int] = set()
        """Unsettled when they were dropped."""
        self.noticed: set[int] = set()
        """Some consumer has received a notice of it."""
        self.stream: list[tuple[int, Answer | None]] = []
        """(offset, answer for a delivery, None for a notice) sent to the owner and not received."""
        self.in_hand: list[tuple[int, Answer]] = []
        self.take()

    def step(self) -> None:
        self.now += 0.001
        [name] = self.chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
        getattr(self, name)()

    def take(self) -> None:
        self.epoch += 1
        self.stream, self.in_hand = [], []
        self.lane.assign(f"c{self.epoch}", self.epoch, InFlight())
        unsaid = {offset for offset in self.dropped if offset < self.lane.sender.position} - self.noticed
        assert not unsaid, f"no consumer has received, nor will receive, a notice of {sorted(unsaid)}"

    def send_live(self) -> None:
        offset = self.lane.sender.position
        if offset in self.dropped:
            self.stream.append((offset, None))
            self.lane.sender.note_gap_sent(offset + 1)
            return
        may_send = offset < RECORDS and self.lane.sender.pages_allowed(self.now) != 0
        if may_send and self.lane.sender.send(offset, offset + 1, 1, self.now):
            self.stream.append((offset, Answer(self.epoch, self.lane.revision)))

    def send_parked(self) -> None:
        found = self.lane.retry.next_due(self.now)
        if found is not None and self.lane.retry.resends_allowed(self.now) != 0:
            assert self.lane.sender.send_retry(found, found + 1, 1, self.now)
            self.stream.append((found, Answer(self.epoch, self.lane.revision)))

    def receive(self) -> None:
        count = self.chance.randint(1, 2)
        for offset, answer in self.stream[:count]:
            if answer is None:
                self.noticed.add(offset)
            else:
                self.in_hand.append((offset, answer))
        del self.stream[:count]

    def ack(self) -> None:
        if self.in_hand:
            offset, answer = self.in_hand.pop(self.chance.randrange(len(self.in_hand)))
            self.lane.settle(answer, Range(offset, offset + 1), Settlement.ACKED, self.now, RECORDS)

    def nack(self) -> None:
        if self.in_hand:
            offset, answer = self.in_hand.pop(self.chance.randrange(len(self.in_hand)))
            self.lane.nack(answer, [Range(offset, offset + 1)], self.now, delay_s=0.0, random=0.5, reason="no")

    def drop(self) -> None:
        lane = self.lane
        free = [o for o in range(RECORDS) if not lane.cursor.is_settled(o) and lane.flights.at(o) is None]
        if free:
            offset = free[0] if self.chance.random() < 0.5 else self.chance.choice(free)
            self.dropped.add(offset)
            lane.drop([Range(offset, offset + 1)], self.now, RECORDS)

    def die(self) -> None:
        self.lane.release(failed=self.chance.random() < 0.5)
        self.take()


@pytest.mark.parametrize("ordering", Ordering, ids=lambda ordering: ordering.name)
def test_every_dropped_record_is_reported_to_a_consumer_that_receives_it(ordering: Ordering) -> None:
    for seed in range(HISTORIES):
        history = History(ordering, random.Random(seed))
        for _ in range(STEPS):
            history.step()
