"""Accepted sockets of a port are found among the descriptors of the process, and nothing else is."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from forebay.broker.core.resources.unread import Traffic
from forebay.broker.runtime.resources.sockets import Sockets, plain_host


class Listener:
    """A listening socket and the connections that it accepted."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port: int = self._listening.getsockname()[1]

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """Return both ends of a new connection, the accepted one first."""
        theirs = self._stack.enter_context(socket.create_connection(("127.0.0.1", self.port), timeout=5))
        ours, _ = self._listening.accept()
        return self._stack.enter_context(ours), theirs


@pytest.fixture
def listener() -> Iterator[Listener]:
    with ExitStack() as stack:
        yield Listener(stack)


def test_accepted_connections_are_found_and_the_ends_of_clients_and_listeners_are_not(listener: Listener) -> None:
    ours, theirs = listener.connect()

    found = Sockets(listener.port).scan()

    assert [(each.descriptor, each.host, each.port) for each in found] == [
        (ours.fileno(), "127.0.0.1", theirs.getsockname()[1])
    ]


def test_connections_of_another_port_are_not_found(listener: Listener) -> None:
    listener.connect()
    with ExitStack() as stack:
        assert Sockets(Listener(stack).port).scan() == []


def test_a_connection_that_is_gone_is_not_found_any_more(listener: Listener) -> None:
    sockets = Sockets(listener.port)
    ours, _ = listener.connect()
    stays, _ = listener.connect()
    assert len(sockets.scan()) == 2

    ours.close()

    assert [each.descriptor for each in sockets.scan()] == [stays.fileno()]


def test_a_descriptor_that_is_used_again_is_examined_again(listener: Listener) -> None:
    sockets = Sockets(listener.port)
    ours, _ = listener.connect()
    [before] = sockets.scan()
    ours.close()
    other = os.open(os.devnull, os.O_RDONLY)
    again, theirs = listener.connect()

    found = sockets.scan()
    os.close(other)

    assert [(each.inode != before.inode, each.port) for each in found] == [(True, theirs.getsockname()[1])]
    assert found[0].descriptor == again.fileno()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")
def test_traffic_counts_the_bytes_that_either_end_has_read_and_not_those_in_system_buffers(
    listener: Listener,
) -> None:
    sockets = Sockets(listener.port)
    ours, theirs = listener.connect()
    [found] = sockets.scan()
    theirs.sendall(b"x" * 1_500)
    assert len(ours.recv(1_000, socket.MSG_WAITALL)) == 1_000
    ours.sendall(b"y" * 300)
    assert len(theirs.recv(300, socket.MSG_WAITALL)) == 300
    assert len(ours.recv(500, socket.MSG_PEEK | socket.MSG_WAITALL)) == 500

    assert sockets.traffic(found) == Traffic(received=1_000, sent=300)


def test_a_connection_that_is_shut_down_ends_for_both(listener: Listener) -> None:
    sockets = Sockets(listener.port)
    ours, theirs = listener.connect()
    [found] = sockets.scan()

    assert sockets.shut(found)

    assert (ours.recv(1), theirs.recv(1)) == (b"", b"")


def test_a_connection_is_not_taken_for_another_one_that_has_its_number_now(listener: Listener) -> None:
    sockets = Sockets(listener.port)
    ours, _ = listener.connect()
    [found] = sockets.scan()
    number = ours.fileno()
    ours.close()
    other, peer = listener.connect()
    assert number in {other.fileno(), peer.fileno()}

    assert not sockets.shut(found)

    peer.sendall(b"x")
    assert other.recv(1) == b"x"


@pytest.mark.parametrize(
    ("host", "plain"),
    [("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("fe80::1%eth0", "fe80::1"), ("::1", "::1")],
)
def test_a_host_has_one_name(host: str, plain: str) -> None:
    assert plain_host(host) == plain
