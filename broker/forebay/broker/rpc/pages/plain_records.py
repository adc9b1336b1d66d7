"""Single records of stored pages, as the broker handles them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forebay.broker.core.dead_letters.letters import PlainRecord
from forebay.broker.core.partition.ranges import Range
from forebay.page import columns
from forebay.page.format import Bytes


def records_at(
    body: Bytes, base: int, wanted: Sequence[Range], *, headers_max: int | None = None
) -> Iterator[tuple[int, PlainRecord, int]]:
    """Yield offset, record and omitted headers of the ``wanted`` records of a page at ``base``.

    ``wanted`` is sorted and disjoint. Headers are omitted because of ``headers_max``.
    """
    inside = [(part.first - base, part.end - base) for part in wanted]
    for index, record in columns.records_at(body, inside, headers_max=headers_max):
        plain = PlainRecord(record.value, record.key, record.headers, record.event_time_us)
        yield base + index, plain, record.headers_omitted
