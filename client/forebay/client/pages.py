"""Encodes records into the body of a page, and a page into the frame that goes over the wire.

A body is a ``RecordPage`` with one ``RecordRun``: columns, not messages. Its packed lengths are, byte for byte, an
array of little-endian 32-bit numbers, so a run is put together from whole columns instead of record by record:

    RecordPage   0a <length of the run> run
    RecordRun    0a <length> value lengths   12 <length> values
                 1a <length> key lengths     22 <length> keys
                 2a <length> event times     32 <length> Headers ... one per record

What is empty is left out. The result equals protobuf's own serialisation; the tests compare the two.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from forebay.client import convert
from forebay.client.checksum import crc32
from forebay.client.errors import InvalidPage
from forebay.client.settings import PAGE_RECORDS_MAX
from forebay.client.values import NO_EVENT_TIME, Encoding, HeadersLike
from forebay.v1 import record_pb2

Buffer = bytes | bytearray | memoryview
NO_KEY: Final = 0xFFFF_FFFF
"""Stands for "no key" in a column of key lengths."""

ENCODINGS: Final = {
    Encoding.RECORDS: int(record_pb2.ENCODING_RECORDS),
    Encoding.ARROW: int(record_pb2.ENCODING_ARROW),
}


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """A body that is ready to be sent."""

    body: bytes
    """The records, encoded."""

    record_count: int
    """How many they are, 1 to 65,536."""

    encoding: Encoding = Encoding.RECORDS

    crc32: int = -1
    """CRC-32 of ``body``; computed when it is not given."""

    def __post_init__(self) -> None:
        """Compute the checksum."""
        if not 1 <= self.record_count <= PAGE_RECORDS_MAX:
            raise InvalidPage(f"record_count = {self.record_count}: must be 1 to {PAGE_RECORDS_MAX}")
        if self.crc32 == -1:
            object.__setattr__(self, "crc32", crc32(self.body))


def varint(number: int) -> bytes:
    """Return protobuf's encoding of a non-negative integer."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _u32(numbers: Sequence[int] | Buffer) -> Buffer:
    """Return little-endian 32-bit numbers; bytes are taken as being that already."""
    if isinstance(numbers, bytes | bytearray | memoryview):
        return numbers
    column = numbers if isinstance(numbers, array) and numbers.typecode == "I" else array("I", numbers)
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()


def lengths_of(values: Sequence[bytes]) -> array[int]:
    """Return the length of each value."""
    lengths = list(map(len, values))
    if lengths and lengths.count(lengths[0]) == len(lengths):
        return array("I", lengths[:1]) * len(lengths)
    return array("I", lengths)


def is_one_size(lengths: array[int]) -> bool:
    """Return whether there are values, all of one length: a comparison of memory."""
    return bool(lengths) and lengths[1:] == lengths[:-1]


def total_of(lengths: array[int]) -> int:
    """Return the sum of the lengths: a product where all are the same."""
    return len(lengths) * lengths[0] if is_one_size(lengths) else sum(lengths)


def _i64(numbers: Sequence[int]) -> bytes:
    column = array("q", numbers)
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()


def _size(chunk: Buffer) -> int:
    return chunk.nbytes if isinstance(chunk, memoryview) else len(chunk)


class _Run:
    """A run under construction. Content is joined once, at the end."""

    def __init__(self) -> None:
        self._chunks: list[Buffer] = []
        self._size = 0

    def add(self, tag: bytes, size: int, *content: Buffer) -> None:
        """Append a length-delimited field whose content is ``size`` bytes."""
        length = varint(size)
        self._chunks += (tag, length)
        self._chunks += content
        self._size += len(tag) + len(length) + size

    def page(self, record_count: int) -> EncodedPage:
        """Return the page with this one run; raises ``InvalidPage`` for content that is not bytes."""
        head = b"\x0a" + varint(self._size)
        try:
            body = b"".join((head, *self._chunks))
        except TypeError as failure:
            raise InvalidPage(f"keys and values must be bytes: {failure}") from failure
        if len(body) != len(head) + self._size:
            raise InvalidPage("the columns are not as long as they say")
        return EncodedPage(body, record_count)


def encode_joined(value_lengths: Sequence[int] | Buffer, values: Buffer) -> EncodedPage:
    """Return a page of records that have only a value, from columns that are joined already.

    ``value_lengths``: one number per record, or the same as little-endian 32-bit bytes (4 per record).
    ``values``: all values without separators, as long as the sum of the lengths. Their sum is not compared.
    """
    lengths = _u32(value_lengths)
    size = _size(lengths)
    if size % 4:
        raise InvalidPage(f"value_lengths has {size} bytes: must be 4 per record")
    run = _Run()
    run.add(b"\x0a", size, lengths)
    if _size(values):
        run.add(b"\x12", _size(values), values)
    return run.page(size // 4)


def encode_columns(
    values: Sequence[bytes],
    keys: Sequence[bytes | None] | None = None,
    event_times_us: Sequence[int | None] | None = None,
    headers: Sequence[HeadersLike | None] | None = None,
    *,
    value_lengths: array[int] | None = None,
) -> EncodedPage:
    """Return a page of records given as columns of equal length; raises ``InvalidPage`` when they are not.

    ``event_times_us``: microseconds since 1970 UTC, ``None`` for a record without.
    ``value_lengths``: the lengths of the values, from ``lengths_of``, where they are known already.
    """
    count = len(values)
    for name, column in (("keys", keys), ("event_times_us", event_times_us), ("headers", headers)):
        if column is not None and len(column) != count:
            raise InvalidPage(f"{name} has {len(column)} entries for {count} values")
    run = _Run()
    lengths = lengths_of(values) if value_lengths is None else value_lengths
    run.add(b"\x0a", 4 * count, _u32(lengths))
    values_size = total_of(lengths)
    if values_size:
        run.add(b"\x12", values_size, *values)
    if keys is not None and any(key is not None for key in keys):
        key_lengths = _u32([NO_KEY if key is None else len(key) for key in keys])
        run.add(b"\x1a", 4 * count, key_lengths)
        joined = b"".join([key for key in keys if key])
        if joined:
            run.add(b"\x22", len(joined), joined)
    if event_times_us is not None and any(time is not None for time in event_times_us):
        times = _i64([NO_EVENT_TIME if time is None else time for time in event_times_us])
        run.add(b"\x2a", 8 * count, times)
    if headers is not None and any(headers):
        for entries in headers:
            encoded = _headers_message(entries)
            run.add(b"\x32", len(encoded), encoded)
    return run.page(count)


def _headers_message(entries: HeadersLike | None) -> bytes:
    if not entries:
        return b""
    pairs = convert.headers(entries)
    message = record_pb2.Headers(entries=[record_pb2.Header(key=name, value=value) for name, value in pairs])
    return message.SerializeToString()


def event_time_us(event_time: datetime | int | None) -> int | None:
    """Return an event time as it stands in a column."""
    return None if event_time is None else convert.to_us(event_time)


def _number(tag: bytes, number: int) -> bytes:
    return tag + varint(number) if number else b""


def frame_publish_page(partition: int, sequence: int, page: EncodedPage, traceparent: str) -> bytes:
    """Return a serialised ``PublishRequest`` with a page, copying the body once.

    PublishRequest   12 <length> PublishPage
    PublishPage      08 partition   10 sequence   18 encoding   20 record_count   2d crc32   32 body
                     3a traceparent
    """
    trace = traceparent.encode("ascii")
    head = b"".join(
        (
            _number(b"\x08", partition),
            _number(b"\x10", sequence),
            b"\x18" + varint(ENCODINGS[page.encoding]),
            _number(b"\x20", page.record_count),
            b"\x2d" + page.crc32.to_bytes(4, "little") if page.crc32 else b"",
            b"\x32" + varint(len(page.body)) if page.body else b"",
        )
    )
    tail = b"\x3a" + varint(len(trace)) + trace if trace else b""
    size = len(head) + len(page.body) + len(tail)
    return b"".join((b"\x12", varint(size), head, page.body, tail))
