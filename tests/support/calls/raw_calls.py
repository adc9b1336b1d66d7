"""Unary calls over sockets whose owner reads nothing: frames of HTTP/2 by hand."""

from __future__ import annotations

import socket
import struct
from typing import Self

HEADERS, SETTINGS, CONTINUATION = 1, 4, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _literal(name: str, value: str) -> bytes:
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def request_headers(method: str) -> bytes:
    """Return the block of headers of a call."""
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": method,
        ":authority": "raw",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    return b"".join(_literal(*each) for each in headers.items())


class UnreadCall:
    """A unary call that was sent, and of whose answer nothing is taken."""

    def __init__(self, endpoint: str, method: str, request: bytes) -> None:
        host, _, port = endpoint.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        message = b"\0" + struct.pack(">I", len(request)) + request
        self._socket.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + frame(SETTINGS, 0, 0)
            + frame(HEADERS, END_HEADERS, 1, request_headers(method))
            + frame(0, END_STREAM, 1, message)
        )

    def is_closed(self) -> bool:
        """Return True if the broker has closed the connection; discards earlier bytes."""
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


def headers_without_end(endpoint: str, bytes_max: int) -> int:
    """Send headers that never end on one connection; returns the bytes that were taken before it was closed."""
    host, _, port = endpoint.rpartition(":")
    more = frame(CONTINUATION, 0, 1, _literal("k", "v" * 100) * 100)
    sent = 0
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))
        connection.sendall(frame(HEADERS, 0, 1, _literal(":method", "POST") + _literal(":path", "/x")))
        while sent < bytes_max:
            try:
                connection.sendall(more)
            except OSError:  # closed, or nothing of it is taken any more
                break
            sent += len(more)
    return sent
