"""Strangers: connections that say nothing, or too many of them, against a broker that others work with."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from forebay.broker.core.resources.connections import Use
from forebay.broker.embedded import BrokerServer
from forebay.client import Client, Record
from tests.support.calls.raw_calls import headers_without_end

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
WAIT_S = 15.0


def connect(server: BrokerServer, stack: ExitStack, *, say: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
    """Return a new connection that says ``say`` and no more."""
    host, _, port = server.endpoint.rpartition(":")
    stranger = stack.enter_context(socket.socket())
    stranger.settimeout(WAIT_S)
    stranger.bind((source, 0))
    stranger.connect((host, int(port)))
    stranger.sendall(say)
    return stranger


def is_closed(stranger: socket.socket) -> bool:
    """Return True if the broker has closed it, without waiting."""
    stranger.setblocking(False)
    try:
        while stranger.recv(4_096):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


def eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.05)
    return False


@contextmanager
def serving(**settings: Any) -> Iterator[tuple[BrokerServer, Client, ExitStack]]:
    with (
        BrokerServer.in_memory(**settings) as server,
        Client(server.endpoint) as client,
        ExitStack() as stack,
    ):
        client.sinks.create("orders")
        yield server, client, stack


def opened(server: BrokerServer) -> int:
    assert server.serving is not None
    return sum(server.serving.connections.counts.values())


@pytest.mark.parametrize("say", [b"", PREFACE], ids=["silent", "preface"])
def test_strangers_of_one_host_are_closed_beyond_its_bound_and_others_continue(say: bytes) -> None:
    with serving(connections_max=64, connections_per_peer_max=16) as (server, client, stack):
        strangers = [connect(server, stack, say=say, source="127.0.0.9") for _ in range(48)]

        assert eventually(lambda: sum(not is_closed(stranger) for stranger in strangers) <= 16)
        client.publish("orders", [Record(b"still served")])
        with Client(server.endpoint) as newcomer:
            assert [sink.name for sink in newcomer.sinks.list()] == ["orders"]


def test_a_client_beside_strangers_of_its_own_host_is_not_closed() -> None:
    with (
        serving(connections_max=64, connections_per_peer_max=8) as (server, client, stack),
        client.publisher("orders", linger_ms=0) as publisher,
    ):
        publisher.send(b"before").result(10)
        strangers = [connect(server, stack) for _ in range(24)]
        assert eventually(lambda: sum(not is_closed(stranger) for stranger in strangers) <= 7)
        publisher.send(b"after").result(10)


def test_a_connection_that_never_speaks_is_closed_after_the_time_for_the_handshake() -> None:
    with serving(handshake_timeout_s=1.0) as (server, _, stack):
        stranger = connect(server, stack)

        assert eventually(lambda: is_closed(stranger))


def test_descriptors_are_released_when_strangers_leave() -> None:
    with serving() as (server, _, _stack):
        with ExitStack() as strangers:
            for _ in range(32):
                connect(server, strangers, say=PREFACE)
            assert eventually(lambda: opened(server) >= 32)

        assert eventually(lambda: opened(server) <= 1)


def test_at_the_bound_newcomers_are_refused_by_grpc_and_callers_stay() -> None:
    with serving(connections_max=16, connections_per_peer_max=16) as (server, client, stack):
        strangers = [connect(server, stack, say=PREFACE) for _ in range(40)]

        assert eventually(lambda: sum(is_closed(stranger) for stranger in strangers) >= 25)
        client.publish("orders", [Record(b"still served")])
        assert server.serving is not None
        assert server.serving.connections.counts[Use.STRANGER] <= 16


def test_headers_that_never_end_close_their_connection() -> None:
    most = 1 << 30
    with serving(unread_bytes_max=64 << 20) as (server, client, _stack):
        taken = headers_without_end(server.endpoint, most)

        assert taken < most
        client.publish("orders", [Record(b"still served")])
