"""Head of a partition: its beginning, and totals of what was removed. Written with every removal."""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.partition.log import Head
from forebay.broker.core.writes import PutHead
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.sealed import Codec, opened, seal, unpack

_LAYOUT: Final = struct.Struct(">QQQQH")
_DROP: Final = struct.Struct(">BQ")


def _encode(head: Head) -> bytes:
    fixed = _LAYOUT.pack(head.earliest, head.removed_records, head.removed_bytes, head.removed_pages, len(head.dropped))
    return seal(fixed + b"".join(_DROP.pack(reason, records) for reason, records in head.dropped))


def _decode(value: bytes) -> Head:
    content = opened(value)
    earliest, records, size, pages, drops = unpack(_LAYOUT, content)
    dropped = [unpack(_DROP, content, _LAYOUT.size + index * _DROP.size) for index in range(drops)]
    return Head(earliest, records, size, pages, tuple((reason, count) for reason, count in dropped))


HEAD: Final = Kind(
    name="head",
    prefix=b"\x12",
    layout="sink u32, partition u32",
    codec=Codec(_encode, _decode),
    lives="the sink's life",
    damaged="recounted from the index and the gaps",
    surveyed=True,
    into=lambda sink: sink.heads,
    puts=PutHead,
)
