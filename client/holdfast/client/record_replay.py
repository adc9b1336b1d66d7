"""Reads pages again record by record."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self

from holdfast.client.columns import decode_records
from holdfast.client.values import Gap, ReplayedRecord, StoredPage


class Pages(Protocol):
    """Pages and gaps, of a partition or of several."""

    def __iter__(self) -> Iterator[StoredPage | Gap]:
        """Return an iterator of them."""

    def close(self) -> None:
        """End the iteration."""


class RecordReplay:
    """Iterator of :class:`ReplayedRecord`, and of :class:`Gap` with ``on_gap="yield"``. See ``PageReplay``."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._records = self._read()

    def _read(self) -> Iterator[ReplayedRecord | Gap]:
        for page in self._pages:
            if isinstance(page, Gap):
                yield page
            else:
                yield from decode_records(page)

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> ReplayedRecord | Gap:
        """Return the next record or gap."""
        return next(self._records)

    def close(self) -> None:
        """End the iteration. Closing twice is fine."""
        self._pages.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
