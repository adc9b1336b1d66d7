"""A wire between clients and a broker that can be cut, held, slowed and made to swallow what passes."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

CHUNK_BYTES: Final = 1 << 16
RESET: Final = struct.pack("ii", 1, 0)


class _Pair:
    """Two ends of one connection."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client: Final = client
        self.server: Final = server
        self.swallows = threading.Event()


class Wire:
    """Passes bytes both ways; the broker may come and go. Usable from any thread."""

    def __init__(self, backend: str) -> None:
        host, _, port = backend.rpartition(":")
        self._backend = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint: Final = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        """Guards the set; nobody waits under it."""
        self._pairs: set[_Pair] = set()
        self._passes = threading.Event()
        self._passes.set()
        self._takes = True
        self._delay_s = 0.0
        threading.Thread(target=self._accept, name="wire-accept", daemon=True).start()

    def cut(self) -> int:
        """Reset every connection; new ones work. Returns how many there were."""
        with self._lock:
            broken, self._pairs = self._pairs, set()
        for pair in broken:
            _reset(pair.client)
            _reset(pair.server)
        return len(broken)

    def swallow(self) -> None:
        """Let nothing through on the connections that there are, for good, and leave them open; new ones work."""
        with self._lock:
            for pair in self._pairs:
                pair.swallows.set()

    def hold(self) -> None:
        """Pass nothing on, and lose nothing, until ``release``."""
        self._passes.clear()

    def release(self) -> None:
        """Pass on what was held, and take connections again."""
        self._takes = True
        self._passes.set()

    def refuse(self) -> None:
        """Reset every connection, also each new one, until ``release``."""
        self._takes = False
        self.cut()

    def slow(self, delay_s: float) -> None:
        """Wait so long before each chunk; 0 ends it."""
        self._delay_s = delay_s

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self._takes:
                _reset(client)
                continue
            try:
                server = socket.create_connection(self._backend)
            except OSError:
                _reset(client)
                continue
            pair = _Pair(client, server)
            with self._lock:
                self._pairs.add(pair)
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(pair, source, target), name="wire", daemon=True).start()

    def _pass(self, pair: _Pair, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(CHUNK_BYTES):
                if pair.swallows.is_set():
                    continue
                self._passes.wait()
                if self._delay_s:
                    time.sleep(self._delay_s)
                target.sendall(chunk)
        if pair.swallows.is_set():
            source.close()
            return  # the other end is told nothing, as by a middlebox that forgot the connection
        with self._lock:
            self._pairs.discard(pair)
        for one in (pair.client, pair.server):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Break everything, and take no more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.release()
        self.cut()


def _reset(one: socket.socket) -> None:
    with suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        one.shutdown(socket.SHUT_RD)
    one.close()
