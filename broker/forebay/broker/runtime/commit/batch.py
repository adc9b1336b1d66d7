"""Batch of the committer: a group of appends, and pending writes, which become durable together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from forebay.broker.core.errors import StoreFenced
from forebay.broker.core.writes import PageWrite, PutCursor, Write
from forebay.broker.runtime.commit.group import Group


@dataclass(slots=True, eq=False)
class Batch:
    """Pages and writes of one commit, and their waiters."""

    group: Group
    controls: list[tuple[Sequence[Write], asyncio.Future[None]]]
    """Writes without appends, each with its waiter."""

    pages: list[PageWrite]
    """Pages of the group and of the controls."""

    sync: bool
    """True if it must be durable when it is confirmed."""

    began: float
    """Monotonic time at which its commit began."""

    def writes(self) -> list[Write]:
        """Return all writes, those of the group last."""
        return [*_latest([write for writes, _ in self.controls for write in writes]), *self.group.writes]

    def confirm_controls(self) -> None:
        """Wake the waiters of the controls."""
        for _, done in self.controls:
            if not done.done():
                done.set_result(None)

    def confirm_appends(self) -> None:
        """Wake the waiters and readers of each share."""
        for share in self.group.shares:
            for append in share.appends:
                if not append.done.done():
                    append.done.set_result(None)
            share.queue.notify_readers(share)

    def waiters(self) -> list[asyncio.Future[None]]:
        """Return the futures of all its appends and controls."""
        appends = [append.done for share in self.group.shares for append in share.appends]
        return [*appends, *(done for _, done in self.controls)]


def fail(waiters: Sequence[asyncio.Future[None]], failure: StoreFenced) -> None:
    """Fail the futures that are not done. The failure of one that is not awaited is not logged."""
    for done in waiters:
        if not done.done():
            done.set_exception(failure)
            done.exception()


def _latest(writes: list[Write]) -> list[Write]:
    """Return the writes without cursors that a later write of the batch replaces."""
    seen: set[tuple[int, str, int]] = set()
    kept: list[Write] = []
    for write in reversed(writes):
        if isinstance(write, PutCursor):
            key = (write.sink, write.subscription, write.partition)
            if key in seen:
                continue
            seen.add(key)
        kept.append(write)
    kept.reverse()
    return kept
