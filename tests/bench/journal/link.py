"""Link of a bandwidth between brokers and the server of a journal: there it is the limit, and no processor."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from tests.support.proxies.tcp import Connection


class Link:
    """One direction of a link; a hook of ``TcpProxy``. Its connections share the bandwidth."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s: Final = bytes_per_s
        self._lock = threading.Lock()  # guards the next one
        self._free_at = time.monotonic()

    def __call__(self, connection: Connection, chunk: bytes, send: Callable[[bytes], None]) -> None:
        """Pass a chunk on once the link has had the time for it."""
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic()) + len(chunk) / self._bytes_per_s
            arrives_at = self._free_at
        time.sleep(max(0.0, arrives_at - time.monotonic()))
        send(chunk)
