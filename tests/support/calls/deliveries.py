"""Short words for tests of deliveries."""

from __future__ import annotations

from typing import Any

from forebay.client import Client, Record
from forebay.v1 import record_pb2
from tests.support.calls.eventually import stats_when
from tests.support.calls.streams import DeliverCall, offsets


def fill(client: Client, pages: int, *, records: int = 1, partition: int = 0, size: int = 1, **settings: Any) -> None:
    """Publish pages into `orders`, which joins none."""
    client.sinks.create("orders", exist_ok=True, buffer_page_size=1, **settings)
    for _ in range(pages):
        client.publish("orders", [Record(b"x" * size)] * records, partition=partition)


def assignment(call: DeliverCall) -> list[int]:
    """The partitions of the next assignment."""
    return [one.partition for one in call.next("assignment").assignment.partitions]


def sent(call: DeliverCall, records: int) -> list[int]:
    """The next offsets, at least so many."""
    return [offset for one in call.delivered(records) for offset in offsets(one)]


def nothing_more(client: Client, in_flight: int) -> None:
    """The broker has sent all that it may."""
    stats_when(client, "orders", lambda stats: stats.subscriptions[0].partitions[0].in_flight == in_flight)


def ranged(first: int, last: int) -> list[record_pb2.OffsetRange]:
    """A range, both ends included."""
    return [record_pb2.OffsetRange(first_offset=first, last_offset=last)]
