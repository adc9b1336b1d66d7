"""Model of a sink: a list of records per partition, and the outcome of each.

The machine in ``test_buffer_model`` tells it what was asked and what was answered; the model says what is wrong.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from forebay.broker.core.delivery.lane import Lane
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import DropReason, Gap
from forebay.broker.runtime.delivery.events import Delivered, GapMet, Revoked
from tests.support.brokers.running import delivered_values

PENDING, ACKED, DROPPED = "pending", "acked", "dropped"
CORRUPT: Final = int(DropReason.CORRUPT)


@dataclass(slots=True)
class Partition:
    """One partition as its publishers and its only subscription should see it."""

    values: list[bytes] = field(default_factory=list)
    """By offset; every record that was answered with a receipt."""

    states: list[str] = field(default_factory=list)
    notified: set[int] = field(default_factory=set)
    """Dropped offsets of which a consumer was notified."""

    unsure: dict[int, int] = field(default_factory=dict)
    """Offsets whose drop no caller awaited, and their attempts before: a kill may undo the drop."""

    attempts: dict[int, int] = field(default_factory=dict)
    shaky: Counter[int] = field(default_factory=Counter)
    """Failures that no caller awaited: a kill may lose them."""

    behind: bool = False
    """Something has failed after the last append was queued: the answers to appends say nothing of it."""

    in_flight: dict[int, int] = field(default_factory=dict)
    """Offset to revision."""

    damaged: list[range] = field(default_factory=list)
    """Offsets of each page that was damaged while it was needed: its gap says so for good."""

    void: list[tuple[int, int, int]] = field(default_factory=list)
    """(owner epoch, revision, offset) of deliveries that were revoked."""

    position: int = 0
    """Next offset that the consumer expects to hear of."""

    # -- what publishers see

    def append(self, first: int, values: list[bytes]) -> None:
        """A receipt: offsets follow those before, and none is given out twice."""
        assert first == len(self.values), f"offset {first} was given out, {len(self.values)} is next"
        self.values += values
        self.states += [PENDING] * len(values)

    # -- what the consumer sees

    def delivered(self, event: Delivered) -> None:
        """Records come in order, whole, once, and nothing is passed over in silence."""
        attempts = dict(event.attempts)
        for offset, value in delivered_values(event):
            self._pass_over(offset)
            assert self.states[offset] == PENDING, f"{offset} was delivered and is {self.states[offset]}"
            assert offset not in self.in_flight, f"{offset} was delivered twice"
            assert value == self.values[offset], f"{offset} holds another record's value"
            assert attempts.get(offset, 0) == self.attempts.get(offset, 0), f"{offset} has wrong attempts"
            self.in_flight[offset] = event.revision
            self.position = offset + 1

    def gap_met(self, event: GapMet) -> None:
        """A gap contains dropped records only."""
        self._pass_over(event.gap.first)
        for offset in range(event.gap.first, event.gap.end):
            assert self.states[offset] != PENDING, f"{offset} is pending and was reported as dropped"
            self.notified.add(offset)
        self.position = event.gap.end

    def _pass_over(self, offset: int) -> None:
        assert offset >= self.position, f"{offset} came after {self.position}"
        for passed in range(self.position, offset):
            silent = self.states[passed] == PENDING or (self.states[passed] == DROPPED and passed not in self.notified)
            assert not silent, f"{passed} is {self.states[passed]} and was passed over"

    def revoked(self, event: Revoked, owner_epoch: int) -> None:
        """Everything from that offset on is redelivered."""
        for offset, revision in list(self.in_flight.items()):
            if offset >= event.first:
                self.void.append((owner_epoch, revision, offset))
                del self.in_flight[offset]
        self.position = min(self.position, event.first)

    def gone(self, owner_epoch: int, *, failed: bool) -> None:
        """The consumer is gone: its records in flight are redelivered, and the lowest of them has failed."""
        if failed and self.in_flight:
            self.failed(min(self.in_flight), waited_for=False)
        self.void += [(owner_epoch, revision, offset) for offset, revision in self.in_flight.items()]
        self.in_flight.clear()

    def taken(self, lane: Lane) -> None:
        """A new owner of the partition starts above no pending record and no unreported drop."""
        for offset in range(min(lane.sender.position, len(self.states))):
            unsaid = self.states[offset] == PENDING or (self.states[offset] == DROPPED and offset not in self.notified)
            assert not unsaid, f"a new owner begins at {lane.sender.position}, above {offset}"
        self.position = lane.sender.position

    def acked(self, offset: int) -> None:
        self.states[offset] = ACKED
        self.in_flight.pop(offset, None)
        self.attempts.pop(offset, None)

    def failed(self, offset: int, *, waited_for: bool) -> None:
        self.attempts[offset] = self.attempts.get(offset, 0) + 1
        if not waited_for:
            self.shaky[offset] += 1
            self.behind = True

    def durable(self) -> None:
        """Something was answered, so what was written before it is durable too."""
        self.unsure.clear()
        self.shaky.clear()
        self.behind = False

    # -- drops

    def learn_drops(self, log: PartitionLog) -> set[int]:
        """Note what the log says was dropped; returns what is new and was pending."""
        fresh: set[int] = set()
        for gap in log.gaps:
            for offset in range(gap.first, gap.end):
                if self.states[offset] == PENDING:
                    assert offset not in self.in_flight, f"{offset} was dropped in flight"
                    assert gap.reason is not DropReason.CORRUPT, f"{offset} was lost, and its page was not damaged"
                    fresh.add(offset)
                    self.states[offset] = DROPPED
                    self.unsure[offset] = self.attempts.pop(offset, 0)
        return fresh

    def killed(self, log: PartitionLog, lane: Lane) -> None:
        """Drops and failures without a waiting caller may be lost, never invented."""
        kept = dict(lane.cursor.attempts)
        for offset, attempts in self.unsure.items():
            if log.gap_at(offset) is None:
                self.states[offset] = PENDING
                self.notified.discard(offset)
                self.attempts[offset] = attempts
        for offset, attempts in list(self.attempts.items()):
            found = kept.get(offset, 0)
            assert attempts - self.shaky[offset] <= found <= attempts, f"{offset} has {found} of {attempts} attempts"
            self.attempts[offset] = found
        self.attempts = {offset: attempts for offset, attempts in self.attempts.items() if attempts}
        self.durable()

    # -- damage

    def page_of(self, found: list[bytes]) -> range:
        """Offsets of the page that holds these values."""
        first = self.values.index(found[0])
        assert self.values[first : first + len(found)] == found, f"the page of {first} is stored otherwise"
        return range(first, first + len(found))

    def needs(self, page: range, log: PartitionLog) -> bool:
        """A page stays until it is dropped, or until all up to its end are settled."""
        return log.gap_at(page.start) is None and page.stop > self.watermark

    def damage(self, page: range) -> None:
        """It cannot be read any more, so what was pending in it is lost; what was settled stays as it was."""
        self.damaged.append(page)
        for offset in page:
            if self.states[offset] == PENDING:
                self.states[offset] = DROPPED
                self.attempts.pop(offset, None)

    def gap_read(self, gap: Gap) -> None:
        """A reader received a gap: it contains no pending record, and its reason applies to all of it."""
        torn = [offset for page in self.damaged for offset in page if gap.first <= offset < gap.end]
        assert PENDING not in self.states[gap.first : gap.end], f"{gap} has a pending record"
        assert len(torn) == (gap.end - gap.first if gap.reason is DropReason.CORRUPT else 0), f"{gap}: {torn} are torn"

    def count(self, state: str) -> int:
        return self.states.count(state)

    def offsets(self, state: str) -> list[int]:
        return [offset for offset, found in enumerate(self.states) if found == state]

    @property
    def watermark(self) -> int:
        """The lowest offset that is not settled."""
        return next(iter(self.offsets(PENDING)), len(self.states))

    # -- at any moment

    def check(self, log: PartitionLog, lane: Lane) -> None:
        """The account balances, and is this one."""
        cursor = lane.cursor
        assert log.tail.next_offset == len(self.values)
        assert cursor.balances(len(self.values))
        assert (cursor.acked, cursor.dropped) == (self.count(ACKED), self.count(DROPPED))
        assert cursor.pending(len(self.values)) == self.count(PENDING)
        assert [cursor.is_settled(offset) for offset in range(len(self.states))] == [
            state != PENDING for state in self.states
        ]
        assert lane.records_in_flight == len(self.in_flight)
        assert dict(cursor.attempts) == self.attempts
        assert log.earliest <= self.watermark
        assert log.records >= self.count(PENDING)
        reported = [range(gap.first, gap.end) for gap in log.gaps if gap.reason is DropReason.CORRUPT]
        assert reported == sorted(self.damaged, key=lambda page: page.start), "the gaps are not the damaged pages"
        counted = dict(log.head.dropped)
        assert counted.get(CORRUPT, 0) == sum(map(len, self.damaged)), "what was damaged is not counted once"
        assert sum(gap.records for gap in log.gaps) == sum(counted.values())
