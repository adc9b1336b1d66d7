"""Model of a sink in RELAXED order: as ``buffer_model``, with separate redelivery of failed records.

No single position determines the expected state. Instead each unsettled record below the broker's position is in
flight, in the retry queue or in a holder's set; a first delivery has a higher offset than all earlier deliveries.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from forebay.broker.core.delivery.lane import HOLES_MAX, Lane, SettleOutcome
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.ranges import Range
from forebay.broker.runtime.delivery.events import Delivered, GapMet
from tests.support.brokers.running import delivered_values
from tests.support.models.buffer_model import DROPPED, PENDING, Partition


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
    leased: dict[int, str] = field(default_factory=dict)
    """Holder of an offset."""

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
            assert offset not in self.leased, f"{offset} was delivered out of a set"
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
            assert self.states[offset] != PENDING, f"{offset} is pending and was reported as dropped"
            self.notified.add(offset)

    def taken(self, lane: Lane) -> None:
        """Below a new owner's start, all but the retry queue was delivered or reported as a gap."""
        self.owner_epoch = lane.owner_epoch
        for offset in range(min(lane.sender.position, len(self.states))):
            assert self.states[offset] != DROPPED or offset in self.notified, (
                f"no consumer is notified of the drop of {offset}"
            )
        self.position = lane.sender.position

    def failed(self, offset: int, *, waited_for: bool) -> None:
        """The record goes to the retry queue: its delivery is void."""
        Partition.failed(self, offset, waited_for=waited_for)
        self.stepped_aside(offset)

    def stepped_aside(self, offset: int) -> None:
        self.void.append((self.owner_epoch, self.in_flight.pop(offset), offset))

    def expired(self, lane: Lane, deadline_s: float) -> None:
        """Time has passed: records in the retry queue were late; the lowest one of each page has failed."""
        late = [offset for offset in self.in_flight if lane.retry.queue.within(Range(offset, offset + 1))]
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
        self.leased.clear()

    # -- sets

    def free(self, offset: int) -> bool:
        """The record is pending, not in flight and not leased."""
        return self.states[offset] == PENDING and offset not in self.in_flight and offset not in self.leased

    def held(self, holder: str) -> set[int]:
        return {offset for offset, name in self.leased.items() if name == holder}

    def taken_by(self, holder: str, offsets: set[int]) -> None:
        """A set was returned: it has the records that the holder had, and free ones."""
        for offset in offsets - self.held(holder):
            assert self.free(offset), f"{offset} was leased and is not free"
            self.leased[offset] = holder

    def settled_by(self, holder: str, offset: int, outcome: SettleOutcome, sent: int) -> None:
        """A holder has settled a record, or received the reason for the refusal."""
        if self.states[offset] != PENDING:
            assert outcome is SettleOutcome.ALREADY_SETTLED
        elif offset in self.in_flight or self.leased.get(offset, holder) != holder:
            assert outcome is SettleOutcome.STALE, f"{offset} was settled under somebody else"
        elif offset >= sent:
            assert outcome is SettleOutcome.UNKNOWN
        else:
            assert outcome is SettleOutcome.OK
            self.acked(offset)

    def acked(self, offset: int) -> None:
        Partition.acked(self, offset)
        self.leased.pop(offset, None)

    def leases_ran_out(self, lane: Lane, late: set[str]) -> None:
        """Time has passed: the sets of these holders have failed, and the lowest record of each of their ranges."""
        found = dict(lane.cursor.attempts)
        for offset in [offset for offset, holder in self.leased.items() if holder in late]:
            assert lane.leases.at(offset) is None, f"{offset} is still leased"
            if found.get(offset, 0) != self.attempts.get(offset, 0):
                Partition.failed(self, offset, waited_for=False)
            del self.leased[offset]

    def learn_drops(self, log: PartitionLog) -> set[int]:
        fresh = Partition.learn_drops(self, log)
        assert not fresh & set(self.leased), "it was dropped out of a set"
        return fresh

    def check(self, log: PartitionLog, lane: Lane) -> None:
        Partition.check(self, log, lane)
        parked = {offset for one in lane.retry.queue for offset in range(one.first, one.end)}
        assert not parked & set(self.in_flight), "in flight and parked"
        assert not parked & set(self.leased), "leased and parked"
        for offset, holder in self.leased.items():
            found = lane.leases.at(offset)
            assert found is not None, f"{offset} is in no set"
            assert found[0].holder == holder
        assert lane.leases.records == len(self.leased)
        for offset in range(min(lane.sender.position, len(self.states))):
            if self.states[offset] == PENDING:
                assert offset in parked or not self.free(offset), f"{offset} is forgotten"
        assert lane.sender.holes <= HOLES_MAX + len(self.in_flight)
