"""What all sinks of a broker may hold together. Kept by adding and taking away, never by counting what is there."""

from __future__ import annotations

from forebay.broker.core.errors import BrokerFull


class Quota:
    """Bytes of pages of all sinks, those that wait for their batch included. Used on the loop only."""

    def __init__(self, bytes_max: int = 0) -> None:
        self.bytes_max = bytes_max
        """The bound, or 0 for none."""
        self.used = 0

    def admit(self, size: int) -> None:
        """Raise ``BrokerFull`` unless ``size`` more bytes fit."""
        if self.bytes_max and self.used + size > self.bytes_max:
            raise BrokerFull(self.used, self.bytes_max)

    def take(self, size: int) -> None:
        """Count bytes in."""
        self.used += size

    def give(self, size: int) -> None:
        """Count bytes out."""
        self.used -= size
