"""Proxy of the tests that loses answers: what arrives has no gap, as over any network."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from tests.support.proxies.tcp import TcpProxy

NUMBER = struct.Struct(">I")
ROUNDS = 20
SILENT_S = 0.02
ALL = 1 << 30


class Counter:
    """A server that sends each client the numbers from 0 on, without an end."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._count, args=(self._listener.accept()[0],), daemon=True).start()

    def _count(self, client: socket.socket) -> None:
        with closing(client), suppress(OSError):
            for first in range(0, 1 << 32, 1_000):
                client.sendall(b"".join(map(NUMBER.pack, range(first, first + 1_000))))

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def counter() -> Iterator[Counter]:
    with closing(Counter()) as one:
        yield one


def received(client: socket.socket, least: int) -> bytes:
    """At least so many bytes, fewer at the end of the connection, or once nothing comes any more."""
    found = b""
    with suppress(ConnectionError, TimeoutError):
        while len(found) < least and (chunk := client.recv(1 << 16)):
            found += chunk
    return found


def test_a_connection_passes_nothing_after_an_answer_that_it_has_lost(counter: Counter) -> None:
    with TcpProxy(counter.endpoint) as proxy:
        host, _, port = proxy.endpoint.rpartition(":")
        for _ in range(ROUNDS):
            with socket.create_connection((host, int(port)), timeout=SILENT_S) as client:
                found = received(client, 4_000)
                proxy.lose_answers()
                found += received(client, ALL)
                proxy.reset()
                found += received(client, ALL)
            count = len(found) // NUMBER.size
            assert [one for (one,) in NUMBER.iter_unpack(found[: count * NUMBER.size])] == list(range(count))
