"""TCP proxy between clients and a broker that cuts, holds, slows and swallows connections and bytes."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self, TypeAlias

CHUNK_BYTES: Final = 1 << 16
RESET: Final = struct.pack("ii", 1, 0)


class Connection:
    """The two sockets of one connection through the proxy."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client: Final = client
        self.server: Final = server
        self.swallows = threading.Event()
        """Set: bytes of both directions are discarded."""
        self.has_lost_answers = False
        """True once a byte of the broker was discarded: none passes after it, as TCP has no gaps."""

    def shut(self) -> None:
        """End the connection in order, at both ends."""
        _shut(self.client)
        _shut(self.server)

    def reset(self) -> None:
        """End the connection with a reset, at both ends."""
        _reset(self.client)
        _reset(self.server)


Hook: TypeAlias = Callable[[Connection, bytes, Callable[[bytes], None]], None]
"""Passes a chunk of one direction on by calling its last argument. It runs on the direction's thread and may wait."""


def _pass_on(connection: Connection, chunk: bytes, send: Callable[[bytes], None]) -> None:
    send(chunk)


class TcpProxy:
    """Passes bytes between clients and one endpoint, which may come and go. Usable from any thread."""

    def __init__(self, endpoint: str, *, on_request: Hook = _pass_on, on_answer: Hook = _pass_on) -> None:
        host, _, port = endpoint.rpartition(":")
        self._target = (host, int(port))
        self._hooks = {True: on_request, False: on_answer}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint: Final = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        """Guards the set; no thread blocks while holding it."""
        self._connections: set[Connection] = set()
        self._passes = threading.Event()
        self._passes.set()
        self._accepts = True
        self._loses_answers = False
        self._delay_s = 0.0
        threading.Thread(target=self._accept, name="proxy-accept", daemon=True).start()

    def cut(self) -> int:
        """End every connection gracefully; new ones work. Return the number of connections."""
        ended = self._take_all()
        for connection in ended:
            connection.shut()
        return len(ended)

    def reset(self) -> int:
        """Reset every connection; new ones work. Return the number of connections."""
        ended = self._take_all()
        for connection in ended:
            connection.reset()
        return len(ended)

    def swallow(self) -> None:
        """Discard all bytes of the present connections for good, and leave them open; new ones work."""
        with self._lock:
            for connection in self._connections:
                connection.swallows.set()

    def lose_answers(self) -> None:
        """Discard the bytes of the broker, until the connections are cut or reset."""
        self._loses_answers = True

    def hold(self) -> None:
        """Keep all bytes back until ``release``."""
        self._passes.clear()

    def refuse(self) -> None:
        """Reset every connection, and each new one, until ``release``."""
        self._accepts = False
        self.reset()

    def release(self) -> None:
        """Pass held bytes on, and accept connections again."""
        self._accepts = True
        self._passes.set()

    def slow(self, delay_s: float) -> None:
        """Delay each chunk; 0 ends it."""
        self._delay_s = delay_s

    def close(self) -> None:
        """Reset every connection, and accept no more."""
        _shut(self._listener)
        self.release()
        self.reset()

    def _take_all(self) -> set[Connection]:
        with self._lock:
            taken, self._connections = self._connections, set()
            self._loses_answers = False
        return taken

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self._accepts:
                _reset(client)
                continue
            try:
                server = socket.create_connection(self._target)
            except OSError:
                _reset(client)
                continue
            connection = Connection(client, server)
            with self._lock:
                self._connections.add(connection)
            for requests in (True, False):
                threading.Thread(target=self._forward, args=(connection, requests), name="proxy", daemon=True).start()

    def _forward(self, connection: Connection, requests: bool) -> None:
        source, target = connection.client, connection.server
        if not requests:
            source, target = target, source
        with suppress(OSError):
            while chunk := source.recv(CHUNK_BYTES):
                if self._loses_answers and not requests:
                    connection.has_lost_answers = True
                if connection.swallows.is_set() or (connection.has_lost_answers and not requests):
                    continue
                self._passes.wait()
                if self._delay_s:
                    time.sleep(self._delay_s)
                self._hooks[requests](connection, chunk, target.sendall)
        if connection.swallows.is_set():
            source.close()
            return  # the other end is not notified, as by a middlebox that forgot the connection
        with self._lock:
            self._connections.discard(connection)
        connection.shut()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def _reset(one: socket.socket) -> None:
    with suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        one.shutdown(socket.SHUT_RD)
    one.close()
