"""Size of decoded rows, computed from their messages before decoding.

A compressed buffer states how many bytes it becomes, and Arrow takes that much memory before it looks: a page of a few
hundred bytes may ask for a terabyte. So what is stated is added up first, from the messages' own descriptions, which
pyarrow checks but does not show:

    Message           1 kind of header   2 header
    DictionaryBatch   1 RecordBatch      2 is a delta
    Schema            0 byte order, 1 if the most significant byte is the first
    RecordBatch       1 (length, nulls) of each array   2 (offset, length) of each buffer   3 compression

These are FlatBuffers tables: a table begins with the distance back to the list of the places of its fields.
"""

from __future__ import annotations

import struct
import sys
from typing import Final

import pyarrow as pa

EXPANDED_BYTES_MAX: Final = 64 << 20
"""Maximum bytes of a page's decoded rows; an element adds one, because nulls may take none."""
_DICTIONARY: Final = 2
_ROWS: Final = 3
_OLD_COMPRESSION: Final = b"ARROW:experimental_compression"
UNREADABLE: Final = (
    pa.ArrowException,
    *(ValueError, TypeError, ArithmeticError, LookupError, RuntimeError),
    *(BufferError, EOFError, OSError, MemoryError, struct.error),
)
"""Exceptions of pyarrow and its callers for damaged or hostile bytes."""


class RowsUnreadable(ValueError):
    """Bytes that are not rows of their stated schema, or that expand beyond the limit."""


def check_expanded(size: int) -> None:
    """Raise `RowsUnreadable` for rows that expand to more than ``EXPANDED_BYTES_MAX``."""
    if size > EXPANDED_BYTES_MAX:
        raise RowsUnreadable(f"they become {size} bytes, and at most {EXPANDED_BYTES_MAX} are read")


def expanded_bytes(messages: bytes | memoryview) -> int:
    """Return the size of decoded messages, with dictionaries as they are; nothing is decompressed.

    Raises `RowsUnreadable` for what is no message, and for dictionaries that continue in a later message.
    """
    size = 0
    try:
        reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(messages))
        while True:
            try:
                message = reader.read_next_message()
            except StopIteration:
                return size
            size += _message_bytes(memoryview(message.metadata), memoryview(message.body))
    except (pa.ArrowException, OSError, EOFError, struct.error) as error:
        raise RowsUnreadable(f"the rows cannot be read: {error}") from error


def is_native(schema: pa.Message) -> bool:
    """Return True if a valid schema message states the byte order of this machine."""
    description = memoryview(schema.metadata)
    header = _target(description, _field(description, _target(description, 0), 2))
    order_at = _field(description, header, 0)
    return (description[order_at] if order_at else 0) == (sys.byteorder == "big")


def _message_bytes(description: memoryview, body: memoryview) -> int:
    if _OLD_COMPRESSION in bytes(description):
        raise RowsUnreadable("they are compressed as no version of Arrow does since 1.0")
    message = _target(description, 0)
    kind_at, header_at = _field(description, message, 1), _field(description, message, 2)
    kind = description[kind_at] if kind_at else 0
    if kind not in {_DICTIONARY, _ROWS} or not header_at:
        return 0
    header = _target(description, header_at)
    if kind == _DICTIONARY:
        delta_at, rows_at = _field(description, header, 2), _field(description, header, 1)
        if delta_at and description[delta_at]:
            raise RowsUnreadable("a dictionary continues in a later message")
        if not rows_at:
            return 0
        header = _target(description, rows_at)
    arrays = [length for length, _ in _pairs(description, _field(description, header, 1))]
    buffers = _pairs(description, _field(description, header, 2))
    is_compressed = _field(description, header, 3) != 0
    sizes = [_decompressed(body, offset, length) if is_compressed else length for offset, length in buffers]
    if any(size < 0 for size in (*arrays, *sizes)):
        raise RowsUnreadable("they have arrays or buffers of less than nothing")
    return sum(arrays) + sum(sizes)


def _decompressed(body: memoryview, offset: int, length: int) -> int:
    if length <= 0:
        return length
    (stated,) = struct.unpack_from("<q", body, offset)
    return length if stated == -1 else int(stated)


def _target(description: memoryview, at: int) -> int:
    return at + int(struct.unpack_from("<I", description, at)[0])


def _field(description: memoryview, table: int, number: int) -> int:
    """Return the position of a field of a table; 0 if it has none."""
    places = table - int(struct.unpack_from("<i", description, table)[0])
    place = 4 + 2 * number
    if place >= struct.unpack_from("<H", description, places)[0]:
        return 0
    offset = struct.unpack_from("<H", description, places + place)[0]
    return table + int(offset) if offset else 0


def _pairs(description: memoryview, at: int) -> list[tuple[int, int]]:
    """Return the pairs of 64-bit numbers of a list; empty if it has none."""
    if not at:
        return []
    start = _target(description, at)
    (count,) = struct.unpack_from("<I", description, start)
    return list(struct.iter_unpack("<qq", description[start + 4 : start + 4 + 16 * count]))
