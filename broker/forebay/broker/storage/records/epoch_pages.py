"""Index entries of staged pages, rebuilt from the records of their epochs.

The header of a staged page has its stage, not its offset. The record of its epoch has the first offset of its pages in
a partition and the range of their numbers. Beside it the stages are stored in their order, with the pages and records
of each; the order of the pages of a stage is that of their numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from forebay.broker.core.epochs.values import EpochPart, EpochRecord, StagePart
from forebay.broker.core.partition.pages import Entry, PagePart
from forebay.broker.core.partition.ranges import Range, common
from forebay.broker.storage.journal import Journal
from forebay.broker.storage.pages_between import pages_between
from forebay.broker.storage.records.epochs.epoch import EPOCH, STAGE_ORDER
from forebay.broker.storage.records.header import HEADER_BYTES, Damaged, body_of, decode_header
from forebay.broker.storage.records.sealed import Undecodable
from forebay.broker.storage.store.contract import Family

_log: Final = logging.getLogger(__name__)


class EpochPages:
    """Epochs of one partition, read from the store at the first use. Blocks then."""

    def __init__(self, journal: Journal, sink: int, partition: int) -> None:
        self._journal = journal
        self._sink = sink
        self._partition = partition
        self._parts: list[tuple[EpochRecord, EpochPart]] | None = None
        self._found: tuple[EpochPart, list[Entry]] | None = None
        """Entries of the last examined epoch: holes of one epoch are examined in succession."""

    def holds(self, offset: int) -> bool:
        """Return whether the record at an offset was staged."""
        return any(part.base <= offset < part.end for _, part in self._read())

    def entries_in(self, holes: Sequence[Range], sample: Entry | None) -> Iterator[Entry]:
        """Yield entries for pages of epochs in holes of the index; they get the age of ``sample``.

        A stage with a missing page is skipped: the offsets of its pages are unknown.
        """
        age_us = sample.age_us if sample is not None else 0
        for epoch, part in self._read():
            if any(common(holes, Range(part.base, part.end))):
                for entry in self._entries(epoch, part):
                    if any(hole.first <= entry.base and entry.end <= hole.end for hole in holes):
                        yield replace(entry, age_us=age_us)

    def _read(self) -> list[tuple[EpochRecord, EpochPart]]:
        if self._parts is None:
            parts: list[tuple[EpochRecord, EpochPart]] = []
            for _, value in self._journal.scan_all(Family.META, *EPOCH.under(self._sink)):
                epoch = EPOCH.decoded(value)
                if epoch is None:
                    continue
                parts += [(epoch, part) for part in epoch.parts if part.partition == self._partition]
            self._parts = parts
        return self._parts

    def _entries(self, epoch: EpochRecord, part: EpochPart) -> list[Entry]:
        if self._found is None or self._found[0] is not part:
            self._found = (part, list(self._placed(epoch, part)))
        return self._found[1]

    def _placed(self, epoch: EpochRecord, part: EpochPart) -> Iterator[Entry]:
        pages: dict[int, list[tuple[int, bool, int, int, int]]] = {}
        for stage, page in self._pages(part):
            pages.setdefault(stage, []).append(page)
        base, at_us = part.base, epoch.committed_at_us
        for stage, records, count in self._stages(epoch):
            found = sorted(pages.get(stage, ()))
            end = base + records
            if len(found) == count and sum(page[2] for page in found) == records:
                for number, bulk, held, size, encoding in found:
                    yield Entry(base, held, number, bulk, size, encoding, at_us, 0, 0, 0, (PagePart(base, at_us),))
                    base += held
            base = end

    def _stages(self, epoch: EpochRecord) -> tuple[StagePart, ...]:
        key = STAGE_ORDER.key(self._sink, epoch.producer, epoch.epoch, self._partition)
        [value] = self._journal.get(Family.META, [key])
        try:
            return tuple(STAGE_ORDER.codec.decode(value)) if value is not None else ()
        except Undecodable as damage:
            facts = (self._sink, self._partition, epoch.producer, epoch.epoch, damage)
            _log.error("stages of an epoch were damaged sink=%d partition=%d producer=%s epoch=%d cause=%s", *facts)
            return ()

    def _pages(self, part: EpochPart) -> Iterator[tuple[int, tuple[int, bool, int, int, int]]]:
        """Yield the stage and the header fields of staged pages, without the bodies."""
        for number, bulk, value in pages_between(
            self._journal, self._sink, self._partition, part.first - 1, part.last + 1
        ):
            try:
                header = decode_header(value)
                body_of(value, header)
            except Damaged:
                continue
            if header.stage and header.number == number:
                yield header.stage, (number, bulk, header.count, len(value) - HEADER_BYTES, header.encoding)
