"""Every limit of a broker, reached over gRPC: the error that reports it, and how the broker continues."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.server import MESSAGE_BYTES_MAX
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import (
    Client,
    ClientSettings,
    DropReason,
    Overflow,
    Record,
    RecordTooLarge,
    SinkFull,
)
from forebay.client.publish.pages import encode_columns
from forebay.client.values.sink_settings import SinkOptions
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub
from tests.support.brokers.held_store import HeldStore
from tests.support.calls.eventually import stats_when, values_of
from tests.support.calls.streams import DeliverCall, PublishCall
from tests.support.refusals import failure

MIB = 1 << 20


def page_bytes(value_bytes: int) -> int:
    """Bytes of a page with one record."""
    return len(encode_columns([b"x" * value_bytes]).body)


@contextmanager
def serving(store: MemoryStore | None = None, **settings: Any) -> Iterator[tuple[BrokerServer, Client]]:
    with BrokerServer.in_memory(store, **settings) as server, Client(server.endpoint) as client:
        yield server, client


def test_there_are_so_many_sinks_and_no_more() -> None:
    with serving(sinks_max=2) as (_, client):
        client.sinks.create("a")
        client.sinks.create("b")

        with failure(Reason.TOO_MANY_SINKS) as refused:
            client.sinks.create("c")
        client.sinks.create("b", exist_ok=True)
        client.sinks.delete("a")
        client.sinks.create("c")

        assert refused.value.facts == {"what": "sinks", "bound": "2"}


def test_there_are_so_many_partitions_over_all_sinks() -> None:
    with serving(partitions_max=4) as (_, client):
        client.sinks.create("a", partitions=3)

        with failure(Reason.TOO_MANY_SINKS) as refused:
            client.sinks.create("b", partitions=2)
        client.sinks.create("b", partitions=1)

        assert refused.value.facts == {"what": "partitions", "bound": "4"}


def test_there_are_so_many_streams_of_all_kinds_and_an_ended_one_makes_room() -> None:
    impatient = ClientSettings(reattach_timeout_s=0.0)
    with serving(streams_max=2) as (server, _), Client(server.endpoint, settings=impatient) as client:
        client.sinks.create("orders")
        with PublishCall(server.endpoint, "orders", "w") as publish, DeliverCall(server.endpoint, "orders"):
            with failure(Reason.TOO_MANY_STREAMS) as refused:
                PublishCall(server.endpoint, "orders", "w2")
            with failure(Reason.TOO_MANY_STREAMS):
                DeliverCall(server.endpoint, "orders", consumer_id="b")
            with failure(Reason.TOO_MANY_STREAMS):
                list(client.replay("orders", partition=0))
            with failure(Reason.TOO_MANY_STREAMS):
                next(client.sinks.watch("orders"))
            publish.half_close()
            with pytest.raises(StopIteration):
                publish.take()
            makes_room = list(client.replay("orders", partition=0))

    assert makes_room == []
    assert (refused.value.facts, refused.value.retry_after_s) == ({"bound": "2"}, 1.0)


def test_bytes_that_wait_for_their_sync_are_bounded_over_all_sinks() -> None:
    store = HeldStore()
    with serving(store, waiting_bytes_max=MIB) as (server, client):
        client.sinks.create("a")
        client.sinks.create("b")
        with PublishCall(server.endpoint, "a", "w") as first, PublishCall(server.endpoint, "b", "w") as second:
            store.hold()
            first.send(0, [b"x" * (MIB - 1_000)])
            store.wait_reached()
            with failure(Reason.TOO_MANY_WAITING) as refused:
                second.publish(0, [b"x" * 1_000])
            second.send(0, [b"x"])
            store.let_go()

            assert first.answer().first_offset == 0
            assert second.answer().first_offset == 0
            assert refused.value.retry_after_s is not None
            assert refused.value.facts["bound"] == str(MIB)


def test_a_full_disk_refuses_appends_and_takes_them_again_by_itself() -> None:
    store = MemoryStore()
    with serving(store, disk_reserve_bytes=10_000) as (server, client):
        client.sinks.create("orders")
        client.publish("orders", [Record(b"x")] * 3)
        store.room = 10_010
        client.publish("orders", [Record(b"")])  # its batch sees how little is left

        with failure(Reason.DISK_FULL) as refused, PublishCall(server.endpoint, "orders", "w") as call:
            call.publish(0, [b"x" * 100])
        settled = client.ack("orders", client.pull("orders"))
        store.room = 1 << 40
        client.sinks.pause("orders")  # any batch checks the disk space again

        assert refused.value.facts == {"free": "10010", "reserve": "10000"}
        assert settled
        client.publish("orders", [Record(b"x" * 100)])


def test_a_full_sink_rejects_to_the_record_and_to_the_byte(broker: BrokerServer, client: Client) -> None:
    client.sinks.create("records", max_disk_cache=10)
    client.sinks.create("bytes", max_total_bytes=2_000)
    with PublishCall(broker.endpoint, "records", "w") as call:
        call.publish(0, [b"x"] * 9)
        with pytest.raises(SinkFull) as by_count:
            call.publish(1, [b"x"] * 2)
        call.publish(1, [b"x"])
    with PublishCall(broker.endpoint, "bytes", "w") as call:
        call.publish(0, [b"x" * 1_500])
        used = page_bytes(1_500)
        left = 2_000 - used - (page_bytes(400) - 400)
        with pytest.raises(SinkFull) as by_size:
            call.publish(1, [b"x" * (left + 1)])
        call.publish(1, [b"x" * left])

    assert by_count.value.facts == {"sink": "records", "limit": "max_disk_cache", "bound": "10", "used": "9"}
    assert by_size.value.facts == {"sink": "bytes", "limit": "max_total_bytes", "bound": "2000", "used": str(used)}
    assert client.sinks.stats("records").partitions[0].records == 10
    assert client.sinks.stats("bytes").partitions[0].bytes == 2_000


def test_a_publisher_waits_for_room_that_an_ack_makes(client: Client) -> None:
    client.sinks.create("orders", max_disk_cache=2)
    with client.publisher("orders", linger_ms=0) as publisher:
        publisher.send_many([b"a", b"b"]).result(20)
        waiting = publisher.send(b"c")
        client.ack("orders", client.pull("orders"))

        assert waiting.result(20).first_offset == 2


def test_a_sink_that_drops_keeps_the_newest_to_the_record_and_to_the_byte(client: Client) -> None:
    limits: dict[str, SinkOptions] = {
        "records": {"max_disk_cache": 100},
        "bytes": {"max_total_bytes": 100 * page_bytes(10)},
    }
    for name, limit in limits.items():
        client.sinks.create(name, overflow=Overflow.DROP_OLDEST, buffer_page_size=1)
        client.sinks.update(name, **limit)
        for number in range(130):
            client.publish(name, [Record(b"%010d" % number)])

        stats = client.sinks.stats(name)
        [partition] = stats.partitions
        kept = [step for step in client.replay(name, partition=0, on_gap="yield", start=0) if hasattr(step, "value")]

        assert stats.identity_ok
        assert (partition.records, partition.bytes) == (100, 100 * page_bytes(10))
        assert partition.dropped == {DropReason.OVERFLOW: 30}
        assert [record.value for record in kept] == [b"%010d" % number for number in range(30, 130)]


def test_a_smaller_bound_is_reached_by_the_next_append(client: Client) -> None:
    client.sinks.create("orders", overflow=Overflow.DROP_OLDEST, buffer_page_size=1)
    for _ in range(20):
        client.publish("orders", [Record(b"x")])

    client.sinks.update("orders", max_disk_cache=5)
    before = client.sinks.stats("orders").partitions[0].records
    client.publish("orders", [Record(b"x")])

    assert (before, client.sinks.stats("orders").partitions[0].records) == (20, 5)


def test_a_record_is_as_large_as_the_broker_says_and_no_larger() -> None:
    with serving(record_bytes_max=100_000) as (server, client):
        client.sinks.create("orders")
        with PublishCall(server.endpoint, "orders", "w") as call:
            allowed = call.opened.record_bytes_max
            call.publish(0, [b"x" * allowed])
            with pytest.raises(RecordTooLarge) as refused:
                call.publish(1, [b"x" * (allowed + 100)])

        assert allowed == client.info().record_bytes_max == 100_000
        assert refused.value.retry_after_s is None
        assert values_of(client, "orders") == [b"x" * allowed]


def test_a_message_over_the_bound_of_the_connection_ends_its_call_only(broker: BrokerServer, client: Client) -> None:
    client.sinks.create("orders")
    request = pb.PublishBatchRequest(sink="orders", records=[{"value": b"x" * (4 * MIB)}] * 9)
    with grpc.insecure_channel(broker.endpoint, options=[("grpc.max_send_message_length", 64 * MIB)]) as channel:
        assert request.ByteSize() > MESSAGE_BYTES_MAX
        with pytest.raises(grpc.RpcError) as failure:
            BufferServiceStub(channel).PublishBatch(request)

        assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        request.records.pop()
        request.records.pop()
        assert len(BufferServiceStub(channel).PublishBatch(request).receipts) == 7


def test_a_bound_that_is_no_bound_is_refused_at_once(client: Client) -> None:
    client.sinks.create("orders")

    with failure(Reason.INVALID_SETTING):
        client.sinks.update("orders", in_flight_bytes_max=1)
    stats_when(client, "orders", lambda stats: stats.identity_ok)
