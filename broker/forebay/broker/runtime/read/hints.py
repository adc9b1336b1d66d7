"""Tells the system what a reader of one partition will ask for soon, so that the disk is at it before.

The pages of a partition stand in many files, where the system cannot guess what comes next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from forebay.broker.core.delivery.filling import MESSAGE_BYTES
from forebay.broker.core.partition.pages import Entry
from forebay.broker.runtime.read.pages import Pages

SOON_BYTES: Final = 8 << 20
"""So far behind what is sent the system is told what will be read."""


class Hints:
    """The hints of one reader. Nobody waits for them."""

    def __init__(self, pages: Pages, sink: int, partition: int) -> None:
        self._pages = pages
        self._sink = sink
        self._partition = partition
        self._named_to = 0
        """The system was told of the pages below."""
        self._under_way: set[asyncio.Task[None]] = set()

    def tell(self, entries: Sequence[Entry], position: int, stop: int | None, *, realtime: bool) -> None:
        """Name those of ``entries`` that are wanted after the step that begins at ``position``, once each.

        That step itself is read at once: no hint comes before it. Raises what an earlier hint has met.
        """
        for earlier in [task for task in self._under_way if task.done()]:
            self._under_way.remove(earlier)
            earlier.result()
        soon = self._soon(entries, position, stop)
        if soon:
            self._named_to = soon[-1].end
            told = self._pages.expect(self._sink, self._partition, soon, realtime=realtime)
            self._under_way.add(asyncio.create_task(told))

    async def close(self) -> None:
        """End what is under way."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _soon(self, entries: Sequence[Entry], position: int, stop: int | None) -> list[Entry]:
        found: list[Entry] = []
        size = 0
        for entry in entries:
            if entry.base < position:
                continue
            size += entry.size
            if size > SOON_BYTES or (stop is not None and entry.base >= stop):
                break
            if size > MESSAGE_BYTES and entry.base >= self._named_to:
                found.append(entry)
        return found
