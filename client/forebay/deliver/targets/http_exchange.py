"""Exchange: one HTTP request and its answer, within one deadline.

The time limits of an HTTP library apply to single reads and writes, so that a peer that sends a byte from time to time
delays a request indefinitely. Here every network operation gets the remaining time of the exchange. The exchange also
parses the status line on arrival: after a 2xx status the records count as delivered, even if the rest of the answer
fails.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import local
from typing import Any, Final

import httpcore2

WRITE_BYTES: Final = 256 << 10
"""Maximum size of one write operation, so that a slow reader is detected."""

_HEAD_BYTES_MAX: Final = 64 << 10
"""Bytes of an answer that are searched for its status line, after informational answers."""

CONNECT_S_MIN: Final = 0.001
"""Least time limit of connecting to one address; 0 would not wait at all."""

_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-9]\d\d)(?: [^\r\n]*)?\r?\n")
_END_OF_HEAD: Final = re.compile(rb"\r?\n\r?\n")


@dataclass(slots=True)
class Exchange:
    """Deadline of a request, and the received head of its answer. Used by one thread."""

    until: float
    """Deadline on the clock of the network."""

    tls_layers: int
    """Number of TLS layers below the target's answers; data over fewer layers is a proxy's."""

    _head: bytearray = field(default_factory=bytearray)

    def sent(self) -> None:
        """Discard what was received before a part of the request: the answer of a proxy to a handshake."""
        self._head.clear()

    def received(self, data: bytes) -> None:
        """Parse received bytes of the answer."""
        if len(self._head) < _HEAD_BYTES_MAX:
            self._head += data[: _HEAD_BYTES_MAX - len(self._head)]

    @property
    def status(self) -> int | None:
        """Final status, once its line is complete."""
        start = 0
        while (line := _STATUS_LINE.match(self._head, start)) is not None:
            status = int(line.group(1))
            if status >= 200:
                return status
            end = _END_OF_HEAD.search(self._head, line.end(1))
            if end is None:
                return None
            start = end.end()
        return None


class Network(httpcore2.NetworkBackend):
    """Network whose operations are bounded by the exchange of the calling thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._backend = httpcore2.SyncBackend()
        self._current = local()

    def begin(self, timeout_s: float, tls_layers: int) -> Exchange:
        """Begin an exchange on this thread; it lasts until the next one."""
        exchange = Exchange(self._clock() + timeout_s, tls_layers)
        self._current.exchange = exchange
        return exchange

    def left_s(self, timeout: float | None, late: type[Exception]) -> float | None:
        """Return the remaining time of an operation; raises ``late`` when there is none."""
        exchange = self.exchange
        if exchange is None:
            return timeout
        left_s = exchange.until - self._clock()
        if left_s <= 0:
            raise late("the request took longer than timeout_s")
        return left_s if timeout is None else min(timeout, left_s)

    @property
    def exchange(self) -> Exchange | None:
        """Exchange of the calling thread."""
        return getattr(self._current, "exchange", None)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        """Connect to the first address of a host that accepts, all of them within the time limit.

        Each address has its share of the remaining time, so that one that does not answer leaves some to the next.
        """
        left_s = self.left_s(timeout, httpcore2.ConnectTimeout)
        until = None if left_s is None else self._clock() + left_s
        addresses = _addresses(host, port)
        for others, address in zip(reversed(range(len(addresses))), addresses, strict=True):
            share_s = None if until is None else max(CONNECT_S_MIN, (until - self._clock()) / (others + 1))
            try:
                stream = self._backend.connect_tcp(address, port, share_s, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                if not others or (until is not None and self._clock() >= until):
                    raise
            else:
                return _Stream(self, stream, tls_layers=0)
        raise httpcore2.ConnectError(f"{host} has no address")


class _Stream(httpcore2.NetworkStream):
    """Connection, or a TLS layer on one."""

    def __init__(self, network: Network, stream: httpcore2.NetworkStream, *, tls_layers: int) -> None:
        self._network = network
        self._stream = stream
        self._tls_layers = tls_layers

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read available bytes, waiting for them."""
        data = self._stream.read(max_bytes, self._network.left_s(timeout, httpcore2.ReadTimeout))
        exchange = self._network.exchange
        if exchange is not None and exchange.tls_layers == self._tls_layers:
            exchange.received(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all bytes."""
        exchange = self._network.exchange
        if exchange is not None and exchange.tls_layers == self._tls_layers:
            exchange.sent()
        for start in range(0, len(buffer), WRITE_BYTES):
            left_s = self._network.left_s(timeout, httpcore2.WriteTimeout)
            whole = len(buffer) <= WRITE_BYTES
            self._stream.write(buffer if whole else buffer[start : start + WRITE_BYTES], left_s)

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        """Return the TLS layer above this one."""
        left_s = self._network.left_s(timeout, httpcore2.ConnectTimeout)
        above = self._stream.start_tls(ssl_context, server_hostname, left_s)
        return _Stream(self._network, above, tls_layers=self._tls_layers + 1)

    def get_extra_info(self, info: str) -> Any:
        """Return information about the connection."""
        return self._stream.get_extra_info(info)


def _addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a host in the order of the system, each once. The look-up has no time limit."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpcore2.ConnectError(str(error)) from error
    return list(dict.fromkeys(_with_zone(address) for *_, address in found))


def _with_zone(address: Sequence[object]) -> str:
    """Return the host of an address of the system; a link-local one of IPv6 with its zone."""
    zone = address[3] if len(address) > 3 else 0
    return f"{address[0]}%{zone}" if zone else str(address[0])
