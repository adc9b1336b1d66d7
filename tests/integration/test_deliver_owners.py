"""Deliveries over gRPC: owners, answers, time, ends."""

from __future__ import annotations

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import BrokerUnavailable, Client, ReaderMode, SinkNotFound
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from tests.support.calls.deliveries import assignment, fill, ranged, sent
from tests.support.calls.streams import DeliverCall, offsets, outcomes
from tests.support.refusals import failure

MIB = 1 << 20


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
            with failure(Reason.CONSUMER_REPLACED):
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


def test_a_nacked_record_is_redelivered_after_its_delay_and_new_records_do_not_hurry_it(
    broker: BrokerServer, client: Client
) -> None:
    fill(client, 2)
    with DeliverCall(broker.endpoint, "orders") as call:
        [delivery] = call.delivered(2)
        nack = pb.NackRanges(owner_epoch=delivery.owner_epoch, ranges=ranged(0, 0))
        nack.retry.delay.FromMilliseconds(1_500)
        call.put(pb.DeliverRequest(nack=nack))
        call.next("revoked")
        fill(client, 1)
        waiting = client.sinks.stats("orders").subscriptions[0].partitions[0]
        [again] = call.delivered(1)

        assert waiting.state == "BACKING_OFF"
        assert offsets(again)[0] == 0
        assert again.revision == delivery.revision + 1


def test_an_unanswered_delivery_is_revoked_at_its_deadline_and_redelivered(
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
