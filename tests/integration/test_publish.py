"""Publishing page by page over gRPC: idempotence, order, epochs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import Client, Overflow, SinkFull, WriterFenced
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2
from tests.support.calls.eventually import values_of
from tests.support.calls.streams import PublishCall
from tests.support.refusals import failure

MIB = 1 << 20


@pytest.fixture
def call(broker: BrokerServer, client: Client) -> Iterator[PublishCall]:
    """A publish stream of a writer, to a sink of two partitions."""
    client.sinks.create("orders", partitions=2)
    with PublishCall(broker.endpoint, "orders", "writer") as one:
        yield one


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


def test_a_conflict_and_a_gap_are_refused_and_the_stream_continues(call: PublishCall) -> None:
    call.publish(0, [b"a"])

    with failure(Reason.SEQUENCE_CONFLICT):
        call.publish(0, [b"b"])
    with failure(Reason.SEQUENCE_GAP) as gap:
        call.publish(2, [b"c"])

    assert gap.value.facts["expected"] == "1"
    assert call.publish(1, [b"b"]).first_offset == 1


def test_a_refused_page_holds_back_its_partition_only(broker: BrokerServer, client: Client) -> None:
    client.sinks.create("small", partitions=2, max_disk_cache=2, overflow=Overflow.REJECT)
    with PublishCall(broker.endpoint, "small", "w") as call:
        call.publish(0, [b"a"], partition=0)
        with pytest.raises(SinkFull) as full:
            call.publish(1, [b"b", b"c"], partition=0)
        with failure(Reason.SEQUENCE_GAP):
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
