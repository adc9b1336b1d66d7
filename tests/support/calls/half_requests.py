"""Requests that are sent up to their last part, on connections that keep a call open: frames of HTTP/2 by hand.

A sender obeys flow control, as every client does: gRPC takes what it has given room for, and no request is whole.
"""

from __future__ import annotations

import math
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Final

from forebay.v1 import buffer_service_pb2 as pb
from tests.support.calls.raw_calls import END_HEADERS, HEADERS, SETTINGS, frame, request_headers

DATA, RESET, PING, GO_AWAY, WINDOW_UPDATE = 0, 3, 6, 7, 8
ACK: Final = 1
INITIAL_WINDOW: Final = 4
FRAME_BYTES: Final = 256 << 10
ANNOUNCED_BYTES: Final = 32 << 20
"""Length that each request says it has: the largest that the broker takes."""
HALF_BYTES: Final = 31 << 20
PUBLISH: Final = "/forebay.v1.BufferService/Publish"


class HalfRequests:
    """One connection with an open publish stream, beside requests of which the last part never comes.

    A request that the broker ends is begun again.
    """

    def __init__(self, endpoint: str, sink: str, method: str, *, calls: int, bytes_each: int) -> None:
        """``bytes_each`` of each request are sent, where the broker gives room for them."""
        host, _, port = endpoint.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), 10)
        self._read = b""
        self._windows = {0: 65_535, 1: 65_535}
        self._initial = 65_535
        self._left: dict[int, int] = {}
        self.ended = 0
        """Half sent requests that the broker has ended."""
        self.sent = 0
        """Bytes of half sent requests."""
        self.is_closed = False
        opening = pb.PublishRequest(open=pb.PublishOpen(sink=sink, writer_id=f"half-{id(self)}")).SerializeToString()
        self._send(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + frame(SETTINGS, 0, 0)
            + frame(HEADERS, END_HEADERS, 1, request_headers(PUBLISH))
            + frame(DATA, 0, 1, b"\0" + struct.pack(">I", len(opening)) + opening)
        )
        self._method = method
        self._bytes_each = bytes_each
        self._next = 3
        for _ in range(calls):
            self._begin()

    def step(self) -> bool:
        """Send and read what there is room for, without waiting; False when nothing moved."""
        if self.is_closed:
            return False
        moved = self._take()
        for stream, left in list(self._left.items()):
            size = min(FRAME_BYTES, left, self._windows[stream], self._windows[0])
            if size <= 0 or not self._has_room():
                continue
            self._send(frame(DATA, 0, stream, b"x" * size))
            self._windows[stream] -= size
            self._windows[0] -= size
            self._left[stream] = left - size
            self.sent += size
            moved = True
        return moved

    def fileno(self) -> int:
        """Return the descriptor of the connection."""
        return self._socket.fileno()

    def _begin(self) -> None:
        """Begin a request of the largest length."""
        begun = b"\0" + struct.pack(">I", ANNOUNCED_BYTES)
        stream, self._next = self._next, self._next + 2
        self._windows.setdefault(stream, self._initial)
        self._left[stream] = self._bytes_each
        headers = frame(HEADERS, END_HEADERS, stream, request_headers(self._method))
        self._send(headers + frame(DATA, 0, stream, begun))
        self._windows[stream] -= len(begun)
        self._windows[0] -= len(begun)

    def _has_room(self) -> bool:
        return not self.is_closed and bool(select.select([], [self._socket], [], 0)[1])

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError:
            self.is_closed = True

    def _take(self) -> bool:
        """Read frames until there is none."""
        found = False
        while not self.is_closed and select.select([self._socket], [], [], 0)[0]:
            try:
                data = self._socket.recv(1 << 16)
            except OSError:
                data = b""
            self.is_closed = not data
            self._read += data
            found = True
        while len(self._read) >= 9:
            size = int.from_bytes(self._read[:3], "big")
            if len(self._read) < 9 + size:
                break
            kind, flags, stream = self._read[3], self._read[4], int.from_bytes(self._read[5:9], "big")
            payload, self._read = self._read[9 : 9 + size], self._read[9 + size :]
            self._obey(kind, flags, stream, payload)
        return found

    def _obey(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[at : at + 6])
                if name == INITIAL_WINDOW:
                    self._windows = {
                        one: window + (value - self._initial if one else 0) for one, window in self._windows.items()
                    }
                    self._initial = value
            self._send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self._send(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            self._windows[stream] = self._windows.get(stream, self._initial) + int.from_bytes(payload, "big")
        elif stream in self._left and (kind == RESET or (kind == HEADERS and flags & 1)):
            del self._left[stream]
            self.ended += 1
            self._begin()

    def close(self) -> None:
        """Leave."""
        self._socket.close()


def send_halves(
    endpoint: str,
    sink: str,
    method: str,
    *,
    connections: int,
    calls: int,
    bytes_max: int,
    seconds: float,
    bytes_per_s: float = math.inf,
    look: Callable[[], None] = lambda: None,
) -> int:
    """Send halves of requests, on a new connection in place of a closed one; returns their bytes.

    Ends after ``bytes_max`` or ``seconds``, and leaves. No more than ``bytes_per_s`` are sent, as over a link of that
    speed. ``look`` is called again and again meanwhile.
    """

    def one() -> HalfRequests:
        return HalfRequests(endpoint, sink, method, calls=calls, bytes_each=HALF_BYTES)

    before, half = 0, [one() for _ in range(connections)]
    began = time.monotonic()
    try:
        while True:
            spent, sent = time.monotonic() - began, before + sum(each.sent for each in half)
            if spent >= seconds or sent >= bytes_max:
                return sent
            has_room = sent <= spent * bytes_per_s
            moved = sum(each.step() for each in half) if has_room else 0
            look()
            for number, each in enumerate(half):
                if each.is_closed:
                    before += each.sent
                    each.close()
                    half[number] = one()
            if not moved:
                select.select(half if has_room else [], [], [], 0.02)
    finally:
        for each in half:
            each.close()
