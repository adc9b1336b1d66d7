"""Deadlines of deliveries in process, with a clock of the test's own."""

from __future__ import annotations

import pytest

from forebay.client.consume.in_flight import InFlight
from forebay.client.consume.state import DeliverStreamState, SubscriptionState
from forebay.client.telemetry import Telemetry
from forebay.client.transport.operations import blocked
from forebay.client.values.records import Encoding, StoredPage
from forebay.client.values.sink_settings import Ordering
from forebay.v1 import buffer_service_pb2 as pb

DEADLINE_S = 30.0


class Clock:
    """Time that a test advances."""

    now = 1_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def in_flight(partition: int, offset: int, ordering: Ordering) -> InFlight:
    page = StoredPage(partition, offset, 1, Encoding.RECORDS, b"", (), offset, offset)
    return InFlight(partition=partition, incarnation="i", owner_epoch=1, pages=(page,), ordering=ordering)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(clock: Clock) -> SubscriptionState:
    """State of an open stream."""
    found = SubscriptionState(Telemetry("orders", "default"), clock)
    opened = pb.DeliverOpened(incarnation="i")
    opened.ack_deadline.FromNanoseconds(int(DEADLINE_S * 1e9))
    found.opened(DeliverStreamState(), opened)
    return found


def extended(state: SubscriptionState) -> list[tuple[int, list[tuple[int, int]]]]:
    """Return the extensions to be sent since the last call, as partition and ranges."""
    waiting = state._answers.waiting
    found = [one.extend for one in waiting if isinstance(one, pb.DeliverRequest) and one.HasField("extend")]
    waiting.clear()
    return [(one.partition, [(each.first_offset, each.last_offset) for each in one.ranges]) for one in found]


@pytest.mark.parametrize("ordering", [Ordering.STRICT, Ordering.RELAXED])
def test_each_of_several_deliveries_in_process_is_extended_in_time(
    ordering: Ordering, state: SubscriptionState, clock: Clock
) -> None:
    for partition in (0, 1):
        state.arrived(in_flight(partition, 5, ordering))
    first, second = (blocked(state.take(0)) for _ in range(2))
    assert first is not None
    assert second is not None
    extended(state)

    last = {0: clock.now, 1: clock.now}
    longest = 0.0
    for _ in range(1_000):
        for one in (first, second):  # the one is always asked just before the other
            state.touch(one)
            for partition, _ranges in extended(state):
                longest = max(longest, clock.now - last[partition])
                last[partition] = clock.now
            clock.now += 0.05

    assert longest < DEADLINE_S / 2
    assert all(clock.now - at < DEADLINE_S / 2 for at in last.values())


def test_a_delivery_is_extended_though_others_are_taken_all_the_time(state: SubscriptionState, clock: Clock) -> None:
    state.arrived(in_flight(0, 0, Ordering.RELAXED))
    slow = blocked(state.take(0))
    assert slow is not None

    found = []
    for offset in range(1, 40):
        state.arrived(in_flight(0, offset, Ordering.RELAXED))
        blocked(state.take(0))
        state.touch(slow)
        found += [clock.now for _, ranges in extended(state) if (0, 0) in ranges]
        clock.now += 1.0

    assert len(found) >= 3
    assert found[0] - 1_000.0 <= DEADLINE_S / 2


def test_a_touch_between_two_checks_asks_for_nothing(state: SubscriptionState, clock: Clock) -> None:
    state.arrived(in_flight(0, 0, Ordering.RELAXED))
    one = blocked(state.take(0))
    assert one is not None

    due_at = state.touch(one)
    clock.now = due_at - 0.001

    assert state.touch(one) == due_at
    assert extended(state) == []
