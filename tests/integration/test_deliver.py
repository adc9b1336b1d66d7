"""Deliveries over gRPC: opening, and credit."""

from __future__ import annotations

import queue

import grpc
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import (
    Client,
)
from forebay.client.transport.status import from_call
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub
from tests.support.calls.deliveries import assignment, fill, nothing_more, ranged, sent
from tests.support.calls.streams import DeliverCall
from tests.support.refusals import failure

MIB = 1 << 20


# -- opening


def test_opening_tells_what_one_has_to_know(broker: BrokerServer, client: Client) -> None:
    made = client.sinks.create("orders", partitions=3, ack_deadline_s=7.5)

    with DeliverCall(broker.endpoint, "orders") as call:
        assert call.opened.incarnation == made.incarnation
        assert (call.opened.partitions, call.opened.ack_deadline.ToMilliseconds()) == (3, 7_500)
        assert assignment(call) == [0, 1, 2]


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (pb.DeliverRequest(), Reason.INVALID_OPEN),
        (pb.DeliverRequest(credit=pb.Credit()), Reason.INVALID_OPEN),
        (pb.DeliverRequest(open=pb.DeliverOpen(sink="orders")), Reason.INVALID_OPEN),
        (pb.DeliverRequest(open=pb.DeliverOpen(sink="orders", consumer_id="a b")), Reason.INVALID_OPEN),
        (pb.DeliverRequest(open=pb.DeliverOpen(sink="nothing", consumer_id="a")), Reason.SINK_NOT_FOUND),
        (
            pb.DeliverRequest(open=pb.DeliverOpen(sink="orders", consumer_id="a", subscription="b")),
            Reason.SUBSCRIPTION_NOT_FOUND,
        ),
        (
            pb.DeliverRequest(open=pb.DeliverOpen(sink="orders", consumer_id="a", credit={"records": 10_000_001})),
            Reason.INVALID_CREDIT,
        ),
        (
            pb.DeliverRequest(open=pb.DeliverOpen(sink="orders", consumer_id="a", credit={"bytes": (1 << 30) + 1})),
            Reason.INVALID_CREDIT,
        ),
    ],
)
def test_a_stream_begins_with_a_good_open(
    broker: BrokerServer, client: Client, first: pb.DeliverRequest, reason: Reason
) -> None:
    client.sinks.create("orders")
    requests: queue.SimpleQueue[pb.DeliverRequest | None] = queue.SimpleQueue()
    requests.put(first)
    with grpc.insecure_channel(broker.endpoint) as channel:
        responses = BufferServiceStub(channel).Deliver(iter(requests.get, None), timeout=20)
        with pytest.raises(grpc.RpcError) as failure:
            next(responses)
        requests.put(None)

    assert from_call(failure.value).reason == reason.name


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (pb.DeliverRequest(), Reason.INVALID_OPEN),
        (pb.DeliverRequest(open=pb.DeliverOpen(sink="orders", consumer_id="a")), Reason.INVALID_OPEN),
        (pb.DeliverRequest(credit=pb.Credit(records=10_000_001)), Reason.INVALID_CREDIT),
        (pb.DeliverRequest(ack=pb.AckRanges()), Reason.INVALID_RANGE),
        (pb.DeliverRequest(ack=pb.AckRanges(ranges=ranged(2, 1))), Reason.INVALID_RANGE),
        (pb.DeliverRequest(ack=pb.AckRanges(ranges=ranged(0, 1), partition=1)), Reason.INVALID_PARTITION),
        (pb.DeliverRequest(nack=pb.NackRanges()), Reason.INVALID_RANGE),
        (
            pb.DeliverRequest(nack=pb.NackRanges(ranges=ranged(0, 1), retry={"delay": {"seconds": -1}})),
            Reason.INVALID_NACK,
        ),
        (pb.DeliverRequest(extend=pb.Extend(partition=1)), Reason.INVALID_PARTITION),
    ],
)
def test_a_wrong_message_ends_the_stream_with_its_reason(
    broker: BrokerServer, client: Client, request_: pb.DeliverRequest, reason: Reason
) -> None:
    fill(client, 2)
    with DeliverCall(broker.endpoint, "orders") as call:
        call.put(request_)
        with failure(reason):
            call.next("results")

    assert client.sinks.stats("orders").subscriptions[0].partitions[0].pending == 2


# -- credit


def test_credit_in_records_is_a_level_and_can_be_changed(broker: BrokerServer, client: Client) -> None:
    fill(client, 6, records=4)
    with DeliverCall(broker.endpoint, "orders", records=10) as call:
        first = sent(call, 12)
        nothing_more(client, 12)
        call.put(pb.DeliverRequest(credit=pb.Credit(records=13, bytes=MIB)))
        second = sent(call, 4)
        nothing_more(client, 16)

        assert (first, second) == (list(range(12)), list(range(12, 16)))


def test_credit_in_bytes_is_a_level_too(broker: BrokerServer, client: Client) -> None:
    fill(client, 6, size=1_000)
    with DeliverCall(broker.endpoint, "orders", bytes_=2_500) as call:
        first = sent(call, 3)
        nothing_more(client, 3)

        assert first == [0, 1, 2]


def test_without_credit_nothing_comes_until_there_is_some(broker: BrokerServer, client: Client) -> None:
    fill(client, 2)
    with DeliverCall(broker.endpoint, "orders", records=0) as call:
        assignment(call)
        call.put(pb.DeliverRequest(credit=pb.Credit(records=1, bytes=1)))

        assert sent(call, 1) == [0]
        assert [one.WhichOneof("response") for one in call.told] == ["assignment", "delivery"]


def test_records_of_the_largest_size_are_delivered_one_by_one(broker: BrokerServer, client: Client) -> None:
    client.sinks.create("orders")
    with client.publisher("orders") as publisher:
        for _ in range(3):
            publisher.send(b"x" * (8 * MIB)).result(20)

    with client.subscriber("orders", credit_bytes=1) as subscriber:
        for offset in range(3):
            delivery = subscriber.take(20)
            assert delivery is not None
            assert [(record.offset, len(record.value)) for record in delivery] == [(offset, 8 * MIB)]
            delivery.ack()
