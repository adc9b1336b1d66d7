"""Replay of a sink record by record."""

from __future__ import annotations

from collections.abc import Iterator

from forebay.client.replay.columns import decode_records, records_and_gaps
from forebay.client.replay.iterator import ClosableIterator
from forebay.client.replay.pages import OnGap
from forebay.client.values.records import Gap, ReplayedRecord, StoredPage


class RecordReplay(ClosableIterator[ReplayedRecord | Gap]):
    """Iterator of :class:`ReplayedRecord`, and of :class:`Gap` with ``on_gap="yield"``.

    Stored records that cannot be decoded yield a gap with the reason ``UNREADABLE``, or raise ``InvalidPage`` with the
    offset of the first one.
    """

    def __init__(self, pages: ClosableIterator[StoredPage | Gap], on_gap: OnGap = "raise") -> None:
        self._pages = pages
        self._decode = records_and_gaps if on_gap == "yield" else decode_records
        self._records = self._read()

    def _read(self) -> Iterator[ReplayedRecord | Gap]:
        for page in self._pages:
            if isinstance(page, Gap):
                yield page
            else:
                yield from self._decode(page)

    def __iter__(self) -> Iterator[ReplayedRecord | Gap]:
        """Return the iterator of the records."""
        return self._records

    def __next__(self) -> ReplayedRecord | Gap:
        """Return the next record or gap."""
        return next(self._records)

    def close(self) -> None:
        """End the iteration. Idempotent."""
        self._pages.close()
