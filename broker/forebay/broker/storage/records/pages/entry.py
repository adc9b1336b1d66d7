"""Index entry of a page: its offsets, where its bytes are, and the parts that publish calls brought.

Written with the page or after it, and deleted when the page is trimmed or dropped. A damaged entry is rebuilt from the
header of its page.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from forebay.broker.core.epochs.values import StagedPage
from forebay.broker.core.partition.log import Tail
from forebay.broker.core.partition.pages import TRACES_MAX, Entry, PagePart
from forebay.broker.core.writes import DropEntriesFrom, DropEntry, PutEntry, PutPlaced
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.sealed import LAYOUT, SEAL, Codec, opened, seal, text_of, unpack
from forebay.broker.storage.store.contract import Family, Operation, Put, PutAll

OPEN_END: Final = (1 << 64) - 1
"""Above every offset and page number."""
_BASE: Final = struct.Struct(">Q")
_LAYOUT: Final = struct.Struct(">QBBIQqqQQH")
_PART: Final = struct.Struct(">IqB")
_PLACED: Final = struct.Struct(f"{_LAYOUT.format}{_PART.format[1:]}")
"""Marks an entry of one part, whose trace follows."""


def base_of(key: bytes) -> int:
    """Return the base offset of a key: for loops over many entries."""
    base: int = _BASE.unpack_from(key, 8)[0]
    return base


def encode_entry(entry: Entry) -> bytes:
    """Return an entry as a stored value; its base offset is in the key only."""
    fixed = _LAYOUT.pack(
        entry.number,
        entry.bulk,
        entry.encoding,
        entry.count,
        entry.size,
        entry.accepted_at_us,
        entry.age_us,
        entry.bytes_before,
        entry.pages_before,
        len(entry.parts),
    )
    parts: list[bytes] = []
    for index, part in enumerate(entry.parts):
        trace = part.traceparent.encode() if index < TRACES_MAX else b""
        parts.append(_PART.pack(part.first - entry.base, part.accepted_at_us, len(trace)) + trace)
    return seal(fixed + b"".join(parts))


def decode_entry(value: bytes, base: int = 0) -> Entry:
    """Return a stored entry. Raises ``Undecodable``."""
    content = opened(value)
    number, bulk, encoding, count, size, accepted, age, bytes_before, pages_before, parts = unpack(_LAYOUT, content)
    at = _LAYOUT.size
    found: list[PagePart] = []
    for _ in range(parts):
        first, accepted_at, length = unpack(_PART, content, at)
        at += _PART.size
        found.append(PagePart(base + first, accepted_at, text_of(content[at : at + length])))
        at += length
    return Entry(
        base,
        count,
        number,
        bool(bulk),
        size,
        encoding,
        accepted,
        age,
        bytes_before,
        pages_before,
        tuple(found),
    )


def encode_placed(
    before: Tail, accepted_at_us: int, age_us: int, pages: Iterable[StagedPage]
) -> Iterator[tuple[int, bytes]]:
    """Yield base offsets and encoded entries of staged pages that are placed beyond an end.

    A commit may have a million of them: this takes a tenth of the time of one by one.
    """
    base, bytes_before, pages_before = before.next_offset, before.appended_bytes, before.appended_pages
    pack, sealed, crc32 = _PLACED.pack, SEAL.pack, zlib.crc32
    for page in pages:
        trace = page.traceparent.encode()
        content = pack(
            page.number,
            page.bulk,
            page.encoding,
            page.count,
            page.size,
            accepted_at_us,
            age_us,
            bytes_before,
            pages_before,
            1,
            0,
            accepted_at_us,
            len(trace),
        )
        if trace:
            content += trace
        yield base, sealed(crc32(content), LAYOUT) + content
        base += page.count
        bytes_before += page.size
        pages_before += 1


def _put(write: PutEntry) -> list[Operation]:
    entry = write.entry
    return [Put(Family.INDEX, ENTRY.key(write.sink, write.partition, entry.base), encode_entry(entry))]


def _put_placed(write: PutPlaced) -> list[Operation]:
    begin = ENTRY.key(write.sink, write.partition)
    keys: list[bytes] = []
    entries: list[bytes] = []
    for base, value in encode_placed(write.before, write.accepted_at_us, write.age_us, write.pages):
        keys.append(begin + _BASE.pack(base))
        entries.append(value)
    return [PutAll(Family.INDEX, keys, entries)]


def _drop_from(write: DropEntriesFrom) -> list[Operation]:
    return [ENTRY.delete_range(ENTRY.between(write.sink, write.partition, first=write.first, end=OPEN_END))]


ENTRY: Final = Kind(
    name="entry",
    family=Family.INDEX,
    layout="sink u32, partition u32, base u64",
    codec=Codec(encode_entry, decode_entry),
    lives="until its page is trimmed or dropped",
    damaged="rebuilt from the header of its page",
    writes={PutEntry: _put, PutPlaced: _put_placed, DropEntriesFrom: _drop_from},
    drops=DropEntry,
)
