"""Lone groups: small commits of a quiet broker, which run on the event loop.

A change to the commit thread and back takes about as long as the sync of a fast disk. It is saved while the last groups
were all lone and quick. Then the loop has little else to do, and the next group will be quick too. Groups without an
append, as those of acks, always take the thread: a consumer at full speed causes hundreds of them per second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from forebay.broker.core.writes import Write
from forebay.broker.runtime.commit.group import Group

QUICK_S: Final = 0.001
"""Time below which a write and its sync are quick."""
STREAK: Final = 8
"""Consecutive lone and quick groups before one is committed on the loop."""
LONE_BYTES: Final = 64 << 10
LONE_WRITES: Final = 16
"""Writes beside the append, mostly cursors."""


class LoneGroups:
    """Streak of lone and quick groups."""

    def __init__(self) -> None:
        self._streak = 0

    @property
    def lasts(self) -> bool:
        """True if the next lone group may be committed on the loop."""
        return self._streak >= STREAK

    def note(self, *, is_lone: bool, seconds: float) -> None:
        """Count a committed group that took ``seconds`` to write and sync."""
        self._streak = self._streak + 1 if is_lone and seconds < QUICK_S else 0


def is_lone(group: Group, batches: Sequence[Sequence[Write]]) -> bool:
    """Return True for at most one small append, and few writes beside it."""
    appends = sum(len(share.appends) for share in group.shares)
    return appends <= 1 and group.size <= LONE_BYTES and sum(map(len, batches)) <= LONE_WRITES
