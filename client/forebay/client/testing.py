"""Broker for tests: in this process, on a free port, with the memory store.

    def test_it():
        with forebay.client.testing.broker() as broker, broker.client() as client:
            client.sinks.create("orders")

Needs the extra ``broker``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from forebay.client.client import Client
from forebay.client.settings import ClientSettings


class TestBroker:
    """Running broker of a test."""

    __test__ = False  # not a test, for pytest

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        """Endpoint ``HOST:PORT``, on the loopback interface."""

    def client(self, *, settings: ClientSettings | None = None) -> Client:
        """Return a new client; without ``settings`` it uses neither TLS nor the environment."""
        return Client(self.endpoint, settings=settings or ClientSettings())


@contextmanager
def broker(**settings: Any) -> Iterator[TestBroker]:
    """Run a broker until the block ends; ``settings`` are settings of the broker."""
    # Imported here, because the client does not depend on the broker.
    from forebay.broker.embedded import BrokerServer

    with BrokerServer.in_memory(**settings) as server:
        yield TestBroker(server.endpoint)
