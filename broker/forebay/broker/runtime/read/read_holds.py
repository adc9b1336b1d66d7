"""Partitions whose reads fail: since when, for which reason, and which pages.

A read error says nothing about the bytes. So whoever needs them waits and reads again, nothing is dropped, and here
stands what operators are shown meanwhile. A partition leaves when what failed has been read, or was removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from forebay.broker.core.errors import ReadFailed
from forebay.broker.core.partition.pages import Entry

_log: Final = logging.getLogger(__name__)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
PAGES_MAX: Final = 1_000
"""Pages remembered per partition."""


@dataclass(slots=True)
class ReadHold:
    """What is known of one partition's failing reads."""

    reason: str
    since_us: int
    """Wall clock of the first failure."""

    failures: int = 0
    index: bool = False
    """The index could not be read."""

    pages: dict[int, Entry] = field(default_factory=dict)
    """Pages that could not be read, by number."""

    @property
    def since(self) -> str:
        """The time of the first failure, for people."""
        return (_EPOCH + timedelta(microseconds=self.since_us)).isoformat(timespec="seconds")

    @property
    def over(self) -> bool:
        """All that failed has been read."""
        return not self.index and not self.pages


class ReadHolds:
    """All partitions of a broker whose reads fail now. Used on the loop."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], ReadHold] = {}
        self.on_over: Callable[[int, int], None] = lambda _sink, _partition: None
        """Called when the reads of a partition work again."""
        self.failures = 0
        """Reads that failed in the life of the process, repeated ones included."""

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[tuple[int, int, ReadHold]]:
        """Sink id, partition and what is known, in order, as of now."""
        return iter([(sink, partition, hold) for (sink, partition), hold in sorted(self._held.items())])

    def at(self, sink: int, partition: int) -> ReadHold | None:
        """Return what is known of a partition; None while its reads work."""
        return self._held.get((sink, partition))

    def failed(self, sink: int, partition: int, entry: Entry | None, cause: ReadFailed, at_us: int) -> None:
        """Note that a page, or the index where ``entry`` is None, could not be read, also when it was tried again."""
        hold = self._held.get((sink, partition))
        if hold is None:
            hold = self._held[sink, partition] = ReadHold(str(cause), at_us)
            _log.error("reads fail, the partition waits for them sink=%d partition=%d cause=%s", sink, partition, cause)
        hold.reason = str(cause)
        hold.failures += 1
        if entry is None:
            hold.index = True
        elif len(hold.pages) < PAGES_MAX:
            hold.pages[entry.number] = entry

    def index_worked(self, sink: int, partition: int) -> None:
        """Note that the index was read."""
        if self._held and (hold := self.at(sink, partition)) is not None:
            hold.index = False
            self._close(sink, partition, hold)

    def worked(self, sink: int, partition: int, numbers: Iterable[int]) -> None:
        """Note that pages were read, or removed: nobody will read them."""
        if self._held and (hold := self.at(sink, partition)) is not None:
            for number in numbers:
                hold.pages.pop(number, None)
            self._close(sink, partition, hold)

    def _close(self, sink: int, partition: int, hold: ReadHold) -> None:
        if hold.over:
            del self._held[sink, partition]
            _log.warning("reads work again sink=%d partition=%d failures=%d", sink, partition, hold.failures)
            self.on_over(sink, partition)

    def forget(self, sink: int, partitions: Collection[int]) -> None:
        """Let go of a sink that was deleted."""
        for partition in partitions:
            self._held.pop((sink, partition), None)
