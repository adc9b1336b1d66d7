"""Newest durable pages in memory, by sink: bounded per broker and per sink, with fair eviction.

A page that is added evicts the oldest pages of its own sink as far as the bound of the sink says, and then the oldest
page of the sink that holds most, until the bound of the broker holds. So a busy sink cannot take the memory of a quiet
one: a sink loses pages only while none holds more, but for two thousandths of the bound.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from forebay.broker.core.partition.pages import Body
from forebay.broker.core.writes import PageWrite

PAGE_BYTES: Final = 300
"""Memory of a page beside its body, so that many small pages do not take more than the bound."""
GRAINS: Final = 1_024
"""Steps of the bound in which sizes of sinks are compared, so that few pages change their order."""
_STALE_MAX: Final = 64


class _Share:
    """Pages of one sink."""

    __slots__ = ("pages", "recorded", "size")

    def __init__(self) -> None:
        self.pages: OrderedDict[int, Body] = OrderedDict()
        """Bodies by page number, the oldest first."""
        self.size = 0
        self.recorded = 0
        """Its entry in the heap: its size rounded up, or more."""


class PageCache:
    """Bodies by sink and page number. Used on the loop only."""

    def __init__(self, bytes_max: int, limits: Mapping[int, int]) -> None:
        """``limits`` are the bounds of sinks that have one, in bytes; they may change."""
        self.bytes_max = bytes_max
        self.size = 0
        """Bytes held now."""
        self._limits = limits
        self._shares: dict[int, _Share] = {}
        self._largest: list[tuple[int, int]] = []
        """Heap of negative recorded sizes and sinks; entries that are no longer recorded are stale."""
        self._sinks_over_limit: set[int] = set()
        """Sinks that may hold more than their bound."""

    def add(self, pages: Sequence[PageWrite]) -> None:
        """Add pages that have just become durable."""
        for page in pages:
            self._add(page.sink, page.entry.number, page.body)

    def _add(self, sink: int, number: int, body: Body) -> None:
        size = len(body.data) + PAGE_BYTES
        limit = min(self._limits.get(sink, self.bytes_max), self.bytes_max)
        if size > limit or self.size > self.bytes_max or sink in self._sinks_over_limit:
            return  # the last two: it is being relieved
        share = self._shares.get(sink)
        if share is None:
            share = self._shares[sink] = _Share()
        while share.size + size > limit:
            self._evict(share)
        share.pages[number] = body
        share.size += size
        self.size += size
        if share.size > share.recorded:
            self._record(share, sink)
        while self.size > self.bytes_max:
            self._evict_largest()

    def _record(self, share: _Share, sink: int) -> None:
        grain = self._grain
        share.recorded = -(-share.size // grain) * grain
        heappush(self._largest, (-share.recorded, sink))
        if len(self._largest) > 4 * len(self._shares) + _STALE_MAX:
            self._largest = [(-each.recorded, of) for of, each in self._shares.items()]
            heapify(self._largest)

    @property
    def _grain(self) -> int:
        return self.bytes_max // GRAINS or 1

    def found(self, sink: int, numbers: Sequence[int]) -> list[Body | None]:
        """Return the bodies of pages, None for those that are not in memory."""
        share = self._shares.get(sink)
        return [None] * len(numbers) if share is None else [share.pages.get(number) for number in numbers]

    def size_of(self, sink: int) -> int:
        """Return the bytes held for a sink."""
        share = self._shares.get(sink)
        return share.size if share is not None else 0

    def drop(self, sink: int, number: int) -> None:
        """Remove a page that left the log."""
        share = self._shares.get(sink)
        body = share.pages.pop(number, None) if share is not None else None
        if share is not None and body is not None:
            self._removed(share, body)
            if not share.pages:
                del self._shares[sink]

    def limit_changed(self, sink: int) -> None:
        """Apply a changed bound of a sink; ``relieve`` evicts what is above it."""
        self._sinks_over_limit.add(sink)

    def relieve(self, pages_max: int) -> bool:
        """Evict up to ``pages_max`` pages that are above a bound; returns True if none is left."""
        for sink in list(self._sinks_over_limit):
            share, limit = self._shares.get(sink), self._limits.get(sink, self.bytes_max)
            while share is not None and share.pages and share.size > limit:
                if pages_max == 0:
                    return False
                self._evict(share)
                pages_max -= 1
            if share is not None and not share.pages:
                del self._shares[sink]
            self._sinks_over_limit.discard(sink)
        while self.size > self.bytes_max:
            if pages_max == 0:
                return False
            self._evict_largest()
            pages_max -= 1
        return True

    def _evict(self, share: _Share) -> None:
        _, body = share.pages.popitem(last=False)
        self._removed(share, body)

    def _removed(self, share: _Share, body: Body) -> None:
        size = len(body.data) + PAGE_BYTES
        share.size -= size
        self.size -= size

    def _evict_largest(self) -> None:
        while True:
            recorded, sink = self._largest[0]
            share = self._shares.get(sink)
            if share is None or share.recorded != -recorded:
                heappop(self._largest)
                continue
            grain = self._grain
            if share.size > share.recorded - 2 * grain:
                break
            share.recorded = -(-share.size // grain) * grain
            heapreplace(self._largest, (-share.recorded, sink))
        self._evict(share)
        if not share.pages:
            del self._shares[sink]


class FailingPageCache(PageCache):
    """Page cache whose operations fail from ``fail`` on, for tests of what a failure reaches."""

    def __init__(self, bytes_max: int, limits: Mapping[int, int]) -> None:
        super().__init__(bytes_max, limits)
        self._failing: dict[str, Exception] = {}

    def fail(self, operation: str, error: Exception) -> None:
        """Let an operation of ``PageCache`` raise ``error``."""
        self._failing[operation] = error

    def _check(self, operation: str) -> None:
        if operation in self._failing:
            raise self._failing[operation]

    def add(self, pages: Sequence[PageWrite]) -> None:
        """See ``PageCache``. It fails after its work, where pages are counted already."""
        super().add(pages)
        self._check("add")

    def found(self, sink: int, numbers: Sequence[int]) -> list[Body | None]:
        """See ``PageCache``."""
        self._check("found")
        return super().found(sink, numbers)

    def size_of(self, sink: int) -> int:
        """See ``PageCache``."""
        self._check("size_of")
        return super().size_of(sink)

    def drop(self, sink: int, number: int) -> None:
        """See ``PageCache``."""
        self._check("drop")
        super().drop(sink, number)

    def limit_changed(self, sink: int) -> None:
        """See ``PageCache``."""
        self._check("limit_changed")
        super().limit_changed(sink)

    def relieve(self, pages_max: int) -> bool:
        """See ``PageCache``."""
        self._check("relieve")
        return super().relieve(pages_max)
