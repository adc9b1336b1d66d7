"""An ack from before a revocation comes late."""

from __future__ import annotations

from forebay.broker.embedded import BrokerServer
from forebay.client import Client
from tests.support.calls.streams import DeliverCall, offsets, outcomes


def test_a_late_ack_from_before_the_revocation_does_nothing_to_the_second_delivery(
    broker: BrokerServer, client: Client
) -> None:
    """Records 3 to 9 were revoked; an ack under the old revision leaves their second delivery as it is."""
    client.sinks.create("orders", retry_backoff_min_s=0.001, retry_backoff_max_s=0.001)
    with client.publisher("orders") as publisher:
        publisher.send_many([b"%d" % number for number in range(10)])

    with DeliverCall(broker.endpoint, "orders") as call:
        [first] = call.delivered(10)
        call.nack(first.owner_epoch, first.revision, 3, 3)
        second = call.delivered(7)
        late = call.ack(first.owner_epoch, first.revision, 3, 9)
        after_late = client.sinks.stats("orders")
        fresh = call.ack(second[0].owner_epoch, second[0].revision, 3, 9)
        after_fresh = client.sinks.stats("orders")

    assert offsets(second[0])[0] == 3
    assert outcomes(late) == [(3, 9, "STALE")]
    assert (after_late.subscriptions[0].partitions[0].acked, after_late.pending()) == (0, 10)
    assert {outcome for _, _, outcome in outcomes(fresh)} == {"OK"}
    assert (after_fresh.subscriptions[0].partitions[0].acked, after_fresh.pending()) == (7, 3)
    assert after_late.identity_ok
    assert after_fresh.identity_ok


def test_a_late_nack_from_before_the_revocation_is_no_second_failure(broker: BrokerServer, client: Client) -> None:
    """The same for a nack: the record failed once, not twice."""
    client.sinks.create("orders", retry_backoff_min_s=0.001, retry_backoff_max_s=0.001)
    with client.publisher("orders") as publisher:
        publisher.send_many([b"%d" % number for number in range(10)])

    with DeliverCall(broker.endpoint, "orders") as call:
        [first] = call.delivered(10)
        call.nack(first.owner_epoch, first.revision, 3, 3)
        [second] = call.delivered(7)
        late = call.nack(first.owner_epoch, first.revision, 3, 3)
        call.nack(second.owner_epoch, second.revision, 4, 4)
        third = call.delivered(6)

    assert outcomes(late) == [(3, 3, "STALE")]
    assert [(one.offset, one.attempt) for one in second.attempts] == [(3, 1)]
    assert [(one.offset, one.attempt) for one in third[0].attempts] == [(4, 1)]
