"""Web server that speaks HTTP/2 and answers each request with one status, as one at a wrong address does."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, SETTINGS = 1, 4
"""Types of frames."""

ACK = END_STREAM = 1
END_HEADERS: Final = 4
STATUS_NAME: Final = 8
"""Entry of the static table of HPACK whose name is ``:status``."""


class WebServer:
    """Server on a free port. A context manager that yields HOST:PORT."""

    def __init__(self, status: int) -> None:
        self._status = str(status).encode()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, name="web-server")

    def __enter__(self) -> str:
        self._thread.start()
        return f"127.0.0.1:{self._listening.getsockname()[1]}"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()

    def _accept(self) -> None:
        served: list[threading.Thread] = []
        while True:
            try:
                one, _ = self._listening.accept()
            except OSError:
                break
            self._open.append(one)
            served.append(threading.Thread(target=self._serve, args=(one,), name="web-connection"))
            served[-1].start()
        for one in self._open:
            with suppress(OSError):  # the client has closed it
                one.shutdown(socket.SHUT_RDWR)
        for thread in served:
            thread.join()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as received:
            try:
                received.read(len(PREFACE))
                connection.sendall(_frame(SETTINGS, 0, 0, b""))
                while head := received.read(9):
                    size, kind, flags, stream = int.from_bytes(head[:3]), head[3], head[4], int.from_bytes(head[5:])
                    received.read(size)
                    if kind == SETTINGS and not flags & ACK:
                        connection.sendall(_frame(SETTINGS, ACK, 0, b""))
                    elif kind == HEADERS:
                        block = bytes([STATUS_NAME, len(self._status)]) + self._status
                        connection.sendall(_frame(HEADERS, END_STREAM | END_HEADERS, stream, block))
            except OSError:
                return  # the client is gone


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + struct.pack(">BBI", kind, flags, stream) + payload
