"""Budget of the memory that open streams hold: admission of more, and the stream to end when it is used up.

A stream holds what was made for its peer and is not taken yet: pages on their way out, read ahead, results and answers.
A stream that holds nothing may take what fits into the budget. One that holds something may take more only within half
of it, so that many slow readers leave room for the first step of every other stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STALLED_S: Final = 5.0
"""Time without any progress after which a stream may be ended for others that wait."""

STEP_BYTES: Final = (128 << 10, 6 << 20)
"""Bounds of what one step of a stream may hold, as far as pages can be divided."""

STEPS: Final = 32
"""A step takes at most this part of what is free."""


@dataclass(slots=True, eq=False)
class StreamShare:
    """Memory of one stream."""

    held: int = 0
    progress_at: float = 0.0
    """Time at which its peer took something, or at which it began to hold anything."""


class StreamBudget:
    """Memory of all streams of a broker."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self._holders: dict[StreamShare, None] = {}
        """Streams that hold anything."""

    def fits(self, share: StreamShare, size: int) -> bool:
        """Whether a stream may take ``size`` more bytes now; with nothing held anywhere anything fits."""
        bound = self.bytes_max // 2 if share.held else self.bytes_max
        return self.used == 0 or self.used + size <= bound

    def take(self, share: StreamShare, size: int, now: float) -> None:
        """Count bytes in, fit or not."""
        if not share.held:
            share.progress_at = now
        share.held += size
        self.used += size
        if share.held:
            self._holders[share] = None

    def give(self, share: StreamShare, size: int, now: float) -> None:
        """Count bytes out: the peer took something."""
        size = min(size, share.held)
        share.held -= size
        self.used -= size
        share.progress_at = now
        if not share.held:
            self._holders.pop(share, None)

    def step_bytes(self) -> int:
        """Return what one step should hold at most: the less, the less is free."""
        least, most = STEP_BYTES
        return max(least, min(most, (self.bytes_max - self.used) // STEPS))

    def stalled(self, now: float, wanted: int) -> list[StreamShare]:
        """Return the streams to end until ``wanted`` bytes are free: those that hold the most without progress."""
        found = [share for share in self._holders if now - share.progress_at >= STALLED_S]
        found.sort(key=lambda share: (-share.held, share.progress_at))
        free, chosen = self.bytes_max - self.used, list[StreamShare]()
        for share in found:
            if free >= wanted:
                break
            chosen.append(share)
            free += share.held
        return chosen
