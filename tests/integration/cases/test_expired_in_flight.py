"""Records whose ack deadline has passed, over the wire."""

from __future__ import annotations

from forebay.broker.embedded import BrokerServer
from forebay.broker.runtime.clock import FakeClock
from forebay.client import Client, DropReason, Record
from tests.support.calls.deliveries import sent
from tests.support.calls.streams import DeliverCall

SINK = "orders"


def test_a_connection_breaks_after_the_age_of_what_it_had_in_flight() -> None:
    """In flight longer than `max_age` when the connection breaks: expired, not resent, counted."""
    clock = FakeClock()
    with BrokerServer.in_memory(clock=clock) as server, Client(server.endpoint) as client:
        client.sinks.create(SINK, max_age_s=60.0, ack_deadline_s=3_600.0, buffer_page_size=1)
        client.publish(SINK, [Record(b"old")])
        with DeliverCall(server.endpoint, SINK) as first:
            in_flight = sent(first, 1)
            clock.advance(61.0)
            client.publish(SINK, [Record(b"young")])
            after = sent(first, 1)
        with DeliverCall(server.endpoint, SINK) as second:
            gap = second.next("gap").gap
            again = sent(second, 1)
        stats = client.sinks.stats(SINK)

    assert (in_flight, after, again) == ([0], [1], [1])
    assert (gap.first_offset, gap.last_offset, gap.reason) == (0, 0, 3)
    assert stats.partitions[0].dropped == {DropReason.EXPIRED: 1}
    assert stats.subscriptions[0].partitions[0].dropped == 1
    assert stats.identity_ok
