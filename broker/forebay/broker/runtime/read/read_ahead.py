"""Read-ahead of one reader of a partition: the next step, and hints to the system for those after it.

The next step is read while the current one is used, so that disk and network are busy at once. The pages of a partition
are in many files, where the system cannot predict the next read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final, Generic, TypeVar

from forebay.broker.core.delivery.message_builder import MESSAGE_BYTES
from forebay.broker.core.partition.pages import Entry
from forebay.broker.runtime.read.pages import Pages

_T = TypeVar("_T")
SOON_BYTES: Final = 8 << 20
"""Distance beyond the current step up to which hints are given."""


class ReadAhead(Generic[_T]):
    """Read-ahead of one reader, whose steps are of type ``_T``."""

    def __init__(self, pages: Pages, sink: int, partition: int) -> None:
        self._pages = pages
        self._sink = sink
        self._partition = partition
        self._step: asyncio.Task[_T | None] | None = None
        self._named_to = 0
        """Offset below which hints were given."""
        self._hints: set[asyncio.Task[None]] = set()

    def begin(self, step: Coroutine[Any, Any, _T | None]) -> None:
        """Begin to read the next step."""
        self._step = asyncio.create_task(step)

    async def result(self) -> _T | None:
        """Return the step that was begun; None without one, or where there was nothing to read."""
        begun, self._step = self._step, None
        return await begun if begun is not None else None

    def hint(self, entries: Sequence[Entry], position: int, stop: int | None) -> None:
        """Give hints for those of ``entries`` that follow the step at ``position``, once each.

        That step itself is read at once: no hint precedes it, and no task waits for one. Pages in memory need none.
        Raises the error of an earlier hint.
        """
        for earlier in [task for task in self._hints if task.done()]:
            self._hints.remove(earlier)
            earlier.result()
        soon = self._soon(entries, position, stop)
        if not soon:
            return
        self._named_to = soon[-1].end
        pages, numbers = self._pages, [entry.number for entry in soon if entry.bulk]
        found = zip(numbers, pages.read_cache.found(self._sink, numbers), strict=True)
        wanted = [number for number, body in found if body is None and number not in pages.held]
        if wanted:
            hint = pages.call(pages.journal.prefetch, self._sink, self._partition, wanted)
            self._hints.add(asyncio.create_task(hint))

    async def close(self) -> None:
        """End what is in progress."""
        under_way = [*self._hints, *([self._step] if self._step is not None else [])]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

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
