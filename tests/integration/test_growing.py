"""A sink gets further partitions while it works."""

from __future__ import annotations

from forebay.broker.embedded import BrokerServer
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import Client, Record
from forebay.errors.reasons import Reason
from tests.support.calls.deliveries import assignment, sent
from tests.support.calls.eventually import values_of
from tests.support.calls.streams import DeliverCall, PublishCall
from tests.support.refusals import failure

SINK = "orders"


def test_a_consumer_that_is_there_gets_the_new_partitions(broker: BrokerServer, client: Client) -> None:
    client.sinks.create(SINK)
    with DeliverCall(broker.endpoint, SINK) as call:
        before = assignment(call)
        client.sinks.update(SINK, partitions=3)
        after = assignment(call)
        client.publish(SINK, [Record(b"new")], partition=2)
        delivery = call.next("delivery").delivery

    assert (before, after) == ([0], [0, 1, 2])
    assert (delivery.partition, delivery.ranges[0].first_offset) == (2, 0)


def test_a_publisher_continues_with_the_number_it_knows_and_a_new_one_uses_them_all(
    broker: BrokerServer, client: Client
) -> None:
    client.sinks.create(SINK)
    with PublishCall(broker.endpoint, SINK, "old") as old:
        client.sinks.update(SINK, partitions=4)
        old.publish(0, [b"old"])
        with PublishCall(broker.endpoint, SINK, "new") as new:
            told = (old.opened.partitions, new.opened.partitions)
            new.publish(0, [b"new"], partition=3)
            old.publish(0, [b"old too"], partition=3)

    assert told == (1, 4)
    assert (values_of(client, SINK, 0), values_of(client, SINK, 3)) == ([b"old"], [b"new", b"old too"])


def test_they_and_what_they_hold_are_there_after_a_restart() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server, Client(server.endpoint) as client:
        client.sinks.create(SINK)
        client.publish(SINK, [Record(b"a")])
        client.sinks.update(SINK, partitions=2)
        client.publish(SINK, [Record(b"b")], partition=1)
    with BrokerServer.in_memory(store.crash()) as server, Client(server.endpoint) as client:
        stats = client.sinks.stats(SINK)
        with DeliverCall(server.endpoint, SINK) as call:
            found = sent(call, 2)

    assert [part.records for part in stats.partitions] == [1, 1]
    assert stats.identity_ok
    assert found == [0, 0]


def test_a_paused_sink_delivers_nothing_from_a_new_partition_either(client: Client) -> None:
    client.sinks.create(SINK)
    client.sinks.pause(SINK, "at night")
    client.sinks.update(SINK, partitions=2)
    client.publish(SINK, [Record(b"b")], partition=1)
    held = client.pull(SINK)

    client.sinks.resume(SINK)

    assert (held, [record.value for record in client.pull(SINK)]) == ([], [b"b"])


def test_they_are_never_taken_away(client: Client) -> None:
    client.sinks.create(SINK, partitions=3)

    with failure(Reason.INVALID_SETTING, match="partitions = 2: must be 3 to 1,024"):
        client.sinks.update(SINK, partitions=2)


def test_the_brokers_bound_holds_for_them_too() -> None:
    with BrokerServer.in_memory(partitions_max=4) as server, Client(server.endpoint) as client:
        client.sinks.create(SINK, partitions=3)
        with failure(Reason.TOO_MANY_SINKS):
            client.sinks.update(SINK, partitions=5)
        client.sinks.update(SINK, partitions=4)

        assert len(client.sinks.stats(SINK).partitions) == 4
