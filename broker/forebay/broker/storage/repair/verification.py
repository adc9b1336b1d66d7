"""Verification of a store: counters against entries, entries against pages, accounts against both.

It reads the whole store. Everything that a start would repair counts as damage. The examined store is a copy, so it may
be repaired to check the rest. Records in the memory of a killed broker are no damage: the next start counts them as
lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import DropReason, Entry, Gap
from forebay.broker.core.partition.repair import IndexDamaged, Survey
from forebay.broker.core.partition.reservation import highest
from forebay.broker.storage.recovery import Recovered
from forebay.broker.storage.repair.survey import SurveyedPartition, survey
from forebay.broker.storage.stored_sink import StoredSink
from forebay.state.numbers import counted, plural

_PAGES = 16
"""Read at once."""


@dataclass(slots=True)
class PartitionReport:
    """Content of one partition, and its damage."""

    sink: str
    partition: int
    earliest: int
    next_offset: int
    records: int
    """Readable records."""

    pages: int
    size: int
    damaged_pages: int
    """Pages with an index entry that are missing or damaged."""

    lost_records: int
    """Records that are neither stored nor counted as removed, including those of damaged pages."""

    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Checked:
    """Checked partition: its report, and its survey."""

    sink: StoredSink
    report: PartitionReport
    found: Survey
    damaged: list[Entry]


def check(recovered: Recovered) -> Iterator[Checked]:
    """Check each partition of each sink. Blocks while it reads."""
    for sink in recovered.sinks:
        cursors = sink.cursors_by_partition()
        for partition in range(sink.partitions):
            try:
                yield _check(recovered, sink, partition, cursors.get(partition, {}))
            except IndexDamaged as damage:
                recovered.journal.rewrite_index()
                checked = _check(recovered, sink, partition, cursors.get(partition, {}))
                checked.report.problems.append(f"a part of the index could not be read: {damage}")
                yield checked


def _check(recovered: Recovered, sink: StoredSink, partition: int, cursors: Mapping[str, Cursor]) -> Checked:
    journal, number = recovered.journal, sink.record.id
    tail, head = sink.tails.get(partition, Tail()), sink.heads.get(partition, Head())
    gaps = [gap for gap in sink.gaps.get(partition, ()) if not gap.subscription]
    in_memory = sink.held.get(partition, ())
    gone = [Gap(run.first, run.end, DropReason.LOST_IN_CRASH, 0, run.size, run.pages) for run in in_memory]
    damaged: list[Entry] = []
    waiting: list[Entry] = []

    def read() -> None:
        bodies = journal.read_pages(number, partition, waiting)
        damaged.extend(entry for entry, body in zip(waiting, bodies, strict=True) if body is None)
        waiting.clear()

    def look(entry: Entry) -> None:
        waiting.append(entry)
        if len(waiting) == _PAGES:
            read()

    due = [one for one in recovered.due if (one.sink, one.partition) == (number, partition)]
    place = SurveyedPartition(number, partition, head.earliest, tail.next_offset, [*gaps, *gone], due=due)
    found = survey(journal, place, look=look)
    read()
    bad = sum(entry.count for entry in damaged)
    report = PartitionReport(
        sink=sink.record.name,
        partition=partition,
        earliest=head.earliest,
        next_offset=tail.next_offset,
        records=found.records - bad,
        pages=found.entries - len(damaged),
        size=found.size - sum(entry.size for entry in damaged),
        damaged_pages=len(damaged),
        lost_records=bad + sum(part.size for part in found.lost),
    )
    report.problems += [f"page {entry.number}, offsets {entry.base} to {entry.end - 1}: damaged" for entry in damaged]
    report.problems += [f"offsets {part.first} to {part.end - 1}: no page, no gap" for part in found.lost]
    report.problems += [f"offset {base}: its index entry is damaged" for base in found.broken]
    report.problems += [f"offset {entry.base}: its page is not in the index" for entry in found.rebuilt]
    expected = tail.next_offset - head.removed_records - sum(run.end - run.first for run in in_memory)
    if found.is_intact and expected != found.records:
        are = plural(found.records, "is", "are")
        report.problems.append(f"the counters have {counted(expected, 'record')}, {found.records:,} {are} stored")
    handed_out = sink.assigned_end(partition)
    for name, cursor in sorted(cursors.items()):
        if not cursor.balances(max(tail.next_offset, min(highest([cursor]), handed_out))):
            report.problems.append(f"the account of subscription `{name}` does not balance")
        if cursor.watermark > handed_out:
            report.problems.append(f"the cursor of subscription `{name}` is ahead of the end")
    ends = sorted(gaps, key=lambda gap: gap.first)
    if any(one.end > other.first for one, other in pairwise(ends)):
        report.problems.append("gaps overlap")
    return Checked(sink, report, found, damaged)
