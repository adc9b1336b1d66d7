"""Header of a stored page: identifies the page without its key.

    magic "FBPG", layout u8, encoding u8, CRC-32 of the body u32, store id 16 bytes, sink u32, partition u32,
    page number u64, base offset u64, records u32, CRC-32 of all this u32; then the body.

Layout 1 is that of an appended page. A staged page has layout 2, and the number of its stage in place of the offset,
which it gets at the commit. The index can be rebuilt from headers, and a page under a wrong key is detected.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final

from forebay.broker.core.partition.pages import Body
from forebay.broker.storage.records.sealed import Undecodable
from forebay.page.crc32 import crc32
from forebay.state.numbers import plural

_LAYOUT: Final = struct.Struct(">4sBBI16sIIQQI")
_CRC: Final = struct.Struct(">I")
_MAGIC: Final = b"FBPG"
_APPENDED: Final = 1
_STAGED: Final = 2
HEADER_BYTES: Final = _LAYOUT.size + _CRC.size


class Damaged(Undecodable):
    """The bytes are not the expected page."""


@dataclass(frozen=True, slots=True)
class Header:
    """Header of a stored page."""

    store: bytes
    """The store's id, 16 bytes."""

    sink: int
    partition: int
    number: int
    base: int
    count: int
    encoding: int
    crc32: int
    """Of the body."""

    stage: int = 0
    """Number of the stage of a staged page, whose base offset is not in the header."""

    def encode(self) -> bytes:
        fixed = _LAYOUT.pack(
            _MAGIC,
            _STAGED if self.stage else _APPENDED,
            self.encoding,
            self.crc32,
            self.store,
            self.sink,
            self.partition,
            self.number,
            self.stage or self.base,
            self.count,
        )
        return fixed + _CRC.pack(zlib.crc32(fixed))


def decode_header(value: bytes) -> Header:
    """Return the header of a stored page; raises ``Damaged``."""
    if len(value) < HEADER_BYTES:
        raise Damaged(f"{len(value)} {plural(len(value), 'byte is', 'bytes are')} too few for a page")
    fixed = value[: _LAYOUT.size]
    magic, version, encoding, crc32, store, sink, partition, number, base, count = _LAYOUT.unpack(fixed)
    known = magic == _MAGIC and version in {_APPENDED, _STAGED}
    if not known or zlib.crc32(fixed) != _CRC.unpack_from(value, _LAYOUT.size)[0]:
        raise Damaged("the checksum of the header does not match")
    stage, base = (base, 0) if version == _STAGED else (0, base)
    return Header(store, sink, partition, number, base, count, encoding, crc32, stage)


def damage_of(value: bytes, sink: int, partition: int, number: int) -> str:
    """Return the damage of a stored page by itself and its place, empty if there is none."""
    try:
        header = decode_header(value)
    except Damaged as damage:
        return str(damage)
    if (header.sink, header.partition, header.number) != (sink, partition, number):
        return "the page belongs to another place"
    return "" if crc32(memoryview(value)[HEADER_BYTES:]) == header.crc32 else "the checksum of the body does not match"


def body_of(value: bytes, expected: Header) -> Body:
    """Return the body of a stored page, checked against its place and CRC; raises ``Damaged``."""
    found = decode_header(value)
    if (found.store, found.sink, found.partition, found.number, found.count) != (
        expected.store,
        expected.sink,
        expected.partition,
        expected.number,
        expected.count,
    ) or (found.base != expected.base and not found.stage):
        raise Damaged("the page belongs to another place")
    body = memoryview(value)[HEADER_BYTES:]
    if crc32(body) != found.crc32:
        raise Damaged("the checksum of the body does not match")
    return Body(found.crc32, body)
