"""Subscription of a consumer, against a whole broker in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import Client, Record
from forebay.client.errors import SubscriptionNotFound, SubscriptionReplaced
from forebay.client.positions.subscription import ReadSubscription
from forebay.client.transport.channel import Channels


@pytest.fixture
def client() -> Iterator[Client]:
    """Client of a sink with four records."""
    with BrokerServer.in_memory() as broker, Client(broker.endpoint) as one:
        one.sinks.create("orders")
        one.publish("orders", [Record(b"x")] * 4)
        yield one


def opened(client: Client, name: str = "default") -> ReadSubscription:
    channels = Channels(client.endpoints, client.settings)
    return ReadSubscription.open(channels, "orders", name, client.sinks.stats("orders").incarnation)


def test_a_subscription_begins_at_its_lowest_unsettled_record_in_each_partition(client: Client) -> None:
    one = opened(client)
    one.settle(0, 3)

    found = client.sinks.stats("orders")
    assert (one.start(found, 0), one.start(found, 7)) == (3, None)


def test_settling_twice_or_below_has_no_effect(client: Client) -> None:
    one = opened(client)
    for offset in (3, 3, 1):
        one.settle(0, offset)

    assert client.sinks.stats("orders").pending() == 1


def test_a_subscription_that_is_missing_is_an_error(client: Client) -> None:
    with pytest.raises(SubscriptionNotFound, match="no subscription 'audit'"):
        opened(client, "audit")


def test_a_subscription_that_was_deleted_and_recreated_is_not_settled(client: Client) -> None:
    client.subscriptions.create("orders", "audit")
    one = opened(client, "audit")
    client.subscriptions.delete("orders", "audit")
    client.subscriptions.create("orders", "audit")

    with pytest.raises(SubscriptionReplaced):
        one.settle(0, 4)
    assert client.sinks.stats("orders").pending("audit") == 4
