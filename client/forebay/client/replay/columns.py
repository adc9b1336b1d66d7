"""Conversion of stored pages to columns and records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from itertools import chain, islice, pairwise, repeat
from typing import Any, Final

from forebay.client.errors import InvalidPage, PageCorrupt, SchemaNotFound
from forebay.client.replay.row_columns import RowColumns
from forebay.client.replay.rows import PageRows
from forebay.client.values import convert
from forebay.client.values.records import (
    DropReason,
    Encoding,
    Gap,
    ReplayedRecord,
    StoredPage,
)
from forebay.page.columns import Columns, columns_of
from forebay.page.crc32 import crc32
from forebay.page.format import MalformedPage
from forebay.page.runs import Run, runs_of
from forebay.v1 import record_pb2

_REPLAYED: Final = partial(tuple.__new__, ReplayedRecord)
"""Builds a record of its fields, in C."""


def checked_body(page: record_pb2.StoredPage) -> bytes:
    """Return the verified body, which protobuf copies on each access; raises ``PageCorrupt``."""
    body = page.body
    found = crc32(body)
    if found != page.crc32:
        facts = {"stated": f"{page.crc32:08x}", "found": f"{found:08x}", "base_offset": str(page.base_offset)}
        raise PageCorrupt(f"the page at offset {page.base_offset} fails its checksum", facts=facts)
    return body


def runs(page: StoredPage) -> list[Run]:
    """Return all runs of a page. Raises ``InvalidPage`` for a body that is not a ``RecordPage``."""
    if page.encoding is not Encoding.RECORDS:
        raise InvalidPage(f"this version cannot decode pages with encoding {page.encoding}")
    try:
        found = runs_of(page.body)
    except MalformedPage as error:
        raise InvalidPage(f"the page at offset {page.base_offset} is not a RecordPage: {error}") from error
    if sum(map(len, found)) != page.record_count:
        raise InvalidPage(f"the page at offset {page.base_offset} does not have the number of records that it states")
    return found


def decode_columns(page: StoredPage) -> Columns:
    """Return the requested records of a page as columns.

    Raises ``InvalidPage`` if one of them cannot be decoded.
    """
    columns = wanted_columns(page, whole_columns(page))
    if columns.unreadable:
        first = min(columns.unreadable)
        raise unreadable_error(page, page.first_offset + first, columns.unreadable[first])
    return columns


def unreadable_error(page: StoredPage, offset: int, reason: str) -> InvalidPage:
    """Return the error for a record that cannot be decoded."""
    facts = {"partition": str(page.partition), "offset": str(offset), "base_offset": str(page.base_offset)}
    return InvalidPage(f"offset {offset} of partition {page.partition} cannot be decoded: {reason}", facts=facts)


def whole_columns(page: StoredPage) -> Columns:
    """Return all records of a page as columns, including the positions that cannot be decoded."""
    columns = lazy_columns(page)
    if isinstance(columns, Columns):
        return columns
    try:
        return columns.made()
    except InvalidPage as broken:
        return _unreadable(page, broken)


def lazy_columns(page: StoredPage) -> Columns | RowColumns:
    """Return all records of a page as columns; the JSON of rows is made when it is asked for."""
    try:
        if page.encoding is Encoding.ARROW:
            rows = PageRows(page)
            return RowColumns(rows, 0, len(rows))
        return columns_of(runs(page))
    except (InvalidPage, MalformedPage, SchemaNotFound) as broken:
        return _unreadable(page, broken)


def _unreadable(page: StoredPage, broken: Exception) -> Columns:
    count = page.record_count
    return Columns([b""] * count, None, None, None, dict.fromkeys(range(count), str(broken)))


def wanted_columns(page: StoredPage, columns: Columns) -> Columns:
    """Return the requested part of a page's columns."""
    first = page.first_offset - page.base_offset
    end = page.last_offset - page.base_offset + 1
    if first == 0 and end == page.record_count:
        return columns
    return columns.part(first, end)


def decode_records(page: StoredPage) -> Iterator[ReplayedRecord]:
    """Yield the requested records of a page. Raises ``InvalidPage`` at one that cannot be decoded."""
    columns = wanted_columns(page, whole_columns(page))
    readable = min(columns.unreadable, default=len(columns))
    yield from islice(_records(page, columns), readable)
    if columns.unreadable:
        raise unreadable_error(page, page.first_offset + readable, columns.unreadable[readable])


def _records(page: StoredPage, columns: Columns) -> Iterator[ReplayedRecord]:
    return map(_REPLAYED, zip(repeat(page.partition), *record_fields(page, columns), strict=False))


def records_and_gaps(page: StoredPage) -> Iterator[ReplayedRecord | Gap]:
    """Yield the requested records of a page, and one gap per range that cannot be decoded."""
    columns = wanted_columns(page, whole_columns(page))
    records = _records(page, columns)
    if not columns.unreadable:
        yield from records
        return
    gap: Gap | None = None
    for index, record in enumerate(records):
        why = columns.unreadable.get(index)
        if gap is not None and gap.detail != why:
            yield gap
            gap = None
        if why is None:
            yield record
            continue
        first = record.offset if gap is None else gap.first_offset
        gap = Gap(page.partition, first, record.offset, DropReason.UNREADABLE, record.accepted_at, detail=why)
    if gap is not None:
        yield gap


def record_fields(page: StoredPage, columns: Columns | RowColumns) -> tuple[Iterable[Any], ...]:
    """Return the fields of the requested records, from the offset to the acceptance time.

    They are iterables, from which records are built without work per field in Python.
    """
    times = columns.event_times_us
    return (
        range(page.first_offset, page.first_offset + len(columns)),
        repeat(None) if columns.keys is None else columns.keys,
        columns.values,
        repeat(()) if columns.headers is None else columns.headers,
        repeat(None) if times is None else convert.from_us_each(times),
        _accepted_at(page),
    )


def _accepted_at(page: StoredPage) -> Iterator[datetime]:
    """Iterate over the acceptance times of the requested records, and on."""
    parts = page.parts
    place = max(0, bisect_right([part.first_offset for part in parts], page.first_offset) - 1)
    offset = page.first_offset
    return chain(
        chain.from_iterable(
            repeat(part.accepted_at, following.first_offset - max(offset, part.first_offset))
            for part, following in pairwise(parts[place:])
        ),
        repeat(parts[-1].accepted_at if parts else convert.EPOCH),
    )
