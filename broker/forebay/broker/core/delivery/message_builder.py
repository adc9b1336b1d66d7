"""Selection of the pages of one message: at least one, within all bounds and the credit."""

from __future__ import annotations

from typing import Final

from forebay.broker.core.partition.pages import Entry

MESSAGE_BYTES: Final = 3 << 20
"""Bytes of bodies sent together, unless one page is larger.

With its frame such a message passes gRPC's usual limit of 4 MiB.
"""
MESSAGE_PAGES: Final = 256


class MessageBuilder:
    """Pages of one message under construction."""

    __slots__ = ("_bytes_left", "_pages_max", "_records_left", "entries", "records", "size")

    def __init__(
        self, *, records_left: int | None = None, bytes_left: int | None = None, pages_max: int | None = None
    ) -> None:
        """Set the bounds beside those of a message; None is unlimited.

        The remaining credit is checked before each page, so the page that uses it up is still sent.
        """
        self._records_left = records_left
        self._bytes_left = bytes_left
        self._pages_max = MESSAGE_PAGES if pages_max is None else min(pages_max, MESSAGE_PAGES)
        self.entries: list[Entry] = []
        self.records = 0
        self.size = 0

    def fits(self, entry: Entry) -> bool:
        """Return whether the next page joins the message; the first one always does."""
        if not self.entries:
            return True
        if self.size + entry.size > MESSAGE_BYTES or len(self.entries) >= self._pages_max:
            return False
        spent = self._records_left is not None and self.records >= self._records_left
        return not spent and (self._bytes_left is None or self.size < self._bytes_left)

    def add(self, entry: Entry, records: int) -> None:
        """Add a page, of which ``records`` records are delivered."""
        self.entries.append(entry)
        self.records += records
        self.size += entry.size
