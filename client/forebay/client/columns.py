"""Decodes pages into columns and records.

The usual page, with few runs, is taken apart by its tags: the columns are slices of the body and no record is looked
at. Whatever a writer in another language may legally do differently (fields split, out of order or unpacked) goes
through protobuf instead, so the fast way needs to know only the usual form.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate, chain, pairwise
from typing import Final

from google.protobuf.message import DecodeError

from forebay.client import convert
from forebay.client.checksum import crc32
from forebay.client.errors import InvalidPage, PageCorrupt, SchemaNotFound
from forebay.client.pages import NO_KEY, is_one_size, total_of
from forebay.client.rows import json_values
from forebay.client.values import (
    NO_EVENT_TIME,
    DropReason,
    Encoding,
    Gap,
    Headers,
    PagePart,
    ReplayedRecord,
    StoredPage,
)
from forebay.v1 import record_pb2

RUN_TAG: Final = 0x0A
COLUMN_TAGS: Final = (0x0A, 0x12, 0x1A, 0x22, 0x2A)
ROW_VALUES: Final = 64
"""Values of one size that are cut at a time."""
HEADERS_TAG: Final = 0x32
EMPTY: Final = memoryview(b"")


@dataclass(frozen=True, slots=True)
class Run:
    """The columns of a run, as slices of the body."""

    value_lengths: memoryview
    """Little-endian 32-bit numbers, one per record."""
    values: memoryview
    key_lengths: memoryview
    """As ``value_lengths``, 4294967295 for no key; empty when no record has one."""
    keys: memoryview
    event_times_us: memoryview
    """Little-endian 64-bit numbers, -2**63 for none; empty when no record has one."""
    headers: tuple[memoryview, ...]
    """A serialised ``Headers`` per record; empty when no record has any."""

    def __len__(self) -> int:
        """Return the number of records."""
        return self.value_lengths.nbytes // 4


@dataclass(frozen=True, slots=True)
class Columns:
    """Records as columns of equal length."""

    values: list[bytes]
    keys: list[bytes | None] | None
    """``None`` when no record has a key."""
    event_times_us: list[int | None] | None
    """Microseconds since 1970 UTC; ``None`` when no record has one."""
    headers: list[Headers] | None
    """``None`` when no record has any."""
    unreadable: Mapping[int, str] = field(default_factory=dict)
    """Places of records that cannot be decoded, each with why; their values are empty."""

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.values)


def checked_body(page: record_pb2.StoredPage) -> bytes:
    """Return the body, which protobuf copies each time; raises ``PageCorrupt`` when it is not what was published."""
    body = page.body
    found = crc32(body)
    if found != page.crc32:
        facts = {"stated": f"{page.crc32:08x}", "found": f"{found:08x}", "base_offset": str(page.base_offset)}
        raise PageCorrupt(f"the page at offset {page.base_offset} fails its checksum", facts=facts)
    return body


def runs(page: StoredPage) -> list[Run]:
    """Return the runs of a page, all of its records; raises ``InvalidPage`` for a body that is none."""
    if page.encoding is not Encoding.RECORDS:
        raise InvalidPage(f"this version cannot decode pages with encoding {page.encoding}")
    try:
        found = _usual_runs(memoryview(page.body))
        if found is None:
            found = [_any_run(run) for run in record_pb2.RecordPage.FromString(page.body).runs]
    except (DecodeError, IndexError) as failure:
        raise InvalidPage(f"the page at offset {page.base_offset} is not a RecordPage") from failure
    if sum(map(len, found)) != page.record_count:
        raise InvalidPage(f"the page at offset {page.base_offset} does not hold the records that it states")
    return found


def decode_columns(page: StoredPage) -> Columns:
    """Return the wanted records of a page as columns. Raises ``InvalidPage`` where one of them cannot be decoded."""
    columns = wanted_columns(page, whole_columns(page))
    if columns.unreadable:
        first = min(columns.unreadable)
        raise unreadable_error(page, page.first_offset + first, columns.unreadable[first])
    return columns


def unreadable_error(page: StoredPage, offset: int, reason: str) -> InvalidPage:
    """Return what is raised for a record that cannot be decoded."""
    facts = {"partition": str(page.partition), "offset": str(offset), "base_offset": str(page.base_offset)}
    return InvalidPage(f"offset {offset} of partition {page.partition} cannot be decoded: {reason}", facts=facts)


def whole_columns(page: StoredPage) -> Columns:
    """Return all records of a page as columns, wanted or not, and which of them cannot be decoded: perhaps all."""
    try:
        if page.encoding is Encoding.ARROW:
            values, header, unreadable = json_values(page)
            return Columns(values, None, None, [(header,)] * len(values), unreadable)
        every = [_columns(run) for run in runs(page)]
    except (InvalidPage, SchemaNotFound) as broken:
        count = page.record_count
        return Columns([b""] * count, None, None, None, dict.fromkeys(range(count), str(broken)))
    return every[0] if len(every) == 1 else _join(every)


def wanted_columns(page: StoredPage, columns: Columns) -> Columns:
    """Return the wanted records of a page, given all of it."""
    first = page.first_offset - page.base_offset
    end = page.last_offset - page.base_offset + 1
    if first == 0 and end == page.record_count:
        return columns
    return Columns(
        columns.values[first:end],
        None if columns.keys is None else columns.keys[first:end],
        None if columns.event_times_us is None else columns.event_times_us[first:end],
        None if columns.headers is None else columns.headers[first:end],
        {place - first: why for place, why in columns.unreadable.items() if first <= place < end},
    )


def decode_records(page: StoredPage) -> Iterator[ReplayedRecord]:
    """Yield the wanted records of a page. Raises ``InvalidPage`` at the first one that cannot be decoded."""
    for found in records_and_gaps(page):
        if isinstance(found, Gap):
            raise unreadable_error(page, found.first_offset, found.detail)
        yield found


def records_and_gaps(page: StoredPage) -> Iterator[ReplayedRecord | Gap]:
    """Yield the wanted records of a page, and a gap for consecutive ones that cannot be decoded."""
    columns = wanted_columns(page, whole_columns(page))
    accepted_at = AcceptedAt(page.parts)
    gap: Gap | None = None
    for index, value in enumerate(columns.values):
        offset = page.first_offset + index
        why = columns.unreadable.get(index)
        if gap is not None and gap.detail != why:
            yield gap
            gap = None
        if why is not None:
            at, first = accepted_at.of(offset), offset if gap is None else gap.first_offset
            gap = Gap(page.partition, first, offset, DropReason.UNREADABLE, at, detail=why)
            continue
        yield ReplayedRecord(
            page.partition,
            offset,
            None if columns.keys is None else columns.keys[index],
            value,
            () if columns.headers is None else columns.headers[index],
            event_time(columns, index),
            accepted_at.of(offset),
        )
    if gap is not None:
        yield gap


def event_time(columns: Columns, index: int) -> datetime | None:
    """Return the event time of a record."""
    microseconds = None if columns.event_times_us is None else columns.event_times_us[index]
    return None if microseconds is None else convert.from_us(microseconds)


class AcceptedAt:
    """Finds when an offset of a page was accepted. Offsets are asked for in rising order."""

    def __init__(self, parts: tuple[PagePart, ...]) -> None:
        self._parts = parts
        self._starts = [part.first_offset for part in parts]
        self._until = -1
        self._at = parts[0].accepted_at if parts else convert.EPOCH

    def of(self, offset: int) -> datetime:
        """Return the time at which ``offset`` was accepted."""
        if offset >= self._until and self._parts:
            index = max(0, bisect_right(self._starts, offset) - 1)
            self._at = self._parts[index].accepted_at
            following = index + 1
            self._until = self._starts[following] if following < len(self._starts) else sys.maxsize
        return self._at


def _usual_runs(body: memoryview) -> list[Run] | None:
    """Return the runs of a body in the usual form, ``None`` for any other; raises ``IndexError`` when cut off."""
    found = []
    position = 0
    size = len(body)
    while position < size:
        if body[position] != RUN_TAG:
            return None
        start, position = _extent(body, position + 1)
        run = _usual_run(body[start:position])
        if run is None:
            return None
        found.append(run)
    return found


def _usual_run(body: memoryview) -> Run | None:
    columns = [EMPTY] * len(COLUMN_TAGS)
    headers: list[memoryview] = []
    position = 0
    size = len(body)
    last_tag = 0
    while position < size:
        tag = body[position]
        if tag < last_tag or (tag == last_tag and tag != HEADERS_TAG):
            return None
        last_tag = tag
        if tag == HEADERS_TAG:
            start, position = _extent(body, position + 1)
            headers.append(body[start:position])
        elif tag in COLUMN_TAGS:
            start, position = _extent(body, position + 1)
            columns[(tag >> 3) - 1] = body[start:position]
        else:
            return None
    values, data, keys, key_data, times = columns
    return Run(values, data, keys, key_data, times, tuple(headers))


def _extent(body: memoryview, position: int) -> tuple[int, int]:
    """Return start and end of the length-delimited content whose length stands at ``position``."""
    length = shift = 0
    while True:
        byte = body[position]
        position += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if position + length > len(body):
        raise IndexError("cut off")
    return position, position + length


def _any_run(run: record_pb2.RecordRun) -> Run:
    return Run(
        memoryview(struct.pack(f"<{len(run.value_lengths)}I", *run.value_lengths)),
        memoryview(run.values),
        memoryview(struct.pack(f"<{len(run.key_lengths)}I", *run.key_lengths)),
        memoryview(run.keys),
        memoryview(struct.pack(f"<{len(run.event_times_us)}q", *run.event_times_us)),
        tuple(memoryview(entries.SerializeToString()) for entries in run.headers),
    )


def _numbers(kind: str, column: memoryview) -> array[int]:
    numbers = array(kind)
    numbers.frombytes(column)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _columns(run: Run) -> Columns:
    count = len(run)
    if run.value_lengths.nbytes % 4 or run.key_lengths.nbytes not in {0, 4 * count}:
        raise InvalidPage("a run's lengths do not go together")
    if run.event_times_us.nbytes not in {0, 8 * count} or len(run.headers) not in {0, count}:
        raise InvalidPage("a run's columns do not go together")
    return Columns(
        _values(_numbers("I", run.value_lengths), run.values),
        _keys(_numbers("I", run.key_lengths), bytes(run.keys)) if run.key_lengths else None,
        [None if time == NO_EVENT_TIME else time for time in _numbers("q", run.event_times_us)]
        if run.event_times_us
        else None,
        [_headers(entries) for entries in run.headers] if run.headers else None,
    )


def _values(lengths: array[int], column: memoryview) -> list[bytes]:
    if total_of(lengths) != column.nbytes:
        raise InvalidPage("a run's values are not as long as its lengths say")
    if is_one_size(lengths) and lengths[0]:
        return _of_one_size(lengths[0], column)
    joined = bytes(column)
    return [joined[start:end] for start, end in pairwise(accumulate(lengths, initial=0))]


def _of_one_size(size: int, column: memoryview) -> list[bytes]:
    """Cut a column whose values have one size: many at a time, and the rest one by one."""
    row_bytes = size * ROW_VALUES
    whole = column.nbytes // row_bytes * row_bytes
    values: list[bytes] = []
    if whole:
        values.extend(chain.from_iterable(struct.iter_unpack(f"{size}s" * ROW_VALUES, column[:whole])))
    values.extend(value for (value,) in struct.iter_unpack(f"{size}s", column[whole:]))
    return values


def _keys(lengths: array[int], joined: bytes) -> list[bytes | None]:
    keys: list[bytes | None] = []
    position = 0
    for length in lengths:
        if length == NO_KEY:
            keys.append(None)
            continue
        keys.append(joined[position : position + length])
        position += length
    if position != len(joined):
        raise InvalidPage("a run's keys are not as long as its lengths say")
    return keys


def _headers(entries: memoryview) -> Headers:
    if not entries:
        return ()
    try:
        message = record_pb2.Headers.FromString(bytes(entries))
    except DecodeError as failure:
        raise InvalidPage("a record's headers are not Headers") from failure
    return tuple((header.key, header.value) for header in message.entries)


def _join(every: list[Columns]) -> Columns:
    """Return several runs as one; a column that only some have is filled up for the others."""
    return Columns(
        [value for columns in every for value in columns.values],
        [key for columns in every for key in columns.keys or [None] * len(columns)]
        if any(columns.keys is not None for columns in every)
        else None,
        [time for columns in every for time in columns.event_times_us or [None] * len(columns)]
        if any(columns.event_times_us is not None for columns in every)
        else None,
        [entries for columns in every for entries in columns.headers or [()] * len(columns)]
        if any(columns.headers is not None for columns in every)
        else None,
    )
