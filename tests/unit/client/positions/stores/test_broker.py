"""Positions in the broker of the sink."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import Client, ClientSettings
from forebay.client.admin.positions import Positions
from forebay.client.errors import PositionStoreUnavailable
from forebay.client.positions.stores.broker import BrokerPositions
from forebay.client.transport.channel import Channels
from tests.support.positions.conformance import KEY, Opened, PositionStoreConformance


@pytest.fixture
def broker() -> Iterator[BrokerServer]:
    with BrokerServer.in_memory() as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        yield server


def store_of(endpoint: str, rw_timeout_s: float = 10.0) -> BrokerPositions:
    return BrokerPositions(Positions(Channels(endpoint, ClientSettings()), timeout_s=rw_timeout_s))


class TestBrokerPositions(PositionStoreConformance):
    @pytest.fixture
    def opened(self, broker: BrokerServer) -> Opened:
        return lambda: store_of(broker.endpoint)


def test_a_broker_that_is_unreachable_makes_the_store_unavailable() -> None:
    with pytest.raises(PositionStoreUnavailable):
        store_of("127.0.0.1:1", 0.5).read(KEY)
