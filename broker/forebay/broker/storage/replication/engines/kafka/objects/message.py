"""Messages of a topic that holds objects: a header as the key of a record, bytes as its value.

    magic 4 bytes "FBK1"
    kind 1 byte      CREATE, PUT, DELETE, CARRY or ABANDON
    writer 8 bytes   random identity of the process that writes
    number 8 bytes   number of the change, by its writer
    part 4 bytes     number of the message within the change, from 0
    parts 4 bytes    messages of the change; 0 in a message that is not the last part
    base 8 bytes     of CARRY: first offset that is kept once everything before it has been carried; of ABANDON: writer
    origin 8 bytes   of CARRY: offset at which the object came to be; of ABANDON: number of that writer's change
    name             of the object as UTF-8; empty for DELETE, whose value has names, a line each, and for ABANDON

Numbers are big-endian. A change of several messages takes effect with the last of them in the partition, whichever part
that is. Records of others, without the magic, have no effect.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

MAGIC: Final = b"FBK1"
_FIELDS: Final = struct.Struct(">4sBQQIIQQ")
HEADER_BYTES_MAX: Final = _FIELDS.size + 1_024
"""Largest header: of an object with the longest name."""


class MessageUnknown(ValueError):
    """A message of a later version, or a damaged one."""


class MessageKind(IntEnum):
    """Kind of a message."""

    CREATE = 1
    """Adds an object, unless its name has one."""

    PUT = 2
    """Adds an object, or replaces that of its name."""

    DELETE = 3
    """Removes objects."""

    CARRY = 4
    """Repeats an object, so that its first messages can be deleted."""

    ABANDON = 5
    """Ends a change that is not complete: its parts so far have no effect."""


@dataclass(frozen=True, slots=True)
class Header:
    """Fields of a message but its bytes."""

    kind: MessageKind
    writer: int
    number: int
    name: str = ""
    part: int = 0
    parts: int = 1
    """Messages of the change in its last part, 0 in the others: a writer may not know the number before."""

    base: int = 0
    origin: int = 0


def encode(header: Header) -> bytes:
    """Return a header as a key."""
    fields = (header.kind, header.writer, header.number, header.part, header.parts, header.base, header.origin)
    return _FIELDS.pack(MAGIC, *fields) + header.name.encode()


def decode(key: bytes | None) -> Header | None:
    """Return the header in a key, None for a record of another program.

    Raises ``MessageUnknown``.
    """
    if key is None or not key.startswith(MAGIC):
        return None
    if len(key) < _FIELDS.size:
        raise MessageUnknown(f"its header has {len(key)} bytes, {_FIELDS.size} are needed")
    _, kind, writer, number, part, parts, base, origin = _FIELDS.unpack_from(key)
    if kind not in set(MessageKind) or parts not in {0, part + 1}:
        raise MessageUnknown(f"its kind is {kind}, and it is part {part} of {parts}")
    try:
        name = key[_FIELDS.size :].decode()
    except UnicodeDecodeError as error:
        raise MessageUnknown(f"its name is no UTF-8: {error}") from error
    return Header(MessageKind(kind), writer, number, name, part, parts, base, origin)
