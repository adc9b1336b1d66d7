"""Retention of settled pages of one sink for replay, as `retain_acked` configures it.

A sweep once a second marks the settled offsets, and wakes the trim where pages may be removed. The trim asks for the
offset up to which pages may be removed. When the limits need room, settled pages are removed at once, the oldest first.
This part only selects pages: ``removal`` removes them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Final

from forebay.broker.core.errors import BrokerError, DiskFull, ReadFailed
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import Entry
from forebay.broker.core.partition.retention import Marks, keeps, noted, oldest_first, passed_until, settled_front
from forebay.broker.core.writes import PutMarks, Write
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.read.pages import EntryReader, Pages
from forebay.broker.runtime.sink.state import Sink

YIELD_BYTES: Final = 64 << 20
"""Bytes that a sink gives up per sweep while the device is full."""


class Retention:
    """Retained pages of one sink. Used on the loop."""

    def __init__(self, sink: Sink, committer: Committer, pages: Pages, marks: Mapping[int, Marks]) -> None:
        self._sink = sink
        self._committer = committer
        self._pages = pages
        self._marks = dict(marks)
        self._yielded: dict[int, int] = {}
        """Offsets up to which partitions give up pages for lack of bytes, as of the last check."""
        self._wanted_bytes = 0
        """Bytes to give up because the device is full."""
        self._readers: dict[int, EntryReader] = {}

    @property
    def active(self) -> bool:
        """True if settled pages are kept."""
        return keeps(self._sink.settings)

    # -- the clock

    def sweep(self) -> list[int]:
        """Mark the settled offsets; returns the partitions where pages may be removed."""
        settings = self._sink.settings
        now_us, time_us = self._sink.age.now_us(), settings.retain_acked_time_us
        if not time_us and self._marks:
            self._save(dict.fromkeys(self._marks, ()))
        if not self.active:
            self._readers.clear()
            return []
        self._wanted_bytes = YIELD_BYTES if self._device_is_full() else 0
        changed: dict[int, Marks] = {}
        removable: list[int] = []
        for log in self._sink.logs:
            if not log.pages:
                continue
            marks = self._marks.get(log.number, ())
            if time_us and (new := noted(marks, self._sink.settled(log), now_us, time_us)) != marks:
                changed[log.number] = new
            passed = passed_until(changed.get(log.number, marks), now_us, time_us) if time_us else 0
            if passed > log.earliest or settings.retain_acked_bytes or self._wanted_bytes:
                removable.append(log.number)
        if changed:
            self._save(changed)
        return removable

    def _save(self, changed: Mapping[int, Marks]) -> None:
        for number, marks in changed.items():
            self._marks[number] = marks
            if not marks:
                del self._marks[number]
        sink = self._sink.id
        writes: list[Write] = [PutMarks(sink, number, marks) for number, marks in changed.items()]
        self._committer.write(writes)

    def _device_is_full(self) -> bool:
        try:
            self._committer.admit(0)
        except DiskFull:  # what is given up frees nothing of a full journal
            return True
        except BrokerError:
            return False
        return False

    # -- the trim

    async def select(self) -> Collection[int]:
        """Select the pages to give up for lack of bytes; returns their partitions, for the trim."""
        self._yielded = {}
        bound = self._sink.settings.retain_acked_bytes
        if not bound and not self._wanted_bytes:
            return ()
        sizes: list[int] = []
        for log in self._sink.logs:
            with suppress(ReadFailed):  # nothing of it is given up now; the others are
                sizes.append(await self._settled_bytes(log) if log.pages else 0)
        over = sum(sizes) - bound if bound else 0
        for number, entries in (await self.oldest(0, max(over, self._wanted_bytes))).items():
            self._yielded[number] = entries[-1].end
        self._wanted_bytes = 0
        return self._yielded.keys()

    def released(self, log: PartitionLog, settled: int) -> int:
        """Return the offset up to which pages may be removed, given the end of the settled ones."""
        if not self.active:
            return settled
        time_us = self._sink.settings.retain_acked_time_us
        passed = 0
        if time_us:
            passed = passed_until(self._marks.get(log.number, ()), self._sink.age.now_us(), time_us)
        return min(settled, max(passed, self._yielded.get(log.number, 0)))

    async def _settled_bytes(self, log: PartitionLog) -> int:
        """Return the bytes of the pages that every subscription has settled completely."""
        settled = self._sink.settled(log)
        if settled >= log.tail.next_offset:
            return log.size
        reader = self._readers.get(log.number)
        if reader is None:
            reader = self._readers[log.number] = EntryReader(self._pages, self._sink.id, log)
        entries = await reader.upcoming(settled)
        front = next((entry for entry in entries if entry.end > settled and log.gap_at(entry.base) is None), None)
        if front is None:
            return log.size
        gone = sum(gap.size for gap in log.gaps if gap.first >= front.base)
        return max(0, log.size - (log.tail.appended_bytes - front.bytes_before - gone))

    # -- the limits

    async def oldest(self, records: int, size: int) -> dict[int, list[Entry]]:
        """Return the oldest settled pages that free ``records`` and ``size``: by partition, from its front.

        They are among those that are in memory: some, if there are any.
        """
        logs: list[PartitionLog] = []
        for log in self._sink.logs:
            with suppress(ReadFailed):
                await self._pages.load_oldest(self._sink.id, log)
                logs.append(log)
        fronts = {log.number: settled_front(log.iter_first(), self._sink.settled(log)) for log in logs}
        return oldest_first(fronts, records, size)
