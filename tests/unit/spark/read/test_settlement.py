"""A subscription begins at the requested start, and follows what was committed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from forebay.client import Client, Record
from forebay.client.testing import TestBroker
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.read import read_options
from forebay.spark.read.offsets import StreamOffset
from forebay.spark.read.settlement import Settlement
from forebay.spark.read.sink_view import view


def settling(**options: str) -> Settlement:
    return Settlement(read_options({"sink": "orders", **options}, {}, is_stream=True), "spark")


@pytest.fixture
def client(broker: TestBroker) -> Iterator[Client]:
    """A client of a broker with the sink ``orders`` of two partitions and four records in the first."""
    with broker.client() as client:
        client.sinks.create("orders", partitions=2, buffer_page_size=1)
        client.publish("orders", [Record(b"x") for _ in range(4)], partition=0)
        yield client


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {0: 0, 1: 0}),
        ({"startingOffsets": "latest"}, {0: 4, 1: 0}),
        ({"startingOffsets": '{"0": 3}'}, {0: 3, 1: 0}),
        ({"startingOffsets": '{"0": "latest"}'}, {0: 4, 1: 0}),
        ({"startingTimestamp": "2001-01-01"}, {0: 0, 1: 0}),
    ],
)
def test_a_new_subscription_begins_at_the_start_of_the_query(
    client: Client, options: dict[str, str], expected: dict[int, int]
) -> None:
    assert settling(**options).begin(client, view(client, "orders")) == expected


def test_a_time_is_the_start_of_the_subscription_itself(client: Client) -> None:
    settling(startingTimestamp="2001-01-01").begin(client, view(client, "orders"))

    [made] = [one for one in client.subscriptions.list("orders") if one.name == "spark"]
    assert made.start == datetime(2001, 1, 1, tzinfo=UTC)


def test_a_start_that_the_sink_does_not_have_makes_no_subscription(client: Client) -> None:
    with pytest.raises(ForebaySparkError, match="ends before offset 4"):
        settling(startingOffsets='{"0": 9}').begin(client, view(client, "orders"))

    assert [one.name for one in client.subscriptions.list("orders")] == ["default"]


def test_the_initial_offset_of_a_query_settles_nothing(client: Client) -> None:
    follower = settling(startingOffsets="latest")
    found = view(client, "orders")
    start = follower.begin(client, found)
    client.subscriptions.seek("orders", "spark", to="earliest")

    follower.settle(client, StreamOffset(found.incarnation, start, initial=True))

    assert client.sinks.stats("orders").pending("spark") == 4


def test_a_subscription_that_was_deleted_is_made_where_the_query_stands(client: Client) -> None:
    follower = settling()
    found = view(client, "orders")
    follower.begin(client, found)
    client.subscriptions.delete("orders", "spark")

    follower.settle(client, StreamOffset(found.incarnation, {0: 3, 1: 0}))

    assert client.sinks.stats("orders").pending("spark") == 1
