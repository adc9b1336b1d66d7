"""Read-ahead hints to the system for one reader of a partition.

The pages of a partition are in many files, where the system cannot predict the next read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from forebay.broker.core.delivery.filling import MESSAGE_BYTES
from forebay.broker.core.partition.pages import Entry
from forebay.broker.runtime.read.pages import Pages

SOON_BYTES: Final = 8 << 20
"""Distance behind the current step up to which hints are given."""


class Hints:
    """Hints of one reader. No task waits for them."""

    def __init__(self, pages: Pages, sink: int, partition: int) -> None:
        self._pages = pages
        self._sink = sink
        self._partition = partition
        self._named_to = 0
        """Offset below which hints were given."""
        self._under_way: set[asyncio.Task[None]] = set()

    def tell(self, entries: Sequence[Entry], position: int, stop: int | None, *, realtime: bool) -> None:
        """Give hints for those of ``entries`` that follow the step at ``position``, once each.

        That step itself is read at once: no hint precedes it. Raises the error of an earlier hint.
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
        """End the pending hint."""
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
