"""Nothing is there to be read."""

from __future__ import annotations

from forebay.client import Client, RecordPlace


def test_reading_an_empty_buffer_yields_nothing_and_does_not_fail(client: Client) -> None:
    """By every way of reading, on a sink that never held anything and on one that is empty again."""
    client.sinks.create("orders")
    for _ in range(2):
        with client.subscriber("orders") as subscriber:
            nothing = subscriber.take(0.05)
        end = client.sinks.stats("orders").partitions[0].next_offset

        assert nothing is None
        assert client.pull("orders") == []
        assert client.peek("orders") == []
        assert list(client.replay("orders", partition=0)) == []
        assert list(client.sinks.gaps("orders")) == []
        assert [one.records for one in client.sinks.purge("orders")] == [0]
        assert client.sinks.explain("orders", end).place is RecordPlace.NOT_ASSIGNED

        with client.publisher("orders") as publisher:
            publisher.send_many([b"x"] * 10).result(10)
        taken = client.pull("orders", wait_s=10)
        client.ack("orders", taken)
        assert len(taken) == 10
