"""Most recent durable pages in memory, for readers at the head.

It speeds readers up and does nothing else: where it fails, for whatever reason, it is emptied and left alone for a
while. Publishers do not notice, and readers read the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from forebay.broker.core.partition.pages import Body
from forebay.broker.core.writes import PageWrite
from forebay.broker.runtime.read.page_cache import PageCache

_T = TypeVar("_T")
_log: Final = logging.getLogger(__name__)
EVICTED_MAX: Final = 4_096
"""Pages that one turn of the loop evicts after a bound was lowered."""

MakeCache = Callable[[int, Mapping[int, int]], PageCache]


class ReadCache:
    """Page cache of one broker, whose failures reach no caller. Used on the loop only."""

    def __init__(self, bytes_max: int, make: MakeCache = PageCache) -> None:
        self._bytes_max = bytes_max
        self._make = make
        self._limits: dict[int, int] = {}
        """Bounds of the sinks that have one."""
        self._cache = make(bytes_max, self._limits)
        self.failure = ""
        """Reason why it is not used, although it is switched on."""
        self.failures = 0

    @property
    def bytes_max(self) -> int:
        """Bound of all sinks together."""
        return self._bytes_max

    @property
    def size(self) -> int:
        """Bytes held now."""
        return self._cache.size

    def serves(self, sink: int) -> bool:
        """Return whether new pages of a sink are kept."""
        return not self.failure and self._bytes_max > 0 and self._limits.get(sink, self._bytes_max) > 0

    def add(self, pages: Sequence[PageWrite]) -> None:
        """Add pages that have just become durable."""
        self._try(None, lambda cache: cache.add(pages))

    def found(self, sink: int, numbers: Sequence[int]) -> list[Body | None]:
        """Return the bodies of pages, None for those that are not in memory."""
        return self._try(None, lambda cache: cache.found(sink, numbers)) or [None] * len(numbers)

    def has(self, sink: int, number: int) -> bool:
        """Return whether a page is in memory."""
        return self.found(sink, [number])[0] is not None

    def size_of(self, sink: int) -> int:
        """Return the bytes held for a sink."""
        return self._try(0, lambda cache: cache.size_of(sink))

    def drop(self, sink: int, numbers: Sequence[int]) -> None:
        """Remove pages that left the log."""

        def drop(cache: PageCache) -> None:
            for number in numbers:
                cache.drop(sink, number)

        self._try(None, drop)

    def limit(self, sink: int, bytes_max: int | None) -> None:
        """Set the bound of a sink; 0 keeps nothing of it, None leaves the bound of the broker."""
        if bytes_max is None:
            self._limits.pop(sink, None)
        else:
            self._limits[sink] = bytes_max
        self._try(None, lambda cache: cache.limit_changed(sink))
        self._relieve()

    def evict_sink(self, sink: int) -> None:
        """Remove a deleted sink. Its bound of 0 stays until all its pages are evicted."""
        self._limits[sink] = 0
        self._try(None, lambda cache: cache.limit_changed(sink))
        self._relieve(lambda: self._limits.pop(sink, None))

    def bound(self, bytes_max: int, on_done: Callable[[], None] = lambda: None) -> None:
        """Set the bound of all sinks together; ``on_done`` is called when nothing is above it."""
        self._bytes_max = bytes_max
        if not self.failure:
            self._cache.bytes_max = bytes_max
        self._relieve(on_done)

    def restart(self) -> None:
        """Begin again after a failure. No effect without one."""
        if self.failure:
            self.failure = ""
            self._cache = self._make(self._bytes_max, self._limits)

    def _relieve(self, on_done: Callable[[], object] = lambda: None) -> None:
        """Evict what is above a bound, in pieces between which others get a turn."""
        if self._try(True, lambda cache: cache.relieve(EVICTED_MAX)):
            on_done()
        else:
            asyncio.get_running_loop().call_soon(self._relieve, on_done)

    def _try(self, otherwise: _T, use: Callable[[PageCache], _T]) -> _T:
        if self.failure:
            return otherwise
        try:
            return use(self._cache)
        except Exception as error:  # noqa: BLE001 - whatever fails in here must not end a commit or a read
            self.failures += 1
            self.failure = f"{type(error).__name__}: {error}"
            self._cache = PageCache(0, {})
            _log.error("realtime failed, readers read the store cause=%s", self.failure, exc_info=error)
            return otherwise
