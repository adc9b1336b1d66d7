"""Unary calls over sockets whose owner reads nothing: frames of HTTP/2 by hand."""

from __future__ import annotations

import socket
import struct
from typing import Self

HEADERS, SETTINGS = 1, 4
END_STREAM, END_HEADERS = 1, 4


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _literal(name: str, value: str) -> bytes:
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


class UnreadCall:
    """A unary call that was sent, and of whose answer nothing is taken."""

    def __init__(self, endpoint: str, method: str, request: bytes) -> None:
        host, _, port = endpoint.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        headers = {
            ":method": "POST",
            ":scheme": "http",
            ":path": method,
            ":authority": "raw",
            "content-type": "application/grpc",
            "te": "trailers",
        }
        block = b"".join(_literal(*each) for each in headers.items())
        message = b"\0" + struct.pack(">I", len(request)) + request
        self._socket.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _frame(SETTINGS, 0, 0)
            + _frame(HEADERS, END_HEADERS, 1, block)
            + _frame(0, END_STREAM, 1, message)
        )

    def is_closed(self) -> bool:
        """Whether the broker has closed the connection; what it sent before is thrown away."""
        self._socket.settimeout(0.0)
        try:
            while self._socket.recv(1 << 16):
                pass
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
