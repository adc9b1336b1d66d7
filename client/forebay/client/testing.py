"""A broker for tests: in this process, on a free port, over the memory store.

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
    """A running broker."""

    __test__ = False  # not a test, for pytest

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        """``HOST:PORT``, on the loopback interface."""

    def client(self, *, settings: ClientSettings | None = None) -> Client:
        """Return a new client of it; without ``settings`` one that speaks plainly, whatever the environment says."""
        return Client(self.endpoint, settings=settings or ClientSettings())


@contextmanager
def broker(**settings: Any) -> Iterator[TestBroker]:
    """Run a broker until the block ends; ``settings`` are the broker's own."""
    # The client never needs the broker; only who asks for one here does.
    from forebay.broker.server import BrokerServer

    with BrokerServer.in_memory(**settings) as server:
        yield TestBroker(server.endpoint)
