"""Records of a journal: what an engine stores at one position.

    magic 4 bytes "FBJ1"
    kind 1 byte      CHUNK, FENCE, RELEASE, VOID, IMPORT or EXPORT
    epoch 8 bytes    owner epoch of the writer
    owner 16 bytes   random identity of the writer
    group 8 bytes    number of the group within the epoch, from 0
    chunk 4 bytes    number of the chunk within the group
    chunks 4 bytes   chunks of the group
    CRC-32 4 bytes   of the fields above and the body
    body             part of a batch frame; of a fence, the endpoint of its owner as UTF-8; of a release, the broker
                     that takes over at once: empty for any one, `*` for any other one, or its endpoint; of an
                     import, the identity of its store; of an export, the place of its directory: empty for a shard
                     that was removed from its fleet

Numbers are big-endian. A group of records is one batch frame, cut into chunks.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from forebay.broker.storage.replication.pieces import Piece, Pieces
from forebay.page.crc32 import crc32
from forebay.state.numbers import plural

MAGIC: Final = b"FBJ1"
_FIELDS: Final = struct.Struct(">4sBQ16sQII")
_CRC: Final = struct.Struct(">I")
HEADER_BYTES: Final = _FIELDS.size + _CRC.size


class RecordDamaged(ValueError):
    """Bytes that are no record."""


class RecordKind(IntEnum):
    """Kind of a record."""

    CHUNK = 1
    FENCE = 2
    """Beginning of an owner epoch: records of lower ones after it do not count."""

    RELEASE = 3
    """Orderly end of an owner: its successor need not wait for its silence."""

    VOID = 4
    """Placeholder of a trimmed record that did not count, so that no former owner can create it again."""

    IMPORT = 5
    """Record 0 of a journal whose first checkpoint is an imported store.

    Without that checkpoint no broker owns it.
    """

    EXPORT = 6
    """End of the journal: its store was exported or its shard removed, and no broker takes over after it."""


ANY_OTHER: Final = "*"
"""Successor of an owner that hands over to any broker but itself."""


@dataclass(frozen=True, slots=True)
class Header:
    """Fields of a record but its body."""

    kind: RecordKind
    epoch: int
    owner: bytes
    group: int = 0
    chunk: int = 0
    chunks: int = 1


def encode(header: Header, body: Sequence[Piece] = ()) -> list[Piece]:
    """Return a record in pieces."""
    return encode_pieces(header, Pieces.of(body))


def encode_pieces(header: Header, body: Pieces) -> list[Piece]:
    """Return a record in pieces; the body is neither copied nor read."""
    fields = _FIELDS.pack(MAGIC, header.kind, header.epoch, header.owner, header.group, header.chunk, header.chunks)
    return [fields + _CRC.pack(body.crc32(crc32(fields))), *body.data]


def decode_header(record: bytes) -> Header:
    """Return the header of a record, whose body may be missing.

    Nothing is checked against the checksum. Raises ``RecordDamaged``.
    """
    if len(record) < HEADER_BYTES:
        raise RecordDamaged(f"it has {len(record)} {plural(len(record), 'byte')}, its header needs {HEADER_BYTES}")
    magic, kind, epoch, owner, group, chunk, chunks = _FIELDS.unpack_from(record)
    if magic != MAGIC:
        raise RecordDamaged(f"it begins with {magic!r} instead of {MAGIC!r}")
    if kind not in set(RecordKind) or chunk >= chunks:
        raise RecordDamaged(f"its kind is {kind}, and it is chunk {chunk} of {chunks}")
    return Header(RecordKind(kind), epoch, owner, group, chunk, chunks)


def decode(record: bytes) -> tuple[Header, Pieces]:
    """Return the header and the body of a record. Raises ``RecordDamaged``."""
    header = decode_header(record)
    body = Pieces.of([memoryview(record)[HEADER_BYTES:]])
    if body.crc32(crc32(record[: _FIELDS.size])) != _CRC.unpack_from(record, _FIELDS.size)[0]:
        raise RecordDamaged("its checksum is wrong")
    return header, body
