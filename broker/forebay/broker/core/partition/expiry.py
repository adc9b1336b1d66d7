"""Expiry of pages by age: decided by their age stamps alone, on the broker's own clock.

A page expires as a whole, and a page in flight stays until it is answered. Age stamps rise within a partition, so the
first page that is young enough ends the search.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from forebay.broker.core.partition.pages import Entry


def expired(entries: Iterable[Entry], born_before_us: int, in_flight: Collection[int]) -> list[Entry]:
    """Return the oldest entries, by offset, that were accepted before a time and are not in flight.

    ``in_flight`` holds the base offsets of the pages in flight.
    """
    old: list[Entry] = []
    for entry in entries:
        if entry.age_us >= born_before_us:
            break
        if entry.base not in in_flight:
            old.append(entry)
    return old
