"""Ends of a deliver stream: what is in flight fails only when the consumer has vanished."""

from __future__ import annotations

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.settings import load
from forebay.client import Client, Record
from forebay.v1 import buffer_service_pb2 as pb
from tests.support.calls.deliveries import fill
from tests.support.calls.streams import DeliverCall


def attempts(call: DeliverCall) -> list[int]:
    [delivery] = call.delivered(1)
    return [each.attempt for each in delivery.attempts]


def test_a_consumer_that_closes_in_order_again_and_again_makes_no_dead_letter(client: Client) -> None:
    client.sinks.create("orders", max_attempts=2)
    client.publish("orders", [Record(b"a good record")])

    for _ in range(3):
        with client.subscriber("orders") as subscriber:
            taken = subscriber.take(20)
            assert taken is not None
            assert [record.attempt for record in taken] == [0]

    [stats] = client.sinks.stats("orders").subscriptions
    assert (stats.partitions[0].pending, stats.partitions[0].dead_lettered) == (1, 0)


def test_a_stream_that_ends_without_a_goodbye_is_a_failed_try_and_one_with_it_is_none(
    broker: BrokerServer, client: Client
) -> None:
    fill(client, 1)
    with DeliverCall(broker.endpoint, "orders") as call:
        assert attempts(call) == []
        call.put(pb.DeliverRequest(close=pb.DeliverClose()))
        with pytest.raises(StopIteration):
            call.next("results")
    with DeliverCall(broker.endpoint, "orders") as call:
        assert attempts(call) == []  # the end of the block cancels the call: the consumer vanishes
    with DeliverCall(broker.endpoint, "orders") as call:
        assert attempts(call) == [1]


def test_a_clean_stop_of_the_broker_is_no_failed_try(tmp_path: object) -> None:
    settings = load(listen="127.0.0.1:0", data_dir=str(tmp_path), disk_reserve_bytes=0, disk_ballast_bytes=0)
    for restart in range(3):
        with BrokerServer.on_disk(settings) as broker, Client(broker.endpoint) as client:
            if restart == 0:
                client.sinks.create("orders", max_attempts=2)
                client.publish("orders", [Record(b"a good record")])
            with DeliverCall(broker.endpoint, "orders") as call:
                assert attempts(call) == []
                broker.stop()


def test_a_consumer_that_answers_no_ping_is_ended_and_may_reconnect(tmp_path: object) -> None:
    settings = load(listen="127.0.0.1:0", data_dir=str(tmp_path), session_timeout_s=1.0, disk_reserve_bytes=0)
    with BrokerServer.on_disk(settings) as broker, Client(broker.endpoint) as client:
        fill(client, 1)
        with DeliverCall(broker.endpoint, "orders", answers_pings=True) as hung:
            assert attempts(hung) == []
            hung.next("ping")
            with pytest.raises(Exception, match="has not answered a ping for 1 s"):
                hung.next("results")
        with DeliverCall(broker.endpoint, "orders", answers_pings=True) as call:
            assert attempts(call) == []
            for _ in range(4):
                call.next("ping")
                call.put(pb.DeliverRequest(pong=pb.Pong()))


def test_a_delivery_whose_front_was_settled_by_number_may_be_nacked(client: Client) -> None:
    client.sinks.create("orders", max_attempts=3, ack_deadline_s=30.0)
    client.publish("orders", [Record(b"%d" % index) for index in range(10)])

    with client.subscriber("orders") as subscriber:
        first = subscriber.take(20)
        assert first is not None
        client.publish("orders", [Record(b"%d" % index) for index in range(10, 20)])
        last = subscriber.take(20)
        assert last is not None
        last.ack_until(4)
        first.nack(delay_s=0.0)

        again = subscriber.take(10)

        assert again is not None
        assert (again.first_offset, [record.attempt for record in again]) == (5, [1, 0, 0, 0, 0])


def test_a_revocation_reaches_down_over_what_was_settled_in_front_of_it(broker: BrokerServer, client: Client) -> None:
    fill(client, 4)
    with DeliverCall(broker.endpoint, "orders") as call:
        deliveries = call.delivered(4)
        epoch = deliveries[0].owner_epoch
        call.ack(epoch, 0, 0, 1)

        call.nack(epoch, 0, 0, 3)

        assert call.next("revoked").revoked.from_offset == 0
