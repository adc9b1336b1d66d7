"""The driver sees what the broker holds, and times as offsets."""

from __future__ import annotations

from datetime import timedelta

from forebay.client import Record, ReplayedRecord
from forebay.client.testing import TestBroker
from forebay.spark.options.read import read_options
from forebay.spark.read.ranges import StoredRange
from forebay.spark.read.sink_view import resolved, view


def test_a_view_names_ends_sizes_and_watermarks(broker: TestBroker) -> None:
    with broker.client() as client:
        client.sinks.create("orders", partitions=2, buffer_page_size=1)
        client.publish("orders", [Record(b"x") for _ in range(3)], partition=1)
        client.ack("orders", client.pull("orders", max_records=1))

        found = view(client, "orders")

        stats = client.sinks.stats("orders")
    assert found.incarnation == stats.incarnation
    assert found.ends() == {0: 0, 1: 3}
    assert found.stored[0] == StoredRange(0, 0, 0)
    assert found.stored[1].record_bytes == stats.partitions[1].bytes / stats.partitions[1].records
    assert found.watermarks == {"default": {0: 0, 1: 1}}


def test_times_become_offsets_of_every_partition(broker: TestBroker) -> None:
    with broker.client() as client:
        client.sinks.create("orders", partitions=2, buffer_page_size=1)
        for number in range(3):
            client.publish("orders", [Record(b"%d" % number)], partition=1)
        times = [one.accepted_at for one in client.replay("orders", partition=1) if isinstance(one, ReplayedRecord)]
        given = {
            "sink": "orders",
            "startingTimestamp": times[2].isoformat(),
            "endingTimestamp": (times[2] + timedelta(days=1)).isoformat(),
        }

        options = resolved(client, read_options(given, {}), view(client, "orders"))

    assert options.starting.by_partition == {0: 0, 1: times.index(times[2])}
    assert options.ending.by_partition == {0: 0, 1: 3}
