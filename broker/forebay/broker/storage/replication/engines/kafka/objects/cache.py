"""Cache of messages that may be read soon: those that were read with others, and small own ones."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

CACHED_BYTES: Final = 64 << 20
ENTRY_BYTES: Final = 256
"""Memory of an entry beside its value, about."""


class MessageCache:
    """Values by offset, the oldest of which are left out. For one thread at a time."""

    def __init__(self, bytes_max: int = CACHED_BYTES) -> None:
        self._bytes_max: Final = bytes_max
        self._values: OrderedDict[int, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, offset: int) -> bytes | None:
        """Return the value of a message, None if it is not here."""
        return self._values.get(offset)

    def keep(self, offset: int, value: bytes) -> None:
        """Add a value."""
        before = self._values.pop(offset, None)
        if before is not None:
            self._bytes -= len(before) + ENTRY_BYTES
        self._values[offset] = value
        self._bytes += len(value) + ENTRY_BYTES
        while self._bytes > self._bytes_max:
            self._bytes -= len(self._values.popitem(last=False)[1]) + ENTRY_BYTES

    def clear(self) -> None:
        """Forget all values."""
        self._values.clear()
        self._bytes = 0
