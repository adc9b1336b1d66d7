"""Which pages go out in one message: what its bounds, the credit and the resend machine allow, and one at least."""

from __future__ import annotations

from typing import Final

from forebay.broker.core.partition.pages import Entry

MESSAGE_BYTES: Final = 3 << 20
"""Bodies sent together, or one larger page: with its frame it passes gRPC's usual limit for a message, 4 MiB."""
MESSAGE_PAGES: Final = 256


class Filling:
    """The pages of a message, while they are chosen."""

    __slots__ = ("_bytes_left", "_pages_max", "_records_left", "entries", "records", "size")

    def __init__(
        self, *, records_left: int | None = None, bytes_left: int | None = None, pages_max: int | None = None
    ) -> None:
        """Bounds beside those of a message, None for none.

        What is left of a credit is a level: the page that uses it up still goes.
        """
        self._records_left = records_left
        self._bytes_left = bytes_left
        self._pages_max = MESSAGE_PAGES if pages_max is None else min(pages_max, MESSAGE_PAGES)
        self.entries: list[Entry] = []
        self.records = 0
        self.size = 0

    def takes(self, entry: Entry) -> bool:
        """Whether the next page goes with the others; the first one always does."""
        if not self.entries:
            return True
        if self.size + entry.size > MESSAGE_BYTES or len(self.entries) >= self._pages_max:
            return False
        spent = self._records_left is not None and self.records >= self._records_left
        return not spent and (self._bytes_left is None or self.size < self._bytes_left)

    def add(self, entry: Entry, records: int) -> None:
        """Take a page, of which so many records are wanted."""
        self.entries.append(entry)
        self.records += records
        self.size += entry.size
