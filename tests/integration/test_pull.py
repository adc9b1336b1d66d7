"""Taking and answering records in single calls."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import (
    BrokerUnavailable,
    Client,
    Overflow,
    Record,
    SettleOutcome,
    SinkNotFound,
    SubscriptionNotFound,
)
from forebay.client.transport.status import from_call
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub
from tests.support.calls.eventually import stats_when
from tests.support.refusals import failure

MIB = 1 << 20


def pulled(client: Client, max_records: int = 100, consumer_id: str = "p", wait_s: float = 0.0) -> list[int]:
    """Offsets pulled from `orders`."""
    records = client.pull("orders", max_records=max_records, consumer_id=consumer_id, wait_s=wait_s)
    return [record.offset for record in records]


def test_records_come_with_all_that_was_published(client: Client) -> None:
    client.sinks.create("orders")
    sent = Record(b"value", key=b"key", headers=[("a", b"1"), ("a", b"2")], event_time=1_700_000_000_000_001)
    client.publish("orders", [sent, Record(b"")])

    full, empty = client.pull("orders")

    assert (full.value, full.key, full.headers) == (b"value", b"key", (("a", b"1"), ("a", b"2")))
    assert full.event_time is not None
    assert full.event_time.microsecond == 1
    assert (empty.value, empty.key, empty.headers, empty.event_time) == (b"", None, (), None)
    assert (full.offset, full.attempt, full.resend) == (0, 0, False)


def test_pulled_and_acked_records_are_not_redelivered(client: Client) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b"x")] * 5)
    first = client.pull("orders", max_records=3)

    results = client.ack("orders", first)
    again = client.ack("orders", first)

    assert [result.outcome for result in results] == [SettleOutcome.OK]
    assert [result.outcome for result in again] == [SettleOutcome.ALREADY_SETTLED]
    assert [record.offset for record in client.pull("orders")] == [3, 4]


def test_a_single_record_is_settled_as_a_list_of_one(client: Client) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b"x")] * 2)
    first, second = client.pull("orders", max_records=2)

    assert [result.outcome for result in client.ack("orders", first)] == [SettleOutcome.OK]
    assert [result.outcome for result in client.nack("orders", second)] == [SettleOutcome.OK]


def test_nacked_records_are_redelivered_and_flagged(client: Client) -> None:
    client.sinks.create("orders", retry_backoff_min_s=0.001, retry_backoff_max_s=0.001)
    client.publish("orders", [Record(b"x")] * 3)
    records = client.pull("orders")

    client.nack("orders", records[1:2], delay_s=0.0)

    [head, *rest] = client.pull("orders", wait_s=10.0)
    assert (head.offset, head.attempt, head.resend) == (1, 1, True)
    assert [result.outcome for result in client.ack("orders", records[1:])] == [SettleOutcome.STALE]
    assert {result.outcome for result in client.ack("orders", [records[0], head, *rest])} == {SettleOutcome.OK}


def test_a_nack_is_kept_back_for_as_long_as_it_says(client: Client) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b"x")])
    began = time.monotonic()

    client.nack("orders", client.pull("orders"), delay_s=0.3)

    assert pulled(client, consumer_id="pull", wait_s=10.0) == [0]
    assert 0.3 <= time.monotonic() - began < 0.9


def test_a_pull_waits_for_a_record_and_not_longer(client: Client) -> None:
    client.sinks.create("orders")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pulled, client, wait_s=30.0)
        stats_when(client, "orders", lambda stats: stats.subscriptions[0].consumers == 1)
        client.publish("orders", [Record(b"x")])

        assert waiting.result(10) == [0]
    assert pulled(client, wait_s=0.05) == []


def test_an_unanswered_pull_is_given_to_the_next_one_after_the_deadline(client: Client) -> None:
    client.sinks.create("orders", ack_deadline_s=0.2, retry_backoff_min_s=0.001, retry_backoff_max_s=0.001)
    client.publish("orders", [Record(b"x")] * 2)
    client.pull("orders", consumer_id="first")

    found = client.pull("orders", consumer_id="second", wait_s=10.0)

    assert (found[0].offset, found[0].attempt) == (0, 1)


def test_only_the_owner_gets_more_time(broker: BrokerServer, client: Client) -> None:
    client.sinks.create("orders", partitions=2)
    client.publish("orders", [Record(b"x")], partition=1)
    [record] = client.pull("orders")
    with grpc.insecure_channel(broker.endpoint) as channel:
        stub = BufferServiceStub(channel)
        extends = [
            pb.Extend(partition=0, owner_epoch=record.owner_epoch + 99),
            pb.Extend(partition=1, owner_epoch=record.owner_epoch),
        ]
        answer = stub.ExtendDeadline(pb.ExtendDeadlineRequest(sink="orders", extends=extends))

    assert list(answer.partitions) == [1]


def test_gaps_are_reported_on_the_way(broker: BrokerServer, client: Client) -> None:
    client.sinks.create("orders", overflow=Overflow.DROP_OLDEST, max_disk_cache=1, buffer_page_size=1)
    for _ in range(3):
        client.publish("orders", [Record(b"x")])
    with grpc.insecure_channel(broker.endpoint) as channel:
        answer = BufferServiceStub(channel).Pull(pb.PullRequest(sink="orders"))

    assert [(gap.first_offset, gap.last_offset) for gap in answer.gaps] == [(0, 0), (1, 1)]
    assert [record.offset for record in answer.records] == [2]


def test_an_answer_is_no_larger_than_a_message_may_be(client: Client) -> None:
    client.sinks.create("orders", in_flight_bytes_max=128 * MIB)
    for _ in range(7):
        client.publish("orders", [Record(b"x" * (7 * MIB))])
    found: list[int] = []
    while len(found) < 7:
        records = client.pull("orders")
        client.ack("orders", records)
        assert records
        assert sum(len(record.value) for record in records) <= 16 * MIB
        found += [record.offset for record in records]

    assert found == list(range(7))


def test_a_pull_that_waits_ends_with_its_sink(client: Client) -> None:
    client.sinks.create("orders")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pulled, client, wait_s=30.0)
        stats_when(client, "orders", lambda stats: stats.subscriptions[0].consumers == 1)
        client.sinks.delete("orders")

        with pytest.raises(SinkNotFound):
            waiting.result(10)


def test_a_pull_that_waits_does_not_hold_the_brokers_end_up() -> None:
    with (
        BrokerServer.in_memory(drain_s=60.0) as server,
        Client(server.endpoint) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        client.sinks.create("orders")
        waiting = pool.submit(pulled, client, wait_s=50.0)
        stats_when(client, "orders", lambda stats: stats.subscriptions[0].consumers == 1)
        stopping = threading.Thread(target=server.stop)
        stopping.start()

        with pytest.raises(BrokerUnavailable):
            waiting.result(20)
        stopping.join(10)
        assert not stopping.is_alive()


@pytest.mark.parametrize("consumer_id", ["a b", "x" * 65, "größe"])
def test_a_wrong_consumer_is_refused(client: Client, consumer_id: str) -> None:
    client.sinks.create("orders")

    with failure(Reason.INVALID_PULL):
        client.pull("orders", consumer_id=consumer_id)


def test_bounds_of_a_pull_are_checked(broker: BrokerServer, client: Client) -> None:
    client.sinks.create("orders")
    too_many, too_long, before = (pb.PullRequest(sink="orders") for _ in range(3))
    too_many.max_records = 10_001
    too_long.wait.FromSeconds(61)
    before.wait.FromSeconds(-1)
    with grpc.insecure_channel(broker.endpoint) as channel:
        for request in (too_many, too_long, before):
            with pytest.raises(grpc.RpcError) as failure:
                BufferServiceStub(channel).Pull(request)
            assert from_call(failure.value).reason == "INVALID_PULL"


def test_a_subscription_that_does_not_exist_is_not_found(client: Client) -> None:
    client.sinks.create("orders")

    with pytest.raises(SubscriptionNotFound):
        client.pull("orders", subscription="second")


@pytest.mark.parametrize("count", [0, 1_025])
def test_a_call_carries_some_answers_and_not_too_many(broker: BrokerServer, client: Client, count: int) -> None:
    client.sinks.create("orders")
    with grpc.insecure_channel(broker.endpoint) as channel:
        stub = BufferServiceStub(channel)
        for method, request in (
            (stub.Ack, pb.AckRequest(sink="orders", acks=[pb.AckRanges()] * count)),
            (stub.Nack, pb.NackRequest(sink="orders", nacks=[pb.NackRanges()] * count)),
            (stub.ExtendDeadline, pb.ExtendDeadlineRequest(sink="orders", extends=[pb.Extend()] * count)),
        ):
            with pytest.raises(grpc.RpcError) as failure:
                method(request)
            assert from_call(failure.value).reason == "INVALID_RANGE"
