"""An ack of records below one that was nacked."""

from __future__ import annotations

from forebay.broker.embedded import BrokerServer
from forebay.client import Client, Delivery
from tests.support.calls.streams import DeliverCall, offsets, outcomes


def fill(client: Client) -> None:
    """Publish records 0 to 99."""
    client.sinks.create("orders", retry_backoff_min_s=0.001, retry_backoff_max_s=0.001)
    with client.publisher("orders", page_records=30) as publisher:
        publisher.send_many([b"%d" % number for number in range(100)])


def test_an_ack_below_the_nacked_record_counts_though_its_revision_is_old(broker: BrokerServer, client: Client) -> None:
    """0 to 99 sent, 60 nacked, then 0 to 59 acked: the ack counts."""
    fill(client)

    with DeliverCall(broker.endpoint, "orders") as call:
        ahead = call.delivered(100)
        place = ahead[0].owner_epoch, ahead[0].revision
        call.nack(*place, 60, 60)
        below = call.ack(*place, 0, 59)
        beyond = call.ack(*place, 60, 99)
        stats = client.sinks.stats("orders")
        again = call.delivered(1)
        probed = offsets(again[0])
        call.ack(again[0].owner_epoch, again[0].revision, probed[0], probed[-1])
        again += call.delivered(40 - len(probed))

    assert {outcome for _, _, outcome in outcomes(below)} == {"OK"}
    assert outcomes(beyond) == [(60, 99, "STALE")]
    assert [offset for one in again for offset in offsets(one)] == list(range(60, 100))
    account = stats.subscriptions[0].partitions[0]
    assert (account.watermark, account.acked, account.pending) == (60, 60, 40)
    assert stats.identity_ok


def test_a_client_may_nack_first_and_ack_what_was_before_it_later(client: Client) -> None:
    """The same with the client: the answers to 0 to 59 count, and 60 is redelivered."""
    fill(client)

    with client.subscriber("orders") as subscriber:
        deliveries: list[Delivery] = []
        while not deliveries or deliveries[-1].last_offset < 99:
            delivery = subscriber.take(10)
            assert delivery is not None
            deliveries.append(delivery)
        next(one for one in deliveries if one.last_offset >= 60).nack_from(60, delay_s=0.0, wait=True)
        results = [
            result
            for one in deliveries
            if one.first_offset < 60
            for result in one.ack(one.first_offset, min(59, one.last_offset), wait=True)
        ]
        again = subscriber.take(10)

    assert {result.outcome.value for result in results} == {"OK"}
    assert again is not None
    assert again.first_offset == 60
    assert client.sinks.stats("orders").subscriptions[0].partitions[0].watermark == 60
