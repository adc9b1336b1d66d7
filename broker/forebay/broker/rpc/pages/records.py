"""Records one by one, for calls with plain messages."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from google.protobuf.timestamp_pb2 import Timestamp

from forebay.broker.core.dead_letters.letters import PlainRecord
from forebay.broker.core.errors import InvalidPage
from forebay.broker.core.partition.pages import Body, Encoding, Entry, Incoming
from forebay.broker.core.partition.ranges import Range
from forebay.broker.rpc.convert import timestamp, timestamp_us
from forebay.broker.rpc.pages.plain_records import records_at
from forebay.broker.rpc.pages.rows import UNREADABLE_HEADER, SchemaOf, json_rows, version_header
from forebay.page.encoding import encode_columns
from forebay.page.format import PAGE_BYTES_MAX, PAGE_RECORDS_MAX, TIMES_US
from forebay.v1 import record_pb2


@dataclass(frozen=True, slots=True)
class Placed:
    """Record with its place."""

    offset: int
    accepted_at_us: int
    record: record_pb2.Record

    @property
    def size(self) -> int:
        """Approximate bytes in an answer, without the headers of a row."""
        return self.record.ByteSize() + 64


def pages_of(records: Sequence[record_pb2.Record], partition: int, traceparent: str = "") -> Iterator[Incoming]:
    """Return records of one partition as pages, each within the bounds of a page."""
    first = size = 0
    for index, record in enumerate(records):
        length = _size(record)
        full = index > first and (size + length > PAGE_BYTES_MAX or index - first >= PAGE_RECORDS_MAX)
        if full:
            yield _page(records[first:index], partition, traceparent)
            first, size = index, 0
        size += length
    if first < len(records):
        yield _page(records[first:], partition, traceparent)


def _size(record: record_pb2.Record) -> int:
    """Return a lower bound of a record's bytes in a body: content, column entries and header frames."""
    return record.ByteSize() + 24


def _page(records: Sequence[record_pb2.Record], partition: int, traceparent: str) -> Incoming:
    body = encode_columns(
        [record.value for record in records],
        [record.key if record.HasField("key") else None for record in records],
        [_event_time_us(record.event_time) if record.HasField("event_time") else None for record in records],
        [tuple((header.key, header.value) for header in record.headers) for record in records],
    )
    return Incoming(partition, Encoding.RECORDS, len(records), zlib.crc32(body), body, traceparent)


def _event_time_us(time: Timestamp) -> int:
    first, last = TIMES_US
    microseconds = timestamp_us(time)
    if not first <= microseconds <= last:
        raise InvalidPage("event_time is outside of the years 1 to 9999", field="records.event_time")
    return microseconds


def placed(entry: Entry, body: Body, within: Range, schema_of: SchemaOf) -> Iterator[Placed]:
    """Return the records of a page with offsets in ``within``. Raises as ``rows``."""
    if entry.encoding == Encoding.ARROW:
        yield from _placed_rows(entry, body, within, schema_of)
        return
    for offset, plain, _ in records_at(body.data, entry.base, [within]):
        yield Placed(offset, entry.part_of(offset).accepted_at_us, record_message(plain))


def record_message(plain: PlainRecord) -> record_pb2.Record:
    """Return a record for the wire."""
    record = record_pb2.Record(
        value=plain.value,
        headers=[record_pb2.Header(key=name, value=value) for name, value in plain.headers],
    )
    if plain.key is not None:
        record.key = plain.key
    if plain.event_time_us is not None:
        record.event_time.CopyFrom(timestamp(plain.event_time_us))
    return record


def _placed_rows(entry: Entry, body: Body, within: Range, schema_of: SchemaOf) -> Iterator[Placed]:
    """Return the rows; for an undecodable one an empty record with the reason in a header."""
    of_page: record_pb2.Header | None = None
    for row in json_rows(entry, body, [within], schema_of, whole_page_may_be_unreadable=True):
        if row.unreadable:
            header = record_pb2.Header(key=UNREADABLE_HEADER, value=row.unreadable.encode())
            record = record_pb2.Record(headers=[header])
        else:
            if of_page is None:
                name, version = version_header(body)
                of_page = record_pb2.Header(key=name, value=version)
            record = record_pb2.Record(value=row.value, headers=[of_page])
        yield Placed(row.offset, entry.part_of(row.offset).accepted_at_us, record)
