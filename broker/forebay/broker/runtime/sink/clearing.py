"""Emptying a sink: everything that it holds is dropped, counted and marked by gaps, in slices of its index."""

from __future__ import annotations

import logging
from typing import Final

from forebay.broker.core.errors import ReadFailed, StoreFenced
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.sink.buffer import Buffer

_log: Final = logging.getLogger(__name__)
PAGES_AT_ONCE: Final = 4_096
"""Dropped in one batch, or a few more."""


async def empty(buffer: Buffer, pages: Pages, reason: DropReason) -> int:
    """Drop what is left of a sink, in flight or not, durably; returns the records that went.

    What is settled by all is trimmed instead: it is no loss. Nothing may be appended meanwhile. Raises ``StoreFenced``.
    """
    dropped = 0
    for log in buffer.logs:
        await buffer.trim(log)
        while log.pages:
            await pages.load_oldest(buffer.record.id, log)
            entries = log.first_entries()
            while len(entries) < PAGES_AT_ONCE and not log.complete:
                await pages.load_more(buffer.record.id, log)
                entries = log.first_entries()
            if not entries:  # the index has lost what the counters still count
                break
            buffer.drop(log.number, entries, reason)
            dropped += sum(entry.count for entry in entries)
            await buffer.drops_durable(log.number)
    return dropped


async def empty_at_stop(buffer: Buffer, pages: Pages) -> None:
    """Empty a sink, where a clean stop is to leave it empty. One whose index cannot be read keeps what is left."""
    if buffer.settings.clean_cache_at_stop:
        try:
            dropped = await empty(buffer, pages, DropReason.CLEANED_AT_STOP)
        except (ReadFailed, StoreFenced) as damage:
            _log.error("sink was not emptied sink=%s cause=%s", buffer.name, damage)
        else:
            _log.info("sink was emptied at the stop sink=%s records=%d", buffer.name, dropped)
