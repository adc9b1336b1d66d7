"""The subscriber in RELAXED order: a nack releases the records it names, and discards no others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forebay.client import SettleOutcome
from forebay.v1 import sink_pb2
from tests.support.calls.wire_fake import WireFake
from tests.unit.client.consume.test_subscriber import Script, delivery, spans, stored, until

RELAXED = sink_pb2.ORDERING_RELAXED


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def fake(script: Script) -> Iterator[WireFake]:
    with WireFake(Deliver=script.serve) as running:
        yield running


def test_a_nack_leaves_the_rest_of_the_delivery_and_all_queued_ones_alone(fake: WireFake, script: Script) -> None:
    script.to_client.put(delivery(stored(0, 5), ordering=RELAXED))
    script.to_client.put(delivery(stored(5, 2), ordering=RELAXED))

    with fake.client().subscriber("orders") as subscriber:
        first = subscriber.take(10)
        assert first is not None
        seen = []
        for record in first:
            seen.append(record.offset)
            if record.offset in (1, 3):
                first.nack(offset=record.offset, reason="503")
        first.ack()
        second = subscriber.take(10)
        assert second is not None
        second.ack(wait=True)

    assert seen == [0, 1, 2, 3, 4]
    assert [record.offset for record in second] == [5, 6]
    nacked = [found for one in script.said for found in spans(one.nack.ranges)]
    acked = [found for one in script.said for found in spans(one.ack.ranges)]
    assert (nacked, acked) == ([(1, 1), (3, 3)], [(0, 0), (2, 2), (4, 4), (5, 6)])


def test_a_nack_up_to_the_end_ends_the_delivery(fake: WireFake, script: Script) -> None:
    script.to_client.put(delivery(stored(0, 5), ordering=RELAXED))

    with fake.client().subscriber("orders") as subscriber:
        one = subscriber.take(10)
        assert one is not None
        one.nack_from(3)

        assert [record.offset for record in one] == [0, 1, 2]
        assert [result.outcome for result in one.ack(4, wait=True)] == [SettleOutcome.STALE]
        one.ack(wait=True)

    assert [found for said in script.said for found in spans(said.ack.ranges)] == [(0, 2)]


def test_slow_work_asks_for_more_time_for_what_is_at_hand_and_not_for_what_was_left_lying() -> None:
    script = Script(ack_deadline_s=0.3)
    script.to_client.put(delivery(stored(0, 2), ordering=RELAXED))
    script.to_client.put(delivery(stored(2, 2), ordering=RELAXED))
    script.to_client.put(delivery(stored(4, 2), ordering=RELAXED))

    with WireFake(Deliver=script.serve) as fake, fake.client().subscriber("orders") as subscriber:
        left_lying, worked_on = subscriber.take(10), subscriber.take(10)
        assert left_lying is not None
        assert worked_on is not None

        def extended() -> bool:
            worked_on.extend()
            return any(spans(one.extend.ranges) == [(2, 5)] for one in script.said)

        until(extended)

    assert all((0, 1) not in spans(one.extend.ranges) for one in script.said)
