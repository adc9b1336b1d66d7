"""Takeover of a journal: a fence at its end, after everything that was appended before."""

from __future__ import annotations

from collections.abc import Callable

from forebay.broker.storage.replication.owner import Owner, fence
from forebay.broker.storage.replication.reader import Reader
from forebay.broker.storage.replication.replica import ReplicaUnusable


def take_over(
    reader: Reader,
    read: Callable[[], int],
    identity: bytes,
    endpoint: str,
    clock: Callable[[], float],
    has_no_owner: Callable[[], bool] = lambda: True,
) -> Owner | None:
    """Fence the owner; returns the next one, None if another fence was first or the owner appends.

    ``read`` reads and applies up to the end with ``reader``, and returns the first missing position. Where it finds a
    record at first, the owner is not silent: None is returned, unless ``has_no_owner`` says that it has ended.

    A missing position below the horizon is not the end: so the reader looks the horizon up before the fence, and once
    more as it reads the fence. A fence that was put below the horizon has no effect on readers. Raises ``Trimmed``,
    ``EngineAway``, and ``ReplicaUnusable`` for a replica that is ahead of the journal.
    """
    before = reader.place.position
    if read() > before and not has_no_owner():
        return None
    reader.check()
    _check_not_ahead(reader)
    epoch = reader.place.epoch + 1
    fence(reader.engine, epoch, identity, endpoint, read)
    read()
    place = reader.place
    if (place.epoch, place.owner) != (epoch, identity):
        return None
    return Owner(reader.engine, epoch, identity, place.position, clock)


def _check_not_ahead(reader: Reader) -> None:
    """Raise ``ReplicaUnusable`` if the journal does not have the last record that was read.

    It lost its end with the power, or was replaced by an older copy. A fence after the hole would make two owners:
    others take the hole for the end.
    """
    last = reader.place.position - 1
    if last < max(0, reader.marks.horizon) or reader.engine.read(last) is not None:
        return
    reader.check()  # it may have been trimmed meanwhile
    if last >= reader.marks.horizon:
        raise ReplicaUnusable(
            f"the replica has record {last}, and {reader.engine.address} does not: the journal lost its end, or is an "
            "older copy; follow it with an empty directory, or restore the journal"
        )
