"""Pages of one partition by their numbers, with index entries or without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from forebay.broker.storage.journal import Journal
from forebay.broker.storage.records.pages.page import BULK_PAGE, SMALL_PAGE, bulk_from
from forebay.broker.storage.scans import bulk_keys_all
from forebay.broker.storage.store.contract import Family

_VALUES: Final = 10
"""Pages read at once."""


def pages_between(
    journal: Journal, sink: int, partition: int, low: int, high: int
) -> Iterator[tuple[int, bool, bytes]]:
    """Yield (number, is bulk, value) of the partition's pages with numbers in ``(low, high)``."""
    for key in bulk_keys_all(journal.store, bulk_from(low + 1), bulk_from(high)):
        number, *owner = BULK_PAGE.parts(key)
        if owner == [sink, partition]:
            [value] = journal.get(Family.BULK, [key])
            if value is not None:
                yield number, True, value
    first, end = SMALL_PAGE.between(sink, partition, first=low + 1, end=high)
    while first < end and (slice_ := journal.scan(Family.SMALL, first, end, _VALUES)):
        for key, value in slice_:
            yield SMALL_PAGE.parts(key)[2], False, value
        first = slice_[-1][0] + b"\0"
