"""Most recent durable pages in memory, for readers at the head; bounded in bytes, evicted by age."""

from __future__ import annotations

from collections import OrderedDict

from forebay.broker.core.partition.pages import Body


class Tail:
    """Bodies by page number. Used on the loop only."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.size = 0
        """Bytes held now."""
        self._pages: OrderedDict[int, Body] = OrderedDict()

    def put(self, number: int, body: Body) -> None:
        """Add a page that has just become durable."""
        self._pages[number] = body
        self.size += len(body.data)
        self.bound(self.bytes_max)

    def bound(self, bytes_max: int) -> None:
        """Set the bound."""
        self.bytes_max = bytes_max
        while self.size > self.bytes_max and self._pages:
            _, old = self._pages.popitem(last=False)
            self.size -= len(old.data)

    def get(self, number: int) -> Body | None:
        """Return the page, if it is in memory."""
        return self._pages.get(number)

    def __contains__(self, number: int) -> bool:
        return number in self._pages

    def drop(self, number: int) -> None:
        """Remove a page that left the log."""
        old = self._pages.pop(number, None)
        if old is not None:
            self.size -= len(old.data)
