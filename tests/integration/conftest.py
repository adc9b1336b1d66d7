"""Brokers in this process, over real gRPC."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import Client


@pytest.fixture
def broker() -> Iterator[BrokerServer]:
    """A broker in this process."""
    with BrokerServer.in_memory() as server:
        yield server


@pytest.fixture
def client(broker: BrokerServer) -> Iterator[Client]:
    """A client of ``broker``."""
    with Client(broker.endpoint) as one:
        yield one
