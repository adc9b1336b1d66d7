"""Replays of the asyncio client."""

from __future__ import annotations

from collections.abc import Iterator

from forebay.client.aio.iterator import ClosableIterator, StepIterator
from forebay.client.replay.columns import decode_records, records_and_gaps
from forebay.client.replay.pages import OnGap
from forebay.client.values.records import Gap, ReplayedRecord, StoredPage


class PageReplay(StepIterator[StoredPage | Gap]):
    """Iterator of the pages of one partition or of all. Raises as ``forebay.client.PageReplay``."""


class RecordReplay(ClosableIterator[ReplayedRecord | Gap]):
    """Iterator of :class:`ReplayedRecord`, and of :class:`Gap` with ``on_gap="yield"``.

    Raises as ``forebay.client.RecordReplay``. A task that is cancelled while it waits loses no record.
    """

    def __init__(self, pages: PageReplay, on_gap: OnGap = "raise") -> None:
        self._pages = pages
        self._decode = records_and_gaps if on_gap == "yield" else decode_records
        self._records: Iterator[ReplayedRecord | Gap] = iter(())
        """Records of the page that was read last."""

    async def __anext__(self) -> ReplayedRecord | Gap:
        """Return the next record or gap."""
        while True:
            for record in self._records:
                return record
            self._records = self._of(await anext(self._pages))

    def _of(self, page: StoredPage | Gap) -> Iterator[ReplayedRecord | Gap]:
        return iter((page,)) if isinstance(page, Gap) else self._decode(page)

    async def close(self) -> None:
        """End the iteration. Idempotent."""
        await self._pages.close()
