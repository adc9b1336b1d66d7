"""Encoding of records as a body: byte for byte the output of protobuf, joined from whole columns."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from forebay.page import numbers
from forebay.page.columns import Headers
from forebay.page.format import NO_KEY, NO_TIME, Buffer, MalformedPage
from forebay.page.varint import encoded
from forebay.v1 import record_pb2


def encode_joined(value_lengths: Sequence[int] | Buffer, values: Buffer) -> tuple[bytes, int]:
    """Return the body and the number of records that have a value only, from joined columns.

    ``value_lengths``: one number per record, or the same as little-endian 32-bit bytes (4 per record). ``values``: all
    values without separators, as long as the sum of the lengths, which is not computed. Raises ``MalformedPage``.
    """
    if isinstance(value_lengths, bytes | bytearray | memoryview):
        lengths: Buffer = value_lengths
    else:
        lengths = numbers.written(value_lengths, "I")
    size = _size(lengths)
    if size % 4:
        raise MalformedPage(f"value_lengths has {size} bytes: must be 4 per record")
    run = _RunBody()
    run.add(b"\x0a", size, lengths)
    if _size(values):
        run.add(b"\x12", _size(values), values)
    return run.body(), size // 4


def encode_columns(
    values: Sequence[bytes],
    keys: Sequence[bytes | None] | None = None,
    event_times_us: Sequence[int | None] | None = None,
    headers: Sequence[Headers] | None = None,
    *,
    value_lengths: array[int] | None = None,
) -> bytes:
    """Return the body of records that are given as columns of equal length.

    ``event_times_us``: microseconds since 1970 UTC, ``None`` for a record without. ``value_lengths``: the lengths of
    the values, from ``numbers.lengths_of``, where they are known already. Raises ``MalformedPage`` where the columns
    differ in length.
    """
    count = len(values)
    for name, column in (("keys", keys), ("event_times_us", event_times_us), ("headers", headers)):
        if column is not None and len(column) != count:
            raise MalformedPage(f"{name} has {len(column)} entries for {count} values")
    run = _RunBody()
    lengths = numbers.lengths_of(values) if value_lengths is None else value_lengths
    run.add(b"\x0a", 4 * count, numbers.written(lengths, "I"))
    values_size = numbers.total_of(lengths)
    if values_size:
        run.add(b"\x12", values_size, *values)
    if keys is not None and any(key is not None for key in keys):
        run.add(b"\x1a", 4 * count, numbers.written([NO_KEY if key is None else len(key) for key in keys], "I"))
        joined = b"".join([key for key in keys if key])
        if joined:
            run.add(b"\x22", len(joined), joined)
    if event_times_us is not None and any(time is not None for time in event_times_us):
        times = numbers.written([NO_TIME if time is None else time for time in event_times_us], "q")
        run.add(b"\x2a", 8 * count, times)
    if headers is not None and any(headers):
        for entries in headers:
            content = _headers_message(entries)
            run.add(b"\x32", len(content), content)
    return run.body()


def _headers_message(entries: Headers) -> bytes:
    if not entries:
        return b""
    pairs = [record_pb2.Header(key=name, value=value) for name, value in entries]
    return record_pb2.Headers(entries=pairs).SerializeToString()


def _size(content: Buffer) -> int:
    return content.nbytes if isinstance(content, memoryview) else len(content)


class _RunBody:
    """A body with one run under construction. Content is joined once, at the end."""

    def __init__(self) -> None:
        self._chunks: list[Buffer] = []
        self._size = 0

    def add(self, tag: bytes, size: int, *content: Buffer) -> None:
        """Append a length-delimited field whose content is ``size`` bytes."""
        length = encoded(size)
        self._chunks += (tag, length)
        self._chunks += content
        self._size += len(tag) + len(length) + size

    def body(self) -> bytes:
        """Return the body. Raises ``MalformedPage`` for content that is not bytes."""
        head = b"\x0a" + encoded(self._size)
        try:
            body = b"".join((head, *self._chunks))
        except TypeError as failure:
            raise MalformedPage(f"keys and values must be bytes: {failure}") from failure
        if len(body) != len(head) + self._size:
            raise MalformedPage("the columns are not as long as stated")
        return body
