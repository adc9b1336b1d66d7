"""What a sink in RELAXED order should be: as ``buffer_model``, but what failed comes again by itself.

There is no position that everything is held against. Instead each unsettled record below the broker's is in flight or
parked, and a record that was never delivered comes only after all that were.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.broker.core.lane import HOLES_MAX, Lane
from holdfast.broker.core.log import PartitionLog
from holdfast.broker.core.ranges import Range
from holdfast.broker.runtime.events import Delivered, GapMet
from tests.property.buffer_model import DROPPED, PENDING, Partition
from tests.unit.broker.running import delivered_values


@dataclass(slots=True)
class RelaxedPartition(Partition):
    """One partition as its publishers and its only subscription should see it."""

    owner_epoch: int = 0
    seen: set[int] = field(default_factory=set)
    """Offsets delivered in the life of this process."""

    highest: int = -1
    """The highest offset ever delivered."""

    sent_at: dict[int, float] = field(default_factory=dict)
    now: float = 0.0

    def delivered(self, event: Delivered) -> None:
        """Records come whole, and none that is in flight; what is new comes in order; what is not is flagged."""
        attempts = dict(event.attempts)
        found = delivered_values(event)
        assert event.relaxed
        assert event.resend or not self.seen & {offset for offset, _ in found}, "it came before and is not flagged"
        assert not event.resend or any(offset <= self.highest for offset, _ in found), "it is flagged and is new"
        for offset, value in found:
            assert self.states[offset] == PENDING, f"{offset} was delivered and is {self.states[offset]}"
            assert offset not in self.in_flight, f"{offset} was delivered twice"
            assert value == self.values[offset], f"{offset} holds another record's value"
            assert attempts.pop(offset, 0) == self.attempts.get(offset, 0), f"{offset} has wrong attempts"
            if offset > self.highest:
                new = range(self.highest + 1, offset)
                assert all(self.states[passed] != PENDING for passed in new), f"{offset} came before others"
                self.highest = offset
            self.in_flight[offset] = event.revision
            self.sent_at[offset] = self.now
            self.seen.add(offset)
            self.position = max(self.position, offset + 1)
        assert not attempts, "attempts of records that are not in it"

    def gap_met(self, event: GapMet) -> None:
        for offset in range(event.gap.first, event.gap.end):
            assert self.states[offset] != PENDING, f"{offset} is pending and was told as dropped"
            self.told.add(offset)

    def taken(self, lane: Lane) -> None:
        """A new owner begins where nothing but what is parked is left unsaid below."""
        self.owner_epoch = lane.owner_epoch
        for offset in range(min(lane.position, len(self.states))):
            assert self.states[offset] != DROPPED or offset in self.told, f"the drop of {offset} will not be told"
        self.position = lane.position

    def failed(self, offset: int, *, waited_for: bool) -> None:
        """It steps aside: what was sent of it is void."""
        Partition.failed(self, offset, waited_for=waited_for)
        self.stepped_aside(offset)

    def stepped_aside(self, offset: int) -> None:
        self.void.append((self.owner_epoch, self.in_flight.pop(offset), offset))

    def expired(self, lane: Lane, deadline_s: float) -> None:
        """Time has passed: what stepped aside was late, and for each page its lowest record has failed."""
        late = [offset for offset in self.in_flight if lane.side.parked.within(Range(offset, offset + 1))]
        found = dict(lane.cursor.attempts)
        for offset in late:
            assert self.now - self.sent_at[offset] >= deadline_s, f"{offset} expired too early"
            if found.get(offset, 0) != self.attempts.get(offset, 0):
                Partition.failed(self, offset, waited_for=False)
            self.stepped_aside(offset)
        assert found == self.attempts, "something has failed that was not late"
        assert not late or any(offset in self.shaky for offset in late), "nothing has failed"

    def killed(self, log: PartitionLog, lane: Lane) -> None:
        Partition.killed(self, log, lane)
        self.seen.clear()

    def check(self, log: PartitionLog, lane: Lane) -> None:
        Partition.check(self, log, lane)
        parked = {offset for one in lane.side.parked for offset in range(one.first, one.end)}
        assert not parked & set(self.in_flight), "in flight and parked"
        for offset in range(min(lane.position, len(self.states))):
            if self.states[offset] == PENDING:
                assert offset in parked or offset in self.in_flight, f"{offset} is forgotten"
        assert lane.holes <= HOLES_MAX + len(self.in_flight)
