"""Encoded pages: bodies with their number of records and their checksum."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from forebay.client.errors import InvalidPage
from forebay.client.values import convert
from forebay.client.values.records import Encoding, HeadersLike
from forebay.page import encoding, frames
from forebay.page.crc32 import crc32
from forebay.page.format import PAGE_RECORDS_MAX, Buffer, MalformedPage
from forebay.v1 import record_pb2

ENCODINGS: Final = {
    Encoding.RECORDS: int(record_pb2.ENCODING_RECORDS),
    Encoding.ARROW: int(record_pb2.ENCODING_ARROW),
}


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """Encoded body of a page."""

    body: bytes
    """Encoded records."""

    record_count: int
    """Number of records, 1 to 65,536."""

    encoding: Encoding = Encoding.RECORDS

    crc32: int = -1
    """CRC-32 of ``body``; computed if it is not given."""

    def __post_init__(self) -> None:
        """Validate the number of records and compute the checksum."""
        if not 1 <= self.record_count <= PAGE_RECORDS_MAX:
            raise InvalidPage(f"record_count = {self.record_count}: must be 1 to {PAGE_RECORDS_MAX}")
        if self.crc32 == -1:
            object.__setattr__(self, "crc32", crc32(self.body))


def encode_joined(value_lengths: Sequence[int] | Buffer, values: Buffer) -> EncodedPage:
    """Return a page of records that have only a value, from joined columns.

    ``value_lengths``: one number per record, or the same as little-endian 32-bit bytes (4 per record). ``values``: all
    values without separators. Their size must be the sum of the lengths, which is not computed here. Raises
    ``InvalidPage``.
    """
    try:
        body, count = encoding.encode_joined(value_lengths, values)
    except MalformedPage as error:
        raise InvalidPage(str(error)) from error
    return EncodedPage(body, count)


def encode_columns(
    values: Sequence[bytes],
    keys: Sequence[bytes | None] | None = None,
    event_times_us: Sequence[int | None] | None = None,
    headers: Sequence[HeadersLike | None] | None = None,
    *,
    value_lengths: array[int] | None = None,
) -> EncodedPage:
    """Return a page of records from columns of equal length; raises ``InvalidPage`` for others.

    ``event_times_us``: microseconds since 1970 UTC, ``None`` for a record without event time. ``value_lengths``: the
    lengths of the values if they are known.
    """
    messages = None if headers is None else [convert.headers_message(each) if each else b"" for each in headers]
    return encode_messages(values, keys, event_times_us, messages, value_lengths=value_lengths)


def encode_messages(
    values: Sequence[bytes],
    keys: Sequence[bytes | None] | None,
    event_times_us: Sequence[int | None] | None,
    headers: Sequence[bytes] | None,
    *,
    value_lengths: array[int] | None = None,
) -> EncodedPage:
    """Return a page as ``encode_columns`` does, of headers as they are in a page."""
    try:
        body = encoding.encode_messages(values, keys, event_times_us, headers, value_lengths=value_lengths)
    except MalformedPage as error:
        raise InvalidPage(str(error)) from error
    return EncodedPage(body, len(values))


def frame_publish_page(partition: int, sequence: int, page: EncodedPage, traceparent: str) -> bytes:
    """Return a serialized ``PublishRequest`` with a page."""
    return frames.publish_request(
        partition,
        sequence,
        encoding=ENCODINGS[page.encoding],
        record_count=page.record_count,
        crc32=page.crc32,
        body=page.body,
        traceparent=traceparent,
    )
