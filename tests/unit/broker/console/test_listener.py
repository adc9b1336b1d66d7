"""Acceptance of connections to the console: a bound, and errors of the system."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from forebay.broker.console.listener import Listener

pytestmark = pytest.mark.anyio


class Exhausted(socket.socket):
    """Listening socket of a process whose descriptors are used up for a while."""

    failures = 2

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return super().accept()


class Broken(socket.socket):
    """Listening socket with an unexpected error."""

    def accept(self) -> tuple[socket.socket, object]:
        raise RuntimeError("broken")


class Greeting(asyncio.Protocol):
    """Protocol that sends one byte."""

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # of a stream
        transport.write(b"x")

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()


@asynccontextmanager
async def listening(bound: socket.socket, connections_max: int = 1) -> AsyncIterator[tuple[tuple[str, int], Listener]]:
    """Accept connections, and yield the address and the listener."""
    with bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        bound.setblocking(False)
        listener = Listener(
            bound, Greeting, connections_max=connections_max, context=None, handshake_s=60.0, retry_s=0.001
        )
        try:
            async with asyncio.timeout(30):
                yield bound.getsockname(), listener
        finally:
            listener.close()
            await listener.wait_closed()


async def first_byte(address: tuple[str, int]) -> tuple[bytes, asyncio.StreamWriter]:
    """Connect, and return the first byte, none from a connection that is closed."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        return await reader.read(1), writer
    except ConnectionResetError:
        return b"", writer


async def test_connections_are_accepted_after_an_error_of_the_system(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="forebay.broker.console.listener"):
        async with listening(Exhausted()) as (address, _):
            found, writer = await first_byte(address)
            writer.close()

    assert found == b"x"
    assert caplog.text.count("console cannot accept connections error=[Errno 24]") == 2


async def test_a_connection_above_the_bound_is_closed_until_another_one_ends() -> None:
    async with listening(socket.socket()) as (address, _):
        accepted, first = await first_byte(address)
        closed, second = await first_byte(address)
        first.close()
        second.close()
        again = b""
        while not again:  # until the end of the first one is noticed
            again, later = await first_byte(address)
            later.close()

    assert (accepted, closed, again) == (b"x", b"", b"x")


async def test_an_unexpected_error_ends_the_server_at_its_next_check() -> None:
    async with listening(Broken()) as (_, listener):
        await listener.wait_closed()

        with pytest.raises(RuntimeError, match="broken"):
            listener.check()
