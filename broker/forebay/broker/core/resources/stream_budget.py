"""Memory budget of open streams: admission of more, and the streams to end when it is exhausted.

A stream holds what was prepared for its peer and is not received yet: outgoing pages, read-ahead, results and answers.
A stream that holds nothing may take what fits into the budget. A stream that holds something may take more only within
half of it, so that many slow readers leave room for the first step of every other stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STALLED_S: Final = 5.0
"""Time without progress after which a stream may be ended in favour of waiting streams."""

STEP_BYTES: Final = (128 << 10, 6 << 20)
"""Bounds of the memory of one step, as far as pages can be divided."""

STEPS: Final = 32
"""A step takes at most this fraction of the free memory."""


@dataclass(slots=True, eq=False)
class StreamShare:
    """Memory of one stream."""

    held: int = 0
    progress_at: float = 0.0
    """Time at which its peer received something, or at which it began to hold memory."""


class StreamBudget:
    """Memory of all streams of a broker."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self._holders: dict[StreamShare, None] = {}
        """Streams that hold memory."""

    def fits(self, share: StreamShare, size: int) -> bool:
        """Return whether a stream may take ``size`` more bytes now; always True if no memory is held."""
        bound = self.bytes_max // 2 if share.held else self.bytes_max
        return self.used == 0 or self.used + size <= bound

    def add(self, share: StreamShare, size: int, now: float) -> None:
        """Add bytes, whether they fit or not."""
        if not share.held:
            share.progress_at = now
        share.held += size
        self.used += size
        if share.held:
            self._holders[share] = None

    def remove(self, share: StreamShare, size: int, now: float) -> None:
        """Remove bytes that the peer received."""
        size = min(size, share.held)
        share.held -= size
        self.used -= size
        share.progress_at = now
        if not share.held:
            self._holders.pop(share, None)

    def step_bytes(self) -> int:
        """Return the most bytes that one step should hold: the less memory is free, the fewer."""
        least, most = STEP_BYTES
        return max(least, min(most, (self.bytes_max - self.used) // STEPS))

    def stalled(self, now: float, wanted: int) -> list[StreamShare]:
        """Return the streams to end until ``wanted`` bytes are free.

        These hold the most memory without progress.
        """
        found = [share for share in self._holders if now - share.progress_at >= STALLED_S]
        found.sort(key=lambda share: (-share.held, share.progress_at))
        free, chosen = self.bytes_max - self.used, list[StreamShare]()
        for share in found:
            if free >= wanted:
                break
            chosen.append(share)
            free += share.held
        return chosen
