"""Deliveries over gRPC: credit, owners, answers, time."""

from __future__ import annotations

import queue
from typing import Any

import grpc
import pytest

from holdfast.broker.server import BrokerServer
from holdfast.client import (
    BrokerUnavailable,
    Client,
    ConsumerReplaced,
    InvalidCredit,
    InvalidNack,
    InvalidOpen,
    InvalidPartition,
    InvalidRange,
    ReaderMode,
    Record,
    SinkNotFound,
    SubscriptionNotFound,
)
from holdfast.client.errors import HoldfastError
from holdfast.client.status import from_call
from holdfast.v1 import buffer_service_pb2 as pb
from holdfast.v1 import record_pb2
from holdfast.v1.buffer_service_pb2_grpc import BufferServiceStub
from tests.integration.cases.eventually import stats_when
from tests.integration.cases.wire import DeliverCall, offsets, outcomes

MIB = 1 << 20


def fill(client: Client, pages: int, *, records: int = 1, partition: int = 0, size: int = 1, **settings: Any) -> None:
    """Publish pages into `orders`, which joins none."""
    client.sinks.create("orders", exist_ok=True, buffer_page_size=1, **settings)
    for _ in range(pages):
        client.publish("orders", [Record(b"x" * size)] * records, partition=partition)


def assignment(call: DeliverCall) -> list[int]:
    """The partitions of the next assignment."""
    return [one.partition for one in call.next("assignment").assignment.partitions]


def sent(call: DeliverCall, records: int) -> list[int]:
    """The next offsets, at least so many."""
    return [offset for one in call.delivered(records) for offset in offsets(one)]


def nothing_more(client: Client, in_flight: int) -> None:
    """The broker has sent all that it may."""
    stats_when(client, "orders", lambda stats: stats.subscriptions[0].partitions[0].in_flight == in_flight)


# -- opening


def test_opening_tells_what_one_has_to_know(broker: BrokerServer, client: Client) -> None:
    made = client.sinks.create("orders", partitions=3, ack_deadline_s=7.5)

    with DeliverCall(broker.endpoint, "orders") as call:
        assert call.opened.incarnation == made.incarnation
        assert (call.opened.partitions, call.opened.ack_deadline.ToMilliseconds()) == (3, 7_500)
        assert assignment(call) == [0, 1, 2]


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (pb.DeliverRequest(), InvalidOpen),
        (pb.DeliverRequest(credit=pb.Credit()), InvalidOpen),
        (pb.DeliverRequest(open=pb.DeliverOpen(sink="orders")), InvalidOpen),
        (pb.DeliverRequest(open=pb.DeliverOpen(sink="orders", consumer_id="a b")), InvalidOpen),
        (pb.DeliverRequest(open=pb.DeliverOpen(sink="nothing", consumer_id="a")), SinkNotFound),
        (
            pb.DeliverRequest(open=pb.DeliverOpen(sink="orders", consumer_id="a", subscription="b")),
            SubscriptionNotFound,
        ),
        (
            pb.DeliverRequest(open=pb.DeliverOpen(sink="orders", consumer_id="a", credit={"records": 10_000_001})),
            InvalidCredit,
        ),
        (
            pb.DeliverRequest(open=pb.DeliverOpen(sink="orders", consumer_id="a", credit={"bytes": (1 << 30) + 1})),
            InvalidCredit,
        ),
    ],
)
def test_a_stream_begins_with_a_good_open(
    broker: BrokerServer, client: Client, first: pb.DeliverRequest, kind: type[HoldfastError]
) -> None:
    client.sinks.create("orders")
    requests: queue.SimpleQueue[pb.DeliverRequest | None] = queue.SimpleQueue()
    requests.put(first)
    with grpc.insecure_channel(broker.endpoint) as channel:
        responses = BufferServiceStub(channel).Deliver(iter(requests.get, None), timeout=20)
        with pytest.raises(grpc.RpcError) as failure:
            next(responses)
        requests.put(None)

    assert isinstance(from_call(failure.value), kind)


def ranged(first: int, last: int) -> list[record_pb2.OffsetRange]:
    return [record_pb2.OffsetRange(first_offset=first, last_offset=last)]


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (pb.DeliverRequest(), InvalidOpen),
        (pb.DeliverRequest(open=pb.DeliverOpen(sink="orders", consumer_id="a")), InvalidOpen),
        (pb.DeliverRequest(credit=pb.Credit(records=10_000_001)), InvalidCredit),
        (pb.DeliverRequest(ack=pb.AckRanges()), InvalidRange),
        (pb.DeliverRequest(ack=pb.AckRanges(ranges=ranged(2, 1))), InvalidRange),
        (pb.DeliverRequest(ack=pb.AckRanges(ranges=ranged(0, 1), partition=1)), InvalidPartition),
        (pb.DeliverRequest(nack=pb.NackRanges()), InvalidRange),
        (pb.DeliverRequest(nack=pb.NackRanges(ranges=ranged(0, 1), retry={"delay": {"seconds": -1}})), InvalidNack),
        (pb.DeliverRequest(extend=pb.Extend(partition=1)), InvalidPartition),
    ],
)
def test_a_wrong_message_ends_the_stream_with_its_reason(
    broker: BrokerServer, client: Client, request_: pb.DeliverRequest, kind: type[HoldfastError]
) -> None:
    fill(client, 2)
    with DeliverCall(broker.endpoint, "orders") as call:
        call.put(request_)
        with pytest.raises(kind):
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


# -- owners


def test_partitions_are_handed_over_when_a_second_consumer_comes_and_back_when_it_goes(
    broker: BrokerServer, client: Client
) -> None:
    for partition in range(4):
        fill(client, 2, partition=partition, partitions=4)
    with DeliverCall(broker.endpoint, "orders", consumer_id="a") as first:
        alone = assignment(first)
        deliveries = first.delivered(8)
        with DeliverCall(broker.endpoint, "orders", consumer_id="b") as second:
            for one in deliveries:
                ack = pb.AckRanges(partition=one.partition, owner_epoch=one.owner_epoch, ranges=one.ranges)
                first.put(pb.DeliverRequest(ack=ack))
            shared = assignment(first)
            while len(shared) > 2:
                shared = assignment(first)
            others: list[int] = []
            while len(others) < 2:
                others = assignment(second)
        back: list[int] = []
        while len(back) < 4:
            back = assignment(first)

    assert alone == back == [0, 1, 2, 3]
    assert sorted([*shared, *others]) == [0, 1, 2, 3]


def test_a_second_stream_of_the_same_consumer_ends_the_first(broker: BrokerServer, client: Client) -> None:
    fill(client, 2)
    with DeliverCall(broker.endpoint, "orders") as first:
        sent(first, 2)
        with DeliverCall(broker.endpoint, "orders") as second:
            with pytest.raises(ConsumerReplaced):
                first.next("results")

            [delivery] = second.delivered(2)
            assert offsets(delivery) == [0, 1]
            assert delivery.resend
            assert [(one.offset, one.attempt) for one in delivery.attempts] == [(0, 1)]


# -- answers and time


def test_each_part_of_an_ack_gets_its_result(broker: BrokerServer, client: Client) -> None:
    fill(client, 1, records=5)
    with DeliverCall(broker.endpoint, "orders") as call:
        [delivery] = call.delivered(5)
        mine = (delivery.owner_epoch, delivery.revision)

        assert outcomes(call.ack(*mine, 0, 1)) == [(0, 1, "OK")]
        assert outcomes(call.ack(*mine, 1, 2)) == [(1, 1, "ALREADY_SETTLED"), (2, 2, "OK")]
        assert outcomes(call.ack(*mine, 4, 9)) == [(4, 4, "OK"), (5, 9, "UNKNOWN")]
        assert outcomes(call.ack(delivery.owner_epoch - 1, 0, 3, 3)) == [(3, 3, "STALE")]


def test_a_nacked_record_comes_again_after_its_delay_and_new_records_do_not_hurry_it(
    broker: BrokerServer, client: Client
) -> None:
    fill(client, 2)
    with DeliverCall(broker.endpoint, "orders") as call:
        [delivery] = call.delivered(2)
        nack = pb.NackRanges(owner_epoch=delivery.owner_epoch, ranges=ranged(0, 0))
        nack.retry.delay.FromMilliseconds(300)
        call.put(pb.DeliverRequest(nack=nack))
        call.next("revoked")
        fill(client, 1)
        waiting = client.sinks.stats("orders").subscriptions[0].partitions[0]
        [again] = call.delivered(1)

        assert waiting.state == "BACKING_OFF"
        assert offsets(again)[0] == 0
        assert again.revision == delivery.revision + 1


def test_an_unanswered_delivery_is_revoked_at_its_deadline_and_comes_again(
    broker: BrokerServer, client: Client
) -> None:
    fill(client, 3, ack_deadline_s=0.2, retry_backoff_min_s=0.001, retry_backoff_max_s=0.001)
    with DeliverCall(broker.endpoint, "orders") as call:
        first = call.delivered(3)[0]
        call.ack(first.owner_epoch, first.revision, 0, 0)
        revoked = call.next("revoked").revoked
        again = call.delivered(1)[0]

    assert (revoked.from_offset, revoked.revision) == (1, 1)
    assert offsets(again)[0] == 1
    assert [(one.offset, one.attempt) for one in again.attempts][:1] == [(1, 1)]


def test_falling_behind_and_catching_up_are_counted() -> None:
    with BrokerServer.in_memory(tail_bytes=3_000) as server, Client(server.endpoint) as client:
        fill(client, 6, size=1_000)
        modes: list[ReaderMode] = []
        with DeliverCall(server.endpoint, "orders", records=1) as call:
            for offset in range(6):
                [delivery] = call.delivered(1)
                assert offsets(delivery) == [offset]
                call.ack(delivery.owner_epoch, delivery.revision, offset, offset)
                modes.append(client.sinks.stats("orders").subscriptions[0].partitions[0].mode)
            stats = client.sinks.stats("orders").subscriptions[0].partitions[0]

        assert ReaderMode.CATCH_UP in modes
        assert modes[-1] is ReaderMode.REALTIME
        assert stats.mode_switches == 1


# -- ends


def test_half_closing_gives_the_results_that_are_due(broker: BrokerServer, client: Client) -> None:
    fill(client, 1)
    with DeliverCall(broker.endpoint, "orders") as call:
        [delivery] = call.delivered(1)
        call.put(pb.DeliverRequest(ack=pb.AckRanges(owner_epoch=delivery.owner_epoch, ranges=ranged(0, 0))))
        call.half_close()

        assert outcomes(call.next("results").results.results) == [(0, 0, "OK")]
        with pytest.raises(StopIteration):
            call.take()


def test_a_deleted_sink_and_a_stopping_broker_end_the_stream(client: Client, broker: BrokerServer) -> None:
    fill(client, 1)
    client.sinks.create("other")
    with DeliverCall(broker.endpoint, "orders") as call, DeliverCall(broker.endpoint, "other") as other:
        sent(call, 1)
        client.sinks.delete("orders", force=True)
        with pytest.raises(SinkNotFound):
            call.next("results")
        assignment(other)
        broker.stop()
        with pytest.raises(BrokerUnavailable):
            other.next("results")
