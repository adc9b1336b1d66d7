"""Pages that leave the index, as runs of their numbers for the reclaim ledger."""

from __future__ import annotations

from collections.abc import Sequence

from forebay.broker.core.epochs.values import StagedPage
from forebay.broker.core.partition.pages import Entry
from forebay.broker.core.writes import Due


def due_runs(sink: int, partition: int, entries: Sequence[Entry] | Sequence[StagedPage]) -> list[Due]:
    """Return ledger entries for pages; all page numbers within a run are among them."""
    runs: list[Due] = []
    found: list[Entry | StagedPage] = [*entries]
    for entry in sorted(found, key=lambda e: (e.bulk, e.number)):
        last = runs[-1] if runs else None
        if last is not None and last.bulk == entry.bulk and last.last + 1 == entry.number:
            runs[-1] = Due(sink, partition, last.bulk, last.first, entry.number, last.size + entry.size)
        else:
            runs.append(Due(sink, partition, entry.bulk, entry.number, entry.number, entry.size))
    return runs
