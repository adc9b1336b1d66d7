"""Source of one subscription's deliveries: entries and bodies of pages, and damage that reads find."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from forebay.broker.core.partition.pages import Body, DropReason, Entry
from forebay.broker.runtime.delivery.lanes import Lanes
from forebay.broker.runtime.read.pages import EntryReader, Pages
from forebay.broker.runtime.sink.retention.removal import Removal

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Mode:
    """Path by which the consumer of a partition got its last delivery."""

    realtime: bool
    """True if it came from memory, False if it was read from the store."""

    owner_epoch: int
    """Owner epoch of that consumer."""

    since: float
    """Monotonic time since when this consumer has this mode."""

    switches: int = 0
    """Switches between the two, of all consumers."""


class Source:
    """Reads of one subscription. Used on the loop."""

    def __init__(self, lanes: Lanes, pages: Pages, removal: Removal) -> None:
        self._lanes = lanes
        self._sink = lanes.sink
        self._pages = pages
        self._removal = removal
        self._modes: dict[int, Mode] = {}

    def entry_reader(self, partition: int) -> EntryReader:
        """Return a new reader of a partition's entries."""
        return EntryReader(self._pages, self._sink.id, self._sink.logs[partition])

    async def bodies(self, partition: int, entries: Sequence[Entry]) -> tuple[list[Body | None], bool]:
        """See ``Pages.bodies``."""
        return await self._pages.bodies(self._sink.id, partition, entries)

    async def all_bodies(self, partition: int, entries: Sequence[Entry]) -> list[Body | None]:
        """See ``Pages.all_bodies``."""
        return await self._pages.all_bodies(self._sink.id, partition, entries)

    def unsynced_drop(self, partition: int) -> asyncio.Future[None] | None:
        """See ``Removal.unsynced_drop``."""
        return self._removal.unsynced_drop(partition)

    def drop_expired(self, partition: int, entries: Sequence[Entry]) -> bool:
        """See ``Removal.drop_expired``."""
        return self._removal.drop_expired(partition, entries)

    async def repair(self, partition: int) -> None:
        """Repair the index of a partition, where a hole was found."""
        await self._removal.repair(self._sink.logs[partition])

    def reads_fail(self, partition: int) -> bool:
        """Return whether reads of a partition fail; see ``ReadHolds``."""
        return self._pages.holds.at(self._sink.id, partition) is not None

    def damaged(self, partition: int, entry: Entry) -> None:
        """Quarantine a page that is missing or corrupt, if it is still in the log."""
        log = self._sink.logs[partition]
        if entry.base >= log.head.earliest and log.gap_at(entry.base) is None:
            _log.error(
                "page was quarantined sink=%s partition=%d first=%d end=%d; inspect it with `forebay quarantine list`",
                *(self._sink.name, partition, entry.base, entry.end),
            )
            self._removal.drop(partition, [entry], DropReason.CORRUPT)

    def is_recent(self, entry: Entry) -> bool:
        """Return whether a page is among the most recent ones, which are in memory."""
        return self._pages.read_cache.has(self._sink.id, entry.number)

    def read_from(self, partition: int, *, realtime: bool) -> None:
        """Note where the last delivery was read; a switch is counted."""
        mode, owner_epoch = self._modes.get(partition), self._lanes[partition].owner_epoch
        if mode is None:
            self._modes[partition] = Mode(realtime, owner_epoch, self._lanes.now())
            return
        switched = mode.realtime != realtime
        if switched or mode.owner_epoch != owner_epoch:
            mode.realtime, mode.owner_epoch, mode.since = realtime, owner_epoch, self._lanes.now()
        if switched:
            mode.switches += 1
            _log.debug(  # per partition, and often where a reader keeps up only just: the metrics count them
                "reader switched sink=%s subscription=%s partition=%d mode=%s",
                *(self._sink.name, self._lanes.name, partition, "REALTIME" if realtime else "CATCH_UP"),
            )

    def mode_of(self, partition: int) -> Mode | None:
        """Return the path that a partition is read by; None before the first delivery."""
        return self._modes.get(partition)
