"""Pausing, observing and deleting sinks over gRPC."""

from __future__ import annotations

import pytest

from forebay.client import Client, DeliveryState, InvalidArgument, Record, SinkNotFound
from forebay.errors.reasons import Reason
from tests.support.calls.eventually import stats_when
from tests.support.refusals import failure

# -- deleting


def test_a_sink_with_unsettled_records_is_deleted_by_force_only(client: Client) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b"x")] * 3)

    with failure(Reason.SINK_NOT_EMPTY) as refused:
        client.sinks.delete("orders")
    client.sinks.delete("orders", force=True)

    assert refused.value.facts == {"sink": "orders", "pending": "3"}
    assert client.sinks.list() == []


# -- pausing and observing


def test_a_paused_sink_takes_records_and_delivers_none_until_it_is_resumed(client: Client) -> None:
    client.sinks.create("orders")
    client.sinks.pause("orders", "x" * 2_000)
    client.publish("orders", [Record(b"x")])
    paused = client.sinks.stats("orders").subscriptions[0].partitions[0]
    held_back = client.pull("orders")

    client.sinks.resume("orders")

    assert (paused.state, paused.reason, held_back) == (DeliveryState.PAUSED, "x" * 1_024, [])
    assert [record.value for record in client.pull("orders")] == [b"x"]


def test_stats_tell_what_is_stored_and_what_is_left_to_do(client: Client) -> None:
    client.sinks.create("orders", partitions=2)
    client.publish("orders", [Record(b"x")] * 5, partition=1)
    client.ack("orders", client.pull("orders", max_records=2))

    stats = client.sinks.stats("orders")

    empty, full = stats.subscriptions[0].partitions
    assert stats.identity_ok
    assert [(one.next_offset, one.records) for one in stats.partitions] == [(0, 0), (5, 5)]
    assert (empty.pending, full.pending, full.acked, full.watermark) == (0, 3, 2, 2)


def test_a_watch_sends_at_once_and_again_and_ends_with_its_sink(client: Client) -> None:
    client.sinks.create("orders")
    watch = client.sinks.watch("orders", interval_s=0.1)
    first = next(watch)
    client.publish("orders", [Record(b"x")])
    stats_when(client, "orders", lambda stats: stats.partitions[0].records == 1)

    client.sinks.delete("orders", force=True)

    assert first.partitions[0].records == 0
    with pytest.raises(SinkNotFound):
        list(watch)


@pytest.mark.parametrize("interval_s", [0.09, 3_601.0, -1.0])
def test_a_watch_is_neither_too_quick_nor_too_slow(client: Client, interval_s: float) -> None:
    client.sinks.create("orders")

    with pytest.raises(InvalidArgument):
        next(client.sinks.watch("orders", interval_s=interval_s))
