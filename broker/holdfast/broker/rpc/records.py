"""Records one by one: for calls that carry plain messages, and for people."""

from __future__ import annotations

import base64
import json
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from holdfast.broker.core.errors import InvalidPage
from holdfast.broker.core.pages import PAGE_BYTES_MAX, PAGE_RECORDS_MAX, Body, Bytes, Encoding, Entry, Incoming
from holdfast.broker.core.ranges import Range
from holdfast.broker.rpc.convert import timestamp, timestamp_us
from holdfast.broker.rpc.counting import NO_KEY, NO_TIME, TIMES_US
from holdfast.broker.rpc.rows import SchemaOf, json_rows, version_header
from holdfast.v1 import buffer_service_pb2 as pb
from holdfast.v1 import record_pb2

SHOWN_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class Placed:
    """A record and its place."""

    offset: int
    accepted_at_us: int
    record: record_pb2.Record


def pages_of(records: Sequence[record_pb2.Record], partition: int, traceparent: str = "") -> Iterator[Incoming]:
    """Records of one partition as pages, each within the bounds of a page."""
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
    """At least what a record takes of a body: its bytes, its places in the columns, a frame around its headers."""
    return record.ByteSize() + 24


def _page(records: Sequence[record_pb2.Record], partition: int, traceparent: str) -> Incoming:
    run = record_pb2.RecordRun(
        value_lengths=[len(record.value) for record in records], values=b"".join(record.value for record in records)
    )
    if any(record.HasField("key") for record in records):
        run.key_lengths.extend(len(record.key) if record.HasField("key") else NO_KEY for record in records)
        run.keys = b"".join(record.key for record in records)
    if any(record.HasField("event_time") for record in records):
        run.event_times_us.extend(
            _event_time_us(record.event_time) if record.HasField("event_time") else NO_TIME for record in records
        )
    if any(record.headers for record in records):
        run.headers.extend(record_pb2.Headers(entries=record.headers) for record in records)
    body = record_pb2.RecordPage(runs=[run]).SerializeToString()
    return Incoming(partition, Encoding.RECORDS, len(records), zlib.crc32(body), body, traceparent)


def _event_time_us(time: Timestamp) -> int:
    first, last = TIMES_US
    microseconds = timestamp_us(time)
    if not first <= microseconds <= last:
        raise InvalidPage("event_time is outside of the years 1 to 9999", field="records.event_time")
    return microseconds


def placed(entry: Entry, body: Body, within: Range, schema_of: SchemaOf) -> Iterator[Placed]:
    """The records of a page whose offsets are in ``within``; see ``rows`` for what it may raise."""
    if entry.encoding == Encoding.ARROW:
        yield from _placed_rows(entry, body, within, schema_of)
        return
    part = -1
    for index, record in enumerate(_records(body.data)):
        offset = entry.base + index
        while part + 1 < len(entry.parts) and entry.parts[part + 1].first <= offset:
            part += 1
        if within.first <= offset < within.end:
            accepted = entry.parts[part].accepted_at_us if part >= 0 else entry.accepted_at_us
            yield Placed(offset, accepted, record)


def _placed_rows(entry: Entry, body: Body, within: Range, schema_of: SchemaOf) -> Iterator[Placed]:
    rows = json_rows(entry, body, [within], schema_of)
    name, version = version_header(body)
    for offset, value in rows:
        part = bisect_right(entry.parts, offset, key=lambda each: each.first) - 1
        accepted = entry.parts[part].accepted_at_us if part >= 0 else entry.accepted_at_us
        header = record_pb2.Header(key=name, value=version)
        yield Placed(offset, accepted, record_pb2.Record(value=value, headers=[header]))


def _records(data: Bytes) -> Iterator[record_pb2.Record]:
    for run in record_pb2.RecordPage.FromString(bytes(data)).runs:
        value_at = key_at = 0
        for index, length in enumerate(run.value_lengths):
            record = record_pb2.Record(value=run.values[value_at : value_at + length])
            value_at += length
            if run.key_lengths and run.key_lengths[index] != NO_KEY:
                record.key = run.keys[key_at : key_at + run.key_lengths[index]]
                key_at += run.key_lengths[index]
            if run.event_times_us and run.event_times_us[index] != NO_TIME:
                record.event_time.CopyFrom(timestamp(run.event_times_us[index]))
            if run.headers:
                record.headers.extend(run.headers[index].entries)
            yield record


def peeked(found: Placed) -> pb.PeekedRecord:
    """A record as a person reads it best."""
    value, form = _shown(found.record.value)
    message = pb.PeekedRecord(
        offset=found.offset,
        accepted_at=timestamp(found.accepted_at_us),
        key=_text(found.record.key) if found.record.HasField("key") else "",
        value=value[:SHOWN_MAX],
        format=form,
        value_bytes=len(found.record.value),
        headers={header.key: _text(header.value) for header in found.record.headers},
    )
    if found.record.HasField("event_time"):
        message.event_time.CopyFrom(found.record.event_time)
    return message


def _shown(value: bytes) -> tuple[str, str]:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value[:SHOWN_MAX]).decode(), "base64"
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text, "text"
    return text, "json"


def _text(value: bytes) -> str:
    try:
        return value.decode()[:SHOWN_MAX]
    except UnicodeDecodeError:
        return base64.b64encode(value[:SHOWN_MAX]).decode()[:SHOWN_MAX]
