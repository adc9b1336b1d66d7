"""Publishing over gRPC: page by page, and many records in a call."""

from __future__ import annotations

import queue
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from holdfast.broker.server import BrokerServer
from holdfast.broker.storage.memory import MemoryStore
from holdfast.client import (
    Client,
    Durability,
    InvalidOpen,
    InvalidPage,
    InvalidPartition,
    Overflow,
    PageCorrupt,
    Record,
    RecordTooLarge,
    SequenceConflict,
    SequenceGap,
    SinkFull,
    SinkNotFound,
    WriterFenced,
    partition_of,
)
from holdfast.client.errors import HoldfastError
from holdfast.client.status import from_call
from holdfast.v1 import buffer_service_pb2 as pb
from holdfast.v1 import record_pb2
from holdfast.v1.buffer_service_pb2_grpc import BufferServiceStub
from tests.integration.cases.eventually import values_of
from tests.integration.cases.wire import PublishCall

MIB = 1 << 20


def body(*values: bytes, **columns: Any) -> bytes:
    run = record_pb2.RecordRun(value_lengths=[len(value) for value in values], values=b"".join(values), **columns)
    return record_pb2.RecordPage(runs=[run]).SerializeToString()


def page(data: bytes, *, records: int = 1, crc32: int | None = None, **fields: Any) -> pb.PublishRequest:
    """A page with whatever is wrong about it."""
    given = {"encoding": record_pb2.ENCODING_RECORDS, "record_count": records, **fields}
    crc = zlib.crc32(data) if crc32 is None else crc32
    return pb.PublishRequest(page=pb.PublishPage(body=data, crc32=crc, **given))


@pytest.fixture
def call(broker: BrokerServer, client: Client) -> Iterator[PublishCall]:
    """A publish stream of a writer, to a sink of two partitions."""
    client.sinks.create("orders", partitions=2)
    with PublishCall(broker.endpoint, "orders", "writer") as one:
        yield one


@contextmanager
def streaming(broker: BrokerServer, *requests: pb.PublishRequest) -> Iterator[Any]:
    """A publish stream of hand-made messages."""
    sent: queue.SimpleQueue[pb.PublishRequest | None] = queue.SimpleQueue()
    for request in requests:
        sent.put(request)
    with grpc.insecure_channel(broker.endpoint) as channel:
        responses = BufferServiceStub(channel).Publish(iter(sent.get, None), timeout=20)
        yield responses
        sent.put(None)
        responses.cancel()


def refusal(responses: Any) -> HoldfastError:
    with pytest.raises(grpc.RpcError) as failure:
        for _ in responses:
            pass
    return from_call(failure.value)


# -- idempotence


def test_a_receipt_says_where_the_records_are_and_how_safe(call: PublishCall) -> None:
    receipt = call.publish(0, [b"a", b"b"], partition=1)

    assert (receipt.sink, receipt.partition, receipt.first_offset, receipt.last_offset) == ("orders", 1, 0, 1)
    assert (receipt.durability, receipt.duplicate) == (record_pb2.DURABILITY_DISK, False)


def test_a_page_sent_again_gets_its_first_receipt_also_after_a_restart() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        with PublishCall(server.endpoint, "orders", "w") as call:
            epoch = call.opened.writer_epoch
            receipts = [call.publish(sequence, [b"%d" % sequence]) for sequence in range(5)]
    with BrokerServer.in_memory(store.reopen()) as server, Client(server.endpoint) as client:
        with PublishCall(server.endpoint, "orders", "w", epoch=epoch) as call:
            expected = dict(call.opened.next_sequences)
            again = [call.publish(sequence, [b"%d" % sequence]) for sequence in range(5)]
            new = call.publish(5, [b"5"])
        stored = values_of(client, "orders")

    assert expected == {0: 5}
    assert [receipt.first_offset for receipt in again] == [receipt.first_offset for receipt in receipts]
    assert {receipt.duplicate for receipt in again} == {True}
    assert (new.first_offset, new.duplicate) == (5, False)
    assert stored == [b"%d" % number for number in range(6)]


def test_answers_come_in_the_order_of_the_pages(call: PublishCall) -> None:
    sent = [(number % 2, number // 2) for number in range(200)]
    for partition, sequence in sent:
        call.send(sequence, [b"x"], partition=partition)

    answers = [call.take().answer for _ in sent]

    assert [(answer.partition, answer.sequence) for answer in answers] == sent
    assert [answer.receipt.first_offset for answer in answers] == [sequence for _, sequence in sent]


def test_a_conflict_and_a_gap_are_refused_and_the_stream_goes_on(call: PublishCall) -> None:
    call.publish(0, [b"a"])

    with pytest.raises(SequenceConflict):
        call.publish(0, [b"b"])
    with pytest.raises(SequenceGap) as gap:
        call.publish(2, [b"c"])

    assert gap.value.facts["expected"] == "1"
    assert call.publish(1, [b"b"]).first_offset == 1


def test_a_refused_page_holds_back_its_partition_only(broker: BrokerServer, client: Client) -> None:
    client.sinks.create("small", partitions=2, max_disk_cache=2, overflow=Overflow.REJECT)
    with PublishCall(broker.endpoint, "small", "w") as call:
        call.publish(0, [b"a"], partition=0)
        with pytest.raises(SinkFull) as full:
            call.publish(1, [b"b", b"c"], partition=0)
        with pytest.raises(SequenceGap):
            call.publish(2, [b"d"], partition=0)

        assert call.publish(0, [b"e"], partition=1).first_offset == 0
        assert full.value.retry_after_s is not None


def test_a_new_epoch_ends_the_old_stream(broker: BrokerServer, call: PublishCall) -> None:
    call.publish(0, [b"a"])

    with PublishCall(broker.endpoint, "orders", "writer") as newer:
        with pytest.raises(WriterFenced):
            call.take()
        assert newer.opened.writer_epoch > call.opened.writer_epoch
        with pytest.raises(WriterFenced):
            PublishCall(broker.endpoint, "orders", "writer", epoch=call.opened.writer_epoch)


def test_a_writer_that_said_good_bye_is_forgotten(broker: BrokerServer, call: PublishCall) -> None:
    call.send(0, [b"a"])
    call.put(pb.PublishRequest(close=pb.PublishClose()))
    assert call.answer().first_offset == 0
    with pytest.raises(StopIteration):
        call.take()

    with pytest.raises(WriterFenced):
        PublishCall(broker.endpoint, "orders", "writer", epoch=call.opened.writer_epoch)


# -- wrong pages


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (page(body(b"a"), crc32=1), PageCorrupt),
        (page(body(b"a"), records=2), InvalidPage),
        (page(body(b"a", b"b"), records=1), InvalidPage),
        (page(body(b"a"), records=0), InvalidPage),
        (page(b"", records=0), InvalidPage),
        (page(b"", records=1), InvalidPage),
        (page(b"\xff\xfe garbage", records=1), InvalidPage),
        (page(b"\x00" * 10_000, records=1), InvalidPage),
        (page(body(b"a", key_lengths=[5], keys=b"k")), InvalidPage),
        (page(body(b"a", event_times_us=[1, 2])), InvalidPage),
        (page(body(*[b""] * 65_537), records=65_537), InvalidPage),
        (page(body(b"a"), encoding=7), InvalidPage),
        (page(body(b"a"), encoding=0), InvalidPage),
        (page(body(b"a"), traceparent="x" * 129), InvalidPage),
        (page(body(b"a"), traceparent="größe"), InvalidPage),
        (page(body(b"a"), partition=2), InvalidPartition),
        (page(body(b"a"), partition=2**32 - 1), InvalidPartition),
        (page(body(b"x" * MIB, b"x" * 100), records=2), RecordTooLarge),
        (page(body(b"x" * (8 * MIB + 100))), RecordTooLarge),
    ],
)
def test_a_wrong_page_is_refused_and_a_right_one_follows(
    call: PublishCall, request_: pb.PublishRequest, kind: type[HoldfastError]
) -> None:
    call.put(request_)
    with pytest.raises(kind):
        call.answer()

    assert call.publish(0, [b"right"], partition=1).first_offset == 0


def test_what_a_page_may_just_hold_is_taken(call: PublishCall) -> None:
    for number, (data, records) in enumerate(
        [
            (body(b"x" * (8 * MIB)), 1),
            (body(b"x" * (MIB // 2), b"x" * (MIB // 2)), 2),
            (body(*[b""] * 65_536), 65_536),
            (body(b""), 1),
        ]
    ):
        call.put(page(data, records=records, sequence=number))

    assert [call.answer().last_offset for _ in range(4)] == [0, 2, 65_538, 65_539]


# -- wrong streams


@pytest.mark.parametrize(
    "first",
    [
        pb.PublishRequest(),
        page(body(b"a")),
        pb.PublishRequest(close=pb.PublishClose()),
        pb.PublishRequest(open=pb.PublishOpen(sink="orders")),
        pb.PublishRequest(open=pb.PublishOpen(sink="orders", writer_id="a b")),
        pb.PublishRequest(open=pb.PublishOpen(sink="orders", writer_id="x" * 65)),
    ],
)
def test_a_stream_begins_with_a_good_open(broker: BrokerServer, client: Client, first: pb.PublishRequest) -> None:
    client.sinks.create("orders")

    with streaming(broker, first) as responses:
        assert isinstance(refusal(responses), InvalidOpen)


def test_a_stream_is_opened_once(broker: BrokerServer, client: Client) -> None:
    client.sinks.create("orders")
    opening = pb.PublishRequest(open=pb.PublishOpen(sink="orders", writer_id="w"))

    for second in (opening, pb.PublishRequest()):
        with streaming(broker, opening, second) as responses:
            assert isinstance(refusal(responses), InvalidOpen)


def test_a_sink_that_is_deleted_refuses_what_comes_later(client: Client, call: PublishCall) -> None:
    call.publish(0, [b"a"])
    client.sinks.delete("orders", force=True)

    with pytest.raises(SinkNotFound):
        call.publish(1, [b"b"])


# -- many records in a call


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
    ("request_", "kind"),
    [
        (pb.PublishBatchRequest(sink="orders"), InvalidPage),
        (pb.PublishBatchRequest(sink="orders", records=[record_pb2.Record()] * 65_537), InvalidPage),
        (pb.PublishBatchRequest(sink="orders", records=[record_pb2.Record()], partition=2), InvalidPartition),
        (pb.PublishBatchRequest(sink="orders", records=[{"value": b"x" * (8 * MIB)}]), RecordTooLarge),
        (
            pb.PublishBatchRequest(sink="orders", records=[{"event_time": Timestamp(seconds=1 << 60)}]),
            InvalidPage,
        ),
        (pb.PublishBatchRequest(sink="nothing", records=[record_pb2.Record()]), SinkNotFound),
    ],
)
def test_a_wrong_call_is_refused(
    broker: BrokerServer, client: Client, request_: pb.PublishBatchRequest, kind: type[HoldfastError]
) -> None:
    client.sinks.create("orders", partitions=2)
    with grpc.insecure_channel(broker.endpoint) as channel, pytest.raises(grpc.RpcError) as failure:
        BufferServiceStub(channel).PublishBatch(request_)

    assert isinstance(from_call(failure.value), kind)
