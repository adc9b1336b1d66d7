"""Pages as they are stored, one of them truncated: damage by a bad sector or a manual change.

What a page held is read from its own bytes before, so that a model knows it without asking the broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forebay.broker.storage.records.header import HEADER_BYTES
from forebay.broker.storage.records.pages.page import SMALL_PAGE
from forebay.broker.storage.store.contract import Family, Put, Store
from tests.support.pages.samples import values

PAGES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class StoredPage:
    """One page as stored, also if it was dropped or trimmed and its space is not yet released."""

    key: bytes
    value: bytes

    @property
    def partition(self) -> int:
        return int(SMALL_PAGE.parts(self.key)[1])

    @property
    def records(self) -> list[bytes]:
        """The values of its records, by offset; of a page that is whole."""
        return values(self.value[HEADER_BYTES:])

    def cut_short(self, store: Store) -> None:
        """Take its last byte away, durably."""
        store.write([Put(Family.SMALL, self.key, self.value[:-1])])
        store.sync()


def stored_pages(store: Store, sink: int) -> list[StoredPage]:
    """The pages of a sink, by partition and age."""
    return [StoredPage(*found) for found in store.scan(Family.SMALL, *SMALL_PAGE.under(sink), PAGES_MAX)]
