"""The first page of a new writer is refused, the second arrives when there is room again."""

from __future__ import annotations

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import Client, SinkFull
from forebay.errors.reasons import Reason
from tests.support.calls.eventually import stats_when
from tests.support.calls.streams import PublishCall
from tests.support.refusals import failure


def test_the_second_page_of_a_new_writer_is_refused_as_long_as_the_first_is_missing(
    broker: BrokerServer, client: Client
) -> None:
    """The first is refused (full), the second arrives with room again: refused too, then both are there once."""
    client.sinks.create("orders", max_disk_cache=10)
    with client.publisher("orders") as other:
        other.send_many([b"old"] * 10)

    with PublishCall(broker.endpoint, "orders", "new-writer") as call:
        with pytest.raises(SinkFull) as full:
            call.publish(0, [b"first"])
        client.ack("orders", client.pull("orders"))
        stats_when(client, "orders", lambda stats: stats.records == 0)
        with failure(Reason.SEQUENCE_GAP):
            call.publish(1, [b"second"])
        first = call.publish(0, [b"first"])
        second = call.publish(1, [b"second"])
        again = call.publish(1, [b"second"])

    assert full.value.retry_after_s is not None
    assert (first.first_offset, first.duplicate) == (10, False)
    assert (second.first_offset, second.duplicate) == (11, False)
    assert (again.first_offset, again.duplicate) == (11, True)
    stored = [record.value for record in client.replay("orders", partition=0, start=10) if hasattr(record, "value")]
    assert stored == [b"first", b"second"]


def test_a_publisher_waits_for_room_and_its_pages_are_there_once_in_order(client: Client) -> None:
    """The same with the client: it begins on a full sink, and everything arrives when an ack makes room."""
    client.sinks.create("orders", max_disk_cache=10)
    with client.publisher("orders") as other:
        other.send_many([b"old"] * 10)

    with client.publisher("orders", linger_ms=0, page_records=1) as publisher:
        sent = [publisher.send(b"%d" % number) for number in range(10)]
        client.ack("orders", client.pull("orders"))
        receipts = [future.result(20) for future in sent]

    assert [receipt.first_offset for receipt in receipts] == list(range(10, 20))
    stored = [record.value for record in client.replay("orders", partition=0, start=10) if hasattr(record, "value")]
    assert stored == [b"%d" % number for number in range(10)]
