"""Records that say who sent them: a value proves by itself that it is whole and where it belongs.

A value is a head of source and number, and a body that follows from them. Sources are numbers of their own for every
writer; a source numbers its records from 1, in the order in which they are sent.
"""

from __future__ import annotations

import random
import struct
from typing import Final

_HEAD: Final = struct.Struct(">IQI")
_BLOCK: Final = random.Random(7).randbytes(256 << 10)
BODY_BYTES_MAX: Final = 128 << 10
NUMBER_BITS: Final = 40


def identity(source: int, number: int) -> int:
    """One integer for a record; never 0."""
    return source << NUMBER_BITS | number


def source_of(record: int) -> int:
    """The source of a record's identity."""
    return record >> NUMBER_BITS


def number_of(record: int) -> int:
    """The number of a record's identity."""
    return record & (1 << NUMBER_BITS) - 1


def value_of(record: int, body_bytes: int) -> bytes:
    """The value of a record."""
    number = number_of(record)
    start = number * 31 % (len(_BLOCK) - BODY_BYTES_MAX)
    return _HEAD.pack(source_of(record), number, body_bytes) + _BLOCK[start : start + body_bytes]


def identity_of(value: bytes) -> int | None:
    """The identity of the record that a value is, or ``None`` when it is no whole value."""
    if len(value) < _HEAD.size:
        return None
    source, number, body_bytes = _HEAD.unpack_from(value)
    record = identity(source, number)
    return record if body_bytes <= BODY_BYTES_MAX and value == value_of(record, body_bytes) else None
