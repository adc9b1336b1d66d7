"""Many records in one call."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from forebay.broker.embedded import BrokerServer
from forebay.client import (
    Client,
    Durability,
    Record,
    RecordTooLarge,
    partition_of,
)
from forebay.client.transport.status import from_call
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub
from tests.support.calls.eventually import values_of

MIB = 1 << 20


def test_records_go_where_their_keys_say_and_the_others_in_turn(client: Client) -> None:
    client.sinks.create("orders", partitions=4)
    keys = [b"%d" % number for number in range(40)]

    client.publish("orders", [Record(key, key=key) for key in keys])
    turns = {client.publish("orders", [Record(b"x")] * 3)[0].partition for _ in range(4)}

    for partition in range(4):
        expected = [key for key in keys if partition_of(key, 4) == partition]
        assert [value for value in values_of(client, "orders", partition) if value != b"x"] == expected
    assert turns == {0, 1, 2, 3}


def test_more_records_than_a_page_holds_become_several_in_their_order(client: Client) -> None:
    client.sinks.create("orders")
    values = [b"%06d" % number + b"x" * 1_000 for number in range(3_000)]

    receipts = client.publish("orders", [Record(value) for value in values])

    assert [receipt.first_offset for receipt in receipts] == sorted(receipt.first_offset or 0 for receipt in receipts)
    assert len(receipts) > 1
    assert {receipt.durability for receipt in receipts} == {Durability.DISK}
    assert values_of(client, "orders") == values


def test_records_full_of_keys_times_and_headers_are_cut_into_good_pages(client: Client) -> None:
    client.sinks.create("orders")
    record = Record(b"x" * 10, key=b"k" * 20, headers=[("größe", b"v" * 200)] * 3, event_time=1_700_000_000_000_000)

    receipts = client.publish("orders", [record] * 5_000)

    assert sum((receipt.last_offset or 0) - (receipt.first_offset or 0) + 1 for receipt in receipts) == 5_000


def test_all_records_of_a_call_for_a_partition_are_refused_together(client: Client) -> None:
    client.sinks.create("orders", max_disk_cache=3)

    with pytest.raises(RecordTooLarge):
        client.publish("orders", [Record(b"x" * MIB)] * 4)

    assert client.sinks.stats("orders").partitions[0].next_offset == 0


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (pb.PublishBatchRequest(sink="orders"), Reason.INVALID_PAGE),
        (pb.PublishBatchRequest(sink="orders", records=[record_pb2.Record()] * 65_537), Reason.INVALID_PAGE),
        (pb.PublishBatchRequest(sink="orders", records=[{"headers": [{"key": "k"}] * 65}]), Reason.INVALID_PAGE),
        (pb.PublishBatchRequest(sink="orders", records=[record_pb2.Record()], partition=2), Reason.INVALID_PARTITION),
        (pb.PublishBatchRequest(sink="orders", records=[{"value": b"x" * (8 * MIB)}]), Reason.RECORD_TOO_LARGE),
        (
            pb.PublishBatchRequest(sink="orders", records=[{"event_time": Timestamp(seconds=1 << 60)}]),
            Reason.INVALID_PAGE,
        ),
        (pb.PublishBatchRequest(sink="nothing", records=[record_pb2.Record()]), Reason.SINK_NOT_FOUND),
    ],
)
def test_a_wrong_call_is_refused(
    broker: BrokerServer, client: Client, request_: pb.PublishBatchRequest, reason: Reason
) -> None:
    client.sinks.create("orders", partitions=2)
    with grpc.insecure_channel(broker.endpoint) as channel, pytest.raises(grpc.RpcError) as failure:
        BufferServiceStub(channel).PublishBatch(request_)

    assert from_call(failure.value).reason == reason.name
