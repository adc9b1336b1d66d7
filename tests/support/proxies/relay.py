"""A relay between clients and a broker: it delays what passes, or ends TLS as a load balancer does."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from tests.support.certificates import Pair

CHUNK_BYTES: Final = 1 << 16


class Relay:
    """Forwards bytes on a thread; closes connections after the handshake if the broker is unreachable."""

    def __init__(
        self,
        target: str,
        *,
        one_way_s: float = 0.0,
        tls: Pair | None = None,
        damage: Callable[[bytes], bytes] = lambda chunk: chunk,
    ) -> None:
        """``damage`` is done to each chunk that a client sends."""
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._one_way_s = one_way_s
        self._tls = tls
        self._damage = damage
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.endpoint = ""
        self.closed_at_once = 0
        """Connections that were taken and closed, because the broker was away."""
        self._thread = threading.Thread(target=self._run, name="relay")

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        context = None
        if self._tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._tls.cert, self._tls.key)
            context.set_alpn_protocols(["h2"])
        patience_s = None if context is None else 0.1
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=context, ssl_shutdown_timeout=patience_s)
        self.endpoint = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._stopping.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(self._one_way_s + 0.2)  # until what is closed has ended

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(*self._target)
        except OSError:
            self.closed_at_once += 1
            writer.close()
            return
        await asyncio.gather(self._pass(reader, back, self._damage), self._pass(there, writer, lambda chunk: chunk))

    async def _pass(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, change: Callable[[bytes], bytes]
    ) -> None:
        """Pass chunks, each so much later; those that came together go together."""
        loop = asyncio.get_running_loop()
        try:
            with suppress(OSError):
                while chunk := await source.read(CHUNK_BYTES):
                    loop.call_later(self._one_way_s, _write, target, change(chunk))
        finally:
            loop.call_later(self._one_way_s, target.close)

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()


def _write(target: asyncio.StreamWriter, chunk: bytes) -> None:
    if not target.is_closing():
        target.write(chunk)
