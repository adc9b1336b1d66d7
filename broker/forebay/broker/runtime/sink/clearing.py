"""Removal of all records of a sink: dropped, counted and marked by gaps, in slices of its index."""

from __future__ import annotations

import logging
from typing import Final

from forebay.broker.core.errors import ReadFailed, StoreFenced
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.sink.buffer import Buffer

_log: Final = logging.getLogger(__name__)
PAGES_AT_ONCE: Final = 4_096
"""Approximate number of pages dropped in one batch."""


async def empty(buffer: Buffer, pages: Pages, reason: DropReason) -> int:
    """Drop the rest of a sink, in flight or not, durably; returns the number of dropped records.

    Pages that are settled by all subscriptions are trimmed instead, without a loss. No append may run meanwhile. Raises
    ``StoreFenced``.
    """
    dropped = 0
    for log in buffer.logs:
        await buffer.removal.trim(log)
        while log.pages:
            await pages.load_oldest(buffer.record.id, log)
            entries = log.first_entries()
            while len(entries) < PAGES_AT_ONCE and not log.complete:
                await pages.load_more(buffer.record.id, log)
                entries = log.first_entries()
            if not entries:  # the index has lost pages that the counters still count
                break
            buffer.removal.drop(log.number, entries, reason)
            dropped += sum(entry.count for entry in entries)
            await buffer.removal.drops_durable(log.number)
    return dropped


async def empty_at_stop(buffer: Buffer, pages: Pages) -> None:
    """Remove all records of a sink that is configured so, at a clean stop.

    A sink whose index cannot be read keeps the rest.
    """
    if buffer.settings.clean_cache_at_stop:
        try:
            dropped = await empty(buffer, pages, DropReason.CLEANED_AT_STOP)
        except (ReadFailed, StoreFenced) as damage:
            _log.error("sink was not emptied sink=%s cause=%s", buffer.name, damage)
        else:
            _log.info("sink was emptied at the stop sink=%s records=%d", buffer.name, dropped)
