"""Less credit than one record needs."""

from __future__ import annotations

from forebay.client import Client


def test_a_byte_credit_smaller_than_the_head_record_still_delivers_that_one(client: Client) -> None:
    """One record at a time, each larger than the whole credit, in order, until all are there."""
    client.sinks.create("orders", buffer_page_size=1)
    with client.publisher("orders", linger_ms=0) as publisher:
        for number in range(3):
            publisher.send(b"%d" % number * 10_000).result(10)
    taken: list[int] = []
    in_flight: list[int] = []
    with client.subscriber("orders", credit_bytes=1) as subscriber:
        while len(taken) < 3:
            delivery = subscriber.take(10)
            assert delivery is not None
            taken += [record.offset for record in delivery]
            in_flight.append(client.sinks.stats("orders").subscriptions[0].partitions[0].in_flight)
            delivery.ack(wait=True)

    assert taken == [0, 1, 2]
    assert in_flight == [1, 1, 1]
