"""Which pages are too old: decided by their age stamps alone, on the broker's own clock.

A page goes as a whole, and what somebody has in flight stays for as long as he has it. Age stamps rise within a
partition, so the first page that is young enough ends the search.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from forebay.broker.core.partition.pages import Entry


def expired(entries: Iterable[Entry], born_before_us: int, in_flight: Collection[int]) -> list[Entry]:
    """Those of the oldest entries, by offset, that were accepted before a time and are in nobody's flight.

    ``in_flight`` holds the base offsets of the pages in flight.
    """
    old: list[Entry] = []
    for entry in entries:
        if entry.age_us >= born_before_us:
            break
        if entry.base not in in_flight:
            old.append(entry)
    return old
