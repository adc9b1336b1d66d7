"""Pages that were staged, put back into the index by what the records of epochs say of them.

The header of such a page knows its stage, not its offset. The record of its epoch knows where the pages of a stage
begin in a partition, how many they are, and between which page numbers they stand; their order is that of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.broker.core.epochs import EpochPart, EpochRecord
from holdfast.broker.core.pages import Entry, Part
from holdfast.broker.core.ranges import Range, common
from holdfast.broker.storage import codec, keys
from holdfast.broker.storage.contract import Family
from holdfast.broker.storage.header import HEADER_BYTES, Damaged, body_of, decode_header
from holdfast.broker.storage.journal import Journal
from holdfast.broker.storage.pages_between import pages_between


class EpochPages:
    """The epochs of one partition, read from the store when they are asked for first. Blocks then."""

    def __init__(self, journal: Journal, sink: int, partition: int) -> None:
        self._journal = journal
        self._sink = sink
        self._partition = partition
        self._parts: list[tuple[EpochRecord, EpochPart]] | None = None

    def holds(self, offset: int) -> bool:
        """The record at an offset was staged."""
        return any(part.base <= offset < part.end for _, part in self._read())

    def entries_in(self, holes: Sequence[Range], sample: Entry | None) -> Iterator[Entry]:
        """Entries for pages of epochs that stand in holes of the index; they get the age of ``sample``.

        An epoch of which a page is missing is left alone: nobody knows which of its pages is where.
        """
        age_us = sample.age_us if sample is not None else 0
        for epoch, part in self._read():
            if any(common(holes, Range(part.base, part.end))):
                for entry in self._entries(epoch, part, age_us):
                    if any(hole.first <= entry.base and entry.end <= hole.end for hole in holes):
                        yield entry

    def _read(self) -> list[tuple[EpochRecord, EpochPart]]:
        if self._parts is None:
            parts: list[tuple[EpochRecord, EpochPart]] = []
            for _, value in self._journal.scan_all(Family.META, *keys.of_sink(self._sink, keys.EPOCH)):
                try:
                    epoch = codec.decode_epoch(value)
                except codec.Undecodable:
                    continue
                parts += [(epoch, part) for part in epoch.parts if part.partition == self._partition]
            self._parts = parts
        return self._parts

    def _entries(self, epoch: EpochRecord, part: EpochPart, age_us: int) -> list[Entry]:
        found: list[Entry] = []
        base, at_us = part.base, epoch.committed_at_us
        for number, bulk, count, size, encoding in sorted(self._pages(part)):
            found.append(Entry(base, count, number, bulk, size, encoding, at_us, age_us, 0, 0, (Part(base, at_us),)))
            base += count
        return found if len(found) == part.pages and base == part.end else []

    def _pages(self, part: EpochPart) -> Iterator[tuple[int, bool, int, int, int]]:
        """Number, whether bulk, records, bytes and encoding of what a stage has in the partition: never the bodies."""
        for number, bulk, value in pages_between(
            self._journal, self._sink, self._partition, part.first - 1, part.last + 1
        ):
            try:
                header = decode_header(value)
                body_of(value, header)
            except Damaged:
                continue
            if (header.stage, header.number) == (part.stage, number):
                yield number, bulk, header.count, len(value) - HEADER_BYTES, header.encoding
