"""Encoding of records as a body: byte for byte the output of protobuf, joined from whole columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final, cast

from forebay.page import numbers
from forebay.page.format import NO_KEY, NO_TIME, Buffer, MalformedPage
from forebay.page.header_pairs import Headers
from forebay.page.varint import encoded

_SHORT: Final = [encoded(length) for length in range(256)]
"""Encodings of short lengths."""

_HEADERS_HEADS: Final = [b"\x32" + encoded(length) for length in range(1024)]
"""Tags and lengths of the headers of one record, up to the usual size."""


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
    messages = None if headers is None else [encode_headers(entries) for entries in headers]
    return encode_messages(values, keys, event_times_us, messages, value_lengths=value_lengths)


def encode_messages(
    values: Sequence[bytes],
    keys: Sequence[bytes | None] | None,
    event_times_us: Sequence[int | None] | None,
    headers: Sequence[bytes] | None,
    *,
    value_lengths: array[int] | None = None,
) -> bytes:
    """Return the body as ``encode_columns`` does, of headers from ``encode_headers``."""
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
    if keys is not None:
        _add_keys(run, keys)
    if event_times_us is not None:
        _add_times(run, event_times_us)
    if headers is not None and any(headers):
        run.add_fields(_headers_fields(headers))
    return run.body()


def _add_keys(run: _RunBody, keys: Sequence[bytes | None]) -> None:
    """Append the columns of the keys, if a record has one."""
    if None not in keys:
        lengths, present = numbers.written(numbers.lengths_of(cast("Sequence[bytes]", keys)), "I"), keys
    else:
        present = [key for key in keys if key is not None]
        if not present:
            return
        lengths = numbers.written([NO_KEY if key is None else len(key) for key in keys], "I")
    run.add(b"\x1a", 4 * len(keys), lengths)
    joined = b"".join(cast("Sequence[bytes]", present))
    if joined:
        run.add(b"\x22", len(joined), joined)


def _add_times(run: _RunBody, times: Sequence[int | None]) -> None:
    """Append the column of the event times, if a record has one."""
    if None not in times:
        run.add(b"\x2a", 8 * len(times), numbers.written(cast("Sequence[int]", times), "q"))
    elif any(time is not None for time in times):
        column = numbers.written([NO_TIME if time is None else time for time in times], "q")
        run.add(b"\x2a", 8 * len(times), column)


def _headers_fields(headers: Sequence[bytes]) -> list[bytes]:
    """Return the fields of the headers of each record, as chunks; as one where all are equally long."""
    sizes = list(map(len, headers))
    if sizes.count(sizes[0]) == len(sizes):
        head = b"\x32" + encoded(sizes[0])
        return [head + head.join(headers)]
    if max(sizes) < len(_HEADERS_HEADS):
        return list(chain.from_iterable(zip(map(_HEADERS_HEADS.__getitem__, sizes), headers, strict=True)))
    return [b"\x32" + encoded(len(message)) + message for message in headers]


def encode_headers(pairs: Iterable[tuple[str, bytes | str]]) -> bytes:
    """Return the headers of one record as a message; a value that is text is encoded as UTF-8.

    Raises ``MalformedPage`` for a name or a value of another type, and for text that cannot be encoded.
    """
    fields: list[bytes] = []
    try:
        for name, value in pairs:
            stored = value if type(value) is bytes else _encoded_text(value)
            fields += (header_head(name, len(stored)), stored)
    except (TypeError, ValueError) as failure:
        raise MalformedPage(
            "a header must be a name that can be encoded as UTF-8, and a value, bytes or such text"
        ) from failure
    return b"".join(fields)


def header_head(name: str, value_bytes: int) -> bytes:
    """Return the bytes before the value of a header in a message of headers; the value follows as it is.

    It depends on the name and the size of the value only, so that a caller may keep it. Raises ``TypeError`` for a name
    that is not text, ``ValueError`` for text that cannot be encoded.
    """
    content = _name_field(name)
    if value_bytes:
        content += b"\x12" + _length(value_bytes)
    return b"\x0a" + _length(len(content) + value_bytes) + content


def _encoded_text(text: object) -> bytes:
    if not isinstance(text, str):
        raise TypeError(type(text).__name__)
    return text.encode()


@lru_cache(maxsize=1024)
def _name_field(name: str) -> bytes:
    """Return the field with the name of a header, which recurs from record to record."""
    content = _encoded_text(name)
    return b"\x0a" + encoded(len(content)) + content if content else b""


def _length(length: int) -> bytes:
    return _SHORT[length] if length < len(_SHORT) else encoded(length)


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

    def add_fields(self, fields: list[bytes]) -> None:
        """Append whole fields."""
        self._chunks += fields
        self._size += sum(map(len, fields))

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
