"""Peeking at records in a human-readable form."""

from __future__ import annotations

import grpc
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.storage.records.pages.page import SMALL_PAGE
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import Client, Record
from forebay.client.errors import OutOfRange
from forebay.errors.reasons import Reason
from forebay.v1.buffer_service_pb2 import PublishBatchRequest
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub
from tests.support.refusals import failure


def test_a_look_shows_records_as_they_read_best_and_changes_nothing(client: Client) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b'{"a": 1}', key=b"k"), Record(b"text", headers={"h": b"v"}), Record(b"\xff")])

    shown = client.peek("orders")

    assert [(one.offset, one.format, one.value) for one in shown] == [
        (0, "json", '{"a": 1}'),
        (1, "text", "text"),
        (2, "base64", "/w=="),
    ]
    assert (shown[0].key, dict(shown[1].headers)) == ("k", {"h": "v"})
    assert client.sinks.stats("orders").subscriptions[0].partitions[0].pending == 3


def test_a_peek_begins_at_the_first_unsettled_record_or_at_its_offset(client: Client) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b"%d" % number) for number in range(20)])
    client.ack("orders", client.pull("orders", max_records=4))

    assert [one.offset for one in client.peek("orders")] == list(range(4, 14))
    assert [one.offset for one in client.peek("orders", offset=17)] == [17, 18, 19]
    assert [one.offset for one in client.peek("orders", max_records=2)] == [4, 5]


def test_the_end_shows_nothing_and_beyond_it_is_an_error(client: Client) -> None:
    client.sinks.create("orders")
    empty = client.peek("orders")
    client.publish("orders", [Record(b"x")])

    assert (empty, client.peek("orders", offset=1)) == ([], [])
    with pytest.raises(OutOfRange) as refused:
        client.peek("orders", offset=2)
    assert (refused.value.requested, refused.value.next_offset) == (2, 1)
    with failure(Reason.INVALID_PARTITION):
        client.peek("orders", partition=1)


def test_a_look_over_all_partitions_begins_at_the_first_unsettled_record_of_each(client: Client) -> None:
    client.sinks.create("orders", partitions=4)
    for partition, records in ((0, 1), (2, 9), (3, 9)):
        client.publish("orders", [Record(b"%d" % number) for number in range(records)], partition=partition)
    client.ack("orders", client.pull("orders", max_records=1))  # the only record of partition 0

    def shown(count: int) -> list[tuple[int, int]]:
        found = client.peek("orders", partition=None, max_records=count)
        return [(one.partition, one.offset) for one in found]

    assert shown(6) == [(2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2)]
    assert shown(1) == [(2, 0)]
    assert shown(100) == [(partition, offset) for partition in (2, 3) for offset in range(9)]
    with failure(Reason.INVALID_RANGE):
        client.peek("orders", partition=None, offset=3)


def test_a_record_that_is_typed_as_text_reads_as_it_was_typed(client: Client, broker: BrokerServer) -> None:
    client.sinks.create("orders")
    typed = {"text": "12 °C", "key_text": "Köln", "headers": [{"key": "unit", "text": "°C"}]}
    with grpc.insecure_channel(broker.endpoint) as channel:
        BufferServiceStub(channel).PublishBatch(PublishBatchRequest(sink="orders", records=[typed]), timeout=10)

    [shown] = client.peek("orders")

    assert (shown.value, shown.key, dict(shown.headers)) == ("12 °C", "Köln", {"unit": "°C"})


def test_values_that_only_look_like_json_are_shown(client: Client) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b"[" * 200_000), Record(b"9" * 20_000)])

    assert [(one.value_bytes, len(one.value)) for one in client.peek("orders")] == [(200_000, 4_096), (20_000, 4_096)]


def test_large_keys_and_values_fit_into_the_answer(client: Client) -> None:
    client.sinks.create("orders")
    large = Record("\N{GRINNING FACE}".encode() * 5_000, key="\N{GRINNING FACE}".encode() * 5_000)
    for _ in range(10):
        client.publish("orders", [large] * 100)

    shown = client.peek("orders", max_records=1_000)

    assert [one.offset for one in shown] == list(range(len(shown)))
    assert len(shown) > 100


def test_a_damaged_page_is_passed_by() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store, tail_bytes=0) as server, Client(server.endpoint) as client:
        client.sinks.create("orders", buffer_page_size=1)
        for number in range(3):
            client.publish("orders", [Record(b"%d" % number)])
        first, _, _ = [key for key, _ in store.scan(Family.SMALL, *SMALL_PAGE.under(1), 10)]
        store.damage(Family.SMALL, first)

        assert [one.value for one in client.peek("orders")] == ["1", "2"]
