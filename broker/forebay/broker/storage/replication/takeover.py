"""Takeover of a journal: a fence at its end, behind everything that was appended before."""

from __future__ import annotations

from collections.abc import Callable

from forebay.broker.storage.replication.owner import Owner, fence
from forebay.broker.storage.replication.reader import Reader


def take_over(
    reader: Reader, read: Callable[[], int], identity: bytes, endpoint: str, clock: Callable[[], float]
) -> Owner | None:
    """Fence the owner; returns the next one, or None if another fence was first.

    ``read`` reads and applies up to the end with ``reader``, and returns the first missing position. A missing position
    below the horizon is not the end: so the reader looks the horizon up before the fence, and once more as it reads the
    fence. A fence that was put below the horizon has no effect on readers. Raises ``Trimmed`` and ``EngineAway``.
    """
    read()
    reader.check()
    epoch = reader.place.epoch + 1
    fence(reader.engine, epoch, identity, endpoint, read)
    read()
    place = reader.place
    if (place.epoch, place.owner) != (epoch, identity):
        return None
    return Owner(reader.engine, epoch, identity, place.position, clock)
