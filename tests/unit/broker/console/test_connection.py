"""Bounds of the console's connections: their number, and the time in which a request must arrive."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from forebay.broker.console.server import CONNECTIONS_MAX, ConsoleServer
from tests.support.certificates import Authority

pytestmark = pytest.mark.anyio

SOON_S = 0.2
LONG_S = 600.0
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
STATUS_OK = b"HTTP/1.1 200"


async def page(request: Request) -> Response:
    return PlainTextResponse(f"{len(await request.body())} bytes")


@asynccontextmanager
async def served(app: Starlette | None = None, **options: Any) -> AsyncIterator[int]:
    """Run a console server, and yield its port."""
    app = app or Starlette(routes=[Route("/", page, methods=["GET", "POST"])])
    server = ConsoleServer(app, "127.0.0.1", 0, **options)
    running = asyncio.ensure_future(server.run())
    try:
        async with asyncio.timeout(60):
            yield server.port
    finally:
        await server.stop()
        running.cancel()


class Peer:
    """Client of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def end(self) -> bytes:
        """Return what is received until the server closes the connection."""
        try:
            return await self._reader.read()
        except ConnectionResetError:
            return b""

    async def answer(self, request: bytes) -> bytes:
        """Send a request, and return what is received until the server closes the connection."""
        self._writer.write(request)
        return await self.end()

    async def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def peers(port: int, number: int = 1, **options: Any) -> AsyncIterator[list[Peer]]:
    """Connect, and send nothing."""
    made = [Peer(*await asyncio.open_connection("127.0.0.1", port, **options)) for _ in range(number)]
    try:
        yield made
    finally:
        for one in made:
            await one.close()


async def test_silent_connections_end_and_leave_the_pages_to_others() -> None:
    async with served(request_s=SOON_S) as port, peers(port, 128) as silent:
        ends = await asyncio.gather(*(one.end() for one in silent))
        async with peers(port) as [user]:
            answer = await user.answer(GET)

    assert ends == [b""] * 128
    assert answer.startswith(STATUS_OK)


async def test_silent_connections_below_the_bound_do_not_keep_a_user_out() -> None:
    async with served(request_s=LONG_S) as port, peers(port, CONNECTIONS_MAX - 1), peers(port) as [user]:
        assert (await user.answer(GET)).startswith(STATUS_OK)


async def test_connections_above_the_bound_are_closed() -> None:
    async with served(request_s=LONG_S) as port, peers(port, 500) as silent:
        kept = {asyncio.ensure_future(one.end()) for one in silent}
        while len(kept) > CONNECTIONS_MAX:
            closed, kept = await asyncio.wait(kept, return_when=asyncio.FIRST_COMPLETED)
            assert all(one.result() == b"" for one in closed)
        async with peers(port) as [user]:
            assert await user.answer(GET) == b""
        assert not any(one.done() for one in kept)
        for one in kept:
            one.cancel()


async def test_a_closed_connection_makes_room_for_another() -> None:
    async with served(connections_max=1, request_s=SOON_S) as port, peers(port) as [first]:
        async with peers(port) as [second]:
            assert await second.answer(GET) == b""
        await first.end()
        async with peers(port) as [third]:
            assert (await third.answer(GET)).startswith(STATUS_OK)


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(GET[:20], id="head"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabc", id="body"),
        pytest.param(GET.replace(b"Connection: close\r\n", b"") + GET[:20], id="second request"),
    ],
)
async def test_a_request_that_does_not_end_is_closed(part: bytes) -> None:
    async with served(request_s=SOON_S) as port, peers(port) as [slow]:
        answer = await slow.answer(part)

    assert answer.startswith(STATUS_OK) == part.startswith(GET[:30])


async def test_a_complete_request_may_take_longer_than_its_arrival() -> None:
    waited = asyncio.Event()

    async def slow(request: Request) -> Response:
        await waited.wait()
        return PlainTextResponse("late")

    async with served(Starlette(routes=[Route("/", slow)]), request_s=SOON_S) as port, peers(port) as [user]:
        answer = asyncio.ensure_future(user.answer(GET))
        async with peers(port) as [later]:
            await later.end()  # the time of the request, which came before, is over too
        waited.set()

        assert (await answer).endswith(b"late")


async def test_a_tls_handshake_must_end_in_time(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.signed("console")
    files: dict[str, Any] = {"cert_file": str(pair.cert), "key_file": str(pair.key)}
    async with served(request_s=SOON_S, **files) as port, peers(port) as [silent]:
        assert await silent.end() == b""
        context = ssl.create_default_context(cafile=str(authority.cert))
        async with peers(port, ssl=context, server_hostname="localhost") as [user]:
            assert (await user.answer(GET)).startswith(STATUS_OK)


async def test_a_certificate_that_cannot_be_read_leaves_the_former_one_in_use(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.signed("console")
    server = ConsoleServer(Starlette(), "127.0.0.1", 0, cert_file=str(pair.cert), key_file=str(pair.key))
    server.renew()  # before it serves there is nothing to renew
    running = asyncio.ensure_future(server.run())
    context = ssl.create_default_context(cafile=str(authority.cert))
    async with asyncio.timeout(60), peers(server.port, ssl=context, server_hostname="localhost"):
        pair.cert.write_text("no certificate")

        with pytest.raises(OSError, match="PEM"):
            server.renew()

        async with peers(server.port, ssl=context, server_hostname="localhost") as [user]:
            assert (await user.answer(GET)).startswith(b"HTTP/1.1 404")
    await server.stop()
    running.cancel()


async def test_connections_before_their_tls_handshake_are_bounded(tmp_path: Path) -> None:
    pair = Authority(tmp_path).signed("console")
    files: dict[str, Any] = {"cert_file": str(pair.cert), "key_file": str(pair.key)}
    async with served(connections_max=2, request_s=LONG_S, **files) as port, peers(port, 2), peers(port) as [third]:
        assert await third.end() == b""
