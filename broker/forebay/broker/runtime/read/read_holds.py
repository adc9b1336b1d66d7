"""Partitions whose reads fail: the time, the reason and the pages.

A read error does not prove damage. So their readers wait and retry, nothing is dropped, and operators see the
partition here. It is removed when the failed pages were read or removed.
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
"""Pages kept per partition."""


@dataclass(slots=True)
class ReadHold:
    """Failing reads of one partition."""

    reason: str
    since_us: int
    """Wall clock of the first failure."""

    failures: int = 0
    index: bool = False
    """True if the index could not be read."""

    pages: dict[int, Entry] = field(default_factory=dict)
    """Pages that could not be read, by number."""

    @property
    def since(self) -> str:
        """Time of the first failure, as text."""
        return (_EPOCH + timedelta(microseconds=self.since_us)).isoformat(timespec="seconds")

    @property
    def resolved(self) -> bool:
        """True if everything that failed was read."""
        return not self.index and not self.pages


class ReadHolds:
    """All partitions of a broker whose reads fail now. Used on the loop."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], ReadHold] = {}
        self.on_over: Callable[[int, int], None] = lambda _sink, _partition: None
        """Called when the reads of a partition work again."""
        self.failures = 0
        """Failed reads of this process, including retries."""

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[tuple[int, int, ReadHold]]:
        """Yield sink id, partition and hold, in order, as of now."""
        return iter([(sink, partition, hold) for (sink, partition), hold in sorted(self._held.items())])

    def at(self, sink: int, partition: int) -> ReadHold | None:
        """Return the hold of a partition; None while its reads work."""
        return self._held.get((sink, partition))

    def failed(self, sink: int, partition: int, entry: Entry | None, cause: ReadFailed, at_us: int) -> None:
        """Record a page that could not be read, or the index if ``entry`` is None, after all retries."""
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
        """Record that the index was read."""
        if self._held and (hold := self.at(sink, partition)) is not None:
            hold.index = False
            self._close(sink, partition, hold)

    def worked(self, sink: int, partition: int, numbers: Iterable[int]) -> None:
        """Record that pages were read, or removed."""
        if self._held and (hold := self.at(sink, partition)) is not None:
            for number in numbers:
                hold.pages.pop(number, None)
            self._close(sink, partition, hold)

    def _close(self, sink: int, partition: int, hold: ReadHold) -> None:
        if hold.resolved:
            del self._held[sink, partition]
            _log.warning("reads work again sink=%d partition=%d failures=%d", sink, partition, hold.failures)
            self.on_over(sink, partition)

    def remove(self, sink: int, partitions: Collection[int]) -> None:
        """Remove a deleted sink."""
        for partition in partitions:
            self._held.pop((sink, partition), None)
