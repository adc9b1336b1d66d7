"""Quota of the bytes of all sinks of a broker, maintained by increments, never by a scan."""

from __future__ import annotations

from forebay.broker.core.errors import BrokerFull


class Quota:
    """Bytes of pages of all sinks, including pending ones. Used on the loop only."""

    def __init__(self, bytes_max: int = 0) -> None:
        self.bytes_max = bytes_max
        """Bound, or 0 for unlimited."""
        self.used = 0

    def admit(self, size: int) -> None:
        """Raise ``BrokerFull`` unless ``size`` more bytes fit."""
        if self.bytes_max and self.used + size > self.bytes_max:
            raise BrokerFull(self.used, self.bytes_max)

    def add(self, size: int) -> None:
        """Add bytes."""
        self.used += size

    def remove(self, size: int) -> None:
        """Remove bytes."""
        self.used -= size
